"""Text of one Kafka record -> LogLines, all with one identity.

Rule: a line's index counts every line of its record, blank ones too, so that a position never moves.
Rule: a line of a job's own stream names its job; only scheduler and node lines may do without.
"""

from __future__ import annotations

from typing import NamedTuple

from classifiers.records import LogLine, Position, Stream
from services.formats.base import Input, Poison, RawRecord, Record
from services.formats.values import MAX_TEXT_CHARS, bounded, name_of, stream_of, whole

MAX_LINES = 100_000


class Identity(NamedTuple):
    """Where a line belongs."""

    cluster: str
    job_id: str | None
    ref: str | None
    rank: int | None
    node: str | None
    stream: Stream


def identity_of(
    where: Input,
    *,
    cluster: object = None,
    job: object = None,
    attempt: object = None,
    rank: object = None,
    node: object = None,
    stream: object = None,
) -> Identity:
    """The identity that a producer's values name, with the row's defaults.  Raises Poison where it names too little."""
    identity = Identity(
        name_of(cluster, "cluster") or where.cluster,
        name_of(job, "job"),
        name_of(attempt, "attempt"),
        whole(rank, "rank"),
        name_of(node, "node"),
        stream_of(stream, where.stream),
    )
    if identity.job_id is None and identity.stream in (Stream.STDERR, Stream.STDOUT):
        raise Poison("no_identity", f"a line of {identity.stream} names no job")
    if identity.job_id is None and identity.node is None and identity.stream is Stream.NODE:
        raise Poison("no_identity", "a line of a node's log names no node")
    return identity


def log_lines(
    record: RawRecord, identity: Identity, text: str, time: float | None, partial: bool = False, first: int = 0
) -> list[Record]:
    """One LogLine for each line of the text that is not blank, numbered from `first`."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\r" in text:
        # A carriage return within a line starts a new one (progress bars), which is for whoever cleans the text.
        text = text.replace("\r\n", "\n").removesuffix("\r")
    if "\n" not in text:
        return [_log_line(record, identity, text, time, partial, first)] if text and not text.isspace() else []
    if text.count("\n") > MAX_LINES:
        raise Poison("too_many", f"the text has {text.count(chr(10)) + 1} lines, the limit is {MAX_LINES}")
    return [
        _log_line(record, identity, line, time, partial, index)
        for index, line in enumerate(text.split("\n"), first)
        if line and not line.isspace()
    ]


def _log_line(
    record: RawRecord, identity: Identity, text: str, time: float | None, partial: bool, index: int
) -> LogLine:
    cluster, job_id, ref, rank, node, stream = identity
    return LogLine(
        cluster=cluster,
        job_id=job_id,
        text=text if len(text) <= MAX_TEXT_CHARS else bounded(text),
        stream=stream,
        position=Position(record.topic, record.partition, record.offset, index),
        appended_at=record.timestamp,
        ref=ref,
        rank=rank,
        node=node,
        time=time,
        partial=partial,
    )
