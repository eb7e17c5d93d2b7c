"""Reading one config: typed, bounded look-ups that remember what was read and what was assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kvbench.errors import ModelError
from kvbench.model import check


class Fields:
    """The fields of one config, with the defaults of its family's published config class.

    Attributes:
        model_type: Family, as the config names it.
        used: Names that an adapter asked for, found or not.
        defaulted: Names whose value came from the family's defaults.
    """

    def __init__(
        self, values: Mapping[str, Any], *, model_type: str, defaults: Mapping[str, Any]
    ) -> None:
        self.values = values
        self.model_type = model_type
        self.used: set[str] = set()
        self.defaulted: dict[str, Any] = {}
        self._defaults = defaults

    def get(self, *names: str) -> Any:
        """Value of the first of ``names`` that the config states, else the family's default.

        A name that is present but null counts as stated only when no other name has a value.
        """
        self.used.update(names)
        stated = [self.values[name] for name in names if name in self.values]
        if stated:
            return next((value for value in stated if value is not None), None)
        return self._default(names)

    def states(self, *names: str) -> bool:
        """Whether the config itself gives one of ``names`` a value."""
        self.used.update(names)
        return any(self.values.get(name) is not None for name in names)

    def integer(self, *names: str, minimum: int = 1, maximum: int = check.MAX_DIM) -> int:
        """An integer that must be there.

        Raises:
            ModelError: Missing, not an integer, or out of bounds; the message names the field.
        """
        value = self.get(*names)
        if value is None:
            self.fail(f"the config has no {names[0]}")
        return check.integer(value, names[0], minimum=minimum, maximum=maximum)

    def optional(self, *names: str, minimum: int = 1, maximum: int = check.MAX_DIM) -> int | None:
        """An integer or ``None``; bounds as for ``integer``."""
        value = self.get(*names)
        if value is None:
            return None
        return check.integer(value, names[0], minimum=minimum, maximum=maximum)

    def layer_count(self, *names: str) -> int:
        """The number of layers, by the usual names unless ``names`` are given."""
        usual = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
        return self.integer(*(names or usual), maximum=check.MAX_LAYERS)

    def window(self, *names: str) -> int | None:
        """A window in tokens, ``None`` when the config has none."""
        return self.optional(*(names or ("sliding_window",)), maximum=check.MAX_TOKENS)

    def flag(self, *names: str) -> bool:
        """A boolean, false when missing.

        Raises:
            ModelError: Stated as something else.
        """
        value = self.get(*names)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.fail(f"{names[0]} must be true or false, got {value!r}"[:120])
        return value

    def sequence(self, name: str, length: int | None = None) -> Sequence[Any] | None:
        """A list or ``None``.

        Raises:
            ModelError: Not a list, too long, or not ``length`` long.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            self.fail(f"{name} must be a list, got {type(value).__name__}")
        if len(value) > check.MAX_LAYERS or (length is not None and len(value) != length):
            self.fail(f"{name} has {len(value)} entries for {length} layers")
        return value

    def names_of(self, name: str, length: int | None = None) -> tuple[str, ...] | None:
        """A list of strings or ``None``."""
        value = self.sequence(name, length)
        if value is None:
            return None
        return tuple(check.text(item, f"{name}[{index}]") for index, item in enumerate(value))

    def indices(self, name: str, count: int) -> tuple[int, ...] | None:
        """A list of layer indices below ``count`` or ``None``."""
        value = self.sequence(name)
        if value is None:
            return None
        return tuple(
            check.integer(item, f"{name}[{index}]", minimum=0, maximum=count - 1)
            for index, item in enumerate(value)
        )

    def nested(self, name: str) -> Fields | None:
        """The sub-config ``name`` or ``None``; it shares no defaults."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.fail(f"{name} must be an object, got {type(value).__name__}")
        return Fields(value, model_type=self.model_type, defaults={})

    def fail(self, message: str) -> NoReturn:
        """Refuse the config.

        Raises:
            ModelError: Always.
        """
        raise ModelError(message)

    def _default(self, names: Sequence[str]) -> Any:
        for name in names:
            value = self._defaults.get(name)
            if value is not None:
                self.defaulted[name] = value
                return value
        return None
