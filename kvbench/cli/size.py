"""``kvbench size``: bytes, blocks and concurrency of models, by arithmetic."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kvbench.cli.engine_arguments import split_arguments
from kvbench.cli.output import emit, emit_json, format_option
from kvbench.cli.quantities import ByteSize, Counts, Names, show_bytes
from kvbench.errors import KvbenchError, ModelError
from kvbench.layout import Layout, LayoutOptions, PagedLayout
from kvbench.model.spec import ModelSpec

DEFAULT_TOKENS = 8192
_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a user asked for; tuples with more than one value span a grid."""

    tokens: tuple[int, ...]
    lengths: tuple[int, ...]
    requests: int
    block_sizes: tuple[int | None, ...]
    kv_dtypes: tuple[str, ...]
    tps: tuple[int, ...]
    pp: int
    layout: Layout
    engine: dict[str, object]
    budget_bytes: int | None
    why: bool

    @property
    def is_grid(self) -> bool:
        """Whether any axis has several values."""
        axes = (self.tokens, self.block_sizes, self.kv_dtypes, self.tps)
        return any(len(axis) > 1 for axis in axes)


@click.command(
    "size", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True}
)
@click.argument("arguments", metavar="MODEL...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--tokens", type=Counts(), help="Tokens a request holds [default: 8192].")
@click.option("--lengths", type=click.Path(path_type=Path), help="File with one length a line.")
@click.option("--requests", type=click.IntRange(1, 1 << 30), default=1, show_default=True)
@click.option("--block-size", type=Counts(), help="Tokens per block [default: the layout's].")
@click.option("--kv-dtype", type=Names(), default="auto", show_default=True)
@click.option("--tp", type=Counts(), default="1", show_default=True, help="Tensor-parallel ranks.")
@click.option("--pp", type=click.IntRange(1, 4096), default=1, help="Pipeline stages.")
@click.option("--layout", "layout_name", default="paged", show_default=True)
@click.option("--budget", type=ByteSize(), help="Bytes of the pool on one rank (8GiB).")
@click.option("--why", is_flag=True, help="Show the formulas with their numbers.")
@format_option
def command(
    arguments: tuple[str, ...],
    tokens: tuple[int, ...] | None,
    lengths: Path | None,
    requests: int,
    block_size: tuple[int, ...] | None,
    kv_dtype: tuple[str, ...],
    tp: tuple[int, ...],
    pp: int,
    layout_name: str,
    budget: int | None,
    why: bool,
    output_format: str,
) -> None:
    """Size the KV cache of MODEL: a catalog name, config.json, GGUF file, TOML table or hub id.

    Figures are per request and, with --tp, per rank; totals are over --requests. Several values
    with commas (--tokens 4k,8k,128k --kv-dtype bf16,fp8) make a table. A layout takes its
    engine's own options by name: --layout vllm --max-num-batched-tokens 2048.
    """
    layout = _layout(layout_name)
    references, engine = split_arguments(arguments, layout)
    if tokens and lengths:
        raise click.UsageError("--tokens and --lengths exclude each other")
    question = Question(
        tokens=tokens or (DEFAULT_TOKENS,),
        lengths=_read_lengths(lengths) if lengths else (),
        requests=requests,
        block_sizes=block_size or (None,),
        kv_dtypes=kv_dtype,
        tps=tp,
        pp=pp,
        layout=layout,
        engine=engine,
        budget_bytes=budget,
        why=why,
    )
    _answer(references, question, output_format)


def _layout(name: str) -> Layout:
    if name == PagedLayout.name:
        # The core's own layout spares the plain question the discovery of plugins.
        return PagedLayout()
    from importlib.metadata import entry_points

    from kvbench.plugins import GROUP, discover, load_plugins

    # A plugin usually calls its layout by its own name: look there before loading all.
    namesake = discover(entry_points(group=GROUP, name=name)).layouts()
    return namesake[name] if name in namesake else load_plugins().layout(name)


def _answer(references: Sequence[str], question: Question, output_format: str) -> None:
    if len(references) == 1:
        answers: list[dict[str, Any]] = _answers(references[0], question)
    else:
        answers = [answer for name in references for answer in _guarded(name, question)]
    _print(answers, question, output_format, single=len(references) == 1)
    if any("error" in answer for answer in answers):
        sys.exit(3)


def _guarded(reference: str, question: Question) -> list[dict[str, Any]]:
    try:
        return _answers(reference, question)
    except KvbenchError as error:
        return [{"model": reference, "error": str(error)}]


def _answers(reference: str, question: Question) -> list[dict[str, Any]]:
    from kvbench.model.load import load_model

    model = load_model(reference, weights=False)
    points = len(question.tokens) * sum(1 for _ in _axes(question))
    if points > _LIMIT:
        raise ModelError(f"{points:,} points asked for; at most {_LIMIT:,} in one command")
    return [row for options in _axes(question) for row in _rows(model, options, question)]


def _axes(question: Question) -> Iterator[LayoutOptions]:
    for dtype, tp, block in itertools.product(
        question.kv_dtypes, question.tps, question.block_sizes
    ):
        yield LayoutOptions(
            block_size=block, kv_dtype=dtype, tp=tp, pp=question.pp, engine=question.engine
        )


def _rows(model: ModelSpec, options: LayoutOptions, question: Question) -> list[dict[str, Any]]:
    from kvbench.cli import size_answer

    arrangement = question.layout.arrange(model, options)
    tokens = (max(question.lengths),) if question.lengths else question.tokens
    requests = len(question.lengths) or question.requests
    rows = [
        size_answer.point(
            model,
            arrangement,
            tokens=count,
            requests=requests,
            tp=options.tp,
            pp=options.pp,
            budget_bytes=question.budget_bytes,
        )
        for count in tokens
    ]
    if question.lengths:
        summary = size_answer.lengths_summary(arrangement, question.lengths, question.budget_bytes)
        rows[0] |= {key: summary[key] for key in summary if key.startswith("total_")}
        rows[0]["lengths"] = summary
    if not question.is_grid:
        rows[0]["groups"] = size_answer.groups(arrangement, tokens[0])
        rows[0]["assumptions"] = _assumptions(model, arrangement.assumptions, tokens[0])
        if question.why:
            rows[0]["why"] = _why(model, arrangement, tokens[0], options)
    return rows


def _assumptions(model: ModelSpec, stated: Sequence[str], tokens: int) -> list[str]:
    longest = model.max_context_tokens
    if longest is not None and tokens > longest:
        return [*stated, f"{tokens:,} tokens exceed the {longest:,} that the model states"]
    return list(stated)


def _why(model: ModelSpec, arrangement: Any, tokens: int, options: LayoutOptions) -> list[str]:
    from kvbench.model.formulas import formulas

    own = getattr(arrangement, "derivation", None)
    if own is not None:
        return list(own(tokens))
    return list(formulas(model, tokens, kv_dtype_name=arrangement.kv_dtype, tp=options.tp))


def _read_lengths(path: Path) -> tuple[int, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    lengths = [_length(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not lengths:
        raise ModelError(f"{path}: no lengths in it; expected one number of tokens a line")
    return tuple(lengths)


def _length(path: Path, number: int, line: str) -> int:
    text = line.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= 1 << 30):
        raise ModelError(f"{path}:{number}: {text[:40]!r} is not a number of tokens")
    return int(text)


def _print(
    answers: list[dict[str, Any]], question: Question, output_format: str, *, single: bool
) -> None:
    from kvbench.cli.size_answer import BUDGET_COLUMNS, COLUMNS

    if output_format == "json":
        emit_json(answers[0] if single and not question.is_grid else answers)
        return
    if output_format == "table" and single and not question.is_grid:
        _print_one(answers[0])
        return
    columns = [*COLUMNS, *(BUDGET_COLUMNS if question.budget_bytes is not None else ())]
    if any("error" in answer for answer in answers):
        columns.append("error")
    emit(answers, columns, output_format)


def _print_one(answer: dict[str, Any]) -> None:
    head = [key for key, value in answer.items() if not isinstance(value, list | dict)]
    for key in head:
        click.echo(f"{key:<24} {_shown(key, answer[key])}")
    for part in ("lengths", "engine_logged"):
        for key, value in answer.get(part, {}).items():
            click.echo(f"{f'{part}.{key}':<34} {_shown(key, value)}")
    columns = ("kind", "layers", "block_size", "page_bytes", "window_tokens", "blocks")
    click.echo()
    emit(answer["groups"], columns, "table")
    for title in ("why", "assumptions"):
        for line in answer.get(title, ()):
            click.echo(f"{title}: {line}")


def _shown(key: str, value: Any) -> str:
    if "bytes" in key and isinstance(value, int | float):
        exact = f"{value:,} B" if isinstance(value, int) else f"{value:,.2f} B"
        return exact if abs(value) < 1024 else f"{exact} ({show_bytes(value)})"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and key != "model" else str(value)
