"""`exitsign signatures try`: a pattern against logs, before it is in any file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import regex
import typer
from rich.text import Text

from classifiers.comparison import Attempt, Change, Trial
from classifiers.contest import refusal, usable_matcher
from classifiers.lines import clean, segments
from classifiers.records import Evidence, Role, Stream
from classifiers.signature import Place, Signature, Status
from services.cli.common import OUT, fail, one_line_errors, print_json
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder
from services.cli.signatures_history import read_history

TRIAL = "the-pattern"
NOBODY = "nobody"


def run(
    pattern: Annotated[str, typer.Argument(help="The pattern; with --id, the first PATH.")],
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH...", help="Logs, or histories (.jsonl).")] = None,
    id: Annotated[str | None, typer.Option("--id", help="An existing signature instead of a pattern.")] = None,
    label: Annotated[str, typer.Option(help="The label that the pattern would give.")] = "unknown",
    role: Annotated[Role, typer.Option(help="The role that it would have.")] = Role.ROOT,
    limit: Annotated[int, typer.Option(min=0, help="How many hits to print.")] = 50,
    folder: Folder = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a hit, then one of sums.")] = False,
) -> None:
    """Show what a pattern hits, what it would win, and what it would take from which signature.

    Example: exitsign signatures try 'disk quota exceeded' --label storage_failure train.log history.jsonl
    """
    with one_line_errors():
        base = usable_matcher(catalog_of(chosen_folder(folder)))
        if label not in base.catalog.spec:
            fail(f"label {label} is not in exit_spec.yaml")
        found = base.catalog.find(id) if id else _signature(pattern, label, role)
        if found is None or not found.patterns:
            fail(f"no signature with a pattern has the id {id}; see `exitsign signatures stats`")
        trial = Trial(found, base)
        files = [Path(pattern), *(paths or [])] if id else paths or []
        if not files:
            fail("needs a PATH: a log, or a history (.jsonl)")
        sums = _Sums()
        for path, attempt in read_history(files):
            hits = trial.hits(attempt.log)
            sums.add(hits, trial.change(attempt, hits) if hits else None, trial.candidate.id)
            for hit in hits[: max(0, limit - sums.shown)]:
                sums.shown += 1
                _tell(path, attempt, hit, trial.candidate, json)
    print_json(sums.as_json()) if json else sums.tell()


class _Sums:
    """What all hits come to."""

    def __init__(self) -> None:
        self.lines = self.attempts = self.hit = self.shown = self.mended = self.broken = 0
        self.taken: Counter[str] = Counter()

    def add(self, hits: list[Evidence], change: Change | None, candidate: str) -> None:
        self.attempts += 1
        self.lines += len(hits)
        if change is not None:
            self.hit += 1
            self.mended += change.mended
            self.broken += change.broken
            if change.after.signature == candidate:
                before = change.before
                self.taken[f"{before.signature} ({before.label})" if before.signature else NOBODY] += 1

    def as_json(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "attempts_hit": self.hit,
            "attempts": self.attempts,
            "would_win": self.taken.total(),
            "taken_from": dict(self.taken),
            "labels_mended": self.mended,
            "labels_broken": self.broken,
        }

    def tell(self) -> None:
        OUT.print(f"{self.lines} lines in {self.hit} of {self.attempts} attempts; would win {self.taken.total()}")
        for loser, count in self.taken.most_common():
            OUT.print(f"  {count:>5} from {loser}", markup=False, soft_wrap=True)
        if self.mended or self.broken:
            OUT.print(f"  against people's labels: {self.mended} mended, {self.broken} broken")


def _signature(pattern: str, label: str, role: Role) -> Signature:
    try:
        regex.compile(pattern)
    except regex.error as error:
        fail(f"{pattern!r}: invalid pattern: {error}")
    if why := refusal([pattern]):
        fail(f"{pattern!r}: the prefilter can't take it: {why}")
    return Signature(
        id=TRIAL, version=1, status=Status.STABLE, label=label, role=role, why="tried", sources=frozenset(Stream),
        patterns=(pattern,), facts={}, match=(), no_match=(), clears=(), remedy=None, place=Place("command line", 1),
    )  # fmt: skip


def _tell(path: Path, attempt: Attempt, hit: Evidence, candidate: Signature, as_json: bool) -> None:
    number = hit.position.offset
    texts = [clean(part).text for part in segments(attempt.log.lines[number])]
    found = [(t, [m.span() for p in candidate.patterns if (m := regex.search(p, t))]) for t in texts]
    text, spans = next(((t, s) for t, s in found if s), (hit.text, []))
    where = f"{path}:{number + 1}" if path.suffix != ".jsonl" else f"{path}:{attempt.log.id}:{number + 1}"
    if as_json:
        print_json({"place": where, "text": text, "spans": spans})
        return
    shown = Text(text)
    for start, end in spans:
        shown.stylize("bold black on yellow", start, end)
    OUT.print(Text(f"{where}: ", style="cyan") + shown, soft_wrap=True)
