"""Every statement that reads: plain SQL over the views, one function each.

Rule: views only; a reader role is enough.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

ATTEMPTS_OF = """
    SELECT h.*, c.action, c.retry, c.after_s, c.attempts_left, c.reason AS advice_reason, c.remedy
      FROM attempt_history h
      LEFT JOIN advice_current c USING (cluster, job_id, attempt)
     WHERE h.job_id = %(job_id)s AND h.newest
     ORDER BY h.cluster, h.attempt
"""


class Unreachable(RuntimeError):
    """Postgres did not answer, or holds no views; str() is one line with the next command."""


def attempts_of(dsn: str, job_id: str) -> list[dict[str, Any]]:
    """The newest verdict of every attempt of a job, with its ranking and the job's current advice.  Raises Unreachable."""
    try:
        with psycopg.connect(dsn, connect_timeout=10) as connection:
            return connection.cursor(row_factory=dict_row).execute(ATTEMPTS_OF, {"job_id": job_id}).fetchall()
    except psycopg.errors.UndefinedTable:
        raise Unreachable("the views are not there; run `exitsign db upgrade`") from None
    except psycopg.Error as error:
        raise Unreachable(
            f"Postgres: {str(error).splitlines()[0]}; check EXITSIGN_POSTGRES with `exitsign db check`"
        ) from None
