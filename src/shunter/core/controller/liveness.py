"""Brokers that come, die and bounce, and replicas on failed log dirs: who leads now, who is in sync."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from shunter.core.controller import elections, owed_replicas, pauses
from shunter.core.controller.changes import brokers_changed
from shunter.core.controller.deletions import Deletions
from shunter.core.controller.draft import Draft
from shunter.core.controller.full_state import FullState
from shunter.core.controller.ourselves import disown, live_brokers, maybe_register
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Request
from shunter.core.controller.review import Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.model.broker import Broker
from shunter.model.partition import NO_LEADER, BrokerId, TopicPartition
from shunter.model.settings import ControllerSettings


@dataclass(slots=True)
class Liveness:
    """What follows from the set of live brokers. Source: KafkaController's onBrokerStartup and onBrokerFailure."""

    state: ControllerState
    settings: ControllerSettings
    outbox: Outbox
    queue: TaskQueue
    reviews: Reviews
    deletions: Deletions

    def on_brokers_read(self, brokers: tuple[Broker, ...], now_ms: int) -> Iterator[tuple[int, list[Request]]]:
        """Compare with what is known; a broker with another epoch has died and come back (KIP-380).

        Done in pieces, so that others have turns in between; nothing else may be taken in before the last.

        Yields:
            How many partitions the piece looked at, and its requests.
        """
        live = live_brokers(self.state, brokers)
        came, went = brokers_changed(self.state, {broker.id: broker.epoch for broker in live.values()})
        if live == self.state.brokers:
            maybe_register(self.state, self.queue)  # Somebody may have removed our registration.
            return
        self.state.brokers = live
        disown(self.state, self.queue)
        maybe_register(self.state, self.queue)
        if not came and not went:
            # Endpoints, racks or features of live brokers are others now (Apache: onBrokerUpdate).
            yield 0, [self.outbox.connect(), *self.outbox.metadata(now_ms)]
            return
        self.state.shutting_down.difference_update(went)
        self._forget_log_dirs(went)
        lost = self.outbox.forget(went)
        self.deletions.on_brokers_lost(lost)
        if went:
            self._mourn(set(went), gone=frozenset(went) - self.state.brokers.keys())
        yield 0, [self.outbox.connect(), *self.outbox.metadata(now_ms)]
        if came:
            yield from self._welcome(came, now_ms, back=frozenset(came).difference(went))
            owed_replicas.make_good(self.state, self.queue)
        self.reviews.mark(Reason.BROKERS_CHANGED, self.state.reassignments)

    def _mourn(self, dead: set[BrokerId], gone: frozenset[BrokerId]) -> None:
        """Others lead, and are in sync; who is gone and not back has offline replicas, in sync or not.

        After a controlled shutdown a broker is in no ISR any more, so that nothing is written when it goes.
        """
        led: list[TopicPartition] = []
        followed: list[tuple[TopicPartition, BrokerId]] = []
        unwritten: list[TopicPartition] = []
        for name, topic in self.state.topics.items():
            for number, (assignment, leadership) in topic.partitions.items():
                if leadership is None:
                    continue
                in_sync = not dead.isdisjoint(leadership.isr)  # A leader is in its ISR, too.
                tp = TopicPartition(name, number)
                if not (in_sync and leadership.leader != NO_LEADER) and not gone.isdisjoint(assignment.replicas):
                    unwritten.append(tp)
                if not in_sync:
                    continue
                if leadership.leader in dead:
                    led.append(tp)
                if len(leadership.isr) > 1:
                    followed.extend((tp, member) for member in leadership.isr if member in dead)
        self.outbox.announce(unwritten)
        self._elect(led)
        if followed:
            self.queue.add(Task(Priority.LIVENESS, followed, _shrink))

    def _welcome(
        self, came: tuple[BrokerId, ...], now_ms: int, back: frozenset[BrokerId]
    ) -> Iterator[tuple[int, list[Request]]]:
        """`back`: those of `came` that everybody took for dead until now, and whose replicas for offline."""
        full = FullState(self.state, came)
        for topic in self.state.topics.values():
            full.add(topic)
            yield len(topic.partitions), []
        yield 0, self.outbox.full_metadata(came, now_ms, full)
        yield 0, self.deletions.clear_the_way(came, now_ms)
        for broker in sorted(full.hosted):
            request = self.outbox.followed_by(broker, full, now_ms)
            hosted = full.hosted.pop(broker)
            if broker in back:
                self.outbox.announce(
                    TopicPartition(topic.name, number) for topic in hosted for number, _ in topic.partitions
                )
            yield len(hosted), [request]
        self._succeed(frozenset(came))
        paused = pauses.woken(self.state, self.state.reassignments, frozenset(came))
        requests = self.outbox.stop_replicas(paused, now_ms, delete=False)
        self.mend_leaderless(None)
        yield 0, [*requests, *self.deletions.resume(came, now_ms)]

    def tell_again(self, brokers: tuple[BrokerId, ...], now_ms: int) -> Iterator[tuple[int, list[Request]]]:
        """Tell brokers everything that they have to know, as at a start of ours: they refused something of it.

        Yields:
            As `on_brokers_read`.
        """
        full = FullState(self.state, brokers)
        for topic in self.state.topics.values():
            full.add(topic)
            yield len(topic.partitions), []
        yield 0, self.outbox.full_metadata(brokers, now_ms, full)
        yield 0, self.deletions.clear_the_way(brokers, now_ms)
        for broker in sorted(full.hosted):
            request = self.outbox.hosted_by(broker, full, now_ms)
            yield len(full.hosted.pop(broker)), [request]
        paused = pauses.woken(self.state, self.state.reassignments, frozenset(brokers))
        requests = self.outbox.stop_replicas(paused, now_ms, delete=False)
        yield 0, [*requests, *self.deletions.resume(brokers, now_ms)]

    def _succeed(self, came: frozenset[BrokerId]) -> None:
        """What a broker led, or was in sync with, in the life before this one.

        It is told of no leadership of that life: who it had promised to wait for (KIP-497's maximal ISR) it has
        forgotten, and a change that it had asked for may be durable already, or be written at this moment. So even
        where nobody else can lead, it leads in a new epoch. Source: docs/decisions/0019-another-life.md.
        """
        before = [
            (TopicPartition(name, number), broker)
            for name, topic in self.state.topics.items()
            for number, (_, leadership) in topic.partitions.items()
            if leadership is not None and not came.isdisjoint(leadership.isr)
            for broker in leadership.isr
            if broker in came
        ]
        if before:
            self.queue.add(Task(Priority.LIVENESS, before, _succeed))

    def mend_all(self) -> None:
        """At start-up: first elections, elections for leaders that are gone, ISRs with dead members, controllers' ids."""
        disown(self.state, self.queue)
        self.deletions.forgive_controllers()
        led: list[TopicPartition] = []
        followed: list[tuple[TopicPartition, BrokerId]] = []
        live = frozenset(self.state.brokers)
        for name, topic in self.state.topics.items():
            for number, (_, leadership) in topic.partitions.items():
                if leadership is None or leadership.leader not in live:
                    led.append(TopicPartition(name, number))
                elif len(leadership.isr) > 1 and not live.issuperset(leadership.isr):
                    tp = TopicPartition(name, number)
                    followed.extend((tp, member) for member in leadership.isr if member not in live)
        self._elect(led)
        if followed:
            self.queue.add(Task(Priority.LIVENESS, followed, _shrink))

    def mend_leaderless(self, topics: list[str] | None) -> None:
        """Try elections for partitions without a leader, of some topics or of all."""
        names = self.state.topics if topics is None else [name for name in topics if name in self.state.topics]
        brokers = self.state.brokers
        leaderless = [
            TopicPartition(name, number)
            for name in names
            for number, (_, leadership) in self.state.topics[name].partitions.items()
            if leadership is None or leadership.leader not in brokers
        ]
        self._elect(leaderless)

    def lead_on(self, mended: list[TopicPartition]) -> None:
        """What could not be read can be read again: nobody has heard of what died, came or was asked meanwhile."""
        decide = partial(_lead_on, settings=self.settings)
        self.queue.add(Task(Priority.LIVENESS, mended, decide))

    def mend_written(self, written: Iterable[TopicPartition]) -> None:
        """Look again at what was just written: whoever died or came back meanwhile was compared with what stood before."""
        brokers = self.state.brokers
        led: list[TopicPartition] = []
        followed: list[tuple[TopicPartition, BrokerId]] = []
        for tp in written:
            partition = self.state.partition(tp)
            leadership = partition.leadership if partition is not None else None
            if leadership is None:
                continue
            if leadership.leader not in brokers:
                if leadership.leader != NO_LEADER or not brokers.keys().isdisjoint(leadership.isr):
                    led.append(tp)
            elif len(leadership.isr) > 1:
                followed.extend((tp, member) for member in leadership.isr if member not in brokers)
        self._elect(led)
        if followed:
            self.queue.add(Task(Priority.LIVENESS, followed, _shrink))

    def _elect(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            decide = partial(_elect_offline, settings=self.settings)
            self.queue.add(Task(Priority.LIVENESS, partitions, decide))

    def on_replicas_failed(self, broker: BrokerId, failed: list[TopicPartition]) -> None:
        """A broker can't serve these replicas any more: its log dir is gone, the broker is not."""
        for tp in failed:
            self.state.offline_replicas[tp] = self.state.offline_replicas.get(tp, frozenset()) | {broker}
        self.outbox.announce(failed)  # Where it was not in sync nothing is written.
        self._elect(failed)
        self.queue.add(Task(Priority.LIVENESS, [(tp, broker) for tp in failed], _shrink))

    def _forget_log_dirs(self, went: tuple[BrokerId, ...]) -> None:
        for tp, brokers in list(self.state.offline_replicas.items()):
            left = brokers.difference(went)
            if left != brokers:
                self.outbox.announce([tp])
            if left:
                self.state.offline_replicas[tp] = left
            else:
                del self.state.offline_replicas[tp]

    def hosted_by(self, broker: BrokerId) -> list[TopicPartition]:
        """Partitions with a replica on a broker, those that it leads first."""
        hosted = [
            (partition.leadership.leader != broker, TopicPartition(name, number))
            for name, topic in self.state.topics.items()
            for number, partition in topic.partitions.items()
            if partition.leadership is not None and broker in partition.assignment.replicas
        ]
        return [tp for _, tp in sorted(hosted)]


def _shrink(draft: Draft, item: tuple[TopicPartition, BrokerId]) -> None:
    tp, broker = item
    if not elections.eligible_leader(draft.state, tp, broker):
        elections.shrink_isr(draft, tp, broker)


def _succeed(draft: Draft, item: tuple[TopicPartition, BrokerId]) -> None:
    tp, broker = item
    elections.succeed(draft, tp, broker)


def _lead_on(draft: Draft, tp: TopicPartition, *, settings: ControllerSettings) -> None:
    elections.lead_on(draft, settings, tp)


def _elect_offline(draft: Draft, tp: TopicPartition, *, settings: ControllerSettings) -> None:
    elections.elect_offline(draft, settings, tp)
