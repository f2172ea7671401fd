"""Is every signature alive, safe and honest?  What `exitsign signatures check` finds.

Rule: a finding names file, line and id; an error fails the check, a warning is for the reader.
Rule: a signature that can't be proved to match something by its own examples is an error.

Systems that lint nothing ship patterns that never fire: unescaped `(2)`, `[errno 2]` read as a set, one capital letter.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import hyperscan
import regex

from classifiers.catalog import Catalog
from classifiers.exit_spec import ENDED_WELL, UNKNOWN
from classifiers.lines import MAX_CHARS, clean
from classifiers.matching import Matcher, literal_length, loosened, quoted
from classifiers.records import LogLine, Position, Role, Stream
from classifiers.signature import Place, Signature, Status

SLOW_S = 0.25
MIN_LITERAL = 4
NEEDS_COUNTER_EXAMPLE = frozenset({Role.ROOT, Role.IMPLICIT})
_PREFIXES = ("", "[rank3]: ", "2026-11-21 07:12:44,143 ")
_PRIVATE = regex.compile(
    r"(?<![\w.])/(?:home|users?|scratch|gpfs\d*|lustre\d*|work)/(?!user\b|\\|\[|\(|\.)[a-z][\w-]{2,}"
    r"|[\w.+-]+@(?!example\b|host)[\w-]+\.[a-z]{2,}|\b\d{1,3}(?:\\?\.\d{1,3}){3}\b"
)


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
class Locked:
    """What versions.lock says of one id."""

    version: int
    digest: str
    retired: bool


def check(catalog: Catalog, locked: Mapping[str, Locked]) -> list[Finding]:
    """Everything that is wrong with a catalog that loads, in file order."""
    matcher = Matcher(catalog, time_limit_s=1.0)
    findings = [
        *(_finding(s, *told) for s in catalog.signatures if s.status is not Status.RETIRED for told in _alone(s)),
        *(_finding(s, *told) for s in catalog.active if s.patterns for told in _among(s, matcher)),
        *_against_lock(catalog, locked),
        *_uncovered(catalog),
    ]
    return sorted(set(findings))


def content_digest(signature: Signature) -> str:
    """The digest of everything that changes what a signature matches or says (not its examples)."""
    parts = (signature.label, signature.role, *signature.patterns, sorted(signature.facts.items()), signature.clears)
    return hashlib.sha256(repr((parts, sorted(signature.sources))).encode()).hexdigest()[:16]


def write_lock(catalog: Catalog, locked: Mapping[str, Locked]) -> str:
    """The text of versions.lock for this catalog; ids that are gone stay, as retired."""
    rows = dict(locked)
    rows = {name: Locked(row.version, row.digest, True) for name, row in rows.items()}
    for s in catalog.signatures:
        rows[s.id] = Locked(s.version, content_digest(s), s.status is Status.RETIRED)
    lines = [
        f"{name} {row.version} {row.digest}{' retired' if row.retired else ''}" for name, row in sorted(rows.items())
    ]
    return "# id version digest; written by `exitsign signatures lock`, never by hand\n" + "\n".join(lines) + "\n"


def read_lock(text: str) -> dict[str, Locked]:
    """What versions.lock says.  Raises ValueError with the line number."""
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                name, version, digest, *rest = line.split()
                rows[name] = Locked(int(version), digest, rest == ["retired"])
            except ValueError:
                raise ValueError(f"versions.lock:{number}: needs 'id version digest [retired]'") from None
    return rows


def _finding(signature: Signature, problem: str, error: bool = True) -> Finding:
    return Finding(signature.place.file, signature.place.line, signature.id, problem, error)


def _alone(s: Signature) -> Iterator[tuple[str, bool]]:
    """What is wrong with a signature by itself."""
    if not s.match:
        yield "no match example: nothing shows that it can match", True
    if not s.no_match and s.role in NEEDS_COUNTER_EXAMPLE:
        yield "no no_match example: what must it not match?", True
    if s.role is Role.RECOVERY and not s.clears:
        yield "a recovery must say what it clears", True
    yield from _examples(s)
    for pattern in s.patterns:
        yield from _pattern(s, pattern)


def _examples(s: Signature) -> Iterator[tuple[str, bool]]:
    patterns = [regex.compile(p) for p in s.patterns]
    used: set[int] = set()
    for example in s.match:
        if example.line is None:
            if not all(example.facts.get(name) in values for name, values in s.facts.items()):
                yield f"its own example does not match: {dict(example.facts)}", True
            continue
        hits = [(i, hit) for i, p in enumerate(patterns) if (hit := p.search(clean(example.line).text))]
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
        if example.line is not None and any(p.search(clean(example.line).text) for p in patterns):
            yield f"its no_match example matches: {example.line!r}", True
        if example.line is None and all(example.facts.get(n) in v for n, v in s.facts.items()):
            yield f"its no_match example matches: {dict(example.facts)}", True


def _pattern(s: Signature, pattern: str) -> Iterator[tuple[str, bool]]:
    database = hyperscan.Database()
    flags = hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_MULTILINE
    try:
        database.compile(expressions=[loosened(pattern).encode()], ids=[0], elements=1, flags=[flags])
    except hyperscan.error as error:
        yield f"the prefilter can't take {pattern!r}: {error}", True
    if literal_length(pattern) < MIN_LITERAL:
        yield f"fewer than {MIN_LITERAL} literal characters: {pattern!r} matches almost anything", False
    if slow := _slowest(s, pattern):
        yield f"slow: {slow:.2f} s on hostile text of {MAX_CHARS} characters ({pattern!r})", True
    if private := _PRIVATE.search(pattern):
        yield f"private literal {private.group()!r}: a pattern made for one place matches nowhere else", False


def _slowest(s: Signature, pattern: str) -> float:
    """Seconds of the worst hostile text, where that is past SLOW_S; 0 otherwise."""
    compiled, worst = regex.compile(pattern), 0.0
    lines = [e.line for e in (*s.match, *s.no_match) if e.line]
    for text in (*hostile_texts(pattern), *(line[:40] * (MAX_CHARS // max(1, len(line[:40]))) for line in lines[:2])):
        begun = time.perf_counter()  # A linter may look at the clock; decisions never do.
        try:
            compiled.search(text[:MAX_CHARS], timeout=2 * SLOW_S)
        except TimeoutError:
            return 2 * SLOW_S
        worst = max(worst, time.perf_counter() - begun)
    return worst if worst > SLOW_S else 0.0


def hostile_texts(pattern: str) -> Iterator[str]:
    """Text of MAX_CHARS characters that makes bad patterns backtrack: repeats of one character and of the pattern's words."""
    for char in ("a", " ", "0", "/", "a ", "1.", "x:"):
        yield char * (MAX_CHARS // len(char)) + "!"
    for word in regex.findall(r"[A-Za-z]{3,}", pattern)[:3]:
        yield f"{word} " * (MAX_CHARS // (len(word) + 1)) + "!"


def _among(s: Signature, matcher: Matcher) -> Iterator[tuple[str, bool]]:
    """What is wrong with a signature among the others: never reached by the prefilter, or always beaten on its own lines."""
    winners: list[str | None] = []
    for example in s.match:
        if example.line is None or quoted(clean(example.line).text, None):
            continue
        for prefix in _PREFIXES:
            winner = _winner(matcher, s, prefix + example.line)
            winners.append(winner)
            if winner is None and s.role is not Role.NOISE:
                yield f"the catalog finds nothing in its example behind {prefix!r}: {example.line!r}", not prefix
    others = {w for w in winners if w not in (None, s.id)}
    if s.status is Status.STABLE and s.role is not Role.NOISE and winners and others and s.id not in winners:
        yield f"shadowed: {', '.join(sorted(others))} wins on every one of its examples", True


def _winner(matcher: Matcher, s: Signature, text: str) -> str | None:
    stream = min(s.sources, default=Stream.STDERR)
    line = LogLine(cluster="", job_id="", text=text, stream=stream, position=Position(), appended_at=0.0)
    return next((e.signature for e in matcher.scan([line]) if e.shadow == (s.status is Status.SHADOW)), None)


def _against_lock(catalog: Catalog, locked: Mapping[str, Locked]) -> Iterator[Finding]:
    present = {s.id: s for s in catalog.signatures}
    for s in catalog.signatures:
        row = locked.get(s.id)
        if row is None:
            continue
        if row.retired and s.status is not Status.RETIRED:
            yield _finding(s, "this id was retired and is never used again: choose another")
        elif s.version < row.version:
            yield _finding(s, f"version {s.version} is older than the locked {row.version}")
        elif s.version == row.version and content_digest(s) != row.digest:
            yield _finding(
                s, f"changed without a new version: say version: {s.version + 1}, then `exitsign signatures lock`"
            )
    for name, row in locked.items():
        if name not in present and not row.retired:
            place = Place("versions.lock", 1)
            yield Finding(place.file, place.line, name, "gone without a trace: keep it with status: retired")


def _uncovered(catalog: Catalog) -> Iterator[Finding]:
    shown = {s.label for s in catalog.active}
    for name in catalog.spec.labels:
        if name not in shown | {UNKNOWN, ENDED_WELL}:
            yield Finding("exit_spec.yaml", 1, name, "no signature gives this label", error=False)


def overlaps(catalog: Catalog) -> Iterable[Finding]:
    """Examples of one signature on which another with a different label wins: a place to look, not an error."""
    matcher = Matcher(catalog, time_limit_s=1.0)
    labels = {s.id: s.label for s in catalog.signatures}
    for s in catalog.active:
        for example in s.match if s.patterns else ():
            winner = _winner(matcher, s, example.line) if example.line else None
            if winner and winner != s.id and labels[winner] != s.label:
                yield _finding(s, f"{winner} ({labels[winner]}) wins on its example {example.line!r}", False)
