"""The whole service for acceptance tests: its agents as processes, what producers send, and timelines over both.

    play(service, at(0.0, started(job)), at(0.5, log(job, CUDA_OOM)), at(1.0, ended(job)),
         want_between(1.0, 20.0, advice(job, label="gpu_oom")))

Rule: everything goes in by the input topics and is read back from the advice topic, the dead letters or a view.
Rule: upper bounds are what a slow machine needs; a lower bound says what must not have happened before.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from builders import SPEC_TEXT, signature_yaml
from stack.transport_kit import committed, ends

from services import database, topics
from services.settings import load
from services.signature_files import PACKAGED
from services.stack import free_port
from services.stack.up import Stack

ROOT = Path(__file__).parents[2]
AGENTS = ("scanner", "attributor", "recorder")
GRACE_S, LATE_FACTS_S = 4.0, 60.0
LOGS, EVENTS, NODES = "job-logs-raw", "scheduler-events", "node-events"
START_S = 60.0
T = TypeVar("T")

CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
)
NCCL = "[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)"
TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.idx'"
MPI = "*** An error occurred in MPI_Allreduce"
HEALTHY = "step {} loss 0.21 throughput 1234 samples/s"


def _on_facts(name: str, label: str, facts: str, other: str) -> str:
    return signature_yaml(name, label=label, pattern=None, facts=facts, match=f"[{facts}]", no_match=f"[{other}]")


def _on_lines(name: str, label: str, pattern: str, example: str, **more: str) -> str:
    return signature_yaml(name, label=label, pattern=json.dumps(pattern), match=json.dumps([example]), **more)


CATALOG = "\n".join(
    (
        _on_lines(
            "cuda-oom",
            "gpu_oom",
            r"CUDA out of memory\. Tried to allocate (?<requested>[\d.]+ \w+)\. GPU \d+ has a total capacity of (?<total>[\d.]+ \w+)",
            CUDA_OOM,
        ),
        _on_lines(
            "nccl-watchdog", "collective_timeout", "Watchdog caught collective operation timeout", NCCL, role="cascade"
        ),
        _on_lines("torchrun-summary", "traceback_other", "ChildFailedError: ", TORCHRUN, role="summary"),
        _on_lines("no-such-file", "incorrect_inputs", r"FileNotFoundError: \[Errno 2\]", MISSING),
        _on_lines("mpi-error-in-call", "mpi_error", r"\*\*\* An error occurred in MPI_\w+", MPI),
        _on_lines("login-failed", "permission_error", "login refused for", "login refused for x"),
        # The prefilter sees no anchors, so that only the confirmation meets the hostile line.
        _on_lines("slow", "semantic_error", "slowx(a|aa|aaa)+$", "slowxaa"),
        _on_facts("signal-term", "killed_by_user", "{signal: 15}", "{signal: 9}"),
        _on_facts("state-timeout", "time_limit", "{state: TIMEOUT}", "{state: FAILED}"),
        _on_facts("reason-preempted", "job_preempted", "{reason: PREEMPTED}", "{reason: Error}"),
        _on_facts("state-node-fail", "node_failure", "{state: NODE_FAIL}", "{state: FAILED}"),
    )
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One record of a producer; `told` is JSON to be, and `stamps` names what becomes the time of sending in it."""

    topic: str
    value: bytes = b""
    told: Mapping[str, Any] = field(default_factory=dict)
    stamps: tuple[str, ...] = ()
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def stamped(self) -> Sent:
        """The very bytes that are sent now; what is told already is not stamped."""
        if not self.told:
            return self
        told = {**dict.fromkeys(self.stamps, time.time()), **self.told}
        return Sent(self.topic, json.dumps(told).encode(), {}, (), self.key, self.headers)


def log(
    job: str, text: str | bytes, *, attempt: int = 1, rank: int = 0, stream: str = "stderr", **told: object
) -> Sent:
    """Lines of one rank in the `raw` format; `time` may be told."""
    named = {
        "cluster": "default",
        "job": job,
        "attempt": attempt,
        "rank": rank,
        "node": f"node-{rank}",
        "stream": stream,
    }
    headers = tuple((name, str(value).encode()) for name, value in {**named, **told}.items())
    return Sent(LOGS, text if isinstance(text, bytes) else text.encode(), key=job.encode(), headers=headers)


def started(job: str, attempt: int = 1, **told: object) -> Sent:
    """An attempt starts."""
    return _event(job, attempt, ("started_at",), phase="started", **told)


def ended(job: str, state: str = "FAILED", attempt: int = 1, **told: object) -> Sent:
    """An attempt ends."""
    code = {"exit_code": 0 if state == "COMPLETED" else 1} if "signal" not in told else {}
    return _event(job, attempt, ("ended_at",), phase="ended", state=state, **{**code, **told})


def disrupted(job: str, reason: str, attempt: int = 1, **told: object) -> Sent:
    """The scheduler says that it disturbed an attempt."""
    return _event(job, attempt, ("time",), phase="disrupted", reason=reason, **told)


def _event(job: str, attempt: int, stamps: tuple[str, ...], **told: object) -> Sent:
    named = {"type": "job_event", "scheduler": "demo", "job_id": job, "nodes": ["node-0", "node-1"], "gpus": 2}
    return Sent(
        EVENTS,
        told={**named, "ref": str(attempt), "attempt_ref": {"attempt": attempt}, **told},
        stamps=stamps,
        key=job.encode(),
    )


@dataclass(frozen=True, slots=True)
class Told:
    """One record of the advice topic and when it came."""

    at: float
    body: dict[str, Any]
    headers: dict[str, str]
    key: str


@dataclass(frozen=True, slots=True)
class At:
    """Records to send so many seconds after the beginning."""

    seconds: float
    records: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Want:
    """Advice that must come, not before `earliest` and not after `latest` (seconds after the beginning)."""

    earliest: float
    latest: float
    job: str
    like: Mapping[str, object]


def at(seconds: float, *records: Sent) -> At:
    """Send the records then."""
    return At(seconds, records)


def advice(job: str, **like: object) -> tuple[str, Mapping[str, object]]:
    """Advice for a job with these fields in its body."""
    return job, like


def want_between(earliest: float, latest: float, wanted: tuple[str, Mapping[str, object]]) -> Want:
    """Expect advice between the two times."""
    return Want(earliest, latest, *wanted)


def play(service: Service, *steps: At | Want) -> list[Told]:
    """Send everything at its time, then check every want; returns the advice that was wanted, in the order of wants."""
    begun = time.time()
    for step in sorted((s for s in steps if isinstance(s, At)), key=lambda s: s.seconds):
        time.sleep(max(0.0, begun + step.seconds - time.time()))
        service.send(*step.records)
    found = []
    for want in (s for s in steps if isinstance(s, Want)):
        told = service.advice(want.job, begun + want.latest - time.time(), **want.like)
        came = told.at - begun
        assert want.earliest <= came, f"{want.job}: {dict(want.like)} came after {came:.1f} s, before {want.earliest} s"
        found.append(told)
    return found


class Agent:
    """One agent as a process; its log is appended over restarts."""

    def __init__(self, name: str, environ: Mapping[str, str], folder: Path) -> None:
        self.name, self.folder = name, folder
        self.log = folder / f"{name}.log"
        self.environ = dict(environ)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        """Start it, with settings that differ this time; `wait_healthy` waits for it."""
        self.port = free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("EXITSIGN_")}
        told = {**clean, "PYTHONPATH": str(ROOT), **self.environ, **settings, "EXITSIGN_METRICS_PORT": str(self.port)}
        with self.log.open("ab") as out:
            command = [sys.executable, "-m", "services.cli", "run", self.name]
            self.process = subprocess.Popen(command, env=told, stdout=out, stderr=out, cwd=self.folder)

    def wait_healthy(self) -> None:
        """Wait until /healthz says 200: it owns partitions and gets on."""
        until(self._healthy, START_S, f"the {self.name} is healthy; its log ends: {self.tail()}")

    def _healthy(self) -> bool:
        assert self.running.poll() is None, f"the {self.name} ended with {self.running.returncode}: {self.tail()}"
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        return sum(
            float(v) for told, v in found if all(f'{label}="{value}"' in told for label, value in labels.items())
        )

    def kill(self) -> None:
        """SIGKILL."""
        self.running.kill()
        self.running.wait()

    def stop(self, limit_s: float = 30.0) -> int:
        """SIGTERM; the exit status."""
        self.running.send_signal(signal.SIGTERM)
        return self.running.wait(limit_s)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """Its process."""
        assert self.process is not None, f"the {self.name} was never started"
        return self.process


class Service:
    """The agents over one stack, a producer, and a reader of advice."""

    def __init__(self, stack: Stack, environ: Mapping[str, str], folder: Path) -> None:
        self.stack, self.environ = stack, dict(environ)
        self.agents = {name: Agent(name, environ, folder) for name in AGENTS}
        self._loop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(target=self._loop.run_forever, name="producer", daemon=True)
        self._loop_thread.start()
        # NB: not kafka-python's, whose checksum of a 10 MB line takes ten seconds.
        self._producer = self._do(_producer(stack.bootstrap))
        self._told: list[Told] = []
        self._reader = asyncio.run_coroutine_threadsafe(self._read_advice(), self._loop)

    def start(self) -> None:
        """Start every agent and wait until all are healthy."""
        for agent in self.agents.values():
            agent.start()
        for agent in self.agents.values():
            agent.wait_healthy()

    def close(self) -> None:
        """End every agent, and the clients."""
        for agent in self.agents.values():
            if agent.process is not None and agent.process.poll() is None:
                agent.process.terminate()
        for agent in self.agents.values():
            if agent.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    agent.process.wait(15)
                agent.kill()
        self._do(self._stop_clients())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_thread.join()
        self._loop.close()

    async def _stop_clients(self) -> None:
        self._reader.cancel()
        await self._producer.stop()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    def send(self, *records: Sent) -> list[Any]:
        """Send records, stamped now, and wait until the brokers have them; their metadata (partition, offset)."""
        return self._do(self._send([record.stamped() for record in records]))

    async def _send(self, records: Sequence[Sent]) -> list[Any]:
        waiting = [
            await self._producer.send(r.topic, r.value or None, key=r.key, headers=list(r.headers)) for r in records
        ]
        return await asyncio.gather(*waiting)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def told(self, job: str, **like: object) -> list[Told]:
        """The advice that came for a job so far, in the order of arrival."""
        mine = [t for t in list(self._told) if t.body["job_id"] == job]
        return [t for t in mine if all(t.body[name] == value for name, value in like.items())]

    def advice(self, job: str, limit_s: float = 30.0, **like: object) -> Told:
        """The first advice like this for the job; fails where none comes in time."""
        assert not self._reader.done(), f"nobody reads advice any more: {self._reader}"
        with suppress(TimeoutError):
            return until(lambda: self.told(job, **like), limit_s, "")[0]
        bodies = [{n: t.body.get(n) for n in ("label", "revision", "final", *like)} for t in self.told(job)]
        raise AssertionError(f"{job}: no advice like {like} within {limit_s:.0f} s; there is {bodies}")

    def rows(self, job: str) -> list[dict[str, Any]]:
        """The job's rows of the view `failures`, by attempt."""
        with psycopg.connect(self.stack.dsn, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(
                "SELECT * FROM failures WHERE job_id LIKE %s ORDER BY job_id, attempt", (job,)
            ).fetchall()

    def row(self, job: str, limit_s: float = 30.0, **like: object) -> dict[str, Any]:
        """The job's first row that looks like this, once it is there."""

        def there() -> list[dict[str, Any]]:
            return [r for r in self.rows(job) if all(r[name] == value for name, value in like.items())]

        return until(there, limit_s, f"a row of {job} like {like}")[0]

    def settle(self, limit_s: float = 40.0) -> None:
        """Wait until all that was sent so far is scanned, decided upon and recorded."""
        for agent, read in (
            ("scanner", (LOGS, EVENTS, NODES, "job-logs")),
            ("attributor", (topics.EVIDENCE,)),
            ("recorder", (topics.VERDICTS, topics.ADVICE)),
        ):
            for topic in read:
                goal = asyncio.run(ends(self.stack.bootstrap, topic, int(self.environ["EXITSIGN_PARTITIONS"])))
                until(lambda a=agent, t=topic, g=goal: self._committed(a, t, g), limit_s, f"the {agent} read {topic}")  # type: ignore[misc]

    def _committed(self, agent: str, topic: str, goal: Mapping[int, int]) -> bool:
        have = asyncio.run(committed(self.stack.bootstrap, f"{self.environ['EXITSIGN_GROUP_PREFIX']}-{agent}", topic))
        return all(have.get(partition, 0) >= offset for partition, offset in goal.items())

    def records(self, topic: str) -> list[Any]:
        """Every record of a topic, up to its present end."""
        return self._do(_records(self.stack.bootstrap, topic))

    def record_at(self, topic: str, partition: int, offset: int) -> Any:
        """The record at one place."""
        return self._do(_record_at(self.stack.bootstrap, TopicPartition(topic, partition), offset))

    def dead_letter(self, metadata: Any, limit_s: float = 30.0) -> tuple[dict[str, str], Any]:
        """(headers, record) of the dead letter that a sent record became."""
        wanted = {"x-original-topic": metadata.topic, "x-original-partition": str(metadata.partition)}
        wanted["x-original-offset"] = str(metadata.offset)

        def there() -> list[tuple[dict[str, str], Any]]:
            letters = [({n: v.decode() for n, v in r.headers}, r) for r in self.records(topics.POISON)]
            return [letter for letter in letters if wanted.items() <= letter[0].items()]

        return until(there, limit_s, f"a dead letter of {wanted}")[0]

    async def _read_advice(self) -> None:
        # NB: not kafka-python's consumer, which leaks the sockets that it dials while a broker is down.
        async with AIOKafkaConsumer(
            topics.ADVICE, bootstrap_servers=self.stack.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                headers = {name: value.decode() for name, value in record.headers}
                self._told.append(Told(time.time(), json.loads(record.value), headers, record.key.decode()))


async def _producer(bootstrap: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        max_request_size=32 * 1024 * 1024,
        request_timeout_ms=90_000,
    )
    await producer.start()
    return producer


async def _records(bootstrap: str, topic: str) -> list[Any]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, p) for p in await _partitions(consumer, topic)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        goal = await consumer.end_offsets(places)
        found: list[Any] = []
        while any([await consumer.position(place) < goal[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
        return found


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> Iterable[int]:
    consumer.subscribe([topic])
    while not (found := consumer.partitions_for_topic(topic)):
        await asyncio.sleep(0.05)
    consumer.unsubscribe()
    return sorted(found)


async def _record_at(bootstrap: str, place: TopicPartition, offset: int) -> Any:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        return await asyncio.wait_for(consumer.getone(place), 10)


@contextmanager
def running(stack: Stack, folder: Path, *, signatures: str = CATALOG, **settings: object) -> Iterator[Service]:
    """The service over the stack with this catalog and these settings (`late_facts_s=15`), healthy; ended afterwards."""
    catalog = folder / "signatures"
    catalog.mkdir(parents=True)
    (catalog / "exit_spec.yaml").write_text(SPEC_TEXT)
    (catalog / "some.yaml").write_text(signatures)
    with serving(stack, folder, catalog, **settings) as service:
        yield service


def packaged_copy(folder: Path) -> Path:
    """A copy of the signatures that ship: an edit while the tests run must not be swapped in."""
    catalog = folder / "signatures"
    catalog.mkdir()
    for file in PACKAGED.glob("*.yaml"):
        shutil.copy(file, catalog)
    return catalog


@contextmanager
def serving(stack: Stack, folder: Path, catalog: Path, **settings: object) -> Iterator[Service]:
    """As `running`, over a folder of signature files."""
    from services.admin import create_topics

    short = {
        "grace_s": GRACE_S,
        "max_wait_s": 20,
        "late_facts_s": LATE_FACTS_S,
        "tick_s": 0.3,
        "fallback": False,
        **settings,
    }
    environ = {
        **stack.environ(),
        **{f"EXITSIGN_{name.upper()}": str(value) for name, value in short.items()},
        "EXITSIGN_SIGNATURES": str(catalog),
        "EXITSIGN_PARTITIONS": "2",
        "EXITSIGN_GROUP_PREFIX": "acceptance",
    }
    database.upgrade(stack.dsn)
    create_topics(load(environ=environ))
    with ExitStack() as cleanup:
        service = Service(stack, environ, folder)
        cleanup.callback(service.close)
        service.start()
        yield service


def until(there: Callable[[], T], limit_s: float, what: str) -> T:
    """What `there` gives once it is true.  Raises TimeoutError saying what was waited for."""
    deadline = time.monotonic() + limit_s
    while not (found := there()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(0.1)
    return found
