"""Every class of mistake is refused with its line, its key and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.errors import SuiteError
from kvbench.suite.load import load_suite

from .bad_suites import CASES
from .toy_engines import toy_plugins
from .toy_suites import GOOD, Bad, load, problems


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mistake_is_reported_with_line_key_and_message(tmp_path: Path, case: Bad) -> None:
    found = problems(tmp_path, case.text)
    assert [(problem.key, problem.line) for problem in found] == [(case.key, *case.lines)]
    assert all(words in found[0].message for words in case.says), found[0].message


def test_names_of_the_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = GOOD
    for case in CASES:
        if case.name in {"tag_number", "plugin_unknown", "model_key_type", "engine_unknown"}:
            text = text.replace(case.old, case.new)
    found = problems(tmp_path, text)
    assert [problem.key for problem in found] == [
        "suite.tags[1]",
        "engines.calc.plugin",
        "models.mha.kv_heads",
        "benchmark[1].engines[0]",
    ]
    assert [problem.line for problem in found] == sorted(problem.line or 0 for problem in found)


def test_the_error_is_one_line_for_each_mistake(tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, GOOD.replace("schema = 1", "schem = 1").replace("seed = 7", "seed = 1.5"))
    path = tmp_path / "suite.toml"
    assert str(caught.value).splitlines() == [
        f"{path}:1: schem: unknown key; did you mean 'schema'?",
        f"{path}:1: schema: is missing; expected: Version of the suite format: 1.",
        f"{path}:12: protocol.seed: expected an integer, got 1.5",
    ]


def test_a_newer_schema_hides_what_an_older_reader_would_say(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("schema = 1", "schema = 2\nfuture = true"))
    assert [problem.key for problem in found] == ["schema"]


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("schema = 1\nschema = 1\n", 2, "schema", "defined twice, first on line 1"),
        ("[suite]\n[protocol]\n[suite]\n", 3, "suite", "defined twice, first on line 1"),
        ("a = 1\nb = { c = 1, c = 2 }\n", 2, "b.c", "defined twice, first on line 2"),
        ("[[x]]\ny = 1\n[[x]]\ny = 1\ny = 2\n", 5, "x[1].y", "defined twice, first on line 4"),
        ("schema = 1\nname = \n", 2, "", "is not TOML: Invalid value"),
        ("schema = 1\nlist = [1,\n2\n", 3, "", "is not TOML"),
        ('schema = 1\n\nname = "open\n', 3, "", "is not TOML"),
    ],
)
def test_broken_toml_is_located(tmp_path: Path, text: str, line: int, key: str, says: str) -> None:
    found = problems(tmp_path, text)
    assert [(problem.line, problem.key) for problem in found] == [(line, key)]
    assert says in found[0].message


def test_every_duplicate_key_is_reported(tmp_path: Path) -> None:
    found = problems(tmp_path, "a = 1\na = 2\nb = 1\nb = 2\n")
    assert [(problem.line, problem.key) for problem in found] == [(2, "a"), (4, "b")]


def test_text_that_is_not_utf8_is_located(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'schema = 1\n[suite]\nname = "\xe9"\n')
    with pytest.raises(SuiteError, match=r"latin\.toml:3: is not UTF-8"):
        load_suite(path, toy_plugins())


@pytest.mark.parametrize("name", ["nowhere.toml", "."])
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(SuiteError, match="cannot be read") as caught:
        load_suite(tmp_path / name, toy_plugins())
    assert len(str(caught.value).splitlines()) == 1


def test_an_empty_file_lacks_every_required_table(tmp_path: Path) -> None:
    keys = [problem.key for problem in problems(tmp_path, "")]
    assert keys == ["schema", "suite", "engines", "benchmark"]


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    found = problems(tmp_path, f"x = {'[' * 5000}{']' * 5000}\n")
    assert "nested too deeply" in found[0].message
