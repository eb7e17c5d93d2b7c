"""Regenerate the gallery: one small sample report for each shipped suite.

    python reports/regenerate.py            # every suite
    python reports/regenerate.py block_size # some of them

Each suite runs as a user would run it, and the run's folder is removed again; its report and the
picture beside the answer (``answer.png``) replace those in ``reports/<suite>/``. A suite whose
engine is not installed here keeps the report it has; then the exit code is 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

REPORTS = Path(__file__).resolve().parent
SUITES = REPORTS.parent / "suites"

#: Exit codes of ``kvbench run`` that leave a report worth keeping.
KEPT = {0, 1}


def main(names: list[str]) -> int:
    """Regenerate the samples of ``names``, of every suite when there are none."""
    suites = [SUITES / f"{name}.toml" for name in names] or sorted(SUITES.glob("*.toml"))
    said = [regenerate(suite) for suite in suites]
    for suite, answer in zip(suites, said, strict=True):
        print(f"{suite.stem}: {answer or 'regenerated'}")
    return 1 if any(said) else 0


def regenerate(suite: Path) -> str:
    """Replace one sample; return why not, empty when it was done."""
    command = [sys.executable, "-m", "kvbench", "run", f"suites/{suite.name}"]
    ended = subprocess.run(command, cwd=SUITES.parent, capture_output=True, text=True)
    lines = ended.stdout.split()
    run = SUITES.parent / lines[-1] if lines else None
    if run is None or not (run / "report.html").exists():
        words = ended.stderr.strip().splitlines() or ["no report"]
        return f"exit code {ended.returncode}: {words[-1]}"
    if ended.returncode in KEPT:
        keep(run, REPORTS / suite.stem)
    shutil.rmtree(run)
    return "" if ended.returncode in KEPT else f"exit code {ended.returncode}: kept the old one"


def keep(run: Path, target: Path) -> None:
    """Copy a run's report, and the picture beside its answer, to ``target``."""
    target.mkdir(exist_ok=True)
    page = (run / "report.html").read_text(encoding="utf-8")
    (target / "report.html").write_text(page, encoding="utf-8")
    answer = page.split("</section>", 1)[0]
    first = re.search(r'<figure id="figure-([^"]+)"', answer)
    if first:
        shutil.copyfile(run / "figures" / f"{first[1]}.png", target / "answer.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
