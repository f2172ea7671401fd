"""The batching transport when things go wrong: kills, rebalances, failing batches, ends by signal, lag."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from stack.transport_kit import committed, create_topic, fill, fill_fast, numbers, wait_committed, workers


@pytest.fixture(name="topic")
def _topic(unique: Callable[[str], str]) -> str:
    """A name that serves as topic and as group."""
    return unique("transport")


async def test_a_kill_in_mid_batch_loses_nothing(bootstrap: str, topic: str) -> None:
    """The batch that a killed worker had in work is read again by the next one."""
    await create_topic(bootstrap, topic, 2)
    for partition in (0, 1):
        await fill(bootstrap, topic, numbers(300), partition)
    options = {"bootstrap": bootstrap, "group": topic, "topic": topic, "max_records": 50}
    with workers() as start:
        first = start(**options, trouble_from=100, trouble="wait")
        await first.until(lambda line: line.get("at") == "trouble")
        first.kill()
        second = start(**options)
        await wait_committed(bootstrap, topic, topic, 2, limit_s=40)

        assert first.seen() | second.seen() == {(p, o) for p in (0, 1) for o in range(300)}


async def test_a_rebalance_loses_nothing(bootstrap: str, topic: str) -> None:
    """A second worker joins while batches are in work, takes partitions over, and leaves again; every record is read."""
    await create_topic(bootstrap, topic, 4)
    for partition in range(4):
        await fill(bootstrap, topic, numbers(2000), partition)
    options = {"bootstrap": bootstrap, "group": topic, "topic": topic, "max_records": 20, "pause_s": 0.02}
    with workers() as start:
        first = start(**options)
        await first.until(lambda line: "batch" in line)
        second = start(**options)
        await second.until(lambda line: "batch" in line)

        assert second.stop() == 0

        await wait_committed(bootstrap, topic, topic, 4, limit_s=40)
        assert first.seen() | second.seen() == {(p, o) for p in range(4) for o in range(2000)}


async def test_a_batch_that_outlives_its_partition_is_left_to_the_next_owner(bootstrap: str, topic: str) -> None:
    """A worker stuck in a batch while its partitions move acknowledges nothing of it; the new owner reads it."""
    await create_topic(bootstrap, topic, 2)
    for partition in (0, 1):
        await fill(bootstrap, topic, numbers(100), partition)
    options = {"bootstrap": bootstrap, "group": topic, "topic": topic, "max_records": 10}
    with workers() as start:
        stuck = start(**options, trouble_from=50, trouble="wait")
        trouble = await stuck.until(lambda line: line.get("at") == "trouble")
        second = start(**options)
        assigned = await second.until(lambda line: line.get("at") == "assigned", 30)
        await stuck.until(lambda line: line.get("at") == "revoked" and line["partitions"])
        stuck.kill()
        await wait_committed(bootstrap, topic, topic, 2, limit_s=40)

        assert len(assigned["partitions"]) == 1
        assert trouble["batch"][1] == 50
        assert stuck.seen() | second.seen() == {(p, o) for p in (0, 1) for o in range(100)}


async def test_a_failing_batch_is_tried_again_in_place(bootstrap: str, topic: str) -> None:
    """A batch that fails twice is processed at the third try, before any later one."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(100))
    with workers() as start:
        worker = start(
            bootstrap=bootstrap, group=topic, topic=topic, max_records=10, trouble_from=0, trouble="raise twice"
        )
        await wait_committed(bootstrap, topic, topic)

        moments = [line["at"] for line in worker.lines() if "at" in line]
        assert moments.count("retry") == 2
        assert [o for line in worker.batches() for o in line["offsets"]] == list(range(100))


async def test_a_failing_batch_is_never_acknowledged(bootstrap: str, topic: str) -> None:
    """While a batch fails, its first offset is what is committed, also after the worker was told to stop."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(100))
    with workers() as start:
        worker = start(
            bootstrap=bootstrap,
            group=topic,
            topic=topic,
            max_records=10,
            trouble_from=20,
            trouble="raise",
            deadline_s=3,
        )
        await worker.until(lambda line: line.get("at") == "retry")
        await asyncio.sleep(1.5)

        assert worker.stop() == 75
        assert {0: 20} == await committed(bootstrap, topic, topic)


@pytest.mark.parametrize("trouble", ["wait", "block"])
async def test_sigterm_ends_a_worker_that_is_stuck_in_a_batch(bootstrap: str, topic: str, trouble: str) -> None:
    """SIGTERM ends the worker within its deadline, with status 75, although the batch waits or blocks for ever."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(30))
    with workers() as start:
        options = {"trouble_from": 10, "trouble": trouble, "deadline_s": 6}
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=10, **options)
        await worker.until(lambda line: line.get("at") == "trouble")
        await asyncio.sleep(1)
        begin = time.monotonic()

        assert worker.stop() == 75
        assert time.monotonic() - begin < 10
        assert (await committed(bootstrap, topic, topic)).get(0, 0) <= 10


async def test_sigterm_ends_a_worker_that_has_no_broker(topic: str) -> None:
    """A worker that waits for Kafka ends on SIGTERM with status 0: it had nothing in work."""
    with workers() as start:
        worker = start(bootstrap="127.0.0.1:1", group=topic, topic=topic, deadline_s=6)
        await asyncio.sleep(3)
        begin = time.monotonic()

        assert worker.stop() == 0
        assert time.monotonic() - begin < 10


async def test_sigterm_ends_a_worker_that_waits_to_join(bootstrap: str, topic: str) -> None:
    """A worker whose group waits for a blocked member ends on SIGTERM all the same."""
    await create_topic(bootstrap, topic, 2)
    await fill(bootstrap, topic, numbers(10))
    with workers() as start:
        blocked = start(bootstrap=bootstrap, group=topic, topic=topic, trouble_from=0, trouble="block")
        await blocked.until(lambda line: line.get("at") == "trouble")
        joining = start(bootstrap=bootstrap, group=topic, topic=topic, deadline_s=6)
        await joining.until(lambda line: line.get("at") == "revoked")  # The first step of joining.
        await asyncio.sleep(1)
        begin = time.monotonic()
        status = joining.stop()

        assert not [line for line in joining.lines() if line.get("at") == "assigned"]
        assert status == 0
        assert time.monotonic() - begin < 10


async def test_a_fatal_exception_ends_the_worker_without_acknowledging(bootstrap: str, topic: str) -> None:
    """A fatal exception ends the worker with status 65; what was done before is committed, the batch is not."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(30))
    with workers() as start:
        options = {"trouble_from": 10, "trouble": "fatal"}
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=10, **options)

        assert await asyncio.to_thread(worker.process.wait, 30) == 65
        assert {0: 10} == await committed(bootstrap, topic, topic)


async def test_the_watchdog_ends_a_worker_without_progress(bootstrap: str, topic: str) -> None:
    """Lag without progress ends the worker with status 70."""
    await create_topic(bootstrap, topic)
    await fill(bootstrap, topic, numbers(30))
    with workers() as start:
        options = {"trouble_from": 10, "trouble": "block", "watchdog_s": 2}
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, max_records=10, **options)

        assert await asyncio.to_thread(worker.process.wait, 30) == 70


async def test_memory_stays_bounded_under_lag(bootstrap: str, topic: str) -> None:
    """A slow worker with a million records of lag holds a few batches, not the log: 200 MB of values and their objects."""
    await create_topic(bootstrap, topic, 4)
    await fill_fast(bootstrap, topic, b"x" * 170, 1_000_000, 4)
    with workers() as start:
        worker = start(bootstrap=bootstrap, group=topic, topic=topic, pause_s=0.1, brief=True)
        started = await worker.until(lambda line: line.get("at") == "started")
        await worker.until(lambda line: "batch" in line and line["batch"][1] > 60_000, 30)

        grown = worker.batches()[-1]["rss"] - started["rss"]
        assert sum(lag for _, _, lag, _ in worker.progress().values()) > 400_000
        assert grown < 100
