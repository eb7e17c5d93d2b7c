from __future__ import annotations

import pytest

from kvbench.cli import main
from kvbench.results import write_results
from tests.report.sample_run import sample_results


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
