"""Is every signature alive, safe and honest?  What `exitsign signatures check` finds.

Rule: a finding names file, line and id; an error fails the check, a warning is for the reader.
Rule: a signature that can't be proved to match something by its own examples is an error.

Systems that lint nothing ship patterns that never fire: unescaped `(2)`, `[errno 2]` read as a set, one capital letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import regex

from classifiers.catalog import Catalog
from classifiers.contest import Contest, build_matcher, contest_of, refusal, refused_of, usable_matcher
from classifiers.exit_spec import ENDED_WELL, UNKNOWN
from classifiers.hostile import seconds_on_hostile_text
from classifiers.lines import MAX_CHARS, clean
from classifiers.lock import Locked, against_lock
from classifiers.patterns import literal_length
from classifiers.records import Role
from classifiers.signature import Signature, Status

MIN_LITERAL = 4
NEEDS_COUNTER_EXAMPLE = frozenset({Role.ROOT, Role.IMPLICIT})
LOCK_FILE = "versions.lock"
_PRIVATE = regex.compile(
    r"(?<![\w.])/(?:home|users?|scratch|gpfs\d*|lustre\d*|work)/(?!user\b|\\|\[|\(|\.)[a-z][\w-]{2,}"
    r"|[\w.+-]+@(?!example\b|host)[\w-]+\.[a-z]{2,}|\b\d{1,3}(?:\\?\.\d{1,3}){3}\b"
)
Told = tuple[str, bool]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is wrong with one signature."""

    file: str
    line: int
    subject: str
    problem: str
    error: bool = True

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'' if self.error else 'warning: '}{self.subject}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Examined:
    """What is wrong, and the examples that another signature takes; both in file order."""

    findings: list[Finding]
    stolen: list[Finding]


def check(catalog: Catalog, locked: Mapping[str, Locked]) -> list[Finding]:
    """Everything that is wrong with a catalog that loads, in file order."""
    return examine(catalog, locked).findings


def overlaps(catalog: Catalog) -> Iterable[Finding]:
    """Examples of one signature on which another with a different label wins: a place to look, not an error."""
    return sorted(set(_stolen(contest_of(usable_matcher(catalog)))))


def examine(catalog: Catalog, locked: Mapping[str, Locked]) -> Examined:
    """What `check` and `overlaps` find, in one pass."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        building = pool.submit(build_matcher, catalog)  # Hyperscan compiles without the interpreter's lock.
        alone = [_finding(s, *t) for s in catalog.signatures if s.status is not Status.RETIRED for t in _alone(s)]
        matcher = building.result()
    contests = contest_of(matcher or usable_matcher(catalog))
    findings = [
        *alone,
        *(_finding(s, problem) for s, problem in (refused_of(catalog) if matcher is None else ())),
        *(_finding(c.signature, *told) for c in contests for told in _among(c)),
        *_duplicated(catalog),
        *_locked(catalog, locked),
        *_uncovered(catalog),
    ]
    return Examined(sorted(set(findings)), sorted(set(_stolen(contests))))


def examine_alone(signature: Signature) -> list[Finding]:
    """What is wrong with one signature by itself: its examples, its patterns, what its role asks for."""
    refusals = [f"the prefilter can't take {p!r}: {why}" for p in signature.patterns if (why := refusal([p]))]
    return sorted({_finding(signature, *t) for t in (*_alone(signature), *((r, True) for r in refusals))})


def _finding(signature: Signature, problem: str, error: bool = True) -> Finding:
    return Finding(signature.place.file, signature.place.line, signature.id, problem, error)


def _alone(s: Signature) -> Iterator[Told]:
    if not s.match:
        yield "no match example: nothing shows that it can match", True
    if not s.no_match and s.role in NEEDS_COUNTER_EXAMPLE:
        yield "no no_match example: what must it not match?", True
    if s.role is Role.RECOVERY and not s.clears:
        yield "a recovery must say what it clears", True
    patterns = [regex.compile(p) for p in s.patterns]
    yield from _examples(s, patterns)
    for twin in {e.line for e in s.match if e.line} & {e.line for e in s.no_match}:
        yield f"the same line is a match and a no_match example: {twin!r}", True
    for pattern in patterns:
        yield from _pattern(s, pattern)


def _examples(s: Signature, patterns: Sequence[regex.Pattern[str]]) -> Iterator[Told]:
    used: set[int] = set()
    for example in s.match:
        if example.line is None:
            if not all(example.facts.get(name) in values for name, values in s.facts.items()):
                yield f"its own example does not match: {dict(example.facts)}", True
            continue
        hits = [(i, hit) for i, p in enumerate(patterns) if (hit := _search(p, example.line))]
        used.update(i for i, _ in hits)
        if not hits:
            yield f"its own example does not match: {example.line!r}", True
            continue
        for name, wanted in example.captures.items():
            found = next((v for _, hit in hits if (v := hit.groupdict().get(name)) is not None), None)
            if found != wanted:
                yield f"capture {name} is {found!r}, its example says {wanted!r}", True
    for index in set(range(len(patterns))) - used if s.match else ():
        yield f"pattern {index + 1} is matched by no example: it may never match ({s.patterns[index]!r})", True
    for example in s.no_match:
        if example.line is not None and any(_search(p, example.line) for p in patterns):
            yield f"its no_match example matches: {example.line!r}", True
        if example.line is None and s.facts and all(example.facts.get(n) in v for n, v in s.facts.items()):
            yield f"its no_match example matches: {dict(example.facts)}", True


def _search(pattern: regex.Pattern[str], line: str) -> regex.Match[str] | None:
    try:
        return pattern.search(clean(line).text, timeout=1.0)
    except TimeoutError:
        return None  # `_pattern` says that it is slow.


def _pattern(s: Signature, pattern: regex.Pattern[str]) -> Iterator[Told]:
    text = pattern.pattern
    if literal_length(text) < MIN_LITERAL:
        yield f"fewer than {MIN_LITERAL} literal characters: {text!r} matches almost anything", False
    if slow := seconds_on_hostile_text(pattern, [e.line for e in (*s.match, *s.no_match) if e.line][:2]):
        yield f"slow: over {slow:.2f} s on hostile text of {MAX_CHARS} characters ({text!r})", True
    if private := _PRIVATE.search(text):
        yield f"private literal {private.group()!r}: a pattern made for one place matches nowhere else", False


def _among(contest: Contest) -> Iterator[Told]:
    """What is wrong among the others: never reached by the prefilter, or always beaten on its own lines."""
    s = contest.signature
    if s.role is Role.NOISE:
        return
    for round_ in contest.rounds:
        if round_.winner is None:
            yield (
                f"the catalog finds nothing in its example behind {round_.prefix!r}: {round_.line!r}",
                not round_.prefix,
            )
    winners = {round_.winner.id for round_ in contest.rounds if round_.winner is not None}
    if s.status is Status.STABLE and winners and s.id not in winners:
        yield f"shadowed: {', '.join(sorted(winners))} wins on every one of its examples", True


def _stolen(contests: Iterable[Contest]) -> Iterator[Finding]:
    for contest in contests:
        for round_ in contest.rounds:
            if not round_.prefix and round_.winner is not None and round_.winner.label != contest.signature.label:
                taken = f"{round_.winner.id} ({round_.winner.label}) wins on its example {round_.line!r}"
                yield _finding(contest.signature, taken, error=False)


def _duplicated(catalog: Catalog) -> Iterator[Finding]:
    """Patterns and examples that stand twice: with two labels nothing but chance decides between them."""
    patterns: dict[str, Signature] = {}
    examples: dict[str, Signature] = {}
    for s in catalog.active:
        for pattern in s.patterns:
            first = patterns.setdefault(pattern, s)
            if first is not s:
                yield _finding(s, f"its pattern stands also at {first.id}: {pattern!r}", first.label != s.label)
        twins = {first.id: e.line for e in s.match if e.line and (first := examples.setdefault(e.line, s)) is not s}
        for name, line in twins.items():
            yield _finding(s, f"its example stands also at {name}: {line!r}", error=False)


def _locked(catalog: Catalog, locked: Mapping[str, Locked]) -> Iterator[Finding]:
    present = {s.id for s in catalog.signatures}
    for s in catalog.signatures:
        if s.id in locked:
            yield from (_finding(s, problem) for problem in against_lock(s, locked[s.id]))
        elif locked and s.active:
            yield _finding(s, "not locked yet: `exitsign signatures lock`", error=False)
    for name, row in locked.items():
        if name not in present and not row.retired:
            yield Finding(LOCK_FILE, 1, name, "gone without a trace: keep it with status: retired")


def _uncovered(catalog: Catalog) -> Iterator[Finding]:
    shown = {s.label for s in catalog.active} | {UNKNOWN, ENDED_WELL}
    for name in catalog.spec.labels:
        if name not in shown:
            yield Finding("exit_spec.yaml", 1, name, "no signature gives this label", error=False)
