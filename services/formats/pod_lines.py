"""Identity of a container's log line, from what a shipper's Kubernetes metadata says of its pod.

Rule: a pod whose labels name no job is not a job's: its lines give nothing; without any labels they are Poison, because
the shipper's metadata may be missing for a job's pod.
Rule: the restart count stands in the log file's name alone; a shipper that does not send it means restart 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from services.formats.base import Input
from services.formats.kubernetes import job_id, ref_of
from services.formats.loglines import Identity, identity_of
from services.formats.mapped import FILE_GROUPS, Names
from services.formats.values import name_of

_RESTART = re.compile(r"/(\d{1,6})\.log$")


def pointers(above: str, names: Iterable[str]) -> tuple[str, ...]:
    """JSON pointers to names below a pointer."""
    return tuple(above + "/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def identify_pod(where: Input, names: Names) -> Identity | None:
    """The identity of a line by explicit names, else by its pod; None where the pod is not a job's.  Raises Poison."""
    told = {name: names.get(name) for name in FILE_GROUPS}
    if told["job"] is None and names["label"] is not None:
        told["job"] = job_id(name_of(names["namespace"], "namespace"), str(names["label"]))
    if told["job"] is None and names["labels"] is not None:
        return None
    if told["attempt"] is None and names["pod"] is not None:
        restart = _RESTART.search(str(names["file"] or ""))
        told["attempt"] = ref_of(str(names["pod"]), int(restart.group(1)) if restart else 0)
    return identity_of(where, **told)
