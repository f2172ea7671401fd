"""The attributor: evidence in, verdicts and advice out; its memory is a compacted topic of ours.

Each batch: take its records into the states of their jobs, decide what can be decided, write the changed states, then
the verdicts and advice, then acknowledge.  A state holds its unsent verdicts, so a crash between two of these writes
repeats the same bytes under the same ids.  DECISIONS.md says why this is not a Faust table.

Rule: a partition's states are read back before its first batch is processed.
Rule: state first, then outputs, then the acknowledgement; after a failure memory is dropped and read back, because a
second try over it would find nothing changed, and write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from classifiers.advice import Policy
from classifiers.attempt import JobState, attempts, step
from classifiers.decision import Judge, Published, Timing, decide, next_due
from classifiers.hybrid import Guesser
from classifiers.records import Context, Evidence, JobEvent, Phase, Tick
from services import metrics, topics, wire
from services.produce import Message, Producer
from services.settings import Settings
from services.signature_files import LiveMatcher
from services.transport import Batch
from services.watermarks import Watermarks
from services.worker import read_partition

AGENT = "attributor"
MAX_STATE = 7 * 1024 * 1024  # Below what the topic takes (topics.LARGE), for what no compression makes smaller.
log = structlog.get_logger()


@dataclass
class Partition:
    """What one partition of the evidence topic knows: its jobs, when each is due, its clock."""

    jobs: dict[bytes, JobState] = field(default_factory=dict)
    due: dict[bytes, float] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=Watermarks)


def judge_of(live: LiveMatcher, settings: Settings, guess: Guesser | None = None) -> Judge:
    """The judge that settings and the catalog in use make."""
    matcher = live.current
    return Judge(
        spec=matcher.catalog.spec,
        digest=matcher.catalog.digest,
        match_facts=matcher.facts,
        guess=guess,
        timing=Timing(settings.grace_s, settings.max_wait_s, settings.late_facts_s),
        policy=Policy(
            max_retries=settings.max_retries,
            min_success=settings.min_success,
            enforce_confidence=settings.enforce_confidence,
            shadow=settings.shadow,
            expiry_s=settings.advice_expiry_s,
        ),
    )


class Attributor:
    """Holds the jobs of the partitions that this worker owns."""

    topics = (topics.EVIDENCE,)

    def __init__(self, settings: Settings, live: LiveMatcher, producer: Producer, guess: Guesser | None = None) -> None:
        self._settings, self._live, self._producer, self._guess = settings, live, producer, guess
        self._partitions: dict[int, Partition] = {}

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop what is known of partitions that another worker owns now."""
        for partition in partitions:
            self._partitions.pop(partition, None)

    async def process(self, batch: Batch) -> None:
        """Take one batch in and make what follows from it durable."""
        try:
            await self._process(batch)
        except BaseException:
            self.forget([batch.partition])
            raise

    async def _process(self, batch: Batch) -> None:
        mine = self._partitions.get(batch.partition) or await self._load(batch.partition)
        changed = self._take_in(batch, mine)
        clock = replace(mine.watermarks.clock(), at=time.time())
        judge = judge_of(self._live, self._settings, self._guess)
        passed = max(clock.watermark or 0.0, clock.now - judge.timing.max_wait_s)
        ready = changed | {key for key, due in mine.due.items() if due <= passed}
        published: list[tuple[bytes, Published]] = []
        for key in ready:
            state, said = decide(mine.jobs[key], clock, judge)
            if said:
                changed.add(key)
                published += [(key, p) for p in said]
            self._keep(mine, key, state, judge)
        gone = self._expired(mine, clock.now)
        await self._producer.send_all(self._states(batch.partition, mine, changed | gone))
        await self._producer.send_all(m for key, p in published for m in outputs(key, p))
        self._count(batch, mine, published)

    async def _load(self, partition: int) -> Partition:
        """Read the partition's jobs back and say again what a crash may have kept from being said."""
        mine = Partition()
        async for record in read_partition(self._settings.kafka, topics.ATTEMPTS, partition):
            if record.value is None:
                mine.jobs.pop(record.key, None)
                continue
            try:
                mine.jobs[record.key] = wire.job_state(record.value)
            except wire.Unknown as error:
                metrics.UNKNOWN_RECORDS.labels(topics.ATTEMPTS).inc()
                log.error("a job's state can't be read and is left alone", offset=record.offset, problem=str(error))
        judge = judge_of(self._live, self._settings, self._guess)
        for key, state in mine.jobs.items():
            self._keep(mine, key, state, judge)
        unsent = [
            (key, Published(p.verdict, p.advice))
            for key, s in mine.jobs.items()
            for p in s.past
            if p.verdict is not None
        ]
        await self._producer.send_all(m for key, p in unsent for m in outputs(key, p))
        self._partitions[partition] = mine
        log.info("jobs read back", partition=partition, jobs=len(mine.jobs), said_again=len(unsent))
        return mine

    def _take_in(self, batch: Batch, mine: Partition) -> set[bytes]:
        changed: set[bytes] = set()
        for record in batch.records:
            try:
                read = wire.job_record(record.value or b"")
            except wire.Unknown:
                metrics.UNKNOWN_RECORDS.labels(batch.topic).inc()
                continue
            if isinstance(read, Tick):
                mine.watermarks.note(read)
            else:
                changed |= self._step(mine, read)
        return changed

    def _step(self, mine: Partition, read: JobEvent | Evidence | Context) -> set[bytes]:
        key = wire.job_key(read.cluster, read.job_id)
        old = mine.jobs.get(key) or JobState(cluster=read.cluster, job_id=read.job_id)
        new = step(old, read)
        mine.jobs[key] = new
        return {key} if new != old else set()

    def _keep(self, mine: Partition, key: bytes, state: JobState, judge: Judge) -> None:
        mine.jobs[key] = state
        due = next_due(state, judge)
        if due is None:
            mine.due.pop(key, None)
        else:
            mine.due[key] = due

    def _expired(self, mine: Partition, now: float) -> set[bytes]:
        """Jobs that have been quiet for job_ttl_s and wait for nothing; they leave memory and topic."""
        old = {k for k, s in mine.jobs.items() if s.touched_at < now - self._settings.job_ttl_s and k not in mine.due}
        for key in old:
            state = mine.jobs.pop(key)
            if not state.past and not attempts(state):
                metrics.STRANGERS.inc(len(state.evidence))
        return old

    def _states(self, partition: int, mine: Partition, keys: set[bytes]) -> list[Message]:
        return [
            Message(topics.ATTEMPTS, key, stored(mine.jobs[key]) if key in mine.jobs else None, [], partition)
            for key in sorted(keys)
        ]

    def _count(self, batch: Batch, mine: Partition, published: list[tuple[bytes, Published]]) -> None:
        metrics.RECORDS.labels(AGENT, batch.topic).inc(len(batch.records))
        metrics.OPEN_JOBS.set(sum(len(p.jobs) for p in self._partitions.values()))
        clock = mine.watermarks.clock()
        if clock.watermark is not None:
            metrics.WATERMARK_LAG.set(max(0.0, clock.now - clock.watermark))
        for key, said in published:
            verdict, advice = said.verdict, said.advice
            metrics.VERDICTS.labels(verdict.label or "none", verdict.source, str(verdict.final).lower()).inc()
            if advice:
                metrics.ADVICE.labels(advice.action, advice.mode).inc()
                ends = [
                    e.appended_at
                    for e in mine.jobs[key].events
                    if e.phase is Phase.ENDED and e.ref == verdict.facts.ref
                ]
                if advice.revision == 1 and ends:
                    metrics.ADVICE_LATENCY.observe(max(0.0, time.time() - min(ends)))


def stored(state: JobState) -> bytes:
    """A state as its topic takes it: of an outsize one (a job may print what it likes) the next owner gets less."""
    value = wire.encode(state)
    while len(value) > MAX_STATE and (state.context or state.evidence or any(e.nodes for e in state.events)):
        state = msgspec.structs.replace(
            state,
            context=(),
            evidence=state.evidence[: len(state.evidence) // 2],
            events=tuple(msgspec.structs.replace(e, nodes=()) for e in state.events),
        )
        value = wire.encode(state)
        log.warning("a job's state is outsize and was cut", job=state.job_id, evidence=len(state.evidence))
    return value


def outputs(key: bytes, published: Published) -> list[Message]:
    """The messages of one decision: the verdict, and the advice as a CloudEvent."""
    verdict, advice = published.verdict, published.advice
    facts = verdict.facts
    said = [
        Message(
            topics.VERDICTS,
            wire.attempt_key(facts.cluster, facts.job_id, verdict.attempt),
            wire.encode(verdict),
            [("content-type", b"application/json")],
        )
    ]
    if advice is not None:
        said.append(Message(topics.ADVICE, key, wire.encode(advice), wire.advice_headers(advice)))
    return said
