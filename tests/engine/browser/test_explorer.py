"""The explorer against the Python it recomputes: every figure equal, integer for integer."""

from __future__ import annotations

import itertools

import pytest

from kvbench.device.budget import make_budget
from kvbench.device.catalog import load_device
from kvbench.device.conditions import Conditions, step_defaults
from kvbench.engine import Cell, Stage
from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_bytes, size_at
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    MlaLayer,
    ModelSpec,
    SharedLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
)
from kvbench.plugins import load_plugins
from kvbench.report.geometry import geometry_json
from kvbench.report.make import write_page
from kvbench.results import build_results
from kvbench_analytic.explorer import explorer_artifacts
from tests.report.sample_run import metadata, record

HEADS = {"kv_heads": 8, "head_dim_k": 128, "head_dim_v": 128}
FULL = FullLayer(**HEADS)
STATE = StateLayer(
    tensors=(
        StateTensor(name="conv", shape=(8192 + 128, 3), dtype="auto", tp_dim=0),
        StateTensor(name="ssm", shape=(64, 128, 64), dtype="fp32", tp_dim=0),
        StateTensor(name="scale", shape=(7,), dtype="fp16"),
    )
)
MODELS = (
    ModelSpec(name="full", layers=(FULL,) * 32, weight_bytes=16_060_522_497),
    ModelSpec(name="odd", layers=(FullLayer(kv_heads=5, head_dim_k=67, head_dim_v=33),) * 3),
    ModelSpec(name="windows", layers=(FULL,) * 4 + (SlidingLayer(**HEADS, window=1000),) * 20),
    ModelSpec(
        name="chunks",
        layers=(FULL, ChunkedLayer(**HEADS, chunk=8192), SharedLayer(source=0)),
    ),
    ModelSpec(
        name="latent",
        layers=(MlaLayer(latent_dim=512, rope_dim=64), IndexerLayer(bytes_per_token=132)) * 61,
    ),
    ModelSpec(
        name="compressed",
        layers=(
            MlaLayer(latent_dim=512, rope_dim=64, compress=4),
            MlaLayer(latent_dim=512, rope_dim=64, window=128),
            IndexerLayer(bytes_per_token=68, compress=4),
        ),
    ),
    ModelSpec(name="hybrid", layers=(STATE,) * 36 + (FULL,) * 12, dtype="fp16"),
    ModelSpec(name="state only", layers=(STATE,) * 4),
    ModelSpec(name="cross", layers=(FULL, CrossLayer(**HEADS, encoder_tokens=1500)) * 6),
)  # fmt: skip
TOKENS = (1, 15, 16, 17, 1000, 4100, 131_071, 1_048_576)
DTYPES = ("auto", "fp8_e4m3", "fp8_ds_mla", "int4", "nvfp4", "q8_0")
SHAPES = ((16, 1), (1, 2), (64, 8), (48, 16))
BUDGETS = (0, 8 * 2**30, 123_456_789_012)

ASK = """(points) => points.map(([model, tokens, kvDtype, blockSize, tp, budget]) => {
  const found = window.kvbenchExplorer.explore(
    { model, tokens, kvDtype, blockSize, tp, requests: 7, budget: BigInt(budget) });
  const names = ["logical", "paged", "total", "perBlock", "poolBlocks", "concurrency", "capacity"];
  return [...names.map((name) => found[name].toString()), found.blocks.map(String)];
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    parts = [
        record(
            place, "size", "analytic", {"model": spec.name},
            values={("logical_bytes", "analytic"): place + 1},
            artifacts={"geometry": geometry_json(spec)},
        )
        for place, spec in enumerate(MODELS)
    ]  # fmt: skip
    about = metadata(axis_types={"model": "str"}, comparisons=(), expectations=())
    target = tmp_path_factory.mktemp("explorer") / "report.html"
    write_page([build_results(parts, about)], target)
    return target


def expected(spec, tokens, dtype, block, tp, budget):
    plan = PagedLayout().arrange(spec, LayoutOptions(block_size=block, kv_dtype=dtype, tp=tp))
    paged, blocks = plan.paged_bytes(tokens), plan.num_blocks(budget)
    return [
        str(logical_bytes(spec, tokens, kv_dtype=dtype, tp=tp)),
        str(paged),
        str(paged * 7),
        str(plan.bytes_per_block),
        str(blocks),
        str(blocks * plan.bytes_per_block // paged),
        str(plan.capacity_tokens(blocks)),
        [str(count) for count in plan.resident_blocks(tokens)],
    ]


def test_every_figure_equals_the_python_on_the_whole_grid(visit, report):
    grid = [
        (spec, tokens, dtype, *shape, BUDGETS[place % len(BUDGETS)])
        for place, (spec, tokens, dtype, shape) in enumerate(
            itertools.product(MODELS, TOKENS, DTYPES, SHAPES)
        )
    ]
    assert len(grid) >= 500
    points = [[spec.name, *rest[:-1], str(rest[-1])] for spec, *rest in grid]
    answers = visit(report).page.evaluate(ASK, points)
    wrong = [
        (point, answer, right)
        for point, answer, choice in zip(points, answers, grid, strict=True)
        if answer != (right := expected(*choice))
    ]
    assert not wrong, wrong[:3]


def test_a_device_leaves_its_share_less_the_weights(visit, report):
    asked = """() => window.kvbenchExplorer.deviceBudget({ memory_bytes: 85899345920 }, 900,
      window.kvbenchExplorer.data.models[0], 2, 1073741824n).toString()"""
    left = 85_899_345_920 * 900 // 1000 - -(-16_060_522_497 // 2) - 2**30
    assert visit(report).page.evaluate(asked) == str(left)


def test_the_controls_recompute_and_the_link_keeps_the_choice(visit, report):
    first = visit(report)
    first.page.select_option("#explorer-model", "full")
    first.page.fill("#explorer-tokens", "8192")
    first.page.fill("#explorer-requests", "4")
    first.page.select_option("#explorer-budget", "own")
    first.page.fill("#explorer-own", "8")
    figures = first.page.inner_text("#explorer-figures")
    assert "1 GiB (1,073,741,824 B)" in figures
    answer = first.page.inner_text("#explorer-answer")
    assert answer == "8 concurrent requests of 8,192 tokens fit: 4 fit."
    fragment = first.page.evaluate("location.hash")
    second = visit(report, fragment)
    assert second.page.inner_text("#explorer-answer") == answer
    assert second.page.inner_text("#explorer-figures") == figures
    assert not first.messages + second.messages


def test_nonsense_in_a_field_is_no_error(visit, report):
    opened = visit(report)
    for text in ("", "-5", "1e99", "0.2"):
        opened.page.fill("#explorer-tokens", text)
    assert opened.page.inner_text("#explorer-answer")
    assert not opened.messages


#: Models of the vLLM layout: plain, windows, chunks, latents, indexers, state, rings, encoder.
ENGINE_MODELS = (
    "Llama-3.1-8B",
    "gemma-3-27b-it",
    "gpt-oss-20b",
    "Llama-4-Maverick-17B-128E-Instruct",
    "DeepSeek-V3",
    "DeepSeek-V3.2",
    "DeepSeek-V4-Flash",
    "granite-4.0-h-small",
    "Kimi-Linear-48B-A3B",
    "Mamba-Codestral-7B",
    "whisper-large-v3",
)
ENGINE_TOKENS = (1, 17, 1000, 8192, 32_769, 131_072, 1_000_003)
ENGINE_SHAPES = ((None, 1), (64, 8), (16, 2))
ENGINE_BUDGETS = (0, 3 * 2**30, 58_873_552_975)

ASK_ENGINE = """(points) => points.map(([model, tokens, kvDtype, blockSize, tp, budget]) => {
  const found = window.kvbenchExplorer.explore({ model, layout: "vllm 0.32.0", tokens, kvDtype,
    blockSize, tp, requests: 7, budget: BigInt(budget) });
  if (found.refusal) return [found.refusal];
  const names = ["logical", "paged", "admission", "total", "perBlock", "blockSize", "poolBlocks",
    "concurrency", "capacity"];
  return [...names.map((name) => found[name].toString()), found.blocks.map(String)];
})"""


def analytic_cell(model, **settings):
    plugin = load_plugins().get("analytic")
    defaults = {option.name: option.default for option in plugin.info.options}
    known = {name: value for name, value in defaults.items() if value is not None}
    device = settings.pop("device", None)
    return Cell(
        cell_id="0", ordinal=0, benchmark="b", stage=Stage.SIZE, engine="analytic",
        plugin="analytic", axes={}, settings={**known, "layout": "vllm", **settings},
        model=model, device=device,
    )  # fmt: skip


def engine_report(folder, names, **settings):
    parts = []
    for place, name in enumerate(names):
        model = load_model(name)
        artifacts = {
            "geometry": geometry_json(model, settings.get("device")),
            **explorer_artifacts(analytic_cell(model, **settings), model),
        }
        values = {("logical_bytes", "analytic"): place + 1}
        parts.append(
            record(place, "size", "analytic", {"model": name}, values=values, artifacts=artifacts)
        )
    about = metadata(axis_types={"model": "str"}, comparisons=(), expectations=())
    write_page([build_results(parts, about)], folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def vllm_report(tmp_path_factory):
    return engine_report(tmp_path_factory.mktemp("vllm"), ENGINE_MODELS)


def expected_of_engine(name, tokens, dtype, block, tp, budget):
    options = LayoutOptions(block_size=block, kv_dtype=dtype, tp=tp)
    try:
        plan = load_plugins().layout("vllm").arrange(load_model(name), options)
    except ModelError as error:
        return [str(error)]
    paged, blocks = plan.paged_bytes(tokens), plan.num_blocks(budget)
    return [
        str(size_at(plan.costs, tokens).logical_bytes),
        str(paged),
        str(plan.admission_bytes(tokens)),
        str(paged * 7),
        str(plan.bytes_per_block),
        str(plan.block_size),
        str(blocks),
        str(int(plan.max_concurrency(blocks, tokens))),
        str(plan.capacity_tokens(blocks)),
        [str(count) for count in plan.resident_blocks(tokens)],
    ]


def test_an_engines_layout_equals_the_python_on_the_whole_grid(visit, vllm_report):
    grid = [
        (*point[:3], *point[3], point[4])
        for point in itertools.product(
            ENGINE_MODELS, ENGINE_TOKENS, ("auto", "fp8_e4m3"), ENGINE_SHAPES, ENGINE_BUDGETS
        )
    ]
    points = [[*rest, str(budget)] for *rest, budget in grid]
    answers = visit(vllm_report).page.evaluate(ASK_ENGINE, points)
    rights = [expected_of_engine(*choice) for choice in grid]
    wrong = [found for found in zip(grid, answers, rights, strict=True) if found[1] != found[2]]
    assert not wrong, wrong[:3]
    assert sum(len(right) > 1 for right in rights) >= 1000


def test_a_choice_that_the_engine_refuses_has_its_reason_and_no_figures(visit, vllm_report):
    opened = visit(vllm_report)
    opened.page.select_option("#explorer-model", "whisper-large-v3")
    opened.page.select_option("#explorer-tp", "8")
    assert opened.page.inner_text("#explorer-answer") == (
        "No figures for this choice: whisper-large-v3: vLLM refuses tensor parallel size 8: "
        "20 attention heads are not divisible by it."
    )
    assert opened.page.inner_text("#explorer-figures") == ""
    opened.page.select_option("#explorer-model", "Llama-3.1-8B")
    assert "concurrent requests" in opened.page.inner_text("#explorer-answer")
    assert not opened.messages


def test_only_embedded_choices_are_offered_for_a_layout(visit, vllm_report):
    opened = visit(vllm_report)
    options = "(name) => [...document.getElementById(name).options].map((o) => o.value)"
    assert opened.page.evaluate(options, "explorer-layout") == ["vllm 0.32.0", "paged"]
    assert opened.page.evaluate(options, "explorer-dtype") == ["auto", "fp8_e4m3"]
    assert opened.page.evaluate(options, "explorer-block") == ["", "16", "32", "64", "128"]
    opened.page.select_option("#explorer-layout", "paged")
    assert "int4" in opened.page.evaluate(options, "explorer-dtype")
    assert "plain paged layout" in opened.page.inner_text("#explorer-basis")


def test_the_fitted_budget_of_the_run_is_used_with_its_interval(visit, tmp_path):
    device = load_device("h100-80g")
    path = engine_report(tmp_path, ["Llama-3.1-8B", "gpt-oss-20b"], device=device)
    opened = visit(path)
    opened.page.select_option("#explorer-model", "Llama-3.1-8B")
    opened.page.select_option("#explorer-tp", "2")
    opened.page.fill("#explorer-tokens", "8192")
    tokens, sequences = step_defaults(device)
    at = Conditions(device=device, tp=2, tokens=tokens, sequences=sequences)
    budget = make_budget(load_model("Llama-3.1-8B"), at).kv_bytes
    low, middle, high = (
        expected_of_engine("Llama-3.1-8B", 8192, "auto", None, 2, size)
        for size in (budget.low, budget.expected, budget.high)
    )
    figures = opened.page.inner_text("#explorer-figures")
    assert f"({budget.expected:,} B)" in figures
    assert f"Blocks in the pool\t{int(middle[6]):,}" in figures
    assert opened.page.inner_text("#explorer-answer") == (
        f"{middle[7]} concurrent requests of 8,192 tokens fit ({low[7]} to {high[7]} over the "
        "budget's interval): 1 fit."
    )
    again = visit(path, opened.page.evaluate("location.hash"))
    assert again.page.inner_text("#explorer-figures") == figures
    assert not opened.messages + again.messages


def test_ranks_without_a_fitted_budget_say_so(visit, tmp_path):
    opened = visit(engine_report(tmp_path, ["Llama-3.1-8B"], device=load_device("h100-80g")))
    opened.page.select_option("#explorer-layout", "paged")
    opened.page.select_option("#explorer-tp", "16")
    assert "this run fitted no budget for 16 ranks" in opened.page.inner_text("#explorer-answer")
    assert "Blocks in the pool" not in opened.page.inner_text("#explorer-figures")
