"""`exitsign topics`: make the topics that agents need."""

from __future__ import annotations

import typer
from rich.table import Table

from services.admin import KafkaUnreachable, create_topics
from services.cli.common import OUT, fail, settings

app = typer.Typer(no_args_is_help=True, help="Make the Kafka topics that agents need.")


@app.callback()
def group() -> None:
    """Make the Kafka topics that agents need."""


@app.command()
def create() -> None:
    """Create every missing topic; existing ones are left alone.

    Example: exitsign topics create
    """
    try:
        made = create_topics(settings())
    except KafkaUnreachable as error:
        fail(str(error), 1)
    table = Table()
    for column in ("topic", "", "what travels on it"):
        table.add_column(column)
    for topic in made:
        table.add_row(topic.name, "created" if topic.created else "there", topic.sentence)
    OUT.print(table)
