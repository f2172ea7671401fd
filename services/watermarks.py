"""What the attributor knows of time: one clock per partition of the evidence topic, made of ticks.

Rule: the watermark is that of the slowest input partition; a partition that nobody spoke for holds it back.
Rule: a watermark never goes back, whichever scanner owned the partition before.
"""

from __future__ import annotations

from classifiers.decision import Clock
from classifiers.records import Tick


class Watermarks:
    """The newest watermark of every input partition, as ticks told it."""

    def __init__(self) -> None:
        self._scanned: dict[str, float] = {}
        self._partitions: dict[str, int] = {}
        self._now = 0.0

    def note(self, tick: Tick) -> None:
        """Take one tick in."""
        for place, time in tick.scanned.items():
            self._scanned[place] = max(time, self._scanned.get(place, 0.0))
        self._partitions.update(tick.partitions)
        self._now = max(self._now, tick.time)

    def clock(self) -> Clock:
        """Up to where all input is scanned (None while a partition is unheard of), and the newest tick's time."""
        expected = [f"{topic}/{n}" for topic, count in self._partitions.items() for n in range(count)]
        if not expected or any(place not in self._scanned for place in expected):
            return Clock(None, self._now)
        return Clock(min(self._scanned[place] for place in expected), self._now)
