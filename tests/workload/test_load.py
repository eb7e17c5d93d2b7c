"""Workload tables: parsing, every kind of mistake, identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.errors import TraceError
from kvbench.workload.load import (
    KINDS,
    check_params,
    find_problems,
    open_workload,
    parse_workload,
    workload_from_trace,
)

CONSTANT: dict[str, object] = {
    "kind": "constant",
    "requests": 3,
    "prompt_tokens": 5,
    "output_tokens": 2,
}
#: A valid table of every generator.
TABLES: dict[str, dict[str, object]] = {
    "constant": CONSTANT,
    "lognormal": {
        "kind": "lognormal",
        "requests": 40,
        "prompt_median_tokens": 100,
        "prompt_sigma": 1.0,
        "output_median_tokens": 20,
        "output_sigma": 0.5,
    },
    "shared_prefix": {
        "kind": "shared_prefix",
        "requests": 40,
        "prefixes": 3,
        "prefix_tokens": 96,
        "prompt_tokens": 10,
        "output_tokens": 4,
    },
    "multi_turn": {
        "kind": "multi_turn",
        "conversations": 8,
        "turns": 3,
        "prompt_tokens": 10,
        "output_tokens": 4,
    },
    "agent_tree": {
        "kind": "agent_tree",
        "trees": 3,
        "depth": 2,
        "fanout": 2,
        "root_tokens": 20,
        "prompt_tokens": 5,
        "output_tokens": 4,
    },
}
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n"


def test_defaults_are_part_of_the_workload() -> None:
    spec = parse_workload("w", CONSTANT, Path())
    assert spec.params["arrival"] == "all_at_once"
    assert spec == parse_workload("w", {**CONSTANT, "arrival": "all_at_once"}, Path())
    assert spec.path is None


def test_a_trace_is_found_beside_the_suite_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").write_text(AZURE)
    table = {"kind": "trace", "path": "data/t.csv"}
    spec = parse_workload("w", table, tmp_path)
    assert spec.path == tmp_path / "data" / "t.csv"
    assert len(spec.sha256) == 64
    assert "path" not in spec.params
    (tmp_path / "data" / "t.csv").write_text(AZURE + "2023-11-16 18:15:47,1,1\n")
    assert parse_workload("w", table, tmp_path).sha256 != spec.sha256


def test_a_trace_given_by_its_path_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(AZURE)
    spec = workload_from_trace(path, limit=1, format=None)
    assert spec.params["limit"] == 1
    assert [one.prompt_tokens for one in open_workload(spec, 0)] == [374]


def test_time_scale_stretches_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(AZURE + "2023-11-16 18:15:56,1,1\n")
    spec = workload_from_trace(path, time_scale=0.5)
    assert [one.arrival_ms for one in open_workload(spec, 0)] == [0, 5000]


def test_what_a_trace_counts_can_be_asked_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(AZURE + "bad\n")
    requests = open_workload(workload_from_trace(path, on_bad_line="count"), 0)
    assert len(list(requests)) == 1
    assert requests.trace is not None
    assert requests.trace.counts.rejected == 1


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"requests": 0}, "requests", "is 0; expected at least 1"),
        ({"requests": True}, "requests", "is True; expected an integer"),
        ({"requests": 2.0}, "requests", "is 2.0; expected an integer"),
        ({"requests": "8"}, "requests", "is '8'; expected an integer"),
        ({"prompt_tokens": 2**40}, "prompt_tokens", "expected at most"),
        ({"output_tokens": -1}, "output_tokens", "is -1; expected at least 1"),
        ({"promt_tokens": 5}, "promt_tokens", "did you mean 'prompt_tokens'?"),
        ({"arrival": "poison"}, "arrival", "did you mean 'poisson'?"),
        ({"arrival": ""}, "arrival", "expected a string"),
        ({"arrival": "poisson"}, "rate_per_s", "is missing"),
        ({"arrival": "poisson", "rate_per_s": 0}, "rate_per_s", "expected more than 0"),
        ({"rate_per_s": float("nan")}, "rate_per_s", "expected a finite number"),
        ({"rate_per_s": float("inf")}, "rate_per_s", "expected a finite number"),
        ({"arrival_cv": -1.0}, "arrival_cv", "expected more than 0"),
        ({"on_s": 0}, "on_s", "expected more than 0"),
        ({"rate_per_s": 5}, "rate_per_s", "no effect on arrival = 'all_at_once'"),
    ],
)
def test_wrong_keys_are_named(changes: dict[str, object], key: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_workload("load", {**CONSTANT, **changes}, Path())
    assert any(
        line.startswith(f"workload 'load': {key}: ") and message in line
        for line in str(caught.value).splitlines()
    )


def test_all_mistakes_are_told_at_once() -> None:
    problems = find_problems("constant", {"requests": 0, "prompt": 3, "output_tokens": "x"})
    assert [key for key, _ in problems] == ["prompt", "requests", "prompt_tokens", "output_tokens"]


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(TraceError, match="unknown kind 'const'; did you mean 'constant'"):
        parse_workload("w", {**CONSTANT, "kind": "const"}, Path())
    with pytest.raises(TraceError, match="kind: expected one of constant"):
        parse_workload("w", {"requests": 1}, Path())
    with pytest.raises(TraceError, match="unknown kind"):
        check_params("nothing", {})


def test_a_trace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="path: no such file"):
        parse_workload("w", {"kind": "trace", "path": "gone.csv"}, tmp_path)
    with pytest.raises(TraceError, match="path: is missing"):
        parse_workload("w", {"kind": "trace"}, tmp_path)


def test_a_trace_in_no_known_format_is_refused_when_the_suite_loads(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("hello\n")
    with pytest.raises(TraceError, match="not a trace kvbench knows"):
        parse_workload("w", {"kind": "trace", "path": "t"}, tmp_path)


def test_every_kind_is_documented() -> None:
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind.help.endswith(".")
        names = [param.name for param in kind.params]
        assert len(names) == len(set(names))
        assert all(param.help for param in kind.params)
    assert {name for name, kind in KINDS.items() if kind.reads_trace} == {"trace", "empirical"}
    assert set(TABLES) | {"trace", "empirical"} == set(KINDS)
