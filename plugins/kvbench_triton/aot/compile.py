"""Compile a decode kernel for a GPU target on a machine without one.

Needs a process in which ``TRITON_INTERPRET`` is unset.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvbench_triton.aot.machine_code import Code, read_amdgcn, read_sass
from kvbench_triton.config import KernelConfig, Target
from kvbench_triton.kernels.decode import decode_split
from kvbench_triton.kernels.mla import mla_split
from kvbench_triton.shape import DecodeShape
from kvbench_triton.specialize import decode_constants

TARGETS = {
    "sm_80": Target(family="sm_80", multiprocessors=108),
    "sm_90": Target(family="sm_90", multiprocessors=132, native_fp8=True),
    "sm_100": Target(family="sm_100", multiprocessors=148, native_fp8=True),
    "gfx942": Target(family="gfx942", multiprocessors=304),
}

_STORED = {"bf16": "*bf16", "fp16": "*fp16", "fp32": "*fp32", "fp8_e4m3": "*u16", "int8": "*u16"}


def compile_decode(
    shape: DecodeShape, config: KernelConfig, target: Target, *, aligned: bool = True
) -> Code:
    """Compile the split kernel of ``shape`` and read registers, spills, loads and loop.

    Every pointer and stride is declared divisible by 16, as the host wrapper ensures.
    """
    kernel = mla_split if shape.is_mla else decode_split
    constants = decode_constants(shape, config, target, split=True, aligned=aligned)
    names = [parameter.name for parameter in kernel.params]
    signature = {name: _argument_type(name, shape, constants) for name in names}
    divisible = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*") or "_stride_" in name
    }
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=divisible)
    options = {"num_warps": config.warps, "num_stages": config.stages}
    compiled = triton.compile(source, target=_gpu_target(target), options=options)
    return _read(compiled, config, target)


def _argument_type(name: str, shape: DecodeShape, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in ("keys", "values", "cache"):
        return _STORED[shape.kv_dtype]
    if name in ("out", "query"):
        return _STORED[shape.query_dtype]
    if name in ("tables", "work"):
        return "*i32"
    if name in ("score_scale", "cap_scale"):
        return "fp32"
    return "i32" if "_stride" in name else "*fp32"


def _gpu_target(target: Target) -> GPUTarget:
    if target.family.startswith("sm_"):
        return GPUTarget("cuda", int(target.family.removeprefix("sm_")), 32)
    return GPUTarget("hip", target.family, 64)


def _read(compiled: Any, config: KernelConfig, target: Target) -> Code:
    shared = int(compiled.metadata.shared)
    if target.family.startswith("sm_"):
        sass, usage, verbose = _nvidia_tools(compiled, target)
        return read_sass(sass, usage, verbose, shared_bytes=shared, threads=32 * config.warps)
    return read_amdgcn(compiled.asm["amdgcn"], shared_bytes=shared, threads=64 * config.warps)


def _nvidia_tools(compiled: Any, target: Target) -> tuple[str, str, str]:
    dump = knobs.nvidia.cuobjdump.path
    blackwell = target.family != "sm_80" and hasattr(knobs.nvidia, "ptxas_blackwell")
    ptxas = knobs.nvidia.ptxas_blackwell.path if blackwell else knobs.nvidia.ptxas.path
    with tempfile.TemporaryDirectory() as folder:
        cubin, ptx = Path(folder) / "kernel.cubin", Path(folder) / "kernel.ptx"
        cubin.write_bytes(compiled.asm["cubin"])
        ptx.write_text(compiled.asm["ptx"])
        architecture = compiled.asm["ptx"].split(".target ")[1].split()[0].rstrip(",")
        assembler = [ptxas, "-v", f"--gpu-name={architecture}", str(ptx), "-o", "/dev/null"]
        return (
            _run([dump, "-sass", str(cubin)]),
            _run([dump, "--dump-resource-usage", str(cubin)]),
            _run(assembler),
        )


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
