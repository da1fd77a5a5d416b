"""Answers to ApiVersions, which every client asks first. They are made anew only when brokers come, go or upgrade."""

from __future__ import annotations

from collections.abc import Mapping

from shunter.drivers.brokers.connection import ApiRanges
from shunter.drivers.brokers.relay import relayed_ranges
from shunter.model.partition import BrokerId
from shunter.wire.requests import SERVED, api_versions_message, encode_message


class OfferedVersions:
    """Keeps encoded answers by version."""

    def __init__(self) -> None:
        self._brokers: dict[BrokerId, ApiRanges] | None = None
        self._ranges: dict[int, tuple[int, int]] = {}
        self._bodies: dict[int, bytes] = {}

    def body(self, version: int, brokers: Mapping[BrokerId, ApiRanges]) -> bytes:
        """Return the answer's body: the APIs served here, and the relayed APIs in versions that all brokers support."""
        if self._brokers != brokers:
            self._brokers = dict(brokers)
            self._ranges = relayed_ranges(brokers)
            for key, (lowest, highest) in SERVED.items():
                theirs = self._ranges.get(key, (lowest, highest))
                self._ranges[key] = max(lowest, theirs[0]), min(highest, theirs[1])
            self._bodies = {}
        body = self._bodies.get(version)
        if body is None:
            body = self._bodies[version] = encode_message(api_versions_message(version, self._ranges))
        return body
