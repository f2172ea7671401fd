"""Kills, signals and a broker's restart under load: nothing is lost, and nothing is said twice in the database."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from stack.service_kit import (
    AGENTS,
    CUDA_OOM,
    HEALTHY,
    MISSING,
    MPI,
    NCCL,
    Service,
    ended,
    log,
    running,
    started,
    until,
)

from services import topics
from services.stack.up import Stack

JOBS, LINES = 32, 80
CAUSES = {"gpu_oom": CUDA_OOM, "incorrect_inputs": MISSING, "mpi_error": MPI, None: None}
LATE_FACTS_S = 6.0


@pytest.fixture(scope="module", name="service")
def _service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("survive")
    # A crowded machine must not make verdicts late: what is tested is that nothing is lost.
    with running(stack, folder, late_facts_s=LATE_FACTS_S, max_wait_s=60) as service:
        yield service


class Load:
    """Jobs that run and fail in a thread, a few thousand lines in all; every fourth ends well."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.prefix = f"load-{uuid.uuid4().hex[:8]}"
        self.labels = {f"{self.prefix}-{n}": label for n, label in zip(range(JOBS), list(CAUSES) * JOBS, strict=False)}
        self.done = 0
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join(180)
        assert self.done == JOBS, f"only {self.done} of {JOBS} jobs were sent"

    def reach(self, part: float) -> None:
        """Wait until that part of the jobs has been sent."""
        until(lambda: self.done >= JOBS * part, 120, f"{part:.0%} of the load is sent")

    def _run(self) -> None:
        for job, label in self.labels.items():
            lines = [log(job, HEALTHY.format(n), rank=n % 4) for n in range(LINES)]
            cause = CAUSES[label]
            failure = [log(job, NCCL, rank=1), *([log(job, cause)] if cause else [])]
            end = ended(job) if label else ended(job, "COMPLETED")
            self.service.send(started(job), *lines, *failure, end)
            self.done += 1
            time.sleep(0.1)  # The pace of the load.

    def check(self) -> None:
        """Every failed attempt has one row, final and with its label, and advice of one id a revision."""
        failed = {job: label for job, label in self.labels.items() if label}
        every = f"{self.prefix}-%"

        def finals() -> list[dict[str, object]]:
            rows = [row for row in self.service.rows(every) if row["final"]]
            return rows if len(rows) >= len(failed) else []

        rows = until(
            finals, 90, f"{len(failed)} final rows; there are {Counter(r['final'] for r in self.service.rows(every))}"
        )
        assert [(job, 1, label) for job, label in sorted(failed.items())] == sorted(
            (r["job_id"], r["attempt"], r["label"]) for r in rows
        )
        for job, label in failed.items():
            told = self.service.told(job)
            assert told, f"{job} got no advice"
            assert (label, True) == (told[-1].body["label"], told[-1].body["final"])
            assert all(
                len({str(t.body) for t in told if t.body["advice_id"] == i}) == 1
                for i in {t.body["advice_id"] for t in told}
            )
        assert [] == [job for job in self.labels if job not in failed and self.service.told(job)]


def test_kills_of_every_agent_under_load_lose_nothing(service: Service) -> None:
    """Scanner, attributor and recorder are killed with -9 in turn and started again: every failure gets its one label."""
    with Load(service) as load:
        for name, part in (("scanner", 0.2), ("attributor", 0.5), ("recorder", 0.8)):
            load.reach(part)
            service.agents[name].kill()
            service.agents[name].start()
    for name in AGENTS:
        service.agents[name].wait_healthy()

    load.check()


def test_sigterm_ends_every_agent_in_time_under_load_and_loses_nothing(service: Service) -> None:
    """Each ends within ten seconds with status 0, in the middle of work; started again, it goes on where it was."""
    with Load(service) as load:
        load.reach(0.4)
        begun = time.monotonic()
        for agent in service.agents.values():
            agent.running.send_signal(signal.SIGTERM)
        statuses = {name: agent.running.wait(30) for name, agent in service.agents.items()}
        took_s = time.monotonic() - begun
        for agent in service.agents.values():
            agent.start()
    for agent in service.agents.values():
        agent.wait_healthy()

    assert dict.fromkeys(AGENTS, 0) == statuses
    assert took_s < 10
    load.check()


def test_a_broker_killed_under_load_loses_nothing(service: Service) -> None:
    """The only broker is killed with -9 and comes back: producers, agents and readers go on, without being restarted."""
    pids = {name: agent.running.pid for name, agent in service.agents.items()}
    with Load(service) as load:
        load.reach(0.4)
        service.stack.kafka.kill(0)
        service.stack.kafka.restart(0)

    load.check()
    assert [None] * 3 == [agent.running.poll() for agent in service.agents.values()]
    assert pids == {name: agent.running.pid for name, agent in service.agents.items()}


def test_a_state_that_was_refused_is_written_when_it_is_taken(service: Service) -> None:
    """While the attributor can't write what it knows, it acknowledges and advises nothing; then nothing is missing."""
    job, attributor = f"refused-{uuid.uuid4().hex[:8]}", service.agents["attributor"]
    before = attributor.metric("exitsign_batch_retries_total")
    usual = next(topic.config for topic in topics.OUR_TOPICS if topic.name == topics.ATTEMPTS)
    configure(service.stack.bootstrap, topics.ATTEMPTS, {**usual, "max.message.bytes": "100"})
    try:
        service.send(started(job), log(job, MISSING), ended(job))
        until(lambda: attributor.metric("exitsign_batch_retries_total") > before + 1, 20, "the attributor tries again")
        early = service.told(job)
    finally:
        configure(service.stack.bootstrap, topics.ATTEMPTS, usual)
    service.advice(job, 30.0, label="incorrect_inputs", revision=1)

    assert [] == early
    assert any(f"default/{job}".encode() == record.key for record in service.records(topics.ATTEMPTS))


def configure(bootstrap: str, topic: str, config: dict[str, str]) -> None:
    """Give a topic these settings, and none else."""

    async def alter() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
        finally:
            await admin.close()

    asyncio.run(alter())
