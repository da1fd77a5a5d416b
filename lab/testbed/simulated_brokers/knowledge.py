"""The brokers' knowledge of the cluster, stored once for all brokers with the same knowledge.

A partition's state is a number in a catalogue; a broker's knowledge is an array of such numbers. Brokers that got the
same updates in the same order share one array, and an update to 200 brokers is decoded once.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.testbed.simulated_brokers.messages import PartitionTold, read_metadata
from shunter.model.partition import BrokerId, Replicas, TopicPartition

Numbers: TypeAlias = NDArray[np.int32]
Content: TypeAlias = tuple[int, int, int]
"""Version, size and checksum of a body without its head."""
UNKNOWN = -1
_STEPS_KEPT = 256
_HEAD_BYTES = 17
"""Size of a body's head: controller, its kind and both epochs, in which updates with the same content may differ."""


class KnownState(NamedTuple):
    """A broker's knowledge of a partition."""

    leader: BrokerId
    leader_epoch: int
    isr: Replicas
    partition_epoch: int
    replicas: Replicas


@dataclass(eq=False, slots=True)
class Update:
    """One UpdateMetadata's content: positions of partitions and the numbers of their new states."""

    positions: Numbers
    states: Numbers
    live: frozenset[BrokerId]


@dataclass(eq=False, slots=True)
class Catalogue:
    """Positions of partitions, numbers of states, and contents of updates."""

    places: dict[TopicPartition, int] = field(default_factory=dict)
    states: list[KnownState] = field(default_factory=list)
    unknown_partitions: int = 0
    """How many states a controller sent of partitions that are not in the catalogue."""
    _numbers: dict[KnownState, int] = field(default_factory=dict)
    _bodies: dict[Content, bytes] = field(default_factory=dict)
    _updates: dict[Content, Update] = field(default_factory=dict)
    _after: OrderedDict[tuple[int, int], tuple[Numbers, Update, Numbers]] = field(default_factory=OrderedDict)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions their positions."""
        for tp in partitions:
            self.places.setdefault(tp, len(self.places))

    def number(self, state: KnownState) -> int:
        """The number of a state, new or known."""
        found = self._numbers.get(state)
        if found is None:
            found = self._numbers[state] = len(self.states)
            self.states.append(state)
        return found

    def nothing(self) -> Numbers:
        """The knowledge of a broker that has got no update."""
        return np.full(len(self.places), UNKNOWN, dtype=np.int32)

    def keep(self, version: int, body: memoryview) -> Content:
        """Keep an UpdateMetadata's body, once for each content. `update` decodes it when it is needed."""
        content = (version, len(body), zlib.crc32(body[_HEAD_BYTES:]))
        if content not in self._updates and content not in self._bodies:
            self._bodies[content] = bytes(body)
        return content

    def update(self, content: Content) -> Update:
        """The decoded content of an UpdateMetadata."""
        found = self._updates.get(content)
        if found is None:
            version = content[0]
            start = _HEAD_BYTES if version >= 8 else _HEAD_BYTES - 1
            found = self._updates[content] = self._read(*read_metadata(version, self._bodies.pop(content), start))
        return found

    def _read(self, told: list[PartitionTold], live: frozenset[BrokerId]) -> Update:
        positions: list[int] = []
        states: list[int] = []
        for tp, leader, leader_epoch, isr, partition_epoch, replicas in told:
            place = self.places.get(tp)
            if place is None:
                self.unknown_partitions += 1
                continue
            positions.append(place)
            states.append(self.number(KnownState(leader, leader_epoch, isr, partition_epoch, replicas)))
        return Update(np.array(positions, dtype=np.int32), np.array(states, dtype=np.int32), live)

    def after(self, known: Numbers, update: Update) -> Numbers:
        """A broker's knowledge after an update, from `known`; all brokers with the same two share the result."""
        key = (id(known), id(update))
        found = self._after.get(key)
        if found is None:
            result = known.copy()
            result[update.positions] = update.states
            result.setflags(write=False)
            # Both objects are held here, so their ids stay valid.
            found = self._after[key] = (known, update, result)
            if len(self._after) > _STEPS_KEPT:
                self._after.popitem(last=False)
        else:
            self._after.move_to_end(key)
        return found[2]

    def forget_steps(self) -> None:
        """Drop cached results and decoded updates. Each broker keeps its own knowledge."""
        self._after.clear()
        self._updates.clear()

    def truth(self, states: Mapping[TopicPartition, KnownState]) -> Numbers:
        """The array that a broker should have."""
        found = self.nothing()
        for tp, state in states.items():
            found[self.places[tp]] = self.number(state)
        return found
