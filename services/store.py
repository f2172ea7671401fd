"""The store: every statement that writes verdicts, advice, outcomes and feedback.

Rule: a batch is one transaction; writing it again, in another order or in other batches, ends in the same rows.
Rule: an older revision never overwrites a newer one, and a duplicate changes no row at all.
Rule: only what is a record's own fault is StoreRejected; everything else is StoreUnavailable, so nothing is set aside
because the database was misconfigured, not migrated or full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Table,
    TableClause,
    Text,
    create_engine,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy import column as named
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from classifiers.records import Advice, Feedback, Outcome, Verdict
from services import store_rows as of
from services.store_rows import Row
from services.store_tables import (
    ADVICE,
    ATTEMPTS,
    EVIDENCE,
    FEEDBACK,
    OUTCOMES,
    VERDICT_REVISIONS,
    VERDICTS,
    WRITTEN,
)

Record = Verdict | Advice | Outcome | Feedback

# What makes one row newer than another of the same key; rows alike in it are alike.
NEWER = {
    ATTEMPTS: ("revision", "decided_at"),
    VERDICTS: ("revision", "decided_at"),
    VERDICT_REVISIONS: (),
    ADVICE: ("issued_at",),
    OUTCOMES: ("time", "applied", "why"),
    FEEDBACK: ("time", "label", "note", "by"),
}
TOO_LONG_FOR_INDEX = "54000"
# A host that vanishes without a word is noticed within half a minute, not after the kernel's two hours.
PATIENCE = {
    "application_name": "exitsign",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
GUARDS = text("SELECT set_config('lock_timeout', '4s', true), set_config('statement_timeout', '60s', true)")
OLD_EVIDENCE = text(
    "DELETE FROM evidence USING unnest(CAST(:clusters AS text[]), CAST(:jobs AS text[]), CAST(:attempts AS int[]))"
    " AS decided (cluster, job_id, attempt) WHERE evidence.cluster = decided.cluster"
    " AND evidence.job_id = decided.job_id AND evidence.attempt = decided.attempt"
)


class StoreUnavailable(Exception):
    """The database can't take anything now: wait, and write the same batch again."""


class StoreRejected(Exception):
    """The database can never take this record: leave it out, and write the batch again."""

    def __init__(self, record: Record, reason: str) -> None:
        super().__init__(reason)
        self.record, self.reason = record, reason


class _Refused(Exception):
    """Something in a transaction can never be stored; which record it is remains to be found."""


class Store:
    """The database at `dsn`, for as many threads as write at once.  Raises ValueError where the DSN can't be read."""

    def __init__(self, dsn: str) -> None:
        self._engine = engine(dsn)

    def write(self, batch: Sequence[Record]) -> None:
        """Store a batch in one transaction.

        Raises StoreUnavailable where nothing more can be stored now, and StoreRejected for the first record found that
        never can; the rest has landed then, unless it holds another such record: write again without the first.
        """
        waiting = [batch]
        rejected: StoreRejected | None = None
        while waiting:
            part = waiting.pop()
            try:
                self._commit(part)
            except _Refused as refused:
                if len(part) == 1:
                    rejected = rejected or StoreRejected(part[0], str(refused))
                elif rejected is None:  # NB: later parts get one try only, else a batch of bad records takes hours.
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
        if rejected:
            raise rejected

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _commit(self, records: Sequence[Record]) -> None:
        try:
            clean = [of.storable(record) for record in records]
            with self._engine.begin() as connection:
                connection.execute(GUARDS)
                _write_verdicts(connection, [r for r in clean if isinstance(r, Verdict)])
                _merge(connection, ADVICE, [of.advice_row(r) for r in clean if isinstance(r, Advice)])
                _merge(connection, OUTCOMES, [of.outcome_row(r) for r in clean if isinstance(r, Outcome)])
                _merge(connection, FEEDBACK, [of.feedback_row(r) for r in clean if isinstance(r, Feedback)])
        except (SQLAlchemyError, psycopg.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            if _is_of_a_record(cause):
                raise _Refused(_first_line(cause)) from None
            self._engine.dispose()
            raise StoreUnavailable(_first_line(cause)) from None
        except (ValueError, OverflowError) as error:
            raise _Refused(_first_line(error)) from None


def engine(dsn: str) -> Engine:
    """Connections to `dsn`, in any form that libpq reads.  Raises ValueError, without the DSN's secrets."""
    plain = dsn.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        given = conninfo_to_dict(plain)
    except psycopg.ProgrammingError:
        raise ValueError(
            "can't read the DSN of Postgres; its form is postgresql://user:password@host:port/db"
        ) from None
    target = make_conninfo(plain, **{name: value for name, value in PATIENCE.items() if name not in given})
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(target), pool_pre_ping=True)


def _write_verdicts(connection: Connection, verdicts: Sequence[Verdict]) -> None:
    """The newest revision makes the attempt's row, verdict and evidence; the history takes every revision."""
    rows = [of.verdict_row(verdict) for verdict in verdicts]
    _merge(connection, ATTEMPTS, [of.attempt_row(verdict) for verdict in verdicts])
    decided = {id(row) for row in _merge(connection, VERDICTS, rows)}
    _merge(connection, VERDICT_REVISIONS, rows)
    if not decided:
        return
    newest = [verdict for row, verdict in zip(rows, verdicts, strict=True) if id(row) in decided]
    keys = {
        "clusters": [v.facts.cluster for v in newest],
        "jobs": [v.facts.job_id for v in newest],
        "attempts": [v.attempt for v in newest],
    }
    connection.execute(OLD_EVIDENCE, keys)
    _copy(connection, EVIDENCE.name, WRITTEN[EVIDENCE], (row for v in newest for row in of.evidence_rows(v)))


def _merge(connection: Connection, table: Table, rows: Iterable[Row]) -> list[Row]:
    """Insert rows, and replace those that are older; the rows that changed the table."""
    newest: dict[tuple[Any, ...], Row] = {}
    names = [c.name for c in table.primary_key]
    for row in rows:
        key = tuple(row[name] for name in names)
        if key not in newest or _age(table, row) > _age(table, newest[key]):
            newest[key] = row
    if not newest:
        return []
    incoming = f"incoming_{table.name}"
    connection.execute(
        text(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} (LIKE {table.name} INCLUDING DEFAULTS)"
            " ON COMMIT DELETE ROWS"
        )
    )
    # In the order of keys, so that two writers wait for each other and never lock up.
    _copy(connection, incoming, WRITTEN[table], (newest[key] for key in sorted(newest)))
    changed = connection.execute(_merging(table, incoming))
    return [newest[tuple(key)] for key in changed]


def _merging(table: Table, incoming: str) -> Executable:
    """INSERT ... SELECT ... ON CONFLICT for one table, returning the keys of the rows it changed."""
    source = TableClause(incoming, *map(named, WRITTEN[table]))
    statement = insert(table).from_select(list(WRITTEN[table]), select(source))
    keys = list(table.primary_key)
    if not NEWER[table]:
        return statement.on_conflict_do_nothing(index_elements=keys).returning(*keys)
    fresh = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=keys,
        set_={name: fresh[name] for name in WRITTEN[table] if name not in table.primary_key},
        where=_order(table, fresh) > _order(table, table.c),
    ).returning(*keys)


def _order(table: Table, columns: Any) -> Any:
    """The order of NEWER in SQL; text by code point, as Python compares it."""
    return tuple_(*(_sortable(columns[name], nullable=bool(table.c[name].nullable)) for name in NEWER[table]))


def _sortable(value: ColumnElement[Any], *, nullable: bool) -> ColumnElement[Any]:
    if nullable:
        return func.coalesce(value, text("'-infinity'::timestamptz"))
    return value.collate("C") if isinstance(value.type, Text) else value


def _age(table: Table, row: Row) -> tuple[tuple[bool, Any], ...]:
    return tuple((row[name] is not None, row[name]) for name in NEWER[table])


def _copy(connection: Connection, target: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    raw: Any = connection.connection.driver_connection
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(target), names)
    with raw.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row([row[name] for name in columns])


def _is_of_a_record(error: BaseException | None) -> bool:
    """True where the values are at fault, not the state of the database."""
    too_long = isinstance(error, psycopg.Error) and error.sqlstate == TOO_LONG_FOR_INDEX
    return too_long or isinstance(error, psycopg.DataError | psycopg.IntegrityError)


def _first_line(error: BaseException | None) -> str:
    """What went wrong, and what to do where that is known."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    unmigrated = isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn)
    return f"{said}; run `exitsign db upgrade`" if unmigrated else said
