"""Fluent Bit's out_kafka after the tail input and the kubernetes filter, `format json`.

Rule: `_p` = P marks a piece of a line that the container runtime split; whoever joins lines needs it.
"""

from __future__ import annotations

from services.formats.kubernetes import JOB_LABELS, RANK_LABELS
from services.formats.mapped import Shipper
from services.formats.pod_lines import identify_pod, pointers

FLUENTBIT = Shipper(
    name="fluentbit",
    places={
        "text": ("log", "/log_processed/message", "message"),
        "time": ("time", "@timestamp"),
        "partial": ("_p", "logtag"),
        "cluster": ("cluster",),
        "job": ("job",),
        "label": pointers("/kubernetes/labels", JOB_LABELS),
        "labels": ("/kubernetes/labels",),
        "namespace": ("/kubernetes/namespace_name",),
        "attempt": ("attempt",),
        "pod": ("/kubernetes/pod_id",),
        "file": ("file", "path", "filename"),
        "rank": (
            "rank",
            *pointers("/kubernetes/labels", RANK_LABELS),
            *pointers("/kubernetes/annotations", RANK_LABELS),
        ),
        "node": ("/kubernetes/host",),
        "stream": ("stream",),
    },
    identify=identify_pod,
    partial_word="P",
)
