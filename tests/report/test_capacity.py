"""Cases of a capacity review: what fits, what binds, what more devices buy, by hand."""

from __future__ import annotations

import pytest

from kvbench.engine import Direction, Evidence, Metric
from kvbench.report.capacity import capacity_table, cases
from kvbench.report.frames import run_frames
from kvbench.report.ladder import ladders
from kvbench.report.verdicts import verdict_sentences
from kvbench.results import build_results
from tests.report.sample_run import metadata, record

GIB = 2**30
#: A rank of 72 GiB: 12 GiB of weights, 2 of activation, 58 for the cache; requests of 1.25 GiB.
FIGURES = {
    "device_budget_bytes": 72 * GIB,
    "weights_budget_bytes": 12 * GIB,
    "activation_budget_bytes": 2 * GIB,
    "kv_budget_bytes": 58 * GIB,
    "admission_bytes": 5 * GIB // 4,
    "max_concurrency_requests": 46.4,
    "concurrent_requests": 46,
    "concurrent_requests_low": 41,
    "concurrent_requests_high": 47,
    "scheduler_limit_requests": 256,
    "next_tp_ranks": 4,
    "next_tp_requests": 118,
    "next_tp_requests_low": 118,
    "next_tp_requests_high": 118,
}
AXES = {"model": "Llama-3.1-70B", "device": "h200", "context_tokens": 32768}


def registry(names):
    return {
        (name, "analytic"): Metric(
            name=name,
            unit="requests" if "requests" in name else "bytes" if "bytes" in name else "ranks",
            direction=Direction.NONE,
            evidence=Evidence.ANALYTIC,
            meaning="For this test.",
            exact=True,
        )
        for name in names
    }


def run_of(*cells, axes=AXES):
    """A run of cells, each the figures above with changes; ``None`` takes a figure away."""
    parts, names = [], set()
    for place, (own, changes) in enumerate(cells):
        figures = {**FIGURES, **changes}
        values = {(n, "analytic"): v for n, v in figures.items() if v is not None}
        names |= {name for name, _ in values}
        options = {"tp": 2, "kv_dtype": "fp8_e4m3"}
        parts.append(
            record(place, "fit", "analytic", {**axes, **own}, values=values, options=options)
        )
    types = {name: "int" if isinstance(value, int) else "str" for name, value in axes.items()}
    about = metadata(axis_types=types, metrics=registry(names), comparisons=(), expectations=())
    return run_frames(build_results(parts, about))


def sentence(**changes):
    (case,) = cases(run_of(({}, changes)))
    return case.sentence


def test_a_case_in_one_sentence_with_its_interval_what_binds_and_what_more_gives():
    assert sentence() == (
        "Llama-3.1-70B, fp8_e4m3 KV, 2 × h200: 41–47 concurrent requests of 32,768 tokens "
        "(46 expected); bound by the KV pool of 58 GiB a rank; "
        "2 GPUs more give 118 with TP 4, 82–94 as a second replica."
    )


def test_the_scheduler_binds_where_the_pool_holds_more():
    found = sentence(scheduler_limit_requests=44)
    assert ": 41–44 concurrent requests of 32,768 tokens (44 expected);" in found
    assert found.endswith("bound by max_num_seqs, the pool would hold 46.")


NONE = {
    "kv_budget_bytes": 0,
    "max_concurrency_requests": 0.0,
    "concurrent_requests": 0,
    "concurrent_requests_low": 0,
    "concurrent_requests_high": 0,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {**NONE, "weights_budget_bytes": 80 * GIB},
            "bound by the weights: 80 GiB a rank where 72 GiB are allowed",
        ),
        (
            {**NONE, "weights_budget_bytes": 71 * GIB},
            "bound by memory beside the cache: 73 GiB of 72 GiB, activation 2 GiB of it",
        ),
        (
            {**NONE, "kv_budget_bytes": GIB},
            "bound by the KV pool: one request needs 1.25 GiB, a rank has 1 GiB",
        ),
    ],
)
def test_nothing_fits_for_a_reason_with_numbers(changes, words):
    found = sentence(**changes)
    assert ": 0 concurrent requests of 32,768 tokens; " in found
    assert words in found
    assert found.endswith("; 2 GPUs more give 118 with TP 4.")


def test_one_gpu_more_is_said_in_the_singular_and_no_degree_is_no_words():
    one = sentence(next_tp_ranks=3)
    assert one.endswith("one GPU more gives 118 with TP 3.")
    assert sentence(next_tp_ranks=None).endswith("bound by the KV pool of 58 GiB a rank.")


def test_results_that_do_not_say_what_runs_at_once_name_nothing_that_binds():
    assert "bound" not in sentence(scheduler_limit_requests=None)


def test_of_many_cases_the_first_screen_tells_most_and_fewest_at_the_middle_context():
    counts = {"a": 10, "b": 5, "c": 0, "d": 0}
    cells = [
        ({"model": name, "context_tokens": context}, {
            "concurrent_requests": most * scale, "concurrent_requests_low": most * scale,
            "concurrent_requests_high": most * scale, "next_tp_ranks": None,
        })
        for name, most in counts.items()
        for context, scale in ((1024, 4), (2048, 2), (4096, 1))
    ]  # fmt: skip
    run = run_of(*cells)
    found = [s.text for s in verdict_sentences(run, ladders(run)) if s.topic == "capacity (fit)"]
    assert found[0].startswith("a, fp8_e4m3 KV, 2 × h200: 20 concurrent requests of 2,048 tokens")
    assert found[1].startswith("d, ") or found[1].startswith("c, ")
    assert found[1].endswith(" 2 more cases lie between them; in 2 of 4 not even one request fits.")
    assert len(found) == 2


def test_the_table_has_every_case():
    table = capacity_table(cases(run_of(({}, {}), ({"context_tokens": 65536}, NONE))))
    assert [row[3].text for row in table.rows] == ["41–47 ○ analytic", "0 ○ analytic"]
    assert table.rows[0][4].text == "the KV pool of 58 GiB a rank"
