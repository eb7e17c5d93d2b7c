"""What vLLM says when it does not start, as it said it."""

from __future__ import annotations

import pytest

from kvbench.engine import EngineConfig
from kvbench.errors import CellFailed, EngineUnavailable
from kvbench_vllm.failures import explain_death, explain_failure, translated

CONFIG = EngineConfig(engine="vllm", plugin="vllm", settings={})


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        (
            "ValueError: To serve at least one request with the model's max seq len (8192), "
            "(0.02 GiB KV cache is needed, which is larger than the available KV cache memory "
            "(0.01 GiB). Based on the available memory, the estimated maximum model length is "
            "3968. Try increasing `gpu_memory_utilization`",
            "context_exceeds_cache",
            "8192 tokens; vLLM says 3968",
        ),
        (
            "ValueError: No available memory for the cache blocks. Try increasing",
            "no_cache_memory",
            "not one block fits",
        ),
        (
            "ValueError: Available memory on node 0 (19.81/23.54 GiB) on kv cache allocation is "
            "less than requested memory for kv (100.0 GiB). Decrease --kv-cache-memory-bytes",
            "oom",
            "lower budget_bytes",
        ),
        (
            "ValueError: Available memory on node 0 (1/2 GiB) on startup is less than desired "
            "CPU memory utilization (0.99, 23.31 GiB)",
            "oom",
            "other processes",
        ),
        (
            "ValidationError: User-specified max_model_len (100000) is greater than the derived "
            "max_model_len (max_position_embeddings=8192.0 or model_max_length=None",
            "context_exceeds_model",
            "at most 8192.0 tokens, 100000",
        ),
        (
            "ValueError: No common block size for 16 (CPU_ATTN: [MultipleOf(32)]).",
            "block_size_refused",
            "blocks of 16 tokens (CPU_ATTN: [MultipleOf(32)])",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.", "oom", "ran out of memory"),
        ("HFValidationError: Repo id must be in the form", "checkpoint_missing", "neither"),
        ("SomethingElse: first line\nlast line", "engine_failed", "last line"),
    ],
)
def test_a_known_failure_is_a_sentence(said, reason, words):
    found, sentence = explain_failure(said)
    assert found == reason
    assert words in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("said", "exit_code", "reason", "sentence"),
    [
        ("ValueError: early\n", -9, "server_killed", "killed by SIGKILL (out of host memory?)"),
        ("ValueError: early\n", -11, "server_killed", "killed by SIGSEGV"),
        (
            "(EngineCore pid=7) ERROR 11-29 20:00:00 [core.py:9] ValueError: no such thing\n"
            "RuntimeError: Engine core initialization failed. See root cause above. {}\n"
            "shutting down\n",
            1,
            "server_died",
            "with exit code 1: it last said: ValueError: no such thing",
        ),
        ("", 3, "server_died", "with exit code 3: it last said: no message"),
        (
            "ValueError: No available memory for the cache blocks.",
            1,
            "no_cache_memory",
            "with exit code 1: not one block fits: raise gpu_memory_utilization or budget_bytes",
        ),
    ],
)
def test_a_server_that_ended_by_itself_says_why(said, exit_code, reason, sentence):
    assert explain_death(said, exit_code) == (reason, sentence)


def test_an_exception_becomes_a_failed_cell():
    expected = pytest.raises(CellFailed, match="engine 'vllm': not one block fits")
    with expected as failure, translated(CONFIG):
        raise ValueError("No available memory for the cache blocks.")
    assert failure.value.reason == "no_cache_memory"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (RuntimeError("operator torchvision::nms does not exist"), "pip uninstall torchvision"),
        (ModuleNotFoundError("No module named 'vllm._C'"), "fresh environment"),
        (
            NotImplementedError("FP8 KV cache on CPU requires x86 with AVX-512 or AMX."),
            "takes x86 with AVX-512 or AMX: keep the model's own type, or run on such a machine",
        ),
    ],
)
def test_what_this_machine_lacks_is_unavailable_with_a_remedy(error, remedy):
    with pytest.raises(EngineUnavailable, match=remedy), translated(CONFIG):
        raise error
