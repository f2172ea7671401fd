"""`exitsign signatures`: the curator's commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from classifiers.catalog import Catalog, gather, read_catalog
from classifiers.checks import Locked, overlaps, read_lock, write_lock
from classifiers.checks import check as check_catalog
from classifiers.signature import SignatureError
from services.cli.common import ERR, OUT, fail, one_line_errors, settings
from services.signature_files import folder_of, read_texts

LOCK = "versions.lock"
app = typer.Typer(no_args_is_help=True, help="Check, try, draft, compare and promote signatures.")
Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Folder of signature files (default: EXITSIGN_SIGNATURES, or the packaged one)."),
]


def chosen_folder(folder: Path | None) -> Path:
    """The folder that the option names, or the setting's."""
    return folder if folder is not None else folder_of(settings().signatures)


@app.command()
def check(
    folder: Folder = None,
    overlap: Annotated[
        bool, typer.Option("--overlaps", help="Also list examples on which another label wins.")
    ] = False,
) -> None:
    """Find what is wrong with the signature files; exit status 1 where anything is.

    Example: exitsign signatures check
    """
    with one_line_errors():
        where = chosen_folder(folder)
        problems: list[SignatureError] = []
        catalog = gather(read_texts(where), problems)
        locked = read_lock_of(where)
    for problem in problems:
        OUT.print(str(problem), markup=False, soft_wrap=True)
    if catalog is None or problems:
        sys.exit(1)
    findings = check_catalog(catalog, locked)
    shown = [*findings, *(overlaps(catalog) if overlap else [])]
    for finding in shown:
        OUT.print(str(finding), markup=False, soft_wrap=True)
    errors = sum(f.error for f in findings)
    _count(catalog, errors, len(shown) - errors)
    sys.exit(1 if errors else 0)


@app.command()
def lock(folder: Folder = None) -> None:
    """Write versions.lock: which version of each id has which content.

    Example: exitsign signatures lock
    """
    with one_line_errors():
        where = chosen_folder(folder)
        catalog = read_catalog(read_texts(where))
        locked = read_lock_of(where)
        bad = [f for f in check_catalog(catalog, locked) if "version" in f.problem and f.error]
    if bad:
        for finding in bad:
            OUT.print(str(finding), markup=False, soft_wrap=True)
        sys.exit(1)
    (where / LOCK).write_text(write_lock(catalog, locked))
    OUT.print(f"{where / LOCK}: {len(catalog.signatures)} signatures locked")


def read_lock_of(folder: Path) -> dict[str, Locked]:
    """The folder's lock; empty where there is none yet."""
    path = folder / LOCK
    try:
        return read_lock(path.read_text()) if path.exists() else {}
    except ValueError as error:
        fail(f"{path.parent}/{error}; write it anew with `exitsign signatures lock`", 1)


def _count(catalog: Catalog, errors: int, warnings: int) -> None:
    labels = len({s.label for s in catalog.active if s.label})
    ERR.print(f"{len(catalog.signatures)} signatures, {labels} labels, {errors} errors, {warnings} warnings")
