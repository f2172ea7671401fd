"""A small local scheduler: runs jobs that truly fail, publishes their events, and obeys the advice topic.

Rule: it decides nothing about retries by itself; without advice in time it holds the job and says so.
Rule: waits that advice asks for are kept in proportion (`time_scale`), and the figures say so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from classifiers.cases import read_case
from classifiers.records import Advice
from services import topics, wire

JOBS = Path(__file__).resolve().parent / "jobs"
CASES = Path(__file__).resolve().parent.parent / "signatures" / "cases"
ADVICE_WAIT_S = 45.0
MAX_ATTEMPTS = 5
BLIND_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One job: a program of load_tests/jobs or a case to replay, and what it is expected to get.

    `end` replaces the state that the exit code would give (TIMEOUT, PREEMPTED, ...); `kill_after_s` sends SIGTERM then.
    `labels` are the labels of its attempts, in order; None is an attempt that ends well.
    """

    name: str
    labels: tuple[str | None, ...]
    program: str | None = None
    case: str | None = None
    end: Mapping[str, str | int] = field(default_factory=dict)
    kill_after_s: float | None = None
    gpus: int = 1
    needs: str | None = None

    def can_run(self) -> bool:
        """True where the program that the job needs is installed."""
        return self.needs is None or shutil.which(self.needs) is not None


@dataclass
class Ran:
    """One attempt that ran: how long, how it ended, and the advice that came."""

    job: Job
    attempt: int
    run_s: float
    failed: bool
    advice: Advice | None
    waited_s: float


class Cluster:
    """Runs jobs side by side; `tell` is called with each attempt as it is over."""

    def __init__(self, bootstrap: str, folder: Path, tell: Callable[[Ran], None], time_scale: float = 0.02) -> None:
        self._bootstrap, self._folder, self._tell, self._time_scale = bootstrap, folder, tell, time_scale
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","))
        self._listener = AdviceListener(bootstrap)
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, jobs: Iterable[Job], side_by_side: int = 4) -> list[Ran]:
        """Every attempt of every job, in the order of their ends."""
        self._listener.start()
        ran: list[Ran] = []
        try:
            with ThreadPoolExecutor(side_by_side) as pool:
                for attempts in pool.map(self._run_job, jobs):
                    ran += attempts
        finally:
            self._listener.stop()
            self._producer.close()
        return ran

    def _run_job(self, job: Job) -> list[Ran]:
        attempts: list[Ran] = []
        for attempt in range(1, MAX_ATTEMPTS + 1):
            ran = self._run_attempt(job, attempt)
            attempts.append(ran)
            self._tell(ran)
            if not ran.failed or ran.advice is None or not ran.advice.retry:
                break
            time.sleep(ran.advice.after_s * self._time_scale)
        return attempts

    def _run_attempt(self, job: Job, attempt: int) -> Ran:
        begun = time.time()
        self._event(job, attempt, phase="started", started_at=begun)
        end = self._replay(job, attempt) if job.case else self._execute(job, attempt)
        ended = time.time()
        self._event(job, attempt, phase="ended", started_at=begun, ended_at=ended, **end)
        failed = end.get("state") != "COMPLETED"
        advice = self._listener.wait(job.name, attempt, ADVICE_WAIT_S) if failed else None
        return Ran(job, attempt, ended - begun, failed, advice, time.time() - ended)

    def _execute(self, job: Job, attempt: int) -> dict[str, str | int]:
        """Run the job's program with its output in files that the shipper follows."""
        program = JOBS / (job.program or "")
        command = ["bash", str(program)] if program.suffix == ".sh" else [sys.executable, str(program)]
        stem = self._folder / f"{job.name}.{attempt}.0.node-1"
        environment = {"EXITSIGN_DEMO_ATTEMPT": str(attempt), "PYTHONUNBUFFERED": "1"}
        with Path(f"{stem}.out").open("wb") as out, Path(f"{stem}.err").open("wb") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, cwd=self._folder, env={**_clean_environment(), **environment}
            )
            try:
                code = process.wait(job.kill_after_s if attempt == 1 else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                code = process.wait()
        ended_by_us = job.end if code == -signal.SIGTERM else {}
        return _end_of(code, ended_by_us)

    def _replay(self, job: Job, attempt: int) -> dict[str, str | int]:
        """Publish a case's lines one by one, as a job that can't run here would have printed them."""
        case = read_case((CASES / f"{job.case}.case").read_text(), f"{job.case}.case")
        for line in case.lines:
            self._producer.send(*_raw(job, attempt, line.rank or 0, _STREAM[line.stream], line.text))
        self._producer.flush()
        return dict(case.end)

    def _event(self, job: Job, attempt: int, **told: object) -> None:
        told = {"type": "job_event", "cluster": "default", "scheduler": "demo", "job_id": job.name, **told}
        told |= {"ref": str(attempt), "attempt_ref": {"attempt": attempt}, "nodes": ["node-1"], "gpus": job.gpus}
        value = json.dumps({**told, "job_name": job.program or job.case}).encode()
        self._producer.send("scheduler-events", value=value, key=job.name.encode())
        self._producer.flush()


class AdviceListener:
    """Reads the advice topic as a scheduler does, and hands out what is waited for."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = KafkaConsumer(
            topics.ADVICE,
            bootstrap_servers=bootstrap.split(","),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._seen: dict[tuple[str, int], Advice] = {}
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="advice", daemon=True)

    def start(self) -> None:
        """Listen in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def wait(self, job_id: str, attempt: int, wait_s: float) -> Advice | None:
        """The newest advice for an attempt, or None after `wait_s`."""
        with self._news:
            self._news.wait_for(lambda: (job_id, attempt) in self._seen, wait_s)
            return self._seen.get((job_id, attempt))

    def _loop(self) -> None:
        while not self._stop.is_set():
            for records in self._consumer.poll(timeout_ms=200).values():
                for record in records:
                    self._take(record.value)

    def _take(self, value: bytes | None) -> None:
        try:
            advice = wire.advice(value or b"")
        except wire.Unknown:
            return  # A version that this scheduler does not know: skipped, never guessed.
        with self._news:
            known = self._seen.get((advice.job_id, advice.attempt))
            if known is None or known.revision < advice.revision:
                self._seen[(advice.job_id, advice.attempt)] = advice
            self._news.notify_all()


_STREAM = {"err": "stderr", "out": "stdout", "sch": "scheduler", "nod": "node"}


def _raw(
    job: Job, attempt: int, rank: int, stream: str, text: str
) -> tuple[str, bytes, bytes, list[tuple[str, bytes]]]:
    """Topic, value, key and headers of one line in the `raw` format."""
    told = {"cluster": "default", "job": job.name, "attempt": attempt, "rank": rank, "node": "node-1", "stream": stream}
    headers = [(name, str(value).encode()) for name, value in told.items()]
    return "job-logs-raw", text.encode(), job.name.encode(), headers


def _end_of(code: int, told: Mapping[str, str | int]) -> dict[str, str | int]:
    """What a scheduler says of an end: its own word where it ended the job, else the exit code or signal."""
    if told:
        return {"exit_code": 0, **told}
    if code == 0:
        return {"state": "COMPLETED", "exit_code": 0}
    return {"state": "FAILED", "exit_code": 0, "signal": -code} if code < 0 else {"state": "FAILED", "exit_code": code}


def _clean_environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


def saved(ran: Iterable[Ran]) -> tuple[int, int, float]:
    """(retries that blind retrying would have made, retries made, run seconds that were not repeated)."""
    blind = made = 0
    seconds = 0.0
    for one in ran:
        made += one.attempt > 1
        if one.failed and one.advice is not None and not one.advice.retry and one.attempt == 1:
            blind += BLIND_RETRIES
            seconds += one.run_s * BLIND_RETRIES
        elif one.failed:
            blind += 1
    return blind, made, seconds
