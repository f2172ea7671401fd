"""Slurm's hostlist expressions -> node names: `t[1-2,7],gpu[001-003]`, also several brackets and suffixes.

Rule: work and memory are bounded by MAX_NODES, whatever ranges the text names.
"""

from __future__ import annotations

import itertools
import re

from services.formats.base import Poison, quoted

MAX_NODES = 65_536
MAX_CHARS = 256 * 1024
MAX_NAME_CHARS = 255
_NOBODY = frozenset({"", "None assigned", "(null)"})

# One name: pieces without brackets, and lists of numbers and ranges in brackets.
_NAME = re.compile(r"(?:[^\[\],\s]|\[[0-9,\-]*\])+")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_RANGE = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")


def expand(text: str, field: str = "nodes") -> tuple[str, ...]:
    """The nodes that an expression names, in its order; () where it names none.  Raises Poison."""
    if text in _NOBODY:
        return ()
    if len(text) > MAX_CHARS:
        raise Poison("too_large", f"{field} has {len(text)} characters, the limit is {MAX_CHARS}")
    nodes: list[str] = []
    at = 0
    while at <= len(text):
        name = _NAME.match(text, at)
        if name is None or (name.end() < len(text) and text[name.end()] != ","):
            raise Poison("wrong_type", f"{field} is no hostlist: {quoted(text)}")
        nodes += _names(name.group(), field, MAX_NODES - len(nodes))
        at = name.end() + 1
    return tuple(nodes)


def _names(name: str, field: str, room: int) -> list[str]:
    parts: list[list[str]] = []
    count = literal = 0
    for brackets, text in _PIECE.findall(name):
        parts.append([text] if text else _numbers(brackets, field, room))
        count = (count or 1) * len(parts[-1])
        literal += len(text)
        if count > room:
            raise _too_many(field)
    if literal > MAX_NAME_CHARS:
        raise Poison("too_large", f"{field} has a node name of more than {MAX_NAME_CHARS} characters")
    return ["".join(names) for names in itertools.product(*parts)]


def _numbers(text: str, field: str, room: int) -> list[str]:
    """`001-003,7` -> 001 002 003 7: a range keeps the width of its first number."""
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise Poison("wrong_type", f"{field} has a bad range {quoted(part)}")
        low, high = int(found[1]), int(found[2] or found[1])
        if high - low >= room - len(numbers):
            raise _too_many(field)
        numbers += [str(number).zfill(len(found[1])) for number in range(low, high + 1)]
    return numbers


def _too_many(field: str) -> Poison:
    return Poison("too_many", f"{field} names more than {MAX_NODES} nodes")
