"""The scanner: raw records in, evidence out; stateless.

Rule: a batch is acknowledged only when everything made of it is acknowledged by the broker.
Rule: a record that can't be read becomes a dead letter; it never stops the batch.
Rule: what leaves is redacted, and bounded per signature, job and batch: a 10,000-rank job is not a hot key.
Rule: no scheduler event makes a message that our topics refuse: it would be tried again for ever.
Rule: a tick never says more than what was acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from classifiers.attempt import KEPT
from classifiers.joining import joined
from classifiers.lines import MAX_CHARS
from classifiers.matching import LOOK_BACK, MAX_TEXT, Matcher
from classifiers.records import Context, Evidence, JobEvent, LogLine, NodeEvent, Stream, Tick
from classifiers.redaction import redact
from services import metrics, topics, wire
from services.formats.base import Format, Input, Poison, RawRecord
from services.inputs import input_table
from services.poison import PoisonLimit, dead_letter
from services.produce import Message, Producer
from services.settings import Settings
from services.signature_files import LiveMatcher
from services.tails import Tails
from services.transport import Batch

AGENT = "scanner"
MAX_NODES_CHARS = 100_000  # Of all node names of one event: 8,000 hosts or so; a job's state holds 64 events.
P = TypeVar("P", Evidence, Context)


@dataclass
class Scanned:
    """What one batch holds: job events, evidence, context, node evidence, and dead letters with their reasons.

    `truncated` counts lines of which head and tail were scanned.
    """

    events: list[JobEvent] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    context: list[Context] = field(default_factory=list)
    node_evidence: list[Evidence] = field(default_factory=list)
    dead: list[tuple[RawRecord, Poison]] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    truncated: int = 0


def scan(records: Iterable[RawRecord], form: Format, where: Input, matcher: Matcher, context_lines: int) -> Scanned:
    """Everything that one partition's records say; pure but for the matcher's time limits."""
    found = Scanned()
    for record in records:
        try:
            for read in form.read(record, where):
                _sort_in(read, found, found.lines)
        except Poison as poison:
            found.dead.append((record, poison))
    lines = found.lines = joined(found.lines)
    found.truncated = sum(len(line.text) > MAX_CHARS for line in lines)
    hits: dict[int, set[int]] = defaultdict(set)
    for (index, _), candidates in matcher.hits([line.text.encode("utf-8", "replace") for line in lines]).items():
        hits[index] |= candidates
    for index in sorted(hits):
        line = lines[index]
        evidence = matcher.confirm(line, hits[index], _before(lines, index))
        if line.job_id is None:
            found.node_evidence += evidence
        elif evidence:
            found.evidence += evidence
        elif text := matcher.context(line, hits[index]):
            found.context.append(_context(line, text))
    found.evidence = _bounded(found.evidence, KEPT)
    found.context = _bounded(found.context, context_lines // 2) if context_lines else []
    return found


def _sort_in(read: LogLine | JobEvent | NodeEvent, found: Scanned, lines: list[LogLine]) -> None:
    if isinstance(read, LogLine):
        lines.append(read)
    elif isinstance(read, JobEvent):
        found.events.append(_leaving(read))
        if read.message:
            lines.append(_line_of(read))
    else:
        lines.append(
            LogLine(
                cluster=read.cluster,
                job_id=None,
                text=read.text,
                stream=Stream.NODE,
                position=read.position,
                appended_at=read.appended_at,
                node=read.node,
                time=read.time,
            )
        )


def _leaving(event: JobEvent) -> JobEvent:
    """A scheduler event as it may leave: free text redacted and bounded, node names up to MAX_NODES_CHARS."""
    kept, size = 0, 0
    for name in event.nodes:
        size += len(name)
        if size > MAX_NODES_CHARS:
            break
        kept += 1
    return msgspec.structs.replace(
        event,
        reason=redact(event.reason)[:MAX_TEXT] if event.reason else event.reason,
        message=redact(event.message)[:MAX_TEXT] if event.message else event.message,
        nodes=event.nodes[:kept],
    )


def _line_of(event: JobEvent) -> LogLine:
    """A scheduler's message as a line, so that signatures see it."""
    return LogLine(
        cluster=event.cluster,
        job_id=event.job_id,
        text=event.message or "",
        stream=Stream.SCHEDULER,
        position=event.position,
        appended_at=event.appended_at,
        ref=event.ref,
        node=event.failed_node,
        time=event.ended_at if event.ended_at is not None else event.time,
    )


def _before(lines: Sequence[LogLine], index: int) -> list[str]:
    """The texts of the lines before, in the same stream of the same rank, nearest first."""
    line, near = lines[index], lines[max(0, index - LOOK_BACK) : index]
    return [other.text for other in reversed(near) if _stream_of(other) == _stream_of(line)]


def _stream_of(line: LogLine) -> tuple[str | None, int | None, Stream, str | None]:
    return (line.job_id, line.rank, line.stream, line.node)


def _context(line: LogLine, text: str) -> Context:
    return Context(
        cluster=line.cluster,
        job_id=line.job_id or "",
        text=text,
        stream=line.stream,
        position=line.position,
        appended_at=line.appended_at,
        time=line.time if line.time is not None else line.appended_at,
        ref=line.ref,
        rank=line.rank,
        node=line.node,
    )


def _bounded(pieces: list[P], kept: int) -> list[P]:
    """The first and the last `kept` of each signature (or stream, for context) and attempt of one batch."""
    groups: dict[tuple[object, ...], list[P]] = {}
    for piece in pieces:
        what = piece.signature if isinstance(piece, Evidence) else (piece.rank, piece.stream)
        groups.setdefault((piece.cluster, piece.job_id, piece.ref, what), []).append(piece)
    kept_pieces: list[P] = []
    for group in groups.values():
        kept_pieces += group if len(group) <= 2 * kept else group[:kept] + group[-kept:]
    return kept_pieces


class Scanner:
    """Processes batches of input topics and tells watermarks."""

    def __init__(self, settings: Settings, live: LiveMatcher, producer: Producer) -> None:
        self._settings, self._live, self._producer = settings, live, producer
        self._inputs = input_table(settings)
        self._limit = PoisonLimit(settings.poison_limit, settings.poison_window_s)
        self._timeouts: dict[str, int] = {}
        self._tails = Tails()

    @property
    def topics(self) -> list[str]:
        """The input topics."""
        return list(self._inputs)

    async def process(self, batch: Batch) -> None:
        """Scan one batch and make what it holds durable.  Raises TooMuchPoison."""
        form, where = self._inputs[batch.topic]
        records = [wire.raw_record(batch.topic, batch.partition, r) for r in batch.records]
        matcher = self._live.current
        found = await asyncio.to_thread(scan, records, form, where, matcher, self._settings.context_lines)
        for record, poison in found.dead:
            metrics.POISON.labels(AGENT, batch.topic, poison.reason).inc()
            self._limit.note(record, poison.reason)
        await self._producer.send_all(messages(found))
        self._tails.note(found.lines, time.time())
        self._count(batch, found, matcher)

    async def tell(
        self, scanned: dict[str, float], partitions: dict[str, int], now: float, scanner: str, spread: int
    ) -> None:
        """Send the tails of streams that went quiet, then one tick to each of the evidence topic's `spread` partitions."""
        tails = self._tails.due(now)
        metrics.CONTEXT.inc(len(tails))
        metrics.CONTEXT_BYTES.inc(sum(len(c.text) for c in tails))
        await self._producer.send_all(messages(Scanned(context=tails)))
        tick = wire.encode(Tick(scanner=scanner, time=now, scanned=scanned, partitions=partitions))
        await self._producer.send_all(Message(topics.EVIDENCE, None, tick, [], partition=p) for p in range(spread))

    def _count(self, batch: Batch, found: Scanned, matcher: Matcher) -> None:
        metrics.RECORDS.labels(AGENT, batch.topic).inc(len(batch.records))
        for evidence in found.evidence:
            metrics.EVIDENCE.labels(evidence.signature).inc()
        metrics.TRUNCATED.inc(found.truncated)
        metrics.CONTEXT.inc(len(found.context))
        metrics.CONTEXT_BYTES.inc(sum(len(c.text) for c in found.context))
        for signature, count in matcher.timeouts.items():
            metrics.TIMEOUTS.labels(signature).inc(count - self._timeouts.get(signature, 0))
        self._timeouts = dict(matcher.timeouts)
        metrics.DISABLED.set(len(matcher.disabled()))


def messages(found: Scanned) -> list[Message]:
    """What one scanned batch sends: job events first, so that evidence finds its attempt."""
    out = [Message(topics.EVIDENCE, wire.job_key(r.cluster, r.job_id), wire.encode(r), []) for r in found.events]
    pieces: list[Evidence | Context] = [*found.evidence, *found.context]
    out += [Message(topics.EVIDENCE, wire.job_key(p.cluster, p.job_id), wire.encode(p), []) for p in pieces]
    out += [
        Message(topics.NODE_EVIDENCE, f"{p.cluster}/{p.node}".encode(), wire.encode(p), []) for p in found.node_evidence
    ]
    out += [dead_letter(record, AGENT, poison.reason, poison.detail) for record, poison in found.dead]
    return out
