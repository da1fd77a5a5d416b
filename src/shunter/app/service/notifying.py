"""Notifications: events go to a webhook, to Slack, to Alertmanager or to a command. None of them delays the service.

The first event after a quiet time is sent at once. Events that follow within `digest_minutes` are collected, and sent
together in one message at the end of that time, unless one of them is urgent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from shunter.app.service.thinking import Thought
from shunter.core.keeper.cluster_facts import Age, ClusterFacts
from shunter.core.keeper.memory import turns
from shunter.core.keeper.situation import ClusterSeverity, severity_of, situation, stand_told
from shunter.core.wording import told_time
from shunter.drivers.service.notifier import notify, place_of
from shunter.errors import DriverError
from shunter.model.keeper import Condition, KeeperPolicy, Memory, Subject
from shunter.model.service import UNANSWERED, HistoryEvent, Notifier
from shunter.views.keeper import ConditionView
from shunter.views.service import NotifierFigures

LOG = logging.getLogger(__name__)
MOST_WAITING = 1_000
"""The most events that wait for one receiver. Beyond it the oldest are left out, and the next message says how many."""
TRIES = 3
AGAIN_S = 5.0
FAILED, SENT_AGAIN = "notification-failed", "notification-sent-again"
URGENT = (
    "cluster-unreachable",
    "cluster-back",
    "driven-again",
    "not-driven",
    "pause-all",
    "pause-not-sent",
    "resume-all",
    FAILED,
    "resume-not-sent",
    UNANSWERED,
)
"""Kinds of events that no digest delays, beside critical conditions."""
CONDITION, BROKER_EMPTY = "condition", "broker-empty"
SAFE = "safe"
_CRITICAL = {each.value for each in Condition if severity_of(each) is ClusterSeverity.CRITICAL}
Note = Callable[[str, str, str], Awaitable[None]]
"""Keeps an event of the service in the history, and notifies of it: kind, text, subject."""


@dataclass(slots=True)
class _Outlet:
    """One receiver, and what waits for it."""

    name: str
    receiver: Notifier
    waiting: deque[HistoryEvent] = field(default_factory=lambda: deque[HistoryEvent](maxlen=MOST_WAITING))
    came: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    left_out: int = 0
    """Events that were left out since the last message."""
    figures: NotifierFigures = field(init=False)

    def __post_init__(self) -> None:
        self.figures = NotifierFigures(self.name)


class Notifications:
    """One queue for each receiver. `tell` never waits."""

    def __init__(
        self, receivers: Sequence[Notifier], again_s: float = AGAIN_S, minute_s: float = 60.0, me: str = ""
    ) -> None:
        """Make the queues; nothing is sent before `run`. `me`: this service, in words."""
        self._me = me
        self.stands: Callable[[str], Mapping[str, str]] = lambda _cluster: {}
        """How a cluster stands now, as `standing` says it; {}: that is not known."""
        self._again_s, self._minute_s = again_s, minute_s
        self._outlets = [
            _Outlet(f"{at}-{receiver.kind.value}", receiver) for at, receiver in enumerate(receivers, start=1)
        ]

    @property
    def figures(self) -> tuple[NotifierFigures, ...]:
        """Counts of each receiver's messages."""
        return tuple(each.figures for each in self._outlets)

    def tell(self, event: HistoryEvent) -> None:
        """Queue an event for every receiver that wants its kind."""
        for outlet in self._outlets:
            # No receiver is told of its own trouble.
            if not outlet.receiver.wants(event.kind) or (event.kind == FAILED and event.subject == outlet.name):
                continue
            if len(outlet.waiting) == MOST_WAITING:
                outlet.left_out += 1
                outlet.figures = outlet.figures._replace(left_out=outlet.figures.left_out + 1)
            outlet.waiting.append(event)
            outlet.came.set()
            if _is_urgent(event):
                outlet.urgent.set()

    async def run(self, note: Note) -> None:
        """Send until cancelled. `note` keeps events about receivers that fail."""
        await asyncio.gather(*(self._send_forever(each, note) for each in self._outlets))

    async def _send_forever(self, outlet: _Outlet, note: Note) -> None:
        # A thread for each receiver: one that does not answer delays only its own messages.
        pool = ThreadPoolExecutor(1, thread_name_prefix="notify")
        try:
            while True:
                await outlet.came.wait()
                outlet.came.clear()
                outlet.urgent.clear()
                events = [*outlet.waiting]
                outlet.waiting.clear()
                if not events:
                    continue
                left_out, outlet.left_out = outlet.left_out, 0
                for message in self._messages(outlet.receiver, events):
                    trouble = await self._sent(outlet.receiver, message, left_out, pool)
                    left_out = 0
                    await self._count(outlet, trouble, note)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(outlet.receiver.digest_minutes * self._minute_s):
                        await outlet.urgent.wait()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _messages(self, receiver: Notifier, events: list[HistoryEvent]) -> list[list[HistoryEvent]]:
        return [[each] for each in events] if receiver.digest_minutes == 0 else [events]

    async def _count(self, outlet: _Outlet, trouble: str, note: Note) -> None:
        before = outlet.figures
        outlet.figures = before._replace(
            sent=before.sent + (not trouble), failed=before.failed + bool(trouble), trouble=trouble
        )
        told = f"messages to receiver {outlet.name} ({place_of(outlet.receiver)})"
        if trouble and not before.trouble:
            LOG.warning("notifications can't be delivered: %s", trouble)
            await note(FAILED, f"{told} are not delivered: {trouble}", outlet.name)
        elif before.trouble and not trouble:
            await note(SENT_AGAIN, f"{told} are delivered again", outlet.name)

    async def _sent(
        self, receiver: Notifier, events: Sequence[HistoryEvent], left_out: int, pool: ThreadPoolExecutor
    ) -> str:
        """Try to send a message a few times; returns why it was not delivered, or ""."""
        for again in range(TRIES):
            # A digest is sent minutes after its events: how the cluster stood then would be read as of now.
            stands = {name: self.stands(name) for name in {each.cluster for each in events}}
            current = [_as_of_now(replace(each, facts={**each.facts, **stands[each.cluster]})) for each in events]
            try:
                await asyncio.get_running_loop().run_in_executor(pool, notify, receiver, current, left_out, self._me)
            except DriverError as error:
                if not error.retriable or again == TRIES - 1:
                    return str(error)
                await asyncio.sleep(self._again_s)
            except Exception as error:
                LOG.exception("a message could not be sent")  # Later messages are still tried.
                return f"a bug of Shunter's: {error!r}"
            else:
                return ""
        return ""


def standing(facts: ClusterFacts) -> dict[str, str]:
    """How a cluster stands, as `stand_told` says it, and as `SAFE` the brokers that are safe to remove."""
    seen = facts.observation if facts.age is Age.CURRENT else None
    safe = () if seen is None else seen.safe
    return {**stand_told(situation(facts)), SAFE: ", ".join(f"broker {broker}" for broker in safe)}


def _as_of_now(event: HistoryEvent) -> HistoryEvent:
    """An event whose advice may have been overtaken while it waited: people act by what a message says."""
    if event.kind != BROKER_EMPTY or event.subject in event.facts.get(SAFE, "").split(", "):
        return event
    then = f"{event.subject} was empty and safe to remove at {told_time(event.at_ms)}"
    return replace(event, text=f"{then}; now it is not, or that is not known")


def _is_urgent(event: HistoryEvent) -> bool:
    """Whether no digest delays an event: a broker that died wakes somebody whatever was sent just before."""
    return event.kind in URGENT or (event.kind == CONDITION and event.subject.partition(" ")[0] in _CRITICAL)


def condition_events(
    event: Callable[[str, str, str], HistoryEvent],
    thought: Thought,
    before: Memory | None,
    policy: KeeperPolicy,
    stale_ms: int,
) -> list[HistoryEvent]:
    """Conditions that have held for their minutes since the former observation, and those of them that are over.

    An event has the time since when the condition holds, as far as it is known; its figures are of this observation, and
    the text says of when that is.

    Args:
        event: makes an event: kind, text, subject.
        before: what the former observation remembered.
        stale_ms: after this time without an observation it is not known when a condition ended.
    """
    turned = turns(before, thought.memory, policy)
    told: list[HistoryEvent] = []
    for each in (shown.condition for shown in thought.page.conditions):
        if Subject(Condition(each.condition), each.about) in turned.began:
            held = event(CONDITION, _told_since(each, thought.at_ms), f"{each.condition} {each.about}".strip())
            told.append(held if each.since_ms is None else replace(held, at_ms=each.since_ms))
    down = {f"broker {broker}" for broker in thought.observation.brokers_down}
    live = {f"broker {broker.id}" for broker in thought.page.brokers if broker.live}
    for since in turned.over:
        condition, about = since.subject
        label, name = f"{condition.label} {about}".strip(), f"{condition.value} {about}".strip()
        if before is not None and thought.at_ms - before.at_ms > stale_ms:
            when = f"between {told_time(before.at_ms)} and {told_time(thought.at_ms)}"
            down_now = f"; {about} is down" if about in down else ""
            over = f"{label} ended while this service did not observe it, {when}{down_now}"
            told.append(event("condition-over", over, name))
            continue
        over = f"{label} no longer holds"
        if condition is Condition.BROKER_DEAD:
            over = f"{about} is up again" if about in live else f"{about} holds no replicas any more; it is still down"
        elif about in down:
            over = f"{over}: {about} is down"
        elif condition is Condition.LOG_DIR_FAILED:
            over = f"{about} has no replicas on failed log dirs any more"  # Repaired, or its replicas are elsewhere.
        ended = event("condition-over", over, name)
        told.append(replace(ended, at_ms=since.since_ms, until_ms=ended.at_ms))
    return told


def _told_since(each: ConditionView, at_ms: int) -> str:
    if each.since_ms is None:
        return each.text
    return f"{each.text} (observed {told_time(at_ms)}); it holds since {told_time(each.since_ms)}"
