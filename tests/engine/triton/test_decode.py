"""Interpreted decode against float64."""

from __future__ import annotations

import pytest

from tests.engine.triton.cases import CASES, SENTINELS, run_case


def test_matrix_is_large_enough():
    assert len(CASES) >= 60
    assert set(SENTINELS) <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_decode_agrees_with_float64(name):
    assert run_case(CASES[name]) <= CASES[name].tolerance
