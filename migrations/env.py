"""Runs revisions, on the connection that `exitsign db upgrade` hands over, or alone for alembic's own commands.

Rule: every statement runs under a lock and a statement time-out, and one upgrade runs at a time.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection, create_engine, text

# Long waits for a lock would queue the recorder's writes behind us, so we give up first (retry when it is quieter).
GUARDS = (
    "SET LOCAL lock_timeout = '4s'",
    "SET LOCAL statement_timeout = '5s'",
    "SELECT pg_advisory_xact_lock(hashtext('exitsign.migrations'))",
)


def run(connection: Connection) -> None:
    """Every outstanding revision in one transaction: all of them or none."""
    context.configure(connection=connection)
    with context.begin_transaction():
        for guard in GUARDS:
            connection.execute(text(guard))
        context.run_migrations()


def run_alone() -> None:
    """For `alembic current` and the like, which bring no connection; the DSN is the one of the other commands."""
    dsn = os.environ.get("EXITSIGN_POSTGRES")
    if not dsn:
        raise SystemExit("set EXITSIGN_POSTGRES to the DSN, or use `exitsign db upgrade`")
    scheme, _, rest = dsn.partition("://")
    with create_engine(f"{scheme.split('+')[0]}+psycopg://{rest}").begin() as connection:
        run(connection)


if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
elif given := context.config.attributes.get("connection"):
    run(given)
else:
    run_alone()
