"""Fields that smell of a cache structure: a config that states one nobody read is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvbench.errors import ModelError
from kvbench.model.hf.fields import Fields

#: Parts of names that say how a layer remembers.
_SMELL = re.compile(
    r"window|sliding|latent|kv_lora|lora_rank|ssm|mamba|conv|linear_attn|linear_num|linear_key"
    r"|recurrent|rwkv|retention|delta|lru|shared_layers|share_kv|kv_share|shared_kv|cross_layer"
    r"|cla_|yoco|pattern|layer_types?$|layers_types?|block_types?|block_configs|compress|chunk"
    r"|indexer|index_|sparse_att|sparse_mode|blocksparse|local_attention|attention_type|attn_type"
    r"|attn_layer|cross_attention|kv_cache|cache_(size|len|type|impl)|state_(size|dim)|d_state"
    r"|memory|attention_(span|layers)|kv_heads_per|num_key_value_heads_per|head_dims?_per"
    r"|hybrid|full_att|global_att|global_every|dilat|segment|k_eq_v|kv_heads_list"
)

#: Names with such a part that have nothing to do with the cache.
_HARMLESS = re.compile(
    r"^(chunk_size_feed_forward|cross_attention_hidden_size|add_cross_attention"
    r"|cache_implementation|initial_context_length|max_window_layers|use_sliding_window"
    r"|activation_sparsity_pattern|sparse_step|decoder_sparse_step|memory_efficient\w*"
    r"|q_lora_rank|o_lora_rank|use_conv_bias|conv_bias|use_mamba_kernels|use_mambapy"
    r"|attention_type|rope_local_base_freq|mamba_(chunk_size|conv_bias|proj_bias|use_mlp|rms_norm"
    r"|norm_before_gate|hidden_act|dt_\w+|rank|ssm_cache_dtype|ssm_dtype|dt_rank)"
    r"|ssm_(multipliers|in_multiplier|out_multiplier|rms_norm\w*)|linear_attn_\w*factor"
    r"|full_attn_\w*factor|compression_config|segment_vocab_size|type_vocab_size"
    r"|memory_format|lora_rank|use_shared_\w+|moe_latent\w*|latent_moe\w*|use_latent_moe"
    r"|\w*pad_token\w*|chunk_size)$"
    r"|spatial|temporal|moe|expert|mlp|ffn|router|rope|quant|vision|image|audio|video|speech|token|loss|init|mtp"
    r"|dropout|embed|activation|norm|scaling|theta"
)


def check_unread(fields: Fields, harmless: Sequence[str] = ()) -> None:
    """Refuse a config that states a cache structure which its adapter did not read.

    Null, false, zero and empty values state nothing.

    Raises:
        ModelError: Naming the field.
    """
    for name, value in fields.values.items():
        if name not in fields.used and name not in harmless and smells(name, value):
            raise ModelError(
                f"field {name!r} may change the cache of {fields.model_type!r} and no adapter "
                "reads it; give the geometry as a TOML table instead"
            )


def smells(name: str, value: Any) -> bool:
    """Whether a field hints at a cache structure and states something."""
    if value is None or value is False or value == 0 or value in ("", [], {}):
        return False
    if _HARMLESS.search(name) or not _SMELL.search(name):
        return False
    return not _is_uniform_full(name, value)


def _is_uniform_full(name: str, value: Any) -> bool:
    """A list of layer types that are all full attention describes a plain decoder."""
    if name not in ("layer_types", "layers_block_type", "attn_type_list", "layer_type"):
        return False
    items = value if isinstance(value, list | tuple) else [value]
    return all(item in ("full_attention", "attention", "full") for item in items)


def nested_smells(values: Mapping[str, Any], name: str) -> bool:
    """Whether the sub-object ``name`` states a field that smells."""
    inner = values.get(name)
    return isinstance(inner, Mapping) and any(smells(key, item) for key, item in inner.items())
