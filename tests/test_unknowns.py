"""Unexplained lines, their clusters, and drafts of them."""

from __future__ import annotations

import json
import tracemalloc
from itertools import islice, product

import pytest
import regex

from classifiers.checks import examine_alone
from classifiers.drafts import Undraftable, Wish
from classifiers.masking import masked
from classifiers.signature import Status
from classifiers.unknowns import EXAMPLES, AttemptName, BadSnapshot, Unknowns, draft_of, id_of

LOST = [
    "frobnicator: shard 17 of pool alpha went away while reading /data/a/b.bin",
    "frobnicator: shard 3 of pool beta went away while reading /data/c.bin",
    "frobnicator: shard 99 of pool gamma went away while reading /x/y/z.bin",
]
FULL = "QuotaBoom: user 'ann' is over on host-12"


def unknowns_of(*attempts: tuple[list[str], float], most: int = 100) -> Unknowns:
    """Attempts of (lines, GPU-seconds), one second apart, each of a job of its own."""
    unknowns = Unknowns(most)
    for number, (lines, gpu_seconds) in enumerate(attempts):
        unknowns.add(AttemptName("c", f"job-{number}", 1), lines, 100.0 + number, gpu_seconds)
    return unknowns


def distinct(count: int):
    """Lines that have nothing in common, of words without a number."""
    words = ("".join(letters) for letters in product("bcdfghjklmnp", repeat=6))
    return [f"{word} {word[::-1]} {word}{word[:2]}" for word in islice(words, count)]


def test_lines_that_differ_in_what_varies_are_one_cluster():
    """Numbers and paths by their masks, other words by the template."""
    unknowns = unknowns_of(*(([line], 1.0) for line in LOST))

    (cluster,) = unknowns.ranked()

    assert "frobnicator: shard # of pool <*> went away while reading <path>.bin" == cluster.template
    assert LOST == cluster.lines
    assert (3, 3, 100.0, 102.0) == (cluster.count, cluster.attempts, cluster.first_seen, cluster.last_seen)


def test_lines_that_say_different_things_are_two_clusters():
    """Sharing a program's name is not enough."""
    unknowns = unknowns_of(([LOST[0], "frobnicator: the licence ran out today"], 1.0))

    assert 2 == len(unknowns.ranked())


def test_the_dearest_comes_first_then_the_most_frequent():
    """GPU-time decides; an attempt whose GPUs are not known costs nothing."""
    unknowns = unknowns_of((["one small thing"], 5.0), (["some dear trouble here"], 900.0), (["zzz often said"], 3.0))
    unknowns.add(AttemptName("c", "more", 1), ["zzz often said"], 200.0, 2.0)
    unknowns.add(AttemptName("c", "none", 1), ["costs not known"], 200.0, None)

    names = [c.template for c in unknowns.ranked()]

    assert ["some dear trouble here", "zzz often said", "one small thing", "costs not known"] == names


def test_an_attempt_is_charged_once_however_often_it_says_a_thing():
    """Else a chatty attempt would look dear."""
    unknowns = unknowns_of(([*LOST, LOST[0]], 60.0))

    (cluster,) = unknowns.ranked()

    assert (1, 60.0, 3) == (cluster.attempts, cluster.gpu_seconds, cluster.count)


def test_a_line_without_words_is_no_cluster():
    """Numbers and rulers name nothing."""
    assert [] == unknowns_of((["", "====", "17 0x3f 12.5", "/data/a", "   "], 1.0)).ranked()


def test_the_id_is_the_template_s_and_former_ones_still_find_it():
    """A person who noted an id finds the cluster after it grew."""
    unknowns = unknowns_of(([LOST[0]], 1.0))
    before = unknowns.ranked()[0].id
    unknowns.add(AttemptName("c", "later", 1), [LOST[1]], 200.0, 1.0)

    (cluster,) = unknowns.ranked()

    assert id_of(masked(LOST[0])) == before != cluster.id == id_of(cluster.template)
    assert cluster is unknowns.find(before) is unknowns.find(cluster.id) is unknowns.find(cluster.id[:5])
    assert None is unknowns.find("nothing") is unknowns.find("")


def test_few_lines_and_attempts_are_kept_and_the_newest_is_among_them():
    """A cluster of a million lines is as small as one of ten."""
    unknowns = unknowns_of(*(([f"shard {n} went away"], 1.0) for n in range(50)))

    (cluster,) = unknowns.ranked()

    assert (EXAMPLES, EXAMPLES, 50) == (len(cluster.lines), len(cluster.examples), cluster.attempts)
    assert (AttemptName("c", "job-0", 1), AttemptName("c", "job-49", 1)) == (cluster.examples[0], cluster.examples[-1])


def test_the_least_recently_seen_cluster_goes_and_is_counted():
    """What is seen again stays."""
    old, seen_again, new = distinct(3)

    unknowns = unknowns_of(([seen_again], 1.0), ([old], 1.0), ([seen_again], 1.0), ([new], 1.0), most=2)

    assert {seen_again, new} == {c.template for c in unknowns.ranked()}
    assert 1 == unknowns.dropped


def test_memory_stays_bounded_over_fifty_thousand_distinct_lines():
    """Neither clusters nor the tree over them grow with what was seen."""
    lines, unknowns = distinct(50_000), Unknowns(most=50)
    one = AttemptName("c", "hostile", 1)
    unknowns.add(one, lines[:5_000], 1.0, 1.0)
    tracemalloc.start()
    for start in range(5_000, 50_000, 500):
        unknowns.add(one, lines[start : start + 500], 1.0, 1.0)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (50, 49_950) == (len(unknowns.ranked()), unknowns.dropped)
    assert grown < 300_000


def test_a_snapshot_goes_through_json_and_goes_on_as_before():
    """Clusters, ids, counters, and the order of forgetting."""
    unknowns = unknowns_of(*(([line], 7.0) for line in [*LOST[:2], FULL, *distinct(4)]), most=4)

    again = Unknowns.from_dict(json.loads(json.dumps(unknowns.to_dict())))
    for each in (unknowns, again):
        each.add(AttemptName("c", "next", 2), [FULL.replace("ann", "bob"), "one more thing"], 900.0, 5.0)

    assert unknowns.to_dict() == again.to_dict()
    assert 4 == again.dropped


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version 2"),
        ({"py/object": "os.system"}, "unknown field"),
        ({"most": 0}, "most"),
        ({"clusters": [{"template": " ", "first_seen": 0.0, "last_seen": 0.0}]}, "template"),
        ({"clusters": [{"template": "a b"}]}, "first_seen"),
        ({"clusters": [{"template": t, "first_seen": 0.0, "last_seen": 0.0} for t in ("a", "a")]}, "twice"),
        ({"most": 1, "clusters": [{"template": t, "first_seen": 0.0, "last_seen": 0.0} for t in "ab"]}, "bound"),
    ],
)
def test_a_foreign_snapshot_is_refused(change, told):
    """With what is wrong; nothing in it is ever run."""
    with pytest.raises(BadSnapshot, match=told):
        Unknowns.from_dict({**Unknowns().to_dict(), **change})


@pytest.mark.parametrize("value", [None, [], "x", {}])
def test_what_is_no_snapshot_at_all_is_refused(value):
    """A corrupt file gives one of these."""
    with pytest.raises(BadSnapshot, match="not a snapshot"):
        Unknowns.from_dict(value)


def test_a_draft_matches_every_line_of_its_cluster_and_the_next_one():
    """Examples are lines that were seen; the counter-example is not matched; nothing is wrong with it."""
    (cluster,) = unknowns_of(*(([line], 1.0) for line in LOST)).ranked()

    signature = draft_of(cluster, Wish("storage_failure"), {"frobnicator-shard-pool-went-away-while"}).signature

    assert (Status.DRAFT, LOST, []) == (signature.status, [e.line for e in signature.match], examine_alone(signature))
    assert "frobnicator-shard-pool-went-away-while-2" == signature.id
    assert regex.search(signature.patterns[0], "frobnicator: shard 4 of pool omega went away while reading /d/e")
    assert [None] == [regex.search(signature.patterns[0], e.line) for e in signature.no_match]


def test_a_draft_holds_no_secret():
    """A line that came from an older scanner may."""
    (cluster,) = unknowns_of((["login to the store failed: token=abcdef0123456789 was refused"], 1.0)).ranked()

    assert "abcdef0123456789" not in draft_of(cluster, Wish("storage_failure")).text


def test_a_cluster_that_says_nothing_makes_no_draft():
    """The message names the cluster."""
    (cluster,) = unknowns_of((["oh"], 1.0)).ranked()

    with pytest.raises(Undraftable, match=cluster.id):
        draft_of(cluster, Wish("storage_failure"))
