"""Vector's records of Kubernetes containers and files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifiers.records import LogLine, Stream
from services.formats import FORMATS, Input, Poison, RawRecord


def line(value: dict[str, Any], **row: Any) -> LogLine:
    record = RawRecord("logs", 0, 5, 50.0, None, json.dumps(value).encode())
    (only,) = FORMATS["vector"].read(record, Input("logs", "vector", **row))
    assert isinstance(only, LogLine)
    return only


def identity(got: LogLine) -> tuple[object, ...]:
    return got.cluster, got.job_id, got.ref, got.rank, got.node, got.stream


POD = {
    "file": "/var/log/pods/default_llm-train-0-2kbxr_79f8ce8a/main/1.log",
    "kubernetes": {
        "pod_labels": {"batch.kubernetes.io/job-name": "llm-train", "batch.kubernetes.io/job-completion-index": "4"},
        "pod_name": "llm-train-0-2kbxr",
        "pod_namespace": "default",
        "pod_node_name": "gpu-node-1",
        "pod_owner": "Job/llm-train",
        "pod_uid": "79f8ce8a",
    },
    "message": "RuntimeError: boom",
    "source_type": "kubernetes_logs",
    "stream": "stderr",
    "timestamp": "2026-11-21T07:02:42.143330123Z",
}


def test_a_job_pods_line_is_read() -> None:
    """Labels name job and rank, the pod's UID and the file's number the attempt."""
    got = line(POD, cluster="a100")

    assert identity(got) == ("a100", "default.llm-train", "79f8ce8a/1", 4, "gpu-node-1", Stream.STDERR)
    assert (got.text, got.time) == ("RuntimeError: boom", 1795244562.14333)


def test_a_file_sources_line_takes_its_identity_from_the_file_name() -> None:
    """The file source has no Kubernetes metadata: `file_pattern` names the job."""
    value = {"file": "/jobs/17.1.n3.out", "host": "nfs1", "message": "boom", "source_type": "file"}
    pattern = r"(?P<job>\d+)\.(?P<rank>\d+)\.(?P<node>[^.]+)\.(?P<stream>out|err)"

    got = line(value, fields={"file_pattern": pattern})

    assert identity(got) == ("default", "17", None, 1, "n3", Stream.STDOUT)


def test_a_bare_string_is_poison() -> None:
    """With log_namespace all metadata is lost: the line can't be placed."""
    with pytest.raises(Poison, match="wrong_type: Expected `object`"):
        FORMATS["vector"].read(RawRecord("logs", 0, 5, 50.0, None, b'"RuntimeError: boom"'), Input("logs", "vector"))
