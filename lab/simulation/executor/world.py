"""An executor's world: a cluster with its own controller, executors and their journal, operators; and two phases.

Phase one: operators, other tools and faults; safety is checked with every event. Phase two: faults stop and everything
broken is mended. Then every move has to end, or the world reports what it waits for.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from random import Random

from lab.simulation.actions import Action
from lab.simulation.coverage import Coverage
from lab.simulation.executor.admin import QUICK, Network
from lab.simulation.executor.cluster import SimulatedCluster
from lab.simulation.executor.disk import JournalDisk
from lab.simulation.executor.endings import find_open_ends
from lab.simulation.executor.faults import ExecutorFaults
from lab.simulation.executor.operators import SHELL, ExecutorOperators
from lab.simulation.executor.partition import OURS
from lab.simulation.executor.process import SimulatedExecutor
from lab.simulation.executor.rules import ExecutorRules
from lab.simulation.executor.shape import ExecutorShape
from lab.simulation.executor.topic import JournalTopic
from lab.simulation.phases import live_through
from lab.simulation.rules.violation import Violation
from lab.simulation.scheduler import EPOCH_MS, MS, SECOND, Scheduler
from shunter.core.executor.events import Envelope
from shunter.core.executor.ready import Ready
from shunter.errors import ErrorCode
from shunter.model.execution import ThrottleKey
from shunter.model.limits import is_open
from shunter.model.partition import BrokerId, Replicas, TopicPartition

CONVERGE_WITHIN_US = 1_500 * SECOND
LOOK_EVERY_US = SECOND
MURKY_US = 60 * SECOND
"""How long the effects of a fault last."""
WATCH_EVERY_US = 3 * SECOND
"""How often an operator looks whether an executor has to be started again."""


HALF_A_DAY = 12 * 60
"""Minutes. Time windows are this long. No clock error and no world is half as long."""


class ExecutorWorld:
    """One world, from one seed."""

    def __init__(self, seed: int, shape: ExecutorShape, actions: Sequence[Action]) -> None:
        """Build it; nothing runs before `run`."""
        self.seed = seed
        self.shape = shape
        self.actions = actions
        self.scheduler = Scheduler(seed)
        self.coverage = Coverage()
        self.violation: Violation | None = None
        self.cluster = SimulatedCluster(self.scheduler, shape, seed)
        self.network = Network(QUICK)
        self.quick_disk_us = 10 * MS
        self.disk_us = self.quick_disk_us
        self.rules = ExecutorRules(self)
        self.cluster.rules = self.rules
        kept: type[JournalDisk | JournalTopic] = JournalTopic if shape.journal_topic else JournalDisk
        self.disk = kept(self.scheduler, self.rules.journal.durable)
        self.processes: list[SimulatedExecutor] = []
        self.refused: set[TopicPartition] = set()
        """Partitions for which the controller answered a final refusal at some time."""
        self.refused_dirs: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas for which the broker refused a log dir."""
        self.muddled: set[ThrottleKey] = set()
        """Settings that other tools and executors changed at about the same time: no rule holds for their values."""
        self.hindered_us = -1
        """Until when a fault may keep an executor from answering promptly."""
        self.murky_until_us = -1
        """Until when a fault may delay requests."""
        self.jump_ms = 0
        self.local_minutes: int = HALF_A_DAY if shape.night else 0
        self.turned_us = -1
        """When `half_a_day_passes` was called last. Time windows open and close only then."""
        self.phase_two = False
        self.last_end = "nobody was started"
        self._number = 1
        self._wanted: list[Callable[[SimulatedExecutor], None]] = []
        self.operators = ExecutorOperators(self)
        self.faults = ExecutorFaults(self)

    # ---- executors

    def driver(self) -> SimulatedExecutor | None:
        """The process that drives the journal now."""
        owner = self.disk.owner()
        return next((each for each in self.processes if each.alive and each.driving and each.owner == owner), None)

    def draw_skew_ms(self) -> int:
        """Draw the clock error of a process that starts now."""
        return self.jump_ms + self.scheduler.random.randint(-self.shape.skew_ms, self.shape.skew_ms)

    def virtual_us(self, process: SimulatedExecutor, moment_ms: int) -> int:
        """A moment of a process's clock as the world's time."""
        return (moment_ms - process.clock.skew_ms - EPOCH_MS) * MS

    def is_process_alive(self, number: int) -> bool:
        """Whether a live process has this id."""
        return any(each.number == number and each.alive for each in self.processes)

    def start_executor(self, host: str) -> None:
        """Start a process."""
        self._number += 1
        process = SimulatedExecutor(self, self._number, host)
        self.processes.append(process)
        process.start()

    def want_executor(self, then: Callable[[SimulatedExecutor], None]) -> None:
        """Start a process to do something."""
        self._wanted.append(then)
        if not any(each.alive for each in self.processes):
            self.start_executor("here")

    def process_ready(self, process: SimulatedExecutor) -> None:
        """The process has begun to drive: hand it what waits for a process."""
        self.scheduler.note(f"{process.name} drives")
        wanted, self._wanted = self._wanted, []
        for then in wanted:
            then(process)

    def kill_executor(self, process: SimulatedExecutor, again_us: int = 2 * SECOND) -> None:
        """SIGKILL; a new process is started later."""
        if process.alive:
            self.scheduler.note(f"{process.name} is killed")
            self._end(process)
            self.scheduler.after(again_us, self._start_again)

    def _end(self, process: SimulatedExecutor) -> None:
        process.kill()
        self.processes.remove(process)
        self.hindered(SECOND)

    def process_ended(self, process: SimulatedExecutor) -> None:
        """The process has ended by itself."""
        if process in self.processes:
            self.last_end = f"{process.name}: {process.ended}"
            self.scheduler.note(f"{self.last_end}")
            self.coverage.count("end", process.ended.split(":")[0] if ":" in process.ended else process.ended)
            self._end(process)

    def _start_again(self) -> None:
        owed = self.phase_two and self.rules.ledger.throttles  # In phase two an operator resumes because of debts, too.
        if not any(each.alive for each in self.processes) and (self.rules.ledger.running or self._wanted or owed):
            # In phase two it starts on the lease's host: only there the lease of a dead process is known to be void.
            self.start_executor((self.phase_two and self.disk.host()) or "here")

    def _watch(self) -> None:
        """An operator (or a supervisor) looks for unfinished work that no process drives."""
        self.scheduler.after(WATCH_EVERY_US, self._watch)
        if self.disk.damaged is None and self.network.reachable:
            self._start_again()
        if self.phase_two:
            self.operators.look_after()

    def hindered(self, length_us: int) -> None:
        """Note that a fault keeps executors from answering promptly, for `length_us` from now."""
        self.hindered_us = max(self.hindered_us, self.scheduler.now_us + length_us)

    def window_open(self, process: SimulatedExecutor) -> bool:
        """Whether the plan's time window is open by a process's clock."""
        return is_open(self.rules.ledger.options.window, process.clock.now_ms(), self.local_minutes)

    def half_a_day_passes(self) -> None:
        """Move local time on by half a day, so that every time window opens or closes."""
        self.local_minutes = HALF_A_DAY - self.local_minutes
        self.turned_us = self.scheduler.now_us

    def shell_order(self, kind: str, document: object) -> None:
        """Give an order from another shell through the journal."""
        if self.scheduler.now_us >= self.disk.busy_until_us:
            number = self.disk.journal("shell", SHELL).order(kind, document, self.scheduler.now_ms)
            self.rules.shell_asked(number, kind)

    # ---- calls from the parts

    def alter(self, process: SimulatedExecutor, tp: TopicPartition, target: Replicas | None) -> ErrorCode:
        """An executor's request reaches the controller."""
        del process
        found = self.cluster.partitions.get(tp)
        live = self.cluster.live()
        before = 0 if found is None else sum(broker in live for broker in found.isr if broker in found.settled)
        running = ((), 0) if found is None else (found.base, found.floor)
        if found is not None:
            sent = self.rules.sent_steps.get(tp)
            found.base, found.floor = ((), 0) if sent is None or sent[0] != target else sent[1:]
        code = self.cluster.alter(tp, target, OURS)
        if found is not None and code is not ErrorCode.NONE:
            found.base, found.floor = running  # A refused request does not change the step under way.
        self.coverage.count("answer", code.name)
        self.scheduler.note(f"cluster {tp} {target} {code.name}")
        self.rules.altered(tp, target, before, code)
        return code

    def elect(self, tp: TopicPartition) -> ErrorCode:
        """An executor's request for an election reaches the controller."""
        code = self.cluster.elect_preferred(tp)
        self.coverage.count("election", code.name)
        self.scheduler.note(f"cluster elects {tp} {code.name}")
        return code

    def alter_log_dir(self, broker: BrokerId, tp: TopicPartition, path: str) -> ErrorCode:
        """An executor's request for a log dir reaches a broker."""
        code = self.cluster.log_dirs.alter(broker, tp, path, OURS)
        self.coverage.count("log dir", code.name)
        self.scheduler.note(f"broker {broker} {tp} {path} {code.name}")
        if code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
            self.refused_dirs.add((broker, tp))
        return code

    def core_handled(self, process: SimulatedExecutor, envelope: Envelope, ready: Ready) -> None:
        """A core handled an event."""
        name = type(envelope.event).__name__
        self.coverage.count("event", name)
        self.scheduler.note(
            f"{process.name} {name} -> {len(ready.requests)} {len(ready.reads)} {ready.writes is not None}"
        )
        self.rules.handled(process, envelope, ready)

    def process_failed(self, name: str, failure: BaseException) -> None:
        """A process raised an exception that it did not catch."""
        where = "".join(traceback.format_exception(failure)[-3:])
        self.rules.violate("nothing raises", f"{name}: {type(failure).__name__}: {failure}\n{where}")

    @property
    def acknowledged(self) -> int:
        """The number of moves that executors reported as accepted."""
        return self.rules.acknowledged

    @property
    def checks(self) -> int:
        """How often rules were checked."""
        return self.rules.checks

    # ---- the run

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        self.rules.violate(rule, told)

    def run(self) -> None:
        """Live through both phases; stops at the first violation."""
        if self.shape.daemon:
            self.start_executor("here")
        self.scheduler.after(WATCH_EVERY_US, self._watch)
        for action in self.actions:
            self.scheduler.at(action.at_us, self._act, action)
        live_through(self, find_open_ends, within_us=CONVERGE_WITHIN_US, look_every_us=LOOK_EVERY_US)
        for process in self.processes:
            process.kill()

    def begin_phase_two(self) -> None:
        """Mend everything, and let operators bring the execution to its end."""
        self.phase_two = True
        self.faults.mend_all()
        self.operators.let_go()

    def _act(self, action: Action) -> None:
        self.scheduler.note(f"action {action.number} {action.kind}")
        random = Random(action.draw)
        faults = hasattr(self.faults, action.kind)
        done = getattr(self.faults if faults else self.operators, action.kind)(random)
        if faults:
            self.murky_until_us = self.scheduler.now_us + MURKY_US
        if done:
            self.coverage.count("fault" if faults else "operation", action.kind)
