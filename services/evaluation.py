"""How good the labels are: a labelled corpus through the classifiers, and the figures that come out.

Rule: figures are strict (`category`) and lenient (`category` or `also`); a miss is printed, never dropped.
Rule: folds are by source project, so that no log of one project stands on both sides.

The corpus format is the one of CONTRACTS ("Corpus format"): one attempt a line, JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex

from classifiers.classification import Log
from classifiers.exit_spec import ENDED_WELL, UNKNOWN, Behaviour, ExitSpec
from classifiers.records import Stream, Verdict

FOLD_SEED = 6
_PROJECT = regex.compile(r":\s?|@|, ")
_NUMBERS = regex.compile(r"\d+")


class CorpusError(ValueError):
    """A corpus that can't be used; str() names file and line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled attempt; `root_line` is 0-based."""

    log: Log
    label: str
    also: tuple[str, ...]
    project: str
    root_line: int | None

    @property
    def accepted(self) -> frozenset[str]:
        """Labels that a lenient score takes."""
        return frozenset({self.label, *self.also})


@dataclass(frozen=True, slots=True)
class Judged:
    """A sample with the verdict it got."""

    sample: Sample
    verdict: Verdict

    @property
    def said(self) -> str:
        """The label as the corpus writes it."""
        return self.verdict.label or ENDED_WELL

    @property
    def line(self) -> int | None:
        """0-based number of the line that decided."""
        top = self.verdict.ranking[0] if self.verdict.signature else None
        return top.position.offset if top and not top.position.topic else None


@dataclass
class Figures:
    """What one evaluation found; shares are 0..1."""

    samples: int
    accuracy: float
    accuracy_lenient: float
    coverage: float
    precision: float
    precision_lenient: float
    macro_f1: float
    root_line: float
    retry_accuracy: float
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)


def read_corpus(path: Path) -> list[Sample]:
    """Every sample of a JSONL file.  Raises CorpusError with file and line."""
    samples = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                samples.append(_sample(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise CorpusError(f"{path}:{number}: not a corpus line: {error!r}") from None
    return samples


def project_of(source: str) -> str:
    """The project that a source names: everything before the path in it."""
    return source if source.startswith("public") else _PROJECT.split(source)[0]


def fold_of(project: str, seed: int = FOLD_SEED) -> int:
    """0 (for learning) or 1 (held back), by project and seed."""
    return int(hashlib.sha256(f"{seed}:{project}".encode()).hexdigest(), 16) % 2


def judge(samples: Iterable[Sample], classify: Callable[[Log], Verdict]) -> list[Judged]:
    """Every sample with its verdict."""
    return [Judged(sample, classify(sample.log)) for sample in samples]


def figures(judged: Sequence[Judged], spec: ExitSpec) -> Figures:
    """The figures of one evaluation."""
    covered = [j for j in judged if j.said != UNKNOWN]
    confusion: dict[str, dict[str, int]] = {}
    for j in judged:
        row = confusion.setdefault(j.sample.label, {})
        row[j.said] = row.get(j.said, 0) + 1
    rooted = [
        j for j in judged if j.said in j.sample.accepted and j.sample.root_line is not None and j.line is not None
    ]
    return Figures(
        samples=len(judged),
        accuracy=_share(judged, lambda j: j.said == j.sample.label),
        accuracy_lenient=_share(judged, lambda j: j.said in j.sample.accepted),
        coverage=_share(judged, lambda j: j.said != UNKNOWN),
        precision=_share(covered, lambda j: j.said == j.sample.label),
        precision_lenient=_share(covered, lambda j: j.said in j.sample.accepted),
        macro_f1=_macro_f1(judged),
        root_line=_share(rooted, root_line_hit),
        retry_accuracy=_share(judged, lambda j: _retries(j.said, spec) == _retries(j.sample.label, spec)),
        confusion=confusion,
    )


def root_line_hit(j: Judged) -> bool:
    """True where the line that decided is the marked one, or says the same but for numbers."""
    if j.line == j.sample.root_line:
        return True
    lines, root, said = j.sample.log.lines, j.sample.root_line or 0, j.line or 0
    return _plain(lines[said]) == _plain(lines[root])


def _plain(text: str) -> str:
    return str(_NUMBERS.sub("#", text)).strip()


def _sample(row: dict[str, Any]) -> Sample:
    ended_well = row["category"] == ENDED_WELL
    log = Log(
        id=str(row["id"]),
        lines=[str(line) for line in row["lines"]],
        stream=Stream(row.get("stream", "stderr")),
        exit_code=0 if ended_well else row.get("exit_code"),
        signal=row.get("signal"),
        state=row.get("state"),
        reason=row.get("reason"),
    )
    also = row.get("also") or []
    return Sample(
        log=log,
        label=row["category"],
        also=tuple([also] if isinstance(also, str) else also),
        project=project_of(row.get("source", "")),
        root_line=row.get("root_cause_line"),
    )


def _share(rows: Sequence[Judged], good: Callable[[Judged], bool]) -> float:
    return sum(map(good, rows)) / len(rows) if rows else 0.0


def _macro_f1(judged: Sequence[Judged]) -> float:
    right, said, true = Counter[str](), Counter[str](), Counter[str]()
    for j in judged:
        right[j.sample.label] += j.said == j.sample.label
        said[j.said] += 1
        true[j.sample.label] += 1
    scores = [2 * right[label] / (said[label] + true[label]) for label in true]
    return sum(scores) / len(scores) if scores else 0.0


def _retries(label: str, spec: ExitSpec) -> bool:
    return label in spec and spec[label].retry.behaviour not in (Behaviour.NEVER, Behaviour.WITH_CHANGE)
