"""The explorer against the Python it recomputes: every figure equal, integer for integer."""

from __future__ import annotations

import itertools

import pytest

from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.model.sizing import logical_bytes
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
from kvbench.report.geometry import geometry_json
from kvbench.report.make import write_page
from kvbench.results import build_results
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
