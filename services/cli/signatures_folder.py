"""The signature folder as the curator's commands see it: texts on disk or at a git revision, and the lock."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from classifiers.catalog import Catalog, read_catalog
from classifiers.lock import Locked, read_lock
from services.cli.common import OUT, fail, settings
from services.signature_files import folder_of, read_texts

LOCK = "versions.lock"
GIT = "git:"
MAX_WIDTH = 400
Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Folder of signature files (default: EXITSIGN_SIGNATURES, or the packaged one)."),
]


def chosen_folder(folder: Path | None) -> Path:
    """The folder that the option names, or the setting's."""
    return folder if folder is not None else folder_of(settings().signatures)


def catalog_of(folder: Path) -> Catalog:
    """The catalog of a folder.  Raises SignatureError or NoSignatures."""
    return read_catalog(read_texts(folder))


def catalog_at(place: str, folder: Path) -> Catalog:
    """The catalog of a folder's path, or of `git:REV`: `folder` as it was at that revision."""
    if not place.startswith(GIT):
        return catalog_of(Path(place))
    rev = place.removeprefix(GIT)
    names = [n for n in _git(folder, "ls-tree", "--name-only", rev, "./").splitlines() if n.endswith(".yaml")]
    if not names:
        fail(f"{place}: no signature files of {folder} at that revision")
    return read_catalog({name: _git(folder, "show", f"{rev}:./{name}") for name in names})


def read_lock_of(folder: Path) -> dict[str, Locked]:
    """The folder's lock; empty where there is none yet."""
    path = folder / LOCK
    try:
        return read_lock(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        fail(f"{path.parent}/{error}; write it anew with `exitsign signatures lock`", 1)


def replace_text(path: Path, text: str) -> None:
    """Write the file whole or not at all: a worker may read the folder at any moment."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def print_table(table: Table) -> None:
    """The table at the width that it needs: an id cut in half can't be copied."""
    needed = OUT.measure(table, options=OUT.options.update(width=MAX_WIDTH)).maximum
    Console(highlight=False, width=max(OUT.width, needed)).print(table)


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"git: {error.strerror}; name a folder instead of {GIT}REV")
    if done.returncode:
        fail(f"git {' '.join(arguments)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout
