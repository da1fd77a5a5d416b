"""A broker that answers slowly holds back work about its partitions alone; the order of work about each is kept."""

from dataclasses import replace
from uuid import UUID

import pytest
from harness import Harness
from hypothesis import given
from hypothesis import strategies as st

from shunter.core.controller import tasks
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ConfigsRead, ConnectionChanged, ElectionRequested, NewTopic, TopicsSubmitted
from shunter.core.controller.outbox import ALL_WAIT_MS, Outbox
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue, concern
from shunter.model.partition import TopicPartition
from shunter.model.records import DeleteQueueEntry
from shunter.model.settings import ControllerSettings

HERS, OTHER, THIRD = (TopicPartition("t", n) for n in range(3))


def create(world, name, assignments):
    """Ask for a topic, whether or not it can be answered yet."""
    new = NewTopic(name, UUID(int=sum(name.encode())), -1, -1, dict(enumerate(assignments)), {})
    world.feed(TopicsSubmitted((new,), False, 90_000 + sum(name.encode())))


def slow_broker(**settings):
    """Broker 4 hosts `t-0` and is silent long enough to count as tardy; `t-1` and `t-2` are not on it."""
    world = Harness(brokers=(1, 2, 3, 4, 5), **settings).start(t=[(1, 2, 4), (1, 2, 3), (2, 3, 5)])
    world.silent = {4}
    world.create("u", [(4,)])
    world.pass_time(ALL_WAIT_MS)
    assert world.machine.outbox.tardy == {4}
    return world


def test_one_that_answers_slowly_holds_only_what_is_about_its_partitions():
    world = slow_broker()
    world.reassign({HERS: (1, 4, 2), OTHER: (3, 2, 1)}, token=1)
    world.reassign({THIRD: (5, 2, 3)}, token=2)
    assert world.replicas(OTHER) == (3, 2, 1)
    assert world.replicas(HERS) == (1, 2, 4)
    assert world.result(2) == {THIRD: "NONE"}
    assert 1 not in world.replies, "a request is answered when all of it is decided"
    world.create("v", [(1, 2, 3)])
    assert world.leadership(("v", 0)).leader == 1
    world.answer_all()
    assert world.result(1) == {HERS: "NONE", OTHER: "NONE"}
    assert world.replicas(HERS) == (1, 4, 2)


@pytest.mark.parametrize("end", ["slow", "connection", "death", "answer"])
def test_what_is_held_is_decided_in_the_order_in_which_it_was_asked_for(end):
    world = slow_broker()
    world.reassign({HERS: (4, 1, 2)}, token=1)
    world.reassign({HERS: (2, 4, 1), OTHER: (2, 3, 1)}, token=2)
    world.reassign({HERS: (1, 4, 2)}, token=3)
    assert not {1, 2, 3} & world.replies.keys()
    assert world.replicas(OTHER) == (2, 3, 1)
    if end == "slow":
        world.pass_time(world.settings.slow_broker_ms)
    elif end == "connection":
        world.feed(ConnectionChanged(4, world.live[4].epoch, reachable=False))
    elif end == "death":
        world.kill(4)
    else:
        world.answer_all()
    world.pass_time(ALL_WAIT_MS)
    assert list(world.replies)[-3:] == [1, 2, 3]
    if end != "death":
        assert world.replicas(HERS) == (1, 4, 2)


def test_what_it_owes_later_holds_nobody_who_waits_already():
    """Otherwise a broker that always owes an answer would hold its partitions until it is called slow, repeatedly."""
    world = slow_broker()
    world.reassign({HERS: (1, 4, 2)}, token=1)
    owed = [request.request_id for _, request in world.unanswered]
    create(world, "w", [(4, 1)])
    world.feed(ConfigsRead())
    world.bounce(5)
    first, world.unanswered = world.unanswered[: len(owed)], world.unanswered[len(owed) :]
    assert world.unanswered, "there is more that it owes"
    for id_, request in first:
        world._receive(id_, request)
    world.run()
    assert world.result(1) == {HERS: "NONE"}


def test_all_wait_for_a_moment_so_that_brokers_keep_step():
    world = Harness(brokers=(1, 2, 3, 4, 5)).start(t=[(1, 2, 4), (1, 2, 3), (2, 3, 5)])
    world.silent = {4}
    world.create("u", [(4,)])
    world.reassign({OTHER: (3, 2, 1)}, token=1)
    assert 1 not in world.replies
    assert world.wake_at_ms <= world.now_ms + ALL_WAIT_MS
    world.pass_time(ALL_WAIT_MS)
    assert world.result(1) == {OTHER: "NONE"}


def test_an_election_that_the_queue_asked_for_is_struck_off_when_it_is_done():
    world = slow_broker()
    world.feed(ElectionRequested((HERS, OTHER), queue_entry=True))
    struck_off = [isinstance(record, DeleteQueueEntry) for batch in world.store.log for record in batch]
    assert not any(struck_off)
    world.answer_all()
    struck_off = [isinstance(record, DeleteQueueEntry) for batch in world.store.log for record in batch]
    assert any(struck_off)


def test_a_refused_batch_is_decided_again_before_what_is_later():
    world = slow_broker()
    world.hold_writes = True
    world.reassign({OTHER: (2, 3, 1), HERS: (4, 1, 2)}, token=1)
    world.reassign({OTHER: (3, 1, 2), HERS: (2, 1, 4)}, token=2)
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(version=topic.version + 1)
    world.release_writes()
    world.answer_all()
    world.pass_time(1_000)
    assert list(world.replies)[-2:] == [1, 2]
    assert world.replicas(OTHER) == (3, 1, 2)
    assert world.replicas(HERS) == (2, 1, 4)


def test_so_many_wait_that_the_rest_of_the_task_waits_with_them(monkeypatch):
    monkeypatch.setattr(tasks, "PARKED_AT_MOST", 3)
    world = slow_broker()
    world.answer_all()
    world.create("many", [(4, 1)] * 5 + [(1, 2)])
    world.silent = {4}
    world.create("x", [(4,)])
    world.pass_time(ALL_WAIT_MS)
    assert world.machine.outbox.tardy == {4}
    many = {TopicPartition("many", n): (1, 4) for n in range(5)}
    world.reassign({**many, TopicPartition("many", 5): (2, 1)}, token=1)
    world.reassign({TopicPartition("many", 5): (1, 2)}, token=2)
    assert world.replicas(("many", 5)) == (1, 2)
    assert 2 not in world.replies, "it is about what the other has not looked at yet"
    world.answer_all()
    assert world.replicas(("many", 5)) == (1, 2)
    assert list(world.replies)[-2:] == [1, 2]


def test_a_task_that_was_taken_out_of_turn_goes_back_to_its_place():
    queue = TaskQueue()
    made = [Task(Priority.NORMAL, (number,), lambda *_: None) for number in range(4)]
    for task in made:
        queue.add(task)
    queue.take(made[2])
    queue.take(made[0])
    queue.put_back([made[2], made[0]])
    assert list(queue.queues[Priority.NORMAL]) == made


@pytest.mark.parametrize(
    ("item", "about"), [(HERS, HERS), ((HERS, None), HERS), (("t", 1), None), ("t", None), (None, None), ((), None)]
)
def test_what_an_item_is_about(item, about):
    assert concern(item) == about


def test_a_task_without_items_is_done_at_once():
    """Found by `./simulate --seed 64`: an election of all, where none was needed, held everything in order."""
    world = slow_broker()
    world.feed(ElectionRequested(None, reply_to=7))
    assert world.replies[7].partitions == ()
    world.feed(ElectionRequested((), queue_entry=True))
    assert any(isinstance(record, DeleteQueueEntry) for batch in world.store.log for record in batch)


def test_a_znodes_entries_wait_for_one_another():
    """The last item of `/admin/reassign_partitions_extra` marks its end: no entry may be parked behind that item."""
    world = slow_broker()
    world.write_extra({HERS: (1, 4, 2), OTHER: (3, 2, 1)})
    assert world.replicas(OTHER) == (1, 2, 3)
    assert world.store.extra.targets
    world.answer_all()
    world.pass_time(ALL_WAIT_MS)
    assert world.replicas(HERS) == (1, 4, 2)
    assert world.replicas(OTHER) == (3, 2, 1)
    assert world.store.extra is None


class Doors:
    """A barrier of one hold for each partition."""

    def __init__(self):
        self.releases = 0
        self.opened = set()

    def open(self, tp):
        self.releases += 1
        self.opened.add(tp.partition)

    def passed(self, hold):
        return all(number in self.opened for number, _ in hold)

    def hold_of(self, tp):
        return () if tp.partition in self.opened else ((tp.partition, 1),)


def test_what_is_held_keeps_a_small_slice_from_nothing():
    """After a refused write a slice may look at two items: two held ones were looked at for ever (world 95305435)."""
    doors, decided = Doors(), []
    task = Task(Priority.NORMAL, [HERS, OTHER, THIRD], lambda _, tp: decided.append(tp))
    state = Harness().start().machine.state
    task.draft_slice(Draft(state, 0), 100, 100, doors)
    assert [index for index, _ in task.parked] == [0, 1, 2]
    doors.open(THIRD)
    assert task.ready(doors)
    task.draft_slice(Draft(state, 0), 100, 2, doors)
    assert decided == [THIRD]
    assert not task.ready(doors), "there is nothing to look at before something is released"
    doors.open(HERS)
    doors.open(OTHER)
    task.draft_slice(Draft(state, 0), 100, 1, doors)
    assert decided == [THIRD, HERS], "no more is decided than was allowed"
    assert task.ready(doors)


def requests_of(brokers):
    """Hand requests out to brokers, and take answers, at random moments; give the barrier's answer beside the truth."""
    outbox = Outbox(ControllerState(0), ControllerSettings(broker_id=0, slow_broker_ms=1_000))
    open_: list[tuple[int, int]] = []

    def hand_out(broker, now_ms):
        open_.append((outbox._handed_out((broker,), now_ms), broker))

    def answer(place):
        if open_:
            outbox.answered(*open_.pop(place % len(open_)))

    return outbox, hand_out, answer


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from(["ask", "answer", "settings"]), st.integers(1, 3)), max_size=40
    )
)
def test_nobody_is_waited_for_longer_than_is_said(steps):
    """The barrier looks at brokers only when one of them may have become late, and never later than that."""
    outbox, hand_out, answer = requests_of((1, 2, 3))
    now_ms = 0
    for passed_ms, kind, number in steps:
        wake_ms = outbox.barrier_deadline_ms
        now_ms += passed_ms
        if kind == "ask":
            hand_out(number, now_ms)
        elif kind == "answer":
            answer(number)
        else:
            outbox.use(replace(outbox.settings, slow_broker_ms=100 * number))
        holds = outbox.barrier_holds(now_ms)
        patience_ms = outbox.settings.slow_broker_ms
        oldest = {broker: next(iter(waiting.values())) for broker, waiting in outbox.unanswered.items()}
        assert holds == bool(outbox.barrier)
        assert all(oldest[broker] + min(ALL_WAIT_MS, patience_ms) > now_ms for broker in outbox.barrier)
        assert all(oldest[broker] + patience_ms > now_ms for broker in outbox.tardy)
        if outbox.barrier or outbox.tardy:
            assert outbox.barrier_deadline_ms > now_ms, "or the controller would wake for nothing, again and again"
            late = [oldest[broker] + min(ALL_WAIT_MS, patience_ms) for broker in outbox.barrier]
            late += [oldest[broker] + patience_ms for broker in outbox.tardy]
            assert outbox.barrier_deadline_ms <= min(late)
        else:
            assert outbox.barrier_deadline_ms is None
        assert wake_ms is None or wake_ms < 1 << 61
