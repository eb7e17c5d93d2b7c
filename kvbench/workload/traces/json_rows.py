"""JSON-lines traces: Mooncake, Bailian, ShareGPT with token ids, and kvbench's own."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from typing import Any

from kvbench.workload.request import Request
from kvbench.workload.traces.fields import (
    BadLine,
    hash_chunks,
    need,
    number,
    refuse_unknown,
    text,
    token_ids,
    whole,
)
from kvbench.workload.traces.multimodal import multimodal_items

MOONCAKE_HASH_TOKENS = 512
BAILIAN_HASH_TOKENS = 16

OWN_KEYS = (
    "arrival_ms",
    "prompt_tokens",
    "output_tokens",
    "hash_ids",
    "hash_tokens",
    "prompt_ids",
    "output_ids",
    "parent",
    "salt",
    "lora",
    "multimodal",
)


def parse_object(line: str) -> dict[str, Any]:
    """Return the JSON object of one line."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        raise BadLine(f"not JSON: {what} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not a row: {error}") from None
    if not isinstance(row, dict):
        raise BadLine(f"{line[:40]!r} is not a JSON object")
    return row


def mooncake_row(line: str) -> Request:
    """Parse a row of the Mooncake traces (github.com/kvcache-ai/Mooncake, FAST'25).

    ``timestamp`` is in ms; each of ``hash_ids`` stands for 512 prompt tokens.
    """
    row = parse_object(line)
    tokens = whole(need(row, "input_length"), "input_length", minimum=1)
    chunks = row.get("hash_ids")
    return Request(
        arrival_ms=float(number(need(row, "timestamp"), "timestamp")),
        prompt_tokens=tokens,
        output_tokens=whole(need(row, "output_length"), "output_length", minimum=0),
        hash_ids=()
        if chunks is None
        else hash_chunks(chunks, tokens=tokens, hash_tokens=MOONCAKE_HASH_TOKENS),
        hash_tokens=0 if chunks is None else MOONCAKE_HASH_TOKENS,
    )


class BailianRows:
    """Qwen-Bailian usage traces (github.com/alibaba-edu/qwen-bailian-usagetraces-anon).

    ``timestamp`` is in seconds; each of ``hash_ids`` stands for 16 prompt tokens. Where the ids
    cover the full chunks only, the started last chunk is taken as shared with nobody.
    """

    def __init__(self) -> None:
        self._private = 0

    def __call__(self, line: str) -> Request:
        """Parse one row."""
        row = parse_object(line)
        tokens = whole(need(row, "input_length"), "input_length", minimum=1)
        return Request(
            arrival_ms=number(need(row, "timestamp"), "timestamp") * 1000,
            prompt_tokens=tokens,
            output_tokens=whole(need(row, "output_length"), "output_length", minimum=0),
            hash_ids=self._chunks(need(row, "hash_ids"), tokens),
            hash_tokens=BAILIAN_HASH_TOKENS,
        )

    def _chunks(self, value: Any, tokens: int) -> array[int]:
        full = tokens // BAILIAN_HASH_TOKENS
        if isinstance(value, list) and len(value) == full and tokens % BAILIAN_HASH_TOKENS:
            self._private -= 1
            value = [*value, self._private]
        return hash_chunks(value, tokens=tokens, hash_tokens=BAILIAN_HASH_TOKENS)


def sharegpt_row(line: str) -> Request:
    """Parse a row of LLMServingSim's ShareGPT workloads (github.com/casys-kaist/LLMServingSim).

    ``arrival_time_ns`` is in ns; token ids are optional, but one per token where present.
    """
    row = parse_object(line)
    prompt = whole(need(row, "input_toks"), "input_toks", minimum=1)
    output = whole(need(row, "output_toks"), "output_toks", minimum=0)
    return Request(
        arrival_ms=number(need(row, "arrival_time_ns"), "arrival_time_ns") / 1e6,
        prompt_tokens=prompt,
        output_tokens=output,
        prompt_ids=_optional_ids(row, "input_tok_ids", prompt, "input_toks"),
        output_ids=_optional_ids(row, "output_tok_ids", output, "output_toks"),
    )


def _optional_ids(
    row: Mapping[str, Any], key: str, count: int, count_key: str
) -> array[int] | None:
    value = row.get(key)
    return None if value is None else token_ids(value, key, count=count, count_key=count_key)


class OwnRows:
    """kvbench's own rows: the fields of ``kvbench.workload.request.Request`` by name."""

    def __init__(self) -> None:
        self._index = -1

    def __call__(self, line: str) -> Request:
        """Parse one row."""
        return self.request(parse_object(line))

    def request(self, row: Mapping[str, Any]) -> Request:
        """Check a row that is already an object."""
        self._index += 1
        refuse_unknown(row, OWN_KEYS)
        prompt = whole(need(row, "prompt_tokens"), "prompt_tokens", minimum=1)
        output = whole(need(row, "output_tokens"), "output_tokens", minimum=0)
        hash_ids, hash_tokens = _own_chunks(row, prompt)
        return Request(
            arrival_ms=float(number(row.get("arrival_ms", 0), "arrival_ms")),
            prompt_tokens=prompt,
            output_tokens=output,
            hash_ids=hash_ids,
            hash_tokens=hash_tokens,
            prompt_ids=_optional_ids(row, "prompt_ids", prompt, "prompt_tokens"),
            output_ids=_optional_ids(row, "output_ids", output, "output_tokens"),
            parent=self._parent(row.get("parent")),
            salt=text(row.get("salt") or "", "salt"),
            lora=text(row.get("lora") or "", "lora"),
            multimodal=multimodal_items(row.get("multimodal"), prompt),
        )

    def _parent(self, value: Any) -> int | None:
        if value is None:
            return None
        parent = whole(value, "parent", minimum=0)
        if parent >= self._index:
            raise BadLine(f"parent is {parent}; expected an earlier row (this is {self._index})")
        return parent


def _own_chunks(row: Mapping[str, Any], tokens: int) -> tuple[array[int] | tuple[()], int]:
    value = row.get("hash_ids")
    if value is None:
        return (), 0
    if row.get("prompt_ids") is not None:
        raise BadLine("both hash_ids and prompt_ids; expected one of them")
    hash_tokens = whole(need(row, "hash_tokens"), "hash_tokens", minimum=1)
    return hash_chunks(value, tokens=tokens, hash_tokens=hash_tokens), hash_tokens
