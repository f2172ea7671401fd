"""Cleaning one raw line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.lines import MAX_CHARS, clean, segments

PREFIXED = [
    ("[rank3]: RuntimeError: x", "RuntimeError: x"),
    ("2026-11-21T07:12:44.143342+00:00 vm kernel: [ 123.123456] NVRM: Xid", "NVRM: Xid"),
    ("[1,2]<stderr>:Foo", "Foo"),
    ("1,2<stderr>:Foo bar", "Foo bar"),
    ("(train pid=12, ip=10.0.0.1) ValueError: x", "ValueError: x"),
    ("E1121 07:12:44.143342  1234 foo.cc:12] bad", "bad"),
    ("2026-11-21 07:12:44,123 ERROR foo: bar", "ERROR foo: bar"),
    ("Nov 21 07:12:44 host-1 slurmd[123]: error: x", "error: x"),
    ("\x1b[31mRuntimeError\x1b[0m: x", "RuntimeError: x"),
    ("[rank1]:[E1121 07:12:44.143 ProcessGroupNCCL.cpp:12] [Rank 1] Watchdog", "Watchdog"),
    ("0: srun thing", "srun thing"),
    ("11/21/2026 07:12:44 - INFO - x", "INFO - x"),
    ("[Fri Nov 21 07:12:44 2026] NVRM: Xid (PCI:0000:41:00): 79", "NVRM: Xid (PCI:0000:41:00): 79"),
    ("2026-11-21T07:02:42.143330123Z stderr F hello", "hello"),
    ("gpu-node-12: Foo bar", "Foo bar"),
    ("sqlite3.OperationalError: no such table", "sqlite3.OperationalError: no such table"),
    ("x509: certificate has expired", "x509: certificate has expired"),
    (" 50%|#### | 1/2 [00:01<00:00]Traceback", "Traceback"),
]


@pytest.mark.parametrize(("raw", "text"), PREFIXED)
def test_prefixes_come_off(raw, text):
    """Times, ranks, hosts and shippers' prefixes are not part of what a program said."""
    assert text == clean(raw).text


@pytest.mark.parametrize(
    "text",
    [
        "slurmstepd: error: *** JOB 3 ON n1 CANCELLED AT 2026-11-21T07:10:59 ***",
        "ValueError: 3 is bad",
        "srun: error: t1: task 0",
    ],
)
def test_what_a_program_said_stays(text):
    """A program's own name in front of its message is what signatures look for."""
    assert text == clean(text).text


def test_indentation_stays():
    """A traceback's source line is told from an exception by its blanks."""
    assert "    raise ValueError('x')" == clean("[rank3]:     raise ValueError('x')").text.replace("\t", "    ")


def test_the_rank_of_a_prefix_is_told():
    """Launchers name the rank in front of the line."""
    assert [3, 2, 2, 0] == [clean(raw).rank for raw in ("[rank3]: x y", "[1,2]<stderr>:x", "1,2<stderr>:x", "0: x")]


def test_levels_are_told_in_one_spelling():
    """WARN, W1121 and WARNING are one level."""
    raws = (
        "2026-11-21 07:12:44,123 WARN foo",
        "W1121 07:12:44.143342  1234 foo.cc:12] bad",
        "WARNING: x",
        "plain words",
    )

    assert ["WARNING", "WARNING", "WARNING", None] == [clean(raw).level for raw in raws]


def test_a_carriage_return_starts_a_new_line():
    """A progress bar that overwrites itself hides nothing."""
    assert [" 1%", " 2%", "RuntimeError: x"] == segments(" 1%\r 2%\r\rRuntimeError: x")


def test_a_ten_megabyte_line_keeps_its_ends():
    """Work is bounded, and both ends of the line are seen."""
    text = clean("head " + "x" * 10_000_000 + " tail").text

    assert len(text) <= MAX_CHARS
    assert (True, True) == (text.startswith("head"), text.endswith("tail"))


@given(st.text(max_size=300))
def test_cleaning_twice_changes_nothing_more(raw):
    """Clean text is clean, and never longer than the raw line."""
    once = clean(raw)

    assert len(once.text) <= len(raw)
    assert "\x1b" not in once.text
