"""The state-change log of a cluster's story, and the answers of `shunter why` from it."""

from typing import get_args

import orjson
from harness import Harness

from shunter.core.controller.events import BatchRefused, Elected, Envelope, Event, RequestAnswered
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.review import LOOKS, Part, Reason
from shunter.errors import ErrorCode
from shunter.formats.log_lines import decode_line, encode_line
from shunter.model.log_line import LogLine
from shunter.model.partition import TopicPartition
from shunter.views.state_log import LISTED_AT_MOST, StateLog, slim, worth_telling
from shunter.views.why import CAUSES, Question, Selection, heading, narrate

ORDERS = TopicPartition("orders", 0)


class Logged(Harness):
    """The harness with a machine that is logged: each line goes through bytes, as in a file."""

    def __init__(self, brokers):
        super().__init__(brokers)
        self.log = StateLog()
        self.lines = [encode_line(LogLine(0, "started", {"broker_id": 100, "pid": 1, "version": "1"}))]
        self.take_over()

    def take_over(self):
        logged = self

        class Recording(ControllerMachine):
            def handle(self, envelope):
                logged.counter = getattr(logged, "counter", 0) + 1
                envelope = Envelope(
                    envelope.now_ms, f"{type(envelope.event).__name__}#{logged.counter}", envelope.event
                )
                ready = super().handle(envelope)
                if worth_telling(envelope, ready):
                    logged.lines += [encode_line(entry) for entry in logged.log.lines(slim(envelope), ready)]
                return ready

        self.machine = Recording(self.settings)

    def entries(self):
        return [decode_line(line, "test") for line in self.lines]

    def of_kind(self, kind, **facts):
        wanted = facts.items()
        return [entry.facts for entry in self.entries() if entry.kind == kind and wanted <= entry.facts.items()]

    def why(self, **question):
        return list(narrate(Selection(Question(**question)).choose(self.entries())))


def moved():
    world = Logged((1, 2, 3, 4)).start()
    world.create("orders", [[1, 2, 3]])
    world.create("others", [[1, 2, 3]])
    world.reassign({ORDERS: (2, 3, 4)}, token=7)
    world.catch_up_all()
    world.kill(2)
    return world


def test_a_move_and_a_death_are_told_from_the_request_to_the_acknowledgements():
    world = moved()
    moves = world.of_kind("move", topic="orders")
    assert [(move["trigger"], move["before"], move["after"]) for move in moves][:2] == [
        ("accepted", None, "pending"),
        ("begun", "pending", "moving"),
    ]
    assert moves[-1]["after"] is None
    assert all(move["cause"] for move in moves)

    death = world.of_kind("decided", topic="orders")[-1]
    assert death["rules"] == ["broker-gone/elect"]
    assert death["cause"].startswith("BrokersRead#")
    assert (death["before"]["leader"], death["after"]["leader"]) == (2, 3)
    sent = [each for each in world.of_kind("sent", api="LeaderAndIsr") if each["n"] == death["n"]]
    sent = [each for each in sent if "orders" in each["partitions"]]
    assert {broker for each in sent for broker in each["brokers"]} == {3, 4}
    assert sent[0]["cause"] == death["cause"]
    answered = {(each["request"], each["broker"]) for each in world.of_kind("answered")}
    assert {(each["request"], broker) for each in sent for broker in each["brokers"]} <= answered


def test_why_tells_of_the_partition_and_of_nothing_else():
    story = "\n".join(moved().why(partition=ORDERS))
    assert "others" not in story
    assert "ReassignmentsSubmitted#" in story
    assert "move accepted: no move → pending, from [1, 2, 3] to [2, 3, 4]" in story
    assert "leader 2 → 3" in story
    assert "[rule broker-gone/elect: its leader is on a broker that is not live;" in story
    assert "broker 3 acknowledged #" in story
    assert "gone: broker 2" in story
    assert "elected: controller epoch 1" in story


def test_why_of_moves_leaves_elections_out():
    story = "\n".join(moved().why(partition=ORDERS, moves=True))
    assert "move begun: pending → moving" in story
    assert "broker-gone" not in story


def test_why_of_a_broker_tells_when_it_went_and_what_it_lost():
    story = moved().why(broker=2)
    gone = next(index for index, line in enumerate(story) if "gone: broker 2" in line)
    after = "\n".join(story[gone:])
    assert "orders-0: leader 2 → 3" in after
    assert "others-0: " in after, "it was in sync there"
    assert "broker 1 acknowledged" not in "\n".join(story)


def test_why_of_a_topic_and_since():
    world = moved()
    assert any("topic others: topic created (1 partition)" in line for line in world.why(topic="others"))
    world.pass_time(3_600_000)
    world.revive(2)
    late = world.why(topic="orders", since_ms=world.now_ms - 1_000)
    assert late
    assert not any("move accepted" in line for line in late)


def test_what_a_move_waits_for_is_logged_when_it_changes_and_not_with_every_look():
    world = Logged((1, 2, 3, 4)).start()
    world.create("orders", [[1, 2]])
    world.reassign({ORDERS: (1, 2, 4)})
    world.kill(4)
    for _ in range(10):
        world.pass_time(1_000)
    world.revive(4)
    waits = [each["waits"] for each in world.of_kind("decided", topic="orders") if "waits" in each]
    assert waits == ["waits for broker 4 to come back: dead, and part of the target", "waits for broker 4 to catch up"]
    world.catch_up(ORDERS, 4)
    assert world.of_kind("decided", topic="orders")[-1]["waits"] is None


def test_a_refused_request_is_logged_with_its_own_cause():
    world = Logged((1, 2)).start()
    world.create("orders", [[1, 2]])
    world.reassign({ORDERS: (1, 9)}, token=7)
    (refusal,) = world.of_kind("refused", topic="orders")
    assert refusal["error"] == "INVALID_REPLICA_ASSIGNMENT"
    assert refusal["cause"].startswith("ReassignmentsSubmitted#")


def test_a_write_that_is_refused_leaves_no_line():
    world = Logged((1, 2, 3)).start()
    world.create("orders", [[1, 2]])
    before = len(world.of_kind("decided"))
    world.hold_writes = True
    world.reassign({ORDERS: (1, 3)})
    assert len(world.of_kind("decided")) == before
    (batch,) = world.held_batches
    world.held_batches.clear()
    world.hold_writes = False
    world.feed(BatchRefused(batch.batch_id, "failed"))
    assert len(world.of_kind("decided")) == before
    world.pass_time(1_000)
    world.catch_up_all()
    after = [each for each in world.of_kind("move", topic="orders") if each["trigger"] == "accepted"]
    assert len(after) == 1


def test_a_large_request_is_counted_and_found_by_its_decisions():
    world = Logged((1, 2, 3)).start()
    world.create("orders", [[1, 2]] * (LISTED_AT_MOST + 1))
    world.kill(1)
    sent = world.of_kind("sent", api="LeaderAndIsr")[-1]
    assert sent["partition_count"] == LISTED_AT_MOST + 1
    assert "partitions" not in sent
    story = world.why(partition=TopicPartition("orders", 50))
    assert any(f"LeaderAndIsr #{sent['request']} queued to broker 2" in line for line in story)
    assert any(f"broker 2 acknowledged #{sent['request']}" in line for line in story)


def test_errors_in_answers_are_told():
    world = moved()
    world.silent = {3}
    world.kill(4)
    asked = next(request for id_, request in world.unanswered if id_ == 3)
    world.feed(RequestAnswered(asked.request_id, 3, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert any(f"broker 3 refused #{asked.request_id}" in line and "UNKNOWN" in line for line in world.why(broker=3))


def test_terms_of_others_are_told_as_what_the_log_does_not_know():
    world = moved()
    world.store.epoch += 2
    world.take_over()
    world.start()
    story = "\n".join(world.why(partition=ORDERS))
    assert "(controller epochs 2 to 3 were other controllers'; what they did is not in this log)" in story


def test_every_event_that_decides_has_its_words():
    of_little_interest = {"BrokerIdentified", "ProducerIdsRequested", "TopicIdsAgreed"}
    assert {kind.__name__ for kind in get_args(Event)} - of_little_interest == CAUSES.keys() - {"timer"}
    assert heading("TopicsSubmitted#1, a client") == "somebody asked for new topics [TopicsSubmitted#1, a client]"
    assert heading("unknown") == "unknown"


def test_every_rule_has_its_words():
    assert set(Reason) == set(LOOKS)
    assert all(member.value for member in (*Reason, *Part))


def test_lines_are_one_object_each_with_time_and_kind():
    for line in moved().lines:
        assert b"\n" not in line
        document = orjson.loads(line)
        assert document["at"].endswith("Z")
        assert document["kind"]


def test_an_event_that_had_to_wait_for_the_start_up_keeps_its_cause():
    world = Logged((1, 2, 3)).start()
    world.create("orders", [[1, 2]])
    world.events.append(Elected(2, 2))
    world.store.epoch = 2
    world.reassign({ORDERS: (1, 3)})
    (accepted,) = [each for each in world.of_kind("move", topic="orders") if each["trigger"] == "accepted"]
    assert accepted["cause"].startswith("ReassignmentsSubmitted#")
