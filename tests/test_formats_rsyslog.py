"""rsyslog's JSON log lines, by template and as jsonmesg."""

from __future__ import annotations

import json

import pytest

from classifiers.records import LogLine, Position, Stream
from services.formats import FORMATS, Input, Poison, RawRecord, check_input
from services.formats.base import Record

FILES = r"(?P<job>\d+)\.(?P<attempt>\d+)\.(?P<rank>\d+)\.(?P<node>[^.]+)\.(?P<stream>out|err)"
TEMPLATE = (
    rb'{"@timestamp":"2026-11-21T07:12:44.143342+00:00", "host":"vm", "tag":"slurm:", "file":"\/jobs\/17.0.1.n3.out", '
    rb'"offset":"128", "jobid":"17", "rank":"1", "message":"RuntimeError: CUDA error: an illegal memory access"}'
    b"\n"
)
JSONMESG = (
    rb'{ "msg": "RuntimeError: boom", "rawmsg": "...", "timereported": "2026-11-21T07:12:44.143342+00:00", '
    rb'"hostname": "vm", "syslogtag": "slurm:", "inputname": "imfile", "pri": "134", "uuid": null, '
    rb'"$!": { "metadata": { "filename": "\/jobs\/17.0.1.n3.out", "fileoffset": "128" } } }'
)


def read(value: bytes, **row: object) -> list[Record]:
    return FORMATS["rsyslog"].read(RawRecord("logs", 1, 9, 50.0, None, value), Input("logs", "rsyslog", **row))  # type: ignore[arg-type]


def line(value: bytes, **row: object) -> LogLine:
    (only,) = read(value, **row)
    assert isinstance(only, LogLine)
    return only


def message(**fields: object) -> bytes:
    return json.dumps({"jobid": "17", "message": "boom", **fields}).encode()


def poisoned(value: bytes, **row: object) -> Poison:
    with pytest.raises(Poison) as caught:
        read(value, **row)
    return caught.value


def test_a_template_line_is_read() -> None:
    """The documented template gives job, rank, time and text; numbers are text there, and slashes escaped."""
    assert line(TEMPLATE) == LogLine(
        cluster="default",
        job_id="17",
        text="RuntimeError: CUDA error: an illegal memory access",
        stream=Stream.STDERR,
        position=Position("logs", 1, 9, 0),
        appended_at=50.0,
        rank=1,
        time=1795245164.143342,
    )


def test_jsonmesg_takes_its_identity_from_the_file_name() -> None:
    """With `file_pattern` the whole message property needs no template: the file's name tells who printed."""
    got = line(JSONMESG, fields={"file_pattern": FILES})

    assert (got.job_id, got.ref, got.rank, got.node, got.stream) == ("17", "0", 1, "n3", Stream.STDOUT)
    assert (got.text, got.time) == ("RuntimeError: boom", 1795245164.143342)


def test_fields_win_over_the_file_name() -> None:
    """What a field says is not overruled by the file's name."""
    got = line(message(rank="7", file="/jobs/99.0.1.n3.err"), fields={"file_pattern": FILES})

    assert (got.job_id, got.rank, got.node) == ("17", 7, "n3")


def test_a_file_name_that_does_not_fit_names_nothing() -> None:
    """A file outside the pattern leaves the line without a job, which is Poison."""
    value = json.dumps({"message": "x", "file": "/var/log/messages"}).encode()

    assert poisoned(value, fields={"file_pattern": FILES}).reason == "no_identity"


def test_fields_can_be_mapped() -> None:
    """Settings name the producer's own fields, as a name or as a JSON pointer."""
    value = b'{"line": "boom", "slurm": {"job/id": 17, "task": "3"}, "from": "n9"}'
    fields = {"text": "line", "job": "/slurm/job~1id", "rank": "/slurm/task", "node": "from"}

    got = line(value, fields=fields)

    assert (got.text, got.job_id, got.rank, got.node) == ("boom", "17", 3, "n9")


def test_invalid_utf8_inside_json_is_replaced_first() -> None:
    """The shipper passes raw bytes through into its JSON: they become U+FFFD, in text and in names."""
    assert line(b'{"jobid":"17","message":"a\xffb\xc3"}').text == "a\ufffdb\ufffd"
    assert line(b'{"jobid":"1\xff","message":"a"}').job_id == "1\ufffd"


def test_half_a_surrogate_pair_is_replaced() -> None:
    """A lone surrogate escape becomes U+FFFD; whole pairs and escaped backslashes stay as they are."""
    value = rb'{"jobid":"17","message":"\udcff \ud83d\ude00 C:\\ud800 \ud83d"}'

    assert line(value).text == "\ufffd \U0001f600 C:\\ud800 \ufffd"


def test_escaped_line_feeds_make_several_lines() -> None:
    """With escapeLF a traceback arrives as one text with backslash-n between: each line gets its own index."""
    got = read(message(message=r"Traceback:\n  File x\nRuntimeError: boom"))

    assert [(each.position.index, each.text) for each in got if isinstance(each, LogLine)] == [
        (0, "Traceback:"),
        (1, "  File x"),
        (2, "RuntimeError: boom"),
    ]


def test_escaped_line_feeds_can_be_kept() -> None:
    """`escaped_lf = "keep"` leaves the two characters alone, for inputs without escapeLF."""
    assert line(message(message=r"C:\new"), fields={"escaped_lf": "keep"}).text == r"C:\new"


def test_the_host_is_the_node_of_node_inputs_alone() -> None:
    """A job's log may be read on another host than it was printed on, a kernel log may not."""
    assert line(message(host="nfs1")).node is None
    assert line(b'{"message":"Xid 79","hostname":"n1"}', stream=Stream.NODE).node == "n1"


def test_a_long_path_is_read_and_an_endless_one_is_poison() -> None:
    """A file's path may be as long as systems allow, and no longer."""
    assert line(message(file="/d" * 2000)).job_id == "17"
    assert poisoned(message(file="/d" * 3000)).reason == "too_large"


def test_unmapped_fields_do_not_matter() -> None:
    """A field that nobody asked for may hold anything."""
    assert line(message(tag={"a": [1, {}]}, offset=1e300)).text == "boom"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"rank": "x"}, "rank"),
        ({"rank": True}, "rank"),
        ({"rank": 1.5}, "rank"),
        ({"jobid": ["17"]}, "jobid"),
        ({"message": 5}, "text"),
        ({"@timestamp": []}, "time"),
        ({"$!": "x"}, r"\$!"),
    ],
)
def test_a_wrong_type_is_named(fields: dict[str, object], named: str) -> None:
    """A field that holds what it can't hold is Poison that names the field."""
    poison = poisoned(message(**fields))

    assert poison.reason == "wrong_type"
    assert named.replace("\\", "") in poison.detail


def test_true_is_no_rank_even_after_one() -> None:
    """Remembered identities do not blur types: true is refused also where 1 was seen before."""
    assert line(message(rank=1)).rank == 1
    assert poisoned(message(rank=True)).reason == "wrong_type"


@pytest.mark.parametrize("value", [b"{}", b'{"message": ""}', b'{"message": null, "jobid": 1}', b'{"jobid": "17"}'])
def test_without_text_a_record_gives_nothing(value: bytes) -> None:
    """An object without text is no line, as long as its job is known or not needed."""
    assert read(value, stream=Stream.SCHEDULER) == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"file_pattern": "("}, "no regular expression"),
        ({"file_pattern": "(?P<jobb>x)"}, "groups .*jobb"),
        ({"txt": "line"}, "no field 'txt'"),
    ],
)
def test_a_row_that_can_not_work_is_refused_at_the_start(fields: dict[str, str], complaint: str) -> None:
    """A bad pattern or field name in the settings is found before the first record."""
    with pytest.raises(ValueError, match=complaint):
        check_input(Input("logs", "rsyslog", fields=fields))


def test_two_rows_do_not_share_what_they_remember() -> None:
    """The same record means another cluster on another topic's row."""
    assert [line(message(), cluster=name).cluster for name in ("a", "b", "a")] == ["a", "b", "a"]
