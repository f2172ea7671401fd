"""Our own JSON (exitsign_v1.json is its published schema): one object or one array of objects a record.

Rule: fields are added, never changed; a reader ignores a field that it does not know and refuses a word outside an
enum.
"""

from __future__ import annotations

from typing import Any

import msgspec

from classifiers.records import JobEvent, NodeEvent, Phase, Position
from services.formats.base import Input, Poison, RawRecord, Record, check_fields, quoted
from services.formats.loglines import MAX_LINES, identity_of, log_lines
from services.formats.values import MAX_INT, bounded, decoded_json, from_json, moment, name_of, value_of, whole

_PHASES = {phase.value: phase for phase in Phase}
MAX_REF_PARTS = 16
MAX_NODES = 65_536

Text = str | None
Id = str | int | None
Number = str | int | None
Time = str | int | float | None


class Log(msgspec.Struct, tag_field="type", tag="log", frozen=True):
    """Text of one stream; several lines where it holds line feeds."""

    text: str
    cluster: Text = None
    job_id: Id = None
    ref: Id = None
    rank: Number = None
    node: Text = None
    stream: Text = None
    time: Time = None
    partial: bool = False


class Job(msgspec.Struct, tag_field="type", tag="job_event", frozen=True):
    """What a scheduler says of one attempt."""

    job_id: str | int
    phase: str
    cluster: Text = None
    scheduler: Text = None
    ref: Id = None
    attempt_ref: dict[str, str | int] | None = None
    state: Text = None
    exit_code: Number = None
    signal: Number = None
    reason: Text = None
    message: Text = None
    time: Time = None
    started_at: Time = None
    ended_at: Time = None
    nodes: list[str] | None = None
    failed_node: Text = None
    gpus: Number = None
    user: Text = None
    job_name: Text = None
    queue: Text = None


class Node(msgspec.Struct, tag_field="type", tag="node_event", frozen=True):
    """What a node's kernel log, health check or telemetry says."""

    node: str
    text: str
    cluster: Text = None
    time: Time = None
    source: Text = None


_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Log | Job | Node | list[Log | Job | Node])


class Exitsign:
    """Log lines, job events and node events of producers that speak our own format."""

    name = "exitsign"

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """The records of one object, or of every object of an array."""
        check_fields(where, ())
        value = value_of(record)
        if value is None:
            return []
        read = from_json(_DECODER, decoded_json(value))
        items = read if isinstance(read, list) else [read]
        records: list[Record] = []
        index = 0
        for item in items:
            if index > MAX_LINES:
                raise Poison("too_many", f"the array holds more than {MAX_LINES} lines and events")
            records += _records(item, index, record, where)
            index += 1 + (item.text.count("\n") if isinstance(item, Log) else 0)
        return records


def _records(item: Log | Job | Node, index: int, record: RawRecord, where: Input) -> list[Record]:
    if isinstance(item, Log):
        return _lines(item, index, record, where)
    position = Position(record.topic, record.partition, record.offset, index)
    if isinstance(item, Job):
        return [_job_event(item, position, record, where)]
    return [_node_event(item, position, record, where)]


def _lines(item: Log, index: int, record: RawRecord, where: Input) -> list[Record]:
    identity = identity_of(
        where,
        cluster=item.cluster,
        job=item.job_id,
        attempt=item.ref,
        rank=item.rank,
        node=item.node,
        stream=item.stream,
    )
    return log_lines(record, identity, item.text, moment(item.time, "time"), item.partial, index)


def _job_event(item: Job, position: Position, record: RawRecord, where: Input) -> JobEvent:
    if item.phase not in _PHASES:
        raise Poison("unknown_value", f"phase {quoted(item.phase)} is none of {', '.join(_PHASES)}")
    state = name_of(item.state, "state")
    return JobEvent(
        cluster=name_of(item.cluster, "cluster") or where.cluster,
        job_id=_needed(item.job_id, "job_id"),
        phase=_PHASES[item.phase],
        position=position,
        appended_at=record.timestamp,
        scheduler=name_of(item.scheduler, "scheduler") or where.scheduler,
        ref=name_of(item.ref, "ref"),
        attempt_ref=_attempt_ref(item.attempt_ref),
        state=state.upper() if state else None,
        exit_code=whole(item.exit_code, "exit_code", low=-MAX_INT),
        signal=whole(item.signal, "signal", high=255),
        reason=bounded(item.reason) if item.reason else None,
        message=bounded(item.message) if item.message else None,
        time=moment(item.time, "time"),
        started_at=moment(item.started_at, "started_at"),
        ended_at=moment(item.ended_at, "ended_at"),
        nodes=_nodes(item.nodes),
        failed_node=name_of(item.failed_node, "failed_node"),
        gpus=whole(item.gpus, "gpus"),
        user=name_of(item.user, "user"),
        job_name=name_of(item.job_name, "job_name"),
        queue=name_of(item.queue, "queue"),
    )


def _node_event(item: Node, position: Position, record: RawRecord, where: Input) -> NodeEvent:
    return NodeEvent(
        cluster=name_of(item.cluster, "cluster") or where.cluster,
        node=_needed(item.node, "node"),
        text=bounded(item.text),
        position=position,
        appended_at=record.timestamp,
        time=moment(item.time, "time"),
        source=name_of(item.source, "source") or "kernel",
    )


def _needed(value: object, field: str) -> str:
    name = name_of(value, field)
    if name is None:
        raise Poison("missing_field", f"{field} is empty")
    return name


def _attempt_ref(parts: dict[str, str | int] | None) -> dict[str, str | int]:
    if len(parts or ()) > MAX_REF_PARTS:
        raise Poison("too_many", f"attempt_ref has more than {MAX_REF_PARTS} parts")
    read: dict[str, str | int] = {}
    for key, value in (parts or {}).items():
        name = _needed(key, "attempt_ref")
        limit = 2**53  # What every JSON reader of the advice can hold.
        kept = whole(value, name, low=-limit, high=limit) if isinstance(value, int) else name_of(value, name)
        read[name] = "" if kept is None else kept
    return read


def _nodes(names: list[str] | None) -> tuple[str, ...]:
    if len(names or ()) > MAX_NODES:
        raise Poison("too_many", f"nodes names more than {MAX_NODES} nodes")
    return tuple(_needed(name, "nodes") for name in names or ())
