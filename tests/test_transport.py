"""The books of the batching transport: what may be committed, whatever happens to the batches."""

from __future__ import annotations

import random

from aiokafka.structs import ConsumerRecord
from faust.types import TP

from services.spans import Spans

PLACE = TP("job-logs", 0)


def record(offset: int, value: bytes | None = b"line") -> ConsumerRecord[bytes, bytes]:
    size = len(value) if value is not None else -1
    return ConsumerRecord("job-logs", 0, offset, offset * 1000, 1, None, value, None, -1, size, ())


def fetch(spans: Spans, first: int, last: int, state: object = "assignment 1", position: int | None = None):
    """Enter a fetch of the records first..last; returns its batch."""
    return spans.fetched(
        PLACE, state, last + 1 if position is None else position, [record(o) for o in range(first, last + 1)]
    )


def safe(spans: Spans) -> int:
    span = spans.get(PLACE)
    assert span is not None
    return span.safe


def test_a_batch_that_is_not_done_holds_the_commit_at_its_beginning() -> None:
    """Nothing of an open batch may be committed."""
    spans = Spans()
    fetch(spans, 5, 9)

    assert 5 == safe(spans)


def test_a_batch_that_is_done_frees_the_whole_span() -> None:
    """The commit reaches the offset behind the last record, not one less."""
    spans = Spans()
    spans.finish(fetch(spans, 0, 9))

    assert 10 == safe(spans)


def test_a_later_batch_waits_for_an_earlier_one() -> None:
    """A batch done out of order frees nothing until those before it are done."""
    spans = Spans()
    first, second = fetch(spans, 0, 9), fetch(spans, 10, 19)
    spans.finish(second)

    assert 0 == safe(spans)

    spans.finish(first)

    assert 20 == safe(spans)


def test_one_undone_batch_of_a_single_record_is_not_passed() -> None:
    """The gap of one that Faust's own bookkeeping commits over is held."""
    spans = Spans()
    for offset in range(5):
        batch = fetch(spans, offset, offset)
        if offset != 3:
            spans.finish(batch)

    assert 3 == safe(spans)


def test_gaps_within_and_behind_records_are_passed() -> None:
    """Offsets that hold no record (markers, compacted keys) belong to the batch before them."""
    spans = Spans()
    batch = spans.fetched(PLACE, "assignment 1", 12, [record(2), record(7)])
    assert batch is not None
    spans.finish(batch)

    assert (2, 12) == (batch.first_offset, batch.next_offset)
    assert 12 == safe(spans)


def test_a_fetch_without_records_moves_the_commit() -> None:
    """Where only markers were read there is no batch, and the commit passes them."""
    spans = Spans()

    assert spans.fetched(PLACE, "assignment 1", 4) is None
    assert 4 == safe(spans)


def test_a_fetch_without_records_does_not_pass_an_open_batch() -> None:
    """Markers behind an open batch wait for it."""
    spans = Spans()
    fetch(spans, 0, 9)
    spans.fetched(PLACE, "assignment 1", 11)

    assert 0 == safe(spans)


def test_a_batch_of_an_earlier_assignment_acknowledges_nothing() -> None:
    """After a rebalance the records are read again, and only the new batch counts."""
    spans = Spans()
    old = fetch(spans, 0, 9)
    new = fetch(spans, 0, 9, state="assignment 2")

    assert not spans.finish(old)
    assert 0 == safe(spans)
    assert spans.finish(new)


def test_a_batch_of_a_revoked_partition_acknowledges_nothing() -> None:
    """The books of a partition that was taken away are closed."""
    spans = Spans()
    batch = fetch(spans, 0, 9)
    spans.forget([PLACE])

    assert not spans.holds(batch)
    assert not spans.finish(batch)
    assert {} == spans.committable()


def test_a_position_that_went_back_opens_new_books() -> None:
    """After a seek the records are read again; batches from before it acknowledge nothing."""
    spans = Spans()
    old = fetch(spans, 0, 9)
    again = fetch(spans, 0, 4)

    assert not spans.finish(old)
    assert 0 == safe(spans)
    assert spans.finish(again)
    assert 5 == safe(spans)


def test_only_news_is_committed() -> None:
    """A partition whose safe offset is committed is not committed again."""
    spans = Spans()
    spans.finish(fetch(spans, 0, 9))
    ((span, offset),) = spans.committable().values()
    span.committed = offset

    assert {} == spans.committable()


def test_load_counts_what_is_handed_out() -> None:
    """Records and bytes count until their batch is done; a null value has no bytes."""
    spans = Spans()
    batch = spans.fetched(PLACE, "assignment 1", 2, [record(0, b"four"), record(1, None)])

    assert (2, 4) == spans.load()

    spans.finish(batch)

    assert (0, 0) == spans.load()


def test_random_histories_never_commit_past_what_is_undone() -> None:
    """Whatever the order of fetches, ends and rebalances, every offset below the commit was in a batch that was done."""
    for seed in range(200):
        play(random.Random(seed))


def play(chance: random.Random) -> None:
    spans, done, open_batches, position, committed, assignment = Spans(), set(), [], 0, 0, 0
    for _ in range(60):
        step = chance.choice(["fetch", "fetch", "finish", "finish", "drop", "rebalance"])
        if step == "fetch":
            following = position + chance.randint(1, 5)
            open_batches.append(fetch(spans, position, following - 1, state=assignment))
            position = following
        elif step == "finish" and open_batches:
            batch = open_batches.pop(chance.randrange(len(open_batches)))
            if spans.finish(batch):
                done.update(range(batch.first_offset, batch.next_offset))
        elif step == "drop" and open_batches:
            open_batches.pop()
        elif step == "rebalance":
            assignment, position = assignment + 1, committed
            spans.forget([PLACE])
        for _, offset in spans.committable().values():
            committed = max(committed, offset)

        assert set(range(committed)) <= done
