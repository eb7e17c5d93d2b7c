"""Plans: order, ids, seeds, reduced protocols and reasons for cells that will not run."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.engine import Stage
from kvbench.errors import SuiteError
from kvbench.plan.make import make_plan, reduced
from kvbench.plan.spec import Plan, PlannedCell
from kvbench.suite.spec import Protocol

from ..conftest import REPOSITORY
from ..suite.toy_engines import toy_plugins
from ..suite.toy_suites import GOOD, load


def plan_of(folder: Path, text: str = GOOD, *, only_engine: str | None = None) -> Plan:
    return make_plan(load(folder, text), toy_plugins(), only_engine=only_engine)


def ids(plan: Plan) -> list[str]:
    return [planned.cell.cell_id for planned in plan.cells]


def cells_of(plan: Plan, benchmark: str) -> list[PlannedCell]:
    return [planned for planned in plan.cells if planned.cell.benchmark == benchmark]


def test_cells_are_numbered_in_the_order_of_the_expansion(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert [planned.cell.ordinal for planned in plan.cells] == list(range(13))
    points = [tuple(planned.cell.axes.values()) for planned in plan.cells[:3]]
    assert points == [
        ("mha", 1024, 1, "auto"),
        ("mha", 1024, 2, "fp8_e4m3"),
        ("mha", 4096, 1, "auto"),
    ]
    assert [planned.cell.benchmark for planned in plan.cells[-2:]] == ["latency", "latency"]


def test_counts_after_each_stage(tmp_path: Path) -> None:
    counts = plan_of(tmp_path).counts[0]
    assert (counts.product, counts.zipped, counts.excluded, counts.included, counts.fit) == (
        6,
        12,
        10,
        11,
        11,
    )


def test_axis_types_name_the_columns(tmp_path: Path) -> None:
    assert plan_of(tmp_path).axis_types == {
        "model": "str",
        "context_tokens": "int",
        "requests": "int",
        "kv_dtype": "str",
    }


def test_settings_are_defaults_then_engine_then_benchmark_then_axes(tmp_path: Path) -> None:
    cell = plan_of(tmp_path).cells[1].cell
    assert cell.settings == {
        "model": "mha",
        "context_tokens": 1024,
        "requests": 2,
        "kv_dtype": "fp8_e4m3",
        "block_size": 32,
        "share": 0.5,
        "reuse": False,
    }


def test_benchmark_options_win_over_the_engine_and_lose_to_an_axis(tmp_path: Path) -> None:
    text = GOOD.replace("options = { share = 0.5 }", "options = { block_size = 64, requests = 9 }")
    settings = plan_of(tmp_path, text).cells[0].cell.settings
    assert (settings["block_size"], settings["requests"]) == (64, 1)


def test_names_are_resolved_to_specs(tmp_path: Path) -> None:
    cell = plan_of(tmp_path).cells[-1].cell
    assert cell.model is not None
    assert (cell.axes["model"], cell.model.name, len(cell.model.layers)) == ("gqa8", "gqa8", 32)
    assert cell.device is None
    assert cell.workload is None


def test_options_of_another_stage_are_left_out(tmp_path: Path) -> None:
    text = GOOD.replace("{ block_size = 32 }", '{ block_size = 32, workload = "steady" }')
    cell = plan_of(tmp_path, text).cells[0].cell
    assert "workload" not in cell.settings
    assert cell.workload is None


def test_an_engine_gets_its_engine_scope_options_only(tmp_path: Path) -> None:
    first, second = cells_of(plan_of(tmp_path), "latency")
    assert first.config.settings == {"model": "mha", "block_size": 16}
    assert first.config.model == first.cell.model
    assert first.config_id != second.config_id
    assert first.exclusive


def test_cells_that_differ_in_cell_scope_share_an_engine(tmp_path: Path) -> None:
    text = GOOD.replace("[benchmark.protocol]", "context_tokens = [64, 128]\n[benchmark.protocol]")
    cells = cells_of(plan_of(tmp_path, text), "latency")
    assert [cell.cell.axes["context_tokens"] for cell in cells] == [64, 128, 64, 128]
    assert len({cell.config_id for cell in cells}) == 2
    assert cells[0].monotonic == ("context_tokens",)


def test_a_deterministic_engine_runs_once(tmp_path: Path) -> None:
    protocol = plan_of(tmp_path).cells[0].protocol
    assert (protocol.warmup, protocol.repeats, protocol.min_measure_s) == (0, 1, 0.0)
    measured = plan_of(tmp_path).cells[-1].protocol
    assert (measured.warmup, measured.repeats) == (2, 9)


def test_size_runs_once_on_any_engine() -> None:
    info = toy_plugins().loaded["meter"].info
    protocol = Protocol(warmup=3, repeats=7, min_measure_s=1.0)
    once = dataclasses.replace(protocol, warmup=0, repeats=1, min_measure_s=0.0)
    assert reduced(protocol, Stage.SIZE, info) == once
    assert reduced(protocol, Stage.MEASURE, info) == protocol
    assert reduced(protocol, Stage.MEASURE, None) == protocol


# --- ids ---------------------------------------------------------------------------------------


def test_ids_are_unique_and_make_the_plan_id(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert len(set(ids(plan))) == len(plan.cells)
    assert all(len(cell_id) == 64 for cell_id in [*ids(plan), plan.plan_id])
    assert plan_of(tmp_path).plan_id == plan.plan_id


SCRIPT = """
import sys, pathlib
from tests.suite.toy_engines import toy_plugins
from kvbench.suite.load import load_suite
from kvbench.plan.make import make_plan
plan = make_plan(load_suite(pathlib.Path(sys.argv[1]), toy_plugins()), toy_plugins())
print(plan.plan_id, *[c.cell.cell_id + c.config_id + str(c.cell.seed) for c in plan.cells])
"""


def test_ids_and_seeds_are_the_same_in_every_process(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    here = [c.cell.cell_id + c.config_id + str(c.cell.seed) for c in plan.cells]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "suite.toml")],
            capture_output=True,
            text=True,
            check=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert done.stdout.split() == [plan.plan_id, *here]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema = 1", "# a comment\nschema = 1"),
        ('description = "What the tests run."', 'description = "Else."'),
        ("timeout_s = 60", "timeout_s = 600"),
        ("timeout_s = 60", 'timeout_s = 60\non_failure = "abort"'),
        ("share = 0.5", "share = 5e-1"),
        ("kv_heads = 8", "kv_heads = 8\nlayers = 0x20"),
        (
            "context_tokens = { start = 1024, stop = 16384, factor = 4 }",
            "context_tokens = [1024, 4096, 16384]",
        ),
        ("repeats = 3", "repeats = 3\nmin_measure_s = 0"),
        ('reason = "too long"', 'reason = "other words"'),
    ],
)
def test_the_same_content_has_the_same_ids(tmp_path: Path, old: str, new: str) -> None:
    assert ids(plan_of(tmp_path, GOOD.replace(old, new))) == ids(plan_of(tmp_path))


def test_ids_do_not_depend_on_where_the_suite_lies(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    text = GOOD.replace(
        "[workloads.steady]",
        '[workloads.real]\nkind = "trace"\npath = "t.csv"\n[workloads.steady]',
    ).replace(
        'stage = "size"\nengines = ["calc"]\noptions = { share = 0.5 }',
        'stage = "allocate"\nengines = ["calc"]\noptions = { workload = "real" }',
    )
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,374,44\n"
    plans = []
    for name in ("here", "there"):
        (tmp_path / name / "t.csv").write_text(rows, encoding="utf-8")
        plans.append(plan_of(tmp_path / name, text))
    assert ids(plans[0]) == ids(plans[1])
    (tmp_path / "there" / "t.csv").write_text(rows.replace("374", "375"), encoding="utf-8")
    changed = ids(plan_of(tmp_path / "there", text))
    assert not set(changed[:11]) & set(ids(plans[0]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("block_size = 32", "block_size = 33"),
        ("share = 0.5", "share = 0.6"),
        ("head_dim = 128", "head_dim = 64"),
        ("layers = 32", "layers = 31"),
        ("head_dim = 128", 'head_dim = 128\ndtype = "fp16"'),
        ("seed = 7", "seed = 8"),
        ('name = "bytes"\nstage', 'name = "octets"\nstage'),
        ("[protocol]", '[protocol]\ncache = "warm"'),
        ("[protocol]", '[protocol]\norder = "sequential"'),
    ],
)
def test_any_changed_parameter_changes_the_ids(tmp_path: Path, old: str, new: str) -> None:
    text = GOOD[: GOOD.index("[[compare]]")]
    changed = plan_of(tmp_path, text.replace(old, new))
    before = plan_of(tmp_path, text)
    assert not {c.cell.cell_id for c in changed.cells[:11]} & set(ids(before))


def test_repeats_matter_only_where_an_engine_repeats(tmp_path: Path) -> None:
    before, after = plan_of(tmp_path), plan_of(tmp_path, GOOD.replace("repeats = 9", "repeats = 8"))
    assert ids(before)[:11] == ids(after)[:11]
    assert not set(ids(before)[11:]) & set(ids(after)[11:])


def test_another_engine_version_has_other_ids(tmp_path: Path) -> None:
    suite, plugins = load(tmp_path, GOOD), toy_plugins()
    calc = plugins.loaded["calc"]
    newer = dataclasses.replace(calc, info=dataclasses.replace(calc.info, version="1.1"))
    upgraded = dataclasses.replace(plugins, loaded={**plugins.loaded, "calc": newer})
    before, after = make_plan(suite, plugins), make_plan(suite, upgraded)
    assert not set(ids(before)[:11]) & set(ids(after)[:11])
    assert ids(before)[11:] == ids(after)[11:]
    assert before.cells[0].config_id != after.cells[0].config_id


# --- seeds -------------------------------------------------------------------------------------

ALLOCATE = GOOD.replace(
    'stage = "size"\nengines = ["calc"]\noptions = { share = 0.5 }',
    'stage = "allocate"\nengines = ["calc"]\noptions = { workload = "steady" }',
)


def test_cells_of_one_workload_are_asked_the_same_requests(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ALLOCATE)
    assert len({planned.cell.seed for planned in cells_of(plan, "bytes")}) == 1
    assert len({planned.cell.seed for planned in cells_of(plan, "latency")}) == 2
    assert all(0 <= planned.cell.seed < 2**63 for planned in plan.cells)


def test_seeds_follow_the_suite_seed_and_the_workload(tmp_path: Path) -> None:
    seeds = {
        plan_of(tmp_path, ALLOCATE.replace(old, new)).cells[0].cell.seed
        for old, new in (
            ("", ""),
            ("seed = 7", "seed = 8"),
            ("prompt_tokens = 100", "prompt_tokens = 99"),
        )
    }
    assert len(seeds) == 3


# --- cells that will not run --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "reason", "message"),
    [
        ("absent", "engine_unavailable", "no device; plug one in"),
        ("wrecked", "plugin_broken", "plugin 'wrecked': boom; mend it"),
    ],
)
def test_cells_of_an_unusable_engine_are_unsupported(
    tmp_path: Path, plugin: str, reason: str, message: str
) -> None:
    plan = plan_of(tmp_path, GOOD.replace('plugin = "meter"', f'plugin = "{plugin}"'))
    for planned in cells_of(plan, "latency"):
        assert planned.skip_status == "unsupported"
        assert (planned.skip_reason, planned.skip_message) == (reason, message)
    assert not any(planned.skip_status for planned in cells_of(plan, "bytes"))
    assert cells_of(plan, "latency")[0].cell.model is not None


def test_an_engine_that_runs_elsewhere_need_not_be_installed(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "absent"')
    suite, plugins = load(tmp_path, text), toy_plugins()
    absent = plugins.loaded["absent"]
    options = tuple(
        dataclasses.replace(one, attaches=one.name == "block_size") for one in absent.info.options
    )
    attaching = dataclasses.replace(absent, info=dataclasses.replace(absent.info, options=options))
    plugins = dataclasses.replace(plugins, loaded={**plugins.loaded, "absent": attaching})
    assert not any(one.skip_status for one in cells_of(make_plan(suite, plugins), "latency"))


def test_cells_that_cannot_fit_the_device_are_skipped(tmp_path: Path) -> None:
    text = GOOD.replace("share = 0.5", 'device = "card"')
    text = text.replace("[models.mha]", '[devices.card]\nmemory_bytes = "4GiB"\n[models.mha]')
    plan = plan_of(tmp_path, text)
    skipped = [planned for planned in plan.cells if planned.skip_status]
    # gqa8 holds 128 KiB per token: 16384 tokens are 2 GiB, 64 x 5000 tokens 39 GiB.
    assert [tuple(planned.cell.axes.values()) for planned in skipped] == [
        ("gqa8", 5000, 64, "auto")
    ]
    assert (skipped[0].skip_status, skipped[0].skip_reason) == ("skipped", "kv_exceeds_device")
    assert "at least 39.06 GiB" in skipped[0].skip_message
    assert (plan.counts[0].included, plan.counts[0].fit) == (11, 10)


def test_only_one_engine(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, only_engine="meter")
    assert [planned.cell.engine for planned in plan.cells] == ["meter", "meter"]
    assert [planned.cell.ordinal for planned in plan.cells] == [0, 1]
    assert ids(plan) == ids(plan_of(tmp_path))[-2:]


def test_an_engine_that_the_suite_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"no \[engines.metre\] table; did you mean 'meter'"):
        plan_of(tmp_path, only_engine="metre")
