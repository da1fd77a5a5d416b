"""Two clusters, one under Apache's controller and one under Shunter's, on which Apache's tools run the same commands.

Moves go all at once, as Apache's controller moves partitions. After each command the contents of ZooKeeper are the
same, znode by znode and field by field, and so are the metadata that each broker sends its clients, and the tools'
output. The permitted differences are named here: ids and times, the controller's id, and Shunter's own znodes.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from raw_connection import RawConnection
from yard import HELD_BACK, REASSIGN, TOPICS

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.probes import brokers_known_at
from lab.testbed.tools import CONFIGS, CONSOLE_PRODUCER, LEADER_ELECTION
from lab.testbed.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

IDS = (1, 2, 3)
OURS = 1000
BOUND_S = 180
ACLS = "kafka.admin.AclCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",  # Its time can't be controlled.
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
RECORDS = "".join(f"{number:099}\n" for number in range(20_000))
"""Two MB: a move with a throttle of one byte a second does not finish them, see `yard.HELD_BACK`."""
OWN = re.compile(
    "/(controller|controller_epoch|cluster/id|brokers/ids/.*|admin/shunter.*|admin/reassignments.*|"
    "admin/reassignment_requests.*|brokers/seqid.*)"
)
"""Znodes of the controller, of the cluster's and brokers' identity, and those of Shunter and of KIP-236."""
ANNOUNCED = re.compile("/(config/changes|kafka-acl-changes|kafka-acl-extended-changes)/.*")
OUR_FIELD = "targetReplicas"
"""KIP-236's field of a move under way; Apache's controller drops it from znodes that others wrote."""
DIFFER = {"controller_epoch", "timestamp", "topic_id"}
"""Fields whose values are each cluster's own. Only their presence is compared."""
PRODUCER_IDS = "/latest_producer_id_block"
"""A producer asks any broker for its id, and another broker if the first has none yet: each of them gets a block."""
METADATA, METADATA_VERSION = 3, 7
MOVED = {"moved"}
MOVED_BY_STEPS = {"leader_epoch"}
"""Apache's controller ends a move in two writes, Shunter in one: docs/decisions/0103-writes.md."""
SECRETS = re.compile(r"(salt|stored_key|server_key)=[^,\"]*")
TOLD_OTHERWISE = (
    (re.compile(r"TopicId: \S+"), "TopicId: its own"),
    (re.compile(r"127\.0\.0\.1:\d+"), "a node"),
    (re.compile(r"\[?\d{4}-\d\d-\d\d [\d:,]+\]? "), ""),
    (re.compile(rf"(brokers [\d,]+),{OURS}$", re.MULTILINE), r"\1"),  # Shunter is an additional node.
    (re.compile(r"^Feature: shunter\t.*\n?", re.MULTILINE), ""),  # Printed if the tool happens to ask Shunter's node.
)
TRACE = re.compile(r"\s+(at |\.\.\. \d+ more)")


@dataclass
class Side:
    """One of the two clusters."""

    cluster: ZooKeeperCluster
    zookeeper: KazooClient

    def tool(self, main_class, *arguments, text=""):
        """Run a tool: its exit status and its output, without the values that are each cluster's own."""
        done = self.cluster.kafka_tool(
            main_class, "--bootstrap-server", self.cluster.bootstrap, *arguments, timeout_s=BOUND_S, input_text=text
        )
        told = done.stdout + done.stderr
        for pattern, instead in TOLD_OTHERWISE:
            told = pattern.sub(instead, told)
        isr_in_order = re.sub(r"Isr: ([\d,]+)", lambda found: f"Isr: {sorted(found[1].split(','))}", told)
        return done.returncode, sorted(line for line in isr_in_order.splitlines() if not TRACE.match(line))

    def written(self):
        """Every znode that is not one cluster's own, by path, with its fields; change notifications by their contents.

        If a tool asks several brokers at once, their notifications come in any order.
        """
        found = {}
        deleted = {f"/brokers/topics/{topic}" for topic in self.zookeeper.get_children("/admin/delete_topics")}
        for path in sorted(self._paths("")):
            data = (self.zookeeper.get(path)[0] or b"").decode()
            if ANNOUNCED.fullmatch(path):
                found.setdefault("announced", []).append(data)
            elif path.endswith("/state") and path.partition("/partitions/")[0] in deleted:
                found[path] = "of a topic that goes"  # docs/decisions/0117-deletions-end-moves.md
            elif not OWN.fullmatch(path):
                found[path] = fields(path, data)
        found.get("announced", []).sort()
        return found

    def controller(self):
        return json.loads(self.zookeeper.get("/controller")[0])["brokerid"]

    def _paths(self, path):
        for name in self.zookeeper.get_children(path or "/"):
            below = f"{path}/{name}"
            yield below
            yield from self._paths(below)

    def settled(self):
        """Whether live brokers know the live brokers, and every replica that can be in sync is in the ISR."""
        live = {id_: broker for id_, broker in self.cluster.brokers.items() if broker.alive}
        if any(brokers_known_at(broker.port) - {OURS} != live.keys() for broker in live.values()):
            return False
        partitions = self.told().values()
        replicated = [each for each in partitions if live.keys() >= set(each["replica_nodes"])]
        return all(each["isr_nodes"] == sorted(each["replica_nodes"]) for each in replicated)

    def moving(self, topic):
        """Whether a partition of the topic is being moved."""
        document = json.loads(self.zookeeper.get(f"/brokers/topics/{topic}")[0])
        return bool(document["adding_replicas"] or document["removing_replicas"])

    def told(self):
        """Each live broker's metadata of each partition, as its clients get it."""
        answers = {}
        for id_, broker in self.cluster.brokers.items():
            if broker.alive:
                with RawConnection(broker.port) as connection:
                    answer = connection.ask(METADATA, METADATA_VERSION, {"topics": None})
                answers |= {
                    (id_, topic.name, one.partition_index): partition_fields(topic, one)
                    for topic in answer.topics
                    for one in topic.partitions
                }
        return answers


def partition_fields(topic, one):
    told = {name: getattr(one, name) for name in ("error_code", "leader_id", "leader_epoch", "replica_nodes")}
    told |= {"topic's error": topic.error_code, "is_internal": topic.is_internal}
    told |= {name: sorted(getattr(one, name)) for name in ("isr_nodes", "offline_replicas")}
    return told | dict.fromkeys(MOVED_BY_STEPS if topic.name in MOVED else (), "its own")


def fields(path, data):
    if not data.startswith("{"):
        return data
    document = json.loads(SECRETS.sub(r"\1=", data))
    document.pop(OUR_FIELD, None)
    moved = any(path.startswith(f"/brokers/topics/{topic}/") for topic in MOVED)
    for name in document.keys() & (DIFFER | (MOVED_BY_STEPS if moved else set())):
        document[name] = "its own"
    if path == PRODUCER_IDS:
        document |= {
            "broker": "any",
            "block_start": "any",
            "block_end": int(document["block_end"]) - int(document["block_start"]),
        }
    if "isr" in document:
        document["isr"] = sorted(document["isr"])
    return document


def differences(one, other):
    return {
        key: (one.get(key, "absent"), other.get(key, "absent"))
        for key in sorted(one.keys() | other.keys(), key=str)
        if one.get(key, "absent") != other.get(key, "absent")
    }


@pytest.fixture(scope="module")
def sides(tmp_path_factory, zookeeper):
    """Apache's and Shunter's cluster: the same brokers, in two corners of one ZooKeeper."""
    tmp_path = tmp_path_factory.mktemp("twins")
    properties = tmp_path / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in PROPERTIES.items()))

    def under_shunter(cluster, inner):
        by_hand = ("--set", "strategy=all-at-once", "--set", "leader_rebalance_enable=false")
        options = ("--server-properties", str(properties), *by_hand)
        inner.enter_context(
            ShunterController(tmp_path / "controller", cluster.zookeeper_connect, broker_id=OURS, options=options)
        )

    with ExitStack() as stack:
        made = []
        for name in ("apache", "shunter"):
            cluster = stack.enter_context(
                ZooKeeperCluster(
                    tmp_path / name,
                    broker_ids=IDS,
                    zookeeper=zookeeper,
                    chroot=f"/twin-{name}",
                    heap_mib=160,
                    properties=HELD_BACK | PROPERTIES,
                    before_brokers=under_shunter if name == "shunter" else None,
                )
            )
            client = KazooClient(cluster.zookeeper_connect)
            client.start()
            stack.callback(client.close)
            stack.callback(client.stop)
            made.append(Side(cluster, client))
        yield made


def agree(sides, after):
    """Wait until both clusters are the same, in ZooKeeper and at each broker."""
    apache, shunter = sides
    found = {}

    def same():
        try:
            found["znodes"] = differences(apache.written(), shunter.written())
            found["brokers"] = differences(apache.told(), shunter.told())
        except (NoNodeError, OSError):
            return False  # A znode was deleted during the check, or a broker is busy.
        return not any(found.values())

    try:
        wait_until(same, what=f"both are the same after {after}", timeout_s=BOUND_S)
    except Exception as late:
        raise AssertionError(f"after {after}: {found}") from late


def plan_file(folder, name, topic, targets):
    entries = [{"topic": topic, "partition": number, "replicas": to} for number, to in targets.items()]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return ("--reassignment-json-file", str(path))


def creation(topic, assignment, *more):
    return (TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment, *more)


def configuration(kind, name, *change):
    entity = ("--entity-default",) if name is None else ("--entity-name", name)
    return (CONFIGS, "--alter", "--entity-type", kind, *entity, *change)


def both(sides, *arguments, text=""):
    """Run a tool at both sides at once; the results."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return tuple(pool.map(lambda side: side.tool(*arguments, text=text), sides))


def do(sides, steps):
    """Run tools one after the other. Each must succeed, and the sides must agree after each."""
    for what, arguments in steps.items():
        apache, shunter = both(sides, *arguments)
        assert shunter == apache, what
        assert apache[0] == 0, (what, apache)
        agree(sides, what)


def test_topics(sides):
    do(
        sides,
        {
            "a topic": creation("made", "1:2:3,2:3:1", "--config", "retention.ms=900000"),
            "more partitions": (
                *(TOPICS, "--alter", "--topic", "made", "--partitions", "3"),
                *("--replica-assignment", "1:2:3,2:3:1,3:1:2"),
            ),
            "what is told of it": (TOPICS, "--describe", "--topic", "made"),
            "a deletion": (TOPICS, "--delete", "--topic", "made"),
        },
    )


def test_settings_and_quotas(sides):
    whose = ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-name", "app")
    do(
        sides,
        {
            "a topic": creation("set", "2:1"),
            "a topic's setting": configuration("topics", "set", "--add-config", "min.insync.replicas=2"),
            "another of it": configuration(
                "topics", "set", "--add-config", "retention.ms=900000,segment.bytes=2000000"
            ),
            "what is told of it": (CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "set"),
            "a topic's setting's end": configuration("topics", "set", "--delete-config", "min.insync.replicas"),
            "a default of brokers": configuration("brokers", None, "--add-config", "background.threads=3"),
            "a broker's setting": configuration("brokers", "2", "--add-config", "background.threads=4"),
            "a broker's setting's end": configuration("brokers", "2", "--delete-config", "background.threads"),
            "a default's end": configuration("brokers", None, "--delete-config", "background.threads"),
            "a client's quota": configuration("clients", "app", "--add-config", "producer_byte_rate=1000000"),
            "each user's quota": configuration("users", None, "--add-config", "controller_mutation_rate=1000"),
            "a user's client's quota": (CONFIGS, "--alter", *whose, "--add-config", "request_percentage=90"),
            "an address' quota": configuration("ips", "127.0.0.9", "--add-config", "connection_creation_rate=100"),
            "what is told of quotas": (CONFIGS, "--describe", "--entity-type", "users"),
            "each user's quota's end": configuration("users", None, "--delete-config", "controller_mutation_rate"),
        },
    )


def test_logins_and_permissions(sides):
    of_512 = "SCRAM-SHA-512=[iterations=4096,password=a-password]"
    of_256 = "SCRAM-SHA-256=[iterations=8192,password=another]"
    reads = ("--allow-principal", "User:ann", "--operation", "Read")
    do(
        sides,
        {
            "a credential": configuration("users", "ann", "--add-config", of_512),
            "another credential": configuration("users", "ann", "--add-config", of_256),
            "a changed credential": configuration("users", "ann", "--add-config", of_512),
            "what is told of them": (CONFIGS, "--describe", "--entity-type", "users", "--entity-name", "ann"),
            "a credential's end": configuration("users", "ann", "--delete-config", "SCRAM-SHA-512"),
            "a permission": (ACLS, "--add", *reads, "--topic", "granted"),
            "a permission by prefix": (
                *(ACLS, "--add", *reads, "--topic", "granted-"),
                *("--resource-pattern-type", "prefixed"),
            ),
            "what is told of permissions": (ACLS, "--list"),
            "a permission's end": (ACLS, "--remove", "--force", *reads, "--topic", "granted"),
            "what is told of features": (FEATURES, "describe"),
        },
    )


def test_moves(sides, tmp_path):
    move = (REASSIGN, *plan_file(tmp_path, "move", "moved", {0: [2, 1], 1: [2], 2: [3, 2, 1]}))
    slow = (REASSIGN, *plan_file(tmp_path, "slow", "held", {0: [2]}))
    other = (REASSIGN, *plan_file(tmp_path, "other", "held", {0: [3]}))
    do(sides, {"a topic": creation("moved", "1:2,1:2,1:2"), "a move": (*move, "--execute")})
    for side in sides:
        wait_until(lambda side=side: not side.moving("moved"), what="the move is over", timeout_s=BOUND_S)
    do(
        sides,
        {
            "its throttles' end": (*move, "--verify"),
            "an election": (LEADER_ELECTION, "--election-type", "preferred", "--all-topic-partitions"),
            "a topic to be held": creation("held", "1"),
        },
    )
    assert [status for status, _ in both(sides, CONSOLE_PRODUCER, "--topic", "held", text=RECORDS)] == [0, 0]
    agree(sides, "a producer's ids")
    do(
        sides,
        {
            "a move under way": (*slow, "--execute", "--throttle", "1"),
            "what is told of it": (REASSIGN, "--list"),
            "its cancel": (*slow, "--cancel"),
            "a move under way again": (*slow, "--execute", "--throttle", "1"),
            "another target of it": (*other, "--execute", "--additional", "--throttle", "1"),
            "the other target's cancel": (*other, "--cancel"),
        },
    )


def test_what_is_refused(sides, tmp_path):
    """Impossible requests are refused in the same words."""
    do(sides, {"a topic": creation("there", "1:2")})
    alter = (TOPICS, "--alter", "--topic", "there", "--partitions")
    refused = {
        "a topic that is there": creation("there", "1:2"),
        "more replicas than brokers": (TOPICS, "--create", "--topic", "wide", "--replication-factor", "9"),
        "no partition": (TOPICS, "--create", "--topic", "none", "--partitions", "0"),
        "a setting that is none": creation("odd", "1", "--config", "min.insync.replicas=0"),
        "as many partitions as it has": (*alter, "1"),
        "a replica on a broker that is none": (*alter, "2", "--replica-assignment", "1:2,1:9"),
        "a topic's setting": configuration("topics", "there", "--add-config", "min.insync.replicas=none"),
        "a broker's setting": configuration("brokers", "1", "--add-config", "background.threads=0"),
        "a quota": configuration("clients", "app", "--add-config", "producer_byte_rate=-1"),
        "a credential that is not there": configuration("users", "nobody", "--delete-config", "SCRAM-SHA-512"),
        "too few iterations": configuration("users", "ann", "--add-config", "SCRAM-SHA-512=[iterations=1,password=a]"),
        "an election where there is nothing": (
            *(LEADER_ELECTION, "--election-type", "preferred", "--topic", "absent", "--partition", "0"),
        ),
        "an unclean election that is not needed": (
            *(LEADER_ELECTION, "--election-type", "unclean", "--topic", "there", "--partition", "0"),
        ),
        "a deletion of nothing": (TOPICS, "--delete", "--topic", "absent"),
        "a feature that is none": (FEATURES, "upgrade", "--feature", "none=1"),
        "a cancel of nothing": (REASSIGN, *plan_file(tmp_path, "nothing", "there", {0: [1, 2]}), "--cancel"),
    }
    unlike = {}
    for what, arguments in refused.items():
        apache, shunter = both(sides, *arguments)
        agree(sides, what)
        if apache != shunter:
            unlike[what] = (apache, shunter)
    assert not unlike, "".join(f"\n{what}:\n  {apache}\n  {shunter}" for what, (apache, shunter) in unlike.items())


def test_brokers_that_leave_and_return(sides):
    # Not the broker that is Apache's controller: a new controller would write everything once more.
    stays = sides[0].controller()
    first, second = sorted(set(IDS) - {stays})
    do(
        sides,
        {
            "a topic": creation("left", f"{first}:{second},{second}:{first},{stays}:{first}"),
            "a topic of single replicas": creation("alone", f"{first},{second}"),
        },
    )
    stop(sides, first)
    do(sides, {"a topic on a broker that is away": creation("late", f"{first}:{stays},{second}:{first}")})
    start(sides, first)
    do(sides, {"an election": (LEADER_ELECTION, "--election-type", "preferred", "--all-topic-partitions")})
    kill(sides, second)
    do(sides, {"a deletion beside a broker that is away": (TOPICS, "--delete", "--topic", "left")})
    start(sides, second)


def test_an_unclean_election(sides):
    stays = sides[0].controller()
    first, second = sorted(set(IDS) - {stays})
    do(sides, {"a topic": creation("unclean", f"{first}:{second}")})
    kill(sides, second)
    kill(sides, first)
    start(sides, second)
    election = (LEADER_ELECTION, "--election-type", "unclean", "--topic", "unclean", "--partition", "0")
    do(sides, {"what is told of it": (TOPICS, "--describe", "--topic", "unclean"), "an election": election})
    start(sides, first)


def stop(sides, broker):
    for side in sides:
        side.cluster.brokers[broker].stop(timeout_s=BOUND_S)
    settle(sides, f"the stop of broker {broker}")


def kill(sides, broker):
    for side in sides:
        side.cluster.brokers[broker].kill()
    settle(sides, f"the death of broker {broker}")


def start(sides, broker):
    for side in sides:
        side.cluster.brokers[broker].start()
    settle(sides, f"the return of broker {broker}")


def settle(sides, after):
    """Wait until each side has finished. Then later effects that were not compared yet must be the same, too."""
    for side in sides:
        wait_until(side.settled, what=f"all is settled after {after}", timeout_s=BOUND_S)
    agree(sides, after)
