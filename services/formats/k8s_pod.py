"""A Pod object's status -> what became of its container runs: started, disrupted, ended.

Rule: one container speaks for the pod: the one that settings name, else the pod's default, else its first.
Rule: the count of restarts names the run that `state` shows; `lastState` is the run before it, or the same run while
the kubelet waits to restart it (CrashLoopBackOff).
"""

from __future__ import annotations

from typing import Any

import msgspec

from classifiers.records import JobEvent, Phase, Position
from services.formats.base import Input, Poison, RawRecord, Record
from services.formats.kubernetes import JOB_KINDS, JOB_LABELS, QUEUE_LABELS, first_label, job_id, ref_of
from services.formats.values import MAX_INT, bounded, moment, name_of, whole

_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
MAX_RESTARTS = 1_000_000


class Owner(msgspec.Struct, frozen=True):
    """One of metadata.ownerReferences."""

    kind: str | None = None
    name: str | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an object's metadata."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    creation_timestamp: str | None = None


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class _Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class _State(msgspec.Struct, frozen=True):
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    restart_count: int = 0
    state: _State | None = None
    last_state: _State | None = None


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _Resources(msgspec.Struct, frozen=True):
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str | None = None
    resources: _Resources | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    containers: list[_Container] | None = None


class Pod(msgspec.Struct, frozen=True):
    """What is read of a Pod object."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


def job_of(metadata: Metadata) -> str | None:
    """The id of the job that an object's labels or owners name."""
    name = first_label(metadata.labels or {}, JOB_LABELS)
    if name is None:
        owners = metadata.owner_references or []
        name = next((owner.name for owner in owners if owner.kind in JOB_KINDS and owner.name), None)
    return name_of(job_id(metadata.namespace, name), "job") if name else None


def events(pod: Pod, record: RawRecord, where: Input) -> list[Record]:
    """What the status says of the pod's attempts, oldest first; none where the pod is not a job's."""
    job = job_of(pod.metadata)
    if job is None:
        return []
    uid = name_of(pod.metadata.uid, "metadata.uid")
    if uid is None:
        raise Poison("missing_field", "metadata.uid of a job's pod is empty")
    status = pod.status or _Status()
    main = _main_container(pod, status, where)
    told = [*_run_facts(main), *_disruptions(status, main.restart_count), *_end_without_container(status, main)]
    common = _common(pod, job, record, where)
    return [
        JobEvent(
            **common,
            **facts,
            position=Position(record.topic, record.partition, record.offset, index),
            ref=ref_of(uid, restart),
            attempt_ref={"pod_uid": uid, "restart": restart},
        )
        for index, (restart, facts) in enumerate(told)
    ]


_Facts = tuple[int, dict[str, Any]]


def _common(pod: Pod, job: str, record: RawRecord, where: Input) -> dict[str, Any]:
    labels = pod.metadata.labels or {}
    node = name_of(pod.spec.node_name, "spec.nodeName") if pod.spec else None
    return {
        "cluster": where.cluster,
        "job_id": job,
        "appended_at": record.timestamp,
        "scheduler": "kubernetes",
        "nodes": (node,) if node else (),
        "gpus": _gpus(pod.spec),
        "job_name": name_of(first_label(labels, JOB_LABELS), "job"),
        "queue": name_of(first_label(labels, QUEUE_LABELS), "queue"),
    }


def _main_container(pod: Pod, status: _Status, where: Input) -> _ContainerStatus:
    statuses = status.container_statuses or []
    specified = pod.spec.containers[0].name if pod.spec and pod.spec.containers else None
    wanted = where.fields.get("container") or (pod.metadata.annotations or {}).get(_DEFAULT_CONTAINER) or specified
    named = [each for each in statuses if each.name == wanted]
    main = next(iter(named or statuses), _ContainerStatus())
    whole(main.restart_count, "restartCount", high=MAX_RESTARTS)
    return main


def _run_facts(main: _ContainerStatus) -> list[_Facts]:
    state, last, run = main.state or _State(), main.last_state or _State(), main.restart_count
    facts: list[_Facts] = []
    if last.terminated is not None:
        waiting = state.running is None and state.terminated is None
        facts.append((run if waiting else max(run - 1, 0), _ended(last.terminated)))
    if state.running is not None:
        started_at = moment(state.running.started_at, "startedAt")
        facts.append((run, {"phase": Phase.STARTED, "state": "RUNNING", "time": started_at, "started_at": started_at}))
    if state.terminated is not None:
        facts.append((run, _ended(state.terminated)))
    return facts


def _ended(terminated: _Terminated) -> dict[str, Any]:
    finished_at = moment(terminated.finished_at, "finishedAt")
    return {
        "phase": Phase.ENDED,
        "state": "COMPLETED" if terminated.exit_code == 0 else "FAILED",
        "exit_code": whole(terminated.exit_code, "exitCode", low=-MAX_INT),
        "signal": whole(terminated.signal, "signal", high=255) or None,
        "reason": name_of(terminated.reason, "reason"),
        "message": bounded(terminated.message) if terminated.message else None,
        "time": finished_at,
        "started_at": moment(terminated.started_at, "startedAt"),
        "ended_at": finished_at,
    }


def _disruptions(status: _Status, restart: int) -> list[_Facts]:
    return [
        (
            restart,
            {
                "phase": Phase.DISRUPTED,
                "state": "DISRUPTED",
                "reason": name_of(condition.reason, "reason"),
                "message": bounded(condition.message) if condition.message else None,
                "time": moment(condition.last_transition_time, "lastTransitionTime"),
            },
        )
        for condition in (status.conditions or [])[:64]
        if condition.type == "DisruptionTarget" and condition.status == "True"
    ]


def _end_without_container(status: _Status, main: _ContainerStatus) -> list[_Facts]:
    """The end of a pod that the kubelet failed as a whole: evicted, over its deadline, its node shut down."""
    if status.phase != "Failed" or (main.state is not None and main.state.terminated is not None):
        return []
    facts = {
        "phase": Phase.ENDED,
        "state": "FAILED",
        "reason": name_of(status.reason, "status.reason"),
        "message": bounded(status.message) if status.message else None,
        "started_at": moment(status.start_time, "startTime"),
    }
    return [(main.restart_count, facts)]


def _gpus(spec: _Spec | None) -> int | None:
    """The GPUs that the containers' limits add up to."""
    counts = [
        whole(container.resources.limits.get(name), f"limits.{name}") or 0
        for container in (spec.containers if spec and spec.containers else [])
        if container.resources and container.resources.limits
        for name in _GPU_RESOURCES
    ]
    return min(sum(counts), MAX_INT) or None
