"""A tiny evaluator of the PTX that widens pairs: as many instructions as those snippets use."""

from __future__ import annotations

import re

import numpy as np
import torch


def run(source: str, register: int) -> tuple[int, int]:
    """Return output registers ``$0`` and ``$1`` of an inline-assembly snippet for input ``$2``."""
    values: dict[str, int] = {"$2": register}
    for line in source.strip("{}\n").split(";"):
        words = re.findall(r"[$\w.]+", line)
        if words and words[0] != ".reg":
            _step(words[0], words[1:], values)
    return values["$0"], values["$1"]


def _step(opcode: str, operands: list[str], values: dict[str, int]) -> None:
    target, *sources = operands
    if opcode == "mov.b32" and len(operands) == 3:
        packed = _read(operands[2], values)
        values[operands[0]], values[operands[1]] = packed & 0xFFFF, packed >> 16
        return
    numbers = [_read(source, values) for source in sources]
    values[target] = _OPERATIONS[opcode](*numbers) & 0xFFFFFFFF


def _read(operand: str, values: dict[str, int]) -> int:
    return values[operand] if operand in values else int(operand, 0)


def _prmt(low: int, high: int, selector: int) -> int:
    source = (low | high << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(source[selector >> 4 * i & 7] for i in range(4)), "little")


def _lop3(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        result |= (table >> index & 1) << bit
    return result


def _add_halves(a: int, b: int) -> int:
    left, right = (np.array([x], "<u4").view("<f2") for x in (a, b))
    return int((left + right).astype("<f2").view("<u4")[0])


def _convert(pair: int) -> int:
    codes = torch.tensor([pair & 0xFF, pair >> 8], dtype=torch.uint8).view(torch.float8_e4m3fn)
    return int(codes.to(torch.float16).numpy().view("<u4")[0])


_OPERATIONS = {
    "mov.b32": lambda a: a,
    "shl.b32": lambda a, n: a << n,
    "shr.b32": lambda a, n: a >> n,
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "lop3.b32": _lop3,
    "prmt.b32": _prmt,
    "add.rn.f16x2": _add_halves,
    "cvt.rn.f16x2.e4m3x2": _convert,
}
