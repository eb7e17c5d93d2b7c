"""A deterministic engine for tests: does what its ``behaviour`` option says.

It is a plugin module like any other, so that a worker process can import it::

    plugins = fake_plugins()

Options: ``behaviour`` (what to do), ``value`` (what ``fake_bytes`` is), ``batch`` (a monotonic
axis), ``release`` (a file that ``wait`` and ``flaky`` watch), ``mode`` (engine scope).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvbench import hookimpl
from kvbench.engine import (
    Availability,
    Cell,
    CellOutput,
    Direction,
    EngineConfig,
    EngineInfo,
    Evidence,
    Metric,
    Observation,
    Option,
    Scope,
    Stage,
)
from kvbench.errors import CellFailed, EngineUnavailable, ModelError
from kvbench.plugins import Plugins, load_module

_STAGES = frozenset(Stage)


@dataclass(slots=True)
class FakeEngine:
    """The session: counts its calls, so that tests can see what shared a live engine."""

    mode: str
    calls: int = 0
    seen: list[str] = field(default_factory=list)


def fake_plugins() -> Plugins:
    """Return plugins that consist of the fake engine only."""
    return Plugins(loaded={"fake": load_module(sys.modules[__name__], "fake")}, broken=())


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say who the fake engine is."""
    return EngineInfo(
        name="fake",
        version="1.0",
        distribution="kvbench",
        summary="Does what its behaviour option says; for tests.",
        evidence=frozenset({Evidence.SIMULATED}),
        stages=_STAGES,
        options=(
            Option(name="behaviour", type="str", help="What to do.", default="ok"),
            Option(name="value", type="float", help="Value of fake_bytes.", default=1.0),
            Option(name="batch", type="int", help="A monotonic axis.", minimum=1, monotonic=True),
            Option(name="release", type="str", help="File that ends a wait."),
            Option(name="mode", type="str", help="Engine scope.", scope=Scope.ENGINE),
        ),
        probe=lambda: Availability(available=True),
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register the fake metrics."""
    return (
        _metric("fake_bytes", "bytes", "The value the suite asked for.", exact=True),
        _metric("fake_s", "s", "The value plus the number of the call.", exact=False),
        _metric("calls_count", "count", "Calls of this live engine so far.", exact=False),
    )


@hookimpl
def kvbench_open(config: EngineConfig) -> Any:
    """Open a session; ``mode`` can make that fail."""
    return _session(str(config.settings.get("mode", "plain")))


@hookimpl
def kvbench_size(cell: Cell, session: Any) -> CellOutput:
    """Do what the cell says."""
    return _call(cell, session)


@hookimpl
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:
    """Do what the cell says."""
    return _call(cell, session)


@hookimpl
def kvbench_measure(cell: Cell, session: Any) -> CellOutput:
    """Do what the cell says."""
    return _call(cell, session)


def _metric(name: str, unit: str, meaning: str, *, exact: bool) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction=Direction.LOWER,
        evidence=Evidence.SIMULATED,
        meaning=meaning,
        exact=exact,
    )


@contextlib.contextmanager
def _session(mode: str) -> Iterator[FakeEngine]:
    if mode == "unavailable":
        raise EngineUnavailable("no fake device", "plug one in")
    if mode == "broken":
        raise RuntimeError("cannot start")
    if mode == "dies":
        os._exit(7)
    yield FakeEngine(mode)


def _call(cell: Cell, session: FakeEngine) -> CellOutput:
    session.calls += 1
    session.seen.append(cell.cell_id)
    behaviour = str(cell.settings.get("behaviour", "ok"))
    return _BEHAVIOURS[behaviour](cell, session)


def _ok(cell: Cell, session: FakeEngine, **changes: Any) -> CellOutput:
    value = float(cell.settings.get("value", 1.0))
    observed = {"fake_bytes": value, "fake_s": value + session.calls, "calls_count": session.calls}
    return CellOutput(
        observations=tuple(_observed(name, number) for name, number in observed.items()), **changes
    )


def _observed(metric: str, value: float) -> Observation:
    return Observation(metric=metric, value=value, evidence=Evidence.SIMULATED)


def _only(metric: str, value: float) -> CellOutput:
    return CellOutput(observations=(_observed(metric, value),))


def _raise(error: BaseException) -> CellOutput:
    raise error


def _kill(number: int) -> CellOutput:
    print("about to die", flush=True)
    os.kill(os.getpid(), number)
    time.sleep(60)
    raise AssertionError("survived")


def _exit(code: int) -> CellOutput:
    os._exit(code)


def _hang() -> CellOutput:
    time.sleep(3600)
    raise AssertionError("nobody stopped it")


def _wait(cell: Cell, session: FakeEngine) -> CellOutput:
    """Say in ``<release>.begun`` who has begun (its process id), wait for ``release``."""
    release = Path(str(cell.settings["release"]))
    begun = release.with_suffix(".begun.tmp")
    begun.write_text(str(os.getpid()), encoding="ascii")
    begun.replace(release.with_suffix(".begun"))
    while not release.exists():
        time.sleep(0.005)
    return _ok(cell, session)


def _flaky(cell: Cell, session: FakeEngine) -> CellOutput:
    """Fail until the file ``release`` exists."""
    if not Path(str(cell.settings["release"])).exists():
        raise CellFailed("flaky", "not released yet")
    return _ok(cell, session)


def _print(cell: Cell, session: FakeEngine) -> CellOutput:
    print(f"cell {cell.ordinal} speaks", flush=True)
    return _ok(cell, session)


def _crash_second(cell: Cell, session: FakeEngine) -> CellOutput:
    return _ok(cell, session) if session.calls < 2 else _kill(signal.SIGSEGV)


_BEHAVIOURS: dict[str, Callable[[Cell, FakeEngine], CellOutput]] = {
    "ok": _ok,
    "raise": lambda cell, session: _raise(RuntimeError("it broke")),
    "exit": lambda cell, session: _raise(SystemExit(3)),
    "die": lambda cell, session: _exit(5),
    "sigkill": lambda cell, session: _kill(signal.SIGKILL),
    "segfault": lambda cell, session: _kill(signal.SIGSEGV),
    "crash_second": _crash_second,
    "hang": lambda cell, session: _hang(),
    "wait": _wait,
    "flaky": _flaky,
    "print": _print,
    "oom": lambda cell, session: _raise(MemoryError("no room")),
    "refused": lambda cell, session: _raise(ModelError("this model is not supported")),
    "unavailable": lambda cell, session: _raise(EngineUnavailable("no device", "buy one")),
    "failed": lambda cell, session: _raise(CellFailed("too_hot", "the device is too hot")),
    "nan": lambda cell, session: _only("fake_bytes", float("nan")),
    "huge": lambda cell, session: _only("fake_bytes", 2**53 + 2),
    "unregistered": lambda cell, session: _only("other_bytes", 1.0),
    "nothing": lambda cell, session: CellOutput(observations=()),
    "invalid": lambda cell, session: _ok(
        cell, session, invalid="cache_not_cold", invalid_message="3 % hits"
    ),
    "rich": lambda cell, session: _ok(
        cell,
        session,
        effective={"block_size": 16},
        assumptions=("one",),
        warnings=("careful",),
        artifacts={"table": "a | b"},
    ),
}
