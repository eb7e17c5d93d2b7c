"""Engine options on the command line: whatever a layout names, under its engine's own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from kvbench.layout import Layout
from kvbench.names import did_you_mean


def split_arguments(
    arguments: Sequence[str], layout: Layout
) -> tuple[tuple[str, ...], dict[str, object]]:
    """Part arguments that the command does not know into models and engine options.

    ``--max-num-batched-tokens 2048`` and ``--max-num-batched-tokens=2048`` set an option,
    ``--async-scheduling`` and ``--no-async-scheduling`` a flag of the layout.

    Raises:
        click.UsageError: An option that the layout does not have, or one without its value.
    """
    kinds: Mapping[str, type] = getattr(layout, "option_kinds", {})
    references: list[str] = []
    engine: dict[str, object] = {}
    pending = iter(arguments)
    for argument in pending:
        if not argument.startswith("-") or argument == "-":
            references.append(argument)
            continue
        name, value = _option(argument, kinds, pending, layout.name)
        engine[name] = value
    if not references:
        raise click.UsageError("Missing argument 'MODEL...'.")
    return tuple(references), engine


def _option(
    argument: str, kinds: Mapping[str, type], pending: Iterator[str], layout: str
) -> tuple[str, object]:
    written, equals, value = argument.lstrip("-").partition("=")
    name = written.replace("-", "_")
    if name.startswith("no_") and kinds.get(name[3:]) is bool and not equals:
        return name[3:], False
    if name not in kinds:
        known = [f"--{kind.replace('_', '-')}" for kind in kinds]
        hint = did_you_mean(f"--{written}", known)
        raise click.UsageError(f"no option --{written}, nor has the {layout} layout one{hint}")
    if kinds[name] is bool and not equals:
        return name, True
    if not equals:
        value = next(pending, "")
    if not value:
        raise click.UsageError(f"option --{written} needs a value")
    return name, _typed(value, kinds[name], written)


def _typed(value: str, kind: type, written: str) -> object:
    if kind is str:
        return value
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise click.UsageError(f"option --{written} is true or false, got {value!r}")
        return value.lower() == "true"
    if not (value.isascii() and value.isdigit() and len(value) < 13):
        raise click.UsageError(f"option --{written} needs a whole number, got {value!r}")
    return int(value)
