"""A standby is as fast as it can be when the seat is vacant; and what each takeover does when an Apache broker is faster.

The ZooKeeper is the simulation's.
"""

import subprocess
import sys
from functools import partial

import pytest
from test_seat_refusals import RefusingPlace

from lab.simulation.zookeeper import wire
from shunter.core.controller.events import Elected, SessionExpired
from shunter.drivers.host import process_identity
from shunter.drivers.zookeeper.requests import Create, Remove
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import ProcessIdentity, decode_controller, encode_broker, encode_controller
from shunter.model.settings import Takeover

ELSEWHERE = ProcessIdentity("another-boot", "pid:[1]", 77, 5)
"""A Shunter process on another machine."""


class Standby(RefusingPlace):
    """A seat that stands by, other controllers, and a survey that finds `unfit`."""

    def __init__(self, takeover=Takeover.VACANT):
        super().__init__()
        self.seat.election._candidacy.takeover = takeover
        self.seat.election._survey = self._look_around
        self.surveys = 0
        self.unfit = None
        self.holder = None

    async def _look_around(self):
        self.surveys += 1
        return self.unfit

    def lead(self, broker, process=None, **kraft):
        """Let another process hold the seat; the one before it loses it in the same moment."""
        session = self.tree.open_session()
        data = encode_controller(broker, timestamp_ms=0, process=process)
        if kraft:
            data = b'{"version":2,"brokerid":%d,"timestamp":"1","kraftControllerEpoch":4}' % broker
        former = [] if self.controller() is None else [Remove(znodes.CONTROLLER)]
        self.tree.commit([*former, Create(znodes.CONTROLLER, data, ephemeral=True)], session)
        self.holder = session
        return self

    def begin(self):
        self.run(self.seat.start())
        return self

    def vacate(self):
        self.asked.clear()
        self.tree.close_session(self.holder)

    def leads(self):
        held = self.controller()
        return held is not None and decode_controller(held.data).broker == 100


def test_the_first_request_of_a_standby_when_the_seat_is_vacant_is_its_election():
    """An Apache broker reads who leads, then the epoch, and writes then: it was faster, always."""
    place = Standby().lead(1, ELSEWHERE).begin()
    place.pass_seconds(40)
    surveys = place.surveys
    assert surveys > 1
    place.vacate()
    place.pass_seconds(1)
    assert place.told(Elected)
    (_, kind, paths), *_ = place.asked
    assert kind == wire.MULTI
    assert znodes.CONTROLLER in paths
    assert place.surveys == surveys


def test_the_election_of_an_id_that_is_noted_is_one_request():
    place = Standby()
    place.act(
        Create("/admin/shunter", None), Create(znodes.CONTROLLERS, None), Create(znodes.controller_id(100), b"{}")
    )
    place.lead(1, ELSEWHERE).begin()
    place.vacate()
    place.pass_seconds(1)
    assert place.told(Elected)
    assert len(place.elections()) == 1
    place.act(Remove(znodes.CONTROLLER))
    place.pass_seconds(1)
    assert len(place.told(Elected)) == 2


def test_a_note_that_somebody_removed_meanwhile_is_written_by_the_election():
    place = Standby()
    place.act(
        Create("/admin/shunter", None), Create(znodes.CONTROLLERS, None), Create(znodes.controller_id(100), b"{}")
    )
    place.lead(1, ELSEWHERE).begin()
    place.act(Remove(znodes.controller_id(100)))
    place.settle()
    place.vacate()
    place.pass_seconds(1)
    assert place.tree.get(znodes.controller_id(100)).czxid == place.controller().czxid


def test_a_standby_that_sees_something_else_change_looks_before_it_stands():
    place = Standby().lead(1, ELSEWHERE).begin()
    place.act(Create(znodes.MIGRATION, b'{"version":0,"kraft_controller_id":-1,"kraft_controller_epoch":-1}'))
    place.tree.close_session(place.holder)
    place.pass_seconds(40)
    assert not place.told(Elected)
    assert "migrates to KRaft" in place.seat.election.obstacle


@pytest.mark.parametrize("registration_first", [False, True])
def test_a_standby_whose_former_process_ends_with_the_controller_stands(registration_first):
    """Found by simulation (seed 99164961): it stood by for ever, because its id had been registered when it looked."""
    place = Standby()
    former = place.tree.open_session()
    ours = place.seat.election._registration
    data = encode_broker(ours, timestamp_ms=0, process=ELSEWHERE, controller_only=True)
    place.act(Create("/brokers/ids", None))
    place.tree.commit([Create(znodes.broker(100), data, ephemeral=True)], former)
    place.lead(1).begin()
    place.pass_seconds(1)
    assert "is registered by the Shunter process" in place.seat.election.obstacle
    place.loop.pause()  # It hears of both ends at once.
    for session in (former, place.holder) if registration_first else (place.holder, former):
        place.tree.close_session(session)
    place.pass_seconds(1)
    place.loop.resume()
    place.pass_seconds(1)
    assert place.leads()


@pytest.mark.parametrize("takeover", [Takeover.VACANT, Takeover.STANDBY])
def test_an_apache_broker_that_wins_after_a_shunter(takeover):
    """Only `standby` takes the seat from it, and at once."""
    place = Standby(takeover).lead(101, ELSEWHERE).begin()
    place.pass_seconds(40)
    place.lead(1)
    place.pass_seconds(3)
    assert place.leads() == (takeover is Takeover.STANDBY)


def test_a_standby_that_led_itself_takes_the_seat_back_from_an_apache_broker():
    place = Standby(Takeover.STANDBY).begin()
    assert place.leads()
    place.lead(1)
    place.pass_seconds(3)
    assert [type(event) for event in place.posted] == [Elected, SessionExpired, Elected]


def test_a_standby_waits_between_two_takeovers_from_apache_brokers():
    place = Standby(Takeover.STANDBY)
    place.seat.election._candidacy._cool_down = 10.0
    place.lead(101, ELSEWHERE).begin()
    place.lead(1).pass_seconds(3)
    assert place.leads()
    place.lead(2).pass_seconds(5)
    assert not place.leads()
    assert "less than 10.0 s after we took the seat from one" in place.seat.election.obstacle
    place.pass_seconds(6)
    assert place.leads()


def test_a_standby_never_takes_the_seat_from_another_shunter():
    place = Standby(Takeover.STANDBY).lead(101, ELSEWHERE).begin()
    place.pass_seconds(30)
    place.lead(102, ELSEWHERE._replace(pid=78))
    place.pass_seconds(60)
    assert not place.told(Elected)
    assert place.seat.election.obstacle == "broker 102 is the controller"


def test_a_shunter_that_does_not_tell_its_process_is_known_by_the_durable_list():
    place = Standby(Takeover.STANDBY)
    place.act(
        Create("/admin/shunter", None), Create(znodes.CONTROLLERS, None), Create(znodes.controller_id(101), b"{}")
    )
    place.lead(102, ELSEWHERE).begin()
    place.lead(101).pass_seconds(60)
    assert not place.told(Elected)
    place.lead(1).pass_seconds(3)
    assert place.leads()


def test_a_standby_leaves_an_apache_controller_alone_that_no_shunter_led_before():
    """So `shunter hand-back` is not undone by a standby that is started afterwards."""
    place = Standby(Takeover.STANDBY).lead(1).begin()
    place.pass_seconds(30)
    place.lead(2)
    place.pass_seconds(60)
    assert not place.told(Elected)
    assert place.seat.election.obstacle == "broker 2 is the controller, and no Shunter has led since we watch"
    place.vacate()
    place.pass_seconds(1)
    assert place.leads()


def test_a_standby_leaves_the_seat_to_kraft():
    place = Standby(Takeover.STANDBY).lead(101, ELSEWHERE).begin()
    place.lead(3000, kraft=True)
    place.pass_seconds(30)
    place.lead(1)
    place.pass_seconds(30)
    assert not place.told(Elected)
    assert place.seat.election.obstacle == "broker 1 is the controller, and no Shunter has led since we watch"


@pytest.mark.parametrize("broker", [100, 101])
def test_a_controller_on_this_machine_that_has_died_is_not_waited_for(broker):
    ours = process_identity.this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = int(process_identity._stat(process.pid)[process_identity._STARTED])
        there = ProcessIdentity(ours.boot_id, ours.pid_namespace, process.pid, started)
        place = Standby().lead(broker, there).begin()
        place.pass_seconds(30)
        assert not place.told(Elected)
        process.kill()
        process.wait()
        place.pass_seconds(1)
        assert place.leads()


def test_what_kept_a_standby_from_leading_is_looked_at_again_at_once():
    place = Standby()
    place.unfit = "the cluster's permissions are not known"
    place.begin()
    place.lead(1, ELSEWHERE).settle()
    assert place.seat.troubles == ("could not take over: the cluster's permissions are not known",)
    place.unfit = None
    place.loop.deliver(place.seat.election.survey_again)
    place.settle()
    assert place.seat.troubles == ()


def test_a_candidate_whose_permissions_are_read_stands_at_once():
    place = Standby()
    place.unfit = "the cluster's permissions are not known"
    place.loop.deliver(partial(place.loop.create_task, place.seat.start()))
    place.pass_seconds(1)
    assert not place.leads()
    place.unfit = None
    began = place.scheduler.now_us
    place.loop.deliver(place.seat.election.survey_again)
    while not place.leads():
        assert place.scheduler.step(began + 500_000)
