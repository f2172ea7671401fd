"""Which evidence explains the rest."""

from __future__ import annotations

from builders import SPEC_TEXT, evidence
from hypothesis import given
from hypothesis import strategies as st

from classifiers.attribution import CONTESTED_CONFIDENCE, UNTRUSTED_CONFIDENCE, attribute
from classifiers.exit_spec import read_exit_spec
from classifiers.records import Role, Stream

SPEC = read_exit_spec(SPEC_TEXT)


def winner(*seen):
    """The signature that wins."""
    found = attribute(seen, SPEC)
    return found.winner.signature if found.winner else None


def test_a_root_explains_the_cascade_whenever_it_was_seen():
    """Survivors may print first."""
    assert "oom" == winner(
        evidence("nccl", "collective_timeout", Role.CASCADE, at=1, rank=1), evidence("oom", "gpu_oom", at=9)
    )


def test_a_cascade_that_stands_alone_decides():
    """Better a symptom than nothing."""
    assert "nccl" == winner(evidence("nccl", "collective_timeout", Role.CASCADE))


def test_the_earlier_of_two_roots_wins():
    """Where neither explains the other."""
    assert "a" == winner(evidence("b", "semantic_error", at=5), evidence("a", "incorrect_inputs", at=1))


def test_a_declared_cause_explains_its_consequence_within_the_skew():
    """A consequence printed by another rank a second earlier is a consequence all the same."""
    first = evidence("reset", "network_error", at=4, rank=1)
    cause = evidence("lost", "node_failure", at=5, stream=Stream.SCHEDULER)

    assert "lost" == winner(first, cause)


def test_an_implicit_crash_yields_to_anything_explicit():
    """A bare traceback counts when nothing explicit is left (Philly)."""
    assert "key" == winner(
        evidence("traceback", "traceback_other", Role.IMPLICIT, at=1), evidence("key", "semantic_error", at=2)
    )


def test_a_crash_before_a_cascade_is_its_cause():
    """The rank that died, not the ranks that waited for it."""
    crash = evidence("traceback", "traceback_other", Role.IMPLICIT, at=1)

    assert "traceback" == winner(evidence("nccl", "collective_timeout", Role.CASCADE, at=900, rank=1), crash)


def test_a_summary_loses_against_everything():
    """A launcher only repeats."""
    assert "traceback" == winner(
        evidence("mpirun", "mpi_error", Role.SUMMARY, at=0),
        evidence("traceback", "traceback_other", Role.IMPLICIT, at=5),
    )


def test_a_recovered_fault_is_not_the_cause():
    """`nfs: server OK` cancels `not responding`; a fault after it counts again."""
    fault = evidence("nfs-silent", "storage_failure", at=1)
    ok = evidence("nfs-ok", "", Role.RECOVERY, at=2, clears=("nfs-silent",))
    again = evidence("nfs-silent", "storage_failure", at=3)

    assert [None, "nfs-silent"] == [winner(fault, ok), winner(fault, ok, again)]


def test_a_warning_yields_to_an_error():
    """A line that calls itself a warning is weaker than one that does not."""
    soft = evidence("libs", "cannot_load_libs", at=1, level="WARNING")

    assert "key" == winner(soft, evidence("key", "semantic_error", at=2))


def test_what_a_job_prints_about_the_infrastructure_is_less_sure():
    """Unless a trusted source says the same."""
    printed = evidence("ecc", "gpu_ecc_xid", trusted=False)
    told = evidence("xid", "gpu_ecc_xid", Role.CONFIRMATION, at=1, stream=Stream.NODE)

    alone, confirmed = attribute([printed], SPEC), attribute([printed, told], SPEC)

    assert (UNTRUSTED_CONFIDENCE, False) == (alone.confidence, alone.trusted)
    assert confirmed.trusted


def test_two_roots_make_each_other_less_sure():
    """A contested verdict says so in its confidence."""
    assert (
        CONTESTED_CONFIDENCE
        == attribute([evidence("a", "incorrect_inputs"), evidence("b", "user_config", at=1)], SPEC).confidence
    )


def test_every_loser_says_why():
    """Nobody loses in silence, and the winner has nothing to explain."""
    found = attribute(
        [
            evidence("oom", "gpu_oom", at=5),
            evidence("nccl", "collective_timeout", Role.CASCADE, at=6, rank=1),
            evidence("key", "semantic_error", at=9),
        ],
        SPEC,
    )

    assert [None, *[True] * (len(found.ranking) - 1)] == [r.lost_because and True for r in found.ranking]


def test_a_label_that_the_exit_spec_does_not_know_is_skipped():
    """Evidence of a newer catalog is not guessed at."""
    assert "key" == winner(evidence("new", "a_label_of_tomorrow"), evidence("key", "semantic_error", at=2))


@given(
    st.permutations(
        [
            evidence(f"s{n}", label, role, at=n % 3, rank=n % 4)
            for n, (label, role) in enumerate(
                [
                    ("gpu_oom", Role.ROOT),
                    ("collective_timeout", Role.CASCADE),
                    ("traceback_other", Role.IMPLICIT),
                    ("mpi_error", Role.SUMMARY),
                    ("semantic_error", Role.ROOT),
                    ("network_error", Role.CASCADE),
                    ("node_failure", Role.CONFIRMATION),
                ]
            )
        ]
    )
)
def test_order_of_arrival_is_never_evidence(shuffled):
    """Every order gives the same ranking."""
    assert attribute(sorted(shuffled, key=lambda e: e.signature), SPEC) == attribute(shuffled, SPEC)
