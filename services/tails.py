"""The tail of streams that went quiet: the last line of an attempt often says more than any error word.

Rule: a stream tells its tail once it was quiet for QUIET_S, and at most once in APART_S: a slow printer leaves no trail.
Rule: memory is bounded by MAX_STREAMS; the stream that was quiet longest is forgotten first.
Rule: tails are best effort: what a killed scanner remembered is gone, evidence is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from classifiers.lines import clean, quoted, segments
from classifiers.matching import MAX_TEXT, best_time
from classifiers.records import Context, LogLine, Stream
from classifiers.redaction import redact

QUIET_S = 2.0
APART_S = 60.0
MAX_STREAMS = 20_000
Key = tuple[str, str | None, str | None, int | None, Stream]


@dataclass(slots=True)
class _Tail:
    line: LogLine
    seen_at: float
    told_at: float = 0.0
    told: bool = False


class Tails:
    """The newest line of each stream of each attempt; times are the scanner's clock, in seconds."""

    def __init__(self) -> None:
        self._tails: OrderedDict[Key, _Tail] = OrderedDict()

    def note(self, lines: Iterable[LogLine], now: float) -> None:
        """Remember the last line that says something of every stream."""
        newest = {
            (ln.cluster, ln.job_id, ln.ref, ln.rank, ln.stream): ln for ln in lines if ln.job_id and ln.text.strip()
        }
        for key, line in newest.items():
            old = self._tails.pop(key, None)
            self._tails[key] = _Tail(line, now, old.told_at if old else 0.0)
        while len(self._tails) > MAX_STREAMS:
            self._tails.popitem(last=False)

    def due(self, now: float) -> list[Context]:
        """The tails of streams that went quiet, as context; each is told once."""
        due = [
            tail
            for tail in self._tails.values()
            if not tail.told and tail.seen_at <= now - QUIET_S and tail.told_at <= now - APART_S
        ]
        for tail in due:
            tail.told, tail.told_at = True, now
        return [context for tail in due if (context := _context(tail.line)) is not None]


def _context(line: LogLine) -> Context | None:
    parts = segments(line.text)
    text = clean(parts[-1]).text if parts else ""
    if not text.strip() or quoted(text, None):
        return None
    return Context(
        cluster=line.cluster,
        job_id=line.job_id or "",
        text=redact(text)[:MAX_TEXT],
        stream=line.stream,
        position=line.position,
        appended_at=line.appended_at,
        time=best_time(line.time, line.appended_at),
        tail=True,
        ref=line.ref,
        rank=line.rank,
        node=line.node,
    )
