"""The batching transport: a Faust agent gets what was fetched from one partition as one `Batch`.

Faust's cost is per event, so an event is a batch.  Its acknowledgements are by message and lose records (ECOSYSTEM:
an exception acknowledges, noack() is off by one), so topics are read with `acks=False`, which switches them off, and
`Spans` keeps the books instead.

Rule: a fetched batch is entered in the books in the step that moves the fetch position, in the consumer's thread.
Rule: only what the books call safe is committed, and only in the assignment that it was read in.
Rule: while as much is handed out as the limits allow, nothing is fetched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import faust
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from services.spans import Batch as Batch
from services.spans import Spans

FETCH_WAIT_MS = 200  # Faust's 1500 is the time that a busy partition waits for an idle one of the same broker.
COMMIT_LIMIT_S = 8.0
HANDOVER_S = 5.0


class BatchSchema(faust.Schema):  # type: ignore[type-arg]
    """Hands a batch to the agent as it is."""

    def loads_key(self, app: Any, message: Any, **options: Any) -> None:
        """A batch has no key."""

    def loads_value(self, app: Any, message: Any, **options: Any) -> Batch:
        batch: Batch = message.value
        return batch


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that owns the Kafka client; fetches and commits run here."""

    consumer: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.polled_at: dict[TP, float] = {}

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        consumer._isolation_level = "read_committed"  # What a producer took back never happened.
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        fetcher = self._ensure_consumer()._fetcher
        fetcher._proc_fetch_request = self._timed(fetcher._proc_fetch_request)

    def _timed(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        """Note when a fetch was sent: the time up to which its answer speaks; its arrival may be much later."""

        async def timed(assignment: Any, node_id: int, request: Any) -> Any:
            sent = time.time()
            answer = await fetch(assignment, node_id, request)
            asked = [TP(topic, partition) for topic, partitions in request.topics for partition, *_ in partitions]
            for tp in asked if assignment.active else ():
                if (assignment.state_value(tp).timestamp or 0) >= int(sent * 1000):
                    self.polled_at[tp] = sent
            return answer

        return timed

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        fetched = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        # NB: no await from here on, so that position and books move together.
        assignment = _assignment(consumer)
        batches: dict[TP, Batch] = {}
        for place in assignment.tps if assignment else ():
            state, tp = assignment.state_value(place), TP(*place)
            if state.has_valid_position:
                batch = self.consumer.spans.fetched(tp, state, state.position, fetched.get(place, ()))
                if batch:
                    batches[tp] = batch
        return batches

    async def commit_done(self) -> bool:
        """Commit what is done, for partitions that are still ours; a failure is tried again at the next interval."""
        consumer = self._ensure_consumer()
        assignment = _assignment(consumer)
        ready = {
            tp: (span, offset)
            for tp, (span, offset) in self.consumer.spans.committable().items()
            if assignment and tp in assignment.tps and assignment.state_value(TopicPartition(*tp)) is span.state
        }
        if not ready:
            return False
        try:
            offsets = {TopicPartition(*tp): offset for tp, (_, offset) in ready.items()}
            await asyncio.wait_for(consumer.commit(offsets), COMMIT_LIMIT_S)
        except (CommitFailedError, IllegalStateError) as error:
            self.log.info("not committed, partitions are moving, records will be repeated: %r", error)
            return False
        except (KafkaError, TimeoutError) as error:
            self.log.warning("not committed, will be tried again: %r", error)
            return False
        for span, offset in ready.values():
            span.committed = offset
        return True

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Go back to what is committed; where nothing ever was, to what is not done (aiokafka would stay put)."""
        consumer = self._ensure_consumer()
        if not _assignment(consumer):
            return {}
        committed: dict[TP, int] = dict(await super().seek_to_committed())
        assignment = _assignment(consumer)
        for tp in [tp for tp, offset in committed.items() if not offset]:
            span = self.consumer.spans.get(TP(*tp))
            if span and assignment and tp in assignment.tps and assignment.state_value(tp) is span.state:
                consumer.seek(tp, span.safe)
        return committed


def _assignment(consumer: Any) -> Any:
    """The present assignment, or None while partitions are moving."""
    subscription = consumer._subscription.subscription
    assignment = subscription.assignment if subscription else None
    return assignment if assignment and assignment.active else None


class Consumer(driver.Consumer):
    """Yields batches and commits by `Spans`."""

    app: Any
    transport: Any
    _thread: ConsumerThread

    def __init__(self, *args: Any, **options: Any) -> None:
        self.spans = Spans()
        self._freed = asyncio.Event()
        super().__init__(*args, **options)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def finish(self, batch: Batch) -> bool:
        """Acknowledge a batch: all that it caused is durable.  False where its partition has moved."""
        held = self.spans.finish(batch)
        self._freed.set()
        return held

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """What the fetcher feeds to agents: at most one message a partition, each holding a batch."""
        if not await self._has_room(timeout):
            return
        batches, active = await self._wait_next_records(timeout)
        generation = self.app.consumer_generation_id
        if not self.flow_active:
            return  # A rebalance or the end: what was fetched is not done, so it will be read again.
        for tp, batch in dict[TP, Any](batches or {}).items():
            if self.should_stop or not self.flow_active or generation != self.app.consumer_generation_id:
                return
            if active is None or tp in active:
                self._read_offset[tp] = None  # NB: or a topic made anew is skipped up to its old committed offset.
                yield tp, self._to_message(tp, batch)

    async def _has_room(self, timeout: float) -> bool:
        records, size = self.spans.load()
        if records < self.app.conf.broker_max_poll_records and size < self.transport.max_bytes:
            return True
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), min(timeout, 0.2))
        return False

    def _to_message(self, tp: TP, batch: Batch) -> ConsumerMessage:
        last = batch.records[-1]
        make: Any = ConsumerMessage
        message: ConsumerMessage = make(
            *(tp.topic, tp.partition, batch.first_offset, last.timestamp / 1000, last.timestamp_type, None),
            *(None, batch, None, 0, batch.size, tp),
            generation_id=self.app.consumer_generation_id,
        )
        return message

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        done: bool = await self._thread.call_thread(self._thread.commit_done)
        return done

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Let the batch in work end, within a limit, and commit it, so that little is repeated elsewhere."""
        self.stop_flow()
        await self.app.life.idle(HANDOVER_S)
        await self.force_commit()
        self.spans.forget(revoked)
        self.app.life.revoked(revoked)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self.app.life.assigned(assigned)
        await super().on_partitions_assigned(assigned, generation_id)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's own watchdog only logs, and counts messages; worker.py has ours."""


class Transport(driver.Transport):
    """Give it to `app.transport`; `max_bytes` is how much may be handed out before fetching waits."""

    Consumer = Consumer
    max_bytes: int = 64 * 1024 * 1024
