"""Training the fallback: folds, held-out readings, calibration, thresholds, and the figures that come out.

Rule: what is measured was never learned from: groups (signature, case, project) and their near-duplicates stand in one
fold, and each fold also leaves some labels out entirely, so that confidence counts causes nobody has seen before.
Rule: the same material gives the same model, bit for bit, on one version of scikit-learn.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

from classifiers.exit_spec import ExitSpec
from classifiers.fallback import (
    FEATURES,
    KNOWN_BITS,
    NOTHING,
    Fallback,
    Learned,
    Reading,
    cost_threshold,
    learn_confidence,
    learn_scores,
    weighted,
)
from classifiers.ngrams import BITS, grams
from services.training_rows import Material, Row, Trial

FOLDS = 5
# How much labels that were left out entirely weigh.  A quarter of incidents have causes never seen before (Chen et al.,
# EuroSys 2024); held-out signatures stand for those.  That no row at all tells of a label of the closed list is rarer.
UNSEEN_SHARE = 0.1
# A whole log tells more of what will come than one line; like UNSEEN_SHARE set where 0.25 and 10 were too timid on one.
LOG_WEIGHT = 25.0
MAX_COMPANY = 4
RELIABLE = 8
MIN_TRIALS = 20
Tell = Callable[[str], None]


class TooLittle(ValueError):
    """Too little to learn from; str() is one line for people."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows as numbers: weighted n-grams, labels, weights, and the known columns of each row."""

    rows: tuple[Row, ...]
    grams: csr_matrix
    words: csr_matrix
    idf: NDArray[np.float32]
    labels: NDArray[np.str_]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Held:
    """A trial that was held out, what was read in it, and whether its label had been left out entirely."""

    trial: Trial
    reading: Reading
    unseen: bool
    weight: float

    @property
    def right(self) -> bool:
        """True where the label read is one of the accepted."""
        return not self.unseen and self.reading.label in self.trial.accepted


@dataclass(frozen=True, slots=True)
class Judged:
    """A held-out trial with the confidence it got, and whether a guess was given."""

    held: Held
    confidence: float
    given: bool


def table_of(rows: Sequence[Row]) -> Table:
    """The rows as numbers: the slow part of training, done once for all folds."""
    found = grams([row.text for row in rows])
    shape = (len(rows), 1 << BITS)
    row, column, _ = weighted(found, np.ones(1 << BITS, dtype=np.float32))
    counts = np.bincount(column, minlength=1 << BITS)
    idf = (np.log((1 + len(rows)) / (1 + counts)) + 1).astype(np.float32)
    row, column, value = weighted(found, idf)
    words = found.columns(KNOWN_BITS)[found.word]
    seen = csr_matrix(
        (np.ones(len(words), dtype=np.int8), (found.row[found.word], words)), shape=(len(rows), 1 << KNOWN_BITS)
    )
    return Table(
        tuple(rows),
        csr_matrix((value, (row, column)), shape=shape),
        seen,
        idf,
        np.asarray([r.label for r in rows]),
        np.asarray([r.weight for r in rows], dtype=np.float32),
    )


def fold_of(group: str) -> int:
    """The fold of a group: by its name, so that it stays when others come and go."""
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % FOLDS


def fit(table: Table, chosen: NDArray[np.bool_]) -> Learned:
    """A model of the chosen rows, without calibration: its confidence means nothing yet."""
    classifier = learn_scores(table.grams[chosen], table.labels[chosen].tolist(), table.weights[chosen])
    known = np.zeros(1 << KNOWN_BITS, dtype=bool)
    known[table.words[chosen].indices] = True
    plain = learn_confidence(
        np.zeros((2, FEATURES), dtype=np.float32), np.asarray([True, False]), np.ones(2, np.float32)
    )
    return Learned(classifier, plain, table.idf, np.packbits(known), {})


def hold_out(material: Material, table: Table, tell: Tell, rows: NDArray[np.bool_] | None = None) -> list[Held]:
    """Every trial as read by a model that never saw its group; in each fold some labels are left out of learning.

    `rows` restricts what may be learned from (to the training set of an older model, say); the trials stay the same.
    """
    folds = np.asarray([fold_of(row.group) for row in table.rows])
    names = sorted({str(label) for label in table.labels} - {NOTHING})
    held: list[Held] = []
    for fold in range(FOLDS):
        left_out = frozenset(names[fold::FOLDS])
        chosen = (folds != fold) & ~np.isin(table.labels, sorted(left_out))
        chosen = chosen if rows is None else chosen & rows
        if len(set(table.labels[chosen])) < 3 or NOTHING not in table.labels[chosen]:
            raise TooLittle("too few labels to learn from: each fold needs two, and lines that say nothing")
        model = Fallback(fit(table, chosen))
        tell(f"fold {fold + 1} of {FOLDS}: {int(chosen.sum())} rows learned, {len(left_out)} labels left out")
        company = [r.text for r, f in zip(table.rows, folds, strict=True) if f == fold and r.label == NOTHING]
        for trial in material.trials:
            unseen = trial.accepted <= left_out
            if fold_of(trial.group) == fold or unseen:
                reading = model.read(_in_company(trial, company), trial.facts)
                if reading is not None:
                    held.append(Held(trial, reading, unseen, 1.0))
    return _weighed(held)


def _in_company(trial: Trial, company: Sequence[str]) -> tuple[str, ...]:
    """The lines of a trial; a single example gets some lines that say nothing around it, as in a log."""
    if len(trial.lines) > 1 or not company:
        return trial.lines
    chance = random.Random("\0".join(trial.lines))  # noqa: S311 - the same company in every run
    others = [chance.choice(company) for _ in range(chance.randrange(MAX_COMPANY + 1))]
    place = chance.randrange(len(others) + 1)
    return (*others[:place], *trial.lines, *others[place:])


def _weighed(held: list[Held]) -> list[Held]:
    """The same, where labels left out weigh UNSEEN_SHARE of all, and a whole log LOG_WEIGHT examples."""
    natural = [1.0 if h.trial.source == "example" else LOG_WEIGHT for h in held]
    unseen = sum(w for h, w in zip(held, natural, strict=True) if h.unseen)
    seen = sum(natural) - unseen
    factor = UNSEEN_SHARE / (1 - UNSEEN_SHARE) * seen / unseen if unseen else 1.0
    return [
        Held(h.trial, h.reading, h.unseen, w * (factor if h.unseen else 1.0))
        for h, w in zip(held, natural, strict=True)
    ]


def calibrated(learned: Learned, held: Sequence[Held], spec: ExitSpec) -> Learned:
    """The model with a calibrator from held-out readings and a threshold for each label."""
    features = np.stack([h.reading.features for h in held])
    right = np.asarray([h.right for h in held])
    weights = np.asarray([h.weight for h in held], dtype=np.float32)
    calibrator = learn_confidence(features, right, weights)
    ready = Learned(learned.classifier, calibrator, learned.idf, learned.known, {})
    model = Fallback(ready)
    by_label: dict[str, list[tuple[float, bool, float]]] = defaultdict(list)
    for h in held:
        by_label[h.reading.label].append((model.confidence(h.reading), h.right, h.weight))
    thresholds = {
        str(label): _threshold(cost_threshold(str(label), spec), by_label[str(label)])
        for label in model.labels
        if label != NOTHING
    }
    return Learned(learned.classifier, calibrator, learned.idf, learned.known, thresholds)


def _threshold(least: float, readings: Sequence[tuple[float, bool, float]]) -> float:
    """The lowest confidence, not under `least`, from which held-out guesses of a label were right often enough."""
    for limit in sorted({least, *(round(c, 2) for c, _, _ in readings if c > least)}):
        given = [(right, weight) for c, right, weight in readings if c >= limit]
        good = sum(weight for right, weight in given if right)
        # NB: one wrong and RELIABLE x `least` right ones are assumed, so that few readings neither raise nor lower much.
        if (good + RELIABLE * least) / (sum(w for _, w in given) + RELIABLE) >= least - 0.02:
            return limit
    return 0.99


def judged(learned: Learned, held: Sequence[Held]) -> list[Judged]:
    """Each held-out reading with the confidence and the decision that the calibrated model gives it."""
    model = Fallback(learned)
    rows = []
    for h in held:
        confidence = model.confidence(h.reading)
        rows.append(Judged(h, confidence, confidence >= learned.thresholds.get(h.reading.label, 1.0)))
    return rows


def train(material: Material, spec: ExitSpec, tell: Tell) -> tuple[Learned, list[Judged]]:
    """The model of all material, and its held-out readings.  Raises TooLittle."""
    if len(material.trials) < MIN_TRIALS:
        raise TooLittle(f"{len(material.trials)} examples are too few to learn from (at least {MIN_TRIALS})")
    table = table_of(material.rows)
    tell(f"{len(material.rows)} rows of {len({r.group for r in material.rows})} groups, {len(material.trials)} trials")
    held = hold_out(material, table, tell)
    if len({h.right for h in held}) < 2:
        raise TooLittle("held-out examples are all right or all wrong: nothing to calibrate by; give more of them")
    learned = calibrated(fit(table, np.ones(len(table.rows), dtype=bool)), held, spec)
    return learned, judged(learned, held)
