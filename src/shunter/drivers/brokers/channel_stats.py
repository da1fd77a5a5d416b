"""Counters of the channels to brokers, for the metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.drivers.election.loop_stats import Durations
from shunter.errors import ErrorCode


@dataclass(slots=True)
class ChannelStats:
    """Counters since the start, by API key where they are mappings. One writer: the event loop."""

    requests: dict[int, int] = field(default_factory=dict)
    """Requests written, repeats included."""
    bytes: dict[int, int] = field(default_factory=dict)
    """Bytes written, frame sizes included."""
    answers: dict[int, int] = field(default_factory=dict)
    encode_seconds: float = 0.0
    connections: int = 0
    """Connections made."""
    lost: int = 0
    """Connections lost after they were made."""
    timeouts: int = 0
    """Connections given up because a request was not answered in time."""
    errors: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """By API key, error name, and "request" or "partition": errors in answers."""
    superseded: int = 0
    """Metadata updates that were never sent because a newer one superseded them."""
    queued: dict[int, Durations] = field(default_factory=dict)
    """By broker: how long requests waited until they were sent, repeats included."""
    dropped: int = 0
    """Requests dropped with the queue of a broker that left or bounced, or sent to an unknown broker."""

    def sent(self, broker: int, waited_s: float) -> None:
        """Count a request that leaves its queue."""
        if broker not in self.queued:
            self.queued[broker] = Durations()
        self.queued[broker].add(waited_s)

    def written(self, api_key: int, size: int) -> None:
        """Count a request."""
        self.requests[api_key] = self.requests.get(api_key, 0) + 1
        self.bytes[api_key] = self.bytes.get(api_key, 0) + size

    def answered(self, api_key: int, error: ErrorCode = ErrorCode.NONE, partitions: Iterable[ErrorCode] = ()) -> None:
        """Count an answer, and the errors in it."""
        self.answers[api_key] = self.answers.get(api_key, 0) + 1
        if error is not ErrorCode.NONE:
            self._wrong(api_key, error, "request")
        for code in partitions:
            self._wrong(api_key, code, "partition")

    def _wrong(self, api_key: int, error: ErrorCode, what: str) -> None:
        key = (api_key, error.name, what)
        self.errors[key] = self.errors.get(key, 0) + 1


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The present queue of one broker. `oldest_seconds` is the age of the oldest request that is not answered."""

    broker: int
    connected: bool
    queued: int
    in_flight: int
    oldest_seconds: float
    resident: int
    """Bytes of encoded bodies that the queue holds; most of these are shared with other queues."""
