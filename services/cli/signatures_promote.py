"""`exitsign signatures promote`: one step up the ladder, draft -> shadow -> stable, in the file itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import regex
import typer

from classifiers.catalog import Catalog
from classifiers.checks import examine
from classifiers.comparison import Change, Trial
from classifiers.contest import usable_matcher
from classifiers.lock import content_digest
from classifiers.signature import Signature, Status
from services.cli.common import OUT, fail, one_line_errors
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder, read_lock_of, replace_text
from services.cli.signatures_history import read_history

NEXT = {Status.DRAFT: Status.SHADOW, Status.SHADOW: Status.STABLE}
_STATUS = regex.compile(r"(?m)^(?:- |[ \t]+)status:[ \t]*(['\"]?)(\w+)\1[ \t]*(?:#.*)?$")
_VERSION = regex.compile(r"(?m)^(?:- |[ \t]+)version:[ \t]*(\d+)[ \t]*(?:#.*)?$")
_ENTRY = regex.compile(r"(?m)^- ")


def run(
    id: Annotated[str, typer.Argument(metavar="ID", help="The signature.")],
    history: Annotated[
        list[Path] | None, typer.Option(help="JSONL of labelled attempts: a signature that breaks right labels stays.")
    ] = None,
    folder: Folder = None,
) -> None:
    """Promote a signature one step: draft -> shadow -> stable; only its status and version lines change.

    Example: exitsign signatures promote nccl-watchdog-timeout --history history.jsonl
    """
    with one_line_errors():
        where = chosen_folder(folder)
        catalog = catalog_of(where)
        found = catalog.find(id)
        if found is None:
            fail(f"no signature has the id {id}; see `exitsign signatures stats`")
        if found.status not in NEXT:
            fail(f"{found.place}: {id} is {found.status}: nothing comes after it", 1)
        status = NEXT[found.status]
        _refuse_errors(catalog, replace(found, status=status), where)
        if status is Status.STABLE:
            _refuse_thieves(found, catalog, history or [])
    version = _version(found, where)
    path = where / found.place.file
    replace_text(path, promoted(path.read_text(encoding="utf-8"), found, status, version))
    OUT.print(f"{found.place}: {id} is {status} now, version {version}", markup=False, soft_wrap=True)
    OUT.print("next: `exitsign signatures lock`, then commit both files")


def promoted(text: str, found: Signature, status: Status, version: int) -> str:
    """The file's text with the entry's status and version lines changed and nothing else; ends the command where it can't."""
    starts = [0, *(m.end() for m in regex.finditer("\n", text))]
    begin = starts[found.place.line - 1]
    following = _ENTRY.search(text, begin + 2)
    entry = text[begin : following.start() if following else len(text)]
    changed = entry
    for pattern, group, value in ((_STATUS, 2, str(status)), (_VERSION, 1, str(version))):
        places = list(pattern.finditer(changed))
        if len(places) != 1:
            fail(f"{found.place}: {found.id}: status and version must each stand on a line of their own", 1)
        start, end = places[0].span(group)
        changed = changed[:start] + value + changed[end:]
    return text[:begin] + changed + text[begin + len(entry) :]


def _version(found: Signature, where: Path) -> int:
    """The entry's version, one more where its content is not the locked one."""
    row = read_lock_of(where).get(found.id)
    stale = row is not None and row.version >= found.version and row.digest != content_digest(found)
    return row.version + 1 if row is not None and stale else found.version


def _refuse_errors(catalog: Catalog, promoted: Signature, where: Path) -> None:
    """End the command where the check finds errors for the promoted signature; a missing bump is mended, not refused."""
    others = (promoted if s.id == promoted.id else s for s in catalog.signatures)
    locked = {name: row for name, row in read_lock_of(where).items() if row.retired}
    findings = examine(replace(catalog, signatures=tuple(others)), locked).findings
    errors = [f for f in findings if f.error and f.subject == promoted.id]
    if errors:
        more = f" (and {len(errors) - 1} more: `exitsign signatures check`)" if len(errors) > 1 else ""
        fail(f"{errors[0]}{more}", 1)


def _refuse_thieves(found: Signature, catalog: Catalog, history: list[Path]) -> None:
    if not history or not found.patterns:
        return
    trial = Trial(found, usable_matcher(catalog))
    changes: list[Change] = []
    for _, attempt in read_history(history):
        if hits := trial.hits(attempt.log):
            changes.append(trial.change(attempt, hits))
    broken = [c for c in changes if c.broken]
    if broken:
        first = broken[0]
        fail(
            f"{found.place}: {found.id}: breaks {len(broken)} right labels: {first.attempt.log.id} is {first.before.label}"
            f" ({first.before.signature}), would be {first.after.label} by {first.after.line[:120]!r}",
            1,
        )
    OUT.print(f"{len(changes)} attempts hit, {sum(c.mended for c in changes)} labels mended, none broken")
