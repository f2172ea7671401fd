"""Fluent Bit's out_kafka after the tail input and the kubernetes filter, `format json`.

Rule: a pod whose labels name no job is not a job's: its lines give nothing; without any labels it is Poison, because
the kubernetes filter may have failed on a job's pod.
"""

from __future__ import annotations

import re

from services.formats.base import Input
from services.formats.kubernetes import JOB_LABELS, RANK_LABELS, job_id, ref_of
from services.formats.loglines import Identity, identity_of
from services.formats.mapped import Names, Shipper
from services.formats.values import name_of

_RESTART = re.compile(r"/(\d{1,6})\.log$")


def _pointer(*steps: str) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _identify(where: Input, names: Names) -> Identity | None:
    job = name_of(names["job"], "job")
    if job is None and names["label"] is not None:
        job = job_id(name_of(names["namespace"], "namespace"), str(names["label"]))
    if job is None and names["labels"] is not None:
        return None
    attempt = names["attempt"]
    if attempt is None and names["pod"] is not None:
        restart = _RESTART.search(str(names["file"] or ""))
        attempt = ref_of(str(names["pod"]), int(restart.group(1)) if restart else 0)
    return identity_of(
        where,
        cluster=names["cluster"],
        job=job,
        attempt=attempt,
        rank=names["rank"],
        node=names["node"],
        stream=names["stream"],
    )


FLUENTBIT = Shipper(
    name="fluentbit",
    places={
        "text": ("log", "/log_processed/message", "message"),
        "time": ("time", "@timestamp"),
        "partial": ("_p", "logtag"),
        "cluster": ("cluster",),
        "job": ("job",),
        "label": tuple(_pointer("kubernetes", "labels", name) for name in JOB_LABELS),
        "labels": ("/kubernetes/labels",),
        "namespace": ("/kubernetes/namespace_name",),
        "attempt": ("attempt",),
        "pod": ("/kubernetes/pod_id",),
        "file": ("file", "path", "filename"),
        "rank": (
            "rank",
            *(_pointer("kubernetes", kept, name) for kept in ("labels", "annotations") for name in RANK_LABELS),
        ),
        "node": ("/kubernetes/host",),
        "stream": ("stream",),
    },
    identify=_identify,
    partial_word="P",
)
