"""Filebeat's output.kafka (7.17; 8 and 9 add fields), from files or containers.

Rule: `log.offset` of a multiline event is wrong, and `@timestamp` is the time of reading: neither identifies a line.
Rule: labels are looked up as Kubernetes has them and with their dots made `_` (`labels.dedot`, Filebeat's default).
"""

from __future__ import annotations

from services.formats.kubernetes import JOB_LABELS, RANK_LABELS
from services.formats.mapped import Shipper
from services.formats.pod_lines import identify_pod, pointers


def _labels(names: tuple[str, ...]) -> tuple[str, ...]:
    spelled = [spelling for name in names for spelling in (name, name.replace(".", "_"))]
    return pointers("/kubernetes/labels", dict.fromkeys(spelled))


FILEBEAT = Shipper(
    name="filebeat",
    places={
        "text": ("message",),
        "time": ("@timestamp",),
        "cluster": ("/fields/cluster",),
        "job": ("/job/jobid", "/fields/job"),
        "label": _labels(JOB_LABELS),
        "labels": ("/kubernetes/labels",),
        "namespace": ("/kubernetes/namespace",),
        "attempt": ("/job/attempt", "/fields/attempt"),
        "pod": ("/kubernetes/pod/uid",),
        "file": ("/log/file/path",),
        "rank": ("/job/rank", "/fields/rank", *_labels(RANK_LABELS)),
        "node": ("/job/node", "/kubernetes/node/name"),
        "stream": ("stream",),
    },
    identify=identify_pod,
)
