"""Which tile, warps and pipeline depth a shape gets: a small table and a pure function.

There is no autotuner: it would need a driver, and its choice would be neither testable nor safe
to capture in a CUDA graph. Every entry is compiled ahead of time for every target in the tests;
``docs/kernel_aot.md`` holds what the compilers made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvbench.errors import EngineUnavailable
from kvbench_triton.shape import DecodeShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device as the kernels see it.

    Attributes:
        family: ``sm_80`` (and 86, 89), ``sm_90``, ``sm_100`` (and later), ``gfx942`` or ``cpu``.
        multiprocessors: Streaming multiprocessors or compute units.
        native_fp8: The device converts fp8 e4m3 in hardware (sm_89 and later).
    """

    family: str
    multiprocessors: int
    native_fp8: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConfig:
    """Compile-time choices of one decode kernel.

    Attributes:
        block_h: Query heads of one program, padding included.
        block_n: Tokens of one tile.
        warps: Warps of one program.
        stages: Pipeline depth.
        programs_per_unit: Programs a multiprocessor holds at once, by the compiled resources.
    """

    block_h: int
    block_n: int
    warps: int
    stages: int
    programs_per_unit: int


#: First compute capability with bf16 matrix units and asynchronous copies.
OLDEST_CAPABILITY = 8

CPU = Target(family="cpu", multiprocessors=1)

WIDTH_CLASSES = (64, 128, 256)


def _entry(block_h: int, block_n: int, warps: int, stages: int, programs: int) -> KernelConfig:
    return KernelConfig(
        block_h=block_h, block_n=block_n, warps=warps, stages=stages, programs_per_unit=programs
    )


#: (family, kind of cache row, width class) -> configuration with the largest ``block_h``.
TABLE: dict[tuple[str, str, int], KernelConfig] = {
    ("sm_80", "kv16", 64): _entry(16, 128, 4, 3, 2),
    ("sm_80", "kv16-wide", 64): _entry(32, 128, 4, 3, 2),
    ("sm_80", "kv16", 128): _entry(16, 64, 4, 3, 2),
    ("sm_80", "kv16-wide", 128): _entry(32, 64, 4, 3, 2),
    ("sm_80", "kv16", 256): _entry(16, 32, 4, 3, 2),
    ("sm_80", "kv8", 64): _entry(16, 128, 4, 3, 3),
    ("sm_80", "kv8-wide", 64): _entry(32, 64, 2, 3, 4),
    ("sm_80", "kv8", 128): _entry(16, 64, 4, 3, 3),
    ("sm_80", "kv8-wide", 128): _entry(32, 64, 4, 3, 3),
    ("sm_80", "kv8", 256): _entry(16, 64, 4, 3, 2),
    ("sm_80", "mla", 0): _entry(32, 64, 8, 2, 1),
    ("sm_90", "kv16", 64): _entry(16, 128, 4, 3, 3),
    ("sm_90", "kv16-wide", 64): _entry(32, 128, 4, 3, 2),
    ("sm_90", "kv16", 128): _entry(16, 64, 4, 3, 3),
    ("sm_90", "kv16-wide", 128): _entry(32, 64, 4, 3, 2),
    ("sm_90", "kv16", 256): _entry(16, 32, 4, 3, 3),
    ("sm_90", "kv8", 64): _entry(16, 128, 4, 3, 3),
    ("sm_90", "kv8-wide", 64): _entry(32, 64, 2, 3, 4),
    ("sm_90", "kv8", 128): _entry(16, 64, 4, 3, 4),
    ("sm_90", "kv8-wide", 128): _entry(32, 64, 4, 3, 3),
    ("sm_90", "kv8", 256): _entry(16, 64, 4, 3, 2),
    ("sm_90", "mla", 0): _entry(32, 64, 8, 2, 1),
    ("sm_100", "kv16", 64): _entry(16, 128, 4, 3, 3),
    ("sm_100", "kv16-wide", 64): _entry(32, 128, 4, 3, 2),
    ("sm_100", "kv16", 128): _entry(16, 64, 4, 3, 3),
    ("sm_100", "kv16-wide", 128): _entry(32, 64, 4, 3, 2),
    ("sm_100", "kv16", 256): _entry(16, 32, 4, 3, 3),
    ("sm_100", "kv8", 64): _entry(16, 128, 4, 3, 3),
    ("sm_100", "kv8-wide", 64): _entry(32, 64, 2, 3, 4),
    ("sm_100", "kv8", 128): _entry(16, 128, 4, 3, 2),
    ("sm_100", "kv8-wide", 128): _entry(32, 128, 4, 3, 2),
    ("sm_100", "kv8", 256): _entry(16, 64, 4, 3, 2),
    ("sm_100", "mla", 0): _entry(64, 64, 8, 2, 1),
    ("gfx942", "kv16", 64): _entry(16, 64, 4, 2, 4),
    ("gfx942", "kv16", 128): _entry(16, 64, 4, 2, 2),
    ("gfx942", "kv16", 256): _entry(16, 32, 4, 2, 2),
    ("gfx942", "kv8", 64): _entry(16, 64, 4, 2, 3),
    ("gfx942", "kv8", 128): _entry(16, 64, 4, 2, 2),
    ("gfx942", "kv8", 256): _entry(16, 32, 4, 2, 2),
    ("gfx942", "mla", 0): _entry(16, 16, 4, 2, 1),
}

#: Matrix units take at least this many rows; fewer query heads are padded.
MIN_BLOCK_H = 16

_INTERPRETER = _entry(16, 32, 4, 2, 1)


def table_key(shape: DecodeShape, family: str) -> tuple[str, str, int]:
    """The table's key for ``shape``, in the table or not.

    ``-wide`` entries are for more query heads per KV head than the smallest matrix has rows.
    """
    if shape.is_mla:
        return family, "mla", 0
    kind = "kv8" if shape.kv_dtype in ("fp8_e4m3", "int8") else "kv16"
    widest = max(shape.head_dim_k, shape.head_dim_v)
    width = min(width for width in WIDTH_CLASSES if width >= widest)
    wide = (family, f"{kind}-wide", width)
    return wide if shape.group > MIN_BLOCK_H and wide in TABLE else (family, kind, width)


def pick_config(shape: DecodeShape, target: Target) -> KernelConfig:
    """Return the configuration for ``shape`` on ``target``.

    ``block_h`` is the group of query heads rounded up to a power of two, within the table's limit:
    larger groups take several programs.

    Raises:
        EngineUnavailable: No kernel for this target or, on a device, for float32 caches.
    """
    if target.family == "cpu":
        entry = _INTERPRETER
    elif shape.kv_dtype == "fp32":
        raise EngineUnavailable(
            "fp32 caches run in the interpreter only", 'use kv_dtype = "bf16" or "fp16"'
        )
    else:
        entry = _table_entry(shape, target)
    rows = 1 << (shape.group - 1).bit_length()
    return replace(entry, block_h=min(entry.block_h, max(rows, MIN_BLOCK_H)))


def _table_entry(shape: DecodeShape, target: Target) -> KernelConfig:
    try:
        return TABLE[table_key(shape, target.family)]
    except KeyError:
        families = sorted({family for family, _, _ in TABLE})
        raise EngineUnavailable(
            f"no kernel configuration for {target.family}",
            f"use a device of {', '.join(families)}, or the triton-interpreter backend",
        ) from None


def nvidia_family(major: int, minor: int) -> str:
    """Family of a CUDA compute capability.

    Raises:
        EngineUnavailable: Older than 8.0: no bf16 matrix unit, no asynchronous copies.
    """
    if major < OLDEST_CAPABILITY:
        raise EngineUnavailable(
            f"compute capability {major}.{minor} is too old for these kernels, fp8 caches included",
            "use a device of compute capability 8.0 or later, or the triton-interpreter backend",
        )
    newest = max(family for family in (8, 9, 10) if family <= major)
    return f"sm_{newest}0"


def programs_of_group(shape: DecodeShape, config: KernelConfig) -> int:
    """Programs that share the query heads of one KV head, and so read the same tiles."""
    return -(-shape.group // config.block_h)
