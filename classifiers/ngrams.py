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

BITS = 16
CHARACTERS = (3, 4, 5)
MAX_NAMES = 12
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
    """The n-grams of many texts: text number, hash, first and last byte in `block`, and whether it is a word or pair."""

    texts: int
    row: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    word: NDArray[np.bool_]
    block: bytes

    def columns(self, bits: int = BITS) -> NDArray[np.int64]:
        """The column of each n-gram in a table of 2**bits columns."""
        return (self.hashes >> np.uint64(64 - bits)).astype(np.int64)


def prepared(text: str) -> bytes:
    """Masked text as n-grams see it: CamelCase also split, small letters, a blank at both ends, no line feed."""
    names = [_CAMEL.sub(" ", name) for name in text.split() if _CAMEL.search(name)]
    return f" {text} {' '.join(names[:MAX_NAMES])} ".replace("\n", " ").lower().encode("utf-8", "replace")


def grams(texts: Sequence[str], characters: Sequence[int] = CHARACTERS) -> Grams:
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
    two = _pairs(words, breaks)
    starts = np.concatenate([*(w[0] for w in windows), words[0], two[0]])
    ends = np.concatenate([*(w[1] for w in windows), words[1], two[1]])
    hashes = (prefix[ends] - prefix[starts]) * inverses[starts]
    whole = np.zeros(len(starts), dtype=bool)
    first_word = sum(len(w[0]) for w in windows)
    whole[first_word:] = True
    hashes[first_word : first_word + len(words[0])] ^= _WORD_SALT
    hashes[first_word + len(words[0]) :] ^= _PAIR_SALT
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    return Grams(len(texts), row_of[starts], hashes, starts, ends, whole, block)


def _powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    powers, inverses = _CACHE[0]
    if size > len(powers):
        powers, inverses = (_series(base, 2 * size) for base in (_BASE, _INVERSE))
        _CACHE[0] = (powers, inverses)
    return powers, inverses


def _series(base: int, length: int) -> NDArray[np.uint64]:
    steps = np.full(length, base, dtype=np.uint64)
    steps[0] = 1
    return np.cumprod(steps, dtype=np.uint64)


# Powers of the base and of its inverse modulo 2**64; the pair is replaced whole, so that threads may share it.
_CACHE = [(_series(_BASE, 1 << 14), _series(_INVERSE, 1 << 14))]


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
