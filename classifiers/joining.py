"""Lines that a container runtime split at its buffer's border -> whole lines.

Rule: parts are joined within one stream of one rank and one batch; a part whose rest is not there stands for itself.
Rule: a joined line stands where its last part stood, and is never longer than MAX_JOINED.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from classifiers.lines import MAX_CHARS
from classifiers.records import LogLine

MAX_JOINED = 4 * MAX_CHARS


def joined(lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines with every run of partial ones made into one, in their order."""
    if not any(line.partial for line in lines):
        return list(lines)
    whole: list[LogLine] = []
    waiting: dict[tuple[object, ...], LogLine] = {}
    for line in lines:
        key = (line.cluster, line.job_id, line.ref, line.rank, line.node, line.stream)
        if (head := waiting.pop(key, None)) is not None:
            line = msgspec.structs.replace(line, text=(head.text + line.text)[:MAX_JOINED])
        if line.partial:
            waiting[key] = line
        else:
            whole.append(line)
    return whole + list(waiting.values())
