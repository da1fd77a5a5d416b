"""The records that producers got acknowledged, and whether leaders still have them.

Invariant: acknowledged records survive. Every leader that ZooKeeper names has every acknowledged record at its
offset, and all leaders agree on the records below any high watermark ever raised. Source: KIP-101 and Kafka's
durability promise for acks=all; the issue's "nothing lost".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.simulation.brokers.log import LogEntry
from lab.simulation.brokers.replica import Replica
from shunter.model.partition import BrokerId, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.rules.safety import Safety


@dataclass(slots=True)
class AcknowledgedRecords:
    """One partition's records below the high watermark. `promised` is the offset after the last acknowledged record."""

    entries: list[LogEntry] = field(default_factory=list[LogEntry])
    promised: int = 0
    void: bool = False
    """Whether an unclean election was allowed, after which no record is guaranteed."""


class Ledgers:
    """The acknowledged records of all partitions."""

    def __init__(self, safety: Safety) -> None:
        """Begin without records."""
        self._safety = safety
        self._by_partition: dict[TopicPartition, AcknowledgedRecords] = {}

    def of(self, tp: TopicPartition) -> AcknowledgedRecords:
        """A partition's ledger."""
        return self._by_partition.setdefault(tp, AcknowledgedRecords())

    def topic_gone(self, name: str) -> None:
        """Forget the records of a topic that was deleted."""
        for tp in [tp for tp in self._by_partition if tp.topic == name]:
            del self._by_partition[tp]

    def forgive(self, tp: TopicPartition) -> None:
        """An unclean election was allowed: no record of the partition is guaranteed from now on."""
        self.of(tp).void = True

    def committed(self, broker: BrokerId, replica: Replica) -> None:
        """A leader raised its high watermark: all leaders agree on the records below it."""
        if not self._current(replica):
            return
        ledger, log = self.of(replica.tp), replica.log
        mark, known = log.high_watermark, ledger.entries
        if ledger.void or not mark:
            return
        both = min(mark, len(known))
        if both and log.entries[both - 1] != known[both - 1]:
            told = f"{replica.tp} at {both - 1}: broker {broker} has {log.entries[both - 1]}, before {known[both - 1]}"
            self._safety.violate("leaders agree on what is committed", told)
        if mark > len(known):
            known.extend(log.entries[len(known) : mark])

    def acknowledged(self, broker: BrokerId, replica: Replica, offset: int, value: int) -> None:
        """A leader acknowledged a record to its producer."""
        if not self._current(replica):
            return
        ledger = self.of(replica.tp)
        if ledger.void:
            return
        if offset >= len(ledger.entries) or ledger.entries[offset].value != value:
            told = f"{replica.tp}: broker {broker} acknowledged {value} at {offset}, which is not committed"
            self._safety.violate("acknowledged records survive", told)
        ledger.promised = max(ledger.promised, offset + 1)

    def leader_began(self, broker: BrokerId, replica: Replica) -> None:
        """Check that a leader that ZooKeeper names has every acknowledged record."""
        ledger, log = self.of(replica.tp), replica.log
        if ledger.void or not self._current(replica):
            return
        promised = ledger.promised
        if log.entries[:promised] == ledger.entries[:promised]:
            return
        missing = next(
            offset for offset in range(promised) if offset >= log.end or log.entries[offset] != ledger.entries[offset]
        )
        told = f"{replica.tp}: broker {broker} leads in epoch {replica.leader_epoch} with {log.end} records"
        told += f", and lacks the acknowledged one at {missing}: {ledger.entries[missing]} (of {promised})"
        self._safety.violate("acknowledged records survive", told)

    def _current(self, replica: Replica) -> bool:
        topic = self._safety.truth.topics.get(replica.tp.topic)
        return topic is not None and topic.topic_id == replica.log.topic_id
