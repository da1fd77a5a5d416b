"""A ZooKeeper that refuses: no busy loop, no `/controller` held without acting, no watch that stays unarmed."""

import asyncio
from uuid import UUID

import pytest
from kazoo.exceptions import EXCEPTIONS, NoAuthError
from test_controller_seat import Place, registration

from lab.simulation.scheduler import SECOND
from lab.simulation.zookeeper import wire
from lab.simulation.zookeeper.session import SimulatedKazoo
from shunter.core.controller.events import BrokersRead, ClusterLoaded, Elected, SessionExpired, TopicsRead
from shunter.core.controller.machine import ControllerMachine
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.host.supervision import Supervisor
from shunter.drivers.zookeeper.requests import NO_AUTH, THROTTLED, Create, Put, Remove, ZooKeeperRefused
from shunter.errors import DriverError, InvariantViolation
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import decode_controller, encode_controller
from shunter.formats.znodes.topics import encode_topic
from shunter.model.partition import ReplicaAssignment
from shunter.model.records import PutTopic
from shunter.model.settings import ControllerSettings
from shunter.model.topic import Topic


class RefusingKazoo(SimulatedKazoo):
    """A connection to a server that refuses what `refuse` says: (type, paths) of a request -> error code, or 0."""

    refuse = staticmethod(lambda kind, paths: 0)
    blame = staticmethod(lambda kind, paths: 0)
    """As `refuse`, for a single path: it decides which operation of a multi is named as refused."""

    def _handle(self, request):
        asked = (
            [operation.path for operation in wire.read_multi(request.body)]
            if request.type == wire.MULTI
            else wire.read_many(request.body).paths
            if request.type == wire.MULTI_READ
            else []
            if request.type in {wire.SET_WATCHES, wire.SYNC}
            else [wire.read_path(request.body)[0]]
        )
        code = self.refuse(request.type, asked)
        if not code:
            return super()._handle(request)
        if request.type == wire.MULTI:
            index = next((index for index, path in enumerate(asked) if self.blame(request.type, [path])), 0)
            return wire.multi_refused(wire.read_multi(request.body), index, code), None
        return b"", EXCEPTIONS[code]()


class RefusingPlace(Place):
    """A seat whose core is a real one, in a loop of its own."""

    def __init__(self):
        self.supervisor = Supervisor()
        self.asked = []
        self.refused = lambda kind, paths: 0
        super().__init__()

    def _make_kazoo(self, **_):
        make = super()._make_kazoo()
        make.__class__ = RefusingKazoo
        make.refuse = self._judge
        make.blame = lambda kind, paths: self.refused(kind, paths)  # noqa: PLW0108 - a test changes it later
        return make

    def _judge(self, kind, paths):
        self.asked.append((self.scheduler.now_us, kind, tuple(paths)))
        return self.refused(kind, paths)

    def _failed(self, name, failure):
        if not isinstance(failure, ZooKeeperRefused):  # These tests expect refusals.
            super()._failed(name, failure)

    def elections(self):
        return [when for when, kind, paths in self.asked if kind == wire.MULTI and znodes.CONTROLLER in paths]

    def pass_seconds(self, seconds):
        until = self.scheduler.now_us + seconds * SECOND
        while self.scheduler.step(until):
            pass

    def controller(self):
        return self.tree.get(znodes.CONTROLLER)


def refusing(kind, path, code=NO_AUTH):
    return lambda asked, paths: code if asked == kind and path in paths else 0


def test_an_election_that_is_refused_backs_off_and_says_why():
    place = RefusingPlace()
    place.refused = refusing(wire.MULTI, znodes.CONTROLLER)
    place.run(place.seat.start())
    place.pass_seconds(60)
    assert 3 <= len(place.elections()) <= 10
    (trouble,) = place.seat.troubles
    assert "election is refused" in trouble
    assert str(NO_AUTH) in trouble
    place.refused = lambda kind, paths: 0
    place.pass_seconds(40)
    assert place.told(Elected)
    assert place.seat.troubles == ()


def test_a_look_that_is_refused_backs_off_too():
    place = RefusingPlace()
    place.refused = refusing(wire.MULTI_READ, znodes.CONTROLLER)
    place.run(place.seat.start())
    place.pass_seconds(60)
    looks = [paths for _, kind, paths in place.asked if kind == wire.MULTI_READ and znodes.CONTROLLER in paths]
    assert 3 <= len(looks) <= 20
    place.refused = lambda kind, paths: 0
    place.pass_seconds(40)
    assert place.told(Elected)


def test_an_election_notes_in_its_own_write_that_the_id_is_a_controllers():
    """Found by simulation (seed 96306267): a term of some milliseconds left no time to write it after the election."""
    place = RefusingPlace()
    place.run(place.seat.start())
    place.pass_seconds(1)
    noted, controller = place.tree.get(znodes.controller_id(100)), place.controller()
    assert noted.czxid == controller.czxid
    place.act(Remove(znodes.CONTROLLER))
    place.pass_seconds(10)
    assert len(place.told(Elected)) == 2
    assert place.tree.get(znodes.controller_id(100)).czxid == noted.czxid


def test_an_id_that_could_not_be_noted_is_noted_as_soon_as_zookeeper_allows_it():
    """Otherwise a successor would take a replica that brokers placed on this id for a broker's (seed 95219447)."""
    place = RefusingPlace()
    place.refused = lambda kind, paths: THROTTLED if znodes.controller_id(100) in paths else 0
    place.run(place.seat.start())
    place.pass_seconds(30)
    tries = [when for when, kind, paths in place.asked if znodes.controller_id(100) in paths]
    assert 20 <= len(tries) <= 40
    assert len(place.told(Elected)) == 1
    assert not place.told(SessionExpired)
    assert place.tree.get(znodes.controller_id(100)) is None
    place.refused = lambda kind, paths: 0
    place.pass_seconds(3)
    assert place.tree.get(znodes.controller_id(100)) is not None
    asked = len(place.asked)
    place.pass_seconds(30)
    assert len(place.asked) == asked


def test_an_id_is_noted_though_somebody_has_deleted_the_folder_that_it_belongs_to():
    place = RefusingPlace()
    place.run(place.seat.start())
    place.pass_seconds(1)
    place.act(Remove(znodes.controller_id(100)), Remove(znodes.CONTROLLERS), Remove(znodes.CONTROLLER))
    place.pass_seconds(10)
    assert len(place.told(Elected)) == 2
    assert place.tree.get(znodes.controller_id(100)) is not None


class Acting(RefusingPlace):
    """A seat with the machine and the loop: the events that the seat posts are handled."""

    def __init__(self):
        super().__init__()
        self.control = ControllerLoop(ControllerMachine(ControllerSettings(100)), self)
        self.control.attach(self.seat.store, None)
        self.control.on_resigned = self.seat.give_back

        def post(event):
            self.posted.append(event)
            self.control.post(event)

        self.seat._post = self.seat._watches._post = self.seat.store._post = post

    def now_ms(self):
        return self.scheduler.now_us // 1000

    def begin(self):
        self.loop.deliver(self.loop.create_task, self.control.run())
        self.run(self.seat.start())
        return self


def test_a_read_that_is_refused_at_take_over_leaves_controller_to_others():
    """NoAuth on the list of topics to be deleted: this process can't act, so it may not hold `/controller`."""
    place = Acting()
    place.refused = lambda kind, paths: NO_AUTH if kind == wire.GET_CHILDREN_2 and znodes.DELETE_TOPICS in paths else 0
    place.begin()
    assert place.told(Elected)
    assert not place.told(ClusterLoaded)
    assert place.controller() is None or place.told(SessionExpired)
    held_us, until = 0, place.scheduler.now_us + 60 * SECOND
    going_on = True
    while going_on:
        held, before = place.controller() is not None, place.scheduler.now_us
        going_on = place.scheduler.step(until)
        held_us += (place.scheduler.now_us - before) * held
    assert held_us < 2 * SECOND, "between two attempts the seat is free, and for longer and longer"
    assert len(place.told(Elected)) < 12
    assert "gave the controllership back" in place.seat.election.obstacle
    place.refused = lambda kind, paths: 0
    place.pass_seconds(60)
    assert place.told(ClusterLoaded)
    assert place.control.machine.view.active
    assert decode_controller(place.controller().data).broker == 100


def test_a_folder_of_configurations_that_may_not_be_listed_is_told_and_the_rest_is_served():
    place = Acting()
    place.refused = lambda kind, paths: NO_AUTH if kind == wire.GET_CHILDREN_2 and "/config/brokers" in paths else 0
    place.begin()
    place.pass_seconds(5)
    assert place.control.machine.view.active
    (loaded,) = place.told(ClusterLoaded)
    assert [path for path, _ in loaded.snapshot.unreadable] == ["/config/brokers"]


def test_what_the_core_gives_up_is_given_back_once_and_of_that_term_alone():
    place = Place().begin()
    place.loop.deliver(place.seat.give_back, 99, "an epoch that is not ours")
    place.settle()
    assert place.posted == []
    place.loop.deliver(place.seat.give_back, 1, "our core says so")
    place.settle()
    assert [type(event) for event in place.posted] == [SessionExpired, Elected]
    assert place.told(Elected)[0].controller_epoch == 3


def test_a_watch_that_is_refused_is_armed_as_soon_as_it_may_be():
    place = RefusingPlace().begin()
    place.refused = lambda kind, paths: THROTTLED - 1 if znodes.BROKER_IDS in paths else 0
    place.act(Create(znodes.broker(1), registration(9001)))
    place.settle()
    assert not place.told(BrokersRead)
    assert any(znodes.BROKER_IDS in trouble for trouble in place.seat.troubles)
    place.refused = lambda kind, paths: 0
    place.pass_seconds(31)
    assert [broker.id for broker in place.told(BrokersRead)[-1].brokers if broker.id == 1] == [1]
    assert place.seat.troubles == ()
    place.act(Remove(znodes.broker(1)))
    place.settle()
    assert 1 not in [broker.id for broker in place.told(BrokersRead)[-1].brokers]


def test_the_first_watches_of_a_term_are_tried_again():
    place = RefusingPlace()
    place.refused = lambda kind, paths: NO_AUTH if kind == wire.SET_WATCHES else 0
    place.begin()
    assert place.seat.troubles
    place.refused = lambda kind, paths: 0
    place.pass_seconds(31)
    assert place.seat.troubles == ()


def test_watches_that_a_server_refuses_to_arm_again_are_armed_later():
    place = RefusingPlace().begin()
    place.refused = lambda kind, paths: NO_AUTH if kind == wire.SET_WATCHES else 0
    place.kazoo.drop()
    place.settle()
    assert place.seat.troubles == ("ZooKeeper's watches are not armed again yet",)
    place.act(Create(znodes.broker(1), registration(9001)))
    place.refused = lambda kind, paths: 0
    place.settle()
    assert [broker.id for broker in place.told(BrokersRead)[-1].brokers if broker.id == 1] == [1]


def test_a_server_that_has_too_much_to_do_is_asked_again():
    """Since 3.6 a server may answer THROTTLEDOP (-127); kazoo's thread would end at a code that it does not know."""
    place = RefusingPlace()
    place.refused = lambda kind, paths: THROTTLED if kind != wire.MULTI and len(place.asked) % 3 == 0 else 0
    place.begin()
    assert not place.told(SessionExpired)


@pytest.mark.parametrize("code", [-122, -123, -124, -125, -126, -127, -128])
def test_kazoo_has_a_name_for_every_code(code):
    assert EXCEPTIONS[code]().code == code
    assert EXCEPTIONS[NO_AUTH] is NoAuthError


async def test_the_end_of_a_task_is_the_end_of_the_process_with_its_reason():
    async def ends(how):
        if how is not None:
            raise how

    for how, told in (
        (None, InvariantViolation),
        (ValueError("a bug"), InvariantViolation),
        (DriverError("refused", retriable=False), DriverError),
    ):
        supervisor = Supervisor()
        supervisor.watch(asyncio.create_task(ends(how), name="worker"))
        with pytest.raises(told):
            await supervisor.wait()
    supervisor = Supervisor()
    cancelled = asyncio.create_task(asyncio.Event().wait())
    supervisor.watch(cancelled)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    supervisor.watch_for_errors(asyncio.create_task(ends(None)))
    await asyncio.sleep(0)
    assert supervisor.failure is None


def test_a_standby_whose_registration_could_not_be_removed_tries_again():
    """Otherwise brokers would place replicas on the standby as long as its session lasts."""
    place = RefusingPlace()
    place.run(place.seat.start())
    assert place.told(Elected)
    place.refused = refusing(wire.MULTI, znodes.broker(100))
    operator = place.tree.open_session()
    place.tree.commit([Remove(znodes.CONTROLLER)], operator)
    place.tree.commit([Create(znodes.CONTROLLER, encode_controller(1, timestamp_ms=0), ephemeral=True)], operator)
    place.pass_seconds(10)
    assert place.tree.get(znodes.broker(100)) is not None
    place.refused = lambda kind, paths: 0
    place.pass_seconds(10)
    assert place.tree.get(znodes.broker(100)) is None


def test_a_changed_topic_that_may_not_be_read_is_looked_at_again_later_and_later():
    """The topic's watch is armed relative to the last change that was read: it fires at once, always (seed 200719)."""
    place = Acting()
    topic = Topic("t", UUID(int=1), {0: ReplicaAssignment((1,))})
    place.begin()
    place.pass_seconds(2)
    place.act(Create("/config/topics/t", b'{"version":1,"config":{}}'), Create(znodes.topic("t"), encode_topic(topic)))
    place.pass_seconds(2)
    assert place.told(TopicsRead)
    place.refused = refusing(wire.MULTI_READ, znodes.topic("t"))
    place.act(Put(znodes.topic("t"), encode_topic(topic)))
    place.pass_seconds(20)
    looks = [paths for _, kind, paths in place.asked if kind == wire.MULTI_READ and znodes.topic("t") in paths]
    assert 3 <= len(looks) <= 20


def test_a_term_that_is_given_up_while_its_seat_looks_around_is_over():
    """That the term was given up meanwhile was forgotten, and `/controller` was held for ever without acting."""
    place = RefusingPlace()
    looked = []

    def give_up(kind, paths):
        if kind == wire.EXISTS and znodes.MIGRATION in paths and place.told(Elected) and not looked:
            looked.append(paths)
            place.seat.give_back(place.told(Elected)[0].controller_epoch, "reading the cluster failed")
        return 0

    place.refused = give_up
    place.run(place.seat.start())
    place.pass_seconds(30)
    assert looked
    assert len(place.told(SessionExpired)) == 1
    assert len(place.told(Elected)) == 2


def test_an_epoch_that_brokers_refuse_is_passed_in_a_few_elections():
    """Somebody deleted `/controller_epoch`, and brokers know epoch 900: one more at each election would take hours."""
    place = RefusingPlace()
    place.run(place.seat.start())
    while (epoch := place.told(Elected)[-1].controller_epoch) <= 900:
        place.loop.deliver(place.seat.give_back, epoch, "a broker has heard of a newer controller")
        place.pass_seconds(40)
    assert len(place.told(Elected)) <= 11


@pytest.mark.parametrize(("forbidden", "reason"), [("/brokers/topics/t", "forbidden"), ("/nothing", "")])
def test_a_znode_that_may_not_be_written_is_named(forbidden, reason):
    """The core sets the work aside that writes it. The fence, the batch's first operation, is not part of that work."""
    place = Place().begin()
    place.kazoo.forbidden_writes.append(forbidden)
    outcome = place.write(PutTopic(Topic("t", UUID(int=1), {0: ReplicaAssignment((1,))}, -1), ()))
    assert getattr(outcome, "reason", "") == reason
    assert forbidden in getattr(outcome, "told", forbidden)
