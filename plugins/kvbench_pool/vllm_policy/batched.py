"""The synchronous scheduler over one full-attention group, fast: work per block event only.

Same decisions as ``stepwise`` (proven by equal digests). What makes it fast:

* A decoding request needs a block every ``block_size`` steps, always in the same phase. Requests
  sit in one bucket per phase, in order of admission; a step touches the one bucket that is due.
* What a step does for all decoding requests alike (one token each, full blocks becoming
  findable) is a count, not a loop.
* Admissions, prompt chunks and frees are array operations over whole tables (``free_blocks``).
* A queue's head that did not fit is not asked again before something was freed or registered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from kvbench.workload.request import Request
from kvbench_pool.digest import StepDigest
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.flow import Chunk, Flow, flows, forget_prefixes, step_parts
from kvbench_pool.vllm_policy.free_blocks import NO_BLOCKS, Blocks, FreeBlocks
from kvbench_pool.vllm_policy.prefix_keys import NumberedPrefixes, PrefixKeys
from kvbench_pool.vllm_policy.simulation import Counts, RequestRecord
from kvbench_pool.vllm_policy.step_notes import StepNotes, over_steps

_NEVER = 1 << 62


class Batched:
    """One simulation; ``run`` it once.

    Attributes:
        free: The pool.
        counts: Sums over the requests.
        notes: Figures of every step.
        step: The step to come.
    """

    def __init__(
        self,
        config: PoolConfig,
        digest: StepDigest | None,
        sink: Callable[[RequestRecord], None],
        numbered: NumberedPrefixes | None = None,
    ) -> None:
        self._config = config
        self._size = config.block_size
        self._caching = config.enable_prefix_caching
        self._digest = digest
        self._sink = sink
        self._key_maker = PrefixKeys(config.block_size, numbered)
        self._numbered = numbered
        self.free = FreeBlocks(config.num_blocks, numbered.zeros() if numbered else None)
        self.counts = Counts()
        self.notes = StepNotes(config, self.free)
        self.step = 0
        self._waiting: deque[Flow] = deque()
        # Order of insertion is order of admission: the youngest is popped first.
        self._running: dict[Flow, None] = {}
        self._prefilling: Flow | None = None
        self._due: list[list[Flow]] = [[] for _ in range(config.block_size)]
        self._ends: dict[int, list[Flow]] = {}
        self._keyed_decoders = 0
        self._head_may_fit = True

    def run(self, requests: Iterable[Request]) -> None:
        """Run all requests to their ends."""
        arrivals = flows(requests, self._config, self.counts)
        coming = next(arrivals, None)
        while coming is not None or self._running or self._waiting:
            if coming is not None and not self._running and not self._waiting:
                self.step = max(self.step, coming.arrive_step)
            while coming is not None and coming.arrive_step <= self.step:
                self._waiting.append(coming)
                self._head_may_fit |= len(self._waiting) == 1
                coming = next(arrivals, None)
            limit = coming.arrive_step if coming is not None else _NEVER
            if not (self._is_quiet and self._decode_until(limit)):
                self._one_step()
        self.notes.settle()
        if self._numbered is not None:
            self._numbered.spare_maps.append(self.free.owner)

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing but decoding can happen until an arrival, an end or a shortage."""
        return (
            self._digest is None
            and self._prefilling is None
            and not self._keyed_decoders
            and not (self._waiting and self._head_may_fit)
            and len(self._running) > 0
        )

    def _decode_until(self, limit: int) -> bool:
        """Take steps before ``limit`` in which all that happens is decoding, up to the next end.

        Returns:
            Whether there was such a step.
        """
        due, free, first = self._due, self.free, self.step
        counts = list(map(len, due))
        stop = min(limit, min(self._ends) + 1)
        count = sum(over_steps(counts, first, stop - first))
        if free.takes_twins(count):
            # Step by step, then: how many prefixes are lost is not a matter of counting blocks.
            stop, count = first + 1, counts[first % self._size]
        while count > free.num_free:
            stop -= 1
            count -= counts[stop % self._size]
        if stop == first:
            return False
        before = free.num_free, free.num_findable
        steps = range(first, stop)
        growing = chain.from_iterable(over_steps(due, first, len(steps)))
        for flow, block in zip(growing, free.take_few(count), strict=True):
            flow.tail.append(block)
        self.notes.add_decoding(steps, len(self._running), len(self._waiting), counts, before)
        self.step = stop
        self._end_due(stop - 1)
        return True

    def _one_step(self) -> None:
        step, free, notes = self.step, self.free, self.notes
        queued = len(self._waiting)
        preempted: list[Flow] = []
        due = self._due[step % self._size]
        if due:
            self._grow(due, preempted)
        if self._caching:
            self._register_decoded(step)
        chunks: list[Chunk] = []
        left = self._config.max_num_batched_tokens - len(self._running)
        if self._prefilling is not None:
            # It runs last and takes what the decoding ones leave.
            left = self._continue_prompt(self._prefilling, left + 1, chunks, preempted)
        decoding = len(self._running) - (self._prefilling is not None)
        if self._head_may_fit and self._waiting and not preempted:
            self._admit(left, chunks)
        notes.add(step, len(self._running), queued, decoding, chunks, self._prefilling)
        parts: list[str] = []
        if self._digest is not None:
            parts = step_parts(self._config, step, self._running, self._prefilling, chunks)
        num_free = free.num_free
        notes.live_tokens += decoding
        for flow, tokens, computed in chunks:
            self._advance(flow, computed + tokens)
        self.step += 1
        ended = self._end_due(step)
        if self._digest is not None:
            numbers = [flow.index for flow in preempted]
            self._digest.add(step, num_free, parts, numbers, [flow.index for flow in ended])

    def _grow(self, due: list[Flow], preempted: list[Flow]) -> None:
        """Give due requests a block each in order of admission, preempting the youngest."""
        if self.free.num_free >= len(due):
            for flow, block in zip(due, self.free.take_few(len(due)), strict=True):
                flow.tail.append(block)
            self.notes.table_blocks += len(due)
            return
        for flow in tuple(due):
            if flow not in self._running:
                continue
            while not self.free.num_free:
                victim = self._preempt_youngest(preempted)
                if victim is flow:
                    return
            flow.tail += self.free.take_few(1)
            self.notes.table_blocks += 1

    def _preempt_youngest(self, preempted: list[Flow]) -> Flow:
        victim, _ = self._running.popitem()
        if victim is self._prefilling:
            self._prefilling = None
            computed = victim.computed
        else:
            computed = victim.lead + self.step
            victim.known = computed + 1
            self._leave_bucket(victim)
        victim.finish_step = -1
        victim.preemptions += 1
        self.counts.preemptions += 1
        if self._caching:
            self._key_to_end(victim, computed // self._size)
        self._release(victim, computed)
        self._waiting.appendleft(victim)
        preempted.append(victim)
        return victim

    def _key_to_end(self, flow: Flow, findable: int) -> None:
        """Key a request's private blocks: it will look for them itself when it returns."""
        if flow.is_keyed_to_end:
            return
        flow.is_keyed_to_end = True
        assert flow.keys is not None
        keyed, full = flow.keyed_blocks, flow.total_tokens // self._size
        flow.keys = np.concatenate((flow.keys, self._key_maker.fresh(full - keyed)))
        flow.keyed_blocks = full
        self.free.reserve_keys(self._key_maker.next_key)
        if findable > keyed:
            self.free.publish(flow.blocks()[keyed:findable], flow.keys[keyed:findable])

    def _release(self, flow: Flow, computed: int) -> None:
        """Free a request's blocks, ``computed`` tokens of which are written."""
        findable = computed // self._size if self._caching else 0
        self.free.give_back(flow.blocks(), findable, min(flow.keyed_blocks, findable))
        self.notes.table_blocks -= flow.num_blocks
        self.notes.live_tokens -= computed
        self._head_may_fit = True
        flow.held, flow.tail = 0, []

    def _bucket(self, flow: Flow) -> list[Flow]:
        return self._due[(-flow.lead - self._config.lookahead_tokens) % self._size]

    def _leave_bucket(self, flow: Flow) -> None:
        self._bucket(flow).remove(flow)
        self._keyed_decoders -= flow.is_keyed_to_end

    def _register_decoded(self, step: int) -> None:
        """Let the blocks be found that decoding requests fill in this step."""
        bucket = self._due[(step + 1 - self._config.lookahead_tokens) % self._size]
        private = len(bucket)
        if self._keyed_decoders:
            for flow in bucket:
                if flow.is_keyed_to_end:
                    assert flow.keys is not None
                    place = (flow.lead + step) // self._size
                    self.free.register_one(flow.block(place), int(flow.keys[place]))
                    self._head_may_fit = True
                    private -= 1
        self.free.num_cached += private

    def _continue_prompt(
        self,
        flow: Flow,
        left: int,
        chunks: list[Chunk],
        preempted: list[Flow],
    ) -> int:
        """Compute the next chunk of a prompt; return what is left of the budget."""
        tokens = min(flow.known - flow.computed, left)
        if tokens <= 0:
            return 0
        end = flow.computed + tokens
        needed = -(-(end + self._config.lookahead_tokens) // self._size)
        if needed - flow.held > self.free.num_free:
            self._preempt_youngest(preempted)
            return left
        if needed > flow.held:
            self._take(flow, needed)
        self._register_prompt(flow, flow.computed // self._size, end // self._size)
        chunks.append((flow, tokens, flow.computed))
        return left - tokens

    def _take(self, flow: Flow, needed: int) -> None:
        """Take the blocks for a prompt up to ``needed`` ones."""
        self.free.take(flow.table[flow.held : needed])
        self.notes.table_blocks += needed - flow.held
        flow.held = needed

    def _register_prompt(self, flow: Flow, first: int, last: int) -> None:
        """Let the blocks ``first`` to ``last`` (exclusive) of a prompt be found."""
        if not self._caching or first >= last:
            return
        keyed = min(last, flow.keyed_blocks)
        if keyed > first:
            assert flow.keys is not None
            self.free.register(flow.table[first:keyed], flow.keys[first:keyed])
            self._head_may_fit = True
        self.free.num_cached += last - max(first, keyed)

    def _admit(self, left: int, chunks: list[Chunk]) -> None:
        """Admit from the head of the queue until one does not fit."""
        while left > 0 and self._waiting and len(self._running) < self._config.max_num_seqs:
            flow = self._waiting[0]
            found = self._find(flow)
            hit = len(found) * self._size
            tokens = min(flow.known - hit, left)
            if not self._has_room(flow, found, hit + tokens):
                self._head_may_fit = False
                return
            self._start(self._waiting.popleft(), found, hit, tokens)
            chunks.append((flow, tokens, hit))
            left -= tokens

    def _find(self, flow: Flow) -> Blocks:
        """Look a request's prefix up; its last known token is never taken as found."""
        if not self._caching:
            return NO_BLOCKS
        if flow.keys is None:
            if self._key_maker.is_full:
                forget_prefixes(self._key_maker, self.free, (*self._running, *self._waiting))
            keys = flow.keys = self._key_maker.public(flow.request)
            flow.keyed_blocks = len(keys)
            self.free.reserve_keys(self._key_maker.next_key)
            if len(keys) > flow.request.prompt_tokens // self._size:
                self._key_to_end(flow, 0)
        return self.free.find(flow.keys[: (flow.known - 1) // self._size])

    def _has_room(self, flow: Flow, found: Blocks, chunk_end: int) -> bool:
        """Whether the request fits: its whole known text if that is reserved, and its chunk.

        Found blocks in the free queue cost as much as new ones.
        """
        config = self._config
        spare = self.free.num_free
        if self._running:
            spare -= config.watermark_blocks
        needed = -(-(chunk_end + config.lookahead_tokens) // self._size)
        if config.reserve_full_prompt:
            needed = max(needed, -(-flow.known // self._size))
        missing = max(0, needed - len(found))
        # As a rule there is room even if all that was found waits in the queue.
        return missing + len(found) <= spare or missing + self.free.count_free(found) <= spare

    def _start(self, flow: Flow, found: Blocks, hit: int, tokens: int) -> None:
        end, ahead = hit + tokens, self._config.lookahead_tokens
        flow.table = np.empty(-(-(flow.total_tokens + ahead) // self._size), dtype=np.int64)
        if len(found):
            self.free.touch(found)
            flow.table[: len(found)] = found
            flow.held = len(found)
            self.notes.table_blocks += flow.held
        self._take(flow, -(-(end + ahead) // self._size))
        self.notes.live_tokens += hit
        flow.computed = hit
        self._running[flow] = None
        self._register_prompt(flow, len(found), end // self._size)
        first = flow.first_step < 0
        if first:
            flow.first_step = self.step
            flow.hit_tokens = hit
            self.counts.queued_steps += self.step - flow.arrive_step
        else:
            flow.rehit_tokens += hit
        self.counts.note_admission(first=first, found=hit, looked_up=flow.known)

    def _advance(self, flow: Flow, computed: int) -> None:
        """Note that a chunk is computed; a finished prompt emits a token and decodes on."""
        self.notes.live_tokens += computed - flow.computed
        flow.computed = computed
        if computed < flow.known:
            self._prefilling = flow
            return
        if self._prefilling is flow:
            self._prefilling = None
        flow.lead = computed - self.step - 1
        flow.finish_step = self.step + flow.total_tokens - computed - 1
        self._ends.setdefault(flow.finish_step, []).append(flow)
        self._bucket(flow).append(flow)
        self._keyed_decoders += flow.is_keyed_to_end

    def _end_due(self, step: int) -> list[Flow]:
        """End the requests whose last token was computed in a step; return them."""
        ended = [flow for flow in self._ends.pop(step, ()) if flow.finish_step == step]
        for flow in ended:
            del self._running[flow]
            self._leave_bucket(flow)
            self._sink(flow.record())
            self._release(flow, flow.total_tokens - 1)
        return ended
