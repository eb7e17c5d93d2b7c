"""How fast sizing is: in process, as a command, and over a grid of 100,000 points.

Run ``python benchmarks/size_speed.py``. Targets: 50 µs in process for a uniform model, 500 µs for
a 61-layer hybrid with its engine layout, 0.2 s for the command, 10 s for the grid.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_size
from kvbench_vllm.layout import VllmLayout

COMMAND = [sys.executable, "-m", "kvbench", "size"]
CONFIG = """{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
"num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}"""


def microseconds(function: Callable[[], object], number: int = 300) -> float:
    return min(timeit.repeat(function, number=number, repeat=5)) / number * 1e6


def in_process() -> None:
    options = LayoutOptions()
    for name in (
        "Llama-3.1-8B",
        "DeepSeek-V3",
        "gemma-3-27b-it",
        "Qwen3-Next-80B-A3B",
        "DeepSeek-V4-Flash",
    ):
        model = load_model(name)
        figures = {
            "logical": microseconds(lambda m=model: logical_size(m, 8192)),
            "paged": microseconds(lambda m=model: PagedLayout().arrange(m, options)),
            "vllm": microseconds(lambda m=model: VllmLayout().arrange(m, options)),
        }
        shown = "  ".join(f"{key} {value:7.1f} µs" for key, value in figures.items())
        print(f"{name:<22} {len(model.layers):>4} caches  {shown}")


def wall_s(arguments: list[str], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return times


def commands() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(CONFIG, encoding="utf-8")
        for label, extra in (("paged", []), ("vllm", ["--layout", "vllm"])):
            times = wall_s([str(path), "--format", "json", *extra], 9)
            print(
                f"kvbench size CONFIG.json ({label}): median {statistics.median(times):.3f} s, "
                f"best {min(times):.3f} s"
            )
    grid = [
        "Llama-3.1-8B",
        "gemma-3-27b-it",
        "--tokens",
        "16:400000:16",
        "--kv-dtype",
        "bf16,fp8",
        "--layout",
        "vllm",
        "--format",
        "csv",
    ]
    print(f"grid of 100,000 points: {wall_s(grid, 1)[0]:.2f} s")


if __name__ == "__main__":
    in_process()
    commands()
