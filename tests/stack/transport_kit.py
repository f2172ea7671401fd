"""Builders for the tests of the transport: topics, records, workers as processes, and what a group has committed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

WORKER = Path(__file__).with_name("transport_worker.py")
ROOT = Path(__file__).parents[2]


async def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    append_time = {"message.timestamp.type": "LogAppendTime"}
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs={**append_time, **config})])
    finally:
        await admin.close()
    return topic


async def fill(bootstrap: str, topic: str, values: list[bytes | None], partition: int = 0, **options: Any) -> None:
    """Append records with null keys."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
    await producer.start()
    try:
        futures = [await producer.send(topic, value, partition=partition) for value in values]
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


async def fill_fast(bootstrap: str, topic: str, value: bytes | None, count: int, partitions: int = 1) -> None:
    """Append many equal records, half a million a second or so."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=1_000_000, acks=1)
    await producer.start()
    futures: list[asyncio.Future[Any]] = []
    try:
        number = 0
        while count > 0:
            batch = producer.create_batch()
            while count > 0 and batch.append(key=None, value=value, timestamp=None) is not None:
                count -= 1
            futures.append(await producer.send_batch(batch, topic, partition=number % partitions))
            number += 1
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


async def ends(bootstrap: str, topic: str, partitions: int = 1) -> dict[int, int]:
    """{partition: end of the log}."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        found = await consumer.end_offsets([TopicPartition(topic, p) for p in range(partitions)])
    finally:
        await consumer.stop()
    return {tp.partition: offset for tp, offset in found.items()}


async def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """{partition: committed offset}, where there is one."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(group)
    except KafkaError:  # The first group of a broker waits for its coordinator.
        return {}
    finally:
        await admin.close()
    return {tp.partition: o.offset for tp, o in found.items() if tp.topic == topic and o.offset >= 0}


async def wait_committed(bootstrap: str, group: str, topic: str, partitions: int = 1, limit_s: float = 20.0) -> None:
    """Wait until the group has committed the end of every partition."""
    want = await ends(bootstrap, topic, partitions)
    deadline = time.monotonic() + limit_s
    while (have := await committed(bootstrap, group, topic)) != want:
        assert time.monotonic() < deadline, f"committed {have}, the log ends at {want}"
        await asyncio.sleep(0.2)


class Worker:
    """A worker process and what it wrote."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.out = folder / f"{time.monotonic_ns()}.jsonl"
        self._log = (folder / "worker.log").open("a")
        told = json.dumps({"out": str(self.out), **options})
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), told], cwd=folder, env=environment, stdout=self._log, stderr=self._log
        )

    def lines(self) -> list[dict[str, Any]]:
        text = self.out.read_text() if self.out.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def batches(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if "offsets" in line]

    def seen(self) -> set[tuple[int, int]]:
        """{(partition, offset)} of all that was made durable."""
        return {(line["batch"][0], offset) for line in self.batches() for offset in line["offsets"]}

    def progress(self) -> dict[str, Any]:
        told: list[dict[str, Any]] = [line["progress"] for line in self.lines() if line.get("progress")]
        return told[-1] if told else {}

    async def until(self, there: Callable[[dict[str, Any]], object], limit_s: float = 20.0) -> dict[str, Any]:
        """Wait for a line; returns it."""
        deadline = time.monotonic() + limit_s
        while not (found := [line for line in self.lines() if there(line)]):
            assert self.process.poll() is None, f"the worker ended with {self.process.returncode}: {self.lines()}"
            assert time.monotonic() < deadline, f"not within {limit_s} s: {self.lines()}"
            await asyncio.sleep(0.05)
        return found[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, limit_s: float = 20.0) -> int:
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)

    def close(self) -> None:
        self.kill()
        self._log.close()


@contextmanager
def workers() -> Iterator[Callable[..., Worker]]:
    """Gives a function that starts workers; ends them all."""
    started: list[Worker] = []

    with tempfile.TemporaryDirectory() as folder:

        def start(**options: Any) -> Worker:
            started.append(Worker(Path(folder), **options))
            return started[-1]

        try:
            yield start
        finally:
            for worker in started:
                worker.close()


def numbers(count: int, begin: int = 0) -> list[bytes | None]:
    """Values that tell themselves apart."""
    return [str(n).encode() for n in range(begin, begin + count)]
