"""The registry of formats, and what every format promises of any bytes."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.records import LogLine, Stream
from services import formats
from services.formats import FORMATS, Input, Poison, RawRecord, check_input, format_named
from services.formats.base import Reason
from services.formats.mapped import Shipper

REASONS = set(typing.get_args(Reason))
NAMES = sorted(FORMATS)


def raw_record(value: bytes | None, key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = ()) -> RawRecord:
    return RawRecord("in", 2, 7, 1_795_245_164.0, key, value, headers)


def read(name: str, value: bytes | None, stream: Stream = Stream.STDERR) -> list[typing.Any] | str:
    """The records read, or the reason of the Poison."""
    try:
        return list(format_named(name).read(raw_record(value), Input("in", name, stream=stream)))
    except Poison as poison:
        if poison.reason not in REASONS or len(poison.detail) > 600:
            raise AssertionError(f"unlisted reason or endless detail: {poison}") from poison
        return poison.reason


GOOD: dict[str, list[dict[str, typing.Any]]] = {
    "raw": [{}],
    "exitsign": [
        {"type": "log", "job_id": "1", "text": "x", "rank": 1, "time": 1, "stream": "out", "ref": "r", "partial": True},
        {
            "type": "job_event", "job_id": 1, "phase": "ended", "state": "FAILED", "exit_code": 1, "signal": 9,
            "attempt_ref": {"a": 1}, "nodes": ["n1"], "gpus": "8", "message": "m", "started_at": "x",
        },
        {"type": "node_event", "node": "n1", "text": "Xid", "source": "kernel"},
    ],
    "rsyslog": [{"@timestamp": "x", "jobid": "1", "rank": "1", "message": "x", "$!": {"metadata": {"filename": "f"}}}],
    "fluentbit": [
        {
            "log": "x", "time": "x", "_p": "P", "path": "/0.log", "stream": "stderr", "log_processed": {"message": "y"},
            "kubernetes": {"pod_id": "u", "host": "n", "namespace_name": "s", "labels": {"job-name": "j"}},
        }
    ],
    "fluentd": [
        {
            "message": "x", "time": "x", "logtag": "P", "stream": "stderr",
            "kubernetes": {"pod_id": "u", "host": "n", "namespace_name": "s", "labels": {"job-name": "j"}},
        }
    ],
    "vector": [
        {
            "message": "x", "timestamp": "x", "file": "/0.log", "stream": "stderr",
            "kubernetes": {"pod_uid": "u", "pod_namespace": "s", "pod_node_name": "n", "pod_labels": {"job-name": "j"}},
        }
    ],
    "filebeat": [{"message": "x", "log": {"file": {"path": "f"}}, "job": {"jobid": "1", "rank": "0"}, "fields": {}}],
    "syslog-ng": [{"MESSAGE": "x", "HOST": "h", "FILE_NAME": "f", "JOB": "1", "RANK": "1", "ISODATE": "x"}],
    "slurm-jobcomp": [
        {
            "jobid": 1, "state": "FAILED", "@start": "2026-11-21T07:09:31", "@end": "x", "exit_code": "1:0",
            "nodes": "t[1-2]", "array_job_id": 1, "array_task_id": 2, "het_job_id": 3, "het_job_offset": 1,
            "tres_alloc": "gres/gpu=8", "tres_alloc_raw": "1001=8", "failed_node": "t1", "cluster": "c",
        }
    ],
    "k8s-event": [
        {
            "kind": "Pod",
            "metadata": {"uid": "u", "namespace": "s", "labels": {"job-name": "j"}, "annotations": {"a": "b"}},
            "spec": {"nodeName": "n", "containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
            "status": {
                "phase": "Failed", "reason": "Evicted",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "x"}],
                "containerStatuses": [
                    {
                        "name": "m", "restartCount": 1, "state": {"running": {"startedAt": "x"}},
                        "lastState": {"terminated": {"exitCode": 1, "signal": 9, "finishedAt": "x"}},
                    }
                ],
            },
        },
        {
            "reason": "Evicted", "message": "m", "eventTime": "x", "source": {"host": "n"}, "metadata": {},
            "involvedObject": {
                "kind": "Pod", "name": "p", "uid": "u", "labels": {"job-name": "j"},
                "ownerReferences": [{"kind": "Job", "name": "j"}],
            },
        },
        {"type": "ADDED", "object": {"kind": "Node", "metadata": {}}},
        {"reason": "NodeNotReady", "involvedObject": {"kind": "Node", "name": "n"}},
    ],
}  # fmt: skip
WORDS = st.sampled_from(
    ["", "17", "-1", "0:9", "1e400", "\ud800", "\x00", "t[1-2]", "t[", "x" * 600, "2026-11-21T07:12:44Z"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(document: object, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of everything in a document, the document itself first."""
    below = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [above, *(path for step, value in below for path in places(value, (*above, step)))]


def with_junk(document: typing.Any, path: tuple[str | int, ...], junk: object) -> typing.Any:
    """The document with something else at one place."""
    if not path:
        return junk
    copy = document.copy()
    copy[path[0]] = with_junk(document[path[0]], path[1:], junk)
    return copy


@pytest.mark.parametrize("name", NAMES)
@given(value=st.binary(max_size=200))
@settings(max_examples=50)
def test_any_bytes_are_read_or_poison(name: str, value: bytes) -> None:
    """`read` of any bytes returns records or raises Poison, never another exception."""
    read(name, value)
    read(name, value, Stream.SCHEDULER)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_json_in_any_field_is_read_or_poison(name: str, data: st.DataObject) -> None:
    """A good record with anything at all in one of its places is read or is Poison."""
    good = data.draw(st.sampled_from(GOOD[name]))
    bad = with_junk(good, data.draw(st.sampled_from(places(good))), data.draw(JUNK))

    read(name, json.dumps(bad).encode())
    read(name, json.dumps(bad, ensure_ascii=False).encode("utf-8", "surrogatepass"), Stream.SCHEDULER)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "raw"])
def test_the_good_records_are_good(name: str) -> None:
    """The records that the test above spoils are read as they are."""
    assert all(isinstance(read(name, json.dumps(each).encode()), list) for each in GOOD[name])


@given(
    key=st.binary(max_size=30),
    headers=st.lists(st.tuples(st.sampled_from(["cluster", "job", "rank", "stream", "time"]), st.binary(max_size=12))),
)
def test_any_key_and_headers_are_read_or_poison(key: bytes, headers: list[tuple[str, bytes]]) -> None:
    """Keys and headers of any bytes give records or Poison."""
    try:
        got = format_named("raw").read(raw_record(b"x", key, tuple(headers)), Input("in", "raw"))
    except Poison:
        return
    assert [type(each) for each in got] == [LogLine]


@pytest.mark.parametrize("name", NAMES)
def test_a_tombstone_gives_nothing(name: str) -> None:
    """A record without a value, or with an empty one, gives nothing."""
    assert read(name, None) == read(name, b"") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_huge_value_is_poison(name: str) -> None:
    """A value over 16 MiB is Poison before anything is made of it."""
    assert read(name, b"x" * (16 * 1024 * 1024 + 1)) == "too_large"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "raw"])
@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"zzz":' * 100_000,
        b'{"text":' + b"[" * 100_000,
        b'{"job_id": 1',
        b"\xff\xfe\x00",
        b"nonsense",
        b'{"a": NaN}',
        b"{'a': 1}",
    ],
)
def test_malformed_and_bottomless_json_is_poison(name: str, value: bytes) -> None:
    """JSON that is cut, malformed or nested without end is Poison "bad_json"."""
    assert read(name, value) in ("bad_json", "wrong_type", "missing_field")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "raw"])
def test_bad_json_names_its_position(name: str) -> None:
    """The detail of "bad_json" says at which byte."""
    with pytest.raises(Poison, match=r"bad_json: JSON is malformed: .*\(byte 9\)"):
        format_named(name).read(raw_record(b'{"zz": 1,!}'), Input("in", name))


@pytest.mark.parametrize("digits", [30, 4_200, 4_400, 100_000])
@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("exitsign", '{"type": "log", "text": "x", "job_id": %s}'),
        ("exitsign", '{"type": "log", "text": "x", "job_id": "1", "rank": %s}'),
        ("exitsign", '{"type": "job_event", "job_id": "1", "phase": "ended", "exit_code": %s}'),
        ("rsyslog", '{"message": "x", "jobid": "1", "rank": %s}'),
        ("rsyslog", '{"message": "x", "jobid": %s, "rank": "99999999999999999999"}'),
        ("slurm-jobcomp", '{"jobid": 1, "state": "FAILED", "array_job_id": %s}'),
        ("k8s-event", json.dumps(GOOD["k8s-event"][0]).replace('"restartCount": 1', '"restartCount": %s')),
    ],
)  # fmt: skip
def test_a_huge_whole_number_is_poison_or_refused_by_name(name: str, template: str, digits: int) -> None:
    """A whole number of thousands of digits is Poison, or an id of bounded length; never an exception of int()."""
    got = read(name, (template % ("9" * digits)).encode())

    assert got in ("wrong_type", "unknown_value", "too_large", "no_identity") or (digits == 30 and len(got) == 1)


def test_an_unknown_format_names_the_known_ones() -> None:
    """A format that does not exist is an error that lists those that do."""
    with pytest.raises(
        ValueError, match="unknown format 'syslog'; known formats: exitsign, filebeat, fluentbit, fluentd, k8s-event"
    ):
        format_named("syslog")


def test_each_format_stands_under_its_own_name() -> None:
    """The table's keys are the formats' own names."""
    assert {name: each.name for name, each in FORMATS.items()} == {name: name for name in FORMATS}


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_field_of_a_row_is_a_mistake_of_the_settings(name: str) -> None:
    """A row that maps a field its format does not have is a ValueError that names topic, field and choice."""
    with pytest.raises(ValueError, match=r"input 'in': format .* has no field 'jbo'"):
        check_input(Input("in", name, fields={"jbo": "x"}))


def test_a_good_row_passes_the_check() -> None:
    """check_input accepts every format with its defaults."""
    for name in NAMES:
        check_input(Input("in", name))


def test_the_readme_names_every_format_reason_and_field() -> None:
    """What settings can say and dead letters can show is documented."""
    text = (Path(formats.__file__).parent / "README.md").read_text()
    fields = {field for each in FORMATS.values() if isinstance(each, Shipper) for field in each.places}

    assert [word for word in sorted({*NAMES, *REASONS}) if f"`{word}`" not in text] == []
    assert [field for field in sorted(fields) if not re.search(rf"[` ]{field}[` ]", text)] == []


def test_equal_rows_are_one_row() -> None:
    """Inputs compare by value and can be looked up, mapping and all."""
    row, twin = (Input("in", "raw", fields={"job": "x-job"}) for _ in range(2))

    assert (row, hash(row)) == (twin, hash(twin))
    assert row != Input("in", "raw")


def test_records_survive_encoding() -> None:
    """What a format returns can be encoded as JSON: no lone surrogates, no strange types."""
    got = read("raw", b'\xed\xa0\x80 \xff \x00 "', Stream.SCHEDULER)

    assert msgspec.json.decode(msgspec.json.encode(got))[0]["text"] == '\ufffd\ufffd\ufffd \ufffd  "'
