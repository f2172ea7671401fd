"""`exitsign train`: the fallback model, anew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from services.cli.common import ERR, OUT, as_json, fail, one_line_errors, settings
from services.evaluation import CorpusError, read_corpus
from services.model_files import BadModel
from services.signature_files import folder_of, load_matcher


def run(
    corpus: Annotated[list[Path] | None, typer.Option(help="Labelled corpus, JSONL; may be repeated.")] = None,
    feedback: Annotated[
        Path | None, typer.Option(help="People's labels, JSON lines of {lines, label, id, exit facts}.")
    ] = None,
    stored: Annotated[bool, typer.Option("--stored-feedback", help="Learn people's labels in Postgres too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the model; default: where the agents look.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put the model into use although it is worse.")] = False,
    ready: Annotated[bool, typer.Option("--ready", help="Only build the default model where it is missing.")] = False,
) -> None:
    """Train the fallback model, compare it with the one in use, and put it into use unless it is worse.

    Example: exitsign train --corpus labelled.jsonl --out model/
    """
    from services.models import compare, fallback_folder, material_of, ready_fallback, train_into
    from services.training import TooLittle

    with one_line_errors():
        matcher = load_matcher(folder_of(settings().signatures))
        if ready:
            found = ready_fallback(matcher, folder_of(settings().signatures))
            OUT.print("the fallback model is ready" if found else "no fallback model: see the line above")
            return
        try:
            samples = [sample for path in corpus or () for sample in read_corpus(path)]
            folder = out or fallback_folder()
            feedback = _with_stored(folder, feedback) if stored else feedback
            material = material_of(matcher, folder_of(settings().signatures), samples, feedback)
            tell = _teller(datetime.now(UTC))
            made = train_into(folder / "candidate", material, matcher.catalog.spec, tell, now=datetime.now(UTC))
            old = compare(folder, material, made, matcher.catalog.spec, tell)
        except (CorpusError, BadModel, TooLittle) as error:
            fail(str(error))
    _tell_figures(made.card.figures, old)
    OUT.print(f"report: {folder / 'candidate' / 'report.md'}", soft_wrap=True)
    if made.worse_than(old) and not force:
        fail(f"worse than the model in use, which stays; --force puts {folder / 'candidate'} into use all the same", 1)
    made.promote(folder)
    OUT.print(f"in use: {folder} ({made.card.digest[:19]}, {len(material.rows)} rows)", soft_wrap=True)


def _with_stored(folder: Path, given: Path | None) -> Path:
    """A file in the folder that holds the feedback given and the feedback stored in Postgres."""
    from services.cli.db import dsn
    from services.queries import Unreachable, feedback_texts

    try:
        rows = feedback_texts(dsn())
    except Unreachable as error:
        fail(str(error), 1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "feedback.jsonl"
    path.write_text((given.read_text() if given else "") + "".join(as_json(row) + "\n" for row in rows))
    return path


def _teller(start: datetime) -> Callable[[str], None]:
    def tell(line: str) -> None:
        ERR.print(f"{(datetime.now(UTC) - start).total_seconds():5.1f} s  {line}", markup=False, soft_wrap=True)

    return tell


def _tell_figures(new: dict[str, float], old: dict[str, float] | None) -> None:
    from services.model_report import SENTENCES

    table = Table(title="held-out figures", title_justify="left")
    for column in ("figure", "new", "in use"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    table.add_column("what it says")
    for name, value in new.items():
        before = f"{old[name]:.3f}" if old and name in old else "-"
        table.add_row(name, f"{value:.3f}", before, SENTENCES[name])
    OUT.print(table)
