"""Settings as frozen values; loaded by `app`, handed down, never looked up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shunter.model.reassignment import Intervention, Strategy


class Takeover(Enum):
    """When a controller may take `/controller`."""

    NEVER = "never"
    VACANT = "vacant"
    STANDBY = "standby"
    """A vacant one, and one that an Apache controller took after a Shunter that this process saw leading."""
    PREEMPT = "preempt"


class ControlRequestEpoch(Enum):
    """Which broker epoch control requests carry: the greatest of all brokers, or each broker's own, as Apache does.

    Source: the KIP on the max broker epoch (docs/decisions/0007-max-broker-epoch.md).
    """

    MAX = "max"
    PER_BROKER = "per-broker"


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """Rules for topics that clients create; 0 means no rule."""

    name_pattern: str = ".*"
    """A regular expression that the whole name has to match."""
    least_replication_factor: int = 0
    greatest_replication_factor: int = 0
    most_partitions: int = 0
    least_min_isr: int = 0


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How the controller decides. Times are milliseconds; 0 means no bound where a bound is meant."""

    broker_id: int
    takeover: Takeover = Takeover.VACANT
    control_request_epoch: ControlRequestEpoch = ControlRequestEpoch.MAX
    strategy: Strategy = Strategy.INCREMENTAL
    cancel_mode: Intervention = Intervention.ROLL_BACK
    max_concurrent: int = 0
    max_concurrent_per_broker: int = 0
    relax_after_ms: int = 600_000
    slow_broker_ms: int = 10_000
    isolated_after_ms: int = 45_000
    """How long no registered broker can be reached before the controller resigns. People don't set it; simulations do.

    It is longer than a broker's restart. A broker that stops deregisters itself, and one that crashed is registered
    until its session ends (`zookeeper.session.timeout.ms`, 18 s by default).
    """
    metadata_linger_ms: int = 80
    """How long news of ISR changes may be gathered before it is sent to all brokers. A new leader is never held back.

    People don't set it: brokers act on what they heard for longer than that anyway.
    """
    slice_partitions: int = 500
    """How many znodes are decided and written together; a cancel may have twice as many.

    People don't set it: a slice has to fit into one ZooKeeper multi, and to be decided within 100 ms.
    """
    default_partitions: int = 1
    default_replication_factor: int = 1
    default_min_isr: int = 1
    unclean_leader_election: bool = False
    delete_topics: bool = True
    tiered_storage: bool = False
    """Whether the brokers have a remote storage system. A broker without one can't start with a topic that needs it."""
    leader_rebalance_enable: bool = True
    leader_rebalance_interval_ms: int = 300_000
    leader_imbalance_percent: int = 10
    """The percentage of the partitions preferring a broker that others may lead before it gets them back."""
    roll_back_after_ms: int = 0
    """How long a move may wait for a dead broker of its target before it is rolled back; 0: for ever.

    Source: the controller redesign, 2.A.
    """
    topic_policy: TopicPolicy = TopicPolicy()


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What one peer may ask for before its connection is closed, and what all peers together may ask for.

    Fields that say "constant" are no settings; tests set them.
    """

    frame_bytes: int = 104_857_600
    """The largest request. Constant: Kafka's default of `socket.request.max.bytes`, so every client keeps to it."""
    array_length: int = 250_000
    """The longest array; all arrays of a request may be four times as long. Constant: no cluster has so many partitions
    in one request, and the limit is there to refuse a length that no request can have."""
    requests_in_flight: int = 64
    """Requests of one connection that are worked on. Constant: Kafka's clients send five at most."""
    max_connections: int = 2_000
    """Connections of clients. Brokers' connections are not counted."""
    max_connections_per_ip: int = 1_000
    connections_max_idle_ms: int = 600_000
    queued_max_requests: int = 500
    queued_max_request_bytes: int = 104_857_600
    queued_max_answer_bytes: int = 67_108_864
    """Bytes of answers that clients have not read. Constant: two hundred answers with the metadata of 5,000 partitions."""
    client_share_percent: int = 50
    """The share of `max_connections` that one principal may take, and of the three bounds above that one principal may
    take, or one address on listeners without a login. Constant: half leaves as much for all others."""
    handshakes_per_second: int = 100
    """TLS handshakes and logins that may begin in a second. Constant: they cost a fifth of a core then."""
    peer_timeout_ms: int = 30_000
    """How long a request may take to arrive, and an answer to be read, in addition to the time that its size allows.

    Constant: Kafka's default of a client's `request.timeout.ms`; after that nobody waits for the answer."""

    def share(self, bound: int) -> int:
        """One client's share of a bound."""
        return max(1, -(-bound * self.client_share_percent // 100))
