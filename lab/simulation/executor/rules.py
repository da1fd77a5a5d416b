"""Safety rules of an execution, checked with each event: each rule with the sentence that it comes from.

The first violation ends the world. Rules compare the cluster's true state with the journal's durable entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lab.simulation.executor.journal_rules import LATE_US, JournalRules
from lab.simulation.executor.ledger import LedgerMove
from lab.simulation.executor.partition import FOREIGN, OURS, SimulatedPartition
from lab.simulation.rules.violation import Violation
from lab.simulation.scheduler import MS, SECOND
from shunter.core.executor.events import Envelope
from shunter.core.executor.ready import AlterReassignments, CommandReply, PlanReply, Ready, Reply
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LOG_DIR_RATE
from shunter.drivers.journal.journals import LEASE_MS
from shunter.errors import ErrorCode
from shunter.model.execution import Command, Direction, JournalEntry, StepBegun, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.process import SimulatedExecutor
    from lab.simulation.executor.world import ExecutorWorld


PROMPT_US = 5 * SECOND
"""Within this time an order has to be durable and answered, while the process lives and its disk works."""
WINDOW_US = 2 * SECOND
"""The most time between the look at the lease and the request (docs/executor.md, "the window that remains")."""
DECIDED_US = 6 * SECOND
"""The most time between the decision that a copy may begin and its request, which waits for the journal."""
HELD_US = 10 * SECOND
"""Within this time a paused copy has to be throttled or cancelled, while nothing fails."""
UNANSWERED_US = 5 * SECOND
"""Together with `HELD_US`: as long as a client waits for an answer, and a little more."""
QUEUE_BOUND = 5_000
TASKS_BOUND = 200
EVENTS_A_SECOND = 3_000
STEADY_US = 30 * SECOND
RACE_US = 3 * SECOND
MURKY_RACE_US = 40 * SECOND
"""Kafka has no compare-and-set for settings. A writer may not have seen a change that is younger than this; `MURKY_` is
for times in which something is late or lost on its way."""


class ExecutorRules:
    """Checks all requests of executors, each durable entry, and their effects in the cluster."""

    def __init__(self, world: ExecutorWorld) -> None:
        """Begin with nothing seen."""
        self.world = world
        self.journal = JournalRules(self)
        self.ledger = self.journal.ledger
        self.checks = 0
        self.acknowledged = 0
        self._taken_us = 0
        self._taker: SimulatedExecutor | None = None
        """The process that took the lease last."""
        self._entries_taken = 0
        self._asked: Counter[tuple[str, TopicPartition]] = Counter()
        self.sent_steps: dict[TopicPartition, tuple[Replicas | None, Replicas, int]] = {}
        """By partition, the last request: its target, the live in-sync replicas it began with, and its floor."""
        self._decided: dict[TopicPartition, tuple[StepBegun, Replicas, int]] = {}
        """By partition, the step asked for last; its live in-sync replicas, and its floor, when it was first asked for."""
        self._well: dict[tuple[str, TopicPartition], frozenset[BrokerId]] = {}
        """By process and partition, the live in-sync replicas that the core saw when it made its last request."""
        self.sent_us: dict[ThrottleKey, int] = {}
        """When an executor asked for a setting last."""
        self._given_back: set[ThrottleKey] = set()
        """Settings for which the driving executor's last request was the former value."""
        self._pace: dict[str, tuple[int, int]] = {}

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        if self.world.violation is None:
            self.world.violation = Violation(rule, told, self.world.scheduler.now_us)
            self.world.scheduler.note(f"VIOLATION {rule}: {told}")

    # ---- who may act

    def lease_taken(self, process: SimulatedExecutor) -> None:
        """One executor drives a journal. Source: issue, "a second executor on the same journal is refused"."""
        self.world.coverage.count("journal", "topic" if self.world.shape.journal_topic else "file")
        self._taken_us, self._entries_taken = self.world.scheduler.now_us, len(self.ledger.entries)
        self._taker = process
        for other in self.world.processes:
            same_time = abs(other.clock.skew_ms - process.clock.skew_ms) < 1_000
            well = other.driving and other.alive and self.world.hindered_us < self._taken_us - LEASE_MS * MS
            if other is not process and well and same_time:
                self.violate("one executor drives", f"{process.name} took the lease while {other.name} drives")

    def journal_loaded(self, process: SimulatedExecutor, entries: Sequence[JournalEntry]) -> None:
        """A damaged journal is refused. Source: issue, "a corrupt journal is refused"; decision 0201."""
        count = len(entries)  # A process with another clock may have taken the lease since, and written more.
        true = tuple(entries) == tuple(self.ledger.entries[:count])
        # A process that follows the journal's topic may have read all of it before the disk damaged a record.
        followed = self.world.shape.journal_topic and true
        if self.world.disk.damaged is not None and not followed:
            self.violate("a damaged journal is refused", f"{process.name} goes on from {len(entries)} entries")
        if count < self._entries_taken or not true:
            told = f"{process.name} read {count} entries, {len(self.ledger.entries)} are durable"
            self.violate("what is durable is read again", told)

    def may_act(self, process: SimulatedExecutor) -> None:
        """A process that lost the lease sends nothing, except just after it has seen that it had the lease.

        Source: decisions 0201 and 0207; docs/executor.md, "One driver".
        """
        self.checks += 1
        if self.world.disk.owner() == process.owner:
            return
        now_us = self.world.scheduler.now_us
        looked_us = 0 if process.driver is None else self.world.virtual_us(process, process.driver.lease_seen_ms())
        if min(self._taken_us, looked_us) < now_us - WINDOW_US:
            self.violate("a fenced executor asks for nothing", f"{process.name} asks, {self.world.disk.owner()} drives")

    # ---- requests

    def reassignments_sent(
        self, process: SimulatedExecutor, targets: Sequence[tuple[TopicPartition, Replicas | None]]
    ) -> None:
        """Durable before sent. Source: issue, "written and synced before a request is sent"; decision 0201."""
        self.may_act(process)
        process.cross()
        for tp, target in targets:
            self.world.coverage.count("request", "cancel" if target is None else "reassign")
            self._asked[process.name, tp] += 1
            if self._asked[process.name, tp] > 1:
                self.violate("one request at a time for a partition", f"{process.name} asks for {tp} twice at once")
            move = self.ledger.open_move(tp)
            if self._taker is not process:
                continue  # The window that remains: the journal already has entries of another process.
            if move is None or move.step is None:
                self.violate("durable before sent", f"{process.name} asks for {tp}: {target}, no step is durable")
                return
            due = None if move.step.cancels else move.step.after
            if target != due:
                self.violate("durable before sent", f"{process.name} asks for {tp}: {target}, durable is {due}")
            # A replica that the executor sees dead or out of sync may be dropped without waiting (design, "the floor").
            well = self._well.get((process.name, tp), frozenset[BrokerId]())
            base = tuple(broker for broker in move.step.before if broker in well)
            floor = self._floor(move)
            decided = self._decided.get(tp)
            if decided is not None and decided[0] == move.step:
                _, base, floor = decided  # A lost step is repeated as it was decided, also if the goal has grown since.
            self._decided[tp] = (move.step, base, floor)
            self.sent_steps[tp] = (target, base, floor)

    def _floor(self, move: LedgerMove) -> int:
        """How many replicas have to stay: forward as many as the goal has, else min.insync.replicas (KAFKA-14424)."""
        if move.direction is Direction.FORWARD:
            return len(move.goal)
        return max(1, min(self.world.cluster.min_isr.get(move.tp.topic, 1), len(move.goal)))

    def reassignments_answered(
        self, process: SimulatedExecutor, targets: Sequence[tuple[TopicPartition, Replicas | None]]
    ) -> None:
        """The request is over: answered or given up."""
        for tp, _target in targets:
            self._asked[process.name, tp] -= 1

    def _left_alone(self, process: SimulatedExecutor, move: LedgerMove) -> None:
        """Others' reassignments are left alone once they were seen. Source: issue, "foreign reassignments are left alone"."""
        found = self.world.cluster.partitions.get(move.tp)
        if (
            found is None
            or not found.in_motion
            or found.mover != FOREIGN
            or move.adopted
            or found.target in move.wanted
        ):
            return
        listed_us = self.world.virtual_us(process, process.core.state.cluster.listed_at_ms)
        if listed_us > found.began_us + SECOND:
            told = f"{process.name} asks for {move.tp} which somebody else moves to {list(found.target)}, and saw it"
            self.violate("others' reassignments are left alone", told)

    def settings_sent(self, process: SimulatedExecutor, settings: Sequence[tuple[ThrottleKey, str | None]]) -> None:
        """A setting is remembered before it is touched. Source: decision 0203."""
        self.may_act(process)
        process.cross()
        now_us = self.world.scheduler.now_us
        for key, value in settings:
            self.world.coverage.count("request", "set a throttle")
            self.sent_us[key] = now_us
            if now_us - self.world.cluster.theirs_us.get(key, -MURKY_RACE_US) < self._race_us():
                self.world.muddled.add(key)
            known = self.ledger.throttles.get(key)
            if self._taker is not process:
                continue
            if known is None:
                self.violate("a throttle is remembered before it is touched", f"{process.name} sets {key} to {value}")
            elif value != known.before and value not in known.values[-2:]:
                self.violate("durable before sent", f"{process.name} sets {key} to {value}, durable is {known}")
            if known is not None and value == known.before:
                self._given_back.add(key)
            else:
                self._given_back.discard(key)

    def settings_arrive(self, process: SimulatedExecutor, keys: Iterable[ThrottleKey]) -> None:
        """A fenced executor's request arrives after its successor has given the setting back.

        Source: docs/executor.md, "the window that remains".
        """
        if self._taker is not process:
            self.world.muddled |= self._given_back.intersection(keys)

    def in_window(self, told: str) -> None:
        """Copies begin in their time window. Source: issue, "time windows"."""
        process, since_us = self.world.driver(), self.world.scheduler.now_us - DECIDED_US
        well = process is not None and process.drives_since_us < since_us and self.world.hindered_us < since_us
        if process is not None and well and self.world.turned_us < since_us and not self.world.window_open(process):
            self.violate("copies begin in their time window", told)

    def log_dirs_sent(
        self, process: SimulatedExecutor, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> None:
        """Log dirs are asked for only as a durable plan names them, with their throttle set, for moves that head there.

        Source: issue, "written and synced before a request is sent"; decision 0203.
        """
        self.may_act(process)
        process.cross()
        cluster, rate = self.world.cluster, self.ledger.options.log_dir_throttle
        begun = {move.tp: set(self.journal.counted_copies(move)) for move in self.ledger.open_moves()}
        for broker, tp, path in replicas if self._taker is process else ():
            self.world.coverage.count("request", "ask for a log dir")
            move, key = self.ledger.open_move(tp), (broker, tp)
            if move is None:
                self.violate("durable before sent", f"{process.name} asks for {path} of broker {broker} for {tp}")
                return
            place, wanted = cluster.log_dirs.places.get(key), (broker, path) in move.places
            age_us = self.world.scheduler.now_us - cluster.log_dirs.arrived_us.get(key, -LATE_US)
            if place == path or age_us < (HELD_US if wanted else LATE_US) or (place is None and not wanted):
                continue  # It gives a copy up, which may have arrived a moment before.
            self.in_window("log dirs are asked for")
            if move.paused or (broker, path) not in move.places:
                told = f"{tp} goes {move.direction.value}, paused: {move.paused}; {process.name} asks for {path}"
                self.violate("an order holds for all that it names", told)
            if self._was_cancelled(move, broker):
                told = f"{process.name} asks for {path} of broker {broker} again for {tp}"
                self.violate("another tool's cancel holds", told)
            ours = process.core.state.moves.get(tp)
            if place is not None and broker not in begun[tp] and ours is not None and broker in ours.held:
                begun[tp].add(broker)
                self._bounds(broker, sum(broker in each for each in begun.values()), sum(map(len, begun.values())))
            setting = ThrottleKey("broker", str(broker), LOG_DIR_RATE)
            if place is None or rate is None or not self.journal.quiet(setting):
                continue
            if cluster.settings.get(setting, cluster.defaults.get(setting.setting)) is None:
                told = f"{tp} is copied to {path} of broker {broker}, and {setting.setting} is not set there"
                self.violate("a copy begins when its throttle is in force", told)

    def _was_cancelled(self, move: LedgerMove, broker: BrokerId) -> bool:
        """Whether another tool cancelled a copy of the present order that the journal had as under way."""
        dirs, seen_us = self.world.cluster.log_dirs, move.cancelled_from.get(broker)
        if seen_us is None or dirs.cancelled_us.get((broker, move.tp), -1) < seen_us:
            return False
        return not any(dirs.failed_us.get((broker, path), -1) >= seen_us for path in dirs.paths)

    def _bounds(self, broker: BrokerId, within: int, all_within: int) -> None:
        """A copy between log dirs begins within the bounds. Source: docs/executor.md, "as capacity frees up"."""
        options, moves = self.ledger.options, self.ledger.open_moves()
        copying = [self.journal.unfinished(move) for move in moves]
        incoming = within + sum(broker in each for each in copying)
        total = all_within + sum(map(len, copying))
        if 1 < incoming > options.max_in > 0 or 1 < total > options.max_concurrent > 0:
            told = (
                f"broker {broker} copies {within} replicas between log dirs and receives {incoming}, of {total} copies"
            )
            self.violate("caps are kept", told)

    def elections_sent(self, process: SimulatedExecutor, partitions: Iterable[TopicPartition]) -> None:
        """Elections are asked for as a durable entry says, for moves that are neither stopped nor paused."""
        self.may_act(process)
        process.cross()
        for tp in partitions if self._taker is process else ():
            self.world.coverage.count("request", "elect")
            move = self.ledger.open_move(tp)
            if move is None or not move.electing or move.step is not None:
                self.violate("durable before sent", f"{process.name} asks for an election of {tp}: {move}")
            elif move.paused or move.direction is Direction.STOP:
                told = f"{tp} goes {move.direction.value}, paused: {move.paused}; {process.name} asks for an election"
                self.violate("an order holds for all that it names", told)

    def _race_us(self) -> int:
        return MURKY_RACE_US if self.world.scheduler.now_us < self.world.murky_until_us else RACE_US

    def changed_by_others(self, key: ThrottleKey, value: str | None) -> None:
        """Another tool changes a setting. While an executor's request is under way, chance decides which arrives last.

        If the other tool sets a value that the executor has set too, the two can't be distinguished.
        """
        known = self.ledger.throttles.get(key)
        alike = known is not None and value in known.values
        if alike or self.world.scheduler.now_us - self.sent_us.get(key, -MURKY_RACE_US) < self._race_us():
            self.world.muddled.add(key)

    def topic_deleted(self, name: str) -> None:
        """A deleted topic's remembered settings may be given back to a new topic of the same name."""
        self.world.muddled.update(key for key in self.ledger.throttles if key.kind == "topic" and key.name == name)

    def altered(self, tp: TopicPartition, target: Replicas | None, in_sync_before: int, code: ErrorCode) -> None:
        """A cancel leaves enough replicas in sync, unless a broker died lately.

        Source: issue, "before a cancel the originals' liveness and min.insync.replicas are checked".
        """
        cluster = self.world.cluster
        found = cluster.partitions.get(tp)
        if found is None or target is not None or code is not ErrorCode.NONE:
            return
        now_us = self.world.scheduler.now_us
        if found.shaken_us >= 0 and now_us - found.shaken_us < STEADY_US:
            return
        live = cluster.live()
        after = sum(broker in live for broker in found.isr)
        if after < min(cluster.min_isr[tp.topic], in_sync_before):
            told = f"a cancel left {after} of {list(found.replicas)} of {tp} in sync, {in_sync_before} were"
            self.violate("a cancel leaves enough in sync", told)

    def completing(self, found: SimulatedPartition) -> None:
        """The floor: a step drops a live in-sync replica only if at least `floor` of them stay.

        Replicas that a former step added and that the target does not have are dropped, as in a rollback (KIP-236).

        Source: controller redesign, 2.B; design, "the floor".
        """
        move = self.ledger.open_move(found.tp)
        if found.mover != OURS or not found.floor or move is None or move.relaxed or move.adopted:
            return
        live = self.world.cluster.live()
        before = [broker for broker in found.isr if broker in live]
        after = [broker for broker in before if broker in found.target]
        dropped = [broker for broker in before if broker in found.base and broker not in after]
        if dropped and len(after) < found.floor:
            told = f"{found.tp} goes from {before} in sync to {after}, and its goal has {found.floor}"
            self.violate("the floor", told)

    def copied(self, found: SimulatedPartition, broker: BrokerId, bytes_per_s: int) -> None:
        """A paused move copies nothing, whatever else moves. Source: issue; decision 0206."""
        move, process, world = self.ledger.open_move(found.tp), self.world.driver(), self.world
        if move is None or not move.paused or found.mover != OURS or process is None:
            return
        since_us = world.scheduler.now_us - HELD_US
        # The client waits for an answer that was lost until its timeout, even if the network is mended before.
        mended_us = world.network.mended_us + UNANSWERED_US
        well = max(move.paused_us, process.drives_since_us, world.hindered_us, mended_us) < since_us
        well = well and world.network.steady
        keys = (
            ThrottleKey("broker", str(broker), FOLLOWER_RATE),
            ThrottleKey("topic", found.tp.topic, FOLLOWER_REPLICAS),
        )
        brokers = world.cluster.brokers.values()
        calm = all(each.serving and each.lag == each.delays.slow == 1.0 for each in brokers)
        calm = calm and all(each.back_us < since_us for each in brokers)  # A broker that is down takes no setting.
        calm = calm and not 0 <= found.shaken_us >= since_us and all(self.journal.quiet(key) for key in keys)
        # A copy that no throttle can hold is cancelled, unless the controller refuses that.
        calm = calm and found.tp not in world.cluster.refusals
        if well and calm and bytes_per_s > 2 * self.ledger.options.pause_rate:
            told = f"{found.tp} is paused, and broker {broker} receives {bytes_per_s} bytes/s of it"
            self.violate("a pause holds for what is paused", told)

    # ---- the core

    def handled(self, process: SimulatedExecutor, envelope: Envelope, ready: Ready) -> None:
        """An event was handled. Memory and queues stay bounded; nothing spins. Source: issue; TIGER_STYLE."""
        self.checks += 1
        for request in ready.requests:
            for tp, _target in request.targets if isinstance(request, AlterReassignments) else ():
                # The core may handle more news before the request leaves. The request does not follow from these.
                cluster = process.core.state.cluster
                seen = cluster.partition(tp)
                self._well[process.name, tp] = frozenset(() if seen is None else cluster.brokers.keys() & seen.isr)
                move = self.ledger.open_move(tp)
                if move is not None:
                    self._left_alone(process, move)
        self._names_open_brokers(process, ready)
        driver = process.driver
        second, count = self._pace.get(process.name, (0, 0))
        now = self.world.scheduler.now_us // SECOND
        self._pace[process.name] = (now, count + 1 if second == now else 1)
        if count > EVENTS_A_SECOND:
            self.violate("nothing spins", f"{process.name} handled {count} events within a second")
        if driver is not None and driver.backlog() > QUEUE_BOUND:
            self.violate("queues stay bounded", f"{process.name} has {driver.backlog()} events waiting")
        if driver is not None and driver.under_way() > TASKS_BOUND:
            self.violate("queues stay bounded", f"{process.name} waits for {driver.under_way()} answers")
        if ready.writes is not None and not ready.writes.entries:
            self.violate("no batch is empty", process.name)
        if ready.wake_at_ms is not None and ready.wake_at_ms < envelope.now_ms - SECOND:
            self.violate("nothing spins", f"{process.name} asks to be woken in the past")

    def _names_open_brokers(self, process: SimulatedExecutor, ready: Ready) -> None:
        """A step names no broker that is seen to be cordoned. Source: docs/versions.md, "Seen on 4.4.0"."""
        for entry in () if ready.writes is None else ready.writes.entries:
            step = entry.record
            if not isinstance(step, StepBegun) or step.cancels or step.reason == "begun by somebody else":
                continue
            shut = process.core.state.cluster.cordoned.intersection(step.after)
            if shut:
                self.violate("a step names no cordoned broker", f"{step} names {sorted(shut)}")

    # ---- orders

    def command_asked(self, process: SimulatedExecutor, command: Command) -> Callable[[CommandReply], None]:
        """Orders act promptly. Source: issue, "`shunter stop|rollback|pause|resume|limit` act within seconds"."""
        answered: list[CommandReply] = []
        asked_us = self.world.scheduler.now_us

        def late() -> None:
            well = process.alive and process.driving and self.world.hindered_us < asked_us
            if not answered and well:
                told = f"{process.name} has not answered {command.kind.value} for {PROMPT_US // SECOND} s"
                self.violate("orders are not held up", told)

        self.world.scheduler.after(PROMPT_US, late)

        def told(reply: CommandReply) -> None:
            answered.append(reply)
            self._answered(process, reply)
            outcome = "accepted" if reply.accepted else "refused"
            self.world.coverage.count("order", f"{command.kind.value} {outcome}")

        return told

    def shell_asked(self, number: int, kind: str) -> None:
        """Orders of other shells through the journal are prompt too, and are not refused while the shell waits."""
        process, asked_us = self.world.driver(), self.world.scheduler.now_us

        def look() -> None:
            if process is None or process is not self.world.driver() or self.world.hindered_us >= asked_us:
                return
            answer = self.world.disk.answer_to(number)
            if answer is None and kind == "command":
                told = f"{process.name} has not answered order {number} for {PROMPT_US // SECOND} s"
                self.violate("orders are not held up", told)
            if answer is not None and "nobody waits" in answer and process.drives_since_us < asked_us - SECOND:
                self.violate("an order is carried out while somebody waits for it", f"order {number}: {answer}")

        self.world.scheduler.after(PROMPT_US, look)

    def plan_answered(self, process: SimulatedExecutor, asked_us: int, reply: PlanReply) -> None:
        """A plan was taken on or refused."""
        del asked_us
        self._answered(process, reply)
        if reply.error is None:
            taken = sum(move.refused is None for move in reply.moves)
            self.acknowledged += taken

    def _answered(self, process: SimulatedExecutor, reply: Reply) -> None:
        """Durable before answered: a move that was reported as accepted is in the journal. Source: decision 0201."""
        # A process that was paused before its answer gives it when the journal may already be in the next execution.
        if isinstance(reply, PlanReply) and reply.error is None and self._taker is process:
            for move in reply.moves:
                if move.refused is None and move.tp not in self.ledger.moves:
                    self.violate("durable before answered", f"{move.tp} was taken on and is not in the journal")
