"""The tail of streams that went quiet."""

from __future__ import annotations

from builders import line

from services import tails
from services.tails import APART_S, QUIET_S, Tails


def texts(found):
    """What is told."""
    return [(context.text, context.rank, context.tail) for context in found]


def test_a_stream_that_went_quiet_tells_its_last_line_once():
    """Not while it prints, and not twice."""
    seen = Tails()
    seen.note([line("step 1", 0, rank=0), line("step 2", 1, rank=0), line("waiting", 2, rank=1)], now=100.0)

    assert [] == seen.due(100.0 + QUIET_S / 2)
    assert [("step 2", 0, True), ("waiting", 1, True)] == texts(seen.due(100.0 + QUIET_S))
    assert [] == seen.due(200.0)


def test_a_slow_printer_leaves_no_trail():
    """One tail in APART_S, and the last one after all."""
    seen = Tails()
    told = []
    for second in range(0, 50, 5):
        seen.note([line(f"step {second}", second)], now=100.0 + second)
        told += texts(seen.due(100.0 + second + QUIET_S))
    told += texts(seen.due(100.0 + QUIET_S + APART_S))

    assert ["step 0", "step 45"] == [text for text, *_ in told]


def test_secrets_and_program_text_stay():
    """A tail is redacted, and a traceback's frame is no tail."""
    seen = Tails()
    seen.note(
        [line("login with password=hunter22", 0, rank=0), line('  File "a.py", line 3, in f', 1, rank=1)], now=0.0
    )

    assert ["login with password=[REDACTED]"] == [text for text, *_ in texts(seen.due(APART_S))]


def test_memory_is_bounded(monkeypatch):
    """The stream that was quiet longest is forgotten first."""
    monkeypatch.setattr(tails, "MAX_STREAMS", 3)
    seen = Tails()
    seen.note([line(f"rank {rank}", rank, rank=rank) for rank in range(10)], now=0.0)

    assert [7, 8, 9] == [rank for _, rank, _ in texts(seen.due(APART_S))]
