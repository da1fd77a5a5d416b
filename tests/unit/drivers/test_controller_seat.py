"""The seat on the simulation's ZooKeeper, with delays and broken connections where the test wants them.

An entry of the deletion queue has only a name: still, a deleted topic and a new topic of the same name are told apart.
And the next term does not use what was read in the term before.
"""

from uuid import UUID

import pytest

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.network import Delays
from lab.simulation.scheduler import MS, SECOND, Scheduler
from lab.simulation.zookeeper.session import SimulatedKazoo
from lab.simulation.zookeeper.tree import Transaction, ZooKeeperTree
from shunter.core.controller.events import (
    BatchRefused,
    BatchWritten,
    BrokersRead,
    ClusterLoaded,
    ConfigsRead,
    Elected,
    LogDirsFailed,
    ReassignmentRequestsFound,
    SessionExpired,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.core.controller.ready import LoadCluster, WriteBatch
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Put, Remove
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_broker
from shunter.formats.znodes.requests import encode_request
from shunter.formats.znodes.topics import encode_topic
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.records import DeleteQueueEntry, DeleteTopic, PutDeletionMark, PutLegacyReassignments, PutTopic
from shunter.model.topic import Topic

CONFIG = znodes.config("topics", "t")


def topic(number):
    return Topic("t", UUID(int=number), {0: ReplicaAssignment((1,))})


class Place:
    """A ZooKeeper, a seat that was elected and has read everything, and the events that it posted since."""

    def __init__(self):
        self.scheduler = Scheduler(1)
        self.tree = ZooKeeperTree(self._committed)
        self.operator = self.tree.open_session()
        self.then = {}
        self.posted = []
        self.loop = ProcessLoop(self.scheduler, "seat", self._failed)
        for path in ("/brokers", "/config", "/admin", "/cluster"):
            self.tree.commit([Create(path, None)], self.operator)
        client = ZooKeeperClient("simulated", kazoo_client=self._make_kazoo)
        registration = Broker(100, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "shunter", 9100),))
        self.seat = ControllerSeat(client, registration, self.posted.append)

    def _make_kazoo(self, **_):
        delays, timeout_us = Delays(), 9 * SECOND
        self.kazoo = SimulatedKazoo(
            self.scheduler, self.tree, self.loop, delays, timeout_us, lambda _: None, lambda *_: None
        )
        return self.kazoo

    def _committed(self, transaction: Transaction):
        """Run what the test wants to happen right after a znode is deleted, before any client hears of that."""
        for change in transaction.changes:
            then = self.then.pop(change.path, None) if change.after is None else None
            if then is not None:
                self.scheduler.after(0, then)

    def _failed(self, name, failure):
        raise AssertionError(name) from failure

    def act(self, *operations):
        assert isinstance(self.tree.commit(operations, self.operator), Transaction)

    def delete_all(self, folder):
        below = [path for path in self.tree.paths() if path == folder or path.startswith(f"{folder}/")]
        self.act(*(Remove(path) for path in sorted(below, reverse=True)))

    def make(self, number, *, marked):
        mark = [Create(znodes.deletion("t"), None)] if marked else []
        self.act(Create(CONFIG, b'{"version":1,"config":{}}'), Create(znodes.topic("t"), encode_topic(topic(number))))
        for operation in mark:
            self.act(operation)

    def run(self, work):
        """Run a coroutine in the process, then wait until nothing more happens; return the coroutine's result."""
        done = []

        async def hand_over():
            done.append(await work)

        self.loop.deliver(self.loop.create_task, hand_over())
        self.settle()
        return done[0]

    def settle(self):
        self.run_for(3 * SECOND)

    def run_for(self, duration_us):
        until = self.scheduler.now_us + duration_us
        while self.scheduler.step(until):
            pass

    def begin(self):
        self.run(self.seat.start())
        assert any(isinstance(event, Elected) for event in self.posted)
        self.run(self.seat.store.read(LoadCluster()))
        self.settle()
        assert any(isinstance(event, ClusterLoaded) for event in self.posted)
        self.posted.clear()
        return self

    def write(self, *records):
        outcome = self.run(self.seat.store.write(WriteBatch(1, records)))
        assert isinstance(outcome, BatchWritten | BatchRefused)
        self.posted.append(outcome)
        return outcome

    def told(self, kind):
        return [event for event in self.posted if isinstance(event, kind)]


@pytest.fixture
def place():
    return Place().begin()


def test_a_topic_made_anew_and_marked_again_before_anybody_looked_is_told(place):
    place.make(1, marked=True)
    place.settle()
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))]
    place.then[znodes.deletion("t")] = lambda: place.make(2, marked=True)
    place.write(DeleteTopic("t", (0,)))
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))] * 2
    assert place.told(TopicsRead)[-1].topics[0].topic.topic_id == UUID(int=2)


@pytest.mark.parametrize("marked", [False, True])
def test_a_deletion_whose_answer_was_lost_does_not_hit_the_topic_made_anew(place, marked):
    place.make(1, marked=True)
    place.settle()

    def lose_the_answer():
        place.make(2, marked=marked)
        place.kazoo.drop()

    place.then[znodes.topic("t")] = lose_the_answer
    place.write(DeleteTopic("t", (0,)))
    assert (place.tree.get(znodes.topic("t")) is None) == marked
    assert place.tree.get(znodes.deletion("t")) is None
    if not marked:
        assert place.told(TopicsRead)[-1].topics[0].topic.topic_id == UUID(int=2)


def test_a_topic_that_we_delete_while_it_is_read_is_no_news(place, monkeypatch):
    """Found by simulation (seed 96341988): after a slow read that began before the deletion, the core led it again."""
    place.make(1, marked=True)
    place.settle()
    place.posted.clear()
    reader = place.seat._watches._reader
    read = reader.topics

    async def slowly(names):
        monkeypatch.undo()
        found = await read(names)
        assert [each.topic.name for each in found.topics] == ["t"]
        place.posted.append(await place.seat.store.write(WriteBatch(1, (DeleteTopic("t", (0,)),))))
        return found

    monkeypatch.setattr(reader, "topics", slowly)
    moved = topic(1)._replace(assignments={0: ReplicaAssignment((2,))})
    place.act(Put(znodes.topic("t"), encode_topic(moved)))
    place.settle()
    assert isinstance(place.posted[0], BatchWritten)
    assert not place.told(TopicsRead)
    place.make(2, marked=False)
    place.settle()
    assert place.told(TopicsRead)[-1].topics[0].topic.topic_id == UUID(int=2)


def test_the_entry_of_a_topic_that_becomes_readable_is_told_again(place):
    place.act(Create(znodes.topic("t"), b"nonsense"))
    place.act(Create(znodes.deletion("t"), None))
    place.settle()
    assert place.told(TopicsRead) == [TopicsRead((), (), ("t",))]
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))]
    place.act(Put(znodes.topic("t"), encode_topic(topic(1))))
    place.settle()
    assert place.told(TopicsRead)[-1].topics[0].topic.topic_id == UUID(int=1)
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))] * 2


def test_the_entry_of_a_topic_that_somebody_removed_is_told_again(place):
    place.make(1, marked=True)
    place.settle()
    place.act(Remove(znodes.topic("t")))
    place.settle()
    assert place.told(TopicsRead)[-1] == TopicsRead((), ("t",))
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))] * 2


def test_an_entry_whose_topic_came_meanwhile_is_not_struck_off(place):
    place.make(1, marked=True)
    place.settle()
    place.write(DeleteQueueEntry("delete_topics", "t"))
    place.settle()
    assert place.tree.get(znodes.deletion("t")) is not None
    assert place.told(TopicDeletionsFound) == [TopicDeletionsFound(("t",))] * 2


def test_an_entry_that_is_older_than_its_topic_is_struck_off(place):
    place.act(Create(znodes.deletion("t"), None))
    place.settle()
    place.make(1, marked=False)
    place.write(DeleteQueueEntry("delete_topics", "t"))
    place.settle()
    assert place.tree.get(znodes.deletion("t")) is None
    assert place.tree.get(znodes.topic("t")) is not None


@pytest.mark.parametrize("third_ms", range(7))
def test_what_a_refused_write_met_is_watched_from_then_on(place, third_ms):
    """It makes no difference whether the watches or the store read the topic first."""
    made = Create(znodes.topic("t"), encode_topic(topic(1)))
    place.scheduler.after(third_ms * MS // 3, lambda: place.tree.commit([made], place.operator))
    refused = place.write(PutTopic(topic(2)))
    assert refused.topics[0].topic.topic_id == UUID(int=1)
    changed = topic(1)._replace(assignments={0: ReplicaAssignment((2,))})
    place.act(Put(znodes.topic("t"), encode_topic(changed)))
    place.settle()
    assert place.told(TopicsRead)[-1].topics[0].topic.assignments == changed.assignments


def test_what_is_being_read_when_a_term_ends_is_not_taken_for_the_next_ones(place):
    async def load():
        await place.seat.store.read(LoadCluster())

    place.loop.deliver(place.loop.create_task, load())
    place.act(Remove(znodes.CONTROLLER))
    place.settle()
    assert [type(event) for event in place.posted] == [SessionExpired, Elected]
    place.run(place.seat.store.read(LoadCluster()))
    assert len(place.told(ClusterLoaded)) == 1


@pytest.mark.parametrize("version", [-1, 5])
def test_what_was_being_written_when_a_term_ends_is_nothing_that_the_next_one_has_seen(place, version):
    """Neither the writes of a batch nor the topics that a refused batch met count as seen: the next term posts them."""
    outcomes = []

    async def write():
        outcomes.append(await place.seat.store.write(WriteBatch(1, (PutTopic(topic(1)._replace(version=version)),))))

    place.loop.deliver(place.loop.create_task, write())
    place.loop.deliver(place.seat.store.begin, Elected(9, 99))
    place.settle()
    assert outcomes == [BatchRefused(1, "fenced")]


REQUEST = f"{znodes.REASSIGNMENT_REQUEST_PREFIX}0000000007"


def request_put_right(place):
    place.act(Put(REQUEST, encode_request(((TopicPartition("t", 0), (1,)),), legacy=False)))
    place.settle()
    (request,) = place.told(ReassignmentRequestsFound)[-1].requests
    return znodes.reassignment_request(request.name) == REQUEST


def test_what_was_being_prepared_when_a_term_ends_is_not_written(place):
    """Reads go on in the next session, and nobody else has raised the epoch yet: the fence alone would let it through."""
    outcomes = []

    async def write():
        record = PutTopic(topic(1)._replace(version=-1), ())
        outcomes.append(await place.seat.store.write(WriteBatch(1, (record,))))

    place.kazoo.throttled = 1.0
    place.loop.deliver(place.loop.create_task, write())
    place.run_for(SECOND)
    assert not outcomes, "what is there has to be read first, and the server is overloaded"
    place.loop.deliver(place.seat.store.end)
    place.kazoo.throttled = 0.0
    place.settle()
    assert outcomes == [BatchRefused(1, "fenced")]
    assert place.tree.get(znodes.topic("t")) is None


def test_a_request_that_somebody_puts_right_is_told(place):
    place.act(Create(REQUEST, b"nonsense"))
    place.settle()
    assert place.told(ReassignmentRequestsFound)[-1].requests == ()
    assert request_put_right(place)


def test_a_request_that_could_not_be_read_when_the_term_began_is_told_too(place):
    place.act(Create(REQUEST, b"nonsense"), Remove(znodes.CONTROLLER))
    place.settle()
    place.run(place.seat.store.read(LoadCluster()))
    place.settle()
    assert request_put_right(place)


def registration(port):
    return encode_broker(Broker(1, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "host", port),)), timestamp_ms=0)


def ports(place):
    place.settle()
    return [broker.endpoints[0].port for broker in place.told(BrokersRead)[-1].brokers if broker.id == 1]


def test_a_registration_that_somebody_overwrites_is_still_there(place):
    place.act(Create(znodes.broker(1), registration(9001)))
    assert ports(place) == [9001]
    place.act(Put(znodes.broker(1), b"nonsense"))
    assert ports(place) == [9001]
    place.act(Put(znodes.broker(1), registration(9002)))
    assert ports(place) == [9002]


def test_a_registration_that_could_never_be_read_is_told_when_it_can(place):
    place.act(Create(znodes.broker(1), b"nonsense"))
    assert ports(place) == []
    place.act(Put(znodes.broker(1), registration(9001)))
    assert ports(place) == [9001]
    place.act(Put(znodes.broker(1), b"nonsense"), Remove(znodes.broker(1)), Create(znodes.broker(1), b"nonsense"))
    assert ports(place) == [], "it is another life of that broker"


def test_who_finds_the_epoch_written_by_hand_is_elected_anew(place):
    """`/controller` still belongs to this session, but all its writes would fail."""
    place.act(Put(znodes.CONTROLLER_EPOCH, b"1"))
    assert place.write(PutTopic(topic(1))).reason == "fenced"
    place.settle()
    (again,) = place.told(Elected)
    assert again.controller_epoch == 2
    assert place.write(PutTopic(topic(1))) in place.told(BatchWritten)


def test_an_epoch_that_can_not_be_read_is_waited_for(place):
    place.act(Put(znodes.CONTROLLER_EPOCH, b"nonsense"))
    place.write(PutTopic(topic(1)))
    place.settle()
    assert len(place.told(SessionExpired)) == 1
    assert not place.told(Elected)
    assert place.seat.election.obstacle
    place.act(Put(znodes.CONTROLLER_EPOCH, b"1"))
    for _ in range(2):
        place.settle()
    assert [event.controller_epoch for event in place.told(Elected)] == [2]


def test_who_writes_into_a_legacy_znode_that_can_not_be_read_is_told(place):
    place.act(Create(znodes.LEGACY_REASSIGNMENTS, b"nonsense"))
    refused = place.write(PutLegacyReassignments(((TopicPartition("t", 0), (1,)),), -1))
    assert (refused.reason, refused.legacy, refused.legacy_unreadable) == ("version", None, True)
    assert place.tree.get(znodes.LEGACY_REASSIGNMENTS).data == b"nonsense"


def test_watches_are_armed_again_though_a_connection_breaks_right_after_they_were(place):
    """The answer has arrived when the process hears that the connection is lost, but is handled after that."""
    place.kazoo.drop()
    while not place.kazoo._flying:
        assert place.scheduler.step(place.scheduler.now_us + SECOND)
    place.loop.pause()
    while place.kazoo._flying:
        assert place.scheduler.step(place.scheduler.now_us + SECOND)
    place.kazoo.drop()
    place.loop.resume()
    place.settle()
    place.act(Create(znodes.broker(1), registration(9001)))
    assert ports(place) == [9001]


@pytest.mark.parametrize(
    ("folder", "child", "kind"),
    [
        (znodes.DELETE_TOPICS, znodes.deletion("t"), TopicDeletionsFound),
        (znodes.LOG_DIR_EVENTS, f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0", LogDirsFailed),
    ],
)
def test_a_folder_that_somebody_deleted_is_watched_when_it_is_there_again(place, folder, child, kind):
    """An operator may run `deleteall /admin/delete_topics`; brokers create the folder again when they need it."""
    place.make(1, marked=False)
    place.settle()
    place.act(Remove(folder))
    place.settle()
    place.posted.clear()
    place.act(Create(folder, None))
    place.settle()
    place.act(Create(child, b'{"version":1,"broker":1,"event":1}'))
    place.settle()
    assert place.told(kind)


def test_configuration_changes_are_heard_of_after_their_folder_was_made_anew(place):
    """The sequence numbers begin at 0 again, below those that were read before."""
    place.make(1, marked=False)
    change = b'{"version":2,"entity_path":"topics/t"}'
    place.act(Create(f"{znodes.CONFIG_CHANGES}/config_change_0000000007", change))
    place.settle()
    assert place.told(ConfigsRead)
    place.posted.clear()
    place.act(Remove(f"{znodes.CONFIG_CHANGES}/config_change_0000000007"))
    place.act(Remove(znodes.CONFIG_CHANGES))
    place.settle()
    place.act(Create(znodes.CONFIG_CHANGES, None))
    place.act(Create(f"{znodes.CONFIG_CHANGES}/config_change_0000000000", change))
    place.settle()
    assert place.told(ConfigsRead)


@pytest.mark.parametrize("folder", [znodes.DELETE_TOPICS, "/admin"])
def test_what_is_written_below_a_folder_that_somebody_deleted_is_written(place, folder):
    place.make(1, marked=False)
    place.settle()
    place.delete_all(folder)
    place.write(PutDeletionMark("t"))
    assert place.told(BatchWritten)
    assert place.tree.get(znodes.deletion("t")) is not None


def test_who_hears_nothing_of_zookeeper_resigns_before_its_session_ends(place):
    """Nobody tells it: its connection seems to live, as kazoo notices a silence only after two thirds of the timeout."""
    place.run_for(60 * SECOND)
    assert not place.told(SessionExpired), "ZooKeeper is heard"
    place.kazoo.silent()
    ends_us = place.scheduler.now_us + 9 * SECOND
    while not place.told(SessionExpired):
        assert place.scheduler.step(ends_us)
    assert 0 < ends_us - place.scheduler.now_us < SECOND
    assert place.kazoo.session in place.tree.sessions, "nobody else can be elected yet"


def test_an_election_whose_answer_came_too_late_is_told_and_then_lost(monkeypatch):
    """The other way round, the loss would be forgotten, and the core would lead without anybody who counts."""
    place = Place()
    place.loop.deliver(place.loop.create_task, place.seat.start())
    real = SimulatedKazoo.heard_s.fget
    monkeypatch.setattr(SimulatedKazoo, "heard_s", property(lambda kazoo: real(kazoo) - 60))
    while not place.told(SessionExpired):
        assert place.scheduler.step(10 * SECOND)
    assert [type(event) for event in place.posted if type(event) in {Elected, SessionExpired}][:2] == [
        Elected,
        SessionExpired,
    ]
    assert place.seat.election.epoch_version is None
    assert place.run(place.seat.store.write(WriteBatch(1, ()))) == BatchRefused(1, "fenced")


def test_a_connection_that_breaks_does_not_shorten_a_term(place):
    for _ in range(5):
        place.kazoo.drop()
        place.run_for(8 * SECOND)
    assert not place.told(SessionExpired)
