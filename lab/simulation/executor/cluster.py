"""The cluster that the executor drives: a controller, brokers, copies, settings, and which party changed what.

The controller handles one request after the other. Brokers learn of its changes later. Copies take time, and no more
bandwidth than throttles allow. Nothing here knows the executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lab.simulation.executor.cluster_broker import ClusterBroker
from lab.simulation.executor.log_dirs import LogDirs
from lab.simulation.executor.partition import FOREIGN, SimulatedPartition
from lab.simulation.executor.shape import ExecutorShape
from lab.simulation.scheduler import MS, SECOND, Scheduler
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, RATES, UNLIMITED
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ObservedTopic, OngoingReassignment, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.rules import ExecutorRules


TICK_US = 200 * MS
SESSION_US = 6 * SECOND
CATCH_UP_BYTES = 50_000
"""The most that each replica of a returning broker lacks."""
QUORUM = 100
"""Id of KRaft's first controller; ids of brokers are below."""

Answer = Callable[[Any], None]


class SimulatedCluster:
    """The true state of the cluster, and the changes to it."""

    def __init__(self, scheduler: Scheduler, shape: ExecutorShape, seed: int) -> None:
        """Build it: all replicas are in sync, and all brokers know everything."""
        self.scheduler = scheduler
        self.shape = shape
        self.rules: ExecutorRules | None = None
        random = Random(f"cluster {seed}")
        self.brokers = {
            broker: ClusterBroker(scheduler, broker, f"rack-{broker % 2}" if shape.racks else None)
            for broker in shape.brokers
        }
        self.controller: BrokerId = QUORUM if shape.kraft else random.choice(shape.brokers)
        self.controller_cost_us = 2 * MS
        self.topic_ids: dict[str, UUID] = {}
        self.min_isr: dict[str, int] = {}
        self.partitions: dict[TopicPartition, SimulatedPartition] = {}
        self.settings: dict[ThrottleKey, str] = {}
        self.defaults: dict[str, str] = {}
        self.theirs: dict[ThrottleKey, str] = {}
        """Settings as they would be if no executor had changed any."""
        self.theirs_us: dict[ThrottleKey, int] = {}
        """When other tools changed a setting last."""
        self.gone_us: dict[str, int] = {}
        """When a topic of this name was deleted last."""
        self.grown_us: dict[str, int] = {}
        """When a topic got partitions last."""
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.cordoned: set[BrokerId] = set()
        """Brokers all of whose log dirs are cordoned (KIP-1066)."""
        self.log_dirs = LogDirs(self, shape.log_dirs, seed)
        self._queue: deque[tuple[Callable[[], Any], Answer]] = deque()
        self._serving = False
        self._made = 0
        for name, count, factor, min_isr in shape.topics:
            self.make_topic(name, count, factor, min_isr, random)
        self.log_dirs.measure()
        self._others_throttles(random)
        for broker in self.brokers.values():
            self._tell_all(broker)
        scheduler.after(TICK_US, self._tick)

    # ---- topics

    def default_of(self, setting: str) -> str | None:
        """The effective value of a setting that a broker or topic does not have itself."""
        return self.defaults.get(setting, str(UNLIMITED) if setting in RATES else None)

    def make_topic(self, name: str, count: int, factor: int, min_isr: int, random: Random) -> None:
        """Make a topic, everything in sync."""
        self._made += 1
        self.topic_ids[name] = UUID(int=self._made)
        self.min_isr[name] = min_isr
        self._add_partitions(name, range(count), factor, random)

    def grow_topic(self, name: str, random: Random) -> None:
        """Add a partition."""
        numbers = [tp.partition for tp in self.partitions if tp.topic == name]
        self._add_partitions(name, range(len(numbers), len(numbers) + 1), 1, random)

    def _add_partitions(self, name: str, numbers: range, factor: int, random: Random) -> None:
        live = [broker for broker in self.brokers if self.brokers[broker].registered] or list(self.brokers)
        self.grown_us[name] = self.scheduler.now_us
        for number in numbers:
            replicas = tuple(random.sample(live, min(factor, len(live))))
            size = random.randint(*self.shape.sizes)
            tp = TopicPartition(name, number)
            self.partitions[tp] = SimulatedPartition(
                tp, replicas, replicas, replicas[0], size, have=dict.fromkeys(replicas, size)
            )
            self.log_dirs.place(self.partitions[tp])
        self.publish(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and its settings."""
        self.partitions = {tp: found for tp, found in self.partitions.items() if tp.topic != name}
        self.log_dirs.delete_topic(name)
        del self.topic_ids[name]
        self.gone_us[name] = self.scheduler.now_us
        if self.rules is not None:
            self.rules.topic_deleted(name)
        for settings in (self.settings, self.theirs):
            for key in [key for key in settings if key.kind == "topic" and key.name == name]:
                del settings[key]
                self._publish_setting(key)
        self.publish(name)

    def topic(self, name: str) -> ObservedTopic | None:
        """A topic as its metadata would show it now."""
        identity = self.topic_ids.get(name)
        if identity is None:
            return None
        seen = {
            tp.partition: found.seen(self._holders(tp)) for tp, found in self.partitions.items() if tp.topic == name
        }
        return ObservedTopic(identity, seen, self.min_isr[name])

    # ---- news for brokers

    def live(self) -> dict[BrokerId, str | None]:
        """Brokers that are registered, with their racks."""
        return {broker.id: broker.rack for broker in self.brokers.values() if broker.registered}

    def _holders(self, tp: TopicPartition) -> list[BrokerId]:
        """Brokers that are alive and can read their replica of a partition, if they have one."""
        return [broker for broker in self.live() if not self.log_dirs.offline(broker, tp)]

    def publish(self, name: str) -> None:
        """Send the present state of a topic to all brokers."""
        seen = self.topic(name)
        for broker in self.brokers.values():
            broker.hear(lambda broker=broker: _hear_topic(broker, name, seen))  # type: ignore[misc]

    def _publish_live(self) -> None:
        live = self.live()
        for broker in self.brokers.values():
            broker.hear(lambda broker=broker: setattr(broker, "live", live))  # type: ignore[misc]

    def _publish_setting(self, key: ThrottleKey) -> None:
        value = self.settings.get(key)
        for broker in self.brokers.values():
            broker.hear(lambda broker=broker: _hear_setting(broker, key, value))  # type: ignore[misc]

    def _tell_all(self, broker: ClusterBroker) -> None:
        """Give a starting broker the present state. It reads everything before it serves."""
        broker.topics = {name: seen for name in self.topic_ids if (seen := self.topic(name)) is not None}
        broker.live = self.live()
        broker.settings = dict(self.settings)

    # ---- its controller

    def ask_controller(self, work: Callable[[], Any], answer: Answer) -> None:
        """Queue a request at the controller. It is carried out after all earlier ones."""
        host = self.brokers.get(self.controller)
        if self.controller < 0 or (host is not None and not host.running):
            answer(DriverError("no controller: NotControllerError", retriable=True))
            return
        self._queue.append((work, answer))
        if not self._serving:
            self._serve_later()

    def _serve_later(self) -> None:
        self._serving = True
        self.scheduler.after(self.scheduler.between(self.controller_cost_us // 4, self.controller_cost_us), self._serve)

    def _serve(self) -> None:
        self._serving = False
        host = self.brokers.get(self.controller)
        if not self._queue or (host is not None and not host.serving):
            return
        work, answer = self._queue.popleft()
        answer(work())
        if self._queue:
            self._serve_later()

    def lose_controller(self) -> None:
        """The controller is lost. Waiting requests get an error or no answer; another controller is elected later."""
        before = self.controller
        if before < 0:
            return
        self.controller = -1
        for _work, answer in self._queue:
            if self.scheduler.chance(0.5):  # Otherwise the client gets no answer.
                answer(DriverError("the connection broke", retriable=True))
        self._queue.clear()
        self.scheduler.after(self.scheduler.between(100 * MS, self.shape.quorum_us), self._elect_controller, before)

    def _elect_controller(self, before: BrokerId) -> None:
        if self.shape.kraft:
            self.controller = QUORUM + (before - QUORUM + 1) % 3
            return
        able = [broker.id for broker in self.brokers.values() if broker.serving]
        if able:
            self.controller = self.scheduler.random.choice(able)
        else:
            self.scheduler.after(SECOND, self._elect_controller, before)

    def alter(self, tp: TopicPartition, target: Replicas | None, by: str) -> ErrorCode:
        """AlterPartitionReassignments for one partition; None cancels."""
        found = self.partitions.get(tp)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if by != FOREIGN and tp in self.refusals:
            return self.refusals[tp]
        before = found.ongoing()
        code = found.cancel() if target is None else self._reassign(found, target, by)
        if code is not ErrorCode.NONE:
            return code
        if found.ongoing() != before:
            found.changed_us = self.scheduler.now_us
        if found.in_motion and (before.adding, before.removing) != (found.adding, found.removing):
            found.mover, found.began_us = by, self.scheduler.now_us
        if by == FOREIGN:
            found.foreign_us = self.scheduler.now_us
        self._settle(found)
        self.publish(tp.topic)
        return code

    def _reassign(self, found: SimulatedPartition, target: Replicas, by: str) -> ErrorCode:
        known = self.brokers if self.shape.kraft else self.live()
        new = [broker for broker in target if broker not in found.replicas]
        if by != FOREIGN and self.cordoned.intersection(target):  # As Kafka 4.4 does, also for a replica that stays.
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not target or len(set(target)) != len(target) or not all(broker in known for broker in new):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        kept = found.replicas if self.shape.kraft else (*target, *found.settled)
        if not any(broker in found.isr for broker in kept):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        found.reassign(
            target, kraft=self.shape.kraft, strands=self.shape.strands and by != FOREIGN
        )  # Nobody mends another tool's.
        return ErrorCode.NONE

    def _settle(self, found: SimulatedPartition) -> None:
        """Complete the reassignment if it can be completed, and elect a leader if there is none."""
        if found.completable():
            if self.rules is not None:
                self.rules.completing(found)
            found.complete()
            found.changed_us = self.scheduler.now_us
            if found.mover == FOREIGN:
                found.foreign_us = self.scheduler.now_us
        self.log_dirs.place(found)
        found.elect(self._holders(found.tp), self.scheduler.now_us)

    def elect_preferred(self, tp: TopicPartition) -> ErrorCode:
        """ElectLeaders for one partition's first replica."""
        found = self.partitions.get(tp)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if tp in self.refusals:
            return self.refusals[tp]
        code = found.elect_preferred(self._holders(tp), self.scheduler.now_us)
        self.publish(tp.topic)
        return code

    def list_ongoing(self) -> dict[TopicPartition, OngoingReassignment]:
        """ListPartitionReassignments."""
        return {tp: found.ongoing() for tp, found in self.partitions.items() if found.in_motion}

    # ---- settings

    def set_setting(self, key: ThrottleKey, value: str | None, by: str) -> str | None:
        """IncrementalAlterConfigs for one setting; returns the error, or None."""
        if key.kind == "topic" and key.name not in self.topic_ids:
            return "UnknownTopicOrPartitionError"
        _put(self.settings, key, value)
        if by == FOREIGN:
            _put(self.theirs, key, value)
            if self.rules is not None:
                self.rules.changed_by_others(key, value)
            self.theirs_us[key] = self.scheduler.now_us
        self._publish_setting(key)
        return None

    def _others_throttles(self, random: Random) -> None:
        if random.random() < 0.2:
            self.defaults[random.choice(RATES)] = "150000"
        for broker in self.brokers:
            if random.random() < 0.2:
                setting = random.choice(RATES)
                self.settings[ThrottleKey("broker", str(broker), setting)] = random.choice(("120000", "90000000"))
        for name in self.topic_ids:
            if random.random() < 0.3:
                setting = random.choice((LEADER_REPLICAS, FOLLOWER_REPLICAS))
                self.settings[ThrottleKey("topic", name, setting)] = random.choice(("0:1", "7:7,0:2", "*"))
        self.theirs = dict(self.settings)

    # ---- brokers that stop, start and fail

    def kill(self, broker: ClusterBroker) -> None:
        """SIGKILL: the cluster notices after a while."""
        if broker.running:
            broker.stop()
            self.log_dirs.broker_ended(broker.id)
            self.scheduler.after(self.scheduler.between(100 * MS, SESSION_US), self._expire, broker, broker.starts)

    def pause(self, broker: ClusterBroker) -> None:
        """Pause it. After `SESSION_US` the cluster takes it for dead."""
        if broker.running and not broker.paused:
            broker.paused = True
            self.scheduler.after(SESSION_US, self._expire, broker, broker.starts)

    def resume(self, broker: ClusterBroker) -> None:
        """Resume it, and register it again if its session has expired."""
        if not broker.paused:
            return
        broker.resume()
        if not broker.registered:
            self._register(broker)
        if broker.id == self.controller and self._queue and not self._serving:
            self._serve_later()

    def start(self, broker: ClusterBroker) -> None:
        """Start it again."""
        if broker.running:
            return
        broker.running = True
        broker.starts += 1
        if broker.registered:
            self._unregister(broker)  # A bounce: it is back before its session expired.
        self._register(broker)

    def _expire(self, broker: ClusterBroker, start: int) -> None:
        """A broker's session expires, unless it has started again."""
        if start == broker.starts and broker.registered and not broker.serving:
            self._unregister(broker)

    def _unregister(self, broker: ClusterBroker) -> None:
        broker.registered = False
        if broker.id == self.controller:
            self.lose_controller()
        self._publish_live()
        for found in self.partitions.values():
            self._lose_replica(found, broker.id)
        for name in self.topic_ids:
            self.publish(name)

    def _lose_replica(self, found: SimulatedPartition, broker: BrokerId) -> None:
        left = tuple(member for member in found.isr if member != broker)
        if broker in found.isr and left:  # The last member stays in the ISR, because no other replica has all records.
            found.isr = left
            found.shaken_us = self.scheduler.now_us
            found.have[broker] = max(0, found.size - self.scheduler.random.randint(0, CATCH_UP_BYTES))
        self._settle(found)

    def fail_log_dir(self, broker: BrokerId, path: str) -> None:
        """A disk of a broker fails: its replicas there are offline."""
        self.log_dirs.fail(broker, path)
        for found in self.partitions.values():
            if self.log_dirs.offline(broker, found.tp):
                self._lose_replica(found, broker)
                self.publish(found.tp.topic)

    def mend_log_dir(self, broker: BrokerId, path: str) -> None:
        """The disk works again, with its former content."""
        self.log_dirs.mend(broker, path)
        for found in self.partitions.values():
            self._settle(found)
        for name in self.topic_ids:
            self.publish(name)

    def _register(self, broker: ClusterBroker) -> None:
        broker.registered, broker.back_us = True, self.scheduler.now_us
        self._tell_all(broker)
        self._publish_live()
        for found in self.partitions.values():
            if broker.id in found.replicas:
                self._settle(found)
        for name in self.topic_ids:
            self.publish(name)

    # ---- copies

    def _tick(self) -> None:
        self.scheduler.after(TICK_US, self._tick)
        self.log_dirs.copy(TICK_US)
        copying = [
            (found, broker)
            for found in self.partitions.values()
            if found.leader >= 0 and self.brokers[found.leader].serving
            for broker in found.replicas
            if broker not in found.isr and self.brokers[broker].serving and not self.log_dirs.offline(broker, found.tp)
        ]
        if not copying:
            return
        into: dict[BrokerId, int] = {}
        out: dict[BrokerId, int] = {}
        for found, broker in copying:
            into[broker] = into.get(broker, 0) + 1
            out[found.leader] = out.get(found.leader, 0) + 1
        for found, broker in copying:
            if found.leader not in out:
                continue  # The leader has changed within this tick.
            rates = [self.shape.bandwidth / into[broker], self.shape.bandwidth / out[found.leader]]
            rates += self._throttled(found, broker, into[broker], out[found.leader])
            self._copy(found, broker, int(min(rates) * TICK_US / SECOND) + 1)

    def _throttled(self, found: SimulatedPartition, follower: BrokerId, into: int, out: int) -> list[float]:
        sides = (
            (follower, FOLLOWER_REPLICAS, FOLLOWER_RATE, into),
            (found.leader, LEADER_REPLICAS, LEADER_RATE, out),
        )
        rates: list[float] = []
        for broker, listing, rate, share in sides:
            known = self.brokers[broker].settings
            listed = known.get(ThrottleKey("topic", found.tp.topic, listing), "")
            limit = known.get(ThrottleKey("broker", str(broker), rate), self.defaults.get(rate))
            named = listed.strip() == "*" or f"{found.tp.partition}:{broker}" in listed.split(",")
            if named and limit is not None:
                rates.append(int(limit) / share)
        return rates

    def _copy(self, found: SimulatedPartition, broker: BrokerId, amount: int) -> None:
        if broker not in found.replicas or broker in found.isr:
            return
        if self.rules is not None and broker in found.adding:
            self.rules.copied(found, broker, amount * SECOND // TICK_US)
        found.have[broker] = min(found.size, found.have.get(broker, 0) + amount)
        if found.have[broker] < found.size:
            return
        found.isr = (*found.isr, broker)
        self._settle(found)
        self.publish(found.tp.topic)


def _put(settings: dict[ThrottleKey, str], key: ThrottleKey, value: str | None) -> None:
    if value is None:
        settings.pop(key, None)
    else:
        settings[key] = value


def _hear_topic(broker: ClusterBroker, name: str, seen: ObservedTopic | None) -> None:
    if seen is None:
        broker.topics.pop(name, None)
    else:
        broker.topics[name] = seen


def _hear_setting(broker: ClusterBroker, key: ThrottleKey, value: str | None) -> None:
    _put(broker.settings, key, value)
