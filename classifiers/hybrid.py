"""Signatures first, the model for what they leave: which of the two names the label of an attempt.

Rule: a signature's verdict always wins; the model is asked where nothing explains the failure, or only a bare crash.
Rule: a model's label is never presented as a signature's: its source is `model`, and its words are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from classifiers.attribution import Attribution
from classifiers.exit_facts import FACTS_TOPIC
from classifiers.exit_spec import UNKNOWN, ExitSpec
from classifiers.records import AttemptFacts, Evidence, Role, Source

BARE_CRASH = "traceback_other"


class Guessed(Protocol):
    """What a model says: fallback.Guess."""

    @property
    def label(self) -> str:
        """The label."""

    @property
    def confidence(self) -> float:
        """Calibrated, 0..1."""

    @property
    def why(self) -> tuple[str, ...]:
        """The words that spoke most for it."""


Guesser = Callable[[Sequence[str], AttemptFacts], Guessed | None]


@dataclass(frozen=True, slots=True)
class Naming:
    """The label of a failed attempt, who said so, how sure, and in which words for people."""

    label: str
    source: Source
    confidence: float
    winner: Evidence | None
    reason: str


def name(
    found: Attribution, facts: AttemptFacts, context: Callable[[], Sequence[str]], guess: Guesser | None, spec: ExitSpec
) -> Naming:
    """Name the root cause of a failed attempt; `context` is read only where the model is asked."""
    winner = found.winner
    if guess is not None and (winner is None or (winner.role is Role.IMPLICIT and winner.label == BARE_CRASH)):
        lines = [*context(), *([winner.text] if winner else [])]
        told = guess(lines, facts) if lines else None
        if told is not None and told.label in spec:
            words = f" (a model's guess, by the words {', '.join(told.why)})" if told.why else " (a model's guess)"
            return Naming(told.label, Source.MODEL, round(told.confidence, 3), None, spec[told.label].reason + words)
    if winner is None:
        return Naming(UNKNOWN, Source.NONE, 0.0, None, spec[UNKNOWN].reason)
    source = Source.FACTS if winner.position.topic == FACTS_TOPIC else Source.SIGNATURE
    return Naming(winner.label, source, found.confidence, winner, spec[winner.label].reason)
