"""The table of `core/topic_configs.py`, compared with brokers of the oldest, a middle and the newest release.

A broker that is not the controller validates a topic's configuration itself for an alteration with `validateOnly`, and
forwards other requests. Its answer is the same as for CreateTopics, because `LogConfig.validate` is behind both.
"""

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from raw_connection import RawConnection

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.waiting import wait_until
from shunter.core.topic_configs import (
    CONFIG_KEYS,
    DELETE_ON_DISABLE,
    FORMAT_VERSION,
    ConfigType,
    Releases,
    check_topic_configs,
    effective_configs,
)
from shunter.errors import RequestRejected

VERSIONS = {1: "2.8.2", 2: "3.4.1", 3: "3.9.2"}
RELEASES = {"2.8.2": (2, 8), "3.4.1": (3, 4), "3.9.2": (3, 9)}
SET = 0
TOPIC_RESOURCE = 2
TOPIC = "judged"
ALTERED = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{TOPIC}'): "
"""The prefix of the error message when a configuration is altered."""
THREE = "\u0663"
"""An Arabic digit: Java accepts digits of every script, Shunter those of ASCII."""
STRICTER = {
    # 2.8 accepts these values, and 3.x does not start with them (docs/decisions/0020-topic-configs.md).
    ("2.8.2", "flush.messages", "0"),
    *(("2.8.2", "segment.index.bytes", value) for value in "0123"),
    # 3.4 has the name, but not the feature.
    ("3.4.1", "remote.storage.enable", "true"),
    ("3.4.1", "remote.storage.enable", "TRUE"),
    # Java accepts more texts as numbers than Shunter does.
    *((version, "min.cleanable.dirty.ratio", value) for version in VERSIONS.values() for value in ("NaN", "0x1p-1")),
    *(
        (version, name, THREE)
        for version, release in RELEASES.items()
        for name, key in CONFIG_KEYS.items()
        if key.kind is ConfigType.LONG and key.since <= release
    ),
    # 3.9.2 accepts the next release's name, which has no ZooKeeper mode.
    ("3.9.2", FORMAT_VERSION, "4.0-IV0"),
}
NUMBERS = ("", "x", "7d", " 7 ", "+7", "1_0", "1.0", "1e3", "0x10", "0", "-1", "-2", "-3", "1", "3", "4", "13", "14")
LIMITS = tuple(str(sign * 2**bits + more) for bits in (31, 63) for sign in (1, -1) for more in (-1, 0, 1))
LEVELS = ("2", "9", "10", "17", "18", "22", "23", "-131072", "-131073")
RATIOS = ("0.5", ".5", "1.", "1", "1.0001", "-0.1", "1e-1", "0.5d", "0.5f", "NaN", "0x1p-1", "abc", "")
WORDS = ("", "delete", "compact", "compact,delete", "compact , delete", "delete,", "Delete", "drop", " compact ")
BOOLEANS = ("true", "false", "TRUE", " False ", "yes", "1", "")
THROTTLES = ("", "*", "0:1", "0:1,1:2", "0:1, 1:2", "0:1,", "x", "0:1,x", "0-1", "*,0:1", "1:2:3", " * ")
FORMATS = (
    "2.8", "2.8-IV1", "2.8-IV2", "2.8.1", "3.0", "3.0-IV1", "3.4", "3.4-IV0", "3.4-IV1", "3.9", "3.9-IV0", "3.10", "0.10.2",
    "0.10.2-IV0", "0.10.2.1", "0.10", "0.9.0", "0.9.0-IV0", "1.0", "1", "", "nonsense", "4.0-IV0", " 2.8 ",
)  # fmt: skip
COMPRESSIONS = ("gzip", "zstd", "producer", "uncompressed", "none", "GZIP", " lz4 ", "")
TOGETHER = (
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"retention.ms": "7d", "segment.bytes": "1"},
    {"no.such.name": "1"},
    {"Retention.ms": "1"},
    {"": "1"},
)


def tried():
    """Every name with values of its type at and around all limits."""
    of_strings = {
        "compression.type": COMPRESSIONS,
        FORMAT_VERSION: FORMATS,
        "message.timestamp.type": ("CreateTime", "x", ""),
    }
    for key in CONFIG_KEYS.values():
        values = {
            ConfigType.INT: (*NUMBERS, *LIMITS, *LEVELS),
            ConfigType.LONG: (*NUMBERS, *LIMITS, THREE),
            ConfigType.DOUBLE: RATIOS,
            ConfigType.BOOLEAN: BOOLEANS,
            ConfigType.STRING: of_strings.get(key.name, ()),
            ConfigType.LIST: WORDS if key.words else THROTTLES,
        }[key.kind]
        yield from ({key.name: value} for value in values)
    yield from TOGETHER


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One broker of each release. The first to start is the controller, and validates just the same."""
    properties = {"inter.broker.protocol.version": "2.8", "zookeeper.session.timeout.ms": 6000}
    folder = tmp_path_factory.mktemp("releases")
    with ZooKeeperCluster(folder, versions=VERSIONS, properties=properties, heap_mib=160) as started:
        admin = KafkaAdminClient(bootstrap_servers=started.bootstrap)
        admin.create_topics([NewTopic(TOPIC, 1, 3)])
        admin.close()
        for broker in VERSIONS:
            with RawConnection(started.brokers[broker].port) as connection:
                wait_until(
                    lambda: judged_by(connection, {"retention.ms": "1"}) is None,
                    what=f"broker {broker} knows the topic",
                    timeout_s=20,
                )
        yield started


def judged_by(connection, configs):
    """A broker's verdict: None, or its error message."""
    asked = [{"name": name, "config_operation": SET, "value": value} for name, value in configs.items()]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configs": asked}
    (answer,) = connection.ask(44, 1, {"resources": [resource], "validate_only": True}).responses
    return None if int(answer.error_code) == 0 else (answer.error_message or "").removeprefix(ALTERED)


def judged_by_us(configs, releases):
    try:
        check_topic_configs(configs, releases)
    except RequestRejected as refused:
        return refused.message
    return None


def same_sentence(theirs, ours):
    """Whether two sentences say the same; releases differ in quotes and brackets, and in the order of words."""
    if theirs == ours or theirs is None or ours is None:
        return theirs == ours
    head = ours.partition(":")[0]
    return theirs.startswith(head) or ("Unknown topic config name" in theirs and "Unknown topic config name" in ours)


@pytest.mark.parametrize(("broker", "version"), VERSIONS.items())
def test_every_value_is_judged_as_brokers_judge_it(cluster, broker, version):
    release = RELEASES[version]
    differing, counted = [], 0
    with RawConnection(cluster.brokers[broker].port) as connection:
        for configs in tried():
            theirs = judged_by(connection, configs)
            ours = judged_by_us(configs, Releases(release, release))
            name, value = next(iter(configs.items()))
            counted += 1
            if (version, name, value) in STRICTER:
                assert theirs is None, f"{version} takes {configs} no more: {theirs}"
                assert ours is not None, f"{configs} is taken now"
            elif (theirs is None) != (ours is None) or not same_sentence(theirs, ours):
                differing.append((configs, theirs, ours))
    assert counted > 500
    assert not differing, "\n".join(map(str, differing[:30]))


def test_the_effective_configuration_is_that_of_a_broker(cluster):
    """A broker of 3.9.2, with a dynamic default of the cluster. Shunter can't see settings in a broker's own file."""
    with RawConnection(cluster.brokers[3].port) as connection:
        asked = {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configuration_keys": None}
        (found,) = connection.ask(32, 4, {"resources": [asked]}).results
    theirs = {config.name: config.value for config in found.configs}
    ours = {name: value for name, value, _ in effective_configs({}, Releases((3, 9), (3, 9)), cluster={}, ours={})}
    assert theirs.keys() == ours.keys()
    assert {name: (value, ours[name]) for name, value in theirs.items() if value != ours[name]} == {
        # `inter.broker.protocol.version` sets the default of this deprecated setting.
        FORMAT_VERSION: (theirs[FORMAT_VERSION], ours[FORMAT_VERSION])
    } or theirs == ours
    assert DELETE_ON_DISABLE in theirs
