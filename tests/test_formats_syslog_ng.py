"""Records of syslog-ng's format-json."""

from __future__ import annotations

import json
from typing import Any

from classifiers.records import LogLine, Stream
from services.formats import FORMATS, Input, RawRecord


def line(value: dict[str, Any], **row: Any) -> LogLine:
    record = RawRecord("logs", 0, 5, 50.0, None, json.dumps(value).encode())
    (only,) = FORMATS["syslog-ng"].read(record, Input("logs", "syslog-ng", **row))
    assert isinstance(only, LogLine)
    return only


def identity(got: LogLine) -> tuple[object, ...]:
    return got.cluster, got.job_id, got.ref, got.rank, got.node, got.stream


RECORD = {
    "SOURCE": "s_f",
    "PRIORITY": "notice",
    "MESSAGE": "RuntimeError: CUDA error",
    "HOST_FROM": "vm",
    "HOST": "vm",
    "FILE_NAME": "/jobs/17.1.n3.out",
    "DATE": "Nov 21 07:28:27",
}
PATTERN = r"(?P<job>\d+)\.(?P<rank>\d+)\.(?P<node>[^.]+)\.(?P<stream>out|err)"


def test_a_files_line_is_read() -> None:
    """The file's name tells who printed; DATE has no year and is no time."""
    got = line(RECORD, fields={"file_pattern": PATTERN})

    assert identity(got) == ("default", "17", None, 1, "n3", Stream.STDOUT)
    assert (got.text, got.time) == ("RuntimeError: CUDA error", None)


def test_the_host_is_the_node_of_node_inputs_alone() -> None:
    """A kernel log's host is its node."""
    assert line({"MESSAGE": "Xid 79", "HOST": "n1"}, stream=Stream.NODE).node == "n1"
    assert line({"MESSAGE": "x", "HOST": "nfs1", "JOB": "1"}).node is None


def test_a_macro_with_year_and_zone_is_a_time() -> None:
    """ISODATE and UNIXTIME are read."""
    times = [
        line({"MESSAGE": "x", "JOB": "1", **told}).time
        for told in ({"ISODATE": "2026-11-21T07:12:44+00:00"}, {"UNIXTIME": "1795245164"})
    ]

    assert times == [1795245164.0, 1795245164.0]
