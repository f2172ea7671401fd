"""`exitsign feedback`: what a person says the root cause of an attempt was."""

from __future__ import annotations

import logging
import time
from difflib import get_close_matches
from typing import Annotated

import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from classifiers.records import Feedback, deterministic_id
from classifiers.redaction import redact
from services import topics, wire
from services.cli.common import OUT, fail, one_line_errors, settings
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder
from services.queries import Unreachable, attempts_of
from services.settings import Settings

TIMEOUT_S = 10


def run(
    job: Annotated[str, typer.Argument(help="The scheduler's job id.")],
    attempt: Annotated[int, typer.Argument(min=1, help="Number of the attempt, from 1.")],
    label: Annotated[str, typer.Option(help="The root cause: a label of exit_spec.yaml.")],
    by: Annotated[str, typer.Option(help="Who says so.")],
    note: Annotated[str, typer.Option(help="Why, in a sentence.")] = "",
    cluster: Annotated[str | None, typer.Option(help="The job's cluster, where several have a job of that id.")] = None,
    folder: Folder = None,
) -> None:
    """Say what the root cause of an attempt was; it is stored beside the verdict and never changes it.

    Saying it again with the same label and name replaces the note.
    Example: exitsign feedback 81234 2 --label storage_failure --by ada --note "the array lost a disk"
    """
    chosen = settings()
    _check_label(label, folder)
    if not by.strip():
        fail("--by needs a name")
    where = _cluster_of(chosen, job, attempt, cluster)
    name = deterministic_id("feedback", where, job, attempt, by.strip(), label)
    said = Feedback(
        feedback_id=name, cluster=where, job_id=job, attempt=attempt, label=label, by=by.strip(), note=redact(note),
        time=time.time(),
    )  # fmt: skip
    _publish(chosen.kafka, said)
    OUT.print(f"{where}/{job} attempt {attempt}: {label} by {said.by}", markup=False, soft_wrap=True)
    OUT.print(f"once the recorder has it, `exitsign attempts show {job}` shows it", markup=False, soft_wrap=True)


def _check_label(label: str, folder: Folder) -> None:
    with one_line_errors():
        labels = list(catalog_of(chosen_folder(folder)).spec.labels)
    if label not in labels:
        close = get_close_matches(label, labels, n=3)
        meant = f"did you mean {' or '.join(close)}?" if close else f"the labels are: {', '.join(labels)}"
        fail(f"label {label} is not in exit_spec.yaml; {meant}")


def _cluster_of(chosen: Settings, job: str, attempt: int, cluster: str | None) -> str:
    """The cluster of an attempt that is stored; without Postgres the one that is named, or the inputs' only one."""
    if not chosen.postgres:
        known = {cluster} if cluster else {row.cluster for row in chosen.inputs}
    else:
        try:
            rows = attempts_of(chosen.postgres, job)
        except Unreachable as error:
            fail(str(error), 1)
        known = {r["cluster"] for r in rows if r["attempt"] == attempt and cluster in (None, r["cluster"])}
        if not known:
            of = f" of cluster {cluster}" if cluster else ""
            fail(f"attempt {attempt} of job {job}{of} is not stored; see `exitsign attempts show {job}`", 1)
    if len(known) > 1:
        fail(f"job {job} may be of several clusters; name one: --cluster {'|'.join(sorted(known))}")
    return str(next(iter(known)))


def _publish(kafka: str, said: Feedback) -> None:
    """Send it and wait for the brokers; a failure ends the command with one line."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # It writes a line for every try.
    patience = {"bootstrap_timeout_ms": TIMEOUT_S * 1000, "max_block_ms": TIMEOUT_S * 1000}
    try:
        producer = KafkaProducer(bootstrap_servers=kafka.split(","), acks="all", **patience)
    except (KafkaError, OSError) as error:
        fail(f"Kafka at {kafka}: {error}; set EXITSIGN_KAFKA, or `exitsign stack up`", 1)
    try:
        key = wire.job_key(said.cluster, said.job_id)
        producer.send(topics.FEEDBACK, wire.encode(said), key=key).get(timeout=TIMEOUT_S)
    except (KafkaError, OSError) as error:
        fail(f"Kafka at {kafka} did not take it: {error!r}; is {topics.FEEDBACK} there? (`exitsign topics create`)", 1)
    finally:
        producer.close(timeout=1)
