"""Every topic once: its name, how it is created, and one sentence.

Rule: a topic name stands nowhere else; agents ask `Topics`.
Rule: input topics carry the broker's append time, because waits are counted on one clock (decision.py).
"""

from __future__ import annotations

from dataclasses import dataclass

EVIDENCE = "exitsign.evidence"
NODE_EVIDENCE = "exitsign.node-evidence"
VERDICTS = "exitsign.verdicts"
ADVICE = "exitsign.advice"
OUTCOMES = "exitsign.outcomes"
FEEDBACK = "exitsign.feedback"
POISON = "exitsign.poison"
ATTEMPTS = "exitsign.attempts"

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as `exitsign topics create` makes it; `partitions` None means the setting EXITSIGN_PARTITIONS."""

    name: str
    sentence: str
    config: dict[str, str]
    partitions: int | None = None


def _kept(days: int) -> dict[str, str]:
    return {"retention.ms": str(days * DAY_MS)}


COMPACTED = {"cleanup.policy": "compact"}
COMPACTED_AND_AGED = {"cleanup.policy": "compact,delete", **_kept(30)}
LARGE = {"max.message.bytes": str(8 * 1024 * 1024)}

OUR_TOPICS = (
    Topic(EVIDENCE, "Evidence, context, scheduler events and ticks, keyed by cluster/job.", _kept(3)),
    Topic(NODE_EVIDENCE, "Evidence from node events, keyed by cluster/node.", _kept(3)),
    Topic(
        VERDICTS, "The newest verdict of each attempt, keyed by cluster/job/attempt.", {**COMPACTED_AND_AGED, **LARGE}
    ),
    Topic(ADVICE, "The newest advice of each job, keyed by cluster/job.", COMPACTED_AND_AGED),
    Topic(OUTCOMES, "What schedulers did with advice, keyed by cluster/job.", _kept(30)),
    Topic(FEEDBACK, "What people say a root cause was, keyed by cluster/job.", _kept(30)),
    Topic(POISON, "Records that can't be used, redacted, with the reason in headers.", {**_kept(14), **LARGE}),
    Topic(
        ATTEMPTS,
        "The attributor's open jobs, keyed by cluster/job: what it reads back after a restart.",
        {**COMPACTED, **LARGE},
    ),
)


def input_topic(name: str) -> Topic:
    """An input topic as shippers need it: append time by the broker, room for long lines."""
    config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(32 * 1024 * 1024), **_kept(7)}
    return Topic(
        name, "Input: log lines, scheduler events or node events, in the format of its row in EXITSIGN_INPUTS.", config
    )
