"""How a worker starts, ends by signal or trouble, and is watched.

Rule: nothing undone is acknowledged at the end: the process leaves by os._exit, and the batch is read again.
Rule: a worker that lags and shows no sign of life ends itself; so does one that Faust or Kafka gave up on.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from faust.types import TP

from services.spans import Batch

EX_FATAL, EX_STUCK, EX_UNDONE = 65, 70, 75  # sysexits.h: data error, software, temporary failure
Hook = Callable[[frozenset[TP]], None]
log = structlog.get_logger()


class Life:
    """What one worker is at: the batch in work, the wish to stop, the last sign of life."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ()
        self.busy: Batch | None = None
        self.stopping = False
        self.ending: asyncio.Event | None = None
        self.status = 0
        self.touched_at = time.monotonic()
        self.on_assigned: list[Hook] = []
        self.on_revoked: list[Hook] = []

    def touch(self) -> None:
        """A sign of life for the watchdog: long waits that are meant, as for Postgres, give one now and then."""
        self.touched_at = time.monotonic()

    def end(self, status: int = 0) -> None:
        """Ask the worker to stop with this exit status; from the event loop."""
        self.stopping, self.status = True, self.status or status
        if self.ending:
            self.ending.set()

    async def idle(self, limit_s: float) -> bool:
        """Wait until no batch is in work; False where the limit came first."""
        end = time.monotonic() + limit_s
        while self.busy and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return self.busy is None

    def assigned(self, tps: set[TP]) -> None:
        """Called before the first batch of the partitions."""
        self.touch()
        log.info("partitions assigned", partitions=_names(tps))
        self._call(self.on_assigned, tps)

    def revoked(self, tps: set[TP]) -> None:
        """Called when no batch of the partitions can be acknowledged any more."""
        log.info("partitions revoked", partitions=_names(tps))
        self._call(self.on_revoked, tps)

    def _call(self, hooks: list[Hook], tps: set[TP]) -> None:
        try:
            for hook in hooks:
                hook(frozenset(tps))
        except Exception:
            # NB: raised into aiokafka, it would be logged and the rebalance left half done.
            log.critical("a hook failed; the worker ends", exc_info=True)
            self.end(EX_STUCK)


def run(
    app: Any,
    *,
    on_started: Callable[[], None] | None = None,
    on_assigned: Hook | None = None,
    on_revoked: Hook | None = None,
    deadline_s: float = 10.0,
    watchdog_s: float = 120.0,
) -> int:
    """Run the app until SIGTERM or SIGINT: in the main thread, and last, for what lingers is ended at the deadline.

    Returns 0 after a clean end.  Leaves by os._exit with 75 where a batch was not done in time, 70 where the worker was
    stuck or Faust gave up, 65 on a fatal exception.  Hooks are called on the event loop: `on_started` once the worker has
    joined its group, `on_assigned` before the first batch of the partitions, `on_revoked` after the last.
    """
    app.life.on_assigned += [on_assigned] if on_assigned else []
    app.life.on_revoked += [on_revoked] if on_revoked else []
    gc.collect()
    gc.freeze()  # Catalog and libraries stay: walking them again and again cost a fifth of the transport's speed.
    return asyncio.run(_serve(app, on_started, deadline_s, watchdog_s))


async def _serve(app: Any, on_started: Callable[[], None] | None, deadline_s: float, watchdog_s: float) -> int:
    life: Life = app.life
    life.ending = asyncio.Event()
    _end_on_signals(app, deadline_s)
    stop = asyncio.ensure_future(life.ending.wait())
    try:
        if not await _first(_topics_exist(app), stop):
            return life.status
        threading.Thread(target=_watch, args=(app, watchdog_s), name="watchdog", daemon=True).start()
        if await _first(app.start(), stop):
            if on_started:
                on_started()
            if await _first(app._crashed.wait(), stop):
                raise app.crash_reason or RuntimeError("Faust gave up")
    except Exception:
        log.critical("the worker ends", exc_info=True)
        life.end(EX_STUCK)
    return await _finish(app, deadline_s)


async def _first(work: Awaitable[Any], stop: asyncio.Future[Any]) -> bool:
    """True where `work` ended before `stop`; its exceptions pass."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    return task.done() and not stop.done()


async def _finish(app: Any, deadline_s: float) -> int:
    """The batch in work gets two fifths of the time, the last commit one, Faust's own end the rest."""
    life: Life = app.life
    life.stopping = True
    if app._consumer is None:
        return life.status
    app.consumer.stop_flow()
    idle = life.status == 0 and await life.idle(deadline_s * 0.4)
    await _attempt(app.consumer.force_commit(), deadline_s * 0.2)
    if idle and await _attempt(app.stop(), deadline_s * 0.3):
        return 0
    await _attempt(_leave_group(app.consumer._thread), deadline_s * 0.1)
    return _leave(life.status or (EX_UNDONE if life.busy else 0))


async def _leave_group(thread: Any) -> None:
    """The others take over at once instead of after the session time-out."""
    await thread.call_thread(thread._ensure_consumer().stop)


async def _attempt(work: Awaitable[Any], limit_s: float) -> bool:
    try:
        await asyncio.wait_for(work, limit_s)
    except Exception as error:
        log.warning("left undone at the end", problem=repr(error))
        return False
    return True


def _leave(status: int) -> NoReturn:
    log.warning("the worker leaves at once", status=status)
    logging.shutdown()
    os._exit(status)


def _end_on_signals(app: Any, deadline_s: float) -> None:
    """By signal.signal, not by the loop: a blocked loop must not outlive its deadline."""
    loop = asyncio.get_running_loop()

    def at_deadline() -> None:
        time.sleep(deadline_s - 0.5)
        _leave(EX_UNDONE if app.life.busy else app.life.status)

    def on_signal(number: int, frame: Any) -> None:
        threading.Thread(target=at_deadline, name="deadline", daemon=True).start()
        loop.call_soon_threadsafe(app.life.end)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)


def _watch(app: Any, limit_s: float) -> None:
    seen: dict[Any, int | None] = {}
    while True:
        time.sleep(min(1.0, limit_s / 4))
        acked = {tp: app.progress.acked(tp) for tp in app.progress.partitions()}
        if acked != seen or not app.progress.behind(limit_s):
            seen = acked
            app.life.touch()
        elif time.monotonic() - app.life.touched_at > limit_s:
            lag = {f"{tp.topic}/{tp.partition}": app.progress.lag(tp) for tp in acked}
            log.critical("no progress although there is work; the worker ends", after_s=limit_s, lag=lag)
            _leave(EX_STUCK)


async def _topics_exist(app: Any) -> None:
    """Wait for the topics: Faust would ignore a missing one for ever."""
    while True:
        admin = AIOKafkaAdminClient(bootstrap_servers=app.bootstrap)
        try:
            await admin.start()
            missing = set(app.life.topics) - set(await admin.list_topics())
            if not missing:
                return
            log.error("topics are missing; `exitsign topics create` makes them", topics=sorted(missing))
        except (KafkaError, OSError) as error:
            log.error("Kafka can't be reached; EXITSIGN_KAFKA says where", kafka=app.bootstrap, problem=repr(error))
        finally:
            await admin.close()
        await asyncio.sleep(2.0)


def _names(tps: Iterable[TP]) -> list[str]:
    return sorted(f"{tp.topic}/{tp.partition}" for tp in tps)
