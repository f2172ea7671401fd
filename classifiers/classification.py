"""One attempt's whole log -> its label: the classifiers without Kafka, Postgres or time.

Rule: the same matcher, attribution and advice as the agents use; only identity and waiting are left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from classifiers.advice import Policy, advise
from classifiers.attribution import attribute
from classifiers.context import context_of
from classifiers.decision import ended_well
from classifiers.exit_facts import FACTS_TOPIC
from classifiers.hybrid import Guesser, name
from classifiers.matching import Matcher
from classifiers.records import (
    AttemptFacts,
    Coverage,
    LogLine,
    Position,
    Ranked,
    SignatureRef,
    Source,
    Stream,
    Verdict,
)

# Lines of one file have an order and no time: far enough apart that the skew between ranks never bridges two.
LINE_S = 10.0


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as a person has it: its lines and what is known of its end; `signal` and `state` as in JobEvent."""

    id: str
    lines: list[str]
    stream: Stream = Stream.STDERR
    exit_code: int | None = None
    signal: int | None = None
    state: str | None = None
    reason: str | None = None


def classify(log: Log, matcher: Matcher, guess: Guesser | None = None) -> Verdict:
    """The verdict of one log.  `ranking` holds line numbers (0-based) as `position.offset`."""
    facts = AttemptFacts(
        cluster="",
        job_id=log.id,
        state=log.state.upper() if log.state else None,
        exit_code=log.exit_code,
        signal=log.signal,
        reason=log.reason,
    )
    lines = [
        LogLine(
            cluster="",
            job_id=log.id,
            text=text,
            stream=log.stream,
            position=Position("", 0, number),
            appended_at=number * LINE_S,
        )
        for number, text in enumerate(log.lines)
    ]
    well = ended_well(facts)
    spec = matcher.catalog.spec
    evidence = [] if well else [*matcher.scan(lines), *matcher.facts(facts, len(lines) * LINE_S)]
    found = attribute(evidence, spec)
    said = None
    if not well:
        said = name(found, facts, lambda: context_of(matcher, log.lines, log.stream), guess, spec)
    winner = said.winner if said else None
    return Verdict(
        verdict_id="",
        attempt=1,
        facts=facts,
        revision=1,
        final=True,
        label=said.label if said else None,
        owner=spec[said.label].owner if said else None,
        confidence=said.confidence if said else 1.0,
        source=said.source if said else Source.NONE,
        signature=SignatureRef(winner.signature, winner.version) if winner else None,
        catalog=matcher.catalog.digest,
        coverage=Coverage.COMPLETE,
        decided_at=0.0,
        ranking=found.ranking,
        captures=winner.captures if winner else {},
        reason=said.reason if said else "The attempt ended well",
    )


def as_answer(verdict: Verdict, matcher: Matcher) -> dict[str, Any]:
    """The JSON object that `exitsign classify --json` prints for one attempt (CONTRACTS, CLI)."""
    spec = matcher.catalog.spec
    top = verdict.ranking[0] if verdict.signature else None
    advice = advise(verdict, (), spec, Policy()) if verdict.label else None
    return {
        "id": verdict.facts.job_id,
        "label": verdict.label,
        "owner": verdict.owner,
        "confidence": verdict.confidence,
        "source": verdict.source,
        "signature": {"id": verdict.signature.id, "version": verdict.signature.version} if verdict.signature else None,
        "line": _line(top),
        "symptoms": [_symptom(ranked) for ranked in verdict.ranking[1 if top else 0 :]],
        "retry": advice.retry if advice else False,
        "action": advice.action if advice else None,
        "reason": advice.reason if advice else f"{verdict.reason}.",
        "catalog": verdict.catalog,
    }


def _line(ranked: Ranked | None) -> dict[str, Any] | None:
    if ranked is None or ranked.position.topic == FACTS_TOPIC:
        return None
    return {"number": ranked.position.offset + 1, "text": ranked.text}


def _symptom(ranked: Ranked) -> dict[str, Any]:
    line = _line(ranked)
    return {
        "signature": ranked.signature,
        "label": ranked.label,
        "number": line["number"] if line else None,
        "explained_by": ranked.explained_by,
        "lost_because": ranked.lost_because,
    }
