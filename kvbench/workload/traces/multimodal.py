"""Multimodal items of kvbench's own rows."""

from __future__ import annotations

from typing import Any

from kvbench.workload.request import MultimodalItem
from kvbench.workload.traces.fields import BadLine, need, refuse_unknown, text, whole

_KEYS = ("identifier", "offset_tokens", "tokens")


def multimodal_items(value: Any, prompt_tokens: int) -> tuple[MultimodalItem, ...]:
    """Return the items of a prompt, checked to lie inside it in order.

    Args:
        value: List of objects with ``identifier``, ``offset_tokens`` and ``tokens``, or ``None``.
        prompt_tokens: Tokens of the prompt.

    Raises:
        BadLine: Something else, or items that overlap, are out of order or leave the prompt.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadLine(f"multimodal is {value!r:.40}; expected a list of objects")
    items = tuple(_item(one, f"multimodal[{place}]") for place, one in enumerate(value))
    free_from = 0
    for place, item in enumerate(items):
        end = item.offset_tokens + item.tokens
        if item.offset_tokens < free_from or end > prompt_tokens:
            raise BadLine(
                f"multimodal[{place}] fills the tokens {item.offset_tokens} to {end}; expected "
                f"them between {free_from} (end of the item before) and {prompt_tokens} "
                "(prompt_tokens)"
            )
        free_from = end
    return items


def _item(value: Any, name: str) -> MultimodalItem:
    if not isinstance(value, dict):
        raise BadLine(f"{name} is {value!r:.40}; expected an object with {', '.join(_KEYS)}")
    refuse_unknown(value, _KEYS)
    return MultimodalItem(
        identifier=text(need(value, "identifier"), f"{name}.identifier"),
        offset_tokens=whole(need(value, "offset_tokens"), f"{name}.offset_tokens", minimum=0),
        tokens=whole(need(value, "tokens"), f"{name}.tokens", minimum=1),
    )
