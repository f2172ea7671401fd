"""When the verdict of an attempt is decided, revised and final.

Theory.  An attempt has ended when its scheduler says so.  From then on (times on the broker's clock):

    at once             a root cause is already known, or the attempt ended well: decide
    watermark > grace   every input partition has been scanned past the end + grace_s: decide with what there is
    max_wait_s          the watermark is behind (a backlog): decide with what there is, coverage `late`
    until late_facts_s  late scheduler and node facts revise; log lines count only when appended within the grace
    after that          the verdict is final, its evidence is forgotten, its label stays in the job's past

Rule: what counts as evidence depends on when it was appended, never on when it was read: replays decide the same.
Rule: a revision is published only where label or signature changes, and once more when it becomes final.
Rule: advice is for the job's newest attempt: a late revision of an earlier one changes its verdict alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

import msgspec

from classifiers.advice import Policy, advise, fingerprint
from classifiers.attempt import Attempt, JobState, Past, attempts, belongs, forget
from classifiers.attribution import Attribution, attribute
from classifiers.exit_spec import ExitSpec
from classifiers.hybrid import Guesser, name
from classifiers.records import (
    Advice,
    AttemptFacts,
    Coverage,
    Evidence,
    Role,
    SignatureRef,
    Source,
    Stream,
    Verdict,
    deterministic_id,
)

ENDED_WELL_STATES = frozenset({"COMPLETED", "SUCCEEDED", "SUCCESS", "DONE", "FINISHED"})
MAX_CONTEXT_SHOWN = 10
MAX_PAST = 50


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as records tell it: up to where all input is scanned (None: not all partitions known), and the newest tick.

    `at` is when the decision is made, for its time stamp alone; the newest tick where it is not given.
    """

    watermark: float | None
    now: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of this module's theory, in seconds; all count from the append time of the end."""

    grace_s: float = 8.0
    max_wait_s: float = 60.0
    late_facts_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Judge:
    """Everything that a decision rests on besides the records: catalog, waits, policy."""

    spec: ExitSpec
    digest: str
    match_facts: Callable[[AttemptFacts, float], list[Evidence]]
    guess: Guesser | None = None
    timing: Timing = field(default_factory=Timing)
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True)
class Published:
    """A verdict to publish, and the advice that goes with it (None: the attempt ended well)."""

    verdict: Verdict
    advice: Advice | None


def decide(state: JobState, clock: Clock, judge: Judge) -> tuple[JobState, list[Published]]:
    """The state after everything that can be decided now, and what must be published for it."""
    published: list[Published] = []
    state = _without_sent(state)
    siblings = attempts(state)
    for attempt in siblings:
        if attempt.grace_from is None:
            continue
        verdict, found = _verdict(state, attempt, siblings, clock, judge)
        old = next((p for p in state.past if p.identity == attempt.identity), None)
        if not _worth(verdict, old, attempt, clock, judge):
            continue
        earlier = [p for p in state.past if p.attempt < verdict.attempt]
        overtaken = old is not None and any(p.attempt > verdict.attempt for p in state.past)
        advice = _advice(verdict, found, earlier, judge) if verdict.label and not overtaken else None
        state = _remember(state, attempt, verdict, advice)
        published.append(Published(verdict, advice))
        if verdict.final:
            state = forget(state, attempt, siblings)
    return state, published


def _advice(verdict: Verdict, found: Attribution, earlier: Sequence[Past], judge: Judge) -> Advice:
    return advise(verdict, earlier, judge.spec, judge.policy, trusted=found.trusted, witnessed=found.witnessed)


def next_due(state: JobState, judge: Judge) -> float | None:
    """The earliest append time at which a decision of this job may change by time alone; None: only records can."""
    waits = []
    for attempt in attempts(state):
        if attempt.grace_from is not None:
            published = any(p.identity == attempt.identity for p in state.past)
            timing = judge.timing
            waits.append(attempt.grace_from + (timing.late_facts_s if published else timing.grace_s))
    return min(waits, default=None)


def ended_well(facts: AttemptFacts) -> bool:
    """True where the scheduler says so: its state where it gives one, else exit code 0 without a signal."""
    if facts.state is not None:
        return facts.state.upper() in ENDED_WELL_STATES
    return facts.exit_code == 0 and not facts.signal


def _number(state: JobState, attempt: Attempt, siblings: Sequence[Attempt]) -> int:
    """The attempt's number: the one it was published under, else a free one, in the order of starts."""
    numbers = {p.identity: p.attempt for p in state.past}
    if attempt.identity in numbers:
        return numbers[attempt.identity]
    unnumbered = [a.identity for a in siblings if a.identity not in numbers]
    first = min(numbers.values()) if len(numbers) >= MAX_PAST else 1
    free = (n for n in count(first) if n not in numbers.values())
    return next(islice(free, unnumbered.index(attempt.identity), None))


def _in_time(evidence: Evidence, attempt: Attempt, timing: Timing) -> bool:
    late = evidence.stream in (Stream.SCHEDULER, Stream.NODE)
    wait = timing.late_facts_s if late else timing.grace_s
    return evidence.appended_at <= (attempt.grace_from or 0.0) + wait


def _verdict(
    state: JobState, attempt: Attempt, siblings: Sequence[Attempt], clock: Clock, judge: Judge
) -> tuple[Verdict, Attribution]:
    mine = [e for e in belongs(state.evidence, attempt, siblings, state.past) if _in_time(e, attempt, judge.timing)]
    grace_from, well = attempt.grace_from or 0.0, ended_well(attempt.facts)
    found, said = Attribution(None, 1.0, (), trusted=True), None
    texts = [c.text for c in belongs(state.context, attempt, siblings, state.past)]
    if not well:
        found = attribute([*mine, *judge.match_facts(attempt.facts, grace_from)], judge.spec)
        said = name(found, attempt.facts, lambda: texts, judge.guess, judge.spec)
    winner = said.winner if said else None
    number = _number(state, attempt, siblings)
    old = next((p for p in state.past if p.identity == attempt.identity), None)
    revision = old.revision + 1 if old else 1
    late = clock.watermark is None or clock.watermark < grace_from + judge.timing.grace_s
    return Verdict(
        verdict_id=deterministic_id("verdict", state.cluster, state.job_id, number, revision),
        attempt=number,
        facts=attempt.facts,
        revision=revision,
        final=_is_final(attempt, clock, judge) or well,
        label=said.label if said else None,
        owner=judge.spec[said.label].owner if said else None,
        confidence=said.confidence if said else 1.0,
        source=said.source if said else Source.NONE,
        signature=SignatureRef(winner.signature, winner.version) if winner else None,
        catalog=(winner.catalog if winner else "") or judge.digest,
        coverage=Coverage.LATE if late and _overdue(attempt, clock, judge) else Coverage.COMPLETE,
        decided_at=max(clock.now if clock.at is None else clock.at, grace_from),
        ranking=found.ranking,
        captures=winner.captures if winner else {},
        context=tuple(texts[-MAX_CONTEXT_SHOWN:]) if said and winner is None else (),
        shadows=tuple(sorted({SignatureRef(e.signature, e.version) for e in mine if e.shadow}, key=str)),
        reason=said.reason if said else "",
    ), found


def _passed(attempt: Attempt, wait_s: float, time: float | None) -> bool:
    return time is not None and time >= (attempt.grace_from or 0.0) + wait_s


def _overdue(attempt: Attempt, clock: Clock, judge: Judge) -> bool:
    return _passed(attempt, judge.timing.max_wait_s, clock.now)


def _is_final(attempt: Attempt, clock: Clock, judge: Judge) -> bool:
    timing = judge.timing
    stuck = _passed(attempt, timing.late_facts_s + timing.max_wait_s, clock.now)
    return _passed(attempt, timing.late_facts_s, clock.watermark) or stuck


def _worth(verdict: Verdict, old: Past | None, attempt: Attempt, clock: Clock, judge: Judge) -> bool:
    """True where this verdict must be published: the first that can be said, a change, or the final one."""
    if old is None:
        settled = _passed(attempt, judge.timing.grace_s, clock.watermark)
        rooted = verdict.signature is not None and verdict.ranking[0].role is Role.ROOT
        return settled or rooted or verdict.label is None or _overdue(attempt, clock, judge)
    return verdict.final or (verdict.label, verdict.signature) != (old.label, old.signature)


def _without_sent(state: JobState) -> JobState:
    """The state without the texts of final verdicts: they were sent before this decision began."""
    slim = tuple(msgspec.structs.replace(p, verdict=None, advice=None) if p.final else p for p in state.past)
    return msgspec.structs.replace(state, past=slim) if slim != state.past else state


def _remember(state: JobState, attempt: Attempt, verdict: Verdict, advice: Advice | None) -> JobState:
    facts = attempt.facts
    known = facts.started_at is not None and facts.ended_at is not None
    old = next((p for p in state.past if p.identity == attempt.identity), None)
    entry = Past(
        attempt=verdict.attempt,
        identity=attempt.identity,
        revision=verdict.revision,
        final=verdict.final,
        label=verdict.label,
        signature=verdict.signature,
        root_text=fingerprint(verdict.ranking[0]) if verdict.signature else "",
        retry=advice.retry if advice else old is not None and old.retry,
        counts=advice.counts_toward_budget if advice else old is not None and old.counts,
        run_s=facts.ended_at - facts.started_at if known else None,  # type: ignore[operator]
        verdict=verdict,
        advice=advice,
    )
    others = [p for p in state.past if p.identity != attempt.identity]
    past = sorted([*others, entry], key=lambda p: p.attempt)
    return msgspec.structs.replace(state, past=tuple(past[-MAX_PAST:]))
