"""What can be told from a pattern without running it: its form for the prefilter, and how specific it is.

Rule: the loosened form matches wherever the pattern does, on raw text with any prefix and any trailing bytes.
"""

from __future__ import annotations

import re
from typing import Any

_GROUP_NAME = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_BOUND = re.compile(r"(?<!\\)\{(\d*),(\d+)\}\??")
NARROW = 8


def _unbounded(bound: re.Match[str]) -> str:
    low, high = int(bound[1] or 0), int(bound[2])
    if high < NARROW:
        return bound[0]
    return "*" if low == 0 else f"{{{low},}}"


def loosened(pattern: str) -> str:
    """The pattern as the prefilter gets it.

    No group names; no anchors, so that prefixes and trailing bytes don't matter; no wide bounds, which cost the
    compiler most of its time.
    """
    pattern = _BOUND.sub(_unbounded, _GROUP_NAME.sub("(", pattern))
    kept, index, in_class = [], 0, False
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            kept.append(pattern[index : index + 2])
            index += 2
            continue
        if char == "[" and not in_class:
            in_class = True
            kept.append(char)
            if pattern[index + 1 : index + 2] == "^":
                kept.append("^")
                index += 1
            if pattern[index + 1 : index + 2] == "]":
                kept.append("]")
                index += 1
        elif char == "]" and in_class:
            in_class = False
            kept.append(char)
        elif in_class or char not in "^$":
            kept.append(char)
        index += 1
    return "".join(kept)


def literal_length(pattern: str) -> int:
    """How many literal characters any match must hold at least: the measure of how specific a pattern is."""
    parser = re._parser  # type: ignore[attr-defined]
    try:
        tree = parser.parse(re.sub(r"\(\?<([A-Za-z_])", r"(?P<\1", pattern))
    except (re.error, RecursionError, OverflowError):
        return len(re.sub(r"\\.|\W", "", pattern)) // 2
    return _literals(tree)


def _literals(tree: Any) -> int:
    total = 0
    for op, arg in tree:
        name = str(op)
        if name == "LITERAL":
            total += 1
        elif name == "BRANCH":
            total += min(_literals(branch) for branch in arg[1])
        elif name == "SUBPATTERN":
            total += _literals(arg[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            total += arg[0] * _literals(arg[2])
    return total
