"""What a memory policy is: the one small interface behind every replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kvbench.workload.request import Request


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A request under way.

    Attributes:
        index: Place of the request in the workload, from 0.
        request: The request.
        known: Tokens whose values are known: the prompt and what was sampled so far.
        computed: Tokens whose cache entries are written.
        handle: Whatever the policy keeps for the job.
    """

    index: int
    request: Request
    known: int
    computed: int = 0
    handle: object = field(default=None, repr=False)

    @property
    def final_tokens(self) -> int:
        """Cache entries at the end; the last sampled token needs none."""
        return self.request.prompt_tokens + self.request.output_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """The memory that every policy gets.

    Attributes:
        num_blocks: Blocks of the pool.
        block_size: Tokens per block; also the page of the radix policy.
        max_model_len: Longest sequence that a preallocating policy provides for.
        reserve: ``max`` reserves ``max_model_len``, ``final`` the request's own final length,
            as if it were known beforehand.
    """

    num_blocks: int
    block_size: int
    max_model_len: int
    reserve: str = "max"

    @property
    def slots(self) -> int:
        """Tokens that the pool holds."""
        return self.num_blocks * self.block_size

    def reserve_for(self, job: Job) -> int:
        """Tokens that a preallocating policy reserves for one request."""
        return self.max_model_len if self.reserve == "max" else job.final_tokens


class MemoryPolicy(Protocol):
    """Decides who holds which slots of the pool. One class per policy.

    A job is admitted with memory for all its known tokens, grows while it decodes, and is
    released when it ends or is preempted. A slot holds one token's cache entry.

    Attributes:
        name: Name in suites.
        preallocates: It takes memory for tokens that are far from being written.
    """

    name: str
    preallocates: bool

    @property
    def allocated_slots(self) -> int:
        """Slots that running jobs hold, shared ones once."""

    @property
    def live_slots(self) -> int:
        """Allocated slots that hold a token now, shared ones once."""

    @property
    def promised_slots(self) -> int:
        """Slots that running jobs hold for all that they will write; 0 when memory is paged."""

    @property
    def cached_slots(self) -> int:
        """Slots that no job holds but whose tokens can still be reused."""

    @property
    def unshared_slots(self) -> int:
        """Slots that the running jobs would hold in addition if nothing were shared."""

    @property
    def evicted_slots(self) -> int:
        """Reusable slots that were taken for something else so far."""

    def fits(self, job: Job) -> bool:
        """Whether the job could ever run to its end in an empty pool."""

    def admit(self, job: Job) -> int | None:
        """Take memory for the job's known tokens.

        Returns:
            Tokens found in the pool, fewer than ``job.known``, which need not be computed;
            ``None`` when memory is short, and then nothing changed.
        """

    def room(self, job: Job) -> int:
        """Tokens that a job can write before ``grow`` is due, once its known tokens are."""

    def grow(self, job: Job) -> bool:
        """Take memory for one more token; ``False`` when there is none, and nothing changed."""

    def wrote(self, slots: int) -> None:
        """Note that jobs wrote ``slots`` tokens into memory that they hold."""

    def computed(self, job: Job) -> None:
        """Note that a job's known tokens are all computed and can be reused from now on."""

    def release(self, job: Job) -> None:
        """Take a job's memory back; ``job.computed`` tokens were written."""

    def wasted_outside(self, job: Job) -> int:
        """Free slots that cannot serve ``job`` although there would be enough of them."""
