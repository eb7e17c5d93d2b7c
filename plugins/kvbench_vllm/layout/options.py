"""vLLM's own option names that change the arrangement, with the API server's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions
from kvbench.names import did_you_mean

MAX_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of the engine that the arrangement depends on.

    Attributes:
        max_num_batched_tokens: Tokens one step may schedule.
        async_scheduling: A second step is scheduled while the first runs.
        max_model_len: Longest request, ``None`` for the model's own limit.
        enable_prefix_caching: ``None`` for the engine's choice by model.
        num_gpu_blocks_override: Blocks whatever the budget says.
        mamba_ssm_cache_dtype: Element type of the recurrent state, ``auto`` for the model's.
        disable_hybrid_kv_cache_manager: Windowed layers are kept in full beside full ones.
        dtype: Element type of the model, ``auto`` for its own.
    """

    max_num_batched_tokens: int = 8192
    async_scheduling: bool = True
    max_model_len: int | None = None
    enable_prefix_caching: bool | None = None
    num_gpu_blocks_override: int | None = None
    mamba_ssm_cache_dtype: str = "auto"
    disable_hybrid_kv_cache_manager: bool = False
    dtype: str = "auto"

    def tokens_in_flight(self, pp: int) -> int:
        """Tokens scheduled but not settled: a full batch for every step under way."""
        steps = pp + 1 if self.async_scheduling else pp
        return steps * self.max_num_batched_tokens


_INTEGERS = ("max_num_batched_tokens", "max_model_len", "num_gpu_blocks_override")
_FLAGS = ("async_scheduling", "enable_prefix_caching", "disable_hybrid_kv_cache_manager")
_STRINGS = ("mamba_ssm_cache_dtype", "dtype")

#: Every option name with its kind, for the command line.
OPTION_KINDS: dict[str, type] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(_FLAGS, bool),
    **dict.fromkeys(_STRINGS, str),
}


def engine_options(options: LayoutOptions) -> EngineOptions:
    """Read and check the engine options of ``options``.

    Raises:
        ModelError: An unknown name or a value of the wrong kind, by name.
    """
    return EngineOptions(**_checked(options.engine))


def _checked(given: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in OPTION_KINDS:
            raise ModelError(
                f"vLLM has no layout option {name!r}{did_you_mean(name, OPTION_KINDS)}"
            )
        if value is not None:
            values[name] = _value(name, value)
    return values


def _value(name: str, value: object) -> object:
    kind = OPTION_KINDS[name]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind is int and is_number and isinstance(value, int):
        if not 1 <= value <= MAX_TOKENS:
            raise ModelError(f"{name} must be between 1 and {MAX_TOKENS}, got {value}")
        return value
    if kind is not int and isinstance(value, kind):
        return value
    raise ModelError(f"{name} must be {_WORDS[kind]}, got {value!r}")


_WORDS: dict[type, str] = {int: "an integer", bool: "true or false", str: "a string"}
