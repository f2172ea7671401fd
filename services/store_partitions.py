"""The monthly partitions of the big tables, and retention.

Rule: every big table has a default partition, so that no row is refused because a month was not made in time.
Rule: months are UTC; `{table}_{YYYYMM}` holds what was decided in that month.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

from sqlalchemy import Connection, text

from services.store_tables import EVIDENCE, VERDICT_REVISIONS

PARTITIONED = (VERDICT_REVISIONS.name, EVIDENCE.name)
AGED = {"verdicts": "decided_at", "attempts": "decided_at", "advice": "issued_at", "outcomes": "recorded_at"}
MONTHS_BACK = 60
ROWS_AT_ONCE = 10_000


def ensure_partitions(connection: Connection, months_ahead: int) -> list[str]:
    """Make this month's partitions and those of the months ahead; the names of new ones.

    Rows that came before their month was made lie in the default partition: they move, and their months are made too.
    """
    this_month = today(connection).replace(day=1)
    oldest, newest = months_later(this_month, -MONTHS_BACK), months_later(this_month, months_ahead)
    made = []
    for table in PARTITIONED:
        month_of_row = "date_trunc('month', decided_at AT TIME ZONE 'UTC')::date"
        stray = text(f"SELECT DISTINCT {month_of_row} FROM {table}_default")  # noqa: S608 (a name of ours)
        months = {month for month in connection.scalars(stray) if oldest <= month <= newest}
        months |= {months_later(this_month, ahead) for ahead in range(months_ahead + 1)}
        standing = partitions(connection, table)
        made += [_make(connection, table, month) for month in sorted(months) if name_of(table, month) not in standing]
    return made


def drop_before(connection: Connection, day: date) -> dict[str, int]:
    """Delete what was decided (outcomes: recorded) before `day`, UTC; rows deleted by table, 1 for a month dropped whole.

    People's feedback stays.  The history and evidence of a month that `day` cuts in two stay until its last day passed.
    """
    gone: dict[str, int] = {}
    for table in PARTITIONED:
        for name in partitions(connection, table):
            month = _month_of(name)
            if month and months_later(month, 1) <= day:
                connection.exec_driver_sql(f"DROP TABLE {name}")
                gone[name] = 1
    stray = {f"{table}_default": "decided_at" for table in PARTITIONED}
    for table, moment in {**stray, **AGED}.items():
        gone[table] = _delete_before(connection, table, moment, day)
    return gone


def missing_partitions(connection: Connection) -> list[str]:
    """Those of this month and the next that do not stand."""
    this_month = today(connection).replace(day=1)
    wanted = [(table, name_of(table, months_later(this_month, n))) for table in PARTITIONED for n in (0, 1)]
    return [name for table, name in wanted if name not in partitions(connection, table)]


def partitions(connection: Connection, table: str) -> list[str]:
    """Names of a table's partitions, the default one included."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = CAST(:t AS regclass) ORDER BY 1"
    return list(connection.scalars(text(query), {"t": table}))


def name_of(table: str, month: date) -> str:
    """The partition of a month."""
    return f"{table}_{month:%Y%m}"


def months_later(month: date, count: int) -> date:
    """The first day of the month `count` months on (or back)."""
    years, index = divmod(month.month - 1 + count, 12)
    return date(month.year + years, index + 1, 1)


def today(connection: Connection) -> date:
    """The database's date, UTC."""
    now: datetime = connection.execute(text("SELECT now()")).scalar_one()
    return now.astimezone(UTC).date()


def _month_of(name: str) -> date | None:
    digits = name[-6:]
    return date(int(digits[:4]), int(digits[4:]), 1) if digits.isdigit() else None


def _make(connection: Connection, table: str, month: date) -> str:
    name = name_of(table, month)
    low, high = (f"'{day} 00:00:00+00'" for day in (month, months_later(month, 1)))
    stray = f"DELETE FROM {table}_default WHERE decided_at >= {low} AND decided_at < {high} RETURNING *"  # noqa: S608
    connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    connection.exec_driver_sql(f"WITH moved AS ({stray}) INSERT INTO {name} SELECT * FROM moved")  # noqa: S608
    connection.exec_driver_sql(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({high})")
    return name


def _delete_before(connection: Connection, table: str, moment: str, day: date) -> int:
    """In small steps, each well within the statement time-out."""
    some = f"SELECT ctid FROM {table} WHERE {moment} < CAST(:day AS timestamp) AT TIME ZONE 'UTC' LIMIT {ROWS_AT_ONCE}"  # noqa: S608
    statement = text(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY({some}))")  # noqa: S608 (names of ours)
    deleted = 0
    while step := connection.execute(statement, {"day": day}).rowcount:
        deleted += step
    return deleted
