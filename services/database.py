"""What the owner of the database does: tables, views, roles and grants, partitions ahead; and the check of all that.

Rule: an upgrade is one transaction; it can be repeated, and two at once wait for each other.
Rule: dashboards read views and nothing else; a view is a file, made anew by every upgrade, with its grants.
Rule: what the migrating user may not do is left to somebody who may, in words that can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from services.store import engine
from services.store_partitions import PARTITIONED, ensure_partitions, missing_partitions, partitions
from services.store_tables import EVIDENCE, METADATA

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VIEWS = {file.stem: file for file in sorted((MIGRATIONS / "views").glob("*.sql"))}
OWNER, WRITER, READER = "exitsign_owner", "exitsign_writer", "exitsign_reader"
ROLES = {OWNER: "NOLOGIN", WRITER: "LOGIN", READER: "LOGIN"}
OLDEST_SERVER = 150_000
MONTHS_AHEAD = 3
NEXT = "run `exitsign db upgrade`"


class DatabaseError(Exception):
    """Why the database can't be used or changed, in one line that names what to do."""


def upgrade(dsn: str, months_ahead: int = MONTHS_AHEAD) -> list[str]:
    """Bring tables, views, roles, grants and partitions up to date.

    Returns notes on what this user may not do (make roles, say).  Raises DatabaseError, and then nothing has changed.
    """
    with _connected(dsn) as connection:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        ensure_partitions(connection, months_ahead)
        for file in VIEWS.values():
            _make_view(connection, file)
        return _make_roles(connection) + _grant(connection)


def check(dsn: str) -> list[str]:
    """What is missing, a line each with what to do; empty where all is in order.  Changes nothing, raises nothing."""
    try:
        with _connected(dsn) as connection:
            version = connection.scalar(text("SELECT current_setting('server_version_num')::int")) or 0
            if version < OLDEST_SERVER:
                return [f"Postgres {version // 10_000} is too old; exitsign needs 15 or newer"]
            encoding = connection.scalar(text("SELECT current_setting('server_encoding')"))
            if encoding != "UTF8":
                return [f"the database's encoding is {encoding}; exitsign needs one made with ENCODING 'UTF8'"]
            if behind := _behind(connection):
                return [behind]
            lacking = [f"partition {name} is missing; {NEXT}" for name in missing_partitions(connection)]
            return [*_view_problems(connection), *lacking, *_role_problems(connection)]
    except DatabaseError as error:
        return [str(error)]


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
    said = str(error).strip().splitlines() or [type(error).__name__]
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, psycopg.OperationalError) and (not state or state[:2] in ("08", "28", "3D")):
        named = conninfo_to_dict(dsn)
        where = f"{named.get('host', 'the local socket')}:{named.get('port', 5432)}"
        return f"can't use Postgres at {where}: {said[0]}; start one with `exitsign stack up`, or set EXITSIGN_POSTGRES"
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
        return f"the database is busy ({said[0]}); nothing was changed: {NEXT} again when it is quieter"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"{said[0]}; {NEXT} as a member of {OWNER} or as the owner of the database"
    if isinstance(error, psycopg.errors.DependentObjectsStillExist):
        return f"{'; '.join(said[:2])}; drop what depends on it, then {NEXT} again"
    return f"{said[0]}; nothing was changed"


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _behind(connection: Connection) -> str | None:
    """Why the tables are not those of this program, or None."""
    head = ScriptDirectory.from_config(_alembic()).get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current == head:
        return None
    known = {script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions()}
    if current and current not in known:
        return f"the tables are of a newer exitsign (revision {current}, this one knows {head}); update exitsign"
    return f"the tables are at revision {current or 'none'}, this exitsign needs {head}; {NEXT}"


def _make_view(connection: Connection, file: Path) -> None:
    """Replace the view in place where its columns allow it: its grants and the views that people built on it stay."""
    raw: Any = connection.connection.driver_connection
    statements = file.read_text()
    try:
        with raw.transaction():
            raw.execute(statements)
    except psycopg.errors.InvalidTableDefinition:
        raw.execute(f"DROP VIEW {file.stem}")
        raw.execute(statements)


def _existing_roles(connection: Connection) -> list[str]:
    query = text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles) ORDER BY 1")
    return list(connection.scalars(query, {"roles": list(ROLES)}))


def _make_roles(connection: Connection) -> list[str]:
    """Make the roles that are missing, without passwords; notes."""
    existing = _existing_roles(connection)
    notes = _permitted(connection, [f"CREATE ROLE {role} {ROLES[role]}" for role in ROLES if role not in existing])
    if OWNER in set(_existing_roles(connection)) - set(existing):
        notes += _permitted(connection, [f"GRANT {OWNER} TO CURRENT_USER"])
    return notes


def _grant(connection: Connection) -> list[str]:
    """Give owner, writer and reader what they need, and the reader its limits; notes."""
    base, schema = connection.execute(
        text("SELECT quote_ident(current_database()), quote_ident(current_schema())")
    ).one()
    tables, views = ", ".join(METADATA.tables), ", ".join(VIEWS)
    wanted = {
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
    existing = _existing_roles(connection)
    notes = _permitted(connection, [s for role in wanted if role in existing for s in wanted[role]])
    if OWNER not in existing:
        return notes
    if not connection.scalar(text("SELECT pg_has_role(current_user, :owner, 'MEMBER')"), {"owner": OWNER}):
        user = connection.scalar(text("SELECT quote_ident(current_user)"))
        return [
            *notes,
            f"{user} is not a member of {OWNER} and keeps the tables; as a superuser: GRANT {OWNER} TO {user};",
        ]
    # The owner comes last: what this user gave away it could not grant any more.
    gifts = [f"ALTER TABLE {name} OWNER TO {OWNER}" for name in _owned_by_this_user(connection)]
    return notes + _permitted(connection, [f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {OWNER}", *gifts])


def _permitted(connection: Connection, statements: list[str]) -> list[str]:
    """Run what this user may; a note for each statement that somebody else has to."""
    notes = []
    for statement in statements:
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.errors.DuplicateObject | psycopg.errors.UniqueViolation):
                continue  # Another database's upgrade made the role in the same moment.
            if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise
            notes.append(f"not permitted to this user; as a superuser: {statement};")
    return notes


def _owned_by_this_user(connection: Connection) -> list[str]:
    ours = ["alembic_version", *METADATA.tables, *VIEWS]
    ours += [name for table in PARTITIONED for name in partitions(connection, table)]
    query = (
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner"
        " WHERE c.oid = ANY(SELECT to_regclass(name)::oid FROM unnest(CAST(:ours AS text[])) AS name)"
        " AND r.rolname = current_user ORDER BY 1"
    )
    return list(connection.scalars(text(query), {"ours": ours}))


def _view_problems(connection: Connection) -> list[str]:
    query = text("SELECT name FROM unnest(CAST(:views AS text[])) AS name WHERE to_regclass(name) IS NULL")
    return [f"view {name} is missing; {NEXT}" for name in connection.scalars(query, {"views": list(VIEWS)})]


def _role_problems(connection: Connection) -> list[str]:
    """Roles that are missing or may not do their work."""
    existing = _existing_roles(connection)
    problems = [
        f"role {role} is missing; as a superuser: CREATE ROLE {role} {login}; then {NEXT}"
        for role, login in ROLES.items()
        if role not in existing
    ]
    needed = [(READER, view, "SELECT") for view in VIEWS] + [(WRITER, table, "INSERT") for table in METADATA.tables]
    for role, name, right in needed:
        may = text("SELECT has_table_privilege(:role, to_regclass(:name), :right)")  # NULL where it is missing.
        if role in existing and connection.scalar(may, {"role": role, "name": name, "right": right}) is False:
            problems.append(f"role {role} may not {right} on {name}; {NEXT} as the owner of the tables")
    return problems
