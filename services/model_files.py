"""Model files of the fallback: written by skops (no pickle), read with every reason to refuse spelt out.

Rule: a model that can't be used is one clear line and no model; nothing that a file holds is ever executed.
Rule: a file is replaced whole, so that a reader sees the old model or the new one.

A model is `model.skops` (the learned parts) beside `model.json` (what it is: digests, date, versions, figures).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import msgspec
import structlog

from classifiers.exit_spec import ExitSpec
from classifiers.fallback import NOTHING, RECIPE, Fallback, Learned

MODEL = "model.skops"
CARD = "model.json"
PARTS = ("classifier", "calibrator", "idf", "known")
MAX_BYTES = 50_000_000
log = structlog.get_logger()


class BadModel(ValueError):
    """A model that can't be used; str() is one line that names the file, the reason and the next command."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is.  `rows` are the keys of its training rows; `labels` the exit spec's labels it was trained for."""

    digest: str
    training_digest: str
    recipe: int
    labels: list[str]
    sklearn: str
    trained_at: str
    thresholds: dict[str, float]
    figures: dict[str, float]
    rows: list[str] = []


def sklearn_version() -> str:
    """The installed scikit-learn, major.minor: what a model must fit."""
    from importlib.metadata import version

    return ".".join(version("scikit-learn").split(".")[:2])


def save(folder: Path, learned: Learned, card: Card) -> Card:
    """Write the model into the folder; gives the card with the digest of the file."""
    from skops.io import dumps

    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: getattr(learned, name) for name in PARTS}
    body = dumps(parts, compression=ZIP_DEFLATED, compresslevel=1)
    card = msgspec.structs.replace(card, digest=_digest(body))
    _replace(folder / MODEL, body)
    _replace(folder / CARD, msgspec.json.format(msgspec.json.encode(card), indent=1))
    return card


def read_card(folder: Path) -> Card:
    """The card of the model in a folder.  Raises BadModel."""
    path = folder / CARD
    try:
        return msgspec.json.decode(path.read_bytes(), type=Card)
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror}; make one with `exitsign train`") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadModel(f"{path}: no model card: {error}; make one anew with `exitsign train`") from None


def read_model(folder: Path, spec: ExitSpec) -> tuple[Learned, Card]:
    """The model in a folder.  Raises BadModel for one that is corrupt, foreign, or made for something else."""
    card = read_card(folder)
    path = folder / MODEL
    for problem in _unfit(card, spec):
        raise BadModel(f"{path}: {problem}; make one anew with `exitsign train`")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadModel(f"{path}: larger than {MAX_BYTES // 1_000_000} MB, so no model of ours")
        body = path.read_bytes()
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror}; make one with `exitsign train`") from None
    if _digest(body) != card.digest:
        raise BadModel(f"{path}: not the file that {CARD} describes; make one anew with `exitsign train`")
    return _learned(body, path, card), card


def load_fallback(folder: Path, spec: ExitSpec) -> Fallback | None:
    """The fallback in a folder; None, with one line in the log, where there is none that can be used."""
    try:
        learned, card = read_model(folder, spec)
        fallback = Fallback(learned)
    except BadModel as error:
        log.error("no fallback model: attempts without a signature stay unknown", problem=str(error))
        return None
    log.info("fallback model in use", digest=card.digest[:19], trained_at=card.trained_at)
    return fallback


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Let one process at a time build what is missing in a folder; blocks, so never on an event loop."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def load_or_build(folder: Path, spec: ExitSpec, build: Callable[[], Any]) -> Fallback | None:
    """The fallback in a folder; where the folder has none that fits, `build` writes one first, once for all processes.

    Blocks for the time of `build`.  None where the folder can't be written or `build` made nothing usable.
    """
    with suppress(BadModel):
        return Fallback(read_model(folder, spec)[0])
    try:
        with only_one(folder):
            with suppress(BadModel):
                return Fallback(read_model(folder, spec)[0])
            build()
    except OSError as error:
        log.error("no fallback model: its folder can't be written", folder=str(folder), problem=str(error))
        return None
    return load_fallback(folder, spec)


def _learned(body: bytes, path: Path, card: Card) -> Learned:
    from skops.io import loads
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        parts = loads(body, trusted=[])
    except UntrustedTypesFoundException as error:
        raise BadModel(f"{path}: holds types that are not trusted ({str(error)[:200]}); it was not loaded") from None
    except Exception as error:  # skops raises whatever a broken file leads to; each is the same to a reader.
        raise BadModel(f"{path}: can't be read ({type(error).__name__}: {str(error)[:200]})") from None
    try:
        learned = Learned(**{name: parts[name] for name in PARTS}, thresholds=card.thresholds)
        labels = {str(label) for label in learned.classifier.classes_}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadModel(f"{path}: no model of exitsign (lacks {error})") from None
    if labels - {NOTHING} - set(card.labels):
        raise BadModel(f"{path}: knows labels that {CARD} does not name")
    return learned


def _unfit(card: Card, spec: ExitSpec) -> Iterator[str]:
    if card.recipe != RECIPE:
        yield f"made by recipe {card.recipe}, this version reads recipe {RECIPE}"
    if card.sklearn != sklearn_version():
        yield f"made with scikit-learn {card.sklearn}, installed is {sklearn_version()}"
    if set(card.labels) != set(spec.labels):
        apart = sorted(set(card.labels) ^ set(spec.labels))
        yield f"trained for another exit spec (labels that differ: {', '.join(apart[:5])})"


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _replace(path: Path, body: bytes) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(body)
    part.replace(path)
