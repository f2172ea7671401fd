"""What people said of attempts, as a file: JSON lines that the fallback learns from.

Rule: a row that can't be used is named by file and line, and nothing of the file is learned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from classifiers.classification import Log
from classifiers.exit_spec import ExitSpec
from classifiers.records import Stream
from services.evaluation import CorpusError, Sample


def read_feedback(path: Path, spec: ExitSpec) -> list[Sample]:
    """People's labels, JSON lines of {"lines", "label", "id"?, exit facts?}.  Raises CorpusError with file and line."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from None
    samples = []
    for number, text in enumerate(texts, 1):
        if text.strip():
            try:
                samples.append(_said(json.loads(text), f"{path}:{number}"))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CorpusError(f"{path}:{number}: not feedback (needs lines and label): {error!r}") from None
            if samples[-1].label not in spec:
                raise CorpusError(f"{path}:{number}: label {samples[-1].label} is not in the exit spec")
    return samples


def _said(row: dict[str, Any], place: str) -> Sample:
    name = str(row.get("id", place))
    log = Log(
        id=name,
        lines=[str(line) for line in row["lines"]],
        stream=Stream(row.get("stream", "stderr")),
        exit_code=row.get("exit_code"),
        signal=row.get("signal"),
        state=row.get("state"),
        reason=row.get("reason"),
    )
    root = row.get("root_cause_line")
    if root is not None and not 0 <= root < len(log.lines):
        raise ValueError(f"root_cause_line {root} is not one of {len(log.lines)} lines")
    return Sample(log=log, label=row["label"], also=(), project=name, root_line=root)
