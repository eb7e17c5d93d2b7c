"""Start-up lines of engines without a plugin of their own: SGLang and llama.cpp."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvbench.explain.finding import Explanation, Finding, Verdict
from kvbench.explain.rounding import GIB, Rounded
from kvbench.model.dtypes import kv_dtype
from kvbench.model.sizing import logical_size
from kvbench.model.spec import ModelSpec

_SGLANG = re.compile(
    r"#tokens: (?P<tokens>\d+)(?:, K size: (?P<k>[\d.]+) GB, V size: (?P<v>[\d.]+) GB"
    r"|, KV size: (?P<kv>[\d.]+) GB)?"
)
_SGLANG_TOTAL = re.compile(r"max_total_num_tokens=(\d+)")
_CELLS = (
    # llama_kv_cache: size = 768.00 MiB ( 32768 cells, 24 layers, 1/1 seqs), K (f16): 384.00 MiB, …
    re.compile(
        r"size\s*=\s*(?P<mib>[\d.]+) MiB \(\s*(?P<cells>\d+) cells,\s*(?P<layers>\d+) layers"
        r"[^)]*\)(?:, K \((?P<type>\w+)\):\s*(?P<k>[\d.]+) MiB, V \(\w+\):\s*(?P<v>[\d.]+) MiB)?"
    ),
)
_SELF = re.compile(
    r"KV self size\s*=\s*(?P<mib>[\d.]+) MiB, (?:c\^KV|K) \((?P<type>\w+)\):\s*(?P<k>[\d.]+) MiB"
)
_MIB = 2**20


def explain_other_log(text: str, model: ModelSpec | None) -> Explanation | None:
    """Take apart a log of SGLang or llama.cpp; ``None`` when the text is neither's."""
    found = [*_sglang(text, model)]
    if found:
        return Explanation(engine="sglang", findings=tuple(found))
    found = [*_llama_cpp(text, model)]
    return Explanation(engine="llama.cpp", findings=tuple(found)) if found else None


def _sglang(text: str, model: ModelSpec | None) -> Iterator[Finding]:
    match = _SGLANG.search(text)
    if match is not None:
        yield _sglang_pool(match, model, _ranks(text))
    total = _SGLANG_TOTAL.search(text)
    if total is not None:
        same = match is None or match["tokens"] == total[1]
        yield Finding(
            figure="max_total_num_tokens",
            logged=f"{int(total[1]):,} tokens",
            verdict=Verdict.STATED if match is None else
            (Verdict.DERIVED if same else Verdict.CONTRADICTED),
            words="tokens of the pool; a longer context length is accepted at start and refused "
            "when a request comes",
        )  # fmt: skip


def _sglang_pool(match: re.Match[str], model: ModelSpec | None, tp: int) -> Finding:
    tokens = int(match["tokens"])
    sizes = [Rounded(text=match[name]) for name in ("k", "v", "kv") if match[name]]
    if not sizes:
        return _pool(tokens, "", Verdict.STATED, "the line gives no bytes")
    total = sum(size.value for size in sizes)
    slack = sum(size.half for size in sizes) + 0.005
    rate = total * GIB / tokens
    words = f"{total:.2f} GiB (the log says GB) / {tokens:,} = {rate:,.0f} B a token on a rank"
    logged = f", {total:.2f} GB"
    if model is None:
        return _pool(tokens, logged, Verdict.STATED, words)
    slope = logical_size(model, tokens, tp=tp).slope_bytes_per_token
    computed = float(slope) * tokens / GIB
    agrees = abs(computed - total) <= slack
    return _pool(
        tokens, logged, Verdict.DERIVED if agrees else Verdict.CONTRADICTED,
        f"{words}; the geometry of {model.name} at tp {tp} gives {float(slope):,.0f} B × "
        f"{tokens:,} = {computed:.2f} GiB",
    )  # fmt: skip


def _pool(tokens: int, size: str, verdict: Verdict, words: str) -> Finding:
    return Finding(
        figure="KV pool", logged=f"{tokens:,} tokens{size}", verdict=verdict, words=words
    )


def _ranks(text: str) -> int:
    found = re.search(r"(?:tp_size=|--tp(?:-size)?[ =])(\d{1,4})", text)
    return max(1, int(found[1])) if found else 1


def _llama_cpp(text: str, model: ModelSpec | None) -> Iterator[Finding]:
    for pattern in _CELLS:
        for match in pattern.finditer(text):
            yield _cells(match)
    whole = _SELF.search(text)
    if whole is not None:
        yield _self_size(whole, model, _context(text))


def _cells(match: re.Match[str]) -> Finding:
    cells, layers = int(match["cells"]), int(match["layers"])
    size = Rounded(text=match["mib"])
    figure = f"KV cache of {layers} layers"
    logged = f"{size.text} MiB, {cells:,} cells"
    if not layers or not cells:
        words = "no layer keeps every token: the windowed or recurrent cache holds them all"
        return Finding(figure=figure, logged=logged, verdict=Verdict.DERIVED, words=words)
    rate = size.value * _MIB / cells / layers
    words = f"{size.text} MiB / {cells:,} cells / {layers} layers = {rate:,.0f} B a cell and layer"
    verdict = Verdict.STATED
    if match["k"]:
        parts = float(match["k"]) + float(match["v"])
        verdict = Verdict.DERIVED if size.holds(parts, slack=0.011) else Verdict.CONTRADICTED
        words += f"; K {match['k']} + V {match['v']} = {parts:.2f} MiB"
    return Finding(figure=figure, logged=logged, verdict=verdict, words=words)


def _context(text: str) -> int:
    found = re.search(r"\bn_ctx\s*=\s*(\d{1,9})", text) or re.search(r"(\d+) cells", text)
    return int(found[1]) if found else 0


def _self_size(match: re.Match[str], model: ModelSpec | None, cells: int) -> Finding:
    element = kv_dtype(match["type"])
    size = Rounded(text=match["mib"])
    logged = f"{size.text} MiB"
    words = f"elements of {element.name}: {element.bytes_for(32)} B for 32"
    if model is None or not cells:
        return Finding(figure="KV self size", logged=logged, verdict=Verdict.STATED, words=words)
    computed = logical_size(model, cells, kv_dtype=element.name).logical_bytes / _MIB
    agrees = size.holds(computed, slack=0.006)
    return Finding(
        figure="KV self size",
        logged=logged,
        verdict=Verdict.DERIVED if agrees else Verdict.CONTRADICTED,
        words=f"{words}; {cells:,} cells of {model.name} take {computed:,.2f} MiB",
    )
