"""Our own records as bytes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import msgspec
import pytest
from builders import T0, context, ended, evidence, judge, started, tick

from classifiers.attempt import JobState, step
from classifiers.decision import Clock, decide
from classifiers.records import Applied, Feedback, Outcome
from services import wire

OUTCOME = Outcome(advice_id="a", cluster="c", job_id="j", attempt=1, applied=Applied.APPLIED, by="slurm", time=T0)
FEEDBACK = Feedback(feedback_id="f", cluster="c", job_id="j", attempt=1, label="gpu_oom", by="ann")


def decided():
    """(state, verdict, advice) of a job that ran out of GPU memory."""
    state = JobState(cluster="c", job_id="job-1")
    for record in (
        started(),
        evidence("oom", "gpu_oom", at=5, captures={"total": "80 GiB"}),
        context("x", at=6),
        ended(8),
    ):
        state = step(state, record)
    state, (published,) = decide(state, Clock(T0 + 9, T0 + 9), judge())
    return state, published.verdict, published.advice


@pytest.mark.parametrize(
    "record",
    [
        started(nodes=("a", "b"), attempt_ref={"pod_uid": "u", "restart": 0}),
        ended(3, "TIMEOUT", signal=9),
        evidence("oom", "gpu_oom"),
        context("caf\u00e9 \u65e5\u672c \U0001f600 failed"),
        tick(5),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_of_a_job_comes_back_as_it_was(record):
    """Each kind is told apart by its bytes alone."""
    assert record == wire.job_record(wire.encode(record))


def test_what_was_decided_comes_back_as_it_was():
    """State, verdict and advice, with everything nested in them."""
    state, verdict, advice = decided()

    assert (state, verdict, advice) == (
        wire.job_state(wire.encode(state)),
        wire.verdict(wire.encode(verdict)),
        wire.advice(wire.encode(advice)),
    )


def test_outcomes_and_feedback_come_back_as_they_were():
    """What schedulers and people say."""
    assert (OUTCOME, FEEDBACK) == (wire.outcome(wire.encode(OUTCOME)), wire.feedback(wire.encode(FEEDBACK)))


def test_a_newer_writers_fields_are_passed_over():
    """Fields are only ever added."""
    newer = json.dumps({**json.loads(wire.encode(OUTCOME)), "cost": 3}).encode()

    assert OUTCOME == wire.outcome(newer)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"not JSON",
        b"\xff\xfe",
        b"{}",
        b'{"kind": "prophecy"}',
        b'{"kind": "tick"}',
        b'{"kind": "tick", "scanner": 1, "time": 0, "scanned": {}, "partitions": {}}',
        b'{"kind": "tick", "scanner": "s", "time": "noon", "scanned": {}, "partitions": {}}',
        b"[" * 100_000,
        wire.encode(started()).replace(b'"started"', b'"suspended"'),
        wire.encode(evidence("oom", "gpu_oom")).replace(b'"root"', b'"prophet"'),
    ],
)
def test_bytes_of_another_version_are_unknown(value):
    """An unknown kind, an unknown word of an enum, a missing field: skipped, never guessed."""
    with pytest.raises(wire.Unknown):
        wire.job_record(value)


@pytest.mark.parametrize("read", [wire.verdict, wire.advice, wire.outcome, wire.feedback, wire.job_state])
def test_every_reader_refuses_what_is_not_its_own(read):
    """A record on the wrong topic is unknown there."""
    with pytest.raises(wire.Unknown):
        read(wire.encode(tick(5)))


def test_keys_name_cluster_job_and_attempt():
    """Everything of one job has one key."""
    assert (b"c/j", b"c/j/2") == (wire.job_key("c", "j"), wire.attempt_key("c", "j", 2))


def test_advice_has_the_headers_of_a_cloud_event():
    """Every attribute that CloudEvents demands, as bytes."""
    _, _, advice = decided()
    headers = dict(wire.advice_headers(advice))

    assert {
        "ce_specversion": b"1.0",
        "ce_id": advice.advice_id.encode(),
        "ce_source": b"exitsign/attributor",
        "ce_type": b"exitsign.advice.v1",
        "ce_time": advice.issued_at.encode(),
        "ce_subject": b"c/job-1/1",
        "content-type": b"application/json",
    } == headers


def test_a_clients_record_has_its_time_in_seconds():
    """Kafka tells milliseconds."""
    client = SimpleNamespace(offset=7, timestamp=1500, key=b"k", value=None, headers=[("a", b"1")])
    record = wire.raw_record("t", 2, client)

    assert ("t", 2, 7, 1.5, b"k", None, (("a", b"1"),)) == msgspec.structs.astuple(record)
