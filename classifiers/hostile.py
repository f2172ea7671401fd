"""Does a pattern stay quick on text that was made to hurt it?

Rule: what is measured is the thread's own CPU time, so that a busy machine condemns nobody.
Rule: a pattern that can't backtrack far is not tried: it has neither an unbounded nor two wide repeats.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import regex

from classifiers.lines import MAX_CHARS

SLOW_S = 0.25
WIDE = 32
_WORDS = 3


def seconds_on_hostile_text(pattern: regex.Pattern[str], lines: Iterable[str] = ()) -> float:
    """Seconds of the first hostile text past SLOW_S; 0.0 where there is none.  `lines` are examples to make text from."""
    if not may_backtrack(pattern.pattern):
        return 0.0
    for text in hostile_texts(pattern.pattern, lines):
        begun = time.thread_time()  # A linter may look at the clock; decisions never do.
        try:
            pattern.search(text, timeout=2 * SLOW_S)
        except TimeoutError:
            return 2 * SLOW_S
        if (took := time.thread_time() - begun) > SLOW_S:
            return took
    return 0.0


def hostile_texts(pattern: str, lines: Iterable[str] = ()) -> Iterator[str]:
    """Texts of about MAX_CHARS characters: one character, the pattern's words, and the starts of its examples, repeated."""
    words = regex.findall(r"[A-Za-z]{3,}", pattern)[:_WORDS]
    starts = [line[:40] for line in lines if line]
    for unit in ("a", " ", "0", "/", "a ", "1.", "x:", *(f"{word} " for word in words), " ".join(words[:-1]), *starts):
        if unit:
            yield (unit * (MAX_CHARS // len(unit)))[: MAX_CHARS - 1] + "!"


def may_backtrack(pattern: str) -> bool:
    """True where a repeat has no bound, or where two or more wide ones (WIDE and more) can share the same text."""
    parser = re._parser  # type: ignore[attr-defined]
    try:
        bounds = list(_bounds(parser.parse(re.sub(r"\(\?<([A-Za-z_])", r"(?P<\1", pattern))))
    except (re.error, RecursionError, OverflowError):
        return True  # What the standard parser can't read is tried, not trusted.
    return any(bound is None for bound in bounds) or sum(bound >= WIDE for bound in bounds if bound) >= 2


def _bounds(tree: Any) -> Iterator[int | None]:
    """Upper bound of every repeat that varies; None where there is none."""
    for op, arg in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, body = arg
            if high != low:
                yield None if str(high) == "MAXREPEAT" else int(high)
            yield from _bounds(body)
        elif name == "SUBPATTERN":
            yield from _bounds(arg[-1])
        elif name == "BRANCH":
            for branch in arg[1]:
                yield from _bounds(branch)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _bounds(arg[1])
        elif name == "ATOMIC_GROUP":
            yield from _bounds(arg)
