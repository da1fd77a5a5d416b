"""The consequences of errors in brokers' answers, of silence, and of lost connections."""

import pytest
from harness import Harness

from shunter.core.controller.brokers.answers import (
    AGAIN_AT_MOST_MS,
    AGAIN_MS,
    Consequence,
    of_replica,
    of_request,
)
from shunter.core.controller.events import (
    BatchRefused,
    ConnectionChanged,
    ControlledShutdownRequested,
    RequestAnswered,
)
from shunter.core.controller.machine import REFUSALS_BEFORE_RELOAD, RETRY_AFTER_MS
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)


class Refusing(Harness):
    """Brokers that answer with errors: `errors[broker]` gives (error, partition errors) for a request."""

    def __init__(self, **settings):
        self.errors = {}
        super().__init__(**settings)

    def _receive(self, id_, request):
        judge = self.errors.get(id_)
        error, partitions = judge(request) if judge is not None else (ErrorCode.NONE, {})
        if error or partitions:
            self.events.append(RequestAnswered(request.request_id, id_, error, partitions))
        else:
            super()._receive(id_, request)

    def sent_to(self, id_, kind):
        return [
            request
            for request in self.sent
            if isinstance(request, kind)
            and id_ in (request.brokers if hasattr(request, "brokers") else (request.broker,))
        ]

    def until_told_again(self):
        self.sent.clear()
        self.pass_time(self.wake_at_ms - self.now_ms)


def always(error):
    return lambda request: (error, {})


REQUEST_ERRORS = [error for error in ErrorCode if of_request(error) is Consequence.TELL_AGAIN]


@pytest.mark.parametrize("error", REQUEST_ERRORS)
def test_a_broker_that_refuses_is_told_everything_again_and_later_each_time(error):
    world = Refusing().start()
    world.create("t", [(1, 2, 3)])
    world.errors[2] = always(error)
    world.create("u", [(2, 3, 4)])
    (notice,) = world.told("control-refused")
    assert notice.about == "broker 2"
    assert error.name in notice.text
    for pause_ms in (AGAIN_MS, 2 * AGAIN_MS, 4 * AGAIN_MS):
        world.sent.clear()
        world.pass_time(pause_ms - 100)
        assert not world.sent_to(2, SendLeaderAndIsr)
        world.pass_time(100)
        (everything,) = world.sent_to(2, SendLeaderAndIsr)
        assert {topic.name for topic in everything.topics} == {"t", "u"}
        assert world.sent_to(2, SendUpdateMetadata)[0].full
        assert not world.sent_to(3, SendLeaderAndIsr), "it concerns nobody else"
    assert len(world.told("control-refused")) == 1, "once, however often"
    del world.errors[2]
    world.pass_time(8 * AGAIN_MS)
    assert TopicPartition("u", 0) in world.hosted[2]
    assert [notice.about for notice in world.told("control-accepted")] == ["broker 2"]
    assert not world.machine.intake.answers.refusals
    world.sent.clear()
    world.pass_time(2 * AGAIN_AT_MOST_MS)
    assert not world.sent_to(2, SendLeaderAndIsr)


def test_who_is_refused_by_every_broker_makes_room_for_another_controller():
    """CLUSTER_AUTHORIZATION_FAILED from all of them must not end in a notice that says that all is well."""
    world = Refusing()
    for id_ in (1, 2, 3, 4):
        world.errors[id_] = always(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    world.start()
    assert world.resigned
    assert "CLUSTER_AUTHORIZATION_FAILED" in world.told("resigned")[0].text
    assert not world.machine.view.active
    assert len(world.told("control-refused")) == 4
    assert "ClusterAction" in world.told("control-refused")[0].text


def test_one_broker_that_takes_our_requests_keeps_us_in_charge():
    world = Refusing()
    for id_ in (1, 2, 3):
        world.errors[id_] = always(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    world.start()
    assert not world.resigned
    assert len(world.machine.intake.answers.refusals) == 3


def test_a_broker_that_knows_a_newer_controller_ends_our_term():
    world = Refusing().start()
    world.errors[2] = always(ErrorCode.STALE_CONTROLLER_EPOCH)
    world.revive(5)
    assert world.resigned
    assert world.told("stale-controller")[0].about == "broker 2"
    assert world.machine.view.controller_epoch == 0


def test_an_answer_of_a_term_that_is_over_says_nothing():
    world = Refusing().start()
    world.silent = {2}
    world.revive(5)
    (_, late), *_ = world.unanswered
    world.start()
    world.silent.clear()
    world.feed(RequestAnswered(late.request_id, 2, ErrorCode.STALE_CONTROLLER_EPOCH))
    assert not world.resigned


def test_an_answer_from_before_a_restart_takes_no_replica_offline():
    """The broker may have been restarted because a log dir had failed: its replicas are on another one now."""
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {3}
    world.kill(1)
    (late,) = (request for _, request in world.unanswered if isinstance(request, SendLeaderAndIsr))
    world.silent = set()
    world.bounce(3)
    world.feed(RequestAnswered(late.request_id, 3, ErrorCode.NONE, {TP: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert not world.machine.state.offline_replicas
    assert not world.told("log-dir-failed")
    world.catch_up_all()
    assert world.leadership(TP).isr == (2, 3)


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_replica_that_is_refused_is_told_again_alone(error):
    assert of_replica(error) is Consequence.TELL_AGAIN
    world = Refusing().start()
    refused = TopicPartition("t", 1)
    world.errors[2] = lambda request: (
        ErrorCode.NONE,
        {refused: error}
        if isinstance(request, SendLeaderAndIsr)
        and any(topic.name == "t" and 1 in dict(topic.partitions) for topic in request.topics)
        else {},
    )
    world.create("t", [(1, 2, 3), (1, 2, 3)])
    assert "t-1" in world.told("control-refused")[0].text
    for _ in range(3):
        world.until_told_again()
        (request,) = world.sent_to(2, SendLeaderAndIsr)
        assert [(topic.name, [number for number, _ in topic.partitions]) for topic in request.topics] == [("t", [1])]
    world.errors.clear()
    world.until_told_again()
    assert refused in world.hosted[2]
    assert world.told("control-accepted")


def test_what_a_broker_has_already_is_no_refusal():
    world = Refusing().start()
    world.errors[2] = lambda request: (
        ErrorCode.NONE,
        {TP: ErrorCode.STALE_CONTROLLER_EPOCH} if isinstance(request, SendLeaderAndIsr) else {},
    )
    world.create("t", [(1, 2, 3)])
    assert not world.machine.intake.answers.refusals
    assert not world.told("control-refused")


def test_a_stop_that_fails_is_told_and_owed():
    world = Refusing().start()
    world.create("t", [(1, 2, 3)])
    world.errors[3] = lambda request: (
        ErrorCode.NONE,
        {TP: ErrorCode.FENCED_LEADER_EPOCH} if isinstance(request, SendStopReplica) else {},
    )
    world.reassign({TP: (1, 2, 4)})
    world.catch_up_all()
    assert "FENCED_LEADER_EPOCH" in world.told("stop-refused")[0].text
    assert 3 in world.store.owed


def test_a_refused_request_to_delete_is_asked_again_with_everything_else():
    world = Refusing().start()
    world.create("t", [(1, 2, 3)])
    world.errors[3] = lambda request: (
        ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(request, SendStopReplica) else ErrorCode.NONE,
        {},
    )
    world.reassign({TP: (1, 2, 4)})
    world.catch_up_all()
    assert (3, TP) not in world.deleted
    del world.errors[3]
    world.pass_time(AGAIN_AT_MOST_MS)
    assert (3, TP) in world.deleted
    assert 3 not in world.store.owed


# ---- connections


def test_a_broker_without_a_connection_holds_no_ordinary_work():
    """Redesign: `checkNodeLivenessAndIgnoreDeadNode`. Such a broker used to hold everything for ten seconds."""
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {3}
    world.reassign({TP: (1, 2, 4)})
    world.reassign({TP: (1, 4, 2)}, token=2)
    assert 2 not in world.replies
    world.feed(ConnectionChanged(3, world.live[3].epoch, reachable=False))
    assert world.result(2) == {TP: "NONE"}
    world.reassign({TP: (2, 4, 1)}, token=3)
    assert world.result(3) == {TP: "NONE"}, "nor does what it is sent meanwhile"
    world.feed(ConnectionChanged(3, world.live[3].epoch, reachable=True))
    world.reassign({TP: (4, 2, 1)}, token=4)
    assert world.result(4) == {TP: "NONE"}, "what it owes from before is not waited for"
    world.answer_all()
    world.silent = {3}
    world.reassign({TP: (1, 2, 3)}, token=5)
    world.reassign({TP: (1, 3, 2)}, token=6)
    assert 6 not in world.replies, "now it is waited for again"
    assert [notice.about for notice in world.told("broker-unreachable")] == ["broker 3"]


def test_news_of_a_connection_to_a_former_life_says_nothing():
    world = Harness().start()
    world.feed(ConnectionChanged(3, world.live[3].epoch - 1, reachable=False))
    world.feed(ConnectionChanged(77, 1, reachable=False))
    assert not world.machine.outbox.unreachable
    world.feed(ConnectionChanged(3, world.live[3].epoch, reachable=False))
    world.bounce(3)
    assert not world.machine.outbox.unreachable, "the new life has a connection of its own"


# ---- controlled shutdown


def leaving(world, token=9):
    world.feed(ControlledShutdownRequested(1, world.live[1].epoch, token))


def test_a_broker_may_go_when_the_others_know_their_new_leaders():
    """Redesign, third problem; Apache approves while the requests to the others are still queued."""
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {2}
    leaving(world)
    assert world.store.states[TP].leader == 2, "durable at once"
    assert 9 not in world.replies
    world.answer_all()
    assert world.replies[9].error is ErrorCode.NONE
    assert world.replies[9].remaining == ()


def test_a_broker_that_hosts_nothing_of_it_is_not_waited_for():
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {4}
    leaving(world)
    assert world.replies[9].error is ErrorCode.NONE


@pytest.mark.parametrize("end", ["bound", "death", "connection"])
def test_who_is_silent_keeps_nobody_from_going_for_ever(end):
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {2}
    leaving(world)
    if end == "bound":
        world.pass_time(world.settings.slow_broker_ms - 1)
        assert 9 not in world.replies
        assert world.wake_at_ms <= world.now_ms + 1
        world.pass_time(1)
    elif end == "death":
        world.kill(2)
    else:
        world.feed(ConnectionChanged(2, world.live[2].epoch, reachable=False))
    assert world.replies[9].error is ErrorCode.NONE


def test_a_broker_without_replicas_may_go_at_once():
    world = Harness().start()
    world.silent = {2, 3}
    leaving(world)
    assert world.replies[9].remaining == ()


@pytest.mark.parametrize(
    "refusal",
    [
        lambda request: (ErrorCode.UNKNOWN_SERVER_ERROR, {}),
        lambda request: (ErrorCode.NONE, {TP: ErrorCode.INCONSISTENT_TOPIC_ID}),
    ],
)
def test_a_new_replica_that_was_refused_is_still_new_when_it_is_told_again(refusal):
    """A broker with a failed log dir makes logs for new replicas alone: any other log could lie on the failed one."""
    world = Refusing().start()
    world.errors[2] = lambda request: refusal(request) if isinstance(request, SendLeaderAndIsr) else (0, {})
    world.sent.clear()
    world.create("t", [(1, 2, 3)])

    def called_new():
        told = [TP in request.new for request in world.sent_to(2, SendLeaderAndIsr)]
        world.sent.clear()
        return told

    assert called_new() == [True]
    world.pass_time(AGAIN_MS)
    assert called_new() == [True]
    world.kill(1)  # Another epoch, before it is told again.
    assert called_new() == [True]
    del world.errors[2]
    world.pass_time(2 * AGAIN_MS)
    assert called_new() == [True]
    world.kill(3)
    assert called_new() == [False], "it has made its log"


def test_a_broker_that_was_restarted_since_it_refused_is_told_of_no_new_replica():
    """The controller does not know what the broker did before."""
    world = Refusing().start()
    world.errors[2] = lambda request: (ErrorCode.NONE, {TP: ErrorCode.INCONSISTENT_TOPIC_ID})
    world.create("t", [(1, 2, 3)])
    del world.errors[2]
    world.sent.clear()
    world.bounce(2)
    assert world.sent_to(2, SendLeaderAndIsr)
    assert not any(request.new for request in world.sent_to(2, SendLeaderAndIsr))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_replica_is_still_new_after_the_cluster_was_read_again(restarted):
    """Found by simulation (seed 99120029): a reload forgot the request that the broker had not acknowledged."""
    world = Refusing().start()
    world.errors[2] = always(ErrorCode.UNKNOWN_SERVER_ERROR)
    world.create("t", [(1, 2, 3)])
    world.sent.clear()
    write = world.store.write
    world.store.write = lambda batch: BatchRefused(batch.batch_id, "lost", (), ())
    world.kill(1)
    for _ in range(REFUSALS_BEFORE_RELOAD - 1):
        world.pass_time(RETRY_AFTER_MS)
    world.store.write = write
    if restarted:
        world.bounce(2)
    told = [TP in request.new for request in world.sent_to(2, SendLeaderAndIsr) if request.full]
    assert told == ([True, False] if restarted else [True])


@pytest.mark.parametrize(
    ("error", "told"), [(ErrorCode.FENCED_LEADER_EPOCH, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1)]
)
def test_a_stop_without_deletion_that_the_epoch_fences_is_not_told(error, told):
    """A broker of 2.8 has that leader epoch by the LeaderAndIsr before, and refuses the stop of its own shutdown."""
    world = Refusing().start()
    world.create("t", [(1, 2, 3)])
    world.errors[3] = lambda request: (ErrorCode.NONE, {TP: error} if isinstance(request, SendStopReplica) else {})
    world.feed(ControlledShutdownRequested(3, world.live[3].epoch, 9))
    assert world.replies[9].error is ErrorCode.NONE
    assert [request for request in world.sent if isinstance(request, SendStopReplica)]
    assert len(world.told("stop-refused")) == told
