"""A workload as a suite states it, before any request exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """Recipe of a workload; ``kvbench.workload.load.open_workload`` makes its requests.

    Attributes:
        name: Name of the ``[workloads.NAME]`` table.
        kind: ``constant``, ``lognormal``, ``shared_prefix``, ``trace`` … (see ``load.KINDS``).
        params: The table's other keys, checked by ``load.check_params``.
        path: Trace file, resolved against the suite's folder; ``None`` for generators.
        sha256: Digest of the trace file, part of the cell's identity; empty for generators.
    """

    name: str
    kind: str
    params: Mapping[str, object] = field(default_factory=dict)
    path: Path | None = None
    sha256: str = ""
