"""A cluster of unmodified Apache brokers under a Shunter controller, with clients that remember what was acknowledged."""

import json
import os
import random
import signal
from contextlib import ExitStack, contextmanager, suppress

from click.testing import CliRunner
from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition
from kafka.admin import NewTopic
from kafka.errors import UnknownBrokerIdError
from kazoo.exceptions import NoNodeError

from lab.demo.proof import Leftovers, check_records
from lab.demo.traffic import Traffic, read_everything
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.failures import PartFailed
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from shunter.cli import main
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LISTS
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.reassignment_rpc import list_reassignments
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import ReplicaAssignment, TopicPartition

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
# Kafka lets a whole fetch through, 1 MB by default, if the last eleven seconds had none. So even the smallest
# throttle would let the few MB of a test's topic be copied within seconds. A fetch of 64 KiB is less than the test's
# own traffic.
HELD_BACK = {"replica.fetch.max.bytes": 2**16, "replica.fetch.response.max.bytes": 2**16}


class Yard:
    """The cluster and the tests' actions on it. Brokers 1 to 4; the controller is broker 1000."""

    def __init__(self, cluster, controller, settings_file):
        self.cluster = cluster
        self.controller = controller
        self.settings_file = settings_file
        self.random = random.Random(20)
        self.throttles = 0

    @property
    def bootstrap(self):
        return self.cluster.bootstrap

    @property
    def log_dir(self):
        """The folder of the controller's logs for programs."""
        return self.settings_file.parent / "log"

    def evidence(self):
        """Sections for the report of a failed test, as (title, text)."""
        return [
            ("Moves under way", f"{self.moving()}"),
            ("The end of the controller's log", self.controller.log_tail(150)),
        ]

    @contextmanager
    def settings(self, **changed):
        """Give the controller other settings for a while."""
        self._decide_by(changed)
        try:
            yield
        finally:
            self._decide_by({})

    def _decide_by(self, changed):
        self.settings_file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in changed.items()))
        known = self.controller.log_tail(10_000).count("settings read again")
        os.kill(self.controller.process.pid, signal.SIGHUP)
        wait_until(
            lambda: self.controller.log_tail(10_000).count("settings read again") > known,
            what=f"the controller decides by {changed or 'its own settings'}",
            timeout_s=20,
        )

    @contextmanager
    def admin(self):
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            yield client
        finally:
            client.close()

    def wait_for_controller(self):
        """Wait until every broker names the controller. It may have returned a moment ago, at the last test's end."""
        wait_until(
            lambda: all(self.controller.broker_id in brokers_known_at(b.port) for b in self.cluster.brokers.values()),
            what=f"every broker names broker {self.controller.broker_id}",
            timeout_s=60,
        )

    def asked(self, question):
        """Ask by a new Admin client; ask again while not all brokers know who has just been elected controller."""
        answers = []

        def answered():
            with self.admin() as admin:
                try:
                    answers.append(question(admin))
                except UnknownBrokerIdError:
                    # kafka-python learns the brokers and the controller from two brokers; the first was behind.
                    return False
                except RuntimeError as failure:
                    # kafka-python's words for NOT_CONTROLLER from the node that brokers name as the controller.
                    if "active controller" not in str(failure):
                        raise
                    return False
            return True

        wait_until(answered, what="whoever the brokers name is the controller", timeout_s=60)
        return answers[-1]

    def create(self, topic, replicas, partitions=4, **configs):
        placed = {number: list(replicas) for number in range(partitions)}
        new = NewTopic(topic, -1, -1, replica_assignments=placed, topic_configs=configs)
        self.asked(lambda admin: admin.create_topics([new]))
        return [TopicPartition(topic, number) for number in range(partitions)]

    def throttle(self, topic, bytes_per_s):
        """Make the moves of a topic slow enough for something to happen in them; returns when that is in force.

        A broker applies changes one after the other, and reports its own rates only. So the rates are written last:
        when a broker reports them, the topic's settings have arrived.
        """
        # A broker that has just returned is not known to all others yet.
        wait_until(lambda: not self._refusals(topic, bytes_per_s), what="all live brokers are throttled", timeout_s=60)

    def _refusals(self, topic, bytes_per_s):
        """Set throttles, or remove them; gives the settings that were refused or are not in force yet."""
        # With an unchanged rate the broker would report it before the topic's settings have arrived.
        self.throttles += 1
        rate, everyone = (str(bytes_per_s + self.throttles % 1_000), "*") if bytes_per_s else (None, None)
        live = [str(id_) for id_, broker in self.cluster.brokers.items() if broker.alive]
        settings = {ThrottleKey("topic", topic, setting): everyone for setting in LISTS}
        settings |= {ThrottleKey("broker", id_, each): rate for id_ in live for each in (LEADER_RATE, FOLLOWER_RATE)}
        with BlockingAdmin({"bootstrap_servers": self.bootstrap}) as cluster:
            refused = cluster.write_settings(settings)
            # A broker that has just returned may not name all others yet, and a broker that is not named is not asked.
            named = {str(node.id) for node in cluster.nodes()}
            refused |= {ThrottleKey("broker", id_, LEADER_RATE): "not named" for id_ in live if id_ not in named}
            if not self.has_znode(f"/brokers/topics/{topic}"):  # Its settings were deleted with it.
                refused = {key: why for key, why in refused.items() if key.kind == "broker"}
                settings = {key: value for key, value in settings.items() if key.kind == "broker"}
            return refused | cluster.not_in_force(settings)

    def has_znode(self, path):
        leftovers = Leftovers(self.cluster.zookeeper_connect)
        try:
            return leftovers.exists(path)
        finally:
            leftovers.close()

    def move(self, partitions, target):
        """Begin to move partitions; retry refusals, because on a busy machine a broker's session may end briefly."""
        refused = {}

        def accepted():
            refused.clear()
            refused.update({tp: why for tp, why in self.ask_to_move(partitions, target).items() if why is not None})
            return not refused

        try:
            wait_until(accepted, what=f"{partitions} are on their way to {target}", timeout_s=60)
        except PartFailed as late:
            raise AssertionError(f"refused: {refused}") from late

    def ask_to_move(self, partitions, target):
        """The answer of request 45 for each partition: None, or the error."""
        wanted = {ClientPartition(*tp): list(target) for tp in partitions}
        return self.asked(lambda admin: admin.alter_partition_reassignments(wanted))

    def moving(self):
        """Partitions that request 46 lists, or None while the controller does not answer."""
        try:
            listed = list_reassignments("127.0.0.1", self.controller.port, timeout_s=5)
        except DriverError:
            return None
        return {TopicPartition(topic.name, p.partition) for topic in listed.topics for p in topic.partitions}

    def wait_moved(self, partitions, target, timeout_s=90):
        wanted = dict.fromkeys(partitions, ReplicaAssignment(tuple(target)))
        leftovers = Leftovers(self.cluster.zookeeper_connect)
        try:
            names = sorted({tp.topic for tp in partitions})
            wait_until(
                lambda: wanted.items() <= leftovers.assignments(names).items(),
                what=f"{partitions} moved to {target}",
                timeout_s=timeout_s,
            )
            with suppress(PartFailed):
                wait_until(lambda: leftovers.check_znodes().holds, what="no znode is left over", timeout_s=60)
            left = leftovers.check_znodes()
            assert left.holds, left
        finally:
            leftovers.close()

    @contextmanager
    def traffic(self, partitions, records=20):
        """Write during the test's faults. At the end every acknowledged record must be there, once, in order."""
        traffic = Traffic(self.bootstrap, partitions)
        try:
            traffic.preload(records)
            traffic.start()
            yield traffic
        finally:
            traffic.stop()
        found = read_everything(self.bootstrap, partitions, 60)
        for check in check_records(traffic.acks, found):
            assert check.holds, (check, traffic.failures[:3])

    def reassign_tool(self, plan, *options):
        path = self.cluster.folder / f"plan-{self.random.random()}.json"
        path.write_text(json.dumps(plan))
        arguments = ("--bootstrap-server", self.bootstrap, "--reassignment-json-file", str(path), *options)
        return self.cluster.kafka_tool(REASSIGN, *arguments)


def cli(*arguments):
    """(status, output) of `shunter …`."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def plan_of(partitions, target, original=()):
    told = {"original_replicas": list(original)} if original else {}
    return {
        "version": 1,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(target), **told} for tp in partitions
        ],
    }


@contextmanager
def running_yard(folder, *options, **cluster_options):
    held = {}
    settings_file = folder / "controller.toml"
    settings_file.write_text("")

    def start_controller(cluster, stack: ExitStack):
        controller = ShunterController(
            folder / "controller",
            cluster.zookeeper_connect,
            # If a start takes longer than a session lasts, an Apache broker leads already; the controller preempts it.
            options=(
                "--config",
                str(settings_file),
                "--set",
                "session-timeout-ms=4000",
                "--set",
                f"log-dir={folder / 'log'}",
                "--takeover",
                "preempt",
                *options,
            ),
        )
        held["controller"] = stack.enter_context(controller)

    with ZooKeeperCluster(
        folder,
        broker_ids=(1, 2, 3, 4),
        before_brokers=start_controller,
        properties={"zookeeper.session.timeout.ms": 4000, "replica.lag.time.max.ms": 5000, **HELD_BACK},
        heap_mib=160,
        **cluster_options,
    ) as cluster:
        yield Yard(cluster, held["controller"], settings_file)


def znode(client, path):
    """A znode's JSON; None: there is none. It may go between two requests, so there is one."""
    try:
        return json.loads(client.get(path)[0])
    except NoNodeError:
        return None
