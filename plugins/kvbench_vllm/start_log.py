"""Figures in a vLLM start-up log (releases 0.4 to 0.32) or a page of its metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kvbench.explain.rounding import Rounded

_NUMBER = r"(-?[\d,]+(?:\.\d+)?)"
_SIZE = rf"{_NUMBER}\s*G(?:i)?B"

#: Every figure with the lines that state it, first match wins. Logs say GB where they mean GiB.
PATTERNS: dict[str, tuple[str, ...]] = {
    "loading_gib": (
        rf"Model loading took {_SIZE}",
        rf"Loading model weights took {_SIZE}",
        rf"weights memory: {_SIZE}",
        rf"model weights take {_SIZE}",
        rf"Actual usage is {_SIZE} for weight",
    ),
    "weights_gib": (
        rf"model weights take {_SIZE}",
        rf"weights memory: {_SIZE}",
        rf"Actual usage is {_SIZE} for weight",
    ),
    "total_gib": (
        rf"total_gpu_memory \({_SIZE}\)",
        rf"Free memory on device[^(]*\([\d.]+/{_SIZE}\)",
    ),
    "utilization": (
        rf"gpu_memory_utilization \({_NUMBER}\)",
        rf"memory utilization is \({_NUMBER},",
        r"--gpu-memory-utilization=(\d\.\d+)",
        rf"gpu_memory_utilization['\"]?[:=]\s*{_NUMBER}",
    ),
    "requested_gib": (
        rf"gpu_memory_utilization \([\d.]+\) = {_SIZE}",
        rf"memory utilization is \([\d.]+, {_SIZE}\)",
        rf"Requested memory: [\d.]+ \(util\), {_SIZE}",
    ),
    "activation_gib": (
        rf"PyTorch activation peak memory takes {_SIZE}",
        rf"torch peak memory increase: {_SIZE}",
        rf"{_SIZE} for peak activation",
    ),
    "non_torch_gib": (
        rf"non_torch_memory takes {_SIZE}",
        rf"non-torch forward increase memory: {_SIZE}",
        rf"{_SIZE} for non-torch memory",
    ),
    "non_kv_gib": (rf"Total non KV cache memory: {_SIZE}",),
    "graph_estimate_gib": (rf"Estimated CUDA graph memory: {_SIZE}",),
    "graph_gib": (
        rf"Graph capturing finished[^\n]*took {_SIZE}",
        rf"{_SIZE} for CUDAGraph memory",
        rf"CUDA graph pool memory: {_SIZE}",
    ),
    "available_gib": (
        rf"Available KV cache memory:? {_SIZE}",
        rf"reserved for KV Cache is {_SIZE}",
        rf"available KV cache memory \({_SIZE}\)",
    ),
    "kv_bytes": (
        r"kv cache memory in use is ([\d,]+) bytes",
        r"kv_cache_memory_bytes=\"(\d+)\"",
    ),
    "num_blocks": (
        r"# (?:GPU|CUDA|cuda) blocks:? ([\d,]+)",
        r"num_gpu_blocks is:? ([\d,]+)",
        r"num_blocks\s*=\s*([\d,]+)",
        r"num_gpu_blocks=\"(\d+)\"",
    ),
    "tokens": (
        r"GPU KV cache size:? ([\d,]+) tokens",
        r"stored in (?:the )?KV cache \(([\d,]+)\)",
        r"kv_cache_size_tokens=\"(\d+)\"",
    ),
    "concurrency": (
        rf"Maximum concurrency(?: for [\d,]+ tokens per request)?:? {_NUMBER}x",
        rf"kv_cache_max_concurrency=\"{_NUMBER}\"",
    ),
    "concurrency_len": (r"Maximum concurrency for ([\d,]+) tokens per request",),
    "max_len": (
        r"max seq len \(([\d,]+)\)",
        r"max_seq_len=([\d,]+)",
        r"max_model_len['\"]?[:=]\s*([\d,]+)",
    ),
    "needed_gib": (rf"{_SIZE} KV cache is needed",),
    "estimated_len": (r"estimated maximum model length is ([\d,]+)",),
    "block_size": (
        r"Setting attention block size to ([\d,]+)",
        r"Setting kv cache block size to ([\d,]+)",
        r"block_size=\"(\d+)\"",
        r"block_size['\"]?[:=]\s*(\d+)",
    ),
    "attention_block": (r"Setting attention block size to ([\d,]+)",),
    "state_padding_pct": (rf"Padding mamba page size by {_NUMBER}%",),
    "padding_layers": (r"Add ([\d,]+) padding layers",),
    "waste_pct": (rf"may waste at most {_NUMBER}% KV cache memory",),
    "max_num_seqs_refused": (r"max_num_seqs \(([\d,]+)\) exceeds available Mamba cache blocks",),
    "state_blocks": (r"available Mamba cache blocks \(([\d,]+)\)",),
    "batched_tokens": (r"max_num_batched_tokens['\"]?[:=]\s*([\d,]+)",),
    "tp": (r"tensor_parallel_size['\"]?[:=]\s*([\d,]+)", r"--tensor-parallel-size[= ](\d+)"),
    "pp": (r"pipeline_parallel_size['\"]?[:=]\s*([\d,]+)",),
}  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    "version": (
        r"LLM engine \(v?([\w.+-]+)\)",
        r"vLLM API server version:? v?([\w.+-]+)",
    ),
    "model": (r"with config: model='([^'\n]+)'", r"Starting to load model (\S+?)\.\.\."),
    "kv_dtype": (
        r"kv_cache_dtype['\"]?[:=]\s*['\"]?(?:torch\.)?([a-z]\w+)",
        r"--kv-cache-dtype[= ](\w+)",
        r"cache_dtype=\"(\w+)\"",
    ),
}
_SIGNS = (
    "KV cache", "GPU blocks", "CUDA blocks", "cuda blocks", "gpu_memory_utilization",
    "vllm:cache_config_info", "Mamba cache blocks", "mamba page size",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLog:
    """Figures of one log.

    Attributes:
        numbers: Figures by name (``PATTERNS``), as printed.
        words: Version, model and cache type, as printed.
    """

    numbers: dict[str, Rounded] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        """Whether every one of ``names`` was found."""
        return all(name in self.numbers for name in names)

    def value(self, name: str) -> float:
        """The figure called ``name``."""
        return self.numbers[name].value

    def count(self, name: str, default: int | None = None) -> int | None:
        """The whole figure called ``name``."""
        return int(self.numbers[name].value) if name in self.numbers else default


def read_start_log(text: str) -> StartLog | None:
    """Read every figure; ``None`` when the text is not vLLM's."""
    if not any(sign in text for sign in _SIGNS):
        return None
    numbers = {}
    for name, patterns in PATTERNS.items():
        found = _first(patterns, text)
        if found is not None and (digits := found.replace(",", "")).strip("-."):
            numbers[name] = Rounded(text=digits)
    if "available_gib" not in numbers and "kv_bytes" in numbers:
        gib = numbers["kv_bytes"].value / 2**30
        numbers["available_gib"] = Rounded(text=f"{gib:.9f}")
    words = {name: found for name, each in _WORDS.items() if (found := _first(each, text))}
    return StartLog(numbers=numbers, words=words) if numbers else None


def _first(patterns: tuple[str, ...], text: str) -> str | None:
    for pattern in patterns:
        match = re.search(pattern, text)
        if match is not None:
            return match[1]
    return None
