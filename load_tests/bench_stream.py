"""How many log lines a worker reads: a plain Faust agent with a loop of patterns against ours, on a real broker.

Each reader is a process of its own over the same topic: healthy lines of one kind of training log, one in
`FAILURE_EVERY` a failure.  Clock and CPU run from the first record to the last.

    python -m load_tests.bench_stream --records 500000

Readers: `plain` is an agent that gets one event a line and tries every pattern of the catalog with `regex`, as one would
write it; `ours` is the batching transport with the scanner's own scan; `plain-idle`, `ours-idle` and `getmany` (aiokafka
without Faust) only count, and show what transport alone costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

TOPIC = "job-logs"
PARTITIONS = 4
FAILURE_EVERY = 10_000
RESULTS = Path(__file__).parent / "results" / "stream.json"
READERS = ("plain", "ours", "plain-idle", "ours-idle", "getmany")
TARGET = 20.0


def main() -> None:
    options = _options()
    if options.read:
        READ[options.read](options)
        return
    from services.stack.up import Stack

    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        asyncio.run(_fill(stack.bootstrap, options.records))
        counts = {"plain": options.plain_records, "plain-idle": min(options.records, 20_000)}
        found = {name: _measure(name, stack.bootstrap, counts.get(name, options.records)) for name in READERS}
    _report(options, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000, help="lines in the topic")
    parser.add_argument("--plain-records", type=int, default=2_000, help="lines that the slow reader reads")
    parser.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--kafka", help=argparse.SUPPRESS)
    return parser.parse_args()


def line(number: int) -> bytes:
    """One line of about 170 bytes."""
    if number % FAILURE_EVERY == FAILURE_EVERY - 1:
        return (
            b"RuntimeError: CUDA error: an illegal memory access was encountered; CUDA kernel errors might be "
            b"asynchronously reported at some other API call, so the stacktrace below might be wrong."
        )
    return (
        f"2026-11-21 10:{number // 60 % 60:02}:{number % 60:02},123 INFO train.py:{number % 900} "
        f"epoch {number // 5000} step {number}/900000 loss={2 + number % 977 / 1000:.4f} lr=3.0e-04 grad_norm=0.8371 "
        f"tokens_per_s=181293 mfu=0.412 mem=61.2GiB"
    ).encode()


async def _fill(bootstrap: str, count: int) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    append_time = {"message.timestamp.type": "LogAppendTime"}
    await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, topic_configs=append_time)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=256 * 1024, compression_type="lz4")
    await producer.start()
    sent: list[asyncio.Future[Any]] = []
    number = 0
    while number < count:
        batch = producer.create_batch()
        key = f"default/job-{len(sent)}".encode()
        while number < count and batch.append(key=key, value=line(number), timestamp=None) is not None:
            number += 1
        sent.append(await producer.send_batch(batch, TOPIC, partition=len(sent) % PARTITIONS))
    await asyncio.gather(*sent)
    await producer.stop()


def _measure(name: str, bootstrap: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "load_tests.bench_stream"]
    command += ["--read", name, "--kafka", bootstrap, "--records", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{name:11} {found['records']:9,.0f} records  {found['records_per_s']:11,.0f} records/s  "
        f"{found['cpu_s_per_million']:8.1f} CPU s per million",
        flush=True,
    )
    return found


class Meter:
    """Counts records until all were read, then prints the measure and ends the process."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._count, self._evidence = wanted, 0, 0
        self._begin = self._cpu = 0.0

    def begin(self) -> None:
        """The first record is here, and no work was done on it."""
        if not self._begin:
            self._begin, self._cpu = time.perf_counter(), _cpu_s()

    def add(self, count: int, evidence: int = 0) -> None:
        """So many more were worked on, and gave so much evidence."""
        self._count += count
        self._evidence += evidence
        if self._count >= self._wanted:
            seconds, cpu_s = time.perf_counter() - self._begin, _cpu_s() - self._cpu
            measure = {
                "records": self._count,
                "seconds": round(seconds, 3),
                "records_per_s": round(self._count / seconds),
                "cpu_s_per_million": round(cpu_s / self._count * 1e6, 2),
                "evidence": self._evidence,
            }
            print(json.dumps(measure), flush=True)
            os._exit(0)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _read_plain(options: argparse.Namespace) -> None:
    import regex

    patterns = [regex.compile(p) for s in _matcher().catalog.active for p in s.patterns]

    def work(value: bytes) -> None:
        text = value.decode()
        for pattern in patterns:
            pattern.search(text)

    _run_plain(options, work)


def _run_plain(options: argparse.Namespace, work: Callable[[bytes], object]) -> None:
    """One event a line, with Faust's own transport and defaults."""
    import faust

    meter = Meter(options.records)
    app = faust.App(
        f"bench-{options.read}",
        broker=f"kafka://{options.kafka}",
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        store="memory://",
    )

    @app.agent(app.topic(TOPIC, value_serializer="raw"))
    async def agent(stream: Any) -> None:
        async for value in stream:
            meter.begin()
            work(value)
            meter.add(1)

    async def serve() -> None:
        await app.start()
        await asyncio.Event().wait()

    asyncio.run(serve())


def _read_ours(options: argparse.Namespace) -> None:
    from services import wire
    from services.formats import format_named
    from services.formats.base import Input
    from services.scanner import scan

    matcher, form, where = _matcher(), format_named("raw"), Input(topic=TOPIC, format="raw")

    async def work(batch: Any) -> int:
        records = [wire.raw_record(batch.topic, batch.partition, record) for record in batch.records]
        found = await asyncio.to_thread(scan, records, form, where, matcher, 20)
        return len(found.evidence)

    _run_ours(options, work)


def _run_ours(options: argparse.Namespace, work: Callable[[Any], Awaitable[int]]) -> None:
    """One event a batch, with the agents' skeleton."""
    from services.worker import batches, make_app, run

    meter = Meter(options.records)
    app = make_app(f"bench-{options.read}", options.kafka)

    async def process(batch: Any) -> None:
        meter.begin()
        meter.add(len(batch.records), await work(batch))

    batches(app, [TOPIC], process)
    run(app)


async def _nothing(batch: Any) -> int:
    """What an idle reader does with a batch."""
    return 0


def _read_getmany(options: argparse.Namespace) -> None:
    from aiokafka import AIOKafkaConsumer

    async def read() -> None:
        meter = Meter(options.records)
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=options.kafka,
            auto_offset_reset="earliest",
            group_id="bench-getmany",
            max_poll_records=10_000,  # As ours.
        )
        await consumer.start()
        while True:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                meter.begin()
                meter.add(len(records))

    asyncio.run(read())


def _matcher() -> Any:
    from services.signature_files import PACKAGED, load_matcher

    return load_matcher(PACKAGED)


READ: dict[str, Callable[[argparse.Namespace], None]] = {
    "plain": _read_plain,
    "ours": _read_ours,
    "plain-idle": lambda options: _run_plain(options, lambda value: None),
    "ours-idle": lambda options: _run_ours(options, _nothing),
    "getmany": _read_getmany,
}


def _report(options: argparse.Namespace, found: dict[str, dict[str, float]]) -> None:
    ours, plain = found["ours"], found["plain"]
    ratio = round(ours["records_per_s"] / plain["records_per_s"], 1)
    cpu_ratio = round(plain["cpu_s_per_million"] / ours["cpu_s_per_million"], 1)
    catalog = _matcher().catalog
    measure = {
        "records": options.records,
        "record_bytes": round(sum(len(line(n)) for n in range(FAILURE_EVERY)) / FAILURE_EVERY),
        "partitions": PARTITIONS,
        "signatures": len(catalog.active),
        "patterns": sum(len(s.patterns) for s in catalog.active),
        "catalog": catalog.digest,
        "readers": found,
        "ours_per_plain": ratio,
        "cpu_of_plain_per_ours": cpu_ratio,
        "target": TARGET,
        "machine": {
            "cpus": os.cpu_count(),
            "load_average": os.getloadavg()[0],
            "cpu": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {name: version(name) for name in ("faust-streaming", "aiokafka", "hyperscan", "regex")},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(measure, indent=2) + "\n")
    print(
        f"{measure['patterns']} patterns; ours reads {ratio} times as many as plain (target {TARGET:.0f}), for 1/{cpu_ratio} of the CPU"
    )
    print(f"written to {RESULTS.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
