"""The conformance class on the engines at hand, and what it catches."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import pytest

import kvbench_analytic.plugin
import kvbench_pool.plugin
from kvbench import hookimpl
from kvbench.engine import EngineInfo, Evidence, Metric, Option
from kvbench.errors import PluginError
from kvbench.testing import EngineConformance, fake_engine

SMALL = """
schema = 1
[suite]
name = "small"
[engines.e]
plugin = "{plugin}"
[models.m]
layers = 2
query_heads = 2
kv_heads = 1
head_dim = 8
[[benchmark]]
name = "b"
stage = "{stage}"
engines = ["e"]
[benchmark.matrix]
{axes}
"""


class TestAnalytic(EngineConformance):
    plugin = kvbench_analytic.plugin
    suite = SMALL.format(
        plugin="analytic", stage="size", axes='model = ["m"]\ncontext_tokens = [1, 100]'
    )


class TestPool(EngineConformance):
    plugin = kvbench_pool.plugin


class TestFake(EngineConformance):
    plugin = fake_engine
    suite = SMALL.format(plugin="fake", stage="measure", axes="value = [1.0, 2.0]")


def broken(name: str, **changes: Any) -> type[EngineConformance]:
    """A conformance class for the fake engine with something changed about it."""
    module = ModuleType(name)
    info = dataclasses.replace(fake_engine.kvbench_engine(), **changes.pop("info", {}))
    metrics = changes.pop("metrics", fake_engine.kvbench_metrics())

    @hookimpl
    def kvbench_engine() -> EngineInfo:
        return info

    @hookimpl
    def kvbench_metrics() -> tuple[Metric, ...]:
        return tuple(metrics)

    hooks = {k: v for k, v in vars(fake_engine).items() if k.startswith("kvbench_")}
    hooks |= {"kvbench_engine": kvbench_engine, "kvbench_metrics": kvbench_metrics, **changes}
    vars(module).update(hooks)
    return type(name, (EngineConformance,), {"plugin": module})


def metric(**changes: Any) -> Metric:
    return dataclasses.replace(fake_engine.kvbench_metrics()[0], **changes)


def option(**changes: Any) -> Option:
    return Option(**{"name": "o", "type": "int", "help": "An option.", **changes})


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("test_hooks_load", {"info": {"summary": ""}}),
        ("test_hooks_load", {"info": {"evidence": frozenset()}}),
        ("test_options_are_consistent", {"info": {"options": (option(), option())}}),
        ("test_options_are_consistent", {"info": {"options": (option(help=""),)}}),
        ("test_options_are_consistent", {"info": {"options": (option(default="x"),)}}),
        ("test_options_are_consistent", {"info": {"options": (option(default=0, minimum=1),)}}),
        (
            "test_options_are_consistent",
            {"info": {"options": (option(default=3, choices=(1, 2)),)}},
        ),
        (
            "test_options_are_consistent",
            {"info": {"options": (option(default=1, required=True),)}},
        ),
        ("test_metrics_are_consistent", {"metrics": ()}),
        ("test_metrics_are_consistent", {"metrics": (metric(), metric())}),
        ("test_metrics_are_consistent", {"metrics": (metric(evidence=Evidence.DEVICE),)}),
        ("test_metrics_are_consistent", {"metrics": (metric(meaning=""),)}),
        ("test_metrics_are_consistent", {"metrics": (metric(name="paged_bytes", unit="s"),)}),
    ],
)
def test_breaches_are_caught(check: str, changes: dict[str, Any]) -> None:
    instance = broken("broken_engine", **changes)()
    with pytest.raises(AssertionError):
        getattr(instance, check)()


def test_a_misspelt_hook_is_caught() -> None:
    instance = broken("broken_engine", kvbench_mesure=lambda: None)()
    with pytest.raises(PluginError, match="did you mean 'kvbench_measure'"):
        instance.test_hooks_load()


def test_a_heavy_import_is_caught(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy_engine.py").write_text("import numpy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = ModuleType("heavy_engine")
    heavy = type("Heavy", (EngineConformance,), {"plugin": module})
    with pytest.raises(AssertionError, match="imported at registration: numpy"):
        heavy().test_registration_is_cheap()
