"""Upgrade and check on a real Postgres: tables, views, roles, partitions, retention."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from builders import T0
from psycopg.conninfo import make_conninfo
from stack.store_kit import advice, as_user, feedback, opened, outcome, own_server, query, stored, verdict

from classifiers.advice import iso
from services import database as db
from services.store import engine
from services.store_partitions import PARTITIONED, drop_before, ensure_partitions, months_later, name_of, partitions
from services.store_tables import METADATA

ROOT = Path(__file__).parents[2]
VIEWS = tuple(db.VIEWS)


def made(dsn: str, months_ahead: int) -> list[str]:
    """Partitions that ensure_partitions makes now."""
    ours = engine(dsn)
    with ours.begin() as connection:
        names = ensure_partitions(connection, months_ahead)
    ours.dispose()
    return names


def dropped(dsn: str, day: date) -> dict[str, int]:
    """What drop_before deletes."""
    ours = engine(dsn)
    with ours.begin() as connection:
        gone = drop_before(connection, day)
    ours.dispose()
    return gone


def standing(dsn: str, table: str) -> list[str]:
    """The partitions of a table."""
    ours = engine(dsn)
    with ours.connect() as connection:
        names = partitions(connection, table)
    ours.dispose()
    return names


def this_month() -> date:
    return datetime.now(UTC).date().replace(day=1)


class TestUpgrade:
    def test_from_empty_and_again(self, database: str) -> None:
        """An empty database becomes one in order; a second upgrade keeps the rows and has nothing to say."""
        first = db.upgrade(database)
        with opened(database) as store:
            store.write([verdict(), advice()])
        before = stored(database)

        assert ([], []) == (first, db.upgrade(database))
        assert [] == db.check(database)
        assert before == stored(database)

    def test_the_tables_are_those_of_the_code(self, database: str) -> None:
        """Migrations and services/store_tables.py describe the same columns, keys and indexes."""
        db.upgrade(database)
        children = {name for table in PARTITIONED for name in standing(database, table)}
        ours = engine(database)
        with ours.connect() as connection:
            options = {"include_name": lambda name, kind, _: not (kind == "table" and name in children)}
            context = MigrationContext.configure(connection, opts={**options, "compare_type": True})
            differences = compare_metadata(context, METADATA)
        ours.dispose()

        assert [] == differences

    def test_two_at_once(self, database: str) -> None:
        """Two programs that upgrade at the same moment both succeed."""
        program = "import sys; from services.database import upgrade; upgrade(sys.argv[1])"
        both = [subprocess.Popen([sys.executable, "-c", program, database], cwd=ROOT) for _ in range(2)]

        assert [0, 0] == [process.wait() for process in both]
        assert [] == db.check(database)

    def test_a_database_in_use(self, database: str) -> None:
        """It gives up on a lock that somebody holds, says so, and has changed nothing."""
        with psycopg.connect(database) as other:
            other.execute("SELECT pg_advisory_xact_lock(hashtext('exitsign.migrations'))")
            with pytest.raises(db.DatabaseError, match=r"busy .*nothing was changed.*exitsign db upgrade"):
                db.upgrade(database)
            other.rollback()

        assert [] == query(database, "SELECT 1 FROM pg_class WHERE relname = 'verdicts'")

    def test_a_view_whose_columns_changed(self, database: str) -> None:
        """A view of an older release is made anew, and its readers may read it."""
        db.upgrade(database)
        query(database, "DROP VIEW failures")
        query(database, "CREATE VIEW failures AS SELECT 1 AS old_column")
        db.upgrade(database)

        assert [] == db.check(database)
        assert [] == query(as_user(database, "exitsign_reader"), "SELECT label FROM failures")

    def test_a_view_that_people_built_on(self, database: str) -> None:
        """It stays through an upgrade that need not drop ours; where it must, the error names it."""
        db.upgrade(database)
        query(database, "CREATE VIEW theirs AS SELECT label FROM failures")
        db.upgrade(database)
        query(database, "DROP VIEW failures CASCADE")
        query(database, "CREATE VIEW failures AS SELECT 1 AS old_column")
        query(database, "CREATE VIEW theirs AS SELECT old_column FROM failures")

        with pytest.raises(db.DatabaseError, match="view theirs depends on view failures"):
            db.upgrade(database)

    def test_a_user_who_may_make_no_roles(self, tmp_path: Path) -> None:
        """The tables are made and usable; notes and check say what a superuser must run."""
        with own_server(tmp_path) as server:
            query(server.dsn, "CREATE ROLE plain")
            query(server.dsn, "CREATE DATABASE plain OWNER plain")
            dsn = as_user(make_conninfo(server.dsn, dbname="plain"), "plain")
            notes = db.upgrade(dsn)
            with opened(dsn) as store:
                store.write([verdict()])

            assert any("CREATE ROLE exitsign_reader LOGIN;" in note for note in notes)
            assert 3 == sum(problem.startswith("role exitsign_") for problem in db.check(dsn))

    def test_a_user_who_is_a_member_of_the_owner(self, tmp_path: Path) -> None:
        """What one administrator migrated, another migrates on, since the owner's role holds it."""
        with own_server(tmp_path) as server:
            db.upgrade(server.dsn)
            query(server.dsn, "CREATE ROLE other IN ROLE exitsign_owner")
            db.upgrade(as_user(server.dsn, "other"), months_ahead=5)

            assert [] == db.check(server.dsn)
            owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
            assert [("exitsign_owner",)] == query(server.dsn, owners)


class TestCheck:
    def test_nobody_answers(self) -> None:
        """One line names host, port and the next command, and not the password."""
        [problem] = db.check("postgresql://owner:s3cret@127.0.0.1:1/db")

        assert problem.startswith("can't use Postgres at 127.0.0.1:1: ")
        assert "exitsign stack up" in problem
        assert "s3cret" not in problem

    def test_an_unreadable_dsn(self) -> None:
        """It names the setting."""
        [problem] = db.check("postgresql://owner:s3cret@[::1/db")

        assert "EXITSIGN_POSTGRES" in problem
        assert "s3cret" not in problem

    def test_an_empty_database(self, database: str) -> None:
        """It names the revision and the command."""
        assert ["the tables are at revision none, this exitsign needs 0001; run `exitsign db upgrade`"] == db.check(
            database
        )

    def test_a_newer_schema(self, database: str) -> None:
        """Tables of a newer release are not offered an upgrade."""
        db.upgrade(database)
        query(database, "UPDATE alembic_version SET version_num = '9999'")

        [problem] = db.check(database)
        assert "newer exitsign (revision 9999" in problem

    def test_missing_parts(self, database: str) -> None:
        """Each view, partition and grant that is gone has its line."""
        db.upgrade(database)
        gone = name_of("evidence", months_later(this_month(), 1))
        query(database, "DROP VIEW failures")
        query(database, f"DROP TABLE {gone}")
        query(database, "REVOKE SELECT ON advice_current FROM exitsign_reader")

        assert [
            "view failures is missing; run `exitsign db upgrade`",
            f"partition {gone} is missing; run `exitsign db upgrade`",
            "role exitsign_reader may not SELECT on advice_current; run `exitsign db upgrade` as the owner of the tables",
        ] == db.check(database)

    def test_the_writer_may_check(self, database: str) -> None:
        """The recorder's own DSN is enough for a check."""
        db.upgrade(database)

        assert [] == db.check(as_user(database, "exitsign_writer"))


class TestViews:
    def test_a_failure(self, database: str) -> None:
        """`failures` joins the newest verdict, its line, the facts, the newest advice, and the delay of the first."""
        with opened(database) as store:
            store.write([verdict(revision=1), verdict(revision=2, final=True), advice(revision=1), advice(revision=2)])

        shown = query(
            database,
            "SELECT job_id, attempt, user_name, queue, label, owner, confidence, source, signature, line, node, run_s,"
            " gpu_seconds, retry, action, advice_latency_s, reason, revision, final FROM failures",
        )
        assert [
            (
                "job-1",
                1,
                "ada",
                "long",
                "gpu_oom",
                "user",
                0.95,
                "signature",
                "cuda-oom",
                "cuda-oom line",
                "n1",
                100.0,
                800.0,
                False,
                "retry_with_change",
                1.0,
                "The GPU ran out of memory",
                2,
                True,
            )
        ] == shown

    def test_an_attempt_that_ended_well(self, database: str) -> None:
        """It is in the history with label NULL, and no failure."""
        with opened(database) as store:
            store.write([verdict(label=None, owner=None, signature=None, ranking=())])

        assert [] == query(database, "SELECT * FROM failures")
        assert [(None, True)] == query(database, "SELECT label, newest FROM attempt_history")

    def test_the_history(self, database: str) -> None:
        """`attempt_history` has every revision with its ranking, and marks the newest."""
        with opened(database) as store:
            store.write([verdict(revision=2), verdict(revision=1)])

        shown = query(
            database, "SELECT revision, newest, ranking->0->>'signature' FROM attempt_history ORDER BY revision"
        )
        assert [(1, False, "cuda-oom"), (2, True, "cuda-oom")] == shown

    def test_the_advice_that_counts(self, database: str) -> None:
        """`advice_current` has one row a job: newest attempt, then newest revision, with its newest outcome."""
        last = advice(attempt=2, revision=2)
        with opened(database) as store:
            store.write([last, advice(revision=3), advice(attempt=2), outcome(last), advice("job-2")])

        shown = query(database, "SELECT job_id, attempt, revision, applied FROM advice_current ORDER BY 1")
        assert [("job-1", 2, 2, "applied"), ("job-2", 1, 1, None)] == shown

    def test_comments(self, database: str) -> None:
        """Every view of the database has its file, and says what a row of it is."""
        db.upgrade(database)
        described = "SELECT relname, obj_description(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace"
        comments = dict(query(database, described))

        assert set(VIEWS) == set(comments)
        assert all(comments.values())


class TestReader:
    def test_it_reads_views(self, database: str) -> None:
        """Every view can be read, read-only and under a time limit."""
        db.upgrade(database)
        reader = as_user(database, "exitsign_reader")

        assert [[]] * len(VIEWS) == [query(reader, f"SELECT * FROM {view}") for view in VIEWS]
        assert [("on",)] == query(reader, "SHOW default_transaction_read_only")
        assert [("30s",)] == query(reader, "SHOW statement_timeout")

    @pytest.mark.parametrize("table", [*METADATA.tables, "evidence_default", "alembic_version"])
    def test_it_reads_no_table(self, database: str, table: str) -> None:
        """Tables and their partitions are closed to it."""
        db.upgrade(database)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            query(as_user(database, "exitsign_reader"), f"SELECT 1 FROM {table}")

    @pytest.mark.parametrize(
        "statement", ["INSERT INTO feedback VALUES (1)", "DELETE FROM failures", "CREATE TABLE mine (x int)"]
    )
    def test_it_writes_nothing(self, database: str, statement: str) -> None:
        """Not even with its read-only default switched off."""
        db.upgrade(database)
        with psycopg.connect(as_user(database, "exitsign_reader"), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
                connection.execute(statement)


class TestPartitions:
    def test_months_ahead(self, database: str) -> None:
        """The current month and those ahead are made once."""
        db.upgrade(database, months_ahead=1)
        fourth = months_later(this_month(), 2)

        assert [name_of("verdict_revisions", fourth), name_of("evidence", fourth)] == made(database, 2)
        assert [] == made(database, 2)

    def test_rows_that_came_before_their_month(self, database: str) -> None:
        """They are kept in the default partition, and move where they belong once it is made."""
        early = datetime(2026, 2, 3, tzinfo=UTC).timestamp()
        with opened(database) as store:
            store.write([verdict(decided_at=early), verdict("job-2", decided_at=0.0)])
        before = stored(database)
        names = made(database, 0)

        assert ["verdict_revisions_202602", "evidence_202602"] == names
        assert [("job-1",)] == query(database, "SELECT job_id FROM verdict_revisions_202602")
        assert [("job-2",)] == query(database, "SELECT job_id FROM verdict_revisions_default")
        assert before == stored(database)

    def test_retention(self, database: str) -> None:
        """What was decided before the day goes, whole months as partitions; younger rows and people's words stay."""
        old, young = datetime(2026, 2, 3, tzinfo=UTC).timestamp(), T0
        with opened(database) as store:
            store.write([verdict("old", decided_at=old), advice("old", issued_at=iso(old)), feedback()])
            store.write([verdict("ancient", decided_at=0.0), verdict("young", decided_at=young), advice("young")])
            made(database, 0)
            gone = dropped(database, date(2026, 3, 1))
            store.write([verdict("young", revision=2)])

        assert 1 == gone["verdict_revisions_202602"] == gone["evidence_202602"] == gone["advice"]
        assert "evidence_202602" not in standing(database, "evidence")
        for table in ("attempts", "verdicts", "verdict_revisions", "evidence", "advice"):
            assert [("young",)] == query(database, f"SELECT DISTINCT job_id FROM {table}")
        assert [("job-1",)] == query(database, "SELECT job_id FROM feedback")

    def test_the_edges_of_a_month(self, database: str) -> None:
        """A month goes when its last day has passed, not a day sooner."""
        last = datetime(2026, 2, 28, 23, 59, tzinfo=UTC).timestamp()
        with opened(database) as store:
            store.write([verdict(decided_at=last)])
        made(database, 0)

        assert "evidence_202602" not in dropped(database, date(2026, 2, 28))
        assert 1 == dropped(database, date(2026, 3, 1))["evidence_202602"]


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (date(2026, 11, 1), 2, date(2027, 1, 1)),
        (date(2026, 1, 1), -1, date(2025, 12, 1)),
        (date(2026, 5, 1), 0, date(2026, 5, 1)),
    ],
)
def test_months_later(start: date, count: int, expected: date) -> None:
    """Months are counted across the turn of the year, in both directions."""
    assert expected == months_later(start, count)
