"""A worker for the tests of the transport: reads one topic, writes what happens to it into a file, one JSON line each.

Lines: {"batch": [partition, first, next], "offsets": [...], "values": [...], "rss": MB} when a batch is durable,
{"at": "..."} for other moments, {"progress": {partition: [acked, highwater, lag, scanned_to]}} all 0.2 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
from typing import Any

from services.transport import Batch
from services.worker import batches, make_app, run


class Fatal(Exception):
    """What `fatal` names."""


def main(options: dict[str, Any]) -> int:
    out = os.open(options["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    limits = {"max_records": options.get("max_records", 10_000), "session_timeout_s": 6.0}
    app = make_app(options["group"], options["bootstrap"], **limits)
    tries = [0]

    def tell(line: dict[str, Any]) -> None:
        os.write(out, json.dumps(line).encode() + b"\n")

    async def process(batch: Batch) -> None:
        tries[0] += 1
        where = [batch.partition, batch.first_offset, batch.next_offset]
        if batch.first_offset >= options.get("trouble_from", 1 << 62):
            tell({"at": "trouble", "batch": where})
            await trouble(options["trouble"], tries[0])
        await asyncio.sleep(options.get("pause_s", 0))
        brief = options.get("brief")
        tell(
            {
                "batch": where,
                "offsets": [] if brief else [r.offset for r in batch.records],
                "values": [] if brief else [r.value.decode() if r.value is not None else None for r in batch.records],
                "time": batch.records[-1].timestamp / 1000,
                "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )

    def watch() -> None:
        while True:
            time.sleep(0.2)
            p = app.progress
            tps = sorted(p.partitions())
            told = {tp.partition: [p.acked(tp), p.highwater(tp), p.lag(tp), p.scanned_to(tp)] for tp in tps}
            tell({"progress": told})

    batches(app, [options["topic"]], process, on_retry=lambda batch, error: tell({"at": "retry"}), fatal=(Fatal,))
    threading.Thread(target=watch, daemon=True).start()
    return run(
        app,
        on_started=lambda: tell({"at": "started", "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}),
        on_assigned=lambda tps: tell({"at": "assigned", "partitions": sorted(tp.partition for tp in tps)}),
        on_revoked=lambda tps: tell({"at": "revoked", "partitions": sorted(tp.partition for tp in tps)}),
        deadline_s=options.get("deadline_s", 10.0),
        watchdog_s=options.get("watchdog_s", 120.0),
    )


async def trouble(kind: str, tries: int) -> None:
    if kind == "wait":
        await asyncio.Event().wait()
    elif kind == "block":
        time.sleep(1000)
    elif kind == "fatal":
        raise Fatal("as asked")
    elif kind == "raise":
        raise RuntimeError("as asked, for ever")
    elif kind == "raise twice" and tries <= 2:
        raise RuntimeError("as asked")


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
