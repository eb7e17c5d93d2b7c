"""Collects every mistake of a suite, each with its line, so that all are reported at once."""

from __future__ import annotations

import datetime
from enum import Enum
from pathlib import Path
from typing import Final

from kvbench.errors import Problem, SuiteError
from kvbench.suite.lines import KeyPath, Positions, dotted


class Invalid(Enum):
    """Type of ``INVALID``, an enumeration so that type checkers can narrow it away."""

    INVALID = "invalid"


#: Stands for a value that was refused; its problem has been noted already.
INVALID: Final = Invalid.INVALID


class Problems:
    """The mistakes found so far in one suite file."""

    def __init__(self, path: Path, positions: Positions) -> None:
        self.path = path
        self._positions = positions
        self._found: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, key: KeyPath, message: str) -> None:
        """Note a mistake at ``key``; a key that the file lacks points at what encloses it."""
        problem = Problem(path=self.path, line=self.line(key), key=dotted(key), message=message)
        if problem not in self._found:
            self._found.append(problem)

    def refuse(self, key: KeyPath, message: str) -> Invalid:
        """Note a mistake and return ``INVALID``."""
        self.add(key, message)
        return INVALID

    def line(self, key: KeyPath) -> int:
        """1-based line of ``key``, or of what encloses it."""
        return self._positions.line(key)

    def error(self) -> SuiteError:
        """Every mistake, in the order of the file."""
        return SuiteError(tuple(sorted(self._found, key=lambda problem: problem.line or 0)))


def shown(value: object) -> str:
    """Write a TOML value for a message, with its type when that is not plain to see."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, datetime.date | datetime.time):
        return f"the date or time {value}"
    return str(value)
