"""The controller's scheduled task: leadership goes back to preferred leaders, a while after brokers have come back.

Source: the controller redesign ("scheduled tasks (preferred leader election)"), and what Apache 3.9 does by
`auto.leader.rebalance.enable`: a broker that leads too few of the partitions that prefer it gets them back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from shunter.core.controller.brokers import elections
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReplyToken
from shunter.core.controller.ready import Reply
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.wording import counted
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.settings import ControllerSettings


class TopicTally(NamedTuple):
    """The counts of one topic: by live broker, how many partitions prefer it, and how many of them others lead.

    `ready` has the partitions led by others that could be given back now, each with its preferred leader.
    """

    preferring: Counter[BrokerId]
    led_by_others: Counter[BrokerId]
    ready: list[tuple[TopicPartition, BrokerId]]


@dataclass(slots=True)
class Rebalance:
    """Looks at the balance of leaders once per interval. One instance per term; the first look comes after an interval.

    Invariant: no look begins before the elections of the former look are decided.
    """

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    due_ms: int | None = None
    under_way: bool = False

    def use(self, settings: ControllerSettings, now_ms: int) -> None:
        """Use other settings from now on. If the interval changed, it counts from now."""
        old, self.settings = self.settings, settings
        changed = (
            old.leader_rebalance_enable != settings.leader_rebalance_enable
            or old.leader_rebalance_interval_ms != settings.leader_rebalance_interval_ms
        )
        if changed and self.state.active:
            self.schedule(now_ms)

    def schedule(self, now_ms: int) -> None:
        """Set the moment of the next look; None if the rebalance is switched off."""
        enabled = self.settings.leader_rebalance_enable
        self.due_ms = now_ms + self.settings.leader_rebalance_interval_ms if enabled else None

    def on_time_passed(self, now_ms: int) -> None:
        """Begin a look if it is due: topic by topic, so that a large cluster is not counted in one go."""
        if self.due_ms is None or now_ms < self.due_ms:
            return
        self.schedule(now_ms)
        if self.under_way or not self.state.topics:
            return
        self.under_way = True
        names = sorted(self.state.topics)
        self.queue.add(Task(Priority.CLEANUP, names, _tally, self._judge))

    def _judge(self, tallies: list[TopicTally | None]) -> list[tuple[ReplyToken, Reply]]:
        """All topics are counted: choose the brokers that lead too little, and queue their partitions' elections."""
        preferring: Counter[BrokerId] = Counter()
        lost: Counter[BrokerId] = Counter()
        ready: list[tuple[TopicPartition, BrokerId]] = []
        for tally in tallies:
            if tally is not None:
                preferring.update(tally.preferring)
                lost.update(tally.led_by_others)
                ready += tally.ready
        allowed = self.settings.leader_imbalance_percent
        short = {broker for broker, count in lost.items() if count * 100 > allowed * preferring[broker]}
        partitions = [tp for tp, preferred in ready if preferred in short]
        if not partitions:
            self.under_way = False
            return []
        told = ", ".join(f"{broker} ({lost[broker]} of {preferring[broker]} led by others)" for broker in sorted(short))
        text = f"leadership of {counted(len(partitions), 'partition')} goes back to brokers that lead too few of theirs: {told}"
        notice = Notice("leaders-rebalanced", "cluster", text)
        items = [(tp, notice if index == 0 else None) for index, tp in enumerate(partitions)]
        self.queue.add(Task(Priority.NORMAL, items, _give_back, self._end))
        return []

    def _end(self, _: list[None]) -> list[tuple[ReplyToken, Reply]]:
        self.under_way = False
        return []


def _tally(draft: Draft, name: str) -> TopicTally | None:
    """Count one topic; None if it is being deleted, or gone."""
    state = draft.state
    topic = state.topics.get(name)
    if topic is None or name in state.deleting:
        return None
    preferring: Counter[BrokerId] = Counter()
    led_by_others: Counter[BrokerId] = Counter()
    ready: list[tuple[TopicPartition, BrokerId]] = []
    for number, (assignment, leadership) in topic.partitions.items():
        preferred = assignment.preferred
        if leadership is None or preferred not in state.brokers:
            continue
        preferring[preferred] += 1
        if leadership.leader == preferred:
            continue
        led_by_others[preferred] += 1
        # A partition that moves is left alone: its leader is the move's business.
        tp = TopicPartition(name, number)
        if preferred in leadership.isr and draft.reassignment(tp) is None:
            ready.append((tp, preferred))
    return TopicTally(preferring, led_by_others, ready)


def _give_back(draft: Draft, item: tuple[TopicPartition, Notice | None]) -> None:
    tp, notice = item
    if notice is not None:
        draft.notices.append(notice)
    if draft.reassignment(tp) is None and tp not in draft.state.unreadable:
        elections.elect_preferred(draft, tp)
