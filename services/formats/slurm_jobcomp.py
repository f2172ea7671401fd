"""Slurm's jobcomp/kafka (23.02 to 26.05), and the same object posted by jobcomp/elasticsearch.

Rule: an attempt is (job, @start), because no message carries the restart count; the text of @start is its `ref`.
Rule: `derived_ec` is not read: it is sticky, attempt 2 repeats the code of attempt 1.
Rule: `script` is not read: it may hold secrets.
Rule: a zero exit code is believed from COMPLETED alone: TIMEOUT, CANCELLED and NODE_FAIL also say "0:0" or "0:1".
"""

from __future__ import annotations

import re

import msgspec

from classifiers.records import JobEvent, Phase, Position
from services.formats.base import Input, Poison, RawRecord, Record, check_fields, quoted
from services.formats.hostlist import expand
from services.formats.values import bounded, decoded_json, from_json, moment, name_of, value_of, whole

_ENDED = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "RECONFIG_FAIL", "SPECIAL_EXIT", "TIMEOUT",
    }
)  # fmt: skip
# A requeue sends a second message with the finished attempt's @start: not a failure.  RESIZING and SUSPENDED go on
# running, REVOKED ran on another cluster of the federation.
_SILENT = frozenset(
    {"COMPLETING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "REVOKED", "STOPPED", "SUSPENDED"}
)
_STARTED = frozenset({"CONFIGURING", "RUNNING"})
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})")
_GPUS = re.compile(r"(?:^|,)(?:gres/gpu|1001)=(\d{1,9})(?=,|$)")
_TYPED_GPUS = re.compile(r"(?:^|,)gres/gpu:[^=,]{1,100}=(\d{1,9})(?=,|$)")
_NO_VALUE = 2**32 - 2  # Slurm's NO_VAL, where an older version prints it.


class _Job(msgspec.Struct, frozen=True):
    """What is read of a message; what is not named here is not decoded."""

    jobid: int | str
    start: str | None = msgspec.field(name="@start", default=None)
    end: str | None = msgspec.field(name="@end", default=None)
    state: str | None = None
    exit_code: str | None = None
    failed_node: str | None = None
    nodes: str | None = None
    cluster: str | None = None
    username: str | None = None
    partition: str | None = None
    job_name: str | None = None
    array_job_id: int | str | None = None
    array_task_id: int | str | None = None
    het_job_id: int | str | None = None
    het_job_offset: int | str | None = None
    tres_alloc: str | None = None
    tres_alloc_raw: str | None = None


_DECODER = msgspec.json.Decoder(_Job)


class SlurmJobcomp:
    """Job start (25.05+) and job end messages."""

    name = "slurm-jobcomp"

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """One JobEvent, or none for a message that says nothing of an attempt's start or end."""
        check_fields(where, ())
        value = value_of(record)
        if value is None:
            return []
        job: _Job = from_json(_DECODER, decoded_json(value))
        phase, state = _phase(job.state)
        return [] if phase is None else [_event(job, phase, state, record, where)]


def _phase(state: str | None) -> tuple[Phase | None, str | None]:
    # A start message has no state.  "CANCELLED by 1000" is how accounting spells it, "FAILED+" has a flag behind it.
    word = (state or "RUNNING").split(" ")[0].rstrip("+").upper()
    if word in _ENDED:
        return Phase.ENDED, word
    if word in _STARTED:
        return Phase.STARTED, "RUNNING"
    if word in _SILENT:
        return None, None
    raise Poison("unknown_value", f"state {quoted(state)} is none that Slurm 26.05 has")


def _event(job: _Job, phase: Phase, state: str | None, record: RawRecord, where: Input) -> JobEvent:
    started_at = moment(job.start, "@start")
    # NB: "Unknown" where the job never started: such an attempt has no identity but its job.
    ref = name_of(job.start, "@start") if started_at is not None else None
    ended = phase is Phase.ENDED
    ended_at = moment(job.end, "@end") if ended else None
    exit_code, signal = _exit(job.exit_code, state) if ended else (None, None)
    return JobEvent(
        cluster=name_of(job.cluster, "cluster") or where.cluster,
        job_id=_job_id(job),
        phase=phase,
        position=Position(record.topic, record.partition, record.offset, 0),
        appended_at=record.timestamp,
        scheduler="slurm",
        ref=ref,
        attempt_ref={} if ref is None else {"slurm_start": ref},
        state=state,
        exit_code=exit_code,
        signal=signal,
        time=ended_at if ended else started_at,
        started_at=started_at,
        ended_at=ended_at,
        nodes=expand(job.nodes or ""),
        failed_node=name_of(job.failed_node, "failed_node"),
        gpus=_gpus(job),
        user=name_of(job.username, "username"),
        job_name=bounded(job.job_name)[:1024] if job.job_name else None,
        queue=name_of(job.partition, "partition"),
    )


def _job_id(job: _Job) -> str:
    """`array_task` for arrays (the last task's own id is the array's), `leader+offset` behind a het job's leader."""
    task = whole(job.array_task_id, "array_task_id", high=2**32)
    if (array := whole(job.array_job_id, "array_job_id", high=2**32)) and task is not None and task < _NO_VALUE:
        return f"{array}_{task}"
    offset = whole(job.het_job_offset, "het_job_offset", high=2**32)
    if (leader := whole(job.het_job_id, "het_job_id", high=2**32)) and offset and offset < _NO_VALUE:
        return f"{leader}+{offset}"
    if (own := name_of(job.jobid, "jobid")) is None:
        raise Poison("missing_field", "jobid is empty")
    return own


def _exit(text: str | None, state: str | None) -> tuple[int | None, int | None]:
    """`status:signal` -> exit code and signal, each None where it says nothing."""
    if not text:
        return None, None
    found = _EXIT.fullmatch(text)
    if found is None:
        raise Poison("wrong_type", f"exit_code must be status:signal, not {quoted(text)}")
    status, signal = int(found[1]), int(found[2])
    if state == "NODE_FAIL":
        signal = 0  # "0:1" stands for the lost node; nobody sent a SIGHUP.
    return status if status or (state == "COMPLETED" and not signal) else None, signal or None


def _gpus(job: _Job) -> int | None:
    for text in (job.tres_alloc, job.tres_alloc_raw):
        if text and (found := _GPUS.search(text)):
            return int(found[1])
    typed = [int(count) for count in _TYPED_GPUS.findall(job.tres_alloc or "")]
    return min(sum(typed), 2**31 - 1) if typed else None
