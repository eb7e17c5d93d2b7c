"""The plugin's answer to ``kvbench explain``: a vLLM log taken apart."""

from __future__ import annotations

from kvbench.errors import ModelError
from kvbench.explain.finding import Explanation, Finding, Verdict
from kvbench.model.spec import ModelSpec
from kvbench_vllm.snapshot_rules import explain_page
from kvbench_vllm.start_log import StartLog, read_start_log
from kvbench_vllm.start_log_geometry import geometry_findings
from kvbench_vllm.start_log_words import memory_findings, pool_findings, unexplained


def explain_start_log(text: str, model: ModelSpec | None) -> Explanation | None:
    """Take apart a vLLM start-up log; ``None`` when the text is not one.

    Args:
        text: The log, or a page of ``/metrics``.
        model: The model; without one, the catalog entry that the log names.
    """
    log = read_start_log(text)
    if log is None:
        return None
    assumptions: list[str] = []
    if model is None:
        model = _named(log)
        if model is not None:
            assumptions.append(f"geometry of the catalog's {model.name}, which the log names")
    found = [*memory_findings(log), *pool_findings(log)]
    if model is not None:
        derived, inferred = geometry_findings(log, model)
        found = _merged(found, derived)
        assumptions += inferred
    found += unexplained(log, found)
    version = log.words.get("version", "")
    return Explanation(
        engine=f"vllm {version}".strip(),
        findings=tuple(found),
        assumptions=tuple(assumptions),
        state=explain_page(text),
    )


def _named(log: StartLog) -> ModelSpec | None:
    from kvbench.model.catalog import catalog_model

    name = log.words.get("model", "")
    if not name:
        return None
    try:
        return catalog_model(name.rstrip("/").rpartition("/")[2])
    except ModelError:
        return None


def _merged(found: list[Finding], derived: list[Finding]) -> list[Finding]:
    """Both, but what the geometry derives replaces the bare figure."""
    better = {each.figure for each in derived if each.verdict is not Verdict.CONTRADICTED}
    kept = [
        each for each in found
        if each.figure not in better or each.verdict is Verdict.CONTRADICTED
    ]  # fmt: skip
    return [*kept, *derived]
