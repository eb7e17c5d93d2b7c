"""The fit rule: leave a cell out when its cache cannot fit, by an exact lower bound only.

A *fit* by estimate (activations, graphs, fragmentation) would leave out cells that run. The
logical bytes of what must be resident at once are exact, and no engine needs less.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvbench.device.spec import DeviceSpec
from kvbench.engine import Scalar
from kvbench.errors import ModelError
from kvbench.model.sizing import logical_bytes
from kvbench.model.spec import ModelSpec
from kvbench.quantity import format_bytes

#: Options that say how long each resident request is, and how many there are. An engine whose
#: options have other names is never left out by this rule.
TOKENS_OPTIONS = ("context_tokens", "tokens")
REQUESTS_OPTIONS = ("requests", "batch")

#: Stable reason code of cells that the rule leaves out.
REASON = "kv_exceeds_device"


class FitRule:
    """Answers for many cells; remembers the bytes of lengths it has sized."""

    def __init__(self) -> None:
        self._sized: dict[tuple[object, ...], int | None] = {}

    def excess(
        self,
        model: ModelSpec | None,
        device: DeviceSpec | None,
        settings: Mapping[str, Scalar],
    ) -> str:
        """Say why the cache cannot fit; empty when it may.

        The bound is ``requests * logical_bytes(context)`` on the fullest rank.
        """
        tokens = _first_int(settings, TOKENS_OPTIONS)
        if model is None or device is None or tokens is None:
            return ""
        requests = _first_int(settings, REQUESTS_OPTIONS) or 1
        one = self._bytes(model, tokens, settings)
        # Drivers differ in what they leave to a process: only the most that was seen excludes.
        memory = device.memory_interval[2]
        if one is None or one * requests <= memory:
            return ""
        return (
            f"{requests} x {tokens} tokens of {model.name} hold at least "
            f"{format_bytes(one * requests)} of cache on a rank, {device.name} has "
            f"{format_bytes(memory)}"
        )

    def _bytes(self, model: ModelSpec, tokens: int, settings: Mapping[str, Scalar]) -> int | None:
        kv_dtype = str(settings.get("kv_dtype", "auto"))
        tp, pp = settings.get("tp", 1), settings.get("pp", 1)
        key = (id(model), tokens, kv_dtype, tp, pp)
        if key not in self._sized:
            try:
                size = logical_bytes(model, tokens, kv_dtype=kv_dtype, tp=int(tp), pp=int(pp))
            except ModelError:
                # The engine itself will say what it thinks of these settings.
                self._sized[key] = None
            else:
                self._sized[key] = size
        return self._sized[key]


def _first_int(settings: Mapping[str, Scalar], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = settings.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
