"""Options of ``kvbench simulate`` that contradict each other, or that nothing would read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.core import ParameterSource

#: Policies that reserve a request's memory beforehand.
PREALLOCATING = ("contiguous", "buddy", "static")

_VLLM = (
    "digest",
    "watermark",
    "no_prefix_caching",
    "no_reserve_full_prompt",
    "async_scheduling",
    "max_concurrent_batches",
    "num_lookahead_tokens",
    "sliding_window",
    "hybrid_window",
    "prefix_cache_retention_interval",
)

_MODEL = ("layout", "kv_dtype", "tp")


class Finite(click.FloatRange):
    """A float within a range that is neither infinite nor NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


def stated(names: Iterable[str]) -> list[str]:
    """Return those of the running command's options that were given, as they are typed."""
    context = click.get_current_context()
    given = (
        name
        for name in names
        if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
    )
    return [f"--{name.replace('_', '-')}" for name in given]


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that exclude each other, are missing, or would be ignored.

    Raises:
        click.UsageError: The first of them.
    """
    for problem in (*_pool_problems(options), *_policy_problems(options["policy"])):
        raise click.UsageError(problem)


def _pool_problems(options: Mapping[str, Any]) -> Iterable[str]:
    windows = stated(("sliding_window", "hybrid_window"))
    if len(windows) > 1:
        yield f"{' and '.join(windows)} exclude each other"
    if options["blocks"] and options["budget"]:
        yield "--blocks and --budget exclude each other"
    if not options["blocks"] and not (options["budget"] and options["model"]):
        yield "give the pool as --blocks N, or as --budget BYTES with --model"
    if options["model"]:
        yield from (f"{flag} and --model both state cache groups; give one" for flag in windows)
    else:
        yield from (f"{flag} needs --model" for flag in stated(_MODEL))


def _policy_problems(policy: str) -> Iterable[str]:
    if policy != "vllm":
        for flag in stated(_VLLM):
            yield f"{flag} belongs to the vllm policy, not {policy}"
    if policy not in PREALLOCATING:
        for flag in stated(("max_model_len",)):
            yield f"{flag} belongs to the policies {', '.join(PREALLOCATING)}, not {policy}"
