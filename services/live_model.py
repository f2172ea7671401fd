"""The fallback model of a worker: made ready in the background, used when it is there.

Rule: a worker never waits for its model; without one, what no signature explains is `unknown`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import structlog

from classifiers.fallback import Fallback
from classifiers.hybrid import Guessed
from classifiers.records import AttemptFacts
from services.models import ready_fallback
from services.signature_files import load_matcher

log = structlog.get_logger()


class LiveModel:
    """Guesses once the model of the signature folder is ready; before that, and without one, it abstains."""

    def __init__(self, signatures: Path, time_limit_s: float) -> None:
        self._signatures, self._time_limit_s = signatures, time_limit_s
        self._fallback: Fallback | None = None
        threading.Thread(target=self._make_ready, name="fallback-model", daemon=True).start()

    def guess(self, lines: Sequence[str], facts: AttemptFacts) -> Guessed | None:
        """What the model says of these context lines, or None."""
        return self._fallback.guess(lines, facts) if self._fallback is not None else None

    def _make_ready(self) -> None:
        try:
            self._fallback = ready_fallback(load_matcher(self._signatures, self._time_limit_s), self._signatures)
        except Exception as error:  # Whatever is wrong with a model, the worker goes on without it.
            log.exception("no fallback model; what no signature explains stays unknown", problem=repr(error))
        else:
            log.info("fallback model", ready=self._fallback is not None)
