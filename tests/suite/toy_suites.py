"""A right suite and ways to spoil it; ``#!`` marks the lines at which mistakes are expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvbench.errors import Problem, SuiteError
from kvbench.suite.load import load_suite
from kvbench.suite.spec import Suite

from .toy_engines import toy_plugins

MARK = "#!"

GOOD = """\
schema = 1

[suite]
name = "toy"
description = "What the tests run."
tags = ["a", "b"]

[protocol]
warmup = 2
repeats = 3
timeout_s = 60
seed = 7

[engines.calc]
plugin = "calc"
options = { block_size = 32 }

[engines.meter]
plugin = "meter"

[models.mha]
layers = 32
kv_heads = 32
head_dim = 128

[models.gqa8]
inherits = "mha"
kv_heads = 8

[workloads.steady]
kind = "constant"
requests = 4
prompt_tokens = 100
output_tokens = 10

[[benchmark]]
name = "bytes"
stage = "size"
engines = ["calc"]
options = { share = 0.5 }
[benchmark.matrix]
model = ["mha", "gqa8"]
context_tokens = { start = 1024, stop = 16384, factor = 4 }
[benchmark.zip]
requests = [1, 2]
kv_dtype = ["auto", "fp8_e4m3"]
[[benchmark.exclude]]
model = "mha"
context_tokens = { ge = 16384 }
reason = "too long"
[[benchmark.include]]
model = "gqa8"
context_tokens = 5000
requests = 64
kv_dtype = "auto"

[[benchmark]]
name = "latency"
stage = "measure"
engines = ["meter"]
[benchmark.matrix]
model = ["mha", "gqa8"]
[benchmark.protocol]
repeats = 9

[[compare]]
benchmark = "bytes"
vary = "model"
baseline = "mha"
metrics = ["logical_bytes"]

[[expect]]
benchmark = "bytes"
metric = "logical_bytes"
where = { model = "gqa8", requests = 1 }
relative_to = { model = "mha" }
equals = 0.25
"""


@dataclass(frozen=True)
class Bad:
    """A spoiled suite.

    Attributes:
        name: Name of the case.
        old: Text of ``GOOD`` that is replaced; empty to append.
        new: What it is replaced with; the lines of the mistakes carry ``MARK``, unless it is
            the first line that changes.
        key: Dotted key of the mistake.
        says: What its message holds.
        at: First line that has this text is where the mistake is said to be, when what should
            be there is missing.
    """

    name: str
    old: str
    new: str
    key: str
    says: tuple[str, ...]
    at: str = ""

    @property
    def text(self) -> str:
        if not self.old:
            return GOOD + self.new
        assert GOOD.count(self.old) == 1, f"{self.name}: {self.old!r} is not there once"
        return GOOD.replace(self.old, self.new)

    @property
    def lines(self) -> list[int]:
        """Marked lines, or the one with ``at``, or the first that was changed."""
        lines = self.text.splitlines()
        if self.at:
            return [next(n for n, line in enumerate(lines, 1) if self.at in line)]
        marked = [n for n, line in enumerate(lines, 1) if MARK in line]
        pairs = zip(lines, GOOD.splitlines(), strict=False)
        return marked or [next(n for n, (new, old) in enumerate(pairs, 1) if new != old)]


def load(folder: Path, text: str) -> Suite:
    """Load ``text`` as a suite in ``folder``."""
    path = folder / "suite.toml"
    path.write_text(text, encoding="utf-8")
    return load_suite(path, toy_plugins())


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    """Mistakes in ``text``; none when it loads."""
    try:
        load(folder, text)
    except SuiteError as error:
        return error.problems
    return ()
