"""`exitsign signatures stats`: what each signature did, over a history or in Postgres.

Rule: a history is counted anew with the signatures of today; Postgres tells what was decided at the time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.rows import dict_row
from rich.table import Table

from classifiers.comparison import Tally, tally
from classifiers.contest import usable_matcher
from services.cli.common import OUT, fail, one_line_errors, print_json, settings
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder, print_table
from services.cli.signatures_history import read_history

STORED = "SELECT * FROM signature_stats ORDER BY won DESC, attempts DESC, signature"


def run(
    history: Annotated[
        list[Path] | None, typer.Option(help="JSONL of attempts; may be given again (default: what Postgres holds).")
    ] = None,
    folder: Folder = None,
    silent: Annotated[bool, typer.Option("--silent", help="Also the signatures that were never seen.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a signature.")] = False,
) -> None:
    """Count hits, wins and losses of each signature; noise leaves no trace and is not counted.

    Example: exitsign signatures stats --history history.jsonl
    """
    if not history:
        _tell_stored(json)
        return
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
    print_table(table)
    never = sum(not found.lines and not found.seen for found in tallies.values())
    OUT.print(f"{never} of {len(tallies)} signatures were never seen{'' if silent else '; --silent lists them'}")


def _tell_stored(as_json: bool) -> None:
    """What the view signature_stats holds."""
    dsn = settings().postgres
    if not dsn:
        fail("needs --history FILE, or EXITSIGN_POSTGRES for what was decided so far")
    try:
        with psycopg.connect(dsn, connect_timeout=10) as connection:
            rows = connection.cursor(row_factory=dict_row).execute(STORED).fetchall()
    except psycopg.errors.UndefinedTable:
        fail("the view signature_stats is not there; run `exitsign db upgrade`", 1)
    except psycopg.Error as error:
        fail(f"Postgres: {str(error).splitlines()[0]}; check EXITSIGN_POSTGRES with `exitsign db check`", 1)
    table = Table("signature", "seen", "won", "lost", "agreed", "last seen")
    for row in rows:
        if as_json:
            print_json(row)
        agreed = f"{row['agreed']}/{row['judged']}" if row["judged"] else ""
        counts = (str(row[name]) for name in ("attempts", "won", "lost"))
        table.add_row(row["signature"], *counts, agreed, f"{row['last_seen']:%Y-%m-%d %H:%M}")
    if not as_json:
        print_table(table)


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
