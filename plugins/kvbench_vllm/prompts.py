"""Token ids with the prefix identity that a workload states."""

from __future__ import annotations

import hashlib
from itertools import islice

from kvbench.engine import Cell
from kvbench.errors import CellFailed
from kvbench.workload.load import open_workload
from kvbench.workload.request import Request


def workload_requests(cell: Cell) -> list[Request]:
    """The requests of the cell's workload, up to its ``limit``.

    Cells that are asked the same workload have the same seed, so that the pool simulator runs
    the same requests.

    Raises:
        CellFailed: The cell has no workload.
    """
    if cell.workload is None:
        raise CellFailed("no_workload", f"stage {cell.stage} needs a workload")
    limit = cell.settings.get("limit")
    requests = open_workload(cell.workload, cell.seed)
    return list(requests if limit is None else islice(requests, int(limit)))


def prompt_token_ids(request: Request, name: str, vocabulary: int) -> list[int]:
    """Token ids with the request's prefix identity, inside the model's vocabulary.

    Equal hash ids give equal tokens; different ones differ with near certainty over a block.
    A request without identity gets tokens that only its ``name`` decides. Multimodal items
    become text that their identifier decides: it parts prefixes where they would.
    """
    tokens = _text_ids(request, name, vocabulary)
    for item in request.multimodal:
        own = tokens_of(f"item {item.identifier}", item.tokens, vocabulary)
        for place, token in enumerate(own, start=item.offset_tokens):
            tokens[place] = (tokens[place] + token) % vocabulary
    return tokens


def _text_ids(request: Request, name: str, vocabulary: int) -> list[int]:
    if request.prompt_ids is not None:
        return [int(token) % vocabulary for token in request.prompt_ids]
    tokens: list[int] = []
    for position, hash_id in enumerate(request.hash_ids):
        count = min(request.hash_tokens, request.prompt_tokens - position * request.hash_tokens)
        tokens += tokens_of(f"{hash_id}", count, vocabulary)
    if not request.hash_ids:
        tokens = tokens_of(f"request {name}", request.prompt_tokens, vocabulary)
    return tokens


def output_token_ids(request: Request, name: str, vocabulary: int) -> list[int]:
    """Token ids of the output: the stated ones, else such that nobody else's output has them.

    Equal prompts would otherwise be answered alike, and one find the other's answer cached.
    """
    if request.output_ids is not None:
        return [int(token) % vocabulary for token in request.output_ids]
    return tokens_of(f"output {name}", request.output_tokens, vocabulary)


def tokens_of(identity: str, count: int, vocabulary: int) -> list[int]:
    """``count`` token ids below ``vocabulary`` that only ``identity`` decides."""
    stream = hashlib.shake_256(identity.encode()).digest(4 * count)
    return [
        int.from_bytes(stream[4 * index : 4 * index + 4], "little") % vocabulary
        for index in range(count)
    ]


def cache_salt(request: Request, salt: str = "") -> str:
    """Salt of a request: equal for requests that may share blocks, empty when all may.

    An adapter's blocks are nobody else's; the adapter itself is not loaded, its name is part
    of the salt.
    """
    return "/".join(part for part in (salt, request.lora, request.salt) if part)
