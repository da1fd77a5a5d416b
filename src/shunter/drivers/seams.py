"""The protocols between the drivers and the world, so that the simulator can stand in with fakes that behave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if (
    TYPE_CHECKING
):  # The executor imports this module too, and importing the controller's events takes a tenth of a second.
    from shunter.core.controller.events import BatchRefused, BatchWritten
    from shunter.core.controller.ready import Read, Request, WriteBatch


class Clock(Protocol):
    """The source of time."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class ProcessClock(Clock, Protocol):
    """A clock that also knows the process's processor time and the local time zone."""

    def processor_s(self) -> float:
        """Processor time that this process has used, in seconds: only differences between two values have a meaning."""
        ...

    def utc_offset_minutes(self, now_ms: int) -> int:
        """Minutes by which local time was ahead of UTC at a moment."""
        ...


class ControllerStore(Protocol):
    """The controller's access to ZooKeeper: fenced batches, and reads whose answers are events."""

    async def write(self, batch: WriteBatch) -> BatchWritten | BatchRefused:
        """Carry out one atomic, fenced batch; after a lost connection, first read back whether it was written."""
        ...

    async def read(self, read: Read) -> None:
        """Carry out a read; its answer is posted as an event."""
        ...


class BrokerChannels(Protocol):
    """Ordered, non-blocking channels to all brokers; answers come back as `RequestAnswered` events."""

    def send(self, request: Request) -> None:
        """Queue a request; never blocks, never raises for a dead broker."""
        ...
