from __future__ import annotations

import pytest

from kvbench.cli import main
from kvbench.results import write_results
from tests.report.sample_run import sample_results

SUITE = """
schema = 1
[suite]
name = "halves"
[protocol]
isolation = "inline"
[engines.analytic]
plugin = "analytic"
[models.gqa8]
layers = 32
query_heads = 32
kv_heads = 8
head_dim = 128
[[benchmark]]
name = "sizes"
stage = "size"
engines = ["analytic"]
options = { model = "gqa8" }
[benchmark.matrix]
context_tokens = [4096, 8192]
kv_dtype = ["bf16", "fp8_e4m3"]
[[compare]]
name = "fp8 against bf16"
benchmark = "sizes"
vary = "kv_dtype"
baseline = "bf16"
metrics = ["logical_bytes"]
"""


def call(*args):
    with pytest.raises(SystemExit) as end:
        main([str(arg) for arg in args])
    return end.value.code


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    write_results(folder, sample_results())
    return folder


def test_report_prints_where_it_wrote(run_dir, tmp_path, capsys):
    export = tmp_path / "values.csv"
    assert call("report", run_dir, "-o", tmp_path / "out.html", "--export", export) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "out.html"), str(export)]
    assert (tmp_path / "figures" / "coverage.png").exists()


def test_several_runs_give_one_report(run_dir, tmp_path):
    assert call("report", run_dir, run_dir, "-o", tmp_path / "both.html") == 0
    assert "sample: 2 runs" in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_no_results_is_one_clear_line(tmp_path, capsys):
    assert call("report", tmp_path / "nowhere") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no such run" in error


def test_a_folder_that_cannot_be_written_is_one_clear_line(run_dir, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert call("report", run_dir, "-o", tmp_path / "file" / "r.html") == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_comparison_leaves_a_comment_and_junit(run_dir, tmp_path, capsys):
    comment, junit = tmp_path / "comment.md", tmp_path / "junit.xml"
    assert call("compare", run_dir, run_dir, "--comment", comment, "--junit", junit) == 0
    assert comment.read_text(encoding="utf-8").startswith("### kvbench: no regression")
    assert "<testsuites" in junit.read_text(encoding="utf-8")
    assert call("compare", run_dir, run_dir, "--junit", tmp_path / "no" / "j.xml") == 2
    assert "cannot write" in capsys.readouterr().err.splitlines()[-1]


def killed(tmp_path, cells):
    """A run that ended after ``cells`` cells, without the chance to write its results."""
    (tmp_path / "halves.toml").write_text(SUITE)
    folder = tmp_path / "killed"
    assert call("run", tmp_path / "halves.toml", "-o", folder, "--no-report") == 0
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(lines[:cells]))
    for name in ("cells.parquet", "samples.parquet"):
        (folder / name).unlink()
    return folder


def test_a_killed_run_is_judged_by_the_cells_that_finished(tmp_path):
    folder = killed(tmp_path, 3)
    assert call("report", folder) == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "This run is partial" in text
    # Of two contexts only the first has both element types.
    sentence = "fp8 against bf16: logical bytes of fp8_e4m3 are 0.5× that of bf16"
    assert f"{sentence} (1 better, of 1 pair)." in text


def test_a_killed_run_whose_suite_is_gone_says_that_nothing_was_judged(tmp_path):
    folder = killed(tmp_path, 3)
    (tmp_path / "halves.toml").unlink()
    assert call("report", folder) == 0
    assert "of 1 pair" in (folder / "report.html").read_text(encoding="utf-8")
    (folder / "suite.toml").write_text("schema = 2")
    assert call("report", folder) == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "comparisons and expectations were not judged" in text
    assert "of 1 pair" not in text
