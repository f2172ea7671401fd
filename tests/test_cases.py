"""Cases: whole attempts with the verdict marked in the text."""

from __future__ import annotations

import pytest
from builders import catalog_of, signature_yaml

from classifiers.cases import bless, judge_case, read_case, write_case
from classifiers.matching import Matcher
from classifiers.signature import SignatureError

MATCHER = Matcher(
    catalog_of(
        signature_yaml("oom", label="gpu_oom", pattern="'out of GPU memory'", match="['out of GPU memory']"),
        signature_yaml(
            "late",
            label="collective_timeout",
            role="cascade",
            pattern="'waited for a peer'",
            match="['waited for a peer']",
        ),
    )
)
TEXT = """\
why: rank 2 runs out of memory
end: {state: FAILED, exit_code: 1}
label: gpu_oom
---
r0 err   Epoch 3: loss 0.21
r2 err > out of GPU memory
r0 err - waited for a peer
- sch   job ended
"""


def test_a_case_survives_reading_and_writing():
    """The file is the case, to the byte."""
    assert write_case(read_case(TEXT, "a.case")) == TEXT


def test_a_case_holds_its_end_and_its_lines():
    """Rank, stream and mark stand before the text."""
    case = read_case(TEXT, "a.case")

    assert ("FAILED", 1, "gpu_oom") == (case.facts.state, case.facts.exit_code, case.label)
    assert (2, "err", ">", "out of GPU memory") == (
        case.lines[1].rank,
        case.lines[1].stream,
        case.lines[1].mark,
        case.lines[1].text,
    )


def test_bless_writes_marks_and_label_anew():
    """Whatever stood there before."""
    wrong = TEXT.replace("label: gpu_oom", "label: unknown").replace(" > ", "   ").replace(" - waited", " > waited")

    assert write_case(bless(read_case(wrong, "a.case"), MATCHER)) == TEXT


def test_bless_changes_nothing_twice():
    """A blessed case is blessed."""
    case = bless(read_case(TEXT, "a.case"), MATCHER)

    assert bless(case, MATCHER) == case


def test_leading_blanks_of_a_line_stay():
    """Indentation tells a traceback's source line from an exception."""
    text = TEXT + "r0 err       raise ValueError\n"

    assert "    raise ValueError" == read_case(text, "a.case").lines[-1].text


def test_an_attempt_that_ended_well_has_no_label():
    """Its frightening lines are not judged."""
    case = read_case(TEXT.replace("{state: FAILED, exit_code: 1}", "{state: COMPLETED, exit_code: 0}"), "a.case")

    assert judge_case(case, MATCHER)[0] is None


def test_a_healthy_case_is_judged_as_if_it_had_failed():
    """So that evidence on healthy lines is seen."""
    text = TEXT.replace("---\n", "healthy: true\n---\n", 1)

    assert "gpu_oom" == judge_case(read_case(text, "a.case"), MATCHER)[0]


def test_nothing_known_is_unknown():
    """A failed attempt without evidence."""
    assert "unknown" == judge_case(read_case("why: x\nend: {state: FAILED}\n---\nr0 err   bye\n", "a.case"), MATCHER)[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("r0 err   no head\n", r"a\.case:1: case: needs a head"),
        ("why: x\nend: {}\nlable: y\n---\n", r"a\.case:1: case: unknown key lable"),
        ("why: x\nend: {}\n---\nr0 err   fine\nx0 err   bad\n", r"a\.case:5: case: a line is: rank"),
        ("why: x\nend: {}\n---\nr0 tty   bad\n", r"a\.case:4: case: a line is: rank"),
        ("why: x\nwhy: y\n---\n", r"a\.case:2: yaml: duplicate key"),
    ],
)
def test_a_broken_case_names_file_and_line(text, problem):
    """A curator clicks on it."""
    with pytest.raises(SignatureError, match=problem):
        read_case(text, "a.case")
