"""How far a worker is: for its watchdog, metrics and watermarks.

Rule: what is told is never ahead of what is acknowledged.
"""

from __future__ import annotations

import time
from typing import Any

from faust.types import TP


class Progress:
    """How far each partition is; every method may be called from any thread and answers None for what it can't know."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._scanned: dict[TP, float] = {}

    def partitions(self) -> set[TP]:
        """The partitions that this worker reads."""
        consumer = self._app._consumer
        return consumer.spans.partitions() if consumer else set()

    def acked(self, tp: TP) -> int | None:
        """The offset up to which everything is acknowledged."""
        span = self._span(tp)
        return span.safe if span else None

    def highwater(self, tp: TP) -> int | None:
        """The end of the partition at the last poll."""
        span = self._span(tp)
        return span.state.highwater if span else None

    def last_poll(self, tp: TP) -> float | None:
        """When the last answered poll was sent (s): what the broker had appended by then is below `highwater`."""
        polled_at: float | None = self._app.consumer._thread.polled_at.get(tp) if self._span(tp) else None
        return polled_at

    def lag(self, tp: TP) -> int | None:
        """Records between what is acknowledged and what can be read (an open transaction can't)."""
        span = self._span(tp)
        end = (span.state.lso if span.state.lso is not None else span.state.highwater) if span else None
        return max(0, end - span.safe) if span and end is not None else None

    def behind(self, quiet_s: float) -> bool:
        """True while there is work: lag, a rebalance under way, or a partition not polled for `quiet_s`."""
        old = time.time() - quiet_s
        tps = self.partitions()
        return self._app.rebalancing or any(self.lag(tp) or (self.last_poll(tp) or 0) < old for tp in tps)

    def scanned_to(self, tp: TP) -> float | None:
        """Append time (s) up to which everything of the partition is acknowledged; never goes back while it is ours.

        Where brokers replicate, a record becomes readable some time after its append time: less than the grace.
        """
        polled_at = self.last_poll(tp)  # NB: before the end is read, or a newer end would be taken for scanned.
        span = self._span(tp)
        if span is None:
            self._scanned.pop(tp, None)
            return None
        at_end = span.state.highwater is not None and span.safe >= span.state.highwater
        times = [t for t in (polled_at, None if at_end else span.done_time) if t is not None]
        if len(times) == (1 if at_end else 2):  # NB: the smaller, for a producer's clock may be ahead (CreateTime).
            self._scanned[tp] = max(min(times), self._scanned.get(tp, 0.0))
        return self._scanned.get(tp)

    def _span(self, tp: TP) -> Any:
        consumer = self._app._consumer
        return consumer.spans.get(tp) if consumer else None
