"""Our own records <-> bytes: JSON with a `kind`, and keys.

Rule: a reader skips what it does not know (a newer writer's kind or enum value) and says so: Unknown, never a guess.
Rule: fields are only ever added, with a default.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from classifiers.attempt import JobState
from classifiers.records import Advice, Context, Evidence, Feedback, JobEvent, Outcome, Tick, Verdict
from services.formats.base import RawRecord

T = TypeVar("T")
ADVICE_TYPE = "exitsign.advice.v1"
ADVICE_SOURCE = "exitsign/attributor"

_ENCODER = msgspec.json.Encoder()
_JOB_RECORD: msgspec.json.Decoder[JobEvent | Evidence | Context | Tick] = msgspec.json.Decoder(
    JobEvent | Evidence | Context | Tick
)
_VERDICT = msgspec.json.Decoder(Verdict)
_ADVICE = msgspec.json.Decoder(Advice)
_OUTCOME = msgspec.json.Decoder(Outcome)
_FEEDBACK = msgspec.json.Decoder(Feedback)
_STATE = msgspec.json.Decoder(JobState)


class Unknown(ValueError):
    """Bytes that are not a record of this version."""


def encode(record: object) -> bytes:
    """The JSON of one record."""
    return _ENCODER.encode(record)


def job_record(value: bytes) -> JobEvent | Evidence | Context | Tick:
    """A record of the evidence topic.  Raises Unknown."""
    return _decoded(_JOB_RECORD, value)


def verdict(value: bytes) -> Verdict:
    """A record of the verdicts topic.  Raises Unknown."""
    return _decoded(_VERDICT, value)


def advice(value: bytes) -> Advice:
    """A record of the advice topic.  Raises Unknown."""
    return _decoded(_ADVICE, value)


def outcome(value: bytes) -> Outcome:
    """A record of the outcomes topic.  Raises Unknown."""
    return _decoded(_OUTCOME, value)


def feedback(value: bytes) -> Feedback:
    """A record of the feedback topic.  Raises Unknown."""
    return _decoded(_FEEDBACK, value)


def job_state(value: bytes) -> JobState:
    """A record of the attempts topic.  Raises Unknown."""
    return _decoded(_STATE, value)


def job_key(cluster: str, job_id: str) -> bytes:
    """The key of everything that belongs to one job."""
    return f"{cluster}/{job_id}".encode()


def attempt_key(cluster: str, job_id: str, attempt: int) -> bytes:
    """The key of a verdict."""
    return f"{cluster}/{job_id}/{attempt}".encode()


def advice_headers(advice: Advice) -> list[tuple[str, bytes]]:
    """CloudEvents 1.0, Kafka binding, binary mode."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": advice.advice_id,
        "ce_source": ADVICE_SOURCE,
        "ce_type": ADVICE_TYPE,
        "ce_time": advice.issued_at,
        "ce_subject": f"{advice.cluster}/{advice.job_id}/{advice.attempt}",
        "content-type": "application/json",
    }
    return [(name, value.encode()) for name, value in headers.items()]


def raw_record(topic: str, partition: int, record: Any) -> RawRecord:
    """A client library's record (offset, timestamp in ms, key, value, headers) as formats and dead letters take it."""
    return RawRecord(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp / 1000,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )


def _decoded(decoder: msgspec.json.Decoder[T], value: bytes) -> T:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unknown(str(error)) from None
