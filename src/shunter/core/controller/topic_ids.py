"""Ids of topics: who gets one, and when.

As in Apache's `KafkaController.processTopicIds`, topics have ids where the brokers' protocol is of 2.8 or later. A topic
keeps the id that it has, whatever the protocol is. Source: docs/decisions/0034-one-release.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from shunter.core.controller.draft import Draft
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.model.notice import Notice


def agree(state: ControllerState, queue: TaskQueue, now_ms: int, *, used: bool) -> list[Notice]:
    """Take in whether topics have ids; tells people where that is not as usual."""
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
    """Give ids to those topics that have none: from before Kafka 2.8, or made by a tool of that time."""
    if not state.topic_ids:
        return
    nameless = [name for name in names if name in state.topics and state.topics[name].topic_id is None]
    if nameless:
        queue.add(Task(Priority.NORMAL, nameless, partial(_give_id, salt=now_ms)))


def _give_id(draft: Draft, name: str, *, salt: int) -> None:
    topic = draft.state.topics.get(name)
    if topic is not None and topic.topic_id is None:
        draft.identify(name, salt)
