"""Fluentd's records of Kubernetes containers."""

from __future__ import annotations

import json
from typing import Any

from classifiers.records import LogLine, Stream
from services.formats import FORMATS, Input, RawRecord


def line(value: dict[str, Any], **row: Any) -> LogLine:
    record = RawRecord("logs", 0, 5, 50.0, None, json.dumps(value).encode())
    (only,) = FORMATS["fluentd"].read(record, Input("logs", "fluentd", **row))
    assert isinstance(only, LogLine)
    return only


def identity(got: LogLine) -> tuple[object, ...]:
    return got.cluster, got.job_id, got.ref, got.rank, got.node, got.stream


RECORD = {
    "stream": "stderr",
    "logtag": "F",
    "message": "RuntimeError: boom",
    "time": "2026-11-21T07:02:42.143330123+00:00",
    "kubernetes": {
        "namespace_name": "default",
        "pod_id": "79f8ce8a",
        "host": "gpu-node-1",
        "labels": {"job-name": "llm-train"},
    },
    "tag": "kubernetes.var.log.containers.x",
}


def test_a_job_pods_line_is_read() -> None:
    """Labels name the job, the pod's UID the attempt."""
    got = line(RECORD)

    assert identity(got) == ("default", "default.llm-train", "79f8ce8a/0", None, "gpu-node-1", Stream.STDERR)
    assert (got.text, got.time, got.partial) == ("RuntimeError: boom", 1795244562.14333, False)


def test_a_split_line_is_partial() -> None:
    """`logtag` = P marks a piece of a line that goes on."""
    assert line(RECORD | {"logtag": "P"}).partial
