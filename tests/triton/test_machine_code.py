"""Reading disassembly and the static estimates, on excerpts."""

from __future__ import annotations

from collections import Counter

import pytest

from kvbench_triton.aot.estimate import MACHINES, issue_ratio, programs_per_unit
from kvbench_triton.aot.machine_code import Code, read_amdgcn, read_sass

SASS = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   IADD3 R0, R0, 0x1, RZ ;
        /*0020*/              @!P0 LDGSTS.E.BYPASS.128 [R4], [R2.64] ;
        /*0030*/                   LDG.E R9, [R6.64] ;
        /*0040*/                   LDGDEPBAR ;
        /*0050*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0060*/               @P1 BRA 0x20 ;
        /*0070*/                   IADD3 R1, R1, 0x1, RZ ;
        /*0080*/               @P2 BRA 0x70 ;
        /*0090*/                   EXIT ;
"""
AMD = """
.LBB0_1:
  global_load_dwordx4 v[0:3], v[4:5], off
  global_load_dword v6, v[4:5], off
  v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]
  s_cbranch_scc1 .LBB0_1
  s_endpgm
  .vgpr_count:     120
  .vgpr_spill_count: 3
  .sgpr_spill_count: 1
"""


def test_sass():
    code = read_sass(
        SASS,
        "REG:96 STACK:0 SHARED:0",
        "8 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads",
        shared_bytes=1000,
        threads=128,
    )
    assert (code.registers, code.spill_bytes) == (96, 36)
    assert code.loop_instructions == 5
    assert (code.wide_loads, code.narrow_loads, code.wide_load_bytes) == (1, 1, 2048)
    assert code.matrix == ("HMMA.16816.F32.BF16",)


def test_amdgcn():
    code = read_amdgcn(AMD, shared_bytes=0, threads=256)
    assert (code.registers, code.spill_bytes, code.loop_instructions) == (120, 4, 4)
    assert (code.wide_loads, code.narrow_loads) == (1, 1)


def test_text_that_is_no_answer_is_an_error():
    with pytest.raises(ValueError, match="REG"):
        read_sass(SASS, "cuobjdump: not found", "", shared_bytes=0, threads=128)


def code_of(**changes) -> Code:
    values = {
        "registers": 128,
        "spill_bytes": 0,
        "shared_bytes": 40960,
        "threads": 128,
        "loop": Counter({"HMMA": 400}),
        "matrix": ("HMMA",),
    }
    return Code(**values | changes)


@pytest.mark.parametrize(
    ("change", "programs"),
    [({}, 4), ({"registers": 129}, 3), ({"shared_bytes": 115000}, 2), ({"threads": 1024}, 0)],
)
def test_programs_at_once(change, programs):
    # 65536 registers over 128 x 128; 129 round up to 136; 228 KiB over 115000 bytes and 1 KiB.
    assert programs_per_unit(code_of(**change), MACHINES["sm_90"]) == programs


def test_issue_over_memory():
    # 400 instructions x 4 warps over 4 schedulers; 4.3 TB/s over 132 units at 1.755 GHz.
    per_cycle = 4.3e12 / 132 / 1.755e9
    ratio = issue_ratio(code_of(), 32768, MACHINES["sm_90"])
    assert ratio == pytest.approx(400 / (32768 / per_cycle))
