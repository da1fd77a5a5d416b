"""One cluster as arrays: its brokers, the places of the replicas, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shunter.model.inventory import BrokerFacts

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Indexes: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]

ABSENT = -1
"""The padding of a row of `ClusterLoad.replicas` behind its last replica."""
UNKNOWN = -2
"""In `ClusterLoad.leader`, and first in a row of `isr`: not known. (ABSENT: none.)"""


class Resource(IntEnum):
    """A resource that brokers carry, in the order of the aims: an earlier aim is not given up for a later one."""

    DISK = 0
    BYTES_IN = 1
    BYTES_OUT = 2
    PROCESSORS = 3
    REPLICAS = 4
    LEADERS = 5
    LEADER_BYTES_IN = 6

    @property
    def label(self) -> str:
        """The name that people read."""
        return _LABELS[self]


_LABELS = {
    Resource.DISK: "disk",
    Resource.BYTES_IN: "bytes in",
    Resource.BYTES_OUT: "bytes out",
    Resource.PROCESSORS: "processors",
    Resource.REPLICAS: "replicas",
    Resource.LEADERS: "leaders",
    Resource.LEADER_BYTES_IN: "leaders' bytes in",
}

ROUNDING = 1e-6
"""Shares that differ by no more than this are the same: sums of floats are not exact."""
COUNTS = (Resource.REPLICAS, Resource.LEADERS)


class ProcessorCosts(NamedTuple):
    """The costs of a byte per second, as a share of an average broker's processors."""

    received: float
    """The cost of a byte that a replica receives, as leader or follower."""
    led: float
    """The cost on top of that, for a leader, of a byte that a producer writes to it."""
    sent: float
    """The cost of a byte that consumers and followers fetch from a leader."""


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The cluster at one moment; B brokers, P partitions, W the largest replication factor.

    Brokers, racks and topics are named by index everywhere in this room. `replicas` is (P, W): row p holds broker
    INDEXES in assignment order, the preferred leader first, padded by `ABSENT`. Invariants: no row repeats a broker,
    every row has at least one; sizes and rates are finite and not negative. Sizes may be in any one unit.
    """

    brokers: tuple[int, ...]
    """Broker ids, ascending."""
    racks: tuple[str, ...]
    """Rack names, ascending."""
    rack_of: Indexes
    """(B,) index into `racks`."""
    topics: tuple[str, ...]
    topic_of: Indexes
    """(P,) index into `topics`."""
    numbers: Indexes
    """(P,) the partition's number within its topic."""
    replicas: Indexes
    """(P, W) index into `brokers`, or ABSENT."""
    sizes: Floats
    """(P,) bytes, or any unit, of ONE replica."""
    bytes_in: Floats | None = None
    """(P,) bytes per second that producers write to the leader; each replica receives them."""
    bytes_out: Floats | None = None
    """(P,) bytes per second that consumers read from the leader; the planner adds replication to the followers."""
    min_isr: Indexes | None = None
    """(P,) min.insync.replicas; no cut goes below it."""
    facts: tuple[BrokerFacts, ...] = ()
    """(B,) what is known of each broker, log dirs in the unit of `sizes`; (): nothing is known of any."""
    isr: Indexes | None = None
    """(P, V) index into `brokers`, padded by ABSENT; a row that begins with UNKNOWN is not known. None: no row is."""
    offline: Indexes | None = None
    """(P, V) as `replicas`: replicas that are known to be offline."""
    leader: Indexes | None = None
    """(P,) index of the broker that leads now, ABSENT: nobody does, or UNKNOWN."""
    disk_capacity: Floats | None = None
    """(B,) in the unit of `sizes`."""
    bytes_in_capacity: Floats | None = None
    """(B,) per second."""
    bytes_out_capacity: Floats | None = None
    """(B,) per second."""
    processor_costs: ProcessorCosts | None = None
    processor_capacity: Floats | None = None
    """(B,) in average brokers' processors: the capacity for bytes, after the broker's own idling is taken off."""

    @property
    def replication(self) -> Indexes:
        """(P,) how many replicas each partition has."""
        return np.asarray((self.replicas != ABSENT).sum(axis=1), dtype=np.int32)

    @property
    def needs_all(self) -> bool | None:
        """Whether its controller ends a step only when the whole target is in sync; None: its version is not known."""
        told = {each.needs_all for each in self.facts} - {None}
        return told.pop() if len(told) == 1 else None

    def partition_name(self, partition: int) -> str:
        """Name a partition as Kafka's logs do: topic-number."""
        return f"{self.topics[int(self.topic_of[partition])]}-{int(self.numbers[partition])}"

    def resources(self) -> tuple[Resource, ...]:
        """The resources with figures: sizes and counts always, rates if they were given."""
        absent: set[Resource] = set()
        if self.bytes_in is None:
            absent |= {Resource.BYTES_IN, Resource.LEADER_BYTES_IN}
        if self.bytes_out is None:
            absent.add(Resource.BYTES_OUT)
        if self.processor_costs is None or self.bytes_in is None or self.bytes_out is None:
            absent.add(Resource.PROCESSORS)
        return tuple(resource for resource in Resource if resource not in absent)

    def capacity(self, resource: Resource) -> Floats | None:
        """(B,) each broker's capacity for a resource; None if it is not known."""
        by_resource = {
            Resource.DISK: self.disk_capacity,
            Resource.BYTES_IN: self.bytes_in_capacity,
            Resource.BYTES_OUT: self.bytes_out_capacity,
            Resource.PROCESSORS: self.processor_capacity,
        }
        return by_resource.get(resource)


UNKNOWN_OUT_AT_MOST = 0.1
"""Partitions whose consumers were not counted may have this part of a cluster's bytes in. If they have more, bytes out
are not an aim."""


def without_bytes_out(bytes_in: Floats, bytes_out: Floats) -> tuple[int, float]:
    """How many partitions have only bytes in, and their part of all bytes in.

    Sources that see no consumers report only bytes in. To take 0 bytes out for them would be wrong.

    Args:
        bytes_in: (P,) NaN where unknown.
        bytes_out: (P,) NaN where unknown.
    """
    alone = np.isfinite(bytes_in) & ~np.isfinite(bytes_out)
    whole = float(np.nansum(bytes_in))
    return int(alone.sum()), float(bytes_in[alone].sum()) / whole if whole else 0.0


def known_bytes_out(bytes_in: Floats, bytes_out: Floats) -> Floats | None:
    """(P,) bytes out, with 0 for a few unknown ones; None if more are unknown. Arguments as of `without_bytes_out`."""
    _, unknown = without_bytes_out(bytes_in, bytes_out)
    if unknown > UNKNOWN_OUT_AT_MOST or not np.isfinite(bytes_out).any():
        return None
    return np.nan_to_num(bytes_out)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sort and drop repeats. Asking for counts keeps numpy from importing its masked arrays, a tenth of a second."""
    return np.unique(values, return_counts=True)[0]


def weights(cluster: ClusterLoad, resources: tuple[Resource, ...]) -> tuple[Floats, Floats]:
    """Weigh one replica of each partition.

    Returns:
        (P, K) the load that any replica adds to its broker, and (P, K) the load that leading adds on top. A leader
        sends bytes to consumers and to its followers, so bytes out = bytes_out + (replicas - 1) * bytes_in.
    """
    count = len(cluster.sizes)
    zero, one = np.zeros(count), np.ones(count)
    rate_in = zero if cluster.bytes_in is None else cluster.bytes_in
    rate_out = zero if cluster.bytes_out is None else cluster.bytes_out
    sent = rate_out + (cluster.replication - 1) * rate_in
    costs = cluster.processor_costs or ProcessorCosts(0.0, 0.0, 0.0)
    every: dict[Resource, Floats] = {
        Resource.DISK: cluster.sizes,
        Resource.BYTES_IN: rate_in,
        Resource.PROCESSORS: costs.received * rate_in,
        Resource.REPLICAS: one,
    }
    leading: dict[Resource, Floats] = {
        Resource.BYTES_OUT: sent,
        Resource.PROCESSORS: costs.led * rate_in + costs.sent * sent,
        Resource.LEADERS: one,
        Resource.LEADER_BYTES_IN: rate_in,
    }
    return (
        np.stack([every.get(resource, zero) for resource in resources], axis=1),
        np.stack([leading.get(resource, zero) for resource in resources], axis=1),
    )


def broker_loads(replicas: Indexes, brokers: int, every: Floats, leading: Floats) -> Floats:
    """Add up the load of each broker from its replicas' weights: (B, K)."""
    loads = np.zeros((brokers, every.shape[1]))
    for slot in range(replicas.shape[1]):
        column = replicas[:, slot]
        present = column != ABSENT
        held = column[present]
        for resource in range(every.shape[1]):
            weight = every[:, resource] + leading[:, resource] if slot == 0 else every[:, resource]
            loads[:, resource] += np.bincount(held, weights=weight[present], minlength=brokers)
    return loads
