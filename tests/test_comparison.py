"""What a change of the signatures would have done."""

from __future__ import annotations

from builders import catalog_of, signature_yaml

from classifiers.classification import Log
from classifiers.comparison import Attempt, Change, Said, Trial, compare, compare_catalogs, moves, say, tally
from classifiers.matching import Matcher

OOM = signature_yaml(
    "oom", label="gpu_oom", pattern="'out of GPU memory'", match="['out of GPU memory']", no_match="['x']"
)
NETWORK = signature_yaml(
    "net", label="network_error", pattern="'lost the peer'", match="['lost the peer']", no_match="['x']"
)
NOISE = signature_yaml(
    "hush", role="noise", label=None, pattern="'lost the peer quietly'", match="['lost the peer quietly']"
)


def attempt(*lines: str, label: str | None = None, **more) -> Attempt:
    """One failed attempt of these lines."""
    accepted = frozenset([label] if label else [])
    return Attempt(Log(id="a", lines=list(lines), exit_code=1), accepted=accepted, **more)


def change_of(*, trial: str, base: tuple[str, ...], lines: tuple[str, ...], label: str | None = None) -> Change:
    """The change that one more signature makes on one attempt."""
    tried = Trial(catalog_of(trial).signatures[0], Matcher(catalog_of(*base)))
    subject = attempt(*lines, label=label)
    return tried.change(subject, tried.hits(subject.log))


def test_catalogs_differ_by_id_and_by_what_matters():
    """Added, removed, changed: a new sentence in `why` is no change."""
    before = catalog_of(OOM, NETWORK)
    after = catalog_of(OOM.replace("Because.", "Since."), signature_yaml("new"))
    bumped = catalog_of(OOM.replace("version: 1", "version: 2").replace("'out of", "'[Oo]ut of"), NETWORK)

    assert (("new",), ("net",), ()) == (
        compare_catalogs(before, after).added,
        compare_catalogs(before, after).removed,
        compare_catalogs(before, after).changed,
    )
    assert (("oom", "version 1 -> 2, pattern"),) == compare_catalogs(before, bumped).changed


def test_only_attempts_that_change_are_listed():
    """An attempt that both catalogs judge alike is silent."""
    history = [attempt("out of GPU memory"), attempt("lost the peer", gpus=8, run_s=450.0)]

    found = list(compare(history, Matcher(catalog_of(OOM)), Matcher(catalog_of(OOM, NETWORK))))

    assert [("unknown", "network_error")] == [(c.before.label, c.after.label) for c in found]
    assert [(1, 3600.0, 1)] == [(m.attempts, m.gpu_s, m.gpu_s_known) for m in moves(found)]


def test_unknown_gpu_time_is_not_guessed():
    """An attempt without GPUs or run time adds nothing to the sum."""
    said = Said("unknown", retry=True), Said("gpu_oom", retry=False)
    found = moves([Change(attempt("x"), *said), Change(attempt("x", gpus=2, run_s=5.0), *said)])

    assert [(2, 10.0, 1)] == [(m.attempts, m.gpu_s, m.gpu_s_known) for m in found]


def test_an_attempt_that_ended_well_gets_no_failure_label():
    """Whatever its log says."""
    well = Attempt(Log(id="a", lines=["out of GPU memory"], exit_code=0))

    assert Said("success_with_noise", retry=False) == say(well, Matcher(catalog_of(OOM)))


def test_a_trial_wins_where_nothing_was_known():
    """The usual case of a new signature."""
    change = change_of(trial=NETWORK, base=(OOM,), lines=("lost the peer",), label="network_error")

    assert (None, "net") == (change.before.signature, change.after.signature)
    assert change.mended
    assert not change.broken


def test_a_trial_takes_a_line_only_by_being_more_specific():
    """The same contest as in the matcher."""
    vague = signature_yaml(
        "vague", label="network_error", pattern="'GPU mem'", match="['GPU memory']", no_match="['x']"
    )
    exact = signature_yaml(
        "exact", label="hardware_failure_x", pattern="'out of GPU memory today'", match="['x']", no_match="['y']"
    ).replace("hardware_failure_x", "network_error")

    kept = change_of(trial=vague, base=(OOM,), lines=("out of GPU memory today",), label="gpu_oom")
    taken = change_of(trial=exact, base=(OOM,), lines=("out of GPU memory today",), label="gpu_oom")

    assert ("oom", "oom") == (kept.before.signature, kept.after.signature)
    assert ("oom", "exact") == (taken.before.signature, taken.after.signature)
    assert taken.broken


def test_a_trial_of_a_line_that_is_noise_sees_nothing():
    """Noise silences its line for every signature."""
    tried = Trial(catalog_of(NETWORK).signatures[0], Matcher(catalog_of(NOISE)))

    assert [] == tried.hits(attempt("lost the peer quietly").log)


def test_a_trial_says_the_same_as_a_catalog_with_the_signature():
    """The short way and the long way agree."""
    lines = ("out of GPU memory", "lost the peer", "lost the peer quietly")
    change = change_of(trial=NETWORK, base=(OOM, NOISE), lines=lines)
    whole = say(attempt(*lines), Matcher(catalog_of(OOM, NOISE, NETWORK)))

    assert (whole.label, whole.signature) == (change.after.label, change.after.signature)


def test_a_tally_counts_lines_wins_losses_and_right_labels():
    """What a curator asks of a signature."""
    history = [
        attempt("out of GPU memory", "lost the peer", label="gpu_oom", seen_at=7.0),
        attempt("lost the peer", "lost the peer", label="gpu_oom", seen_at=9.0),
    ]

    found = tally(history, Matcher(catalog_of(OOM, NETWORK)))

    net = found["net"]
    assert (3, 2, 1, 1) == (net.lines, net.seen, net.won, net.lost)
    assert (0, 1, 9.0, {"oom": 1}) == (net.right, net.judged, net.last_seen, dict(net.lost_to))
    assert (1, 1, 7.0) == (found["oom"].right, found["oom"].judged, found["oom"].last_seen)
