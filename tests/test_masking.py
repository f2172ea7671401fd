"""Masking of what varies between two runs of one failure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.masking import MAX_CHARS, masked, template


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No such file or directory: '/data/x/foo.json'", "No such file or directory: '<path>.json'"),
        ("connect to 10.0.3.7:6443 refused", "connect to <address> refused"),
        ("lost node gpu-12.cluster.example", "lost node <host>"),
        ("object 0x7f3a9c00 freed twice", "object <hex> freed twice"),
        ("request 123e4567-e89b-12d3-a456-426614174000 failed", "request <id> failed"),
        ("get hdfs://nn01:8020/user/a/b.parquet", "get hdfs://<url>"),
        ("Tried to allocate 2.50 GiB", "Tried to allocate # GiB"),
        ("open /dev/nvidia3 failed", "open /dev/nvidia failed"),
    ],
)
def test_what_varies_is_masked(text: str, expected: str) -> None:
    """Paths, addresses, hosts, hex, ids, URLs and numbers are masked; what kind of file or device it was stays."""
    assert expected == masked(text)


@pytest.mark.parametrize("text", ["Exited with exit code 137", "signal 9", "Xid 79", "[Errno 28] No space left"])
def test_a_number_that_names_the_failure_stays(text: str) -> None:
    """An exit code, a signal, an Xid and an errno keep their number."""
    assert text == masked(text)


def test_two_runs_of_one_failure_share_a_template() -> None:
    """Host, number and quoted name do not tell two near-duplicates apart."""
    first = template("srun: error: gpu-12: task 3: cannot open 'a.txt'")
    assert first == template("srun: error: gpu-07: task 11: cannot open 'b c.txt'")
    assert first != template("srun: error: gpu-12: task 3: killed")


@given(st.text(max_size=2000))
@settings(max_examples=200, deadline=None)
def test_masking_never_fails_and_bounds_its_text(text: str) -> None:
    """Any text gives at most MAX_CHARS characters on one line."""
    found = masked(text)
    assert len(found) <= MAX_CHARS
    assert "\n" not in found
