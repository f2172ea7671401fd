"""One raw line -> clean text: what a signature's pattern sees.

Rule: cleaning is idempotent, never longer than its input, and never raises.
Rule: leading indentation stays, because it tells a traceback's source line from an exception.
Rule: text past MAX_CHARS keeps its head and its tail: the cause of a 10 MB line stands at one of its ends.
"""

from __future__ import annotations

from typing import NamedTuple

import regex

MAX_CHARS = 16_384
MAX_PREFIXES = 6
MAX_SEGMENTS = 64

_ANSI = regex.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

_DATE = r"(?:\d{4}[-/.]\d{2}[-/.]\d{2}|\d{2}/\d{2}/\d{2,4}|\d{2}/[A-Z][a-z]{2}/\d{4})"
_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,:]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_STAMP = rf"(?:{_DATE}[T _:-]{{1,2}}{_CLOCK}{_ZONE}|(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} [ \d]\d (?:\d{{4}} )?{_CLOCK}(?: [A-Z]{{2,5}})?(?: \d{{4}})?)"

# Each takes one shipper's or launcher's prefix off the front; tried again until none fits (at most MAX_PREFIXES).
_PREFIXES = tuple(
    regex.compile(pattern)
    for pattern in (
        rf"\[?{_STAMP}\]?(?:[:,|]? |:?$|(?=\[))(?:- )?",  # 2026-11-21T07:12:44.143+00:00 ...; [21/Nov/2026 07:12:44]
        rf"\[{_CLOCK}\] ",  # [07:12:44]
        r"(?:stdout|stderr) [FP] ",  # CRI, after its time
        r"\[\d{1,7},\d{1,6}\]<(?:stdout|stderr)>: ?",  # mpirun --tag-output
        r"\[\d{1,7},\d{1,6}\]\[[\w./:-]{1,80}\] ",  # Open MPI components: [1,3][btl_tcp.c:12:fn]
        r"\d{1,6},\d{1,6}<(?:stdout|stderr)>: ?",
        r"\[(?:default)?(?:[Rr]ank ?)?\d{1,6}\](?:: ?|(?<=rank ?\d{1,6}\]) )",  # [rank3]: [3]: [default0]:
        r"\[[Rr]ank[ :]?\d{1,6}\] ",
        r"(?:rank|Rank) ?\d{1,6}: ",
        r"\[(?:\d{1,4}[-/]){1,2}\d{1,4}\]: ?",
        r"\((?:[\w.:~-]{1,80} )?pid=\d{1,10}(?:, ip=[\w.:]{1,60})?\) ",  # Ray: (worker pid=12, ip=10.0.0.1)
        r"\((?:Engine\w{0,20}|APIServer|Worker|VllmWorker\w{0,20})(?:[_\w]{0,20})? pid=\d{1,10}\) ",
        r" {0,4}\d{1,5}: (?=\S)",  # srun --label, padded
        r"\[\s{0,8}\d{1,9}\.\d{6}\] ",  # kernel ring buffer
        r"kern {0,3}:[a-z]{2,6} {0,3}: ",  # dmesg -x
        r"(?:[A-Za-z][\w.-]{0,60} )?(?:kernel|slurmd|slurmctld|slurmdbd|systemd|dockerd|containerd|kubelet|mmfs|ntpd|sshd)(?:\[\d{1,10}\])?: ",
        r"[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d{3,9} {1,8}\d{1,10} [\w./-]{1,80}:\d{1,6}\] ",  # klog, glog
        r"\[[IWEF]\d{3,6} \d{2}:\d{2}:\d{2}\.\d{3,9} [\w./-]{1,80}:\d{1,6}\] ",  # c10: [E1121 07:12:44.143 File.cpp:12]
        r"\s{0,4}(?:[\w :()-]{0,60}: ?)?\d{1,3}%\|[^|]{0,300}\|[^\[]{0,60}\[[^\]]{0,80}\](?=\S)",  # tqdm without its line feed
        # pdsh, clush: host-12:  NB: not sqlite3.OperationalError: nor x509:, which are no hosts.
        r"(?!x509|sha\d|md5|utf|base64|amd64|arm64|python)(?:[a-z]{1,20}\d{2,6}|[a-z][a-z0-9-]{0,40}-[a-z]{0,8}\d{1,6})(?:\.[a-z][a-z0-9-]{0,40}){0,4}: (?=\S)",
    )
)
_LEVEL = regex.compile(
    r"(?:[\[(<|: -]|^)(TRACE|DEBUG|INFO|NOTICE|(?<!NCCL )WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE|[DIWEF](?=\d{3,6} \d\d:)|[IWEF](?= [\w./-]{1,80}:\d))(?:[\])>|: -]|(?<=[DIWEF])(?=\d| [\w./-]{1,80}:\d)|$)"
)
# NB: `NCCL WARN` is how NCCL writes its errors.
_GLOG_LEVEL = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "WARN": "WARNING"}

_FRAME = regex.compile(r'\s*File "[^"]{1,400}", line \d+')
_CODE = regex.compile(r"\s+(?:raise |assert |return |warnings\.warn\(|log(?:ger|ging)?\.|print\(|self\.|throw )")
_ECHO = regex.compile(r"\+{1,5} \S")


class CleanLine(NamedTuple):
    """Clean text, the rank and level that its prefixes told, and how many characters of the raw line came off in front."""

    text: str
    rank: int | None
    level: str | None
    cut: int


_RANK = regex.compile(
    r"\[(?:default|[Rr]ank ?)?(\d{1,6})\]: ?|\[\d{1,7},(\d{1,6})\]<|\d{1,6},(\d{1,6})<| {0,4}(\d{1,5}): |\[?[Rr]ank[ :]?(\d{1,6})"
)


def segments(text: str) -> list[str]:
    """The lines that a person would see one after the other: a carriage return starts a new one (progress bars)."""
    if "\r" not in text:
        return [text]
    return [part for part in text.split("\r") if part.strip()][-MAX_SEGMENTS:]


def bounded(text: str) -> str:
    """The text, or its first and last half of MAX_CHARS where it is longer."""
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return text[: half - 3] + "..." + text[len(text) - half :]


def clean(raw: str) -> CleanLine:
    """Clean text of one segment of a raw line (no line feed), without escape codes, time, rank, host and shipper prefixes."""
    text = bounded(raw)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub("", text).rstrip()
    full, rank = len(text), None
    level = level_of(text)
    for _ in range(MAX_PREFIXES):
        prefix = next((m for p in _PREFIXES if (m := p.match(text)) and m.end()), None)
        if prefix is None:
            break
        rank = rank if rank is not None else rank_of(prefix.group())
        text = text[prefix.end() :]
    return CleanLine(text, rank, level or level_of(text), full - len(text))


def rank_of(prefix: str) -> int | None:
    """The rank that a launcher's prefix names."""
    found = _RANK.match(prefix)
    return next((int(group) for group in found.groups() if group), None) if found else None


def level_of(text: str) -> str | None:
    """The log level that the first 100 characters state, in capitals (WARNING, not WARN)."""
    found = _LEVEL.search(text[:100])
    return _GLOG_LEVEL.get(found.group(1), found.group(1)) if found else None


def quoted(text: str, previous: str | None) -> bool:
    """True for a line that repeats program text: a shell's `set -x` echo, a traceback's source line or frame."""
    if _ECHO.match(text) or _FRAME.match(text):
        return True
    if text[:1] not in " \t":
        return False
    return bool(_CODE.match(text)) or (previous is not None and bool(_FRAME.match(previous)))
