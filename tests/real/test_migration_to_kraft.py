"""A real migration from ZooKeeper to KRaft (3.9.2) of a cluster whose controller is Shunter.

Source: Apache's guide, "ZooKeeper to KRaft Migration"; docs/decisions/0027-leaving-for-kraft.md.
"""

import json
from contextlib import ExitStack, closing, contextmanager

import pytest
from executor_process import Cluster, Shunter, write_plan
from executor_scenarios import nothing_is_lost
from kafka import KafkaProducer
from kazoo.client import KazooClient
from live_producer import LiveProducer, fill
from yard import HELD_BACK, cli, znode

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION
from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.kraft import KRaftNode
from lab.testbed.ports import free_port
from lab.testbed.probes import brokers_known_at
from lab.testbed.tools import REASSIGN_PARTITIONS, TOPICS, kafka_tool
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.app.exit_codes import ExitCode
from shunter.formats.znodes import paths as znodes

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BOUND_S = 180
QUORUM = 3000
TOPIC = "t"
MOVING = "mv"
LEFT = "ends 1 short of the target: mv-0 at [1, 2], not at [2]"


def migrating(port, connect_string):
    """Properties of all servers of a cluster in migration, with the port of the one KRaft controller."""
    return {
        "zookeeper.metadata.migration.enable": "true",
        "zookeeper.connect": connect_string,
        "controller.quorum.voters": f"{QUORUM}@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def quorum_node(folder, port, connect_string, cluster_id):
    """A node that is only a KRaft controller, not a broker."""
    more = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
    return KRaftNode(
        QUORUM,
        folder,
        port=port,
        controller_ports={QUORUM: port},
        more_ports={},
        more_protocols={},
        cluster_id=cluster_id,
        version=ZOOKEEPER_MODE_VERSION,
        heap_mib=192,
        properties={**more, **migrating(port, connect_string)},
        start_timeout_s=BOUND_S,
    )


def produce(brokers, value, topic=TOPIC):
    producer = KafkaProducer(bootstrap_servers=[broker.bootstrap for broker in brokers], acks="all")
    try:
        return producer.send(topic, value, partition=0).get(timeout=BOUND_S).offset
    finally:
        producer.close()


def create(broker, topic, replicas):
    options = ("--create", "--topic", topic, "--replica-assignment", replicas)
    done = kafka_tool(TOPICS, "--bootstrap-server", broker.bootstrap, *options, timeout_s=BOUND_S)
    assert done.returncode == 0, done.stdout + done.stderr


def begin_a_move(brokers, folder):
    """Move a partition from broker 1 to broker 2, so slowly that the migration begins in the middle."""
    create(brokers[0], MOVING, "1")
    for _ in range(4):
        produce(brokers, b"x" * 900_000, MOVING)
    plan = folder / "move.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": MOVING, "partition": 0, "replicas": [2]}]}))
    options = ("--execute", "--reassignment-json-file", str(plan), "--throttle", "1000")
    done = kafka_tool(REASSIGN_PARTITIONS, "--bootstrap-server", brokers[0].bootstrap, *options, timeout_s=BOUND_S)
    assert done.returncode == 0, done.stdout + done.stderr


def end_the_move(server, brokers, folder, zk):
    """Go the way out that `hand-back` tells: what Shunter left ends at its target, and then nothing is left."""
    reaching = ("--bootstrap-server", brokers[0].bootstrap)
    hand_back, plan = ("hand-back", "--zookeeper", server.connect_string, *reaching), folder / "left.json"
    status, told = cli(*hand_back, "--plan", plan)
    assert status == 1, told
    assert f"KRaft controller {QUORUM} is the controller, not Shunter; but Shunter has left work" in told
    assert LEFT in told
    assert f"shunter throttles clear {' '.join(reaching)}" in told
    assert cli("throttles", "clear", *reaching, "--yes")[0] == 0

    def assigned():
        found = json.loads(zk.get(znodes.topic(MOVING))[0])
        return found["partitions"]["0"], found["adding_replicas"]

    wait_until(lambda: assigned() == ([1, 2], {}), what="the step has ended, short of the target", timeout_s=BOUND_S)
    status, told = cli("execute", plan, *reaching, "--yes")
    assert status == 0, told
    wait_until(lambda: assigned() == ([2], {}), what="the move has ended", timeout_s=BOUND_S)
    status, told = cli(*hand_back)
    assert status == 0, told
    assert "there is nothing to hand back" in told


@contextmanager
def before_migration(folder):
    """Two brokers that are ready for a migration, under Shunter. Gives its parts, and a function that migrates."""
    port = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(ZooKeeperServer(folder / "zookeeper"))
        controller = stack.enter_context(ShunterController(folder / "controller", server.connect_string))
        more = {**migrating(port, server.connect_string), "offsets.topic.replication.factor": 2, **HELD_BACK}
        brokers = [
            KafkaBroker(number, server.connect_string, folder / f"broker-{number}", heap_mib=160, properties=more)
            for number in (1, 2)
        ]
        for broker in brokers:
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait_ready()
            wait_until(lambda b=broker: {1, 2} <= brokers_known_at(b.port), what="it knows both", timeout_s=BOUND_S)
        zk = KazooClient(server.connect_string)
        zk.start()
        stack.callback(zk.close)
        stack.callback(zk.stop)

        def held_by_kraft():
            held = znode(zk, znodes.CONTROLLER)
            return held is not None and held["brokerid"] == QUORUM and held["kraftControllerEpoch"] >= 0

        def migrate():
            cluster_id = json.loads(zk.get(znodes.CLUSTER_ID)[0])["id"]
            quorum = quorum_node(folder / "quorum", port, server.connect_string, cluster_id)
            stack.callback(quorum.kill)
            quorum.start()
            for end, told in (
                ("Shunter leaves", lambda: "this cluster migrates to KRaft" in controller.log_tail(10_000)),
                ("the KRaft controller holds /controller", held_by_kraft),
                (
                    "the migration has ended",
                    lambda: "Completed migration of metadata from ZooKeeper to KRaft" in quorum.log_tail(100_000),
                ),
            ):
                wait_until(told, what=end, timeout_s=BOUND_S)
            assert controller.alive
            assert not controller.is_leading()

        yield server, controller, brokers, zk, migrate


def test_a_cluster_leaves_shunter_for_kraft(tmp_path, monkeypatch):
    """Shunter leaves by itself when `/migration` appears, and the migration ends. No written record is lost.

    A move that was under way is told, by Shunter when it leaves and by `hand-back`, and can be ended.
    """
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path / "state"))
    with before_migration(tmp_path) as (server, controller, brokers, zk, migrate):
        create(brokers[0], TOPIC, "1:2")
        assert produce(brokers, b"before") == 0
        begin_a_move(brokers, tmp_path)
        migrate()
        assert LEFT in controller.log_tail(10_000)
        assert produce(brokers, b"after") == 1
        describe = ("--describe", "--topic", TOPIC)
        told = kafka_tool(TOPICS, "--bootstrap-server", brokers[0].bootstrap, *describe, timeout_s=BOUND_S).stdout
        assert "Replicas: 1,2\tIsr: 1,2" in told, told
        assert json.loads(zk.get(znodes.topic(TOPIC))[0])["partitions"] == {"0": [1, 2]}
        end_the_move(server, brokers, tmp_path, zk)


def test_an_execution_goes_on_through_a_migration(tmp_path):
    """The executor asks Shunter for the first steps, and the KRaft controller for the last. Nothing is lost."""
    original, target = dict.fromkeys(range(4), (1,)), dict.fromkeys(range(4), (2,))
    with before_migration(tmp_path) as (_, _, brokers, _, migrate):
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        with ExitStack() as stack:
            cluster = stack.enter_context(closing(Cluster(bootstrap)))
            cluster.make(TOPIC, original)
            fill(bootstrap, TOPIC, len(original), 3_000_000)
            producer = stack.enter_context(LiveProducer(bootstrap, TOPIC, len(original)))
            plan = str(write_plan(tmp_path / "plan.json", TOPIC, target))
            shunter = Shunter(bootstrap, tmp_path / "moves.journal")
            running = shunter.start("execute", plan, "--yes", "--throttle", "10K", "--max-concurrent", "2")
            running.wait_for(lambda: cluster.ongoing() > 0, about="moves under way")
            migrate()
            assert running.progress["counts"].get("moving", 0) > 0, running.lines[-3:]
            done = shunter.run("limit", "20M")
            assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
            assert running.end(240) == ExitCode.DONE, running.lines[-3:]
            producer.stop()
            after = stack.enter_context(closing(Cluster(bootstrap)))  # The first one asks Shunter, as it did before.
            assert (after.replicas(TOPIC), after.ongoing()) == (target, 0)
            assert after.throttles((1, 2), (TOPIC,)) == {}
            nothing_is_lost(producer)
