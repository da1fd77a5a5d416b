"""The model: random and exhaustive lives of one partition, and what must hold after every write.

The world is told nothing about steps: brokers die and return, followers catch up, leaders shrink their ISR, the
controller elects. Then everything heals, and the move must end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.core.election import elect_for_offline
from shunter.core.reassignment import Situation, Step, Waiting, WaitReason, next_step, roll_back, stop, supersede
from shunter.model.partition import NO_LEADER, BrokerId, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy

BROKERS = tuple(range(6))
MOST_WRITES = 60
"""Far more than any move of these sizes takes."""


@dataclass
class World:
    """One partition, its brokers, and the move that is asked of it."""

    situation: Situation
    original: Replicas
    target: Replicas
    strategy: Strategy
    relaxed: bool = False
    rolling_back: bool = False

    def decide(self) -> Step | Waiting | None:
        if self.rolling_back:
            return roll_back(self.situation, original=self.original)
        return next_step(
            self.situation,
            original=self.original,
            target=self.target,
            strategy=self.strategy,
            relaxed=self.relaxed,
        )

    @property
    def aim(self) -> Replicas:
        return self.original if self.rolling_back else self.target

    def act(self) -> bool:
        """Carry out one decision; whether something was written."""
        decided = self.decide()
        if isinstance(decided, Waiting):
            assert decided.brokers, "a move always says for whom it waits"
            return False
        if decided is None:
            assert self.situation.assignment == ReplicaAssignment(self.aim)
            return False
        self.check_floor(decided)
        self.write(decided)
        return True

    def write(self, step: Step) -> None:
        check_step(self.situation, step)
        self.situation = self.situation.after(step)

    def check_floor(self, step: Step) -> None:
        dropped_in_sync = [broker for broker in step.dropped if broker in self.situation.in_sync]
        if not dropped_in_sync:
            return
        stay = len(self.situation.after(step).in_sync)
        if self.rolling_back:
            assert stay >= max(1, min(self.situation.min_isr, len(self.original)))
        elif self.relaxed:
            assert stay >= min(len(self.target), max(1, self.situation.min_isr))
        else:
            assert stay >= len(self.target)

    def with_leadership(self, isr: Replicas, leader: BrokerId, live: frozenset[BrokerId]) -> None:
        self.situation = Situation(self.situation.assignment, isr, leader, live, self.situation.min_isr)

    def die(self, broker: BrokerId) -> None:
        """A broker dies: the controller takes it out of the ISR unless it is the last, and elects."""
        now = self.situation
        live = now.live - {broker}
        isr = tuple(member for member in now.isr if member != broker) or now.isr
        elected = elect_for_offline(now.replicas, isr, live, unclean_allowed=False)
        leader = now.leader if now.leader in live else (elected.leader if elected else NO_LEADER)
        self.with_leadership(isr, leader, live)

    def return_(self, broker: BrokerId) -> None:
        now = self.situation
        live = now.live | {broker}
        elected = elect_for_offline(now.replicas, now.isr, live, unclean_allowed=False)
        self.with_leadership(
            now.isr, now.leader if now.leader in live else elected.leader if elected else NO_LEADER, live
        )

    def catch_up(self, broker: BrokerId) -> None:
        now = self.situation
        if now.leader != NO_LEADER and broker in now.replicas and broker in now.live and broker not in now.isr:
            self.with_leadership((*now.isr, broker), now.leader, now.live)

    def fall_behind(self, broker: BrokerId) -> None:
        now = self.situation
        if broker in now.isr and now.leader not in (broker, NO_LEADER):
            self.with_leadership(tuple(member for member in now.isr if member != broker), now.leader, now.live)

    def heal(self) -> None:
        """Everybody lives and catches up; the move must end within a bounded number of writes."""
        for broker in BROKERS:
            self.return_(broker)
        for _ in range(MOST_WRITES):
            for broker in self.situation.replicas:
                self.catch_up(broker)
            if not self.act() and self.decide() is None:
                return
        pytest.fail(f"{self.situation} does not reach {self.aim} from {self.original}")


def check_step(before: Situation, step: Step) -> None:
    """What holds for every write, whatever it is for."""
    replicas = step.assignment.replicas
    assert len(set(replicas)) == len(replicas) > 0
    assert set(replicas) == set(before.replicas) - set(step.dropped) | set(step.added)
    assert not set(step.added) & set(before.replicas)
    assert set(step.dropped) <= set(before.replicas)
    assert set(step.assignment.adding) <= set(replicas)
    assert set(step.assignment.removing) <= set(replicas) - set(step.assignment.adding)
    assert set(step.isr) <= set(replicas) & set(before.isr)
    assert step.isr, "the ISR never becomes empty"
    if before.in_sync:
        assert step.leader in step.isr
    if step.leader == NO_LEADER:
        assert before.serving_leader == NO_LEADER
    else:
        assert step.leader in step.isr
        assert step.leader in before.live
    if before.serving_leader in replicas:
        assert step.leader == before.serving_leader, "nobody takes the lead from a leader that stays"
    if step.final:
        assert not step.assignment.in_motion


sets = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
doings = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["die", "return_", "catch_up", "fall_behind"]), st.sampled_from(BROKERS)),
        st.tuples(st.sampled_from(["act", "act", "act", "relax"]), st.just(0)),
        st.tuples(st.just("supersede"), sets),
    ),
    max_size=40,
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    original = draw(sets)
    live = frozenset(BROKERS)
    now = Situation(ReplicaAssignment(original), original, original[0], live, draw(st.integers(1, 3)))
    return World(now, original, draw(sets), draw(st.sampled_from(Strategy)))


def live_through(world: World, doing: list[tuple[str, object]]) -> None:
    for what, whom in doing:
        if what == "act":
            world.act()
        elif what == "relax":
            world.relaxed = True
        elif what == "supersede":
            if not world.rolling_back:
                turn(world, whom)
        else:
            getattr(world, what)(whom)


def turn(world: World, target: Replicas) -> None:
    before = world.situation
    step = supersede(
        before, original=world.original, new_target=target, top=len(world.original), strategy=world.strategy
    )
    stay = len(before.after(step).in_sync)
    if any(broker in before.in_sync for broker in step.dropped):
        assert stay >= min(len(target), len(world.original))
    unwanted_originals = [broker for broker in world.original if broker in step.dropped]
    if world.strategy is Strategy.ALL_AT_ONCE and not step.final:
        assert not unwanted_originals or set(step.replicas) == set(target)
    world.target = target
    world.write(step)


@given(worlds(), doings)
def test_every_life_ends_at_its_target(world, doing):
    live_through(world, doing)
    world.heal()
    assert world.situation.assignment == ReplicaAssignment(world.target)
    assert world.situation.leader in world.target


@given(worlds(), doings, doings)
def test_every_rollback_restores_the_order_exactly(world, before, after):
    live_through(world, before)
    world.rolling_back = True
    live_through(world, after)
    world.heal()
    assert world.situation.assignment == ReplicaAssignment(world.original)


@given(worlds(), doings, st.booleans())
def test_every_stop_keeps_what_is_in_sync_and_every_original_still_there(world, doing, rolling_back):
    live_through(world, doing)
    world.rolling_back = rolling_back
    now = world.situation
    stopped = stop(now, original=world.original)
    check_step(now, stopped)
    assert stopped.final
    assert stopped.isr == tuple(broker for broker in now.isr if broker in now.replicas)
    assert stopped.leader == (now.leader if now.leader in now.isr else NO_LEADER)
    assert list(stopped.replicas) == [broker for broker in now.replicas if broker in stopped.replicas]
    kept = set(now.replicas) & set(world.original) - set(now.assignment.adding)
    assert kept <= set(stopped.replicas)


def small_moves() -> Iterator[tuple[Replicas, Replicas]]:
    """All targets up to RF 3 on four brokers, from every size; names of brokers don't matter, so sets start at 0."""
    for size in (1, 2, 3):
        for target_size in (1, 2, 3):
            for target in permutations(range(4), target_size):
                yield tuple(range(size)), target


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("rolling_back", [False, True], ids=["forward", "rollback"])
def test_every_single_death_at_every_point_of_every_small_move(strategy, rolling_back):
    """Every broker dies at every write of every move, alone; the others go on; it returns; the move ends."""
    lives = 0
    for original, target in small_moves():
        for point in points(World(healthy(original), original, target, strategy)):
            for mortal in range(4):
                world = World(point, original, target, strategy, rolling_back=rolling_back)
                world.die(mortal)
                settle(world)
                say_for_whom(world, mortal)
                world.heal()
                assert world.situation.assignment == ReplicaAssignment(world.aim)
                lives += 1
    assert lives > 4 * 3 * (4 + 12 + 24), "every move has more points than its beginning"


def healthy(replicas: Replicas) -> Situation:
    return Situation(ReplicaAssignment(replicas), replicas, replicas[0], frozenset(BROKERS), min_isr=1)


def points(world: World) -> list[Situation]:
    """Every situation of an undisturbed move, from before its first write to after its last."""
    seen = [world.situation]
    for _ in range(MOST_WRITES):
        advance(world)
        if world.situation == seen[-1]:
            return seen
        seen.append(world.situation)
    pytest.fail(f"{world.situation} never settles")


def advance(world: World) -> None:
    """One write, or one catching up, whichever comes first: the points between them are points of a move too."""
    if not world.act():
        for broker in world.situation.replicas:
            world.catch_up(broker)


def settle(world: World) -> None:
    """Go on until nothing more can be done."""
    for _ in range(MOST_WRITES):
        before = world.situation
        advance(world)
        if world.situation == before:
            return
    pytest.fail(f"{world.situation} never settles")


def say_for_whom(world: World, mortal: BrokerId) -> None:
    """With everybody else alive and in sync, a move that stands still waits for the dead broker and no other."""
    decided = world.decide()
    if isinstance(decided, Waiting):
        assert decided.brokers == (mortal,)
        assert decided.reason is not WaitReason.CATCHING_UP


@settings(max_examples=50)
@given(worlds())
def test_a_move_with_nothing_in_its_way_copies_no_replica_twice(world):
    written: list[Step] = []
    while isinstance(decided := world.decide(), Step | Waiting):
        if isinstance(decided, Step):
            written.append(decided)
        advance(world)
    added = [broker for step in written for broker in step.added]
    dropped = [broker for step in written for broker in step.dropped]
    assert sorted(added) == sorted(set(world.target) - set(world.original))
    assert sorted(dropped) == sorted(set(world.original) - set(world.target))
    if world.strategy is Strategy.INCREMENTAL:
        assert all(len(step.added) <= 1 for step in written)
