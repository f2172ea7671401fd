"""rsyslog's omkafka: JSON by a template (`option.jsonf`) or the property `jsonmesg`.

Rule: `host` is where rsyslog ran, which for job logs on a shared file system is not the job's node: it names the node
only on inputs whose stream is `node`, or where settings map it.
Rule: with `escapeLF` the two characters backslash and n stand for a line feed, unless `escaped_lf = "keep"`.
"""

from __future__ import annotations

from classifiers.records import Stream
from services.formats.base import Input
from services.formats.loglines import Identity
from services.formats.mapped import Names, Shipper, identify_by_names


def identify_host(where: Input, names: Names) -> Identity:
    """The identity by names and file name; on inputs of a node's stream the host is the node."""
    if where.stream is Stream.NODE and names["node"] is None:
        names = {**names, "node": names["host"]}
    return identify_by_names(where, names)


RSYSLOG = Shipper(
    name="rsyslog",
    places={
        "text": ("message", "msg"),
        "time": ("@timestamp", "timereported", "timegenerated"),
        "cluster": ("cluster",),
        "job": ("job", "jobid", "job_id"),
        "attempt": ("attempt", "ref"),
        "rank": ("rank",),
        "node": ("node",),
        "host": ("host", "hostname"),
        "stream": ("stream",),
        "file": ("file", "/$!/metadata/filename"),
    },
    identify=identify_host,
    escapes_lf=True,
)
