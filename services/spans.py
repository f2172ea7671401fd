"""The books of a partition: what was handed out, what is done, what may be committed.

Rule: nothing at or past the first offset of a batch that is not done may be committed, whatever became of the batch.
Rule: the books of a partition end with its assignment; a batch that outlives it can't acknowledge anything.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from faust.types import TP


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive records of one partition.

    `records` (never empty) have key, value, headers, timestamp (ms), timestamp_type (1: the broker's append time) and
    offset.  Acknowledging the batch acknowledges [first_offset, next_offset): gaps within or behind the records, left
    by transactions and compaction, belong to it.  `size` is the sum of the values' bytes.
    """

    topic: str
    partition: int
    records: Sequence[Any]
    first_offset: int
    next_offset: int
    size: int


@dataclass(slots=True, eq=False)
class Span:
    """The books of one partition; `state` is aiokafka's state of it, one object an assignment."""

    state: Any
    read_to: int
    committed: int | None = None
    done_time: float | None = None
    open: deque[Batch] = field(default_factory=deque)
    done: set[Batch] = field(default_factory=set)

    @property
    def safe(self) -> int:
        """Up to which offset everything is done."""
        return self.open[0].first_offset if self.open else self.read_to


class Spans:
    """The books of all partitions: what was handed out, what is done, and what may be committed; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[TP, Span] = {}

    def fetched(self, tp: TP, state: Any, position: int, records: Sequence[Any] = ()) -> Batch | None:
        """Enter a fetch that moved the position; returns its batch, or None where it held no records."""
        begin = records[0].offset if records else position
        with self._lock:
            span = self._spans.get(tp)
            if span is None or span.state is not state or begin < span.read_to:
                span = self._spans[tp] = Span(state, begin)
            span.read_to = position
            if not records:
                return None
            size = sum([max(0, r.serialized_value_size) for r in records])
            batch = Batch(tp.topic, tp.partition, records, begin, position, size)
            span.open.append(batch)
        return batch

    def finish(self, batch: Batch) -> bool:
        """Mark a batch as done; False where its partition was taken away meanwhile."""
        with self._lock:
            span = self._spans.get(TP(batch.topic, batch.partition))
            if span is None or batch not in span.open:
                return False
            span.done.add(batch)
            while span.open and span.open[0] in span.done:
                oldest = span.open.popleft()
                span.done.discard(oldest)
                span.done_time = oldest.records[-1].timestamp / 1000
        return True

    def holds(self, batch: Batch) -> bool:
        """True while the batch can still be acknowledged."""
        with self._lock:
            span = self._spans.get(TP(batch.topic, batch.partition))
            return span is not None and batch in span.open

    def forget(self, tps: Iterable[TP]) -> None:
        """Close the books of partitions that were taken away."""
        with self._lock:
            for tp in tps:
                self._spans.pop(tp, None)

    def partitions(self) -> set[TP]:
        """The partitions with open books."""
        with self._lock:
            return set(self._spans)

    def get(self, tp: TP) -> Span | None:
        """The books of one partition, to read."""
        return self._spans.get(tp)

    def committable(self) -> dict[TP, tuple[Span, int]]:
        """The partitions whose safe offset is not the one committed last."""
        with self._lock:
            return {tp: (span, span.safe) for tp, span in self._spans.items() if span.safe != span.committed}

    def load(self) -> tuple[int, int]:
        """How many records and bytes are handed out."""
        with self._lock:
            open_batches = [batch for span in self._spans.values() for batch in span.open]
        return sum(len(b.records) for b in open_batches), sum(b.size for b in open_batches)
