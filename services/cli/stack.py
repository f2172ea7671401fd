"""`exitsign stack`: a real Kafka and a real Postgres on this machine, without Docker."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from services.admin import KafkaUnreachable, create_topics
from services.cli.common import OUT, fail, print_json, settings
from services.cli.stack_agents import start_agents, stop_agents
from services.stack import StackError
from services.stack import up as stacks

app = typer.Typer(no_args_is_help=True, help="A real Kafka and a real Postgres on this machine, without Docker.")
Folder = Annotated[Path, typer.Option(help="Where data, logs and stack.json stand.")]


@app.command()
def up(
    folder: Folder = stacks.FOLDER,
    agents: Annotated[
        bool, typer.Option("--agents", help="Also make topics and tables, and leave all agents running.")
    ] = False,
    kafka_port: Annotated[int | None, typer.Option(help="Kafka's port; any free one unless given.")] = None,
) -> None:
    """Start the stack and leave it running; prints what to export.

    Example: exitsign stack up --agents
    """
    try:
        found = stacks.up(folder, kafka_port=kafka_port)
    except StackError as error:
        fail(str(error), 1)
    environment = {"EXITSIGN_KAFKA": found["kafka"], "EXITSIGN_POSTGRES": found["postgres"]}
    for name, value in environment.items():
        OUT.print(f"export {name}='{value}'", markup=False, soft_wrap=True)
    if agents:
        from services import database

        os.environ.update(environment)
        database.upgrade(found["postgres"])
        try:
            create_topics(settings())
        except KafkaUnreachable as error:
            fail(str(error), 1)
        for line in start_agents(folder, environment):
            OUT.print(line, markup=False, soft_wrap=True)


@app.command()
def down(folder: Folder = stacks.FOLDER) -> None:
    """Stop the stack of that folder, and the agents left running with it; data stays.

    Example: exitsign stack down
    """
    try:
        for line in stop_agents(folder):
            OUT.print(line)
        OUT.print(stacks.down(folder), soft_wrap=True)
    except StackError as error:
        fail(str(error), 1)


@app.command()
def status(
    folder: Folder = stacks.FOLDER, json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False
) -> None:
    """Say what runs; exit status 1 where nothing does.

    Example: exitsign stack status
    """
    found = stacks.status(folder)
    if json:
        print_json(found)
    else:
        OUT.print(
            f"{found['state']}: Kafka {found['kafka_version']} at {found['kafka'] or '-'}, Postgres at {found['postgres'] or '-'}",
            soft_wrap=True,
        )
        for process in found["processes"]:
            OUT.print(
                f"  {process['name']} pid {process['pid']} {'runs' if process['alive'] else 'is dead'}, log {process['log']}",
                soft_wrap=True,
            )
    sys.exit(0 if found["state"] == "running" else 1)
