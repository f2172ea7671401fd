"""The input table: which format reads which topic.

Rule: a row that can't work is refused when the agent starts, not when its first record comes.
"""

from __future__ import annotations

from classifiers.records import Stream
from services.formats import check_input, format_named
from services.formats.base import Format, Input
from services.settings import Settings


def input_table(settings: Settings) -> dict[str, tuple[Format, Input]]:
    """{topic: (format, what its records leave unsaid)}.  Raises ValueError for an unknown format, naming the known ones."""
    table = {}
    for row in settings.inputs:
        where = Input(
            topic=row.topic,
            format=row.format,
            cluster=row.cluster,
            scheduler=row.scheduler,
            stream=Stream(row.stream),
            fields=row.fields,
        )
        check_input(where)
        table[row.topic] = (format_named(row.format), where)
    return table
