"""The ``kvbench`` command line: one module per command, imported when the command is named."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from kvbench import __version__
from kvbench.errors import KvbenchError
from kvbench.names import did_you_mean

#: Core commands in the order of ``kvbench --help``, each with its one-line summary, so that the
#: overview needs no command's imports.
COMMANDS: dict[str, str] = {
    "run": "Run a suite and write results and a report.",
    "plan": "Show what a suite would run, and why the rest would not.",
    "report": "Render the report of one run, or of several side by side.",
    "compare": "Compare two runs, with verdicts and an exit code.",
    "size": "Size the KV cache of models: bytes, blocks, concurrency.",
    "fit": "Say what fits on a GPU: budget, contexts, concurrent requests.",
    "explain": "Derive or contradict every KV figure of an engine's log or metrics.",
    "observe": "Sample a running server into the result schema.",
    "models": "List the models of the catalog.",
    "gpus": "List the devices of the catalog.",
    "engines": "List engine plugins and what is wrong with broken ones.",
    "metrics": "List every registered metric.",
    "schema": "Print the JSON Schema of suites.",
    "new-plugin": "Write a new engine plugin to start from.",
}


#: 128 + SIGPIPE.
_BROKEN_PIPE = 141


class _LazyGroup(click.Group):
    """Finds core commands by module name, then asks the plugins for theirs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        _add_plugin_commands(self)
        return [*COMMANDS, *sorted(set(self.commands) - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"kvbench.cli.{cmd_name.replace('-', '_')}")
            command: click.Command = module.command
            return command
        _add_plugin_commands(self)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(
                f"no command {name!r}{did_you_mean(name, self.list_commands(ctx))}"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has seen enough (`| head`); what a shell says of a program it closed on.
            _abandon_stdout()
            sys.exit(_BROKEN_PIPE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _add_plugin_commands(self)
        rows = list(COMMANDS.items())
        rows += [
            (name, self.commands[name].get_short_help_str(limit=80))
            for name in sorted(self.commands)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _add_plugin_commands(group: _LazyGroup) -> None:
    from kvbench.cli.plugin_commands import add_plugin_commands

    add_plugin_commands(group, COMMANDS)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kvbench")
def cli() -> None:
    """Predict, simulate, ask and measure the LLM KV cache, side by side.

    Start with `kvbench run suites/gqa_vs_mha.toml`.
    """


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; the only place where errors become exit codes.

    Exit codes: 0 ok, 1 regression or failed expectation, 2 usage, suite or model error,
    3 some cells failed, 4 nothing was measured or compared, 130 interrupted.
    """
    sys.exit(_exit_code(args))


def _exit_code(args: list[str] | None) -> int:
    try:
        return cli.main(args=args, prog_name="kvbench", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("kvbench: interrupted", err=True)
        return 130
    except KvbenchError as error:
        click.echo(f"kvbench: {error}", err=True)
    except OSError as error:
        _abandon_stdout()
        click.echo(f"kvbench: {_system_error(error)}", err=True)
    return 2


def _system_error(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or type(error).__name__}"


def _abandon_stdout() -> None:
    """Send what stdout still buffers nowhere, so that no second error follows at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
