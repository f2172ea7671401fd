"""The state machine: a set of records, whatever their order."""

from __future__ import annotations

from builders import T0, context, disrupted, ended, evidence, judge, started, tick
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.attempt import KEPT, JobState, attempts, step
from classifiers.decision import Clock, decide
from classifiers.records import Role
from services.watermarks import Watermarks

EMPTY = JobState(cluster="c", job_id="job-1")
JUDGE = judge()


def state_of(*records):
    """The state after the records, in the order given."""
    state = EMPTY
    for record in records:
        state = step(state, record)
    return state


def told(records):
    """(attempt, label, signature, ranking, final) of everything known once all time has passed."""
    state = state_of(*records)
    _, published = decide(state, Clock(T0 + 10_000, T0 + 10_000), JUDGE)
    return [(p.verdict.attempt, p.verdict.label, p.verdict.signature, p.verdict.ranking) for p in published]


STORY = [
    started(0, ref="a"),
    evidence("oom", "gpu_oom", at=5, ref="a"),
    evidence("nccl", "collective_timeout", Role.CASCADE, at=6, rank=1, ref="a"),
    evidence("torchrun", "traceback_other", Role.SUMMARY, at=7, ref="a"),
    context("something failed", at=6.5, ref="a"),
    ended(8, ref="a"),
    started(20, ref="b"),
    evidence("nccl", "collective_timeout", Role.CASCADE, at=26, rank=1, ref="b"),
    disrupted(27, "PREEMPTED", ref="b"),
    ended(28, ref="b"),
]
UNNAMED = [
    started(0),
    evidence("oom", "gpu_oom", at=5),
    ended(8),
    started(20),
    evidence("missing", "incorrect_inputs", at=25),
    ended(28),
]


@given(st.permutations(STORY), st.lists(st.sampled_from(STORY), max_size=6))
@settings(max_examples=60, deadline=None)
def test_order_and_duplicates_do_not_matter(shuffled, doubled):
    """Shuffled and doubled records give the same verdicts."""
    assert told(STORY) == told([*shuffled, *doubled])


@given(st.permutations(UNNAMED))
@settings(max_examples=60, deadline=None)
def test_records_without_identity_go_by_time_whatever_their_order(shuffled):
    """Where no producer names the attempt, times sort it out the same way for every order of arrival."""
    found = [(number, label) for number, label, *_ in told(shuffled)]

    assert [(1, "gpu_oom"), (2, "incorrect_inputs")] == found


@given(st.permutations(range(60)))
@settings(max_examples=30, deadline=None)
def test_the_bound_keeps_the_same_evidence_for_every_order(order):
    """Of many pieces of one signature the first and last are kept, whichever came first."""
    pieces = [evidence("nccl", "collective_timeout", at=n) for n in range(60)]

    state = state_of(*(pieces[n] for n in order))

    assert pieces[:KEPT] + pieces[-KEPT:] == list(state.evidence)


def test_a_replay_after_publication_changes_nothing():
    """All records again, after the verdict is final, leave the state as it was."""
    state = state_of(*STORY)
    state, published = decide(state, Clock(T0 + 10_000, T0 + 10_000), JUDGE)
    for record in STORY:
        state = step(state, record)
    _, again = decide(state, Clock(T0 + 10_000, T0 + 10_000), JUDGE)

    assert (2, 0) == (len(published), len(again))


def test_an_end_without_a_start_is_an_attempt():
    """A scheduler that only tells ends is enough."""
    assert ["gpu_oom"] == [label for _, label, *_ in told([evidence("oom", "gpu_oom", at=5), ended(8)])]


def test_attempts_are_numbered_in_the_order_of_their_starts():
    """The second attempt's end arriving first changes no number."""
    state = state_of(started(20, ref="b"), ended(28, ref="b"), ended(8, ref="a", started_at=T0))

    assert ["a", "b"] == [a.identity for a in attempts(state)]


def test_evidence_of_a_job_never_announced_waits():
    """Without any scheduler record there is nothing to judge, and nothing breaks."""
    assert [] == told([evidence("oom", "gpu_oom", at=5)])


def test_a_clock_two_hours_off_does_not_move_an_attempt():
    """A scheduler whose clock is two hours ahead ends its attempt when the broker heard of it."""
    records = [started(0, started_at=T0 + 7200), evidence("oom", "gpu_oom", at=5), ended(8, ended_at=T0 + 7208)]

    assert ["gpu_oom"] == [label for _, label, *_ in told(records)]


def test_a_watermark_waits_for_every_partition():
    """A partition that no scanner spoke for holds the clock back."""
    marks = Watermarks()
    marks.note(tick(5, partitions={"job-logs": 2}))
    silent = marks.clock()
    marks.note(tick(6, scanned={"job-logs/1": T0 + 4}, partitions={"job-logs": 2}))

    assert (Clock(None, T0 + 5), Clock(T0 + 4, T0 + 6)) == (silent, marks.clock())


def test_a_watermark_never_goes_back():
    """An older tick of the scanner that owned the partition before changes nothing."""
    marks = Watermarks()
    marks.note(tick(9))
    marks.note(tick(5))

    assert Clock(T0 + 9, T0 + 9) == marks.clock()
