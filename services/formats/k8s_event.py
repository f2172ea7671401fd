"""Kubernetes: core/v1 Events as exported (kubernetes-event-exporter, Fluent Bit's kubernetes_events), and Pod objects.

Rule: an Event about a node is a NodeEvent, about a pod or a job a line of the scheduler's stream; only a pod's own
status (k8s_pod.py) says that an attempt started or ended.
Rule: an object that belongs to no job gives nothing; an Event without its pod's labels is a line without job.
"""

from __future__ import annotations

from typing import Any

import msgspec

from classifiers.records import JobEvent, NodeEvent, Phase, Position, Stream
from services.formats import k8s_pod
from services.formats.base import Input, Poison, RawRecord, Record, check_fields, quoted
from services.formats.k8s_pod import Metadata, Pod, job_of
from services.formats.kubernetes import JOB_KINDS, QUEUE_LABELS, first_label, job_id, ref_of
from services.formats.loglines import identity_of, log_lines
from services.formats.values import bounded, decoded_json, from_json, moment, name_of, value_of

# With "Cancelling deletion of Pod" the taint manager takes its eviction back, under the same reason.
_DISRUPTIONS = frozenset({"Evicted", "Preempted", "TaintManagerEviction"})
_WITHDRAWN = "Cancelling deletion"


class _Source(msgspec.Struct, frozen=True):
    component: str | None = None
    host: str | None = None


class _Object(Metadata, frozen=True):
    """The object that an Event is about, where enriched with what stands in its metadata."""

    kind: str | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    involved_object: _Object | None
    metadata: Metadata | None = None
    reason: str | None = None
    message: str | None = None
    source: _Source | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    first_timestamp: str | None = None
    cluster_name: str | None = None


_ABSENT = msgspec.Raw()


class _Kind(msgspec.Struct, frozen=True, rename="camel"):
    """Enough to tell what the value is: an Event, an object, or a watcher's envelope around one."""

    kind: str | None = None
    involved_object: msgspec.Raw = _ABSENT
    object: msgspec.Raw = _ABSENT
    metadata: msgspec.Raw = _ABSENT


_KIND = msgspec.json.Decoder(_Kind)
_EVENT = msgspec.json.Decoder(_Event)
_POD = msgspec.json.Decoder(Pod)


class K8sEvent:
    """Events and Pod objects, also in a watcher's `{"type": .., "object": ..}`."""

    name = "k8s-event"

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """What the Event or the pod's status says of a job's attempt or of a node."""
        check_fields(where, ("container",))
        value = value_of(record)
        if value is None:
            return []
        json = decoded_json(value)
        kind: _Kind = from_json(_KIND, json)
        if kind.object is not _ABSENT:
            json = bytes(kind.object).decode("utf-8", "replace")
            kind = from_json(_KIND, json)
        if kind.involved_object is not _ABSENT:
            return _from_event(from_json(_EVENT, json), record, where)
        if kind.kind == "Pod":
            return k8s_pod.events(from_json(_POD, json), record, where)
        if kind.metadata is _ABSENT:
            raise Poison("missing_field", "neither an Event (involvedObject) nor an object (kind, metadata)")
        return []  # A watcher of everything also sends Nodes, Jobs and ConfigMaps.


def _from_event(event: _Event, record: RawRecord, where: Input) -> list[Record]:
    about = event.involved_object or _Object()
    text = f"{event.reason or 'Unknown'}: {event.message or ''}"
    if about.kind == "Node":
        return [_node_event(event, about, text, record, where)]
    job = _job(about)
    if job is None and not (about.kind == "Pod" and about.labels is None):
        return []
    pod_ref = ref_of(uid, 0) if about.kind == "Pod" and (uid := name_of(about.uid, "uid")) else None
    identity = identity_of(
        where,
        cluster=event.cluster_name,
        job=job,
        attempt=pod_ref,
        node=event.source.host if event.source else None,
        stream=Stream.SCHEDULER.value,
    )
    lines = log_lines(record, identity, text.replace("\n", " "), _time(event))
    if job is not None and event.reason in _DISRUPTIONS and not (event.message or "").startswith(_WITHDRAWN):
        lines.append(_disrupted(event, about, job, pod_ref, record, where))
    return lines


def _job(about: _Object) -> str | None:
    job = job_of(about)
    if job is None and about.kind in JOB_KINDS and about.name:
        job = job_id(about.namespace, about.name)
    return job


def _disrupted(
    event: _Event, about: _Object, job: str, pod_ref: str | None, record: RawRecord, where: Input
) -> JobEvent:
    attempt_ref: dict[str, Any] = {"pod_uid": about.uid, "restart": 0} if pod_ref else {}
    return JobEvent(
        cluster=name_of(event.cluster_name, "clusterName") or where.cluster,
        job_id=job,
        phase=Phase.DISRUPTED,
        position=Position(record.topic, record.partition, record.offset, 1),
        appended_at=record.timestamp,
        scheduler="kubernetes",
        ref=pod_ref,
        attempt_ref=attempt_ref,
        state="DISRUPTED",
        reason=event.reason,  # One of the closed list above.
        message=bounded(event.message) if event.message else None,
        time=_time(event),
        queue=name_of(first_label(about.labels or {}, QUEUE_LABELS), "queue"),
    )


def _node_event(event: _Event, about: _Object, text: str, record: RawRecord, where: Input) -> NodeEvent:
    node = name_of(about.name or (event.source.host if event.source else None), "involvedObject.name")
    if node is None:
        raise Poison("missing_field", f"an Event about a Node names none: {quoted(event.reason)}")
    return NodeEvent(
        cluster=name_of(event.cluster_name, "clusterName") or where.cluster,
        node=node,
        text=bounded(text),
        position=Position(record.topic, record.partition, record.offset, 0),
        appended_at=record.timestamp,
        time=_time(event),
        source="kubernetes",
    )


def _time(event: _Event) -> float | None:
    """The first that is told: events of the scheduler have eventTime alone, those of the kubelet have not."""
    created = event.metadata.creation_timestamp if event.metadata else None
    told = (event.event_time, event.last_timestamp, event.first_timestamp, created)
    return next((seconds for text in told if (seconds := moment(text, "time")) is not None), None)
