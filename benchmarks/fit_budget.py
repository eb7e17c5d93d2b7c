"""Fit the constants of the memory budget to public start-up reports, and say how far off they are.

    python benchmarks/fit_budget.py [STARTUP_LOGS_FOLDER]

Reads ``benchmarks/data/startup_terms.csv`` (per-term figures of vLLM 0.19 on an H100: the public
accuracy report of llm-d-planner's pull request 205) and, when a folder is given, the start-up
reports there (``dense.jsonl``, ``hybrid.jsonl``). Prints each run's residual, the leave-one-out
error of the sampler's constant, and how often the interval holds.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from kvbench.device.budget import make_budget
from kvbench.device.catalog import load_device
from kvbench.device.conditions import Conditions
from kvbench.device.estimate import Estimate
from kvbench.device.terms import (
    RESIDUAL_COPIES,
    SAMPLER_BYTES,
    VISION_BYTES,
    activation_term,
    non_torch_term,
)
from kvbench.model.spec import FullLayer, ModelSpec, Widths

DATA = Path(__file__).parent / "data" / "startup_terms.csv"
GIB = 2**30
TEXT = ("model", "config", "version", "device", "source")


def read_runs() -> list[dict[str, Any]]:
    with DATA.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [
        {key: value if key in TEXT else float(value) for key, value in row.items()} for row in rows
    ]


def spec_of(run: dict[str, Any]) -> ModelSpec:
    widths = Widths(
        vocabulary=int(run["vocabulary"]),
        inner=0 if run["experts_per_token"] else int(run["inner"]),
        experts_per_token=int(run["experts_per_token"]),
        expert_inner=int(run["expert_inner"]),
        has_vision=bool(run["vision"]),
    )
    layer = FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128)
    return ModelSpec(
        name=run["model"], layers=(layer,), hidden_size=int(run["hidden"]), widths=widths,
        weight_bytes=0, weight_source="stated",
    )  # fmt: skip


def conditions_of(run: dict[str, Any]) -> Conditions:
    major, minor = run["version"].split(".")[:2]
    return Conditions(
        device=load_device(run["device"]), utilization=0.95, tp=int(run["tp"]), pp=int(run["pp"]),
        tokens=int(run["tokens"]), sequences=min(int(run["sequences"]), int(run["tokens"])),
        version=(int(major), int(minor)),
    )  # fmt: skip


def sorts(run: dict[str, Any]) -> bool:
    """Whether the release sorted the logits: another constant, not fitted here."""
    return conditions_of(run).version < (0, 17)


def sampler_constant(runs: list[dict[str, Any]]) -> float:
    """Median of the bytes per logit of the dense runs in which the sampler sets the peak."""
    found = []
    for run in runs:
        layer = run["tokens"] * 2 * (3 * run["inner"] / run["tp"] + RESIDUAL_COPIES * run["hidden"])
        if run["experts_per_token"] or layer > 0.8 * run["activation_gib"] * GIB or sorts(run):
            continue
        rest = run["activation_gib"] * GIB - run["tokens"] * run["hidden"] * 2
        rest -= VISION_BYTES * run["vision"]
        found.append(rest / (run["sequences"] * run["vocabulary"]))
    return statistics.median(found)


def predicted(run: dict[str, Any], constant: float) -> float:
    """Peak activation in GiB with another constant than the shipped one."""
    term = activation_term(spec_of(run), conditions_of(run)).size.expected
    logits = run["sequences"] * run["vocabulary"]
    layer = run["tokens"] * 2 * (3 * run["inner"] / run["tp"] + RESIDUAL_COPIES * run["hidden"])
    sampler = logits * SAMPLER_BYTES + run["tokens"] * run["hidden"] * 2
    if sorts(run) or (run["experts_per_token"] == 0 and layer > sampler):
        return term / GIB
    return (term + logits * (constant - SAMPLER_BYTES)) / GIB


def leave_one_out(runs: list[dict[str, Any]]) -> list[float]:
    """Relative error of each model's peak by the constant fitted to the other models' runs."""
    errors = []
    for run in runs:
        others = [other for other in runs if other["model"] != run["model"]]
        errors.append(predicted(run, sampler_constant(others)) / run["activation_gib"] - 1)
    return errors


def holds(size: Estimate, gib: float) -> bool:
    return size.low <= gib * GIB + 0.005 * GIB and size.high >= gib * GIB - 0.005 * GIB


def report_terms(runs: list[dict[str, Any]]) -> None:
    print(f"{'run':28}{'tp':>3}{'peak':>7}{'by formula':>11}{'error':>8}{'left out':>9}")
    errors = leave_one_out(runs)
    for run, error in zip(runs, errors, strict=True):
        usual = predicted(run, SAMPLER_BYTES)
        print(
            f"{run['model']:28}{run['tp']:3.0f}{run['activation_gib']:7.2f}{usual:11.2f}"
            f"{usual / run['activation_gib'] - 1:+8.1%}{error:+9.1%}"
        )
    absolute = sorted(map(abs, errors))
    print(f"\nsampler: {sampler_constant(runs):.2f} bytes a logit fitted, {SAMPLER_BYTES} shipped")
    print(
        f"leave-one-out error of the peak: mean {statistics.mean(absolute):.1%}, median "
        f"{statistics.median(absolute):.1%}, worst {absolute[-1]:.1%} of {len(runs)} runs"
    )
    for name, term in (("activation", activation_term), ("non_torch", non_torch_term)):
        inside = [holds(term(spec_of(r), conditions_of(r)).size, r[f"{name}_gib"]) for r in runs]
        print(f"{name}: the interval holds {sum(inside)} of {len(inside)} runs")


def report_pools(folder: Path) -> None:
    """Available KV memory against the start-up reports that state enough for a budget."""
    print(f"\n{'report':44}{'logged GiB':>11}{'low':>8}{'expected':>9}{'high':>8}")
    for file in ("dense.jsonl", "hybrid.jsonl"):
        for line in (folder / file).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found = pool_of(row)
            if found is not None:
                low, middle, high = (size / GIB for size in (found.low, found.expected, found.high))
                mark = "" if low <= row["available_kv_gib"] <= high else "  outside"
                print(
                    f"{row['source'][:42]:44}{row['available_kv_gib']:11.2f}{low:8.2f}{middle:9.2f}"
                    f"{high:8.2f}{mark}"
                )


def pool_of(row: dict[str, Any]) -> Estimate | None:
    """The budget of one report, with the weights it states; ``None`` when it says too little."""
    from kvbench.errors import KvbenchError
    from kvbench.model.load import load_model

    needed = ("gpu", "model", "gpu_memory_utilization", "model_loading_gib", "available_kv_gib")
    if any(row.get(key) is None for key in needed) or str(row.get("engine", "vllm")) != "vllm":
        return None
    version = str(row.get("vllm_version") or row.get("engine_version") or "0.7").split(".")
    if len(version) < 2 or int(version[1]) < 10:
        return None
    try:
        model = load_model(row["model"].rpartition("/")[2].removesuffix("-Instruct"))
        device = load_device(row["gpu"] if row["gpu"] != "A100" else "a100-80g")
    except KvbenchError:
        return None
    at = Conditions(
        device=device, utilization=row["gpu_memory_utilization"], tp=row.get("tp") or 1,
        tokens=row.get("max_num_batched_tokens") or 2048, sequences=row.get("max_num_seqs") or 256,
        version=(int(version[0]), int(version[1])),
    )  # fmt: skip
    stated = {"weights": round(row["model_loading_gib"] * GIB)}
    return make_budget(model, at, stated).kv_bytes


def main() -> None:
    report_terms(read_runs())
    if len(sys.argv) > 1:
        report_pools(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
