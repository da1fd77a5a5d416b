"""The protocols between the drivers and the world, so that the simulator can stand in with fakes that behave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if (
    TYPE_CHECKING
):  # An executor's clock is described here too, and a controller's events take a tenth of a second to import.
    from shunter.core.controller.events import BatchRefused, BatchWritten
    from shunter.core.controller.ready import Read, Request, WriteBatch


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class ProcessClock(Clock, Protocol):
    """What an executor's process knows of time, and of what it costs."""

    def processor_s(self) -> float:
        """Processor time that this process has used, seconds: only differences mean anything."""
        ...

    def utc_offset_minutes(self, now_ms: int) -> int:
        """How far local time was ahead of UTC at a moment."""
        ...


class ControllerStore(Protocol):
    """ZooKeeper as the controller needs it: fenced batches, and reads that end in events."""

    async def write(self, batch: WriteBatch) -> BatchWritten | BatchRefused:
        """Carry out one atomic, fenced batch; after a lost connection, read back what happened before answering."""
        ...

    async def read(self, read: Read) -> None:
        """Carry out a read; its answer is posted as an event."""
        ...


class BrokerChannels(Protocol):
    """Ordered, non-blocking ways to all brokers; answers come back as `RequestAnswered` events."""

    def send(self, request: Request) -> None:
        """Queue a request; never blocks, never raises for a dead broker."""
        ...
