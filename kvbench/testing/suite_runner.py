"""Run a suite from a string, in a folder of its own, and ask what became of its cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kvbench.cli.run import exit_code
from kvbench.plan.make import make_plan
from kvbench.plugins import Plugins, load_module, load_plugins
from kvbench.results import Results
from kvbench.results.schema import Status
from kvbench.runner.finish import finish_run
from kvbench.runner.run import RunOptions, run_plan
from kvbench.suite.load import load_suite
from kvbench.testing import fake_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A run that has ended.

    Attributes:
        run_dir: Its folder.
        results: Its results, as written.
        exit_code: What ``kvbench run`` would have returned.
    """

    run_dir: Path
    results: Results
    exit_code: int

    def assert_cells(self, **expected: int) -> None:
        """Assert how many cells came to each status; statuses left out must not occur.

        Example: ``outcome.assert_cells(passed=3, skipped=1)``.
        """
        unknown = expected.keys() - {str(status) for status in Status}
        assert not unknown, f"no such status: {', '.join(sorted(unknown))}"
        found = Counter(self.results.cells["status"].to_pylist())
        wanted = {status: count for status, count in expected.items() if count}
        assert found == wanted, f"expected {wanted}, found {dict(found)}: {self.reasons()}"

    def reasons(self) -> list[str]:
        """Reason and error of every cell that has one."""
        columns = self.results.cells.select(["status", "reason", "error"]).to_pylist()
        return [f"{c['status']} {c['reason']}: {c['error']}" for c in columns if c["reason"]]

    def values(self, metric: str, **axes: object) -> list[float]:
        """Measured values of a metric, in the order of the plan.

        Args:
            metric: Its name.
            **axes: Values of axes that the cells must have.
        """
        frame = self.results.frame()
        chosen = (frame["metric"] == metric) & (frame["phase"] == "measure")
        for axis, value in axes.items():
            chosen &= frame[f"param_{axis}"] == value
        return [float(value) for value in frame["value"][chosen]]


class SuiteRunner:
    """Runs suites in ``folder``; each call is a run of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = 0

    def __call__(self, suite: str, *modules: ModuleType, **options: Any) -> RunOutcome:
        """Run a suite.

        Args:
            suite: Text of the suite file.
            *modules: Plugin modules to use, beside the installed plugins and ``fake``.
            **options: Further attributes of ``RunOptions``.

        Raises:
            SuiteError: The suite has mistakes.
        """
        self._runs += 1
        path = self.folder / f"suite-{self._runs}.toml"
        path.write_text(suite, encoding="utf-8")
        plugins = with_modules(load_plugins(), fake_engine, *modules)
        loaded = load_suite(path, plugins)
        if "resume" not in options:
            options.setdefault("run_dir", self.folder / f"run-{self._runs}")
        end = run_plan(make_plan(loaded, plugins), plugins, RunOptions(**options))
        results = finish_run(end.run_dir, loaded)
        code = 130 if end.interrupted else exit_code(results)
        return RunOutcome(run_dir=end.run_dir, results=results, exit_code=code)


def with_modules(plugins: Plugins, *modules: ModuleType) -> Plugins:
    """Return ``plugins`` with plugin modules added; a module replaces a plugin of its name."""
    added = [load_module(module, module.__name__) for module in modules]
    names = {plugin.name for plugin in added}
    return Plugins(
        loaded={**plugins.loaded, **{plugin.name: plugin for plugin in added}},
        broken=tuple(broken for broken in plugins.broken if broken.name not in names),
    )
