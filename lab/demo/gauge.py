"""The progress of the moves, seen from outside through RPC 46 and the brokers' log dirs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from lab.demo.account import MovesSeen
from lab.demo.entrance import Lever
from lab.demo.traffic import Traffic
from lab.testbed.controller import ShunterController
from shunter.errors import DriverError
from shunter.model.partition import BrokerId, Replicas, TopicPartition

SMOOTHING = 0.25
LOOKS_BEFORE_RATE = 6
WAITS_SHOWN = 3


class Gauge:
    """Looks at the cluster, and sums up."""

    def __init__(
        self,
        controller: ShunterController,
        lever: Lever,
        admin: KafkaAdminClient,
        traffic: Traffic,
        originals: Mapping[TopicPartition, Replicas],
        targets: Mapping[TopicPartition, Replicas],
    ) -> None:
        self._controller = controller
        self._lever = lever
        self._admin = admin
        self._traffic = traffic
        self._originals = originals
        self._targets = targets
        self._brokers = sorted({broker for target in (*targets.values(), *originals.values()) for broker in target})
        self._started = time.monotonic()
        self._ongoing: dict[TopicPartition, Replicas] = {}
        self._sizes: dict[tuple[BrokerId, TopicPartition], int] = {}
        self._last: tuple[float, int] | None = None
        self._rate: float | None = None
        self._looks = 0

    def ongoing(self) -> Mapping[TopicPartition, Replicas]:
        """Moves that were under way at the last look, with the replicas that each had then."""
        return self._ongoing

    def look(self) -> bool:
        """Ask the controller and the brokers; returns whether they answered. If not, the last look stays."""
        try:
            self._ongoing = self._lever.ongoing()
            self._sizes = _sizes(self._admin.describe_log_dirs(brokers=self._brokers))
        except (DriverError, KafkaError):
            return False
        now, copied = time.monotonic(), self._copied()
        if self._last is not None and now > self._last[0]:
            rate = max(0.0, (copied - self._last[1]) / (now - self._last[0]))
            self._rate = rate if self._rate is None else self._rate + SMOOTHING * (rate - self._rate)
            self._looks += 1
        self._last = (now, copied)
        return True

    def progress(self) -> MovesSeen:
        """Sum up the last look."""
        total, copied = self._total(), self._copied()
        rate = self._rate if self._looks >= LOOKS_BEFORE_RATE else None
        moving = [tp for tp, replicas in self._ongoing.items() if replicas != self._originals[tp]]
        return MovesSeen(
            elapsed_s=time.monotonic() - self._started,
            partitions=len(self._targets),
            done=len(self._targets) - len(self._ongoing),
            moving=len(moving),
            pending=len(self._ongoing) - len(moving),
            bytes_copied=copied,
            bytes_total=total,
            rate_bytes_per_s=rate,
            eta_s=(total - copied) / rate if rate else None,
            acked=self._traffic.acked,
            consumed=self._traffic.consumed,
            waits=tuple(self._waits(moving)),
            controller=self._controller.address,
        )

    def _waits(self, moving: list[TopicPartition]) -> list[str]:
        told = []
        for tp in moving[:WAITS_SHOWN]:
            replicas = self._ongoing[tp]
            fetching = [broker for broker in self._targets[tp] if broker in replicas]
            if fetching:
                size, whole = self._sizes.get((fetching[-1], tp), 0), self._size(tp)
                told.append(
                    f"{tp} waits for broker {fetching[-1]} to catch up: {size / 1e6:.1f} of {whole / 1e6:.1f} MB"
                )
        return told

    def _size(self, tp: TopicPartition) -> int:
        return max((size for (_, known), size in self._sizes.items() if known == tp), default=0)

    def _total(self) -> int:
        return sum(self._size(tp) * len(target) for tp, target in self._targets.items())

    def _copied(self) -> int:
        return sum(self._sizes.get((broker, tp), 0) for tp, target in self._targets.items() for broker in target)


def _sizes(brokers: Any) -> dict[tuple[BrokerId, TopicPartition], int]:
    return {
        (broker["broker"], TopicPartition(topic["name"], partition["partition_index"])): partition["partition_size"]
        for broker in brokers
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
    }
