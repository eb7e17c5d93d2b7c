"""Decision logs of vLLM's own scheduler, and their workloads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvbench.workload.traces import Trace, open_trace
from kvbench_pool.digest import StepDigest, first_difference
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.simulation import RequestRecord, Simulation
from tests.conftest import SHARED, shared_path

FOLDER = "truth/vllm_scheduler"

_TRACES = {
    "mooncake_conversation": "traces/mooncake/conversation_trace.jsonl",
    "mooncake_synthetic": "traces/mooncake/synthetic_trace.jsonl",
    "azure_conv": "traces/azure2023/AzureLLMInferenceTrace_conv.csv",
    "azure_code": "traces/azure2023/AzureLLMInferenceTrace_code.csv",
    "sharegpt_llama": "traces/llmservingsim/sharegpt-llama-3.1-8b-300-sps10.jsonl",
}


def log_names() -> list[str]:
    """Names of all logs in the folder, without suffix."""
    paths = sorted((SHARED / FOLDER).glob("*.jsonl"))
    return [path.stem for path in paths if path.stem != "semantics"]


class DecisionLog:
    """One log: its configuration, its requests' ends and its summary."""

    def __init__(self, path: Path) -> None:
        rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        self._path = path
        self._stated = next(row for row in rows if row["type"] == "config")
        self.requests = [row for row in rows if row["type"] == "req"]
        self.summary = rows[-1]

    def trace(self) -> Trace:
        """Open the trace that was replayed."""
        path = shared_path(_TRACES[self._stated["trace"]])
        return open_trace(path, limit=self._stated["limit"])

    def config(self) -> PoolConfig:
        """Return the configuration that was replayed."""
        stated = self._stated
        groups: tuple[CacheGroup, ...] = (FULL,)
        if stated["window"]:
            groups = (CacheGroup(kind=GroupKind.SLIDING, window_tokens=stated["window"]),)
        if stated["hybrid"]:
            sliding = CacheGroup(kind=GroupKind.SLIDING, window_tokens=stated["hybrid"])
            groups = (FULL, sliding)
        return PoolConfig(
            num_blocks=stated["blocks"],
            block_size=stated["bs"],
            max_num_seqs=stated["max_num_seqs"],
            max_num_batched_tokens=stated["budget"],
            watermark=stated["watermark"],
            enable_prefix_caching=not stated["no_cache"],
            reserve_full_prompt=not stated["no_reserve"],
            async_scheduling=stated["async_sched"],
            groups=groups,
            step_ms=stated["dt"],
        )

    def steps(self) -> Iterator[str]:
        """Yield the records of the steps, where the log has them."""
        path = self._path.with_name(f"{self._path.stem}.events.txt.gz")
        if path.exists():
            with gzip.open(path, "rt") as stream:
                yield from (line.rstrip("\n") for line in stream)


class CheckedDigest(StepDigest):
    """Digests steps and keeps the first one that differs from the expected records."""

    def __init__(self, expected: Iterator[str]) -> None:
        self._expected = expected
        self.difference = ""
        super().__init__(sink=self._compare)

    def _compare(self, line: str) -> None:
        expected = next(self._expected, None)
        if expected is not None and expected != line and not self.difference:
            step = expected.split("|")[0]
            self.difference = f"first difference in step {step}: {first_difference(expected, line)}"


def request_row(record: RequestRecord) -> dict[str, int]:
    """Return a record by the names of the log."""
    return {
        "i": record.index,
        "n_in": record.prompt_tokens,
        "n_out": record.output_tokens,
        "arrive": record.arrive_step,
        "first": record.first_step,
        "cached": record.hit_tokens,
        "preempts": record.preemptions,
        "recached": record.rehit_tokens,
        "finish": record.finish_step,
        "blocks": record.blocks,
    }


def assert_equal(log: DecisionLog, simulation: Simulation, digest: CheckedDigest) -> None:
    """Fail with the first differing step, or the first differing figure."""
    assert not digest.difference, digest.difference
    summary = simulation.summary()
    assert {name: log.summary[name] for name in summary} == summary
    records = {record.index: request_row(record) for record in simulation.records}
    for row in log.requests:
        assert {name: row[name] for name in records[row["i"]]} == records[row["i"]]
    assert len(records) == len(log.requests)
