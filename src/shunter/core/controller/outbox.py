"""Requests to brokers, made from changes; and the requests that brokers have not answered yet.

LeaderAndIsr goes out at once, one request per broker and decision however many partitions. Metadata goes to all
brokers: at once when a leader changed, else at most once per `metadata_linger_ms`, so that changes go out together.
No client waits for news of an ISR: sent one by one, that of 5,000 moves at 50 brokers took over a million requests.
What follows from deaths is decided in many slices and goes out in rounds: ten deaths sent each broker 57 requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from shunter.core.controller.changes import Changes
from shunter.core.controller.full_state import FullState, note_offline
from shunter.core.controller.ready import (
    ConnectBrokers,
    Request,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopPartition,
    TopicSlice,
)
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Hold, Priority
from shunter.errors import ErrorCode
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    BrokerId,
    PartitionState,
    Replicas,
    TopicPartition,
)
from shunter.model.settings import ControllerSettings, ControlRequestEpoch

_LONG_AGO_MS, _NEVER_MS = -(1 << 62), 1 << 62
RETURN_LINGER_MS = 500
"""How long the news that a returned broker's replica is online again waits for the news that it is in sync."""
ROUND_AT_MOST_MS = 500
"""How long the first decision of a round waits for the others."""
ALL_WAIT_MS = 250
"""How long all waiting work waits for one broker. After that only work about that broker's partitions waits for it."""


@dataclass(slots=True)
class Outbox:
    """Builds requests from changes and remembers the unanswered ones.

    Invariant: `unanswered` names live brokers alone.
    """

    state: ControllerState
    settings: ControllerSettings
    next_request_id: int = 1
    unanswered: dict[BrokerId, dict[int, int]] = field(default_factory=dict[BrokerId, dict[int, int]])
    """Broker -> request id -> when the request was handed out, ms."""
    deletions: dict[tuple[int, BrokerId], tuple[TopicPartition, ...]] = field(
        default_factory=dict[tuple[int, BrokerId], tuple[TopicPartition, ...]]
    )
    """Replica deletions that were asked for and not acknowledged."""
    told_new: dict[tuple[int, BrokerId], frozenset[TopicPartition]] = field(
        default_factory=dict[tuple[int, BrokerId], frozenset[TopicPartition]]
    )
    """Replicas that an unanswered LeaderAndIsr calls new."""
    not_created: dict[tuple[BrokerId, int], set[TopicPartition]] = field(
        default_factory=dict[tuple[BrokerId, int], set[TopicPartition]]
    )
    """By broker and the epoch of its registration: new replicas that it has not acknowledged. LeaderAndIsr calls them new
    until then. This outlives a reload (`ControllerMachine`), which forgets the requests that called them new."""
    roles: dict[tuple[int, BrokerId], tuple[TopicSlice, ...]] = field(
        default_factory=dict[tuple[int, BrokerId], tuple[TopicSlice, ...]]
    )
    """The partitions of unanswered LeaderAndIsrs: an answer names only those with an error."""
    stops: set[tuple[int, BrokerId]] = field(default_factory=set[tuple[int, BrokerId]])
    """StopReplicas among the unanswered requests."""
    pending_metadata: set[TopicPartition] = field(default_factory=set[TopicPartition])
    returned: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions with a replica that is online again, because its broker is back. Brokers are told when the replica is
    in sync again, or at `returned_due_ms`."""
    returned_due_ms: int = _NEVER_MS
    last_metadata_ms: int = _LONG_AGO_MS
    last_metadata_id: int = 0
    """The last request that told brokers of partitions or of each other."""
    barrier: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """By broker that was sent a request: the last request id that it has to answer before waiting work goes on."""
    slow: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that the barrier gave up waiting for, until they have answered everything."""
    tardy: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that did not answer within `ALL_WAIT_MS`. Until they have answered everything, or are called slow, they
    hold back only work about their partitions."""
    nobody_late_before_ms: int = _LONG_AGO_MS
    """Before this moment no broker of the barrier becomes tardy, and no tardy one slow. It may be too early, but never
    too late: an answer only postpones a broker's moment, and is not worth a look at all brokers."""
    releases: int = 0
    """Counts how often a broker stopped being waited for."""
    unreachable: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that are registered in ZooKeeper but have no connection to the controller: nothing waits for them."""
    round: Changes | None = None
    """What is durable and goes out together, once all of it is decided. None: nothing is held."""
    round_of: Priority | None = None
    round_due_ms: int | None = None
    """When the round goes out at the latest."""

    def use(self, settings: ControllerSettings) -> None:
        """Use other settings from now on: brokers may become tardy or slow at other moments."""
        self.settings = settings
        self.nobody_late_before_ms = _LONG_AGO_MS

    def others(self) -> tuple[BrokerId, ...]:
        """Live brokers except the controller, ascending."""
        return tuple(broker for broker in sorted(self.state.brokers) if broker != self.state.controller_id)

    def connect(self) -> ConnectBrokers:
        """The request that names the brokers to have channels to from now on."""
        return ConnectBrokers(tuple(self.state.brokers[broker] for broker in self.others()))

    # ---- rounds

    def hold(self, priority: Priority, changes: Changes, now_ms: int) -> None:
        """Keep changes that are durable for the round that is held, or begin one, of work of this priority."""
        if self.round is None:
            self.round, self.round_of, self.round_due_ms = Changes(), priority, now_ms + ROUND_AT_MOST_MS
        self.round.add(changes)

    def round_is_over(self, left: Priority | None, now_ms: int) -> bool:
        """Whether the round is held for long enough, or nothing is left of its priority (`left`: what is left)."""
        if self.round is None or self.round_due_ms is None:
            return False
        return now_ms >= self.round_due_ms or left is not self.round_of

    def end_round(self) -> Changes:
        """What was held, to be handed out now."""
        held, self.round, self.round_due_ms = self.round or Changes(), None, None
        return held

    # ---- from changes to requests

    def leader_and_isr(self, changes: Changes, now_ms: int) -> list[Request]:
        """One request per replica's broker for all partitions whose leader, epoch or replicas changed.

        A replica is new (Apache: `isNew`) where the partition got its first leader, and where it was added to others.
        A broker with a failed log dir makes a log for a new replica only: any other could lie on the failed one.
        """
        by_broker: dict[BrokerId, dict[str, list[tuple[int, PartitionState]]]] = {}
        new: dict[BrokerId, set[TopicPartition]] = {}
        for tp, before in changes.led.items():
            partition = self.state.partition(tp)
            if partition is None or partition.leadership is None or tp.topic in self.state.deleting:
                continue
            for broker in partition.assignment.replicas:
                by_broker.setdefault(broker, {}).setdefault(tp.topic, []).append((tp.partition, partition))
                if tp in changes.first or (before and broker not in before):
                    new.setdefault(broker, set()).add(tp)
        return [
            self._leader_and_isr(
                broker, self._slices(by_broker[broker]), frozenset(new.get(broker, ())), now_ms, full=False
            )
            for broker in self.others()
            if broker in by_broker
        ]

    def lead_again(self, broker: BrokerId, partitions: Iterable[TopicPartition], now_ms: int) -> list[Request]:
        """Tell a broker about single partitions as they are now. Partitions that it no longer hosts are left out."""
        topics: dict[str, list[tuple[int, PartitionState]]] = {}
        for tp in partitions:
            partition = self.state.partition(tp)
            if partition is None or partition.leadership is None or tp.topic in self.state.deleting:
                continue
            if broker in partition.assignment.replicas:
                topics.setdefault(tp.topic, []).append((tp.partition, partition))
        if not topics or broker not in self.state.brokers:
            return []
        return [self._leader_and_isr(broker, self._slices(topics), frozenset(), now_ms, full=False)]

    def full_leader_and_isr(self, brokers: Iterable[BrokerId], now_ms: int) -> list[Request]:
        """A full LeaderAndIsr for each of `brokers`, but not for the controller, which hosts nothing."""
        full = FullState(self.state, (broker for broker in brokers if broker != self.state.controller_id))
        for topic in self.state.topics.values():
            full.add(topic)
        return [self.hosted_by(broker, full, now_ms) for broker in sorted(full.hosted)]

    def hosted_by(self, broker: BrokerId, full: FullState, now_ms: int) -> Request:
        """One broker's full LeaderAndIsr, from the gathered topics."""
        return self._leader_and_isr(broker, tuple(full.hosted[broker]), frozenset(), now_ms, full=True)

    def followed_by(self, broker: BrokerId, full: FullState, now_ms: int) -> Request:
        """One broker's LeaderAndIsr without the partitions that it leads.

        It is called full only if nothing was left out: a broker could take replicas that a full request does not name
        for strays.
        """
        hosted = full.hosted[broker]
        followed = [each for each in (_unled(topic, broker) for topic in hosted) if each.partitions]
        return self._leader_and_isr(broker, tuple(followed), frozenset(), now_ms, full=followed == hosted)

    def _leader_and_isr(
        self,
        broker: BrokerId,
        topics: tuple[TopicSlice, ...],
        new: frozenset[TopicPartition],
        now_ms: int,
        *,
        full: bool,
    ) -> SendLeaderAndIsr:
        leaders = {
            leadership.leader
            for _, _, partitions in topics
            for _, (_, leadership) in partitions
            if leadership is not None
        }
        request_id = self._handed_out((broker,), now_ms)
        self.roles[request_id, broker] = topics
        registered = self._registered(broker)
        if new:
            self.not_created.setdefault(registered, set()).update(new)
        if awaited := self.not_created.get(registered):
            # A broker that refused a new replica has no log of it. With a failed log dir it makes a log only for a new
            # replica, so the replica stays new until it is acknowledged.
            named = (TopicPartition(topic.name, number) for topic in topics for number, _ in topic.partitions)
            new = self.told_new[request_id, broker] = frozenset(awaited.intersection(named))
        return SendLeaderAndIsr(
            request_id=request_id,
            broker=broker,
            controller_epoch=self.state.controller_epoch,
            broker_epoch=self._broker_epoch(broker),
            leaders=tuple(self.state.brokers[leader] for leader in sorted(leaders) if leader in self.state.brokers),
            topics=topics,
            new=new,
            full=full,
        )

    def _slices(self, topics: Mapping[str, list[tuple[int, PartitionState]]]) -> tuple[TopicSlice, ...]:
        return tuple(
            TopicSlice(name, self.state.topics[name].topic_id, tuple(partitions)) for name, partitions in topics.items()
        )

    def stop_replicas(
        self,
        stopped: Mapping[TopicPartition, set[BrokerId]],
        now_ms: int,
        *,
        delete: bool,
        older: Collection[TopicPartition] = (),
    ) -> list[Request]:
        """One request per broker for all replicas that it has to stop; deletions are remembered until answered.

        `older`: partitions whose replicas belong to a deleted topic of the same name, which had other leader epochs.
        """
        by_broker: dict[BrokerId, list[StopPartition]] = {}
        for tp, brokers in stopped.items():
            partition = self.state.partition(tp)
            if tp.topic in self.state.deleting or tp in older or partition is None or partition.leadership is None:
                epoch = EPOCH_DURING_DELETE
            else:
                epoch = partition.leadership.leader_epoch
            for broker in sorted(brokers):
                by_broker.setdefault(broker, []).append(StopPartition(tp, epoch, delete))
        requests: list[Request] = []
        for broker in self.others():
            if broker not in by_broker:
                continue
            request_id = self._handed_out((broker,), now_ms)
            self.stops.add((request_id, broker))
            partitions = tuple(by_broker[broker])
            if delete:
                self.deletions[request_id, broker] = tuple(stop.tp for stop in partitions)
            requests.append(
                SendStopReplica(request_id, broker, self.state.controller_epoch, self._broker_epoch(broker), partitions)
            )
        return requests

    # ---- metadata

    def note_metadata(self, changes: Changes, now_ms: int) -> list[Request]:
        """Remember what all brokers have to hear; send it now if it is urgent or has waited long enough."""
        self.pending_metadata.update(changes.led)
        self.pending_metadata.update(changes.isr)
        if changes.live:
            return self.metadata(now_ms)
        return self.maybe_metadata(now_ms, urgent=changes.urgent)

    def announce(self, partitions: Iterable[TopicPartition]) -> None:
        """Remember partitions whose offline replicas changed: brokers have to be told, though nothing is written."""
        self.pending_metadata.update(tp for tp in partitions if tp.topic not in self.state.deleting)

    def announce_return(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """As `announce`, for a broker that is back. Most of its replicas are soon in sync: that is announced anyway."""
        if not self.returned:
            self.returned_due_ms = now_ms + RETURN_LINGER_MS
        self.returned.update(tp for tp in partitions if tp.topic not in self.state.deleting)

    def maybe_metadata(self, now_ms: int, *, urgent: bool = False) -> list[Request]:
        """Send what is pending when it is urgent or has waited long enough."""
        if self.returned and now_ms >= self.returned_due_ms:
            self.pending_metadata |= self.returned
            self.returned.clear()
        waits = self.round is not None or now_ms < self._lingers_until_ms
        if not self.pending_metadata or (waits and not urgent):
            return []
        return self.metadata(now_ms)

    @property
    def metadata_due_ms(self) -> int | None:
        """When metadata goes out at the latest; None: none is pending, or it waits for the round."""
        if self.round is not None:
            return None
        if not self.pending_metadata:
            return self.returned_due_ms if self.returned else None
        return min(self._lingers_until_ms, self.returned_due_ms) if self.returned else self._lingers_until_ms

    @property
    def _lingers_until_ms(self) -> int:
        return self.last_metadata_ms + self.settings.metadata_linger_ms

    def metadata(self, now_ms: int) -> list[Request]:
        """Send all pending metadata to all brokers; if nothing is pending, the list of live brokers alone."""
        topics: dict[str, list[tuple[int, PartitionState]]] = {}
        for tp in sorted(self.pending_metadata):
            partition = self.state.partition(tp)
            if partition is not None:
                self._collect(topics, tp, partition)
        self.returned -= self.pending_metadata
        self.pending_metadata.clear()
        self.last_metadata_ms = now_ms
        slices = self._slices(topics)
        offline: dict[TopicPartition, Replicas] = {}
        live = frozenset(self.state.brokers)
        for topic in slices:
            note_offline(offline, topic, live, self.state.offline_replicas)
        return self._metadata(self.others(), slices, offline, now_ms, full=False)

    def full_metadata(self, brokers: tuple[BrokerId, ...], now_ms: int, full: FullState) -> list[Request]:
        """The whole cluster's metadata for `brokers`, from the gathered topics."""
        return self._metadata(brokers, tuple(full.metadata), full.offline, now_ms, full=True)

    def _collect(
        self, topics: dict[str, list[tuple[int, PartitionState]]], tp: TopicPartition, partition: PartitionState
    ) -> None:
        leadership = partition.leadership
        if leadership is None:
            return
        if tp.topic in self.state.deleting:
            partition = partition._replace(leadership=leadership._replace(leader=LEADER_DURING_DELETE))
        topics.setdefault(tp.topic, []).append((tp.partition, partition))

    def _metadata(
        self,
        brokers: tuple[BrokerId, ...],
        slices: tuple[TopicSlice, ...],
        offline: Mapping[TopicPartition, Replicas],
        now_ms: int,
        *,
        full: bool,
    ) -> list[Request]:
        if not brokers:
            return []
        live = tuple(self.state.brokers[broker] for broker in sorted(self.state.brokers))
        shared = self.settings.control_request_epoch is ControlRequestEpoch.MAX
        groups = [brokers] if shared else [(broker,) for broker in brokers]
        requests: list[Request] = [
            SendUpdateMetadata(
                request_id=self._handed_out(group, now_ms),
                brokers=group,
                controller_epoch=self.state.controller_epoch,
                broker_epoch=self._broker_epoch(group[0]),
                live=live,
                topics=slices,
                offline=offline,
                full=full,
            )
            for group in groups
        ]
        self.last_metadata_id = self.next_request_id - 1
        return requests

    def _registered(self, broker: BrokerId) -> tuple[BrokerId, int]:
        """A broker with the epoch of its own registration; -1 if it is not registered."""
        known = self.state.brokers.get(broker)
        return broker, -1 if known is None else known.epoch

    def _broker_epoch(self, broker: BrokerId) -> int:
        if self.settings.control_request_epoch is ControlRequestEpoch.PER_BROKER:
            return self.state.brokers[broker].epoch
        return max(known.epoch for known in self.state.brokers.values())

    # ---- answers

    def _handed_out(self, brokers: tuple[BrokerId, ...], now_ms: int) -> int:
        request_id = self.next_request_id
        self.next_request_id += 1
        for broker in brokers:
            self.unanswered.setdefault(broker, {})[request_id] = now_ms
            if broker not in self.slow and broker not in self.unreachable and broker not in self.tardy:
                if broker not in self.barrier:
                    self.nobody_late_before_ms = min(self.nobody_late_before_ms, self._all_wait_until_ms(broker))
                self.barrier[broker] = request_id
        return request_id

    def awaits(self, request_id: int, broker: BrokerId) -> bool:
        """Whether an answer to this request is waited for.

        It is, if the request was handed out in this term and the broker was not restarted since.
        """
        return request_id in self.unanswered.get(broker, ())

    def answered(self, request_id: int, broker: BrokerId) -> tuple[TopicPartition, ...]:
        """Take note of an answer; returns the replica deletions that it acknowledges."""
        self.stops.discard((request_id, broker))
        self.roles.pop((request_id, broker), None)
        self.releases += broker in self.tardy
        waiting = self.unanswered.get(broker)
        if waiting is not None:
            waiting.pop(request_id, None)
            if not waiting:
                del self.unanswered[broker]
                self.slow.discard(broker)
                self.tardy.discard(broker)
        if self.barrier.get(broker, request_id + 1) <= request_id:
            del self.barrier[broker]
        return self.deletions.pop((request_id, broker), ())

    def note_created(
        self, request_id: int, broker: BrokerId, error: ErrorCode, refused: Collection[TopicPartition]
    ) -> None:
        """A broker answered a LeaderAndIsr: replicas that it did not refuse are not new any more."""
        new = self.told_new.pop((request_id, broker), None)
        registered = self._registered(broker)
        known = self.not_created.get(registered)
        if new is None or known is None or error is not ErrorCode.NONE:
            return
        known -= new.difference(refused)
        if not known:
            del self.not_created[registered]

    def heard(self, request_id: int, among: Collection[BrokerId] | None = None) -> bool:
        """Whether every broker that can be waited for, or each of `among`, has answered all requests up to this one."""
        given_up = self.slow | self.unreachable
        return all(
            next(iter(waiting)) > request_id
            for broker, waiting in self.unanswered.items()
            if broker not in given_up and (among is None or broker in among)
        )

    def forget(self, brokers: Iterable[BrokerId]) -> dict[BrokerId, list[TopicPartition]]:
        """Stop waiting for dead or bounced brokers; returns the deletions that they never acknowledged."""
        gone = set(brokers)
        for broker in gone:
            self.unanswered.pop(broker, None)
            self.barrier.pop(broker, None)
            self.slow.discard(broker)
            self.tardy.discard(broker)
            self.unreachable.discard(broker)
        self.releases += 1
        self.not_created = {key: new for key, new in self.not_created.items() if key[0] not in gone}
        self.told_new = {key: new for key, new in self.told_new.items() if key[1] not in gone}
        self.roles = {key: topics for key, topics in self.roles.items() if key[1] not in gone}
        self.stops = {each for each in self.stops if each[1] not in gone}
        lost: dict[BrokerId, list[TopicPartition]] = {}
        for request_id, broker in [key for key in self.deletions if key[1] in gone]:
            lost.setdefault(broker, []).extend(self.deletions.pop((request_id, broker)))
        return lost

    def connection_changed(self, broker: BrokerId, *, reachable: bool) -> None:
        """Stop waiting for an unreachable broker. When it is reachable again, don't wait for answers from before.

        Source: the controller redesign, `checkNodeLivenessAndIgnoreDeadNode`, and its third question.
        """
        if not reachable:
            self.unreachable.add(broker)
            self.tardy.discard(broker)
            self.barrier.pop(broker, None)
            self.releases += 1
            return
        self.unreachable.discard(broker)
        if broker in self.unanswered:
            self.slow.add(broker)

    def owes_up_to(self, broker: BrokerId, request_id: int) -> bool:
        """Whether this broker owes an answer, which is waited for, to that request or an earlier one."""
        waiting = self.unanswered.get(broker)
        if waiting is None or broker in self.slow or broker in self.unreachable:
            return False
        return next(iter(waiting)) <= request_id

    def barrier_holds(self, now_ms: int) -> bool:
        """Whether all waiting work has to wait.

        A broker that took `ALL_WAIT_MS` is tardy: only work about its partitions waits for it. A broker that took
        `slow_broker_ms` is slow: nothing waits for it. It stays tardy or slow until it has answered everything.
        """
        if now_ms < self.nobody_late_before_ms:
            return bool(self.barrier)
        for broker in [broker for broker in self.barrier if self._all_wait_until_ms(broker) <= now_ms]:
            del self.barrier[broker]
            self.tardy.add(broker)
        for broker in [broker for broker in self.tardy if self._patience_ends_ms(broker) <= now_ms]:
            self.tardy.discard(broker)
            self.slow.add(broker)
            self.releases += 1
        moments = [*map(self._all_wait_until_ms, self.barrier), *map(self._patience_ends_ms, self.tardy)]
        self.nobody_late_before_ms = min(moments, default=_NEVER_MS)
        return bool(self.barrier)

    @property
    def barrier_deadline_ms(self) -> int | None:
        """When to ask `barrier_holds` again: a broker may hold back less then. None: no answer is waited for."""
        return self.nobody_late_before_ms if self.barrier or self.tardy else None

    def hold_of(self, tp: TopicPartition) -> Hold:
        """The answers that a decision about a partition has to wait for now: those of its tardy brokers."""
        if not self.tardy:
            return ()
        partition = self.state.partition(tp)
        if partition is None:
            return ()
        return tuple(
            (broker, next(reversed(self.unanswered[broker])))
            for broker in partition.assignment.replicas
            if broker in self.tardy and broker in self.unanswered
        )

    def passed(self, hold: Hold) -> bool:
        """Whether all these answers came, or are not waited for any more."""
        return not any(self.owes_up_to(broker, request_id) for broker, request_id in hold)

    def _all_wait_until_ms(self, broker: BrokerId) -> int:
        return self._oldest_ms(broker) + min(ALL_WAIT_MS, self.settings.slow_broker_ms)

    def _patience_ends_ms(self, broker: BrokerId) -> int:
        return self._oldest_ms(broker) + self.settings.slow_broker_ms

    def _oldest_ms(self, broker: BrokerId) -> int:
        return next(iter(self.unanswered[broker].values()))


def _unled(topic: TopicSlice, broker: BrokerId) -> TopicSlice:
    kept = tuple(each for each in topic.partitions if each[1].leadership is None or each[1].leadership.leader != broker)
    return topic if len(kept) == len(topic.partitions) else topic._replace(partitions=kept)
