"""The recorder: verdicts, advice, outcomes and feedback into Postgres, in batches.

Rule: it waits for Postgres as long as it takes and holds its offsets; advice never waits for it.
Rule: a record that Postgres can never take becomes a dead letter; the rest of its batch lands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from classifiers.records import Advice, Feedback, Outcome, Verdict
from services import metrics, topics, wire
from services.formats.base import RawRecord
from services.poison import PoisonLimit, dead_letter
from services.store import Store, StoreRejected, StoreUnavailable

if TYPE_CHECKING:
    from services.produce import Producer
    from services.settings import Settings
    from services.transport import Batch

AGENT = "recorder"
MAX_PAUSE_S = 10.0
Row = Verdict | Advice | Outcome | Feedback
log = structlog.get_logger()

DECODERS: dict[str, Callable[[bytes], Row]] = {
    topics.VERDICTS: wire.verdict,
    topics.ADVICE: wire.advice,
    topics.OUTCOMES: wire.outcome,
    topics.FEEDBACK: wire.feedback,
}


class Recorder:
    """Writes batches of our own output topics to the store."""

    topics = tuple(DECODERS)

    def __init__(self, settings: Settings, store: Store, producer: Producer, alive: Callable[[], None]) -> None:
        self._store, self._producer, self._alive = store, producer, alive
        self._limit = PoisonLimit(settings.poison_limit, settings.poison_window_s)

    async def process(self, batch: Batch) -> None:
        """Write one batch.  Returns when it is in Postgres (or aside); raises TooMuchPoison."""
        metrics.RECORDS.labels(AGENT, batch.topic).inc(len(batch.records))
        rows: dict[int, tuple[RawRecord, Row]] = {}
        for record in (wire.raw_record(batch.topic, batch.partition, r) for r in batch.records):
            if record.value is None:
                continue
            try:
                row = DECODERS[batch.topic](record.value)
            except wire.Unknown as error:
                await self._aside(record, "unreadable", str(error))
            else:
                rows[id(row)] = (record, row)
        await self._write(rows)

    async def _write(self, rows: dict[int, tuple[RawRecord, Row]]) -> None:
        pause_s = 0.2
        while rows:
            try:
                await asyncio.to_thread(self._store.write, [row for _, row in rows.values()])
            except StoreRejected as rejected:
                record, _ = rows.pop(id(rejected.record))
                await self._aside(record, "store_rejected", rejected.reason)
            except StoreUnavailable as error:
                metrics.STORE_OUTAGES.inc()
                self._alive()  # Waiting is meant: the watchdog must not end it.
                log.warning("waiting for Postgres; offsets are held", problem=str(error), next_try_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, MAX_PAUSE_S)
            else:
                for _, row in rows.values():
                    metrics.ROWS.labels(type(row).__name__.lower()).inc()
                return

    async def _aside(self, record: RawRecord, reason: str, detail: str) -> None:
        metrics.POISON.labels(AGENT, record.topic, reason).inc()
        log.error("dead letter", topic=record.topic, partition=record.partition, offset=record.offset, reason=reason)
        await self._producer.send_all([dead_letter(record, AGENT, reason, detail)])
        self._limit.note(record, reason)
