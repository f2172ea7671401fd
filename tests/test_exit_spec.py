"""The closed list of labels."""

from __future__ import annotations

import pytest
import yaml
from builders import SPEC_TEXT

from classifiers.exit_spec import ENDED_WELL, UNKNOWN, Behaviour, read_exit_spec
from classifiers.records import Owner
from classifiers.signature import SignatureError

SPEC = read_exit_spec(SPEC_TEXT)


def changed(change) -> str:
    """The packaged exit spec after a change of its document."""
    document = yaml.safe_load(SPEC_TEXT)
    change(document)
    return str(yaml.safe_dump(document))


def test_every_label_has_an_owner_a_reason_and_a_remedy():
    """Advice quotes them."""
    assert all(label.owner in set(Owner) and label.reason and label.remedy for label in SPEC.labels.values())


def test_only_unknown_and_ended_well_have_no_owner():
    """Somebody can do something about every named cause."""
    assert {UNKNOWN, ENDED_WELL} == {name for name, label in SPEC.labels.items() if label.owner is Owner.OTHER}


def test_groups_stand_for_their_labels():
    """`dead_rank` in `can_cause` means each of its labels."""
    assert SPEC.explains("gpu_oom", "collective_timeout")
    assert not any("dead_rank" in label.can_cause for label in SPEC.labels.values())


def test_nothing_explains_itself():
    """A label is never a symptom of the same label."""
    assert not any(SPEC.explains(name, name) for name in SPEC.labels)


def test_a_label_that_is_never_retried_promises_little():
    """A prior above the threshold of advice would be spent on nothing."""
    never = [label for label in SPEC.labels.values() if label.retry.behaviour is Behaviour.NEVER]

    assert never
    assert all(label.retry.expected_success <= 0.1 for label in never)


def test_a_label_that_is_retried_later_waits():
    """`after_delay` without a pause would be `yes`."""
    delayed = [label for label in SPEC.labels.values() if label.retry.behaviour is Behaviour.AFTER_DELAY]

    assert delayed
    assert all(0 < label.retry.after_s <= label.retry.max_after_s for label in delayed)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.pop("labels"), "needs `labels:`, a list"),
        (lambda d: d["labels"][0].pop("owner"), "incorrect_inputs: bad or missing field: 'owner'"),
        (lambda d: d["labels"][0].update(owner="boss"), "incorrect_inputs: bad or missing field: 'boss'"),
        (lambda d: d["labels"][0]["retry"].update(colour="red"), "incorrect_inputs: bad or missing field: "),
        (lambda d: d["labels"].append(d["labels"][0]), "incorrect_inputs: this label stands twice"),
        (lambda d: d["labels"][0]["can_cause"].append("weather"), "can_cause names weather, which is no label"),
        (lambda d: d["labels"].remove(next(r for r in d["labels"] if r["label"] == UNKNOWN)), "unknown"),
    ],
)
def test_a_spec_that_cannot_be_used_says_what_is_wrong(change, problem):
    """File, line, label."""
    with pytest.raises(SignatureError) as caught:
        read_exit_spec(changed(change))

    assert str(caught.value).startswith("exit_spec.yaml:")
    assert problem in str(caught.value)
