"""`exitsign signatures bless`: the marks of signatures/cases as the classifiers set them today."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from classifiers.cases import bless, read_case, write_case
from classifiers.contest import usable_matcher
from services.cli.common import ERR, OUT, fail, one_line_errors
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder, replace_text

CASES = "cases"


def run(
    folder: Folder = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit status 1 where a case differs.")] = False,
) -> None:
    """Write label and marks of every case anew; people read the diff.

    Example: exitsign signatures bless --check
    """
    with one_line_errors():
        where = chosen_folder(folder)
        paths = sorted((where / CASES).glob("*.case"))
        if not paths:
            fail(f"{where / CASES}: no cases (*.case)")
        matcher = usable_matcher(catalog_of(where))
        changed = 0
        for path in paths:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                fail(f"{path}: {error}")
            case = read_case(text, f"{CASES}/{path.name}")
            blessed = bless(case, matcher)
            if (new := write_case(blessed)) != text:
                changed += 1
                told = f"{case.label} -> {blessed.label}" if case.label != blessed.label else "marks"
                OUT.print(f"{CASES}/{path.name}:1: {told}", markup=False, soft_wrap=True)
                if not check:
                    replace_text(path, new)
    ERR.print(f"{changed} of {len(paths)} cases {'would change' if check else 'written'}")
    sys.exit(1 if check and changed else 0)
