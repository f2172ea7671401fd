"""One signature of one mapping."""

from __future__ import annotations

import pytest
from builders import signature_yaml

from classifiers.records import Role, Stream
from classifiers.signature import SignatureError, Status, read_signatures


def read(text: str):
    """The signatures of one file."""
    return list(read_signatures(text, "some.yaml"))


def test_a_signature_says_what_its_file_says():
    """Every key lands in its field, and the place is the line of the id."""
    found = read("# head\n\n" + signature_yaml("a", remedy="Wait.", clears="[x]"))[0]

    assert ("a", 1, Status.STABLE, "semantic_error", Role.ROOT) == (
        found.id,
        found.version,
        found.status,
        found.label,
        found.role,
    )
    assert (frozenset({Stream.STDERR, Stream.STDOUT}), ("something broke",)) == (found.sources, found.patterns)
    assert ("Wait.", ("x",), "some.yaml:3") == (found.remedy, found.clears, str(found.place))


def test_one_pattern_may_stand_without_a_list():
    """The usual case is one pattern."""
    assert ("a", "b") == read(signature_yaml(pattern="[a, b]"))[0].patterns


def test_an_example_may_carry_captures_or_facts():
    """A mapping with `line` is a line, one with a fact is an end."""
    found = read(signature_yaml(match="[{line: x, where: 7}, {exit_code: 9}]"))[0].match

    assert ("x", {"where": "7"}) == (found[0].line, found[0].captures)
    assert (None, {"exit_code": 9}) == (found[1].line, found[1].facts)


def test_facts_may_name_one_value_or_several():
    """Each becomes a tuple."""
    found = read(signature_yaml(pattern=None, facts="{state: FAILED, exit_code: [1, 2]}"))[0]

    assert {"state": ("FAILED",), "exit_code": (1, 2)} == found.facts


@pytest.mark.parametrize(
    ("status", "active"), [("draft", False), ("shadow", True), ("stable", True), ("retired", False)]
)
def test_only_shadow_and_stable_are_matched(status, active):
    """Drafts wait for a person, retired ones for nobody."""
    assert active == read(signature_yaml(status=status))[0].active


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"patern": "x"}, "unknown key patern"),
        ({"pattern": None}, "needs either a pattern or facts"),
        ({"facts": "{state: X}"}, "needs either a pattern or facts"),
        ({"label": None}, "a label is needed for every role but noise and recovery"),
        ({"role": "noise"}, "a label is needed for every role but noise and recovery"),
        ({"role": "cause"}, "role must be one of root"),
        ({"status": "beta"}, "status must be one of draft"),
        ({"version": "0"}, "version must be a whole number from 1"),
        ({"version": "yes"}, "version must be a whole number from 1"),
        ({"why": None}, "why must be a sentence"),
        ({"source": "[syslog]"}, "source must be of stderr"),
        ({"pattern": "[1]"}, "pattern must be text or a list of texts"),
        ({"match": "x"}, "match must be a list"),
        ({"match": "[{text: x}]"}, "match: an example is a line"),
        ({"pattern": None, "facts": "{weather: x}"}, "facts knows exit_code, reason, signal, state only"),
    ],
)
def test_a_bad_key_names_file_line_and_id(more, problem):
    """The words say what to write instead."""
    with pytest.raises(SignatureError) as caught:
        read("\n" + signature_yaml("bad", **more))

    assert str(caught.value).startswith(f"some.yaml:2: bad: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1", "some.yaml:1: file: must be a list"),
        ("- just text", "some.yaml:1: signature: every entry needs an id"),
        ("- id: a\n  version: 1\n  version: 2\n", "some.yaml:3: yaml: duplicate key 'version'"),
        ("- id: a\n why: x\n", "some.yaml:2: yaml: "),
    ],
)
def test_a_bad_file_names_its_line(text, problem):
    """YAML's own words, at its own line."""
    with pytest.raises(SignatureError) as caught:
        read(text)

    assert str(caught.value).startswith(problem)


def test_an_empty_file_holds_nothing():
    """A file of comments is fine."""
    assert [] == read("# soon\n")
