"""Read registers, spills, loads and the main loop out of disassembled kernels."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_BRANCH = re.compile(r"\bBRA\b.*?\b0x([0-9a-f]+)")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a compiled kernel needs and what its main loop issues.

    Attributes:
        registers: Registers of one thread (VGPRs and AGPRs on AMD).
        spill_bytes: Bytes of registers that live in memory, or spilled registers on AMD.
        shared_bytes: Shared memory of one program.
        threads: Threads of one program.
        loop: Opcode -> instructions of the main loop, one warp.
        matrix: Matrix opcodes found in the loop.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    threads: int
    loop: Counter[str]
    matrix: tuple[str, ...]

    @property
    def loop_instructions(self) -> int:
        """Instructions of the main loop, one warp."""
        return self.loop.total()

    @property
    def wide_loads(self) -> int:
        """128-bit loads from global memory in the loop, one warp."""
        return sum(count for opcode, count in self.loop.items() if _is_wide(opcode))

    @property
    def narrow_loads(self) -> int:
        """Other loads from global memory in the loop, one warp."""
        return (
            sum(count for opcode, count in self.loop.items() if _is_load(opcode)) - self.wide_loads
        )

    @property
    def wide_load_bytes(self) -> int:
        """Bytes that one round of the loop loads with 128-bit accesses, all threads."""
        return 16 * self.threads * self.wide_loads


def _is_load(opcode: str) -> bool:
    """Whether it loads from global memory (the barrier ``LDGDEPBAR`` does not)."""
    nvidia = opcode.split(".")[0] in ("LDG", "LDGSTS")
    return nvidia or opcode.startswith(("global_load", "buffer_load"))


def _is_wide(opcode: str) -> bool:
    return _is_load(opcode) and (".128" in opcode or opcode.endswith("dwordx4"))


def read_sass(sass: str, usage: str, verbose: str, *, shared_bytes: int, threads: int) -> Code:
    """Read ``cuobjdump -sass``, ``cuobjdump --dump-resource-usage`` and ``ptxas -v``."""
    code = [
        (int(found[1], 16), found[2])
        for line in sass.splitlines()
        if (found := _INSTRUCTION.match(line))
    ]
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", verbose)
    loop = _main_loop(code)
    return Code(
        registers=int(_need(r"REG:(\d+)", usage)),
        spill_bytes=sum(map(int, spills)),
        shared_bytes=shared_bytes,
        threads=threads,
        loop=loop,
        matrix=tuple(sorted(op for op in loop if "MMA" in op)),
    )


def _need(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no {pattern!r} in the disassembler's answer: {text[:200]!r}")
    return found[1]


def _main_loop(code: list[tuple[int, str]]) -> Counter[str]:
    """Opcodes between the target of a backward branch and the branch: the one with most MMAs."""
    place = {address: index for index, (address, _) in enumerate(code)}
    best: Counter[str] = Counter()
    for index, (address, text) in enumerate(code):
        branch = _BRANCH.search(text)
        start = int(branch[1], 16) if branch else address
        if start < address and start in place:
            best = max(best, _opcodes(code[place[start] : index + 1]), key=_matrix_count)
    return best


def _opcodes(code: list[tuple[int, str]]) -> Counter[str]:
    return Counter(_PREDICATE.sub("", text).split()[0] for _, text in code)


def _matrix_count(opcodes: Counter[str]) -> int:
    return sum(count for opcode, count in opcodes.items() if "MMA" in opcode or "mfma" in opcode)


def read_amdgcn(assembly: str, *, shared_bytes: int, threads: int) -> Code:
    """Read the assembly text of an AMD code object, metadata included."""
    loop = _amd_loop(assembly)
    spilled = int(_need(r"\.vgpr_spill_count:\s*(\d+)", assembly))
    scalar = int(_need(r"\.sgpr_spill_count:\s*(\d+)", assembly))
    return Code(
        registers=int(_need(r"\.vgpr_count:\s*(\d+)", assembly)),
        spill_bytes=spilled + scalar,
        shared_bytes=shared_bytes,
        threads=threads,
        loop=loop,
        matrix=tuple(sorted(op for op in loop if "mfma" in op)),
    )


def _amd_loop(assembly: str) -> Counter[str]:
    """Opcodes of the backward branch's body that holds most matrix instructions."""
    code: list[tuple[int, str]] = []
    labels: dict[str, int] = {}
    best: Counter[str] = Counter()
    for line in assembly.splitlines():
        text = line.split(";")[0].strip()
        if re.match(r"^\.L\w+:", text):
            labels[text.split(":")[0]] = len(code)
        elif re.match(r"^[a-z]+_\w+", text):
            code.append((len(code), text))
            target = re.match(r"^s_c?branch\w*\s+(\.L\w+)", text)
            if target and target[1] in labels:
                best = max(best, _opcodes(code[labels[target[1]] :]), key=_matrix_count)
    return best
