"""Slurm's job completion messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifiers.records import JobEvent, Phase, Position
from services.formats import FORMATS, Input, Poison, RawRecord
from services.formats.base import Record
from services.formats.hostlist import expand

FAILED: dict[str, object] = {
    "jobid": 81234, "container": None, "username": "alice", "user_id": 1000, "@start": "2026-11-21T07:09:31",
    "@end": "2026-11-21T07:09:32", "elapsed": 1, "partition": "gpu", "alloc_node": "login1", "nodes": "t[1-2]",
    "total_nodes": 2, "derived_ec": "0:0", "exit_code": "17:0", "state": "FAILED", "failed_node": None,
    "cpu_hours": 0.00055555556900799274, "pack_job_id": 0, "het_job_id": 0, "het_job_offset": 0,
    "@queue_wait": 0, "work_dir": "/jobs", "job_name": "llm-train", "tres_req": "cpu=2,mem=4000M,node=2",
    "tres_alloc_raw": "1=2,3=18446744073709551614,4=2,5=2,1001=8", "tres_alloc": "cpu=2,node=2,gres/gpu=8",
    "script": "#!/bin/bash\nexport TOKEN=s3cret\n",
}  # fmt: skip


def read(value: bytes | None = None, /, **fields: Any) -> list[Record]:
    body = json.dumps(FAILED | fields).encode() if value is None else value
    return FORMATS["slurm-jobcomp"].read(
        RawRecord("slurm", 0, 5, 50.0, None, body), Input("slurm", "slurm-jobcomp", "a100")
    )


def job(value: bytes | None = None, /, **fields: Any) -> JobEvent:
    (only,) = read(value, **fields)
    assert isinstance(only, JobEvent)
    return only


def poisoned(value: bytes | None = None, /, **fields: Any) -> Poison:
    with pytest.raises(Poison) as caught:
        read(value, **fields)
    return caught.value


def test_a_failed_job_is_an_attempt_that_ended() -> None:
    """A completion message gives the exit facts; times without zone are UTC and @start identifies the attempt."""
    assert job() == JobEvent(
        cluster="a100",
        job_id="81234",
        phase=Phase.ENDED,
        position=Position("slurm", 0, 5, 0),
        appended_at=50.0,
        scheduler="slurm",
        ref="2026-11-21T07:09:31",
        attempt_ref={"slurm_start": "2026-11-21T07:09:31"},
        state="FAILED",
        exit_code=17,
        time=1795244972.0,
        started_at=1795244971.0,
        ended_at=1795244972.0,
        nodes=("t1", "t2"),
        gpus=8,
        user="alice",
        job_name="llm-train",
        queue="gpu",
    )


def test_a_trailing_nul_is_no_part_of_the_json() -> None:
    """Releases before May 2024 send the string's terminator along."""
    assert job(json.dumps(FAILED).encode() + b"\x00") == job()


@pytest.mark.parametrize(
    ("state", "code", "facts"),
    [
        ("COMPLETED", "0:0", (0, None)),
        ("FAILED", "17:0", (17, None)),
        ("FAILED", "0:9", (None, 9)),
        ("OUT_OF_MEMORY", "0:125", (None, 125)),
        ("TIMEOUT", "0:0", (None, None)),
        ("CANCELLED", "0:0", (None, None)),
        ("CANCELLED", "0:15", (None, 15)),
        ("NODE_FAIL", "0:1", (None, None)),
        ("PREEMPTED", "0:0", (None, None)),
        ("FAILED", None, (None, None)),
    ],
)
def test_a_zero_exit_code_is_believed_from_completed_alone(
    state: str, code: str | None, facts: tuple[int | None, int | None]
) -> None:
    """Slurm writes 0:0 also where nothing exited, and 0:1 where a node was lost: neither is a success or a SIGHUP."""
    got = job(state=state, exit_code=code)

    assert (got.exit_code, got.signal, got.state, got.phase) == (*facts, state, Phase.ENDED)


def test_the_sticky_step_code_is_not_read() -> None:
    """An attempt that completed stays well whatever derived_ec carries over from the attempt before."""
    assert job(state="COMPLETED", exit_code="0:0", derived_ec="17:0").exit_code == 0


@pytest.mark.parametrize("state", ["PENDING", "RESIZING", "SUSPENDED", "REQUEUED", "REVOKED"])
def test_a_requeues_second_message_gives_nothing(state: str) -> None:
    """`scontrol requeue` repeats the finished attempt as PENDING: no second failure."""
    assert read(state=state) == []


def test_the_failed_node_is_told() -> None:
    """NODE_FAIL names the node."""
    assert job(state="NODE_FAIL", exit_code="0:1", failed_node="t2").failed_node == "t2"


def test_a_start_message_has_no_state() -> None:
    """Slurm 25.05 announces a start by the same object without state."""
    start = {key: value for key, value in FAILED.items() if key not in ("state", "@end", "exit_code")}

    got = job(json.dumps(start).encode())

    assert (got.phase, got.state, got.time, got.ended_at) == (Phase.STARTED, "RUNNING", 1795244971.0, None)
    assert (got.ref, got.exit_code) == (job().ref, None)


@pytest.mark.parametrize("start", ["Unknown", "1970-01-01T00:00:00", None])
def test_a_job_that_never_started_has_no_attempt_identity(start: str | None) -> None:
    """A job cancelled while pending has no start to be known by."""
    got = job(json.dumps(FAILED | {"state": "CANCELLED", "@start": start}).encode())

    assert (got.ref, got.attempt_ref, got.started_at) == (None, {}, None)


@pytest.mark.parametrize(
    ("fields", "job_id"),
    [
        ({"array_job_id": 81230, "array_task_id": 4}, "81230_4"),
        ({"array_job_id": 81234, "array_task_id": 0}, "81234_0"),
        ({"array_job_id": 81234, "array_task_id": 4294967294}, "81234"),
        ({"het_job_id": 81233, "het_job_offset": 1}, "81233+1"),
        ({"het_job_id": 81234, "het_job_offset": 0}, "81234"),
        ({"jobid": "77"}, "77"),
    ],
)
def test_arrays_and_het_jobs_are_known_by_their_own_ids(fields: dict[str, Any], job_id: str) -> None:
    """Tasks of an array and components of a het job never share an id with another job."""
    assert job(**fields).job_id == job_id


def test_the_message_may_name_its_cluster() -> None:
    """With accounting the cluster is in the message, else it is the input's."""
    assert (job(cluster="h100").cluster, job().cluster) == ("h100", "a100")


@pytest.mark.parametrize(
    ("alloc", "raw", "gpus"),
    [
        ("cpu=2,gres/gpu=8", None, 8),
        ("cpu=2,gres/gpu:a100=8,gres/gpu=8", None, 8),
        ("cpu=2,gres/gpu:a100=4,gres/gpu:h100=2", None, 6),
        (None, "1=2,1001=16", 16),
        (None, "1=2,11001=16", None),
        ("cpu=2", "1=2", None),
    ],
)
def test_gpus_come_from_the_allocation(alloc: str | None, raw: str | None, gpus: int | None) -> None:
    """GPUs are counted by the allocated resources, in words or raw."""
    assert job(tres_alloc=alloc, tres_alloc_raw=raw).gpus == gpus


def test_the_script_goes_nowhere() -> None:
    """A batch script may hold secrets: nothing of it is kept, nor named when something else is wrong."""
    assert "s3cret" not in repr(job())
    assert "s3cret" not in str(poisoned(state="EXPLODED"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"state": "EXPLODED"}, "unknown_value"),
        ({"exit_code": "x"}, "wrong_type"),
        ({"jobid": None}, "wrong_type"),
        ({"jobid": ""}, "missing_field"),
        ({"nodes": "t[1-"}, "wrong_type"),
        ({"nodes": "t[1-999999999]"}, "too_many"),
    ],
)
def test_a_message_that_can_not_be_used_is_poison(fields: dict[str, Any], reason: str) -> None:
    """Unknown states, malformed codes and endless hostlists are Poison."""
    assert poisoned(**fields).reason == reason


def test_a_message_without_job_is_poison() -> None:
    """The job id is the one field that a message must have."""
    assert poisoned(b'{"state": "FAILED"}').reason == "missing_field"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", ()),
        ("None assigned", ()),
        ("n1", ("n1",)),
        ("t[1-2,7],gpu[001-003]", ("t1", "t2", "t7", "gpu001", "gpu002", "gpu003")),
        ("r[1-2]n[08-10]-ib", ("r1n08-ib", "r1n09-ib", "r1n10-ib", "r2n08-ib", "r2n09-ib", "r2n10-ib")),
        ("a,b,c[5]", ("a", "b", "c5")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[5-3]", ()),
    ],
)
def test_hostlists_are_expanded(text: str, nodes: tuple[str, ...]) -> None:
    """Brackets hold numbers and ranges, zero padding stays, several brackets multiply."""
    assert expand(text) == nodes


@pytest.mark.parametrize(
    "text", ["n[", "n]", "n[a]", "n[1--2]", "n[]", ",", "n1,", "n 1", "n[1][2", "n[[1]]", "n[1]x,,y"]
)
def test_a_malformed_hostlist_is_poison(text: str) -> None:
    """What is no hostlist is refused."""
    with pytest.raises(Poison, match="wrong_type"):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "n[1-99999]",
        "n[1-999][1-999]",
        "n[1-60000],m[1-60000]",
        "n[1-300]" + "[1-300]" * 20_000,
        "x" * 300 + "[1-9]",
        "n," * 200_000,
    ],
)
def test_a_hostlist_is_bounded(text: str) -> None:
    """No hostlist makes more nodes, or longer names, than the limit."""
    with pytest.raises(Poison, match="too_"):
        expand(text)
