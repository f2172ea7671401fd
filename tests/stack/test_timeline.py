"""The whole service on the real stack: what happened when, and which advice came when."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import datetime

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
    until,
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

    assert ("cuda-oom", 0, "node-0") == (
        told.body["signature"]["id"],
        told.body["evidence"]["rank"],
        told.body["evidence"]["node"],
    )
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
        want_between(0.5, 8.5, advice(job, label="killed_by_user", revision=1, retry=False)),
        want_between(8.5, 25.0, advice(job, label="job_preempted", revision=2, retry=True)),
    )

    assert first.body["advice_id"] != second.body["advice_id"]
    assert not second.body["counts_toward_budget"]
    assert (2, True) == (service.row(job, label="job_preempted")["revision"], service.row(job)["retry"])


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
    """The second attempt is announced first and ends first; each line goes to its own attempt, and so does the advice."""
    now = time.time()
    second, first = play(
        service,
        at(0.0, started(job, attempt=2, started_at=now - 60), started(job, attempt=1, started_at=now - 300)),
        at(0.1, log(job, MISSING, attempt=2), log(job, MPI, attempt=1), ended(job, attempt=2)),
        at(1.5, ended(job, attempt=1, ended_at=now - 100)),
        want_between(0.1, 20.0, advice(job, label="incorrect_inputs", attempt=2, attempt_ref={"attempt": 2})),
        want_between(1.5, 20.0, advice(job, label="mpi_error", attempt=1, attempt_ref={"attempt": 1})),
    )
    service.settle()

    assert [(1, "mpi_error"), (2, "incorrect_inputs")] == [(row["attempt"], row["label"]) for row in service.rows(job)]
    assert (first.body["retry"], second.body["retry"]) == (True, False)


def test_the_same_failure_again_spends_the_budget(service: Service, job: str) -> None:
    """The third MPI error of a job with a budget of two retries earns no further one."""
    told = []
    for attempt in (1, 2, 3):
        told += play(
            service,
            at(0.0, started(job, attempt), log(job, MPI, attempt=attempt), ended(job, attempt=attempt)),
            want_between(0.0, 20.0, advice(job, attempt=attempt, label="mpi_error")),
        )

    assert [(2, True), (1, True), (0, False)] == [(t.body["attempts_left"], t.body["retry"]) for t in told]
    assert [30, 60, 0] == [t.body["after_s"] for t in told]


def test_an_attempt_that_ended_well_gets_no_advice_whatever_it_printed(service: Service, job: str) -> None:
    """COMPLETED is the scheduler's word; out-of-memory lines that a program survived are no failure."""
    after = f"{job}-after"
    play(
        service,
        at(0.0, started(job), log(job, f"{CUDA_OOM}\n{NCCL}\n{MISSING}"), ended(job, "COMPLETED")),
        at(1.0, started(after), log(after, MISSING), ended(after)),
        want_between(1.0, 20.0, advice(after, label="incorrect_inputs")),
    )
    service.settle()

    assert ([], []) == (service.told(job), service.rows(job))


def test_advice_goes_on_while_postgres_is_down(service: Service, job: str) -> None:
    """The database is killed: advice comes as ever, and the labels arrive when it is back."""
    service.stack.postgres.kill()
    try:
        play(
            service,
            at(0.0, started(job), log(job, CUDA_OOM), ended(job)),
            want_between(0.0, 15.0, advice(job, label="gpu_oom")),
        )
        recorder = service.agents["recorder"]
        until(lambda: recorder.metric("exitsign_store_outages_total") > 0, 15, "the recorder waits for Postgres")
    finally:
        service.stack.postgres.restart()

    assert ("gpu_oom", False) == (service.row(job)["label"], service.row(job)["retry"])


def test_advice_is_a_cloud_event_of_version_1(service: Service, job: str) -> None:
    """Headers and body are what CONTRACTS promises to schedulers: every field, and no word outside its list."""
    (told,) = play(
        service,
        at(0.0, started(job), log(job, f"{HEALTHY.format(1)}\n{CUDA_OOM}"), ended(job)),
        want_between(0.0, 20.0, advice(job)),
    )
    body = told.body

    assert {
        "ce_specversion": "1.0",
        "ce_id": body["advice_id"],
        "ce_source": "exitsign/attributor",
        "ce_type": "exitsign.advice.v1",
        "ce_time": body["issued_at"],
        "ce_subject": f"default/{job}/1",
        "content-type": "application/json",
    } == told.headers
    assert (f"default/{job}", FIELDS) == (told.key, set(body))
    assert uuid.UUID(body["advice_id"]).version == 5
    assert {"attempt": 1} == body["attempt_ref"]
    assert ("demo", "default", 1) == (body["scheduler"], body["cluster"], body["attempt"])
    assert {"id": "cuda-oom", "version": 1} == body["signature"]
    assert {"gpu_memory_bytes", "memory_bytes", "time_s"} == set(body["resources"])
    assert int((79.15 + 2) * 2**30) == pytest.approx(body["resources"]["gpu_memory_bytes"], rel=1e-6)
    closed = {"action": Action, "owner": Owner, "source": Source, "coverage": Coverage, "mode": Mode}
    assert all(body[name] in set(words) for name, words in closed.items())
    assert {"text", "stream", "rank", "node", "topic", "partition", "offset", "time"} == set(body["evidence"])
    assert (CUDA_OOM, LOGS) == (body["evidence"]["text"], body["evidence"]["topic"])
    assert body["evidence"]["stream"] in set(Stream)
    issued, expires = (datetime.fromisoformat(body[name]) for name in ("issued_at", "expires_at"))
    assert 3600 == (expires - issued).total_seconds()


def test_the_evidence_of_advice_can_be_found_in_its_topic(service: Service, job: str) -> None:
    """Topic, partition and offset name the very record that held the line."""
    (told,) = play(
        service,
        at(0.0, started(job), log(job, CUDA_OOM), ended(job)),
        want_between(0.0, 20.0, advice(job)),
    )
    place = told.body["evidence"]

    assert CUDA_OOM.encode() == service.record_at(place["topic"], place["partition"], place["offset"]).value
