"""Faults, by the names of `actions.FAULTS`: each breaks something and mends it after a while.

Every method takes a PRNG of its own and returns whether it did anything.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lab.simulation.brokers.broker import DIRECTORIES, SimulatedBroker
from lab.simulation.process import ShunterProcess
from lab.simulation.scheduler import MS, SECOND
from shunter.drivers.zookeeper.requests import Remove
from shunter.formats.znodes import paths as znodes

if TYPE_CHECKING:
    from lab.simulation.world import World


class Faults:
    """Breaks things."""

    def __init__(self, world: World) -> None:
        """Begin without faults."""
        self.world = world

    def _broker(self, random: Random) -> SimulatedBroker:
        return random.choice(list(self.world.brokers.values()))

    def _process(self, random: Random) -> ShunterProcess:
        """One of the controller processes, most often the active one."""
        active = self.world.active_process()
        if active is not None and random.random() < 0.7:
            return active
        return random.choice(list(self.world.processes.values()))

    def _while(self, random: Random) -> int:
        return int(random.choice((0.05, 0.5, 2, 8)) * SECOND * (0.5 + random.random()))

    # ---- brokers

    def broker_kill(self, random: Random) -> bool:
        """SIGKILL; started again later. Now and then an operator rolls back the moves of its original replicas."""
        broker = self._broker(random)
        was = broker.running
        broker.kill()
        if was and random.random() < 0.3:
            self.world.operators.roll_back_from(broker.id)
        self.world.scheduler.after(self._while(random), broker.start)
        return was

    def broker_bounce(self, random: Random) -> bool:
        """A clean stop and a quick start: it has a new epoch before the controller may have noticed the stop."""
        broker = self._broker(random)
        was = broker.running and not broker.paused
        if was and random.random() < 0.5:
            # Requests are under way. They reach the next process of this broker, or are lost.
            self.world.operators.reassign_many(random)
            if random.random() < 0.5:
                self.world.zookeeper_delays.slow = 200.0
                self.world.scheduler.after(2 * SECOND, self._zookeeper_quick)
            self.world.scheduler.after(random.randrange(1, 20) * MS, self._bounce, broker, random.randrange(1, 50) * MS)
        elif was:
            self._bounce(broker, random.randrange(1, 50) * MS)
        return was

    def _bounce(self, broker: SimulatedBroker, later_us: int) -> None:
        if broker.running and not broker.paused:
            broker.stop_cleanly()
            self.world.scheduler.after(later_us, broker.start)

    def broker_pause(self, random: Random) -> bool:
        """It is paused, perhaps for longer than its session lasts."""
        broker = self._broker(random)
        was = broker.running and not broker.paused
        broker.pause()
        self.world.scheduler.after(self._while(random), broker.resume)
        return was

    def broker_slow(self, random: Random) -> bool:
        """All its delays are many times longer."""
        broker = self._broker(random)
        delays = self.world.delays(broker.id)
        delays.slow = random.choice((5.0, 30.0, 200.0))
        self.world.scheduler.after(self._while(random), self._quick, broker.id)
        return True

    def _quick(self, broker: int) -> None:
        self.world.delays(broker).slow = 1.0

    def broker_leave(self, random: Random) -> bool:
        """Controlled shutdown, and a start later."""
        broker = self._broker(random)
        was = broker.running and not broker.paused and broker.epoch >= 0
        if was:
            broker.leave()
            self._start_later(broker, self._while(random) + 4 * SECOND)
        return was

    def _start_later(self, broker: SimulatedBroker, after_us: int) -> None:
        self.world.scheduler.after(after_us, broker.start)

    def broker_loses_zookeeper(self, random: Random) -> bool:
        """It goes on serving without ZooKeeper, perhaps for longer than its session lasts."""
        broker = self._broker(random)
        was = broker.running and broker.zookeeper_reachable
        broker.lose_zookeeper()
        self.world.scheduler.after(self._while(random), broker.find_zookeeper)
        return was

    def directory_fails(self, random: Random) -> bool:
        """A log directory fails (a broken or a full disk: Kafka treats them alike); a restart mends it."""
        broker = self._broker(random)
        was = broker.running and not broker.paused
        if was:
            broker.fail_directory(random.randrange(DIRECTORIES))
            self.world.scheduler.after(self._while(random) + 3 * SECOND, self.mend_disks, broker)
        return was

    def mend_disks(self, broker: SimulatedBroker) -> None:
        """Replace a broken disk, and restart the broker."""
        if broker.failed_directories or not broker.running:
            broker.stop_cleanly()
            broker.start()

    def brokers_part(self, random: Random) -> bool:
        """Two brokers don't reach each other."""
        pair = sorted(random.sample(list(self.world.brokers), 2))
        self.world.parted.add((pair[0], pair[1]))
        self.world.scheduler.after(self._while(random), self.world.parted.discard, (pair[0], pair[1]))
        return True

    def channel_breaks(self, random: Random) -> bool:
        """A controller's connection to a broker breaks: some requests are lost, some arrive twice."""
        broker = self._broker(random)
        for process in self.world.processes.values():
            process.channels.drop(broker.id)
        return True

    # ---- controllers

    def controller_isolated(self, random: Random) -> bool:
        """A controller reaches no broker for a while, perhaps for so long that it gives the seat back."""
        process = self._process(random)
        if not process.running or process.channels.isolated:
            return False
        process.channels.isolate()
        self.world.scheduler.after(self._while(random), process.channels.rejoin)
        return True

    def controller_killed(self, random: Random) -> bool:
        """SIGKILL; started again later. Now and then tools go on writing while there is no controller."""
        process = self._process(random)
        was = process.running
        process.kill()
        if was and random.random() < 0.3:
            self.world.operators.two_tools(random)
        self.world.scheduler.after(self._while(random), process.start)
        return was

    def controller_paused(self, random: Random) -> bool:
        """It is paused, and may have been deposed when it resumes, without knowing it."""
        process = self._process(random)
        was = process.running and not process.loop.paused
        process.pause()
        self.world.scheduler.after(self._while(random), process.resume)
        return was

    def controller_steps_down(self, random: Random) -> bool:
        """SIGTERM; started again later."""
        process = self._process(random)
        was = process.running and not process.loop.paused
        process.step_down()
        self.world.scheduler.after(self._while(random) + SECOND, process.start)
        return was

    def controller_deposed(self, random: Random) -> bool:
        """`/controller` is deleted, as operators do to force an election."""
        del random
        if self.world.tree.get(znodes.CONTROLLER) is None:
            return False
        self.world.tree.commit([Remove(znodes.CONTROLLER)], self.world.operator)
        return True

    def apache_takes_over(self, random: Random) -> bool:
        """A broker becomes the controller, and may be deposed again later."""
        done = self.world.apache.take_over(force=True)
        if done:
            self.world.scheduler.after(self._while(random) + SECOND, self._depose_apache)
        return done

    def _depose_apache(self) -> None:
        if self.world.apache.active:
            self.world.tree.commit([Remove(znodes.CONTROLLER)], self.world.operator)

    # ---- ZooKeeper

    def zookeeper_connection_breaks(self, random: Random) -> bool:
        """A controller's connection breaks: a write may have happened or not."""
        process = self._process(random)
        if not process.running or process.kazoo is None or not process.kazoo.connected:
            return False
        process.kazoo.drop()
        return True

    def zookeeper_unreachable(self, random: Random) -> bool:
        """A controller does not reach ZooKeeper, perhaps for longer than its session lasts."""
        process = self._process(random)
        if not process.running or process.kazoo is None:
            return False
        process.kazoo.reachable = False
        process.kazoo.drop()
        self.world.scheduler.after(self._while(random), self._reach, process)
        return True

    def _reach(self, process: ShunterProcess) -> None:
        if process.kazoo is not None:
            process.kazoo.reachable = True

    def session_expires(self, random: Random) -> bool:
        """ZooKeeper ends a controller's session."""
        process = self._process(random)
        if not process.running or process.kazoo is None or process.kazoo.session not in self.world.tree.sessions:
            return False
        process.kazoo.expire()
        return True

    def zookeeper_slow(self, random: Random) -> bool:
        """ZooKeeper answers slowly."""
        self.world.zookeeper_delays.slow = random.choice((10.0, 100.0))
        self.world.scheduler.after(self._while(random), self._zookeeper_quick)
        return True

    def _zookeeper_quick(self) -> None:
        self.world.zookeeper_delays.slow = 1.0

    def garble(self, random: Random) -> bool:
        """A znode is overwritten with data that can't be read, and repaired later."""
        return self.world.garbling.garble(random)

    # ---- the end of phase one

    def mend_all(self) -> None:
        """Mend every fault. Apache's controller is deposed and never contends again."""
        world = self.world
        world.garbling.mend_all()
        world.parted.clear()
        self._zookeeper_quick()
        world.apache.allowed = False
        self._depose_apache()
        for broker in world.brokers.values():
            self._quick(broker.id)
            broker.resume()
            broker.find_zookeeper()
            if broker.leaving:
                broker.stop_cleanly()
            if broker.failed_directories:
                self.mend_disks(broker)
            broker.start()
        for process in world.processes.values():
            if process.kazoo is not None:
                process.kazoo.reachable = True
            process.channels.rejoin()
            process.resume()
            process.start()
        world.scheduler.after(15 * SECOND, self._start_again)

    def _start_again(self) -> None:
        """Start what was about to stop when phase two began, and has stopped since."""
        for broker in self.world.brokers.values():
            broker.start()
        for process in self.world.processes.values():
            process.start()
        if self.world.apache.active:
            self._depose_apache()
