"""The signature folder: its texts, and a catalog that follows its changes.

Rule: a worker never runs without a catalog: an edit that can't be used leaves the old one in place, loudly.
Rule: compiling happens off the event loop; the new matcher is swapped in whole.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import hyperscan
import structlog

from classifiers.catalog import digest_of, read_catalog
from classifiers.matching import Matcher
from classifiers.signature import SignatureError
from services import metrics

PACKAGED = Path(__file__).resolve().parent.parent / "signatures"
log = structlog.get_logger()


class NoSignatures(ValueError):
    """A folder that holds no signature file; str() is one line for people."""


def folder_of(setting: str) -> Path:
    """The folder that EXITSIGN_SIGNATURES names, or the packaged one."""
    return Path(setting) if setting else PACKAGED


def read_texts(folder: Path) -> dict[str, str]:
    """{file name: text} of the folder's *.yaml files.  Raises NoSignatures or SignatureError for bytes that are no text."""
    texts = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            texts[path.name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{path}: {error}"
            raise NoSignatures(msg) from None
    if not texts:
        msg = f"{folder}: no signature files (*.yaml); set EXITSIGN_SIGNATURES to the folder that holds them"
        raise NoSignatures(msg)
    return texts


def load_matcher(folder: Path, time_limit_s: float = 0.05) -> Matcher:
    """A matcher over the folder's catalog, compiled once for each digest.  Raises SignatureError or NoSignatures."""
    return make_matcher(read_texts(folder), time_limit_s)


def make_matcher(texts: dict[str, str], time_limit_s: float) -> Matcher:
    """A matcher over the texts; what was compiled before for the same digest and engine is taken from the cache."""
    cached = cache_folder() / f"{digest_of(texts)[7:39]}-{version('hyperscan')}.hs"
    if cached.exists():
        with suppress(hyperscan.error, OSError):
            catalog = read_catalog(texts, checked=True)
            return Matcher(catalog, time_limit_s=time_limit_s, compiled=cached.read_bytes())
    matcher = Matcher(read_catalog(texts), time_limit_s=time_limit_s)
    with suppress(OSError):  # A cache that can't be written costs seconds, nothing else.
        cached.parent.mkdir(parents=True, exist_ok=True)
        part = cached.with_suffix(f".{os.getpid()}")
        part.write_bytes(matcher.dump())
        part.rename(cached)
    return matcher


def cache_folder() -> Path:
    """Where compiled catalogs are kept: $XDG_CACHE_HOME/exitsign, or ~/.cache/exitsign."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "exitsign"


class LiveMatcher:
    """The matcher in use; `look` replaces it when the folder has changed to something usable."""

    def __init__(self, folder: Path, time_limit_s: float = 0.05) -> None:
        self._folder, self._time_limit_s = folder, time_limit_s
        self._refused = ""
        self.current = load_matcher(folder, time_limit_s)
        self._tell()

    def look(self) -> bool:
        """Read the folder once; True where a new catalog came into use.  Blocks for the compile: call it in a thread."""
        try:
            texts = read_texts(self._folder)
            digest = digest_of(texts)
            if digest in (self.current.catalog.digest, self._refused):
                return False
            self._refused = digest
            self.current = make_matcher(texts, self._time_limit_s)
        except (SignatureError, NoSignatures) as error:
            metrics.RELOAD_FAILURES.inc()
            log.error("catalog change refused, the old one stays in use", problem=str(error), catalog=self._digest)
            return False
        self._tell()
        log.info("catalog in use", catalog=self._digest, signatures=len(self.current.catalog.active))
        return True

    @property
    def _digest(self) -> str:
        return self.current.catalog.digest

    def _tell(self) -> None:
        metrics.CATALOG.clear()
        metrics.CATALOG.labels(digest=self._digest[:19]).set(1)


def follow(live: LiveMatcher, every_s: float) -> threading.Event:
    """Look at the folder every `every_s` seconds in a daemon thread, until the event that is returned is set."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every_s):
            live.look()

    threading.Thread(target=loop, name="signature-folder", daemon=True).start()
    return stop
