"""A guess of the root cause for attempts that no signature explains; it may abstain.

Each context line, and the exit facts as one more line, is scored for every label by a linear model over hashed
n-grams; the most certain line decides, early ones first.  How sure that is, a second model says: it was calibrated on
attempts whose signatures, and in part whose labels, the first one had not seen.

Rule: the only importer of scikit-learn, and only to learn: a guess takes numpy alone, so a worker starts fast.
Rule: a guess below its label's threshold is no guess (None); thresholds follow from what a wrong label costs.
Rule: what was learned never changes after construction: threads may share one Fallback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from classifiers.exit_spec import Behaviour, ExitSpec
from classifiers.masking import masked
from classifiers.ngrams import BITS, Grams, grams
from classifiers.records import AttemptFacts

NOTHING = "~"
RECIPE = 1  # Of masking, n-grams and features together: a change of any makes older models unreadable.
KNOWN_BITS = 20
MAX_LINES = 60
MAX_WHY = 4
MAX_REMEMBERED = 8192
FEATURES = 7  # of a Reading
LATE_LINE = 0.85
WORD_WEIGHT = 1.5
EPOCHS = 6
ALPHA = 3e-6

# What a wrong label costs by what it would make the scheduler do, where leaving an attempt to a person costs 1: a wrong
# stop loses work and trust, a wrong retry loses a run.  A guess is given where (1 - confidence) x cost <= 1.
# NB: the order is reasoned; the height was set on a labelled corpus, after seeing what precision, coverage and
# abstention it gives there (load_tests/bench_fallback.py, `drop` and `left-out`), so those figures flatter a little.
COST_OF_WRONG = {
    Behaviour.NEVER: 1.9,
    Behaviour.WITH_CHANGE: 1.9,
    Behaviour.OTHER_NODE: 1.8,
    Behaviour.AFTER_DELAY: 1.8,
    Behaviour.YES: 1.8,
}
FLOAT = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Guess:
    """A label with its calibrated confidence, and the words of the deciding line that spoke most for it."""

    label: str
    confidence: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything that a guess needs; `known` marks the columns (of 2**KNOWN_BITS) of words and pairs seen in training."""

    classifier: Any
    calibrator: Any
    idf: FLOAT
    known: NDArray[np.uint8]
    thresholds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model sees in one attempt: the best label, its deciding line, and the calibrator's features."""

    label: str
    line: int
    features: FLOAT


class Fallback:
    """Guesses by what was learned."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._weights = np.ascontiguousarray(learned.classifier.coef_.T, dtype=np.float32)
        self._bias = np.asarray(learned.classifier.intercept_, dtype=np.float32)
        self.labels = tuple(map(str, learned.classifier.classes_))
        self._known = np.unpackbits(learned.known).astype(bool)
        self._slope = np.asarray(learned.calibrator.coef_[0], dtype=np.float64)
        # A cache by text: threads may share it, since each entry is written whole and says the same whoever writes it.
        self._lately: dict[str, tuple[FLOAT, np.float32]] = {}
        self._offset = float(learned.calibrator.intercept_[0])

    def guess(self, lines: Sequence[str], facts: AttemptFacts) -> Guess | None:
        """The label of an attempt from its context lines (clean text, in order) and exit facts; None: abstains."""
        reading = self.read(lines, facts)
        if reading is None:
            return None
        confidence = self.confidence(reading)
        if confidence < self._learned.thresholds.get(reading.label, 1.0):
            return None
        texts = texts_of(lines, facts)
        return Guess(reading.label, round(confidence, 3), self._why(texts[reading.line], reading.label))

    def read(self, lines: Sequence[str], facts: AttemptFacts | None = None) -> Reading | None:
        """The best label and what it rests on, before any threshold; None: there is nothing to read."""
        texts = texts_of(lines, facts)
        if not texts:
            return None
        scores, known = self._scored(texts)
        return summarise(scores, known, self.labels)

    def confidence(self, reading: Reading) -> float:
        """The calibrated chance that the label of a reading is right."""
        return float(1.0 / (1.0 + np.exp(-(reading.features @ self._slope + self._offset))))

    def _scored(self, texts: Sequence[str]) -> tuple[FLOAT, FLOAT]:
        """Scores and known share of each text; those of lines seen lately are remembered, for failures repeat."""
        seen = {text: self._lately.get(text) for text in texts}
        missing = [text for text, row in seen.items() if row is None]
        if missing:
            found = grams(missing)
            rows = zip(self._scores(found), known_share(found, self._known), strict=True)
            fresh = dict(zip(missing, rows, strict=True))
            if len(self._lately) > MAX_REMEMBERED:
                self._lately.clear()
            self._lately.update(fresh)
            seen.update(fresh)
        both = [row for text in texts if (row := seen[text]) is not None]
        return np.stack([row[0] for row in both]), np.asarray([row[1] for row in both], dtype=np.float32)

    def _scores(self, found: Grams) -> FLOAT:
        row, column, value = weighted(found, self._learned.idf)
        scores = np.tile(self._bias, (found.texts, 1))
        if len(row):
            starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
            scores[row[starts]] += np.add.reduceat(self._weights[column] * value[:, None], starts, axis=0)
        return scores

    def _why(self, text: str, label: str) -> tuple[str, ...]:
        found = grams([text])
        column = found.columns()
        weight = self._weights[:, self.labels.index(label)][column] * self._learned.idf[column]
        centre = (found.start + found.end) // 2
        first = int(np.flatnonzero(found.word)[0]) if found.word.any() else 0
        totals: dict[str, float] = {}
        for start, end in zip(found.start[first:], found.end[first:], strict=True):
            word = found.block[start:end].decode("utf-8", "replace")
            if " " not in word and word.strip("#<>_") and not word.startswith("<"):
                inside = (centre >= start) & (centre < end)
                totals[word] = max(totals.get(word, 0.0), float(weight[inside].sum()))
        best = sorted(totals, key=lambda word: -totals[word])
        return tuple(word for word in best[:MAX_WHY] if totals[word] > 0)


@lru_cache(maxsize=8192)
def _masked(line: str) -> str:
    return masked(line)


def texts_of(lines: Sequence[str], facts: AttemptFacts | None = None) -> list[str]:
    """The masked texts that one attempt is scored by: its lines (the first and last of many), then its exit facts."""
    half = MAX_LINES // 2
    kept = lines if len(lines) <= MAX_LINES else [*lines[:half], *lines[len(lines) - half :]]
    texts = list(dict.fromkeys(filter(None, map(_masked, kept))))
    said = facts_text(facts) if facts is not None else ""
    return [*texts, masked(said)] if said else texts


def facts_text(facts: AttemptFacts) -> str:
    """The exit facts as a line, '' where nothing is known; an exit code of 0 or 1 says nothing."""
    code = facts.exit_code if facts.exit_code not in (0, 1) else None
    state = facts.state if facts.state != "FAILED" else None
    named = [("state", state), ("exit code", code), ("signal", facts.signal or None), ("reason", facts.reason)]
    parts = [f"{name} {value}" for name, value in named if value is not None]
    return "exit facts: " + ", ".join(parts) if parts else ""


def weighted(found: Grams, idf: FLOAT) -> tuple[NDArray[np.int64], NDArray[np.int64], FLOAT]:
    """(text number, column, weight) of each different n-gram, in order of texts; the weights of one text have norm 1."""
    key = (found.row << BITS) | found.columns()
    order = np.argsort(key, kind="stable")
    key, amount = key[order], np.where(found.word, WORD_WEIGHT, 1.0)[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, dtype=np.int64)
    total = np.add.reduceat(amount, first) if len(first) else amount
    row, column = key[first] >> BITS, key[first] & ((1 << BITS) - 1)
    value = np.sqrt(total) * idf[column]
    norm = np.sqrt(np.bincount(row, weights=value * value, minlength=max(found.texts, 1)))
    return row, column, (value / np.maximum(norm[row], 1e-9)).astype(np.float32)


def known_share(found: Grams, known: NDArray[np.bool_]) -> FLOAT:
    """For each text the share of its words and pairs that training knew (1 for a text without words)."""
    row = found.row[found.word]
    seen = known[found.columns(KNOWN_BITS)[found.word]]
    total = np.bincount(row, minlength=found.texts)
    share: FLOAT = ((np.bincount(row, weights=seen, minlength=found.texts) + 1) / (total + 1)).astype(np.float32)
    return share


def summarise(scores: FLOAT, known: FLOAT, labels: Sequence[str]) -> Reading:
    """Scores (lines x labels, log odds) -> the label of the most certain line, an early one before a late one."""
    chances = 1.0 / (1.0 + np.exp(-scores.astype(np.float64)))
    nothing = labels.index(NOTHING)
    ranked = chances * np.linspace(1.0, LATE_LINE, len(chances))[:, None]
    ranked[:, nothing] = 0.0
    best = ranked.max(axis=0)
    label = int(best.argmax())
    line = int(ranked[:, label].argmax())
    second = float(np.delete(best, [label, nothing]).max())
    second_here = float(np.delete(chances[line], [label, nothing]).max())
    top = _odds(float(chances[line, label]))
    support = float(np.log1p(chances[:, label].sum() - chances[line, label]))
    gaps = [top - _odds(second), top - _odds(second_here)]
    features = [top, *gaps, _odds(float(chances[line, nothing])), float(known[line]), support, np.log(len(chances))]
    return Reading(labels[label], line, np.asarray(features, dtype=np.float32))


def _odds(chance: float) -> float:
    bounded = min(max(chance, 1e-4), 1 - 1e-4)
    return float(np.log(bounded / (1 - bounded)))


def cost_threshold(label: str, spec: ExitSpec) -> float:
    """The confidence from which a guess of the label costs less than leaving the attempt to a person."""
    return 1.0 - 1.0 / COST_OF_WRONG[spec[label].retry.behaviour]


def learn_scores(rows: Any, labels: Sequence[str], weights: FLOAT) -> Any:
    """A linear classifier (one against all, log loss) over weighted n-grams: sparse rows x 2**BITS columns."""
    from sklearn.linear_model import SGDClassifier

    classifier = SGDClassifier(loss="log_loss", alpha=ALPHA, max_iter=EPOCHS, tol=None, random_state=0)
    classifier.fit(rows, np.asarray(labels), sample_weight=weights)
    classifier.coef_ = classifier.coef_.astype(np.float32)
    classifier.intercept_ = classifier.intercept_.astype(np.float32)
    return classifier


def learn_confidence(features: FLOAT, right: NDArray[np.bool_], weights: FLOAT) -> Any:
    """A logistic model of the chance that a reading is right, from readings of attempts that were held out."""
    from sklearn.linear_model import LogisticRegression

    calibrator = LogisticRegression(C=1.0, max_iter=200)
    calibrator.fit(features.astype(np.float64), right, sample_weight=weights)
    return calibrator
