"""Lines of SGLang and llama.cpp from public reports."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.explain.finding import Verdict
from kvbench.explain.rounding import Rounded, simplest_between
from kvbench.model.load import load_model
from kvbench_analytic.other_logs import explain_other_log


def test_sglang_pool_from_the_geometry() -> None:
    """Public report vllm#21348: K = V = 8.23 GiB on each of 4 ranks."""
    text = "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB --tp 4"
    found = explain_other_log(text, load_model("Qwen3-235B-A22B", weights=False))
    assert found is not None
    assert found.engine == "sglang"
    assert found.findings[0].verdict is Verdict.DERIVED
    assert "48,128 B × 367,404 = 16.47 GiB" in found.findings[0].words


def test_sglang_at_another_rank_count_is_contradicted() -> None:
    text = "#tokens: 367404, K size: 8.23 GB, V size: 8.23 GB"
    found = explain_other_log(text, load_model("Qwen3-235B-A22B", weights=False))
    assert found is not None
    assert found.findings[0].verdict is Verdict.CONTRADICTED


def test_llama_cpp_latent_cache() -> None:
    """Public report ik_llama.cpp#259: 61 × 576 × 32,768 × 34 / 32 = 1,166.62 MiB."""
    text = "n_ctx = 32768\nKV self size  = 1166.62 MiB, c^KV (q8_0): 1166.62 MiB, kv^T: not used"
    found = explain_other_log(text, load_model("DeepSeek-V3", weights=False))
    assert found is not None
    assert found.findings[0].verdict is Verdict.DERIVED


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (
            "size = 768.00 MiB ( 32768 cells, 24 layers, 1/1 seqs), K (f16): 384.00 MiB, V (f16): "
            "384.00 MiB",
            Verdict.DERIVED,
        ),
        (
            "size = 768.00 MiB ( 32768 cells, 24 layers, 1/1 seqs), K (f16): 384.00 MiB, V (f16): "
            "38.00 MiB",
            Verdict.CONTRADICTED,
        ),
        ("size =    0.00 MiB (393216 cells,   0 layers,  4/1 seqs)", Verdict.DERIVED),
    ],
)
def test_llama_cpp_cells(line: str, verdict: Verdict) -> None:
    found = explain_other_log(f"llama_kv_cache: {line}", None)
    assert found is not None
    assert found.findings[0].verdict is verdict


def test_other_text_is_not_ours() -> None:
    assert explain_other_log("GPU KV cache size: 5 tokens", None) is None


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_simplest_fraction_is_the_simplest(top: int, bottom: int) -> None:
    low = Fraction(top, bottom)
    high = low + Fraction(1, 997)
    found = simplest_between(low, high)
    assert low <= found < high
    for denominator in range(1, found.denominator):
        numerator = -(-low.numerator * denominator // low.denominator)
        assert Fraction(numerator, denominator) >= high


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("5.38", 5.3749, False),
        ("5.38", 5.375, True),
        ("5.38", 5.3899, True),
        ("5.38", 5.3901, False),
        ("12", 12, True),
        ("12", 12.1, False),
    ],
)
def test_rounded_figures(text: str, value: float, holds: bool) -> None:
    assert Rounded(text=text).holds(value) is holds
