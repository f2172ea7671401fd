"""From raw records to everything that they say."""

from __future__ import annotations

import json
from functools import cache

import pytest
from builders import T0, catalog_of, signature_yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.attempt import KEPT
from classifiers.lines import MAX_CHARS
from classifiers.matching import MAX_TEXT, Matcher
from classifiers.records import Evidence, Phase, Stream
from services import topics, wire
from services.formats import format_named
from services.formats.base import Input, RawRecord
from services.inputs import input_table
from services.scanner import MAX_NODES_CHARS, messages, scan
from services.settings import InputSettings, Settings

CATALOG = catalog_of(
    signature_yaml("broke"),
    signature_yaml("xid", label="gpu_ecc_xid", source="[node]", pattern="'Xid 79'", match="['Xid 79']"),
    signature_yaml("login", label="permission_error", pattern="'login refused'", match="['login refused']"),
    signature_yaml(
        "quiet", label=None, role="noise", pattern="'broke, ignored'", match="['x broke, ignored']", no_match=None
    ),
)
matcher = cache(lambda: Matcher(CATALOG))
RAW, EVENTS = Input("job-logs-raw", "raw"), Input("scheduler-events", "exitsign")


def raw(text: str | bytes, offset: int = 0, job: str | None = "j", **headers: object) -> RawRecord:
    """Lines of a job in the raw format."""
    named = {"job": job, "rank": 0, **headers}
    value = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    told = tuple((name, str(word).encode()) for name, word in named.items() if word is not None)
    return RawRecord("job-logs-raw", 0, offset, T0, None, value, told)


def told(offset: int = 0, **fields: object) -> RawRecord:
    """A record in our own format."""
    return RawRecord("scheduler-events", 0, offset, T0, None, json.dumps(fields).encode())


def scanned(*records: RawRecord, where: Input = RAW, context_lines: int = 20):
    """Everything that the records say."""
    return scan(records, format_named(where.format), where, matcher(), context_lines)


def ids(pieces: list[Evidence]) -> list[str]:
    """Their signatures."""
    return [piece.signature for piece in pieces]


def test_healthy_lines_leave_no_trace():
    """The 99.9% cost nothing downstream."""
    found = scanned(*(raw(f"step {n} loss 0.{n}", n) for n in range(100)))

    assert [] == messages(found)


def test_a_line_of_a_job_becomes_evidence_with_its_place():
    """Which record, which line of it, which rank."""
    (piece,) = scanned(raw("fine\nsomething broke", 7, rank=3, attempt=2)).evidence

    assert ("broke", "j", "2", 3, 7, 1) == (
        piece.signature, piece.job_id, piece.ref, piece.rank, piece.position.offset, piece.position.index,
    )  # fmt: skip


def test_a_bad_record_is_set_aside_and_the_others_go_on():
    """With its reason; whatever stands around it is read."""
    found = scanned(raw("something broke", 0), raw("of nobody", 1, job=None), raw("something broke", 2))

    assert [0, 2] == [e.position.offset for e in found.evidence]
    assert [(1, "no_identity")] == [(record.offset, poison.reason) for record, poison in found.dead]


def test_an_event_is_passed_on_and_its_message_is_a_line():
    """What the scheduler says of a job is evidence from the scheduler's stream."""
    event = told(
        type="job_event", job_id="j", phase="ended", state="failed", message="login refused for x", ended_at=T0
    )
    found = scanned(event, where=EVENTS)

    assert [(Phase.ENDED, "FAILED")] == [(e.phase, e.state) for e in found.events]
    assert [("login", Stream.SCHEDULER)] == [(e.signature, e.stream) for e in found.evidence]


def test_events_stand_before_evidence_in_what_is_sent():
    """So that evidence finds its attempt; all of a job has one key."""
    event = told(type="job_event", job_id="j", phase="ended", message="login refused")
    sent = messages(scanned(event, where=EVENTS))

    assert [(topics.EVIDENCE, b"default/j")] * 2 == [(m.topic, m.key) for m in sent]
    assert ["JobEvent", "Evidence"] == [type(wire.job_record(m.value or b"")).__name__ for m in sent]


def test_a_nodes_line_goes_to_its_node():
    """It names no job, and is trusted where a node's line is believed."""
    found = scanned(told(type="node_event", node="n7", text="NVRM: Xid 79 seen"), where=EVENTS)

    assert (["xid"], []) == (ids(found.node_evidence), found.evidence)
    assert [(topics.NODE_EVIDENCE, b"default/n7")] == [(m.topic, m.key) for m in messages(found)]


def test_a_line_that_looks_like_failure_is_context():
    """Where no signature knows it; noise and healthy lines are none."""
    found = scanned(raw("worker failed oddly"), raw("it failed: broke, ignored", 1), raw("step 1", 2))

    assert ["worker failed oddly"] == [c.text for c in found.context]


def test_without_context_lines_there_is_no_context():
    """The setting may be 0."""
    assert [] == scanned(raw("worker failed oddly"), context_lines=0).context


def test_a_hot_job_is_bounded():
    """Ten thousand ranks with one line each leave the first and the last few of each signature."""
    found = scanned(*(raw("something broke", n, rank=n) for n in range(10_000)))

    offsets = [e.position.offset for e in found.evidence]
    assert [*range(KEPT), *range(10_000 - KEPT, 10_000)] == offsets


def test_bounds_hold_for_each_attempt_by_itself():
    """A loud job hides no quiet one, nor an attempt its sibling."""
    loud = [raw("something broke", n) for n in range(100)]
    found = scanned(*loud, raw("something broke", 100, job="quiet"), raw("something broke", 101, attempt=2))

    assert {("j", None), ("quiet", None), ("j", "2")} == {(e.job_id, e.ref) for e in found.evidence}


def test_context_is_bounded_for_each_rank_and_stream():
    """The first and the last half of what the setting allows."""
    found = scanned(*(raw(f"it failed {n}", n, rank=n % 2) for n in range(1000)), context_lines=4)

    assert [0, 2, 996, 998, 1, 3, 997, 999] == [c.position.offset for c in found.context]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_line_before_counts_within_its_own_stream(rank):
    """A traceback's source line quotes: it stands under a frame of the same rank, whatever other ranks print between."""
    frame, source = '  File "a.py", line 3, in f', "    x = 'something broke'"
    found = scanned(raw(frame, 0), raw("step 1", 1, rank=1), raw(source, 2, rank=rank))

    assert ([] if rank == 0 else ["broke"]) == ids(found.evidence)


def test_secrets_stay_in_the_scanner():
    """Evidence, context, the scheduler's free text and dead letters leave without them."""
    free = {"reason": "token=hunter22", "message": "login refused, password=hunter22"}
    found = scanned(
        raw("something broke password=hunter22", 0),
        raw("it failed, token=hunter22", 1),
        raw("secret=hunter22", 2, job=None),
    )
    events = scanned(told(type="job_event", job_id="j", phase="ended", **free), where=EVENTS)
    sent = [*messages(found), *messages(events)]

    assert 5 == len(sent)
    assert [] == [m for m in sent if b"hunter22" in (m.value or b"") or any(b"hunter22" in v for _, v in m.headers)]


def test_an_event_is_bounded():
    """Megabytes of nodes and text are cut, or its message would be tried again for ever."""
    nodes = [f"node-{n:06}" for n in range(60_000)]
    event = told(type="job_event", job_id="j", phase="ended", nodes=nodes, message="m" * 10**6, reason="r" * 10**6)
    (passed,) = scanned(event, where=EVENTS).events

    assert tuple(nodes[: len(passed.nodes)]) == passed.nodes
    assert MAX_NODES_CHARS - 20 < sum(map(len, passed.nodes)) <= MAX_NODES_CHARS
    assert (MAX_TEXT, MAX_TEXT) == (len(passed.message or ""), len(passed.reason or ""))


def test_a_small_event_stays_as_it_is():
    """Its words are matched later on."""
    (passed,) = scanned(
        told(type="job_event", job_id="j", phase="ended", reason="PREEMPTED", nodes=["a", "b"]), where=EVENTS
    ).events

    assert ("PREEMPTED", None, ("a", "b")) == (passed.reason, passed.message, passed.nodes)


def test_long_lines_are_counted():
    """Of which head and tail are scanned."""
    found = scanned(raw("x" * (MAX_CHARS + 1) + " something broke"), raw("x" * 100, 1))

    assert (1, ["broke"]) == (found.truncated, ids(found.evidence))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_are_read_or_set_aside(values):
    """In any format, nothing but records and dead letters comes out."""
    for where in (RAW, EVENTS, Input("job-logs", "rsyslog")):
        found = scanned(*(raw(value, n) for n, value in enumerate(values)), where=where)

        assert all(message.topic.startswith("exitsign.") for message in messages(found))


@settings(deadline=None)
@given(st.permutations(range(12)), st.integers(1, 11))
def test_where_a_batch_is_cut_changes_no_evidence(order, cut):
    """Nor does the order of ranks: the same lines give the same evidence."""
    records = [raw("something broke" if n % 3 else "fine", n, rank=n) for n in order]
    whole = scanned(*records).evidence
    parts = scanned(*records[:cut]).evidence + scanned(*records[cut:]).evidence

    assert sorted(whole, key=lambda e: e.position) == sorted(parts, key=lambda e: e.position)


def test_the_input_table_knows_every_default_topic():
    """Each row names a format that exists."""
    assert {"job-logs", "job-logs-raw", "scheduler-events", "node-events"} == set(input_table(Settings()))


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (InputSettings(topic="t", format="cobol"), "unknown format 'cobol'; known formats: "),
        (InputSettings(topic="t", format="raw", fields={"colour": "x"}), "format 'raw' has no field 'colour'"),
        (InputSettings(topic="t", format="raw", stream="telepathy"), "telepathy"),
    ],
)
def test_a_row_that_cannot_work_is_refused(row, line):
    """Before anything is read."""
    with pytest.raises(ValueError, match=line):
        input_table(Settings(inputs=(row,)))
