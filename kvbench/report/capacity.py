"""What fits, what binds and what more devices buy: cases of a capacity review in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from kvbench.device.bound import KV_POOL, SCHEDULER, bound_by
from kvbench.report.evidence import tag
from kvbench.report.frames import RunFrames, axis_role
from kvbench.report.labels import differing_axes, missing, point_name
from kvbench.report.quantities import binary, plain_number
from kvbench.report.rows import Row, rows_of
from kvbench.report.tables import IN_SAMPLES, Field, Table, number, text
from kvbench.results.schema import PARAM_PREFIX

#: What a device's budget starts from; cells without it are no cases of this module.
ALLOWED = "device_budget_bytes"
_REQUESTS, _NEXT = "concurrent_requests", "next_tp_requests"
_TERM, _CACHE = "_budget_bytes", "kv_budget_bytes"

#: Roles that the name of a case or its sentence says in its own way.
_NAMED = ("model", "kv_dtype", "device", "tp", "pp", "context")
#: Rows of the table of cases; the result tables have them too.
MAX_CASES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Requests at the low end, the middle and the high end of a budget."""

    low: int
    expected: int
    high: int

    def under(self, seats: int) -> Count:
        """The same with at most ``seats`` running at once."""
        return Count(
            low=min(self.low, seats),
            expected=min(self.expected, seats),
            high=min(self.high, seats),
        )

    @property
    def twice(self) -> Count:
        """The requests of two replicas."""
        return Count(low=2 * self.low, expected=2 * self.expected, high=2 * self.high)

    @property
    def words(self) -> str:
        """``41–47``, or one number when both ends agree."""
        if self.low == self.high:
            return f"{self.high:,}"
        return f"{self.low:,}–{self.high:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell with a device's budget.

    Attributes:
        benchmark: Its benchmark.
        evidence: Kind of evidence of its numbers.
        name: Model, cache type, devices and what else tells it from the others.
        context: Tokens of one request, ``None`` when nothing says.
        pool: Requests that the budget admits at once.
        seats: Requests that may run at once, ``None`` when nothing says.
        gpus: Devices of the case.
        bound: What binds (``kvbench.device.bound``), empty when the cell does not say enough.
        budget_bytes: Bytes left for the cache on one rank.
        request_bytes: Bytes that one request needs for admission, ``None`` when unknown.
        allowed_bytes: Bytes of the device that the engine may use.
        terms: What else they are used for, by name.
        next_ranks: The next tensor-parallel degree, 0 without one.
        next_gpus: Devices that it takes beyond this case's.
        next_pool: Requests that the budget admits there.
    """

    benchmark: str
    evidence: str
    name: str
    context: float | None
    pool: Count
    seats: int | None
    gpus: int
    bound: str
    budget_bytes: float
    request_bytes: float | None
    allowed_bytes: float
    terms: dict[str, float]
    next_ranks: int
    next_gpus: int
    next_pool: Count | None

    @property
    def requests(self) -> Count:
        """Requests that run at once."""
        return self.pool if self.seats is None else self.pool.under(self.seats)

    @property
    def subject(self) -> str:
        """The sentence's subject: the case and its requests."""
        count, length = self.requests, ""
        if self.context is not None:
            length = f" of {plain_number(self.context)} tokens"
        noun = "request" if count.low == count.high == 1 else "requests"
        expected = f" ({count.expected:,} expected)" if count.low < count.high else ""
        return f"{self.name}: {count.words} concurrent {noun}{length}{expected}"

    @property
    def binding(self) -> str:
        """What binds, with the numbers that show it."""
        if self.bound == SCHEDULER:
            return f"bound by max_num_seqs, the pool would hold {self.pool.expected:,}"
        if self.bound == KV_POOL:
            need = self.request_bytes
            if self.pool.expected or need is None or need <= self.budget_bytes:
                return f"bound by the KV pool of {binary(self.budget_bytes)} a rank"
            pool = binary(self.budget_bytes)
            return f"bound by the KV pool: one request needs {binary(need)}, a rank has {pool}"
        used = binary(sum(self.terms.values()))
        size, allowed = binary(self.terms[self.bound]), binary(self.allowed_bytes)
        name = self.bound.replace("_", " ")
        if self.bound == "weights":
            return f"bound by the weights: {size} a rank where {allowed} are allowed"
        return f"bound by memory beside the cache: {used} of {allowed}, {name} {size} of it"

    @property
    def growth(self) -> str:
        """What the next tensor-parallel degree gives; empty without one or where it is idle.

        As many devices again may also hold a second replica, which doubles the requests.
        """
        if self.next_pool is None or self.bound == SCHEDULER:
            return ""
        found = self.next_pool if self.seats is None else self.next_pool.under(self.seats)
        one = self.next_gpus == 1
        more = "one GPU more" if one else f"{self.next_gpus:,} GPUs more"
        said = f"{more} {'gives' if one else 'give'} {found.words} with TP {self.next_ranks}"
        if self.next_gpus == self.gpus and self.requests.high:
            said += f", {self.requests.twice.words} as a second replica"
        return said

    @property
    def sentence(self) -> str:
        """The case in one sentence."""
        parts = [self.subject, self.binding if self.bound else "", self.growth]
        return "; ".join(part for part in parts if part) + "."


def cases(run: RunFrames) -> list[Case]:
    """Return every cell that states a device's budget and the requests it admits."""
    rows = run.values
    cells = rows[rows["metric"] == ALLOWED]
    found = []
    for (_, evidence), frame in cells.groupby(["benchmark", "evidence"], sort=False):
        further = [axis for axis in differing_axes(frame) if axis_role(axis) not in _NAMED]
        kept = rows[rows["cell_id"].isin(frame["cell_id"]) & (rows["evidence"] == evidence)]
        figures = {key: _figures(part) for key, part in kept.groupby("cell_id", sort=False)}
        found += [
            _case(row, figures[row.cell_id], further)
            for row in rows_of(frame)
            if _REQUESTS in figures[row.cell_id]
        ]
    return found


def _figures(frame: pd.DataFrame) -> dict[str, Row]:
    wanted = frame[["metric", "value", "low", "high"]]
    return {row.metric: row for row in rows_of(wanted)}


def _case(cell: Row, figures: dict[str, Row], further: Sequence[str]) -> Case:
    terms = {
        name.removesuffix(_TERM): row.value
        for name, row in figures.items()
        if name.endswith(_TERM) and name not in {ALLOWED, _CACHE}
    }
    tp, pp = _ranks(cell.tp), _ranks(cell.pp)
    next_ranks = int(_value(figures, "next_tp_ranks") or 0)
    seats = _value(figures, "scheduler_limit_requests")
    return Case(
        benchmark=str(cell.benchmark),
        evidence=str(cell.evidence),
        name=_name(cell, tp * pp, further),
        context=None if missing(cell.context) else float(cell.context),
        pool=_count(figures[_REQUESTS]),
        seats=None if seats is None else int(seats),
        gpus=tp * pp,
        bound=_bound(figures, terms, seats),
        budget_bytes=_value(figures, _CACHE) or 0.0,
        request_bytes=_value(figures, "admission_bytes"),
        allowed_bytes=figures[ALLOWED].value,
        terms=terms,
        next_ranks=next_ranks,
        next_gpus=(next_ranks - tp) * pp,
        next_pool=_count(figures[_NEXT]) if next_ranks and _NEXT in figures else None,
    )


def _bound(figures: dict[str, Row], terms: dict[str, float], seats: float | None) -> str:
    requests = _value(figures, "max_concurrency_requests")
    if not terms or seats is None or requests is None or _CACHE not in figures:
        return ""
    return bound_by(
        requested_bytes=figures[ALLOWED].value,
        terms=terms,
        kv_bytes=figures[_CACHE].value,
        requests=requests,
        seats=seats,
    )


def _name(cell: Row, gpus: int, further: Sequence[str]) -> str:
    """``Llama-3.1-70B, fp8_e4m3 KV, 2 × h200``, then the other axes that differ."""
    parts = [] if missing(cell.model) else [str(cell.model)]
    if not missing(cell.kv_dtype):
        parts.append(f"{cell.kv_dtype} KV")
    if not missing(cell.device):
        parts.append(f"{gpus:,} × {cell.device}")
    rest = point_name({axis: cell[PARAM_PREFIX + axis] for axis in further})
    return ", ".join([*parts, *([rest] if rest else [])])


def _ranks(value: object) -> int:
    return 1 if missing(value) else int(str(value).removesuffix(".0"))


def _value(figures: dict[str, Row], name: str) -> float | None:
    row = figures.get(name)
    return None if row is None else float(row.value)


def _count(row: Row) -> Count:
    return Count(low=int(row.low), expected=int(row.value), high=int(row.high))


def told_cases(found: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Yield the cases worth a sentence, each with what remains to be said behind it.

    Of each benchmark at the middle one of its contexts the case with the most requests and the
    one with the fewest; the second says how many lie between them.
    """
    for benchmark in dict.fromkeys(case.benchmark for case in found):
        own = [case for case in found if case.benchmark == benchmark]
        contexts = sorted({case.context for case in own if case.context is not None})
        if contexts:
            own = [case for case in own if case.context == contexts[len(contexts) // 2]]
        own.sort(key=lambda case: -case.requests.expected)
        yield own[0], ""
        if len(own) > 1:
            yield own[-1], _rest(own)


def _rest(own: Sequence[Case]) -> str:
    left, none = len(own) - 2, sum(case.requests.expected < 1 for case in own)
    parts = [f"{left:,} more {'case lies' if left == 1 else 'cases lie'} between them"] * (left > 0)
    if none > 1:
        parts.append(f"in {none:,} of {len(own):,} not even one request fits")
    return f" {_sentence('; '.join(parts))}" if parts else ""


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def capacity_table(found: Sequence[Case]) -> Table:
    """Return every case: its requests, what binds, and what the next degree gives."""
    rows = tuple(_table_row(case) for case in found[:MAX_CASES])
    return Table(
        name="capacity-cases",
        caption="What fits, what binds, and what the next tensor-parallel degree gives",
        columns=(
            "benchmark", "case", "context", "concurrent requests", "what binds", "with more GPUs",
        ),
        rows=rows,
        omitted=max(0, len(found) - MAX_CASES),
        whole=IN_SAMPLES,
    )  # fmt: skip


def _table_row(case: Case) -> tuple[Field, ...]:
    count = case.requests
    return (
        text(case.benchmark),
        text(case.name),
        number(case.context, "tokens"),
        Field(text=f"{count.words} {tag(case.evidence)}", key=count.expected),
        text(case.binding.removeprefix("bound by ") if case.bound else "–"),
        text(case.growth or "–"),
    )
