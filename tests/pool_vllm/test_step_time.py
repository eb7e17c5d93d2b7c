"""Step-time models: hand-worked durations, and that more work never takes less time."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.device.catalog import load_device
from kvbench.device.spec import DeviceSpec
from kvbench.errors import DeviceError, KvbenchError, ModelError
from kvbench.model.load import load_model
from kvbench.model.spec import (
    CrossLayer,
    FullLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    RoutedExperts,
    SharedLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
    Widths,
)
from kvbench_pool.step_time import Attention, LogicalSteps, MeasuredConstants, StepTime, StepWork
from kvbench_pool.step_time.choose import choose_step_time
from kvbench_pool.step_time.derive import RooflineOptions, roofline
from tests.conftest import REPOSITORY

#: A decode at 99 cached tokens, and a chunk of 8 after 24.
WORK = StepWork.of([(1, 99), (8, 24)])

#: Keys and values of one head of 4 elements in bf16: 16 bytes per token.
LAYER = FullLayer(kv_heads=1, head_dim_k=4, head_dim_v=4)

BARE = RooflineOptions(compute_efficiency=1, bandwidth_efficiency=1, step_overhead_ms=0)


def model(*layers: LayerSpec, **fields: object) -> ModelSpec:
    """1,000 parameters of 2 bytes, two query heads."""
    known: dict[str, object] = {"query_heads": 2, "weight_bytes": 2000, "parameters": 1000}
    return ModelSpec(name="tiny", layers=layers or (LAYER,), **(known | fields))  # type: ignore[arg-type]


def device(flops_per_s: int = 10**6, bandwidth_bytes_per_s: int = 10**6) -> DeviceSpec:
    return DeviceSpec(
        name="slow",
        memory_bytes=10**6,
        flops_per_s=flops_per_s,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
    )


def test_work_by_hand() -> None:
    assert (WORK.requests, WORK.new_tokens) == (2, 9)
    assert (WORK.prefill_tokens, WORK.decode_requests) == (8, 1)
    assert WORK.context_tokens == 100 + 32
    # 24 + 1, 24 + 2, ... 24 + 8 keys for the queries of the chunk.
    assert WORK.attention() == Attention(132, 8 * 24 + 36, 100)


def test_a_window_bounds_what_a_query_sees() -> None:
    # Queries see 25, 26, 27, 28 keys and then 28; the chunk reads 24 old tokens and its own 8.
    assert WORK.attention(28) == Attention(28 + 32, 25 + 26 + 27 + 28 + 4 * 28, 28)
    # The decode sees 15 old keys and itself; the chunk reads the 15 before it and its own 8.
    assert WORK.attention(16) == Attention(16 + 23, 8 * 16, 16)


@given(st.integers(2, 40), st.integers(0, 60), st.integers(1, 80))
def test_pairs_are_the_sum_over_the_queries(new: int, past: int, window: int) -> None:
    done = StepWork.of([(new, past)]).attention(window)
    assert done.prefill_pairs == sum(min(past + i, window) for i in range(1, new + 1))
    seen = {place for i in range(1, new + 1) for place in range(past + i, 0, -1)[:window]}
    assert done.read_tokens == len(seen)


def test_measured_by_hand() -> None:
    constants = MeasuredConstants(
        step_base_s=0.5, prefill_token_s=0.25, decode_request_s=0.125, context_token_s=2**-10
    )
    assert constants.seconds(WORK) == 0.5 + 8 * 0.25 + 0.125 + 132 / 1024
    assert "0.5 s + 0.25 s per prefill token" in constants.assumptions()[0]


def test_logical_steps_last_the_same() -> None:
    assert LogicalSteps(step_ms=50).seconds(WORK) == LogicalSteps().seconds(StepWork(())) == 0.05
    assert LogicalSteps().assumptions() == ("A step is 50 ms whatever it computes.",)


def test_roofline_by_hand() -> None:
    flops = 2 * 1000 * 9 + 2 * 2 * (4 + 4) * (228 + 100)
    size = 2000 + 16 * 132
    bound_by_compute = roofline(model(), device(), BARE)
    assert bound_by_compute.cost(WORK) == (flops, size) == (28496, 4112)
    assert bound_by_compute.seconds(WORK) == 0.028496
    bound_by_memory = roofline(model(), device(bandwidth_bytes_per_s=10**5), BARE)
    assert bound_by_memory.seconds(WORK) == 0.04112


def test_efficiencies_and_overhead() -> None:
    options = RooflineOptions(compute_efficiency=0.5, bandwidth_efficiency=0.25, step_overhead_ms=8)
    slow = roofline(model(), device(), options)
    assert slow.seconds(WORK) == 28496 / 500_000 + 0.008
    assert slow.seconds(StepWork.of([(1, 999)])) == (2000 + 16 * 1000) / 250_000 + 0.008


def test_fp8_computes_faster_with_weights_alone() -> None:
    fast = dataclasses.replace(device(), fp8_flops_per_s=2 * 10**6)
    options = dataclasses.replace(BARE, compute_dtype="fp8")
    found = roofline(model(), fast, options)
    assert found.seconds(WORK) == pytest.approx((18000 / 2 + 10496) / 10**6, rel=1e-12)
    assert roofline(model(), fast, BARE).seconds(WORK) == 0.028496
    assert any("(dense fp8) instead" in note for note in found.assumptions())
    with pytest.raises(DeviceError, match="'slow' has no fp8_flops_per_s"):
        roofline(model(), device(), options)
    with pytest.raises(KvbenchError, match="compute_dtype is 'fp7'; expected bf16 or fp8"):
        dataclasses.replace(BARE, compute_dtype="fp7")


def test_ranks_divide_what_is_sharded() -> None:
    """Two ranks: half the weights that are not on both, half the arithmetic, no half KV head."""
    options = dataclasses.replace(BARE, tp=2)
    shared = model(weight_replicated_bytes=200)
    assert roofline(shared, device(), options).cost(WORK) == (28496 / 2, 1100 + 16 * 132)
    two_heads = model(FullLayer(kv_heads=2, head_dim_k=4, head_dim_v=4))
    assert roofline(two_heads, device(), options).cost(WORK)[1] == 1000 + 16 * 132
    notes = roofline(shared, device(), options).assumptions()
    assert any("communication between ranks costs nothing" in note for note in notes)


def test_experts_by_hand() -> None:
    """600 of 1,000 parameters in 4 experts, of which a token visits 1: 550 are active."""
    experts = RoutedExperts(count=4, per_token=1, parameters=600, weight_bytes=1200)
    mixture = roofline(model(experts=experts), device(), BARE)
    one, two = StepWork.of([(1, 0)]), StepWork.of([(1, 0), (1, 0)])
    assert mixture.cost(one) == (2 * 550 + 32, 800 + 1200 / 4 + 16)
    # The second token's expert is another one with probability 3/4.
    assert mixture.cost(two) == (2 * (2 * 550 + 32), 800 + 1200 * (1 - 0.75**2) + 32)
    assert mixture.cost(WORK)[0] == 2 * 550 * 9 + 32 * 328
    halves = roofline(model(experts=experts), device(), dataclasses.replace(BARE, tp=2))
    assert halves.cost(one) == ((2 * 550 + 32) / 2, 400 + 600 / 4 + 16)
    assert "1 of 4 each" in " ".join(mixture.assumptions())


def test_unknown_experts_are_named() -> None:
    widths = Widths(vocabulary=10, experts_per_token=2)
    found = roofline(model(widths=widths), device(), BARE)
    assert found.cost(WORK)[0] == 28496
    assert "routed experts' share of the weights is not known" in " ".join(found.assumptions())


def test_active_parameters_of_a_real_mixture() -> None:
    """Qwen3-30B-A3B: 30.53 B parameters, 28.99 B in 128 experts, 8 of them visited."""
    spec = load_model("qwen3-30b-a3b")
    assert spec.experts == RoutedExperts(
        count=128, per_token=8, parameters=28_991_029_248, weight_bytes=2 * 28_991_029_248
    )
    active = 30_532_122_624 - 28_991_029_248 * 120 // 128
    assert roofline(spec, load_device("h100")).weights.flops_per_token == 2 * active


def test_every_kind_of_layer_by_hand() -> None:
    window = SlidingLayer(kv_heads=1, head_dim_k=4, head_dim_v=4, window=16)
    flops, size = roofline(model(LAYER, window), device(), BARE).cost(WORK)
    assert flops == 18000 + 32 * (228 + 100) + 32 * (128 + 16)
    assert size == 2000 + 16 * 132 + 16 * 39
    # A layer that shares a cache reads it again.
    twice = roofline(model(LAYER, SharedLayer(source=0)), device(), BARE)
    assert twice.cost(WORK) == (18000 + 2 * 32 * 328, 2000 + 2 * 16 * 132)


def test_latent_attention_prefills_in_the_expanded_space() -> None:
    latent = MlaLayer(latent_dim=8, rope_dim=2, expanded_heads=2, expanded_dim=5)
    flops, size = roofline(model(latent), device(), BARE).cost(WORK)
    decode, prefill = 2 * 2 * (8 + 2 + 8), 2 * 2 * (5 + 5)
    assert flops == 18000 + decode * 100 + prefill * 228
    assert size == 2000 + 2 * (8 + 2) * 132


def test_state_and_cross_attention_are_per_request() -> None:
    state = StateLayer(tensors=(StateTensor(name="ssm", shape=(3,), dtype="fp32"),))
    cross = CrossLayer(kv_heads=1, head_dim_k=4, head_dim_v=4, encoder_tokens=10)
    found = roofline(model(state, cross), device(), BARE)
    # The state is read and written; both requests read the encoder's 10 tokens.
    assert found.cost(WORK) == (18000, 2000 + 2 * (2 * 12 + 160))


def test_a_real_model_on_a_real_device() -> None:
    """Llama-3.1-8B on an H100, one request: 16.06 GB of weights at 2.68 TB/s, and 2 ms."""
    found = roofline(load_model("llama-3.1-8b"), load_device("h100"))
    per_token = 32 * 2 * 8 * 128 * 2
    size = 2 * 8_030_261_248 + 1000 * per_token
    assert found.seconds(StepWork.of([(1, 999)])) == pytest.approx(
        size / (0.8 * 3.35e12) + 0.002, rel=1e-12
    )
    pairs = 4096 * 4097 // 2
    flops = 2 * 8_030_261_248 * 4096 + 32 * 2 * 32 * 256 * pairs
    assert found.seconds(StepWork.of([(4096, 0)])) == pytest.approx(
        flops / (0.6 * 989e12) + 0.002, rel=1e-12
    )


_MODELS: tuple[StepTime, ...] = (
    MeasuredConstants(step_base_s=1e-3, prefill_token_s=1e-5, context_token_s=1e-8),
    MeasuredConstants(decode_request_s=1e-3),
    roofline(
        model(LAYER, SlidingLayer(kv_heads=1, head_dim_k=4, head_dim_v=4, window=9)), device()
    ),
    roofline(load_model("llama-3.1-8b"), load_device("h100")),
    roofline(load_model("qwen3-30b-a3b"), load_device("h100")),
    roofline(load_model("deepseek-v2-lite"), load_device("h100")),
)
_CHUNKS = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 5000)), min_size=1, max_size=6)


@given(st.sampled_from(_MODELS), _CHUNKS, st.data())
def test_more_work_never_takes_less_time(
    step_time: StepTime, chunks: list[tuple[int, int]], data: st.DataObject
) -> None:
    seconds = step_time.seconds(StepWork.of(chunks))
    assert seconds >= 0
    (new, past), *rest = chunks
    extra, further = data.draw(st.integers(0, 100)), data.draw(st.integers(0, 1000))
    # A longer context, a longer prefill (a decode stays one), and one more request.
    longer = (new + extra if new > 1 else new, past + further)
    assert step_time.seconds(StepWork.of([longer, *rest])) >= seconds
    assert step_time.seconds(StepWork.of([*chunks, (extra + 1, further)])) >= seconds


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"step_base_s": -1e-3}, "step_base_s is -0.001; expected a finite number from 0 up"),
        ({"context_token_s": float("nan")}, "context_token_s is nan"),
        ({"prefill_token_s": float("inf")}, "prefill_token_s is inf"),
        ({}, "needs constants above 0: step_base_s, prefill_token_s"),
    ],
)
def test_refused_constants(constants: dict[str, float], message: str) -> None:
    with pytest.raises(KvbenchError, match=message):
        choose_step_time({"step_time": "measured", **constants})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_efficiency": 0}, "compute_efficiency is 0; expected more than 0"),
        ({"bandwidth_efficiency": 1.1}, "bandwidth_efficiency is 1.1; .* at most 1"),
        ({"step_overhead_ms": -1}, "step_overhead_ms is -1; expected 0 or more"),
        ({"pp": 2}, "pipeline"),
    ],
)
def test_refused_roofline_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(KvbenchError, match=message):
        choose_step_time({"step_time": "roofline", **options}, model(), device())


def test_what_a_roofline_needs() -> None:
    settings = {"step_time": "roofline"}
    with pytest.raises(KvbenchError, match="needs a model"):
        choose_step_time(settings, None, device())
    with pytest.raises(KvbenchError, match="needs a device"):
        choose_step_time(settings, model(), None)
    with pytest.raises(DeviceError, match=r"'slow' has no flops_per_s.*\[devices"):
        choose_step_time(settings, model(), device(flops_per_s=0))
    with pytest.raises(ModelError, match="needs the weights"):
        choose_step_time(settings, model(weight_bytes=None), device())
    with pytest.raises(ModelError, match=r"do not fit slow .*; raise tp"):
        choose_step_time(settings, model(weight_bytes=3 * 10**6), device())


def test_unknown_figures_are_named() -> None:
    found = roofline(model(query_heads=0, parameters=None), device(), BARE)
    # 2,000 bytes count as 1,000 parameters, and one KV head computes.
    assert found.cost(WORK)[0] == 18000 + 16 * 328
    notes = " ".join(found.assumptions())
    assert "taken as weight bytes / 2" in notes
    assert "number of query heads is not known" in notes


def test_the_worked_example_of_the_docs() -> None:
    """Every figure of the page's step is what the model computes."""
    page = (REPOSITORY / "docs" / "step_time.md").read_text("utf-8")
    found = roofline(load_model("Llama-3.1-8B"), load_device("h100"))
    mixed = StepWork.of([(512, 1024), (1, 1999), (1, 3999)])
    done = mixed.attention()
    flops, size = found.cost(mixed)
    assert f"= {done.read_tokens:,}\n" in page
    assert f"= {done.prefill_pairs + done.decode_pairs:,}\n" in page
    assert f"= {2 * 8_030_261_248 * mixed.new_tokens:.3e} FLOPs".replace("e+", "e") in page
    assert f"{flops:.3e} / (0.6".replace("e+", "e") in page
    assert f"{size:,.0f} / (0.8" in page
    assert f"= {found.seconds(mixed) * 1000:.2f} ms\n" in page
    decodes = StepWork.of([(1, 1999), (1, 3999)])
    assert f"+ 2 = {found.seconds(decodes) * 1000:.2f} ms: bound by memory" in page
