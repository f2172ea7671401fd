"""How an agent lives and dies: its Faust app, the loop that never loses a batch, the end by signal, the watchdog.

Rule: a batch is acknowledged only after `process` returned; a failure is tried again in place, for ever.
Rule: nothing undone is acknowledged at the end: the process leaves by os._exit, and the batch is read again.
Rule: a worker that lags and shows no sign of life ends itself; so does one that Faust or Kafka gave up on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NoReturn

import faust
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from faust.types import TP

from services.transport import Batch, BatchSchema, Transport

EX_FATAL, EX_STUCK, EX_UNDONE = 65, 70, 75  # sysexits.h: data error, software, temporary failure
MAX_PAUSE_S = 10.0
Process = Callable[[Batch], Awaitable[None]]
Hook = Callable[[frozenset[TP]], None]
log = structlog.get_logger()


class Life:
    """What one worker is at: the batch in work, the wish to stop, the last sign of life."""

    def __init__(self) -> None:
        self.busy: Batch | None = None
        self.stopping = False
        self.ending: asyncio.Event | None = None
        self.status = 0
        self.touched_at = time.monotonic()
        self.on_assigned: list[Hook] = []
        self.on_revoked: list[Hook] = []

    def touch(self) -> None:
        """A sign of life for the watchdog: long waits that are meant, as for Postgres, give one now and then."""
        self.touched_at = time.monotonic()

    def end(self, status: int = 0) -> None:
        """Ask the worker to stop with this exit status; from the event loop."""
        self.stopping, self.status = True, self.status or status
        if self.ending:
            self.ending.set()

    async def idle(self, limit_s: float) -> bool:
        """Wait until no batch is in work; False where the limit came first."""
        end = time.monotonic() + limit_s
        while self.busy and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return self.busy is None

    def assigned(self, tps: set[TP]) -> None:
        """Called before the first batch of the partitions."""
        self.touch()
        log.info("partitions assigned", partitions=_names(tps))
        for hook in self.on_assigned:
            hook(frozenset(tps))

    def revoked(self, tps: set[TP]) -> None:
        """Called when no batch of the partitions can be acknowledged any more."""
        log.info("partitions revoked", partitions=_names(tps))
        for hook in self.on_revoked:
            hook(frozenset(tps))


class App(faust.App):  # type: ignore[misc]
    """A Faust app with our transport; make it by `make_app`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.life = Life()
        self.progress = Progress(self)


class Progress:
    """How far each partition is; every method may be called from any thread and answers None for what it can't know."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._scanned: dict[TP, float] = {}

    def partitions(self) -> set[TP]:
        """The partitions that this worker reads."""
        consumer = self._app._consumer
        return consumer.spans.partitions() if consumer else set()

    def acked(self, tp: TP) -> int | None:
        """The offset up to which everything is acknowledged."""
        span = self._span(tp)
        return span.safe if span else None

    def highwater(self, tp: TP) -> int | None:
        """The end of the partition at the last poll."""
        span = self._span(tp)
        return span.state.highwater if span else None

    def last_poll(self, tp: TP) -> float | None:
        """When the last answered poll was sent (s): what the broker had appended by then is below `highwater`."""
        polled_at: float | None = self._app.consumer._thread.polled_at.get(tp) if self._span(tp) else None
        return polled_at

    def lag(self, tp: TP) -> int | None:
        """Records between what is acknowledged and what can be read (an open transaction can't)."""
        span = self._span(tp)
        end = (span.state.lso if span.state.lso is not None else span.state.highwater) if span else None
        return max(0, end - span.safe) if span and end is not None else None

    def scanned_to(self, tp: TP) -> float | None:
        """Append time (s) up to which everything of the partition is acknowledged; never goes back while it is ours.

        Where brokers replicate, a record becomes readable some time after its append time: less than the grace.
        """
        polled_at = self.last_poll(tp)  # NB: before the end is read, or a newer end would be taken for scanned.
        span = self._span(tp)
        if span is None:
            self._scanned.pop(tp, None)
            return None
        at_end = span.state.highwater is not None and span.safe >= span.state.highwater
        scanned = polled_at if at_end else span.done_time
        if scanned is not None:
            self._scanned[tp] = max(scanned, self._scanned.get(tp, 0.0))
        return self._scanned.get(tp)

    def _span(self, tp: TP) -> Any:
        consumer = self._app._consumer
        return consumer.spans.get(tp) if consumer else None


def make_app(
    app_id: str,
    bootstrap: str,
    *,
    max_records: int = 10_000,
    max_bytes: int = Transport.max_bytes,
    session_timeout_s: float = 15.0,
    commit_interval_s: float = 1.0,
) -> App:
    """The Faust app of one agent: consumer group `app_id`, batching transport, no web, no tables, no leader topic.

    `max_records` bounds a batch; up to twice as many, or `max_bytes` and one fetch, are in memory.
    """
    app = App(
        app_id,
        broker=[f"kafka://{host.strip()}" for host in bootstrap.split(",")],
        broker_max_poll_records=max_records,
        broker_session_timeout=session_timeout_s,
        broker_heartbeat_interval=session_timeout_s / 5,
        broker_request_timeout=40.0,
        broker_commit_interval=commit_interval_s,
        broker_commit_every=None,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=4 * 1024 * 1024,
        producer_acks=-1,
        stream_wait_empty=False,
        store="memory://",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        autodiscover=False,
        worker_redirect_stdouts=False,
    )
    app.transport = Transport([*app.conf.broker_consumer], app)
    app.transport.max_bytes = max_bytes
    return app


def batches(
    app: App,
    topics: Sequence[str],
    process: Process,
    *,
    on_retry: Callable[[Batch, Exception], None] | None = None,
    fatal: tuple[type[Exception], ...] = (),
) -> None:
    """Register the app's agent: each batch of the topics goes to `process`, which returns when its outputs are durable.

    What `process` raises is logged, told to `on_retry`, and tried again; a `fatal` exception ends the worker (status 65).
    """
    app.life.topics = tuple(topics)
    channel = app.topic(*topics, schema=BatchSchema(), acks=False)

    @app.agent(channel, name=f"{app.conf.id}.batches")  # type: ignore[misc]
    async def agent(stream: Any) -> None:
        async for batch in stream:
            if app.life.stopping:
                await asyncio.Event().wait()
            if app.consumer.spans.holds(batch):
                app.life.busy = batch
                try:
                    await _work(app, batch, process, on_retry, fatal)
                finally:
                    app.life.busy = None


async def _work(
    app: App,
    batch: Batch,
    process: Process,
    on_retry: Callable[[Batch, Exception], None] | None,
    fatal: tuple[type[Exception], ...],
) -> None:
    pause_s = 0.1
    while app.consumer.spans.holds(batch):
        app.life.touch()
        where = {"topic": batch.topic, "partition": batch.partition, "offset": batch.first_offset}
        try:
            await process(batch)
        except fatal as error:
            log.critical("the agent stops; nothing of this batch is acknowledged", **where, problem=str(error))
            app.life.end(EX_FATAL)
            await asyncio.Event().wait()
        except Exception as error:
            log.exception("batch failed and is tried again", **where, problem=repr(error), next_try_s=pause_s)
            if on_retry:
                on_retry(batch, error)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)
        else:
            app.life.touch()
            app.consumer.finish(batch)
            return
