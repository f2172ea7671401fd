"""`make demo`: from nothing to labels in Postgres and advice obeyed, on failures that truly happen.

Rule: exit status 0 only where every attempt got its expected label and advice, read back from Postgres.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from load_tests.cluster import Cluster, Job, Ran, saved
from load_tests.jobs_table import JOBS
from load_tests.shippers import shipper
from services import database
from services.admin import create_topics
from services.settings import load
from services.stack import StackError, free_port
from services.stack.up import Stack

OUT = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=130)
STORED_WAIT_S = 30.0
AGENTS = ("scanner", "attributor", "recorder")
FAILURES = """
    SELECT job_id, attempt, label, owner, source, signature, retry, action, advice_latency_s
      FROM failures ORDER BY job_id, attempt
"""


def main() -> int:
    """Run the demo; the exit status."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--keep", action="store_true", help="keep the folder with all logs")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="exitsign-demo-"))
    try:
        return _demo(folder)
    except StackError as error:
        OUT.print(str(error), style="red", markup=False)
        return 1
    finally:
        if chosen.keep:
            OUT.print(f"logs are in {folder}", style="dim")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _demo(folder: Path) -> int:
    _say("1/4", "starting Apache Kafka and PostgreSQL (the first time, Kafka's jars are fetched)")
    begun = time.monotonic()
    with Stack(folder / "stack") as stack:
        _say("    ", f"Kafka at {stack.bootstrap}, up after {time.monotonic() - begun:.1f} s")
        environment = stack.environ()
        database.upgrade(stack.dsn)
        create_topics(load(environ=environment))
        _say("2/4", "starting the agents: scanner, attributor, recorder (the first time, the catalog is compiled)")
        with _agents(environment, folder), _shipping(folder / "jobs", stack.bootstrap) as shipping:
            jobs = [job for job in JOBS if job.can_run()]
            _say("3/4", f"running {len(jobs)} jobs, most of which fail; {shipping} ships their output\n")
            ran = Cluster(stack.bootstrap, folder / "jobs", _tell).run(jobs)
            _say("\n4/4", "reading back what Postgres holds")
            rows = _stored(stack.dsn, sum(r.failed for r in ran))
    return _summary(jobs, ran, rows)


def _say(step: str, sentence: str) -> None:
    OUT.print(Text(f"{step} ", style="bold cyan").append(sentence, style="default"))


@contextmanager
def _agents(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """Every agent as a process of its own, healthy when this yields, stopped by SIGTERM after."""
    processes = []
    ports = {name: free_port() for name in AGENTS}
    try:
        for name in AGENTS:
            settings = {**environment, "EXITSIGN_METRICS_PORT": str(ports[name])}
            with (folder / f"{name}.log").open("wb") as log:
                command = [sys.executable, "-m", "services.cli", "run", name]
                processes.append(subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log))
        for name in AGENTS:
            wait_healthy(name, ports[name], folder / f"{name}.log")
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def wait_healthy(name: str, port: int, log: Path, limit_s: float = 90.0) -> None:
    """Wait until the agent's /healthz says so.  Raises StackError quoting its log."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise StackError(f"the {name} is not healthy after {limit_s:.0f} s; its log ends: {log.read_text()[-800:]}")


@contextmanager
def _shipping(folder: Path, bootstrap: str) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    shipping = shipper(folder, bootstrap, "job-logs")
    shipping.start()
    try:
        yield shipping.name
    finally:
        shipping.stop()


def _tell(ran: Ran) -> None:
    text = Text(f"  {ran.job.name:<24} attempt {ran.attempt}  ")
    if not ran.failed:
        OUT.print(text.append("ended well", style="green"))
    elif ran.advice is None:
        OUT.print(text.append("no advice came; held", style="bold red"))
    else:
        advice = ran.advice
        text.append(f"{advice.label:<26}", style="bold")
        text.append(f"{advice.action:<18}", style="green" if advice.retry else "red")
        OUT.print(text.append(f"{ran.waited_s:5.2f} s after its end", style="dim"))


def _stored(dsn: str, expected: int) -> list[Sequence[Any]]:
    """The rows of the view `failures`, once all are there (the recorder may be a moment behind)."""
    deadline = time.monotonic() + STORED_WAIT_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            rows = connection.execute(FAILURES).fetchall()
            complete = [row for row in rows if row[-1] is not None]
            if len(complete) >= expected or time.monotonic() > deadline:
                return complete
            time.sleep(0.2)


def _summary(jobs: Sequence[Job], ran: Sequence[Ran], rows: Sequence[Sequence[Any]]) -> int:
    expected = {(job.name, n): label for job in jobs for n, label in enumerate(job.labels, 1) if label is not None}
    table = Table(title="failures, read back from Postgres", title_justify="left")
    for column in ("job", "#", "label", "owner", "said by", "advice", "after"):
        table.add_column(column, justify="right" if column == "after" else "left", overflow="fold")
    wrong = []
    for job_id, attempt, label, owner, source, signature, _, action, latency in rows:
        want = expected.pop((job_id, attempt), None)
        style = "" if want == label else "bold red"
        if want != label:
            wrong.append(f"{job_id} attempt {attempt} is {label}, expected {want}")
        said_by = signature if source == "signature" else source
        table.add_row(job_id, str(attempt), label, owner, said_by, action, f"{latency:.2f} s", style=style)
    wrong += [f"{name} attempt {n}: nothing stored, expected {label}" for (name, n), label in expected.items()]
    wrong += [f"{r.job.name} attempt {r.attempt}: no advice in time" for r in ran if r.failed and r.advice is None]
    wrong += [w for job in jobs for w in _attempts_wrong(job, ran)]
    OUT.print(table)
    latencies = sorted(row[-1] for row in rows)
    blind, made, seconds = saved(ran)
    OUT.print(
        f"{len(rows)} failed attempts, {len({row[2] for row in rows})} labels; "
        f"advice after {latencies[len(latencies) // 2]:.2f} s in the median, {latencies[-1]:.2f} s at most"
    )
    OUT.print(
        f"retries: {made} made; blind retrying would have made {blind} and repeated {seconds:.0f} s of failing runs"
    )
    for line in wrong:
        OUT.print(line, style="red", markup=False)
    OUT.print(
        "as expected" if not wrong else f"{len(wrong)} not as expected", style="green" if not wrong else "bold red"
    )
    return 1 if wrong else 0


def _attempts_wrong(job: Job, ran: Sequence[Ran]) -> list[str]:
    """A job that was retried too often or too rarely."""
    made = sum(r.job is job for r in ran)
    return [] if made == len(job.labels) else [f"{job.name}: {made} attempts, expected {len(job.labels)}"]


if __name__ == "__main__":
    sys.exit(main())
