"""`exitsign`: the root command and what hangs on it.

Rule: a command's modules are imported when it runs, so that `classify` needs neither Kafka nor Postgres.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from typer.core import TyperGroup

from services.cli.common import choose_config

# name: (module, attribute); a module that holds `app` is a group of commands, one that holds `run` is one command.
COMMANDS = {
    "classify": "services.cli.classify",
    "run": "services.cli.run",
    "stack": "services.cli.stack",
    "db": "services.cli.db",
    "topics": "services.cli.topics",
    "advice": "services.cli.advice",
    "attempts": "services.cli.attempts",
    "feedback": "services.cli.feedback",
    "unknowns": "services.cli.unknowns",
    "signatures": "services.cli.signatures",
    "evaluate": "services.cli.evaluate",
    "train": "services.cli.train",
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        if hasattr(module, "app"):
            group = typer.main.get_group(module.app)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(module.run)
        return typer.main.get_command(single)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"exitsign {version('exitsign')}")
        raise typer.Exit


@app.callback()
def root(
    config: Annotated[Path | None, typer.Option(help="TOML file of settings; the environment beats it.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Name the root cause of every failed cluster job, and say whether to retry."""
    choose_config(config)


def main() -> None:
    """The console script.  Its own log goes to stderr, and only what people must know; agents set theirs."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    sys.exit(app(prog_name="exitsign"))
