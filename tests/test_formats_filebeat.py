"""Filebeat's records of files and Kubernetes containers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifiers.records import LogLine, Stream
from services.formats import FORMATS, Input, Poison, RawRecord


def line(value: dict[str, Any], **row: Any) -> LogLine:
    record = RawRecord("logs", 0, 5, 50.0, None, json.dumps(value).encode())
    (only,) = FORMATS["filebeat"].read(record, Input("logs", "filebeat", **row))
    assert isinstance(only, LogLine)
    return only


def identity(got: LogLine) -> tuple[object, ...]:
    return got.cluster, got.job_id, got.ref, got.rank, got.node, got.stream


FILE = {
    "@timestamp": "2026-11-21T07:25:58.129Z",
    "@metadata": {"beat": "filebeat"},
    "log": {"offset": 87, "file": {"path": "/jobs/17.0.1.n3.out"}, "flags": ["multiline"]},
    "message": "RuntimeError: boom",
    "fields": {"cluster": "a100", "scheduler": "slurm"},
    "job": {"step": "0", "rank": "1", "node": "n3", "jobid": "17"},
    "host": {"name": "vm"},
}


def test_a_dissected_line_is_read() -> None:
    """What a dissect processor put under `job` identifies the line, `fields` name the cluster."""
    got = line(FILE)

    assert identity(got) == ("a100", "17", None, 1, "n3", Stream.STDERR)
    assert (got.text, got.time) == ("RuntimeError: boom", 1795245958.129)


@pytest.mark.parametrize("label", ["batch.kubernetes.io/job-name", "batch_kubernetes_io/job-name"])
def test_a_pods_labels_are_found_with_and_without_dots(label: str) -> None:
    """Filebeat makes the dots of labels `_` unless told otherwise."""
    pod = {"namespace": "team-a", "labels": {label: "train"}, "pod": {"uid": "u"}, "node": {"name": "n1"}}

    got = line({"message": "x", "stream": "stdout", "kubernetes": pod})

    assert identity(got) == ("default", "team-a.train", "u/0", None, "n1", Stream.STDOUT)


def test_a_line_without_job_is_poison() -> None:
    """A file that no processor took apart names no job."""
    with pytest.raises(Poison, match="no_identity"):
        line({"message": "x", "log": {"file": {"path": "/var/log/x"}}})
