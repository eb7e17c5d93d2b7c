"""The step-time model that settings name: of a suite's cell, or of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from kvbench.device.spec import DeviceSpec
from kvbench.errors import KvbenchError
from kvbench.model.spec import ModelSpec
from kvbench_pool.step_time.derive import RooflineOptions, roofline
from kvbench_pool.step_time.models import LogicalSteps, MeasuredConstants, StepTime

Settings = Mapping[str, object]
Builder = Callable[[Settings, ModelSpec | None, DeviceSpec | None], StepTime]


def choose_step_time(
    settings: Settings, model: ModelSpec | None = None, device: DeviceSpec | None = None
) -> StepTime:
    """Build the model that ``settings["step_time"]`` names.

    Args:
        settings: Options by name; those of other models are ignored, missing ones have the
            defaults of the model.
        model: The model that is served.
        device: The device of one rank.

    Raises:
        KvbenchError: A value out of range, or a model or device that is missing or lacks a
            figure.
    """
    return BUILDERS[str(settings.get("step_time", "logical"))](settings, model, device)


def _stated(settings: Settings, kind: type[RooflineOptions] | type[MeasuredConstants]) -> Settings:
    names = [field.name for field in fields(kind)]
    return {name: settings[name] for name in names if settings.get(name) is not None}


def _logical(settings: Settings, _: ModelSpec | None, __: DeviceSpec | None) -> StepTime:
    return LogicalSteps(step_ms=float(str(settings["step_ms"])))


def _measured(settings: Settings, _: ModelSpec | None, __: DeviceSpec | None) -> StepTime:
    return MeasuredConstants(**_stated(settings, MeasuredConstants))  # type: ignore[arg-type]


def _roofline(settings: Settings, model: ModelSpec | None, device: DeviceSpec | None) -> StepTime:
    if model is None:
        raise KvbenchError("step time 'roofline' needs a model, whose weights a step reads")
    if device is None:
        raise KvbenchError("step time 'roofline' needs a device (see kvbench gpus)")
    options = RooflineOptions(**_stated(settings, RooflineOptions))  # type: ignore[arg-type]
    return roofline(model, device, options)


#: Step-time models by name.
BUILDERS: dict[str, Builder] = {
    "logical": _logical,
    "roofline": _roofline,
    "measured": _measured,
}
