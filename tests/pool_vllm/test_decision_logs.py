"""Every decision of vLLM's own logs, reproduced: equal digest of every step."""

from __future__ import annotations

import pytest

from kvbench_pool.vllm_policy.simulate import run_batched, simulate
from kvbench_pool.vllm_policy.stepwise import run_stepwise
from tests.conftest import shared_path
from tests.pool_vllm.decision_log import (
    FOLDER,
    CheckedDigest,
    DecisionLog,
    assert_equal,
    log_names,
)

#: Logs of the folder at the time of writing; a log that disappears must be noticed.
_SHORT = (
    "conv200_b12000",
    "conv200_b12000_async",
    "conv200_b12000_nocache",
    "conv200_b12000_swa4096",
    "conv200_b12000_wm5",
    "conv200_b16000_hybrid1024",
    "sharegpt_b1500",
    "sharegpt_b40000",
)
#: Logs whose options only the step-by-step scheduler knows.
_STEPWISE_ONLY = ("conv200_b12000_async", "conv200_b12000_swa4096", "conv200_b16000_hybrid1024")
_LONG = ("azure_conv_b8000", "conversation_b10000", "conversation_b80000", "synthetic_b40000")
_FURTHER = tuple(name for name in log_names() if name not in {*_SHORT, *_LONG})


def _check(name: str, run: object) -> None:
    log = DecisionLog(shared_path(f"{FOLDER}/{name}.jsonl"))
    digest = CheckedDigest(log.steps())
    simulation = run(log.trace(), log.config(), digest=digest)  # type: ignore[operator]
    assert_equal(log, simulation, digest)


@pytest.mark.parametrize("name", _SHORT)
def test_short_log_one_decision_at_a_time(name: str) -> None:
    _check(name, run_stepwise)


@pytest.mark.parametrize("name", [name for name in _SHORT if name not in _STEPWISE_ONLY])
def test_short_log_in_batches(name: str) -> None:
    _check(name, run_batched)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*_LONG, *_FURTHER])
def test_long_log(name: str) -> None:
    _check(name, simulate)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", _LONG)
def test_long_log_without_digest_takes_the_quiet_stretches(name: str) -> None:
    """Without a digest whole stretches of steps are one loop; they must end in the same state."""
    log = DecisionLog(shared_path(f"{FOLDER}/{name}.jsonl"))
    summary = simulate(log.trace(), log.config()).summary()
    assert {name: log.summary[name] for name in summary} == summary
