"""`exitsign signatures diff`: what a change of the signatures would have done to the past."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from classifiers.comparison import CatalogChange, Change, Move, compare, compare_catalogs, moves
from classifiers.contest import usable_matcher
from services.cli.common import OUT, one_line_errors, print_json
from services.cli.signatures_folder import Folder, catalog_at, chosen_folder, print_table
from services.cli.signatures_history import read_history

SHOWN_ATTEMPTS = 10
HOUR_S = 3600.0


@dataclass(frozen=True)
class _Page:
    """All that a diff has to say."""

    places: tuple[str, str]
    signatures: CatalogChange
    attempts: int
    changes: list[Change]

    @property
    def moves(self) -> list[Move]:
        return moves(self.changes)

    def head(self) -> str:
        """One sentence of sums."""
        retries = sum(c.before.retry != c.after.retry for c in self.changes)
        known = [c.attempt.gpu_s for c in self.changes if c.attempt.gpu_s is not None]
        hours = f", {sum(known) / HOUR_S:.1f} GPU-hours in {len(known)} of them" if known else ""
        judged = any(c.attempt.accepted for c in self.changes)
        mended, broken = sum(c.mended for c in self.changes), sum(c.broken for c in self.changes)
        told = f"; against people's labels {mended} mended, {broken} broken" if judged else ""
        return (
            f"{len(self.changes)} of {self.attempts} attempts change, {retries} in their retry decision{hours}{told}."
        )


def run(
    before: Annotated[str, typer.Argument(metavar="A", help="A folder, or git:REV.")],
    after: Annotated[str, typer.Argument(metavar="B", help="A folder, or git:REV.")],
    history: Annotated[list[Path] | None, typer.Option(help="JSONL of attempts; may be given again.")] = None,
    folder: Folder = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a pull request's comment.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare two states of the signatures: what came, went or changed, and which past attempts change by it.

    Example: exitsign signatures diff git:HEAD signatures --history history.jsonl --markdown
    """
    with one_line_errors():
        where = chosen_folder(folder)
        old, new = catalog_at(before, where), catalog_at(after, where)
        found: list[Change] = []
        attempts = [attempt for _, attempt in read_history(history or [])]
        if attempts and old.digest != new.digest:
            with ThreadPoolExecutor(max_workers=2) as pool:
                first, second = pool.map(usable_matcher, (old, new))
            found = list(compare(attempts, first, second))
    page = _Page((before, after), compare_catalogs(old, new), len(attempts), found)
    if json:
        print_json(_as_json(page))
    elif markdown:
        sys.stdout.write(_as_markdown(page))
    else:
        _tell(page)


def _as_json(page: _Page) -> dict[str, Any]:
    changes = [
        {"id": c.attempt.log.id, "before": c.before, "after": c.after, "gpu_s": c.attempt.gpu_s} for c in page.changes
    ]
    return {"signatures": page.signatures, "attempts": page.attempts, "moves": page.moves, "changes": changes}


def _as_markdown(page: _Page) -> str:
    lines = [f"### Signatures: `{page.places[0]}` to `{page.places[1]}`", ""]
    for title, names in (("Added", page.signatures.added), ("Removed", page.signatures.removed)):
        lines += [f"**{title}** ({len(names)}): {', '.join(f'`{n}`' for n in names)}", ""] if names else []
    if page.signatures.changed:
        lines += [f"**Changed** ({len(page.signatures.changed)}):", ""]
        lines += [*(f"- `{name}`: {what}" for name, what in page.signatures.changed), ""]
    if not any((page.signatures.added, page.signatures.removed, page.signatures.changed)):
        lines += ["No signature differs.", ""]
    lines += [page.head(), ""] if page.attempts else ["No history was given (`--history FILE`).", ""]
    if page.changes:
        lines += ["| before | after | retry | attempts | GPU-hours |", "|---|---|---|---:|---:|"]
        lines += [f"| {' | '.join(_cells(m))} |" for m in page.moves]
        lines += ["", "<details><summary>Attempts</summary>", ""]
        lines += [f"- `{_cell(c.attempt.log.id)}`: {_cell(_story(c))}" for c in page.changes[:SHOWN_ATTEMPTS]]
        lines += ["", "</details>", ""]
    return "\n".join(lines)


def _tell(page: _Page) -> None:
    for sign, style, names in (("+", "green", page.signatures.added), ("-", "red", page.signatures.removed)):
        for name in names:
            OUT.print(Text(f"{sign} {name}", style=style))
    for name, what in page.signatures.changed:
        OUT.print(Text(f"~ {name}: {what}", style="yellow"), soft_wrap=True)
    told = page.head() if page.attempts else "No history was given: --history FILE shows which attempts change."
    OUT.print(told, soft_wrap=True)
    if page.changes:
        table = Table("before", "after", "retry", "attempts", "GPU-hours")
        for move in page.moves:
            table.add_row(*map(Text, _cells(move)))
        print_table(table)
        for change in page.changes[:SHOWN_ATTEMPTS]:
            OUT.print(Text(f"  {change.attempt.log.id}: {_story(change)}", style="dim"), soft_wrap=True)


def _cells(move: Move) -> tuple[str, ...]:
    words = {True: "retry", False: "stop"}
    (old, old_retry), (new, new_retry) = move.before, move.after
    retry = words[new_retry] if old_retry == new_retry else f"{words[old_retry]} -> {words[new_retry]}"
    hours = f"{move.gpu_s / HOUR_S:.1f}" if move.gpu_s_known else "?"
    return (old, new, retry, str(move.attempts), hours)


def _story(change: Change) -> str:
    old, new = change.before, change.after
    return (
        f"{old.label} ({old.signature or 'no signature'}) -> {new.label} ({new.signature or 'no signature'})"
        f"{': ' if new.line or old.line else ''}{(new.line or old.line)[:120]}"
    )


def _cell(text: str) -> str:
    """Text that can't end a Markdown line or open a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ").replace("`", "'")
