"""`exitsign signatures new`: a log line in, a signature ready to paste out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from classifiers.drafts import Undraftable, Wish, draft
from classifiers.records import Role, Stream
from services.cli.common import ERR, fail, one_line_errors
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder, read_lock_of

NAMELESS = frozenset({Role.NOISE, Role.RECOVERY})


def run(
    line: Annotated[str | None, typer.Argument(help="The log line.")] = None,
    source: Annotated[str | None, typer.Option("--from", help="Where the line stands: FILE:NUMBER.")] = None,
    label: Annotated[str | None, typer.Option(help="The label; noise and recovery have none.")] = None,
    role: Annotated[Role, typer.Option(help="What the line says about the failure.")] = Role.ROOT,
    clears: Annotated[list[str] | None, typer.Option(help="What a recovery cancels: a label or an id.")] = None,
    stream: Annotated[Stream, typer.Option(help="Where the line is believed.")] = Stream.STDERR,
    folder: Folder = None,
) -> None:
    """Draft a signature from a log line; paste what it prints into the file of the program that printed the line.

    Example: exitsign signatures new --from train.log:412 --label gpu_oom
    """
    if (line is None) == (source is None):
        fail("needs a line or --from FILE:NUMBER, and not both")
    with one_line_errors():
        where = chosen_folder(folder)
        catalog = catalog_of(where)
        if (label is None) != (role in NAMELESS):
            fail("needs --label for every role but noise and recovery, which have none")
        if label is not None and label not in catalog.spec:
            fail(f"label {label} is not in exit_spec.yaml; the labels are: {', '.join(catalog.spec.labels)}")
        if bool(clears) != (role is Role.RECOVERY):
            fail("--clears LABEL is for a recovery, and a recovery needs it")
        text, origin = (line or "", "") if source is None else _line_at(source)
        taken = {s.id for s in catalog.signatures} | read_lock_of(where).keys()
        try:
            made = draft(text, Wish(label, role, tuple(clears or ()), stream, origin), taken)
        except Undraftable as error:
            fail(str(error))
    sys.stdout.write(made.text)
    ERR.print(
        f"next: paste it into {where}/PROGRAM.yaml, mend id and why, then `exitsign signatures check`", soft_wrap=True
    )


def _line_at(place: str) -> tuple[str, str]:
    """The line, and where it stands without folders (those name people)."""
    name, _, number = place.rpartition(":")
    if not name or not number.isdigit() or not int(number):
        fail(f"--from {place}: needs FILE:NUMBER, lines count from 1")
    try:
        lines = Path(name).read_bytes().decode("utf-8", "replace").split("\n")
    except OSError as error:
        fail(f"{name}: {error.strerror}")
    if int(number) > len(lines):
        fail(f"{name} has {len(lines)} lines, not {number}")
    return lines[int(number) - 1].rstrip("\r").split("\r")[-1], f"{Path(name).name}:{number}"
