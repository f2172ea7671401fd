"""The whole service on the real stack: what happened when, and which advice came when."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from stack.service_kit import (
    CUDA_OOM,
    GRACE_S,
    HEALTHY,
    LOGS,
    MISSING,
    MPI,
    NCCL,
    TORCHRUN,
    Service,
    advice,
    at,
    disrupted,
    ended,
    log,
    play,
    running,
    started,
    want_between,
)

from classifiers.records import Action, Coverage, Mode, Owner, Source, Stream
from services.stack.up import Stack

FIELDS = {
    "advice_id", "cluster", "scheduler", "job_id", "attempt", "attempt_ref", "revision", "final", "retry", "action",
    "after_s", "attempts_left", "counts_toward_budget", "exclude_nodes", "resources", "expected_success", "label",
    "owner", "confidence", "source", "signature", "catalog", "evidence", "coverage", "reason", "remedy", "mode",
    "issued_at", "expires_at",
}  # fmt: skip


@pytest.fixture(scope="module", name="service")
def _service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(stack, tmp_path_factory.mktemp("timeline")) as service:
        yield service


@pytest.fixture(name="job")
def _job() -> str:
    """A job that no other test has."""
    return f"job-{uuid.uuid4().hex[:12]}"


def test_a_root_cause_that_comes_after_the_cascade_and_after_the_end_wins(service: Service, job: str) -> None:
    """Rank 0 ran out of GPU memory; its shipper was slow, so that the other rank's complaint came first."""
    (told,) = play(
        service,
        at(0.0, started(job)),
        at(0.3, log(job, NCCL, rank=1)),
        at(0.6, ended(job)),
        at(1.5, log(job, CUDA_OOM, rank=0), log(job, TORCHRUN, rank=1)),
        want_between(1.5, 20.0, advice(job, label="gpu_oom", revision=1, retry=False, action="retry_with_change")),
    )

    assert ("cuda-oom", 0, "node-0") == (told.body["signature"]["id"], told.body["evidence"]["rank"], told.body["evidence"]["node"])
    assert "gpu_oom" == service.row(job)["label"]


def test_a_cascade_alone_waits_for_the_grace(service: Service, job: str) -> None:
    """No advice rests on a survivor's line while its cause may still be on its way."""
    play(
        service,
        at(0.0, started(job), log(job, NCCL, rank=1), ended(job)),
        want_between(GRACE_S - 0.5, 25.0, advice(job, label="collective_timeout", revision=1, coverage="complete")),
    )


def test_a_preemption_told_late_revises(service: Service, job: str) -> None:
    """An end by SIGTERM looks like its owner's doing, until the scheduler says what it did."""
    first, second = play(
        service,
        at(0.0, started(job)),
        at(0.5, ended(job, signal=15)),
        at(8.5, disrupted(job, "PREEMPTED")),
        want_between(GRACE_S, 8.5, advice(job, label="killed_by_user", revision=1, retry=False)),
        want_between(8.5, 25.0, advice(job, label="job_preempted", revision=2, retry=True)),
    )

    assert first.body["advice_id"] != second.body["advice_id"]
    assert not second.body["counts_toward_budget"]
    assert ["job_preempted"] == [row["label"] for row in service.rows(job)] or service.row(job, label="job_preempted")


def test_everything_delivered_twice_changes_nothing(service: Service, job: str) -> None:
    """A shipper that repeats itself causes no second advice, no revision and no second row."""
    records = [r.stamped() for r in (started(job), log(job, NCCL, rank=1), log(job, CUDA_OOM), ended(job))]
    play(service, at(0.0, *records), want_between(0.0, 20.0, advice(job, label="gpu_oom")))
    service.settle()
    before = [(told.body, told.headers) for told in service.told(job)]
    service.send(*records, *records)
    service.settle()

    assert before == [(told.body, told.headers) for told in service.told(job)]
    assert [1] == [row["revision"] for row in service.rows(job)]


def test_attempts_are_numbered_in_the_order_of_their_starts(service: Service, job: str) -> None:
    """The second attempt's records come first, its end before its start; each line goes to its own attempt."""
    begun = 1_000.0
    first, second = play(
        service,
        at(0.0, ended(job, attempt=2), log(job, MISSING, attempt=2), log(job, MPI, attempt=1)),
        at(0.0, started(job, attempt=2), started(job, attempt=1, started_at=_ago(begun)), ended(job, attempt=1, ended_at=_ago(10))),
        want_between(0.0, 25.0, advice(job, label="mpi_error", attempt_ref={"attempt": 1})),
        want_between(0.0, 25.0, advice(job, label="incorrect_inputs", attempt_ref={"attempt": 2})),
    )
    service.settle()

    assert ["mpi_error", "incorrect_inputs"] == [row["label"] for row in service.rows(job)]
    assert {first.body["attempt"], second.body["attempt"]} == {1, 2}
