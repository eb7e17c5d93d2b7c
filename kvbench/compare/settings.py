"""What two runs were told differently: options of their cells at the same place."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from kvbench.engine import Scalar
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.table import Results

#: Name, value in the base, value in the new run.
Setting = tuple[str, Scalar | None, Scalar | None]


def setting_changes(base: Results, new: Results) -> tuple[Setting, ...]:
    """Return the options in which paired cells differ, those of the most cells first.

    Cells are paired as runs are compared: by benchmark, engine and axes. A setting is named
    ``option utilization``; where it differs in some pairs only the name says in how many.
    """
    bases, news = _options(base), _options(new)
    pairs = [(bases[place], news[place]) for place in bases if place in news]
    counts: Counter[Setting] = Counter()
    for old, now in pairs:
        names = sorted(name for name in old.keys() | now.keys() if old.get(name) != now.get(name))
        counts.update((name, old.get(name), now.get(name)) for name in names)
    return tuple(
        (f"option {name}{_share(count, len(pairs))}", old, now)
        for (name, old, now), count in counts.most_common()
    )


def _share(count: int, pairs: int) -> str:
    return "" if count == pairs else f" ({count:,} of {pairs:,} cells)"


def _options(results: Results) -> dict[tuple[Any, ...], dict[str, Scalar]]:
    names = [name for name in results.cells.column_names if name.startswith(PARAM_PREFIX)]
    rows = results.cells.select(["benchmark", "engine", "params_json", *names]).to_pylist()
    return {
        (
            row["benchmark"],
            row["engine"],
            *((name, row[name]) for name in sorted(names) if row[name] is not None),
        ): json.loads(row["params_json"])
        for row in rows
    }
