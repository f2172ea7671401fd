"""Signatures on exit facts: what the scheduler's own words say by themselves.

Rule: every fact that a signature names must agree.
"""

from __future__ import annotations

from classifiers.records import AttemptFacts, Evidence, Position, Stream
from classifiers.signature import Signature

FACTS_TOPIC = "exit-facts"


def agrees(signature: Signature, known: dict[str, str | int | None]) -> bool:
    """True where every fact that the signature names has one of its values."""
    return all(known.get(name) in values for name, values in signature.facts.items())


def of_facts(
    signature: Signature, facts: AttemptFacts, reason: str | None, appended_at: float, digest: str
) -> Evidence:
    """Evidence that a signature on exit facts gives; `reason` is the one that agreed."""
    parts = [
        ("state", facts.state),
        ("exit code", facts.exit_code),
        ("signal", facts.signal),
        ("reason", reason),
    ]
    text = "exit facts: " + ", ".join(f"{name} {value}" for name, value in parts if value is not None)
    return Evidence(
        cluster=facts.cluster,
        job_id=facts.job_id,
        signature=signature.id,
        version=signature.version,
        label=signature.label or "",
        role=signature.role,
        text=text,
        stream=Stream.SCHEDULER,
        position=Position(FACTS_TOPIC),
        appended_at=appended_at,
        time=facts.ended_at if facts.ended_at is not None else appended_at,
        catalog=digest,
        ref=facts.ref,
        node=facts.failed_node,
        shadow=signature.status == "shadow",
        specificity=len(signature.facts),
    )
