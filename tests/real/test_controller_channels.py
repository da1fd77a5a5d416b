"""Shunter's connections to real brokers: separate listeners for the controller, refusals, controlled shutdown."""

import json
import threading
from contextlib import suppress
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from yard import znode

from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import stays, wait_until

APPROVED = "Controlled shutdown request returned successfully"


def holder(client):
    """The id in `/controller`; None without a controller."""
    return (znode(client, "/controller") or {}).get("brokerid")


def state(client, tp):
    return json.loads(client.get(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state")[0])


def peers(pid):
    """Ports that a process has connections to, on this machine."""
    own = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed a moment ago.
            own.add(fd.readlink().name)
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(line[2].split(":")[1], 16) for line in lines if line[3] == "01" and f"socket:[{line[9]}]" in own}


def test_brokers_with_a_listener_for_their_controller(corner, tmp_path):
    """The redesign's prioritised controller traffic: a broker has a listener, a thread and a queue for it alone."""
    ports = dict(zip((1, 2), zip(*[iter(free_ports(4))] * 2, strict=True), strict=True))
    connect, client = corner
    brokers = {
        id_: KafkaBroker(
            id_,
            connect,
            tmp_path / f"broker-{id_}",
            port=plain,
            heap_mib=160,
            properties={
                "listeners": f"PLAINTEXT://{LOOPBACK}:{plain},CONTROL://{LOOPBACK}:{control}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
                "control.plane.listener.name": "CONTROL",
                "replica.lag.time.max.ms": 5000,
            },
        )
        for id_, (plain, control) in ports.items()
    }
    for broker in brokers.values():
        broker.launch()
    ours = None
    try:
        for broker in brokers.values():
            broker.wait_ready()
        unheard = ShunterController(tmp_path / "unheard", connect, options=("--takeover", "preempt"))
        unheard.launch()
        try:
            wait_until(lambda: "standing by: " in unheard.log_tail(), what="it says why", timeout_s=40)
            assert "brokers would not find us: control.plane.listener.name is CONTROL" in unheard.log_tail()
            assert "--listener CONTROL://HOST:PORT" in unheard.log_tail()
            assert holder(client) in brokers
        finally:
            unheard.stop()
        (control,) = free_ports(1)
        ours = ShunterController(
            tmp_path / "ours",
            connect,
            options=("--listener", f"CONTROL://{LOOPBACK}:{control}", "--takeover", "preempt"),
        )
        ours.start()
        _lead(client, ours, brokers, {number for _, number in ports.values()})
    finally:
        for broker in brokers.values():
            broker.stop()
        if ours is not None:
            ours.stop()


def test_brokers_that_start_after_their_controller(corner, tmp_path):
    """After a power cut the controller may be up first: it learns only then by which listeners brokers speak to it."""
    connect, client = corner
    unheard = ShunterController(tmp_path / "unheard", connect)
    unheard.start()  # Before ports are chosen: its connections might get one of them.
    plain, control, nobody, *free = free_ports(4)
    names = {"EXTERNAL": nobody, "PLAINTEXT": plain, "CONTROL": control}
    listeners = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in names.items() if name != "EXTERNAL")
    # The first registered address can't be connected to from here, as may be so with an external address.
    advertised = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in names.items())
    broker = KafkaBroker(
        1,
        connect,
        tmp_path / "broker",
        port=plain,
        heap_mib=160,
        properties={
            "listeners": f"EXTERNAL://127.0.0.2:{nobody},{listeners}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "control.plane.listener.name": "CONTROL",
        },
    )
    ours = ShunterController(tmp_path / "ours", connect, options=("--listener", f"CONTROL://{LOOPBACK}:{free[0]}"))
    try:
        broker.launch()
        broker.wait_ready()
        wait_until(lambda: holder(client) == 1, what="who can't be found gives the seat back", timeout_s=60)
        assert "brokers would not find us: control.plane.listener.name is CONTROL" in unheard.log_tail()
        broker.stop()
        unheard.stop()
        wait_until(lambda: holder(client) is None, what="nobody leads", timeout_s=60)
        ours.start()
        broker.launch()
        broker.wait_ready()
        wait_until(lambda: control in peers(ours.process.pid), what="it speaks to this listener", timeout_s=60)
        wait_until(lambda: plain not in peers(ours.process.pid), what="and to no other", timeout_s=60)
        assert holder(client) == ours.broker_id
    finally:
        broker.kill()
        unheard.stop()
        ours.stop()


def _lead(client, ours, brokers, control_ports):
    """Make a topic, stop and start a broker. All requests both ways use the listeners that are meant for them."""
    wait_until(lambda: control_ports <= peers(ours.process.pid), what="it speaks to these listeners", timeout_s=30)
    assert not {broker.port for broker in brokers.values()} & peers(ours.process.pid)
    wait_until(
        lambda: all(ours.broker_id in brokers_known_at(broker.port) for broker in brokers.values()),
        what="clients are told of us",
        timeout_s=60,
    )
    admin = KafkaAdminClient(bootstrap_servers=brokers[1].bootstrap)
    admin.create_topics([NewTopic("t", -1, -1, replica_assignments={0: [2, 1]})])
    admin.close()

    class Partition:
        topic, partition = "t", 0

    assert state(client, Partition)["leader"] == 2
    brokers[2].stop(timeout_s=40)
    assert APPROVED in brokers[2].log_tail(400)
    assert (state(client, Partition)["leader"], state(client, Partition)["isr"]) == (1, [1])
    brokers[2].start()
    wait_until(lambda: 2 in state(client, Partition)["isr"], what="an AlterPartition reached us", timeout_s=60)


def test_a_cluster_that_does_not_authorize_us(corner, tmp_path):
    """Every broker answers CLUSTER_AUTHORIZATION_FAILED: Shunter logs it, and a broker becomes the controller."""
    connect, client = corner
    ours = ShunterController(tmp_path / "ours", connect)
    broker = KafkaBroker(
        1,
        connect,
        tmp_path / "broker-1",
        heap_mib=160,
        properties={
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:somebody",
        },
    )
    with ours:
        assert holder(client) == ours.broker_id
        broker.launch()
        try:
            wait_until(lambda: holder(client) == 1, what="the broker is the controller", timeout_s=90)
            log = ours.log_tail(200)
        finally:
            broker.stop()
    assert "control-refused: broker 1: it refuses our requests with CLUSTER_AUTHORIZATION_FAILED" in log
    assert "resigned: controller: every live broker (1) refuses our requests" in log


def test_a_broker_may_go_when_the_others_know_their_new_leaders(yard, topic, zk):
    """Broker 2 is to lead in place of 1, and is frozen: 1 may not shut down before 2 has got the request."""
    (tp,) = yard.create(topic, (1, 2, 3), partitions=1)
    leaving, frozen = yard.cluster.brokers[1], yard.cluster.brokers[2]
    seen = leaving.log_tail(4000).count(APPROVED)

    def told_to_wait():
        told = leaving.log_tail(4000).count(APPROVED) > seen
        # The controller does not wait for a dead broker, and on a busy machine broker 2's session may end.
        return not (told and zk.exists("/brokers/ids/2"))

    stopping = threading.Thread(target=leaving.stop, kwargs={"timeout_s": 40})
    frozen.pause()
    try:
        stopping.start()
        wait_until(lambda: state(zk, tp)["leader"] == 2, what="2 leads, durably", timeout_s=3)
        assert stays(told_to_wait, for_s=1), "1 may go although 2 lives and has not heard of it"
        assert leaving.alive
    finally:
        frozen.resume()
        stopping.join()
        log = leaving.log_tail(4000)
        leaving.start()
    assert log.count(APPROVED) > seen
    wait_until(lambda: set(state(zk, tp)["isr"]) == {1, 2, 3}, what="all are in sync again", timeout_s=60)
