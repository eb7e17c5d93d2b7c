"""What a right suite becomes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kvbench.engine import Cache, Stage
from kvbench.model.spec import FullLayer
from kvbench.suite.load import load_suite
from kvbench.suite.spec import Condition, Isolation, OnFailure, Order, Protocol

from .toy_engines import toy_plugins
from .toy_suites import GOOD, load, problems


def test_tables_become_specs(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD)
    assert (suite.name, suite.description, suite.tags) == ("toy", "What the tests run.", ("a", "b"))
    assert suite.text == GOOD
    assert suite.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert suite.engines["calc"].options == {"block_size": 32}
    layer = FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128)
    assert suite.models["gqa8"].layers == (layer,) * 32
    assert suite.workloads["steady"].params["prompt_tokens"] == 100


def test_benchmarks_hold_axes_in_the_order_of_the_file(tmp_path: Path) -> None:
    benchmark = load(tmp_path, GOOD).benchmarks[0]
    assert benchmark.stage is Stage.SIZE
    assert list(benchmark.matrix.items()) == [
        ("model", ("mha", "gqa8")),
        ("context_tokens", (1024, 4096, 16384)),
    ]
    assert benchmark.zip == {"requests": (1, 2), "kv_dtype": ("auto", "fp8_e4m3")}
    assert benchmark.exclude[0].reason == "too long"
    assert benchmark.exclude[0].conditions == (
        Condition(axis="model", equals="mha"),
        Condition(axis="context_tokens", ge=16384),
    )
    assert benchmark.include == (
        {"model": "gqa8", "context_tokens": 5000, "requests": 64, "kv_dtype": "auto"},
    )


def test_a_benchmark_changes_the_protocol_for_itself(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD)
    stated = Protocol(warmup=2, repeats=3, timeout_s=60.0, seed=7)
    assert suite.protocol == stated
    assert suite.benchmarks[0].protocol == stated
    assert suite.benchmarks[1].protocol == Protocol(warmup=2, repeats=9, timeout_s=60.0, seed=7)


def test_protocol_choices_become_enumerations(tmp_path: Path) -> None:
    stated = (
        'seed = 7\norder = "sequential"\nisolation = "cell"\ncache = "warm"\non_failure = "abort"'
    )
    protocol = load(tmp_path, GOOD.replace("seed = 7", stated)).protocol
    assert protocol.order is Order.SEQUENTIAL
    assert protocol.isolation is Isolation.CELL
    assert protocol.cache is Cache.WARM
    assert protocol.on_failure is OnFailure.ABORT


def test_relations_get_names_that_say_what_they_are(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD)
    assert suite.comparisons[0].name == "bytes: model against mha"
    assert suite.expectations[0].name == (
        "logical_bytes where model = gqa8, requests = 1 relative to model = mha equals 0.25"
    )
    assert suite.expectations[0].relative_to == (Condition(axis="model", equals="mha"),)


def test_a_comparison_may_vary_the_engine(tmp_path: Path) -> None:
    text = GOOD.replace('engines = ["calc"]', 'engines = ["calc", "calc2"]')
    text = text.replace("[engines.meter]", '[engines.calc2]\nplugin = "calc"\n[engines.meter]')
    text = text.replace('vary = "model"\nbaseline = "mha"', 'vary = "engine"\nbaseline = "calc"')
    assert load(tmp_path, text).comparisons[0].vary == "engine"


def test_the_benchmark_that_fits_needs_no_naming(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD.replace('benchmark = "bytes"\n', ""))
    assert suite.comparisons[0].benchmark == "bytes"
    assert suite.expectations[0].benchmark == "bytes"


def test_names_that_were_made_are_unique(tmp_path: Path) -> None:
    again = '[[compare]]\nvary = "model"\nbaseline = "mha"\nmetrics = ["paged_bytes"]\n'
    names = [comparison.name for comparison in load(tmp_path, GOOD + again).comparisons]
    assert names == ["bytes: model against mha", "bytes: model against mha (2)"]


def test_sizes_with_a_unit_in_conditions_and_baselines(tmp_path: Path) -> None:
    text = GOOD.replace("requests = [1, 2]", 'pool_bytes = ["1GiB", "2GiB"]')
    text = text.replace("requests = 64", 'pool_bytes = "4GiB"')
    text = text.replace("requests = 1 }", 'pool_bytes = ["1GiB", "4GiB"] }')
    text += '[[compare]]\nvary = "pool_bytes"\nbaseline = "1024MiB"\nmetrics = ["paged_bytes"]\n'
    text = text.replace('kv_dtype = ["auto", "fp8_e4m3"]', 'kv_dtype = ["auto", "auto"]')
    suite = load(tmp_path, text)
    assert suite.comparisons[1].baseline == 2**30
    assert suite.expectations[0].where[1].one_of == (2**30, 2**32)
    assert suite.benchmarks[0].include[0]["pool_bytes"] == 2**32


def test_the_only_benchmark_needs_no_naming(tmp_path: Path) -> None:
    start, end = GOOD.index('[[benchmark]]\nname = "latency"'), GOOD.index("[[compare]]")
    text = (GOOD[:start] + GOOD[end:]).replace('benchmark = "bytes"\n', "")
    assert load(tmp_path, text).comparisons[0].benchmark == "bytes"


def test_integers_given_for_a_number_become_floats(tmp_path: Path) -> None:
    text = GOOD.replace("share = 0.5", "share = 1")
    value = load(tmp_path, text).benchmarks[0].options["share"]
    assert value == 1.0
    assert isinstance(value, float)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{ start = 1, stop = 3, step = 1 }", (1, 2, 3)),
        ("{ start = 1, stop = 8, step = 3 }", (1, 4, 7)),
        ("{ start = 16, stop = 128, factor = 2 }", (16, 32, 64, 128)),
        ("{ start = 3, stop = 1000, factor = 10 }", (3, 30, 300)),
        ("{ start = 5, stop = 5, step = 1 }", (5,)),
    ],
)
def test_ranges_of_integers(tmp_path: Path, written: str, values: tuple[int, ...]) -> None:
    old = "{ start = 1024, stop = 16384, factor = 4 }"
    text = GOOD.replace('model = "mha"\ncontext_tokens = { ge = 16384 }', "requests = 2")
    matrix = load(tmp_path, text.replace(old, written)).benchmarks[0].matrix
    assert matrix["context_tokens"] == values


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{ start = 0.1, stop = 0.3, step = 0.1 }", (0.1, 0.2, 0.3)),
        ("{ start = 0.5, stop = 1, step = 0.25 }", (0.5, 0.75, 1.0)),
        ("{ start = 0.1, stop = 0.9, factor = 3.0 }", (0.1, 0.3, 0.9)),
        ("[1, 0.5]", (1.0, 0.5)),
    ],
)
def test_axes_of_numbers(tmp_path: Path, written: str, values: tuple[float, ...]) -> None:
    text = GOOD.replace(
        "[benchmark.matrix]\nmodel", f"[benchmark.matrix]\nshare = {written}\nmodel", 1
    )
    text = text.replace("context_tokens = 5000", "context_tokens = 5000\nshare = 0.7")
    axis = load(tmp_path, text).benchmarks[0].matrix["share"]
    assert axis == values
    assert all(isinstance(value, float) for value in axis)


def test_sizes_may_carry_a_unit(tmp_path: Path) -> None:
    text = GOOD.replace("share = 0.5", 'pool_bytes = "8GiB", device = "card"')
    text = text.replace("[models.mha]", '[devices.card]\nmemory_bytes = "80GiB"\n[models.mha]')
    suite = load(tmp_path, text)
    assert suite.benchmarks[0].options["pool_bytes"] == 8 * 2**30
    assert suite.devices["card"].memory_bytes == 80 * 2**30


def test_catalog_names_need_no_table(tmp_path: Path) -> None:
    text = GOOD.replace("share = 0.5", 'device = "h100-80g"')
    protocol = "[benchmark.protocol]"
    text = text.replace(
        f'model = ["mha", "gqa8"]\n{protocol}', f'model = ["Llama-3.1-8B"]\n{protocol}'
    )
    suite = load(tmp_path, text)
    assert len(suite.models["Llama-3.1-8B"].layers) == 32
    assert list(suite.devices) == ["h100-80g"]


def test_a_zip_may_repeat_a_value_as_long_as_positions_differ(tmp_path: Path) -> None:
    zipped = 'requests = [1, 2, 2]\nkv_dtype = ["auto", "auto", "fp8_e4m3"]'
    text = GOOD.replace('requests = [1, 2]\nkv_dtype = ["auto", "fp8_e4m3"]', zipped)
    assert load(tmp_path, text).benchmarks[0].zip["requests"] == (1, 2, 2)


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_windows_files_load_and_keep_their_lines(tmp_path: Path, ending: str, mark: str) -> None:
    path = tmp_path / "suite.toml"
    data = (mark + GOOD.replace("\n", ending)).encode()
    path.write_bytes(data)
    suite = load_suite(path, toy_plugins())
    assert suite.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("plugin", ["absent", "wrecked"])
def test_an_unusable_plugin_is_no_mistake_of_the_suite(tmp_path: Path, plugin: str) -> None:
    assert problems(tmp_path, GOOD.replace('plugin = "meter"', f'plugin = "{plugin}"')) == ()


def test_a_broken_plugin_is_given_what_the_suite_says(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "wrecked"\noptions = { anything = 1 }')
    text = text.replace("[benchmark.protocol]", "turbo = [1, 2]\n[benchmark.protocol]")
    benchmark = load(tmp_path, text).benchmarks[1]
    assert benchmark.matrix["turbo"] == (1, 2)


def test_the_models_of_a_broken_plugin_are_still_checked(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "wrecked"')
    text = text.replace('model = ["mha", "gqa8"]\n[benchmark.protocol]', 'model = ["mhb"]\n')
    found = problems(tmp_path, text)
    assert [problem.key for problem in found][:1] == ["benchmark[1].matrix.model[0]"]


def test_the_same_column_has_one_type_in_all_benchmarks(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "wrecked"')
    text = text.replace("[benchmark.protocol]", 'requests = ["few"]\n[benchmark.protocol]')
    found = problems(tmp_path, text)
    assert [problem.key for problem in found] == ["benchmark[1].matrix.requests"]
    assert "axis of strings here and of numbers on line 45" in found[0].message


def test_a_missing_baseline_may_be_ignored(tmp_path: Path) -> None:
    gate = 'against = "runs/none"\nmax_regression = 0.05\non_missing = "ignore"'
    expectation = load(tmp_path, GOOD.replace("equals = 0.25", gate)).expectations[0]
    assert expectation.against == tmp_path / "runs" / "none"
    assert expectation.max_regression == 0.05


def test_an_incomplete_model_is_reported_once_not_for_each_heir(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("layers = 32\n", ""))
    assert [(problem.key, problem.line) for problem in found] == [("models.mha.layers", 21)]
