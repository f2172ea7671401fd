"""The vocabulary: every record that travels between shippers, agents, schedulers and the store.

Rule: records are frozen; times are seconds since the epoch in UTC (float), sizes are bytes, durations end in `_s`.
Rule: every enum is a closed list; a reader skips a record with a value it does not know (wire.py), it never guesses.
Rule: an optional field that is None means "the producer did not say", never zero.
"""

from __future__ import annotations

import uuid
from enum import StrEnum

import msgspec

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://exitsign.dev/records")


class Stream(StrEnum):
    """Where a line was read."""

    STDERR = "stderr"
    STDOUT = "stdout"
    SCHEDULER = "scheduler"
    NODE = "node"


class Owner(StrEnum):
    """Who can do something about a root cause; `other` is for `unknown` and `success_with_noise` alone."""

    USER = "user"
    ENGINE = "engine"
    INFRA = "infra"
    SCHEDULER = "scheduler"
    OTHER = "other"


class Role(StrEnum):
    """What a signature's line says about the failure (theory in attribution.py)."""

    ROOT = "root"
    CASCADE = "cascade"
    SUMMARY = "summary"
    IMPLICIT = "implicit"
    CONFIRMATION = "confirmation"
    NOISE = "noise"
    RECOVERY = "recovery"


class Source(StrEnum):
    """What kind of knowledge a verdict rests on."""

    SIGNATURE = "signature"
    FACTS = "facts"
    MODEL = "model"
    NONE = "none"


class Phase(StrEnum):
    """What a scheduler event says of an attempt."""

    STARTED = "started"
    DISRUPTED = "disrupted"
    ENDED = "ended"


class Action(StrEnum):
    """What a scheduler should do."""

    RETRY = "retry"
    RETRY_AFTER = "retry_after"
    RETRY_ELSEWHERE = "retry_elsewhere"
    RETRY_WITH_CHANGE = "retry_with_change"
    STOP = "stop"
    HOLD = "hold"


class Mode(StrEnum):
    """Whether a scheduler should act on advice or only record it."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


class Coverage(StrEnum):
    """How much of an attempt's log had been scanned when its verdict was decided."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    LATE = "late"
    NOT_SCANNED = "not_scanned"


class Applied(StrEnum):
    """What a scheduler did with a piece of advice."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    FAILED = "failed"


class Position(msgspec.Struct, frozen=True, order=True):
    """Where a Kafka record stands; `index` counts lines within one record.  Also the identity of what was read there."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    index: int = 0


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's output, or of a scheduler's or node's log, as shipped: text is decoded but not yet clean.

    `ref` is the scheduler's identity of the attempt where the shipper knows it (same text as JobEvent.ref).
    `time` is the producer's time of the line or None; `appended_at` is the broker's.
    """

    cluster: str
    job_id: str | None
    text: str
    stream: Stream
    position: Position
    appended_at: float
    ref: str | None = None
    rank: int | None = None
    node: str | None = None
    time: float | None = None
    partial: bool = False


class JobEvent(msgspec.Struct, frozen=True, kw_only=True, tag="job_event", tag_field="kind"):
    """What a scheduler said of one attempt.

    `ref` identifies the attempt (Slurm start time, pod UID + restart, ...); `attempt_ref` is the same for machines.
    `state` is the scheduler's own word in capitals (COMPLETED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, ...).
    """

    cluster: str
    job_id: str
    phase: Phase
    position: Position
    appended_at: float
    scheduler: str = "unknown"
    ref: str | None = None
    attempt_ref: dict[str, str | int] = {}
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    time: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    gpus: int | None = None
    user: str | None = None
    job_name: str | None = None
    queue: str | None = None


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True, tag="node_event", tag_field="kind"):
    """What a node's kernel log, health check or telemetry said; carries no job identity."""

    cluster: str
    node: str
    text: str
    position: Position
    appended_at: float
    time: float | None = None
    source: str = "kernel"


class Tick(msgspec.Struct, frozen=True, kw_only=True, tag="tick", tag_field="kind"):
    """One scanner's watermark: up to which append time it has scanned each input partition that it owns.

    `scanned` maps "topic/partition" to append time; `partitions` maps each input topic to its partition count,
    so that a reader knows which partitions nobody has spoken for yet.  `time` is the scanner's clock.
    """

    scanner: str
    time: float
    scanned: dict[str, float]
    partitions: dict[str, int]


class Evidence(msgspec.Struct, frozen=True, kw_only=True, tag="evidence", tag_field="kind"):
    """A signature seen in an attempt: which, where, when, and the redacted line.

    `time` is the best event time of the line; `trusted` says that the stream is one the signature is believed on.
    `captures` are the pattern's named groups (strings, bounded).  `order` breaks ties between lines of one stream.
    """

    cluster: str
    job_id: str
    signature: str
    version: int
    label: str
    role: Role
    text: str
    stream: Stream
    position: Position
    appended_at: float
    time: float
    catalog: str = ""
    ref: str | None = None
    rank: int | None = None
    node: str | None = None
    trusted: bool = True
    shadow: bool = False
    specificity: int = 0
    clears: tuple[str, ...] = ()
    captures: dict[str, str] = {}
    level: str | None = None
    episode: str | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True, tag="context", tag_field="kind"):
    """A bounded, redacted line that no signature knows: it looks like failure, or it is the tail of a stream."""

    cluster: str
    job_id: str
    text: str
    stream: Stream
    position: Position
    appended_at: float
    time: float
    tail: bool = False
    ref: str | None = None
    rank: int | None = None
    node: str | None = None


class SignatureRef(msgspec.Struct, frozen=True):
    """Which signature decided, at which version."""

    id: str
    version: int


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a ranking and why it stands where it stands; the winner is first and has `lost_because` None."""

    signature: str
    label: str
    role: Role
    text: str
    stream: Stream
    position: Position
    time: float
    rank: int | None = None
    node: str | None = None
    trusted: bool = True
    lost_because: str | None = None
    explained_by: str | None = None


class AttemptFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of one attempt's life: the exit facts."""

    cluster: str
    job_id: str
    scheduler: str = "unknown"
    ref: str | None = None
    attempt_ref: dict[str, str | int] = {}
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    disruptions: tuple[str, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    gpus: int | None = None
    user: str | None = None
    job_name: str | None = None
    queue: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The label given to one attempt, with the ranking that explains it.  `label` None: the attempt ended well."""

    verdict_id: str
    attempt: int
    facts: AttemptFacts
    revision: int
    final: bool
    label: str | None
    owner: Owner | None
    confidence: float
    source: Source
    signature: SignatureRef | None
    catalog: str
    coverage: Coverage
    decided_at: float
    ranking: tuple[Ranked, ...] = ()
    captures: dict[str, str] = {}
    context: tuple[str, ...] = ()
    shadows: tuple[SignatureRef, ...] = ()
    reason: str = ""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What the next attempt should ask for, where that is known."""

    gpu_memory_bytes: int | None = None
    memory_bytes: int | None = None
    time_s: int | None = None


class AdviceEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The line that a piece of advice rests on."""

    text: str
    stream: Stream
    rank: int | None
    node: str | None
    topic: str
    partition: int
    offset: int
    time: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler should do next with one job: the body of a CloudEvent, version 1 (services/advice_v1.json)."""

    advice_id: str
    cluster: str
    scheduler: str
    job_id: str
    attempt: int
    attempt_ref: dict[str, str | int]
    revision: int
    final: bool
    retry: bool
    action: Action
    after_s: int
    attempts_left: int
    counts_toward_budget: bool
    exclude_nodes: tuple[str, ...]
    resources: Resources
    expected_success: float
    label: str
    owner: Owner
    confidence: float
    source: Source
    signature: SignatureRef | None
    catalog: str
    evidence: AdviceEvidence | None
    coverage: Coverage
    reason: str
    remedy: str
    mode: Mode
    issued_at: str
    expires_at: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler did with a piece of advice, and why."""

    advice_id: str
    cluster: str
    job_id: str
    attempt: int
    applied: Applied
    by: str
    why: str = ""
    time: float | None = None


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says the root cause of an attempt was; kept beside the verdict, never over it."""

    feedback_id: str
    cluster: str
    job_id: str
    attempt: int
    label: str
    by: str
    note: str = ""
    time: float | None = None


JobRecord = JobEvent | Evidence | Context | Tick
"""What travels on the evidence topic."""


def deterministic_id(*parts: str | int) -> str:
    """Name-based UUID of the parts: the same parts give the same id on every worker and every replay."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join(map(str, parts))))
