"""Vector's kafka sink after the kubernetes_logs or file source, legacy log namespace.

Rule: with `log_namespace` the value is a bare JSON string without any metadata: that is Poison, not a guess.
"""

from __future__ import annotations

from services.formats.kubernetes import JOB_LABELS, RANK_LABELS
from services.formats.mapped import Shipper
from services.formats.pod_lines import identify_pod, pointers

VECTOR = Shipper(
    name="vector",
    places={
        "text": ("message",),
        "time": ("timestamp",),
        "cluster": ("cluster",),
        "job": ("job",),
        "label": pointers("/kubernetes/pod_labels", JOB_LABELS),
        "labels": ("/kubernetes/pod_labels",),
        "namespace": ("/kubernetes/pod_namespace",),
        "attempt": ("attempt",),
        "pod": ("/kubernetes/pod_uid",),
        "file": ("file",),
        "rank": (
            "rank",
            *pointers("/kubernetes/pod_labels", RANK_LABELS),
            *pointers("/kubernetes/pod_annotations", RANK_LABELS),
        ),
        "node": ("node", "/kubernetes/pod_node_name"),
        "stream": ("stream",),
    },
    identify=identify_pod,
)
