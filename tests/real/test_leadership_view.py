"""A hand-back's reads from a real ZooKeeper without brokers, and the way in which it ends a controller."""

import subprocess
import sys
import threading

import pytest
from kazoo.security import make_digest_acl

from shunter.app.controller import hand_back
from shunter.app.controller.hand_back import HandBack
from shunter.drivers.host.process_identity import this_process
from shunter.drivers.zookeeper.leadership_view import LeadershipView, end_here
from shunter.errors import DriverError, SettingsError
from shunter.formats.reassignment_json import decode_plan
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_broker, encode_controller, encode_controller_id
from shunter.formats.znodes.reassignments import encode_reassignment
from shunter.formats.znodes.topics import encode_state, encode_topic
from shunter.model.broker import Broker
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.topic import Topic

PRINTS_ITSELF = (
    "import signal; from shunter.drivers.host.process_identity import this_process; "
    "print(*this_process(), sep='\\n', flush=True); signal.pause()"
)


@pytest.fixture
def view(corner):
    made = LeadershipView(corner[0])
    yield made
    made.close()


class Brokers:
    """The session of a hand-back with brokers whose controller is Shunter's, and which move nothing."""

    def __init__(self, *, shunters=True, refusal=None):
        self.shunters, self.refusal = shunters, refusal

    @property
    def cluster(self):
        return self

    def nodes(self):
        return ()

    def __call__(self, *_):
        return self

    def __enter__(self):
        if self.refusal is not None:
            raise self.refusal
        return self

    def __exit__(self, *_):
        return None

    def is_shunters(self):
        return self.shunters

    def rows(self):
        return ()


@pytest.fixture(autouse=True)
def no_brokers(monkeypatch):
    monkeypatch.setattr(hand_back, "ReassignSession", Brokers())


def hold(client, broker, process=None, kraft_epoch=-1):
    data = encode_controller(broker, timestamp_ms=1, process=process)
    data = data.replace(b'"kraftControllerEpoch":-1', b'"kraftControllerEpoch":%d' % kraft_epoch)
    if client.exists("/controller"):
        client.set("/controller", data)
    else:
        client.create("/controller", data)


def test_whose_the_seat_is(corner, view):
    _, client = corner
    assert view.holder() is None
    hold(client, 7, this_process())
    assert view.holder() == (7, True, this_process(), False)
    hold(client, 1)
    assert view.holder() == (1, False, None, False)
    # If `/controller` names no process, a controller's id in ZooKeeper decides, unless a broker has the same id.
    client.create(znodes.controller_id(1), encode_controller_id(), makepath=True)
    assert view.holder() == (1, True, None, False)
    client.create(znodes.broker(1), encode_broker(Broker(1, 0, ()), timestamp_ms=1), makepath=True)
    assert view.holder() == (1, False, None, False)
    hold(client, 3000, kraft_epoch=4)
    assert view.holder() == (3000, False, None, True)


def test_what_is_left(corner, view):
    _, client = corner
    client.ensure_path("/admin/reassignments/t")
    assert view.left() == ()
    paths = ("/admin/reassign_partitions", "/admin/reassignments/t/3", "/admin/shunter/owed_deletions/2")
    for path in paths:
        client.create(path, b"{}", makepath=True)
    assert set(view.left()) == set(paths)


def test_who_lacks_replicas(corner, view):
    _, client = corner
    topic = Topic("t", None, {number: ReplicaAssignment((1, 2)) for number in range(4)})
    client.create("/brokers/topics/t", encode_topic(topic), makepath=True)
    client.create("/brokers/topics/broken", b"nonsense")
    for number, (leader, isr) in enumerate(((1, (1, 2)), (1, (1,)), (-1, (2,)))):
        client.create(znodes.state("t", number), encode_state(LeaderAndIsr(leader, 0, isr, 0)), makepath=True)
    assert view.under_replicated() == {"t-1", "t-2", "t-3"}


def test_what_a_cluster_that_was_handed_back_still_has_is_told_by_name(corner):
    connect, client = corner
    rate, slots = "follower.replication.throttled.rate", "leader.replication.throttled.replicas"
    for path, key in (("brokers/1", rate), ("brokers/3", rate), ("topics/t", slots), ("topics/u", "retention.ms")):
        data = f'{{"version":1,"config":{{"{key}":"1"}}}}'.encode()
        client.create(f"/config/{path}", data, makepath=True)
    lacking = Topic("t", None, {number: ReplicaAssignment((1, 2)) for number in range(5)})
    client.create("/brokers/topics/t", encode_topic(lacking), makepath=True)
    child, process = process_that_waits()
    hold(client, 1000, process)
    taker = threading.Thread(target=lambda: (child.wait(60), hold(client, 2)))
    taker.start()
    lines = []
    with child:
        assert HandBack(connect, lines.append, 30.0).run("kafka:9092", None, "finish") == 0
    taker.join()
    still = "t-0, t-1, t-2 and 2 more were under-replicated before, and may still be"
    throttles = "throttle rates on brokers 1, 3 and lists of throttled replicas on topic t are still set"
    clear = "`shunter throttles clear --bootstrap-server kafka:9092` removes them"
    assert lines[-2:] == [f"nothing is under-replicated because of it; {still}", f"{throttles}; {clear}"]


def test_a_standby_that_has_taken_the_seat_back_is_told(corner, view):
    connect, client = corner
    lines = []
    hold(client, 2)
    assert HandBack(connect, lines.append, 30.0)._is_still_apaches(view)
    hold(client, 1001, this_process())
    assert not HandBack(connect, lines.append, 30.0)._is_still_apaches(view)
    assert lines == ["a standby, with broker id 1001, has taken the controllership back: stop it, and repeat this"]


def process_that_waits():
    child = subprocess.Popen([sys.executable, "-c", PRINTS_ITSELF], stdout=subprocess.PIPE, text=True)
    told = [child.stdout.readline().strip() for _ in range(4)]
    return child, type(this_process())(told[0], told[1], int(told[2]), int(told[3]))


def test_a_controller_of_this_machine_is_ended_and_an_apache_broker_awaited(corner):
    connect, client = corner
    child, process = process_that_waits()
    hold(client, 1000, process)
    taker = threading.Thread(target=lambda: (child.wait(60), hold(client, 2)))
    taker.start()
    lines = []
    with child:
        assert HandBack(connect, lines.append, 30.0).run("nowhere:1", None, "finish") == 0
    taker.join()
    assert lines == [
        "no move is under way, and no broker owes anything",
        f"told the controller, process {process.pid}, to give the controllership back",
        "broker 2 is the controller now",
        "nothing is under-replicated because of it",
    ]
    assert not end_here(process)
    assert HandBack(connect, lines.append, 30.0).run("nowhere:1", None, "finish") == 0
    assert lines[-1] == "broker 2 is the controller, not Shunter: there is nothing to hand back"


def test_what_is_not_done_in_time_is_told_and_the_controller_leads_on(corner):
    connect, client = corner
    child, process = process_that_waits()
    with child:
        hold(client, 1000, process)
        for path in ("/admin/reassign_cancel", "/admin/shunter/owed_deletions/2", "/admin/shunter/owed_replicas/t"):
            client.create(path, b"{}", makepath=True)
        client.create("/admin/reassignments/t/3", b"{}", makepath=True)
        lines = []
        assert HandBack(connect, lines.append, 0.0).run("nowhere:1", None, "finish") == 1
        for told in (
            "/admin/reassign_cancel (the tool that created it has to remove it: ",
            "/admin/reassignments/t/3 (see `shunter status` for what it waits for; --moves stop or --moves rollback ",
            "/admin/shunter/owed_deletions/2 (broker 2 was dead when replicas left it: start it, or delete this znode ",
        ):
            assert told in lines[0]
        assert lines[0].endswith("; and 1 more")
        client.set_acls("/admin/reassignments", [make_digest_acl("owner", "secret", all=True)])
        told = []
        assert HandBack(connect, told.append, 0.0).run("nowhere:1", None, "finish") == 1
        assert "ZooKeeper does not let us list /admin/reassignments" in told[0]
        assert lines[-1].startswith("Shunter goes on leading")
        assert child.poll() is None
        child.terminate()


STEP = ReplicaAssignment((1, 2), adding=(2,))
LEFT = (
    "2 moves of topic mv are not over; a controller that is no Shunter ends 1 short of the target: "
    "mv-0 at [1, 2], not at [2]"
)
OVER = (
    "records of moves that are over, in /admin/reassignments: 1. No other controller reads them, and the next Shunter "
    "removes them"
)


def leave_moves(client):
    """A migration has begun in the middle of moves: one stops short, one ends by itself, one was moved on since."""
    assignments = {0: STEP, 1: ReplicaAssignment((1, 2), removing=(1,)), 2: ReplicaAssignment((2,))}
    client.create("/brokers/topics/mv", encode_topic(Topic("mv", None, assignments)), makepath=True)
    for number, written in enumerate((STEP, assignments[1], STEP)):
        record = Reassignment(None, (1,), (2,), Strategy.INCREMENTAL, Phase.MOVING, written, accepted_at_ms=1, top=1)
        client.create(f"/admin/reassignments/mv/{number}", encode_reassignment(record), makepath=True)


@pytest.mark.parametrize(("kraft_epoch", "who"), [(-1, "broker 3000"), (4, "KRaft controller 3000")])
def test_moves_that_shunter_left_are_told_where_another_controller_leads(corner, tmp_path, kraft_epoch, who):
    connect, client = corner
    hold(client, 3000, kraft_epoch=kraft_epoch)
    leave_moves(client)
    lines = []
    assert HandBack(connect, lines.append, 0.0).run("kafka:9092", None, "finish") == 1
    assert lines == [
        f"{who} is the controller, not Shunter; but Shunter has left work that is not done",
        LEFT,
        "to end them at their targets, let Shunter lead again, or repeat this with --plan FILE for a plan",
        OVER,
    ]
    plan, properties = tmp_path / "plan.json", tmp_path / "client.properties"
    assert HandBack(connect, lines.append, 0.0, plan=plan).run("kafka:9092", properties, "finish") == 1
    assert [(order.tp, order.target) for order in decode_plan(plan.read_bytes(), "plan")] == [
        (TopicPartition("mv", 0), (2,))
    ]
    reaching = f"--bootstrap-server kafka:9092 --command-config {properties}"
    assert f"when `shunter list {reaching}` shows no move, run `shunter execute {plan} {reaching}`" in lines[-2]


def test_moves_that_shunter_leaves_during_a_hand_back_are_not_waited_for(corner):
    connect, client = corner
    hold(client, 1000, this_process())
    leave_moves(client)
    taker = threading.Timer(1.0, hold, (client, 2))
    taker.start()
    lines = []
    assert HandBack(connect, lines.append, 60.0).run("kafka:9092", None, "finish") == 1
    taker.join()
    assert lines[0] == "broker 2 is the controller, not Shunter; but Shunter has left work that is not done"
    assert LEFT in lines


def test_when_every_move_is_over_nothing_is_left(corner):
    connect, client = corner
    hold(client, 2)
    leave_moves(client)
    ended = {number: ReplicaAssignment((2,)) for number in range(3)}
    client.set("/brokers/topics/mv", encode_topic(Topic("mv", None, ended)))
    lines = []
    assert HandBack(connect, lines.append, 0.0).run("kafka:9092", None, "finish") == 0
    assert lines[0] == "broker 2 is the controller, not Shunter: there is nothing to hand back"
    assert lines[1] == OVER.replace(": 1.", ": 3.")


def test_other_znodes_that_shunter_left_are_told_with_their_ways_out(corner):
    connect, client = corner
    client.create("/brokers/topics/mv", encode_topic(Topic("mv", None, {0: STEP})), makepath=True)
    client.create("/admin/reassignments/mv/0", b"nonsense", makepath=True)
    for path in ("/admin/reassign_cancel", "/admin/reassign_partitions", "/admin/reassignment_requests/request_1"):
        client.create(path, b"{}", makepath=True)
    lines = []
    assert HandBack(connect, lines.append, 0.0).run("kafka:9092", None, "finish") == 1
    assert lines[0] == "no process is the controller; but Shunter has left work that is not done"
    assert "/admin/reassign_partitions (an Apache broker that leads carries it out: " in lines[1]
    assert "/admin/reassign_cancel (the tool that created it has to remove it" in lines[1]
    client.delete("/admin/reassign_cancel")
    client.delete("/admin/reassign_partitions")
    client.create("/admin/shunter/owed_deletions/3", b"{}", makepath=True)
    assert HandBack(connect, lines.append, 0.0).run("kafka:9092", None, "finish") == 1
    assert "/admin/reassignment_requests/request_1 (only Shunter reads it" in lines[-1]
    assert "/admin/shunter/owed_deletions/3 (broker 3 was dead when replicas left it, and only Shunter" in lines[-1]
    assert "/admin/reassignments/mv/0 (replicas that left mv-0 may not be deleted yet, or it can't be read" in lines[-1]


@pytest.mark.parametrize(
    ("brokers", "error", "told"),
    [
        (Brokers(refusal=DriverError("wrong password", retriable=False)), DriverError, "wrong password"),
        (Brokers(shunters=False), SettingsError, "Name brokers of that cluster"),
    ],
)
def test_brokers_that_cant_be_asked_are_found_before_the_controller_is_ended(corner, monkeypatch, brokers, error, told):
    connect, client = corner
    monkeypatch.setattr(hand_back, "ReassignSession", brokers)
    child, process = process_that_waits()
    with child:
        hold(client, 1000, process)
        with pytest.raises(error, match=told):
            HandBack(connect, lambda _: None, 0.0).run("kafka:9092", None, "stop")
        assert child.poll() is None
        child.terminate()
