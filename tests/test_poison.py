"""Dead letters and their limit."""

from __future__ import annotations

import pytest

from services import topics
from services.formats.base import RawRecord
from services.poison import MAX_HEADERS, MAX_KEY, MAX_VALUE, PoisonLimit, TooMuchPoison, dead_letter


def raw(value: bytes | None = b"x", at: float = 0.0, **more: object) -> RawRecord:
    """A record of job-logs/3."""
    told = {"topic": "job-logs", "partition": 3, "offset": 17, "timestamp": 1000.5 + at, **more}
    return RawRecord(value=value, **told)  # type: ignore[arg-type]


def test_a_dead_letter_says_where_it_came_from_and_why():
    """Place, time, reason, stage and detail stand in headers, beside the record's own."""
    letter = dead_letter(raw(key=b"k", headers=(("mine", b"1"),)), "scanner", "bad_json", "at byte 3")

    assert (topics.POISON, b"k", b"x") == (letter.topic, letter.key, letter.value)
    assert [
        ("mine", b"1"),
        ("x-original-topic", b"job-logs"),
        ("x-original-partition", b"3"),
        ("x-original-offset", b"17"),
        ("x-original-timestamp", b"1000500"),
        ("x-exception-message", b"at byte 3"),
        ("exitsign-reason", b"bad_json"),
        ("exitsign-stage", b"scanner"),
    ] == list(letter.headers)


def test_secrets_stay_behind():
    """In value, headers and detail."""
    letter = dead_letter(
        raw(b"password=hunter22", headers=(("authorization", b"Bearer abcdefgh"),)), "s", "r", "token=abcdefgh"
    )
    said = b" ".join([letter.value or b"", *(value for _, value in letter.headers)])

    assert [] == [secret for secret in (b"hunter22", b"abcdefgh") if secret in said]


@pytest.mark.parametrize("value", [None, b"", bytes(range(256)), b"\xff\xfe password \x80"])
def test_a_value_without_secrets_stays_byte_for_byte(value):
    """Also where it is no text, and a tombstone stays one."""
    assert value == dead_letter(raw(value, headers=(("bytes", b"\xff=\x00"),)), "s", "r", "d").value


def test_bytes_of_headers_stay():
    """A trace id is none of our business."""
    letter = dead_letter(raw(headers=(("trace", b"\xff=\x00"), ("none", b""))), "s", "r", "d")

    assert [("trace", b"\xff=\x00"), ("none", b"")] == list(letter.headers)[:2]


def test_a_dead_letter_is_bounded():
    """Megabytes of value, key or headers are cut or left behind."""
    bulk = b"x" * 10_000_000
    letter = dead_letter(raw(bulk, key=bulk, headers=(("small", b"1"), ("bulk", bulk))), "s", "r", "y" * 10_000)
    size = len(letter.value or b"") + len(letter.key or b"") + sum(len(n) + len(v) for n, v in letter.headers)

    assert size <= MAX_VALUE + MAX_KEY + MAX_HEADERS + 2000
    assert "small" in dict(letter.headers)


def test_a_dead_letter_sent_again_keeps_one_origin():
    """The place where it was read last is its origin."""
    first = dead_letter(raw(), "s", "r", "d")
    again = dead_letter(raw(offset=99, headers=tuple(first.headers)), "s", "r", "d")

    assert [b"99"] == [value for name, value in again.headers if name == "x-original-offset"]


def test_the_limit_allows_as_many_as_it_says():
    """The one past it stops the agent, and its words name the place and the settings."""
    limit = PoisonLimit(3, 60.0)
    for n in range(3):
        limit.note(raw(at=n), "bad_json")

    with pytest.raises(
        TooMuchPoison, match=r"^job-logs/3: more than 3 dead letters .*EXITSIGN_INPUTS.*EXITSIGN_POISON_LIMIT"
    ):
        limit.note(raw(at=3), "bad_json")


def test_dead_letters_older_than_the_window_are_forgotten():
    """A few a minute, for ever, stop nobody."""
    limit = PoisonLimit(3, 60.0)
    for n in range(100):
        limit.note(raw(at=n * 21), "bad_json")


def test_every_partition_has_a_limit_of_its_own():
    """One bad producer does not spend another's."""
    limit = PoisonLimit(3, 60.0)
    for n in range(12):
        limit.note(raw(at=n, partition=n % 4), "bad_json")
