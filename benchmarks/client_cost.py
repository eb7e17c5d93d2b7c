"""CPU seconds the streaming client spends on one request, against a real vLLM.

Usage: ``python benchmarks/client_cost.py [MODEL_FOLDER]``. One model with random weights is
served; 256 requests of 32 prompt and 16 output tokens are sent, 16 at a time, three times. The
thread's own CPU time is divided by the requests; the server's processes do not count.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kvbench.engine import EngineConfig
from kvbench.model.load import load_model
from kvbench_vllm.client import Prompt, checked, send_all
from kvbench_vllm.options import OPTIONS
from kvbench_vllm.prompts import tokens_of
from kvbench_vllm.server import serve

REQUESTS, CONCURRENCY, REPEATS = 256, 16, 3
DEFAULTS = {option.name: option.default for option in OPTIONS if option.default is not None}
MODEL = Path(__file__).resolve().parent.parent / "suites" / "data" / "models" / "tiny-llama-gqa"


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else str(MODEL)
    settings = {"block_size": 32, "budget_bytes": 64 << 20, "max_model_len": 1024}
    config = EngineConfig(
        engine="vllm",
        plugin="vllm",
        settings={**DEFAULTS, **settings},
        model=load_model(folder),
    )
    with serve(config) as server:
        for repeat in range(REPEATS):
            prompts = [
                Prompt(token_ids=tokens_of(f"{repeat} {index}", 32, 4096), output_tokens=16)
                for index in range(REQUESTS)
            ]
            load = checked(asyncio.run(send_all(server.endpoint, prompts, CONCURRENCY)))
            per_request_ms = load.client_cpu_s / REQUESTS * 1e3
            print(f"{per_request_ms:.3f} ms a request, {REQUESTS / load.wall_s:.1f} requests/s")


if __name__ == "__main__":
    main()
