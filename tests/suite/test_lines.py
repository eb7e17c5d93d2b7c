"""Lines of keys: the same keys as ``tomllib`` finds, each where it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.suite.lines import KeyPath, dotted, scan

TRICKY = (
    r'''schema = 1 # comment with [brackets] = "x"
[suite]
name = "a # b ] }"
text = """
[not.a.table]
key = "inside \""" of a string" """"
tags = [
  "a", # ]
  'b',

  { x = 1, y = [1,
    2] },
]
[a."b.c".d]
x.y = 1
"q\u0041" = 'lit # no'
[[b]]
n = 1
when = 1979-05-27 07:32:00
[b.m]
k = -inf
[[b]]
[[b.e]]
r = 0x_ff
[[b.e]]
r = """\
  [x]
  """
s = \'\'\'x\'\'\'\'
t = 3
'''.replace("0x_ff", "0xff")
    .replace("\\'\\'\\'", "'''")
    .replace("\\'", "'")
)


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


def test_every_key_of_a_tricky_text_has_its_line() -> None:
    lines = scan(TRICKY).lines
    assert set(lines) == set(paths(tomllib.loads(TRICKY)))
    assert {dotted(key): line for key, line in lines.items()} == {
        "schema": 1,
        "suite": 2,
        "suite.name": 3,
        "suite.text": 4,
        "suite.tags": 7,
        "suite.tags[0]": 8,
        "suite.tags[1]": 9,
        "suite.tags[2]": 11,
        "suite.tags[2].x": 11,
        "suite.tags[2].y": 11,
        "suite.tags[2].y[0]": 11,
        "suite.tags[2].y[1]": 12,
        "a": 14,
        'a."b.c"': 14,
        'a."b.c".d': 14,
        'a."b.c".d.x': 15,
        'a."b.c".d.x.y': 15,
        'a."b.c".d.qA': 16,
        "b": 17,
        "b[0]": 17,
        "b[0].n": 18,
        "b[0].when": 19,
        "b[0].m": 20,
        "b[0].m.k": 21,
        "b[1]": 22,
        "b[1].e": 23,
        "b[1].e[0]": 23,
        "b[1].e[0].r": 24,
        "b[1].e[1]": 25,
        "b[1].e[1].r": 26,
        "b[1].e[1].s": 29,
        "b[1].e[1].t": 30,
    }


def test_a_key_that_is_not_there_is_where_its_table_is() -> None:
    positions = scan("a = 1\n[b]\n[b.c]\nd = 1\n")
    assert positions.line(("b", "c", "x")) == 3
    assert positions.line(("z",)) == 1
    assert positions.line(()) == 1


def test_a_later_header_of_an_implied_table_is_its_line() -> None:
    assert scan("[a.b]\nx = 1\n[a]\ny = 1\n").line(("a",)) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\na = 2\n", [("a", 2, 1)]),
        ("a.b = 1\n[a]\n", [("a", 2, 1)]),
        ("[a]\n[b]\n[a]\n", [("a", 3, 1)]),
        ("[[a]]\nx = 1\n[[a]]\nx = 1\n", []),
        ("[a.b]\n[a]\n[a.c]\n", []),
    ],
)
def test_duplicates(text: str, expected: list[tuple[str, int, int]]) -> None:
    found = scan(text).duplicates
    assert [(dotted(item.key), item.line, item.first_line) for item in found] == expected


@given(st.text(alphabet="ab=[]{}\"'#.,\n \\1", max_size=80))
@settings(deadline=None)
def test_any_text_is_scanned_and_valid_text_completely(text: str) -> None:
    positions = scan(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(positions.lines) == set(paths(document))
    assert not positions.duplicates


KEYS = st.text(alphabet='abc-_ .é"', min_size=1, max_size=4)
VALUES = st.recursive(
    st.sampled_from(["1", "true", '"x"', "'#'", "1.5e3", '"""\n]"""']),
    lambda inner: st.lists(inner, max_size=3).map(
        lambda items: "[\n" + ", # c\n".join(items) + "\n]"
    ),
    max_leaves=4,
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3))
@settings(deadline=None)
def test_written_tables_are_found_where_they_were_written(
    tables: dict[str, dict[str, str]],
) -> None:
    text = ""
    expected: dict[KeyPath, int] = {}
    for table, pairs in tables.items():
        expected[(table,)] = text.count("\n") + 1
        text += f"[{_quoted(table)}]\n"
        for key, value in pairs.items():
            expected[(table, key)] = text.count("\n") + 1
            text += f"{_quoted(key)} = {value}\n"
    lines = scan(text).lines
    assert {key: lines[key] for key in expected} == expected
    assert set(lines) == set(paths(tomllib.loads(text)))


def _quoted(key: str) -> str:
    return '"' + key.replace('"', '\\"') + '"'
