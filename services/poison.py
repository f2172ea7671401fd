"""Dead letters: a record that can't be used goes aside with its reason, and too many of them stop the agent.

Rule: a dead letter carries where it came from (x-original-*) and why (x-exception-message, exitsign-reason, exitsign-stage) in headers.
Rule: value and headers are redacted; value, key and headers are bounded, so that the topic takes every dead letter.
Rule: past the limit the agent stops without acknowledging: a bad deploy must not drain a topic into the dead letters.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from classifiers.redaction import redact
from services import topics
from services.formats.base import RawRecord
from services.produce import Message

MAX_VALUE = 1024 * 1024
MAX_KEY = MAX_HEADERS = 64 * 1024


class TooMuchPoison(RuntimeError):
    """The limit of dead letters of one partition was passed; str() says where and what to do."""


def dead_letter(record: RawRecord, stage: str, reason: str, detail: str) -> Message:
    """The message for the poison topic."""
    headers = [
        *_kept_headers(record),
        ("x-original-topic", record.topic.encode()),
        ("x-original-partition", str(record.partition).encode()),
        ("x-original-offset", str(record.offset).encode()),
        ("x-original-timestamp", str(int(record.timestamp * 1000)).encode()),
        ("x-exception-message", redact(detail)[:500].encode("utf-8", "replace")),
        ("exitsign-reason", reason.encode()),
        ("exitsign-stage", stage.encode()),
    ]
    value = None if record.value is None else _redacted(record.value[:MAX_VALUE])
    key = record.key if record.key is None or len(record.key) <= MAX_KEY else None
    return Message(topics.POISON, key, value, headers)


def _kept_headers(record: RawRecord) -> Iterator[tuple[str, bytes]]:
    """The record's own headers, without secrets, as far as they fit."""
    size = 0
    for name, value in record.headers:
        size += len(name) + len(value or b"")
        if size <= MAX_HEADERS and not name.startswith("x-original-"):
            # NB: redacted together with its name, which is what tells a secret.
            prefix = f"{name}=".encode()
            yield name, _redacted(prefix + (value or b"")).removeprefix(prefix)


def _redacted(value: bytes) -> bytes:
    return redact(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


@dataclass
class PoisonLimit:
    """Counts dead letters of each partition within a window of append time."""

    limit: int
    window_s: float
    _seen: dict[tuple[str, int], deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def note(self, record: RawRecord, reason: str) -> None:
        """Count one.  Raises TooMuchPoison past the limit."""
        seen = self._seen[(record.topic, record.partition)]
        seen.append(record.timestamp)
        while seen and seen[0] < record.timestamp - self.window_s:
            seen.popleft()
        if len(seen) > self.limit:
            msg = (
                f"{record.topic}/{record.partition}: more than {self.limit} dead letters within {self.window_s:.0f} s "
                f"(last: {reason}, offset {record.offset}); nothing past it was acknowledged. "
                f"Check the topic's format in EXITSIGN_INPUTS, or raise EXITSIGN_POISON_LIMIT."
            )
            raise TooMuchPoison(msg)
