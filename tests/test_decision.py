"""When a verdict is decided, revised and final."""

from __future__ import annotations

from builders import T0, disrupted, ended, evidence, judge, started

from classifiers.attempt import JobState, step
from classifiers.decision import Clock, decide, next_due
from classifiers.records import Coverage, Role, Source, Stream

JUDGE = judge()
GRACE, LATE = JUDGE.timing.grace_s, JUDGE.timing.late_facts_s


class Job:
    """Feeds records and time to one job and keeps what it publishes."""

    def __init__(self):
        self.state = JobState(cluster="c", job_id="job-1")
        self.said = []

    def tell(self, *records, at=None, watermark=None):
        """Take records in, then decide at `at` seconds after T0 (watermark the same unless given)."""
        for record in records:
            self.state = step(self.state, record)
        if at is not None:
            mark = at if watermark is None else watermark
            self.state, published = decide(self.state, Clock(T0 + mark, T0 + at), JUDGE)
            self.said += published
        return self

    @property
    def labels(self):
        """Labels published so far, in order."""
        return [p.verdict.label for p in self.said]


def test_a_root_cause_is_told_at_once():
    """With a root cause at hand nobody waits for the grace."""
    job = Job().tell(started(), evidence("oom", "gpu_oom", at=5), ended(8), at=8.1)

    assert ["gpu_oom"] == job.labels
    assert not job.said[0].verdict.final


def test_a_cascade_waits_for_the_grace():
    """A line that survivors print decides only when nothing better came in time."""
    job = Job().tell(started(), evidence("nccl", "collective_timeout", Role.CASCADE, at=7), ended(8), at=9)
    early = list(job.labels)
    job.tell(at=8 + GRACE)

    assert ([], ["collective_timeout"]) == (early, job.labels)


def test_a_root_that_arrives_within_the_grace_wins_over_the_cascade():
    """Another rank's root cause, shipped after the end, is the verdict."""
    job = Job().tell(started(), evidence("nccl", "collective_timeout", Role.CASCADE, at=7, rank=1), ended(8), at=8.5)
    job.tell(evidence("oom", "gpu_oom", at=6, appended_at=T0 + 12), at=12)

    assert ["gpu_oom"] == job.labels


def test_a_log_line_appended_after_the_grace_does_not_count():
    """What was appended too late for one worker is too late for every replay."""
    job = Job().tell(started(), ended(8), evidence("oom", "gpu_oom", at=6, appended_at=T0 + 8 + GRACE + 1), at=60)

    assert ["unknown"] == job.labels


def test_a_preemption_told_forty_seconds_late_revises():
    """A SIGTERM looked like a crash; the scheduler's late word makes it a preemption."""
    job = Job().tell(started(), evidence("sigterm", "traceback_other", Role.IMPLICIT, at=7), ended(8), at=8 + GRACE)
    job.tell(disrupted(48, "PREEMPTED"), at=48.1)

    assert ["traceback_other", "job_preempted"] == job.labels
    assert [1, 2] == [p.advice.revision for p in job.said]
    assert job.said[1].advice.retry


def test_a_late_node_fact_revises_until_late_facts_s():
    """Node and scheduler evidence counts for five minutes; a log line does not."""
    job = Job().tell(started(), ended(8), at=8 + GRACE)
    job.tell(evidence("xid", "gpu_ecc_xid", at=100, stream=Stream.NODE), at=101)
    job.tell(evidence("late", "gpu_oom", at=5, appended_at=T0 + 120), at=121)

    assert ["unknown", "gpu_ecc_xid"] == job.labels


def test_the_verdict_is_final_after_late_facts_and_its_evidence_forgotten():
    """The last revision says so, and the state keeps only its label."""
    job = Job().tell(started(), evidence("oom", "gpu_oom", at=5), ended(8), at=9).tell(at=8 + LATE)

    assert [False, True] == [p.verdict.final for p in job.said]
    assert ((), ()) == (job.state.evidence, job.state.events)


def test_nothing_new_publishes_nothing():
    """Deciding again, and a duplicate end, change nothing."""
    job = Job().tell(started(), evidence("oom", "gpu_oom", at=5), ended(8), at=9)
    job.tell(ended(8), evidence("oom", "gpu_oom", at=5), at=10)

    assert ["gpu_oom"] == job.labels


def test_a_stuck_watermark_is_overruled_and_said():
    """After max_wait_s the verdict comes although input is unscanned, with coverage late; then it is corrected."""
    job = Job().tell(started(), ended(8), at=8 + JUDGE.timing.max_wait_s, watermark=3)
    job.tell(evidence("oom", "gpu_oom", at=6, appended_at=T0 + 9), at=80, watermark=30)

    assert ["unknown", "gpu_oom"] == job.labels
    assert [Coverage.LATE, Coverage.COMPLETE] == [p.verdict.coverage for p in job.said]


def test_an_attempt_that_ended_well_has_no_label_and_no_advice():
    """Whatever its log says."""
    job = Job().tell(started(), evidence("oom", "gpu_oom", at=5), ended(8, "COMPLETED", exit_code=0), at=8)

    assert [None] == job.labels
    assert job.said[0].advice is None
    assert job.said[0].verdict.final


def test_exit_facts_decide_alone_where_the_log_is_silent():
    """TIMEOUT with exit code 0 is a time limit, said by facts."""
    job = Job().tell(started(), ended(8, "TIMEOUT", exit_code=0), at=8 + GRACE)

    assert [("time_limit", Source.FACTS)] == [(p.verdict.label, p.verdict.source) for p in job.said]


def test_the_same_failure_again_is_numbered_and_budgeted():
    """The second attempt knows of the first: its number, and one retry less."""
    job = Job().tell(started(), evidence("mpi", "mpi_error", at=5), ended(8), at=400)
    job.tell(started(500), evidence("mpi", "mpi_error", at=505), ended(508), at=508.5)

    first, second = job.said[0].advice, job.said[-1].advice
    assert (1, 2) == (first.attempt, second.attempt)
    assert (2, 1) == (first.attempts_left, second.attempts_left)
    assert first.expected_success > second.expected_success


def test_a_job_says_when_time_alone_may_change_it():
    """The end of the grace, then the time of the final word, then never."""
    job = Job().tell(started())
    running = next_due(job.state, JUDGE)
    job.tell(ended(8), at=8)
    waiting = next_due(job.state, JUDGE)
    job.tell(at=8 + GRACE)
    told = next_due(job.state, JUDGE)
    job.tell(at=8 + LATE)

    assert (None, T0 + 8 + GRACE, T0 + 8 + LATE, None) == (running, waiting, told, next_due(job.state, JUDGE))
