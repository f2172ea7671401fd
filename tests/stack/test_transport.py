"""The batching transport against a real broker: what is read, and what is committed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from stack.transport_kit import committed, create_topic, ends, fill, fill_fast, numbers, wait_committed, workers


@pytest.fixture(name="topic")
def _topic(unique: Callable[[str], str]) -> str:
    """A name that serves as topic and as group."""
    return unique("transport")


async def test_commits_reach_the_end_of_every_partition(bootstrap: str, topic: str) -> None:
    """A group that has read everything has committed the end of the log, in every partition."""
    await create_topic(bootstrap, topic, 3)
    for partition in (0, 1):
        await fill(bootstrap, topic, numbers(500), partition)
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=100)
        await wait_committed(bootstrap, topic, topic, 3)
        await fill(bootstrap, topic, numbers(1), 2)
        await wait_committed(bootstrap, topic, topic, 3)

        assert worker.stop() == 0
        assert worker.seen() == {(p, o) for p in (0, 1) for o in range(500)} | {(2, 0)}


async def test_batches_of_a_partition_are_consecutive(bootstrap: str, topic: str) -> None:
    """Each batch of a partition begins where the one before it ended, in the order of the log."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(1000))
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=70)
        await wait_committed(bootstrap, topic, topic)

        spans = [line["batch"][1:] for line in worker.batches()]
        assert [first for first, _ in spans] == [0, *(following for _, following in spans[:-1])]
        assert [o for line in worker.batches() for o in line["offsets"]] == list(range(1000))


async def test_null_values_pass(bootstrap: str, topic: str) -> None:
    """Records with a null value and a null key arrive like others."""
    await create_topic(bootstrap, topic)
    await fill_fast(bootstrap, topic, None, 3)
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic)
        line = await worker.until(lambda line: "values" in line)

        assert [None, None, None] == line["values"]


async def test_every_codec_is_read(bootstrap: str, topic: str) -> None:
    """Batches compressed by gzip, snappy, lz4 and zstd are read."""
    await create_topic(bootstrap, topic)
    for number, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
        await fill(bootstrap, topic, numbers(50, 50 * number), compression_type=codec)
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic)
        await wait_committed(bootstrap, topic, topic)

        values = [value for line in worker.batches() for value in line["values"]]
        assert [str(n) for n in range(200)] == values


async def test_transaction_markers_are_passed(bootstrap: str, topic: str) -> None:
    """What a transaction took back is not read, and the commit reaches the end behind the last marker."""
    await create_topic(bootstrap, topic)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"kept", partition=0)
    await producer.commit_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"taken back", partition=0)
    await producer.abort_transaction()
    await producer.stop()
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic)
        await wait_committed(bootstrap, topic, topic)

        assert {0: 4} == await ends(bootstrap, topic)  # kept, its marker, taken back, its marker
        assert ["kept"] == [value for line in worker.batches() for value in line["values"]]


async def test_the_books_of_a_deleted_topic_do_not_hide_its_successor(bootstrap: str, topic: str) -> None:
    """A topic made anew is read from its beginning although the group had committed more than it now holds."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(100))
    with workers() as start:
        first = start(bootstrap=bootstrap, group=topic, topic=topic)
        await wait_committed(bootstrap, topic, topic)
        first.stop()
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.delete_topics([topic])
        await admin.close()
        await create_topic_again(bootstrap, topic)
        await fill(bootstrap, topic, numbers(5))
        second = start(bootstrap=bootstrap, group=topic, topic=topic)
        await wait_committed(bootstrap, topic, topic)

        assert second.seen() == {(0, o) for o in range(5)}


async def create_topic_again(bootstrap: str, topic: str) -> None:
    """Deletion takes the broker a moment."""
    for _ in range(50):
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        names = await admin.list_topics()
        await admin.close()
        if topic not in names:
            break
    await create_topic(bootstrap, topic)


async def test_a_missing_topic_is_waited_for(bootstrap: str, topic: str) -> None:
    """A worker that comes before its topic reads it as soon as it is there."""
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic)
        time.sleep(2.5)
        await create_topic(bootstrap, topic)
        await fill(bootstrap, topic, numbers(3))
        await wait_committed(bootstrap, topic, topic)

        assert worker.seen() == {(0, 0), (0, 1), (0, 2)}


async def test_watermark_follows_what_is_acknowledged(bootstrap: str, topic: str) -> None:
    """A partition at its end is scanned up to the last poll; one with a batch in work up to the last one done."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(10))
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, trouble_from=10, trouble="wait")
        before = time.time()
        line = await worker.until(lambda line: line.get("progress", {}).get("0", [])[:3] == [10, 10, 0])
        scanned_to = line["progress"]["0"][3]

        assert before < scanned_to <= time.time()

        await fill(bootstrap, topic, numbers(10))
        appended = time.time()
        await worker.until(lambda line: line.get("at") == "trouble")
        line = await worker.until(lambda line: line.get("progress", {}).get("0", [])[:3] == [10, 20, 10])

        assert worker.batches()[-1]["time"] <= line["progress"]["0"][3] <= appended


async def test_only_what_was_done_is_committed(bootstrap: str, topic: str) -> None:
    """While a batch is in work, the group has committed its first offset and nothing more."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(100))
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=10, trouble_from=50, trouble="wait")
        await worker.until(lambda line: line.get("at") == "trouble")
        time.sleep(2)

        assert {0: 50} == await committed(bootstrap, topic, topic)
