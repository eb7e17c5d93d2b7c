"""Runs made by hand, with the numbers of the sizing formulas, for tests of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kvbench.engine import Evidence, Metric
from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.metrics import shared
from kvbench.model.sizing import logical_bytes
from kvbench.model.spec import FullLayer, ModelSpec
from kvbench.report.geometry import geometry_json
from kvbench.results import Results, build_results
from kvbench.results.metadata import BenchmarkInfo, RunMetadata
from kvbench.results.record import CellIdentity, CellRecord, MetricSeries
from kvbench.results.schema import Phase, Status
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict, Verdict

CONTEXTS = (1024, 4096, 16384, 65536)
BLOCK_SIZES = (8, 16, 32, 64, 128, 256)
POOL_BYTES = 8 * 2**30
ANALYTIC = ("logical_bytes", "paged_bytes", "tail_waste_bytes", "fragmentation_ratio")
BUDGET = ("pool_bytes", "max_concurrency_requests")
POOL = (
    "used_blocks",
    "cached_blocks",
    "peak_used_bytes",
    "shared_saved_blocks",
    "peak_used_blocks",
    "prefix_hit_ratio",
)


def model(name: str, kv_heads: int) -> ModelSpec:
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=128, head_dim_v=128)
    return ModelSpec(name=name, layers=(layer,) * 32, query_heads=32)


MODELS = {"mha": model("mha", 32), "gqa8": model("gqa8", 8), "mqa": model("mqa", 1)}


def record(ordinal: int, benchmark: str, engine: str, axes: Mapping[str, Any], **more: Any):
    """A cell; ``values`` maps (metric, evidence) to a value or a list of (t_us, value)."""
    values = more.pop("values", {})
    status = more.pop("status", Status.PASSED)
    params = {**axes, **more.pop("options", {})}
    identity = CellIdentity(
        cell_id=f"{ordinal:064x}",
        ordinal=ordinal,
        benchmark=benchmark,
        stage="size" if engine == "analytic" else "allocate",
        engine=engine,
        plugin=engine,
        engine_version="0.1.0",
        axes=axes,
        params=params,
    )
    series = tuple(_series(*key, value) for key, value in values.items())
    return CellRecord(identity=identity, status=status, series=series, attempt=1, **more)


def _series(metric: str, evidence: str, value: Any) -> MetricSeries:
    timed = isinstance(value, list)
    return MetricSeries(
        phase=Phase.MEASURE,
        repeat=0,
        metric=metric,
        evidence=evidence,
        values=tuple(float(v) for _, v in value) if timed else (float(value),),
        t_offsets_us=tuple(t for t, _ in value) if timed else (),
    )


def size_values(name: str, tokens: int, block: int = 16) -> dict[tuple[str, str], float]:
    arrangement = PagedLayout().arrange(MODELS[name], LayoutOptions(block_size=block))
    logical, paged = logical_bytes(MODELS[name], tokens), arrangement.paged_bytes(tokens)
    numbers = {
        "logical_bytes": logical,
        "paged_bytes": paged,
        "tail_waste_bytes": paged - logical,
        "fragmentation_ratio": (paged - logical) / paged,
        "pool_bytes": POOL_BYTES,
        "max_concurrency_requests": POOL_BYTES // paged,
    }
    return {(metric, "analytic"): value for metric, value in numbers.items()}


def replay_values(name: str, scale: int) -> dict[tuple[str, str], Any]:
    used = [(i * 50_000, round(200 * scale * (1 + math.sin(i / 9)))) for i in range(120)]
    peak = max(value for _, value in used)
    block_bytes = PagedLayout().arrange(MODELS[name], LayoutOptions()).bytes_per_block
    return {
        ("used_blocks", "simulated"): used,
        ("cached_blocks", "simulated"): [(t, 500 - v // 2) for t, v in used],
        ("peak_used_blocks", "simulated"): peak,
        ("peak_used_bytes", "simulated"): peak * block_bytes,
        ("shared_saved_blocks", "simulated"): 37 * scale,
        ("prefix_hit_ratio", "simulated"): 0.3 + scale / 10,
    }


def cells() -> list[CellRecord]:
    found: list[CellRecord] = []
    for name, spec in MODELS.items():
        for tokens in CONTEXTS:
            found.append(_sized(len(found), "context", name, spec, tokens + 4, {}))
    for block in BLOCK_SIZES:
        axes = {"block_size": block}
        found.append(_sized(len(found), "block-size", "gqa8", MODELS["gqa8"], 4100, axes))
    for scale, name in enumerate(MODELS, start=1):
        found.append(
            record(
                len(found),
                "replay",
                "pool",
                {"model": name, "workload": "chat"},
                values=replay_values(name, scale),
                options={"block_size": 16},
                artifacts={"state table": "op      A      B\nfork    [0,1]  [0,1]\n"},
            )
        )
    found += _holes(len(found))
    return found


def _sized(ordinal, benchmark, name, spec, tokens, extra):
    return record(
        ordinal,
        benchmark,
        "analytic",
        {"model": name, "context_tokens": tokens, **extra},
        values=size_values(name, tokens, extra.get("block_size", 16)),
        options={"requests": 1, "kv_dtype": "bf16", "block_size": 16, **extra},
        artifacts={"geometry": geometry_json(spec)},
        assumptions=("weights are not part of the budget",),
    )


def _holes(start: int) -> list[CellRecord]:
    holes = [
        (Status.SKIPPED, "kv_exceeds_device", "needs 64 GiB, the device has 24 GiB"),
        (Status.FAILED, "oom", "CUDA out of memory"),
        (Status.UNSUPPORTED, "engine_unavailable", "vllm is not installed; pip install vllm"),
    ]
    return [
        record(
            start + index,
            "replay",
            "pool",
            {"model": "mha", "workload": f"long-{index}"},
            status=status,
            reason=reason,
            error=error,
        )
        for index, (status, reason, error) in enumerate(holes)
    ]


def metrics() -> dict[tuple[str, str], Metric]:
    found = [shared(name, Evidence.ANALYTIC, exact=True) for name in (*ANALYTIC, *BUDGET)]
    found += [shared(name, Evidence.SIMULATED, exact=True) for name in POOL]
    return {(metric.name, str(metric.evidence)): metric for metric in found}


def pair(tokens: int, ratio: float) -> PairVerdict:
    return PairVerdict(
        comparison="GQA-8 over MHA",
        benchmark="context",
        engine="analytic",
        vary="model",
        base="mha",
        new="gqa8",
        where={"context_tokens": tokens},
        metric="paged_bytes",
        evidence="analytic",
        base_evidence="analytic",
        unit="bytes",
        direction="lower",
        base_n=1,
        new_n=1,
        base_median=tokens * 524288.0,
        new_median=tokens * 524288.0 * ratio,
        ratio=ratio,
        verdict=Verdict.BETTER,
        reason="exact metric",
    )


def metadata(**changes: Any) -> RunMetadata:
    met = ExpectVerdict(
        name="GQA-8 needs a quarter",
        benchmark="context",
        engine="analytic",
        where={"model": "gqa8", "context_tokens": 4100},
        metric="paged_bytes",
        evidence="analytic",
        unit="ratio",
        relation="= 0.25",
        observed=0.25,
        status=ExpectStatus.MET,
    )
    values: dict[str, Any] = {
        "run_id": "20261129T120000-abc123",
        "kvbench_version": "0.1.0",
        "suite_name": "sample",
        "suite_description": "MHA, GQA and MQA of the same shape",
        "suite_toml": 'schema = 1\n[suite]\nname = "sample"\n',
        "suite_sha256": "0" * 64,
        "command": ("kvbench", "run", "suites/sample.toml"),
        "started_at": "2026-11-29T12:00:00Z",
        "complete": True,
        "axis_types": {
            "model": "str",
            "context_tokens": "int",
            "block_size": "int",
            "workload": "str",
        },
        "metrics": metrics(),
        "environment": {"python": "3.11.7", "os": "Linux 6.1", "cpu_count": 2, "gpu": None},
        "benchmarks": (
            BenchmarkInfo(
                name="context",
                stage="size",
                engines=("analytic",),
                axes={"model": tuple(MODELS), "context_tokens": CONTEXTS},
            ),
        ),
        "comparisons": tuple(pair(tokens + 4, 0.25) for tokens in CONTEXTS),
        "expectations": (met,),
    }
    return RunMetadata(**{**values, **changes})


def sample_results(**changes: Any) -> Results:
    return build_results(cells(), metadata(**changes))
