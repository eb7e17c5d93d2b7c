"""The catalog's figures. Memory in GiB as a process is told it, board memory in MiB.

``memory`` is the total that ``cudaMemGetInfo`` (or ``hipMemGetInfo``) gives a process, as it is
quoted in PyTorch's out-of-memory messages ("has a total capacity of 79.19 GiB") and in engines'
start-up logs, as (lowest, usual, highest) over the drivers and board variants seen in public
reports. ``board`` is the total that ``nvidia-smi`` prints. Bandwidth (GB/s) and dense bf16 peak
(TFLOP/s, FP32 accumulate, no sparsity) are the vendors' datasheet figures.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One device; see the module for units."""

    memory: tuple[float, float, float]
    board: int
    bandwidth: int
    tflops: float
    datasheet: str


#: Totals quoted to two decimals, so each is good to 0.005 GiB.
ROWS: dict[str, Row] = {
    "a100-40g": Row((39.38, 39.49, 39.56), 40960, 1555, 312, "NVIDIA A100 datasheet (40 GB)"),
    "a100-80g": Row((79.14, 79.25, 79.33), 81920, 2039, 312, "NVIDIA A100 datasheet (80 GB SXM)"),
    "h100-80g": Row((79.10, 79.19, 79.22), 81559, 3350, 989, "NVIDIA H100 datasheet (SXM)"),
    "h100-pcie": Row((79.10, 79.19, 79.22), 81559, 2000, 756, "NVIDIA H100 datasheet (PCIe)"),
    "h100-nvl": Row((93.00, 93.10, 93.12), 95830, 3900, 835, "NVIDIA H100 datasheet (NVL)"),
    "h20": Row((94.97, 95.10, 95.22), 97871, 4000, 148, "NVIDIA H20 product brief"),
    "h200": Row((139.72, 139.80, 139.81), 143771, 4800, 989, "NVIDIA H200 datasheet (SXM)"),
    "h200-nvl": Row((139.72, 139.80, 139.81), 143771, 4800, 835, "NVIDIA H200 datasheet (NVL)"),
    "gh200-96g": Row((94.50, 94.50, 95.00), 97871, 4000, 989, "NVIDIA GH200 datasheet (96 GB)"),
    "b200": Row((178.35, 178.35, 178.36), 183359, 8000, 2250, "NVIDIA DGX B200 datasheet, per GPU"),
    "gb200": Row((184.31, 184.31, 184.31), 0, 8000, 2500, "NVIDIA GB200 NVL72 datasheet, per GPU"),
    "b300": Row((267.69, 267.69, 267.69), 275040, 8000, 2250, "NVIDIA HGX B300 datasheet, per GPU"),
    "gb10": Row(
        (119.18, 119.63, 121.69), 0, 273, 125, "NVIDIA DGX Spark datasheet (shared memory)"
    ),
    "l4": Row((21.95, 22.03, 22.17), 23034, 300, 121, "NVIDIA L4 datasheet"),
    "l20": Row((44.34, 44.42, 44.53), 46068, 864, 119.5, "NVIDIA L20 product brief"),
    "l40s": Row((44.39, 44.42, 44.53), 46068, 864, 362, "NVIDIA L40S datasheet"),
    "a10": Row((21.96, 22.06, 22.20), 23028, 600, 125, "NVIDIA A10 datasheet"),
    "a40": Row((44.34, 44.42, 44.56), 46068, 696, 149.7, "NVIDIA A40 datasheet"),
    "t4": Row((14.56, 14.57, 14.74), 15360, 320, 65, "NVIDIA T4 datasheet (fp16; no bf16)"),
    "rtx-3090": Row((23.56, 23.68, 23.69), 24576, 936, 71, "NVIDIA Ampere GA102 whitepaper"),
    "rtx-4090": Row((23.50, 23.52, 23.65), 24564, 1008, 165.2, "NVIDIA Ada whitepaper"),
    "rtx-5090": Row((31.34, 31.36, 31.39), 32607, 1792, 209.5, "NVIDIA RTX Blackwell whitepaper"),
    "rtx-a6000": Row((47.27, 47.43, 47.54), 49140, 768, 154.8, "NVIDIA RTX A6000 datasheet"),
    "rtx-6000-ada": Row((47.27, 47.40, 47.53), 49140, 960, 364.2, "NVIDIA RTX 6000 Ada datasheet"),
    "rtx-pro-6000": Row(
        (94.96, 94.97, 95.01), 97887, 1792, 503.8, "NVIDIA RTX Blackwell PRO whitepaper"
    ),
    "mi300x": Row((191.69, 191.98, 191.98), 0, 5300, 1307.4, "AMD Instinct MI300X data sheet"),
    "mi325x": Row((255.69, 255.98, 255.98), 0, 6000, 1307.4, "AMD Instinct MI325X data sheet"),
    "mi350x": Row((287.69, 287.98, 287.98), 0, 8000, 2306.9, "AMD Instinct MI350X data sheet"),
    "mi355x": Row((287.69, 287.98, 287.98), 0, 8000, 2516.6, "AMD Instinct MI355X data sheet"),
}

#: Dense fp8 peaks (TFLOP/s, FP32 accumulate) of the same data sheets, where they state them
#: beyond doubt; NVIDIA prints twice as much, with sparsity.
FP8_TFLOPS: dict[str, float] = {
    "h100-80g": 1979,
    "h100-pcie": 1513,
    "h100-nvl": 1670.5,
    "h200": 1979,
    "h200-nvl": 1670.5,
    "gh200-96g": 1979,
    "l4": 242.5,
    "l40s": 733,
    "mi300x": 2614.9,
    "mi325x": 2614.9,
}

#: Totals known to the byte, with where they were read.
EXACT_BYTES: dict[str, tuple[int, str]] = {
    "rtx-4090": (25_250_627_584, "total of a public vLLM 0.19.0 run (casys-kaist/LLMServingSim)"),
}

#: Other names in use.
ALIASES: dict[str, str] = {
    "h100": "h100-80g",
    "h100-sxm": "h100-80g",
    "h100-hbm3": "h100-80g",
    "h100-94g": "h100-nvl",
    "gh200": "gh200-96g",
    "a100-sxm4-40g": "a100-40g",
    "a100-pcie-40g": "a100-40g",
    "a100-sxm4-80g": "a100-80g",
    "a100-pcie-80g": "a100-80g",
    "h100-80g-hbm3": "h100-80g",
    "a10g": "a10",
    "3090": "rtx-3090",
    "4090": "rtx-4090",
    "5090": "rtx-5090",
    "a6000": "rtx-a6000",
    "6000-ada": "rtx-6000-ada",
    "pro-6000": "rtx-pro-6000",
    "rtx-pro-6000-blackwell": "rtx-pro-6000",
    "rtx-pro-6000-96g": "rtx-pro-6000",
    "dgx-spark": "gb10",
}
