"""`exitsign signatures stats`: what each signature did, over a history or in Postgres."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from classifiers.comparison import Tally, tally
from classifiers.contest import usable_matcher
from services.cli.common import OUT, one_line_errors, print_json
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder
from services.cli.signatures_history import read_history


def run(
    history: Annotated[list[Path], typer.Option(help="JSONL of attempts; may be given again.")],
    folder: Folder = None,
    silent: Annotated[bool, typer.Option("--silent", help="Also the signatures that were never seen.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a signature.")] = False,
) -> None:
    """Count hits, wins and losses of each signature; noise leaves no trace and is not counted.

    Example: exitsign signatures stats --history history.jsonl
    """
    with one_line_errors():
        matcher = usable_matcher(catalog_of(chosen_folder(folder)))
        tallies = tally((attempt for _, attempt in read_history(history)), matcher)
    rows = sorted(tallies.items(), key=lambda row: (-row[1].won, -row[1].seen, row[0]))
    rows = [(name, found) for name, found in rows if silent or found.seen or found.lines]
    if json:
        for name, found in rows:
            print_json(_as_json(name, found))
        return
    table = Table("signature", "lines", "seen", "won", "lost", "right", "last seen", "mostly lost to")
    for name, found in rows:
        table.add_row(name, *_cells(found))
    OUT.print(table)
    never = sum(not found.lines and not found.seen for found in tallies.values())
    OUT.print(f"{never} of {len(tallies)} signatures were never seen{'' if silent else '; --silent lists them'}")


def _as_json(name: str, found: Tally) -> dict[str, Any]:
    return {
        "signature": name, "lines": found.lines, "seen": found.seen, "won": found.won, "lost": found.lost,
        "right": found.right, "judged": found.judged, "last_seen": found.last_seen,
        "last_attempt": found.last_attempt or None, "lost_to": dict(found.lost_to),
    }  # fmt: skip


def _cells(found: Tally) -> tuple[str, ...]:
    seen = datetime.fromtimestamp(found.last_seen, UTC).isoformat(timespec="minutes") if found.last_seen else ""
    to = max(found.lost_to, key=lambda name: found.lost_to[name], default="")
    right = f"{found.right}/{found.judged}" if found.judged else ""
    return (
        *map(str, (found.lines, found.seen, found.won, found.lost)),
        right,
        seen or found.last_attempt,
        f"{to} ({found.lost_to[to]})" if to else "",
    )
