"""The store on a real Postgres: the same rows whatever the order, duplicates or cuts, and no record lost."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import T0
from stack.store_kit import (
    advice,
    as_user,
    feedback,
    opened,
    outcome,
    own_server,
    query,
    ranked,
    stored,
    verdict,
)

from classifiers.records import Applied, SignatureRef
from services.store import Record, Store, StoreRejected, StoreUnavailable

TOO_BIG = 2**40


def history() -> list[Record]:
    """Three revisions of a verdict and its advice, outcomes, a person's word, and a second job."""
    told = [advice(revision=n) for n in (1, 2, 3)]
    return [
        verdict(revision=1),
        verdict(revision=2, label="cpu_oom", ranking=(ranked("oom-kill"),), signature=SignatureRef("oom-kill", 1)),
        verdict(revision=3, final=True, facts={"failed_node": "n2"}),
        *told,
        outcome(told[2]),
        outcome(told[2], Applied.FAILED, at=2.0),
        outcome(told[2], Applied.NOT_APPLIED, at=None),
        feedback(),
        verdict("job-2"),
    ]


def write_all(store: Store, batch: list[Record]) -> list[Record]:
    """Write as the recorder does, setting aside what is rejected; what was."""
    aside: list[Record] = []
    while True:
        try:
            store.write(batch)
        except StoreRejected as rejected:
            aside.append(rejected.record)
            batch = [record for record in batch if record is not rejected.record]
        else:
            return aside


class TestOrder:
    def test_any_order_and_cut_of_the_batches(self, stack, unique) -> None:  # type: ignore[no-untyped-def]
        """Shuffled records in batches of any size end in the rows that the order of revisions gives."""
        seen = []
        for seed, size in ((None, 20), (1, 1), (2, 3), (3, 20), (4, 2)):
            records = history()
            if seed is not None:
                random.Random(seed).shuffle(records)
            dsn = stack.postgres.create_database(unique("order"))
            with opened(dsn) as store:
                for start in range(0, len(records), size):
                    store.write(records[start : start + size])
            seen.append(stored(dsn))

        assert [seen[0]] * 4 == seen[1:]

    def test_every_order_of_three_revisions(self, database: str) -> None:
        """In all six orders the newest revision is the row, its ranking the evidence, and the history has all three."""
        with opened(database) as store:
            for number, order in enumerate(itertools.permutations((1, 2, 3))):
                for revision in order:
                    store.write([verdict(f"job-{number}", revision, ranking=(ranked(f"s{revision}"),))])

        assert [(3,)] * 6 == query(database, "SELECT revision FROM verdicts")
        assert [(3,)] * 6 == query(database, "SELECT revision FROM attempts")
        assert [("s3", 3)] * 6 == query(database, "SELECT signature_id, revision FROM evidence")
        assert [(18,)] == query(database, "SELECT count(*) FROM verdict_revisions")

    def test_a_newer_revision_with_a_shorter_ranking(self, database: str) -> None:
        """The lines of the older ranking go, those of other attempts stay."""
        with opened(database) as store:
            store.write([verdict("job-1"), verdict("job-2")])
            store.write([verdict("job-1", revision=2, ranking=())])

        assert [("job-2",), ("job-2",)] == query(database, "SELECT job_id FROM evidence")

    def test_duplicates_touch_nothing(self, database: str) -> None:
        """Writing the same records again, doubled in one batch, leaves every row's very version in place."""
        versions = "SELECT tableoid, ctid::text, xmin::text FROM {} ORDER BY 1, 2"
        tables = ("attempts", "verdicts", "verdict_revisions", "evidence", "advice", "outcomes", "feedback")
        with opened(database) as store:
            store.write(history())
            before = [query(database, versions.format(table)) for table in tables]
            store.write([*history(), *history()])

        assert all(before)
        assert before == [query(database, versions.format(table)) for table in tables]

    def test_advice_before_its_verdict(self, database: str) -> None:
        """Advice and outcome may come first; the failure shows them once its verdict is there."""
        told = advice()
        with opened(database) as store:
            store.write([outcome(told), told])
            nothing = query(database, "SELECT * FROM failures")
            store.write([verdict()])

        assert [] == nothing
        assert [("retry_with_change", 1.0)] == query(database, "SELECT action, advice_latency_s FROM failures")
        assert [("applied",)] == query(database, "SELECT applied FROM advice_current")


class TestBadRecords:
    def test_text_that_postgres_refuses(self, database: str) -> None:
        """NUL and lone surrogates are replaced wherever they stand; the record lands."""
        bad = verdict(
            facts={"job_name": "a\0b", "attempt_ref": {"x\0": "\0"}},
            ranking=(ranked("cuda-oom", text="\0\ud800 C:\\u0000"),),
            context=("\0",),
        )
        with opened(database) as store:
            store.write([bad])

        assert [("a\ufffdb", {"x\ufffd": "\ufffd"})] == query(database, "SELECT job_name, attempt_ref FROM attempts")
        assert [("\ufffd? C:\\u0000", ["\ufffd"])] == query(database, "SELECT line, context FROM failures")

    @pytest.mark.parametrize("time", [math.inf, -math.inf, math.nan, 1e18, -1e18])
    def test_times_that_no_calendar_holds(self, database: str, time: float) -> None:
        """They are NULL, and so is what would be computed of them."""
        with opened(database) as store:
            store.write([verdict(facts={"ended_at": time}, ranking=(ranked("cuda-oom", time=time),))])

        assert [(None, None, None)] == query(database, "SELECT ended_at, run_s, gpu_seconds FROM failures")

    def test_one_bad_record_among_many(self, database: str) -> None:
        """The one that can never be stored is named, with Postgres' reason, and everything else has landed."""
        batch: list[Record] = [verdict(f"job-{n}") for n in range(50)]
        batch[33] = verdict("job-33", facts={"gpus": TOO_BIG})
        with opened(database) as store, pytest.raises(StoreRejected, match="out of range") as caught:
            store.write(batch)

        assert batch[33] is caught.value.record
        assert [(49,)] == query(database, "SELECT count(*) FROM verdicts")

    def test_several_bad_records(self, database: str) -> None:
        """Taking out one rejected record after the other stores all the good ones."""
        good: list[Record] = [verdict(f"job-{n}") for n in range(20)]
        bad: list[Record] = [
            verdict("job-x", revision=TOO_BIG),
            verdict(random.Random(0).randbytes(4000).hex()),
            verdict("job-z", decided_at=math.inf),
            advice("job-a", issued_at="yesterday"),
            advice("job-b", after_s=TOO_BIG),
        ]
        mixed = [*bad[:2], *good[:7], bad[2], *good[7:], *bad[3:]]
        with opened(database) as store:
            aside = write_all(store, mixed)

        assert sorted(map(id, bad)) == sorted(map(id, aside))
        assert [(20,)] == query(database, "SELECT count(*) FROM verdicts")

    @pytest.mark.parametrize(
        ("record", "said"),
        [
            (verdict(decided_at=math.inf), "decided_at inf is not a time"),
            (advice(expires_at="soon"), "expires_at 'soon' is not a time"),
        ],
    )
    def test_a_key_or_promise_without_time(self, database: str, record: Record, said: str) -> None:
        """The reason names the field and what stands in it."""
        with opened(database) as store, pytest.raises(StoreRejected, match=said):
            store.write([record])

    def test_an_empty_batch(self, database: str) -> None:
        """Nothing to write is no error."""
        with opened(database) as store:
            store.write([])

        assert not any(stored(database).values())


class TestOutages:
    def test_the_server_is_killed_and_comes_back(self, tmp_path: Path) -> None:
        """A dead server is StoreUnavailable; the same store writes the same batch once it is back, and lost nothing."""
        with own_server(tmp_path) as server, opened(server.dsn) as store:
            store.write([verdict("job-1")])
            server.kill()
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match=r"refused|terminat|closed"):
                    store.write([verdict("job-2")])
            server.restart()
            store.write([verdict("job-2")])

            assert [("job-1",), ("job-2",)] == query(server.dsn, "SELECT job_id FROM verdicts ORDER BY 1")

    def test_connections_cut_between_batches(self, database: str) -> None:
        """Connections that the server closed are replaced without an error."""
        cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        with opened(database) as store:
            store.write([verdict("job-1")])
            mine = f"{cut} WHERE datname = current_database() AND application_name = 'exitsign'"
            assert [(True,)] == query(database, mine)
            store.write([verdict("job-2")])

        assert [(2,)] == query(database, "SELECT count(*) FROM verdicts")

    def test_tables_that_are_not_there(self, database: str) -> None:
        """A database that nobody migrated is an outage that names the command, not a reason to set records aside."""
        store = Store(database)
        with pytest.raises(StoreUnavailable, match="exitsign db upgrade"):
            store.write([verdict()])
        store.close()

    def test_rights_that_are_missing(self, database: str) -> None:
        """So is a user who may not write."""
        with opened(database):
            store = Store(as_user(database, "exitsign_reader"))
            with pytest.raises(StoreUnavailable, match=r"permission denied|read-only"):
                store.write([verdict()])
            store.close()

    def test_a_lock_that_somebody_holds(self, database: str) -> None:
        """A write that must wait too long for a lock is StoreUnavailable, and nothing of it lands."""
        import psycopg

        with opened(database) as store, psycopg.connect(database) as other:
            other.execute("LOCK TABLE feedback IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                store.write([verdict(), feedback()])
            other.rollback()

        assert [] == query(database, "SELECT * FROM verdicts")


def test_a_dsn_that_cannot_be_read() -> None:
    """The error gives the form of a DSN and does not repeat the password."""
    with pytest.raises(ValueError, match="postgresql://user:password@host") as caught:
        Store("postgresql://writer:s3cret@[::1/db")

    assert "s3cret" not in str(caught.value)


def test_the_writer_needs_no_more_than_its_role(database: str) -> None:
    """exitsign_writer writes everything that the recorder writes, twice."""
    with opened(database):
        store = Store(as_user(database, "exitsign_writer"))
        for _ in range(2):
            store.write(history())
        store.close()

    assert all(stored(database).values())


def test_what_an_attempt_cost(database: str, unique: Callable[[str], str]) -> None:
    """GPU seconds are run time x GPUs, none for a clock that ran backwards, NULL where the GPUs are unknown."""
    cases: dict[float | None, dict[str, float | None]] = {
        800.0: {"gpus": 8},
        0.0: {"started_at": T0 + 200},
        None: {"gpus": None},
    }
    with opened(database) as store:
        store.write([verdict(str(cost), facts=facts) for cost, facts in cases.items()])

    costs = query(database, "SELECT job_id, gpu_seconds FROM failures")
    assert {str(cost): cost for cost in cases} == dict(costs)
