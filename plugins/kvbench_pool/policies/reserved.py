"""Preallocating policies: all the memory that a sequence may ever need, in one piece."""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod

from kvbench_pool.policies.base import Job, PoolShape


class Reserving(ABC):
    """A policy that reserves one contiguous piece per request and never grows it."""

    name: str
    preallocates = True
    cached_slots = 0
    unshared_slots = 0
    evicted_slots = 0

    def __init__(self, shape: PoolShape) -> None:
        self._shape = shape
        self._pieces: dict[int, tuple[int, int]] = {}
        self.allocated_slots = 0
        self.promised_slots = 0
        self.live_slots = 0

    def fits(self, job: Job) -> bool:
        """Whether the request stays below ``max_model_len`` and its piece below the pool."""
        return self._room_for(job) >= job.final_tokens and self._size_for(job) <= self._largest()

    def admit(self, job: Job) -> int | None:
        """Reserve a piece for the whole life of the request."""
        size = self._size_for(job)
        start = self._take(size)
        if start is None:
            return None
        self._pieces[job.index] = (start, size)
        self.allocated_slots += size
        self.promised_slots += job.final_tokens
        return 0

    def room(self, job: Job) -> int:
        """Return the rest of the piece."""
        return self._pieces[job.index][1] - job.known

    def grow(self, job: Job) -> bool:
        """A piece never grows, and no admitted request needs it to."""
        return False

    def wrote(self, slots: int) -> None:
        """Count the tokens."""
        self.live_slots += slots

    def computed(self, job: Job) -> None:  # noqa: B027 - no preallocating policy reuses anything
        """Nothing can be reused."""

    def release(self, job: Job) -> None:
        """Return the piece."""
        start, size = self._pieces.pop(job.index)
        self._give_back(start, size)
        self.allocated_slots -= size
        self.promised_slots -= job.final_tokens
        self.live_slots -= job.computed

    def wasted_outside(self, job: Job) -> int:
        """All free slots, when they would do but for lying apart."""
        free = self._shape.slots - self.allocated_slots
        return free if free >= self._room_for(job) else 0

    def _room_for(self, job: Job) -> int:
        return self._shape.reserve_for(job)

    def _largest(self) -> int:
        return self._shape.slots

    def _size_for(self, job: Job) -> int:
        return self._room_for(job)

    @abstractmethod
    def _take(self, size: int) -> int | None:
        """Return the start of a free piece of ``size`` slots, or ``None``."""

    @abstractmethod
    def _give_back(self, start: int, size: int) -> None:
        """Make a piece free."""


class Contiguous(Reserving):
    """Best-fit pieces of exactly the reserved length; neighbours merge when they become free."""

    name = "contiguous"

    def __init__(self, shape: PoolShape) -> None:
        super().__init__(shape)
        self._starts = [0]
        self._sizes = [shape.slots]

    def _take(self, size: int) -> int | None:
        fitting = [(room, at) for at, room in enumerate(self._sizes) if room >= size]
        if not fitting:
            return None
        room, at = min(fitting)
        start = self._starts[at]
        if room == size:
            del self._starts[at], self._sizes[at]
        else:
            self._starts[at] += size
            self._sizes[at] -= size
        return start

    def _give_back(self, start: int, size: int) -> None:
        at = bisect.bisect(self._starts, start)
        self._starts.insert(at, start)
        self._sizes.insert(at, size)
        self._merge(at)
        if at:
            self._merge(at - 1)

    def _merge(self, at: int) -> None:
        """Join a free piece with its right neighbour when they touch."""
        if (
            at + 1 < len(self._starts)
            and self._starts[at] + self._sizes[at] == self._starts[at + 1]
        ):
            self._sizes[at] += self._sizes[at + 1]
            del self._starts[at + 1], self._sizes[at + 1]


class Static(Reserving):
    """The pool is cut once into slots of ``max_model_len`` tokens; a request takes one."""

    name = "static"

    def __init__(self, shape: PoolShape) -> None:
        super().__init__(shape)
        count = shape.slots // shape.max_model_len
        self._free = [at * shape.max_model_len for at in reversed(range(count))]

    def _room_for(self, job: Job) -> int:
        return self._shape.max_model_len

    def _take(self, size: int) -> int | None:
        return self._free.pop() if self._free else None

    def _give_back(self, start: int, size: int) -> None:
        self._free.append(start)


class Buddy(Reserving):
    """Power-of-two pieces that split in halves and merge with their buddy."""

    name = "buddy"

    def __init__(self, shape: PoolShape) -> None:
        super().__init__(shape)
        self._free: dict[int, set[int]] = {}
        start = 0
        for bit in reversed(range(shape.slots.bit_length())):
            self._free[1 << bit] = set()
            if shape.slots >> bit & 1:
                self._free[1 << bit].add(start)
                start += 1 << bit

    def _largest(self) -> int:
        return 1 << (self._shape.slots.bit_length() - 1)

    def _size_for(self, job: Job) -> int:
        return 1 << (self._room_for(job) - 1).bit_length()

    def _take(self, size: int) -> int | None:
        piece = next((at for at in sorted(self._free) if at >= size and self._free[at]), None)
        if piece is None:
            return None
        start = min(self._free[piece])
        self._free[piece].discard(start)
        while piece > size:
            piece //= 2
            self._free[piece].add(start + piece)
        return start

    def _give_back(self, start: int, size: int) -> None:
        while start ^ size in self._free[size]:
            self._free[size].discard(start ^ size)
            start, size = min(start, start ^ size), size * 2
        self._free[size].add(start)
