"""Who wins on whose examples: the whole catalog against every example in it, by one prefilter pass.

Rule: a pattern that the prefilter refuses takes its signature out of the contest, never the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import hyperscan

from classifiers.catalog import Catalog
from classifiers.lines import clean, quoted
from classifiers.matching import Matcher
from classifiers.patterns import loosened
from classifiers.records import LogLine, Position, Stream
from classifiers.signature import Signature, Status

PREFIXES = ("", "[rank3]: ", "2026-11-21 07:12:44,143 ")
TIME_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Round:
    """One example behind one prefix, and who wins there (None: nothing is found)."""

    prefix: str
    line: str
    winner: Signature | None


@dataclass(frozen=True, slots=True)
class Contest:
    """All rounds on the examples of one signature."""

    signature: Signature
    rounds: tuple[Round, ...]


def build_matcher(catalog: Catalog) -> Matcher | None:
    """A matcher over the catalog; None where the prefilter refuses a pattern."""
    try:
        return Matcher(catalog, time_limit_s=TIME_LIMIT_S)
    except hyperscan.error:
        return None


def usable_matcher(catalog: Catalog) -> Matcher:
    """A matcher over all signatures but those with a refused pattern."""
    if (matcher := build_matcher(catalog)) is not None:
        return matcher
    refused = {s.id for s, _ in refused_of(catalog)}
    kept = tuple(s for s in catalog.signatures if s.id not in refused)
    return Matcher(replace(catalog, signatures=kept), time_limit_s=TIME_LIMIT_S)


def refused_of(catalog: Catalog) -> Iterator[tuple[Signature, str]]:
    """Every signature with a pattern that the prefilter refuses, and why."""
    owners = [(s, p) for s in catalog.active for p in s.patterns]
    for signature, pattern in _guilty(owners):
        yield signature, f"the prefilter can't take {pattern!r}: {refusal([pattern])}"


def refusal(patterns: Sequence[str]) -> str:
    """Why the prefilter does not take the patterns; empty where it does."""
    flags, count = hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_MULTILINE, len(patterns)
    expressions = [loosened(p).encode() for p in patterns]
    try:
        hyperscan.Database().compile(
            expressions=expressions, ids=list(range(count)), elements=count, flags=[flags] * count
        )
    except hyperscan.error as error:
        return str(error) or "refused"
    return ""


def contest_of(matcher: Matcher) -> list[Contest]:
    """For each active signature with patterns, who wins on its examples."""
    known = {s.id: s for s in matcher.catalog.signatures}
    asked = [
        (s, prefix, example.line)
        for s in matcher.catalog.active
        for example in s.match
        if example.line is not None and not quoted(clean(example.line).text, None)
        for prefix in PREFIXES
    ]
    candidates: dict[int, set[int]] = defaultdict(set)
    for (number, _), found in matcher.hits([(prefix + line).encode() for _, prefix, line in asked]).items():
        candidates[number] |= found
    rounds: dict[str, list[Round]] = {s.id: [] for s in matcher.catalog.active if s.patterns}
    for number, (s, prefix, line) in enumerate(asked):
        seen = matcher.confirm(_line(s, prefix + line), candidates[number])
        winner = next((e.signature for e in seen if e.shadow == (s.status is Status.SHADOW)), None)
        rounds[s.id].append(Round(prefix, line, known[winner] if winner else None))
    return [Contest(known[name], tuple(rows)) for name, rows in rounds.items()]


def _guilty(owners: Sequence[tuple[Signature, str]]) -> list[tuple[Signature, str]]:
    """The refused patterns, by halving: Hyperscan does not say which one it is."""
    if not owners or not refusal([pattern for _, pattern in owners]):
        return []
    middle = len(owners) // 2
    return list(owners) if middle == 0 else [*_guilty(owners[:middle]), *_guilty(owners[middle:])]


def _line(s: Signature, text: str) -> LogLine:
    stream = min(s.sources, default=Stream.STDERR)
    return LogLine(cluster="", job_id="", text=text, stream=stream, position=Position(), appended_at=0.0)
