"""`exitsign db`: make and check the tables and views."""

from __future__ import annotations

import sys

import typer

from services import database
from services.cli.common import OUT, fail, settings

app = typer.Typer(no_args_is_help=True, help="Make and check the tables and views in Postgres.")


def dsn() -> str:
    """The DSN, or one line saying how to set it."""
    chosen = settings().postgres
    if not chosen:
        fail("no Postgres named; set EXITSIGN_POSTGRES, or start one with `exitsign stack up`")
    return chosen


@app.command()
def upgrade() -> None:
    """Bring tables, views, roles and partitions up to date; safe to repeat.

    Example: exitsign db upgrade
    """
    try:
        notes = database.upgrade(dsn())
    except database.DatabaseError as error:
        fail(str(error), 1)
    for note in notes:
        OUT.print(note, markup=False, soft_wrap=True)
    OUT.print("database is up to date")


@app.command()
def check() -> None:
    """Say what is missing in the database; exit status 1 where anything is.

    Example: exitsign db check
    """
    problems = database.check(dsn())
    for problem in problems:
        OUT.print(problem, markup=False, soft_wrap=True)
    if problems:
        sys.exit(1)
    OUT.print("database is in order")
