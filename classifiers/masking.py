"""One clean line -> the text that the fallback learns from: what varies between two runs of one failure is masked.

Rule: masking never raises, and gives at most MAX_CHARS characters on one line.
Rule: a number that names the failure (exit code 137, signal 9, Xid 79, errno 28) stays; every other one is `#`.
"""

from __future__ import annotations

import re

MAX_CHARS = 480
_HEAD = 320

_PARTS = re.compile(
    r"""(?xi)
    (?P<kept>\b(?:exit(?:ed|\ with)?(?:\ (?:code|status))?|code|status|signal|xid|errno|error|sig|sxid|http|http/1\.\d)
        [\s:=(\[]{0,3}\#?-?\d{1,3}\b(?![.\d]\d))
    | (?P<url>\b[a-z][a-z0-9+.-]{1,10}://[^\s'"<>)\]]{1,2000})
    | (?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\bsha256:[0-9a-f]{8,64})
    | (?P<device>(?<![\w.])/(?:dev|proc|sys)/[a-z]{1,20})\d{0,4}
    | (?P<path>(?<![\w<.])(?:~|\.{1,2}|[a-z]:)?(?:[/\\][\w.@%+=~-]{1,200}){1,40}[/\\]?(?<![.]))
    | (?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d{1,5})?\b|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b)
    | (?P<bus>\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?\b)
    | (?P<hex>\b0x[0-9a-f]{1,32}\b|\b(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]{7,64}\b)
    | (?P<host>\b(?:[a-z]{1,20}\d{2,6}|[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,20}){0,5}-\d{1,6})(?:\.[a-z][a-z0-9-]{0,40}){0,5}\b)
    | (?P<number>\d[\d,]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)
    """
)
_SUFFIX = re.compile(r"\.[A-Za-z]{1,11}$")
_SPACE = re.compile(r"\s+")
_QUOTED = re.compile(r"'[^']{0,200}'|\"[^\"]{0,200}\"|`[^`]{0,200}`")
_QUIET = re.compile(r"[^a-z]+")
_WORDS_WITH_NUMBERS = frozenset({"int32", "int64", "float16", "float32", "float64", "uint16", "uint32", "uint64"})


def masked(text: str) -> str:
    """The text with numbers, hex, paths, hosts, addresses and ids masked, and runs of blanks made one."""
    text = _SPACE.sub(" ", text).strip()
    if len(text) > MAX_CHARS:
        text = text[:_HEAD] + " ... " + text[len(text) - (MAX_CHARS - _HEAD - 5) :]
    return str(_PARTS.sub(_mask, text))[:MAX_CHARS]


def template(text: str) -> str:
    """What near-duplicates share: the masked text without case, quotes' contents and punctuation."""
    return _SPACE.sub(" ", _QUIET.sub(" ", _QUOTED.sub(" ", masked(text).lower()))).strip()


def _mask(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found.group()
    if kind in ("kept", "device"):
        return found.group(kind)
    if kind == "path":
        suffix = _SUFFIX.search(text)
        return "<path>" + (suffix.group().lower() if suffix else "")
    if kind == "url":
        return f"{text.partition(':')[0]}://<url>"
    if kind == "host" and (text.lower() in _WORDS_WITH_NUMBERS or ("." not in text and not text[-1].isdigit())):
        return text
    return "#" if kind == "number" else f"<{kind}>"
