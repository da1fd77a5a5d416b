"""Operators and other tools: requests to the executor and to the cluster, by the names of `actions`.

Every method takes a PRNG of its own and returns whether it did anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import orjson

from lab.simulation.executor.partition import FOREIGN
from lab.simulation.scheduler import MS, SECOND
from shunter.core.throttles import LISTS, RATES
from shunter.drivers.journal.journals import Presence
from shunter.errors import ErrorCode
from shunter.formats.journal import command_to_json, options_to_json
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder, ThrottleKey
from shunter.model.limits import is_open
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy

if TYPE_CHECKING:
    from lab.simulation.executor.world import ExecutorWorld


SHELL = Presence("here", 1, lambda _process: True)


class ExecutorOperators:
    """Operators with shells, and other tools."""

    def __init__(self, world: ExecutorWorld) -> None:
        """Begin without plans."""
        self.world = world
        self._plans = 0

    # ---- plans

    def submit(self, random: Random) -> bool:
        """A plan for some partitions."""
        tps = self._some(random, most=4)
        return self._submit([self._order(random, tp) for tp in tps], random)

    def submit_all(self, random: Random) -> bool:
        """A plan for every partition."""
        return self._submit([self._order(random, tp) for tp in self.world.cluster.partitions], random)

    def change_mind(self, random: Random) -> bool:
        """Another target for moves that are under way."""
        moving = [move.tp for move in self.world.rules.ledger.open_moves()]
        tps = [tp for tp in moving if random.random() < 0.6]
        return self._submit([self._order(random, tp) for tp in tps], random)

    def cancel_by_plan(self, random: Random) -> bool:
        """Null replicas in a plan."""
        return self._submit([MoveOrder(tp, ()) for tp in self._moving_first(random)[:2]], random)

    def take_over(self, random: Random) -> bool:
        """A plan that adopts moves of another tool."""
        tps = list(self.world.cluster.list_ongoing()) or self._some(random, most=2)
        return self._submit([self._order(random, tp) for tp in tps], random, take_over=True)

    def _some(self, random: Random, most: int) -> list[TopicPartition]:
        known = list(self.world.cluster.partitions)
        return random.sample(known, min(len(known), random.randint(1, most)))

    def _moving_first(self, random: Random) -> list[TopicPartition]:
        moving = [move.tp for move in self.world.rules.ledger.open_moves()]
        random.shuffle(moving)
        return moving or self._some(random, most=1)

    def _target(self, random: Random, tp: TopicPartition) -> Replicas:
        brokers = self.world.shape.brokers
        found = self.world.cluster.partitions.get(tp)
        if found is not None and random.random() < 0.15:
            return tuple(random.sample(found.target, len(found.target)))  # Only the order changes.
        factor = len(found.settled) if found is not None and random.random() < 0.8 else random.randint(1, 3)
        return tuple(random.sample(brokers, min(len(brokers), max(1, factor))))

    def _order(self, random: Random, tp: TopicPartition) -> MoveOrder:
        order = self._move_order(random, tp)
        if not self.world.shape.elects or random.random() < 0.5:
            return order
        found = self.world.cluster.partitions.get(tp)
        if found is not None and random.random() < 0.3:
            order = MoveOrder(tp, found.target)  # Nothing is wanted but the election.
        return order._replace(elect=True)

    def _move_order(self, random: Random, tp: TopicPartition) -> MoveOrder:
        strategy = random.choice((None, None, None, Strategy.ALL_AT_ONCE))
        target = self._target(random, tp)
        if len(self.world.shape.log_dirs) == 1 or random.random() < 0.5:
            return MoveOrder(tp, target, strategy)
        found = self.world.cluster.partitions.get(tp)
        if found is not None and random.random() < 0.4:
            target = found.target  # Only log dirs change.
        return MoveOrder(tp, target, strategy, tuple(self._log_dirs(random, target)))

    def _log_dirs(self, random: Random, target: Replicas) -> Iterator[tuple[BrokerId, str]]:
        for broker in target:
            path = random.choice((*self.world.shape.log_dirs, "any"))
            if random.random() < 0.03:
                path = "/not-there"
            if path != "any":
                yield broker, path

    def _submit(self, moves: Sequence[MoveOrder], random: Random, *, take_over: bool = False) -> bool:
        if not moves:
            return False
        self._plans += 1
        plan_id = f"plan-{self._plans}"
        options = replace(self.world.shape.options, take_over=take_over)
        process = self.world.driver()
        if process is None:
            self.world.want_executor(lambda process: process.submit(plan_id, tuple(moves), options))
        elif random.random() < 0.5:
            self._order_plan(moves, options)
        else:
            process.submit(plan_id, tuple(moves), options)
        return True

    def _order_plan(self, moves: Sequence[MoveOrder], options: ExecutionOptions) -> None:
        """Hand in a plan from another shell, through the journal."""
        document = {"plan": orjson.loads(encode_plan(moves)), "options": options_to_json(options)}
        self.world.shell_order("plan", document)

    # ---- orders

    def stop(self, random: Random) -> bool:
        """Stop one move, or all."""
        return self._command(random, CommandKind.STOP)

    def roll_back(self, random: Random) -> bool:
        """Roll one move back."""
        return self._command(random, CommandKind.ROLL_BACK, every=False)

    def roll_back_all(self, random: Random) -> bool:
        """Roll everything back."""
        return self._command(random, CommandKind.ROLL_BACK, every=True)

    def pause(self, random: Random) -> bool:
        """Pause one move, or all."""
        return self._command(random, CommandKind.PAUSE)

    def resume(self, random: Random) -> bool:
        """Resume everything."""
        return self._command(random, CommandKind.RESUME, every=True)

    def relax(self, random: Random) -> bool:
        """Relax the floor."""
        return self._command(random, CommandKind.RELAX)

    def limit(self, random: Random) -> bool:
        """Another throttle, or none."""
        rate = random.choice((None, 100_000, 1_000_000, 10_000_000))
        return self._give(random, Command(CommandKind.LIMIT, (), rate, "somebody"))

    def _command(self, random: Random, kind: CommandKind, *, every: bool | None = None) -> bool:
        whole = random.random() < 0.4 if every is None else every
        tps = () if whole else tuple(self._moving_first(random)[:1])
        return self._give(random, Command(kind, tps, None, "somebody"))

    def _give(self, random: Random, command: Command) -> bool:
        process = self.world.driver()
        if process is None:
            if not self.world.rules.ledger.running:
                return False
            self.world.want_executor(lambda process: process.command(command))
        elif random.random() < 0.5:
            self.world.shell_order("command", command_to_json(command))
        else:
            process.command(command)
        return True

    # ---- other tools

    def foreign_move(self, random: Random) -> bool:
        """Another tool moves a partition, which may be one that the executor moves."""
        tps = self._moving_first(random) if random.random() < 0.3 else self._some(random, most=1)
        return bool(tps) and self._foreign(tps[0], self._target(random, tps[0]))

    def foreign_cancel(self, random: Random) -> bool:
        """Apache's tool cancels a reassignment that is under way."""
        ongoing = list(self.world.cluster.list_ongoing())
        return bool(ongoing) and self._foreign(random.choice(ongoing), None)

    def _foreign(self, tp: TopicPartition, target: Replicas | None) -> bool:
        return self.world.cluster.alter(tp, target, FOREIGN) is ErrorCode.NONE

    def foreign_throttle(self, random: Random) -> bool:
        """Another tool sets a throttle, or removes one."""
        cluster, touched = self.world.cluster, sorted(self.world.rules.ledger.throttles)
        names = list(cluster.topic_ids)
        if touched and random.random() < 0.5:
            key = random.choice(touched)
        elif random.random() < 0.5:
            key = ThrottleKey("broker", str(random.choice(self.world.shape.brokers)), random.choice(RATES))
        elif names:
            key = ThrottleKey("topic", random.choice(names), random.choice(LISTS))
        else:
            return False
        value = random.choice((None, "300000", "70000000") if key.kind == "broker" else (None, "0:3,1:4", "*"))
        return cluster.set_setting(key, value, FOREIGN) is None

    def foreign_clears_throttles(self, random: Random) -> bool:
        """Apache's tool with --verify removes throttles."""
        cluster = self.world.cluster
        touched = [key for key in cluster.settings if key.kind == "broker" or random.random() < 0.8]
        for key in touched:
            cluster.set_setting(key, None, FOREIGN)
        return bool(touched)

    def foreign_log_dir(self, random: Random) -> bool:
        """Another tool moves a replica to another log dir of its broker."""
        cluster = self.world.cluster
        tps = self._some(random, most=1)
        if len(cluster.log_dirs.paths) == 1 or not tps:
            return False
        broker = random.choice(cluster.partitions[tps[0]].replicas)
        path = random.choice(cluster.log_dirs.paths)
        return cluster.brokers[broker].serving and (
            cluster.log_dirs.alter(broker, tps[0], path, FOREIGN) is ErrorCode.NONE
        )

    def back_to_its_log_dir(self, random: Random) -> bool:
        """Another tool moves a replica that the executor has seen to another log dir, and a plan asks for it back.

        The executor's knowledge is older: by it the replica is in the right log dir already.
        """
        process, cluster = self.world.driver(), self.world.cluster
        if process is None or len(cluster.log_dirs.paths) == 1:
            return False
        found = process.core.state.cluster.sizes.items()
        seen = [(*key, size.log_dir) for key, size in sorted(found) if cluster.log_dirs.places.get(key) == size.log_dir]
        if not seen:
            return False
        broker, tp, path = random.choice(seen)
        other = random.choice([each for each in cluster.log_dirs.paths if each != path])
        self.world.scheduler.after(SECOND, self._ask_back, (broker, tp, path), random, 20)
        return cluster.log_dirs.alter(broker, tp, other, FOREIGN) is ErrorCode.NONE

    def _ask_back(self, seen: tuple[BrokerId, TopicPartition, str], random: Random, looks: int) -> None:
        """Submit the plan as soon as the replica is in the other log dir; until then look again every second."""
        (broker, tp, path), cluster = seen, self.world.cluster
        found = cluster.partitions.get(tp)
        if found is None or broker not in found.target or self.world.phase_two:
            return
        if cluster.log_dirs.places.get((broker, tp)) != path:
            self._submit([MoveOrder(tp, found.target, None, ((broker, path),))], random)
        elif looks:
            self.world.scheduler.after(SECOND, self._ask_back, seen, random, looks - 1)

    def half_a_day_passes(self, random: Random) -> bool:
        """The time window opens or closes."""
        del random
        self.world.half_a_day_passes()
        return self.world.shape.options.window is not None

    # ---- topics

    def topic_deleted(self, random: Random) -> bool:
        """A topic is deleted."""
        names = list(self.world.cluster.topic_ids)
        if len(names) < 2:
            return False
        self.world.cluster.delete_topic(random.choice(names))
        return True

    def topic_made_anew(self, random: Random) -> bool:
        """A topic is deleted, and another one of the same name is made."""
        cluster = self.world.cluster
        names = list(cluster.topic_ids)
        if not names:
            return False
        name = random.choice(names)
        cluster.delete_topic(name)
        delay = random.choice((0, 50 * MS, 5 * SECOND))
        self.world.scheduler.after(delay, self._make, name, random.getrandbits(32))
        return True

    def topic_made(self, random: Random) -> bool:
        """A topic is made."""
        cluster = self.world.cluster
        if len(cluster.topic_ids) > 5:
            return False
        self._make(f"n{len(cluster.topic_ids)}{len(cluster.gone_us)}", random.getrandbits(32))
        return True

    def _make(self, name: str, draw: int) -> None:
        if name not in self.world.cluster.topic_ids:
            random = Random(draw)
            self.world.cluster.make_topic(name, random.randint(1, 3), random.randint(1, 3), 1, random)

    def topic_grown(self, random: Random) -> bool:
        """A topic gets another partition."""
        names = list(self.world.cluster.topic_ids)
        if not names:
            return False
        self.world.cluster.grow_topic(random.choice(names), random)
        return True

    # ---- the end of phase one

    def let_go(self) -> None:
        """Open the time window, lift the throttle, and roll back what is not done if the shape's `ending` says so."""
        window = self.world.shape.options.window
        if not is_open(window, self.world.scheduler.now_ms, self.world.local_minutes):
            self.world.half_a_day_passes()
        if not self.world.rules.ledger.running:
            return
        commands = [Command(CommandKind.LIMIT, (), None, "the end")]
        if self.world.shape.ending == "rollback":
            commands.append(Command(CommandKind.ROLL_BACK, (), None, "the end"))
        for command in commands:
            self.world.shell_order("command", command_to_json(command))

    def look_after(self) -> None:
        """Resume paused moves, and lift the throttle."""
        ledger = self.world.rules.ledger
        if self.world.driver() is None or self.world.disk.unanswered():
            return
        if any(move.paused for move in ledger.open_moves()):
            self.world.shell_order("command", command_to_json(Command(CommandKind.RESUME, (), None, "the end")))
        elif ledger.running and ledger.limit is not None:
            self.world.shell_order("command", command_to_json(Command(CommandKind.LIMIT, (), None, "the end")))
