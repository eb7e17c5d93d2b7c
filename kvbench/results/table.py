"""Results in memory: two Arrow tables and the run's metadata, with pandas views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvbench.results.metadata import RunMetadata
from kvbench.results.schema import PARAM_PREFIX, Phase, Status

if TYPE_CHECKING:
    import pandas as pd

_STRING = pa.string()
_PARAM_TYPES = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": _STRING}


def samples_schema() -> pa.Schema:
    """Schema of ``samples.parquet``: one row for each value of each repeat, no summaries."""
    return pa.schema(
        [
            pa.field("run_id", _STRING, nullable=False),
            pa.field("cell_id", _STRING, nullable=False),
            pa.field("repeat", pa.int32(), nullable=False),
            pa.field("sample", pa.int32(), nullable=False),
            pa.field("phase", _STRING, nullable=False),
            pa.field("metric", _STRING, nullable=False),
            pa.field("unit", _STRING, nullable=False),
            pa.field("evidence", _STRING, nullable=False),
            pa.field("value", pa.float64(), nullable=False),
            pa.field("t_offset_us", pa.int64()),
        ]
    )


def cells_schema(axis_types: Mapping[str, str]) -> pa.Schema:
    """Schema of ``cells.parquet``: one row for each cell of the plan, run or not.

    Args:
        axis_types: Axis name to ``int``, ``float``, ``bool`` or ``str``.
    """
    return pa.schema(
        [
            pa.field("run_id", _STRING, nullable=False),
            pa.field("cell_id", _STRING, nullable=False),
            pa.field("ordinal", pa.int32(), nullable=False),
            pa.field("suite", _STRING, nullable=False),
            pa.field("benchmark", _STRING, nullable=False),
            pa.field("stage", _STRING, nullable=False),
            pa.field("engine", _STRING, nullable=False),
            pa.field("plugin", _STRING, nullable=False),
            pa.field("config_id", _STRING, nullable=False),
            pa.field("engine_version", _STRING),
            pa.field("engine_distribution", _STRING),
            pa.field("cache", _STRING, nullable=False),
            pa.field("seed", pa.uint64(), nullable=False),
            *(
                pa.field(f"{PARAM_PREFIX}{axis}", _PARAM_TYPES[kind])
                for axis, kind in axis_types.items()
            ),
            pa.field("params_json", _STRING, nullable=False),
            pa.field("effective_json", _STRING),
            pa.field("status", _STRING, nullable=False),
            pa.field("reason", _STRING),
            pa.field("error", _STRING),
            pa.field("log_path", _STRING),
            pa.field("attempt", pa.int32(), nullable=False),
            pa.field("order_index", pa.int32()),
            pa.field("started_at", pa.timestamp("us", tz="UTC")),
            pa.field("setup_s", pa.float64()),
            pa.field("wall_s", pa.float64()),
            pa.field("measure_s", pa.float64()),
            pa.field("assumptions_json", _STRING, nullable=False),
            pa.field("warnings_json", _STRING, nullable=False),
            pa.field("artifacts_json", _STRING, nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """A run's results.

    Attributes:
        cells: One row for each cell, by ordinal (``cells_schema``).
        samples: One row for each value, by (ordinal, phase, repeat, metric, evidence, sample),
            warm-ups first (``samples_schema``).
        metadata: What holds for the run as a whole.
    """

    cells: pa.Table
    samples: pa.Table
    metadata: RunMetadata

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.metadata.run_id

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes that have a ``param_<axis>`` column."""
        prefix = len(PARAM_PREFIX)
        return tuple(n[prefix:] for n in self.cells.column_names if n.startswith(PARAM_PREFIX))

    def measured(self) -> pa.Table:
        """Samples that may be aggregated: measured ones of passed cells, invalid cells left out."""
        passed = self.cells.filter(pc.equal(self.cells["status"], str(Status.PASSED)))
        counts = pc.and_(
            pc.equal(self.samples["phase"], str(Phase.MEASURE)),
            pc.is_in(self.samples["cell_id"], value_set=passed["cell_id"].combine_chunks()),
        )
        return self.samples.filter(counts)

    def only(self, benchmarks: Iterable[str]) -> Results:
        """Return the cells of these benchmarks, with their samples."""
        wanted = pa.array(sorted(set(benchmarks)), _STRING)
        cells = self.cells.filter(pc.is_in(self.cells["benchmark"], value_set=wanted))
        ids = cells["cell_id"].combine_chunks()
        samples = self.samples.filter(pc.is_in(self.samples["cell_id"], value_set=ids))
        return Results(cells=cells, samples=samples, metadata=self.metadata)

    def frame(self) -> pd.DataFrame:
        """Return the samples, each with its cell's columns, as pandas with Arrow types.

        Warm-ups and invalid cells are in it: filter on ``phase`` and ``status``.
        """
        places = pc.index_in(self.samples["cell_id"], value_set=self.cells["cell_id"])
        joined = self.samples
        for field in self.cells.schema:
            if field.name not in joined.column_names:
                joined = joined.append_column(field, self.cells[field.name].take(places))
        return _pandas(joined)

    def cells_frame(self) -> pd.DataFrame:
        """Return the cells as pandas with Arrow types."""
        return _pandas(self.cells)

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer in sentences, then the first values."""
        # Loaded here only: results know nothing of reports until somebody looks at them.
        from kvbench.report.exports import notebook_html

        return notebook_html(self)


def _pandas(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame
