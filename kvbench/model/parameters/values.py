"""The values of one config, under the many names that families give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from kvbench.errors import ModelError

#: No dimension, count or vocabulary is larger.
_LARGEST = 1 << 28
_MOST_LAYERS = 2048

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Values:
    """Typed, bounded look-ups in one config.

    Attributes:
        family: ``model_type`` of the language model.
    """

    def __init__(
        self, values: Mapping[str, Any], family: str, defaults: Mapping[str, Any] = _NOTHING
    ) -> None:
        self._values = values
        self._defaults = defaults
        self.family = family

    def get(self, *names: str, default: Any = None) -> Any:
        """First value of ``names`` that is not null.

        When none of the names is stated at all, the default of the family's config class.
        """
        is_stated = any(name in self._values for name in names)
        holder = self._values if is_stated else self._defaults
        found = (holder[name] for name in names if holder.get(name) is not None)
        return next(found, default)

    def number(self, *names: str, default: int | None = None) -> int:
        """A whole number from 0 up.

        Raises:
            ModelError: Missing without a default, not an integer, or absurd.
        """
        value = self.get(*names, default=default)
        if value is None:
            raise ModelError(f"the config has no {names[0]}")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise ModelError(f"{names[0]} must be an integer from 0 to {_LARGEST}, got {value!r}")
        return value

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value."""
        return bool(self.get(*names, default=default))

    def sequence(self, *names: str) -> list[Any]:
        """A list, empty when missing or something else."""
        value = self.get(*names, default=[])
        return value if isinstance(value, list) else []

    def table(self, name: str) -> Values:
        """A nested object, empty when missing."""
        value = self._values.get(name)
        return Values(value if isinstance(value, Mapping) else {}, self.family)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.number("hidden_size", "n_embd", "d_model", "model_dim")

    @property
    def layers(self) -> int:
        """Decoder layers.

        Raises:
            ModelError: More than any model has.
        """
        count = self.number("num_hidden_layers", "n_layer", "num_layers", "n_layers")
        if count > _MOST_LAYERS:
            raise ModelError(f"num_hidden_layers must be at most {_MOST_LAYERS}, got {count}")
        return count

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return self.number("padded_vocab_size", "vocab_size")

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.number("num_attention_heads", "n_head", "n_heads", "num_heads")

    @property
    def kv_heads(self) -> int:
        """KV heads, before tensor parallelism."""
        if self.family == "falcon" and not self.flag("new_decoder_architecture"):
            return 1 if self.flag("multi_query", default=True) else self.heads
        if self.family == "chatglm":
            grouped = self.flag("multi_query_attention")
            return self.number("multi_query_group_num") if grouped else self.heads
        names = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
        return self.number(*names, default=self.heads)

    @property
    def head_dim(self) -> int:
        """Elements of one query head."""
        names = ("head_dim", "kv_channels", "attention_head_dim")
        return self.number(*names, default=self.hidden // max(1, self.heads))

    @property
    def inner(self) -> int:
        """Width of a dense feed-forward layer."""
        names = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
        return self.number(*names, default=4 * self.hidden)


def class_defaults(family: str) -> Mapping[str, Any]:
    """Defaults of a family's published config class, for what counting needs.

    Those that the cache's geometry rests on too come from the one place that has them.
    """
    from kvbench.model.hf.read import family_defaults

    return {**_defaults().get(family, {}), **family_defaults(family)}


@cache
def _defaults() -> Mapping[str, Mapping[str, Any]]:
    text = resources.files(__package__).joinpath("defaults.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)["families"]
    return found
