"""Requests that any client could send: well-formed, of random contents and sizes, for every API that the node serves."""

import base64
import json
import typing
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kio.index import load_request_schema

from shunter.core.topic_configs import CONFIG_KEYS
from shunter.drivers.listener.handlers.messages import filled
from shunter.wire.framing import request_frame_head
from shunter.wire.reassignments import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS
from shunter.wire.requests import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_CONFIGS,
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    SERVED,
    encode_message,
)

NAMES = tuple(f"fuzz-{number}" for number in range(12))
ODD_NAMES = (
    "", ".", "..", "a.b", "a_b", "x" * 249, "x" * 250, "no/name", "__cluster_metadata", "__consumer_offsets", "ä", "\0", "\u2028",
    " ", "<default>", "x" * 20_000,
)  # fmt: skip
ABSENT_BROKERS = (70, 71, 2**31 - 1)
NUMBERS = (0, 1, 2, 3, 5, 10, 100, 1_000, 60_000, 2**15 - 1, 2**31 - 1, 2**63 - 1)
VALUES = (
    "",
    "1",
    "7d",
    "-1",
    "86400000",
    "delete",
    "compact",
    "true",
    "nonsense",
    "0:1,1:2",
    "*",
    "2.8-IV1",
    "x" * 5_000,
    "ä\0",
)
PARTITIONS_AT_MOST = 300
"""On live brokers. Above this number more topics are deleted than made."""
GREAT_AT_MOST = 4
"""Topics with replicas on absent brokers: no broker stores them, but every broker gets their metadata."""
REFRESH_EVERY = 40
TIMEOUT_MS = 500


@dataclass(frozen=True)
class Drawn:
    """One request; `values` are its fields, for messages."""

    api_key: int
    version: int
    values: str
    frame: bytes

    def __str__(self):
        return f"API {self.api_key} v{self.version} {self.values}"


class Requests:
    """Draws requests. What the cluster has is read from ZooKeeper now and then."""

    def __init__(self, source, zookeeper, brokers, us):
        self.random = source
        self.brokers = brokers
        self.us = us
        self.drawn = 0
        self.great = 0
        self.topics, self.epochs = {}, {}
        self.zookeeper = KazooClient(zookeeper)
        self.directed = {
            CREATE_TOPICS: self.create_topics,
            DELETE_TOPICS: self.delete_topics,
            CREATE_PARTITIONS: self.create_partitions,
            ELECT_LEADERS: self.elect_leaders,
            ALTER_PARTITION_REASSIGNMENTS: self.reassign,
            LIST_PARTITION_REASSIGNMENTS: self.list_moves,
            ALTER_PARTITION: self.alter_partition,
            ALLOCATE_PRODUCER_IDS: self.by_broker,
            CONTROLLED_SHUTDOWN: self.controlled_shutdown,
            INCREMENTAL_ALTER_CONFIGS: self.alter_configs,
            ALTER_CONFIGS: self.alter_configs,
            METADATA: self.metadata,
        }

    def __enter__(self):
        self.zookeeper.start()
        return self

    def __exit__(self, *_):
        self.zookeeper.stop()
        self.zookeeper.close()

    def batch(self, size):
        """Some requests to be sent at once."""
        return [self.one() for _ in range(size)]

    def one(self):
        """One request of an API, in a version, both drawn."""
        if self.drawn % REFRESH_EVERY == 0:
            self.refresh()
        often = (CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS, ALTER_PARTITION_REASSIGNMENTS)
        first = dict(enumerate(sorted(SERVED)))  # Each API once, before chance decides.
        api_key = first.get(self.drawn) or self.random.choice((*first.values(), *often))
        self.drawn += 1
        lowest, highest = SERVED[api_key]
        version = self.random.randint(lowest, highest)
        newer = (api_key, version) == (ALTER_PARTITION_REASSIGNMENTS, 1)  # kio does not know it.
        schema = load_request_schema(api_key, 0 if newer else version)
        values = self.any_of(schema)
        if api_key in self.directed and self.random.random() < 0.7:
            nullable = {name for name, hint in _hints(schema) if type(None) in typing.get_args(hint)}
            directed = self.directed[api_key]()
            if directed.get("validate_only") and "validate_only" not in values:
                # The first version has no such field, and would make topics that no small broker can hold.
                directed["topics"] = [{**self.new_topic(self.name(), 1), "configs": []}]
            values |= {name: each for name, each in directed.items() if each is not None or name in nullable}
        if api_key == CONTROLLED_SHUTDOWN and values["broker_id"] in self.brokers and self.random.random() < 0.95:
            values["broker_id"] = 70  # A broker that asked to shut down leads no partition again.
        for name in ("timeout", "timeout_ms"):
            if name in values:
                values[name] = min(max(values[name], -5), TIMEOUT_MS)
        body = encode_message(filled(schema, values))
        if newer:  # AllowReplicationFactorChange (KIP-860) comes after the timeout.
            body = body[:4] + bytes([self.random.random() < 0.5]) + body[4:]
        frame = request_frame_head(api_key, version, 7, "fuzz", len(body)) + body
        return Drawn(api_key, version, repr(values)[:2_000], frame)

    def refresh(self):
        """Read the cluster's topics and epochs from ZooKeeper."""
        self.topics, self.epochs = {}, {}
        for name in self.zookeeper.get_children("/brokers/topics"):
            try:
                known = json.loads(self.zookeeper.get(f"/brokers/topics/{name}")[0])
                partitions = {}
                for number in list(known["partitions"])[:6]:
                    path = f"/brokers/topics/{name}/partitions/{number}/state"
                    if self.zookeeper.exists(path):
                        data, stat = self.zookeeper.get(path)
                        partitions[int(number)] = (json.loads(data), stat.version)
                self.topics[name] = (known, partitions)
            except NoNodeError:
                continue
        for broker in self.zookeeper.get_children("/brokers/ids"):
            try:
                self.epochs[int(broker)] = self.zookeeper.get(f"/brokers/ids/{broker}")[1].czxid
            except NoNodeError:
                continue

    # ---- any values of a type

    def any_of(self, schema):
        """Plain values for every field of an entity."""
        return {name: self.value(name, hint, 0) for name, hint in _hints(schema)}

    def value(self, name, hint, depth):
        arguments = typing.get_args(hint)
        if type(None) in arguments:
            if self.random.random() < 0.2:
                return None
            hint = next(each for each in arguments if each is not type(None))
        if typing.get_origin(hint) is tuple:
            count = self.random.choice((0, 1, 1, 2, 3, 40 if depth else 400))
            return [self.value(name, typing.get_args(hint)[0], depth + 1) for _ in range(count)]
        if hasattr(hint, "__dataclass_fields__"):
            return {field: self.value(field, inner, depth + 1) for field, inner in _hints(hint)}
        if hint is bool:
            return self.random.random() < 0.5
        if hint is UUID:
            return self.topic_id()
        if issubclass(hint, str):
            return self.text(name)
        if issubclass(hint, bytes):
            return self.random.randbytes(self.random.choice((0, 5, 500)))
        return self.number(name, hint)

    def number(self, name, hint):
        bits = next((bits for kind, bits in (("i8", 7), ("i16", 15), ("i32", 31)) if kind in _names(hint)), 63)
        if name in {"broker_id", "broker_ids", "replicas", "new_isr"}:
            wanted = self.random.choice((*self.brokers, self.us, -1, *ABSENT_BROKERS))
        else:
            wanted = self.random.choice(NUMBERS) * self.random.choice((1, 1, 1, -1))
        return max(-(1 << bits), min((1 << bits) - 1, wanted))

    def text(self, name):
        if name == "value":
            return self.random.choice(VALUES)
        if "config" in name and "operation" not in name:
            return self.random.choice((*CONFIG_KEYS, *ODD_NAMES[:4]))
        return self.random.choice((*NAMES, *NAMES, *ODD_NAMES, "1", "2", str(self.us)))

    def topic_id(self):
        ids = [_uuid(known["topic_id"]) for known, _ in self.topics.values() if "topic_id" in known]
        return self.random.choice((*ids, UUID(int=0), UUID(int=77)))

    # ---- meaningful requests

    def held(self):
        """Partitions on live brokers."""
        return sum(
            len(known["partitions"]) for name, (known, _) in self.topics.items() if not name.startswith("great-")
        )

    def name(self):
        return (
            self.random.choice((*NAMES, *self.topics)) if self.random.random() < 0.9 else self.random.choice(ODD_NAMES)
        )

    def replicas(self):
        pool = [*self.brokers, *self.brokers, *self.brokers, self.us, *ABSENT_BROKERS, -1]
        row = self.random.sample(pool, self.random.choice((1, 2, 3, 3, 5)))
        return list(dict.fromkeys(row)) if self.random.random() < 0.9 else row

    def configs(self):
        names = self.random.sample(sorted(CONFIG_KEYS), self.random.choice((0, 0, 1, 2, 5)))
        return [
            {"name": name, "value": self.random.choice((CONFIG_KEYS[name].default, CONFIG_KEYS[name].default, *VALUES))}
            for name in names
        ]

    def new_topic(self, name, partitions):
        if self.random.random() < 0.4:
            placed = [
                {"partition_index": number, "broker_ids": self.replicas()} for number in range(min(partitions, 4))
            ]
            return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": placed}
        factor = self.random.choice((-1, 1, 2, 3, 4))
        return {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": []}

    def create_topics(self):
        kind = self.random.random()
        if kind < 0.1:
            return self.too_much()
        if kind < 0.15 and self.great < GREAT_AT_MOST:
            self.great += 1
            placed = [{"partition_index": number, "broker_ids": [70, 71]} for number in range(1_000)]
            topic = {
                "name": f"great-{self.great}",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": placed,
            }
            return {"topics": [topic], "validate_only": False, "timeout": TIMEOUT_MS}
        many = 1 if self.held() > PARTITIONS_AT_MOST else self.random.choice((1, 2, 5))
        topics = [self.new_topic(self.name(), self.random.choice((-1, 0, 1, 2, 8))) for _ in range(many)]
        for topic in topics:
            topic["configs"] = self.configs()
        return {"topics": topics, "validate_only": self.random.random() < 0.3, "timeout": TIMEOUT_MS}

    def too_much(self):
        """Requests too large for a batch, or only validated."""
        listed = ",".join(f"{number}:1" for number in range(1_500))
        great = {"name": "leader.replication.throttled.replicas", "value": listed}
        topics, only = self.random.choice(
            (
                ([{"name": "much", "num_partitions": 60_000, "replication_factor": 3}], False),
                ([{"name": "much", "num_partitions": 2**31 - 1, "replication_factor": 1}], False),
                ([{"name": f"much-{n}", "num_partitions": 15_000, "replication_factor": 3} for n in range(4)], True),
                (
                    [
                        {"name": f"c-{n}", "num_partitions": 1, "replication_factor": 1, "configs": [great]}
                        for n in range(200)
                    ],
                    True,
                ),
                ([{"name": f"n-{n}", "num_partitions": 1, "replication_factor": 1} for n in range(2_000)], True),
            )
        )
        topics = [{"assignments": [], "configs": [], **topic} for topic in topics]
        return {"topics": topics, "validate_only": only, "timeout": TIMEOUT_MS}

    def delete_topics(self):
        crowded = self.held() > PARTITIONS_AT_MOST
        names = [self.name() for _ in range(8 if crowded else self.random.choice((1, 1, 2)))]
        by_id = [
            {"name": None, "topic_id": self.topic_id()}
            if self.random.random() < 0.5
            else {"name": name, "topic_id": None}
            for name in names
        ]
        return {"topic_names": names, "topics": by_id, "timeout": TIMEOUT_MS}

    def create_partitions(self):
        total = self.random.choice((2, 3, 5, 9, 12, 300_000, 2**31 - 1))
        if self.held() > PARTITIONS_AT_MOST:
            total = 300_000
        assignments = None
        if self.random.random() < 0.3:
            assignments = [{"broker_ids": self.replicas()} for _ in range(self.random.choice((1, 2, 3)))]
        topics = [{"name": self.name(), "count": total, "assignments": assignments}]
        return {"topics": topics, "validate_only": self.random.random() < 0.2, "timeout": TIMEOUT_MS}

    def partitions(self, name):
        known = self.topics.get(name, ({"partitions": {"0": []}}, {}))[0]["partitions"]
        numbers = sorted(map(int, known))[:8]
        return self.random.sample(numbers, self.random.randint(1, len(numbers))) if numbers else [0]

    def elect_leaders(self):
        names = {self.name() for _ in range(2)}
        asked = [{"topic": name, "partitions": self.partitions(name)} for name in sorted(names)]
        everything = self.random.random() < 0.1
        return {
            "election_type": self.random.choice((0, 0, 1, 7)),
            "topic_partitions": None if everything else asked,
            "timeout": TIMEOUT_MS,
        }

    def reassign(self):
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": n, "replicas": None if self.random.random() < 0.2 else self.replicas()}
                    for n in self.partitions(name)
                ],
            }
            for name in sorted({self.name() for _ in range(2)})
        ]
        return {"topics": topics, "timeout": TIMEOUT_MS}

    def list_moves(self):
        return {"topics": None, "timeout": TIMEOUT_MS}

    def by_broker(self):
        broker = self.random.choice(self.brokers)
        return {"broker_id": broker, "broker_epoch": self.random.choice((self.epochs.get(broker, 5), -1, 0))}

    def controlled_shutdown(self):
        return self.by_broker()

    def alter_partition(self):
        known = [(name, number) for name, (_, states) in self.topics.items() for number in states]
        if not known:
            return self.by_broker()
        name, number = self.random.choice(known)
        topic, states = self.topics[name]
        state, version = states[number]
        isr = self.random.choice(
            (state["isr"], topic["partitions"][str(number)], state["isr"][:1], self.replicas(), [])
        )
        asked = {
            "partition_index": number,
            "leader_epoch": state["leader_epoch"],
            "new_isr": isr,
            "new_isr_with_epochs": [{"broker_id": each, "broker_epoch": self.epochs.get(each, -1)} for each in isr],
            "leader_recovery_state": self.random.choice((0, 0, 1)),
            "partition_epoch": version,
        }
        leader = state["leader"] if state["leader"] in self.epochs else self.brokers[0]
        topics = [{"topic_name": name, "topic_id": _uuid(topic.get("topic_id")), "partitions": [asked]}]
        return {"broker_id": leader, "broker_epoch": self.epochs.get(leader, -1), "topics": topics}

    def alter_configs(self):
        configs = [{**config, "config_operation": self.random.choice((0, 1, 2, 3, 9))} for config in self.configs()]
        kind = self.random.choice((2, 2, 4))
        name = self.name() if kind == 2 else self.random.choice((str(self.us), "1", ""))
        if name != str(self.us) and kind == 4:
            configs = []  # Settings that a broker handles itself are not the controller's.
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        return {"resources": [resource], "validate_only": self.random.random() < 0.3}

    def metadata(self):
        asked = [{"name": self.name(), "topic_id": UUID(int=0)} for _ in range(self.random.choice((0, 1, 5)))]
        return {"topics": None if self.random.random() < 0.5 else asked}


@cache
def _hints(schema):
    return tuple((name, hint) for name, hint in typing.get_type_hints(schema).items() if not name.startswith("__"))


@cache
def _names(hint):
    return {each.__name__.removesuffix("Timedelta") for each in hint.__mro__}


def _uuid(text):
    if not text:
        return UUID(int=0)
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
