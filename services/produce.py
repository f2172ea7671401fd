"""Sends what agents make: every message acknowledged by all in-sync replicas before `send_all` returns.

Faust's own send only queues, so an acknowledged input could lose its output (ECOSYSTEM).

Rule: `send_all` returns only when the brokers have everything; trouble is waited out, for ever.
Rule: keys go where Java clients would send them (murmur2), so that others can co-partition with us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

MAX_PAUSE_S = 10.0
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be sent; without `partition` the key decides, without key any partition will do."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None


Failed = list[tuple[Message, KafkaError]]


class MessageTooLarge(ValueError):
    """A message that its topic does not take, now or ever; `message` is it."""

    def __init__(self, message: Message, problem: str) -> None:
        super().__init__(f"{message.topic}: a message of {len(message.value or b'')} bytes is too large: {problem}")
        self.message = message


class ProducerStopped(RuntimeError):
    """`stop` was called while messages waited for the brokers."""


class Producer:
    """One idempotent producer; `start` before use, from one event loop.  `on_wait` is called at each failed try."""

    def __init__(
        self,
        bootstrap: str,
        *,
        compression: str | None = "lz4",
        linger_ms: int = 5,
        max_request_size: int = 32 * 1024 * 1024,
        request_timeout_ms: int = 20_000,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        self._options = {
            "bootstrap_servers": bootstrap,
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": compression,
            "linger_ms": linger_ms,
            "max_batch_size": 256 * 1024,
            "max_request_size": max_request_size,
            "request_timeout_ms": request_timeout_ms,
        }
        self._on_wait = on_wait or (lambda: None)
        self._client: AIOKafkaProducer | None = None
        self._stopped = False
        self._renewing = asyncio.Lock()

    async def start(self) -> None:
        """Connect.  Raises aiokafka.errors.KafkaConnectionError where no broker answers."""
        self._stopped = False
        await self._connected()

    async def stop(self) -> None:
        """Close; what waits in `send_all` gets ProducerStopped."""
        self._stopped = True
        client, self._client = self._client, None
        if client:
            await client.stop()

    async def send_all(self, messages: Iterable[Message]) -> None:
        """Send the messages and wait until the brokers have all of them; the order of a key is kept while no try fails.

        Raises MessageTooLarge for one that can never be sent (some of the others were), ProducerStopped after `stop`.
        """
        waiting, pause_s = list(messages), 0.1
        while waiting:
            if self._stopped:
                raise ProducerStopped(f"{len(waiting)} messages were not sent")
            failed = await self._try(waiting)
            if not failed:
                return
            waiting = [message for message, _ in failed]
            if any(isinstance(error, MessageSizeTooLargeError) for _, error in failed):
                await self._one_by_one(failed)
                return
            self._on_wait()
            topics = sorted({message.topic for message in waiting})
            log.warning("not sent, will be tried again", topics=topics, problem=repr(failed[0][1]), next_try_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _one_by_one(self, failed: Failed) -> None:
        """A compressed batch was too large: each message by itself tells which can't be sent."""
        if len(failed) == 1:
            raise MessageTooLarge(failed[0][0], str(failed[0][1]))
        for message, _ in failed:
            await self.send_all([message])

    async def _try(self, messages: list[Message]) -> Failed:
        """Send once; returns what was not acknowledged, and why."""
        failed: Failed = []
        sent: list[tuple[Message, asyncio.Future[object]]] = []
        for index, message in enumerate(messages):
            try:
                sent.append((message, await self._queue(message)))
            except MessageSizeTooLargeError as error:
                failed.append((message, error))
            except KafkaError as error:
                failed += [(later, error) for later in messages[index:]]
                break
        unsent = []
        for message, future in sent:
            try:
                await future
            except KafkaError as error:
                unsent.append((message, error))
        failed = unsent + failed
        if not all(error.retriable or isinstance(error, MessageSizeTooLargeError) for _, error in failed):
            await self._renew()
        return failed

    async def _queue(self, message: Message) -> asyncio.Future[object]:
        client = await self._connected()
        future: asyncio.Future[object] = await client.send(
            message.topic,
            message.value,
            key=message.key,
            partition=message.partition,
            headers=list(message.headers),
        )
        return future

    async def _connected(self) -> AIOKafkaProducer:
        async with self._renewing:
            if self._client is None:
                if self._stopped:
                    raise ProducerStopped("the producer was stopped")
                client = AIOKafkaProducer(**self._options)
                try:
                    await client.start()
                except BaseException:
                    await client.stop()
                    raise
                self._client = client
            return self._client

    async def _renew(self) -> None:
        """A producer that lost its sequence stays unusable; the next try makes a new one."""
        client, self._client = self._client, None
        if client:
            with suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(client.stop(), 5.0)
