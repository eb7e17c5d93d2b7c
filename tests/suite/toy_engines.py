"""Engines for tests of suites and plans: one that computes, one that measures, two unusable."""

from __future__ import annotations

from kvbench import hookimpl
from kvbench.engine import (
    Availability,
    CellOutput,
    EngineInfo,
    Evidence,
    Metric,
    Option,
    Scope,
    Stage,
)
from kvbench.metrics import shared
from kvbench.plugins import BrokenPlugin, Plugins, load_module

MODEL = Option(name="model", type="model", help="Model.", required=True)
TOKENS = Option(
    name="context_tokens",
    type="int",
    help="Tokens of a request.",
    default=4096,
    minimum=1,
    monotonic=True,
)
BLOCK_SIZE = Option(name="block_size", type="int", help="Tokens per block.", default=16, minimum=1)

CALC_OPTIONS = (
    MODEL,
    Option(name="device", type="device", help="Device."),
    TOKENS,
    Option(
        name="requests",
        type="int",
        help="Requests at once.",
        default=1,
        minimum=1,
        monotonic=True,
    ),
    BLOCK_SIZE,
    Option(name="share", type="float", help="Share of the memory.", default=0.9, minimum=0.1),
    Option(name="kv_dtype", type="str", help="Type.", default="auto", choices=("auto", "fp8_e4m3")),
    Option(name="reuse", type="bool", help="Share prefixes.", default=False),
    Option(name="workload", type="workload", help="Requests.", stages=(Stage.ALLOCATE,)),
    Option(name="pool_bytes", type="int", help="Bytes of the pool.", minimum=1),
)
METER_OPTIONS = (
    Option(name="model", type="model", help="Model.", required=True, scope=Scope.ENGINE),
    Option(name="context_tokens", type="int", help="Tokens.", default=128, monotonic=True),
    Option(name="block_size", type="int", help="Block.", default=16, scope=Scope.ENGINE),
    Option(name="eager", type="bool", help="No graphs.", scope=Scope.ENGINE),
)


class Calc:
    """Deterministic, computes sizes and replays workloads."""

    @hookimpl
    def kvbench_engine(self) -> EngineInfo:
        return EngineInfo(
            name="calc",
            version="1.0",
            distribution="toy-calc",
            summary="Computes.",
            evidence=frozenset({Evidence.ANALYTIC}),
            stages=frozenset({Stage.SIZE, Stage.ALLOCATE}),
            options=CALC_OPTIONS,
            probe=lambda: Availability(available=True),
            deterministic=True,
        )

    @hookimpl
    def kvbench_metrics(self) -> list[Metric]:
        return [
            shared(name, Evidence.ANALYTIC, exact=True) for name in ("logical_bytes", "paged_bytes")
        ]

    @hookimpl
    def kvbench_size(self) -> CellOutput:
        return CellOutput(observations=())

    @hookimpl
    def kvbench_allocate(self) -> CellOutput:
        return CellOutput(observations=())


class Meter:
    """Measures; every other option makes another live engine."""

    def __init__(self, name: str = "meter", answer: Availability | None = None) -> None:
        self.name = name
        self.answer = answer or Availability(available=True)

    @hookimpl
    def kvbench_engine(self) -> EngineInfo:
        return EngineInfo(
            name=self.name,
            version="2.0",
            distribution="toy-meter",
            summary="Measures.",
            evidence=frozenset({Evidence.DEVICE}),
            stages=frozenset({Stage.SIZE, Stage.MEASURE}),
            options=METER_OPTIONS,
            probe=lambda: self.answer,
            exclusive=True,
        )

    @hookimpl
    def kvbench_metrics(self) -> list[Metric]:
        return [shared("device_used_bytes", Evidence.DEVICE)]

    @hookimpl
    def kvbench_size(self) -> CellOutput:
        return CellOutput(observations=())

    @hookimpl
    def kvbench_measure(self) -> CellOutput:
        return CellOutput(observations=())


def toy_plugins() -> Plugins:
    """``calc`` and ``meter`` run, ``absent`` is not available, ``wrecked`` is broken."""
    absent = Availability(available=False, reason="no device", remedy="plug one in")
    modules = (Calc(), Meter(), Meter("absent", absent))
    plugins = [load_module(module, "toy", "toy 1") for module in modules]
    broken = BrokenPlugin(name="wrecked", distribution="toy 1", error="boom", remedy="mend it")
    return Plugins(loaded={plugin.name: plugin for plugin in plugins}, broken=(broken,))
