"""Masked text -> hashed n-grams of characters and words, as one sparse matrix, without a vocabulary.

Rule: the same text gives the same columns on every machine, Python and numpy.
Rule: no n-gram crosses from one text into the next.

A window's hash is the difference of two prefix sums of a polynomial modulo 2**64, so that all windows of all lengths
cost a few array operations and no Python loop over characters (measured in load_tests/bench_fallback.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BITS = 17
CHARACTERS = (3, 4, 5)
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_WORD_SALT = np.uint64(0xA0761D6478BD642F)
_PAIR_SALT = np.uint64(0xE7037ED1A0B428DB)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = np.zeros(256, dtype=bool)
_LETTERS[[*range(97, 123), *b"<>_", *range(128, 256), *range(48, 58)]] = True


@dataclass(frozen=True, slots=True)
class Grams:
    """The n-grams of many texts: text number, column, first and last byte in `block`, and whether it is a word or pair."""

    texts: int
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    word: NDArray[np.bool_]
    block: bytes


def prepared(text: str) -> bytes:
    """Masked text as n-grams see it: CamelCase also split, small letters, a blank at both ends, no line feed."""
    names = [name for name in text.split() if _CAMEL.search(name)]
    split = " ".join(_CAMEL.sub(" ", name) for name in names[:12])
    return f" {text} {split} ".replace("\n", " ").lower().encode("utf-8", "replace") if split else (
        f" {text} ".replace("\n", " ").lower().encode("utf-8", "replace")
    )


def grams(texts: Sequence[str], bits: int = BITS, characters: Sequence[int] = CHARACTERS, pairs: bool = True) -> Grams:
    """All n-grams of masked texts: characters of the given lengths, words, and pairs of neighbouring words."""
    parts = [prepared(text) for text in texts]
    block = b"\n".join(parts)
    data = np.frombuffer(block, dtype=np.uint8)
    size = len(data)
    powers, inverses = _powers(size)
    prefix = np.zeros(size + 1, dtype=np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[:size], out=prefix[1:])
    breaks = np.concatenate([[0], np.cumsum(data == 10)])
    row_of = breaks[:-1] if size else np.zeros(0, dtype=np.int64)
    windows = [_characters(size, breaks, n) for n in characters]
    words = _words(data)
    two = _pairs(words, breaks) if pairs else (words[0][:0], words[1][:0])
    starts = np.concatenate([*(w[0] for w in windows), words[0], two[0]])
    ends = np.concatenate([*(w[1] for w in windows), words[1], two[1]])
    hashes = (prefix[ends] - prefix[starts]) * inverses[starts]
    whole = np.zeros(len(starts), dtype=bool)
    first_word = sum(len(w[0]) for w in windows)
    whole[first_word:] = True
    hashes[first_word : first_word + len(words[0])] ^= _WORD_SALT
    hashes[first_word + len(words[0]) :] ^= _PAIR_SALT
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    column = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    return Grams(len(texts), row_of[starts], column, starts, ends, whole, block)


def _powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    if size > len(_CACHE[0]):
        length = max(size, 2 * len(_CACHE[0]))
        both = []
        for base in (_BASE, _INVERSE):
            steps = np.full(length, base, dtype=np.uint64)
            steps[0] = 1
            both.append(np.cumprod(steps, dtype=np.uint64))
        _CACHE[:] = both
    return _CACHE[0], _CACHE[1]


# Powers of the base and of its inverse modulo 2**64; replaced whole by longer ones, so that threads may share it.
_CACHE: list[NDArray[np.uint64]] = [np.ones(1, dtype=np.uint64), np.ones(1, dtype=np.uint64)]


def _characters(size: int, breaks: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.arange(max(size - n + 1, 0), dtype=np.int64)
    starts = starts[breaks[starts] == breaks[starts + n]] if len(starts) else starts
    return starts, starts + n


def _words(data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    inside = np.concatenate([[False], _LETTERS[data], [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    return edges[0::2], edges[1::2]


def _pairs(
    words: tuple[NDArray[np.int64], NDArray[np.int64]], breaks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts, ends = words[0][:-1], words[1][1:]
    near = (breaks[starts] == breaks[ends]) & (words[0][1:] - words[1][:-1] <= 3) if len(starts) else starts > 0
    return starts[near], ends[near]
