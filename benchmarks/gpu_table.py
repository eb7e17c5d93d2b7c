"""Print a short table of the decode cells under a folder: ``python gpu_table.py FOLDER``.

Every row says on which backend it ran. Time and bandwidth are only in rows that a device measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

COLUMNS = {
    "error_ratio": ("error", "{:.1e}"),
    "decode_s": ("decode µs", "{:.1f}"),
    "moved_bytes_per_s": ("GB/s", "{:.0f}"),
    "of_copy_ratio": ("of copy", "{:.0%}"),
    "of_read_ratio": ("of read", "{:.0%}"),
}
SCALES = {"decode_s": 1e6, "moved_bytes_per_s": 1e-9}


def decode_rows(run: Path) -> list[list[str]]:
    """One row per cell of stage ``measure``."""
    cells = pd.read_parquet(run / "cells.parquet")
    samples = pd.read_parquet(run / "samples.parquet")
    measured = samples[samples["phase"] == "measure"]
    medians = measured.groupby(["cell_id", "metric"])["value"].median()
    rows = []
    for _, cell in cells[cells["stage"] == "measure"].iterrows():
        effective = json.loads(cell["effective_json"] or "{}")
        axes = " ".join(
            f"{name.removeprefix('param_')}={_plain(cell[name])}"
            for name in cells.columns
            if name.startswith("param_") and pd.notna(cell[name])
        )
        figures = [_figure(medians, cell["cell_id"], metric) for metric in COLUMNS]
        rows.append([run.name, axes, effective.get("backend", "-"), cell["status"], *figures])
    return rows


def _plain(value: object) -> object:
    """Whole numbers without the decimals that a column with holes gave them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _figure(medians: pd.Series, cell_id: str, metric: str) -> str:
    value = medians.get((cell_id, metric))
    return "-" if value is None else COLUMNS[metric][1].format(value * SCALES.get(metric, 1))


def main(folder: Path) -> None:
    """Print the table in Markdown."""
    header = ["run", "cell", "backend", "status", *(title for title, _ in COLUMNS.values())]
    print(f"| {' | '.join(header)} |")
    print(f"| {' | '.join('---' for _ in header)} |")
    for path in sorted(folder.glob("*/cells.parquet")):
        for row in decode_rows(path.parent):
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
