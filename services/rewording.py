"""Other ways to say what an example says, so that the fallback learns words rather than sentences.

Rule: the same text and seed give the same rewordings; nothing is invented, words are only left out or filled in.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

MAX_VARIANTS = 6
DROPPED = 0.2


def reworded(text: str, count: int, seed: str) -> list[str]:
    """At most `count` variants of a masked text: words dropped, or only its middle kept."""
    chance = random.Random(f"{seed}\0{text}")  # noqa: S311 - rewordings, no secrets
    words = text.split(" ")
    if len(words) < 4:
        return []
    variants = [_dropped(words, chance) if number % 2 == 0 else _middle(words, chance) for number in range(count)]
    return list(dict.fromkeys(v for v in variants if v and v != text))


def _dropped(words: list[str], chance: random.Random) -> str:
    return " ".join(word for word in words if chance.random() > DROPPED)


def _middle(words: list[str], chance: random.Random) -> str:
    third = max(1, len(words) // 3)
    return " ".join(words[chance.randrange(third) : len(words) - chance.randrange(third)])


def skeletons(pattern: str, most: int = MAX_VARIANTS) -> list[str]:
    """Texts that the alternatives of a pattern stand for: literals as they are, the rest filled with little."""
    parser = re._parser  # type: ignore[attr-defined]
    try:
        tree = parser.parse(re.sub(r"\(\?<([A-Za-z_])", r"(?P<\1", pattern))
    except (re.error, RecursionError, OverflowError):
        return []
    found = list(dict.fromkeys(_texts(tree, most)))
    if len(found) <= most:
        return found
    return [found[number * len(found) // most] for number in range(most)]


def _texts(tree: Any, most: int) -> list[str]:
    texts = [""]
    for op, argument in tree:
        choices = list(_choices(str(op), argument, most))
        texts = [head + tail for head, tail in product(texts, choices)]
        if len(texts) > 8 * most:
            texts = texts[:: len(texts) // (8 * most) + 1]
    return texts


def _choices(op: str, argument: Any, most: int) -> Iterator[str]:
    if op == "LITERAL":
        yield chr(argument)
    elif op == "BRANCH":
        for branch in argument[1]:
            yield from _texts(branch, most)
    elif op == "SUBPATTERN":
        yield from _texts(argument[-1], most)
    elif op in ("MAX_REPEAT", "MIN_REPEAT"):
        least, longest, inner = argument
        yield from _texts(inner, most) if least or longest == 1 else [" "]
    elif op == "IN":
        yield _member(argument)
    else:
        yield " " if op == "ANY" else ""


def _member(members: Any) -> str:
    names = [str(op) for op, _ in members]
    letters = [chr(value) for op, value in members if str(op) == "LITERAL"]
    if "NEGATE" in names or not (letters or "CATEGORY" in names):
        return "x"
    if letters:
        return letters[0]
    kinds = " ".join(str(value) for _, value in members)
    return "0" if "DIGIT" in kinds else " " if "SPACE" in kinds else "x"
