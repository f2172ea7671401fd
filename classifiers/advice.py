"""Verdict + history -> Advice.

Rule: interruptions spend no retry of the owner, and are bounded all the same: every label has a budget of its own.
Rule: a retry is free only where somebody besides the job says why; a label that is not believed earns one at most.
Rule: the same verdict and history give the same advice, byte for byte.

Users of other systems complain of both directions: interruptions that burn the budget (airflow#73238, volcano#2560)
and free retries that loop for ever (pai#5615, marin#4339).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import regex

from classifiers.attempt import Past
from classifiers.exit_facts import FACTS_TOPIC
from classifiers.exit_spec import Behaviour, ExitSpec, Label
from classifiers.records import (
    Action,
    Advice,
    AdviceEvidence,
    Mode,
    Owner,
    Ranked,
    Resources,
    Source,
    Verdict,
    deterministic_id,
)

SAME_ROOT_FACTOR = 0.4
OOM_FACTOR = 1.5
TIME_FACTOR = 1.5
MAX_BYTES = 2**53  # A job can print any number; every JSON reader can hold this one.
_NUMBERS = regex.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_SIZE = regex.compile(r"(?i)^\s*([\d.]+)\s*([kmgt]?)i?b?(?:ytes?)?\s*$")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_REPEATS = (Behaviour.NEVER, Behaviour.WITH_CHANGE)


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's choices: the owner's budget per job, below which confidence advice is not enforced, and so on."""

    max_retries: int = 3
    min_success: float = 0.05
    enforce_confidence: float = 0.5
    shadow: bool = False
    expiry_s: float = 3600.0


def advise(
    verdict: Verdict,
    past: Sequence[Past],
    spec: ExitSpec,
    policy: Policy,
    *,
    trusted: bool = True,
    witnessed: bool = False,
) -> Advice:
    """What the scheduler should do; `past` holds the job's earlier attempts; `trusted`, `witnessed`: see Attribution."""
    label = spec[verdict.label or ""]
    winner = verdict.ranking[0] if verdict.ranking and verdict.signature else None
    counts = label.retry.counts or not witnessed
    budget = label.retry.budget if trusted else min(label.retry.budget, 1)
    spent, left = _purse(label, past, budget, policy.max_retries if counts else None)
    success = expected_success(label, winner, past)
    stop = _why_stop(label, left, budget, success, policy)
    action, retry, facts = _action(label, stop), stop is None, verdict.facts
    return Advice(
        advice_id=deterministic_id("advice", facts.cluster, facts.job_id, verdict.attempt, verdict.revision),
        cluster=facts.cluster,
        scheduler=facts.scheduler,
        job_id=facts.job_id,
        attempt=verdict.attempt,
        attempt_ref=facts.attempt_ref,
        revision=verdict.revision,
        final=verdict.final,
        retry=retry,
        action=action,
        after_s=_pause_s(label, spent) if retry else 0,
        attempts_left=left if retry else 0,
        counts_toward_budget=counts,
        exclude_nodes=_exclude(verdict, winner, label) if action is Action.RETRY_ELSEWHERE else (),
        resources=_resources(verdict, label),
        expected_success=round(success, 3),
        label=label.name,
        owner=label.owner,
        confidence=verdict.confidence,
        source=verdict.source,
        signature=verdict.signature,
        catalog=verdict.catalog,
        evidence=_evidence(winner),
        coverage=verdict.coverage,
        reason=sentence(label, winner, stop, verdict.reason if verdict.source is Source.MODEL else label.reason),
        remedy=label.remedy,
        mode=_mode(verdict, policy),
        issued_at=iso(verdict.decided_at),
        expires_at=iso(verdict.decided_at + policy.expiry_s),
    )


def _purse(label: Label, past: Sequence[Past], budget: int, owners: int | None) -> tuple[int, int]:
    """(retries that this label spent, retries left to it); `owners` is the owner's budget where this retry counts."""
    spent = sum(p.retry and p.label == label.name for p in past)
    counted = sum(p.retry and p.counts for p in past)
    return spent, max(0, budget - spent if owners is None else min(budget - spent, owners - counted))


def expected_success(label: Label, winner: Ranked | None, past: Sequence[Past]) -> float:
    """Chance that a retry ends well: the label's prior, less for each time that the very same root came before."""
    same = sum(winner is not None and p.root_text == fingerprint(winner) for p in past)
    return label.retry.expected_success * SAME_ROOT_FACTOR**same


def fingerprint(winner: Ranked | None) -> str:
    """The root line without its numbers: two attempts with the same one failed the same way."""
    return f"{winner.signature}|{_NUMBERS.sub('#', winner.text)[:300]}" if winner else ""


def sentence(label: Label, winner: Ranked | None, stop: str | None, what: str) -> str:
    """One sentence for people: what happened, the line that says so, and what follows."""
    line = f" ({winner.text[:160]})" if winner and winner.position.topic != FACTS_TOPIC else ""
    return f"{what}{line}; {stop or _RETRIES[label.retry.behaviour]}."


_RETRIES = {
    Behaviour.YES: "a retry can pass",
    Behaviour.AFTER_DELAY: "a retry can pass after a pause",
    Behaviour.OTHER_NODE: "a retry on other nodes can pass",
    Behaviour.NEVER: "a retry would repeat it",
    Behaviour.WITH_CHANGE: "a retry would repeat it unless something changes",
}


def parse_bytes(text: str | None) -> int | None:
    """Bytes of a printed size such as '2.50 GiB', '512 MB' or '4096'; None for anything else, or past MAX_BYTES."""
    found = _SIZE.match(text or "")
    try:
        size = float(found.group(1)) * _UNITS[found.group(2).lower()] if found else None
    except ValueError:
        return None
    return int(size) if size is not None and size <= MAX_BYTES else None


def iso(time: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _why_stop(label: Label, left: int, budget: int, success: float, policy: Policy) -> str | None:
    if label.retry.behaviour in _REPEATS:
        return _RETRIES[label.retry.behaviour]
    if left <= 0:
        return f"its {budget} {'retry is' if budget == 1 else 'retries are'} spent"
    if success < policy.min_success:
        return "the same failure came back too often"
    return None


def _action(label: Label, stop: str | None) -> Action:
    behaviour = label.retry.behaviour
    if behaviour is Behaviour.WITH_CHANGE:
        return Action.RETRY_WITH_CHANGE
    if stop is not None:
        exhausted = label.owner in (Owner.INFRA, Owner.SCHEDULER) and behaviour is not Behaviour.NEVER
        return Action.HOLD if exhausted else Action.STOP
    if behaviour is Behaviour.OTHER_NODE:
        return Action.RETRY_ELSEWHERE
    return Action.RETRY_AFTER if label.retry.after_s else Action.RETRY


def _pause_s(label: Label, spent: int) -> int:
    return int(min(label.retry.after_s * label.retry.backoff**spent, label.retry.max_after_s or label.retry.after_s))


def _exclude(verdict: Verdict, winner: Ranked | None, label: Label) -> tuple[str, ...]:
    """The node that the evidence names; all of the attempt's nodes are never blamed for one."""
    nodes = verdict.facts.nodes
    blamed = verdict.facts.failed_node or (winner.node if winner else None)
    return (blamed,) if blamed else nodes if len(nodes) == 1 else ()


def _resources(verdict: Verdict, label: Label) -> Resources:
    facts, seen = verdict.facts, verdict.captures
    if label.name == "time_limit" and facts.started_at is not None and facts.ended_at is not None:
        run_s = max(0.0, facts.ended_at - facts.started_at)  # Two clocks may disagree.
        return Resources(time_s=int(run_s * TIME_FACTOR) or None)
    if label.name == "cpu_oom":
        size = parse_bytes(seen.get("limit")) or parse_bytes(seen.get("used"))
        return Resources(memory_bytes=int(size * OOM_FACTOR) if size else None)
    if label.name == "gpu_oom":
        total, requested = parse_bytes(seen.get("total")), parse_bytes(seen.get("requested"))
        return Resources(gpu_memory_bytes=total + requested if total and requested else None)
    return Resources()


def _evidence(winner: Ranked | None) -> AdviceEvidence | None:
    if winner is None:
        return None
    place = winner.position
    return AdviceEvidence(
        text=winner.text,
        stream=winner.stream,
        rank=winner.rank,
        node=winner.node,
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
        time=iso(winner.time),
    )


def _mode(verdict: Verdict, policy: Policy) -> Mode:
    weak = verdict.source is Source.MODEL and verdict.confidence < policy.enforce_confidence
    return Mode.SHADOW if policy.shadow or weak else Mode.ENFORCE
