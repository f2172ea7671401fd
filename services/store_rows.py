"""Records -> rows: what each table keeps of a verdict, a piece of advice, an outcome, a person's word.

Rule: text is stored as Postgres can hold it; a time that no calendar holds is NULL where the column may be.
Rule: a record that lacks what its key needs is a ValueError that names the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Table

from classifiers.records import Advice, Feedback, Outcome, Verdict
from services.store_tables import ADVICE, ATTEMPTS, EVIDENCE, FEEDBACK, OUTCOMES, VERDICT_REVISIONS, WRITTEN

Row = dict[str, Any]
R = TypeVar("R", bound=msgspec.Struct)
AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def storable(record: R) -> R:
    """The record with what Postgres can't hold in text replaced: NUL by U+FFFD, a lone surrogate by `?`."""
    try:
        if b"\\u0000" not in msgspec.json.encode(record):
            return record
    except UnicodeEncodeError:
        pass
    return msgspec.convert(_cleaned(msgspec.to_builtins(record)), type(record))


def verdict_row(verdict: Verdict) -> Row:
    """The row of `verdict_revisions`; that of `verdicts` is the same without the ranking."""
    return _row(VERDICT_REVISIONS, verdict, **_key(verdict), **_signature(verdict))


def attempt_row(verdict: Verdict) -> Row:
    """The row of `attempts`: the exit facts as this revision knows them."""
    facts = verdict.facts
    started_at, ended_at = moment(facts.started_at), moment(facts.ended_at)
    run_s = max(0.0, (ended_at - started_at).total_seconds()) if started_at and ended_at else None
    gpu_seconds = None if facts.gpus is None or run_s is None else facts.gpus * run_s
    times = {"started_at": started_at, "ended_at": ended_at, "gpu_seconds": gpu_seconds}
    return _row(ATTEMPTS, facts, **_key(verdict), **times, user_name=facts.user)


def evidence_rows(verdict: Verdict) -> Iterator[Row]:
    """The rows of `evidence`: the ranking line by line, place 1 first; only the deciding signature's version is known."""
    winner, key = verdict.signature, _key(verdict)
    for place, line in enumerate(verdict.ranking, 1):
        yield _row(
            EVIDENCE,
            line,
            **key,
            place=place,
            signature_id=line.signature,
            signature_version=winner.version if winner and winner.id == line.signature else None,
            topic=line.position.topic,
            partition=line.position.partition,
            record_offset=line.position.offset,
            line_index=line.position.index,
            time=moment(line.time),
        )


def advice_row(advice: Advice) -> Row:
    """The row of `advice`."""
    times = {name: _instant(getattr(advice, name), name) for name in ("issued_at", "expires_at")}
    return _row(ADVICE, advice, **times, **_signature(advice))


def outcome_row(outcome: Outcome) -> Row:
    """The row of `outcomes`."""
    return _row(OUTCOMES, outcome, time=moment(outcome.time))


def feedback_row(feedback: Feedback) -> Row:
    """The row of `feedback`."""
    return _row(FEEDBACK, feedback, time=moment(feedback.time))


def moment(seconds: float | None) -> datetime | None:
    """The time of seconds since the epoch; None for None, infinities, NaN and what lies outside the years 1 to 9999."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _instant(printed: str, name: str) -> datetime:
    """The time of an RFC 3339 text; without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(printed)
    except ValueError:
        raise ValueError(f"{name} {printed[:40]!r} is not a time (RFC 3339)") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _key(verdict: Verdict) -> Row:
    """What names one revision in every table of a verdict."""
    decided_at = moment(verdict.decided_at)
    if decided_at is None:
        raise ValueError(f"decided_at {verdict.decided_at} is not a time (seconds since the epoch)")
    facts = verdict.facts
    names = {"cluster": facts.cluster, "job_id": facts.job_id, "attempt": verdict.attempt}
    return {**names, "revision": verdict.revision, "decided_at": decided_at}


def _signature(record: Verdict | Advice) -> Row:
    decided = record.signature
    return {"signature_id": decided and decided.id, "signature_version": decided and decided.version}


def _row(table: Table, record: msgspec.Struct, **given: Any) -> Row:
    """A value for every column: the given one, or the record's field of that name."""
    return {name: given[name] if name in given else _plain(getattr(record, name)) for name in WRITTEN[table]}


def _plain(value: Any) -> Any:
    """A field as COPY takes it: enums by value, tuples of text as arrays, structures as JSON."""
    if type(value) in AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        return list(value)
    return msgspec.json.encode(value).decode()


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(part) for name, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list | tuple) else value
