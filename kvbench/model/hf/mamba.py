"""Families with Mamba layers: a convolution tail and a state-space state per sequence.

The convolution keeps ``kernel - 1`` columns: what the next token still needs. Shapes are for the
whole model; ``tp_dim`` says what tensor parallelism divides. The reference implementation keeps
state-space states in fp32.
"""

from __future__ import annotations

from kvbench.model import check
from kvbench.model.hf.attention import HIDDEN, Heads, by_types, heads, query_heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import FullLayer, LayerSpec, NoneLayer, StateLayer, StateTensor

_NONE = NoneLayer()


def mamba1_state(*, intermediate: int, state: int, kernel: int) -> StateLayer:
    """State of a Mamba-1 layer.

    Convolution ``(kernel - 1, intermediate)``, SSM ``(intermediate, state)``.
    """
    conv = StateTensor(name="conv", shape=(kernel - 1, intermediate), dtype="auto", tp_dim=1)
    ssm = StateTensor(name="ssm", shape=(intermediate, state), dtype="fp32", tp_dim=0)
    return StateLayer(tensors=(conv, ssm), mechanism="mamba1")


def mamba2_state(
    *,
    intermediate: int,
    groups: int,
    heads: int,
    head_dim: int,
    state: int,
    kernel: int,
    dtype: str = "fp32",
    stated: str = "",
) -> StateLayer:
    """State of a Mamba-2 layer.

    Convolution over ``intermediate + 2 * groups * state`` channels, SSM
    ``(heads, head_dim, state)``. B and C belong to a group; every rank holds whole groups.
    """
    tail = kernel - 1
    shared = StateTensor(
        name="conv", shape=(tail, 2 * groups * state), dtype="auto", tp_dim=1, tp_units=groups
    )
    own = StateTensor(name="conv", shape=(tail, intermediate), dtype="auto", tp_dim=1)
    ssm = StateTensor(
        name="ssm",
        shape=(heads, head_dim, state),
        dtype=dtype,
        tp_dim=0,
        stated_dtype=stated,
    )
    return StateLayer(tensors=(own, shared, ssm), mechanism="mamba2")


@adapter("mamba", "falcon_mamba")
def mamba(fields: Fields) -> Decoder:
    """Mamba-1 in every layer; no attention."""
    intermediate = fields.optional("intermediate_size", "d_inner")
    layer = mamba1_state(
        intermediate=intermediate or fields.integer("expand") * fields.integer(*HIDDEN),
        state=fields.integer("state_size"),
        kernel=fields.integer("conv_kernel", minimum=2),
    )
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("mamba2")
def mamba2(fields: Fields) -> Decoder:
    """Mamba-2 in every layer; no attention."""
    layer = mamba2_state(
        intermediate=fields.integer("expand") * fields.integer(*HIDDEN),
        groups=fields.integer("n_groups"),
        heads=fields.integer("num_heads", maximum=check.MAX_HEADS),
        head_dim=fields.integer("head_dim"),
        state=fields.integer("state_size"),
        kernel=fields.integer("conv_kernel", minimum=2),
    )
    fields.get("chunk_size")
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("jamba")
def jamba(fields: Fields) -> Decoder:
    """One attention layer per ``attn_layer_period``, Mamba-1 elsewhere."""
    state = mamba1_state(
        intermediate=fields.integer("mamba_expand") * fields.integer(*HIDDEN),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv", minimum=2),
    )
    kinds: dict[str, LayerSpec] = {"mamba": state, "attention": FullLayer(**heads(fields))}
    period = fields.integer("attn_layer_period")
    offset = fields.integer("attn_layer_offset", minimum=0)

    def default(index: int) -> str:
        return "attention" if index % period == offset else "mamba"

    return Decoder(layers=one_each(by_types(fields, kinds, default, name="layers_block_type")))


def _prefixed_state(fields: Fields, intermediate: int) -> StateLayer:
    return mamba2_state(
        intermediate=intermediate,
        groups=fields.integer("mamba_n_groups"),
        heads=fields.integer("mamba_n_heads", maximum=check.MAX_HEADS),
        head_dim=_mamba_head_dim(fields, intermediate),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv", minimum=2),
    )


def _mamba_head_dim(fields: Fields, intermediate: int) -> int:
    if fields.get("mamba_d_head") != "auto":
        return fields.integer("mamba_d_head")
    return intermediate // fields.integer("mamba_n_heads")


def _expanded(fields: Fields) -> int:
    return fields.integer("mamba_expand") * fields.integer(*HIDDEN)


@adapter("bamba")
def bamba(fields: Fields) -> Decoder:
    """Attention in the layers of ``attn_layer_indices``, Mamba-2 elsewhere."""
    full, state = FullLayer(**heads(fields)), _prefixed_state(fields, _expanded(fields))
    count = fields.layer_count()
    attention = set(fields.indices("attn_layer_indices", count) or ())
    return Decoder(layers=one_each([full if i in attention else state for i in range(count)]))


@adapter("granitemoehybrid")
def granite_hybrid(fields: Fields) -> Decoder:
    """``layer_types`` says where attention stands; Mamba-2 elsewhere."""
    full = FullLayer(**heads(fields))
    types = fields.names_of("layer_types", fields.layer_count()) or ()
    if types and not set(types) & {"mamba", "linear_attention"}:
        fields.get(*[name for name in fields.values if name.startswith("mamba_")], "mamba_expand")
        return Decoder(
            layers=one_each(by_types(fields, {"attention": full, "full_attention": full}))
        )
    state = _prefixed_state(fields, _expanded(fields))
    kinds: dict[str, LayerSpec] = {
        "mamba": state,
        "linear_attention": state,
        "attention": full,
        "full_attention": full,
    }
    return Decoder(layers=one_each(by_types(fields, kinds, lambda _index: "mamba")))


@adapter("falcon_h1")
def falcon_h1(fields: Fields) -> Decoder:
    """Attention and Mamba-2 side by side in every layer."""
    fields.get("mamba_expand")
    intermediate = fields.optional("mamba_d_ssm") or _expanded(fields)
    if fields.states("attn_layer_indices"):
        fields.fail("attn_layer_indices of falcon_h1 is not supported")
    both = (FullLayer(**heads(fields)), _prefixed_state(fields, intermediate))
    return Decoder(layers=(both,) * fields.layer_count())


@adapter("zamba2")
def zamba2(fields: Fields) -> Decoder:
    """Mamba-2 everywhere; hybrid layers add attention over twice the hidden width."""
    intermediate = fields.integer("mamba_expand") * fields.integer(*HIDDEN)
    mamba_heads = fields.integer("n_mamba_heads", maximum=check.MAX_HEADS)
    state = mamba2_state(
        intermediate=intermediate,
        groups=fields.integer("mamba_ngroups"),
        heads=mamba_heads,
        head_dim=fields.optional("mamba_headdim") or intermediate // mamba_heads,
        state=fields.integer("mamba_d_state", "state_size"),
        kernel=fields.integer("mamba_d_conv", "conv_dimension", minimum=2),
    )
    full = FullLayer(**_doubled_heads(fields))
    fields.get("hybrid_layer_ids")
    types = fields.names_of("layers_block_type", fields.layer_count())
    if types is None or set(types) - {"mamba", "hybrid", "linear_attention"}:
        fields.fail("zamba2 must state layers_block_type of mamba and hybrid layers")
    return Decoder(layers=tuple([(full, state) if t == "hybrid" else (state,) for t in types]))


def _doubled_heads(fields: Fields) -> Heads:
    queries = query_heads(fields)
    fields.get("kv_channels", "num_query_groups", "attention_hidden_size")
    dim = fields.optional("attention_head_dim") or 2 * fields.integer(*HIDDEN) // queries
    kv_heads = fields.optional("num_key_value_heads", maximum=check.MAX_HEADS) or queries
    return Heads(kv_heads=kv_heads, head_dim_k=dim, head_dim_v=dim)


@adapter("zamba")
def zamba(fields: Fields) -> Decoder:
    """Mamba-1 everywhere; hybrid layers add attention over twice the hidden width."""
    state = mamba1_state(
        intermediate=_expanded(fields),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv", minimum=2),
    )
    fields.get("n_mamba_heads", "attention_head_dim", "hidden_mamba_act", "hybrid_layer_ids")
    full = FullLayer(**_doubled_heads(fields))
    types = fields.names_of("layers_block_type", fields.layer_count())
    if types is None:
        period, offset = fields.integer("attn_layer_period"), fields.integer("attn_layer_offset")
        # The family's first hybrid layer stands at index 2, before the periodic ones begin.
        types = tuple(
            [
                "hybrid" if i == 2 or (i > 2 and i % period == offset) else "mamba"
                for i in range(fields.layer_count())
            ]
        )
    if set(types) - {"mamba", "hybrid", "linear_attention"}:
        fields.fail("layers_block_type of zamba may hold mamba and hybrid only")
    return Decoder(layers=tuple([(full, state) if t == "hybrid" else (state,) for t in types]))


_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


@adapter("nemotron_h")
def nemotron_h(fields: Fields) -> Decoder:
    """``hybrid_override_pattern`` has a letter per layer: M(amba), * attention, - MLP, E experts.

    The SSM state is fp32 unless ``mamba_ssm_cache_dtype`` says otherwise.
    """
    mamba_heads = fields.integer("mamba_num_heads", maximum=check.MAX_HEADS)
    mamba_dim = fields.integer("mamba_head_dim")
    stated = check.text(fields.get("mamba_ssm_cache_dtype"), "mamba_ssm_cache_dtype")
    state = mamba2_state(
        intermediate=mamba_heads * mamba_dim,
        groups=fields.integer("n_groups"),
        heads=mamba_heads,
        head_dim=mamba_dim,
        state=fields.integer("ssm_state_size"),
        kernel=fields.integer("conv_kernel", minimum=2),
        dtype=stated,
        stated=stated,
    )
    full = FullLayer(**heads(fields))
    kinds: dict[str, LayerSpec] = {
        "mamba": state,
        "linear_attention": state,
        "attention": full,
        "full_attention": full,
        "mlp": _NONE,
        "moe": _NONE,
    }
    fields.get("chunk_size", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "expand")
    names = _nemotron_layers(fields)
    if set(names) - set(kinds):
        fields.fail(f"layers_block_type: no layer type {min(set(names) - set(kinds))!r}")
    return Decoder(layers=one_each([kinds[name] for name in names]))


def _nemotron_layers(fields: Fields) -> tuple[str, ...]:
    pattern = fields.get("hybrid_override_pattern")
    types = fields.names_of("layers_block_type")
    if pattern is None:
        return types or fields.fail("the config has no hybrid_override_pattern")
    letters = check.text(pattern, "hybrid_override_pattern").replace("|", "")
    count = fields.layer_count() if fields.states("num_hidden_layers") else len(letters)
    if set(letters) - set(_NEMOTRON_LETTERS) or len(letters) != count:
        fields.fail(
            f"hybrid_override_pattern must have {count} letters of {''.join(_NEMOTRON_LETTERS)}, "
            f"got {len(letters)}"
        )
    return tuple([_NEMOTRON_LETTERS[letter] for letter in letters])
