"""What a change of the signatures would have done: two catalogs, or one more signature, over a history of attempts.

Rule: only attempts whose label or retry decision changes are listed; all are counted.
Rule: GPU-time is told where the history knows it, and is never guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from classifiers.advice import Policy, advise
from classifiers.attribution import attribute
from classifiers.catalog import Catalog
from classifiers.classification import Log, classify
from classifiers.decision import ended_well
from classifiers.exit_spec import ENDED_WELL, UNKNOWN
from classifiers.lock import content_digest
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts, Evidence, LogLine, Position, Role, Verdict
from classifiers.signature import Signature, Status


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a history; `accepted` holds the labels that people gave it, `seen_at` is seconds since the epoch."""

    log: Log
    gpus: int | None = None
    run_s: float | None = None
    accepted: frozenset[str] = frozenset()
    seen_at: float | None = None

    @property
    def gpu_s(self) -> float | None:
        """GPU-seconds that the attempt took; None where the history does not say."""
        return None if self.gpus is None or self.run_s is None else self.gpus * self.run_s


@dataclass(frozen=True, slots=True)
class Said:
    """What a catalog says of one attempt."""

    label: str
    retry: bool
    signature: str | None = None
    line: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One attempt on which two catalogs differ."""

    attempt: Attempt
    before: Said
    after: Said

    @property
    def mended(self) -> bool:
        """True where people's label was missed before and is met after."""
        accepted = self.attempt.accepted
        return bool(accepted) and self.before.label not in accepted and self.after.label in accepted

    @property
    def broken(self) -> bool:
        """True where people's label was met before and is missed after."""
        accepted = self.attempt.accepted
        return bool(accepted) and self.before.label in accepted and self.after.label not in accepted


@dataclass(frozen=True, slots=True)
class Move:
    """All changes of one kind: (label, retry) before and after."""

    before: tuple[str, bool]
    after: tuple[str, bool]
    attempts: int
    gpu_s: float
    gpu_s_known: int


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """Ids that came, went, and changed (with what changed about them), each in order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]


@dataclass
class Tally:
    """What one signature did over a history; counts are attempts, `lines` is lines."""

    lines: int = 0
    seen: int = 0
    won: int = 0
    lost: int = 0
    right: int = 0
    judged: int = 0
    last_seen: float | None = None
    last_attempt: str = ""
    lost_to: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def compare_catalogs(before: Catalog, after: Catalog) -> CatalogChange:
    """Which signatures came, went or changed."""
    old, new = ({s.id: s for s in catalog.signatures} for catalog in (before, after))
    changed = [(name, what) for name in sorted(old.keys() & new.keys()) if (what := _what(old[name], new[name]))]
    return CatalogChange(tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys())), tuple(changed))


def compare(history: Iterable[Attempt], before: Matcher, after: Matcher) -> Iterator[Change]:
    """Every attempt that two matchers judge differently."""
    for attempt in history:
        change = Change(attempt, say(attempt, before), say(attempt, after))
        if (change.before.label, change.before.retry) != (change.after.label, change.after.retry):
            yield change


def moves(changes: Iterable[Change]) -> list[Move]:
    """Changes counted by kind, the most GPU-time first."""

    def kind(change: Change) -> tuple[tuple[str, bool], tuple[str, bool]]:
        return (change.before.label, change.before.retry), (change.after.label, change.after.retry)

    found = []
    for (old, new), rows in groupby(sorted(changes, key=kind), key=kind):
        group = list(rows)
        known = [c.attempt.gpu_s for c in group if c.attempt.gpu_s is not None]
        found.append(Move(old, new, len(group), sum(known), len(known)))
    return sorted(found, key=lambda m: (-m.gpu_s, -m.attempts, m.before, m.after))


def say(attempt: Attempt, matcher: Matcher) -> Said:
    """Label and retry decision of one attempt."""
    return _said(classify(attempt.log, matcher), matcher)


def tally(history: Iterable[Attempt], matcher: Matcher) -> dict[str, Tally]:
    """What each signature did over a history, by id; all but noise, which leaves no trace."""
    tallies = {s.id: Tally() for s in matcher.catalog.active if s.role is not Role.NOISE}
    for attempt in history:
        verdict = classify(attempt.log, matcher)
        for evidence in evidence_of(attempt.log, matcher):
            tallies[evidence.signature].lines += 1
        for place, ranked in enumerate(verdict.ranking):
            _count(tallies[ranked.signature], attempt, verdict, won=place == 0 and verdict.signature is not None)
    return tallies


def evidence_of(log: Log, matcher: Matcher) -> list[Evidence]:
    """Evidence of the lines of one log, shadow evidence included."""
    return matcher.scan(
        [
            LogLine(
                cluster="", job_id=log.id, text=text, stream=log.stream, position=Position("", 0, n), appended_at=0.0
            )
            for n, text in enumerate(log.lines)
        ]
    )


class Trial:
    """One signature tried against a catalog: what it would win, and from whom.

    Only the candidate and the noise are compiled anew, so that a trial of a pattern takes no second catalog.
    """

    def __init__(self, candidate: Signature, base: Matcher) -> None:
        self.base = base
        self.candidate = replace(candidate, status=Status.STABLE)
        noise = (s for s in base.catalog.active if s.role is Role.NOISE and s.id != candidate.id)
        self._matcher = Matcher(replace(base.catalog, signatures=(*noise, self.candidate)), time_limit_s=1.0)

    def hits(self, log: Log) -> list[Evidence]:
        """Lines that the candidate would see."""
        return [e for e in evidence_of(log, self._matcher) if e.signature == self.candidate.id]

    def change(self, attempt: Attempt, hits: Sequence[Evidence]) -> Change:
        """What is said without and with the candidate."""
        base = [e for e in evidence_of(attempt.log, self.base) if e.signature != self.candidate.id]
        deciding = {e.position: e for e in base if not e.shadow}
        for hit in hits:
            rival = deciding.get(hit.position)
            if rival is None or (-hit.specificity, hit.signature) < (-rival.specificity, rival.signature):
                deciding[hit.position] = hit
        without = [e for e in base if not e.shadow]
        return Change(attempt, self._say(attempt, without), self._say(attempt, list(deciding.values())))

    def _say(self, attempt: Attempt, evidence: list[Evidence]) -> Said:
        spec, log = self.base.catalog.spec, attempt.log
        facts = AttemptFacts(
            cluster="", job_id=log.id, state=log.state.upper() if log.state else None, exit_code=log.exit_code,
            signal=log.signal, reason=log.reason,
        )  # fmt: skip
        if ended_well(facts):
            return Said(ENDED_WELL, retry=False)
        winner = attribute([*evidence, *self.base.facts(facts, 0.0)], spec).winner
        label = winner.label if winner else UNKNOWN
        retry = spec[label].retry.budget > 0
        return Said(label, retry, winner.signature if winner else None, winner.text if winner else "")


def _said(verdict: Verdict, matcher: Matcher) -> Said:
    if verdict.label is None:
        return Said(ENDED_WELL, retry=False)
    advice = advise(verdict, trusted=True, past=(), spec=matcher.catalog.spec, policy=Policy())
    top = verdict.ranking[0] if verdict.signature else None
    return Said(verdict.label, advice.retry, top.signature if top else None, top.text if top else "")


def _what(old: Signature, new: Signature) -> str:
    """What changed about a signature, in words; empty where nothing that matters did."""
    told = [
        f"{name} {getattr(old, name)} -> {getattr(new, name)}"
        for name in ("version", "status", "label", "role")
        if getattr(old, name) != getattr(new, name)
    ]
    if old.patterns != new.patterns or dict(old.facts) != dict(new.facts):
        told.append("pattern")
    if not told and content_digest(old) != content_digest(new):
        told.append("source or clears")
    return ", ".join(told)


def _count(tally: Tally, attempt: Attempt, verdict: Verdict, *, won: bool) -> None:
    tally.seen += 1
    tally.won += won
    tally.lost += not won
    tally.last_attempt = attempt.log.id
    if attempt.seen_at is not None:
        tally.last_seen = max(attempt.seen_at, tally.last_seen or attempt.seen_at)
    if won and attempt.accepted:
        tally.judged += 1
        tally.right += verdict.label in attempt.accepted
    if not won and verdict.signature is not None:
        tally.lost_to[verdict.signature.id] += 1
