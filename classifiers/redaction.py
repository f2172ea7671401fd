"""Secrets out of text before it leaves the scanner.

Rule: redaction never lengthens text by more than the mark, and never fails.
Rule: when in doubt the value goes and its name stays, so that a person still sees what was there.

The rule form (a cheap keyword gate, then patterns) follows gitleaks.
"""

from __future__ import annotations

import regex

MARK = "[REDACTED]"

_GATE = regex.compile(
    r"(?i)pass|secret|token|api.?key|credential|authorization|bearer|akia|asia|gh[pousr]_|glpat-|hf_|sk-|xox|eyj|-----begin|://[^/\s:@]{1,100}:|private.?key|access.?key|signature=|wandb|aws_|aiza"
)
_NAMED = regex.compile(
    r"""(?ix)
    (\b[\w.-]{0,40}(?:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?|authorization|x-amz-signature|signature|wandb_api_key)["']?\s{0,3}(?:=|:|=>)\s{0,3})
    (?!\s|["']?(?:none|null|true|false|missing|not\ |is\ |required|invalid|\[REDACTED\]))
    (?:(?:bearer|basic)\s+)?(?:"[^"]{3,4096}"|'[^']{3,4096}'|[^\s"',;&}\])]{3,4096})"""
)
_SHAPES = tuple(
    regex.compile(pattern)
    for pattern in (
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{20,255}\b",
        r"\bgithub_pat_\w{20,255}\b",
        r"\bglpat-[\w-]{20,64}\b",
        r"\bhf_[A-Za-z0-9]{20,64}\b",
        r"\bsk-(?:[a-z]{2,10}-)?[\w-]{20,200}\b",
        r"\bxox[abposr]-[\w-]{10,200}\b",
        r"\bAIza[\w-]{35}\b",
        r"\beyJ[\w-]{10,4000}\.[\w-]{10,4000}(?:\.[\w-]{0,4000})?",
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?",
        r"(?i)(?<=\bbearer )[\w.~+/=-]{8,4096}",
        r"(?<=://[^/\s:@]{1,100}:)[^@/\s]{1,200}(?=@)",
    )
)


def redact(text: str) -> str:
    """The text with passwords, tokens, keys and credentials in URLs replaced by MARK."""
    if not _GATE.search(text):
        return text
    text = _NAMED.sub(lambda found: found.group(1) + MARK, text)
    for shape in _SHAPES:
        text = shape.sub(MARK, text)
    return text
