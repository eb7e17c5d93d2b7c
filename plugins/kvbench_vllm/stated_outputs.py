"""Makes vLLM sample the output tokens of a workload, by its own extension point.

A conversation's next prompt repeats the answers before it. With sampled answers the cached
blocks that hold their beginnings would never be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

#: Key of ``SamplingParams.extra_args`` under which a request states its output.
OUTPUT_IDS = "kvbench_output_ids"


class StatedOutputs(AdapterLogitsProcessor):  # type: ignore[misc]
    """Leaves only the stated token possible."""

    def is_argmax_invariant(self) -> bool:
        """Greedy sampling is steered as well."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], Any], Any] | None:
        """The processor of one request, ``None`` when it states no output."""
        stated = (params.extra_args or {}).get(OUTPUT_IDS)
        return None if stated is None else _only(stated)


def _only(stated: Sequence[int]) -> Callable[[list[int], Any], Any]:
    def process(output_ids: list[int], logits: Any) -> Any:
        logits.fill_(float("-inf"))
        logits[stated[len(output_ids)]] = 0.0
        return logits

    return process
