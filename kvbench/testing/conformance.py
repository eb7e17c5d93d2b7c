"""What every engine plugin has to keep; its tests derive from ``EngineConformance``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from kvbench.engine import Availability, Option, Stage
from kvbench.metrics import SHARED
from kvbench.plugins import Plugin, load_module

if TYPE_CHECKING:
    from kvbench.testing.suite_runner import RunOutcome

#: Libraries that registration must not import: they cost seconds, and every command registers.
HEAVY = ("matplotlib", "numpy", "pandas", "pyarrow", "torch", "transformers", "triton", "vllm")

_TYPES: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool}


class EngineConformance:
    """Checks of the contract in ``kvbench.hookspecs``.

    Derive a class whose name starts with ``Test`` and set ``plugin``. With ``suite`` (the text
    of a small suite that names the engine) the engine is also run, in a worker process.
    """

    plugin: ClassVar[ModuleType]
    suite: ClassVar[str] = ""

    def _loaded(self) -> Plugin:
        return load_module(self.plugin, self.plugin.__name__)

    def test_hooks_load(self) -> None:
        """Every hook is spelled right, and the declared stages are the implemented ones."""
        info = self._loaded().info
        assert info.stages, "the engine declares no stage"
        assert info.evidence, "the engine declares no kind of evidence"
        assert info.summary, "the engine says nothing about itself"

    def test_registration_is_cheap(self) -> None:
        """Importing the plugin module imports no heavy library."""
        program = (
            "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[2]); "
            "importlib.import_module(sys.argv[1]); "
            "print(*[name for name in sys.argv[3:] if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, self.plugin.__name__, json.dumps(sys.path), *HEAVY],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stdout.split(), f"imported at registration: {done.stdout.strip()}"

    def test_options_are_consistent(self) -> None:
        """Option names are unique, and defaults obey their own rules."""
        options = self._loaded().info.options
        names = [option.name for option in options]
        assert len(names) == len(set(names)), f"an option is declared twice: {names}"
        for option in options:
            _check_default(option)

    def test_metrics_are_consistent(self) -> None:
        """Metrics are registered once per evidence that the engine gives, in shared units."""
        loaded = self._loaded()
        keys = [(metric.name, metric.evidence) for metric in loaded.metrics]
        assert keys, "the engine registers no metric"
        assert len(keys) == len(set(keys)), "a metric is registered twice"
        for metric in loaded.metrics:
            assert metric.evidence in loaded.info.evidence, f"{metric.name}: {metric.evidence}"
            assert metric.meaning, f"{metric.name} has no meaning"
            if metric.name in SHARED:
                unit, direction, _ = SHARED[metric.name]
                assert (metric.unit, metric.direction) == (unit, direction), metric.name

    def test_probe_answers(self) -> None:
        """The availability probe answers, and a "no" says why."""
        answer = self._loaded().info.probe()
        assert isinstance(answer, Availability)
        assert answer.available or answer.reason, "unavailable without a reason"

    def test_environment_is_text(self) -> None:
        """Provenance maps text to text."""
        environment = self._loaded().environment()
        assert all(isinstance(k, str) and isinstance(v, str) for k, v in environment.items())

    def test_suite_runs(self, tmp_path: Path) -> None:
        """Every cell of ``suite`` passes, or is unsupported because the engine is not here."""
        for outcome in self._outcomes(tmp_path, 1):
            statuses = set(outcome.results.cells["status"].to_pylist())
            assert statuses <= {"passed", "unsupported", "skipped"}, outcome.reasons()

    def test_deterministic_engines_repeat_themselves(self, tmp_path: Path) -> None:
        """An engine that calls itself deterministic gives the same samples twice."""
        if not self._loaded().info.deterministic:
            return
        columns = ["cell_id", "metric", "evidence", "sample", "value"]
        tables = [o.results.samples.select(columns) for o in self._outcomes(tmp_path, 2)]
        assert all(table.equals(tables[0]) for table in tables)

    def _outcomes(self, folder: Path, count: int) -> list[RunOutcome]:
        from kvbench.testing.suite_runner import SuiteRunner

        runner = SuiteRunner(folder)
        return [runner(self.suite, self.plugin) for _ in range(count if self.suite else 0)]


def _check_default(option: Option) -> None:
    default = option.default
    assert option.help, f"option {option.name} has no help"
    assert set(option.stages) <= set(Stage), f"option {option.name}: unknown stage"
    if default is None:
        return
    assert not option.required, f"option {option.name} is required and has a default"
    assert isinstance(default, _TYPES.get(option.type, str)), f"default of {option.name}"
    assert not option.choices or default in option.choices, f"default of {option.name}"
    if option.minimum is not None and not isinstance(default, str):
        assert default >= option.minimum, f"default of {option.name} is below its minimum"
