"""Election, fence, batches, reads and watches against a real ZooKeeper server."""

import asyncio
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from kazoo.client import KazooClient

from lab.testbed.zookeeper import ZooKeeperServer
from shunter.core.controller.events import (
    BatchRefused,
    BatchWritten,
    BrokersRead,
    ClusterLoaded,
    ConfigsRead,
    Elected,
    ElectionRequested,
    LegacyReassignmentsFound,
    LogDirsFailed,
    PartitionsRead,
    SessionExpired,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.core.controller.ready import LoadCluster, ReadPartitions, WriteBatch
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Put, Remove, ZooKeeperRefused
from shunter.errors import DriverError
from shunter.formats.znodes import admin as admin_znodes
from shunter.formats.znodes import brokers as broker_znodes
from shunter.formats.znodes import configs as config_znodes
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes import topics as topic_znodes
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.records import (
    CloseOwedDeletion,
    CloseReassignment,
    DeleteQueueEntry,
    DeleteTopic,
    ForgetControllerId,
    PutDeletionMark,
    PutLegacyReassignments,
    PutOwedDeletion,
    PutPartition,
    PutProducerIdBlock,
    PutReassignment,
    PutTopic,
)
from shunter.model.settings import Takeover
from shunter.model.topic import Topic

BOUND_SECONDS = 20.0
ID = UUID(int=7)


class Events:
    """The events that a seat posted, in order."""

    def __init__(self):
        self.all = []
        self._news = asyncio.Event()

    def post(self, event):
        self.all.append(event)
        self._news.set()

    def of(self, kind):
        return [event for event in self.all if isinstance(event, kind)]

    async def next(self, kind, *, after=0, fits=lambda _event: True):
        """The first event of a kind that fits, past the first `after` of that kind."""
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                for event in self.of(kind)[after:]:
                    if fits(event):
                        return event
                self._news.clear()
                await self._news.wait()


def registration(broker_id):
    return Broker(broker_id, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9000 + broker_id),))


@asynccontextmanager
async def seat_of(connect_string, broker_id=100, **settings):
    events = Events()
    client = ZooKeeperClient(connect_string, session_timeout_ms=4_000)
    seat = ControllerSeat(client, registration(broker_id), events.post, **settings)
    await seat.start()
    try:
        yield seat, events
    finally:
        await seat.close()


@asynccontextmanager
async def loaded_seat(connect_string, broker_id=100):
    async with seat_of(connect_string, broker_id) as (seat, events):
        await events.next(Elected)
        await seat.store.read(LoadCluster())
        await events.next(ClusterLoaded)
        yield seat, events


@asynccontextmanager
async def outsider(connect_string):
    """A client of another process: a tool or a broker."""
    client = ZooKeeperClient(connect_string)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def place(zookeeper, chroot):
    """Connect string of a chroot that does not exist yet."""
    return zookeeper.connect_string + chroot


def topic(name, replicas=((1, 2),), version=-1):
    return Topic(name, ID, {number: ReplicaAssignment(each) for number, each in enumerate(replicas)}, version)


def state(isr=(1, 2), epoch=0, version=-1):
    return LeaderAndIsr(isr[0], epoch, isr, version, 1)


def move(version=-1, phase=Phase.MOVING):
    assignment = ReplicaAssignment((1, 2, 3), (3,), (1,))
    return Reassignment(ID, (1, 2), (2, 3), Strategy.INCREMENTAL, phase, assignment, 5, 2, version=version)


async def write(seat, *records, batch_id=1):
    return await seat.store.write(WriteBatch(batch_id, records))


async def expire(client):
    """End a session from outside, as its expiry does: another client with its id and password closes it."""
    kazoo = client._kazoo
    twin = KazooClient(kazoo.hosts[0][0] + f":{kazoo.hosts[0][1]}", client_id=kazoo.client_id)
    await asyncio.to_thread(twin.start)
    await asyncio.to_thread(twin.stop)
    twin.close()


class TestElection:
    async def test_the_first_wins_and_is_registered_the_second_takes_over_when_it_resigns(self, place):
        async with AsyncExitStack() as stack:
            first, of_first = await stack.enter_async_context(seat_of(place, 100))
            won = await of_first.next(Elected)
            assert won == Elected(1, 1)
            second, of_second = await stack.enter_async_context(seat_of(place, 101))
            async with asyncio.timeout(BOUND_SECONDS):
                while second.election.obstacle is None:
                    await second.client.sync()
            assert second.election.obstacle == "broker 100 is the controller"
            listed, _ = await second.client.children(znodes.BROKER_IDS)
            assert listed == ("100",)
            await first.election.resign()
            assert await of_second.next(Elected) == Elected(2, 2)
            assert of_first.of(SessionExpired) == [SessionExpired("resigned")]
            listed, _ = await second.client.children(znodes.BROKER_IDS)
            assert listed == ("101",)
            controller = await second.client.get(znodes.CONTROLLER)
            assert broker_znodes.decode_controller(controller.data).broker == 101
            registered = await second.client.get(znodes.broker(101))
            assert registered.czxid == controller.czxid

    async def test_every_controllers_id_is_durable_and_read(self, place):
        """Brokers place replicas on a controller's id, and the next controller may have another id."""
        async with loaded_seat(place, 100), outsider(place) as tool:
            async with asyncio.timeout(BOUND_SECONDS):
                while await tool.exists(znodes.controller_id(100)) is None:
                    await tool.sync()
            assert (await tool.get(znodes.controller_id(100))).owner == 0
            await tool.create_if_absent(f"{znodes.CONTROLLERS}/x", b'{"version":1}')
        async with loaded_seat(place, 101) as (seat, events):
            async with asyncio.timeout(BOUND_SECONDS):
                while await seat.client.exists(znodes.controller_id(101)) is None:
                    await seat.client.sync()
            await seat.store.read(LoadCluster())
            snapshot = (await events.next(ClusterLoaded, after=1)).snapshot
            assert snapshot.controller_ids == {100, 101}
            told = ("/admin/shunter/controllers/x", "broker id 'x' is not a number from 0 to 2147483647")
            assert snapshot.unreadable == (told,)
            assert isinstance(await write(seat, ForgetControllerId(100)), BatchWritten)
            assert await seat.client.exists(znodes.controller_id(100)) is None
            assert isinstance(await write(seat, ForgetControllerId(100)), BatchWritten)

    async def test_a_controller_that_cant_note_its_id_leads_all_the_same(self, place, caplog):
        async with outsider(place) as tool, seat_of(place, 100, takeover=Takeover.NEVER) as (seat, events):
            await tool.multi((Remove(znodes.CONTROLLERS),))
            seat.election._candidacy.takeover = Takeover.VACANT
            seat.election.survey_again()
            await events.next(Elected)
            async with asyncio.timeout(BOUND_SECONDS):
                while "a successor of another id will not know" not in caplog.text:
                    await tool.sync()
            assert seat.election.epoch_version == 1
            assert not events.of(SessionExpired)

    async def test_whoever_deletes_the_controller_znode_starts_a_new_term(self, place):
        async with seat_of(place) as (seat, events), outsider(place) as tool:
            await events.next(Elected)
            before = await tool.get(znodes.broker(100))
            await tool.multi((Remove(znodes.CONTROLLER),))
            assert (await events.next(SessionExpired)).reason == "somebody deleted /controller"
            assert await events.next(Elected, after=1) == Elected(2, 2)
            after = await tool.get(znodes.broker(100))
            assert after.czxid > before.czxid
            assert after.owner == seat.client.session_id

    async def test_a_standby_that_lost_is_not_registered(self, place):
        async with seat_of(place) as (seat, events), outsider(place) as other:
            await events.next(Elected)
            data = broker_znodes.encode_controller(5, timestamp_ms=0)
            await other.multi((Remove(znodes.CONTROLLER), Create(znodes.CONTROLLER, data, ephemeral=True)))
            assert (await events.next(SessionExpired)).reason == "somebody else took /controller"
            async with asyncio.timeout(BOUND_SECONDS):
                while await other.exists(znodes.broker(100)) is not None:
                    await other.sync()
            assert seat.election.obstacle == "broker 5 is the controller"

    async def test_preempt_deposes_whom_it_finds_but_not_whom_it_saw_coming(self, place):
        async with AsyncExitStack() as stack:
            _, of_first = await stack.enter_async_context(
                seat_of(place, 100, takeover=Takeover.PREEMPT, cool_down_seconds=60)
            )
            await of_first.next(Elected)
            second, of_second = await stack.enter_async_context(
                seat_of(place, 101, takeover=Takeover.PREEMPT, cool_down_seconds=60)
            )
            assert await of_second.next(Elected) == Elected(2, 2)
            await of_first.next(SessionExpired)
            await second.client.sync()
            assert len(of_first.of(Elected)) == 1
            assert second.election.epoch_version == 2

    async def test_an_active_one_and_a_standby_that_both_preempt_do_not_take_turns(self, place):
        """Two controllers that took the seat from each other for ever would do no work; see decision 0009."""
        async with seat_of(place, 100, takeover=Takeover.PREEMPT, cool_down_seconds=0) as (first, of_first):
            await of_first.next(Elected)
            async with seat_of(place, 101, takeover=Takeover.PREEMPT, cool_down_seconds=0) as (_, of_second):
                await of_second.next(Elected)
                await of_first.next(SessionExpired)
                told = "broker 101 became the controller while we watched, and is a Shunter, which a standby does not depose"
                async with asyncio.timeout(BOUND_SECONDS):
                    while first.election.obstacle != told:
                        await first.client.sync()
            assert await of_first.next(Elected, after=1) == Elected(3, 3)

    async def test_an_apache_controller_that_came_is_deposed_after_the_cool_down(self, place):
        async with (
            seat_of(place, 100, takeover=Takeover.PREEMPT, cool_down_seconds=0.3) as (_, events),
            outsider(place) as apache,
        ):
            await events.next(Elected)
            began = time.monotonic()
            data = broker_znodes.encode_controller(5, timestamp_ms=0)
            await apache.multi((Remove(znodes.CONTROLLER), Create(znodes.CONTROLLER, data, ephemeral=True)))
            await events.next(Elected, after=1)
            assert time.monotonic() - began >= 0.3

    @pytest.mark.parametrize(
        ("path", "data", "told"),
        [
            (
                znodes.CONTROLLER,
                b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}',
                "a KRaft controller (3000) holds /controller, which no session ends: if it runs no more",
            ),
            (znodes.CONTROLLER, b"nonsense", "/controller: is not JSON"),
            (
                znodes.MIGRATION,
                b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":1}',
                "/migration says that KRaft controller 3000 migrates this cluster; if that was reverted, delete /migration",
            ),
            (
                znodes.MIGRATION,
                b'{"version":0,"kraft_controller_id":-1,"kraft_controller_epoch":-1}',
                "/migration is there: this cluster migrates to KRaft",
            ),
        ],
    )
    async def test_a_kraft_controller_or_a_migration_is_never_taken_over(self, place, path, data, told):
        async with outsider(place) as other:
            await other.create_if_absent(path, data)
            async with seat_of(place, takeover=Takeover.PREEMPT, cool_down_seconds=0) as (seat, events):
                async with asyncio.timeout(BOUND_SECONDS):
                    while seat.election.obstacle is None:
                        await seat.client.sync()
                assert seat.election.obstacle.startswith(told)
                await other.multi((Remove(path),))
                await events.next(Elected)

    async def test_we_leave_when_a_migration_to_kraft_begins(self, place):
        """KRaft's controllers wait until every id in `/brokers/ids` has registered with them. Shunter never does."""
        async with seat_of(place) as (seat, events), outsider(place) as kraft:
            await events.next(Elected)
            data = b'{"version":0,"kraft_controller_id":-1,"kraft_controller_epoch":-1}'
            await kraft.create_if_absent(znodes.MIGRATION, data)
            lost = await events.next(SessionExpired)
            assert lost.reason.startswith("/migration is there: this cluster migrates to KRaft")
            async with asyncio.timeout(BOUND_SECONDS):
                while (await kraft.exists(znodes.CONTROLLER), await kraft.exists(znodes.broker(100))) != (None, None):
                    await kraft.sync()
                while seat.election.refused or not str(seat.election.obstacle).startswith(znodes.MIGRATION):
                    await kraft.sync()
            await kraft.multi((Remove(znodes.MIGRATION),))
            # After a term that ended with a resignation the epoch rises by two.
            assert await events.next(Elected, after=1) == Elected(3, 2)

    async def test_we_leave_when_a_broker_has_our_id(self, place):
        """Once Shunter has withdrawn its registration, a broker can start with the same id."""
        async with seat_of(place) as (seat, events), outsider(place) as broker:
            await events.next(Elected)
            data = broker_znodes.encode_broker(registration(100), timestamp_ms=1)
            await broker.multi((Remove(znodes.broker(100)), Create(znodes.broker(100), data, ephemeral=True)))
            assert "has registered itself with our broker id 100" in (await events.next(SessionExpired)).reason
            async with asyncio.timeout(BOUND_SECONDS):
                while await broker.exists(znodes.CONTROLLER) is not None:
                    await broker.sync()
                while "is taken by the broker at" not in str(seat.election.obstacle):
                    await broker.sync()
            assert await broker.exists(znodes.broker(100)) is not None

    async def test_never_means_never(self, place):
        async with seat_of(place, takeover=Takeover.NEVER) as (seat, events):
            async with asyncio.timeout(BOUND_SECONDS):
                while seat.election.obstacle is None:
                    await seat.client.sync()
            assert not events.all

    async def test_an_expired_session_ends_the_term_and_a_new_one_begins(self, place):
        async with seat_of(place) as (seat, events):
            await events.next(Elected)
            await expire(seat.client)
            assert (await events.next(SessionExpired)).reason == "the ZooKeeper session expired"
            assert await events.next(Elected, after=1) == Elected(2, 2)

    async def test_a_killed_process_is_followed_at_once_by_its_successor(self, place):
        """Its session would last 30 s more, but its process is provably dead."""
        script = Path(__file__).with_name("controller_process.py")
        process = await asyncio.create_subprocess_exec(
            sys.executable, script, place, "100", stdout=asyncio.subprocess.PIPE
        )
        try:
            assert await process.stdout.readline() == b"elected 1\n"
            async with seat_of(place, 100) as (seat, events):
                async with asyncio.timeout(BOUND_SECONDS):
                    while seat.election.obstacle is None:
                        await seat.client.sync()
                assert f"broker id 100 is registered by the Shunter process {process.pid}" in seat.election.obstacle
                assert not events.of(Elected)
        finally:
            process.kill()
            await process.wait()
        began = time.monotonic()
        async with seat_of(place, 100) as (_, events):
            assert await events.next(Elected) == Elected(2, 2)
        assert time.monotonic() - began < BOUND_SECONDS / 2

    async def test_no_server_is_said(self, free_port):
        client = ZooKeeperClient(f"127.0.0.1:{free_port}")
        with pytest.raises(DriverError, match="no ZooKeeper server answered"):
            await client.start(timeout_seconds=0.5)


class TestWrites:
    async def test_a_topic_lives_and_dies(self, place):
        async with loaded_seat(place) as (seat, _):
            tp = TopicPartition("t", 0)
            created = await write(
                seat, PutTopic(topic("t"), (("a", "b"),)), PutPartition(tp, state()), PutReassignment(tp, move())
            )
            record = await seat.client.get(znodes.reassignment(tp))
            assert created == BatchWritten(1, (0, 0, 0), (0, 0, record.czxid))
            again = await write(
                seat,
                PutTopic(topic("t", ((2, 1),), version=0)),
                PutPartition(tp, state(epoch=1, version=0)),
                PutReassignment(tp, move(version=0, phase=Phase.DROPPING)),
                PutDeletionMark("t"),
            )
            assert again == BatchWritten(1, (1, 1, 1, -1), (0, 0, 0, 0))
            config = await seat.client.get(znodes.config("topics", "t"))
            assert config_znodes.decode_config("p", config.data) == {"a": "b"}
            gone = await write(seat, CloseReassignment(tp, 1, last=True), DeleteTopic("t", (0,)))
            assert gone == BatchWritten(1, (-1, -1), (0, 0))
            for path in (znodes.TOPICS, znodes.DELETE_TOPICS, znodes.REASSIGNMENTS, "/config/topics"):
                assert (await seat.client.children(path))[0] == ()

    async def test_everything_else_is_written(self, place):
        tp = TopicPartition("t", 0)
        async with loaded_seat(place) as (seat, events):
            legacy = admin_znodes.encode_legacy_reassignments([(tp, (1,)), (TopicPartition("t", 1), (1,))])
            await seat.client.create_if_absent(znodes.LEGACY_REASSIGNMENTS, legacy)
            await seat.client.create_if_absent(znodes.PREFERRED_ELECTION, admin_znodes.encode_partitions([tp]))
            done = await write(
                seat,
                PutOwedDeletion(4, ((tp, 3),), -1),
                PutProducerIdBlock(1, 0, 999, 0),
                PutLegacyReassignments(((tp, (1,)),), 0),
                DeleteQueueEntry("preferred_replica_election", ""),
                DeleteQueueEntry("delete_topics", "never queued"),
            )
            assert done == BatchWritten(1, (0, 1, 1, -1, -1), (0, 0, 0, 0, 0))
            await seat.store.read(LoadCluster())
            loaded = (await events.next(ClusterLoaded, after=1)).snapshot
            assert loaded.owed_deletions == {4: (((tp, 3),), 0)}
            assert loaded.producer_id_block == (1000, 1)
            assert loaded.legacy.targets == {tp: (1,)}
            assert await seat.client.exists(znodes.PREFERRED_ELECTION) is None
            closed = await write(seat, CloseOwedDeletion(4, 0), PutLegacyReassignments(None, 1))
            assert closed == BatchWritten(1, (-1, -1), (0, 0))

    async def test_a_deleted_folder_is_created_anew_while_others_read_below_the_chroot(self, zookeeper, place):
        """A foreign cluster at the root is never seen, also while the folders are created below the chroot."""
        async with outsider(zookeeper.connect_string) as foreigner:
            await foreigner.create_if_absent(znodes.CONTROLLER, b"foreign")
            try:
                async with loaded_seat(place) as (seat, events):
                    await seat.client.multi((Remove(znodes.REASSIGNMENTS),))
                    tp = TopicPartition("orders", 0)
                    writing = asyncio.create_task(write(seat, PutReassignment(tp, move())))
                    found = []
                    while not writing.done():
                        found.append(await seat.client.get(znodes.CONTROLLER))
                    assert isinstance(await writing, BatchWritten)
                    assert {broker_znodes.decode_controller(each.data).broker for each in found} == {100}
                    assert await seat.client.exists(znodes.REASSIGNMENTS) is not None
                    assert not events.of(SessionExpired)
            finally:
                await foreigner.multi((Remove(znodes.CONTROLLER),))

    async def test_a_version_that_moved_refuses_all_and_says_what_stands_there(self, place):
        async with loaded_seat(place) as (seat, _), outsider(place) as other:
            tp = TopicPartition("t", 0)
            await write(seat, PutTopic(topic("t")), PutPartition(tp, state()))
            theirs = topic_znodes.encode_state(state(isr=(2,), epoch=5))
            await other.multi((Put(znodes.state("t", 0), theirs),))
            refused = await write(seat, PutTopic(topic("u")), PutPartition(tp, state(epoch=1, version=0)), batch_id=9)
            assert isinstance(refused, BatchRefused)
            assert (refused.batch_id, refused.reason, refused.gone) == (9, "version", ("u",))
            (found,) = refused.topics
            assert found.states == {0: state(isr=(2,), epoch=5, version=1)}
            assert await other.exists(znodes.topic("u")) is None

    async def test_creating_what_is_there_is_a_version_conflict(self, place):
        async with loaded_seat(place) as (seat, _):
            await write(seat, PutTopic(topic("t")))
            refused = await write(seat, PutTopic(topic("t", ((5,),))))
            assert (refused.reason, refused.topics[0].topic) == ("version", topic("t", version=0))

    async def test_the_fence_refuses_a_controller_of_yesterday(self, place):
        async with loaded_seat(place) as (seat, events), outsider(place) as other:
            await write(seat, PutTopic(topic("t")))
            stale = seat.election.epoch_version
            # A successor raises the epoch, and the old seat has not noticed, as after a long pause.
            await other.multi((Put(znodes.CONTROLLER_EPOCH, b"2", stale),))
            assert await write(seat, PutTopic(topic("t", ((9,),), version=0)), batch_id=3) == BatchRefused(3, "fenced")
            untouched = await other.get(znodes.topic("t"))
            assert untouched.version == 0
            assert not events.of(SessionExpired)

    async def test_nothing_is_written_between_terms(self, place):
        async with loaded_seat(place) as (seat, _):
            await seat.election.resign()
            assert await write(seat, PutTopic(topic("t"))) == BatchRefused(1, "fenced")

    async def test_a_leftover_configuration_is_overwritten_by_a_new_topic(self, place):
        async with loaded_seat(place) as (seat, _):
            await seat.client.create_if_absent(znodes.config("topics", "t"), b'{"version":1,"config":{"old":"x"}}')
            assert await write(seat, PutTopic(topic("t"))) == BatchWritten(1, (0,), (0,))
            config = await seat.client.get(znodes.config("topics", "t"))
            assert config_znodes.decode_config("p", config.data) == {}

    async def test_a_batch_beyond_jutes_limit_is_refused_before_it_is_sent(self, place):
        async with loaded_seat(place) as (seat, _):
            great = topic("t", tuple((number % 200, 200 + number % 50) for number in range(90_000)))
            assert await write(seat, PutTopic(great)) == BatchRefused(1, "too-great")
            assert await seat.client.get(znodes.topic("t")) is None
            assert await write(seat, PutTopic(topic("t"))) == BatchWritten(1, (0,), (0,)), "the seat goes on"

    async def test_a_great_topic_is_deleted_in_portions(self, place):
        async with loaded_seat(place) as (seat, _):
            count = 1_200
            await write(seat, PutTopic(topic("t", ((1,),) * count)), PutDeletionMark("t"))
            for start in range(0, count, 300):
                numbers = range(start, start + 300)
                states = [PutPartition(TopicPartition("t", number), state(isr=(1,))) for number in numbers]
                assert isinstance(await write(seat, *states), BatchWritten)
            done = await write(seat, DeleteTopic("t", tuple(range(count))))
            assert done == BatchWritten(1, (-1,), (0,))
            assert (await seat.client.children(znodes.TOPICS))[0] == ()
            assert (await seat.client.children(znodes.DELETE_TOPICS))[0] == ()

    @pytest.mark.parametrize("arrives", [True, False])
    async def test_a_lost_answer_is_looked_up(self, place, arrives):
        """The connection breaks after the multi was carried out but before its answer, or before it was sent."""
        async with loaded_seat(place) as (seat, _):
            await write(seat, PutTopic(topic("t")))
            lossy = LossyConnection(seat.client, arrives=arrives)
            done = await write(
                seat,
                PutTopic(topic("t", ((3,),), version=0)),
                PutReassignment(TopicPartition("t", 0), move()),
            )
            assert lossy.lost == 1
            record = await seat.client.get(znodes.reassignment(TopicPartition("t", 0)))
            assert done == BatchWritten(1, (1, 0), (0, record.czxid))
            assert (await seat.client.get(znodes.topic("t"))).version == 1


class LossyConnection:
    """Breaks the connection at the next multi: before it is sent, or when its answer comes."""

    def __init__(self, client, *, arrives):
        self.lost = 0
        self._connection = client._kazoo._connection
        self._arrives = arrives
        self._real = self._connection._submit, self._connection._read_response
        self._connection._submit = self._submit
        self._connection._read_response = self._read_response

    def _submit(self, request, timeout, xid=None):
        if request.type == 14 and not self._arrives:
            self._break()
        return self._real[0](request, timeout, xid)

    def _read_response(self, header, buffer, offset):
        if self._arrives and self._connection.client._pending[0][0].type == 14:
            self._break()
        return self._real[1](header, buffer, offset)

    def _break(self):
        from kazoo.exceptions import ConnectionDropped

        self.lost += 1
        self._connection._submit, self._connection._read_response = self._real
        raise ConnectionDropped("by the test")


class TestReads:
    async def test_an_empty_cluster_gets_its_paths_and_an_id(self, place):
        async with loaded_seat(place) as (seat, events):
            snapshot = events.of(ClusterLoaded)[0].snapshot
            assert len(snapshot.cluster_id) == 22
            assert [broker.id for broker in snapshot.brokers] == [100]
            assert snapshot.brokers[0].epoch == (await seat.client.get(znodes.broker(100))).czxid
            assert (snapshot.topics, snapshot.reassignments, snapshot.legacy) == ((), {}, None)
            assert snapshot.producer_id_block == (0, 0)
            for path in znodes.PERSISTENT:
                assert await seat.client.exists(path) is not None

    async def test_two_thousand_topics_are_loaded_as_written(self, place):
        async with seat_of(place) as (seat, events):
            await events.next(Elected)
            names = [f"t{number}" for number in range(2_000)]
            for start in range(0, 2_000, 250):
                records = []
                for name in names[start : start + 250]:
                    records.append(PutTopic(topic(name, ((1, 2), (2, 3)))))
                    records.append(PutPartition(TopicPartition(name, 0), state((1, 2))))
                assert isinstance(await write(seat, *records), BatchWritten)
            await seat.store.read(LoadCluster())
            snapshot = (await events.next(ClusterLoaded)).snapshot
            assert [each.topic.name for each in snapshot.topics] == sorted(names)
            for each in snapshot.topics:
                assert each.topic == topic(each.topic.name, ((1, 2), (2, 3)), version=0)
                assert each.states == {0: state((1, 2), version=0)}
                assert each.configs == {}

    async def test_broken_znodes_are_named_and_the_rest_is_served(self, place):
        async with outsider(place) as other:
            broken = {
                znodes.topic("bad"): b"{",
                znodes.topic("good"): b'{"version":3,"partitions":{"0":[1],"1":[1]}}',
                znodes.partitions("good"): None,
                "/brokers/topics/good/partitions/0": None,
                znodes.state("good", 0): b'{"version":9}',
                "/brokers/topics/good/partitions/1": None,
                znodes.state("good", 1): topic_znodes.encode_state(state(isr=(1,))),
                znodes.config("topics", "good"): b"[]",
                znodes.broker(5): b'{"version":77}',
                znodes.topic_reassignments("good"): None,
                znodes.reassignment(TopicPartition("good", 1)): b"x",
                znodes.owed_deletions(6): b'{"version":1}',
                znodes.config("brokers", "7"): b'{"config":1}',
                znodes.LEGACY_REASSIGNMENTS: b'{"partitions":[{}]}',
            }
            for path, data in broken.items():
                await other.create_if_absent(path, data)
            async with loaded_seat(place) as (_, events):
                snapshot = events.of(ClusterLoaded)[0].snapshot
                (good,) = snapshot.topics
                assert (good.topic.name, good.unreadable, list(good.states)) == ("good", (0,), [1])
                assert [broker.id for broker in snapshot.brokers] == [100]
                assert [path for path, _ in snapshot.unreadable] == sorted(
                    path
                    for path, data in broken.items()
                    if data is not None and path not in {znodes.topic("good"), znodes.state("good", 1)}
                )

    async def test_named_partitions_are_read(self, place):
        async with loaded_seat(place) as (seat, events):
            there, absent = TopicPartition("t", 0), TopicPartition("t", 1)
            await write(seat, PutTopic(topic("t")), PutPartition(there, state()))
            await seat.store.read(ReadPartitions((there, absent)))
            assert events.of(PartitionsRead) == [PartitionsRead({there: state(version=0)})]

    async def test_without_multi_read_znodes_are_read_one_by_one(self, place):
        """As on ZooKeeper 3.5, which answers the request with UNIMPLEMENTED."""
        async with seat_of(place) as (seat, events):
            await events.next(Elected)
            await write(seat, PutTopic(topic("t")), PutPartition(TopicPartition("t", 0), state()))
            seat.client._multi_read = False
            await seat.store.read(LoadCluster())
            (found,) = (await events.next(ClusterLoaded)).snapshot.topics
            assert (found.topic, found.states) == (topic("t", version=0), {0: state(version=0)})

    async def test_a_refusal_names_the_operation(self, place):
        async with outsider(place) as client:
            with pytest.raises(ZooKeeperRefused) as refusal:
                await client.multi((Create("/a", None), Put("/b", b""), Create("/c", None)))
            assert refusal.value.index == 1
            assert await client.exists("/a") is None


class TestWatches:
    async def test_brokers_that_come_change_and_go(self, place):
        async with loaded_seat(place) as (_, events):
            async with outsider(place) as broker:
                data = broker_znodes.encode_broker(registration(1), timestamp_ms=1)
                await broker.multi((Create(znodes.broker(1), data, ephemeral=True),))
                come = await events.next(BrokersRead, fits=lambda event: len(event.brokers) == 2)
                epoch = (await broker.get(znodes.broker(1))).czxid
                assert come.brokers[0] == registration(1)._replace(epoch=epoch)
                other = registration(1)._replace(rack="r")
                await broker.multi((Put(znodes.broker(1), broker_znodes.encode_broker(other, timestamp_ms=1)),))
                await events.next(BrokersRead, fits=lambda event: event.brokers[0].rack == "r")
                await broker.multi((Remove(znodes.broker(1)), Create(znodes.broker(1), data, ephemeral=True)))
                await events.next(BrokersRead, fits=lambda event: event.brokers[0].epoch > epoch)
                so_far = len(events.of(BrokersRead))
            await events.next(BrokersRead, after=so_far, fits=lambda event: len(event.brokers) == 1)

    async def test_topics_of_others_are_told_and_our_own_are_not(self, place):
        async with loaded_seat(place) as (seat, events), outsider(place) as other:
            await write(seat, PutTopic(topic("ours")))
            await write(seat, PutTopic(topic("ours", ((5,),), version=0)))
            await other.create_if_absent(znodes.topic("theirs"), topic_znodes.encode_topic(topic("theirs")))
            found = await events.next(TopicsRead)
            assert [each.topic for each in found.topics] == [topic("theirs", version=0)]
            for name, version in (("theirs", 0), ("ours", 1), ("ours", 2)):
                changed = topic(name, ((8 + version,),), version=version)
                await other.multi((Put(znodes.topic(name), topic_znodes.encode_topic(changed), version),))
                told = await events.next(
                    TopicsRead, fits=lambda event, name=name, version=version: (name, version + 1)
                    in {(each.topic.name, each.topic.version) for each in event.topics},
                )  # fmt: skip
                assert told.topics[0].topic.assignments == changed.assignments
            told = len(events.of(TopicsRead))
            await write(seat, PutTopic(topic("ours", ((6,),), version=3)))
            await other.multi((Remove(znodes.topic("theirs")),))
            gone = await events.next(TopicsRead, after=told)
            assert gone == TopicsRead((), ("theirs",))
            assert len(events.of(TopicsRead)) == told + 1

    async def test_a_topic_made_anew_under_its_old_name_is_told(self, place):
        async with loaded_seat(place) as (seat, events), outsider(place) as other:
            await write(seat, PutTopic(topic("t")))
            anew = topic("t", ((4,),))._replace(topic_id=UUID(int=8))
            data = topic_znodes.encode_topic(anew)
            await other.multi((Remove(znodes.topic("t")), Create(znodes.topic("t"), data)))
            told = await events.next(TopicsRead, fits=lambda event: bool(event.topics))
            assert told.topics[0].topic == anew._replace(version=0)

    async def test_what_happens_between_arming_and_loading_is_told(self, place):
        async with seat_of(place) as (seat, events), outsider(place) as other:
            await events.next(Elected)
            await write(seat, PutTopic(topic("t")))
            real = seat._watches.arm

            async def arm_and_let_others_act():
                await real()
                await other.create_if_absent(znodes.topic("u"), topic_znodes.encode_topic(topic("u")))

            seat._watches.arm = arm_and_let_others_act
            await seat.store.read(LoadCluster())
            loaded = events.of(ClusterLoaded)[0].snapshot
            assert [each.topic.name for each in loaded.topics] == ["t", "u"]
            await other.multi((Put(znodes.topic("t"), topic_znodes.encode_topic(topic("t", ((7,),)))),))
            told = await events.next(TopicsRead)
            assert [each.topic for each in told.topics] == [topic("t", ((7,),), version=1)]

    async def test_requests_by_znode(self, place):
        tp = TopicPartition("t", 0)
        async with loaded_seat(place) as (seat, events), outsider(place) as tool:
            await tool.create_if_absent(
                znodes.LEGACY_REASSIGNMENTS, admin_znodes.encode_legacy_reassignments([(tp, (1,))], {tp: (2,)})
            )
            legacy = (await events.next(LegacyReassignmentsFound)).legacy
            assert (legacy.targets, legacy.originals, legacy.version) == ({tp: (1,)}, {tp: (2,)}, 0)
            await write(seat, PutLegacyReassignments(((tp, (1,)),), 0))
            await tool.multi((Remove(znodes.LEGACY_REASSIGNMENTS),))
            assert await events.next(LegacyReassignmentsFound, after=1) == LegacyReassignmentsFound(None)
            await tool.create_if_absent(znodes.deletion("t"), None)
            assert await events.next(TopicDeletionsFound) == TopicDeletionsFound(("t",))
            await tool.create_if_absent(znodes.PREFERRED_ELECTION, admin_znodes.encode_partitions([tp]))
            assert await events.next(ElectionRequested) == ElectionRequested((tp,), queue_entry=True)
            await write(seat, DeleteQueueEntry("preferred_replica_election", ""))
            await tool.create_if_absent(znodes.PREFERRED_ELECTION, admin_znodes.encode_partitions([tp]))
            await events.next(ElectionRequested, after=1)
            await write(seat, DeleteQueueEntry("preferred_replica_election", ""))
            await tool.create_if_absent(znodes.PREFERRED_ELECTION, b"no JSON")
            told = await events.next(ElectionRequested, after=2)
            assert told == ElectionRequested((), queue_entry=True), "it is removed, as by Apache's controller"

    async def test_announcements_are_taken_over_and_deleted(self, place):
        tp = TopicPartition("t", 0)
        async with outsider(place) as broker:
            before = Create(f"{znodes.LOG_DIR_EVENTS}/log_dir_event_", admin_znodes.encode_log_dir_event(3))
            old = config_znodes.encode_config_change(config_znodes.ConfigChange("topics", "old"))
            await broker.multi((
                before._replace(sequential=True),
                Create(f"{znodes.CONFIG_CHANGES}/config_change_", old, sequential=True),
            ))  # fmt: skip
            async with loaded_seat(place) as (seat, events):
                assert await events.next(LogDirsFailed) == LogDirsFailed((3,))
                await write(seat, PutTopic(topic("t")), PutPartition(tp, state()))
                isr = Create(f"{znodes.ISR_CHANGES}/isr_change_", admin_znodes.encode_partitions([tp]))
                await broker.multi((isr._replace(sequential=True),))
                assert await events.next(PartitionsRead) == PartitionsRead({tp: state(version=0)})
                async with asyncio.timeout(BOUND_SECONDS):
                    while (await broker.children(znodes.ISR_CHANGES))[0] + (
                        await broker.children(znodes.LOG_DIR_EVENTS)
                    )[0]:
                        await broker.sync()
                await broker.create_if_absent(znodes.config("brokers", "<default>"), config_znodes.encode_config({}))
                await broker.multi(tuple(
                    Create(
                        f"{znodes.CONFIG_CHANGES}/config_change_",
                        config_znodes.encode_config_change(config_znodes.ConfigChange(kind, name)),
                        sequential=True,
                    )
                    for kind, name in (("topics", "t"), ("brokers", "<default>"), ("users", "u"))
                ))  # fmt: skip
                assert await events.next(ConfigsRead) == ConfigsRead({"t": {}}, {"<default>": {}})

    async def test_watches_outlive_a_lost_connection(self, zookeeper, place):
        """Changes during a lost connection are reported afterwards."""
        async with loaded_seat(place) as (seat, events), outsider(place) as other:
            await write(seat, PutTopic(topic("t")))
            real = seat.client._kazoo._connection._connect
            reachable = asyncio.Event()

            def unreachable(*arguments):
                if not reachable.is_set():
                    from kazoo.exceptions import ConnectionDropped

                    raise ConnectionDropped("by the test")
                return real(*arguments)

            seat.client._kazoo._connection._connect = unreachable
            seat.client._kazoo._connection._socket.shutdown(2)
            async with asyncio.timeout(BOUND_SECONDS):
                while seat.client.connected:
                    await other.sync()
            await other.multi((Put(znodes.topic("t"), topic_znodes.encode_topic(topic("t", ((7,),)))),))
            await other.create_if_absent(znodes.topic("u"), topic_znodes.encode_topic(topic("u")))
            reachable.set()
            await events.next(TopicsRead, fits=lambda event: {"t"} & {each.topic.name for each in event.topics})
            await events.next(TopicsRead, fits=lambda event: {"u"} & {each.topic.name for each in event.topics})
            assert not events.of(SessionExpired)


async def test_a_chroot_of_several_steps(zookeeper):
    place = f"{zookeeper.connect_string}/a-{uuid4().hex[:8]}/b"
    async with loaded_seat(place) as (seat, _):
        await write(seat, PutTopic(topic("t")))
        assert (await seat.client.children(znodes.TOPICS))[0] == ("t",)


async def test_a_controller_that_can_not_reach_zookeeper_gives_up_by_itself(tmp_path):
    """The controller can't learn that its session ended. It measures the time, and is a candidate again afterwards."""
    with ZooKeeperServer(tmp_path) as server:
        async with seat_of(server.connect_string) as (seat, events):
            first = await events.next(Elected)
            await asyncio.to_thread(server.pause)
            try:
                asked = time.monotonic()
                lost = await events.next(SessionExpired)
                assert "has not answered for 4 s" in lost.reason
                assert time.monotonic() - asked < 4.1, "counted from the last answer, not from the moment of notice"
                assert seat.election.epoch_version is None
            finally:
                await asyncio.to_thread(server.resume)
            again = await events.next(Elected, after=1)
            assert again.controller_epoch > first.controller_epoch
            assert len(events.of(SessionExpired)) == 1
