"""Topics: created, grown and deleted as by Apache's controller; and requests that are too large."""

import time
from collections import Counter
from itertools import pairwise
from uuid import UUID

import pytest
from harness import Harness, broker, size_of

from shunter.core.controller.events import (
    NewTopic,
    PartitionsSubmitted,
    TimePassed,
    TopicDeletionsSubmitted,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.outbox import ALL_WAIT_MS
from shunter.core.controller.ready import RefusedReply, SendUpdateMetadata, TopicResult, TopicResultsReply
from shunter.core.controller.state import TopicState
from shunter.core.controller.tasks import Priority, Task
from shunter.core.controller.topics import changes as topics
from shunter.core.controller.topics.deletions import BEGUN_AT_ONCE
from shunter.core.controller.topics.placement import place_partitions
from shunter.core.controller.topics.replies import STRANGERS_MS
from shunter.drivers.zookeeper.requests import JUTE_LIMIT
from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.records import PutTopic
from shunter.model.topic import Topic, TopicSnapshot

INCONSISTENT = (
    "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [2, 3] have "
    "replication factors [3, 1], respectively."
)


def new_topic(name, partitions=-1, factor=-1, assignments=None, seed=0, **configs):
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    return NewTopic(name, UUID(int=abs(hash(name)) + 1), partitions, factor, assignments or {}, configs, seed)


def create(world, *new, token=77, validate_only=False):
    world.feed(TopicsSubmitted(new, validate_only, token))
    return world.replies[token].topics


def grow(world, name, total, assignments=None, token=78, validate_only=False):
    world.feed(PartitionsSubmitted({name: (total, assignments)}, validate_only, token))
    (result,) = world.replies[token].topics
    return result.error, result.message


# ---- placement


def rows(brokers, racks, count, factor, **where):
    known = [broker(id_, 1)._replace(rack=racks.get(id_)) for id_ in brokers]
    return place_partitions(known, count, factor, **where)


def test_replicas_go_round_as_in_apaches_example():
    """AdminUtils: "the first replica of each partition by round-robin", "the remaining … with an increasing shift"."""
    placed = rows(range(5), {}, 10, 3, start=0, shift=0)
    assert placed[:6] == ((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1), (0, 2, 3))


def test_racks_are_apart_as_in_apaches_example():
    """AdminUtils: 0 -> rack1, 1 -> rack3, 2 -> rack3, 3 -> rack2, 4 -> rack2, 5 -> rack1."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    placed = rows(range(6), racks, 7, 3, start=0, shift=0)
    assert placed == ((0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2))


@pytest.mark.parametrize("seed", range(12))
def test_a_topic_that_grows_has_even_preferred_leaders(seed):
    """Issue: one topic grown from 3 to 12 must give preferred leaders 4/4/4 on three brokers."""
    world = Harness(brokers=(1, 2, 3)).start()
    create(world, new_topic("t", 3, 2, seed=seed))
    for total in (4, 7, 12):
        assert grow(world, "t", total, token=100 + total) == (ErrorCode.NONE, None)
    preferred = Counter(each.replicas[0] for each in world.store.topics["t"].assignments.values())
    assert preferred == {1: 4, 2: 4, 3: 4}


# ---- refusals, in Apache's words


def test_names_are_refused_in_apaches_words():
    world = Harness().start()
    create(world, new_topic("a.b", 1, 1), token=1)
    told = {
        result.name: (result.error, result.message)
        for result in create(
            world,
            *(new_topic(name, 1, 1) for name in ("", "..", "x" * 250, "a b", "a_b", "a.b", "__cluster_metadata")),
        )
    }
    illegal = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert told[""] == (illegal, "Topic name is invalid: the empty string is not allowed")
    assert told[".."] == (illegal, "Topic name is invalid: '..' is not allowed")
    assert told["x" * 250][1].endswith("is longer than the max allowed length 249")
    assert told["a b"][1].endswith("contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    assert told["a_b"] == (illegal, "Topic 'a_b' collides with existing topics: a.b")
    assert told["a.b"] == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")
    assert told["__cluster_metadata"] == (
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )
    assert set(world.store.topics) == {"a.b"}


def test_two_topics_of_one_request_that_collide_are_not_both_made():
    world = Harness().start()
    results = create(world, new_topic("a.b", 1, 1), new_topic("a_b", 1, 1))
    assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_numbers_and_assignments_are_refused_in_apaches_words():
    world = Harness(brokers=(1, 2, 3)).start()
    asked = {
        "none": new_topic("none", 0, 1),
        "factorless": new_topic("factorless", 1, 0),
        "wide": new_topic("wide", 1, 4),
        "uneven": new_topic("uneven", assignments={0: (1,), 1: (1, 2)}),
        "gap": new_topic("gap", assignments={0: (1,), 2: (1,)}),
        "twice": new_topic("twice", assignments={0: (1, 1)}),
        "us": new_topic("us", assignments={0: (1, world.settings.broker_id)}),
        "below": new_topic("below", assignments={0: (-3,)}),
    }
    told = {result.name: (result.error.value, result.message) for result in create(world, *asked.values())}
    assert told["none"] == (37, "Number of partitions must be larger than 0.")
    assert told["factorless"] == (38, "Replication factor must be larger than 0.")
    assert told["wide"] == (38, "Replication factor: 4 larger than available brokers: 3.")
    assert told["uneven"] == (39, "All partitions should have the same number of replicas")
    assert told["gap"] == (39, "partitions should be a consecutive 0-based integer sequence")
    assert told["twice"][1].startswith("Duplicate replica assignment found: ")
    assert [told[name][0] for name in ("twice", "us", "below")] == [39, 39, 39]
    assert not world.store.topics


def test_a_manual_assignment_may_name_a_broker_that_is_down():
    """Apache: "we don't check that replicaAssignment contains unknown brokers"; rolling restarts need it."""
    world = Harness().start()
    world.kill(3)
    (result,) = create(world, new_topic("t", assignments={0: (3, 1), 1: (1, 2)}))
    assert result.error is ErrorCode.NONE
    assert world.replicas(("t", 0)) == (3, 1)
    assert world.leadership(("t", 0)).leader == 1
    world.revive(3)
    world.catch_up_all()
    assert set(world.leadership(("t", 0)).isr) == {1, 3}


def test_new_partitions_are_refused_in_apaches_words():
    world = Harness(brokers=(1, 2, 3)).start()
    create(world, new_topic("t", assignments={0: (1, 2), 1: (2, 3)}))
    told = {
        "fewer": grow(world, "t", 1, token=1),
        "same": grow(world, "t", 2, token=2),
        "unknown": grow(world, "absent", 2, token=3),
        "factor": grow(world, "t", 4, ((1, 2, 3), (1,)), token=4),
        "count": grow(world, "t", 4, ((1, 2),), token=5),
        "empty": grow(world, "t", 3, ((),), token=6),
        "twice": grow(world, "t", 3, ((1, 1),), token=7),
        "dead": grow(world, "t", 3, ((1, 9),), token=8),
    }
    assert told == {
        "fewer": (37, "Topic currently has 2 partitions, which is higher than the requested 1."),
        "same": (37, "Topic already has 2 partitions."),
        "unknown": (3, "The topic 'absent' does not exist."),
        "factor": (
            39,
            INCONSISTENT,
        ),
        "count": (39, "Increasing the number of partitions by 2 but 1 assignments provided."),
        "empty": (39, "Cannot have replication factor of 0 for partition id 2."),
        "twice": (39, "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2."),
        "dead": (39, "Unknown broker(s) in replica assignment: 9."),
    }


def test_a_topic_that_somebody_wrote_with_gaps_can_not_grow():
    world = Harness().start()
    odd = Topic("odd", UUID(int=3), {1: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["odd"] = odd
    world.feed(TopicsRead((TopicSnapshot(odd, {}, {}),)))
    error, told = grow(world, "odd", 5)
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "do not count up from 0" in told


def test_a_topic_that_is_being_deleted_can_neither_grow_nor_be_made_anew():
    world = Harness().start()
    create(world, new_topic("t", assignments={0: (1, 2)}), token=1)
    world.kill(2)
    world.feed(TopicDeletionsSubmitted(("t",), 2))
    assert grow(world, "t", 5) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    (result,) = create(world, new_topic("t", 1, 1), token=3)
    assert (result.error, result.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' is marked for deletion.")


def test_with_deletion_disabled_an_unknown_topic_too_is_told_that():
    world = Harness(delete_topics=False).start()
    world.feed(TopicDeletionsSubmitted(("absent",), 5))
    (result,) = world.replies[5].topics
    assert result.error is ErrorCode.TOPIC_DELETION_DISABLED


# ---- configurations


@pytest.mark.parametrize("validate_only", [False, True])
def test_an_invalid_configuration_refuses_its_topic_alone(validate_only):
    """Issue: `retention.ms=7d` was accepted, and no broker that restarted came up again."""
    world = Harness().start()
    bad, good = create(
        world,
        new_topic("bad", 1, 1, retention_ms="7d"),
        new_topic("good", 1, 1, retention_ms="7"),
        validate_only=validate_only,
    )
    assert bad.error is ErrorCode.INVALID_CONFIG
    assert bad.message == "Invalid value 7d for configuration retention.ms: Not a number of type LONG"
    assert not bad.configs
    assert good.error is ErrorCode.NONE
    assert ("retention.ms", "7") in {(config.name, config.value) for config in good.configs}
    assert set(world.store.topics) == (set() if validate_only else {"good"})


# ---- the time of the answer


def test_new_topics_are_answered_when_brokers_know_them():
    world = Harness().start()
    create(world, new_topic("before", assignments={0: (1,)}))
    world.silent.add(1)
    world.feed(TopicsSubmitted((new_topic("t", assignments={0: (2, 3)}),), False, 5))
    assert world.leadership(("t", 0)).leader == 2
    assert 5 not in world.replies, "broker 1 has not heard of it"
    world.silent.clear()
    world.answer_all()
    assert world.replies[5].topics[0].error is ErrorCode.NONE


def test_new_partitions_are_answered_when_they_have_leaders_and_brokers_know_them():
    world = Harness().start()
    create(world, new_topic("t", assignments={0: (2, 3)}))
    world.silent.add(2)
    world.feed(PartitionsSubmitted({"t": (3, None)}, False, 6))
    assert 6 not in world.replies
    world.silent.clear()
    world.answer_all()
    assert world.replies[6].topics[0].error is ErrorCode.NONE
    assert all(world.leadership(("t", number)) is not None for number in range(3))


def test_a_deletion_is_answered_when_brokers_have_forgotten_the_topic():
    world = Harness().start()
    create(world, new_topic("t", assignments={0: (2, 3)}))
    world.silent.add(1)
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    assert 7 not in world.replies
    world.silent.clear()
    world.answer_all()
    assert world.replies[7].topics[0].error is ErrorCode.NONE


def test_a_deletion_is_answered_before_its_replicas_are_deleted():
    """As Apache's controller answers: a client that asks for more partitions now is told of the deletion."""
    world = Harness().start()
    create(world, new_topic("t", assignments={0: (2, 3)}))
    world.silent.update((2, 3))
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    assert 7 not in world.replies
    waiting, world.unanswered = world.unanswered, []
    for to, request in waiting:
        if isinstance(request, SendUpdateMetadata):
            world._receive(to, request)
        else:
            world.unanswered.append((to, request))
    world.run()
    assert world.replies[7].topics[0].error is ErrorCode.NONE
    assert "t" in world.store.topics
    world.feed(PartitionsSubmitted({"t": (3, None)}, False, 8))
    world.answer_all()
    assert world.replies[8].topics[0].message == "The topic is queued for deletion."
    assert "t" not in world.store.topics


def test_a_topic_made_anew_with_fewer_partitions_while_its_first_leaders_are_written():
    """Found by simulation (seed 96341988): the controller ended when it heard that the write had succeeded."""
    world = Harness().start()
    world.hold_writes = True
    both = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3))}
    world.store.topics["t"] = Topic("t", UUID(int=1), both)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    (batch,) = world.held_batches
    written = world.store.write(batch)
    world.held_batches.clear()
    world.store.topics["t"] = Topic("t", UUID(int=2), {0: ReplicaAssignment((3, 1))})
    world.store.states.clear()
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.feed(written)
    assert list(world.machine.state.topics["t"].partitions) == [0]


def test_nobody_waits_for_a_broker_that_does_not_answer():
    world = Harness(slow_broker_ms=5_000).start()
    world.silent.add(1)
    world.feed(TopicsSubmitted((new_topic("t", assignments={0: (2, 3)}),), False, 5))
    assert world.wake_at_ms is not None
    assert world.wake_at_ms <= world.now_ms + 5_000
    world.pass_time(5_000)
    assert world.replies[5].topics[0].error is ErrorCode.NONE


def test_a_broker_that_has_nothing_to_do_with_a_topic_holds_its_answer_up_for_a_second():
    world = Harness(slow_broker_ms=10_000).start()
    world.silent.add(1)
    world.feed(TopicsSubmitted((new_topic("t", assignments={0: (2, 3)}),), False, 5))
    world.pass_time(ALL_WAIT_MS)
    assert world.leadership(("t", 0)).leader == 2
    world.pass_time(STRANGERS_MS - 1)
    assert 5 not in world.replies
    assert world.wake_at_ms is not None
    assert world.wake_at_ms <= world.now_ms + 1
    world.pass_time(1)
    assert world.replies[5].topics[0].error is ErrorCode.NONE
    world.feed(TopicDeletionsSubmitted(("t",), 6))
    world.pass_time(ALL_WAIT_MS)
    world.pass_time(STRANGERS_MS)
    assert world.replies[6].topics[0].error is ErrorCode.NONE


def test_a_broker_that_hosts_a_topic_is_waited_for_as_long_as_for_anything():
    world = Harness(slow_broker_ms=10_000).start()
    world.silent.add(3)
    world.feed(TopicsSubmitted((new_topic("t", assignments={0: (2, 3)}),), False, 5))
    world.pass_time(STRANGERS_MS)
    world.pass_time(8_000)
    assert 5 not in world.replies
    world.silent.clear()
    world.answer_all()
    assert world.replies[5].topics[0].error is ErrorCode.NONE


def test_a_refusal_does_not_wait_while_a_great_topic_is_made():
    world = Harness().start()
    create(world, new_topic("there", 1, 1))
    world.hold_writes = True
    world.feed(TopicsSubmitted((new_topic("great", 5_000, 3),), False, 5), TopicsSubmitted((new_topic("v"),), False, 6))
    there, bad = new_topic("there"), new_topic("bad", 1, 1, retention_ms="7d")
    world.feed(TopicsSubmitted((there,), False, 7), TopicsSubmitted((bad,), False, 8))
    world.feed(PartitionsSubmitted({"absent": (3, None)}, False, 9), TopicDeletionsSubmitted(("absent",), 10))
    world.feed(TopicsSubmitted((there, new_topic("w")), False, 11))
    assert {token for token in world.replies if token in range(5, 12)} == {7, 8, 9, 10}
    world.hold_writes = False
    world.release_writes()
    assert {token for token in world.replies if token in range(5, 12)} == {5, 6, 7, 8, 9, 10, 11}
    assert codes(world, 11) == {"there": ErrorCode.TOPIC_ALREADY_EXISTS, "w": 0}


# ---- too much


def greatest(world):
    """Bytes of the greatest batch that was written."""
    return max(sum(map(size_of, batch)) for batch in world.store.log)


def test_a_topic_that_fits_no_batch_is_refused_with_a_sentence():
    """Issue: CreateTopics of 60,000 partitions x 3 ended the controller, and the client's retries the next one."""
    world = Harness().start()
    (result,) = create(world, new_topic("t", 60_000, 3))
    assert result.error is ErrorCode.INVALID_PARTITIONS
    assert "can't have 60000 partitions" in result.message
    assert not world.store.topics


@pytest.mark.parametrize("total", [300_000, 2**31 - 1])
def test_a_growth_that_fits_no_batch_is_refused_before_anything_is_placed(total):
    world = Harness().start()
    create(world, new_topic("t", 3, 3))
    began = time.process_time()
    error, told = grow(world, "t", total)
    assert time.process_time() - began < 0.1
    assert error is ErrorCode.INVALID_PARTITIONS
    assert f"can't have {total} partitions" in told


def test_a_manual_assignment_that_fits_no_batch_is_refused():
    world = Harness().start()
    (result,) = create(world, new_topic("t", assignments=dict.fromkeys(range(60_000), (1, 2, 3))))
    assert result.error is ErrorCode.INVALID_PARTITIONS
    assert grow(world, "t", 3)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_greatest_topic_is_made_and_grown_in_batches_that_fit():
    world = Harness().start()
    (result,) = create(world, new_topic("t", 15_000, 3))
    assert result.error is ErrorCode.NONE
    assert all(world.leadership(("t", number)) is not None for number in range(15_000))
    assert grow(world, "t", 20_000) == (ErrorCode.NONE, None)
    assert grow(world, "t", 60_000, token=79)[0] is ErrorCode.INVALID_PARTITIONS
    world.feed(TopicDeletionsSubmitted(("t",), 80))
    assert not world.store.topics
    assert greatest(world) < JUTE_LIMIT


def test_many_topics_with_large_configurations_are_made_in_batches_that_fit():
    """Issue: 500 topics with large configurations made a multi above 1,040,000 bytes."""
    world = Harness().start()
    listed = ",".join(f"{number}:{number % 4 + 1}" for number in range(2_000))
    configs = {"leader_replication_throttled_replicas": listed}
    results = create(world, *(new_topic(f"t{number}", 2, 2, **configs) for number in range(500)))
    assert {result.error for result in results} == {ErrorCode.NONE}
    assert greatest(world) < JUTE_LIMIT
    assert len(world.store.topics) == 500


def test_a_configuration_that_fits_no_batch_is_refused():
    world = Harness().start()
    (result,) = create(world, new_topic("t", 1, 1, leader_replication_throttled_replicas="1:1," * 200_000))
    assert result.error is ErrorCode.INVALID_CONFIG
    assert "takes up to" in result.message


def test_brokers_can_list_all_topics():
    """KafkaZkClient sets its client's jute.maxbuffer to 4 MiB: a broker that can't list the topics does not start."""
    world = Harness().start()
    long = "x" * 240
    many = {f"{long}{number:05}": TopicState(f"{long}{number:05}", UUID(int=number + 1), 0) for number in range(16_000)}
    world.machine.state.topics.update(many)
    first, second = create(world, new_topic("y" * 249, 1, 1), new_topic("z" * 249, 1, 1), validate_only=True)
    assert first.error is second.error is ErrorCode.NONE
    world.machine.state.topics.update({f"w{name}"[:249]: topic for name, topic in list(many.items())[:100]})
    (third,) = create(world, new_topic("y" * 249, 1, 1), token=78)
    assert third.error is ErrorCode.POLICY_VIOLATION
    assert "brokers can't list more" in third.message


def test_a_replication_factor_has_16_bits():
    world = Harness().start()
    (result,) = create(world, new_topic("t", assignments={0: tuple(range(1_000, 40_000))}))
    assert result.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "32767 is the most" in result.message


def test_many_topics_with_long_names_are_deleted_in_batches_that_fit():
    """The deletions of their replicas are acknowledged together, so all topics have to be removed at once."""
    world = Harness(brokers=(1, 2)).start()
    names = [f"{'x' * 200}{number}" for number in range(300)]
    create(world, *(new_topic(name, 20, 1) for name in names))
    world.feed(TopicDeletionsSubmitted(tuple(names), 9))
    world.answer_all()
    assert not world.store.topics
    assert greatest(world) < JUTE_LIMIT


def test_long_names_do_not_make_great_slices():
    world = Harness(slice_partitions=1_000).start()
    create(world, new_topic("x" * 249, 5_000, 3))
    assert greatest(world) < JUTE_LIMIT


def test_a_look_at_great_topics_holds_nobody_up():
    """A request that is only to be validated writes nothing, but it is work all the same, and is sliced."""
    world = Harness().start()
    left = [12]
    world.events.append(TopicsSubmitted(tuple(new_topic(f"t{n}", 20_000, 3) for n in range(12)), True, 5))
    while world.events:
        world._handle(world.events.popleft())
        left.append(world.machine.intake.queue.pending())
    assert {result.error for result in world.replies[5].topics} == {ErrorCode.NONE}
    assert {before - after for before, after in pairwise(left)} <= {0, 1, 2}


# ---- a request that meets a bug


def ask(world, names, token, broken=()):
    """A request for deletions, whose decision fails for some names."""

    def decide(draft, name):
        if name in broken:
            raise InvariantViolation("this test has a bug", name=name)
        return topics.mark_for_deletion(draft, world.settings, name)

    def finish(results):
        return [(token, TopicResultsReply(ErrorCode.NONE, tuple(results)))]

    task = Task(Priority.NORMAL, names, decide, finish, f"request {token} from 10.0.0.1", refuse=TopicResult)
    world.machine.intake.queue.add(task)


def codes(world, token):
    return {result.name: result.error.value for result in world.replies[token].topics}


def test_a_request_that_meets_a_bug_is_refused_and_the_others_are_carried_out():
    world = Harness().start()
    create(world, *(new_topic(name, 1, 1) for name in "abcdef"))
    ask(world, ("a",), 1)
    ask(world, ("b", "c", "d"), 2, broken="c")
    ask(world, ("e",), 3)
    world.feed(TimePassed())
    assert codes(world, 1) == {"a": 0}
    assert codes(world, 2) == {"b": -1, "c": -1, "d": -1}
    assert codes(world, 3) == {"e": 0}
    assert set(world.store.topics) == {"b", "c", "d", "f"}
    assert world.machine.requests_refused == 1
    (notice,) = world.told("request-met-a-bug")
    assert notice.about == "request 2 from 10.0.0.1"
    assert "this test has a bug" in notice.text
    assert "InvariantViolation" in world.replies[2].topics[0].message


def test_what_of_a_request_was_done_before_the_bug_is_told():
    world = Harness(slice_partitions=500).start()
    names = [f"t{number:04}" for number in range(1_800)]
    create(world, *(new_topic(name, assignments={0: (1,)}) for name in names))
    ask(world, names, 2, broken={"t1700"})
    world.feed(TimePassed())
    told = codes(world, 2)
    done = {name for name, code in told.items() if code == 0}
    assert done
    assert set(names) - done == set(world.store.topics)
    assert told["t1700"] == -1


def test_what_nobody_asked_for_has_to_be_done():
    """A bug in such work ends the controller, and the next one does the work: this one can't control the cluster."""
    world = Harness().start()

    def decide(draft, item):
        raise InvariantViolation("this test has a bug", item=item)

    world.machine.intake.queue.add(Task(Priority.LIVENESS, ("t",), decide))
    with pytest.raises(InvariantViolation, match="this test has a bug"):
        world.feed(TimePassed())


def test_a_request_that_can_not_even_be_taken_in_is_refused():
    world = Harness().start()
    world.feed(PartitionsSubmitted(None, False, 4))
    assert isinstance(world.replies[4], RefusedReply)
    assert world.replies[4].error is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(TypeError):
        world.feed(TopicsRead(None))


def test_a_batch_that_is_too_great_is_tried_in_halves():
    """No batch should be so large. If one is, the controller does not end."""
    world = Harness().start()
    world.request_limit = 3_000
    results = create(world, *(new_topic(f"t{number}", 1, 1) for number in range(40)))
    assert {result.error for result in results} == {ErrorCode.NONE}
    assert len(world.store.topics) == 40
    assert world.told("write-too-great")
    assert world.machine.requests_refused == 0


def test_one_topic_that_is_too_great_for_a_batch_is_refused():
    world = Harness().start()
    world.request_limit = 3_000
    create(world, new_topic("a", 1, 1), new_topic("bad", 300, 3), new_topic("c", 1, 1))
    assert codes(world, 77) == {"a": 0, "bad": -1, "c": 0}
    assert set(world.store.topics) == {"a", "c"}
    assert [told.about for told in world.told("too-great")] == ["bad"]
    assert world.machine.requests_refused == 0, "it is no bug of ours"


def test_a_topic_of_others_that_is_too_great_to_be_written_ends_nobody():
    """The topic's moves stay where they are, a request for another one is refused, and everything else goes on."""
    world = Harness(brokers=(1, 2, 3))
    count = 300
    assignments = {number: ReplicaAssignment((1, 2)) for number in range(count)}
    world.store.topics["t"], world.store.configs["t"] = Topic("t", UUID(int=5), assignments, 0), {}
    for number in range(count):
        world.store.states[TopicPartition("t", number)] = LeaderAndIsr(1, 0, (1, 2), 0, 1)
    world.start()
    create(world, new_topic("u", 1, 2), token=1)
    world.request_limit = size_of(PutTopic(world.store.topics["t"], ())) - 1
    moves = {TopicPartition("t", 0): (1, 3), TopicPartition("u", 0): (3, 1)}
    world.reassign(moves, token=2)
    told = {tp: error for tp, error, _ in world.replies[2].partitions}
    assert told[TopicPartition("t", 0)] is ErrorCode.UNKNOWN_SERVER_ERROR
    assert told[TopicPartition("u", 0)] is ErrorCode.NONE
    world.write_legacy({TopicPartition("t", 1): (1, 3)})
    assert {told.about for told in world.told("too-great")} == {"t"}
    assert world.machine.view.active
    world.kill(1)
    assert world.leadership(TopicPartition("t", 7)).leader == 2


def test_a_replica_on_an_impossible_id_is_placed_elsewhere_and_holds_no_deletion_up():
    """Apache lets people assign a new topic to -1. A free broker gets that place; nothing waits for -1."""
    world = Harness(brokers=(1, 2))
    name = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
    assignments = {0: ReplicaAssignment((-1,)), 1: ReplicaAssignment((-1, 1)), 2: ReplicaAssignment((1, -1, 2, -7))}
    world.store.topics["t"], world.store.configs["t"] = Topic("t", UUID(int=5), assignments, 0), {}
    world.store.states[name[1]] = LeaderAndIsr(1, 0, (1,), 0, 1)
    world.store.states[name[2]] = LeaderAndIsr(1, 0, (1, 2), 0, 1)
    world.start()
    placed = {n: each.replicas for n, each in world.store.topics["t"].assignments.items()}
    assert placed[0] in {(1,), (2,)}
    assert placed[1] == (2, 1)
    assert placed[2] == (1, 2)
    assert [told.about for told in world.told("replica-owed")] == ["t-2"]
    world.feed(TopicDeletionsSubmitted(("t",), 99))
    assert "t" not in world.store.topics
    assert world.store.owed == {}


def test_the_deletion_of_many_partitions_is_told_in_slices_and_answered_after_the_last():
    """No event holds the loop for long. Events that come meanwhile are held, and no replica is deleted twice."""
    world = Harness(brokers=(1, 2, 3)).start()
    count = 2 * BEGUN_AT_ONCE + 500
    create(world, new_topic("t", count, 2), new_topic("u", 1, 2), token=1)
    since = len(world.sent)
    turns = []
    handle = world.machine.handle

    def watched(envelope):
        ready = handle(envelope)
        turns.append((ready, world.machine.in_turns is not None))
        return ready

    world.machine.handle = watched
    delete = TopicDeletionsSubmitted(("t",), 2)
    grow = PartitionsSubmitted({"u": (2, None)}, False, 3)
    world.feed(delete, grow)
    told = [request for request in world.sent[since:] if isinstance(request, SendUpdateMetadata)]
    sizes = [sum(len(topic.partitions) for topic in request.topics if topic.name == "t") for request in told]
    assert sum(sizes) == count
    assert max(sizes) == BEGUN_AT_ONCE
    deleted = Counter(world.deleted)
    assert {tp for _, tp in deleted} == {TopicPartition("t", number) for number in range(count)}
    assert len(deleted) == 2 * count
    assert set(deleted.values()) == {1}
    assert "t" not in world.store.topics
    replies = [token for ready, _ in turns for token, _ in ready.replies]
    assert replies.count(2) == 1
    assert not [ready.replies for ready, in_turns in turns if in_turns and ready.replies]
    assert len(world.store.topics["u"].assignments) == 2


def test_a_great_topic_is_judged_alone_in_its_turn():
    """Eight topics of 20,000 partitions, only to be validated, held the loop for the time that all of them take."""
    world = Harness(brokers=(1, 2, 3)).start()
    judged, handle = [], world.machine.handle
    original = topics.create_topic

    def watched(envelope):
        judged.append(0)
        return handle(envelope)

    def counted(*arguments, **named):
        judged[-1] += 1
        return original(*arguments, **named)

    world.machine.handle = watched
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "create_topic", counted)
        create(world, *(new_topic(f"t{n}", 20_000, 1) for n in range(8)), validate_only=True)
    assert sum(judged) == 8
    assert max(judged) == 1


def test_what_is_only_validated_gets_no_id():
    """The id would be of a topic that does not exist."""
    world = Harness().start()
    (validated,) = create(world, new_topic("t", 1, 1), validate_only=True)
    assert (validated.error, validated.partition_count, validated.topic_id) == (ErrorCode.NONE, 1, None)
    (made,) = create(world, new_topic("t", 1, 1), token=78)
    assert made.topic_id is not None
