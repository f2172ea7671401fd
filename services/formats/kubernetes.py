"""What labels and owners of a Kubernetes object say: which job, which rank, which attempt.

Rule: a job's id is `namespace.name`, because a name is unique only within its namespace (which holds no dot).
Rule: an attempt is one container run: pod UID and restart count.
"""

from __future__ import annotations

from collections.abc import Mapping

# The outermost owner first: a JobSet's pods also carry the label of the Job in between.
JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
RANK_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
)
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")
JOB_KINDS = frozenset(
    {"Job", "JobSet", "PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "RayCluster"}
)


def first_label(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first of the named labels that says something."""
    return next((labels[name] for name in names if labels.get(name)), None)


def job_id(namespace: str | None, name: str) -> str:
    """The job's id, the same from log lines, pods and events."""
    return f"{namespace or 'default'}.{name}"


def ref_of(pod_uid: str, restart: int) -> str:
    """The attempt's identity, the same text from log lines and from pods."""
    return f"{pod_uid}/{restart}"
