"""Answers to Metadata, made of pieces that are kept from one answer to the next and shared by all clients.

A client asks for all topics in thirty bytes. However many clients ask at once, one pass over the cluster serves all of
them, in turns of a few milliseconds. While nothing has changed, no pass is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

from shunter.core.controller.state import ClusterView, TopicState
from shunter.model.partition import BrokerId
from shunter.wire.metadata import NONE_UNREADABLE, NOTHING_FAILED, Audience, Failed, MetadataPieces, listening_brokers

TURN_SECONDS = 0.002
"""How long pieces are gathered before other tasks have a turn."""
AUDIENCES = 4
"""Number of audiences for which pieces are kept: those that asked last."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class Topics(NamedTuple):
    """The encoded topics of an answer; `served` is their number. All answers of one moment may share `pieces`."""

    served: int
    pieces: tuple[bytes, ...]
    size: int
    """Bytes of all pieces together."""


class _Building(NamedTuple):
    number: int
    done: asyncio.Future[Topics | None]


class MetadataAnswers:
    """Makes the topics of answers, and keeps the pieces.

    Args:
        moment: returns a number that changes whenever anything of the cluster may have changed.
    """

    def __init__(self, moment: Callable[[], int]) -> None:
        self._moment = moment
        self.give_way: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
        """Lets other tasks have a turn."""
        self._pieces: dict[Audience, MetadataPieces] = {}
        self._whole: dict[Audience, tuple[int, Topics]] = {}
        self._building: dict[Audience, _Building] = {}
        self._listening: dict[str, tuple[int, dict[BrokerId, bool]]] = {}
        self.builds = 0
        """The number of passes over the whole cluster."""

    async def everything(self, view: ClusterView, audience: Audience) -> Topics:
        """Return all announced topics except those that are being deleted, as they are now or a little later."""
        began = self.builds
        while True:
            known = self._whole.get(audience)
            if known is not None and known[0] == self._moment():
                return known[1]
            building = self._building.get(audience)
            if building is None:
                return await self._build(view, audience)
            found = await asyncio.shield(building.done)
            if found is not None and building.number > began:
                return found

    async def some(self, view: ClusterView, audience: Audience, names: Iterable[str]) -> dict[str, bytes]:
        """Return encoded topics by name, without those that do not exist, are being deleted or are not announced."""
        found: dict[str, bytes] = {}
        turn_ends = time.perf_counter() + TURN_SECONDS
        pieces = self._at_hand(view, audience)
        for name in names:
            topic = view.topics.get(name)
            if topic is None or name in view.deleting or not _is_announced(topic, view):
                continue
            found[name] = b"".join(pieces.topic(topic, _failed_of(view, name), _unreadable_of(view, name)))
            if time.perf_counter() >= turn_ends:
                await self.give_way()
                pieces = self._at_hand(view, audience)
                turn_ends = time.perf_counter() + TURN_SECONDS
        return found

    async def _build(self, view: ClusterView, audience: Audience) -> Topics:
        self.builds += 1
        moment = self._moment()
        building = _Building(self.builds, asyncio.get_running_loop().create_future())
        self._building[audience] = building
        topics: Topics | None = None
        try:
            topics = await self._gather(view, audience)
            self._whole[audience] = (moment, topics)
            return topics
        finally:
            # If this build was cancelled, a caller that waits for it gets None and builds the answer itself.
            del self._building[audience]
            building.done.set_result(topics)

    async def _gather(self, view: ClusterView, audience: Audience) -> Topics:
        found: list[bytes] = []
        served = 0
        turn_ends = time.perf_counter() + TURN_SECONDS
        pieces = self._at_hand(view, audience)
        for name in tuple(view.topics):
            topic = view.topics.get(name)
            if topic is None or name in view.deleting or not _is_announced(topic, view):
                continue
            served += 1
            for piece in pieces.topic(topic, _failed_of(view, name), _unreadable_of(view, name)):
                found.append(piece)
                if time.perf_counter() >= turn_ends:
                    await self.give_way()
                    pieces = self._at_hand(view, audience)
                    turn_ends = time.perf_counter() + TURN_SECONDS
        pieces.forget(view.topics.keys())
        return Topics(served, tuple(found), sum(map(len, found)))

    def _at_hand(self, view: ClusterView, audience: Audience) -> MetadataPieces:
        """Return the pieces of an audience, for the brokers that are live now."""
        pieces = self._pieces.pop(audience, None)
        if pieces is None:
            pieces = MetadataPieces(audience, INTERNAL_TOPICS)
        self._pieces[audience] = pieces
        for oldest in tuple(self._pieces)[:-AUDIENCES]:
            del self._pieces[oldest]
            self._whole.pop(oldest, None)
        pieces.hear(self._brokers(view, audience.listener))
        return pieces

    def _brokers(self, view: ClusterView, listener: str) -> dict[BrokerId, bool]:
        moment = self._moment()
        known = self._listening.get(listener)
        if known is None or known[0] != moment:
            known = self._listening[listener] = moment, listening_brokers(view.brokers.values(), listener)
        return known[1]


def _is_announced(topic: TopicState, view: ClusterView) -> bool:
    """Whether brokers know a topic: they hear of a partition when it gets its first leader.

    Tools list topics at one node and describe them at another. A topic that only the controller knows would make the
    whole listing fail.
    """
    if any(leadership is not None for _, leadership in topic.partitions.values()):
        return True
    return bool(_unreadable_of(view, topic.name))


def _unreadable_of(view: ClusterView, name: str) -> frozenset[int]:
    """Gather the partitions of one topic whose state can't be read: brokers may know them and their leaders."""
    unreadable = view.unreadable
    if not unreadable:
        return NONE_UNREADABLE
    # As in `_failed_of`, plain tuples are faster.
    return frozenset(number for number in view.topics[name].partitions if (name, number) in unreadable)


def _failed_of(view: ClusterView, name: str) -> Failed:
    """Gather the failed replicas of one topic."""
    failed = view.offline_replicas
    if not failed:
        return NOTHING_FAILED
    found: dict[int, frozenset[BrokerId]] = {}
    for number in view.topics[name].partitions:
        # A plain tuple equals and hashes like a TopicPartition and is made several times faster.
        bad = failed.get((name, number))  # type: ignore[call-overload]
        if bad:
            found[number] = bad
    return found
