"""Bad, hostile and strange input on the real stack: a dead letter with its reason, or a bounded piece of work."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from stack.service_kit import (
    CUDA_OOM,
    EVENTS,
    LOGS,
    MISSING,
    MPI,
    NODES,
    ROOT,
    Sent,
    Service,
    advice,
    at,
    ended,
    log,
    play,
    running,
    started,
    until,
    want_between,
)

from services import topics
from services.stack.up import Stack

LIMIT = 200
SECRETS = ("hunter2secret", "AKIAABCDEFGHIJKLMNOP", "s3cr3t-in-a-url")


@pytest.fixture(scope="module", name="service")
def _service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(stack, tmp_path_factory.mktemp("bad-input"), poison_limit=LIMIT) as service:
        yield service


@pytest.fixture(name="job")
def _job() -> str:
    """A job that no other test has."""
    return f"job-{uuid.uuid4().hex[:12]}"


def raw(topic: str, value: bytes, **headers: str) -> Sent:
    """A record as some producer might send it."""
    return Sent(topic, value, key=b"k-1", headers=tuple((name, text.encode()) for name, text in headers.items()))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (raw(EVENTS, b'{"type": "job_event", "job_id": "j", "pha'), "bad_json"),
        (raw(EVENTS, b"\x00\x01\xff\xfe not JSON at all"), "bad_json"),
        (raw(EVENTS, b'{"type": "job_event", "job_id": "j", "phase": "ended", "more": ' + b"[" * 100_000), "bad_json"),
        (raw(EVENTS, b'{"type": "job_event", "job_id": "j", "phase": "exploded"}'), "unknown_value"),
        (raw(EVENTS, b'{"type": "job_event", "phase": "ended"}'), "missing_field"),
        (raw(EVENTS, b'{"type": "job_event", "job_id": "j", "phase": "ended", "gpus": {"a": 1}}'), "wrong_type"),
        (
            raw(EVENTS, b'{"type": "job_event", "job_id": "j", "phase": "ended", "exit_code": 99999999999}'),
            "wrong_type",
        ),
        (raw(LOGS, b"a line of nobody"), "no_identity"),
        (raw(LOGS, b"a line", job="j", stream="telepathy"), "unknown_value"),
        (raw(LOGS, b"x" * (17 * 1024 * 1024), job="j"), "too_large"),
        (raw("job-logs", b'{"message": "no file, no job"}'), "no_identity"),
        (raw(NODES, b'{"type": "node_event", "node": "", "text": "x"}'), "missing_field"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_record_that_cannot_be_read_becomes_a_dead_letter(service: Service, bad: Sent, reason: str) -> None:
    """It goes aside with its reason, stage and place; its key and its headers stay, its value is bounded."""
    (place,) = service.send(bad)
    headers, letter = service.dead_letter(place)

    assert (reason, "scanner") == (headers["exitsign-reason"], headers["exitsign-stage"])
    assert headers["x-exception-message"]
    assert dict(bad.headers).items() <= {n: v.encode() for n, v in headers.items()}.items()
    assert (b"k-1", bad.value[: 1024 * 1024]) == (letter.key, letter.value)


def test_dead_letters_are_counted(service: Service) -> None:
    """/metrics of the scanner counts them by topic and reason."""
    scanner = service.agents["scanner"]
    before = scanner.metric("exitsign_poison_total", topic=EVENTS, reason="bad_json")
    service.send(raw(EVENTS, b"{"), raw(EVENTS, b"{"))

    until(lambda: scanner.metric("exitsign_poison_total", topic=EVENTS, reason="bad_json") == before + 2, 20, "counted")


def test_an_event_too_large_for_our_topics_is_cut(service: Service, job: str) -> None:
    """An end that names megabytes of nodes still gets its advice, and holds nobody up."""
    nodes = [uuid.uuid4().hex * 10 for _ in range(20_000)]
    play(
        service,
        at(0.0, started(job), log(job, MISSING), ended(job, nodes=nodes)),
        want_between(0.0, 20.0, advice(job, label="incorrect_inputs")),
    )

    assert 0 < len(service.row(job)["nodes"]) < len(nodes)


def test_a_job_that_floods_its_own_memory_holds_nobody_up(service: Service, job: str) -> None:
    """Megabytes of evidence that no compression makes small: the job's state is cut, and nothing is tried for ever."""
    random.seed(1)
    noise = "".join(chr(random.randrange(0x20000, 0x2A000)) for _ in range(200_000))

    def line() -> str:
        begin = random.randrange(len(noise) - 1900)
        return f"{MPI} {noise[begin : begin + 1900]}"

    flood = [log(job, "\n".join(line() for _ in range(16)), attempt=n) for n in range(2, 130)]
    others = [f"{job}-{n}" for n in range(6)]  # On every partition.
    service.send(started(job), *flood)
    service.settle()
    for other in others:
        service.send(started(other), log(other, MISSING), ended(other))
    for other in others:
        service.advice(other, 20.0, label="incorrect_inputs")

    assert [] == [n for n, a in service.agents.items() if a.metric("exitsign_batch_retries_total")]


def test_a_dead_letter_is_no_larger_than_its_topic_takes(service: Service) -> None:
    """Megabytes of key and headers stay behind; the place says where to find them."""
    bulk = os.urandom(6 * 1024 * 1024).hex()
    (place,) = service.send(
        Sent(EVENTS, b"{", key=bulk.encode(), headers=(("bulk", bulk.encode()), ("authorization", b"Bearer abcdefgh")))
    )
    headers, letter = service.dead_letter(place)

    assert (None, False) == (letter.key, "bulk" in headers)
    assert b"abcdefgh" not in dict(letter.headers).get("authorization", b"")


@pytest.mark.parametrize(
    "text",
    [
        CUDA_OOM.replace("CUDA out", "CUDA\x00 out\x00").encode(),
        b"\xff\xfe\x80 caf\xe9 \xed\xa0\x80 " + CUDA_OOM.encode() + b" \xc3",
        b"\x1b[31m2026-11-21 07:12:44,123 [rank3]: " + CUDA_OOM.encode(),
        (CUDA_OOM + "\r\n").encode("utf-8"),
    ],
    ids=["NUL bytes", "invalid UTF-8", "escape codes", "carriage return"],
)
def test_strange_bytes_hide_no_root_cause(service: Service, job: str, text: bytes) -> None:
    """The label is given, and what was stored and published can be read by everybody."""
    (told,) = play(
        service,
        at(0.0, started(job), log(job, text), ended(job)),
        want_between(0.0, 20.0, advice(job, label="gpu_oom")),
    )

    assert "\x00" not in told.body["evidence"]["text"]
    assert "gpu_oom" == service.row(job)["label"]


def test_a_line_of_ten_megabytes_is_bounded_work(service: Service, job: str) -> None:
    """Its head and its tail are scanned, what leaves is short, and it is counted."""
    scanner = service.agents["scanner"]
    before = scanner.metric("exitsign_truncated_lines_total")
    (told,) = play(
        service,
        at(0.0, started(job), log(job, "x" * 10_000_000 + " " + CUDA_OOM), ended(job)),
        want_between(0.0, 30.0, advice(job, label="gpu_oom")),
    )

    assert len(told.body["evidence"]["text"]) <= 2000
    until(lambda: scanner.metric("exitsign_truncated_lines_total") == before + 1, 20, "the long line is counted")


def test_a_pattern_that_runs_out_of_time_is_counted_and_holds_nobody_up(service: Service, job: str) -> None:
    """A line made to blow a pattern up costs its time limit; the job's other line still decides."""
    scanner = service.agents["scanner"]
    hostile = "slowx" + "a" * 8000 + "z"
    play(
        service,
        at(0.0, started(job), log(job, f"{hostile}\n{MISSING}"), ended(job)),
        want_between(0.0, 20.0, advice(job, label="incorrect_inputs")),
    )

    until(
        lambda: scanner.metric("exitsign_pattern_timeouts_total", signature="slow") > 0, 20, "the time-out is counted"
    )


def test_lines_of_a_job_never_announced_wait_and_then_count(service: Service, job: str) -> None:
    """They cause no advice by themselves; when the scheduler speaks after all, they are the job's evidence."""
    service.send(log(job, CUDA_OOM))
    service.settle()
    silent = (service.told(job), service.rows(job))
    play(
        service,
        at(0.0, started(job, started_at=time.time() - 60), ended(job)),
        want_between(0.0, 20.0, advice(job, label="gpu_oom")),
    )

    assert ([], []) == silent


def test_an_end_without_a_start_gets_its_label(service: Service, job: str) -> None:
    """The start was lost; the end alone makes the attempt."""
    play(
        service,
        at(0.0, log(job, MISSING), ended(job)),
        at(0.0, ended(f"{job}-t", "TIMEOUT")),
        want_between(0.0, 20.0, advice(job, label="incorrect_inputs", attempt=1)),
        want_between(0.0, 25.0, advice(f"{job}-t", label="time_limit", source="facts")),
    )


def test_a_start_that_comes_after_its_end_changes_nothing(service: Service, job: str) -> None:
    """The end was advised upon; its start, delivered late, makes no second attempt."""
    begun = time.time() - 30
    play(
        service,
        at(0.0, log(job, MISSING), ended(job)),
        at(1.5, started(job, started_at=begun)),
        want_between(0.0, 20.0, advice(job, label="incorrect_inputs")),
    )
    service.settle()

    assert [(1, 1)] == [(t.body["attempt"], t.body["revision"]) for t in service.told(job)]


@pytest.mark.parametrize("off_s", [-7200.0, 7200.0], ids=["behind", "ahead"])
def test_a_clock_two_hours_off_decides_nothing(service: Service, job: str, off_s: float) -> None:
    """One node's lines, or the scheduler's times, may lie far off: the broker's time stands in."""
    wrong = time.time() + off_s
    (told,) = play(
        service,
        at(0.0, started(job, started_at=wrong), log(job, CUDA_OOM, time=wrong)),
        at(0.5, log(job, MISSING, rank=1), ended(job, ended_at=wrong + 1)),
        want_between(0.5, 20.0, advice(job)),
    )

    assert "gpu_oom" == told.body["label"]
    assert abs(_seconds(told.body["issued_at"]) - time.time()) < 60


def _seconds(stamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp()


def test_planted_secrets_do_not_leave(service: Service, job: str) -> None:
    """Neither evidence, state, verdict, advice, dead letter nor table holds them, whichever field brought them."""
    password, key, in_url = SECRETS
    line = f"{CUDA_OOM} password={password} aws {key} postgres://me:{in_url}@db/x"
    bad, *_ = service.send(
        raw(
            EVENTS,
            f'{{"type": "job_event", "password": "{password}", "note": "{key} postgres://me:{in_url}@db/x"'.encode(),
        ),
        started(job),
        log(job, f"{line}\nsome error with token={password} happened"),
        ended(job, message=f"login refused for x, password={password}", reason=f"api_key={password} {key}"),
    )
    service.advice(job)
    service.dead_letter(bad)
    service.row(job)
    service.settle()
    sent = (topics.EVIDENCE, topics.ATTEMPTS, topics.VERDICTS, topics.ADVICE, topics.POISON)
    leaks = {
        (topic, secret)
        for topic in sent
        for record in service.records(topic)
        for secret in SECRETS
        if secret.encode() in (record.value or b"") or any(secret.encode() in v for _, v in record.headers)
    }

    assert set() == leaks
    assert [] == [secret for secret in SECRETS if secret in _dump(service.stack.dsn)]


def _dump(dsn: str) -> str:
    """Everything that the database holds of attempts, as text."""
    with psycopg.connect(dsn) as connection:
        tables = ("attempts", "verdicts", "verdict_revisions", "evidence", "advice")
        return "\n".join(
            str(row) for t in tables for row in connection.execute(f"SELECT t::text FROM {t} t").fetchall()
        )


def test_an_agent_with_an_unknown_format_refuses_to_start(service: Service, tmp_path: Path) -> None:
    """One line names the format and the known ones; the exit status is not 0."""
    inputs = '[{"topic": "job-logs-raw", "format": "cobol"}]'
    environ = {**os.environ, **service.environ, "PYTHONPATH": str(ROOT), "EXITSIGN_INPUTS": inputs}
    command = [sys.executable, "-m", "services.cli", "run", "scanner"]
    ran = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode != 0
    assert ["exitsign: unknown format 'cobol'; known formats: exitsign, "] == [
        line[:59] for line in ran.stderr.splitlines()
    ]


def test_a_scanner_stops_rather_than_drain_a_topic_into_the_dead_letters(service: Service, job: str) -> None:
    """Past the limit it ends with status 65 and says so; with a higher limit nothing of the batch is lost."""
    scanner = service.agents["scanner"]
    places = service.send(*(raw(NODES, f"{{bad {n} {job}".encode()) for n in range(2 * LIMIT + 50)))

    assert 65 == scanner.running.wait(30)
    assert f"more than {LIMIT} dead letters" in scanner.tail()
    assert "EXITSIGN_POISON_LIMIT" in scanner.tail()

    scanner.start(EXITSIGN_POISON_LIMIT="10000")
    scanner.wait_healthy()
    play(service, at(0.0, started(job), log(job, MISSING), ended(job)), want_between(0.0, 20.0, advice(job)))
    service.settle()
    letters = {
        (headers["x-original-partition"], headers["x-original-offset"])
        for r in service.records(topics.POISON)
        if (headers := {n: v.decode() for n, v in r.headers})["x-original-topic"] == NODES
    }

    assert {(str(p.partition), str(p.offset)) for p in places} <= letters
