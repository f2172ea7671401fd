"""Feedback from the command line to the place beside the verdict, over a real Kafka and Postgres."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stack.store_kit import opened, query, verdict
from typer.testing import CliRunner

from services import topics, wire
from services.cli.main import app
from services.produce import Producer
from services.queries import feedback_texts
from services.recorder import Recorder
from services.settings import Settings
from services.spans import Batch
from services.store import Store

Unique = Callable[[str], str]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", name="kafka")
def _kafka(bootstrap: str) -> str:
    """The brokers, with our topics."""
    from services.admin import create_topics  # Imported late: it warns, and the stack has swallowed that by now.

    create_topics(Settings(kafka=bootstrap))
    return bootstrap


def say(kafka: str, dsn: str, *arguments: str) -> Result:
    """`exitsign feedback ... --by ada`."""
    environ = {"EXITSIGN_KAFKA": kafka, "EXITSIGN_POSTGRES": dsn}
    return CliRunner().invoke(app, ["feedback", *arguments, "--by", "ada"], env=environ)


def shown(dsn: str, job: str, *arguments: str) -> str:
    """What `exitsign attempts show` prints."""
    done = CliRunner().invoke(app, ["attempts", "show", job, *arguments], env={"EXITSIGN_POSTGRES": dsn})
    assert 0 == done.exit_code, done.output
    return done.output


def published(kafka: str, job: str) -> list[Any]:
    """The feedback topic's records of one job."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topics.FEEDBACK, bootstrap_servers=kafka, auto_offset_reset="earliest", consumer_timeout_ms=4_000
    )
    try:
        return [record for record in consumer if record.key == wire.job_key("c", job)]
    finally:
        consumer.close()


def record(store: Store, kafka: str, records: list[Any]) -> None:
    """What the recorder does with them."""
    settings = Settings(kafka=kafka)
    first = records[0]
    batch = Batch(topics.FEEDBACK, first.partition, records, first.offset, records[-1].offset + 1, 1)
    recorder = Recorder(settings, store, Producer(kafka), lambda: None)
    asyncio.run(recorder.process(batch))


def test_feedback_ends_beside_the_verdict(kafka: str, database: str, unique: Unique) -> None:
    """Said twice it is one row with the newer note; the verdict stays, also when it is decided anew."""
    job = unique("judged")
    with opened(database) as store:
        store.write([verdict(job)])
        first = say(kafka, database, job, "1", "--label", "cpu_oom", "--note", "host ran dry")
        second = say(kafka, database, job, "1", "--label", "cpu_oom", "--note", "password=hunter2hunter2 was it")
        records = published(kafka, job)
        record(store, kafka, records)
        store.write([verdict(job, revision=2)])

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert 1 == len({wire.feedback(r.value).feedback_id for r in records}) == len({r.partition for r in records})
    assert 2 == len(records)
    assert "  feedback: cpu_oom by ada: password=[REDACTED] was it\n" in shown(database, job)
    row = json.loads(shown(database, job, "--json"))
    assert ("gpu_oom", 2, ["cpu_oom"]) == (row["label"], row["revision"], [f["label"] for f in row["feedback"]])
    assert [("c", job, 1, "cpu_oom", "ada")] == query(
        database, "SELECT cluster, job_id, attempt, label, by_name FROM feedback_given"
    )


def test_stored_feedback_comes_with_the_lines_to_learn_from(database: str) -> None:
    """What `exitsign train --stored-feedback` reads: the person's label over the kept lines."""
    with opened(database) as store:
        store.write([verdict("taught")])
        query(database, "INSERT INTO feedback VALUES ('f', 'c', 'taught', 1, 'cpu_oom', 'bob', '', NULL)")
    (row,) = feedback_texts(database)

    assert ("c/taught/1", "cpu_oom") == (row["id"], row["label"])
    assert row["lines"]


def test_an_attempt_that_ended_well_shows_its_feedback(database: str) -> None:
    """A person may know better than an exit code."""
    with opened(database) as store:
        store.write([verdict("fine", label=None, owner=None, signature=None, ranking=())])
        query(database, "INSERT INTO feedback VALUES ('f', 'c', 'fine', 1, 'cpu_oom', 'bob', '', NULL)")

    assert "ended well\n  feedback: cpu_oom by bob\n" in shown(database, "fine")


def test_an_unknown_label_is_refused_with_the_close_ones(kafka: str, database: str, unique: Unique) -> None:
    """Nothing is published."""
    job = unique("mistyped")
    with opened(database) as store:
        store.write([verdict(job)])

    done = say(kafka, database, job, "1", "--label", "gpu_omo")

    assert (2, True) == (done.exit_code, "label gpu_omo is not in exit_spec.yaml; did you mean gpu_oom" in done.stderr)
    assert [] == published(kafka, job)


@pytest.mark.parametrize("where", [("2",), ("1", "--cluster", "elsewhere")], ids=["attempt", "cluster"])
def test_an_attempt_never_seen_is_refused(kafka: str, database: str, unique: Unique, where: tuple[str, ...]) -> None:
    """With the command that shows which attempts there are; nothing is published."""
    job = unique("never")
    with opened(database) as store:
        store.write([verdict(job)])

    done = say(kafka, database, job, *where, "--label", "gpu_oom")

    assert 1 == done.exit_code
    assert "is not stored" in done.stderr
    assert f"exitsign attempts show {job}" in done.stderr
    assert [] == published(kafka, job)


def test_a_database_without_views_is_said(kafka: str, database: str) -> None:
    """With the command that makes them."""
    done = say(kafka, database, "job-1", "1", "--label", "gpu_oom")

    assert (1, True) == (done.exit_code, "exitsign db upgrade" in done.stderr)


def test_without_postgres_the_cluster_is_the_one_of_the_inputs(kafka: str, unique: Unique) -> None:
    """A scheduler's host may know Kafka only; the attempt is not checked then."""
    done = say(kafka, "", unique("blind"), "3", "--label", "gpu_oom")

    assert (0, True) == (done.exit_code, done.stdout.startswith("default/blind-")), done.output


def test_without_kafka_it_is_one_line() -> None:
    """It names the setting.  A process of its own: kafka-python leaves the sockets of its tries behind."""
    environ = {**os.environ, "EXITSIGN_KAFKA": "127.0.0.1:1", "EXITSIGN_POSTGRES": ""}
    command = [sys.executable, "-m", "services.cli", "feedback", "job-1", "1", "--label", "gpu_oom", "--by", "ada"]

    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (1, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr
    assert "Kafka at 127.0.0.1:1" in done.stderr
    assert "EXITSIGN_KAFKA" in done.stderr
