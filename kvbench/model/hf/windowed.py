"""Families with sliding-window or chunked layers, alone or between full ones."""

from __future__ import annotations

from collections.abc import Callable

from kvbench.model import check
from kvbench.model.hf.attention import Heads, by_types, every, full_or_sliding, heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import ChunkedLayer, FullLayer, LayerSpec, SlidingLayer


@adapter("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "phi4_multimodal", "moshi")
def all_sliding(fields: Fields) -> Decoder:
    """Every layer slides when the config has a window, none otherwise."""
    window = fields.window()
    geometry = heads(fields)
    layer: LayerSpec = FullLayer(**geometry)
    if window is not None:
        layer = SlidingLayer(**geometry, window=window)
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter(
    "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text",
    "qwen2_5_vl_text", "qwen2_5_omni_text", "qwen3_omni_moe_text", "smollm3", "dots1", "mimo",
    "minicpmv", "minicpmo",
)  # fmt: skip
def gated_window(fields: Fields) -> Decoder:
    """The window counts only with ``use_sliding_window``, from layer ``max_window_layers`` on."""
    gated = "use_sliding_window"
    on = fields.flag(gated) or (fields.model_type == "dots1" and fields.states("layer_types"))
    window = fields.get("sliding_window")
    first = fields.get("max_window_layers")
    kinds = full_or_sliding(fields, heads(fields), fields.window() if on and window else None)
    start = first if isinstance(first, int) else 0
    if fields.model_type == "smollm3" and on and window and not fields.states("layer_types"):
        fields.fail("smollm3 with use_sliding_window must state layer_types")

    def default(index: int) -> str:
        return "sliding_attention" if on and index >= start else "full_attention"

    return Decoder(layers=one_each(by_types(fields, kinds, default)))


def _periodic(fields: Fields, default: Callable[[int], str], *traits: str) -> Decoder:
    kinds = full_or_sliding(fields, heads(fields), fields.window())
    return Decoder(layers=one_each(by_types(fields, kinds, default)), traits=frozenset(traits))


@adapter("gemma2", "vaultgemma")
def gemma2(fields: Fields) -> Decoder:
    """Sliding and full layers alternate, starting with a sliding one."""
    return _periodic(fields, every(2))


@adapter("gpt_oss")
def gpt_oss(fields: Fields) -> Decoder:
    """Sliding and full layers alternate; attention sinks hold no cache."""
    return _periodic(fields, every(2), "sinks", "kv_heads_not_replicated")


@adapter("gemma3_text", "gemma3")
def gemma3(fields: Fields) -> Decoder:
    """Five sliding layers, then a full one; the period is ``sliding_window_pattern``."""
    period = fields.optional("sliding_window_pattern", "_sliding_window_pattern") or 6
    return _periodic(fields, every(period))


@adapter("cohere2")
def cohere2(fields: Fields) -> Decoder:
    """Three sliding layers, then a full one."""
    period = fields.optional("sliding_window_pattern", "_sliding_window_pattern") or 4
    return _periodic(fields, every(period))


@adapter("cohere2_moe")
def cohere2_moe(fields: Fields) -> Decoder:
    """Like ``cohere2``; the dense prefix layers have a period of their own."""
    prefix = fields.optional("first_k_dense_replace", minimum=0) or 0
    first = every(fields.integer("prefix_dense_sliding_window_pattern"))
    rest = every(fields.integer("sliding_window_pattern"))
    return _periodic(fields, lambda i: first(i) if i < prefix else rest(i - prefix))


@adapter("olmo3")
def olmo3(fields: Fields) -> Decoder:
    """Three sliding layers, then a full one."""
    return _periodic(fields, every(4))


@adapter("cwm", "granite_swa", "granitemoe_swa")
def full_first(fields: Fields) -> Decoder:
    """A full layer, then three sliding ones."""
    return _periodic(fields, every(4, offset=3))


@adapter("afmoe")
def afmoe(fields: Fields) -> Decoder:
    """Every ``global_attn_every_n_layers``-th layer is full."""
    return _periodic(fields, every(fields.integer("global_attn_every_n_layers")))


@adapter("ministral")
def ministral(fields: Fields) -> Decoder:
    """Every layer slides unless ``layer_types`` says otherwise."""
    return _periodic(fields, lambda _index: "sliding_attention")


@adapter("laguna")
def full_by_default(fields: Fields) -> Decoder:
    """Full unless ``layer_types`` says otherwise."""
    return _periodic(fields, lambda _index: "full_attention")


@adapter("exaone4", "exaone_moe")
def exaone4(fields: Fields) -> Decoder:
    """``sliding_window_pattern`` is a period or a string of L(ocal) and G(lobal)."""
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str):
        if not pattern or set(pattern) - {"L", "G"}:
            fields.fail(f"sliding_window_pattern must consist of L and G, got {pattern!r}"[:120])
        letters = pattern

        def lettered(index: int) -> str:
            is_local = letters[index % len(letters)] == "L"
            return "sliding_attention" if is_local else "full_attention"

        return _periodic(fields, lettered)
    return _periodic(fields, every(fields.optional("sliding_window_pattern", minimum=0) or 0))


@adapter("llama4_text")
def llama4(fields: Fields) -> Decoder:
    """Layers with rotary positions attend within chunks, the others to everything."""
    geometry = heads(fields)
    full = FullLayer(**geometry)
    chunk = fields.window("attention_chunk_size")
    chunked = full if chunk is None else ChunkedLayer(**geometry, chunk=chunk)
    kinds: dict[str, LayerSpec] = {"full_attention": full, "chunked_attention": chunked}
    rope = fields.sequence("no_rope_layers")
    interval = fields.integer("no_rope_layer_interval")

    def default(index: int) -> str:
        local = bool(rope[index]) if rope else (index + 1) % interval != 0
        return "chunked_attention" if local else "full_attention"

    if rope and len(rope) != fields.layer_count():
        fields.fail(f"no_rope_layers has {len(rope)} entries for {fields.layer_count()} layers")
    return Decoder(layers=one_each(by_types(fields, kinds, default)))


@adapter("gpt_neo")
def gpt_neo(fields: Fields) -> Decoder:
    """``attention_types`` repeats global and local layers of ``window_size`` tokens."""
    geometry = heads(fields)
    window = fields.integer("window_size", maximum=check.MAX_TOKENS)
    kinds: dict[str, LayerSpec] = {
        "global": FullLayer(**geometry),
        "local": SlidingLayer(**geometry, window=window),
    }
    fields.get("attention_layers")
    names = _expand(fields)
    if len(names) != fields.layer_count():
        fields.fail(
            f"attention_types make {len(names)} layers, the config has {fields.layer_count()}"
        )
    if set(names) - set(kinds):
        fields.fail("attention_types may hold global and local only")
    return Decoder(layers=one_each([kinds[name] for name in names]))


def _expand(fields: Fields) -> list[str]:
    names: list[str] = []
    for entry in fields.sequence("attention_types") or [[["global", "local"], 12]]:
        if not (isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], list)):
            fields.fail("attention_types must hold pairs of a list and a number")
        repeats = check.integer(entry[1], "attention_types", maximum=check.MAX_LAYERS)
        names += [str(name) for name in entry[0]] * repeats
        if len(names) > check.MAX_LAYERS:
            fields.fail(f"attention_types make more than {check.MAX_LAYERS} layers")
    return names


@adapter("mimo_v2_flash", "mimo_v2")
def mimo_v2(fields: Fields) -> Decoder:
    """Full and sliding layers differ in heads; values are narrower than keys."""
    full = FullLayer(**heads(fields, value_dim="v_head_dim"))
    sliding = SlidingLayer(
        **_swa_heads(fields, full),
        window=fields.integer("sliding_window", "sliding_window_size", maximum=check.MAX_TOKENS),
    )
    for same in ("sliding_window_size", "attention_chunk_size"):
        if fields.states(same) and fields.get(same) != sliding.window:
            fields.fail(f"{same} ({fields.get(same)}) differs from the window ({sliding.window})")
    pattern = fields.sequence("hybrid_layer_pattern", fields.layer_count())
    if pattern is not None:
        return Decoder(layers=one_each([sliding if flag else full for flag in pattern]))
    kinds: dict[str, LayerSpec] = {"full_attention": full, "sliding_attention": sliding}

    def default(index: int) -> str:
        return "full_attention" if index == 0 or (index + 1) % 6 == 0 else "sliding_attention"

    return Decoder(layers=one_each(by_types(fields, kinds, default)))


def _swa_heads(fields: Fields, full: FullLayer) -> Heads:
    return Heads(
        kv_heads=fields.optional("swa_num_key_value_heads", maximum=check.MAX_HEADS)
        or full.kv_heads,
        head_dim_k=fields.optional("swa_head_dim") or full.head_dim_k,
        head_dim_v=fields.optional("swa_v_head_dim") or full.head_dim_v,
    )


@adapter("step3p5", "step3p7")
def step3p5(fields: Fields) -> Decoder:
    """``layer_types`` decides; query heads of sliding layers do not matter to the cache."""
    fields.get("num_sliding_attention_heads", "mtp_layer_types")
    if fields.states("num_attention_groups") and not fields.states("num_key_value_heads"):
        fields.values = {**fields.values, "num_key_value_heads": fields.get("num_attention_groups")}
    return _periodic(fields, lambda _index: "full_attention")
