"""Puts each agent together and runs it: catalog, producer, Faust app, health endpoint, ticks.

Rule: one process is one agent; `run all` is one process for each, watched, and all end when one does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from services import metrics, topics
from services.attributor import Attributor
from services.health import serve
from services.live_model import LiveModel
from services.poison import TooMuchPoison
from services.produce import Producer
from services.recorder import Recorder
from services.scanner import Scanner
from services.settings import Settings
from services.signature_files import LiveMatcher, folder_of, follow
from services.store import Store
from services.worker import App, batches, make_app, run

AGENTS = ("scanner", "attributor", "recorder")
LAG_EVERY_S = 2.0
COUNTS_EVERY_S = 30.0
log = structlog.get_logger()


def run_agent(name: str, settings: Settings) -> int:
    """Run one agent until a signal ends it; returns its exit status.  Raises PortTaken and the errors of a bad catalog."""
    _start_logging(settings.log_level)
    return {"scanner": _run_scanner, "attributor": _run_attributor, "recorder": _run_recorder}[name](settings)


def run_all(names: tuple[str, ...], environment: dict[str, str]) -> int:
    """Run every agent as a process of its own; SIGTERM ends them all, and so does the end of any of them."""
    processes = {name: _spawn(name, environment) for name in names}
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(0.2) and all(process.poll() is None for process in processes.values()):
        pass
    gone = {name: process.returncode for name, process in processes.items() if process.poll() is not None}
    if gone and not stop.is_set():
        log.critical("an agent ended, so all end", ended=gone)
    for process in processes.values():
        process.terminate()
    statuses = [process.wait() for process in processes.values()]
    return next((status for status in gone.values() if status), 1) if gone and not stop.is_set() else max(statuses)


def _spawn(name: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "services.cli", "run", name]
    return subprocess.Popen(command, env={**os.environ, **environment, "EXITSIGN_METRICS_PORT": "0"})


def _run_scanner(settings: Settings) -> int:
    live = LiveMatcher(folder_of(settings.signatures), settings.match_time_limit_s)
    app, producer = _app("scanner", settings)
    scanner = Scanner(settings, live, producer)
    follow(live, settings.reload_s)
    tasks: list[asyncio.Task[None]] = []
    return _run(
        app,
        "scanner",
        settings,
        scanner,
        on_started=lambda: tasks.append(asyncio.ensure_future(_tick(app, scanner, settings))),
    )


def _run_attributor(settings: Settings) -> int:
    live = LiveMatcher(folder_of(settings.signatures), settings.match_time_limit_s)
    app, producer = _app("attributor", settings)
    folder = folder_of(settings.signatures)
    guess = LiveModel(folder, settings.match_time_limit_s).guess if settings.fallback else None
    attributor = Attributor(settings, live, producer, guess)
    follow(live, settings.reload_s)
    return _run(
        app, "attributor", settings, attributor, on_revoked=lambda tps: attributor.forget(tp.partition for tp in tps)
    )


def _run_recorder(settings: Settings) -> int:
    app, producer = _app("recorder", settings)
    recorder = Recorder(settings, Store(settings.postgres), producer, app.life.touch)
    return _run(app, "recorder", settings, recorder)


def _app(name: str, settings: Settings) -> tuple[App, Producer]:
    app = make_app(f"{settings.group_prefix}-{name}", settings.kafka)
    # NB: gzip, because every Kafka client reads it without another library: schedulers consume what we send.
    return app, Producer(settings.kafka, compression="gzip", on_wait=app.life.touch)


def _run(app: App, name: str, settings: Settings, agent: Any, **hooks: Callable[..., Any]) -> int:
    server = serve(name, settings.metrics_host, settings.metrics_port, lambda: _health(app, settings))

    async def process(batch: Any) -> None:
        with metrics.BATCH_SECONDS.labels(name).time():
            await agent.process(batch)

    batches(
        app,
        list(agent.topics),
        process,
        on_retry=lambda batch, error: metrics.RETRIES.labels(name).inc(),
        fatal=(TooMuchPoison,),
    )
    threading.Thread(target=_tell_lag, args=(app, name), name="lag", daemon=True).start()
    log.info(
        "agent starts",
        agent=name,
        kafka=settings.kafka,
        health=f"http://{settings.metrics_host}:{server.server_port}/healthz",
    )
    status = run(app, deadline_s=settings.shutdown_s, watchdog_s=settings.watchdog_s, **hooks)
    log.info("agent ended", agent=name, status=status)
    return status


def _health(app: App, settings: Settings) -> dict[str, Any]:
    quiet_s = time.monotonic() - app.life.touched_at
    partitions = app.progress.partitions()
    return {
        "healthy": bool(partitions) and quiet_s < settings.watchdog_s,
        "partitions": sorted(f"{tp.topic}/{tp.partition}" for tp in partitions),
        "lag": sum(app.progress.lag(tp) or 0 for tp in partitions),
        "seconds_since_progress": round(quiet_s, 1),
    }


def _tell_lag(app: App, name: str) -> None:
    while True:
        time.sleep(LAG_EVERY_S)
        for tp in app.progress.partitions():
            metrics.LAG.labels(name, tp.topic, str(tp.partition)).set(app.progress.lag(tp) or 0)


async def _tick(app: App, scanner: Scanner, settings: Settings) -> None:
    """Tell the watermarks of this scanner's partitions, every tick_s, for as long as it runs."""
    name = f"{os.uname().nodename}/{os.getpid()}"
    counts: dict[str, int] = {}
    counted_at = 0.0
    while not app.life.stopping:
        await asyncio.sleep(settings.tick_s)
        if time.monotonic() - counted_at > COUNTS_EVERY_S or not counts:
            with suppress(KafkaError, OSError):
                counts = await asyncio.to_thread(partition_counts, settings.kafka, [*scanner.topics, topics.EVIDENCE])
                counted_at = time.monotonic()
        scanned = {
            f"{tp.topic}/{tp.partition}": marked
            for tp in app.progress.partitions()
            if (marked := app.progress.scanned_to(tp)) is not None
        }
        if counts:
            inputs = {topic: count for topic, count in counts.items() if topic != topics.EVIDENCE}
            await scanner.tell(scanned, inputs, time.time(), name, counts[topics.EVIDENCE])


def partition_counts(bootstrap: str, names: list[str]) -> dict[str, int]:
    """How many partitions each topic has."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        return {row["name"]: len(row["partitions"]) for row in client.describe_topics(names)}
    finally:
        client.close()


def _start_logging(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
