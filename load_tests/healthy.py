"""How often healthy lines of real systems give failure evidence: `python -m load_tests.healthy ../shared/corpus/loghub`.

Rule: lines that the data set marks as alerts, and the line ranges that its README says hold failures, are left out.

The data are Loghub's 2k samples (He et al., ISSRE'23), read where they are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from classifiers.matching import Matcher
from classifiers.records import LogLine, Position, Role, Stream
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
    """Print hits by system and signature; the exit status is 1 where they pass 1 in 10,000."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/corpus/loghub")
    files = sorted(folder.glob("*/*.log"))
    if not files:
        print(f"{folder}: no */*.log there; give the folder of Loghub's samples")
        return 2
    matcher, lines, hits = load_matcher(PACKAGED), 0, 0
    for path in files:
        count, found = _scan(path, matcher)
        lines, hits = lines + count, hits + found.total()
        named = ", ".join(f"{name} {n}" for name, n in found.most_common(5))
        print(f"{path.parent.name:<12} {count:>6} lines {found.total():>5} hits  {named}")
    print(f"{'all':<12} {lines:>6} lines {hits:>5} hits  1 in {lines // max(hits, 1)}")
    return 1 if hits * 10_000 > lines else 0


def _scan(path: Path, matcher: Matcher) -> tuple[int, Counter[str]]:
    numbered = list(healthy_lines(path))
    lines = [
        LogLine(
            cluster="",
            job_id="",
            text=text,
            stream=Stream.SCHEDULER,
            position=Position("", 0, number),
            appended_at=0.0,
        )
        for number, text in numbered
    ]
    return len(lines), Counter(e.signature for e in matcher.scan(lines) if e.role not in SILENT)


if __name__ == "__main__":
    sys.exit(main())
