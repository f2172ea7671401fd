"""Fluentd's out_kafka2 and rdkafka2, `<format> @type json`, after kubernetes_metadata_filter.

Rule: `logtag` = P marks a piece of a line that the container runtime split.
"""

from __future__ import annotations

from services.formats.kubernetes import JOB_LABELS, RANK_LABELS
from services.formats.mapped import Shipper
from services.formats.pod_lines import identify_pod, pointers

FLUENTD = Shipper(
    name="fluentd",
    places={
        "text": ("message", "log"),
        "time": ("time", "@timestamp"),
        "partial": ("logtag",),
        "cluster": ("cluster",),
        "job": ("job",),
        "label": pointers("/kubernetes/labels", JOB_LABELS),
        "labels": ("/kubernetes/labels",),
        "namespace": ("/kubernetes/namespace_name",),
        "attempt": ("attempt",),
        "pod": ("/kubernetes/pod_id",),
        "file": ("file", "path"),
        "rank": ("rank", *pointers("/kubernetes/labels", RANK_LABELS)),
        "node": ("node", "/kubernetes/host"),
        "stream": ("stream",),
    },
    identify=identify_pod,
    partial_word="P",
)
