"""The closed list of labels: owner, retry behaviour, what can cause what.

Rule: every label that a signature, a model or a person may use stands in signatures/exit_spec.yaml and nowhere else.
Rule: `can_cause` holds direct consequences only; a chain is explained link by link, each by evidence that was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from classifiers.records import Owner
from classifiers.signature import Place, SignatureError, load_yaml

UNKNOWN = "unknown"
ENDED_WELL = "success_with_noise"


class Behaviour(StrEnum):
    """How a retry of a label behaves."""

    NEVER = "never"
    YES = "yes"
    AFTER_DELAY = "after_delay"
    OTHER_NODE = "other_node"
    WITH_CHANGE = "with_change"


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry behaviour of one label: see the head of exit_spec.yaml for each field."""

    behaviour: Behaviour
    budget: int
    after_s: int
    backoff: float
    max_after_s: int
    counts: bool
    expected_success: float


@dataclass(frozen=True, slots=True)
class Label:
    """One row of the exit spec."""

    name: str
    owner: Owner
    definition: str
    maps_to: str
    reason: str
    remedy: str
    retry: Retry
    can_cause: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExitSpec:
    """All labels by name."""

    labels: Mapping[str, Label]

    def __getitem__(self, name: str) -> Label:
        return self.labels[name]

    def __contains__(self, name: object) -> bool:
        return name in self.labels

    def explains(self, cause: str, symptom: str) -> bool:
        """True where `cause`, seen first, makes `symptom` a consequence."""
        return cause != symptom and cause in self.labels and symptom in self.labels[cause].can_cause


def read_exit_spec(text: str, file: str = "exit_spec.yaml") -> ExitSpec:
    """The exit spec of one YAML text.  Raises SignatureError naming file, line and label."""
    document = load_yaml(text, file)
    if not isinstance(document, dict) or not isinstance(document.get("labels"), list):
        raise SignatureError(Place(file, 1), "exit spec", "needs `labels:`, a list")
    groups = {k: v for k, v in (document.get("groups") or {}).items() if k != "__line__"}
    rows = {}
    for row in document["labels"]:
        place = Place(file, row.get("__line__", 1))
        label = _label(row, groups, place)
        if label.name in rows:
            raise SignatureError(place, label.name, "this label stands twice")
        rows[label.name] = label
    _check_names(rows, file)
    return ExitSpec(rows)


def _label(row: dict[str, Any], groups: dict[str, list[str]], place: Place) -> Label:
    name = str(row.get("label"))
    try:
        retry = {k: v for k, v in row["retry"].items() if k != "__line__"}
        causes = [c for name in row["can_cause"] for c in groups.get(name, [name])]
        return Label(
            name=name,
            owner=Owner(row["owner"]),
            definition=row["definition"],
            maps_to=row["maps_to"],
            reason=row["reason"],
            remedy=row["remedy"],
            retry=Retry(**{**retry, "behaviour": Behaviour(retry["behaviour"])}),
            can_cause=frozenset(causes),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SignatureError(place, name, f"bad or missing field: {error}") from None


def _check_names(rows: Mapping[str, Label], file: str) -> None:
    for label in rows.values():
        for name in label.can_cause - rows.keys():
            raise SignatureError(Place(file, 1), label.name, f"can_cause names {name}, which is no label and no group")
    for name in (UNKNOWN, ENDED_WELL):
        if name not in rows:
            raise SignatureError(Place(file, 1), name, "this label must be in the exit spec")
