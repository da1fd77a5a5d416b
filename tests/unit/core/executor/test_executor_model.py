"""The executor's core under random events: deaths, losses, other tools' changes, orders, and its own death anywhere.

Phase one does harm and checks the invariants at every moment. Phase two heals and checks that everything ends as it
should (after FoundationDB and TigerBeetle's VOPR).
"""

from apache_yard import Rig, Yard
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shunter.core.executor.ready import AlterReassignments
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    Direction,
    ExecutionOptions,
    MoveAccepted,
    MoveClosed,
    Outcome,
    StepBegun,
    ThrottleKey,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy

BROKERS = (1, 2, 3, 4, 5)
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))

replica_sets = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
partitions = st.sampled_from(PARTITIONS)


class ExecutorMachine(RuleBasedStateMachine):
    """One execution after the other, on a yard where anything may happen."""

    @initialize(data=st.data(), throttle=st.sampled_from([None, 1000]), theirs=st.booleans())
    def begin(self, data: st.DataObject, throttle: int | None, theirs: bool) -> None:
        listed = [data.draw(replica_sets) for _tp in PARTITIONS]
        self.yard = Yard({"t": listed[:2], "u": listed[2:]}, BROKERS)
        if theirs:
            self.yard.settings[ThrottleKey("topic", "t", "leader.replication.throttled.replicas")] = "7:7"
            self.yard.settings[ThrottleKey("broker", "2", "follower.replication.throttled.rate")] = "500"
        self.settings = dict(self.yard.settings)
        self.throttle = throttle
        self.rig = Rig(self.yard)
        self.foreign: set[TopicPartition] = set()
        self.checked = 0
        self.last_leader = {tp: found.leader for tp, found in self.yard.partitions.items()}

    # Orders.

    @rule(data=st.data(), strategy=st.sampled_from(Strategy), bound=st.integers(0, 2), elect=st.booleans())
    def submit(self, data: st.DataObject, strategy: Strategy, bound: int, elect: bool) -> None:
        chosen = data.draw(st.lists(partitions, min_size=1, max_size=3, unique=True))
        moves = [(tp.topic, tp.partition, data.draw(replica_sets)) for tp in chosen]
        options = ExecutionOptions(strategy=strategy, throttle=self.throttle, max_in=bound, relax_after_ms=30_000)
        self.rig.submit(*moves, options=options, elect=elect)

    @rule(kind=st.sampled_from([CommandKind.STOP, CommandKind.ROLL_BACK, CommandKind.PAUSE, CommandKind.RESUME]))
    def command_all(self, kind: CommandKind) -> None:
        self.rig.command(kind)

    @rule(
        kind=st.sampled_from([CommandKind.STOP, CommandKind.ROLL_BACK, CommandKind.PAUSE, CommandKind.RELAX]),
        tp=partitions,
    )
    def command_one(self, kind: CommandKind, tp: TopicPartition) -> None:
        self.rig.command(kind, tp)

    @rule(rate=st.sampled_from([None, 700, 2000]))
    def limit(self, rate: int | None) -> None:
        self.rig.command(CommandKind.LIMIT, rate=rate)

    # The world.

    @precondition(lambda self: self.rig.pending)
    @rule(index=st.integers(0, 20), lost=st.booleans())
    def deliver(self, index: int, lost: bool) -> None:
        self.rig.deliver(index, lost=lost)

    @precondition(lambda self: self.rig.pending)
    @rule()
    def deliver_everything(self) -> None:
        for _work in range(len(self.rig.pending)):
            self.rig.deliver()

    @rule(milliseconds=st.sampled_from([1, 100, 1_000, 6_000, 40_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.rig.pass_time(milliseconds)

    @rule(tp=partitions)
    def catch_up(self, tp: TopicPartition) -> None:
        self.yard.catch_up(tp)

    @rule(broker=st.sampled_from(BROKERS))
    def die(self, broker: int) -> None:
        if len(self.yard.up) > 2:
            self.yard.kill(broker)

    @rule(broker=st.sampled_from(BROKERS))
    def return_(self, broker: int) -> None:
        self.yard.revive(broker)

    @rule(tp=partitions, wanted=st.none() | replica_sets)
    def somebody_else(self, tp: TopicPartition, wanted: Replicas | None) -> None:
        if self.yard.alter(tp, wanted) is ErrorCode.NONE:
            self.foreign.add(tp)

    # The executor's own death.

    @rule(arrived=st.lists(st.booleans(), max_size=8))
    def killed(self, arrived: list[bool]) -> None:
        self.rig.crash(carried_out=arrived)

    @rule(kind=st.sampled_from([CommandKind.STOP, CommandKind.ROLL_BACK]))
    def killed_before_the_write(self, kind: CommandKind) -> None:
        from shunter.core.executor import events as ev
        from shunter.model.execution import Command

        self.rig.tell(ev.CommandReceived(Command(kind), 0), write=False)

    # Invariants.

    @invariant()
    def nobody_is_in_sync_or_leads_without_being_a_replica(self) -> None:
        for found in self.yard.partitions.values():
            assert set(found.isr) <= set(found.replicas)
            assert found.isr, "the last copy in sync is never given up"
            assert found.leader in (-1, *found.isr)

    @invariant()
    def one_request_at_a_time_for_a_partition(self) -> None:
        asked = [
            tp for work in self.rig.pending if isinstance(work, AlterReassignments) for tp, _target in work.targets
        ]
        assert len(asked) == len(set(asked))

    @invariant()
    def a_leader_is_claimed_only_if_the_cluster_shows_it(self) -> None:
        for entry in self.rig.journal[self.checked :]:
            record = entry.record
            if isinstance(record, MoveClosed) and record.reason.endswith(" leads") and "but" not in record.reason:
                assert f"broker {record.replicas[0]} leads" in record.reason
        self.checked = len(self.rig.journal)

    @invariant()
    def originals_are_never_forgotten(self) -> None:
        """Another plan, or a late broker's metadata, may change the originals only as long as no step has begun."""
        accepted: dict[TopicPartition, Replicas] = {}
        begun: set[TopicPartition] = set()
        for entry in self.rig.journal:
            record = entry.record
            if isinstance(record, MoveAccepted) and record.tp not in begun:
                accepted[record.tp] = record.original
            elif isinstance(record, StepBegun):
                begun.add(record.tp)
            elif isinstance(record, MoveClosed):
                begun.discard(record.tp)
        for tp, move in self.rig.core.state.moves.items():
            if move.open:
                assert move.original == accepted[tp]

    # In the end.

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for broker in BROKERS:
            self.yard.revive(broker)
        if any(move.paused for move in self.rig.core.state.moves.values()):
            self.rig.command(CommandKind.RESUME)
        self.rig.settle(rounds=1_500, until_ms=400)
        if self.rig.finish is None:
            note(str([move for move in self.rig.core.state.moves.values() if move.open]))
            note(str(self.rig.core.state.throttles))
        assert self.rig.finish is not None, "with everything healthy, an execution comes to its end"
        assert self.rig.finish.fatal is None
        if self.rig.core.state.owed():  # It ended without a broker that was down: the next process gives that back.
            self.rig.start()
            self.rig.settle(rounds=1_500, until_ms=400)
        assert self.yard.settings == self.settings, "throttles are as they were"
        for tp, move in self.rig.core.state.moves.items():
            found = self.yard.partitions[tp]
            if tp in self.foreign:
                continue
            if move.outcome is Outcome.REFUSED:
                assert "was not elected within" in move.reason
                assert move.wanted_leader == move.goal[0]
            else:
                assert move.outcome in (Outcome.DONE, Outcome.STOPPED, Outcome.ROLLED_BACK), move
            assert not found.adding
            assert not found.removing
            assert found.replicas == move.current
            if move.outcome is not Outcome.STOPPED:
                assert found.replicas == (move.original if move.direction is Direction.BACK else move.target)


ExecutorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestExecutorModel = ExecutorMachine.TestCase
