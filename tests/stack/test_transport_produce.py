"""The producer and the reader of compacted state against a real broker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
from aiokafka.errors import KafkaError
from stack.transport_kit import create_topic, fill, numbers, wait_committed, workers

from services.produce import Message, MessageTooLarge, Producer, ProducerStopped
from services.stack.up import Stack
from services.worker import read_partition

# Kafka's own reference values (UtilsTest.testMurmur2), made positive as the Java client does.
MURMUR2 = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}


@pytest.fixture(name="topic")
def _topic(unique: Callable[[str], str]) -> str:
    return unique("produce")


async def all_of(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    return [(r.key, r.value) async for r in read_partition(bootstrap, topic, partition)]


async def test_send_all_returns_when_everything_is_there(bootstrap: str, topic: str) -> None:
    """What `send_all` returned from is in the topic, with keys, tombstones and headers, in order."""
    await create_topic(bootstrap, topic)
    producer = Producer(bootstrap)
    await producer.start()
    await producer.send_all(Message(topic, b"k", value, [("h", b"1")]) for value in numbers(3))
    await producer.send_all([Message(topic, b"k", None, partition=0)])
    found = [record async for record in read_partition(bootstrap, topic, 0)]
    await producer.stop()

    assert [(b"k", b"0"), (b"k", b"1"), (b"k", b"2"), (b"k", None)] == [(r.key, r.value) for r in found]
    assert (("h", b"1"),) == found[0].headers


async def test_keys_go_where_java_clients_send_them(bootstrap: str, topic: str) -> None:
    """The partition of a key is murmur2 of it, as in Kafka's own reference values."""
    await create_topic(bootstrap, topic, 7)
    producer = Producer(bootstrap)
    await producer.send_all(Message(topic, key, b"x") for key in MURMUR2)
    found = {key: p for p in range(7) for key, _ in await all_of(bootstrap, topic, p)}
    await producer.stop()

    assert {key: (number & 0x7FFFFFFF) % 7 for key, number in MURMUR2.items()} == found


async def test_a_message_that_its_topic_never_takes_is_named(bootstrap: str, topic: str) -> None:
    """A message over the topic's limit raises MessageTooLarge with the message, whether client or broker refuses it."""
    await create_topic(bootstrap, topic, **{"max.message.bytes": "10000"})
    noise = os.urandom(20_000)
    for limit in (1_000, 1_000_000):
        producer = Producer(bootstrap, max_request_size=limit)
        with pytest.raises(MessageTooLarge, match="20000 bytes is too large") as caught:
            await producer.send_all([Message(topic, None, b"small"), Message(topic, None, noise)])
        await producer.stop()

        assert caught.value.message.value == noise


async def test_a_stopped_producer_lets_go_of_what_waits(bootstrap: str, topic: str) -> None:
    """Messages for a topic that is not there wait, each try is told, and `stop` ends the wait."""
    tries: list[int] = []
    producer = Producer(bootstrap, request_timeout_ms=500, on_wait=lambda: tries.append(1))
    await producer.start()
    waiting = asyncio.ensure_future(producer.send_all([Message(topic, None, b"x")]))
    while not tries:
        await asyncio.sleep(0.05)

    assert not waiting.done()

    await producer.stop()
    with pytest.raises((ProducerStopped, KafkaError)):
        await asyncio.wait_for(waiting, 10)


async def test_an_empty_partition_has_no_records(bootstrap: str, topic: str) -> None:
    """Reading a partition that holds nothing ends at once."""
    await create_topic(bootstrap, topic)

    assert [] == await all_of(bootstrap, topic)


async def test_a_broker_that_is_killed_and_comes_back_loses_nothing(stack: Stack, topic: str) -> None:
    """Messages sent while the broker is dead arrive when it is back, and a worker reads on, without a restart."""
    bootstrap = stack.bootstrap
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(100))
    producer = Producer(bootstrap, request_timeout_ms=3_000)
    await producer.start()
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic)
        await wait_committed(bootstrap, topic, topic)
        stack.kafka.kill(0)
        waiting = asyncio.ensure_future(producer.send_all(Message(topic, None, v) for v in numbers(100, 100)))
        await asyncio.sleep(5)

        assert not waiting.done()

        await asyncio.to_thread(stack.kafka.restart, 0)
        await asyncio.wait_for(waiting, 40)
        await wait_committed(bootstrap, topic, topic, limit_s=40)
        await producer.stop()

        values = {value for line in worker.batches() for value in line["values"]}
        assert {str(n) for n in range(200)} == values
        assert worker.process.poll() is None
