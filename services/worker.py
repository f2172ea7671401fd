"""The skeleton of every agent: its Faust app and the loop that never loses a batch.

`make_app`, then `batches` with the agent's own `process`, then `run`.

Rule: a batch is acknowledged only after `process` returned; a failure is tried again in place, for ever.
Rule: a batch whose partition moved to another worker is left to that one.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import faust
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from services.life import EX_FATAL, Life
from services.life import run as run
from services.progress import Progress
from services.transport import Batch, BatchSchema, Consumer, Transport

MAX_PAUSE_S = 10.0
Process = Callable[[Batch], Awaitable[None]]
log = structlog.get_logger()


class App(faust.App):
    """A Faust app with our transport; make it by `make_app`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bootstrap = ""
        self.life = Life()
        self.progress = Progress(self)


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
        datadir=str(Path(tempfile.gettempdir()) / "exitsign-faust"),  # Faust insists on one; nothing is kept there.
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        autodiscover=False,
        worker_redirect_stdouts=False,
    )
    app.transport = Transport([*app.conf.broker_consumer], app)
    app.transport.max_bytes = max_bytes
    app.bootstrap = bootstrap
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

    @app.agent(channel, name=f"{app.conf.id}.batches")
    async def agent(stream: Any) -> None:
        async for batch in stream:
            if app.life.stopping:
                await asyncio.Event().wait()
            if _consumer(app).spans.holds(batch):
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
    while _consumer(app).spans.holds(batch):
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
            _consumer(app).finish(batch)
            return


def _consumer(app: App) -> Consumer:
    return cast(Consumer, app.consumer)


async def read_partition(bootstrap: str, topic: str, partition: int) -> AsyncIterator[Any]:
    """The records of a partition from its beginning to its present end, outside of any group: compacted state.

    Raises aiokafka's KafkaError where the brokers can't be reached.
    """
    place = TopicPartition(topic, partition)
    # NB: the beginning by auto_offset_reset: seek_to_beginning races with the reset to the end, which is the default.
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    try:
        await consumer.start()
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        while await consumer.position(place) < end:
            for record in (await consumer.getmany(place, timeout_ms=500)).get(place, ()):
                if record.offset < end:
                    yield record
    finally:
        await consumer.stop()
