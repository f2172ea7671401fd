"""Histories for the curator's commands: attempts of JSONL files, or plain logs, one attempt each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from classifiers.classification import Log
from classifiers.comparison import Attempt
from classifiers.exit_spec import ENDED_WELL
from classifiers.records import Stream
from services.cli.common import fail


class _Row(msgspec.Struct, kw_only=True):
    """One line of a history (CONTRACTS "Corpus format" and `classify --jsonl`); unknown keys are ignored."""

    id: str | int
    lines: list[str]
    stream: Stream = Stream.STDERR
    exit_code: int | None = None
    signal: int | None = None
    state: str | None = None
    reason: str | None = None
    category: str | None = None
    also: list[str] | str | None = None
    gpus: int | None = None
    run_s: float | None = None
    ended_at: float | None = None


def read_history(paths: Iterable[Path]) -> Iterator[tuple[Path, Attempt]]:
    """Every attempt of the files, in order; a file that can't be read ends the command with one line."""
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            fail(f"{path}: {error.strerror}; a history is a JSONL file or a log")
        text = data.decode("utf-8", "replace").replace("\0", "")
        if path.suffix == ".jsonl":
            yield from ((path, attempt) for attempt in _rows(path, text))
        else:
            yield path, Attempt(Log(id=str(path), lines=text.splitlines(), state="FAILED"))


def _rows(path: Path, text: str) -> Iterator[Attempt]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield _attempt(msgspec.json.decode(line, type=_Row))
            except (msgspec.DecodeError, RecursionError) as error:
                fail(f"{path}:{number}: not an attempt: {error}; each line needs id and lines")


def _attempt(row: _Row) -> Attempt:
    also = [row.also] if isinstance(row.also, str) else row.also or []
    log = Log(
        id=str(row.id),
        lines=row.lines,
        stream=row.stream,
        exit_code=0 if row.category == ENDED_WELL else row.exit_code,
        signal=row.signal,
        state=row.state,
        reason=row.reason,
    )
    accepted = frozenset([row.category, *also]) if row.category else frozenset()
    return Attempt(log, row.gpus, row.run_s, accepted, row.ended_at)
