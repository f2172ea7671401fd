"""`exitsign evaluate`: accuracy on a labelled corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from classifiers.classification import classify
from services.cli.common import OUT, PresentModel, fail, one_line_errors, print_json, settings
from services.evaluation import CorpusError, Figures, Judged, figures, fold_of, judge, read_corpus
from services.signature_files import folder_of, load_matcher

SENTENCES = {
    "accuracy": "label right (strict)",
    "accuracy_lenient": "label right, or a second reader's",
    "coverage": "any label but unknown",
    "precision": "right among those (strict)",
    "precision_lenient": "right among those (lenient)",
    "macro_f1": "mean F1 over labels",
    "root_line": "the line that decided is the marked one (where the label is right)",
    "retry_accuracy": "retry / no retry as the true label's",
}


def run(
    corpus: Annotated[Path, typer.Argument(help="Labelled corpus, JSONL.")],
    json: Annotated[bool, typer.Option("--json", help="Figures and misses as JSON.")] = False,
    fold: Annotated[
        int | None, typer.Option(min=0, max=1, help="Only fold 0 (for learning) or 1 (held back), split by project.")
    ] = None,
    misses: Annotated[bool, typer.Option(help="Print every miss with its ranking.")] = True,
    model: Annotated[bool, typer.Option(help="Ask the model where no signature explains a failure.")] = True,
) -> None:
    """Print how good the labels are on a labelled corpus.

    Example: exitsign evaluate ../shared/corpus/dev.jsonl --fold 1
    """
    with one_line_errors():
        try:
            samples = read_corpus(corpus)
        except CorpusError as error:
            fail(str(error))
        chosen = [s for s in samples if fold is None or fold_of(s.project) == fold]
        matcher = load_matcher(folder_of(settings().signatures))
        guess = PresentModel(matcher).guess if model else None
        judged = judge(chosen, lambda log: classify(log, matcher, guess))
        found = figures(judged, matcher.catalog.spec)
    wrong = [j for j in judged if j.said not in j.sample.accepted]
    if json:
        print_json({**msgspec.to_builtins(found), "misses": [_miss(j) for j in wrong]})
        return
    if misses:
        for j in wrong:
            _tell_miss(j)
    _tell(found, len(wrong))


def _miss(j: Judged) -> dict[str, object]:
    top = [(r.signature, r.label, r.position.offset + 1) for r in j.verdict.ranking[:5]]
    return {"id": j.sample.log.id, "label": j.sample.label, "also": j.sample.also, "said": j.said, "ranking": top}


def _tell_miss(j: Judged) -> None:
    OUT.print(Text(f"{j.sample.log.id}: is {' or '.join(sorted(j.sample.accepted))}, said {j.said}", style="bold"))
    for r in j.verdict.ranking[:4]:
        why = r.lost_because or "won"
        OUT.print(
            Text(
                f"    {r.position.offset + 1:>4} {r.signature} ({r.label}, {r.role}): {why}: {r.text[:120]}",
                style="dim",
            ),
            soft_wrap=True,
        )


def _tell(found: Figures, wrong: int) -> None:
    table = Table(title=f"{found.samples} attempts, {wrong} wrong", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("what it says")
    for name, sentence in SENTENCES.items():
        table.add_row(name, f"{getattr(found, name):.3f}", sentence)
    OUT.print(table)
    confused = [(n, true, said) for true, row in found.confusion.items() for said, n in row.items() if true != said]
    if confused:
        table = Table(title="confusions", title_justify="left")
        for column in ("times", "is", "said"):
            table.add_column(column)
        for n, true, said in sorted(confused, reverse=True)[:25]:
            table.add_row(str(n), true, said)
        OUT.print(table)
