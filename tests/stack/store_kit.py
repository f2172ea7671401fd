"""What the store's tests share: small records, an opened store, and all rows as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from builders import T0
from psycopg.conninfo import make_conninfo

from classifiers.advice import iso
from classifiers.records import (
    Action,
    Advice,
    Applied,
    AttemptFacts,
    Coverage,
    Feedback,
    Mode,
    Outcome,
    Owner,
    Position,
    Ranked,
    Resources,
    Role,
    SignatureRef,
    Source,
    Stream,
    Verdict,
    deterministic_id,
)
from services.database import upgrade
from services.stack.postgres import Postgres
from services.store import Store
from services.store_tables import WRITTEN


def ranked(signature: str, **more: Any) -> Ranked:
    """One line of a ranking, on stderr of rank 0 on n1."""
    values = {
        "label": "gpu_oom",
        "role": Role.ROOT,
        "text": f"{signature} line",
        "stream": Stream.STDERR,
        "position": Position("job-logs", 0, 7, 0),
        "time": T0 + 99,
        "rank": 0,
        "node": "n1",
        **more,
    }
    return Ranked(signature=signature, **values)


def verdict(job_id: str = "job-1", revision: int = 1, facts: dict[str, Any] | None = None, **more: Any) -> Verdict:
    """A failed attempt of 100 s on 8 GPUs that ran out of GPU memory; revision n is decided n s after the end."""
    known = {
        "scheduler": "slurm",
        "state": "FAILED",
        "exit_code": 1,
        "started_at": T0,
        "ended_at": T0 + 100,
        "nodes": ("n1", "n2"),
        "gpus": 8,
        "user": "ada",
        "queue": "long",
        **(facts or {}),
    }
    values = {
        "attempt": 1,
        "final": False,
        "label": "gpu_oom",
        "owner": Owner.USER,
        "confidence": 0.95,
        "source": Source.SIGNATURE,
        "signature": SignatureRef("cuda-oom", 2),
        "catalog": "sha256:1",
        "coverage": Coverage.COMPLETE,
        "decided_at": T0 + 100 + revision,
        "ranking": (ranked("cuda-oom"), ranked("nccl-timeout", role=Role.CASCADE, lost_because="a symptom")),
        "reason": "The GPU ran out of memory",
        **more,
    }
    facts_of = AttemptFacts(cluster="c", job_id=job_id, **known)
    name = deterministic_id("verdict", "c", job_id, values["attempt"], revision)
    return Verdict(verdict_id=name, facts=facts_of, revision=revision, **values)


def advice(job_id: str = "job-1", revision: int = 1, **more: Any) -> Advice:
    """The advice of that verdict."""
    values = {
        "attempt": 1,
        "final": False,
        "retry": False,
        "action": Action.RETRY_WITH_CHANGE,
        "mode": Mode.ENFORCE,
        "issued_at": iso(T0 + 100 + revision),
        "expires_at": iso(T0 + 3700),
        "after_s": 0,
        **more,
    }
    name = deterministic_id("advice", "c", job_id, values["attempt"], revision)
    return Advice(
        advice_id=name,
        cluster="c",
        scheduler="slurm",
        job_id=job_id,
        attempt_ref={"restart": 0},
        revision=revision,
        attempts_left=0,
        counts_toward_budget=True,
        exclude_nodes=("n1",),
        resources=Resources(gpu_memory_bytes=1),
        expected_success=0.03,
        label="gpu_oom",
        owner=Owner.USER,
        confidence=0.95,
        source=Source.SIGNATURE,
        signature=SignatureRef("cuda-oom", 2),
        catalog="sha256:1",
        evidence=None,
        coverage=Coverage.COMPLETE,
        reason="The GPU ran out of memory",
        remedy="Use a smaller batch",
        **values,
    )


def outcome(of: Advice, applied: Applied = Applied.APPLIED, at: float | None = 1.0, by: str = "slurm") -> Outcome:
    """What the scheduler did, `at` seconds after T0 + 100."""
    time = None if at is None else T0 + 100 + at
    return Outcome(
        advice_id=of.advice_id, cluster="c", job_id=of.job_id, attempt=of.attempt, applied=applied, by=by, time=time
    )


def feedback(label: str = "cpu_oom") -> Feedback:
    """What ada says of job-1."""
    return Feedback(feedback_id="f-1", cluster="c", job_id="job-1", attempt=1, label=label, by="ada", time=T0)


@contextmanager
def opened(dsn: str) -> Iterator[Store]:
    """A store on an upgraded database."""
    upgrade(dsn)
    store = Store(dsn)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def own_server(folder: Path) -> Iterator[Postgres]:
    """A server that the test may kill, with roles of its own."""
    server = Postgres(folder)
    server.launch()
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def query(dsn: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a statement returns; it commits."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def stored(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, by key, without the time of recording."""
    return {
        table.name: query(dsn, f"SELECT {', '.join(WRITTEN[table])} FROM {table.name} ORDER BY 1, 2, 3, 4, 5")
        for table in WRITTEN
    }


def as_user(dsn: str, user: str) -> str:
    """The DSN of another user, who gets a password for it."""
    query(dsn, f"ALTER ROLE {user} LOGIN PASSWORD 'for-this-test'")
    return make_conninfo(dsn, user=user, password="for-this-test")
