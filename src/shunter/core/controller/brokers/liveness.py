"""Brokers that come, die and bounce, and replicas on failed log dirs: brokers are told, and partitions marked.

The review decides what happens to the marked partitions. docs/reviews.md says in one place what happens to a partition
when its leader's broker returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shunter.core.controller.brokers.ourselves import disown, live_brokers, maybe_register
from shunter.core.controller.changes import Changes, brokers_changed
from shunter.core.controller.full_state import FullState
from shunter.core.controller.moves import pauses
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Request
from shunter.core.controller.review import Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, TaskQueue
from shunter.core.controller.topics.deletions import Deletions
from shunter.model.broker import Broker
from shunter.model.partition import NO_LEADER, BrokerId, TopicPartition


@dataclass(slots=True)
class Liveness:
    """Consequences of changes among live brokers. Source: KafkaController's onBrokerStartup and onBrokerFailure."""

    state: ControllerState
    outbox: Outbox
    queue: TaskQueue
    reviews: Reviews
    deletions: Deletions

    def on_brokers_read(self, brokers: tuple[Broker, ...], now_ms: int) -> Iterator[tuple[int, list[Request]]]:
        """Compare the brokers with those known. A broker with another epoch has died and come back (KIP-380).

        The work is done in pieces, so that the rest of the process gets turns in between. No other event may be taken
        in before the last piece.

        Yields:
            How many partitions the piece looked at, and its requests.
        """
        live = live_brokers(self.state, brokers)
        came, went = brokers_changed(self.state, {broker.id: broker.epoch for broker in live.values()})
        if live == self.state.brokers:
            maybe_register(self.state, self.queue)  # The controller's registration may have been removed.
            return
        self.state.brokers = live
        disown(self.state, self.queue)
        maybe_register(self.state, self.queue)
        if not came and not went:
            # Endpoints, racks or features of live brokers changed (Apache: onBrokerUpdate).
            yield 0, [self.outbox.connect(), *self.outbox.metadata(now_ms)]
            return
        self.state.shutting_down.difference_update(went)
        self._forget_log_dirs(went)
        lost = self.outbox.forget(went)
        self.deletions.on_brokers_lost(lost)
        if went:
            self._note_dead(set(went), gone=frozenset(went) - self.state.brokers.keys())
        if came:
            yield 0, [self.outbox.connect(), *self.outbox.metadata(now_ms)]
            yield from self._tell_newcomers(came, now_ms, back=frozenset(came).difference(went))
        else:
            # Brokers hear of the deaths together with what is decided about them.
            self.outbox.hold(Priority.LIVENESS, Changes(live=True), now_ms)
            yield 0, [self.outbox.connect()]
        self.reviews.on_brokers_changed(frozenset(came))

    def _note_dead(self, dead: set[BrokerId], gone: frozenset[BrokerId]) -> None:
        """Mark partitions that dead brokers led, or had in sync; announce the offline replicas of brokers still gone.

        The announcement is needed after a controlled shutdown: the broker is in no ISR any more, so nothing is written.
        """
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
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
                elif len(leadership.isr) > 1:
                    followed.append(tp)
        self.outbox.announce(unwritten)
        self.reviews.mark(Reason.BROKER_GONE, led)
        self.reviews.mark(Reason.FOLLOWER_GONE, followed)

    def _tell_newcomers(
        self, came: tuple[BrokerId, ...], now_ms: int, back: frozenset[BrokerId]
    ) -> Iterator[tuple[int, list[Request]]]:
        """Tell `came` everything but what they led before: they lead again once that is decided and durable.

        Args:
            came: Brokers that came, or were restarted.
            now_ms: The time.
            back: Brokers of `came` that had been dead: their replicas were offline, and are online again.
        """

        def replicas_of(broker: BrokerId, full: FullState) -> Request:
            if broker in back:
                hosted = full.hosted[broker]
                returned = (TopicPartition(topic.name, number) for topic in hosted for number, _ in topic.partitions)
                self.outbox.announce_return(returned, now_ms)
            return self.outbox.followed_by(broker, full, now_ms)

        return self._tell(came, now_ms, replicas_of)

    def tell_again(self, brokers: tuple[BrokerId, ...], now_ms: int) -> Iterator[tuple[int, list[Request]]]:
        """Tell brokers everything that they have to know, as at a start-up: they refused some of it, or ids changed.

        Yields:
            As `on_brokers_read`.
        """
        return self._tell(brokers, now_ms, lambda broker, full: self.outbox.hosted_by(broker, full, now_ms))

    def _tell(
        self, brokers: tuple[BrokerId, ...], now_ms: int, replicas_of: Callable[[BrokerId, FullState], Request]
    ) -> Iterator[tuple[int, list[Request]]]:
        """Tell brokers the whole metadata, then `replicas_of` each, then what they have to stop and to delete."""
        full = FullState(self.state, brokers)
        for topic in self.state.topics.values():
            full.add(topic)
            yield len(topic.partitions), []
        yield 0, self.outbox.full_metadata(brokers, now_ms, full)
        yield 0, self.deletions.clear_the_way(brokers, now_ms)
        for broker in sorted(full.hosted):
            request = replicas_of(broker, full)
            yield len(full.hosted.pop(broker)), [request]
        paused = pauses.woken(self.state, self.state.reassignments, frozenset(brokers))
        requests = self.outbox.stop_replicas(paused, now_ms, delete=False)
        yield 0, [*requests, *self.deletions.resume(brokers, now_ms)]

    def on_replicas_failed(self, broker: BrokerId, failed: list[TopicPartition]) -> None:
        """A live broker can't serve these replicas any more, because their log dir failed."""
        for tp in failed:
            self.state.offline_replicas[tp] = self.state.offline_replicas.get(tp, frozenset()) | {broker}
        self.outbox.announce(failed)  # If the replica was not in sync, nothing is written about it.
        self.reviews.mark(Reason.LOG_DIR_FAILED, failed)
        self.reviews.mark(Reason.BROKERS_CHANGED, [tp for tp in failed if tp in self.state.reassignments])

    def on_replicas_served(self, broker: BrokerId, served: list[TopicPartition]) -> None:
        """A live broker serves replicas again that had been on a failed log dir."""
        for tp in served:
            self._forget_log_dir(tp, (broker,))
        self.reviews.mark(Reason.LEADERLESS, served)
        self.reviews.mark(Reason.BROKERS_CHANGED, [tp for tp in served if tp in self.state.reassignments])

    def _forget_log_dirs(self, went: tuple[BrokerId, ...]) -> None:
        for tp in list(self.state.offline_replicas):
            self._forget_log_dir(tp, went)

    def _forget_log_dir(self, tp: TopicPartition, brokers: tuple[BrokerId, ...]) -> None:
        """A partition's replicas on these brokers are not on failed log dirs any more."""
        known = self.state.offline_replicas[tp]
        left = known.difference(brokers)
        if left != known:
            self.outbox.announce([tp])
        if left:
            self.state.offline_replicas[tp] = left
        else:
            del self.state.offline_replicas[tp]
