"""Every statement that reads: plain SQL over the views, one function each.

Rule: views only; a reader role is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row

ATTEMPTS_OF = """
    SELECT h.*, c.action, c.retry, c.after_s, c.attempts_left, c.reason AS advice_reason, c.remedy, f.feedback
      FROM attempt_history h
      LEFT JOIN advice_current c USING (cluster, job_id, attempt)
     CROSS JOIN LATERAL (
           SELECT coalesce(
                  jsonb_agg(jsonb_build_object('label', g.label, 'by', g.by_name, 'note', g.note, 'given_at', g.given_at)
                            ORDER BY g.given_at, g.by_name, g.label), '[]') AS feedback
             FROM feedback_given g
            WHERE g.cluster = h.cluster AND g.job_id = h.job_id AND g.attempt = h.attempt) f
     WHERE h.job_id = %(job_id)s AND h.newest
     ORDER BY h.cluster, h.attempt
"""
UNKNOWN_ATTEMPTS = """
    SELECT * FROM (
           SELECT cluster, job_id, attempt, context, gpu_seconds, extract(epoch FROM decided_at)::double precision AS at
             FROM failures
            WHERE label = 'unknown' AND decided_at >= now() - make_interval(days => %(days)s)
            ORDER BY decided_at DESC, cluster, job_id, attempt LIMIT %(limit)s) newest
     ORDER BY at, cluster, job_id, attempt
"""
FEEDBACK_TEXTS = """
    SELECT concat_ws('/', g.cluster, g.job_id, g.attempt) AS id, g.label, f.state, f.exit_code, f.signal,
           coalesce(f.context, '{}') || CASE WHEN f.line IS NULL THEN '{}' ELSE ARRAY[f.line] END AS lines
      FROM feedback_given g
      JOIN failures f USING (cluster, job_id, attempt)
     ORDER BY g.given_at, id
"""
ROWS_AT_ONCE = 500


class Unreachable(RuntimeError):
    """Postgres did not answer, or holds no views; str() is one line with the next command."""


def attempts_of(dsn: str, job_id: str) -> list[dict[str, Any]]:
    """The newest verdict of every attempt of a job, with its ranking, feedback and current advice.  Raises Unreachable."""
    with _connected(dsn) as connection:
        return connection.cursor(row_factory=dict_row).execute(ATTEMPTS_OF, {"job_id": job_id}).fetchall()


def unknown_attempts(dsn: str, days: int, limit: int) -> Iterator[dict[str, Any]]:
    """The newest `limit` attempts that stayed unknown, oldest first, with their context lines.  Raises Unreachable."""
    with _connected(dsn) as connection, connection.cursor("unknowns", row_factory=dict_row) as cursor:
        cursor.itersize = ROWS_AT_ONCE
        yield from cursor.execute(UNKNOWN_ATTEMPTS, {"days": days, "limit": limit})


def feedback_texts(dsn: str) -> list[dict[str, Any]]:
    """What people said of stored failures, with the lines that are kept of them, oldest first.  Raises Unreachable."""
    with _connected(dsn) as connection:
        rows = connection.cursor(row_factory=dict_row).execute(FEEDBACK_TEXTS).fetchall()
    return [row for row in rows if row["lines"]]


@contextmanager
def _connected(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    try:
        with psycopg.connect(dsn, connect_timeout=10) as connection:
            yield connection
    except psycopg.errors.UndefinedTable:
        raise Unreachable("the views are not there; run `exitsign db upgrade`") from None
    except psycopg.Error as error:
        raise Unreachable(
            f"Postgres: {str(error).splitlines()[0]}; check EXITSIGN_POSTGRES with `exitsign db check`"
        ) from None
