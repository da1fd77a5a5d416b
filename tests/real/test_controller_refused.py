"""ZooKeeper refuses a controller: it leaves the seat to others, logs why, and takes the seat as soon as it can."""

import json
import urllib.error
import urllib.request

import pytest
from kafka import KafkaAdminClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from lab.testbed.controller import ShunterController
from lab.testbed.waiting import stays, wait_until

EPOCH = "/controller_epoch"
CONFIG = "/config/brokers/7"


def ready(port):
    """(status, text) of `/ready`; (0, "") while no process listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


@pytest.fixture
def place(corner, tmp_path, free_port):
    """A ZooKeeper whose znode is closed to the controller that starts beside it."""
    connect, owner = corner
    owner.add_auth("digest", "owner:secret")
    controller = ShunterController(tmp_path / "controller", connect, options=("--set", f"metrics-port={free_port}"))
    yield owner, controller, free_port
    controller.stop()


CLOSED = [make_digest_acl("owner", "secret", all=True)]


def topics_served(controller):
    """Topics in the controller's metadata for clients."""
    client = KafkaAdminClient(bootstrap_servers=controller.bootstrap)
    try:
        return set(client.list_topics())
    finally:
        client.close()


def test_what_may_not_be_read_is_left_out_and_the_rest_is_served(place):
    """NoAuth on one znode of each kind; an ACL that is changed fires no watch."""
    owner, controller, _ = place
    closed = [CONFIG, "/brokers/topics/closed", "/config/topics/open", "/brokers/topics/open/partitions/1/state"]
    topic = b'{"version":2,"partitions":{"0":[1],"1":[1]},"adding_replicas":{},"removing_replicas":{}}'
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    for path, data in (
        (CONFIG, b'{"version":1,"config":{}}'),
        ("/brokers/topics/open", topic),
        ("/brokers/topics/closed", topic),
        ("/config/topics/open", b'{"version":1,"config":{}}'),
        ("/brokers/topics/open/partitions/0/state", state),
        ("/brokers/topics/open/partitions/1/state", state),
        ("/brokers/topics/closed/partitions/0/state", state),
        ("/brokers/topics/closed/partitions/1/state", state),
    ):
        owner.create(path, data, makepath=True)
    for path in closed:
        owner.set_acls(path, CLOSED)
    controller.launch()
    controller.wait_ready()
    wait_until(lambda: "in-charge: " in controller.log_tail(), what="it is in charge", timeout_s=20)
    for path in closed:
        assert f"unreadable: {path}: may not be read by us (NoAuth)" in controller.log_tail(10_000)
    assert topics_served(controller) == {"open"}
    for path in closed:
        owner.set_acls(path, OPEN_ACL_UNSAFE)
    wait_until(lambda: topics_served(controller) == {"open", "closed"}, what="the topic is served", timeout_s=40)
    for path in closed[:3]:
        assert f"{path} can be read again" in controller.log_tail(10_000)


def test_a_list_that_may_not_be_read(place):
    """NoAuth on the list of topics to be deleted: the controller can't act, so it does not hold `/controller`."""
    owner, controller, port = place
    owner.ensure_path("/admin")
    owner.create("/admin/delete_topics", acl=CLOSED)
    controller.launch()
    wait_until(lambda: owner.exists(EPOCH) and int(owner.get(EPOCH)[0]) >= 3, what="three elections", timeout_s=30)
    wait_until(lambda: owner.exists("/controller") is None, what="the seat is vacant", timeout_s=10)
    wait_until(
        lambda: ready(port)[0] == 503 and "gave the controllership back" in ready(port)[1],
        what="it says so",
        timeout_s=20,
    )
    other = json.dumps({"version": 2, "brokerid": 5, "timestamp": "1", "kraftControllerEpoch": -1}).encode()
    owner.create("/controller", other, ephemeral=True)
    wait_until(
        lambda: ready(port) == (200, "standing by: broker 5 is the controller\n"), what="it stands by", timeout_s=20
    )
    owner.delete("/controller")
    owner.set_acls("/admin/delete_topics", OPEN_ACL_UNSAFE)
    controller.wait_ready()
    wait_until(lambda: ready(port)[1].startswith("in charge: "), what="it is in charge", timeout_s=10)
    assert ready(port)[0] == 200


def test_an_election_that_is_refused(place):
    """An election without backoff would ask a thousand times in this time."""
    owner, controller, port = place
    owner.ensure_path("/brokers")
    owner.create("/brokers/ids", acl=[*CLOSED, make_acl("world", "anyone", read=True)])
    controller.launch()
    wait_until(lambda: "election is refused" in ready(port)[1], what="it says so", timeout_s=30)
    assert ready(port)[0] == 503
    zxid = owner.set("/brokers", b"").mzxid
    assert stays(lambda: owner.exists("/controller") is None, for_s=5)
    assert owner.set("/brokers", b"").mzxid - zxid < 20, "each refused election is one transaction at the server"
    owner.set_acls("/brokers/ids", OPEN_ACL_UNSAFE)
    controller.wait_ready()
