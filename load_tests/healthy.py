"""How often healthy lines of real systems give failure evidence: `python -m load_tests.healthy ../shared/corpus/loghub`.

Rule: lines that the data set marks as alerts, and the line ranges that its README says hold failures, are left out.

The data are Loghub's 2k samples (He et al., ISSRE'23), read where they are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from classifiers.context import context_of
from classifiers.matching import Matcher
from classifiers.records import LogLine, Position, Role, Stream
from services.evaluation import read_corpus
from services.signature_files import PACKAGED, load_matcher

# Ranges (1-based, inclusive) that the corpus' README names as failures.
FAILURES = {
    "BGL": [(360, 366), (818, 828), (1026, 1034), (1370, 1392), (1517, 1525), (1777, 1783)],
    "HPC": [(307, 320), (378, 390)],
    "HDFS": [(70, 90)],
    "Hadoop": [(900, 1060)],
}
SILENT = frozenset({Role.NOISE, Role.RECOVERY})


def healthy_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of the lines of one file that nothing marks as a failure."""
    system = path.parent.name
    for number, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
        alert = system in ("BGL", "Thunderbird") and not text.startswith("- ")
        if not alert and not any(low <= number <= high for low, high in FAILURES.get(system, [])):
            yield number, text


def main() -> int:
    """Print hits by system and signature, and what context costs; the exit status is 1 past 1 hit in 10,000 lines."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/corpus/loghub")
    files = sorted(folder.glob("*/*.log"))
    if not files:
        print(f"{folder}: no */*.log there; give the folder of Loghub's samples")
        return 2
    matcher, lines, hits, bytes_kept = load_matcher(PACKAGED), 0, 0, 0
    for path in files:
        texts = [text for _, text in healthy_lines(path)]
        found, kept = _scan(texts, matcher)
        lines, hits, bytes_kept = lines + len(texts), hits + found.total(), bytes_kept + kept
        named = ", ".join(f"{name} {n}" for name, n in found.most_common(5))
        print(f"{path.parent.name:<12} {len(texts):>6} lines {found.total():>5} hits {kept:>8} context bytes  {named}")
    print(f"{'all':<12} {lines:>6} lines {hits:>5} hits  1 in {lines // max(hits, 1)}")
    print(
        f"context: {bytes_kept * 1_000_000 // lines / 1e6:.1f} MB for a million such lines, before the bound of each batch"
    )
    corpus = folder.parent / "dev.jsonl"
    if corpus.exists():
        sizes = sorted(sum(map(len, context_of(matcher, s.log.lines, s.log.stream))) for s in read_corpus(corpus))
        print(f"context of a failed attempt: {sizes[len(sizes) // 2]} bytes in the median, {sizes[-1]} at most")
    return 1 if hits * 10_000 > lines else 0


def _scan(texts: list[str], matcher: Matcher) -> tuple[Counter[str], int]:
    """(hits by signature, bytes of context) of one file."""
    lines = [
        LogLine(
            cluster="",
            job_id="",
            text=text,
            stream=Stream.SCHEDULER,
            position=Position("", 0, number),
            appended_at=0.0,
        )
        for number, text in enumerate(texts)
    ]
    found = Counter(e.signature for e in matcher.scan(lines) if e.role not in SILENT)
    candidates = matcher.hits([text.encode("utf-8", "replace") for text in texts])
    kept = (matcher.context(lines[index], indexes) for (index, _), indexes in candidates.items())
    return found, sum(len(text) for text in kept if text)


if __name__ == "__main__":
    sys.exit(main())
