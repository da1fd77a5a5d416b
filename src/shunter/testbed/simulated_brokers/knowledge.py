"""What brokers know of the cluster, held once however many of them know the same.

A state of a partition is a number in a catalogue, a broker's knowledge an array of such numbers. Brokers that heard the
same updates in the same order share one array, and an update that comes to 200 brokers is read once.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.testbed.simulated_brokers.messages import PartitionTold, read_metadata

Numbers: TypeAlias = NDArray[np.int32]
Content: TypeAlias = tuple[int, int, int]
"""Version, size and checksum of a body without its head."""
UNKNOWN = -1
_STEPS_KEPT = 256
_HEAD_BYTES = 17
"""Of a body: controller, its kind and both epochs, in which updates of the same content may differ."""


class KnownState(NamedTuple):
    """What a broker knows of a partition."""

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
    """States of partitions that are not in the catalogue: a controller told of topics that are not there."""
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
        """What a broker knows that has heard nothing."""
        return np.full(len(self.places), UNKNOWN, dtype=np.int32)

    def keep(self, version: int, body: memoryview) -> Content:
        """Note an UpdateMetadata's body; kept once for each content, and read only when somebody asks for it."""
        content = (version, len(body), zlib.crc32(body[_HEAD_BYTES:]))
        if content not in self._updates and content not in self._bodies:
            self._bodies[content] = bytes(body)
        return content

    def update(self, content: Content) -> Update:
        """What an UpdateMetadata says."""
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
        """What a broker that knew `known` knows after an update; shared with all that do the same."""
        key = (id(known), id(update))
        found = self._after.get(key)
        if found is None:
            result = known.copy()
            result[update.positions] = update.states
            result.setflags(write=False)
            # The key's ids stay theirs as long as both are held here.
            found = self._after[key] = (known, update, result)
            if len(self._after) > _STEPS_KEPT:
                self._after.popitem(last=False)
        else:
            self._after.move_to_end(key)
        return found[2]

    def forget_steps(self) -> None:
        """Drop what brokers might share, and read updates: what each of them knows stays with it."""
        self._after.clear()
        self._updates.clear()

    def truth(self, states: Mapping[TopicPartition, KnownState]) -> Numbers:
        """The array that a broker should have."""
        found = self.nothing()
        for tp, state in states.items():
            found[self.places[tp]] = self.number(state)
        return found
