"""From a log line to a draft."""

from __future__ import annotations

import pytest
import regex
from builders import packaged_catalog
from hypothesis import given
from hypothesis import strategies as st

from classifiers.checks import examine_alone
from classifiers.drafts import Undraftable, Wish, draft, generalised, near_miss
from classifiers.lines import clean
from classifiers.matching import quoted
from classifiers.records import Role
from classifiers.signature import Status

WISH = Wish("storage_failure")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("lost disk at 0x7ffe12 after 12 tries", r"lost disk at 0x[0-9a-fA-F]{1,16} after \d{1,20} tries"),
        ("cannot open /data/set-3/a.bin today", r"cannot open [^\s,;:'\"()\[\]{}<>]{1,300} today"),
        ("no route to 10.0.0.17:9092, giving up", r"no route to [\d.:]{7,21}, giving up"),
        ("key 'user_17' is missing (again)", r"key '[^']{1,300}' is missing \(again\)"),
        ("pulling from https://h.example/x failed", r"pulling from \w{2,10}://[^\s,;'\"()\[\]{}<>]{1,300} failed"),
        ("job 3f2b8c1e-1111-2222-3333-444455556666 lost", r"job [0-9a-fA-F-]{36} lost"),
        ("my.mod.QuotaError: full", r"^(?:[\w.]{1,200}\.)?QuotaError: full"),
        ("OSError: [Errno 28] No space", r"^(?:[\w.]{1,200}\.)?OSError: \[Errno 28\] No space"),
    ],
)
def test_what_varies_becomes_a_bounded_class(text, pattern):
    """Numbers, paths, hosts, ids and quoted names change from run to run; an error's number is its name."""
    assert pattern == generalised(text)


def test_a_draft_matches_the_same_failure_of_another_run():
    """That is what a signature is for."""
    made = draft("[rank3]: QuotaError: volume 'scratch7' is 98% full at /mnt/scratch7", WISH)

    assert regex.search(made.signature.patterns[0], "QuotaError: volume 'home' is 100% full at /mnt/h")


def test_a_draft_is_a_draft_with_a_free_id():
    """Nothing is matched before a person has read it."""
    first = draft("volume is over its quota", WISH)
    second = draft("volume is over its quota", WISH, {first.signature.id})

    assert Status.DRAFT is first.signature.status
    assert f"{first.signature.id}-2" == second.signature.id


def test_a_draft_holds_no_secret():
    """Drafts go into a repository."""
    made = draft("login failed: token=abcdef0123456789 was refused by the server", WISH)

    assert "abcdef0123456789" not in made.text


def test_the_near_miss_is_the_opposite():
    """The best counter-example is the healthy twin of the line."""
    assert "mount succeeded for disk" == near_miss("mount failed for disk", "mount failed for disk")


@pytest.mark.parametrize("line", ["", "   ", "+ rm -rf x", '    raise ValueError("no")', '  File "a.py", line 3', "ok"])
def test_a_line_that_says_nothing_is_refused(line):
    """Program text and empty lines make no signature."""
    with pytest.raises(Undraftable):
        draft(line, WISH)


def test_noise_and_recovery_drafts_have_no_label():
    """They name no cause."""
    made = draft("connection to broker is back again", Wish(None, Role.RECOVERY, ("network_error",)))

    assert (None, ("network_error",)) == (made.signature.label, made.signature.clears)


@given(st.text(min_size=1, max_size=200))
def test_any_line_makes_a_sound_draft_or_none(line):
    """A draft matches its own line, is linear and is taken by the prefilter."""
    try:
        made = draft(line, WISH)
    except Undraftable:
        return

    assert regex.search(made.signature.patterns[0], clean(line).text)
    assert [] == examine_alone(made.signature)


def test_every_packaged_example_makes_a_draft():
    """Real wordings are what the command is given; every eleventh keeps the test short."""
    lines = [e.line for s in packaged_catalog().active for e in s.match if e.line][::11]

    refused = []
    for line in lines:
        try:
            made = draft(line, WISH)
        except Undraftable:
            refused.append(line)
        else:
            assert regex.search(made.signature.patterns[0], clean(line).text)
    assert [] == [line for line in refused if len(clean(line).text.strip()) >= 6 and not quoted(clean(line).text, None)]
