"""``kvbench fit``: what fits on a GPU: budget, contexts, concurrent requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.cli.engine_arguments import split_arguments
from kvbench.cli.output import emit, emit_json, format_option
from kvbench.cli.quantities import ByteSize, Counts

if TYPE_CHECKING:
    from kvbench.device.spec import DeviceSpec
    from kvbench.fit.answer import Answer
    from kvbench.fit.question import Question
    from kvbench.layout import Layout

_TERMS = ("weights", "activation", "graphs", "non_torch", "safety")
_AXES = ("kv-dtype", "block-size", "tp", "context")
_DEFAULT_LAYOUT = "vllm"


class _Count(click.ParamType):  # type: ignore[type-arg]
    """One count, with k and m as suffixes."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = Counts().convert(value, param, ctx)
        if len(found) != 1:
            self.fail(f"expected one count, got {value!r}", param, ctx)
        return found[0]


def _term_options(function: Any) -> Any:
    for term in reversed(_TERMS):
        option = f"--{term.replace('_', '-')}"
        function = click.option(
            option, term, type=ByteSize(), help=f"State the term {term}, bytes on one rank."
        )(function)
    return function


@click.command("fit", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="MODEL", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--gpu", required=True, help="Catalog name, or FILE.toml#NAME of a [devices] table.")
@click.option("--gpu-memory", type=ByteSize(), help="Total memory of one GPU, as engines see it.")
@click.option("--gpus", type=click.IntRange(1, 1 << 20), help="GPUs in all [default: tp × pp].")
@click.option("--tp", type=click.IntRange(1, 1024), help="Ranks [default: all GPUs].")
@click.option("--pp", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--context", type=_Count(), help="Tokens of a request [default: the model's].")
@click.option("--concurrency", type=_Count(), default=1, show_default=True)
@click.option("--workload", help="Trace file, or FILE.toml#NAME of a [workloads] table.")
@click.option("--utilization", type=float, default=0.92, show_default=True)
@click.option("--max-num-seqs", type=_Count(), help="Requests of one step.")
@click.option("--enforce-eager", is_flag=True, help="No graphs are captured.")
@click.option("--engine-version", default="0.32.0", show_default=True, help="Budget's release.")
@click.option("--kv-dtype", default="auto", show_default=True)
@click.option("--block-size", type=_Count(), help="Tokens per block [default: the engine's].")
@click.option("--layout", "layout_name", default=_DEFAULT_LAYOUT, show_default=True)
@click.option("--what-if", multiple=True, type=click.Choice([*_AXES, "all"]), help="Vary one.")
@click.option("--smallest", is_flag=True, help="List the smallest GPUs that fit.")
@click.option("--why", is_flag=True, help="Show the formulas with their numbers.")
@_term_options
@format_option
def command(
    arguments: tuple[str, ...], layout_name: str, output_format: str, why: bool, **options: Any
) -> None:
    """Say what fits on GPUs for MODEL: memory budget, blocks, requests, longest context.

    Every term of the budget has an interval and so has the answer. State a term to replace it
    (--activation 1.2GiB). The layout takes its engine's own options by name
    (--max-num-batched-tokens 2048). Exit code 0 whatever the verdict; 2 for what cannot be asked.
    """
    from kvbench.plugins import load_plugins

    layout = load_plugins().layout(layout_name)
    question = _question(arguments, layout, options)
    from kvbench.fit.answer import answer

    found = answer(question)
    axes = _AXES if "all" in options["what_if"] else options["what_if"]
    _print(found, axes, output_format, smallest=options["smallest"], why=why)


def _question(arguments: tuple[str, ...], layout: Layout, options: dict[str, Any]) -> Question:
    from kvbench.device.conditions import parse_version
    from kvbench.fit.question import Question
    from kvbench.model.load import load_model

    tokens, rest = _step_tokens(arguments)
    references, engine = split_arguments(rest, layout)
    if len(references) != 1:
        raise click.UsageError(f"expected one MODEL, got {', '.join(references)}")
    longest = engine.pop("max_model_len", None)
    context = options["context"] or (longest if isinstance(longest, int) else None)
    tp = options["tp"] or max(1, (options["gpus"] or 1) // options["pp"])
    return Question(
        model=load_model(references[0]),
        device=_device(options["gpu"], options["gpu_memory"]),
        layout=layout,
        gpus=options["gpus"] or 0,
        tp=tp,
        pp=options["pp"],
        context=context,
        concurrency=options["concurrency"],
        lengths=_lengths(options["workload"]),
        utilization=options["utilization"],
        kv_dtype=options["kv_dtype"],
        block_size=options["block_size"],
        tokens=tokens,
        sequences=options["max_num_seqs"],
        eager=options["enforce_eager"],
        version=parse_version(options["engine_version"]),
        stated={term: options[term] for term in _TERMS if options[term] is not None},
        engine=engine,
    )


def _step_tokens(arguments: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
    """The step's tokens matter to the budget of every layout, whether it has the option or not."""
    rest: list[str] = []
    found: str | None = None
    pending = iter(arguments)
    for argument in pending:
        name, equals, value = argument.partition("=")
        if name not in ("--max-num-batched-tokens", "--max_num_batched_tokens"):
            rest.append(argument)
            continue
        found = value if equals else next(pending, "")
    if found is None:
        return None, tuple(rest)
    return _Count().convert(found, None, None), tuple(rest)


def _device(name: str, memory: int | None) -> DeviceSpec:
    from kvbench.device.catalog import load_device

    path, hash_sign, table = name.partition("#")
    tables = _toml_tables(Path(path), "devices") if hash_sign or path.endswith(".toml") else {}
    if memory is None:
        return load_device(table or name if not tables else table or next(iter(tables)), tables)
    from dataclasses import replace

    known = load_device(table or name, tables)
    source = "memory as stated; the rest of " + known.source
    return replace(
        known, memory_bytes=memory, memory_low_bytes=0, memory_high_bytes=0, source=source
    )


def _toml_tables(path: Path, kind: str) -> dict[str, Any]:
    import tomllib

    from kvbench.errors import DeviceError

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceError(f"{path}: not a TOML file: {error}") from None
    tables = document.get(kind)
    if not isinstance(tables, dict) or not tables:
        raise DeviceError(f"{path}: it has no [{kind}.NAME] table")
    return tables


def _lengths(reference: str | None) -> tuple[int, ...]:
    if reference is None:
        return ()
    from kvbench.errors import TraceError
    from kvbench.fit.resident import resident_lengths
    from kvbench.names import did_you_mean
    from kvbench.workload.load import open_workload, parse_workload, workload_from_trace

    path, _, name = reference.partition("#")
    if path.endswith(".toml"):
        tables = _toml_tables(Path(path), "workloads")
        chosen = name or next(iter(tables))
        if chosen not in tables:
            raise TraceError(f"{path}: no [workloads.{chosen}] table{did_you_mean(chosen, tables)}")
        spec = parse_workload(chosen, tables[chosen], Path(path).parent)
    else:
        spec = workload_from_trace(Path(reference))
    found = resident_lengths(open_workload(spec, seed=0))
    if not found:
        raise TraceError(f"{reference}: it has no requests")
    return found


def _print(
    found: Answer, axes: Sequence[str], output_format: str, *, smallest: bool, why: bool
) -> None:
    from kvbench.cli import fit_answer
    from kvbench.device.catalog import DEVICES
    from kvbench.fit import whatif

    names = [axis.replace("-", "_") for axis in axes]
    rows = [fit_answer.alternative_row(each) for each in whatif.alternatives(found.question, names)]
    points = [fit_answer.break_even_row(each) for each in whatif.break_even(found)] if rows else []
    candidates = whatif.smallest(found.question, DEVICES.values()) if smallest else ()
    listed = [fit_answer.candidate_row(each) for each in candidates]
    document = fit_answer.document(found)
    if output_format == "json":
        document |= {"what_if": rows, "break_even": points} if rows else {}
        document |= {"smallest": listed} if smallest else {}
        emit_json(document)
        return
    if output_format == "table":
        click.echo("\n".join(fit_answer.sentences(found, why=why)))
    else:
        emit([document], fit_answer.COLUMNS, output_format)
    for title, table, columns in (
        ("what if", rows, fit_answer.WHATIF_COLUMNS),
        ("break-even", points, ("knob", "value", "meaning")),
        ("smallest that fit", listed, tuple(listed[0]) if listed else ()),
    ):
        if table:
            click.echo(f"\n{title}:")
            emit(table, columns, output_format)
    if smallest and not listed:
        click.echo("\nno device of the catalog holds this with up to 8 ranks")
