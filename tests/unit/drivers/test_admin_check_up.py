"""A check-up reads a cluster part by part: a part that is not answered is named, and does not hide the others."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition as KafkaTopicPartition
from kafka import TopicPartitionReplica

from made_certificates import authority, issued
from shunter.drivers.admin import check_up
from shunter.drivers.admin.check_up import take_check_up
from shunter.drivers.admin.cluster import READ_WITHIN_S, Answer, KafkaPythonAdmin
from shunter.drivers.admin.quorum import quorum_of
from shunter.drivers.admin.settings import owners_of
from shunter.drivers.security.tls import ClientTls
from shunter.errors import DriverError, ErrorCode
from shunter.formats.client_properties import TLS
from shunter.model.check_up import FencedBroker, Quorum, Voter
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import EligibleLeaders, TopicPartition
from shunter.model.security.listeners import CertificateFault, KeyStore, Secret, TlsSettings


class Client:
    """A fake of kafka-python's client: two brokers, and one topic that moves from one broker to the other."""

    def __init__(self) -> None:
        self.levels: dict[int, int | None] = {1: 21, 2: None}

    def describe_cluster(self) -> dict[str, Any]:
        hosts = [{"broker_id": broker, "host": "", "port": 0, "rack": f"r{broker}"} for broker in (2, 1)]
        hosts.append({"broker_id": 3, "host": "127.0.0.1", "port": 1, "rack": None, "is_fenced": True})
        return {"cluster_id": "c", "controller_id": 1, "brokers": hosts, "authorized_operations": ["DESCRIBE"]}

    def newest_metadata_version(self, broker: int) -> int | None:
        return self.levels[broker]

    def get_broker_version_data(self, broker: int) -> SimpleNamespace:
        return SimpleNamespace(broker_version=(3, 9, broker))

    def describe_configs(self, resources: list[Any], **_options: Any) -> dict[str, dict[str, Any]]:
        return {"broker": {"1": {}, "2": {}}, "topic": {"t": {"min.insync.replicas": {"value": "2"}}}}

    def describe_log_dirs(self, topics: Any, brokers: list[int]) -> list[dict[str, Any]]:
        """Return two log dirs; each broker copies its replica to the second one."""
        assert topics is None, "copies of all partitions are looked for"
        return [{"log_dirs": [_log_dir(f"/{brokers[0]}", 9), _log_dir(f"/{brokers[0]}b", 3, future=True)]}]

    def all_topics(self) -> list[SimpleNamespace]:
        part = SimpleNamespace(
            partition_index=0, replica_nodes=[1, 2], isr_nodes=[1], leader_id=1, offline_replicas=None
        )
        return [SimpleNamespace(name="t", partitions=[part], authorized_operations=[8])]

    def list_partition_reassignments(self) -> dict[Any, Any]:
        moved = KafkaTopicPartition("t", 0)
        return {moved: {"replicas": [1, 2], "adding_replicas": [2], "removing_replicas": [1]}}

    def describe_metadata_quorum(self) -> dict[str, Any]:
        return {"topics": [{"partitions": [{"leader_id": 2, "current_voters": []}]}]}

    def shun_silent(self, _within_s: float, _for_s: float) -> frozenset[int]:
        return frozenset()

    def eligible_leaders(self, topics: list[str]) -> dict[TopicPartition, EligibleLeaders]:
        return {TopicPartition(name, 0): EligibleLeaders((2,)) for name in topics}

    def describe_features(self, **_options: Any) -> dict[str, Any]:
        return {}


def _log_dir(path: str, size: int, *, future: bool = False) -> dict[str, Any]:
    part = {"partition_index": 0, "partition_size": size, "is_future_key": future}
    topics = [{"name": "t", "partitions": [part]}]
    return {"log_dir": path, "error_code": 0, "is_cordoned": future, "topics": topics}


class EndingClient(Client):
    """A cluster whose reassignment ends while its topics are read."""

    read = False

    def all_topics(self) -> list[SimpleNamespace]:
        self.read = True
        return super().all_topics()

    def list_partition_reassignments(self) -> dict[Any, Any]:
        return {} if self.read else super().list_partition_reassignments()


class Cluster(KafkaPythonAdmin):
    """Asks the client above, except for requests that are not answered."""

    def __init__(self, silent: set[str], client: Client | None = None) -> None:
        self._client = client or Client()
        self._configuration = {}
        self.silent = silent

    @asynccontextmanager
    async def apart(self, _silent: Collection[int]) -> AsyncIterator[KafkaPythonAdmin]:
        yield self

    async def _call(
        self, what: str, permission: str, work: Callable[[Any], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        if what in self.silent:
            raise DriverError(f"{what} was not answered within {within_s:.0f} s", retriable=True)
        return work(self._client)


async def test_every_part_of_a_cluster_is_read() -> None:
    seen = await take_check_up(Cluster(set()))
    assert seen.unread == ()
    assert [(each.broker, each.rack, each.release) for each in seen.brokers] == [(1, "r1", "3.9"), (2, "r2", "3.9.2")]
    assert [[log_dir.path for log_dir in each.log_dirs] for each in seen.brokers] == [["/1", "/1b"], ["/2", "/2b"]]
    moved = TopicPartition("t", 0)
    assert seen.copies == (LogDirCopy(moved, 1, "/1", "/1b", 3, 9), LogDirCopy(moved, 2, "/2", "/2b", 3, 9))
    assert [(each.name, each.min_isr, each.operations) for each in seen.topics] == [("t", 2, {"DESCRIBE"})]
    assert seen.ongoing == {TopicPartition("t", 0): OngoingReassignment((1, 2), (2,), (1,))}
    assert (seen.controller, seen.controlled_by) == (2, "Apache (KRaft)")
    assert seen.fenced == (FencedBroker(3, "refuses connections: nothing listens there"),)
    assert [each.cordoned for each in seen.brokers[0].log_dirs] == [False, True]


@pytest.mark.parametrize(
    ("level", "release"), [(20, "3.9.1"), (22, "4.0"), (30, "4.3"), (33, "4.4"), (34, "newer than 4.4")]
)
async def test_a_release_is_what_the_broker_says(level: int, release: str) -> None:
    """The library takes 4.4 for 4.3, the newest that it knows by its APIs."""
    client = Client()
    client.levels = {1: level, 2: level}
    assert (await take_check_up(Cluster(set(), client))).brokers[0].release == release


async def test_a_reassignment_that_ends_meanwhile_is_told_as_ended() -> None:
    seen = await take_check_up(Cluster(set(), EndingClient()))
    assert (seen.ongoing, seen.ended) == ({}, {TopicPartition("t", 0): OngoingReassignment((1, 2), (2,), (1,))})


async def test_copies_between_log_dirs_are_read_from_every_live_broker() -> None:
    found = await Cluster(set()).log_dir_copies()
    assert [(copy.broker, copy.destination) for copy in found.copies] == [(1, "/1b"), (2, "/2b")]
    assert found.failed == {}
    unanswered = await Cluster({"reading the log dirs of broker 2"}).log_dir_copies()
    assert ([copy.broker for copy in unanswered.copies], list(unanswered.failed)) == ([1], [2])
    assert unanswered.failed[2].startswith("reading the log dirs of broker 2 was not answered")


class SettingsClient(Client):
    """Notes which resources each request is about, and orders of copies within brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.ordered: list[set[tuple[str, int, int]]] = []

    def describe_configs(self, resources: Any, **_options: Any) -> dict[str, dict[str, Any]]:
        self.asked.append([each.name for each in resources])
        return {}

    def alter_replica_log_dirs(self, asked: dict[tuple[str, int, int], str]) -> dict[Any, None]:
        self.ordered.append(set(asked))
        return {TopicPartitionReplica(*key): None for key in asked}


async def test_settings_that_can_not_be_read_are_named_with_their_brokers() -> None:
    """An outsider's finds: "DescribeConfigs failed: no answer came in time", of one broker that was dead; and well ones
    that were named beside it.
    """
    brokers = [ThrottleKey("broker", str(broker), "x") for broker in (1, 2, 3)]
    keys = [*brokers, ThrottleKey("topic", "t", "y"), ThrottleKey("topic", "t", "z")]
    client = SettingsClient()
    seen = await Cluster(set(), client).read_settings(keys)
    assert (list(seen.own), list(seen.effective)) == (keys, keys)
    assert sorted(client.asked) == [["1"], ["2"], ["3"], ["t"]]
    whats = [f"reading settings of {owners_of(some)}" for some in (brokers[1:2], brokers[2:3], keys[3:])]
    assert whats[0] == "reading settings of broker 2"
    assert whats[2] == "reading settings of topic t"
    silent = [f"{what} was not answered within 12 s" for what in whats]
    for what, told in zip(whats, silent, strict=True):
        with pytest.raises(DriverError, match=f"^{told}$") as failed:
            await Cluster({what}, client).read_settings(keys)
        assert failed.value.retriable
    with pytest.raises(DriverError, match=f"^{silent[0]}; {silent[1]}$"):
        await Cluster({*whats[:2]}, client).read_settings(keys)


async def test_copies_within_brokers_are_ordered_broker_by_broker_and_the_silent_one_is_named() -> None:
    client = SettingsClient()
    ordered = [(broker, TopicPartition("t", at), "/b") for at in (0, 1) for broker in (1, 2)]
    answered = await Cluster(set(), client).alter_log_dirs(ordered)
    assert answered == {each[:2]: ErrorCode.NONE for each in ordered}
    assert client.ordered == [{("t", 0, broker), ("t", 1, broker)} for broker in (1, 2)]
    with pytest.raises(DriverError, match=r"^AlterReplicaLogDirs at broker 2 was not answered"):
        await Cluster({"AlterReplicaLogDirs at broker 2"}, client).alter_log_dirs(ordered)


async def test_what_nobody_answers_is_named_and_the_rest_is_read() -> None:
    silent = {"log dirs of broker 2", "ListPartitionReassignments", "the version of broker 1"}
    seen = await take_check_up(Cluster(silent))
    assert {what for what, _why in seen.unread} == {"log dirs of broker 2", "moves", "the version of broker 1"}
    assert all("was not answered within" in why for _what, why in seen.unread)
    assert [(each.release, len(each.log_dirs)) for each in seen.brokers] == [("", 2), ("3.9.2", 0)]
    assert [each.min_isr for each in seen.topics] == [2]
    assert seen.ongoing == {}


async def test_the_certificate_that_we_show_is_looked_at() -> None:
    root, cluster = authority("root"), Cluster(set())
    assert (await take_check_up(cluster)).certificate is None, "this client shows none"

    async def judged(days: tuple[float, float]) -> CertificateFault | None:
        store = KeyStore("PEM", text=Secret(issued("x", root, days=days).pem()))
        cluster._configuration[TLS] = ClientTls(TlsSettings(store), "client.properties")
        return (await take_check_up(cluster)).certificate

    assert await judged((-99, 99)) is None
    soon = await judged((-99, 3.5))
    assert soon is not None
    assert soon.told.startswith("its certificate (CN=x) expires in 3 days, at ")


class SilentClient(Client):
    """A cluster of which broker 2 is listed as live and answers nothing."""

    def shun_silent(self, _within_s: float, _for_s: float) -> frozenset[int]:
        return frozenset({2})

    def get_broker_version_data(self, broker: int) -> SimpleNamespace:
        assert broker != 2
        return super().get_broker_version_data(broker)

    def describe_log_dirs(self, topics: Any, brokers: list[int]) -> list[dict[str, Any]]:
        assert brokers != [2]
        return super().describe_log_dirs(topics, brokers)


async def test_a_broker_that_answers_nothing_is_asked_nothing_more() -> None:
    seen = await take_check_up(Cluster(set(), SilentClient()))
    assert [(each.broker, each.silent) for each in seen.brokers] == [(1, False), (2, True)]
    assert [what for what, _why in seen.unread] == ["log dirs of broker 2"]


class HangingCluster(Cluster):
    """A cluster of which the controller hangs: some requests are never answered."""

    async def _call(
        self, what: str, permission: str, work: Callable[[Any], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        if what in {"ListPartitionReassignments", "the quorum", "features"}:
            await asyncio.Event().wait()
        return await super()._call(what, permission, work, within_s=within_s)


async def test_a_controller_that_hangs_is_not_waited_for_and_nothing_is_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check_up, "HURRIED_S", 0.01)
    seen = await take_check_up(HangingCluster(set(), SilentClient()))
    assert {what for what, _why in seen.unread} == {"log dirs of broker 2", "moves", "the quorum", "features"}
    assert (seen.controller, seen.controlled_by) == (None, "Apache"), "nor is KRaft or ZooKeeper"
    assert seen.unanswered == ("the quorum", "moves", "features")
    assert [topic.name for topic in seen.topics] == ["t"]
    assert not seen.at_rest


async def test_a_quorum_alone_that_is_not_told_is_no_controller_that_does_not_answer() -> None:
    seen = await take_check_up(Cluster({"the quorum"}))
    assert (seen.controller, seen.unanswered) == (None, ())
    assert seen.ongoing


class LeaderlessClient(Client):
    """A cluster of which the one partition has no leader."""

    def all_topics(self) -> list[SimpleNamespace]:
        (topic,) = super().all_topics()
        topic.partitions[0].leader_id, topic.partitions[0].isr_nodes = -1, []
        return [topic]


async def test_who_may_lead_is_asked_where_nobody_leads() -> None:
    seen = await take_check_up(Cluster(set(), LeaderlessClient()))
    assert seen.eligible == {TopicPartition("t", 0): EligibleLeaders((2,))}
    assert (await take_check_up(Cluster(set()))).eligible == {}


class Told:
    """A client that hears how far two voters are, by a leader whose clock is an hour ahead."""

    def __init__(self, *told: dict[str, int]) -> None:
        self.told = told

    def describe_metadata_quorum(self) -> dict[str, Any]:
        return {"topics": [{"partitions": [{"leader_id": 1, "current_voters": list(self.told)}]}]}


def test_voters_are_timed_by_their_leaders_clock() -> None:
    ahead_ms = int(time.time() * 1000) + 3_600_000
    one = {"replica_id": 1, "last_fetch_timestamp": ahead_ms, "last_caught_up_timestamp": ahead_ms}
    two = {"replica_id": 2, "last_fetch_timestamp": ahead_ms - 45_000, "last_caught_up_timestamp": -1}
    seen = quorum_of(Told(one, two))
    assert seen is not None
    assert (seen.leader, seen.voters) == (1, (Voter(1, 0, 0), Voter(2, 45_000, None)))
    assert seen.ahead_ms is not None
    assert 3_590_000 < seen.ahead_ms < 3_610_000
    assert quorum_of(Told({"replica_id": 1})) == Quorum(1, (Voter(1, None, None),)), "an older leader tells no times"


class DamagedClient(Client):
    """Broker 2 has a failed log dir, and lists the topic nowhere; nothing moves."""

    def describe_log_dirs(self, topics: Any, brokers: list[int]) -> list[dict[str, Any]]:
        fine = _log_dir(f"/{brokers[0]}", 9)
        if brokers == [1]:
            return [{"log_dirs": [fine]}]
        return [{"log_dirs": [fine | {"topics": []}, _log_dir("/2b", 9) | {"error_code": 56, "topics": []}]}]

    def list_partition_reassignments(self) -> dict[Any, Any]:
        return {}


async def test_a_replica_that_no_working_log_dir_lists_is_offline_though_metadata_do_not_say_so() -> None:
    """A log dir that fails before the controller of KRaft knows which replicas are in it."""
    seen = await take_check_up(Cluster(set(), DamagedClient()))
    assert seen.topics[0].partitions[0].offline == (2,)
    assert (await take_check_up(Cluster(set(), Client()))).topics[0].partitions[0].offline == (), "no log dir failed"
