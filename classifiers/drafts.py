"""A log line -> a signature ready to paste: what changes from run to run becomes a bounded class, the rest stays literal.

Rule: a draft matches its own line, is linear and is taken by the prefilter; where that fails the line is refused.
Rule: a draft is only a draft: its status says so, and a person says what it means.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import regex
import yaml

from classifiers.checks import examine_alone
from classifiers.lines import clean, quoted
from classifiers.patterns import literal_length
from classifiers.records import Role, Stream
from classifiers.redaction import redact
from classifiers.signature import Signature, read_signatures

MAX_TEXT = 300
MIN_LITERAL = 6
MAX_ID_WORDS = 6
_WORD = r"[^\s,;:'\"()\[\]{}<>]{1,300}"
# What varies from run to run, and the class that stands for it; the first that fits at a place is taken.
_VARIES = (
    ("secret", r"\[REDACTED\]", r"\S{1,300}"),
    ("url", r"\b[a-z][a-z0-9+]{1,9}://[^\s,;'\"()\[\]{}<>]+", r"\w{2,10}://[^\s,;'\"()\[\]{}<>]{1,300}"),
    ("uuid", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", r"[0-9a-fA-F-]{36}"),
    ("address", r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", r"[\d.:]{7,21}"),
    ("hex", r"\b0x[0-9a-fA-F]+\b", r"0x[0-9a-fA-F]{1,16}"),
    ("digest", r"\b(?=[a-f]*[0-9])[0-9a-f]{8,64}\b(?<![^0-9a-f][0-9]{8,64})", r"[0-9a-f]{8,64}"),
    ("path", r"(?<![\w.)\]])(?:~|\.{1,2})?/[^\s,;:'\"()\[\]{}<>]+", _WORD),
    ("single", r"(?<!\w)'[^']{1,300}'(?!\w)", r"'[^']{1,300}'"),
    ("double", r'(?<!\w)"[^"]{1,300}"(?!\w)', r'"[^"]{1,300}"'),
    ("back", r"`[^`]{1,300}`", r"`[^`]{1,300}`"),
    ("host", r"\b[a-zA-Z][a-zA-Z-]*-?\d+(?:\.[a-zA-Z][\w-]*)+\b|\b(?:node|host|worker|gpu|nid|ip)-?\d[\d-]*\b", r"[\w.-]{1,120}"),
    ("errno", r"(?<=[Ee]rrno[ =:]{0,2})-?\d+", ""),
    ("real", r"(?<![\w.])[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)(?![\d.]*[A-Za-z_]{3,})", r"[-+\d.eE]{1,24}"),
    ("number", r"(?<![\w.])\d+|\d{2,}", r"\d{1,20}"),
)  # fmt: skip
_TOKENS = regex.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern, _ in _VARIES))
_CLASSES = {name: stands_for for name, _, stands_for in _VARIES}
_QUOTES = frozenset({"single", "double", "back"})
_KEPT = frozenset({"errno"})  # An error's number is its name.
_STOP_WORDS = frozenset(
    {"the", "and", "for", "from", "with", "was", "has", "is", "to", "of", "in", "an", "at", "by", "on", "be", "it"}
)
_EXCEPTION = regex.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Warning)): ")
_OPPOSITES = (
    ("out of", "within"), ("No such", "Found the"), ("not found", "found"), ("cannot", "can"), ("Cannot", "Can"),
    ("can't", "can"), ("could not", "could"), ("Could not", "Could"), ("Unable to", "Able to"), ("unable to", "able to"),
    ("failed", "succeeded"), ("Failed", "Managed"), ("failure", "success"), ("denied", "granted"), ("refused", "accepted"),
    ("timed out", "in time"), ("timeout", "in time"), ("invalid", "valid"), ("Invalid", "Valid"), ("Error", "Notice"),
    ("error", "notice"), ("not ", ""), ("killed", "started"), ("Killed", "Started"),
)  # fmt: skip


class Undraftable(ValueError):
    """A line that makes no signature; str() says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person says of the line: its label (None for noise and recovery), role, and what a recovery clears."""

    label: str | None
    role: Role = Role.ROOT
    clears: tuple[str, ...] = ()
    stream: Stream = Stream.STDERR
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A signature and its YAML text."""

    signature: Signature
    text: str


def draft(line: str, wish: Wish, taken: Collection[str] = ()) -> Draft:
    """A draft of one raw log line whose id is not among `taken`.  Raises Undraftable."""
    shown, full = _shown(line), clean(line).text
    for pattern in (generalised(shown), generalised(shown, keep_quotes=True), _exact(shown)):
        pattern = pattern if full.startswith(shown) else pattern.removeprefix("^")
        if literal_length(pattern) < MIN_LITERAL and not pattern.startswith("^"):
            continue
        text = _yaml(pattern, shown, wish, _id_of(pattern, taken))
        signature = next(iter(read_signatures(text, "draft")))
        if regex.search(pattern, full) and not examine_alone(signature):
            return Draft(signature, text)
    raise Undraftable("nothing in this line is worth a pattern: choose one that names what happened")


def generalised(text: str, *, keep_quotes: bool = False) -> str:
    """The pattern of a clean text: varying parts as bounded classes, an exception's name anchored and without its module."""
    found = _EXCEPTION.match(text)
    parts = [rf"^(?:[\w.]{{1,200}}\.)?{regex.escape(found.group(1))}: "] if found else []
    at = found.end() if found else 0
    for token in _TOKENS.finditer(text, at):
        kind = str(token.lastgroup)
        if kind not in _KEPT and not (keep_quotes and kind in _QUOTES):
            parts += [_escaped(text[at : token.start()]), _CLASSES[kind]]
            at = token.end()
    parts.append(_escaped(text[at:]))
    parts = [part for part in parts if part]
    classes = set(_CLASSES.values())
    while parts and parts[-1] in classes and len(parts) > 1:  # A class at an edge says nothing.
        parts.pop()
    while parts and parts[0] in classes and len(parts) > 1:
        parts.pop(0)
    return "".join(parts).strip() or _exact(text)


def near_miss(text: str, pattern: str) -> str:
    """A line that looks like `text` and that the pattern must not match: its opposite, or only its beginning."""
    compiled = regex.compile(pattern)
    for word, opposite in _OPPOSITES:
        changed = text.replace(word, opposite)
        if changed != text and changed.strip() and not _matches(compiled, changed):
            return changed
    words = text.split(" ")
    for count in range(len(words) - 1, 0, -1):
        if not _matches(compiled, start := " ".join(words[:count])) and start.strip():
            return start
    return "0 errors found"


def _matches(pattern: regex.Pattern[str], line: str) -> bool:
    return pattern.search(clean(line).text) is not None


def _shown(line: str) -> str:
    text = clean(line).text
    if quoted(text, None):
        raise Undraftable(
            "this line repeats program text, which is never evidence: take the line that says what happened"
        )
    shown = redact(clean(text.strip()[:MAX_TEXT]).text).strip()
    if len(shown) < MIN_LITERAL:
        raise Undraftable("the line says too little after cleaning")
    return shown


def _exact(text: str) -> str:
    return f"^{_escaped(text)}" + ("$" if len(text) < MAX_TEXT else "")


def _escaped(text: str) -> str:
    return regex.sub(r"\\([-#&~])", r"\1", regex.escape(text, special_only=True, literal_spaces=True))  # type: ignore[no-any-return]


def _id_of(pattern: str, taken: Collection[str]) -> str:
    bare = regex.sub(r"\\.|\[(?:\\.|[^\]])*\]|\{\d+,?\d*\}|\(\?.|[?^$]", " ", pattern)
    words = [w.lower() for w in regex.findall(r"[A-Z]{2,}(?![a-z])|[A-Za-z][a-z]+", bare)]
    name = "-".join([w for w in words if w not in _STOP_WORDS][:MAX_ID_WORDS] or ["line"])
    numbered = (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3)))
    return next(n for n in numbered if n not in taken)


def _yaml(pattern: str, shown: str, wish: Wish, name: str) -> str:
    seen = f", first seen at {wish.origin}" if wish.origin else ""
    rows = [f"- id: {name}", "  version: 1", "  status: draft"]
    rows += [f"  label: {wish.label}"] if wish.label else []
    rows += [f"  role: {wish.role}", f"  why: {_quote(f'Say who prints it and what it means{seen}.')}"]
    rows += [f"  source: [{'stderr, stdout' if wish.stream in ('stderr', 'stdout') else wish.stream}]"]
    rows += [f"  pattern: {_quote(pattern)}", "  match:", f"  - {_quote(shown)}"]
    rows += ["  no_match:", f"  - {_quote(near_miss(shown, pattern))}"]
    rows += [f"  clears: [{', '.join(wish.clears)}]"] if wish.clears else []
    return "\n".join(rows) + "\n"


def _quote(text: str) -> str:
    quoted_text = yaml.safe_dump(text, default_style="'", width=1_000_000, allow_unicode=True)
    return str(quoted_text).strip()
