"""The tables that the recorder writes, as migrations/versions leaves them.

Rule: this page and the migrated database agree; a test compares them.
Rule: `recorded_at` belongs to the database: when a row was first written; no statement changes it.
Rule: column names need no quotes, so that nobody reads Postgres' own `user` for the job's: hence `user_name`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Index, Integer, MetaData, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

METADATA = MetaData()
RECORDED_AT = "recorded_at"
MOMENT = DateTime(timezone=True)


def required(name: str, kind: Any, *, key: bool = False) -> Column[Any]:
    """A column that every row fills."""
    return Column(name, kind, nullable=False, primary_key=key)


def optional(name: str, kind: Any) -> Column[Any]:
    """A column that is NULL where the producer did not say."""
    return Column(name, kind, nullable=True)


def of_attempt(*, key: bool) -> list[Column[Any]]:
    """What names an attempt."""
    return [
        required("cluster", Text, key=key),
        required("job_id", Text, key=key),
        Column("attempt", Integer, nullable=False, primary_key=key, autoincrement=False),
    ]


def recorded() -> Column[Any]:
    """When the row was first written, by the database's clock."""
    return Column(RECORDED_AT, MOMENT, nullable=False, server_default=text("now()"))


def of_verdict(*, history: bool) -> list[Column[Any]]:
    """What is kept of a verdict: the newest has one row an attempt, the history one a revision."""
    return [
        *of_attempt(key=True),
        required("verdict_id", Text),
        Column("revision", Integer, nullable=False, primary_key=history, autoincrement=False),
        required("final", Boolean),
        optional("label", Text),
        optional("owner", Text),
        required("confidence", Double),
        required("source", Text),
        optional("signature_id", Text),
        optional("signature_version", Integer),
        required("catalog", Text),
        required("coverage", Text),
        required("decided_at", MOMENT, key=history),
        required("captures", JSONB),
        required("context", ARRAY(Text)),
        required("shadows", JSONB),
        required("reason", Text),
    ]


ATTEMPTS = Table(
    "attempts",
    METADATA,
    *of_attempt(key=True),
    required("revision", Integer),
    required("decided_at", MOMENT),
    required("scheduler", Text),
    optional("ref", Text),
    required("attempt_ref", JSONB),
    optional("state", Text),
    optional("exit_code", Integer),
    optional("signal", Integer),
    optional("reason", Text),
    required("disruptions", ARRAY(Text)),
    optional("started_at", MOMENT),
    optional("ended_at", MOMENT),
    required("nodes", ARRAY(Text)),
    optional("failed_node", Text),
    optional("gpus", Integer),
    optional("gpu_seconds", Double),
    optional("user_name", Text),
    optional("job_name", Text),
    optional("queue", Text),
    recorded(),
    Index("attempts_ended_at", "ended_at"),
)

VERDICTS = Table(
    "verdicts", METADATA, *of_verdict(history=False), recorded(), Index("verdicts_decided_at", "decided_at")
)

# The partition key stands in the primary key: Postgres keeps keys unique within a partition only.
VERDICT_REVISIONS = Table(
    "verdict_revisions",
    METADATA,
    *of_verdict(history=True),
    required("ranking", JSONB),
    recorded(),
    postgresql_partition_by="RANGE (decided_at)",
)

EVIDENCE = Table(
    "evidence",
    METADATA,
    *of_attempt(key=True),
    Column("place", Integer, nullable=False, primary_key=True, autoincrement=False),
    required("revision", Integer),
    required("decided_at", MOMENT, key=True),
    required("signature_id", Text),
    optional("signature_version", Integer),
    required("label", Text),
    required("role", Text),
    required("stream", Text),
    required("topic", Text),
    required("partition", Integer),
    required("record_offset", BigInteger),
    required("line_index", Integer),
    optional("rank", Integer),
    optional("node", Text),
    optional("time", MOMENT),
    required("text", Text),
    required("trusted", Boolean),
    optional("lost_because", Text),
    optional("explained_by", Text),
    Index("evidence_signature_id", "signature_id", "decided_at"),
    postgresql_partition_by="RANGE (decided_at)",
)

ADVICE = Table(
    "advice",
    METADATA,
    required("advice_id", Text, key=True),
    *of_attempt(key=False),
    required("revision", Integer),
    required("final", Boolean),
    required("scheduler", Text),
    required("attempt_ref", JSONB),
    required("retry", Boolean),
    required("action", Text),
    required("after_s", Integer),
    required("attempts_left", Integer),
    required("counts_toward_budget", Boolean),
    required("exclude_nodes", ARRAY(Text)),
    required("resources", JSONB),
    required("expected_success", Double),
    required("label", Text),
    required("owner", Text),
    required("confidence", Double),
    required("source", Text),
    optional("signature_id", Text),
    optional("signature_version", Integer),
    required("catalog", Text),
    optional("evidence", JSONB),
    required("coverage", Text),
    required("reason", Text),
    required("remedy", Text),
    required("mode", Text),
    required("issued_at", MOMENT),
    required("expires_at", MOMENT),
    recorded(),
    Index("advice_job", "cluster", "job_id", "attempt", "revision"),
    Index("advice_issued_at", "issued_at"),
)

OUTCOMES = Table(
    "outcomes",
    METADATA,
    required("advice_id", Text, key=True),
    required("by", Text, key=True),
    *of_attempt(key=False),
    required("applied", Text),
    required("why", Text),
    optional("time", MOMENT),
    recorded(),
    Index("outcomes_job", "cluster", "job_id", "attempt"),
)

FEEDBACK = Table(
    "feedback",
    METADATA,
    required("feedback_id", Text, key=True),
    *of_attempt(key=False),
    required("label", Text),
    required("by", Text),
    required("note", Text),
    optional("time", MOMENT),
    recorded(),
    Index("feedback_job", "cluster", "job_id", "attempt"),
)

WRITTEN = {table: tuple(c.name for c in table.columns if c.name != RECORDED_AT) for table in METADATA.sorted_tables}
"""The columns that a row gives, by table."""
