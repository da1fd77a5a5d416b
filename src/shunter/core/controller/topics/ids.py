"""Ids of topics: which topics get one, and when.

As in Apache's `KafkaController.processTopicIds`, topics have ids where the brokers' protocol is of 2.8 or later. A
topic keeps the id that it has, whatever the protocol is. Source: docs/decisions/0034-one-release.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from shunter.core.controller.draft import Draft
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.model.notice import Notice
from shunter.model.topic import Topic


def agree(state: ControllerState, queue: TaskQueue, now_ms: int, *, used: bool) -> list[Notice]:
    """Take in whether topics have ids. Returns a notice if they have none, or if that changed."""
    usual = state.topic_ids is None and used
    state.topic_ids = used
    give_ids(state, queue, state.topics, now_ms)
    if usual:
        return []
    told = (
        "all live brokers use topic ids" if used else "a live broker's protocol is older than 2.8: no topic gets an id"
    )
    return [Notice("topic-ids", "controller", told)]


def give_ids(state: ControllerState, queue: TaskQueue, names: Iterable[str], now_ms: int) -> None:
    """Give ids to topics that have none: they are from before Kafka 2.8, or a tool of that time made them."""
    if not state.topic_ids:
        return
    nameless = [name for name in names if name in state.topics and state.topics[name].topic_id is None]
    if nameless:
        queue.add(Task(Priority.NORMAL, nameless, partial(_give_id, salt=now_ms)))


def put_back(state: ControllerState, queue: TaskQueue, read: Iterable[Topic]) -> list[Notice]:
    """Write ids back that a tool left out when it rewrote topics' znodes. Returns a notice for each such topic.

    Brokers have a topic's id on their disks, and refuse any other id. So the id has to be in the znode before another
    controller starts: that controller would not know the id, and would give the topic a new one.

    Source: KAFKA-14190.
    """
    lost = [topic.name for topic in read if topic.topic_id is None and _id_is_known(state, topic)]
    if lost:
        written = {name: state.topics[name].version for name in lost}
        queue.add(Task(Priority.NORMAL, lost, partial(_put_back, written=written)))
    told = "a tool that knows no topic ids wrote its znode anew: the id {} is put back"
    return [Notice("topic-ids", name, told.format(state.topics[name].topic_id)) for name in lost]


def _id_is_known(state: ControllerState, read: Topic) -> bool:
    known = state.topics.get(read.name)
    return known is not None and known.topic_id is not None and known.version == read.version


def _put_back(draft: Draft, name: str, *, written: Mapping[str, int]) -> None:
    topic = draft.state.topics.get(name)
    if topic is not None and topic.version == written[name]:
        draft.keep_id(name)


def _give_id(draft: Draft, name: str, *, salt: int) -> None:
    topic = draft.state.topics.get(name)
    if topic is not None and topic.topic_id is None:
        draft.identify(name, salt)
