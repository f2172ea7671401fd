"""The state machine of one job: step(state, record) -> state, and the attempts that a state holds.

Theory.  Records of one job arrive in any order, twice, late, and cut into batches anywhere.  So the state is a set, not
a story: it keeps every scheduler event and a bounded choice of the evidence, and everything else is a pure function of
that set.  A choice is bounded by keeping extremes (the first and the last KEPT of each signature), which is the same
whatever the order of arrival.

    record            what step does                          what it never does
    JobEvent          joins the set of events                 number or close an attempt
    Evidence          joins its signature's first/last        decide
    Context           joins the first/last context lines      decide
    (anything twice)  nothing: places identify records        count

An *attempt* is what `attempts` makes of the set: events of one `ref` belong together; an event without one belongs to
the attempt that was running at its time.  Evidence goes by ref, or else to the last attempt started before its time.

Rule: step is idempotent and commutative for every record but those dropped by a bound.
Rule: no clock; all times come from records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from classifiers.attribution import key_of, order_of
from classifiers.matching import best_time
from classifiers.records import (
    Advice,
    AttemptFacts,
    Context,
    Evidence,
    JobEvent,
    Phase,
    SignatureRef,
    Verdict,
)

KEPT = 8
MAX_SIGNATURES = 128
MAX_CONTEXT = 24
MAX_OPEN_EVENTS = 64
START_TOLERANCE_S = 2.0

R = TypeVar("R", Evidence, Context)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a published attempt: enough to number, budget and revise."""

    attempt: int
    identity: str
    revision: int
    final: bool
    label: str | None
    signature: SignatureRef | None
    root_text: str
    retry: bool
    counts: bool
    run_s: float | None
    verdict: Verdict | None = None
    advice: Advice | None = None


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one job; `past` is in the order of attempt numbers, and final attempts keep no evidence."""

    cluster: str
    job_id: str
    events: tuple[JobEvent, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    context: tuple[Context, ...] = ()
    past: tuple[Past, ...] = ()
    dropped: int = 0
    touched_at: float = 0.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as the set of records tells it; `grace_from` is when its end reached the broker, None while it runs."""

    identity: str
    facts: AttemptFacts
    started_at: float | None
    ended_at: float | None
    grace_from: float | None
    disruptions: tuple[JobEvent, ...] = ()


def step(state: JobState, record: JobEvent | Evidence | Context) -> JobState:
    """The state after one more record of its job."""
    touched = max(state.touched_at, record.appended_at)
    if record.ref is not None and record.ref in finished(state):
        return state
    match record:
        case JobEvent():
            return msgspec.structs.replace(state, events=_with_event(state.events, record), touched_at=touched)
        case Evidence():
            kept = _extremes([*state.evidence, record])
            return msgspec.structs.replace(state, evidence=kept, touched_at=touched)
        case Context():
            lines = sorted({(c.position, c.tail): c for c in (*state.context, record)}.values(), key=_context_order)
            return msgspec.structs.replace(state, context=_ends(lines, MAX_CONTEXT), touched_at=touched)


def finished(state: JobState) -> frozenset[str]:
    """Identities of the attempts whose verdict is final: nothing changes them any more."""
    return frozenset(p.identity for p in state.past if p.final)


def attempts(state: JobState) -> list[Attempt]:
    """The attempts that are not final yet, in the order of their starts."""
    done = finished(state)
    groups: dict[str, list[JobEvent]] = {}
    for event in state.events:
        groups.setdefault(_identity(event, state.events), []).append(event)
    found = [_attempt(identity, events) for identity, events in groups.items() if identity not in done]
    return sorted(found, key=lambda a: (_start_of(a), a.identity))


def belongs(records: Iterable[R], attempt: Attempt, siblings: Sequence[Attempt], past: Sequence[Past]) -> list[R]:
    """The records of one attempt: by ref where they carry one, else by time among its siblings (in start order).

    A record older than every sibling is the first attempt's, unless an attempt before that is already final.
    """
    return [r for r in records if _owner_of(r, siblings, first=not past) == attempt.identity]


def forget(state: JobState, attempt: Attempt, siblings: Sequence[Attempt]) -> JobState:
    """The state without the records of an attempt that is final."""
    mine = {key_of(e) for e in belongs(state.evidence, attempt, siblings, state.past)}
    lines = {c.position for c in belongs(state.context, attempt, siblings, state.past)}
    return msgspec.structs.replace(
        state,
        events=tuple(e for e in state.events if _identity(e, state.events) != attempt.identity),
        evidence=tuple(e for e in state.evidence if key_of(e) not in mine),
        context=tuple(c for c in state.context if c.position not in lines),
    )


def _with_event(events: tuple[JobEvent, ...], event: JobEvent) -> tuple[JobEvent, ...]:
    by_place = {e.position: e for e in (*events, event)}
    return tuple(sorted(by_place.values(), key=_event_order)[-MAX_OPEN_EVENTS:])


def _event_order(event: JobEvent) -> tuple[float, str, int, int, int]:
    place = event.position
    return (_time_of(event), place.topic, place.partition, place.offset, place.index)


def _context_order(context: Context) -> tuple[float, str, int, int, int]:
    place = context.position
    return (context.time, place.topic, place.partition, place.offset, place.index)


def _ends(ordered: list[R], count: int) -> tuple[R, ...]:
    return tuple(ordered if len(ordered) <= 2 * count else ordered[:count] + ordered[-count:])


def _extremes(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    groups: dict[tuple[str | None, str], dict[object, Evidence]] = {}
    for piece in evidence:
        groups.setdefault((piece.ref, piece.signature), {})[piece.position] = piece
    kept: list[tuple[Evidence, ...]] = [_ends(sorted(p.values(), key=order_of), KEPT) for p in groups.values()]
    kept.sort(key=lambda pieces: order_of(pieces[0]))
    return tuple(sorted((e for pieces in kept[:MAX_SIGNATURES] for e in pieces), key=order_of))


def _time_of(event: JobEvent) -> float:
    time = event.started_at if event.phase is Phase.STARTED else event.ended_at
    return best_time(time if time is not None else event.time, event.appended_at)


def _identity(event: JobEvent, events: Sequence[JobEvent]) -> str:
    """The event's ref, or the one that was running at its time, or a name made of its own time."""
    if event.ref is not None:
        return event.ref
    starts = [e for e in events if e.phase is Phase.STARTED and _time_of(e) <= _time_of(event) + START_TOLERANCE_S]
    if event.phase is Phase.STARTED or not starts:
        return f"{'start' if event.phase is Phase.STARTED else 'end'}:{_time_of(event):.3f}"
    running = max(starts, key=_event_order)
    return running.ref if running.ref is not None else f"start:{_time_of(running):.3f}"


def _attempt(identity: str, events: Sequence[JobEvent]) -> Attempt:
    starts = sorted((e for e in events if e.phase is Phase.STARTED), key=_event_order)
    ends = sorted((e for e in events if e.phase is Phase.ENDED), key=_event_order)
    disruptions = sorted((e for e in events if e.phase is Phase.DISRUPTED), key=_event_order)
    told = ends[-1] if ends else (disruptions or starts)[-1]
    started = next((t for e in (*starts, *ends) if (t := _start_told(e)) is not None), None)
    ended = _time_of(ends[-1]) if ends else None
    facts = AttemptFacts(
        cluster=told.cluster,
        job_id=told.job_id,
        scheduler=told.scheduler,
        ref=told.ref,
        attempt_ref=told.attempt_ref,
        state=told.state if ends else None,
        exit_code=told.exit_code if ends else None,
        signal=told.signal if ends else None,
        reason=told.reason if ends else None,
        disruptions=tuple(d.reason or d.state or "disrupted" for d in disruptions),
        started_at=started,
        ended_at=ended,
        nodes=_first_known(events, "nodes") or (),
        failed_node=_first_known(ends, "failed_node"),
        gpus=_first_known(events, "gpus"),
        user=_first_known(events, "user"),
        job_name=_first_known(events, "job_name"),
        queue=_first_known(events, "queue"),
    )
    return Attempt(
        identity=identity,
        facts=facts,
        started_at=started,
        ended_at=ended,
        grace_from=min(e.appended_at for e in ends) if ends else None,
        disruptions=tuple(disruptions),
    )


def _start_told(event: JobEvent) -> float | None:
    """When an event says that the attempt started, where its clock can be right (an end may tell a far-off start)."""
    if event.phase is Phase.STARTED:
        return _time_of(event)
    return event.started_at if event.ended_at is None or _time_of(event) == event.ended_at else None


def _first_known(events: Iterable[JobEvent], name: str):  # type: ignore[no-untyped-def]
    return next((value for e in events if (value := getattr(e, name))), None)


def _start_of(attempt: Attempt) -> float:
    known = [t for t in (attempt.started_at, attempt.ended_at) if t is not None]
    return min(known) if known else attempt.disruptions[0].appended_at


def _owner_of(record: Evidence | Context, siblings: Sequence[Attempt], *, first: bool) -> str | None:
    if record.ref is not None:
        return record.ref
    running = [a.identity for a in siblings if _start_of(a) <= record.time + START_TOLERANCE_S]
    if running:
        return running[-1]
    return siblings[0].identity if siblings and first else None
