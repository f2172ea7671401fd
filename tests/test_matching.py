"""From lines to evidence."""

from __future__ import annotations

import pytest
from builders import catalog_of, line, signature_yaml
from hypothesis import given
from hypothesis import strategies as st

from classifiers.lines import MAX_CHARS
from classifiers.matching import OFFENCES, Matcher, best_time
from classifiers.patterns import literal_length, loosened
from classifiers.records import AttemptFacts, Role, Stream

GENERIC = signature_yaml("generic", pattern="'^ValueError: '", match="['ValueError: x']")
SPECIFIC = signature_yaml(
    "specific",
    label="model_checkpoint_error",
    pattern="'ValueError: bad checkpoint (?<path>\\S+)'",
    match="['ValueError: bad checkpoint a']",
)


def ids(matcher, *lines):
    """Ids of the signatures seen in the lines."""
    return [e.signature for e in matcher.scan(list(lines))]


def test_the_most_specific_pattern_of_a_line_wins():
    """A specific cause hides the generic one, whichever stands first in the file."""
    matcher = Matcher(catalog_of(GENERIC, SPECIFIC))

    assert ["specific", "generic"] == ids(matcher, line("ValueError: bad checkpoint a.pt"), line("ValueError: x", 1))


def test_captures_come_out_redacted():
    """Named groups travel with the evidence, without secrets."""
    matcher = Matcher(catalog_of(SPECIFIC))

    found = matcher.scan([line("ValueError: bad checkpoint s3://u:secret99@b/x")])

    assert [{"path": "s3://u:[REDACTED]@b/x"}] == [e.captures for e in found]


@pytest.mark.parametrize(
    "prefix", ["", "[rank3]: ", "\x1b[31m", "2026-11-21 07:12:44,123 ", "1,2<stderr>:", " 9%|# | 1/9\r"]
)
def test_prefixes_do_not_hide_an_anchored_pattern(prefix):
    """An anchor means the start of what the program said."""
    assert ["generic"] == ids(Matcher(catalog_of(GENERIC)), line(f"{prefix}ValueError: x"))


@pytest.mark.parametrize(
    "text", ["    raise ValueError: x", "+ echo ValueError: x", '  File "a.py", line 3, in ValueError: x']
)
def test_program_text_is_no_evidence(text):
    """Source lines, echoes of a shell and frames only quote."""
    loose = signature_yaml("loose", pattern="'ValueError: '", match="['ValueError: x']")

    assert [] == ids(Matcher(catalog_of(loose)), line(text))


def test_the_line_under_a_frame_is_source():
    """Whatever it says."""
    loose = signature_yaml("loose", pattern="'ValueError: '", match="['ValueError: x']")
    lines = [line('  File "a.py", line 3, in f'), line("    x = 'ValueError: '", 1)]

    assert [] == ids(Matcher(catalog_of(loose)), *lines)


def test_noise_silences_its_line():
    """A line that a noise signature knows gives no evidence."""
    noise = signature_yaml(
        "quiet",
        label=None,
        role="noise",
        pattern="'ValueError: ignored'",
        match="['ValueError: ignored']",
        no_match=None,
    )

    assert [] == ids(Matcher(catalog_of(GENERIC, noise)), line("ValueError: ignored"))


def test_a_shadow_signature_is_recorded_and_does_not_decide():
    """It stands beside the evidence of the stable one."""
    shadow = signature_yaml("new", status="shadow", pattern="'ValueError: bad'", match="['ValueError: bad']")
    found = Matcher(catalog_of(GENERIC, shadow)).scan([line("ValueError: bad thing")])

    assert [("generic", False), ("new", True)] == [(e.signature, e.shadow) for e in found]


def test_a_stream_that_a_signature_does_not_believe_is_less_trusted():
    """A job's stdout can print anything."""
    infra = signature_yaml(
        "xid", label="gpu_ecc_xid", source="[node]", pattern="'Xid 79 seen'", match="['Xid 79 seen']"
    )
    found = Matcher(catalog_of(infra)).scan([line("Xid 79 seen"), line("Xid 79 seen", 1, stream=Stream.NODE)])

    assert [False, True] == [e.trusted for e in found]


def test_every_line_of_a_block_is_found_where_it_stands():
    """The joined scan knows which line it hit."""
    matcher = Matcher(catalog_of(GENERIC))
    texts = [b"quiet", b"two\nValueError: lines", b"", b"ValueError: here"]

    assert [(1, 1), (3, 0)] == sorted(matcher.hits(texts))


def test_a_pattern_out_of_time_is_counted_and_switched_off():
    """A hostile line costs bounded time, and an offender is not tried for ever."""
    slow = signature_yaml("slow", pattern="'slowx(a|aa|aaa)+[yw]'", match="['slowxay']")
    matcher = Matcher(catalog_of(slow), time_limit_s=0.005)
    hostile = line("slowx" + "a" * 4000 + "z")
    for _ in range(OFFENCES + 2):
        matcher.confirm(hostile, {0})

    assert (OFFENCES, {"slow"}) == (matcher.timeouts["slow"], set(matcher.disabled()))


def test_a_line_of_ten_megabytes_is_bounded_work():
    """Its head is still scanned."""
    text = "ValueError: " + "x" * 10_000_000
    found = Matcher(catalog_of(GENERIC)).scan([line(text)])

    assert ["generic"] == [e.signature for e in found]
    assert len(found[0].text) < MAX_CHARS


@given(st.lists(st.binary(max_size=80), max_size=8))
def test_any_bytes_can_be_scanned(texts):
    """NUL bytes, escapes and invalid UTF-8 break nothing."""
    lines = [line(t.decode("utf-8", "replace"), n) for n, t in enumerate(texts)]

    assert all(e.signature == "generic" for e in Matcher(catalog_of(GENERIC)).scan(lines))


def test_exit_facts_match_by_every_named_fact():
    """A signature on facts needs all of them, and reads disruptions as reasons too."""
    both = signature_yaml(
        "both",
        label="time_limit",
        pattern=None,
        facts="{state: TIMEOUT, exit_code: [0, 1]}",
        match="[{state: TIMEOUT, exit_code: 0}]",
        no_match="[{state: FAILED}]",
    )
    gone = signature_yaml(
        "gone",
        label="job_preempted",
        pattern=None,
        facts="{reason: PREEMPTED}",
        match="[{reason: PREEMPTED}]",
        no_match="[{reason: x}]",
    )
    matcher = Matcher(catalog_of(both, gone))
    facts = AttemptFacts(cluster="c", job_id="j", state="TIMEOUT", exit_code=0, disruptions=("PREEMPTED",))

    assert ["both", "gone"] == [e.signature for e in matcher.facts(facts, 0.0)]
    assert [] == matcher.facts(AttemptFacts(cluster="c", job_id="j", state="TIMEOUT", exit_code=2), 0.0)


def test_anchors_and_names_are_loosened_for_the_prefilter_alone():
    """Not inside character sets, and not where they are escaped."""
    assert r"(a)[^b$]\^\$(?:c)" == loosened(r"^(?<n>a)[^b$]\^\$(?:c)$")


def test_specificity_counts_literal_characters():
    """What any match must hold at least."""
    assert [12, 3, 0] == [literal_length(p) for p in ("ValueError: ", r"(?:abc|abcd)\d+", r".*")]


def test_a_clock_far_off_is_not_believed():
    """The producer's time counts within ten minutes of the broker's."""
    assert [95.0, 7300.0, 100.0] == [best_time(95.0, 100.0), best_time(100.0, 7300.0), best_time(None, 100.0)]


def test_context_is_what_looks_like_failure():
    """A line without a signature is kept where it reads like one, redacted."""
    matcher = Matcher(catalog_of(GENERIC))
    told = line("worker failed with password=hunter22")
    ((key, candidates),) = matcher.hits([told.text.encode()]).items()

    assert ((0, 0), Role.ROOT) == (key, Role.ROOT)
    assert "worker failed with password=[REDACTED]" == matcher.context(told, candidates)
