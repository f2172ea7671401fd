"""`exitsign signatures`: the curator's commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from classifiers.catalog import Catalog, gather
from classifiers.checks import Examined, Finding, examine
from classifiers.lock import against_lock, write_lock
from classifiers.signature import SignatureError
from services.cli import (
    signatures_bless,
    signatures_diff,
    signatures_new,
    signatures_promote,
    signatures_stats,
    signatures_try,
)
from services.cli.common import ERR, OUT, one_line_errors, print_json
from services.cli.signatures_folder import LOCK, Folder, catalog_of, chosen_folder, read_lock_of, replace_text
from services.signature_files import read_texts

app = typer.Typer(no_args_is_help=True, help="Check, try, draft, compare and promote signatures.")
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a finding.")]


@app.command()
def check(
    folder: Folder = None,
    overlaps: Annotated[bool, typer.Option(help="List examples on which another label wins.")] = True,
    json: AsJson = False,
) -> None:
    """Find what is wrong with the signature files; exit status 1 where anything is.

    Example: exitsign signatures check
    """
    with one_line_errors():
        where = chosen_folder(folder)
        problems: list[SignatureError] = []
        catalog = gather(read_texts(where), problems)
        locked = read_lock_of(where)
    unreadable = [Finding(p.place.file, p.place.line, p.subject, p.problem) for p in problems]
    if catalog is None or problems:
        _tell(unreadable, json)
        sys.exit(1)
    found = examine(catalog, locked)
    _tell([*found.findings, *(found.stolen if overlaps else [])], json)
    _count(catalog, found)
    sys.exit(1 if any(f.error for f in found.findings) else 0)


@app.command()
def lock(folder: Folder = None) -> None:
    """Write versions.lock: which version of each id has which content.

    Example: exitsign signatures lock
    """
    with one_line_errors():
        where = chosen_folder(folder)
        catalog = catalog_of(where)
        locked = read_lock_of(where)
    known = [s for s in catalog.signatures if s.id in locked]
    bad = [Finding(s.place.file, s.place.line, s.id, p) for s in known for p in against_lock(s, locked[s.id])]
    if bad:
        _tell(bad, as_json=False)
        sys.exit(1)
    replace_text(where / LOCK, write_lock(catalog, locked))
    OUT.print(f"{where / LOCK}: {len(catalog.signatures)} signatures locked", soft_wrap=True)


app.command("try")(signatures_try.run)
app.command("new")(signatures_new.run)
app.command("diff")(signatures_diff.run)
app.command("stats")(signatures_stats.run)
app.command("promote")(signatures_promote.run)
app.command("bless")(signatures_bless.run)


def _tell(findings: list[Finding], as_json: bool) -> None:
    for finding in findings:
        if as_json:
            print_json(finding)
        else:
            OUT.print(str(finding), markup=False, soft_wrap=True)


def _count(catalog: Catalog, found: Examined) -> None:
    labels = len({s.label for s in catalog.active if s.label})
    errors = sum(f.error for f in found.findings)
    warnings = len(found.findings) - errors + len(found.stolen)
    ERR.print(f"{len(catalog.signatures)} signatures, {labels} labels, {errors} errors, {warnings} warnings")
