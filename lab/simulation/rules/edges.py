"""Rules about what enters and leaves the controller: announcements, refusals, configurations.

Each rule checks what real brokers, tools and ZooKeeper rely on, independent of what the controller believes of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from lab.simulation.actions import EDGE_WEIGHTS
from lab.simulation.brokers.poison import is_poison
from lab.simulation.scheduler import SECOND
from lab.simulation.zookeeper.tree import Transaction
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.configs import decode_config
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.brokers.broker import SimulatedBroker
    from lab.simulation.world import World


SINCE_VERSION_2 = {100: "UNKNOWN_TOPIC_ID", 107: "INELIGIBLE_REPLICA", 108: "NEW_LEADER_ELECTED"}
"""Errors that leaders before 3.3 don't know: after such an error they ask again at once, for ever."""


REFUSED_BY_ZOOKEEPER = 60
"""Refusals of one process in a second, at most. An election that is tried again at once is refused more often. Four reads
that ZooKeeper throttles, each sent again after 100 ms, were refused 41 times in a second (seed 99140679)."""
REFUSED_BY_BROKER = 100
"""Refusals of one sender by one broker in a second, at most. A sender that retries at once is refused several hundred
times. A broker that refused everything, while brokers came and went and moves were under way, refused 41 different
requests in a second (seed 96331516)."""
TOPIC, STATE = 4, 7
"""How many parts the paths of topics and of states have."""


class EdgeRules:
    """Looks at transactions, at brokers' refusals, and at answers to callers."""

    def __init__(self, world: World) -> None:
        """Begin with nothing seen."""
        self.world = world
        self._placed: dict[tuple[TopicPartition, UUID | None, BrokerId], tuple[int, int]] = {}
        """For each replica: the controller epoch that placed it, and the broker epoch that the controller knew."""
        self._refusals: dict[str, deque[int]] = {}

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        self.world.safety.violate(rule, told)

    # ---- ZooKeeper

    def committed(self, transaction: Transaction) -> None:
        """Nothing gets into ZooKeeper that a broker can't start with.

        Source: design, "At the edge"; Apache Kafka 3.9, `LogManager.fetchTopicConfigOverrides`.
        """
        writer = self.world.owner_of(transaction.session)
        if not writer.startswith("shunter"):
            return
        for change in transaction.changes:
            if change.after is None or not change.path.startswith(f"{znodes.CONFIGS}/topics/"):
                continue
            before = {} if change.before is None else decode_config(change.path, change.before.data)
            after = decode_config(change.path, change.after.data)
            if "poisonous_topic" in EDGE_WEIGHTS and is_poison(after) and not is_poison(before):
                self.violate("what is written can be started with", f"{writer} wrote {after} to {change.path}")

    def placed(self, transaction: Transaction) -> None:
        """Remember the controller epoch in which a replica was placed, once `Truth` has followed the transaction."""
        truth, known = self.world.truth, self.world.epochs_known_to(self.world.owner_of(transaction.session))
        for change in transaction.changes:
            parts = change.path.split("/")
            if change.after is None or parts[1:3] != ["brokers", "topics"] or len(parts) not in {TOPIC, STATE}:
                continue
            name = parts[3]
            topic = truth.topics.get(name)
            if topic is None:
                continue
            first = len(parts) == STATE and change.before is None
            numbers = [int(parts[5])] if first else list(topic.assignments) if len(parts) == TOPIC else []
            for number in numbers:
                tp = TopicPartition(name, number)
                if tp not in truth.states or number not in topic.assignments:
                    continue
                for broker in topic.assignments[number].replicas:
                    self._placed.setdefault(
                        (tp, topic.topic_id, broker), (truth.controller_epoch, known.get(broker, -1))
                    )

    # ---- refusals of brokers

    def refused_as_not_new(
        self, broker: SimulatedBroker, tp: TopicPartition, topic_id: UUID | None, controller_epoch: int
    ) -> None:
        """A replica that its broker has to make is announced as new by the controller that placed it.

        A broker with a failed log dir assumes that a replica that is not new was in that dir, and declares it offline
        until it restarts. (After a failover or a bounce no controller can know which case it is; Apache does not try.)
        Source: Apache Kafka 3.9, `LogManager.getOrCreateLog` ("isNew"), and
        `ControllerBrokerRequestBatch.addLeaderAndIsrRequestForBrokers`.
        """
        epoch, life = self._placed.get((tp, topic_id, broker.id), (-1, -1))
        # After an error the replica is announced again, but not as new: docs/reliability.md, "What is not simulated".
        if epoch == controller_epoch and life == broker.epoch and not broker.answered_error:
            told = f"broker {broker.id} refuses {tp}, placed there in epoch {epoch}, for it is not announced as new"
            self.violate("new replicas are announced as new", told)

    def refused(self, who: str, at_most: int) -> None:
        """After a refusal the sender retries with a growing backoff, not at once and for ever.

        Source: issue, "the election spins without back-off where a write is refused".
        """
        now_us = self.world.scheduler.now_us
        moments = self._refusals.setdefault(who, deque())
        moments.append(now_us)
        while moments[0] < now_us - SECOND:
            moments.popleft()
        if len(moments) > at_most:
            self.violate("nothing spins", f"{who} was refused {len(moments)} times within a second")

    # ---- answers to callers

    def alterations_answered(self, results: Mapping[tuple[str, int], LeaderAndIsr | int]) -> None:
        """Answers have only errors of their version. Source: KIP-841 and `KafkaController.tryProcessAlterPartition`."""
        version = self.world.shape.alter_version if "odd_alteration" in EDGE_WEIGHTS else 3
        for (name, number), result in results.items():
            if isinstance(result, int) and version < 2 and int(result) in SINCE_VERSION_2:
                told = f"{name}-{number} is told {SINCE_VERSION_2[int(result)]} in AlterPartition {version}"
                self.violate("a leader is told what its version knows", told)
