"""Our own JSON and its published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import services.formats.exitsign as exitsign
from classifiers.records import JobEvent, LogLine, NodeEvent, Phase, Position, Stream
from services.formats import FORMATS, Input, Poison, RawRecord
from services.formats.base import Record

SCHEMA = json.loads((Path(exitsign.__file__).parent / "exitsign_v1.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

LOG = {"type": "log", "job_id": "17", "text": "boom"}
ENDED = {"type": "job_event", "job_id": "17", "phase": "ended"}
XID = {"type": "node_event", "node": "n1", "text": "NVRM: Xid 79"}


def read(document: object, **row: object) -> list[Record]:
    record = RawRecord("in", 3, 4, 50.0, None, json.dumps(document).encode())
    return FORMATS["exitsign"].read(record, Input("in", "exitsign", **row))  # type: ignore[arg-type]


def poisoned(document: object) -> Poison:
    with pytest.raises(Poison) as caught:
        read(document)
    return caught.value


def test_a_log_line_is_read() -> None:
    """Every field of a log line arrives."""
    document = LOG | {
        "cluster": "a100",
        "ref": 2,
        "rank": "3",
        "node": "n1",
        "stream": "stdout",
        "time": 1795245164,
        "partial": True,
    }

    assert read(document) == [
        LogLine(
            cluster="a100",
            job_id="17",
            text="boom",
            stream=Stream.STDOUT,
            position=Position("in", 3, 4, 0),
            appended_at=50.0,
            ref="2",
            rank=3,
            node="n1",
            time=1795245164.0,
            partial=True,
        )
    ]


def test_a_job_event_is_read() -> None:
    """Every field of a job event arrives; the state is put in capitals."""
    document = ENDED | {
        "cluster": "a100", "scheduler": "slurm", "ref": "r1", "attempt_ref": {"restart": 1, "at": "x"},
        "state": "Failed", "exit_code": "17", "signal": 9, "reason": "OOMKilled", "message": "m",
        "time": "2026-11-21T07:12:44Z",
        "started_at": 1795245000, "ended_at": "1795245164.5", "nodes": ["n1", "n2"], "failed_node": "n2", "gpus": "8",
        "user": "alice", "job_name": "train", "queue": "gpu",
    }  # fmt: skip

    assert read(document) == [
        JobEvent(
            cluster="a100", scheduler="slurm", job_id="17", phase=Phase.ENDED, position=Position("in", 3, 4, 0),
            appended_at=50.0, ref="r1", attempt_ref={"restart": 1, "at": "x"}, state="FAILED", exit_code=17, signal=9,
            reason="OOMKilled", message="m", time=1795245164.0, started_at=1795245000.0, ended_at=1795245164.5,
            nodes=("n1", "n2"), failed_node="n2", gpus=8, user="alice", job_name="train", queue="gpu",
        )
    ]  # fmt: skip


def test_a_node_event_is_read() -> None:
    """A node event has a node and a text, and comes from the kernel unless it says otherwise."""
    position = Position("in", 3, 4, 0)

    assert read(XID, cluster="a100") == [
        NodeEvent(cluster="a100", node="n1", text="NVRM: Xid 79", position=position, appended_at=50.0, source="kernel")
    ]


def test_an_array_gives_all_its_records_in_order() -> None:
    """Objects of an array are numbered one after the other, the lines of one text as well."""
    got = read([LOG | {"text": "one\ntwo\n"}, XID, LOG | {"text": ""}, ENDED])

    assert [(type(each).__name__, each.position.index) for each in got] == [
        ("LogLine", 0),
        ("LogLine", 1),
        ("NodeEvent", 3),
        ("JobEvent", 5),
    ]


def test_absent_and_null_are_the_same() -> None:
    """A null says as little as an absent field."""
    nulls = dict.fromkeys(["cluster", "ref", "rank", "node", "stream", "time"])

    assert read(LOG | nulls) == read(LOG)


def test_unknown_fields_are_ignored() -> None:
    """A newer producer may say more."""
    assert read(LOG | {"colour": {"deep": [1]}}) == read(LOG)


@pytest.mark.parametrize("document", [LOG | {"type": "metric"}, LOG | {"stream": "x"}, ENDED | {"phase": "paused"}])
def test_an_unknown_word_is_poison(document: object) -> None:
    """A word outside a closed list is refused, not guessed."""
    assert poisoned(document).reason == "unknown_value"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"job_id": "1", "text": "x"}, "missing_field"),
        ({"type": "log", "job_id": "1"}, "missing_field"),
        ({"type": "job_event", "phase": "ended"}, "missing_field"),
        (ENDED | {"job_id": " "}, "missing_field"),
        (XID | {"node": ""}, "missing_field"),
        ({"type": "log", "text": "x"}, "no_identity"),
        (LOG | {"text": 5}, "wrong_type"),
        (LOG | {"rank": "x"}, "wrong_type"),
        (LOG | {"partial": "yes"}, "wrong_type"),
        (ENDED | {"exit_code": 2**40}, "wrong_type"),
        (ENDED | {"signal": 900}, "wrong_type"),
        (ENDED | {"nodes": "n1"}, "wrong_type"),
        (ENDED | {"attempt_ref": {"a": 1.5}}, "wrong_type"),
        (ENDED | {"attempt_ref": {str(i): 1 for i in range(17)}}, "too_many"),
        (ENDED | {"nodes": ["n"] * 65_537}, "too_many"),
        (LOG | {"job_id": "j" * 513}, "too_large"),
        ("text", "wrong_type"),
        (5, "wrong_type"),
    ],
)
def test_what_can_not_be_used_is_poison(document: object, reason: str) -> None:
    """Missing, mistyped and boundless fields are Poison with their reason, and the schema refuses them as well."""
    assert poisoned(document).reason == reason
    if reason != "no_identity" and document != ENDED | {"job_id": " "}:
        assert not VALIDATOR.is_valid(document)


def test_one_bad_object_poisons_its_array_and_is_named() -> None:
    """A bad object is named by its place; the array goes to the dead letters whole."""
    assert "$[1].rank" in poisoned([LOG, LOG | {"rank": [1]}]).detail


def test_a_flood_of_objects_is_poison() -> None:
    """An array is bounded like a text."""
    assert poisoned([LOG] * 100_002).reason == "too_many"


def test_quotes_of_the_payload_are_short() -> None:
    """A detail shows at most a few characters of what the producer sent: it may be a secret."""
    assert len(poisoned(ENDED | {"phase": "s" * 5000}).detail) < 150


@pytest.mark.parametrize("document", [LOG, ENDED, XID, [LOG, ENDED, XID], [], LOG | {"time": "2026-11-21T07:12:44Z"}])
def test_the_schema_accepts_what_is_read(document: object) -> None:
    """The published schema is valid and accepts what the format accepts."""
    VALIDATOR.check_schema(SCHEMA)
    VALIDATOR.validate(document)
    read(document)


@pytest.mark.parametrize(
    ("name", "struct"), [("log", exitsign.Log), ("job_event", exitsign.Job), ("node_event", exitsign.Node)]
)
def test_the_schema_names_every_field(name: str, struct: type[Any]) -> None:
    """The published schema and the reader have the same fields, and the same ones are required."""
    told = SCHEMA["$defs"][name]
    fields = msgspec.structs.fields(struct)

    assert set(told["properties"]) == {each.name for each in fields}
    assert set(told["required"]) == {each.name for each in fields if each.required}
