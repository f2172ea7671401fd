"""One Signature from one mapping of a signature file.

Rule: a signature without examples, or with a key that nobody reads, is refused.
Rule: errors name file, line and id, so that a curator can click on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

import yaml

from classifiers.records import Role, Stream

E = TypeVar("E", bound=StrEnum)
KEYS = frozenset(
    [
        "id",
        "version",
        "status",
        "label",
        "role",
        "why",
        "source",
        "pattern",
        "facts",
        "match",
        "no_match",
        "clears",
        "remedy",
        "since",
    ]
)
FACT_KEYS = frozenset({"state", "reason", "exit_code", "signal"})


class Status(StrEnum):
    """The ladder of a signature: draft and retired are not matched, shadow is matched but never decides."""

    DRAFT = "draft"
    SHADOW = "shadow"
    STABLE = "stable"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a signature file; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class SignatureError(ValueError):
    """A signature file that can't be used; str() is `file:line: id: what is wrong`."""

    def __init__(self, place: Place, subject: str, problem: str) -> None:
        super().__init__(f"{place}: {subject}: {problem}")
        self.place, self.subject, self.problem = place, subject, problem


@dataclass(frozen=True, slots=True)
class Example:
    """A line (or exit facts) that must match, with the captures that must come out, or one that must not match."""

    line: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    captures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """A versioned pattern (or condition on exit facts) with its examples.

    `patterns` are alternatives: one hit is enough.  `facts` maps state/reason/exit_code/signal to allowed values;
    every named fact must agree.  `clears` names the labels or signature ids that a recovery line cancels.
    """

    id: str
    version: int
    status: Status
    label: str | None
    role: Role
    why: str
    sources: frozenset[Stream]
    patterns: tuple[str, ...]
    facts: Mapping[str, tuple[str | int, ...]]
    match: tuple[Example, ...]
    no_match: tuple[Example, ...]
    clears: tuple[str, ...]
    remedy: str | None
    place: Place

    @property
    def active(self) -> bool:
        """True where the signature is matched at all."""
        return self.status in (Status.SHADOW, Status.STABLE)


class _LineLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that keeps line numbers and refuses duplicate keys."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    mapping: dict[str, Any] = {"__line__": node.start_mark.line + 1}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in mapping:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key!r}", key_node.start_mark)
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_LineLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(text: str, file: str) -> Any:
    """Parsed YAML whose mappings carry their line as `__line__`.

    Raises SignatureError, with the line, for text that is not YAML or repeats a key.
    """
    try:
        return yaml.load(text, Loader=_LineLoader)  # noqa: S506 - _LineLoader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SignatureError(Place(file, line), "yaml", str(error.problem)) from None
    except yaml.YAMLError as error:
        raise SignatureError(Place(file, 1), "yaml", str(error).splitlines()[0]) from None


def read_signatures(text: str, file: str) -> Iterator[Signature]:
    """Every signature of one file, in file order.  Raises SignatureError for the first that can't be used."""
    document = load_yaml(text, file) or []
    if not isinstance(document, list):
        raise SignatureError(Place(file, 1), "file", "must be a list of signatures (each starts with '- id:')")
    for mapping in document:
        yield read_signature(mapping, file)


def read_signature(mapping: Any, file: str) -> Signature:
    """One signature of one mapping as load_yaml gives it.  Raises SignatureError."""
    if not isinstance(mapping, dict) or "id" not in mapping:
        raise SignatureError(Place(file, 1), "signature", "every entry needs an id")
    reader = _Reader(mapping, file)
    role = reader.enum("role", Role)
    patterns = reader.strings("pattern")
    facts = reader.facts("facts")
    if bool(patterns) == bool(facts):
        reader.fail("needs either a pattern or facts (and not both)")
    label = mapping.get("label")
    if (label is None) != (role in (Role.NOISE, Role.RECOVERY)):
        reader.fail("a label is needed for every role but noise and recovery, which have none")
    return Signature(
        id=str(mapping["id"]),
        version=reader.version(),
        status=reader.enum("status", Status),
        label=label,
        role=role,
        why=reader.text("why"),
        sources=frozenset(reader.streams()),
        patterns=patterns,
        facts=facts,
        match=tuple(reader.examples("match")),
        no_match=tuple(reader.examples("no_match")),
        clears=reader.strings("clears"),
        remedy=mapping.get("remedy"),
        place=reader.place,
    )


class _Reader:
    """Typed access to one mapping; every failure carries the place and the id."""

    def __init__(self, mapping: dict[str, Any], file: str) -> None:
        self.mapping = mapping
        self.place = Place(file, mapping.get("__line__", 1))
        unknown = mapping.keys() - KEYS - {"__line__"}
        if unknown:
            self.fail(f"unknown key {', '.join(sorted(map(str, unknown)))} (known: {', '.join(sorted(KEYS))})")

    def fail(self, problem: str) -> NoReturn:
        raise SignatureError(self.place, str(self.mapping["id"]), problem)

    def text(self, key: str) -> str:
        value = self.mapping.get(key)
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{key} must be a sentence")
        return value

    def version(self) -> int:
        value = self.mapping.get("version")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail("version must be a whole number from 1")
        return value

    def enum(self, key: str, kind: type[E]) -> E:
        value = self.mapping.get(key)
        if value not in set(kind):
            self.fail(f"{key} must be one of {', '.join(kind)}, not {value!r}")
        return kind(value)

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.mapping.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            self.fail(f"{key} must be text or a list of texts (quote it with single quotes)")
        return tuple(values)

    def streams(self) -> Iterator[Stream]:
        for value in self.strings("source"):
            if value not in set(Stream):
                self.fail(f"source must be of {', '.join(Stream)}, not {value!r}")
            yield Stream(value)

    def facts(self, key: str) -> dict[str, tuple[str | int, ...]]:
        value = self.mapping.get(key) or {}
        if not isinstance(value, dict):
            self.fail("facts must be a mapping of state, reason, exit_code, signal")
        named = {k: v for k, v in value.items() if k != "__line__"}
        if named.keys() - FACT_KEYS:
            self.fail(f"facts knows {', '.join(sorted(FACT_KEYS))} only")
        return {k: tuple(v) if isinstance(v, list) else (v,) for k, v in named.items()}

    def examples(self, key: str) -> Iterator[Example]:
        values = self.mapping.get(key) or []
        if not isinstance(values, list):
            self.fail(f"{key} must be a list")
        for value in values:
            if isinstance(value, str):
                yield Example(line=value)
            elif isinstance(value, dict) and isinstance(value.get("line"), str):
                rest = {k: v for k, v in value.items() if k not in ("line", "__line__")}
                yield Example(line=value["line"], captures={k: str(v) for k, v in rest.items()})
            elif isinstance(value, dict) and value.keys() & FACT_KEYS:
                yield Example(line=None, facts={k: v for k, v in value.items() if k != "__line__"})
            else:
                self.fail(f"{key}: an example is a line, a mapping with 'line', or exit facts; not {value!r}")
