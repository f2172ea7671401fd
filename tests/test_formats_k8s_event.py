"""Kubernetes Events and Pod objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifiers.records import JobEvent, LogLine, NodeEvent, Phase, Position, Stream
from services.formats import FORMATS, Input, Poison, RawRecord
from services.formats.base import Record

UID = "79f8ce8a-9f27-41e7-9a84-73c03a2ad3cf"
LABELS = {"batch.kubernetes.io/job-name": "llm-train", "kueue.x-k8s.io/queue-name": "team-q"}
OOM = {
    "exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-11-21T07:50:00Z", "finishedAt": "2026-11-21T07:50:21Z",
}  # fmt: skip
RUNNING = {"running": {"startedAt": "2026-11-21T07:50:00Z"}}


def read(document: object, **row: object) -> list[Record]:
    record = RawRecord("k8s", 0, 5, 50.0, None, json.dumps(document).encode())
    return FORMATS["k8s-event"].read(record, Input("k8s", "k8s-event", "a100", **row))  # type: ignore[arg-type]


def an_event(about: dict[str, Any] | None = None, **fields: object) -> dict[str, Any]:
    pod = {"kind": "Pod", "namespace": "team-a", "name": "llm-train-0-2kbxr", "uid": UID, "labels": LABELS}
    return {
        "metadata": {"name": "e", "namespace": "team-a", "uid": "e1", "creationTimestamp": "2026-11-21T07:50:21Z"},
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "source": {"component": "kubelet", "host": "gpu-node-1"},
        "lastTimestamp": "2026-11-21T07:50:21Z",
        "eventTime": None,
        "involvedObject": pod if about is None else about,
    } | fields


def a_pod(*statuses: dict[str, Any], **status: object) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "llm-train-0-2kbxr", "namespace": "team-a", "uid": UID, "labels": LABELS},
        "spec": {
            "nodeName": "gpu-node-1",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running", "containerStatuses": list(statuses), **status},
    }


def a_container(state: dict[str, Any], restarts: int = 0, name: str = "main", **more: object) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "state": state, **more}


def told(document: object, **row: object) -> list[tuple[object, ...]]:
    got = read(document, **row)
    assert all(isinstance(each, JobEvent) for each in got)
    return [(each.phase.value, each.ref, each.exit_code, each.reason) for each in got if isinstance(each, JobEvent)]


def test_an_oom_killed_pod_is_an_attempt_that_ended() -> None:
    """The main container's end gives the exit facts; pod UID and restarts identify the attempt."""
    (got,) = read(a_pod(a_container({"terminated": OOM}, 2)))

    assert got == JobEvent(
        cluster="a100",
        job_id="team-a.llm-train",
        phase=Phase.ENDED,
        position=Position("k8s", 0, 5, 0),
        appended_at=50.0,
        scheduler="kubernetes",
        ref=f"{UID}/2",
        attempt_ref={"pod_uid": UID, "restart": 2},
        state="FAILED",
        exit_code=137,
        reason="OOMKilled",
        time=1795247421.0,
        started_at=1795247400.0,
        ended_at=1795247421.0,
        nodes=("gpu-node-1",),
        gpus=8,
        job_name="llm-train",
        queue="team-q",
    )


def test_a_running_pod_started() -> None:
    """A running container is an attempt's start."""
    assert told(a_pod(a_container(RUNNING))) == [("started", f"{UID}/0", None, None)]


def test_a_clean_exit_is_completed() -> None:
    """Exit code 0 ends an attempt well."""
    (got,) = read(a_pod(a_container({"terminated": {"exitCode": 0, "reason": "Completed"}})))

    assert isinstance(got, JobEvent)
    assert (got.state, got.exit_code) == ("COMPLETED", 0)


def test_a_restarted_container_tells_of_both_runs() -> None:
    """After a restart `lastState` is the run before, and `state` the present one."""
    container = a_container(RUNNING, 3, lastState={"terminated": OOM})

    assert told(a_pod(container)) == [
        ("ended", f"{UID}/2", 137, "OOMKilled"),
        ("started", f"{UID}/3", None, None),
    ]


def test_a_container_in_back_off_tells_of_its_last_run() -> None:
    """While the kubelet waits, the count still names the run that ended."""
    container = a_container({"waiting": {"reason": "CrashLoopBackOff"}}, 3, lastState={"terminated": OOM})

    assert told(a_pod(container)) == [("ended", f"{UID}/3", 137, "OOMKilled")]


def test_a_disruption_condition_is_a_disruption() -> None:
    """DisruptionTarget comes before or with the end."""
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        {"type": "DisruptionTarget", "status": "False", "reason": "EvictionByEvictionAPI"},
    ]

    assert told(a_pod(a_container(RUNNING), conditions=conditions)) == [
        ("started", f"{UID}/0", None, None),
        ("disrupted", f"{UID}/0", None, "PreemptionByScheduler"),
    ]


def test_a_pod_failed_as_a_whole_ended() -> None:
    """An evicted pod may have no container status at all: its own reason is what is known."""
    (got,) = read(a_pod(phase="Failed", reason="Evicted", message="low on memory"))

    assert isinstance(got, JobEvent)
    assert (got.phase, got.ref, got.exit_code, got.reason) == (Phase.ENDED, f"{UID}/0", None, "Evicted")


def test_a_sidecar_does_not_speak_for_the_pod() -> None:
    """The pod's first container counts, or the default one, or the one that settings name."""
    sidecar = a_container({"terminated": {"exitCode": 0}}, 0, "istio-proxy")
    pod = a_pod(sidecar, a_container({"terminated": OOM}))
    chosen = pod | {
        "metadata": pod["metadata"] | {"annotations": {"kubectl.kubernetes.io/default-container": "istio-proxy"}}
    }

    assert [told(pod)[0][2], told(chosen)[0][2]] == [137, 0]
    assert told(chosen, fields={"container": "main"})[0][2] == 137


def test_a_watchers_envelope_is_opened() -> None:
    """`{"type": .., "object": ..}` is what a watch gives."""
    pod = a_pod(a_container({"terminated": OOM}))

    assert read({"type": "MODIFIED", "object": pod}) == read(pod)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {}},
        {"kind": "Job", "metadata": {"name": "j"}},
        a_pod(a_container({"terminated": OOM})) | {"metadata": {"uid": UID, "labels": {"app": "coredns"}}},
        a_pod(a_container({"waiting": {}})),
        {"kind": "Pod", "metadata": {"uid": UID, "labels": LABELS}},
    ],
)
def test_what_says_nothing_of_an_attempt_gives_nothing(document: object) -> None:
    """Other kinds, pods of no job and pods that have not started are knowingly nothing."""
    assert read(document) == []


def test_a_pods_owner_names_the_job_where_labels_do_not() -> None:
    """The owner reference is the second way to the job."""
    pod = a_pod(a_container(RUNNING))
    pod["metadata"] |= {"labels": {}, "ownerReferences": [{"kind": "Job", "name": "owned"}]}

    assert [each.job_id for each in read(pod) if isinstance(each, JobEvent)] == ["team-a.owned"]


def test_an_eviction_is_a_line_and_a_disruption() -> None:
    """An Evicted Event gives a scheduler line for signatures and a disruption for the attempt."""
    line, disruption = read(an_event())

    assert line == LogLine(
        cluster="a100",
        job_id="team-a.llm-train",
        text="Evicted: The node was low on resource: memory.",
        stream=Stream.SCHEDULER,
        position=Position("k8s", 0, 5, 0),
        appended_at=50.0,
        ref=f"{UID}/0",
        node="gpu-node-1",
        time=1795247421.0,
    )
    assert isinstance(disruption, JobEvent)
    assert (disruption.phase, disruption.reason, disruption.ref, disruption.position.index) == (
        Phase.DISRUPTED,
        "Evicted",
        f"{UID}/0",
        1,
    )


@pytest.mark.parametrize("reason", ["FailedMount", "BackOff", "FailedScheduling", "Started"])
def test_other_pod_events_are_lines_alone(reason: str) -> None:
    """Other Events only add a line to the scheduler's stream."""
    assert [type(each) for each in read(an_event(reason=reason))] == [LogLine]


def test_a_withdrawn_eviction_is_no_disruption() -> None:
    """The taint manager uses one reason for evicting and for taking it back."""
    messages = ["Marking for deletion Pod team-a/x", "Cancelling deletion of Pod team-a/x"]

    assert [len(read(an_event(reason="TaintManagerEviction", message=message))) for message in messages] == [2, 1]


def test_a_job_event_is_a_line_of_the_job() -> None:
    """An Event about the Job itself belongs to the job, not to one attempt."""
    about = {"kind": "Job", "namespace": "team-a", "name": "llm-train", "uid": "u2", "labels": {}}

    (got,) = read(an_event(about, reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit"))

    assert isinstance(got, LogLine)
    assert (got.job_id, got.ref) == ("team-a.llm-train", None)


def test_a_node_event_is_told_of_the_node() -> None:
    """An Event about a Node is a NodeEvent with reason and message."""
    about = {"kind": "Node", "name": "gpu-node-1", "uid": "gpu-node-1"}

    assert read(an_event(about, reason="NodeNotReady", message="Node is not ready")) == [
        NodeEvent(
            cluster="a100",
            node="gpu-node-1",
            text="NodeNotReady: Node is not ready",
            position=Position("k8s", 0, 5, 0),
            appended_at=50.0,
            time=1795247421.0,
            source="kubernetes",
        )
    ]


def test_an_event_without_the_pods_labels_has_no_job() -> None:
    """Exporters that do not enrich leave the job unknown: the pod's name is not taken apart."""
    about = {"kind": "Pod", "namespace": "team-a", "name": "llm-train-0-2kbxr", "uid": UID}

    (got,) = read(an_event(about))

    assert isinstance(got, LogLine)
    assert (got.job_id, got.ref) == (None, f"{UID}/0")


@pytest.mark.parametrize(
    "about", [{"kind": "ConfigMap", "name": "x"}, {"kind": "Pod", "labels": {"app": "coredns"}}, {}]
)
def test_events_of_no_job_give_nothing(about: dict[str, Any]) -> None:
    """Events about things outside jobs are knowingly nothing."""
    assert read(an_event(about)) == []


@pytest.mark.parametrize(
    ("fields", "time"),
    [
        ({"eventTime": "2026-11-21T07:50:23.500000Z"}, 1795247423.5),
        ({"lastTimestamp": "2026-11-21T07:50:22Z"}, 1795247422.0),
        ({"lastTimestamp": None, "firstTimestamp": "2026-11-21T07:50:20Z"}, 1795247420.0),
        ({"lastTimestamp": None, "firstTimestamp": None}, 1795247421.0),
        ({"lastTimestamp": None, "metadata": {}}, None),
    ],
)
def test_the_first_time_that_is_told_counts(fields: dict[str, Any], time: float | None) -> None:
    """New-style Events have eventTime alone, old ones the rest; creation comes last."""
    got = read(an_event(reason="BackOff", **fields))[0]

    assert isinstance(got, LogLine)
    assert got.time == time


def test_the_exporter_may_name_the_cluster() -> None:
    """`clusterName` wins over the input's cluster."""
    assert [each.cluster for each in read(an_event(clusterName="h100"))] == ["h100", "h100"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "missing_field"),
        ([], "wrong_type"),
        ({"kind": "Pod", "metadata": {"labels": LABELS}}, "missing_field"),
        (a_pod(a_container({"terminated": OOM}, -1)), "wrong_type"),
        (an_event({"kind": "Node"}, source={}), "missing_field"),
        ({"object": 5}, "wrong_type"),
    ],
)
def test_what_is_no_kubernetes_object_is_poison(document: object, reason: str) -> None:
    """Values that are neither Event nor object, or break their shape, are Poison."""
    with pytest.raises(Poison) as caught:
        read(document)

    assert caught.value.reason == reason
