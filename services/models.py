"""Models of the fallback in their folders: made, compared, put into use, found by who needs one.

Rule: a candidate that costs more than the model in use, on the same folds, is put into use only by force.
Rule: without a promoted model the packaged signatures are learned, once for each catalog and scikit-learn version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import structlog

from classifiers.exit_spec import ExitSpec
from classifiers.fallback import RECIPE, Fallback, Learned
from classifiers.matching import Matcher
from services.evaluation import Sample
from services.model_files import (
    CARD,
    MODEL,
    BadModel,
    Card,
    load_fallback,
    load_or_build,
    read_model,
    save,
    sklearn_version,
)
from services.model_report import figures_of, write_report
from services.signature_files import cache_folder
from services.training import Tell, TooLittle, calibrated, fit, hold_out, judged, table_of, train
from services.training_rows import Material, gather, row_key

SLACK = 0.005
log = structlog.get_logger()


def fallback_folder() -> Path:
    """Where `exitsign train` puts the model into use, and where agents look for it first."""
    return cache_folder() / "model"


def default_folder(catalog_digest: str) -> Path:
    """Where the default model of a catalog is kept, beside the compiled catalogs."""
    return cache_folder() / f"fallback-{RECIPE}-{catalog_digest[7:39]}-{sklearn_version()}"


def ready_fallback(matcher: Matcher, signatures: Path, folder: Path | None = None) -> Fallback | None:
    """The model in use (of `folder`, else the promoted one), else the default one, built where it is missing.

    Blocks, for up to a minute where it builds: call it in a thread.  The matcher is used while it builds, so give it
    one of its own.  None, with one line in the log, where the model in use can't be used.
    """
    chosen = folder or fallback_folder()
    if folder is not None or (chosen / CARD).exists():
        return load_fallback(chosen, matcher.catalog.spec)
    default = default_folder(matcher.catalog.digest)
    return load_or_build(default, matcher.catalog.spec, lambda: build_default(default, matcher, signatures))


def present_fallback(matcher: Matcher) -> Fallback | None:
    """The model that `ready_fallback` would take, where it is there already; nothing is built."""
    folders = (fallback_folder(), default_folder(matcher.catalog.digest))
    found = next((folder for folder in folders if (folder / CARD).exists()), None)
    return load_fallback(found, matcher.catalog.spec) if found else None


def build_default(folder: Path, matcher: Matcher, signatures: Path) -> None:
    """Learn the signatures and cases that ship, into the folder."""
    log.info("building the default fallback model", folder=str(folder))
    material = material_of(matcher, signatures, (), None)
    try:
        learned, rows = train(material, matcher.catalog.spec, lambda line: log.debug(line))
    except TooLittle as error:
        log.warning("no default fallback model", problem=str(error))
        return
    figures = figures_of(rows, matcher.catalog.spec)
    save(folder, learned, card_of(material, learned, matcher.catalog.spec, figures, datetime.now(UTC)))


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate model in its folder."""

    folder: Path
    card: Card

    def worse_than(self, old: Mapping[str, float] | None) -> bool:
        """True where the model in use costs less on the same folds, by more than SLACK."""
        return old is not None and self.card.figures["cost"] > old["cost"] + SLACK

    def promote(self, folder: Path) -> None:
        """Put the candidate into use: its two files replace those of the folder, the card last."""
        for name in (MODEL, CARD):
            (self.folder / name).replace(folder / name)


def train_into(folder: Path, material: Material, spec: ExitSpec, tell: Tell, now: datetime) -> Made:
    """Train, write model and report into the folder.."""
    learned, rows = train(material, spec, tell)
    card = save(folder, learned, card_of(material, learned, spec, figures_of(rows, spec), now))
    head = {
        "trained": card.trained_at,
        "scikit-learn": card.sklearn,
        "model": card.digest,
        "training set": f"{card.training_digest} ({len(material.rows)} rows: {_sources(material)})",
    }
    tell(f"report: {write_report(folder, rows, spec, head)}")
    return Made(folder, card)


def card_of(material: Material, learned: Learned, spec: ExitSpec, figures: dict[str, float], now: datetime) -> Card:
    """What the model is; `save` fills the digest in."""
    return Card(
        digest="",
        training_digest=material.digest,
        recipe=RECIPE,
        labels=sorted(spec.labels),
        sklearn=sklearn_version(),
        trained_at=now.isoformat(timespec="seconds"),
        thresholds={name: round(value, 4) for name, value in learned.thresholds.items()},
        figures={name: round(value, 4) for name, value in figures.items()},
        rows=sorted({row_key(row) for row in material.rows}),
    )


def compare(folder: Path, material: Material, made: Made, spec: ExitSpec, tell: Tell) -> dict[str, float] | None:
    """The figures of the model in use on the same folds; None: there is none that fits this version and exit spec.

    Its own training rows are learned again fold by fold, so that neither model is tested on what it has seen.
    """
    try:
        card = read_model(folder, spec)[1]
    except BadModel as error:
        tell(f"nothing to compare with: {error}")
        return None
    if card.training_digest == made.card.training_digest:
        tell("the model in use was trained on the same rows")
        return made.card.figures
    known = frozenset(card.rows)
    table = table_of(material.rows)
    rows = np.asarray([row_key(row) in known for row in table.rows])
    tell(
        f"the model in use, on the same folds: {len({row_key(row) for row in table.rows} & known)} of its {len(known)} rows are still there"
    )
    try:
        held = hold_out(material, table, tell, rows)
    except TooLittle as error:
        tell(f"nothing to compare with: {error}")
        return None
    learned = calibrated(fit(table, rows), held, spec)
    return figures_of(judged(learned, held), spec)


def material_of(matcher: Matcher, signatures: Path, corpora: Sequence[Sample], feedback: Path | None) -> Material:
    """All material of a signature folder and what was given besides.  Raises CorpusError."""
    cases = signatures / "cases"
    return gather(matcher.catalog, cases if cases.is_dir() else None, corpora, feedback, matcher)


def _sources(material: Material) -> str:
    counts = Counter(row.source for row in material.rows)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
