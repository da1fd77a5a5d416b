"""The conditions that the keeper sees, since when, its proposals, and the reasons that hold them back."""

from dataclasses import replace

import pytest
from keeper_clusters import AT_ONCE, MIB, MINUTE_MS, NOON_MS, carried_out, cluster, later, look, only, ready

from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.requests import MENDS
from shunter.core.keeper.sighting import PastExecution, Sighting
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedLogDir
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.inventory import Disk
from shunter.model.keeper import DEFAULTS, MENDED, Condition, GuardRails, Intents, KeeperPolicy, Mode, Watch
from shunter.model.limits import Window
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import TopicPartition

EVEN = {"t": [[1, 2], [2, 3], [3, 1]]}
LOPSIDED = {"t": [[1, 2]] * 6}


def held(judgement: Judgement) -> dict[str, str]:
    """Condition and subject → the sentence about it."""
    subjects = [(each.sign.subject, each.sign.text) for each in judgement.holding]
    return {f"{subject.condition.value} {subject.about}".strip(): text for subject, text in subjects}


def test_a_cluster_in_balance_has_no_condition() -> None:
    judged = look(cluster(EVEN))
    assert (judged.holding, judged.proposals) == ((), ())


def test_a_cluster_without_topics_has_no_condition() -> None:
    assert look(cluster({})).holding == ()


def test_a_cluster_without_a_byte_has_no_disk_skew() -> None:
    """An SRE's find: each of four brokers "carries 0.00 of the mean in disk"."""
    assert look(cluster(EVEN, size=0)).holding == ()


def test_a_lopsided_cluster_is_balanced_and_then_content() -> None:
    seen = cluster(LOPSIDED)
    judged = look(seen)
    assert held(judged) == {
        "broker-empty broker 3": "broker 3 is up and holds no replica",
        "disk-band broker 1": "broker 1 carries 1.50 of the mean in disk (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "disk-band broker 2": "broker 2 carries 1.50 of the mean in disk (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "disk-band broker 3": "broker 3 carries 0.00 of the mean in disk (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "replicas-band broker 1": "broker 1 carries 1.50 of the mean in replicas (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "replicas-band broker 2": "broker 2 carries 1.50 of the mean in replicas (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "replicas-band broker 3": "broker 3 carries 0.00 of the mean in replicas (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "leaders-band broker 1": "broker 1 carries 3.00 of the mean in preferred leaders (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "leaders-band broker 2": "broker 2 carries 0.00 of the mean in preferred leaders (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
        "leaders-band broker 3": "broker 3 carries 0.00 of the mean in preferred leaders (threshold 0.80 to 1.20, ends within 0.90 to 1.10)",
    }
    sides = {each.sign.subject.about: each.sign.side for each in judged.holding if each.sign.side}
    assert sides == {"broker 1": "above", "broker 2": "below", "broker 3": "below"}
    scopes = []
    while (proposal := ready(judged)) is not None:
        scopes.append(proposal.scope)
        seen = carried_out(seen, proposal)
        judged = look(seen, memory=judged.memory)
    assert scopes[0] is Scope.FILL
    assert judged.holding == ()


class TestLasting:
    POLICY = KeeperPolicy({**only(Condition.DISK_BAND).watches, Condition.DISK_BAND: DEFAULTS[Condition.DISK_BAND]})

    def test_the_first_look_does_not_know_since_when(self) -> None:
        judged = look(cluster(LOPSIDED), self.POLICY)
        assert {each.since_ms for each in judged.holding} == {None}
        (proposal,) = judged.proposals
        assert proposal.changes
        assert proposal.held_back == (
            "disk skew has to hold for 30 minutes, and this observation is the first that saw it",
        )

    def test_it_is_proposed_once_it_held_long_enough_at_every_look(self) -> None:
        seen = cluster(LOPSIDED)
        judged = look(seen, self.POLICY)
        for minutes in (10, 20, 29):
            judged = look(later(seen, minutes), self.POLICY, judged.memory)
            assert ready(judged) is None
        assert judged.proposals[0].held_back == (
            "disk skew has to hold for 30 minutes, and it is known for 29 minutes",
        )
        judged = look(later(seen, 30), self.POLICY, judged.memory)
        assert ready(judged) is not None
        assert {each.since_ms for each in judged.holding} == {NOON_MS}

    def test_looks_too_far_apart_tell_nothing_of_the_time_between(self) -> None:
        seen = cluster(LOPSIDED)
        judged = look(later(seen, 40), self.POLICY, look(seen, self.POLICY).memory)
        assert judged.forgotten_minutes == 40
        assert {each.since_ms for each in judged.holding} == {None}

    def test_a_clock_that_went_back_tells_nothing_either(self) -> None:
        seen = cluster(LOPSIDED)
        judged = look(seen, self.POLICY, look(later(seen, 5), self.POLICY).memory)
        assert judged.forgotten_minutes == 5

    def test_another_cluster_begins_anew(self) -> None:
        memory = replace(look(cluster(LOPSIDED), self.POLICY).memory, cluster_id="other")
        judged = look(cluster(LOPSIDED), self.POLICY, memory)
        assert {each.since_ms for each in judged.holding} == {None}
        assert judged.forgotten_minutes is None

    def test_what_ended_in_between_begins_anew(self) -> None:
        memory = look(cluster(LOPSIDED), self.POLICY).memory
        memory = look(later(cluster(EVEN), 5), self.POLICY, memory).memory
        assert memory.held == ()
        judged = look(later(cluster(LOPSIDED), 10), self.POLICY, memory)
        assert {each.since_ms for each in judged.holding} == {None}


def test_a_figure_that_is_within_its_threshold_again_is_told_as_such() -> None:
    """Found by hand: `carries 0.98 (threshold 0.80 to 1.20, ends within 0.79 to 0.96)` read as if nothing were wrong."""
    policy = only(Condition.REPLICAS_BAND)
    memory = look(cluster(LOPSIDED), policy).memory
    judged = look(cluster({"t": [[1]] * 23 + [[2]] * 20 + [[3]] * 17}), policy, memory)
    assert held(judged)["replicas-band broker 1"] == (
        "broker 1 carries 1.15 of the mean in replicas (again within its threshold 0.80 to 1.20, but the condition ends "
        "within 0.90 to 1.10)"
    )


def test_a_figure_between_the_two_bounds_holds_on_and_does_not_begin() -> None:
    policy = only(Condition.LOG_DIR_FULL)

    def at(share: float) -> Sighting:
        return cluster(EVEN, log_dirs={2: (CheckedLogDir("/d", 1000, round(1000 * (1 - share))),)})

    assert look(at(0.80), policy).holding == ()
    full = look(at(0.90), policy)
    assert list(held(full)) == ["log-dir-full broker 2 /d"]
    still = look(later(at(0.80), 1), policy, full.memory)
    assert list(held(still)) == ["log-dir-full broker 2 /d"]
    assert look(later(at(0.74), 2), policy, still.memory).holding == ()


class TestWhatMendsWhat:
    def test_every_condition_that_can_be_mended_has_one_scope(self) -> None:
        assert sorted(each.value for mended in MENDS.values() for each in mended) == sorted(
            each.value for each in MENDED
        )

    def test_a_dead_broker_is_replicated_from_what_lives(self) -> None:
        seen = cluster({"t": [[1, 2], [4, 3]]}, brokers=(1, 2, 3), min_isr=2)
        judged = look(seen, only(Condition.BROKER_DEAD))
        proposal = ready(judged)
        assert proposal is not None, judged.proposals
        assert proposal.scope is Scope.OFFLINE
        assert [set(each.replicas) - set(each.original) for each in proposal.changes] in ([{1}], [{2}])
        assert look(carried_out(seen, proposal), only(Condition.BROKER_DEAD)).holding == ()

    def test_a_failed_log_dir_is_left(self) -> None:
        seen = cluster({"t": [[1, 2]]}, failed=(("t", 0, 1),))
        # As a real broker is read: it answers, and its failed log dir is unknown.
        seen = replace(seen, inventory=seen.inventory._replace(unanswered=((1, "log dir /broken failed"),)))
        proposal = ready(look(seen, only(Condition.LOG_DIR_FAILED)))
        assert proposal is not None
        assert [sorted(each.replicas) for each in proposal.changes] == [[2, 3]]

    def test_a_broker_with_a_failed_log_dir_gets_nothing_back(self) -> None:
        seen = cluster({"t": [[1, 2], [2, 3]], "u": [[2, 3]] * 6}, failed=(("t", 0, 1),))
        judged = look(seen)
        while (proposal := ready(judged)) is not None:
            assert all(1 not in set(each.replicas) - set(each.original) for each in proposal.changes), proposal
            seen = carried_out(seen, proposal)
            judged = look(seen, memory=judged.memory)
        assert all(1 not in each.replicas for each in seen.inventory.partitions)

    def test_a_full_disk_is_emptied_below_the_narrower_bound(self) -> None:
        rows = {"t": [[1]] * 40}
        seen = cluster(rows, used={1: 0.90, 2: 0.05, 3: 0.05}, size=MIB)
        policy = only(Condition.DISK_FULL)
        proposal = ready(look(seen, policy))
        assert proposal is not None
        assert 15 <= proposal.moves <= 17, "from 90 % of 100 MiB to 75 %"
        assert look(carried_out(seen, proposal), policy, look(seen, policy).memory).holding == ()

    def test_a_disk_full_of_other_things_is_told_and_not_emptied(self) -> None:
        seen = cluster({"t": [[1]] * 5}, used={1: 0.95, 2: 0.05, 3: 0.05})
        judged = look(seen, only(Condition.DISK_FULL))
        assert list(held(judged)) == ["disk-full broker 1"]
        assert [each.changes for each in judged.proposals] == [()]

    def test_shared_racks_are_left(self) -> None:
        seen = cluster({"t": [[1, 2]]}, racks={1: "a", 2: "a", 3: "b"})
        proposal = ready(look(seen, only(Condition.RACKS)))
        assert proposal is not None
        assert 3 in proposal.changes[0].replicas

    def test_beside_a_cordoned_broker_nothing_is_proposed_but_what_takes_its_replica_away(self) -> None:
        racks = {1: "a", 2: "a", 3: "b", 4: "c"}
        seen = cluster({"t": [[3, 1, 2], [1, 2]]}, brokers=(1, 2, 3, 4), racks=racks, cordoned=(1,))
        proposal = ready(look(seen, only(Condition.RACKS)))
        assert proposal is not None
        assert all(1 not in each.replicas for each in proposal.changes)
        assert len(proposal.changes) == 2
        (stuck,) = look(
            cluster({"t": [[1, 2]] * 6}, cordoned=(1,)), only(Condition.DRAIN, intents=Intents(drain=(2,)))
        ).proposals
        assert stuck.changes == ()
        assert "a replica on a cordoned broker would stay" in stuck.undone[0]
        assert "`shunter drain 1`" in stuck.undone[0]

    def test_intents_are_kept_and_no_balance_undoes_them(self) -> None:
        intents = Intents(drain=(3,), demote=(2,), replication={"t": 2}, least_replication=2)
        seen = cluster({"t": [[3], [2], [1]], "u": [[2], [3]]}, brokers=(1, 2, 3, 4))
        policy = replace(AT_ONCE, intents=intents)
        judged = look(seen, policy)
        assert {"drain broker 3", "demote broker 2", "replication topic t", "replication topic u"} <= set(held(judged))
        while (proposal := ready(judged)) is not None:
            seen = carried_out(seen, proposal)
            judged = look(seen, policy, judged.memory)
        rows = [each.replicas for each in seen.inventory.partitions]
        assert all(3 not in row and row[0] != 2 and len(row) == 2 for row in rows), rows

    def test_a_factor_above_the_number_of_brokers_is_refused_in_a_sentence(self) -> None:
        policy = only(Condition.REPLICATION, intents=Intents(replication={"t": 4}))
        (proposal,) = look(cluster(EVEN), policy).proposals
        assert proposal.changes == ()
        assert "4 replicas need as many brokers" in proposal.undone[0]

    def test_what_only_notifies_proposes_nothing(self) -> None:
        watches = {each: replace(watch, mode=Mode.NOTIFY) for each, watch in AT_ONCE.watches.items()}
        judged = look(cluster(LOPSIDED), KeeperPolicy(watches))
        assert judged.holding
        assert judged.proposals == ()

    def test_acting_is_told_apart_from_proposing(self) -> None:
        policy = only(Condition.DISK_BAND)
        acting = replace(policy, watches={**policy.watches, Condition.DISK_BAND: Watch(Mode.ACT, 0, 0.2, 0.1)})
        assert [each.mode for each in look(cluster(LOPSIDED), acting).proposals] == [Mode.ACT]


class TestWhatIsToldAlone:
    def test_leaders_away_from_the_first_replica(self) -> None:
        seen = cluster({"t": [[1, 2]] * 4})
        away = tuple(each._replace(leader=2) for each in seen.inventory.partitions)
        judged = look(replace(seen, inventory=seen.inventory._replace(partitions=away)), only(Condition.LEADERS_AWAY))
        assert "4 partitions of 4 not led by the first" in held(judged)["leaders-away"]

    def test_partitions_out_of_sync_and_under_min_isr(self) -> None:
        seen = cluster({"t": [[1, 2], [2, 3]]}, failed=(("t", 0, 2),), min_isr=2)
        told = held(look(seen, only(Condition.UNDER_MIN_ISR, Condition.UNDER_REPLICATED)))
        assert sorted(told) == ["under-min-isr", "under-replicated"]
        assert "(t-0)" in told["under-min-isr"]

    def test_a_replica_that_a_move_is_bringing_is_not_out_of_sync(self) -> None:
        seen = cluster({"t": [[1, 2, 3]]}, ongoing={TopicPartition("t", 0): OngoingReassignment((1, 2, 3), (3,), (2,))})
        (partition,) = seen.inventory.partitions
        taken = seen.inventory._replace(partitions=(partition._replace(isr=(1, 2)),))
        assert look(replace(seen, inventory=taken), only(Condition.UNDER_REPLICATED)).holding == ()

    def test_throttles_that_were_left(self) -> None:
        left = ((ThrottleKey("broker", "1", "follower.replication.throttled.rate"), "5"),)
        seen = cluster(EVEN, throttles=left)
        assert list(held(look(seen, AT_ONCE))) == ["throttles-left"]
        first, *others = seen.check_up.brokers
        copy = LogDirCopy(TopicPartition("t", 0), first.broker, "/a", "/b", 1, 2)
        copying = replace(seen.check_up, brokers=(replace(first, copies=(copy,)), *others))
        assert list(held(look(replace(seen, check_up=copying), AT_ONCE))) == [], "a copy between log dirs may need them"

    def test_a_move_of_others_stands_still_only_while_nothing_of_it_changes(self) -> None:
        policy = KeeperPolicy({**only().watches, Condition.MOVES_STUCK: Watch(Mode.NOTIFY, 10)})
        move = {TopicPartition("t", 0): OngoingReassignment((1, 2, 3), (3,), (2,))}

        def at(minutes: int, copied: int) -> Sighting:
            seen = later(cluster({"t": [[1, 2, 3]]}, ongoing=move), minutes)
            (partition,) = seen.inventory.partitions
            sizes = ((1, MIB), (3, copied))
            return replace(seen, inventory=seen.inventory._replace(partitions=(partition._replace(sizes=sizes),)))

        judged = look(at(0, 10), policy)
        assert judged.holding == (), "it was called stuck while it copied"
        judged = look(at(6, 20), policy, judged.memory)
        judged = look(at(15, 20), policy, judged.memory)
        assert judged.holding == (), "it has copied something since"
        judged = look(at(16, 20), policy, judged.memory)
        assert [(each.minutes, each.lasted) for each in judged.holding] == [(10, True)]

    def test_our_own_moves_are_none_of_others(self) -> None:
        tp = TopicPartition("t", 0)
        move = {tp: OngoingReassignment((1, 2, 3), (3,), (2,))}
        seen = cluster({"t": [[1, 2, 3]]}, ongoing=move, open_moves=frozenset({tp}))
        assert look(seen, only(Condition.MOVES_STUCK)).holding == ()
        seen = cluster({"t": [[1, 2, 3]]}, ongoing=move)
        ended = replace(seen, journal=replace(seen.journal, just_ended=frozenset({tp})))
        assert look(ended, only(Condition.MOVES_STUCK)).holding == (), "it ended after the cluster was read"
        assert list(held(look(seen, only(Condition.MOVES_STUCK)))) == ["moves-stuck t-0"]
        unread = replace(seen, past=None)
        assert look(unread, only(Condition.MOVES_STUCK)).holding == (), (
            "without the journal it is not known whose it is"
        )

    def test_a_move_that_ended_while_the_cluster_was_read_leaves_nothing_under_replicated(self) -> None:
        seen = cluster({"t": [[1, 2, 3]]}, min_isr=3)
        (partition,) = seen.inventory.partitions
        policy = only(Condition.UNDER_REPLICATED, Condition.UNDER_MIN_ISR)
        for isr, adding, told in (
            ((1, 2), (3,), []),
            ((1, 2), (), ["under-min-isr", "under-replicated"]),
            ((1,), (3,), ["under-min-isr", "under-replicated"]),
            ((1, 3), (3,), ["under-min-isr", "under-replicated"]),
        ):
            taken = seen.inventory._replace(partitions=(partition._replace(isr=isr, adding=adding),))
            assert sorted(held(look(replace(seen, inventory=taken), policy))) == told


DONE = PastExecution(NOON_MS - 90 * MINUTE_MS, NOON_MS - 60 * MINUTE_MS, 7, 7 * MIB)


class TestGuardRails:
    def held_back(self, seen: Sighting, **rails: object) -> str:
        policy = only(Condition.DISK_BAND, rails=GuardRails(**rails))  # type: ignore[arg-type]
        (proposal,) = look(seen, policy).proposals
        assert not proposal.ready
        return " | ".join(proposal.held_back)

    def test_nothing_begins_while_anything_moves(self) -> None:
        move = {TopicPartition("t", 0): OngoingReassignment((1, 2), (3,), (2,))}
        assert "1 partition being moved (t-0)" in self.held_back(cluster(LOPSIDED, ongoing=move))

    def test_nothing_begins_while_the_journal_has_open_moves(self) -> None:
        told = self.held_back(cluster(LOPSIDED, open_moves=frozenset({TopicPartition("t", 0)})))
        assert "the journal has 1 open move (t-0)" in told
        seen = cluster(LOPSIDED, open_moves=frozenset({TopicPartition("t", 0)}))
        driven = replace(seen, journal=replace(seen.journal, holder="this process"))
        assert "1 move under way (t-0): a plan has to wait for the end" in self.held_back(driven)

    def test_nothing_begins_under_min_isr_but_what_mends_it(self) -> None:
        rows = {"t": [[1, 2], *[[1, 3]] * 6], "u": [[1, 9]]}
        seen = cluster(rows, brokers=(1, 2, 3), min_isr=2)
        told = self.held_back(seen)
        assert "1 partition under min.insync.replicas (u-0)" in told
        assert "broker 9 is dead" in told
        assert ready(look(seen, only(Condition.BROKER_DEAD, Condition.DISK_BAND))).scope is Scope.OFFLINE  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("window", "open_at_noon"),
        [
            (Window(660, 780), True),
            (Window(720, 721), True),
            (Window(700, 720), False),
            (Window(1320, 360), False),
            (Window(1320, 721), True),
            (Window(0, 1439, days=(3,)), True),
            (Window(0, 1439, days=(4, 5)), False),
            (Window(1320, 721, days=(2,)), True),
            (Window(1320, 721, days=(3,)), False),
            (Window(13 * 60, 14 * 60, zone="Europe/Berlin"), True),
            (Window(12 * 60, 13 * 60, zone="Europe/Berlin"), False),
            (Window(0, 60, days=(4,), zone="Pacific/Auckland"), True),
        ],
    )
    def test_windows(self, window: Window, open_at_noon: bool) -> None:
        """Noon is that of Thursday, 1970-01-01, in UTC: 13:00 in Berlin, and 00:00 on Friday in Auckland."""
        policy = only(Condition.DISK_BAND, rails=GuardRails(windows=(window,)))
        (proposal,) = look(cluster(LOPSIDED), policy).proposals
        assert proposal.ready is open_at_noon, proposal.held_back
        if not open_at_noon:
            assert ", and windows = " in proposal.held_back[0]

    def test_a_window_is_told_as_it_was_written(self) -> None:
        rails = GuardRails(windows=(Window(1320, 360, (0, 1), "Europe/Berlin"),))
        (proposal,) = look(cluster(LOPSIDED), only(Condition.DISK_BAND, rails=rails)).proposals
        assert proposal.held_back == ("it is Thu 13:00 Europe/Berlin, and windows = Mon,Tue 22:00-06:00 Europe/Berlin",)

    def test_it_cools_off_after_a_person_stopped_something(self) -> None:
        stopped = DONE._replace(turned_at_ms=NOON_MS - 59 * MINUTE_MS, turned_by="anna")
        told = self.held_back(cluster(LOPSIDED, past=(stopped,)), cool_off_minutes=60)
        assert told == "anna stopped or rolled back moves 59 minutes ago, and cool-off-minutes = 60"
        policy = only(Condition.DISK_BAND, rails=GuardRails(cool_off_minutes=59))
        assert ready(look(cluster(LOPSIDED, past=(stopped,)), policy)) is not None

    def test_the_cool_down_runs_from_the_end_of_the_last_execution(self) -> None:
        told = self.held_back(cluster(LOPSIDED, past=(DONE,)), cool_down_minutes=61)
        assert told == "the last execution ended 60 minutes ago, and cool-down-minutes = 61"
        policy = only(Condition.DISK_BAND, rails=GuardRails(cool_down_minutes=60))
        assert ready(look(cluster(LOPSIDED, past=(DONE,)), policy)) is not None

    def test_what_was_moved_today_counts(self) -> None:
        policy = only(Condition.DISK_BAND, rails=GuardRails(moves_per_day=9, bytes_per_day=8 * MIB))
        proposal = ready(look(cluster(LOPSIDED, past=(DONE,)), policy))
        assert proposal is not None
        assert (proposal.moves, proposal.bytes) == (1, MIB)
        day_before = DONE._replace(ended_at_ms=NOON_MS - 24 * 60 * MINUTE_MS)
        unbound = ready(look(cluster(LOPSIDED, past=(day_before,)), policy))
        assert unbound is not None
        assert unbound.moves > 1

    def test_a_day_that_is_spent_is_told(self) -> None:
        policy = only(Condition.DISK_BAND, rails=GuardRails(moves_per_day=7))
        (proposal,) = look(cluster(LOPSIDED, past=(DONE,)), policy).proposals
        assert proposal.held_back == ("7 of 7 moves of moves-per-day were made in the last 24 hours",)
        assert proposal.moves == 4, "what would be done on another day is told"

    def test_a_journal_that_cannot_be_read_holds_everything_back(self) -> None:
        assert "the journal can't be read" in self.held_back(cluster(LOPSIDED, past=None))

    def test_unknown_sizes_and_unknown_moves_hold_back(self) -> None:
        seen = cluster(LOPSIDED)
        blind = replace(
            seen,
            inventory=seen.inventory._replace(unanswered=((2, "timed out"),)),
            check_up=replace(seen.check_up, unread=(("moves", "not allowed"),)),
        )
        told = self.held_back(blind)
        assert "broker 2 did not tell its log dirs" in told
        assert "it is not known which partitions are being moved: not allowed" in told

    def test_a_partition_that_the_next_look_would_take_back_stays_and_the_others_move(self) -> None:
        seen = cluster({"t": [[1, 3]], "u": [[1, 2], [1, 3]]}, racks={1: "a", 2: "b", 3: "a"})
        policy = replace(AT_ONCE, rails=GuardRails(moves=2))
        judged = look(seen, policy)
        told = "the next observation would undo it by scope fill: t-0 would go from [1, 3] to [1, 2] and on to [3, 2]"
        first = {each.scope: each for each in judged.proposals}[Scope.FIX_RACKS]
        assert first.ready
        assert first.undone[0] == f"t-0 stays: {told}"
        assert [f"{each.topic}-{each.partition}" for each in first.changes] == ["u-1"]
        assert first.moves == 1
        while (proposal := ready(judged)) is not None:
            seen = carried_out(seen, proposal)
            judged = look(seen, policy, judged.memory)
        assert "racks" not in held(judged)

    def test_a_frozen_dead_broker_is_told_and_left(self) -> None:
        seen = cluster({"t": [[4, 1], [2, 3]]})
        judged = look(seen, only(Condition.BROKER_DEAD, rails=GuardRails(frozen_brokers=(4,))))
        assert "which stay there: it is frozen" in held(judged)["broker-dead broker 4"]
        assert [each.changes for each in judged.proposals] == [()]


def test_a_proposal_says_how_far_it_is_from_the_least_that_any_plan_copies() -> None:
    """Brokers 1 and 2 hold 6 MiB each, and the band ends at 4.4. So 1.6 MiB have to leave each, in whole replicas."""
    made = look(cluster(LOPSIDED), only(Condition.DISK_BAND)).proposals[0]
    assert made.least_bytes is not None
    assert 3 * MIB < made.least_bytes <= made.bytes == 4 * MIB
    drained = look(cluster(EVEN, brokers=(1, 2, 3, 4)), only(Condition.DRAIN, intents=Intents(drain=(3,)))).proposals[0]
    assert drained.least_bytes == drained.bytes == 2 * MIB
    assert look(cluster(LOPSIDED), only(Condition.LEADERS_BAND)).proposals[0].least_bytes is None


class TestWhatComesFirst:
    """Plans of a large cluster take seconds each, so no plan is made only to be thrown away."""

    def test_what_comes_behind_a_ready_plan_is_not_planned_and_says_so(self) -> None:
        first, *others = look(cluster(LOPSIDED)).proposals
        assert (first.scope, first.ready) == (Scope.FILL, True)
        assert [(each.scope, each.behind, each.changes) for each in others] == [
            (Scope.REBALANCE, Scope.FILL, ()),
            (Scope.LEADERS, Scope.FILL, ()),
        ]
        assert "fill comes first" in others[0].held_back[0]

    def test_a_plan_that_waits_for_what_all_wait_for_comes_first_too(self) -> None:
        policy = replace(AT_ONCE, rails=GuardRails(windows=(Window(0, 60),)))
        first, *others = look(cluster(LOPSIDED), policy).proposals
        assert first.changes
        assert {each.behind for each in others} == {Scope.FILL}

    def test_a_plan_that_waits_for_itself_alone_lets_the_next_one_be_planned(self) -> None:
        watches = {**AT_ONCE.watches, Condition.BROKER_EMPTY: Watch(Mode.PROPOSE, 10)}
        first, second, _ = look(cluster(LOPSIDED), KeeperPolicy(watches)).proposals
        assert "empty broker has to hold for 10 minutes" in first.held_back[0]
        assert (second.scope, second.ready) == (Scope.REBALANCE, True)


def test_a_broker_that_has_just_died_and_is_still_listed_has_no_failed_log_dir() -> None:
    """An outsider's find: nine seconds after a SIGKILL, "33 replicas of broker 5, which is up, are on failed log dirs"."""
    seen = cluster({"t": [[1, 2], [2, 3]]}, failed=(("t", 0, 2),))
    policy = only(Condition.LOG_DIR_FAILED)
    assert [held.sign.subject.about for held in look(seen, policy).holding] == ["broker 2"]
    taken = seen.inventory
    for log_dirs in (None, (Disk("/a", 100, 50),)):
        live = tuple(each._replace(log_dirs=log_dirs) for each in taken.brokers)
        unanswered = () if log_dirs else ((2, "the connection failed"),)
        gone = replace(seen, inventory=taken._replace(brokers=live, unanswered=unanswered))
        assert look(gone, policy).holding == ()
