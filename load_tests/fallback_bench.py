"""What the parts of bench_fallback share: the corpus, models without something, readings and their figures.

Rule: a model is learned without what it is tested on: dropped signatures take their examples along.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from classifiers.catalog import Catalog
from classifiers.classification import Log
from classifiers.exit_spec import ENDED_WELL, UNKNOWN
from classifiers.fallback import Fallback, Reading
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts
from services.evaluation import Sample
from services.models import material_of
from services.signature_files import PACKAGED, load_matcher
from services.training import Held, Table, calibrated, fit, hold_out, table_of
from services.training_rows import Row, of_counter_examples, of_signature


@dataclass(frozen=True)
class Read:
    """One sample with what was read in it, how sure the model is, and whether it gives the guess."""

    sample: Sample
    reading: Reading | None
    confidence: float
    given: bool

    @property
    def right(self) -> bool:
        return self.reading is not None and self.reading.label in self.sample.accepted


class Without(Matcher):
    """A matcher that has never heard of some signatures; the compiled prefilter is that of the whole catalog."""

    def __init__(self, catalog: Catalog, compiled: bytes, gone: frozenset[str]) -> None:
        super().__init__(catalog, compiled=compiled)
        self._gone = {number for number, s in enumerate(self._signatures) if s.id in gone}
        self._on_facts = [s for s in self._on_facts if s.id not in gone]

    def hits(self, texts: Sequence[bytes]) -> dict[tuple[int, int], set[int]]:
        found = {place: indexes - self._gone for place, indexes in super().hits(texts).items()}
        return {place: indexes for place, indexes in found.items() if indexes}


class Bench:
    """What all parts share: the corpus, the rows of the packaged signatures, and held-out readings to calibrate on."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = [s for s in samples if s.label not in (ENDED_WELL, UNKNOWN)]
        self.matcher = load_matcher(PACKAGED)
        self.spec = self.matcher.catalog.spec
        self.compiled = self.matcher.dump()
        self.ids = [s.id for s in self.matcher.catalog.signatures if s.label is not None]
        self.silent = self.without(self.ids)
        tell("gathering")
        self.material = material_of(self.matcher, PACKAGED, (), None)
        self.owner = np.asarray(owners(self.matcher, self.material.rows))
        self.table = table_of(self.material.rows)
        self.held = hold_out(self.material, self.table, tell)

    def without(self, gone: Iterable[str]) -> Without:
        return Without(self.matcher.catalog, self.compiled, frozenset(gone))

    def model(self, table: Table, chosen: Any, held: Sequence[Held]) -> Fallback:
        return Fallback(calibrated(fit(table, chosen), held, self.spec))


def owners(matcher: Matcher, rows: Sequence[Row]) -> list[str]:
    """The signature that each row was made of, '' for the others: `in_groups` hides it."""
    names: list[str] = []
    for signature in matcher.catalog.signatures:
        made = [*of_signature(signature), *of_counter_examples(signature, matcher)]
        names += [row.group.removeprefix("signature ") for row in made]
    return names + [""] * (len(rows) - len(names))


def tell(line: str) -> None:
    print(f"{time.process_time():6.1f} s CPU  {line}", file=sys.stderr, flush=True)


def facts_of(log: Log) -> AttemptFacts:
    return AttemptFacts(
        cluster="", job_id=log.id, state=log.state, exit_code=log.exit_code, signal=log.signal, reason=log.reason
    )


def read(model: Fallback, sample: Sample, lines: Sequence[str]) -> Read:
    facts = facts_of(sample.log)
    reading = model.read(lines, facts)
    if reading is None:
        return Read(sample, None, 0.0, False)
    return Read(sample, reading, model.confidence(reading), model.guess(lines, facts) is not None)


def coverage_at(reads: Sequence[Read], precision: float) -> float:
    """The largest share of samples that can be labelled at that precision, most confident first."""
    right, best = 0, 0
    for number, one in enumerate(sorted(reads, key=lambda r: -r.confidence), 1):
        right += one.right
        if right / number >= precision:
            best = number
    return best / len(reads) if reads else 0.0


def figures(reads: Sequence[Read]) -> dict[str, float]:
    given = [r for r in reads if r.given]
    count = len(reads) or 1
    return {
        "samples": len(reads),
        "top1": sum(r.right for r in reads) / count,
        "top1_strict": sum(r.reading is not None and r.reading.label == r.sample.label for r in reads) / count,
        "coverage_at_0.9": coverage_at(reads, 0.9),
        "coverage_at_0.85": coverage_at(reads, 0.85),
        "given": len(given) / count,
        "precision_given": sum(r.right for r in given) / (len(given) or 1),
        "by_confidence": {str(t): above(reads, t) for t in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)},
    }


def above(reads: Sequence[Read], least: float) -> list[float]:
    """[share of samples with at least that confidence, share of those that are right]."""
    sure = [r for r in reads if r.confidence >= least]
    return [round(len(sure) / (len(reads) or 1), 3), round(sum(r.right for r in sure) / (len(sure) or 1), 3)]
