"""Plain text lines with headers or a key."""

from __future__ import annotations

import pytest

from classifiers.records import LogLine, Position, Stream
from services.formats import FORMATS, Input, Poison, RawRecord
from services.formats.base import Record

HEADERS = (
    ("cluster", b"a100"), ("job", b"81234"), ("attempt", b"2"), ("rank", b"3"), ("node", b"n3"),
    ("stream", b"stdout"), ("time", b"1795245164.5"), ("traceparent", b"00-aa"),
)  # fmt: skip


def read(
    value: bytes, key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = (), **row: object
) -> list[Record]:
    return FORMATS["raw"].read(RawRecord("logs", 1, 9, 50.0, key, value, headers), Input("logs", "raw", **row))  # type: ignore[arg-type]


def line(got: list[Record]) -> LogLine:
    (only,) = got
    assert isinstance(only, LogLine)
    return only


def texts(got: list[Record]) -> list[tuple[int, str]]:
    return [(each.position.index, each.text) for each in got if isinstance(each, LogLine)]


def poisoned(*args: object, **row: object) -> str:
    with pytest.raises(Poison) as caught:
        read(*args, **row)  # type: ignore[arg-type]
    return caught.value.reason


def test_headers_name_everything() -> None:
    """Headers give cluster, job, attempt, rank, node, stream and time; a stranger among them is ignored."""
    assert line(read(b"boom", headers=HEADERS)) == LogLine(
        cluster="a100",
        job_id="81234",
        text="boom",
        stream=Stream.STDOUT,
        position=Position("logs", 1, 9, 0),
        appended_at=50.0,
        ref="2",
        rank=3,
        node="n3",
        time=1795245164.5,
    )


@pytest.mark.parametrize(
    ("key", "identity"),
    [
        (b"a100/17", ("a100", "17", None, None)),
        (b"a100/17/2", ("a100", "17", "2", None)),
        (b"a100/17/2/31", ("a100", "17", "2", 31)),
    ],
)
def test_a_key_names_the_job(key: bytes, identity: tuple[object, ...]) -> None:
    """Without headers the key `cluster/job[/attempt[/rank]]` names the job."""
    got = line(read(b"boom", key))

    assert (got.cluster, got.job_id, got.ref, got.rank) == identity


def test_headers_win_over_the_key() -> None:
    """Where a header names the job the key is not read: it may be about something else."""
    got = line(read(b"boom", b"h100/99/4/8", (("job", b"17"),), cluster="a100"))

    assert (got.cluster, got.job_id, got.ref, got.rank) == ("a100", "17", None, None)


def test_headers_without_a_job_complete_the_key() -> None:
    """A header adds to what the key names, and wins where both speak."""
    got = line(read(b"boom", b"a100/17/2/31", (("rank", b"5"), ("node", b"n1"))))

    assert (got.job_id, got.ref, got.rank, got.node) == ("17", "2", 5, "n1")


def test_the_row_fills_in_what_nobody_says() -> None:
    """Cluster and stream come from the settings where the record is silent."""
    got = line(read(b"boom", headers=(("job", b"17"),), cluster="h100", stream=Stream.STDOUT))

    assert (got.cluster, got.stream, got.time, got.ref) == ("h100", Stream.STDOUT, None, None)


def test_header_names_can_be_mapped() -> None:
    """Settings may call a header by another name; the default name is then a stranger."""
    headers = (("x-job", b"17"), ("job", b"99"), ("at", b"2026-11-21T07:12:44Z"))

    got = line(read(b"boom", headers=headers, fields={"job": "x-job", "time": "at"}))

    assert (got.job_id, got.time) == ("17", 1795245164.0)


def test_each_line_has_its_index_and_blank_ones_give_nothing() -> None:
    """Lines are numbered within the record, blank ones count but give no record, and a CR LF end is no text."""
    assert texts(read(b"one\r\n\n   \ntwo\n", b"c/1")) == [(0, "one"), (3, "two")]


def test_blank_values_give_nothing() -> None:
    """Blanks and NULs alone are no line."""
    assert [read(value, b"c/1") for value in (b"\n", b" \t", b"\x00\x00", b"\r\n\r\n")] == [[], [], [], []]


def test_carriage_returns_within_a_line_stay() -> None:
    """A progress bar's carriage returns are left to whoever cleans the line."""
    assert texts(read(b"10%\r20%\rOOM\r", b"c/1")) == [(0, "10%\r20%\rOOM")]


def test_bad_bytes_and_nuls_do_not_stop_a_line() -> None:
    """Bytes that are no UTF-8 become U+FFFD, and NULs vanish."""
    assert texts(read(b"a\xff\x00b\xe2\x82", b"c/1")) == [(0, "a\ufffdb\ufffd")]


def test_a_ten_megabyte_line_keeps_its_ends() -> None:
    """A line over 64 KiB keeps its first and last 32 KiB and says how much went."""
    text = line(read(b"HEAD" + b"x" * 10_000_000 + b"TAIL", b"c/1")).text

    assert text.startswith("HEADx")
    assert text.endswith("xTAIL")
    assert " [... 9934472 characters cut ...] " in text
    assert len(text) < 65_536 + 50


def test_a_line_at_the_limit_is_whole() -> None:
    """64 KiB are not cut."""
    assert line(read(b"x" * 65_536, b"c/1")).text == "x" * 65_536


def test_a_flood_of_lines_is_poison() -> None:
    """More lines than the limit in one record are Poison, not millions of objects."""
    assert poisoned(b"a\n" * 100_001, b"c/1") == "too_many"


@pytest.mark.parametrize("key", [None, b"", b"6f1c", b"a/", b"/a", b"a/b/c/d/e", b"a" * 600 + b"/b", b"\xff\xfe"])
def test_a_jobs_line_without_job_is_poison(key: bytes | None) -> None:
    """A line of stdout or stderr must name its job."""
    assert poisoned(b"boom", key) == "no_identity"


def test_a_scheduler_line_may_do_without_a_job() -> None:
    """A line of the scheduler's own log has no job."""
    assert line(read(b"boom", stream=Stream.SCHEDULER)).job_id is None


def test_a_nodes_line_must_name_its_node() -> None:
    """A line of a node's log needs no job but a node."""
    assert line(read(b"Xid 79", headers=(("node", b"n1"),), stream=Stream.NODE)).node == "n1"
    assert poisoned(b"Xid 79", stream=Stream.NODE) == "no_identity"


@pytest.mark.parametrize("rank", [b"three", b"-1", b"1.5", b"99999999999", b"9" * 5000, "\uff11".encode()])
def test_a_rank_that_is_no_number_is_poison(rank: bytes) -> None:
    """A rank must be a whole number from 0."""
    assert poisoned(b"boom", None, (("job", b"1"), ("rank", rank))) in ("wrong_type", "too_large")


@pytest.mark.parametrize(
    ("word", "stream"), [(b"out", "stdout"), (b"ERR", "stderr"), (b"2", "stderr"), (b"node", "node")]
)
def test_streams_have_short_names(word: bytes, stream: str) -> None:
    """`out`, `err`, `1` and `2` name streams as well, in any case."""
    assert line(read(b"boom", b"c/1", (("stream", word), ("node", b"n")))).stream == stream


def test_an_unknown_stream_is_poison() -> None:
    """A stream outside the list is not guessed."""
    assert poisoned(b"boom", b"c/1", (("stream", b"syslog"),)) == "unknown_value"


def test_a_name_of_a_kilobyte_is_poison() -> None:
    """Names are bounded, so that ids, keys and caches are."""
    assert poisoned(b"boom", None, (("job", b"j" * 1000),)) == "too_large"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (b"1795245164", 1795245164.0),
        (b"2026-11-21T07:12:44.143342+00:00", 1795245164.143342),
        (b"2026-11-21T08:12:44.5+01:00", 1795245164.5),
        (b"2026-11-21 07:12:44", 1795245164.0),
        (b"2026-11-21T07:12:44.143330123Z", 1795245164.14333),
        (b"1795245164000", None),  # Milliseconds would be the year 58,860.
        (b"0", None),
        (b"nan", None),
        (b"1e400", None),
        (b"2026-13-41T00:00:00", None),
        (b"0001-01-01T00:00:00+23:59", None),
        (b"9999-12-31T23:59:59-23:59", None),
        (b"yesterday", None),
        (b"2" * 100, None),
    ],
)
def test_times_are_read_or_left_out(text: bytes, time: float | None) -> None:
    """Epoch seconds and ISO 8601 are read; what is unreadable or outside 1990..2100 is no time."""
    assert line(read(b"boom", b"c/1", (("time", text),))).time == time


def test_identities_do_not_leak_between_records() -> None:
    """Each record has its own identity, whatever was read before."""
    keys = [b"c/1/a/0", b"c/1/a/1", b"c/2", b"c/1/a/0"]

    got = [line(read(b"x", key)) for key in keys]

    assert [(each.job_id, each.ref, each.rank) for each in got] == [
        ("1", "a", 0),
        ("1", "a", 1),
        ("2", None, None),
        ("1", "a", 0),
    ]


def test_an_empty_header_says_nothing() -> None:
    """An empty header value is as good as none."""
    assert line(read(b"x", b"c/1/2", (("job", b""), ("rank", b"")))).job_id == "1"
