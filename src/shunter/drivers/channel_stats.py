"""What the channels have done so far, in plain numbers, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    superseded: int = 0
    """Metadata updates that were never sent because a newer one stood for them."""
    dropped: int = 0
    """Requests thrown away with the queue of a broker that went or bounced, or that was not known at all."""

    def written(self, api_key: int, size: int) -> None:
        """Count a request."""
        self.requests[api_key] = self.requests.get(api_key, 0) + 1
        self.bytes[api_key] = self.bytes.get(api_key, 0) + size

    def answered(self, api_key: int) -> None:
        """Count an answer."""
        self.answers[api_key] = self.answers.get(api_key, 0) + 1


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One broker's queue now. `oldest_seconds` is the age of the oldest request that is not answered."""

    broker: int
    connected: bool
    queued: int
    in_flight: int
    oldest_seconds: float
    resident: int
    """Bytes of encoded bodies that it holds, most of them shared with others."""
