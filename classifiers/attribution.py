"""Evidence + exit facts -> the root cause and the ranking that explains it.

A failed distributed job prints many failures: one rank's out-of-memory error, the others' collective timeouts, the
launcher's summary, the scheduler's exit code.  The root cause is the evidence that explains the rest:

1.  A recovery line cancels what it clears, where that came before it.
2.  Evidence is a *symptom* where other evidence explains it:
    - its label is one that the other's label can cause (exit spec) and the other was seen no later, or is an exit fact
      (a scheduler tells a preemption after the signal that it sent);
    - it is a cascade or a summary and the other is a root that it does not itself cause;
    - it is implicit (a bare crash) and the other is explicit; a cascade explains it only when seen before it.
    Two that explain each other explain nothing: their order decides.
3.  Among what is left: stronger role, then lines that were not mere warnings, then the earliest; within SKEW_S
    across ranks the more specific; then a stable order.

Rule: order in a signature file is never priority, and order of arrival is never evidence.
Rule: the ranking names for each loser why it lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from classifiers.exit_facts import FACTS_TOPIC
from classifiers.exit_spec import ExitSpec
from classifiers.records import Evidence, Owner, Position, Ranked, Role, Stream

SKEW_S = 2.0
MAX_RANKED = 20
STRENGTH = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CASCADE: 2, Role.SUMMARY: 3, Role.IMPLICIT: 4}
OUTSIDE = frozenset({Stream.SCHEDULER, Stream.NODE})
INTERRUPTED = "killed_by_user"
SOFT_LEVELS = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE", "WARNING"})
CONFIDENCE = {Role.ROOT: 0.95, Role.CONFIRMATION: 0.9, Role.CASCADE: 0.7, Role.SUMMARY: 0.5, Role.IMPLICIT: 0.5}
MAX_CANDIDATES = 200

Key = tuple[str, Position]
Losses = dict[Key, tuple[str, str | None]]

UNTRUSTED_CONFIDENCE = 0.6
CONTESTED_CONFIDENCE = 0.75


@dataclass(frozen=True, slots=True)
class Attribution:
    """The winner (None: nothing explains the failure), its confidence, and everything that was ranked, winner first.

    `trusted`: the label is stated by a stream that its signature is believed on.  `witnessed`: also by one that the
    job's own output can't imitate (scheduler, node, exit facts); only then may a retry be free.
    """

    winner: Evidence | None
    confidence: float
    ranking: tuple[Ranked, ...]
    trusted: bool
    witnessed: bool = False


def attribute(evidence: Iterable[Evidence], spec: ExitSpec) -> Attribution:
    """The root cause among the evidence of one attempt (facts evidence included, shadow evidence left out)."""
    seen = sorted({key_of(e): e for e in evidence if not e.shadow}.values(), key=order_of)
    recoveries = [e for e in seen if e.role is Role.RECOVERY]
    known = [e for e in seen if e.role in STRENGTH and e.label in spec and not _only_hints(e)]
    lost: Losses = {}
    for candidate in known:
        recovery = next((r for r in recoveries if _clears(r, candidate)), None)
        if recovery is not None:
            lost[key_of(candidate)] = (f"recovered: {recovery.signature} was seen after it", None)
    standing = _first_of_each(c for c in known if key_of(c) not in lost)
    for candidate in standing:
        cause = next((e for e in standing if explains(e, candidate, spec) and not explains(candidate, e, spec)), None)
        if cause is not None:
            lost[key_of(candidate)] = (_why(cause, candidate, spec), cause.signature)
    unexplained = [c for c in standing if key_of(c) not in lost] or standing
    candidates = [c for c in known if key_of(c) in lost] + unexplained
    winner = _first(unexplained)
    if winner is None:
        return Attribution(None, 0.0, _ranking(None, candidates, lost), trusted=False)
    trusted = _trusted(winner, standing, spec)
    confidence = _confidence(winner, [c for c in unexplained if c.label != winner.label], trusted)
    witnessed = any(e.label == winner.label and e.stream in OUTSIDE for e in standing)
    return Attribution(winner, confidence, _ranking(winner, candidates, lost), trusted, witnessed)


def order_of(evidence: Evidence) -> tuple[float, str, int, int, int, str]:
    """The one total order of evidence: event time, then place in the log, then id."""
    place = evidence.position
    return (evidence.time, place.topic, place.partition, place.offset, place.index, evidence.signature)


def key_of(evidence: Evidence) -> Key:
    """The identity of a piece of evidence: one signature at one place, however often it was delivered."""
    return (evidence.signature, evidence.position)


def explains(cause: Evidence, symptom: Evidence, spec: ExitSpec) -> bool:
    """True where `cause` makes `symptom` a consequence (rule 2 of this module)."""
    if cause is symptom or cause.signature == symptom.signature:
        return False
    before = not_after(cause, symptom)
    if (
        (before or not _is_log(cause) or _interrupts(cause, symptom, spec))
        and spec.explains(cause.label, symptom.label)
        and _can_cause(cause, symptom)
    ):
        return True
    if cause.label == symptom.label:
        return STRENGTH[cause.role] < STRENGTH[symptom.role]
    if symptom.role in (Role.CASCADE, Role.SUMMARY) and cause.role in (Role.ROOT, Role.CONFIRMATION):
        return not spec.explains(symptom.label, cause.label) or before
    if symptom.role is Role.SUMMARY and cause.role in (Role.CASCADE, Role.IMPLICIT):
        return True
    if symptom.role is Role.CASCADE and cause.role is Role.IMPLICIT:
        return before and _is_log(cause)
    if symptom.role is Role.IMPLICIT:
        return cause.role in (Role.ROOT, Role.CONFIRMATION) or (cause.role is Role.CASCADE and before)
    return False


def _can_cause(cause: Evidence, symptom: Evidence) -> bool:
    """A launcher's repetition and a bare crash cause nothing by their label, and a warning no failure."""
    if not cause.trusted and symptom.trusted and cause.stream is Stream.STDOUT:
        return False  # A job can print itself any excuse.
    named = cause.role in (Role.ROOT, Role.CONFIRMATION, Role.CASCADE)
    return named and STRENGTH[cause.role] <= STRENGTH[symptom.role] and (_soft(symptom) or not _soft(cause))


def _interrupts(cause: Evidence, symptom: Evidence, spec: ExitSpec) -> bool:
    """A program tells of its interruption at once, the scheduler why it interrupted it a moment later."""
    return symptom.label == INTERRUPTED and spec[cause.label].owner is Owner.SCHEDULER


def _only_hints(evidence: Evidence) -> bool:
    """A warning that names no cause explains nothing, not even alone."""
    return evidence.role is Role.IMPLICIT and _soft(evidence)


def _soft(evidence: Evidence) -> bool:
    return evidence.level in SOFT_LEVELS


def not_after(first: Evidence, second: Evidence) -> bool:
    """True where `first` was seen no later than `second`: strictly within one stream, within SKEW_S across streams."""
    if _stream_of(first) == _stream_of(second):
        return order_of(first) <= order_of(second)
    return first.time <= second.time + SKEW_S


def _first_of_each(candidates: Iterable[Evidence]) -> list[Evidence]:
    """The earliest of each signature in each stream: later ones of the same add nothing but work."""
    first: dict[tuple[object, ...], Evidence] = {}
    for candidate in candidates:
        first.setdefault((candidate.signature, _soft(candidate), *_stream_of(candidate)), candidate)
    return list(first.values())[:MAX_CANDIDATES]


def _stream_of(evidence: Evidence) -> tuple[str, int, int | None, str]:
    return (evidence.position.topic, evidence.position.partition, evidence.rank, evidence.stream)


def _is_log(evidence: Evidence) -> bool:
    return evidence.position.topic != FACTS_TOPIC


def _clears(recovery: Evidence, candidate: Evidence) -> bool:
    named = candidate.label in recovery.clears or candidate.signature in recovery.clears
    return named and order_of(candidate) < order_of(recovery)


def _why(cause: Evidence, symptom: Evidence, spec: ExitSpec) -> str:
    if cause.label == symptom.label:
        return f"repeats {cause.label}, which {cause.signature} states more directly"
    if spec.explains(cause.label, symptom.label):
        return f"{symptom.label} is a consequence of {cause.label}"
    return f"a {symptom.role} line, explained by {cause.signature}"


def _first(unexplained: Sequence[Evidence]) -> Evidence | None:
    if not unexplained:
        return None
    best = min(map(_tier, unexplained))
    tier = [e for e in unexplained if _tier(e) == best]
    earliest = min(tier, key=order_of)
    others = [
        e for e in tier if _stream_of(e) != _stream_of(earliest) and e.time <= earliest.time + SKEW_S and _is_log(e)
    ]
    return min([earliest, *others], key=lambda e: (-e.specificity, order_of(e)))


def _tier(evidence: Evidence) -> tuple[bool, int, bool]:
    return (
        evidence.role is Role.IMPLICIT,
        STRENGTH[evidence.role] + (2 if _soft(evidence) else 0),
        not evidence.trusted,
    )


def _trusted(winner: Evidence, standing: Sequence[Evidence], spec: ExitSpec) -> bool:
    """Infra and scheduler labels need a source that a job's own output can't imitate, or one that confirms them."""
    if spec[winner.label].owner not in (Owner.INFRA, Owner.SCHEDULER):
        return True
    return any(e.trusted and e.label == winner.label for e in standing)


def _confidence(winner: Evidence, rivals: Sequence[Evidence], trusted: bool) -> float:
    if not trusted:
        return UNTRUSTED_CONFIDENCE
    contested = any(_tier(rival)[:2] == _tier(winner)[:2] for rival in rivals)
    return min(CONFIDENCE[winner.role], CONTESTED_CONFIDENCE if contested else 1.0)


def _ranking(winner: Evidence | None, candidates: Sequence[Evidence], lost: Losses) -> tuple[Ranked, ...]:
    def place(evidence: Evidence) -> tuple[object, ...]:
        return (evidence is not winner, key_of(evidence) in lost, _tier(evidence), order_of(evidence))

    shown: dict[str, Ranked] = {}
    for evidence in sorted(candidates, key=place):
        if evidence.signature not in shown:
            shown[evidence.signature] = _ranked(evidence, winner, lost.get(key_of(evidence)))
    return tuple(shown.values())[:MAX_RANKED]


def _ranked(evidence: Evidence, winner: Evidence | None, loss: tuple[str, str | None] | None) -> Ranked:
    because, by = loss or (None, None)
    if evidence is winner:
        because, by = None, None
    elif because is None and winner is not None:
        because = f"{winner.signature} is {'of a stronger role' if _tier(winner) < _tier(evidence) else 'earlier'}"
    return Ranked(
        signature=evidence.signature,
        label=evidence.label,
        role=evidence.role,
        text=evidence.text,
        stream=evidence.stream,
        position=evidence.position,
        time=evidence.time,
        rank=evidence.rank,
        node=evidence.node,
        trusted=evidence.trusted,
        lost_because=because,
        explained_by=by,
    )
