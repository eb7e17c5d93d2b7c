"""What the ``vllm`` layout predicts for every tiny model against the pool that vLLM makes."""

from __future__ import annotations

import pytest

from kvbench.errors import EngineUnavailable
from kvbench_vllm.accounting import block_bytes, effective_settings, predicted
from kvbench_vllm.tiny_models import STATE_MODELS, TINY_MODELS
from tests.engine.vllm.conftest import arrangement_of, config_of, engine_of, keeps_quantized

#: Models whose block size the engine chooses; the others get one that the CPU engine takes.
_BLOCK_SIZES = {"tiny-deepseek-mla": 16, **dict.fromkeys(STATE_MODELS)}
_CASES = [
    (model, kv_dtype)
    for model in TINY_MODELS
    for kv_dtype in (("auto", "fp8_e4m3") if "llama" in model else ("auto",))
]


@pytest.mark.parametrize(("model", "kv_dtype"), _CASES)
def test_blocks_groups_bytes_and_concurrency_are_the_predicted_ones(model, kv_dtype):
    settings = {
        "block_size": _BLOCK_SIZES.get(model, 32),
        "kv_dtype": kv_dtype,
        "enable_prefix_caching": model not in STATE_MODELS,
        "blocks": 100,
    }
    config = config_of(model, **settings)
    if kv_dtype != "auto" and not keeps_quantized():
        with pytest.raises(EngineUnavailable, match="takes x86 with AVX-512 or AMX"):
            engine_of(model, **settings).__enter__()
        return
    with engine_of(model, **settings) as engine:
        # The CPU engine rounds the blocks of a state hybrid to other multiples than a GPU.
        expected = predicted(engine) if model in STATE_MODELS else arrangement_of(config)
        groups = [
            (group.kv_cache_spec.block_size, len(group.layer_names))
            for group in engine.cache.kv_cache_groups
        ]
        found = (
            engine.cache.num_blocks,
            block_bytes(engine),
            engine.cache_config.block_size,
            engine.cache_config.kv_cache_size_tokens,
            engine.cache_config.kv_cache_max_concurrency,
            groups,
        )
        assert effective_settings(engine)["max_model_len"] == 1024
    blocks = expected.num_blocks(config.settings["budget_bytes"])
    assert blocks == 100 or model in STATE_MODELS
    assert found == (
        blocks,
        expected.bytes_per_block,
        expected.block_size,
        expected.capacity_tokens(blocks),
        pytest.approx(expected.max_concurrency(blocks, 1024), rel=1e-12),
        [(group.block_size, group.layers) for group in expected.groups],
    )
