"""Digest over every decision of a simulation, as the decision logs of vLLM define it.

The record of a step is one line, its fields joined by ``|``: the step, the free blocks after its
decisions, the scheduled requests in order joined by ``;`` (each ``index:tokens:computed:new block
ids``, ids joined by ``,`` and groups by ``/``), ``P:`` and the preempted requests in order, ``F:``
and the requests that ended. A digest is the SHA-256 of the digest before it and the line; the
first one is 32 zero bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence


class StepDigest:
    """Digests records of steps as they come."""

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        """Start at zero.

        Args:
            sink: Gets every line as well.
        """
        self._state = bytes(32)
        self._sink = sink

    def add(
        self,
        step: int,
        free: int,
        scheduled: Iterable[str],
        preempted: Sequence[int],
        ended: Sequence[int],
    ) -> None:
        """Take in the decisions of one step."""
        self.add_line(
            f"{step}|{free}|{';'.join(scheduled)}"
            f"|P:{','.join(map(str, preempted))}|F:{','.join(map(str, ended))}"
        )

    def add_line(self, line: str) -> None:
        """Take in the record of one step, as a decision log spells it."""
        self._state = hashlib.sha256(self._state + line.encode()).digest()
        if self._sink is not None:
            self._sink(line)

    @property
    def hex(self) -> str:
        """The digest so far."""
        return self._state.hex()


def scheduled_part(
    index: int, tokens: int, computed: int, new_blocks: Iterable[Iterable[int]]
) -> str:
    """Return one request's part of a step's line.

    Args:
        index: The request.
        tokens: Tokens computed in the step.
        computed: Tokens computed before it.
        new_blocks: Blocks that its tables gained, by group.
    """
    groups = "/".join(",".join(map(str, blocks)) for blocks in new_blocks)
    return f"{index}:{tokens}:{computed}:{groups}"


def free_queue_digest(blocks: Iterable[int]) -> str:
    """Return the SHA-256 of the free queue's block ids, comma-joined, in order."""
    return hashlib.sha256(",".join(map(str, blocks)).encode()).hexdigest()


def first_difference(expected: str, found: str) -> str:
    """Say in which field two lines of the same step differ, ``""`` if they do not.

    Scheduled requests are compared one by one; block ids are cut to what differs first.
    """
    names = ("step", "free blocks", "scheduled", "preempted", "ended")
    for name, one, other in zip(names, expected.split("|"), found.split("|"), strict=True):
        if one == other:
            continue
        if name != "scheduled":
            return f"{name}: expected {one!r}, got {other!r}"
        return _scheduled_difference(one.split(";"), other.split(";"))
    return ""


def _scheduled_difference(expected: Sequence[str], found: Sequence[str]) -> str:
    names = ("request", "tokens", "computed", "new blocks")
    for place, (one, other) in enumerate(zip(expected, found, strict=False)):
        fields = zip(names, one.split(":"), other.split(":"), strict=True)
        for name, wanted, got in fields:
            if wanted != got:
                return (
                    f"scheduled[{place}] (request {one.split(':')[0]}): {name}: "
                    f"expected {wanted[:200]!r}, got {got[:200]!r}"
                )
    return f"scheduled: expected {len(expected)} requests, got {len(found)}"
