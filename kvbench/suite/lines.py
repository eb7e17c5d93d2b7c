"""Line numbers of the keys, tables and array elements of a TOML text.

``tomllib`` drops every position. This scanner walks the same text again and notes where each
key path starts; it trusts ``tomllib`` for validity and stops quietly where the text is broken.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

#: ``("benchmark", 0, "matrix", "batch", 2)``: table keys and array indices from the root.
KeyPath: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?!")'
    r"|'''.*?'''(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_ATOM = re.compile(r"[^,\]}#\n]+")
_REST_OF_LINE = re.compile(r"[^\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A key that is defined again.

    Attributes:
        key: The key.
        line: Line of the second definition.
        first_line: Line of the first.
    """

    key: KeyPath
    line: int
    first_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where the keys of a TOML text are.

    Attributes:
        lines: 1-based line of every key, table header and array element.
        duplicates: Keys that the text defines more than once, in order.
    """

    lines: Mapping[KeyPath, int]
    duplicates: tuple[Duplicate, ...]

    def line(self, key: KeyPath) -> int:
        """Line of ``key``, or of its nearest enclosing key that the text has; 1 for the root."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)


def dotted(key: KeyPath) -> str:
    """Write a key path as users read it: ``benchmark[0].matrix."a b"``."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        quoted = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
        text += f".{quoted}" if text else quoted
    return text


def scan(text: str) -> Positions:
    """Find the line of every key of ``text``; broken text gives the keys before the break."""
    scanner = _Scanner(text)
    with contextlib.suppress(_Broken, RecursionError):
        scanner.document()
    return Positions(lines=scanner.lines, duplicates=tuple(scanner.duplicates))


class _Broken(Exception):  # noqa: N818 - control flow inside this module
    """The text is no TOML from here on."""


class _Scanner:
    """One pass over the text; ``at`` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.duplicates: list[Duplicate] = []
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._elements: dict[KeyPath, int] = {}
        self._closed: set[KeyPath] = set()

    def document(self) -> None:
        """Walk all headers and pairs."""
        table: KeyPath = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_REST_OF_LINE)
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        is_array = self.text.startswith("[[", self.at)
        line = self._line()
        self.at += 2 if is_array else 1
        parts = self._key()
        self._expect("]]" if is_array else "]")
        path: KeyPath = ()
        for part in parts[:-1]:
            path = self._newest((*path, part))
            self.lines.setdefault(path, line)
        path = (*path, parts[-1])
        return self._element(path, line) if is_array else self._table(path, line)

    def _newest(self, path: KeyPath) -> KeyPath:
        """The last element of an array of tables, any other path unchanged."""
        return (*path, self._elements[path] - 1) if path in self._elements else path

    def _element(self, path: KeyPath, line: int) -> KeyPath:
        self.lines.setdefault(path, line)
        count = self._elements.get(path, 0)
        self._elements[path] = count + 1
        self.lines[(*path, count)] = line
        return (*path, count)

    def _table(self, path: KeyPath, line: int) -> KeyPath:
        if path in self._closed:
            self._repeat(path, line)
        self._closed.add(path)
        # A header that only an earlier sub-table implied takes over: that is where it is.
        self.lines[path] = line
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        parts = self._key()
        self._expect("=")
        self._skip(_SPACE)
        path = table
        for part in parts[:-1]:
            path = (*path, part)
            self.lines.setdefault(path, line)
            self._closed.add(path)
        path = (*path, parts[-1])
        if path in self.lines:
            self._repeat(path, line)
        self.lines[path] = line
        self._closed.add(path)
        self._value(path)

    def _repeat(self, path: KeyPath, line: int) -> None:
        self.duplicates.append(Duplicate(key=path, line=line, first_line=self.lines[path]))

    def _value(self, path: KeyPath) -> None:
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._match(_STRING if opening in {'"', "'"} else _ATOM)

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while not self._closes("]"):
            self.lines[(*path, index)] = self._line()
            self._value((*path, index))
            self._comma()
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while not self._closes("}"):
            self._pair(path)
            self._comma()

    def _closes(self, bracket: str) -> bool:
        self._skip(_BLANK)
        if self.at >= len(self.text):
            raise _Broken
        if self.text[self.at] != bracket:
            return False
        self.at += 1
        return True

    def _comma(self) -> None:
        self._skip(_BLANK)
        if self.text.startswith(",", self.at):
            self.at += 1

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self.text.startswith(".", self.at):
            self.at += 1
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        self._skip(_SPACE)
        if self.text[self.at : self.at + 1] in {'"', "'"}:
            part = _unquote(self._match(_STRING))
        else:
            part = self._match(_BARE_KEY)
        self._skip(_SPACE)
        return part

    def _expect(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise _Broken
        self.at += len(token)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _Broken
        self.at = match.end()
        return match.group()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _line(self) -> int:
        return bisect.bisect_left(self._newlines, self.at) + 1


def _unquote(quoted: str) -> str:
    try:
        return str(tomllib.loads(f"key = {quoted}")["key"])
    except tomllib.TOMLDecodeError:
        raise _Broken from None
