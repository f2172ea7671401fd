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
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from load_tests.bench_readers import READ, TOPIC, packaged_matcher

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
    sent: list[asyncio.Future[object]] = []
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


def _report(options: argparse.Namespace, found: dict[str, dict[str, float]]) -> None:
    ours, plain = found["ours"], found["plain"]
    ratio = round(ours["records_per_s"] / plain["records_per_s"], 1)
    cpu_ratio = round(plain["cpu_s_per_million"] / ours["cpu_s_per_million"], 1)
    catalog = packaged_matcher().catalog
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
