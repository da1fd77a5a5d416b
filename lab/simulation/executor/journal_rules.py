"""Rules about the journal, checked with every entry that becomes durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lab.simulation.executor.cluster import CATCH_UP_BYTES
from lab.simulation.executor.ledger import JournalLedger, LedgerMove, LedgerThrottle
from lab.simulation.executor.log_dirs import FutureLog
from lab.simulation.executor.partition import FOREIGN, OURS, SimulatedPartition
from lab.simulation.scheduler import SECOND
from shunter.core.throttles import FOLLOWER_REPLICAS
from shunter.model.execution import (
    CommandTaken,
    CopySeen,
    CopySight,
    Direction,
    DirectionChanged,
    ElectionBegun,
    ExecutionClosed,
    FloorRelaxed,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MovePaused,
    Outcome,
    PlanAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
    ThrottleKey,
    ThrottleRemembered,
    ThrottleRestored,
    ThrottleSet,
)
from shunter.model.partition import BrokerId, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.rules import ExecutorRules


LATE_US = 60 * SECOND
"""How late the executor may see what other tools did. It is not held to what it could not know."""
OWED_US = 90 * SECOND
"""How long after the end of an execution all throttles of live brokers have to be given back."""
SLACK_BYTES = 2 * CATCH_UP_BYTES
"""The most, for each partition, by which a log dir may have got fuller since the executor looked."""
ENTRIES_FREE = 500
ENTRIES_PER_MOVE = 120
ENTRIES_PER_COMMAND = 40


class JournalRules:
    """Follows the journal, and compares what it says with the cluster."""

    def __init__(self, rules: ExecutorRules) -> None:
        """Begin with an empty journal."""
        self._rules = rules
        self.ledger = JournalLedger()
        self._takers: dict[type, Callable[[Any], None]] = {
            PlanAccepted: self._plan_accepted,
            MoveAccepted: self._move_accepted,
            StepBegun: self._step_begun,
            StepFinished: self._step_over,
            StepDropped: self._step_over,
            CopySeen: self._copy_seen,
            ElectionBegun: self._election_begun,
            DirectionChanged: self._direction_changed,
            MovePaused: self._move_paused,
            FloorRelaxed: self._floor_relaxed,
            MoveClosed: self._move_closed,
            ThrottleRemembered: self._throttle_remembered,
            ThrottleSet: self._throttle_set,
            ThrottleRestored: self._throttle_restored,
            LimitChanged: self._limit_changed,
            CommandTaken: self._command_taken,
            ExecutionClosed: self._execution_closed,
        }

    @property
    def _now_us(self) -> int:
        return self._rules.world.scheduler.now_us

    def durable(self, entry: JournalEntry) -> None:
        """Take an entry that has become durable, and check it."""
        ledger = self.ledger
        kind = type(entry.record).__name__
        self._rules.world.coverage.count("entry", kind)
        self._rules.world.scheduler.note(f"journal {entry.sequence} {entry.record}")
        if entry.sequence != len(ledger.entries) + 1:
            self._rules.violate("the journal has no gaps", f"entry {entry.sequence} follows {len(ledger.entries)}")
        ledger.entries.append(entry)
        take = self._takers.get(type(entry.record))
        if take is not None:
            take(entry.record)
        bound = ENTRIES_FREE + ENTRIES_PER_MOVE * ledger.accepted + ENTRIES_PER_COMMAND * ledger.commands
        if len(ledger.entries) > bound:
            self._rules.violate(
                "queues stay bounded", f"the journal has {len(ledger.entries)} entries, {bound} are due"
            )

    def _truth(self, tp: TopicPartition) -> SimulatedPartition | None:
        return self._rules.world.cluster.partitions.get(tp)

    # ---- moves

    def _plan_accepted(self, record: PlanAccepted) -> None:
        if not self.ledger.open_moves():
            self.ledger.moves = {}
        self.ledger.running, self.ledger.options = True, record.options
        self.ledger.limit = record.options.throttle

    def _move_accepted(self, record: MoveAccepted) -> None:
        """The original is recorded once, in its ORDER. Source: KIP-236; design, "what makes a rollback exact"."""
        self.ledger.accepted += 1
        before = self.ledger.open_move(record.tp)
        move = LedgerMove(record.tp, record.original, record.target, record.adopted, self._now_us, record.log_dirs)
        move.origins, move.elects = record.origins, record.led_by is not None
        if before is not None:
            move.origins = tuple({**dict(record.origins), **dict(before.origins)}.items())
            move.asked_before = before.asked_for
        self.ledger.moves[record.tp] = move
        if (
            before is not None and before.steps
        ):  # Before the first step the original may be corrected: it was read late.
            move.steps = before.steps
            move.original, move.step, move.relaxed = before.original, before.step, before.relaxed
            move.wanted = before.wanted
            move.accepted_us, move.adopted = before.accepted_us, before.adopted or record.adopted
            return
        truth = self._truth(record.tp)
        if truth is None or record.adopted or truth.in_motion or self._changed_lately(truth):
            return
        if record.original != truth.replicas:
            told = f"{record.tp} is {list(truth.replicas)}, recorded is {list(record.original)}"
            self._rules.violate("the original is recorded as it is", told)

    def _changed_lately(self, truth: SimulatedPartition) -> bool:
        gone_us = self._rules.world.cluster.gone_us.get(truth.tp.topic, -1)
        return any(moment >= 0 and self._now_us - moment < LATE_US for moment in (truth.changed_us, gone_us))

    def _others(self, move: LedgerMove) -> bool:
        """Whether another tool may have touched the move's partition."""
        truth, cluster = self._truth(move.tp), self._rules.world.cluster
        if truth is None or cluster.gone_us.get(move.tp.topic, -1) >= move.accepted_us - LATE_US:
            return True
        theirs = truth.in_motion and truth.mover == FOREIGN
        return move.adopted or theirs or truth.foreign_us >= max(0, move.accepted_us - LATE_US)

    def _step_begun(self, record: StepBegun) -> None:
        move = self.ledger.open_move(record.tp)
        if move is None:
            self._rules.violate("a step belongs to an open move", f"{record}")
            return
        known = frozenset(record.before) | move.copying
        fresh = frozenset(record.after) - known
        self._turned(move, record, fresh)
        move.step, move.given_up = record, False
        move.wanted.add(record.after)
        move.steps = record.number
        if fresh and not (
            move.adopted and record.number == 1
        ):  # An adopted move's first step was begun by another tool.
            self._caps(move, fresh)
            self._rules.in_window(f"{move.tp} is copied to {sorted(fresh)}")
            self._sends(move, fresh)
            self._fits(move, fresh)
            self._throttled(move, fresh)

    def _turned(self, move: LedgerMove, record: StepBegun, fresh: frozenset[BrokerId]) -> None:
        """A move that was stopped or paused begins no new copies; a rollback copies only to the originals.

        Source: issue, "stop, rollback, pause act within seconds"; "a cancel that forgets unsliced work".
        """
        wrong = {
            Direction.FORWARD: frozenset[BrokerId](),
            Direction.STOP: fresh,
            Direction.BACK: fresh - frozenset(move.original),
        }[move.direction]
        if wrong:
            told = f"{move.tp} was told to go {move.direction.value}, and {list(record.after)} is begun"
            self._rules.violate("an order holds for all that it names", told)
        if move.paused and fresh:
            self._rules.violate("an order holds for all that it names", f"{move.tp} is paused, and {record} is begun")

    def _caps(self, begun: LedgerMove, fresh: frozenset[BrokerId]) -> None:
        """Bounds of copies into a broker, a rack, and in all. Source: issue, "within bounds per broker in and out".

        A step with more copies than a bound may run alone (docs/executor.md).
        """
        options, world = self.ledger.options, self._rules.world
        process = world.driver()
        # The executor can't know the rack of a broker that has been down since the executor started.
        known = {} if process is None else process.core.state.cluster.racks
        incoming: Counter[BrokerId] = Counter()
        racks: Counter[str] = Counter()
        total = 0
        into_dirs: Counter[tuple[BrokerId, str]] = Counter()
        for move in self.ledger.open_moves():
            copying = self.unfinished(move)
            total += len(copying)
            into_dirs.update(each for each in move.places if each[0] in copying)
            for broker in sorted(copying):
                incoming[broker] += 1
                rack = known.get(broker)
                if rack is not None:
                    racks[rack] += 1
            for broker in self.counted_copies(move):
                total += 1
                incoming[broker] += 1
        if len(begun.copying) < total and 0 < options.max_concurrent < total:
            self._rules.violate("caps are kept", f"{total} copies run, {options.max_concurrent} may")
        for broker in sorted(fresh):
            if 0 < options.max_in < incoming[broker]:
                told = f"broker {broker} receives {incoming[broker]} copies, {options.max_in} may"
                self._rules.violate("caps are kept", told)
        for (broker, path), count in sorted(into_dirs.items()):
            # Another plan may have named this log dir for copies that run already.
            named = broker in fresh and (broker, path) in begun.places
            if named and 0 < options.max_per_log_dir < count:
                told = f"{path} of broker {broker} receives {count} copies, {options.max_per_log_dir} may"
                self._rules.violate("caps are kept", told)
        for rack, count in sorted(racks.items()):
            mine = sum(known.get(broker) == rack for broker in fresh)
            if 0 < mine < count and 0 < options.max_per_rack < count:
                self._rules.violate("caps are kept", f"{rack} receives {count} copies, {options.max_per_rack} may")

    def _sends(self, move: LedgerMove, fresh: frozenset[BrokerId]) -> None:
        """Bound of copies out of a broker, by the leaders that the executor sees. Source: as in `_caps`."""
        most, process = self.ledger.options.max_out, self._rules.world.driver()
        if most <= 0 or process is None:
            return
        seen = process.core.state.cluster
        leaders = {each.tp: found.leader for each in self.ledger.open_moves() if (found := seen.partition(each.tp))}
        leader = leaders.get(move.tp, -1)
        others = sum(
            len(self.unfinished(each))
            for each in self.ledger.open_moves()
            if each is not move and leaders.get(each.tp) == leader
        )
        if others and others + len(fresh) > most:
            told = f"broker {leader} sends {others + len(fresh)} copies, {most} may"
            self._rules.violate("caps are kept", told)

    def _fits(self, begun: LedgerMove, fresh: frozenset[BrokerId]) -> None:
        """No copy begins without room for it, in the log dir that the plan names or in any. Source: docs/executor.md."""
        world, named = self._rules.world, dict(begun.places)
        dirs, process, truth = world.cluster.log_dirs, world.driver(), self._truth(begun.tp)
        unknown = set() if process is None else process.core.state.cluster.room_unknown
        if self.ledger.options.disk_share >= 1 or truth is None:
            return
        for broker in sorted(fresh - unknown - self._others_at()):
            coming = self._coming(begun, broker)
            used = dirs.used(broker)
            for path in [named[broker]] if broker in named else dirs.online(broker):
                if self._now_us - dirs.failed_us.get((broker, path), -LATE_US) < LATE_US:
                    continue
                due = used[path] + coming[path] + coming[""] + truth.size
                if due > dirs.totals.get((broker, path), due) + SLACK_BYTES * len(world.cluster.partitions):
                    told = f"{begun.tp} goes to broker {broker}: {path} would have {due} of {dirs.totals[broker, path]}"
                    self._rules.violate("a copy begins only where it has room", told)

    def _coming(self, begun: LedgerMove, broker: BrokerId) -> Counter[str]:
        """Bytes that other copies under way will still add to a broker's log dirs; "": not known to which."""
        coming: Counter[str] = Counter()
        for move in self.ledger.open_moves():
            truth = self._truth(move.tp)
            if truth is None or (not truth.in_motion and self._changed_lately(truth)):
                continue  # Another tool ended its step, and the executor may not know that yet.
            if move is not begun and broker in move.copying:
                path = self._rules.world.cluster.log_dirs.places.get(
                    (broker, move.tp), dict(move.places).get(broker, "")
                )
                coming[path] += truth.size - truth.have.get(broker, 0)
        for (owner, tp), copy in self._rules.world.cluster.log_dirs.futures.items():
            if owner == broker:
                coming[copy.path] += max(0, self._rules.world.cluster.partitions[tp].have.get(broker, 0) - copy.bytes)
        return coming

    def _others_at(self) -> set[BrokerId]:
        """Brokers to which others brought something lately, or may bring something now."""
        cluster, since_us = self._rules.world.cluster, self._now_us - LATE_US
        found = {broker for (broker, _tp), us in cluster.log_dirs.foreign_us.items() if us >= since_us}
        found |= {broker for (broker, _tp), copy in cluster.log_dirs.futures.items() if copy.by == FOREIGN}
        for truth in cluster.partitions.values():
            if (truth.in_motion and truth.mover == FOREIGN) or truth.foreign_us >= max(0, since_us):
                found |= set(truth.replicas)
        made = {name for name, us in cluster.grown_us.items() if us >= max(1, since_us)}
        return found | {
            broker for tp, truth in cluster.partitions.items() if tp.topic in made for broker in truth.replicas
        }

    def _throttled(self, move: LedgerMove, fresh: frozenset[BrokerId]) -> None:
        """A copy begins only when its throttle is in force. Source: decision 0203."""
        cluster = self._rules.world.cluster
        key = ThrottleKey("topic", move.tp.topic, FOLLOWER_REPLICAS)
        if self.ledger.limit is None or not self.quiet(key):
            return
        listed = cluster.settings.get(key, "")
        missing = [broker for broker in sorted(fresh) if f"{move.tp.partition}:{broker}" not in listed.split(",")]
        if missing and listed.strip() != "*":
            told = f"{move.tp} is copied to {missing}, throttled are {listed!r}"
            self._rules.violate("a copy begins when its throttle is in force", told)

    def _step_over(self, record: StepFinished | StepDropped) -> None:
        move = self.ledger.open_move(record.tp)
        if move is not None:
            move.step, move.given_up = None, isinstance(record, StepDropped)

    def _election_begun(self, record: ElectionBegun) -> None:
        move = self.ledger.open_move(record.tp)
        if move is None or not move.elects or move.step is not None or record.leader != move.goal[0]:
            self._rules.violate("an election follows the last step of a move that wants it", f"{record}: {move}")
            return
        move.electing = True

    def _direction_changed(self, record: DirectionChanged) -> None:
        move = self.ledger.open_move(record.tp)
        if move is not None:
            move.asked_before, move.copies, move.cancelled_from = move.asked_for, {}, {}
            move.direction, move.paused, move.electing = record.direction, False, False

    def _copy_seen(self, record: CopySeen) -> None:
        """A copy that another tool did not cancel is not given up as cancelled. Source: docs/executor.md."""
        move, world = self.ledger.open_move(record.tp), self._rules.world
        if move is None:
            self._rules.violate("a copy belongs to an open move", f"{record}")
            return
        key, dirs = (record.broker, record.tp), world.cluster.log_dirs
        if record.sight is CopySight.RUNS:
            move.copies[record.broker] = move.cancelled_from[record.broker] = self._now_us
            return
        move.copies.pop(record.broker, None)
        broken = any(dirs.failed_us.get((record.broker, path), -1) >= move.accepted_us for path in dirs.paths)
        others = dirs.foreign_us.get(key, -1) >= move.accepted_us or self._now_us < world.murky_until_us
        move.cancelled = move.cancelled or record.sight is CopySight.CANCELLED
        if record.sight is CopySight.CANCELLED and not broken and not others:
            self._rules.violate("nobody is blamed for nothing", f"{record}, and nobody else was there")

    def own_copies(self, move: LedgerMove, since_us: int = -1) -> list[tuple[BrokerId, FutureLog]]:
        """The copies between log dirs that belong to a move, and that began before `since_us` if that is given."""
        return [
            (broker, copy)
            for (broker, tp), copy in self._rules.world.cluster.log_dirs.futures.items()
            if tp == move.tp and copy.by == OURS and (since_us < 0 or copy.began_us < since_us)
            if (broker, copy.path) in move.asked_for or copy.began_us >= move.accepted_us
        ]

    def unfinished(self, move: LedgerMove) -> frozenset[BrokerId]:
        """The brokers that a move's step copies to, without those that are in sync, or that the executor saw in sync.

        Another tool's target ends copies: then the executor sees a step that the cluster had without these replicas.
        """
        process, truth = self._rules.world.driver(), self._truth(move.tp)
        seen = None if process is None else process.core.state.cluster.partition(move.tp)
        in_sync = set(() if truth is None else truth.isr) | set(() if seen is None else seen.isr)
        known = None if process is None else process.core.state.moves.get(move.tp)
        if truth is not None and seen is not None and known is not None and known.step is not None and known.step.moved:
            in_sync |= move.copying.difference(truth.replicas, seen.replicas)
        return move.copying - in_sync

    def counted_copies(self, move: LedgerMove) -> list[BrokerId]:
        """The brokers of a move's copies between log dirs, as far as the executor knows that they are up and hold one."""
        process = self._rules.world.driver()
        state = None if process is None else process.core.state
        known = None if state is None else state.moves.get(move.tp)
        if state is None or known is None:
            return []
        return [
            broker for broker, _ in self.own_copies(move) if broker in state.cluster.brokers and broker in known.held
        ]

    def _leaves_no_copy(self, move: LedgerMove) -> None:
        """A move that ends leaves no copy between log dirs, unless an operator had it left as it is.

        A copy belongs to the move whose orders named its log dir. A request that was doubled or late on its way may
        begin one again after the last look. Source: docs/executor.md, "Stop, roll back".
        """
        late = self._now_us < max(self._rules.world.murky_until_us, self._rules.world.hindered_us)
        if move.outcome in (Outcome.LEFT, Outcome.GONE):
            return
        for broker, copy in self.own_copies(move, self._now_us - LATE_US if late else -1):
            told = f"{move.tp} is {move.outcome}, and broker {broker} copies it to {copy.path}, {copy.bytes} so far"
            self._rules.violate("a move that ends leaves no copy", told)

    def _move_paused(self, record: MovePaused) -> None:
        move = self.ledger.open_move(record.tp)
        if move is not None:
            move.paused, move.paused_us = record.paused, self._now_us

    def _floor_relaxed(self, record: FloorRelaxed) -> None:
        move = self.ledger.open_move(record.tp)
        if move is not None:
            move.relaxed = True

    def _move_closed(self, record: MoveClosed) -> None:
        """A move ends at its goal, and an outcome that blames other tools is used only if other tools were involved.

        Source: issue, "ends exactly in the target, or in the original order of replicas"; KIP-236.
        """
        move = self.ledger.open_move(record.tp)
        if move is None:
            self._rules.violate("a move ends once", f"{record}")
            return
        move.outcome, move.step = record.outcome, None
        self._leaves_no_copy(move)
        self._rules.world.coverage.count("outcome", record.outcome.value)
        truth, others = self._truth(record.tp), self._others(move)
        if record.outcome is Outcome.SUPERSEDED and not others and not move.cancelled:
            self._rules.violate("nobody is blamed for nothing", f"{record}, and nobody else was there")
        if record.outcome is Outcome.GONE and record.tp.topic not in self._rules.world.cluster.gone_us:
            self._rules.violate("nobody is blamed for nothing", f"{record}, and it is there")
        refused = record.tp in self._rules.world.refused or any(
            (broker, record.tp) in self._rules.world.refused_dirs for broker, _path in move.places
        )
        unled = record.outcome is Outcome.REFUSED and move.elects and "was not elected within" in record.reason
        if truth is not None:
            self._led(move, record, truth, unled=unled)
        if record.outcome is Outcome.REFUSED and not refused and not unled:
            self._rules.violate("nobody is blamed for nothing", f"{record}, and it was not refused for good")
        # If one log dir was refused, replicas in the other log dirs have to be moved all the same.
        arrived = record.outcome is Outcome.REFUSED and not move.given_up
        if truth is not None and (arrived or record.outcome is Outcome.DONE):
            self._placed(move, move.places)
        if truth is not None and record.outcome is Outcome.ROLLED_BACK:
            named = {broker for broker, _path in move.log_dirs}
            self._placed(move, tuple(each for each in move.origins if each[0] in named))
        if others or truth is None:
            return
        due = {
            Outcome.DONE: move.target,
            Outcome.ROLLED_BACK: move.original,
            Outcome.STOPPED: record.replicas,
        }.get(record.outcome)
        if due is not None and (truth.replicas != due or truth.in_motion):
            rule = "a rollback is exact" if record.outcome is Outcome.ROLLED_BACK else "a move ends at its target"
            told = f"{record.tp} is {record.outcome.value} and {list(truth.replicas)}, {list(due)} is due"
            self._rules.violate(rule, f"{told} (in motion: {truth.in_motion})")

    def _led(self, move: LedgerMove, record: MoveClosed, truth: SimulatedPartition, *, unled: bool) -> None:
        """A move that wants a leader is done only once that leads, and refused only while it does not.

        Source: issue, "a condition is over when the cluster shows it".
        """
        wanted, late_us = move.goal[0], self._now_us - LATE_US
        leads = truth.leader == wanted
        if move.elects and record.outcome is Outcome.DONE and not leads and truth.led_us.get(wanted, -1) < late_us:
            told = f"{record.tp} is done, and broker {truth.leader} leads, not broker {wanted}"
            self._rules.violate("a move ends with the leader that it wants", told)
        if unled and leads and truth.led_since_us < late_us:
            told = f"{record.tp}: {record.reason}, and broker {wanted} leads"
            self._rules.violate("nobody is blamed for nothing", told)

    def _placed(self, move: LedgerMove, places: tuple[tuple[BrokerId, str], ...]) -> None:
        """A move ends with its replicas in the log dirs that the plan names, or in the former ones after a rollback.

        Source: issue, "log-dir moves"; decision 0541.
        """
        dirs, world = self._rules.world.cluster.log_dirs, self._rules.world
        since_us = self._now_us - LATE_US
        for broker, path in places:
            key = (broker, move.tp)
            found = dirs.places.get(key)
            if found is None or found == path or key in world.refused_dirs:
                continue
            shaken = (dirs.failed_us.get((broker, each), -1) >= since_us for each in (path, found))
            # A change by another tool before the plan was accepted is no excuse, because the executor looks after that.
            # A later one is: the executor does not look again at a replica that has arrived, and the move may end late.
            if dirs.foreign_us.get(key, -1) >= move.accepted_us or any(shaken):
                continue
            told = f"{move.tp} is done and in {found} of broker {broker}, {path} is due"
            self._rules.violate("a move ends in its log dirs", told)

    def _command_taken(self, record: CommandTaken) -> None:
        self.ledger.obey(record.command)

    # ---- throttles

    def quiet(self, key: ThrottleKey) -> bool:
        """Whether the last change of a setting by another tool is so old that every broker knows it."""
        return self._quiet(key, self._now_us - LATE_US)

    def _quiet(self, key: ThrottleKey, since_us: int) -> bool:
        """Whether no other tool changed a setting since `since_us`."""
        cluster = self._rules.world.cluster
        gone_us = cluster.gone_us.get(key.name, -1) if key.kind == "topic" else -1
        if key in self._rules.world.muddled:
            return False
        return cluster.theirs_us.get(key, -1) < since_us and gone_us < since_us

    def _throttle_remembered(self, record: ThrottleRemembered) -> None:
        """The value before the first change is remembered exactly. Source: decision 0203."""
        if record.key in self.ledger.throttles:
            return
        self.ledger.throttles[record.key] = LedgerThrottle(record.value, self._now_us)
        due = self._rules.world.cluster.theirs.get(record.key)
        if record.value == due:
            return
        if not self.quiet(record.key):
            self._rules.world.muddled.add(record.key)  # The broker that was asked may not have known the change yet.
            return
        told = f"{record.key} is {due!r} without us, remembered is {record.value!r}"
        self._rules.violate("throttles are remembered as they were", told)

    def _throttle_set(self, record: ThrottleSet) -> None:
        self.ledger.throttles[record.key].values.append(record.value)

    def _throttle_restored(self, record: ThrottleRestored) -> None:
        """A setting gets its former value back exactly, or another tool changed it. Source: decision 0203; issue."""
        known = self.ledger.throttles.pop(record.key, None)
        if known is None:
            return
        cluster = self._rules.world.cluster
        if record.key in self._rules.world.muddled:
            return
        due, found = cluster.theirs.get(record.key), cluster.settings.get(record.key)
        # The broker that was asked may not have known an earlier change by another tool.
        if record.left and self._quiet(record.key, known.since_us - LATE_US):
            self._rules.violate("nobody is blamed for nothing", f"{record}, and nobody else was there")
        if found != due:
            self._rules.violate("throttles are restored exactly", f"{record.key} is {found!r}, {due!r} is due")

    def _limit_changed(self, record: LimitChanged) -> None:
        self.ledger.limit = record.bytes_per_s

    def _execution_closed(self, record: ExecutionClosed) -> None:
        """A finished execution leaves no open move, and soon no throttle on brokers that are up. Source: issue."""
        ledger, world = self.ledger, self._rules.world
        ledger.running = False
        left = [str(move.tp) for move in ledger.open_moves()]
        if left:
            self._rules.violate("a finished execution leaves nothing", f"{record}: {left}")
        closed = len(ledger.entries)

        def look() -> None:
            others = any(isinstance(entry.record, PlanAccepted) for entry in ledger.entries[closed:])
            well = self._now_us > max(world.murky_until_us, world.hindered_us + OWED_US)
            kept = [key for key in ledger.throttles if key.kind == "topic" or self._was_up(key.name)]
            if kept and well and not others:
                self._rules.violate("a finished execution leaves nothing", f"{record}: {kept}")

        world.scheduler.after(OWED_US, look)

    def _was_up(self, broker: str) -> bool:
        return self._rules.world.cluster.brokers[int(broker)].serving
