"""What the owner of the database does: tables, views, roles, monthly partitions, retention.

Rule: an upgrade is one transaction; it can be repeated, and two at once wait for each other.
Rule: dashboards read views and nothing else; a view is a file, made anew by every upgrade, with its grants.
Rule: what the migrating user may not do is left to somebody who may, in words that can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import DBAPIError

from services.store import engine
from services.store_tables import EVIDENCE, METADATA, VERDICT_REVISIONS

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VIEWS = sorted((MIGRATIONS / "views").glob("*.sql"))
OWNER, WRITER, READER = "exitsign_owner", "exitsign_writer", "exitsign_reader"
ROLES = {OWNER: "NOLOGIN", WRITER: "LOGIN", READER: "LOGIN"}
PARTITIONED = (VERDICT_REVISIONS.name, EVIDENCE.name)
AGED = {"verdicts": "decided_at", "attempts": "decided_at", "advice": "issued_at", "outcomes": "recorded_at"}
OLDEST_SERVER = 150_000
MONTHS_AHEAD = 3
MONTHS_BACK = 60
ROWS_AT_ONCE = 10_000
NEXT = "run `exitsign db upgrade`"


class DatabaseError(Exception):
    """Why the database can't be used or changed, in one line that names what to do."""


def upgrade(dsn: str, months_ahead: int = MONTHS_AHEAD) -> list[str]:
    """Bring tables, views, roles, grants and partitions up to date.

    Returns notes on what this user may not do (roles, say); raises DatabaseError, and then nothing has changed.
    """
    with _connected(dsn) as connection:
        alembic = _alembic()
        alembic.attributes["connection"] = connection
        command.upgrade(alembic, "head")
        ensure_partitions(connection, months_ahead)
        for view in VIEWS:
            _make_view(connection, view)
        return _roles(connection) + _grants(connection)


def check(dsn: str) -> list[str]:
    """What is missing, a line each with what to do; empty where all is in order.  Changes nothing, raises nothing."""
    try:
        with _connected(dsn) as connection:
            version = connection.scalar(text("SELECT current_setting('server_version_num')::int")) or 0
            if version < OLDEST_SERVER:
                return [f"Postgres {version // 10_000} is too old; exitsign needs 15 or newer"]
            behind = _behind(connection)
            return [behind] if behind else [*_missing_views(connection), *_missing_partitions(connection)]
    except DatabaseError as error:
        return [str(error)]


def ensure_partitions(connection: Connection, months_ahead: int) -> list[str]:
    """Make this month's partitions and those of the months ahead; their names.

    Rows that came before their month was made lie in the default partition, and are moved, their months made as well.
    """
    made = []
    this_month = connection.execute(text("SELECT now()")).scalar_one().astimezone(UTC).date().replace(day=1)
    for table in PARTITIONED:
        months = {_months_later(this_month, n) for n in range(months_ahead + 1)}
        oldest, newest = _months_later(this_month, -MONTHS_BACK), max(months)
        stray = text(f"SELECT DISTINCT date_trunc('month', decided_at AT TIME ZONE 'UTC')::date FROM {table}_default")
        months |= {month for month in connection.scalars(stray) if oldest <= month <= newest}
        made += [name for month in sorted(months) if (name := _make_partition(connection, table, month))]
    return made


def drop_before(connection: Connection, day: date) -> dict[str, int]:
    """Delete what was decided before `day` (UTC): rows deleted by table, 1 for a whole month's partition dropped.

    People's feedback stays.  A month that `day` cuts in two stays whole until its last day has passed.
    """
    gone: dict[str, int] = {}
    for table in PARTITIONED:
        for name in _partitions(connection, table):
            if name[-6:].isdigit() and _months_later(datetime.strptime(name[-6:], "%Y%m").date(), 1) <= day:  # noqa: DTZ007
                connection.execute(text(f"DROP TABLE {name}"))
                gone[name] = 1
    stray = {f"{table}_default": "decided_at" for table in PARTITIONED}
    for table, moment in {**stray, **AGED}.items():
        gone[table] = _delete_before(connection, table, moment, day)
    return gone


@contextmanager
def _connected(dsn: str) -> Iterator[Connection]:
    """One transaction; whatever goes wrong in it is a DatabaseError."""
    try:
        ours = engine(dsn)
    except ValueError as error:
        raise DatabaseError(f"{error}; set EXITSIGN_POSTGRES") from None
    try:
        with ours.begin() as connection:
            yield connection
    except (DBAPIError, psycopg.Error) as error:
        raise DatabaseError(_in_words(error.orig if isinstance(error, DBAPIError) else error, dsn)) from None
    finally:
        ours.dispose()


def _in_words(error: BaseException | None, dsn: str) -> str:
    said = str(error).strip().splitlines()[0]
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, psycopg.OperationalError) and (not state or state[:2] in ("08", "57", "28", "3D")):
        named = conninfo_to_dict(dsn)
        where = f"{named.get('host', 'the local socket')}:{named.get('port', 5432)}"
        return f"Postgres at {where} can't be used: {said}; start one with `exitsign stack up`, or set EXITSIGN_POSTGRES"
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
        return f"the database is busy ({said}); nothing was changed, {NEXT} again when it is quieter"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"{said}; {NEXT} as a member of {OWNER} or as the database's owner"
    if isinstance(error, psycopg.errors.DependentObjectsStillExist):
        return f"{said}; drop what depends on it ({str(error).splitlines()[1]}), then {NEXT} again"
    return f"{said}; nothing was changed"


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _make_view(connection: Connection, file: Path) -> None:
    """Replace the view in place where its columns allow it, so that grants and views built on it stay."""
    raw: Any = connection.connection.driver_connection
    try:
        with raw.transaction():
            raw.execute(file.read_text())
    except psycopg.errors.InvalidTableDefinition:
        raw.execute(f"DROP VIEW {file.stem}")
        raw.execute(file.read_text())


def _partitions(connection: Connection, table: str) -> list[str]:
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = CAST(:t AS regclass) ORDER BY 1"
    return list(connection.scalars(text(query), {"t": table}))


def _make_partition(connection: Connection, table: str, month: date) -> str | None:
    """The new partition's name, or None where it stands already."""
    name = f"{table}_{month:%Y%m}"
    if name in _partitions(connection, table):
        return None
    low, high = (f"'{day} 00:00:00+00'" for day in (month, _months_later(month, 1)))
    for statement in (
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        f"WITH moved AS (DELETE FROM {table}_default WHERE decided_at >= {low} AND decided_at < {high} RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM moved",
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({high})",
    ):
        connection.exec_driver_sql(statement)
    return name


def _delete_before(connection: Connection, table: str, moment: str, day: date) -> int:
    """In small steps, each within the statement time-out."""
    statement = text(
        f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}"
        f" WHERE {moment} < CAST(:day AS timestamp) AT TIME ZONE 'UTC' LIMIT {ROWS_AT_ONCE}))"
    )
    deleted = 0
    while step := connection.execute(statement, {"day": day}).rowcount:
        deleted += step
    return deleted


def _months_later(month: date, count: int) -> date:
    years, index = divmod(month.month - 1 + count, 12)
    return date(month.year + years, index + 1, 1)


def _existing(connection: Connection) -> set[str]:
    return set(connection.scalars(text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles)"), {"roles": [*ROLES]}))


def _roles(connection: Connection) -> list[str]:
    """Make the roles that are missing."""
    missing = [role for role in ROLES if role not in _existing(connection)]
    notes = [_permitted(connection, f"CREATE ROLE {role} {ROLES[role]}") for role in missing]
    if OWNER in missing:
        notes.append(_permitted(connection, f"GRANT {OWNER} TO CURRENT_USER"))
    return [note for note in notes if note]


def _grants(connection: Connection) -> list[str]:
    """Owner, writer and reader get what they need, and the reader its limits."""
    base, schema = connection.execute(text("SELECT quote_ident(current_database()), quote_ident(current_schema())")).one()
    tables, views = ", ".join(METADATA.tables), ", ".join(view.stem for view in VIEWS)
    wanted = {
        OWNER: [
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {OWNER}",
            *(f"ALTER TABLE {name} OWNER TO {OWNER}" for name in _mine(connection)),
        ],
        WRITER: [
            f"GRANT CONNECT, TEMPORARY ON DATABASE {base} TO {WRITER}",
            f"GRANT USAGE ON SCHEMA {schema} TO {WRITER}",
            f"GRANT SELECT, INSERT, UPDATE ON {tables} TO {WRITER}",
            f"GRANT DELETE ON {EVIDENCE.name} TO {WRITER}",
            f"GRANT SELECT ON alembic_version, {views} TO {WRITER}",
        ],
        READER: [
            f"GRANT CONNECT ON DATABASE {base} TO {READER}",
            f"GRANT USAGE ON SCHEMA {schema} TO {READER}",
            f"GRANT SELECT ON {views} TO {READER}",
            f"ALTER ROLE {READER} IN DATABASE {base} SET default_transaction_read_only = on",
            f"ALTER ROLE {READER} IN DATABASE {base} SET statement_timeout = '30s'",
        ],
    }
    notes = []
    for role in [role for role in wanted if role in _existing(connection)]:
        notes += [_permitted(connection, statement) for statement in wanted[role]]
    return [note for note in notes if note]
