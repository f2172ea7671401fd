"""Fluent Bit's records of Kubernetes containers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifiers.records import LogLine, Position, Stream
from services.formats import FORMATS, Input, Poison, RawRecord
from services.formats.base import Record

UID = "79f8ce8a-9f27-41e7-9a84-73c03a2ad3cf"
LABELS = {"batch.kubernetes.io/job-name": "llm-train", "batch.kubernetes.io/job-completion-index": "3"}


def document(labels: dict[str, str] | None = None, **fields: object) -> dict[str, Any]:
    return {
        "@timestamp": 1795244562.25,
        "stream": "stderr",
        "_p": "F",
        "log": "RuntimeError: CUDA out of memory.",
        "kubernetes": {
            "pod_name": "llm-train-0-2kbxr",
            "namespace_name": "team-a",
            "pod_id": UID,
            "labels": LABELS if labels is None else labels,
            "annotations": {},
            "host": "gpu-node-1",
        },
        **fields,
    }


def read(value: dict[str, Any], **row: object) -> list[Record]:
    record = RawRecord("logs", 0, 5, 50.0, None, json.dumps(value).encode())
    return FORMATS["fluentbit"].read(record, Input("logs", "fluentbit", **row))  # type: ignore[arg-type]


def line(value: dict[str, Any], **row: object) -> LogLine:
    (only,) = read(value, **row)
    assert isinstance(only, LogLine)
    return only


def test_a_job_pods_line_is_read() -> None:
    """Labels name job and rank, the pod's UID the attempt, `host` the node, the double the time."""
    assert line(document()) == LogLine(
        cluster="default",
        job_id="team-a.llm-train",
        text="RuntimeError: CUDA out of memory.",
        stream=Stream.STDERR,
        position=Position("logs", 0, 5, 0),
        appended_at=50.0,
        ref=f"{UID}/0",
        rank=3,
        node="gpu-node-1",
        time=1795244562.25,
    )


def test_the_containers_own_time_is_preferred() -> None:
    """CRI's time is closer to the print than the shipper's."""
    assert line(document(time="2026-11-21T07:02:42.143330123Z")).time == 1795244562.14333


def test_iso_timestamps_are_read() -> None:
    """`timestamp_format iso8601` gives the same time as the double."""
    assert line(document() | {"@timestamp": "2026-11-21T07:02:42.250000Z"}).time == 1795244562.25


def test_the_log_files_name_tells_the_restart() -> None:
    """With `path_key` the file's name counts the restarts of the container."""
    assert line(document(path="/var/log/pods/x/main/2.log")).ref == f"{UID}/2"


def test_a_split_line_is_partial() -> None:
    """`_p` = P marks a piece of a line that goes on."""
    assert [line(document(_p=mark)).partial for mark in ("P", "F")] == [True, False]


@pytest.mark.parametrize(
    "label", ["jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "ray.io/cluster", "job-name"]
)
def test_other_operators_name_their_jobs(label: str) -> None:
    """JobSet, Kubeflow, Ray and older Jobs have labels of their own."""
    assert line(document({label: "train"})).job_id == "team-a.train"


def test_the_outermost_owner_names_the_job() -> None:
    """A JobSet's pod also carries the name of the Job in between, which is not what was submitted."""
    labels = {"batch.kubernetes.io/job-name": "train-workers-0", "jobset.sigs.k8s.io/jobset-name": "train"}

    assert line(document(labels)).job_id == "team-a.train"


def test_a_pod_of_no_job_gives_nothing() -> None:
    """A daemon's lines are knowingly nothing."""
    assert read(document({"app": "coredns"})) == []
    assert read(document({})) == []


def test_a_line_without_labels_is_poison() -> None:
    """Without the filter's metadata nobody knows whether the line was a job's."""
    fields = document()
    del fields["kubernetes"]["labels"]

    for broken in (fields, {"log": "x"}):
        with pytest.raises(Poison, match="no_identity"):
            read(broken)


def test_the_job_can_be_mapped() -> None:
    """A site's own label names the job where settings say so."""
    fields = {"job": "/kubernetes/labels/company.example~1run"}

    assert line(document({"company.example/run": "r-7"}), fields=fields).job_id == "r-7"


def test_merged_logs_have_their_text_below() -> None:
    """With merge_log and keep_log off the text is `log_processed.message`."""
    fields = document(log_processed={"message": "boom", "level": "error"})
    assert line(fields).text == "RuntimeError: CUDA out of memory."

    del fields["log"]
    assert line(fields).text == "boom"


def test_a_merged_log_of_any_shape_does_not_disturb() -> None:
    """With `log` there, nobody minds what the job put into its own JSON."""
    assert line(document(log_processed={"message": {"a": 1}})).text == "RuntimeError: CUDA out of memory."
