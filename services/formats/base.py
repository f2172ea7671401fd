"""What every producer's format shares: the raw record, one row of the inputs table, poison, and the protocol.

Rule: a format raises Poison or returns records; no other exception leaves `read`, whatever the bytes are.
Rule: a Poison's detail names fields and positions; of the payload it quotes at most QUOTED characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from classifiers.records import JobEvent, LogLine, NodeEvent, Stream

QUOTED = 40

Record = LogLine | JobEvent | NodeEvent

Reason = Literal[
    "bad_json",  # Not JSON, or nested too deeply.
    "missing_field",  # A field that the format can't do without is absent.
    "no_identity",  # A job's line that names no job.
    "too_large",  # The value, or one name in it, is over its limit.
    "too_many",  # One record holds more lines or nodes than the limit.
    "unknown_value",  # A word outside a closed list.
    "wrong_type",  # A field holds something that it can't hold.
]


class Poison(Exception):
    """A record that no reader can use; `reason` goes into metrics and headers, `detail` is a sentence for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail


class RawRecord(msgspec.Struct, frozen=True):
    """One Kafka record as fetched; `timestamp` is the append time in seconds."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Input:
    """One row of the inputs table: which format a topic has, and what stands where a record does not say.

    `fields` maps a field of ours to the producer's name for it (README.md lists them for each format).
    """

    topic: str
    format: str
    cluster: str = "default"
    scheduler: str = "unknown"
    fields: Mapping[str, str] = field(default_factory=dict)
    stream: Stream = Stream.STDERR

    def __hash__(self) -> int:
        # Every read looks something up by its Input, and a mapping has no hash of its own.
        return hash(self.topic)


class Format(Protocol):
    """One producer's wire format."""

    @property
    def name(self) -> str:
        """What settings call it."""
        ...

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """The records in one Kafka record, none where it knowingly says nothing.  Raises Poison."""
        ...


@lru_cache(maxsize=1024)
def check_fields(where: Input, known: tuple[str, ...]) -> None:
    """Raise ValueError where a row maps a field that its format does not have: the settings are wrong, not a record."""
    for name in where.fields:
        if name not in known:
            names = ", ".join(known) or "none"
            raise ValueError(
                f"input {where.topic!r}: format {where.format!r} has no field {name!r} to map; it has: {names}"
            )


def quoted(value: object) -> str:
    """A value as a Poison's detail may show it."""
    text = str(value)
    return repr(text if len(text) <= QUOTED else text[:QUOTED] + "...")
