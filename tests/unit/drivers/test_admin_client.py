"""The Admin client: refusals and unanswered requests, logins, and what the controller's version says."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from shunter.drivers.admin import cluster
from shunter.drivers.admin.answers import NotSet, check_described, code_of, setting_seen, topic_seen, translated
from shunter.drivers.admin.client import REFUSALS_AT_MOST, PinnedAdminClient, connected
from shunter.drivers.admin.cluster import KafkaPythonAdmin, _code
from shunter.drivers.admin.metadata import MetadataObserver, live_brokers
from shunter.drivers.admin.protocol import StillOurs, always
from shunter.errors import DriverError, ErrorCode, RequestRejected, told_code
from shunter.model.execution import ObservedPartition, ThrottleKey
from shunter.model.features import SHUNTER_FEATURE
from shunter.model.partition import BrokerId

KEY = ThrottleKey("topic", "t", "leader.replication.throttled.replicas")
METADATA, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 3, 18, 17, 36
WHY = b"Authentication failed: Invalid username or password"
RATES = [ThrottleKey("broker", name, "leader.replication.throttled.rate") for name in "12"]
WANTED: dict[ThrottleKey, str | None] = dict.fromkeys(RATES, "5")
SILENT, REFUSED = NotSet("no answer", refused=False), NotSet("PolicyViolation", refused=True)
BEFORE, FIRST = 29, 30
"""The newest `metadata.version` of Kafka 4.2, and the first of 4.3."""


@pytest.mark.parametrize(
    ("error", "retriable", "told"),
    [
        (kafka_errors.ClusterAuthorizationFailedError(), False, "needs Alter on Cluster"),
        (kafka_errors.TopicAuthorizationFailedError(), False, "needs Alter on Cluster"),
        (kafka_errors.SaslAuthenticationFailedError(), False, "does not let us in"),
        (kafka_errors.UnsupportedVersionError(), False, "came with Kafka 2.4"),
        (kafka_errors.IncompatibleBrokerVersion(), False, "came with Kafka 2.4"),
        (kafka_errors.KafkaConfigurationError("no"), False, "no"),
        (kafka_errors.KafkaConnectionError("refused"), True, "refused"),
        (kafka_errors.NotControllerError(), True, "NotController"),
        (kafka_errors.KafkaTimeoutError(), True, "no answer came in time"),
        (RuntimeError("Failed to find active controller id!"), True, "controller"),
        (OSError("network is unreachable"), True, "unreachable"),
    ],
)
def test_every_error_says_whether_to_try_again(error: Exception, retriable: bool, told: str) -> None:
    error_of_ours = translated("AlterPartitionReassignments", "Alter on Cluster", error)
    assert isinstance(error_of_ours, DriverError)
    assert error_of_ours.retriable is retriable
    assert told in str(error_of_ours)
    assert str(error_of_ours).startswith("AlterPartitionReassignments")
    assert not {"KafkaTimeoutError", "KafkaConnectionError"} & {*str(error_of_ours).replace(":", " ").split()}


def test_errors_of_partitions_keep_kafkas_codes() -> None:
    assert code_of(None) == (ErrorCode.NONE, "")
    assert code_of(kafka_errors.NoReassignmentInProgressError)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert code_of(kafka_errors.InvalidReplicationAssignmentError)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(kafka_errors.OffsetOutOfRangeError)[0] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_setting_is_ours_to_remember_only_where_it_is_set_at_the_resource_itself() -> None:
    own = {"value": "1:2", "config_source": "DYNAMIC_TOPIC_CONFIG", "synonyms": []}
    default = {"value": "9", "config_source": "DYNAMIC_DEFAULT_BROKER_CONFIG", "synonyms": []}
    both = {
        "value": "5",
        "config_source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": [
            {"source": "DYNAMIC_TOPIC_CONFIG", "value": "5"},
            {"source": "STATIC_BROKER_CONFIG", "value": "6"},
        ],
    }
    assert setting_seen(KEY, None) == (None, None)
    assert setting_seen(KEY, own) == ("1:2", "1:2")
    assert setting_seen(KEY, default) == (None, "9")
    assert setting_seen(KEY, both) == ("5", "5")


@pytest.mark.parametrize(
    ("kind", "code", "told", "retriable"),
    [
        (2, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "settings of topic t: needs DescribeConfigs on Topic t", False),
        (4, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "settings of broker t: needs DescribeConfigs on Cluster", False),
        (4, ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeConfigs of broker t: error -1: no", True),
    ],
)
def test_settings_that_could_not_be_read_are_an_error(kind: int, code: int, told: str, retriable: bool) -> None:
    with pytest.raises(DriverError, match=told) as failed:
        check_described(kind, "t", code, "no")
    assert failed.value.retriable is retriable


def test_settings_of_a_topic_that_is_gone_are_none() -> None:
    check_described(2, "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def described(code: int) -> dict[str, object]:
    partition = {
        "partition_index": 3,
        "replica_nodes": [1, 2],
        "isr_nodes": [2],
        "leader_id": 2,
        "offline_replicas": [1],
    }
    return {
        "name": "t",
        "error_code": code,
        "topic_id": "00000000-0000-0000-0000-000000000000",
        "partitions": [partition],
    }


def test_a_topic_without_an_id_has_none_and_one_that_is_gone_is_none() -> None:
    seen = topic_seen(described(0), {"t": 2})
    assert seen is not None
    assert (seen.topic_id, seen.min_isr) == (None, 2)
    assert seen.partitions == {3: ObservedPartition((1, 2), (2,), 2, (1,))}
    assert topic_seen(described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {}) is None


def test_a_topic_that_may_not_be_seen_names_the_permission() -> None:
    with pytest.raises(DriverError, match="needs Describe on Topic t") as refused:
        topic_seen(described(ErrorCode.TOPIC_AUTHORIZATION_FAILED), {})
    assert not refused.value.retriable
    with pytest.raises(DriverError) as passing:
        topic_seen(described(ErrorCode.LEADER_NOT_AVAILABLE), {})
    assert passing.value.retriable


def test_certificates_that_do_not_fit_and_timeouts_may_pass() -> None:
    assert translated("connecting", "", ssl.SSLError("bad certificate")).retriable
    assert translated("connecting", "", TimeoutError()).retriable


def test_a_name_that_no_topic_can_have_names_no_topic() -> None:
    assert topic_seen({"name": "big/0", "error_code": int(ErrorCode.INVALID_TOPIC_EXCEPTION)}, {}) is None


@pytest.mark.parametrize("code", [39, 41, 31])
@pytest.mark.parametrize("message", ["", "why"])
def test_no_error_is_named_twice(code: int, message: str) -> None:
    error = kafka_errors.for_code(code)(*filter(None, [message]))
    told = str(translated("A request", "Alter", error))
    assert told.count(type(error).__name__) == 1
    assert "[Error" not in told


@pytest.mark.parametrize(
    "message", ["", "INVALID_REPLICA_ASSIGNMENT", "INVALID_REPLICA_ASSIGNMENT: broker 9", "broker 9"]
)
def test_no_code_is_named_twice(message: str) -> None:
    """An outsider's find: "the cluster refuses the step: INVALID_REPLICA_ASSIGNMENT: INVALID_REPLICA_ASSIGNMENT: …"."""
    told = str(RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message))
    assert told.count("INVALID_REPLICA_ASSIGNMENT") == 1
    assert told_code(*_code(RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message))) == told


def version_zero(api):
    """An answer in Kafka's protocol: versions of four APIs; the mechanism; the refusal (58)."""
    if api == API_VERSIONS:
        known = (METADATA, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
        each = b"".join(key.to_bytes(2) + bytes(2) + (key == SASL_HANDSHAKE).to_bytes(2) for key in known)
        return bytes(2) + len(known).to_bytes(4) + each
    if api == SASL_HANDSHAKE:
        return bytes(2) + (1).to_bytes(4) + (5).to_bytes(2) + b"PLAIN"
    return (58).to_bytes(2) + len(WHY).to_bytes(2) + WHY + bytes(4)


class RefusingBroker:
    """Refuses each login; the refusal and the end of the connection arrive together."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.listener.getsockname())
        self.logins = 0
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.talk(connection)

    def talk(self, connection):
        while size := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
            api, version = int.from_bytes(request[:2]), int.from_bytes(request[2:4])
            # A broker that does not know the request's version answers in the oldest one, with error 35.
            answer = (
                version_zero(api) if api != API_VERSIONS or version == 0 else (35).to_bytes(2) + version_zero(api)[2:]
            )
            whole = (len(answer) + 4).to_bytes(4) + request[4:8] + answer
            connection.sendall(whole)
            if api == SASL_AUTHENTICATE:
                self.logins += 1
                return


def test_a_refused_login_is_told_with_its_reason_and_soon():
    with RefusingBroker() as broker, pytest.raises(DriverError) as told:
        connected(
            {
                "bootstrap_servers": [broker.address],
                "bootstrap_timeout_ms": 240_000,  # Longer than the test's own time limit.
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "me",
                "sasl_plain_password": "wrong",
            }
        )
    assert str(told.value) == f"connecting: the cluster does not let us in: {WHY.decode()}"
    assert not told.value.retriable
    assert broker.logins == REFUSALS_AT_MOST


class Answering:
    """The connections to a cluster of one broker, which answers DescribeCluster in one version."""

    def __init__(self, version: int) -> None:
        self.version = version

    async def send(self, _request: DescribeClusterRequest) -> DescribeClusterResponse:
        broker = DescribeClusterResponse.DescribeClusterBroker(broker_id=1, host="h", port=9, rack="a")
        told = {"cluster_id": "c", "controller_id": 1, "authorized_operations": {8}}
        return DescribeClusterResponse(version=self.version, brokers=[broker], error_code=0, **told)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_cluster_is_described_by_brokers_of_any_version(version: int) -> None:
    """A broker before Kafka 3.7 answers in version 0, without an endpoint type. The library fails with a KeyError."""
    client = PinnedAdminClient.__new__(PinnedAdminClient)
    client._manager = Answering(version)
    described = await client._describe_cluster()
    assert live_brokers(described) == {1: "a"}
    assert (described["cluster_id"], described["controller_id"]) == ("c", 1)
    assert described["authorized_operations"] == ["DESCRIBE"]


class Cluster(KafkaPythonAdmin):
    """Answers each write as the test says; a broker dies after so many writes."""

    def __init__(self, answers: Sequence[dict[ThrottleKey, NotSet]], *, second_dies: bool = False) -> None:
        self.answers = list(answers)
        self.second_dies = second_dies
        self.asked: list[list[ThrottleKey]] = []

    async def write_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        await still_ours()
        self.asked.append([key for key, _value in settings])
        return self.answers.pop(0)

    async def brokers(self) -> dict[BrokerId, str | None]:
        return {1: None} if self.second_dies else {1: None, 2: None}

    async def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return dict.fromkeys(settings, "taken, but broker 2 did not apply it")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AGAIN_S", 0.0)


async def test_only_what_nobody_answered_for_is_asked_again() -> None:
    admin = Cluster([{RATES[1]: SILENT}, {RATES[1]: SILENT}, {}])
    assert await admin.write_patiently(WANTED) == {}
    assert admin.asked == [RATES, RATES[1:], RATES[1:]]


async def test_a_refusal_is_told_at_once() -> None:
    admin = Cluster([{RATES[0]: SILENT, RATES[1]: REFUSED}])
    assert await admin.write_patiently(WANTED) == {RATES[0]: SILENT, RATES[1]: REFUSED}


async def test_what_was_taken_and_is_not_shown_yet_was_not_refused() -> None:
    """Found by simulation (seed 99002444): the executor took one for the other."""
    missing = await Cluster([{RATES[0]: REFUSED}]).alter_settings(list(WANTED.items()))
    assert missing == {RATES[0]: REFUSED, RATES[1]: NotSet("taken, but broker 2 did not apply it", refused=False)}


async def test_a_dead_broker_is_not_waited_for() -> None:
    admin = Cluster([dict.fromkeys(RATES, SILENT), {}], second_dies=True)
    assert await admin.write_patiently(WANTED) == {RATES[1]: SILENT}
    assert admin.asked == [RATES, RATES[:1]]


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 0.0)
    assert await Cluster([{RATES[0]: SILENT}]).write_patiently(WANTED) == {RATES[0]: SILENT}


class Broken(KafkaPythonAdmin):
    """A client whose calls fail one after the other as the test says, and then succeed."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls = 0
        self._client = self
        self._threads = ThreadPoolExecutor(1)
        self._observer = MetadataObserver()
        self._manager = SimpleNamespace(cluster=SimpleNamespace(brokers=list))

    def list_topics(self) -> list[str]:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return ["t"]


REFUSES, LEFT_ALONE = KafkaConnectionError("111 ECONNREFUSED"), NodeNotReadyError(4)


async def test_a_request_that_a_dead_broker_did_not_take_goes_to_another_one() -> None:
    """The library chooses any known broker: a dead broker stays in metadata until its session ends."""
    broken = Broken(REFUSES, LEFT_ALONE)
    assert await broken.topic_names() == ["t"]
    assert broken.calls == 3


async def test_where_nobody_is_there_the_first_failure_is_told() -> None:
    broken = Broken(REFUSES, LEFT_ALONE, LEFT_ALONE, LEFT_ALONE)
    with pytest.raises(DriverError, match="Metadata failed: the connection failed: 111 ECONNREFUSED"):
        await broken.topic_names()
    assert broken.calls == 3


@pytest.mark.parametrize("failure", [KafkaConnectionError("socket disconnected"), RequestTimedOutError()])
async def test_what_may_have_been_sent_is_not_sent_again(failure: Exception) -> None:
    broken = Broken(failure)
    with pytest.raises(DriverError, match="Metadata failed"):
        await broken.topic_names()
    assert broken.calls == 1


async def test_a_tool_goes_on_until_it_meets_a_broker_that_is_alive() -> None:
    """A KRaft cluster names any broker as its controller, also a dead one, and often three times in a row."""
    broken = Broken(*[REFUSES, LEFT_ALONE, KafkaConnectionError("socket disconnected")] * 4)
    broken.patient = True
    assert await broken.topic_names() == ["t"]
    assert broken.calls == 13


async def test_a_tool_that_gives_up_says_which_brokers_it_knows_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setattr(cluster, "UNSENT_FOR_S", 0.0)
    broken = Broken(*[REFUSES] * 9)
    broken.patient = True
    broken._configuration = {"bootstrap_servers": f"127.0.0.1:{free_port}"}
    told = f"known, 127.0.0.1:{free_port} refuses connections: nothing listens there"
    with pytest.raises(DriverError, match=told):
        await broken.topic_names()


class Stuck:
    """The library's client for a dead broker: every request waits until the client is closed, and then fails."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def list_topics(self) -> list[str]:
        self._closed.wait()
        raise KafkaConnectionError("closed")

    describe_cluster = list_topics


class Alive:
    """The library's client for a broker that answers."""

    def list_topics(self) -> list[str]:
        return ["t"]

    def describe_cluster(self) -> dict[str, Any]:
        return {"cluster_id": "yard", "brokers": [{"broker_id": 1, "rack": None}]}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (KafkaPythonAdmin.topic_names, ["t"]),
        (KafkaPythonAdmin.cluster_id, "yard"),
        (KafkaPythonAdmin.brokers, {1: None}),
    ],
)
async def test_a_request_is_repeated_with_the_client_that_replaced_the_stuck_one(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[KafkaPythonAdmin], Awaitable[Any]], answer: Any
) -> None:
    monkeypatch.setattr(cluster, "UNSENT_FOR_S", 1.0)
    clients: list[Any] = [Stuck(), Alive()]
    monkeypatch.setattr(cluster, "connected", lambda _configuration: clients.pop(0))
    admin = KafkaPythonAdmin({"bootstrap_servers": "127.0.0.1:1"})
    admin.patient = True
    asking = asyncio.ensure_future(ask(admin))
    with pytest.raises(DriverError, match="was not answered within 0 s"):
        await admin.ask("Metadata", "", lambda client: client.list_topics(), within_s=0.05)
    assert await asking == answer


class Client:
    """A cluster of brokers 1 and 2: who leads its quorum (None: it has none), and which versions its nodes know."""

    pinned = 1

    def __init__(self, leader: int | None, newest: dict[int, int | None], in_force: int | None, features: Any = ()):
        self.leader, self.newest, self.in_force, self.features = leader, newest, in_force, features
        self.asked = 0

    def describe_cluster(self) -> dict[str, Any]:
        return {"controller_id": 1, "brokers": [{"broker_id": n, "host": "k", "port": n} for n in (1, 2)]}

    def describe_metadata_quorum(self) -> dict[str, Any]:
        if self.leader is None:
            raise kafka_errors.UnsupportedVersionError
        return {"topics": [{"partitions": [{"leader_id": self.leader}]}]}

    def newest_metadata_version(self, broker: int) -> int | None:
        self.asked += 1
        return self.newest[broker]

    def metadata_version(self) -> int | None:
        return self.in_force

    def describe_features(self, **_options: Any) -> Any:
        return self.features


@pytest.mark.parametrize(
    ("client", "needs_all"),
    [
        (Client(2, {2: FIRST}, BEFORE), False),
        (Client(2, {2: BEFORE}, BEFORE), True),
        (Client(2, {2: None}, None), None),
        (Client(3001, {}, FIRST), False),
        (Client(3001, {}, BEFORE), None),
        (Client(None, {}, None), True),
        (Client(None, {}, None, {SHUNTER_FEATURE: None}), None),
    ],
    ids=["4.3", "4.2", "untold", "apart, all 4.3", "apart, older in force", "ZooKeeper", "Shunter"],
)
def test_what_the_version_says_of_steps_beside_an_offline_replica(client: Client, *, needs_all: bool | None) -> None:
    """KAFKA-19975. Controllers that are no brokers may be newer than the version in force."""
    observer = MetadataObserver()
    assert observer.observe(client, (), sure=False).needs_all is needs_all
    asked = client.asked
    assert observer.observe(client, (), sure=False).needs_all is needs_all
    assert client.asked == asked, "it is not asked again at every look"
