"""Verdict + history -> advice."""

from __future__ import annotations

import msgspec
import pytest
from builders import T0
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.advice import MAX_BYTES, Policy, advise, fingerprint, iso, parse_bytes
from classifiers.attempt import Past
from classifiers.exit_facts import FACTS_TOPIC
from classifiers.exit_spec import read_exit_spec
from classifiers.records import (
    Action,
    AttemptFacts,
    Coverage,
    Mode,
    Position,
    Ranked,
    Resources,
    Role,
    SignatureRef,
    Source,
    Stream,
    Verdict,
)


def row(
    label: str, owner: str, behaviour: str, budget: int, *, after: str = "0, 1.0, 0", counts: bool, success: float
) -> str:
    """One label of an exit spec; `after` is after_s, backoff, max_after_s."""
    after_s, backoff, max_after_s = after.split(", ")
    return (
        f'  - {{label: {label}, owner: {owner}, definition: d, maps_to: m, reason: "It was {label}", remedy: mend, can_cause: [], '
        f'retry: {{behaviour: "{behaviour}", budget: {budget}, after_s: {after_s}, backoff: {backoff}, '
        f"max_after_s: {max_after_s}, counts: {str(counts).lower()}, expected_success: {success}}}}}"
    )


SPEC = read_exit_spec(
    "\n".join(
        (
            "labels:",
            row("incorrect_inputs", "user", "never", 0, counts=True, success=0.02),
            row("gpu_oom", "user", "with_change", 1, counts=True, success=0.05),
            row("cpu_oom", "user", "with_change", 1, counts=True, success=0.05),
            row("time_limit", "scheduler", "with_change", 1, counts=True, success=0.2),
            row("mpi_error", "engine", "yes", 2, after="30, 2.0, 100", counts=True, success=0.4),
            row("cuda_failure", "engine", "yes", 9, counts=True, success=0.5),
            row("network_error", "infra", "after_delay", 3, after="60, 2.0, 900", counts=False, success=0.6),
            row("node_failure", "infra", "other_node", 4, counts=False, success=0.85),
            row("job_preempted", "scheduler", "yes", 20, counts=False, success=0.9),
            row("unknown", "other", "yes", 1, counts=True, success=0.3),
            row("success_with_noise", "other", "never", 0, counts=True, success=0.02),
        )
    )
)


def ranked(text: str = "it broke", **more: object) -> Ranked:
    """The line that decided."""
    values = {"signature": "s", "label": "l", "role": Role.ROOT, "stream": Stream.STDERR, "time": T0, "rank": 2, **more}
    place = values.pop("position", Position("job-logs", 1, 7))
    return Ranked(text=text, position=place, **values)  # type: ignore[arg-type]


def verdict(
    label: str, attempt: int = 1, *, line: Ranked | None = None, facts: dict[str, object] | None = None, **more: object
) -> Verdict:
    """A verdict on one attempt of job-1, resting on a line."""
    told = {"cluster": "c", "job_id": "job-1", "nodes": ("n1", "n2"), **(facts or {})}
    values: dict[str, object] = {
        "verdict_id": "v",
        "attempt": attempt,
        "facts": AttemptFacts(**told),  # type: ignore[arg-type]
        "revision": 1,
        "final": False,
        "label": label,
        "owner": SPEC[label].owner,
        "confidence": 0.95,
        "source": Source.SIGNATURE,
        "signature": SignatureRef("s", 1),
        "catalog": "sha256:x",
        "coverage": Coverage.COMPLETE,
        "decided_at": T0,
        "ranking": (line or ranked(f"attempt {attempt} broke in its own way: {'abcdefghij'[attempt % 10]}"),),
        **more,
    }
    return Verdict(**values)  # type: ignore[arg-type]


def remembered(verdict_: Verdict, advice) -> Past:
    """What the next attempt knows of this one."""
    return Past(
        attempt=verdict_.attempt,
        identity=str(verdict_.attempt),
        revision=1,
        final=True,
        label=verdict_.label,
        signature=verdict_.signature,
        root_text=fingerprint(verdict_.ranking[0]),
        retry=advice.retry,
        counts=advice.counts_toward_budget,
        run_s=1.0,
    )


def history(
    *labels: str, policy: Policy | None = None, trusted: bool = True, witnessed: bool = True, line: Ranked | None = None
):
    """The advice on attempts that fail with these labels one after the other, while it says retry."""
    past: list[Past] = []
    told = []
    for attempt, label in enumerate(labels, 1):
        decided = verdict(label, attempt, line=line)
        told.append(advise(decided, past, SPEC, policy or Policy(), trusted=trusted, witnessed=witnessed))
        past.append(remembered(decided, told[-1]))
    return told


def retries(*labels: str, **more) -> list[bool]:
    """Whether each of those attempts earns a retry."""
    return [advice.retry for advice in history(*labels, **more)]


def test_a_label_that_a_retry_would_repeat_stops():
    """However large the budget."""
    (advice,) = history("incorrect_inputs")

    assert (False, Action.STOP, 0, 0) == (advice.retry, advice.action, advice.attempts_left, advice.after_s)


def test_a_label_has_a_budget_of_its_own():
    """Two retries, then no more."""
    told = history("mpi_error", "mpi_error", "mpi_error")

    assert [(True, 2), (True, 1), (False, 0)] == [(a.retry, a.attempts_left) for a in told]
    assert Action.STOP is told[-1].action
    assert "its 2 retries are spent" in told[-1].reason


def test_the_owners_budget_is_spent_by_every_label_that_counts():
    """Three in all by default, whatever the labels' own budgets."""
    assert [True, True, True, False] == retries("mpi_error", "cuda_failure", "cuda_failure", "cuda_failure")
    assert [True, False] == retries("mpi_error", "mpi_error", policy=Policy(max_retries=1))


def test_interruptions_spend_nothing_of_the_owners_budget():
    """Five preemptions leave all retries for what the owner can be blamed for."""
    told = history(*["job_preempted"] * 5, "mpi_error", "mpi_error")

    assert [True] * 7 == [a.retry for a in told]
    assert [False] * 5 + [True] * 2 == [a.counts_toward_budget for a in told]


def test_interruptions_are_bounded_all_the_same():
    """Or a job that is preempted for ever loops for ever."""
    told = history(*["job_preempted"] * 22)

    assert 20 == sum(a.retry for a in told)
    assert Action.HOLD is told[-1].action


def test_an_interruption_that_nobody_else_saw_counts():
    """Only the scheduler's or the node's own word makes a retry free: a job can print anything."""
    told = history(*["job_preempted"] * 5, witnessed=False)

    assert [True, True, True, False] == [a.retry for a in told[:4]]
    assert {True} == {a.counts_toward_budget for a in told}


def test_an_exhausted_infra_label_holds_the_job_for_a_person():
    """Its owner did nothing wrong; the work is kept."""
    assert [Action.RETRY_AFTER] * 3 + [Action.HOLD] == [a.action for a in history(*["network_error"] * 4)]


@pytest.mark.parametrize("label", ["job_preempted", "node_failure", "network_error"])
def test_what_a_job_could_have_printed_itself_earns_one_retry_that_counts(label):
    """A fake preemption line in its own output is no way to run for ever."""
    told = history(label, label, trusted=False, witnessed=False)

    assert [(True, True), (False, True)] == [(a.retry, a.counts_toward_budget) for a in told]


def test_many_different_fakes_are_bounded_by_the_owners_budget():
    """Each label once would be too many."""
    labels = ["job_preempted", "node_failure", "network_error", "cuda_failure", "mpi_error"]

    assert 3 == sum(retries(*labels, trusted=False, witnessed=False))


def test_the_same_root_again_lowers_the_hope_until_it_stops():
    """The very same line, but for its numbers, is less and less likely to go away."""
    told = history(*["cuda_failure"] * 4, line=ranked("device 3 lost at 0x7f"), policy=Policy(max_retries=9))

    assert [0.5, 0.2, 0.08, 0.032] == [a.expected_success for a in told]
    assert [True, True, True, False] == [a.retry for a in told]
    assert "came back too often" in told[-1].reason


def test_another_root_of_the_same_label_starts_with_full_hope():
    """It is another failure."""
    assert [0.5, 0.5] == [a.expected_success for a in history("cuda_failure", "cuda_failure")]


def test_numbers_do_not_make_a_line_another_one():
    """Addresses, counts and times differ from run to run."""
    lines = ["lost at 0x7f3a after 12.5 s", "lost at 0x11 after 3 s"]

    assert 1 == len({fingerprint(ranked(text)) for text in lines})
    assert fingerprint(ranked("a")) != fingerprint(ranked("b"))
    assert "" == fingerprint(None)


def test_the_pause_grows_up_to_its_limit():
    """30, 60, then 100 seconds; none where there is no retry."""
    told = history(*["mpi_error"] * 3)

    assert [30, 60, 0] == [a.after_s for a in told]


def test_a_node_that_failed_is_left_out():
    """The one that the scheduler blames, else the line's."""
    by_scheduler = verdict("node_failure", facts={"failed_node": "n2"}, line=ranked(node="n1"))
    by_line = verdict("node_failure", line=ranked(node="n1"))
    told = [advise(v, [], SPEC, Policy()) for v in (by_scheduler, by_line)]

    assert [("n2",), ("n1",)] == [a.exclude_nodes for a in told]
    assert {Action.RETRY_ELSEWHERE} == {a.action for a in told}


def test_all_nodes_of_an_attempt_are_never_blamed_for_one():
    """Without a name nothing is left out, unless there is only one node."""
    many = verdict("node_failure", line=ranked(node=None))
    alone = verdict("node_failure", line=ranked(node=None), facts={"nodes": ("n1",)})

    assert [(), ("n1",)] == [advise(v, [], SPEC, Policy()).exclude_nodes for v in (many, alone)]


def test_only_a_retry_elsewhere_leaves_nodes_out():
    """An MPI error says nothing against the node that printed it."""
    assert () == advise(verdict("mpi_error", line=ranked(node="n1")), [], SPEC, Policy()).exclude_nodes


@pytest.mark.parametrize(
    ("label", "captures", "facts", "resources"),
    [
        ("gpu_oom", {"total": "80 GiB", "requested": "2.50 GiB"}, {}, Resources(gpu_memory_bytes=int(82.5 * 2**30))),
        ("gpu_oom", {"requested": "2 GiB"}, {}, Resources()),
        ("cpu_oom", {"limit": "1024 MB"}, {}, Resources(memory_bytes=1536 * 2**20)),
        ("cpu_oom", {"used": "4096"}, {}, Resources(memory_bytes=6144)),
        ("cpu_oom", {"limit": "a lot"}, {}, Resources()),
        ("time_limit", {}, {"started_at": T0, "ended_at": T0 + 3600}, Resources(time_s=5400)),
        ("time_limit", {}, {"started_at": T0 + 9, "ended_at": T0}, Resources()),
        ("time_limit", {}, {"ended_at": T0}, Resources()),
        ("mpi_error", {"limit": "1 GB"}, {}, Resources()),
    ],
)
def test_what_to_ask_for_comes_from_what_was_printed(label, captures, facts, resources):
    """And is left open where that does not tell."""
    advice = advise(verdict(label, captures=captures, facts=facts), [], SPEC, Policy())

    assert resources == advice.resources


def test_a_change_is_advised_without_a_retry():
    """As it is, the job would fail again."""
    (advice,) = history("gpu_oom")

    assert (False, Action.RETRY_WITH_CHANGE) == (advice.retry, advice.action)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2.50 GiB", int(2.5 * 2**30)),
        ("512 MB", 512 * 2**20),
        ("512MiB", 512 * 2**20),
        ("4096", 4096),
        ("1 kB", 1024),
        ("3 bytes", 3),
        ("1.5T", int(1.5 * 2**40)),
        ("", None),
        (None, None),
        ("much", None),
        ("1.2.3 GB", None),
        ("-1 GB", None),
        ("9" * 30 + " GiB", None),
        ("9" * 400, None),
    ],
)
def test_printed_sizes_are_read_or_left(text, size):
    """A job can print any number; none of them may hurt a reader."""
    assert size == parse_bytes(text)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.kKmMgGtTiIbB \u0661e", max_size=200))
def test_any_size_is_bounded(text):
    """Whatever is printed."""
    size = parse_bytes(text)

    assert size is None or 0 <= size <= MAX_BYTES


def test_the_kill_switch_turns_all_advice_to_shadow():
    """Schedulers record it and do nothing."""
    assert [Mode.ENFORCE, Mode.SHADOW] == [
        history("mpi_error", policy=Policy(shadow=on))[0].mode for on in (False, True)
    ]


@pytest.mark.parametrize(("confidence", "mode"), [(0.49, Mode.SHADOW), (0.5, Mode.ENFORCE)])
def test_a_models_weak_guess_is_not_enforced(confidence, mode):
    """Below the setting it is told and not acted upon."""
    guess = verdict("mpi_error", source=Source.MODEL, signature=None, confidence=confidence)

    assert mode is advise(guess, [], SPEC, Policy()).mode


def test_a_weak_signature_is_enforced():
    """The bound is for models alone."""
    assert Mode.ENFORCE is advise(verdict("mpi_error", confidence=0.1), [], SPEC, Policy()).mode


def test_advice_expires():
    """So many seconds after it was decided."""
    (advice,) = history("mpi_error", policy=Policy(expiry_s=90.5))

    assert (iso(T0), iso(T0 + 90.5)) == (advice.issued_at, advice.expires_at)


def test_an_unknown_cause_earns_one_retry_that_counts():
    """It rests on nothing, and says so."""
    nothing = {"source": Source.NONE, "signature": None, "ranking": (), "confidence": 0.0}
    first = advise(verdict("unknown", **nothing), [], SPEC, Policy())
    entry = msgspec.structs.replace(remembered(verdict("unknown"), first), root_text="")
    second = advise(verdict("unknown", 2, **nothing), [entry], SPEC, Policy())

    assert (True, True, None, None) == (first.retry, first.counts_toward_budget, first.evidence, first.signature)
    assert not second.retry


def test_the_evidence_is_the_line_that_decided():
    """With its place, so that a person can look it up."""
    advice = advise(verdict("mpi_error", line=ranked("MPI broke", node="n1")), [], SPEC, Policy())

    assert ("MPI broke", "stderr", 2, "n1", "job-logs", 1, 7, iso(T0)) == msgspec.structs.astuple(advice.evidence)
    assert advice.reason == "It was mpi_error (MPI broke); a retry can pass."


def test_exit_facts_are_not_quoted_as_a_line():
    """They have no place in a log."""
    advice = advise(
        verdict("time_limit", line=ranked("exit facts: x", position=Position(FACTS_TOPIC))), [], SPEC, Policy()
    )

    assert "exit facts" not in advice.reason


def test_the_same_verdict_and_history_give_the_same_bytes():
    """Also the id, which names attempt and revision."""
    first, second = history("mpi_error", "mpi_error")
    again = history("mpi_error", "mpi_error")

    assert list(map(msgspec.json.encode, (first, second))) == list(map(msgspec.json.encode, again))
    assert first.advice_id != second.advice_id


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(SPEC.labels)), max_size=40), st.booleans())
def test_no_history_earns_endless_retries(labels, trusted):
    """Every label's budget, and the owner's, hold in any mixture; an untrusted one never passes the owner's."""
    told = history(*labels, trusted=trusted, witnessed=trusted)
    budget = sum(label.retry.budget for label in SPEC.labels.values())

    assert sum(a.retry for a in told) <= (budget if trusted else Policy().max_retries)
    assert sum(a.retry and a.counts_toward_budget for a in told) <= Policy().max_retries
    assert all(a.attempts_left >= 1 for a in told if a.retry)
