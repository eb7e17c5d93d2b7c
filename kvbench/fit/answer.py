"""The answer: blocks, tokens, requests and contexts, each with the interval of the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvbench.device.bound import bound_by
from kvbench.device.budget import Budget, make_budget
from kvbench.fit.question import Question
from kvbench.fit.resident import Residents, residents
from kvbench.layout import Arrangement

#: No search for a longest context goes further.
LONGEST = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A count at the low end, the middle and the high end of the budget."""

    low: int
    expected: int
    high: int

    def words(self, noun: str) -> str:
        """``between 41 and 47 requests``, or one number when both ends agree."""
        if self.low == self.high:
            return f"{self.low:,} {noun}"
        return f"between {self.low:,} and {self.high:,} {noun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What fits, for one replica unless said otherwise.

    Attributes:
        question: What was asked.
        budget: The memory budget of the fullest rank.
        arrangement: The cache as the engine arranges it.
        num_blocks: Blocks of the pool, the engine's own included.
        capacity_tokens: Tokens of the pool as the engine would report them.
        max_concurrency: Requests of the longest length, as the engine computes it (a fraction).
        requests: Whole requests of the longest length that run at once, all replicas.
        max_context_tokens: Longest request when as many as asked for run at once.
        residents: Resident tokens of the workload and what they allow, ``None`` without one.
        bound_by: What limits the number of requests.
    """

    question: Question
    budget: Budget
    arrangement: Arrangement
    num_blocks: Range
    capacity_tokens: Range
    max_concurrency: float
    requests: Range
    max_context_tokens: Range
    residents: Residents | None
    bound_by: str

    @property
    def fits(self) -> bool:
        """Whether what was asked for fits even at the low end of the budget."""
        return self.requests.low >= self.question.concurrency

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, one sentence each."""
        at = self.budget.at
        step = f"one step schedules up to {at.tokens:,} tokens of {at.sequences:,} requests"
        return (
            *self.arrangement.assumptions,
            f"memory of {at.device.name}: {at.device.source}",
            f"utilization {at.utilization:g}; {step}",
            "doubts of the terms are independent: added in quadrature",
            *(f"{term.name}: {term.kind}; {term.provenance}" for term in self.budget.terms),
        )


def answer(question: Question) -> Answer:
    """Answer ``question``.

    Raises:
        DeviceError: Ranks or settings that cannot be.
        ModelError: Weights nobody knows, or a model that the layout's engine refuses.
    """
    replicas = question.replicas
    arrangement = question.layout.arrange(question.model, question.layout_options)
    budget = make_budget(question.model, question.conditions, question.stated)
    size = budget.kv_bytes
    blocks = _range(arrangement.num_blocks, max(0, size.low), max(0, size.expected), size.high)
    tokens = question.request_tokens
    limit = budget.at.sequences

    def requests(count: int) -> int:
        return replicas * min(limit, int(arrangement.max_concurrency(count, tokens)))

    per_replica = -(-question.concurrency // replicas)
    return Answer(
        question=question,
        budget=budget,
        arrangement=arrangement,
        num_blocks=blocks,
        capacity_tokens=_over(arrangement.capacity_tokens, blocks),
        max_concurrency=replicas * arrangement.max_concurrency(blocks.expected, tokens),
        requests=_over(requests, blocks),
        max_context_tokens=_over(
            lambda count: longest_context(arrangement, count, per_replica, question), blocks
        ),
        residents=residents(question, arrangement, blocks.low, blocks.expected),
        bound_by=_bound_by(budget, arrangement, blocks.expected, tokens, limit),
    )


def _range(count: Callable[[int], int], low: int, middle: int, high: int) -> Range:
    return Range(low=count(low), expected=count(middle), high=count(max(0, high)))


def _over(count: Callable[[int], int], blocks: Range) -> Range:
    return _range(count, blocks.low, blocks.expected, blocks.high)


def longest_context(
    arrangement: Arrangement, num_blocks: int, requests: int, question: Question
) -> int:
    """Longest request of which ``requests`` run at once in ``num_blocks`` blocks.

    At most the model's own limit; 0 when not even one token each fits.
    """
    stated = question.model.max_context_tokens
    top = stated or LONGEST

    def fits(tokens: int) -> bool:
        return arrangement.max_concurrency(num_blocks, tokens) >= requests

    if not fits(1):
        return 0
    if fits(top):
        return top
    low, high = 1, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _bound_by(
    budget: Budget, arrangement: Arrangement, blocks: int, tokens: int, limit: int
) -> str:
    return bound_by(
        requested_bytes=budget.requested.expected,
        terms={term.name: term.size.expected for term in budget.terms},
        kv_bytes=budget.kv_bytes.expected,
        requests=arrangement.max_concurrency(blocks, tokens),
        seats=limit,
    )
