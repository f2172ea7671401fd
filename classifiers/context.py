"""What the scanner keeps of an attempt that no signature explains, for logs that are read whole.

Rule: only clean, redacted, bounded text comes out, in the order of the log, each line once.
Rule: lines that look like failure come first when room is short, the first and the last of them; then the tail.
"""

from __future__ import annotations

from collections.abc import Sequence

from classifiers.lines import clean, quoted, segments
from classifiers.matching import MAX_TEXT, Matcher
from classifiers.records import LogLine, Position, Stream
from classifiers.redaction import redact

TAIL = 5


def context_of(
    matcher: Matcher, lines: Sequence[str], stream: Stream = Stream.STDERR, bound: int = 40, tail: int = TAIL
) -> list[str]:
    """At most `bound` failure-like lines (first and last halves) and the last `tail` lines of one stream."""
    hits: dict[int, set[int]] = {}
    for (number, _), found in matcher.hits([line.encode("utf-8", "replace") for line in lines]).items():
        hits.setdefault(number, set()).update(found)
    failing = [n for n in sorted(hits) if not quoted(clean(lines[n]).text, _before(lines, n))]
    texts = {n: text for n in failing if (text := matcher.context(_line(lines[n], n, stream), hits[n]))}
    numbers = list(texts)
    if len(numbers) > bound:
        numbers = numbers[: bound // 2] + numbers[len(numbers) - (bound - bound // 2) :]
    kept = {n: texts[n] for n in numbers}
    kept.update({n: text for n, text in tail_of(lines, tail).items() if n not in hits})
    return list(dict.fromkeys(kept[n] for n in sorted(kept)))


def tail_of(lines: Sequence[str], count: int = TAIL) -> dict[int, str]:
    """{line number: clean redacted text} of the last `count` lines that say something and are no program text."""
    found: dict[int, str] = {}
    for number in range(len(lines) - 1, max(-1, len(lines) - 1 - 4 * count), -1):
        parts = segments(lines[number])
        text = clean(parts[-1]).text if parts else ""
        if text.strip() and not quoted(text, _before(lines, number)) and len(found) < count:
            found[number] = redact(text)[:MAX_TEXT]
    return found


def _before(lines: Sequence[str], number: int) -> str | None:
    return clean(lines[number - 1]).text if number else None


def _line(text: str, number: int, stream: Stream) -> LogLine:
    place = Position("", 0, number)
    return LogLine(cluster="", job_id="", text=text, stream=stream, position=place, appended_at=0.0)
