"""A dry run foretells by the executor's own choice: steps, waits, prices, copies of others, and what has no room."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from shunter.app.executor.dry_run import DryRun, dry_run
from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LOWEST_RATE
from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.model.execution import (
    ExecutionOptions,
    JournalEntry,
    LogDirSpace,
    MoveAccepted,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    PlanAccepted,
    ReplicaSize,
    StepAccepted,
    StepBegun,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

GB = 10**9
TPS = tuple(TopicPartition("t", number) for number in range(2))
T0 = TPS[0]
BESIDE_3 = ObservedPartition((1, 2, 3), (1, 2), 1)


@dataclass
class Cluster:
    """Partitions of topic t, the live brokers and their log dirs, and settings that somebody left."""

    partitions: tuple[ObservedPartition, ...]
    live: tuple[int, ...]
    sizes: dict[tuple[int, TopicPartition], ReplicaSize]
    spaces: dict[tuple[int, str], LogDirSpace] = field(default_factory=dict)
    copies: dict[tuple[int, TopicPartition], ReplicaSize] = field(default_factory=dict)
    needs_all: bool | None = None
    """Whether a step needs every replica that stays in sync, as under controllers before Kafka 4.3."""
    rates: dict[str, str] = field(default_factory=dict)
    """By broker, its follower's rate that somebody set."""
    file_rates: dict[str, str] = field(default_factory=dict)
    ongoing: dict[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    listed: str | None = None
    """Somebody's list of throttled followers of topic t."""

    async def list_reassignments(self) -> dict[TopicPartition, Any]:
        return dict(self.ongoing)

    async def observe_topics(self, _names) -> TopicsSeen:
        seen = ObservedTopic(None, dict(enumerate(self.partitions)), 1)
        return TopicsSeen({"t": seen}, dict.fromkeys(self.live), 1, self.needs_all)

    async def observe_log_dirs(self, asked) -> LogDirsSeen:
        spaces = {key: space for key, space in self.spaces.items() if key[0] in asked}
        return LogDirsSeen(self.sizes, self.copies, spaces, {}, tuple(asked))

    async def read_settings(self, keys) -> SettingsSeen:
        own = {key: self.rates.get(key.name) if key.setting == FOLLOWER_RATE else None for key in keys}
        if self.listed is not None:
            own |= {key: self.listed for key in keys if key.setting == FOLLOWER_REPLICAS}
        return SettingsSeen(own, {key: value or self.file_rates.get(key.name) for key, value in own.items()})


async def foretold(cluster: Cluster, *orders: MoveOrder, goes_around: bool = False, **options: Any) -> DryRun:
    found = ExecutionOptions(**options)
    return await dry_run(cast("Any", cluster), ExecutorState(), list(orders), found, goes_around=goes_around)


def beside_3(*, needs_all: bool = False, seen: ObservedPartition = BESIDE_3) -> Cluster:
    """A cluster whose broker 3, of t-0, is dead."""
    return Cluster((seen,), (1, 2, 4, 5), {(1, T0): ReplicaSize(100, "/a")}, needs_all=needs_all)


def copying() -> Cluster:
    """Somebody lets broker 1 copy its replica of t-0 from /a to /b."""
    sizes = {(broker, T0): ReplicaSize(9, "/a") for broker in (1, 2)}
    spaces = {(broker, path): LogDirSpace(99, 50) for broker in (1, 2) for path in ("/a", "/b")}
    copies = {(1, T0): ReplicaSize(2, "/b", future=True)}
    return Cluster((ObservedPartition((1, 2), (1, 2), 1),), (1, 2), sizes, spaces, copies)


def with_little_room(listed: str | None = None) -> Cluster:
    """Two partitions of 10 GB each on broker 1; broker 3 has a large log dir and a small one, broker 4 doesn't say.

    Somebody left 1,000 B/s at broker 3, and broker 1 has a rate in server.properties.
    """
    spaces = {(3, "/a"): LogDirSpace(1_000 * GB, 900 * GB), (3, "/b"): LogDirSpace(100 * GB, 16 * GB)}
    return Cluster(
        (ObservedPartition((1,), (1,), 1),) * 2,
        (1, 3, 4),
        {(1, tp): ReplicaSize(10 * GB, "/a") for tp in TPS},
        {**spaces, (4, "/a"): LogDirSpace(-1, -1)},
        rates={"3": "1000"},
        file_rates={"1": "2000"},
        listed=listed,
    )


async def test_a_newer_cluster_ends_a_step_beside_a_dead_replica_that_stays_and_a_rollback_then_copies() -> None:
    """An outsider's find on 4.4.0: "waits for broker 3 to be live and in sync; a rollback copies 0 B at the most"."""
    found = await foretold(beside_3(needs_all=False), MoveOrder(T0, (1, 4, 3)))
    (move,) = found.moves
    assert (move.problem, move.held_up) == (None, "")
    assert [step.replicas for step in move.steps] == [(1, 4, 3)]
    assert found.most_rollback_bytes == 100


@pytest.mark.parametrize(
    ("target", "needs_all", "held"),
    [
        ((1, 4, 3), True, "it can't end without broker 3, which is down and part of its target"),
        ((4, 5, 3), False, "it can't end without broker 3, which is down and part of its target"),  # By its last step.
        ((1, 4, 5), True, ""),
    ],
)
async def test_what_never_ends_says_so_once(target: tuple[int, ...], held: str, *, needs_all: bool) -> None:
    (move,) = (await foretold(beside_3(needs_all=needs_all), MoveOrder(T0, target))).moves
    assert move.held_up[: len(held) or None] == held
    assert move.problem is None


@pytest.mark.parametrize(
    ("seen", "held"),
    [
        (ObservedPartition((3,), (), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        (ObservedPartition((3,), (3,), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        # Broker 1 is live, but not eligible: it would lead.
        (ObservedPartition((3, 1), (), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        (
            ObservedPartition((3, 6), (), -1, (3, 6)),
            (
                "one of brokers 3, 6, which are down: {}; start broker 3 or start broker 6, whichever has its data, as"
                " `shunter doctor` tells"
            ),
        ),
    ],
)
async def test_where_no_live_broker_has_the_data_it_has_to_come_back(seen: ObservedPartition, held: str) -> None:
    """An outsider's find: "`shunter plan --scope offline` gives offline replicas other brokers first": that leaves it."""
    found = await foretold(beside_3(seen=seen), MoveOrder(T0, (4,)))
    assert found.moves[0].held_up == f"it can't end without {held.format('no live broker has all records')}"


async def test_a_rollback_onto_a_dead_broker_needs_it() -> None:
    (move,) = (await foretold(beside_3(needs_all=False), MoveOrder(T0, (1, 2, 4)))).moves
    assert [step.needs for step in move.steps] == [(3,)]
    (kept,) = (await foretold(beside_3(needs_all=False), MoveOrder(T0, (1, 4, 3)))).moves
    assert [step.needs for step in kept.steps] == [()], "broker 3 keeps its replica"


async def test_shunters_controller_goes_its_own_way() -> None:
    (move,) = (await foretold(beside_3(needs_all=False), MoveOrder(T0, (1, 4, 3)), goes_around=True)).moves
    assert move.held_up == ""
    assert move.problem is not None
    assert move.problem.startswith("waits for broker 3 to be live and in sync")


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("log_dirs", "told"),
    [
        (((1, "/a"),), "cancels it, because the plan says /a"),
        (((1, "/b"),), "takes it over"),
        (((2, "/b"),), None),
        ((), None),
    ],
)
async def test_a_copy_of_others_is_named(
    strategy: Strategy, log_dirs: tuple[tuple[int, str], ...], told: str | None
) -> None:
    order = MoveOrder(T0, (1, 2), strategy, log_dirs)
    found = await foretold(copying(), order)
    (move,) = found.moves
    copied = "somebody else copies it on broker 1 from /a to /b, 2 B of 9 B: this move"
    assert move.taken
    assert move.problem == (None if told is None else f"{copied} {told}")


async def test_what_brokers_copy_within_themselves_is_counted_with_its_way_back() -> None:
    order = MoveOrder(T0, (1, 2), None, ((1, "/b"), (2, "/a")))
    found = await foretold(copying(), order, log_dir_throttle=3)
    (move,) = found.moves
    assert move.placing == (1,), "broker 2 has it there"
    assert (found.forecast.total_bytes, found.forecast.seconds, found.most_rollback_bytes) == (9, 3.0, 9)


@pytest.mark.parametrize("elect", [True, False])
async def test_an_election_is_told_on_paper(elect: bool) -> None:
    order = MoveOrder(T0, (2, 1), elect=elect)
    found = await foretold(copying(), order)
    assert [move.elects for move in found.moves] == [2 if elect else None]


@pytest.mark.parametrize(
    ("throttle", "told"),
    [
        (
            1_000_000,
            "broker 1 to 2.0 kB/s, broker 3 to 1.0 kB/s, less than ours: it stays, and `shunter throttles clear`",
        ),
        (1_500, "holds broker 3 to 1.0 kB/s, less than ours: it stays, and `shunter throttles clear` removes it"),
        (1_000, ""),
        (None, ""),
    ],
)
async def test_a_lower_throttle_of_others_is_named_before_anything_begins(throttle: int | None, told: str) -> None:
    """An outsider's find: somebody's 1,000 B/s held the plan, whose `--throttle` had listed its replicas."""
    lower = (await foretold(with_little_room(), MoveOrder(T0, (3,)), throttle=throttle)).lower
    assert (told in lower) if told else not lower
    assert ("`server.properties`" in lower) == (throttle == 1_000_000)


@pytest.mark.parametrize(
    ("throttle", "target", "told"), [(900_000, (3,), True), (1_000_000, (3,), False), (900_000, (1,), False)]
)
async def test_that_copies_run_ahead_of_a_small_throttle_is_told_on_paper(
    throttle: int, target: tuple[int, ...], *, told: bool
) -> None:
    bursts = (await foretold(with_little_room(), MoveOrder(T0, target), throttle=throttle)).bursts
    assert bursts.startswith("a throttle of 900.0 kB/s holds on average over 11 s") is told


@pytest.mark.parametrize(("listed", "holds"), [("*", True), ("7:9, 0:3", True), ("1:3", False), ("", False)])
async def test_without_a_throttle_others_rates_hold_what_their_lists_name(listed: str, *, holds: bool) -> None:
    found = await foretold(with_little_room(listed), MoveOrder(T0, (3,)), bandwidth=GB)
    told = "somebody else's throttle holds broker 3 to 1.0 kB/s: it stays, and `shunter throttles clear` removes it"
    assert found.lower == (told if holds else "")
    assert found.forecast.seconds == (10 * GB / LOWEST_RATE if holds else 10.0), "no throttle holds lower"


async def test_a_list_of_everything_puts_ordinary_replication_under_our_throttle() -> None:
    found = await foretold(with_little_room("*"), MoveOrder(T0, (3,)), throttle=1_000)
    assert found.lower == (
        "topic t lists all replicas as throttled (somebody's `*`): ordinary replication shares the limit; "
        "`shunter throttles clear` takes it away, or give a higher limit"
    )


async def problems(*orders: MoveOrder, **options: Any) -> tuple[list[str | None], tuple[int, ...]]:
    found = await foretold(with_little_room(), *orders, **options)
    return [move.problem for move in found.moves], found.unknown_room


@pytest.mark.parametrize("strategy", Strategy)
async def test_each_move_that_would_wait_for_disk_says_so(strategy: Strategy) -> None:
    told, unknown = await problems(*(MoveOrder(tp, (3,), strategy) for tp in TPS))
    assert told[0] is None
    assert told[1] is not None
    assert (
        "log dir /b of broker 3 has 16.0 GB usable: 10.0 GB needed, 10.0 GB on their way, 5.0 GB stay free" in told[1]
    )
    assert "a plan that names log dirs decides" in told[1]
    assert unknown == ()


async def test_a_plan_that_names_the_large_log_dir_or_looks_at_no_room_has_no_problem() -> None:
    named = [MoveOrder(tp, (3,), None, ((3, "/a"),)) for tp in TPS]
    assert await problems(*named) == ([None, None], ())
    assert await problems(*(MoveOrder(tp, (3,)) for tp in TPS), disk_share=1.0) == ([None, None], ())


async def test_unknown_room_is_unknown() -> None:
    assert await problems(MoveOrder(T0, (4,))) == ([None], (4,))


async def test_a_plan_that_joins_an_execution_is_foretold_at_its_rate() -> None:
    """An outsider's find: "at least 3 s at 50.0 MB/s (a guess)", beside an execution at 1.5 MB/s."""
    state = ExecutorState()
    options = ExecutionOptions(throttle=1_500_000)
    for number, record in enumerate(
        (PlanAccepted("p", "c", options), MoveAccepted(TPS[1], None, (1,), (4,), Strategy.INCREMENTAL, 1)), start=1
    ):
        apply(state, JournalEntry(number, 0, "", record))
    cluster = cast("Any", with_little_room())
    found = await dry_run(cluster, state, [MoveOrder(T0, (3,))], ExecutionOptions(disk_share=0))
    assert (found.forecast.bandwidth, found.forecast.guessed) == (1_500_000, False)


async def test_a_replica_out_of_sync_holds_the_first_step() -> None:
    """An outsider's find: a cut that has to wait for a live broker said "at least 0 s", and nothing else."""
    seen = ObservedPartition((1, 2, 3), (1, 3), 1)
    cluster = Cluster((seen,), (1, 2, 3), {(1, T0): ReplicaSize(100, "/a")}, needs_all=False)
    (move,) = (await foretold(cluster, MoveOrder(T0, (1, 2)))).moves
    assert move.problem is not None
    assert move.problem.startswith("waits for broker 2 to be live and in sync")


async def test_a_replica_behind_that_a_later_drop_needs_is_named() -> None:
    """An outsider's find: a cut of a partition in motion kept a replica out of sync, and its dry run said nothing."""
    seen = ObservedPartition((1, 2), (1,), 1)
    cluster = Cluster((seen,), (1, 2, 4), {(1, T0): ReplicaSize(100, "/a")}, needs_all=False)
    (move,) = (await foretold(cluster, MoveOrder(T0, (4, 2)))).moves
    assert move.problem == "broker 2 of its target is out of sync now: a drop may wait for that"
    (order,) = (await foretold(cluster, MoveOrder(T0, (2, 1)))).moves
    assert "out of sync" not in str(order.problem), "an order needs no replica in sync"


async def test_a_new_target_lets_a_running_copy_that_it_keeps_go_on_and_counts_what_is_open() -> None:
    """An outsider's find: the steps on paper threw a copy away that really went on."""
    state, begun = ExecutorState(), StepBegun(T0, 1, (1, 2), (1, 2, 3), "forward: +3")
    accepted = MoveAccepted(T0, None, (1, 2), (3, 2), Strategy.INCREMENTAL, 100)
    records = (PlanAccepted("p", "c", ExecutionOptions()), accepted, begun, StepAccepted(T0, 1))
    for number, record in enumerate(records, start=1):
        apply(state, JournalEntry(number, 0, "", record))
    seen = ObservedPartition((1, 2, 3), (1, 2), 1)
    cluster = cast("Any", Cluster((seen,), (1, 2, 3, 4), {(1, T0): ReplicaSize(100, "/a")}, needs_all=False))
    found = await dry_run(cluster, state, [MoveOrder(T0, (4, 3))], ExecutionOptions())
    (move,) = found.moves
    assert [(step.replicas, step.under_way) for step in move.steps][:2] == [((1, 2, 3), True), ((4, 3), False)]
    assert found.open_bytes == 200
    found = await dry_run(cluster, state, [MoveOrder(T0, (4, 2))], ExecutionOptions())
    assert "it was on its way to [4, 3], and goes to [4, 2] instead; what it has copied to broker 3 is deleted" in str(
        found.moves[0].problem
    )


@pytest.mark.parametrize(
    ("target", "steps", "told"),
    [
        ((3, 1), [((3, 1), True)], "its step to [3, 1] goes on; the order"),
        ((3, 4), [((3, 1), True), ((3, 4), False)], "its step to [3, 1] goes on; the order"),
        ((3, 2), [((3, 2), False)], "its step to [3, 1] gives way to the first one here; the order"),
        ((1, 4), [((1, 2), False), ((1, 4), False)], "its step to [3, 1] gives way to the first one here; the order"),
    ],
)
async def test_a_step_of_a_move_that_is_taken_over_is_not_foretold_as_one_to_come(
    target: tuple[int, ...], steps: list[tuple[tuple[int, ...], bool]], told: str
) -> None:
    """Found by hand: the copy that another tool had begun was foretold as a step that is yet to begin."""
    cluster = Cluster((ObservedPartition((3, 1, 2), (1, 2), 1),), (1, 2, 3, 4), {(1, T0): ReplicaSize(9, "/a")})
    cluster.ongoing[T0] = OngoingReassignment((3, 1, 2), (3,), (2,))
    found = await foretold(cluster, MoveOrder(T0, target), take_over=True)
    (move,) = found.moves
    assert [(step.replicas, step.under_way) for step in move.steps] == steps
    assert found.most_rollback_bytes == 9 * len({1, 2}.difference(target)), "also once their step has ended"
    assert told in str(move.problem)
