"""What a check-up comes to: each thing that is wrong has a finding with a way out, and all that is well says so."""

from dataclasses import replace

import pytest

from shunter.core.check_up import diagnose
from shunter.core.throttles import LEADER_REPLICAS, LOG_DIR_RATE
from shunter.model.check_up import (
    MOVES,
    CheckedBroker,
    CheckedJournal,
    CheckedListener,
    CheckedLogDir,
    CheckedTopic,
    CheckUp,
    FencedBroker,
    Finding,
    Level,
    OpenMove,
)
from shunter.model.execution import ObservedPartition, OngoingReassignment, ThrottleKey
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import EligibleLeaders, TopicPartition
from shunter.model.security.listeners import CertificateFault, FaultKind

ALL = frozenset({"READ", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"})
T0 = TopicPartition("t", 0)
HEALTHY = ObservedPartition((1, 2, 3), (1, 2, 3), 1)
NOBODY = CheckedJournal("/j")


def broker(number: int, release: str = "4.1", usable: int = 50, error: str = "", problem: str = "") -> CheckedBroker:
    listener = CheckedListener("PLAINTEXT", f"k{number}:9092", problem, used=True)
    return CheckedBroker(number, None, release, (listener,), (CheckedLogDir("/d", 100, usable, error),))


def cordoned(number: int) -> CheckedBroker:
    return replace(broker(number), log_dirs=(CheckedLogDir("/d", 100, 50, cordoned=True),))


WELL = CheckUp(
    "c",
    1,
    "Apache (KRaft)",
    tuple(broker(number) for number in (1, 2, 3)),
    (CheckedTopic("t", 2, {0: HEALTHY}, ALL),),
    operations=ALL,
    claim_operations=ALL,
    clock_ahead_ms=-300,
)


def test_topics_that_a_driver_writes_to_are_named_when_they_take_no_write() -> None:
    late = CheckedTopic("j", 2, {0: ObservedPartition((1, 2, 3), (3,), 3)}, ALL)
    seen = replace(WELL, topics=(late, replace(late, name="__shunter_words")))
    told = [(each.text, each.advice) for each in bad(seen, replace(NOBODY, topic="j"))]
    why = "has 1 of 2 needed replicas in sync (3 of 1,2,3)"
    up = "see in its log why broker 1 or 2, which is up, is not in sync"
    assert (f"the journal can't be written: topic j {why}", up) in told
    assert (f"people's words can't be written: topic __shunter_words {why}", up) in told
    assert all("can't be written: topic j" not in each.text for each in bad(seen))


def bad(seen: CheckUp, journal: CheckedJournal = NOBODY) -> list[Finding]:
    """Findings that are more than all is well."""
    return [finding for finding in diagnose(seen, journal) if finding.level is not Level.FINE]


def test_a_certificate_of_ours_that_expires_soon_is_told() -> None:
    soon = CertificateFault(FaultKind.EXPIRES, "its certificate (CN=x) expires in 3 days, at …", "renew it")
    assert bad(replace(WELL, certificate=soon)) == [Finding(Level.WARNING, "certificate", soon.told, "renew it")]


def test_what_a_half_step_left_is_named_unless_it_may_be_under_way() -> None:
    wide = ObservedPartition((1, 2, 3, 4), (1, 2, 3, 4), 1)
    brokers = (*WELL.brokers, broker(4))
    seen = replace(WELL, brokers=brokers, topics=(CheckedTopic("t", 2, {0: HEALTHY, 1: HEALTHY, 2: wide}, ALL),))
    plan = "`shunter plan --scope change-replication --topics t --replication 3`"
    (found,) = bad(seen)
    assert (found.level, found.check) == (Level.WARNING, "partitions")
    assert found.text == "1 partition with more than the 3 replicas that most of t have (t-2)"
    assert found.advice.endswith(f"nothing moves them now: {plan} takes them away, or says what holds that up")
    assert bad(replace(seen, topics=(CheckedTopic("t", 2, {0: HEALTHY, 1: wide}, ALL),))) == [], "most of t have none"
    tp = TopicPartition("t", 2)
    between = CheckedJournal("/j", holder="p", moves=(OpenMove(tp, (1, 2, 3), (2, 3, 4), "moving", "forward"),))
    under_way = replace(seen, ongoing={tp: OngoingReassignment((1, 2, 3, 4), (4,), ())})
    for each, journal in ((seen, between), (seen, replace(NOBODY, claimant="p")), (under_way, NOBODY)):
        assert not any(finding.check == "partitions" for finding in bad(each, journal))
    assert not any("more than the 3" in each.text for each in bad(replace(seen, unread=((MOVES, "why"),))))
    thin = HEALTHY._replace(replicas=(1, 2), isr=(1, 2))
    seen = replace(seen, topics=(CheckedTopic("t", 1, {0: HEALTHY, 1: thin, 2: HEALTHY}, ALL),))
    (found,) = [each for each in bad(seen) if each.check == "partitions"]
    assert found.text == "1 partition with fewer than the 3 replicas that most of t have (t-1)"
    assert found.advice.endswith(f"nothing moves them now: {plan} adds them, or says what holds that up")


def test_a_dead_broker_without_replicas_has_none_that_could_go_elsewhere() -> None:
    """An outsider's find: `plan --scope offline` was advised, and had nothing to do."""
    (found,) = [each for each in bad(replace(WELL, fenced=((9, "refuses connections"),))) if "broker 9" in each.text]
    assert "scope offline" not in found.advice
    assert "`kafka-cluster unregister` ends its registration" in found.advice


def test_what_brings_replicas_back_in_sync_is_told_by_what_keeps_them_from_it() -> None:
    """An outsider's find: "start what is down", where every broker was up and a log dir had failed."""
    part = ObservedPartition((1, 2), (1,), 1, (2,))
    seen = replace(WELL, topics=(CheckedTopic("t", 2, {0: part}, ALL),))
    failed = replace(seen, brokers=(broker(1), broker(2, error="KAFKA_STORAGE_ERROR"), broker(3)))
    below = "1 partition with fewer in sync than min.insync.replicas: acks=all is refused (t-0)"
    elsewhere = (
        "; `shunter plan --scope offline --dry-run` shows which offline replicas other brokers can take, and what holds up "
        "the rest"
    )
    for world, way in (
        (failed, "mend the failed log dir of broker 2"),
        # An outsider's find: the log dir of a broker that stopped was said to have failed, where every one worked.
        (seen, "see in the log of broker 2 why no replica there is online (does it start or stop?)"),
    ):
        advice = {each.text: each.advice for each in bad(world) if each.check == "partitions"}
        assert advice == {below: way + elsewhere}
    for slow in (part._replace(offline=()), part._replace(replicas=(1, 2, 3), isr=(1, 2), offline=())):
        (found,) = [
            each
            for each in bad(replace(WELL, topics=(CheckedTopic("t", 2, {0: slow}, ALL),)))
            if each.check == "partitions"
        ]
        assert found.advice == f"see whether broker {slow.replicas[-1]} is slow or throttled"
    dead = replace(seen, brokers=WELL.brokers[:1])
    assert any(each.advice == "start broker 2" + elsewhere for each in bad(dead) if each.check == "partitions")


def test_partitions_that_were_counted_already_are_not_counted_as_out_of_sync_again() -> None:
    """An outsider's find: 34 out of sync were told, and 41 were: seven had been told under acks=all."""
    below, late = (ObservedPartition((1, 2, 3)[:many], isr, 1) for many, isr in ((2, (1,)), (3, (1, 2))))
    seen = replace(WELL, topics=(CheckedTopic("t", 2, {0: below, 1: late}, ALL),))
    told = [each.text for each in bad(seen) if "out of sync" in each.text]
    assert told == ["1 more partition with replicas out of sync (t-1)"]


def test_what_moves_says_nothing_of_how_many_replicas_are_usual() -> None:
    """An outsider's find: a drain that had just added replicas made them usual, and the advice raised the factor."""
    adding = ObservedPartition((4, 2, 3, 1), (2, 3, 1), 2)
    partitions = {number: HEALTHY if number < 2 else adding for number in range(5)}
    seen = replace(WELL, brokers=(*WELL.brokers, broker(4)), topics=(CheckedTopic("t", 2, partitions, ALL),))
    going = {TopicPartition("t", number): OngoingReassignment((4, 2, 3, 1), (4,), (1,)) for number in range(2, 5)}
    assert not any(finding.check == "partitions" for finding in bad(replace(seen, ongoing=going)))


def test_of_a_cluster_that_is_well_every_check_says_so() -> None:
    findings = diagnose(WELL, NOBODY)
    assert bad(WELL) == []
    assert [finding.check for finding in findings] == [
        "brokers",
        "listeners",
        "versions",
        "partitions",
        "min.insync.replicas",
        "disks",
        "moves",
        "throttles",
        "clocks",
        "rights",
    ]
    assert all(finding.text and not finding.advice for finding in findings)


def topic(min_isr: int, *partitions: ObservedPartition, name: str = "t") -> tuple[CheckedTopic, ...]:
    return (CheckedTopic(name, min_isr, dict(enumerate(partitions)), ALL),)


@pytest.mark.parametrize(
    ("seen", "level", "check", "told"),
    [
        (replace(WELL, brokers=WELL.brokers[:2]), Level.PROBLEM, "brokers", "broker 3 is down, and holds 1 replica"),
        (
            replace(WELL, brokers=WELL.brokers[:2], fenced=(FencedBroker(3, ""),)),
            Level.PROBLEM,
            "brokers",
            (
                "broker 3 is fenced: it is registered, but its heartbeats don't reach the controller; it holds 1 replica; "
                "its listener answers"
            ),
        ),
        (
            replace(WELL, fenced=(FencedBroker(4, "refuses connections"),)),
            Level.WARNING,
            "brokers",
            (
                "broker 4 is fenced: it is registered, but its heartbeats don't reach the controller; it holds 0 replicas; "
                "its listener refuses connections"
            ),
        ),
        (
            replace(WELL, brokers=(*WELL.brokers[:2], cordoned(3))),
            Level.NOTE,
            "disks",
            "broker 3: log dir /d is cordoned: it gets no new replicas",
        ),
        (
            replace(WELL, brokers=(*WELL.brokers[:2], broker(3, problem="refuses connections"))),
            Level.PROBLEM,
            "listeners",
            "broker 3: listener PLAINTEXT at k3:9092 refuses connections",
        ),
        (
            replace(WELL, brokers=(*WELL.brokers[:2], broker(3, release="3.9"))),
            Level.WARNING,
            "versions",
            "3.9: broker 3; 4.1: broker 1, 2",
        ),
        (
            replace(WELL, topics=topic(1, ObservedPartition((1, 2, 3), (), -1))),
            Level.PROBLEM,
            "partitions",
            "1 partition with no leader",
        ),
        (
            replace(WELL, topics=topic(1, ObservedPartition((), (), -1))),
            Level.PROBLEM,
            "partitions",
            "1 partition with no replicas",
        ),
        (
            replace(WELL, topics=topic(2, ObservedPartition((1, 2, 3), (1,), 1))),
            Level.PROBLEM,
            "partitions",
            "fewer in sync than min.insync.replicas",
        ),
        (
            replace(WELL, topics=topic(2, ObservedPartition((1, 2, 3), (1, 2), 1))),
            Level.WARNING,
            "partitions",
            "1 partition with replicas out of sync (t-0)",
        ),
        (
            replace(WELL, topics=topic(4, HEALTHY, HEALTHY)),
            Level.PROBLEM,
            "min.insync.replicas",
            "1 topic with fewer replicas",
        ),
        (replace(WELL, topics=topic(3, HEALTHY)), Level.WARNING, "min.insync.replicas", "one that is down stops acks"),
        (
            replace(WELL, topics=topic(1, ObservedPartition((1,), (1,), 1))),
            Level.NOTE,
            "min.insync.replicas",
            "1 topic with one replica",
        ),
        (replace(WELL, brokers=(*WELL.brokers[:2], broker(3, usable=10))), Level.WARNING, "disks", "is 90.0% full"),
        (replace(WELL, brokers=(*WELL.brokers[:2], broker(3, usable=4))), Level.PROBLEM, "disks", "is 96.0% full"),
        (
            replace(WELL, brokers=(*WELL.brokers[:2], broker(3, error="KafkaStorageError"))),
            Level.PROBLEM,
            "disks",
            "log dir /d has failed: KafkaStorageError",
        ),
        (
            replace(WELL, throttles=((ThrottleKey("broker", "1", "r"), "77"),)),
            Level.WARNING,
            "throttles",
            "1 throttle that no execution restores: broker 1 r = 77",
        ),
        (replace(WELL, clock_ahead_ms=61_000), Level.WARNING, "clocks", "clock is 61 s ahead of this host's"),
        (replace(WELL, clock_ahead_ms=-61_000), Level.WARNING, "clocks", "clock is 61 s behind this host's"),
        (replace(WELL, unread=(("topics", "no"),)), Level.WARNING, "unread", "topics could not be looked at: no"),
    ],
)
def test_what_is_wrong_has_a_finding_and_a_way_out(seen: CheckUp, level: Level, check: str, told: str) -> None:
    (found,) = [finding for finding in bad(seen) if finding.check == check]
    assert found.level is level
    assert told in found.text
    assert found.advice


OFFLINE = "`shunter plan --scope offline --dry-run` shows"


@pytest.mark.parametrize(
    ("brokers", "isr", "told"),
    [
        ((*WELL.brokers[:2], broker(4)), (1, 2), OFFLINE),
        ((*WELL.brokers[:2], broker(4)), (3,), "no plan can copy its replicas: no live broker has them in sync"),
        ((*WELL.brokers[:2], broker(3, error="KafkaStorageError")), (1, 2), OFFLINE),
        (
            (*WELL.brokers[:2], broker(3, error="KafkaStorageError")),
            (3,),
            "replace the disk, and restart the broker; or",
        ),
    ],
)
def test_the_plan_of_offline_replicas_is_advised_where_it_has_something_to_copy(
    brokers: tuple[CheckedBroker, ...], isr: tuple[int, ...], told: str
) -> None:
    """What of it can move only the planner knows, so the advice is to look."""
    seen = replace(WELL, brokers=brokers, topics=topic(2, ObservedPartition((1, 2, 3), isr, isr[0], (3,))))
    up = {each.broker for each in brokers}
    about = [
        each for each in bad(seen) if "broker 3" in each.text and each.check == ("disks" if 3 in up else "brokers")
    ]
    (found,) = about
    assert told in found.advice
    assert (OFFLINE in found.advice) == (told == OFFLINE)


def test_a_move_under_way_is_no_partition_out_of_sync() -> None:
    moving = OngoingReassignment((1, 2, 3, 4), (4,), (3,))
    adding = ObservedPartition((1, 2, 3, 4), (1, 2, 3), 1)
    seen = replace(WELL, topics=topic(2, adding), brokers=(*WELL.brokers, broker(4)), ongoing={T0: moving})
    (others,) = bad(seen)
    assert (others.level, others.check) == (Level.NOTE, "moves")
    assert "somebody else moves 1 partition (t-0)" in others.text
    ours = CheckedJournal("/j", holder="process 7", moves=(OpenMove(T0, (1, 2), (1, 3), "moving", "forward"),))
    (driven,) = bad(seen, ours)
    assert "an executor drives the cluster: process 7, 1 move open" in driven.text
    (left,) = bad(seen, replace(ours, holder=""))
    assert left.level is Level.WARNING
    assert "nobody drives 1 open move of journal /j (t-0)" in left.text
    assert "shunter resume" in left.advice
    note, theirs = bad(seen, CheckedJournal("/j", claimant="a service on h"))
    assert (note.advice, theirs.advice) == ("ask there", "ask there: a service on h drives the cluster")
    assert theirs.text == "1 partition being moved (t-0), not by this journal"
    (still,) = bad(seen, replace(ours, holder="", standing=("process 7 stands still", "end it")))
    assert (still.text, still.advice) == ("process 7 stands still, 1 move open", "end it")


def test_a_move_that_ended_while_the_cluster_was_read_is_nobody_elses_and_leaves_nothing_out_of_sync() -> None:
    moving = OngoingReassignment((1, 2, 3, 4), (4,), (3,))
    adding = ObservedPartition((1, 2, 3, 4), (1, 2, 3), 1)
    seen = replace(WELL, topics=topic(2, adding), brokers=(*WELL.brokers, broker(4)))
    (late,) = bad(seen)
    assert "replicas out of sync" in late.text
    assert bad(replace(seen, ended={T0: moving})) == []
    journal = CheckedJournal("/j", just_ended=frozenset({T0}))
    assert bad(replace(seen, ongoing={T0: moving}), journal) == []


COPY = LogDirCopy(T0, 1, "/d", "/e", 2_000_000, 9_000_000)
RATE = (ThrottleKey("broker", "1", LOG_DIR_RATE), "77")


def test_a_copy_between_log_dirs_is_told_and_its_throttle_is_not_to_be_cleared() -> None:
    copying = replace(WELL, brokers=(replace(WELL.brokers[0], copies=(COPY,)), *WELL.brokers[1:]), throttles=(RATE,))
    moves, throttles = bad(copying)
    assert (moves.level, moves.check) == (Level.NOTE, "moves")
    assert moves.text == (
        "somebody else copies 1 replica between log dirs of a broker (t-0 on broker 1 from /d to /e, 2.0 MB of 9.0 MB)"
    )
    assert (throttles.level, throttles.check) == (Level.NOTE, "throttles")
    assert "shunter throttles clear" not in throttles.advice
    ours = CheckedJournal("/j", holder="process 7", moves=(OpenMove(T0, (1, 2), (1, 3), "moving", "forward"),))
    assert [finding.text for finding in bad(copying, ours) if "somebody else" in finding.text] == []


def test_a_throttle_about_which_brokers_differ_has_a_finding_of_its_own() -> None:
    kept = (ThrottleKey("topic", "t", LEADER_REPLICAS), "0:1")
    told = "topic t x = 0:1  (in force on broker 3, not on broker 1, 2)"
    seen = replace(WELL, throttles=(kept,), partial=(told,))
    _listed, differ = bad(seen)
    assert (differ.level, differ.text) == (Level.WARNING, f"brokers differ about 1 throttle of topics: {told}")
    assert differ.advice.startswith("`shunter throttles clear` sets it on every broker")
    moving = replace(seen, ongoing={T0: OngoingReassignment((1, 2, 3), (3,), (2,))})
    assert "when nothing moves any more" in bad(moving)[-1].advice


@pytest.mark.parametrize("what", ["moves", "log dirs of broker 1"])
def test_moves_that_are_not_known_are_not_called_none(what: str) -> None:
    seen = replace(WELL, throttles=(RATE,), unread=((what, "no"),))
    unread, throttles = bad(seen)
    assert (unread.check, throttles.level) == ("unread", Level.NOTE)
    assert "shunter throttles clear" not in throttles.advice
    assert "moves" not in [finding.check for finding in diagnose(seen, NOBODY)]


@pytest.mark.parametrize(
    ("what", "unknown"),
    [
        ("topics", {"brokers", "partitions", "min.insync.replicas"}),
        ("min.insync.replicas", {"min.insync.replicas"}),
        ("listeners of broker 2", {"listeners"}),
        ("log dirs of broker 1", {"disks", "moves"}),
        ("moves", {"moves"}),
        ("throttles", {"throttles"}),
        ("the quorum", set[str]()),
    ],
)
def test_what_could_not_be_looked_at_is_not_called_well(what: str, unknown: set[str]) -> None:
    def well(seen: CheckUp) -> set[str]:
        return {finding.check for finding in diagnose(seen, NOBODY) if finding.level is Level.FINE}

    assert well(WELL) - well(replace(WELL, unread=((what, "not allowed"),))) == unknown


def test_who_drives_the_cluster_under_another_journal_and_what_is_owed_are_told() -> None:
    claimed, owed = bad(WELL, CheckedJournal("/j", claimant="ann on h", owed_to="broker 3"))
    assert claimed.text.endswith("driven by ann on h")
    assert (owed.check, owed.text) == ("throttles", "throttles are owed to broker 3")


def test_throttles_of_who_drives_the_cluster_under_another_journal_are_not_to_be_cleared() -> None:
    seen = replace(WELL, throttles=((ThrottleKey("broker", "1", "r"), "77"),))
    _driven, set_there = bad(seen, CheckedJournal("/j", claimant="ann on h"))
    assert (set_there.level, set_there.check) == (Level.NOTE, "throttles")
    assert set_there.text == "1 throttle that this journal does not know: broker 1 r = 77"
    assert "shunter throttles clear" not in set_there.advice


def test_a_controller_that_does_not_answer_is_a_problem_with_the_brokers_to_start() -> None:
    hung = replace(broker(1, problem="does not answer within 2 s"), silent=True)
    seen = replace(
        WELL,
        controller=None,
        brokers=(hung, broker(2), broker(3, problem="refuses connections")),
        fenced=(FencedBroker(4, "refuses connections"), FencedBroker(5, "")),
    )
    assert "the controller fences it" in next(each.advice for each in bad(seen) if "listed as live" in each.text)
    lost = replace(
        seen, unanswered=("the quorum", "moves"), unread=(("the quorum", "w"), ("moves", "w"), ("topics", "w"))
    )
    (quorum,) = [each for each in bad(lost) if each.check == "quorum"]
    assert quorum.level is Level.PROBLEM
    assert quorum.text.startswith(
        "no controller answers (the quorum, moves): a leader of the metadata quorum that hangs"
    )
    way = "restart what hangs: broker 1; start brokers 3, 4; start each controller that is down; then look again"
    assert quorum.advice == way
    assert [each.text for each in bad(lost) if each.check == "unread"] == ["topics could not be looked at: w"]
    assert "the controller fences it" not in " ".join(each.advice for each in bad(lost))


def test_throttles_beside_open_moves_that_nobody_drives_are_not_to_be_cleared() -> None:
    left = CheckedJournal("/j", moves=(OpenMove(T0, (1, 2), (1, 3), "paused", "forward"),))
    _undriven, throttles = bad(replace(WELL, throttles=(RATE,)), left)
    assert (throttles.level, throttles.check) == (Level.NOTE, "throttles")
    assert "shunter throttles clear" not in throttles.advice


def test_a_topic_with_one_replica_needs_no_lower_min_insync() -> None:
    (found,) = bad(replace(WELL, topics=topic(1, ObservedPartition((1,), (1,), 1))))
    assert found.advice == "raise their replication"


def test_what_may_not_be_done_is_told_by_the_commands_that_need_it() -> None:
    reader = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})
    seen = replace(
        WELL,
        operations=reader,
        claim_operations=frozenset(),
        topics=(CheckedTopic("t", 2, {0: HEALTHY}, reader), CheckedTopic("u", 2, {0: HEALTHY}, ALL)),
    )
    assert [finding.text for finding in bad(seen)] == [
        "not allowed for execute, resume, rollback, stop, undo: ALTER on Cluster; READ on Group shunter-executor",
        "not allowed for --throttle, pause, limit, throttles clear: ALTER_CONFIGS on Cluster; ALTER_CONFIGS on Topic t",
    ]
    (untold,) = bad(replace(WELL, operations=None))
    assert untold.level is Level.NOTE


def nobody_leads(isr: tuple[int, ...], told: EligibleLeaders | None) -> Finding:
    """Brokers 1 and 2 are down, and a log dir of broker 3 failed."""
    seen = replace(
        WELL, brokers=(broker(3, error="KAFKA_STORAGE_ERROR"),), topics=topic(1, HEALTHY._replace(isr=isr, leader=-1))
    )
    (found,) = [
        each for each in bad(replace(seen, eligible={} if told is None else {T0: told})) if each.check == "partitions"
    ]
    assert (found.level, found.check) == (Level.PROBLEM, "partitions")
    assert found.text == "1 partition with no leader: nobody can read or write there (t-0)"
    return found


@pytest.mark.parametrize(
    ("isr", "told", "advice"),
    [
        ((2,), None, "start broker 2: it is in the ISR; if that"),
        (
            (),
            EligibleLeaders((1, 2), (1,)),
            "start brokers 1, 2: each is an eligible leader (ELR); who ended by a kill is struck",
        ),
        (
            (),
            EligibleLeaders((2, 3), (2,)),
            (
                "start broker 2: it is an eligible leader (ELR); who ended by a kill is struck off at its start, and so is broker 3 "
                "at any restart, by SIGTERM too: its failed log dir takes no clean-shutdown file; when all are struck off, Kafka "
                "takes the last known leader, broker 2, once it is up, with what it has"
            ),
        ),
        (
            (),
            EligibleLeaders((3,), (3,)),
            (
                "mend the failed log dir of broker 3: it is an eligible leader (ELR); who ended by a kill is struck off at its "
                "start, and so is broker 3 at any restart, by SIGTERM too: its failed log dir takes no clean-shutdown file; when"
            ),
        ),
        (
            (),
            EligibleLeaders((), (3,)),
            "mend the failed log dir of broker 3: it is the last known leader; no other replica is up, so an UNCLEAN",
        ),
        ((), EligibleLeaders(), "start what is down: no replica is known to have every record; if that"),
        ((), None, "start what is down: no replica is known to have every record; if that"),
    ],
)
def test_where_nobody_leads_those_are_named_who_have_the_data(
    isr: tuple[int, ...], told: EligibleLeaders | None, advice: str
) -> None:
    """With eligible leader replicas the ISR of a partition without a leader is empty."""
    assert nobody_leads(isr, told).advice.startswith(advice)


def test_a_broker_that_is_listed_and_silent_is_a_problem_of_its_own() -> None:
    silent = replace(broker(3, problem="does not answer within 3 s"), silent=True, log_dirs=())
    (found,) = bad(replace(WELL, brokers=(*WELL.brokers[:2], silent)))
    assert (found.level, found.check) == (Level.PROBLEM, "brokers")
    assert found.text == "broker 3 is listed as live, and does not answer within 3 s"


def test_where_no_other_replica_is_left_nobody_is_told_to_elect_one() -> None:
    seen = replace(WELL, topics=topic(1, ObservedPartition((2,), (), -1)), eligible={T0: EligibleLeaders((2,))})
    advice = next(each.advice for each in bad(seen) if each.check == "partitions")
    way = "see in the log of broker 2 why no replica there is online (does it start or stop?)"
    struck = "who ended by a kill is struck off at its start, so restart by SIGTERM who is up"
    assert advice == f"{way}: it is an eligible leader (ELR); {struck}"


@pytest.mark.parametrize(
    ("adding", "replicas", "told"),
    [
        ((), (1, 4, 2, 5), "UNCLEAN` takes broker 4, the first live replica, and loses what that one lacks"),
        # An outsider lost 359 records: Kafka took the addition, which stood before a replica with nearly all of them.
        ((4,), (1, 4, 2, 5), "no UNCLEAN election while the move runs: it would take broker 4, the first live replica"),
        (
            (4,),
            (1, 2, 4, 5),
            "takes broker 2, the first live replica, and loses what that one lacks; stop the move before",
        ),
        ((4, 2), (1, 4, 2, 5), "no UNCLEAN election: the live replica is one that a move adds"),
    ],
)
def test_an_unclean_election_is_not_offered_where_it_would_take_what_a_move_adds(
    adding: tuple[int, ...], replicas: tuple[int, ...], told: str
) -> None:
    """The brokers 1 and 5 are down, and Kafka takes the first live replica in the order of the assignment."""
    moves = {T0: OngoingReassignment(tuple(b for b in replicas if b != 5), adding, (5,))} if adding else {}
    part = ObservedPartition(replicas, (), -1)
    seen = replace(
        WELL,
        brokers=tuple(map(broker, (2, 3, 4))),
        topics=topic(1, part),
        ongoing=moves,
        eligible={T0: EligibleLeaders((1, 5))},
    )
    (found,) = [each for each in bad(seen) if "no leader" in each.text]
    assert told in found.advice


@pytest.mark.parametrize(
    ("isr", "way"), [((), "; Kafka refuses a rollback until then"), ((5,), "; `shunter rollback t-0` cancels it")]
)
def test_a_move_from_a_dead_broker_is_not_to_be_waited_for_and_its_empty_replica_not_to_be_elected(
    isr: tuple[int, ...], way: str
) -> None:
    """An outsider's find: "wait for their end", and an election that would have lost all records."""
    moving = {T0: OngoingReassignment((5, 2), (2,), (5,))}
    seen = replace(WELL, topics=topic(1, ObservedPartition((5, 2), isr, -1, (5,))), ongoing=moving)
    seen = replace(seen, eligible={T0: EligibleLeaders((), (5,))})
    leaderless = next(each.advice for each in bad(seen) if each.check == "partitions")
    assert leaderless.startswith("start broker 5: it is")
    assert "no UNCLEAN election: the live replica is one that a move adds" in leaderless
    assert "kafka-leader-election" not in leaderless
    (move,) = [each for each in bad(seen) if each.check == "moves"]
    assert (move.level, move.text) == (Level.WARNING, "somebody else moves 1 partition that can't end now (t-0)")
    assert move.advice.startswith("t-0: it can't end without broker 5, which is down: no live broker has all records; ")
    assert move.advice.endswith(way)
    (theirs,) = [each for each in bad(replace(seen, controlled_by="Shunter")) if each.check == "moves"]
    assert "wait for their end" in theirs.advice


@pytest.mark.parametrize(
    ("partition", "told"),
    [
        (ObservedPartition((1, 2, 3), (1, 2), 1, (3,)), True),
        (ObservedPartition((1, 2, 3), (1,), 1, (2, 3)), True),
        (HEALTHY, False),
        (ObservedPartition((1, 2, 3, 4), (1, 2, 3), 1, (4,)), False),
    ],
)
def test_a_topic_that_can_lose_no_replica_now_is_not_said_to_survive_one(
    partition: ObservedPartition, *, told: bool
) -> None:
    """An outsider's find: with a dead broker doctor said that every topic can lose a replica."""
    found = diagnose(replace(WELL, topics=topic(2, HEALTHY, partition)), NOBODY)
    (of_isr,) = [each for each in found if each.check == "min.insync.replicas"]
    worn = "1 topic can lose no replica now: no more are in sync than min.insync.replicas (t)"
    assert of_isr.text == (worn if told else "every topic can lose a replica and still be written with acks=all")
    assert (of_isr.level is Level.WARNING) == told


def test_each_partition_of_a_topic_is_judged_by_its_own_cause() -> None:
    """An outsider's find: a topic with one thin partition was left out of those that a dead broker had worn."""
    worn, thin = ObservedPartition((1, 2, 3), (1, 2), 1, (3,)), ObservedPartition((1, 2), (1, 2), 1)
    found = diagnose(replace(WELL, topics=topic(2, worn, thin)), NOBODY)
    assert [each.text for each in found if each.check == "min.insync.replicas"] == [
        "1 topic with as many replicas as min.insync.replicas: one that is down stops acks=all (t)",
        "1 topic can lose no replica now: no more are in sync than min.insync.replicas (t)",
    ]


def test_a_cordon_of_the_journal_is_told_with_its_plan_and_its_way_out() -> None:
    seen = replace(WELL, brokers=(*WELL.brokers[:2], cordoned(3)))
    (known,) = bad(seen, CheckedJournal("/j", cordons={3: "drain-0a1b2c"}))
    assert known.text == "broker 3: log dir /d is cordoned by plan drain-0a1b2c: it gets no new replicas"
    assert known.advice == "nothing, if that is meant; else `shunter undrain 3`"
    (strange,) = bad(seen, CheckedJournal("/j", cordons={2: "drain-0a1b2c"}))
    assert strange.advice == "nothing, if that is meant; else take it out of `cordoned.log.dirs`"


@pytest.mark.parametrize(
    ("problem", "advice"),
    [("refuses connections", "start it; "), ("does not answer within 3 s", "see in its log"), ("", "see in its log")],
)
def test_what_to_do_about_a_fenced_broker_depends_on_its_listener(problem: str, advice: str) -> None:
    (told,) = [
        each for each in diagnose(replace(WELL, fenced=(FencedBroker(4, problem),)), NOBODY) if "fenced" in each.text
    ]
    assert told.advice.startswith(advice)
