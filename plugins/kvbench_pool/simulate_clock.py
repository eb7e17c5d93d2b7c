"""The options of ``kvbench simulate`` that say how long a step lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kvbench_pool.options import COMPUTE_DTYPES, STEP_TIMES
from kvbench_pool.simulate_checks import Finite, stated

if TYPE_CHECKING:
    from kvbench.model.spec import ModelSpec
    from kvbench_pool.step_time import StepTime
    from kvbench_pool.step_time.timing import Timing

_SHARE = Finite(min=0, max=1, min_open=True)
_SECONDS = Finite(min=0)

#: Options of each step-time model.
_OWN = {
    "logical": ("step_ms",),
    "roofline": (
        "gpu",
        "compute_dtype",
        "compute_efficiency",
        "bandwidth_efficiency",
        "step_overhead_ms",
    ),
    "measured": ("step_base_s", "prefill_token_s", "decode_request_s", "context_token_s"),
}

_OPTIONS = (
    click.option(
        "--step-time",
        type=click.Choice(STEP_TIMES),
        default="logical",
        show_default=True,
        help="How long a step lasts; roofline and measured give simulated seconds.",
    ),
    click.option(
        "--step-ms",
        type=Finite(min=0, min_open=True),
        default=50.0,
        show_default=True,
        help="Milliseconds of a logical step.",
    ),
    click.option("--gpu", help="Device of one rank: catalog name, or FILE.toml#NAME (roofline)."),
    click.option(
        "--compute-dtype",
        type=click.Choice(COMPUTE_DTYPES),
        default="bf16",
        show_default=True,
        help="Element type of products with the weights.",
    ),
    click.option(
        "--compute-efficiency",
        type=_SHARE,
        default=0.6,
        show_default=True,
        help="Share of the GPU's peak FLOP/s that is reached.",
    ),
    click.option(
        "--bandwidth-efficiency",
        type=_SHARE,
        default=0.8,
        show_default=True,
        help="Share of its peak bandwidth that is reached.",
    ),
    click.option(
        "--step-overhead-ms",
        type=_SECONDS,
        default=2.0,
        show_default=True,
        help="Milliseconds of a step beside both.",
    ),
    click.option("--step-base-s", type=_SECONDS, help="Seconds of any step (measured)."),
    click.option("--prefill-token-s", type=_SECONDS, help="Seconds per prefill token."),
    click.option("--decode-request-s", type=_SECONDS, help="Seconds per decoding request."),
    click.option("--context-token-s", type=_SECONDS, help="Seconds per cached token read."),
)


def step_time_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def check_step_time(options: Mapping[str, Any]) -> None:
    """Refuse options of a step-time model that is not asked for, or that are missing.

    Raises:
        click.UsageError: One of them.
    """
    asked = options["step_time"]
    for model, names in _OWN.items():
        for flag in stated(names) if model != asked else ():
            raise click.UsageError(f"{flag} belongs to --step-time {model}, not {asked}")
    for name in ("model", "gpu") if asked == "roofline" else ():
        if not options[name]:
            raise click.UsageError(f"--step-time roofline needs --{name}")


def step_time(options: Mapping[str, Any], model: ModelSpec | None) -> StepTime:
    """Build the step-time model that the options ask for.

    Raises:
        KvbenchError: An unknown device, or a model or device that lacks a figure.
    """
    from kvbench_pool.simulate_source import find_device
    from kvbench_pool.step_time.choose import choose_step_time

    device = find_device(options["gpu"]) if options["gpu"] else None
    return choose_step_time(options, model, device)


def seconds_of(timing: Timing | None) -> dict[str, float]:
    """Return what a summary says of a modelled clock, nothing where steps are only counted."""
    return {} if timing is None else {"mean_queue_s": timing.mean_queue_s, **timing.figures()}
