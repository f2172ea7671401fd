"""The readers that bench_stream.py compares; each runs in a process of its own and prints its measure.

Rule: time and CPU run from the first record to the last, and nothing is measured before it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

TOPIC = "job-logs"


class Meter:
    """Counts records until all were read, then prints the measure and ends the process."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._count, self._evidence = wanted, 0, 0
        self._begin = self._cpu = 0.0

    def begin(self) -> None:
        """The first record is here, and no work was done on it."""
        if not self._begin:
            self._begin, self._cpu = time.perf_counter(), _cpu_s()

    def add(self, count: int, evidence: int = 0) -> None:
        """So many more were worked on, and gave so much evidence."""
        self._count += count
        self._evidence += evidence
        if self._count >= self._wanted:
            seconds, cpu_s = time.perf_counter() - self._begin, _cpu_s() - self._cpu
            measure = {
                "records": self._count,
                "seconds": round(seconds, 3),
                "records_per_s": round(self._count / seconds),
                "cpu_s_per_million": round(cpu_s / self._count * 1e6, 2),
                "evidence": self._evidence,
            }
            print(json.dumps(measure), flush=True)
            os._exit(0)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _read_plain(options: argparse.Namespace) -> None:
    import regex

    patterns = [regex.compile(p) for s in packaged_matcher().catalog.active for p in s.patterns]

    def work(value: bytes) -> None:
        text = value.decode()
        for pattern in patterns:
            pattern.search(text)

    _run_plain(options, work)


def _run_plain(options: argparse.Namespace, work: Callable[[bytes], object]) -> None:
    """One event a line, with Faust's own transport and defaults."""
    import faust

    meter = Meter(options.records)
    app = faust.App(
        f"bench-{options.read}",
        broker=f"kafka://{options.kafka}",
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        store="memory://",
    )

    @app.agent(app.topic(TOPIC, value_serializer="raw"))
    async def agent(stream: Any) -> None:
        async for value in stream:
            meter.begin()
            work(value)
            meter.add(1)

    async def serve() -> None:
        await app.start()
        await asyncio.Event().wait()

    asyncio.run(serve())


def _read_ours(options: argparse.Namespace) -> None:
    from services import wire
    from services.formats import format_named
    from services.formats.base import Input
    from services.scanner import scan

    matcher, form, where = packaged_matcher(), format_named("raw"), Input(topic=TOPIC, format="raw")

    async def work(batch: Any) -> int:
        records = [wire.raw_record(batch.topic, batch.partition, record) for record in batch.records]
        found = await asyncio.to_thread(scan, records, form, where, matcher, 20)
        return len(found.evidence)

    _run_ours(options, work)


def _run_ours(options: argparse.Namespace, work: Callable[[Any], Awaitable[int]]) -> None:
    """One event a batch, with the agents' skeleton."""
    from services.worker import batches, make_app, run

    meter = Meter(options.records)
    app = make_app(f"bench-{options.read}", options.kafka)

    async def process(batch: Any) -> None:
        meter.begin()
        meter.add(len(batch.records), await work(batch))

    batches(app, [TOPIC], process)
    run(app)


async def _nothing(batch: Any) -> int:
    """What an idle reader does with a batch."""
    return 0


def _read_getmany(options: argparse.Namespace) -> None:
    from aiokafka import AIOKafkaConsumer

    async def read() -> None:
        meter = Meter(options.records)
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=options.kafka,
            auto_offset_reset="earliest",
            group_id="bench-getmany",
            max_poll_records=10_000,  # As ours.
        )
        await consumer.start()
        while True:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                meter.begin()
                meter.add(len(records))

    asyncio.run(read())


def packaged_matcher() -> Any:
    """A matcher over the catalog that ships."""
    from services.signature_files import PACKAGED, load_matcher

    return load_matcher(PACKAGED)


READ: dict[str, Callable[[argparse.Namespace], None]] = {
    "plain": _read_plain,
    "ours": _read_ours,
    "plain-idle": lambda options: _run_plain(options, lambda value: None),
    "ours-idle": lambda options: _run_ours(options, _nothing),
    "getmany": _read_getmany,
}
