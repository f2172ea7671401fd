"""JSON log lines of a shipper, one object a record; where each of our fields stands is a table that settings change.

Rule: a place is a top-level name, or a JSON pointer (RFC 6901) where it starts with "/"; the first that speaks wins.
Rule: only mapped places are decoded, so a field that nobody asked for can't poison a record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from services.formats.base import Input, Poison, RawRecord, Record, check_fields
from services.formats.loglines import Identity, identity_of, log_lines
from services.formats.values import MAX_NAME_CHARS, decoded_json, from_json, moment, name_of, value_of

OPTIONS = ("file_pattern", "escaped_lf")
FILE_GROUPS = ("cluster", "job", "attempt", "rank", "node", "stream")
MAX_PATH_CHARS = 4096
_CONTENT = ("text", "time", "partial")

Names = dict[str, Any]
"""Field of ours -> what the record says of it (text, whole number, None)."""
Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Shipper:
    """One shipper's table of places; `identify` makes an identity of what it finds, None where it is no job's line."""

    name: str
    places: Mapping[str, tuple[str, ...]]
    identify: Callable[[Input, Names], Identity | None]
    partial_word: str | None = None
    escapes_lf: bool = False

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """One LogLine for each line of the object's text; none where the object has no text."""
        plan = _plan(self, where)
        value = value_of(record)
        if value is None:
            return []
        json = decoded_json(value)
        content = from_json(plan.content, json)
        text = _first(content, plan.text)
        # NB: the identity is decoded apart from the text, into a frozen struct that is the key of the cache.
        identity = plan.identify(from_json(plan.identity, json))
        if text is None or identity is None:
            return []
        if not isinstance(text, str):
            raise Poison("wrong_type", f"text must be text, not {type(text).__name__}")
        if plan.splits_escaped and "\\n" in text:
            text = text.replace("\\n", "\n")
        time = moment(_first(content, plan.time), "time")
        partial = self.partial_word is not None and _first(content, plan.partial) == self.partial_word
        return log_lines(record, identity, text, time, partial)


def identify_by_names(where: Input, names: Names) -> Identity:
    """The identity that the mapped fields name, or else the file's name by the row's `file_pattern`."""
    return identity_of(where, **{name: names.get(name) for name in FILE_GROUPS})


class _Plan(NamedTuple):
    """One Input's table, compiled: decoders of nested structs, and the attribute paths of each of our fields."""

    content: msgspec.json.Decoder[Any]
    identity: msgspec.json.Decoder[Any]
    identify: Callable[[msgspec.Struct], Identity | None]
    text: tuple[Path, ...]
    time: tuple[Path, ...]
    partial: tuple[Path, ...]
    splits_escaped: bool


@lru_cache(maxsize=1024)
def _plan(shipper: Shipper, where: Input) -> _Plan:
    check_fields(where, (*shipper.places, *OPTIONS))
    steps = {
        ours: tuple(_steps(place) for place in ([where.fields[ours]] if ours in where.fields else theirs))
        for ours, theirs in shipper.places.items()
    }
    content = [path for ours, paths in steps.items() if ours in _CONTENT for path in paths]
    identity = [path for ours, paths in steps.items() if ours not in _CONTENT for path in paths]
    paths = {ours: tuple(tuple(map(_attribute, path)) for path in each) for ours, each in steps.items()}
    return _Plan(
        # NB: content is checked where it is used: with `log` there, nobody minds what `log_processed.message` holds.
        msgspec.json.Decoder(_struct(content, Any)),
        msgspec.json.Decoder(_struct(identity, str | int | None)),
        identify=_identifier(shipper, where, paths),
        text=paths["text"],
        time=paths["time"],
        partial=paths.get("partial", ()),
        splits_escaped=shipper.escapes_lf and where.fields.get("escaped_lf", "split") != "keep",
    )


def _steps(place: str) -> Path:
    if not place.startswith("/"):
        return (place,)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in place[1:].split("/"))


def _attribute(step: str) -> str:
    return "f" + step.encode().hex()


def _struct(paths: list[Path], leaf: Any) -> type[msgspec.Struct]:
    """A struct with one field for each first step of the paths: nested structs above, the leaf type at their ends."""
    below: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        below[path[0]].append(path[1:])
    fields: list[tuple[str, Any, Any]] = []
    for step, rests in below.items():
        inner = [rest for rest in rests if rest]
        kind: Any = _struct(inner, leaf) if inner else leaf
        fields.append((_attribute(step), kind | None if inner else kind, None))
    return msgspec.defstruct("Found", fields, rename={_attribute(step): step for step in below}, frozen=True)


def _file_pattern(where: Input) -> re.Pattern[str] | None:
    text = where.fields.get("file_pattern")
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"input {where.topic!r}: file_pattern {text!r} is no regular expression: {error}") from None
    if strangers := set(pattern.groupindex) - set(FILE_GROUPS):
        raise ValueError(f"input {where.topic!r}: file_pattern has groups {sorted(strangers)}; known: {FILE_GROUPS}")
    return pattern


def _first(found: Any, paths: tuple[Path, ...]) -> Any:
    """What stands at the first of the paths that says something."""
    for path in paths:
        value = found
        for step in path:
            value = getattr(value, step, None)
        if value is not None and value != "":
            return value
    return None


def _identifier(
    shipper: Shipper, where: Input, paths: Mapping[str, tuple[Path, ...]]
) -> Callable[[msgspec.Struct], Identity | None]:
    """What turns the decoded names of a record into its identity, remembering those it has seen."""
    pattern = _file_pattern(where)
    named = {ours: found for ours, found in paths.items() if ours not in _CONTENT}

    @lru_cache(maxsize=16_384)
    def identify(found: msgspec.Struct) -> Identity | None:
        names = {ours: _first(found, each) for ours, each in named.items()}
        for ours, value in names.items():
            # NB: over the limit raises, and what raises is not remembered: the cache holds short names only.
            if isinstance(value, str | int):
                name_of(value, ours, MAX_PATH_CHARS if ours == "file" else MAX_NAME_CHARS)
        if pattern is not None and names.get("file"):
            told = {ours: value for ours, value in names.items() if value is not None}
            names = names | _from_file(pattern, str(names["file"])) | told
        return shipper.identify(where, names)

    return identify


def _from_file(pattern: re.Pattern[str], file: str) -> Names:
    match = pattern.search(file)
    return {} if match is None else dict(match.groupdict())
