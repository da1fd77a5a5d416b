"""Faults, by the names of `actions.FAULT_WEIGHTS`: each breaks something and mends it after a while.

Every method takes a PRNG of its own and returns whether it did anything.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lab.simulation.executor.cluster_broker import ClusterBroker
from lab.simulation.executor.partition import FOREIGN
from lab.simulation.scheduler import MS, SECOND
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.world import ExecutorWorld


FINAL = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.POLICY_VIOLATION)
PASSING = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR)
FOR_GOOD_US = 60 * SECOND
"""How long a refusal lasts that makes the executor give a step up."""
HOUR_MS = 3_600_000


class ExecutorFaults:
    """Breaks things."""

    def __init__(self, world: ExecutorWorld) -> None:
        """Begin without faults."""
        self.world = world

    def _broker(self, random: Random) -> ClusterBroker:
        return random.choice(list(self.world.cluster.brokers.values()))

    def _while(self, random: Random) -> int:
        return int(random.choice((0.1, 1, 5, 20)) * SECOND * (0.5 + random.random()))

    # ---- the executor

    def executor_killed(self, random: Random) -> bool:
        """SIGKILL, and a start later."""
        process = self.world.driver()
        if process is None:
            return False
        self.world.kill_executor(process, self._while(random))
        return True

    def executor_dies_at_something(self, random: Random) -> bool:
        """SIGKILL at one of the next events or requests that enter or leave it."""
        process = self.world.driver()
        if process is None or process.countdown:
            return False
        process.countdown = random.choice((1, 2, 3, 5, 8, 13, 21))
        return True

    def executor_paused(self, random: Random) -> bool:
        """It is paused, perhaps for longer than its lease lasts, and resumes."""
        process = self.world.driver()
        if process is None:
            return False
        length = random.choice((self._while(random), 30 * SECOND))
        self.world.hindered(length + SECOND)
        process.pause()
        self.world.scheduler.after(length, process.resume)
        if random.random() < 0.5:
            self.world.scheduler.after(random.randrange(length) + 1, self.world.start_executor, "here")
        return True

    def executor_loses_power(self, random: Random) -> bool:
        """Its machine loses power: what was not synced is lost."""
        for process in self.world.processes:
            self.world.kill_executor(process, self._while(random))
        self.world.disk.lose_power()
        return True

    def second_executor(self, random: Random) -> bool:
        """Another executor is started on the same journal."""
        self.world.start_executor(random.choice(("here", "elsewhere")))
        return True

    def clock_jumps(self, random: Random) -> bool:
        """The wall clock is set; processes that start from now on see it."""
        self.world.jump_ms = random.choice((-HOUR_MS, -30_000, 30_000, HOUR_MS, 0))
        return True

    # ---- its journal

    def journal_slow(self, random: Random) -> bool:
        """The disk is slow."""
        world, length = self.world, self._while(random)
        world.disk_us = random.choice((300 * MS, 2 * SECOND))
        world.hindered(length + 10 * SECOND)
        world.scheduler.after(length, self._disk_quick)
        return True

    def _disk_quick(self) -> None:
        self.world.disk_us = self.world.quick_disk_us

    def journal_busy(self, random: Random) -> bool:
        """Another process holds the file's lock for longer than the journal waits for it."""
        length = self._while(random) // 4
        self.world.disk.busy_until_us = self.world.scheduler.now_us + length
        self.world.hindered(length + SECOND)
        return True

    def journal_compacted(self, random: Random) -> bool:
        """The log cleaner compacts the journal's topic."""
        return self.world.disk.compact(random)

    def executor_dies_in_a_transaction(self, random: Random) -> bool:
        """SIGKILL between two requests of one transaction in the journal's topic."""
        process = self.world.driver()
        if process is None or process.countdown:
            return False
        return self.world.disk.die_within(process.owner, random.choice((1, 2, 3, 4, 5)), process.die)

    def journal_damaged(self, random: Random) -> bool:
        """The disk damages a row, and the executors die; a copy is restored later."""
        if not self.world.disk.damage(random):
            return False
        for process in self.world.processes:
            self.world.kill_executor(process, random.choice((10 * MS, SECOND)))
        self.world.scheduler.after(self._while(random), self.world.disk.mend)
        return True

    # ---- brokers

    def broker_killed(self, random: Random) -> bool:
        """SIGKILL; the broker is started again later."""
        broker = self._broker(random)
        was = broker.running
        self.world.cluster.kill(broker)
        self.world.scheduler.after(self._while(random), self.world.cluster.start, broker)
        return was

    def broker_bounced(self, random: Random) -> bool:
        """Down and up again before its session expires."""
        broker = self._broker(random)
        was = broker.running
        self.world.cluster.kill(broker)
        self.world.scheduler.after(random.randrange(1, 90) * MS, self.world.cluster.start, broker)
        return was

    def broker_paused(self, random: Random) -> bool:
        """It is paused, perhaps for longer than its session lasts."""
        broker = self._broker(random)
        was = broker.running and not broker.paused
        self.world.cluster.pause(broker)
        self.world.scheduler.after(self._while(random), self.world.cluster.resume, broker)
        return was

    def broker_slow(self, random: Random) -> bool:
        """All its delays are many times longer."""
        broker = self._broker(random)
        broker.delays.slow = random.choice((20.0, 300.0))
        self.world.scheduler.after(self._while(random), self._quick, broker)
        return True

    def broker_hears_late(self, random: Random) -> bool:
        """Its metadata and settings lag behind the controller, by seconds."""
        broker = self._broker(random)
        broker.lag = random.choice((100.0, 800.0))
        self.world.scheduler.after(self._while(random), self._quick, broker)
        return True

    def _quick(self, broker: ClusterBroker) -> None:
        broker.delays.slow = broker.lag = 1.0

    def log_dir_fails(self, random: Random) -> bool:
        """A disk of a broker can't be read for a while. The last one never fails, because that would end its broker."""
        cluster, broker = self.world.cluster, self._broker(random)
        able = cluster.log_dirs.online(broker.id)
        if len(able) == 1:
            return False
        path = random.choice(able)
        cluster.fail_log_dir(broker.id, path)
        self.world.scheduler.after(self._while(random), self._mend_log_dir, broker.id, path)
        return True

    def _mend_log_dir(self, broker: BrokerId, path: str) -> None:
        if (broker, path) in self.world.cluster.log_dirs.failed:
            self.world.cluster.mend_log_dir(broker, path)

    # ---- the controller

    def controller_lost(self, random: Random) -> bool:
        """It fails over."""
        del random
        had = self.world.cluster.controller >= 0
        self.world.cluster.lose_controller()
        return had

    def controller_forgets(self, random: Random) -> bool:
        """It fails over, and one ongoing reassignment is lost."""
        cluster = self.world.cluster
        ongoing = list(cluster.list_ongoing())
        cluster.lose_controller()
        return bool(ongoing) and cluster.alter(random.choice(ongoing), None, FOREIGN) is ErrorCode.NONE

    def controller_slow(self, random: Random) -> bool:
        """It is slow with every request."""
        self.world.cluster.controller_cost_us = random.choice((200 * MS, 3 * SECOND, 15 * SECOND))
        self.world.scheduler.after(self._while(random), self._controller_quick)
        return True

    def _controller_quick(self) -> None:
        self.world.cluster.controller_cost_us = 2 * MS

    def controller_refuses(self, random: Random) -> bool:
        """It refuses requests about a partition for a while, with an error that passes or with a final one."""
        tps = list(self.world.cluster.partitions)
        if not tps:
            return False
        code = random.choice((*PASSING, *FINAL))
        planned = [move.tp for move in self.world.rules.ledger.open_moves() if move.tp in tps]
        tp = random.choice(planned if planned and random.random() < 0.7 else tps)
        self.world.cluster.refusals[tp] = code
        length_us = self._while(random)
        if code in FINAL:
            self.world.refused.add(tp)
            length_us = random.choice((length_us, FOR_GOOD_US))
        self.world.scheduler.after(length_us, self._allow, tp)
        return True

    def _allow(self, tp: TopicPartition) -> None:
        self.world.cluster.refusals.pop(tp, None)
        found = self.world.cluster.partitions.get(tp)
        if found is not None:
            found.shaken_us = self.world.scheduler.now_us  # The refused request is repeated only after a while.

    def broker_cordoned(self, random: Random) -> bool:
        """Somebody cordons all log dirs of a broker, perhaps until the end; of one at a time."""
        broker = self._broker(random).id
        if self.world.cluster.cordoned:
            return False
        self.world.cluster.cordoned.add(broker)
        self.world.scheduler.after(random.choice((self._while(random), FOR_GOOD_US)), self._uncordon, broker)
        return True

    def _uncordon(self, broker: BrokerId) -> None:
        self.world.cluster.cordoned.discard(broker)

    # ---- the network

    def requests_lost(self, random: Random) -> bool:
        """Some requests never arrive."""
        self.world.network.lost = random.choice((0.1, 0.5))
        self._mend_network_later(random)
        return True

    def answers_lost(self, random: Random) -> bool:
        """Some requests are carried out, but never answered."""
        self.world.network.unanswered = random.choice((0.1, 0.5))
        self._mend_network_later(random)
        return True

    def requests_doubled(self, random: Random) -> bool:
        """Some requests are carried out twice."""
        self.world.network.doubled = random.choice((0.2, 1.0))
        self._mend_network_later(random)
        return True

    def cluster_unreachable(self, random: Random) -> bool:
        """No broker can be reached for a while."""
        self.world.network.reachable = False
        self._mend_network_later(random)
        return True

    def permission_withdrawn(self, random: Random) -> bool:
        """No request is authorized, for a while."""
        self.world.network.forbidden = True
        self._mend_network_later(random)
        return True

    def _mend_network_later(self, random: Random) -> None:
        self.world.scheduler.after(self._while(random), self._mend_network)

    def _mend_network(self) -> None:
        network = self.world.network
        network.lost = network.unanswered = network.doubled = 0.0
        network.reachable, network.forbidden = True, False
        network.mended_us = self.world.scheduler.now_us

    # ---- the end of phase one

    def mend_all(self) -> None:
        """Mend every fault."""
        world, cluster = self.world, self.world.cluster
        self._mend_network()
        self._controller_quick()
        self._disk_quick()
        world.disk.busy_until_us = 0
        world.disk.mend()
        cluster.refusals.clear()
        cluster.cordoned.clear()
        cluster.log_dirs.make_room()
        for owner, path in sorted(cluster.log_dirs.failed):
            cluster.mend_log_dir(owner, path)
        for broker in cluster.brokers.values():
            self._quick(broker)
            cluster.resume(broker)
            cluster.start(broker)
        for process in world.processes:
            process.countdown = 0
            process.resume()
