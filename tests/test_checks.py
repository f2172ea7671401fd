"""What `check` finds: every defect of a planted list."""

from __future__ import annotations

import pytest
from builders import SPEC_TEXT, catalog_of, packaged_catalog, signature_yaml

from classifiers.catalog import gather
from classifiers.checks import check, examine, overlaps
from classifiers.hostile import may_backtrack
from classifiers.lock import Locked, content_digest, read_lock, write_lock

GOOD = signature_yaml("good")
GENERIC = signature_yaml("generic", pattern="'ValueError: '", match="['ValueError: x']", no_match="['x']")


def problems(*signatures: str, locked: dict[str, Locked] | None = None, errors: bool = True) -> list[str]:
    """`id: problem` of every finding that is (or is not) an error, but for labels without a signature."""
    found = check(catalog_of(*signatures), locked or {})
    return [f"{f.subject}: {f.problem}" for f in found if f.error == errors and f.file != "exit_spec.yaml"]


def loading(*texts: str) -> list[str]:
    """What is wrong with files that can't be read."""
    found: list = []
    gather({"exit_spec.yaml": SPEC_TEXT, **{f"f{n}.yaml": text for n, text in enumerate(texts)}}, found)
    return [str(problem) for problem in found]


def test_a_good_signature_has_no_findings():
    """Silence is the sign of health."""
    assert [] == problems(GOOD)


@pytest.mark.parametrize(
    ("pattern", "example"),
    [
        ("'killed by signal (2)'", "killed by signal (2)"),
        ("'^[errno 2] No such file'", "[errno 2] No such file"),
        ("'exit_handler() was called'", "exit_handler() was called"),
    ],
)
def test_a_pattern_that_never_matches_is_found(pattern, example):
    """Characters that mean something else than they say."""
    found = problems(signature_yaml(pattern=pattern, match=[example], no_match="['x']"))

    assert any("its own example does not match" in problem for problem in found)


def test_an_alternative_that_no_example_shows_is_found():
    """Each pattern of a list needs its proof."""
    found = problems(signature_yaml(pattern="['something broke', 'never shown']"))

    assert ["some-signature: pattern 2 is matched by no example: it may never match ('never shown')"] == found


def test_a_wholly_shadowed_signature_is_found():
    """One that never wins on its own examples is dead."""
    specific = signature_yaml(
        "specific",
        label="gpu_oom",
        pattern="'ValueError: out of GPU memory'",
        match="['ValueError: out of GPU memory']",
        no_match="['x']",
    )
    beaten = signature_yaml(
        "beaten", pattern="'out of GPU memory'", match="['ValueError: out of GPU memory']", no_match="['x']"
    )

    assert ["beaten: shadowed: specific wins on every one of its examples"] == problems(specific, beaten)


@pytest.mark.parametrize("pattern", ["(a+)+$", r"failure\s+.*\s+.*\s+of a$"])
def test_a_slow_pattern_is_found(pattern):
    """A pattern that backtracks over 16 KiB would hold up a partition."""
    found = problems(signature_yaml(pattern=f"'{pattern}'", match="['failure  of  the  of a']", no_match="['x']"))

    assert any("slow: over" in problem for problem in found)


@pytest.mark.parametrize(
    ("pattern", "suspect"),
    [("abc", False), (r"a\d{1,200}b", False), (r"a.*b", True), (r".{0,200}a.{0,200}", True), (r"(?<x>\w+)", True)],
)
def test_only_patterns_that_can_backtrack_are_tried(pattern, suspect):
    """One bounded repeat costs at most its bound."""
    assert suspect == may_backtrack(pattern)


def test_a_pattern_that_the_prefilter_refuses_is_found_and_the_others_are_still_checked():
    """One bad pattern does not hide what is wrong elsewhere."""
    refused = signature_yaml(
        "refused", pattern=r"'some\Kthing terrible'", match="['something terrible']", no_match="['x']"
    )
    dead = signature_yaml("dead", pattern="'never'")

    found = problems(GOOD, refused, dead)

    assert {"dead", "refused"} == {problem.split(":")[0] for problem in found}
    assert [r"refused: the prefilter can't take 'some\\Kthing terrible': \K at index 4 not supported."] == [
        problem for problem in found if problem.startswith("refused")
    ]


def test_a_missing_bump_is_found():
    """What a version means never changes."""
    old = catalog_of(GOOD).signatures[0]
    locked = {"good": Locked(1, content_digest(old), retired=False)}
    changed = signature_yaml("good", pattern="'[Ss]omething broke'")

    found = problems(changed, locked=locked)

    assert ["good: changed without a new version: say version: 2, then `exitsign signatures lock`"] == found
    assert [] == problems(signature_yaml("good", pattern="'[Ss]omething broke'", version=2), locked=locked)


def test_an_older_version_than_the_locked_one_is_found():
    """Versions only grow."""
    assert ["good: version 1 is older than the locked 3"] == problems(GOOD, locked={"good": Locked(3, "x", False)})


def test_a_retired_id_is_never_used_again():
    """Old verdicts name it."""
    locked = {"good": Locked(1, "x", retired=True)}

    assert ["good: this id was retired and is never used again: choose another"] == problems(GOOD, locked=locked)
    assert [] == problems(signature_yaml("good", status="retired"), locked=locked)


def test_an_id_that_is_gone_is_found():
    """A signature is retired in its file, not deleted from it."""
    locked = {"good": Locked(1, content_digest(catalog_of(GOOD).signatures[0]), False), "gone": Locked(1, "x", False)}

    assert ["gone: gone without a trace: keep it with status: retired"] == problems(GOOD, locked=locked)


def test_a_signature_outside_the_lock_is_a_warning():
    """A forgotten `lock` is seen before it matters."""
    locked = write_lock(catalog_of(GOOD), {})
    other = signature_yaml("other", pattern="'another thing'", match="['another thing']")

    found = problems(GOOD, other, locked=read_lock(locked), errors=False)

    assert ["other: not locked yet: `exitsign signatures lock`"] == found


def test_a_lock_survives_writing_and_reading():
    """Ids that are gone stay, as retired."""
    text = write_lock(catalog_of(GOOD), {"gone": Locked(2, "abc", False)})

    assert read_lock(text)["gone"] == Locked(2, "abc", retired=True)
    assert not read_lock(text)["good"].retired


def test_a_damaged_lock_names_the_line():
    """A merge conflict in the lock is found by number."""
    with pytest.raises(ValueError, match=r"versions\.lock:2"):
        read_lock("# head\n<<<<<<< HEAD\n")


def test_a_recovery_without_clears_is_found():
    """A recovery that cancels nothing does nothing."""
    recovery = signature_yaml("back", role="recovery", label=None)

    assert ["back: a recovery must say what it clears"] == problems(recovery)


def test_a_stolen_example_is_a_warning():
    """A person decides whether the other is right to win."""
    thief = signature_yaml(
        "thief", label="gpu_oom", pattern="'ValueError: no memory'", match="['ValueError: no memory']", no_match="['x']"
    )
    generic = signature_yaml(
        "generic", pattern="'ValueError: '", match="['ValueError: x', 'ValueError: no memory here']", no_match="['x']"
    )

    stolen = [str(finding) for finding in overlaps(catalog_of(thief, generic))]

    assert 1 == len(stolen)
    assert stolen[0].endswith("warning: generic: thief (gpu_oom) wins on its example 'ValueError: no memory here'")


@pytest.mark.parametrize(("label", "error"), [("gpu_oom", True), ("semantic_error", False)])
def test_a_pattern_that_stands_twice_is_found(label, error):
    """With two labels nothing but chance decides between them."""
    twin = signature_yaml("twin", label=label, match="['something broke there']")

    found = problems(GOOD, twin, errors=error)

    assert "twin: its pattern stands also at good: 'something broke'" in found


def test_twin_examples_are_a_warning():
    """Two signatures that claim one line are one too many."""
    twin = signature_yaml("twin", pattern="'thing broke'")

    assert "twin: its example stands also at good: 'something broke here'" in problems(GOOD, twin, errors=False)


def test_a_private_literal_is_a_warning():
    """A pattern made for one place matches nowhere else."""
    private = signature_yaml(
        "own", pattern="'/home/jdoe/train: broke'", match="['/home/jdoe/train: broke']", no_match="['x']"
    )

    assert ["own: private literal '/home/jdoe': a pattern made for one place matches nowhere else"] == problems(
        private, errors=False
    )


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"match": None}, "no match example: nothing shows that it can match"),
        ({"no_match": None}, "no no_match example: what must it not match?"),
        ({"no_match": "['something broke']"}, "its no_match example matches: 'something broke'"),
    ],
)
def test_missing_and_wrong_examples_are_found(more, problem):
    """Examples are the proof."""
    assert f"some-signature: {problem}" in problems(signature_yaml(**more))


def test_a_capture_that_comes_out_wrong_is_found():
    """An example says what its groups hold."""
    named = signature_yaml(
        "named",
        pattern="'broke at (?<place>\\w+)'",
        match="[{line: broke at noon, place: dawn}]",
        no_match="['x']",
    )

    assert ["named: capture place is 'noon', its example says 'dawn'"] == problems(named)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- id: a\n  id: b\n", "f0.yaml:2: yaml: duplicate key 'id'"),
        (signature_yaml("a", label="no_such_label"), "f0.yaml:1: a: label no_such_label is not in exit_spec.yaml"),
        (signature_yaml("a", pattern="'broke (here'"), "f0.yaml:1: a: invalid pattern: missing ) at position 11"),
        ("- id: [\n", "f0.yaml:2: yaml: "),
        ("just words", "f0.yaml:1: file: must be a list of signatures"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(text, problem):
    """File, line, id, and what is wrong."""
    found = loading(text)

    assert 1 == len(found)
    assert found[0].startswith(problem)


def test_the_packaged_signatures_are_all_alive():
    """None that ships is dead, slow, shadowed or refused."""
    catalog = packaged_catalog()

    assert [] == [str(f) for f in examine(catalog, {}).findings if f.error]
