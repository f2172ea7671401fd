"""`exitsign unknowns` over stored attempts: list, show, and a draft that labels the replay."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from click.testing import Result
from stack.store_kit import opened, verdict
from typer.testing import CliRunner

from classifiers.classification import Log, classify
from classifiers.records import Owner, Source, Verdict
from services.cli.main import app
from services.signature_files import PACKAGED, load_matcher

LOST = "frobnicator: shard {} of pool {} went away while reading {}"
LINES = [LOST.format(17, "alpha", "/data/a.bin"), LOST.format(3, "beta", "/b.bin"), LOST.format(99, "gamma", "/c.bin")]
DAY_S = 86_400.0


def unexplained(job: str, *lines: str, days_ago: float = 0.1, gpus: int = 8) -> Verdict:
    """An attempt of 100 s that nothing explains."""
    return verdict(
        job,
        facts={"gpus": gpus},
        label="unknown",
        owner=Owner.OTHER,
        confidence=0.0,
        source=Source.NONE,
        signature=None,
        ranking=(),
        context=lines,
        decided_at=time.time() - days_ago * DAY_S,
    )


@pytest.fixture(name="stored")
def _stored(database: str) -> str:
    """Three attempts that lost a shard, a cheap one, an old one, and one that has a label."""
    with opened(database) as store:
        store.write(
            [
                *(unexplained(f"lost-{n}", line, days_ago=1 + n) for n, line in enumerate(LINES)),
                unexplained("cheap", "the licence of [bold] ran out today", gpus=1),
                unexplained("old", "an old song about nothing", days_ago=40),
                verdict("explained", context=("never to be seen",), decided_at=time.time()),
            ]
        )
    return database


def unknowns(dsn: str, *arguments: str) -> Result:
    """`exitsign unknowns ...`."""
    return CliRunner().invoke(app, ["unknowns", *arguments], env={"EXITSIGN_POSTGRES": dsn})


def listed(dsn: str, *arguments: str) -> list[dict]:
    """The clusters that `list --json` prints."""
    done = unknowns(dsn, "list", "--json", *arguments)
    assert 0 == done.exit_code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_ranks_by_lost_gpu_time(stored: str) -> None:
    """The newest days only, attempts that stayed unknown only."""
    lost, cheap = listed(stored)

    assert (3, 2400.0, sorted(LINES)) == (lost["attempts"], lost["gpu_seconds"], sorted(lost["lines"]))
    assert 2 * DAY_S == pytest.approx(lost["last_seen"] - lost["first_seen"], abs=60)
    assert (1, 100.0, [{"cluster": "c", "job_id": "cheap", "attempt": 1}]) == (
        cheap["attempts"],
        cheap["gpu_seconds"],
        cheap["examples"],
    )
    assert 3 == len(listed(stored, "--days", "60"))
    assert ["cheap"] == [c["examples"][0]["job_id"] for c in listed(stored, "--limit", "1")]


def test_list_and_show_are_readable(stored: str) -> None:
    """Text of a log is never markup."""
    lost, cheap = listed(stored)
    table = unknowns(stored, "list").stdout
    page = unknowns(stored, "show", lost["id"][:6]).stdout

    assert table.index(lost["id"]) < table.index(cheap["id"])
    assert "the licence of [bold] ran out today" in table
    assert [] == [line for line in LINES if f"  ? {line}\n" not in page]
    assert "3 attempts, 0.7 GPU-hours" in page
    assert "exitsign attempts show lost-1" in page


def test_a_draft_passes_check_and_labels_the_replay(stored: str, tmp_path: Path) -> None:
    """Pasted as it is it is in order; made stable, it labels a line of the cluster that nobody had seen."""
    folder = tmp_path / "signatures"
    shutil.copytree(PACKAGED, folder)
    log = Log(id="replay", lines=["step 1", LOST.format(4, "omega", "/z.bin")], exit_code=1)

    done = unknowns(stored, "draft", listed(stored)[0]["id"], "--label", "storage_failure")
    assert 0 == done.exit_code, done.output
    (folder / "frobnicator.yaml").write_text(done.stdout)
    check = CliRunner().invoke(app, ["signatures", "check", "--json", "--folder", str(folder)])
    (folder / "frobnicator.yaml").write_text(done.stdout.replace("status: draft", "status: stable"))

    findings = [json.loads(line) for line in check.stdout.splitlines()]
    assert [] == [f for f in findings if f["file"] == "frobnicator.yaml"]
    assert "3 of 3 kept lines match" in done.stderr
    assert "storage_failure" != classify(log, load_matcher(PACKAGED)).label
    assert "storage_failure" == classify(log, load_matcher(folder)).label


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("show", "ffffffffff"), 1, "exitsign unknowns list --days 30"),
        (("draft", "ffffffffff"), 1, "exitsign unknowns list --days 30"),
        (("draft", "ffffffffff", "--label", "no_such_label"), 2, "label no_such_label is not in exit_spec.yaml"),
    ],
)
def test_what_is_not_there_is_said(stored: str, arguments: tuple[str, ...], status: int, told: str) -> None:
    """With the next command."""
    done = unknowns(stored, *arguments)

    assert (status, True) == (done.exit_code, told in done.stderr), done.output


def test_a_database_without_views_is_said(database: str) -> None:
    """With the command that makes them."""
    done = unknowns(database, "list")

    assert (1, True) == (done.exit_code, "exitsign db upgrade" in done.stderr)
