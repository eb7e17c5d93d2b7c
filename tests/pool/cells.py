"""Cells of the pool engine without a suite around them."""

from __future__ import annotations

from pathlib import Path

from kvbench.engine import Cell, CellOutput, Evidence, Scalar, Stage
from kvbench.model.spec import FullLayer, ModelSpec
from kvbench.workload.load import parse_workload
from kvbench_pool.options import OPTIONS
from kvbench_pool.plugin import kvbench_allocate

DEFAULTS = {option.name: option.default for option in OPTIONS if option.default is not None}


def dense_model(kv_heads: int = 8, layers: int = 32, context: int | None = None) -> ModelSpec:
    """A model of full-attention layers of head dimension 128 in bf16."""
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=128, head_dim_v=128)
    return ModelSpec(name=f"dense{kv_heads}", layers=(layer,) * layers, max_context_tokens=context)


def make_cell(
    *,
    model: ModelSpec | None = None,
    workload: dict[str, object] | None = None,
    base: Path = Path(),
    **settings: Scalar,
) -> Cell:
    """Return a cell with the plugin's defaults and these settings."""
    return Cell(
        cell_id="test",
        ordinal=0,
        benchmark="test",
        stage=Stage.ALLOCATE,
        engine="pool",
        plugin="pool",
        axes={},
        settings={**DEFAULTS, **settings},
        model=model,
        workload=None if workload is None else parse_workload("w", workload, base),
    )


def allocate(**arguments: object) -> CellOutput:
    """Run one cell; every observation must be registered and simulated."""
    from kvbench_pool.pool_metrics import METRICS

    output = kvbench_allocate(cell=make_cell(**arguments), session=None)  # type: ignore[arg-type]
    registered = {metric.name for metric in METRICS}
    for observation in output.observations:
        assert observation.evidence is Evidence.SIMULATED
        assert observation.metric in registered
    return output


def values(output: CellOutput, metric: str) -> list[float]:
    """Return the observed values of one metric, in order."""
    return [one.value for one in output.observations if one.metric == metric]


def value(output: CellOutput, metric: str) -> float:
    """Return the only observed value of one metric."""
    (found,) = values(output, metric)
    return found
