"""kafka-python's Admin client, changed: it asks one broker for metadata, reads older brokers, says why a login fails."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from shunter.drivers.admin.answers import check_described, translated
from shunter.drivers.admin.bootstrap_probe import answering, is_silent, look_at, servers_of, told_each
from shunter.drivers.security.bearer_tokens import BearerTokens
from shunter.errors import DriverError
from shunter.formats.client_properties import TLS
from shunter.formats.security.bearer_login import PROVIDER
from shunter.model.features import SHUNTER_FEATURE
from shunter.model.partition import BrokerId, EligibleLeaders, Replicas, TopicPartition

ANSWERS_WITHIN_S = 3.0
"""A broker that tells not even its APIs within this time is taken for silent."""
SHUNNED_FOR_S = 15.0
"""How long a silent broker is asked nothing: longer than a look lasts."""

METADATA = "metadata.version"
FIRST_OF_4_3 = 30
"""The first `metadata.version` of Kafka 4.3, by its level."""


class PinnedAdminClient(KafkaAdminClient):  # type: ignore[misc]
    """Asks the same broker for metadata while it answers: a broker's metadata never go back, but some brokers are late.

    The library would ask the least busy broker each time, and so could return an older state after a newer one.
    """

    pinned: BrokerId | None = None

    async def _get_cluster_metadata(self, topics: Sequence[str] | None) -> dict[str, Any]:
        return await self._metadata_from(self.pinned, topics)

    async def _metadata_from(self, broker: BrokerId | None, topics: Sequence[str] | None) -> dict[str, Any]:
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self._manager.send(request, node_id=broker)
        metadata: dict[str, Any] = response.to_dict()
        return metadata

    async def _describe_cluster(self) -> dict[str, Any]:
        """As the library's method, which fails where an answer has no endpoint type (brokers before Kafka 3.7)."""
        try:
            described: dict[str, Any] = await super()._describe_cluster()
        except KeyError:
            answer = await self._manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
            if answer.error_code:
                raise kafka_errors.for_code(answer.error_code)(answer.error_message) from None
            described = answer.to_dict()
            self._process_acl_operations(described)
        return described

    def known_to(self, broker: BrokerId, topics: Sequence[str]) -> list[str]:
        """Return those of these topics that a broker knows."""
        found = self._manager.run(self._metadata_from, broker, topics)["topics"]
        return [str(topic["name"]) for topic in found if topic["error_code"] == 0]

    def replicas_at(self, broker: BrokerId, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        """Return the replicas of these topics by one broker's metadata; topics that it does not know are left out."""
        found = self._manager.run(self._metadata_from, broker, topics)["topics"]
        return {
            TopicPartition(str(topic["name"]), int(partition["partition_index"])): tuple(partition["replica_nodes"])
            for topic in found
            if topic["error_code"] == 0
            for partition in topic["partitions"]
        }

    def shun_silent(self, within_s: float, for_s: float) -> frozenset[BrokerId]:
        """Ask all known brokers at once whether they answer, and for a while send nothing to those that don't. Blocks.

        A process that is stopped, or a host that hangs, still accepts connections. Each request to it would last as
        long as the library's patience, and the library may choose it for any request.
        """
        found: list[BrokerId] = self._manager.run(self._silent, within_s)
        self.shun(found, for_s)
        return frozenset(found)

    def shun(self, brokers: Iterable[BrokerId], for_s: float) -> None:
        """Send nothing to these brokers for a while."""
        self._manager.shun(brokers, for_s)

    async def _silent(self, within_s: float) -> list[BrokerId]:
        asked: dict[BrokerId, Any] = {}
        for broker in [each.node_id for each in self._manager.cluster.brokers()]:
            # A broker that refuses a connection or a login has answered.
            with contextlib.suppress(kafka_errors.KafkaError):
                asked[broker] = self._manager.send(ApiVersionsRequest(min_version=0, max_version=0), node_id=broker)
        until = time.monotonic() + within_s
        silent: list[BrokerId] = []
        for broker, answer in asked.items():
            try:
                await self._manager.wait_for(answer, max(1.0, (until - time.monotonic()) * 1000))
            except kafka_errors.KafkaTimeoutError:
                silent.append(broker)
            except kafka_errors.KafkaError:
                continue
        return silent

    def all_topics(self) -> list[Any]:
        """Return all topics that this user may see, with the operations that the user may do on each. Blocks."""
        request = MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        found: list[Any] = self._manager.run(self._manager.send, request).topics
        return [topic for topic in found if topic.error_code == 0]

    def eligible_leaders(self, topics: Sequence[str]) -> dict[TopicPartition, EligibleLeaders]:
        """Return who may lead these topics' partitions by KIP-966; {}: no broker tells it (before Kafka 4.0). Blocks."""
        found: dict[TopicPartition, EligibleLeaders] = {}
        cursor: Any = None
        while topics:
            try:
                answer = self.describe_topic_partitions(sorted(topics), cursor=cursor)
            except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
                return {}
            for topic in answer["topics"]:
                for each in topic["partitions"]:
                    tp = TopicPartition(str(topic["name"]), int(each["partition_index"]))
                    told = (each["eligible_leader_replicas"], each["last_known_elr"])
                    found[tp] = EligibleLeaders(*(tuple(map(int, brokers or ())) for brokers in told))
            cursor = answer["next_cursor"]
            if cursor is None:
                break
        return found

    def described_by(self, broker: BrokerId, resources: Sequence[ConfigResource]) -> dict[str, dict[str, Any]]:
        """Return settings as one broker reports them, by kind and name of the resource."""
        found: dict[str, dict[str, Any]] = self._manager.run(self._described_by, broker, resources)
        return found

    async def _described_by(self, broker: BrokerId, resources: Sequence[ConfigResource]) -> Any:
        request = self._describe_configs_request(resources, include_synonyms=True)
        response = await self._manager.send(request, node_id=broker)
        return self._describe_configs_process_responses([response], "all")

    def described_by_each(
        self, brokers: Iterable[BrokerId], settings: Sequence[str], within_s: float
    ) -> dict[BrokerId, dict[str, str | None] | Exception]:
        """Ask brokers at once for the effective values of some of their settings. Blocks.

        Returns:
            The values by setting; or why a broker told none in time. A setting that it does not know is left out.
        """
        found: dict[BrokerId, dict[str, str | None] | Exception]
        found = self._manager.run(self._described_by_each, brokers, settings, within_s)
        return found

    async def _described_by_each(self, brokers: Iterable[BrokerId], settings: Sequence[str], within_s: float) -> Any:
        asked: dict[BrokerId, Any] = {}
        found: dict[BrokerId, Any] = {}
        for broker in brokers:
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(settings))
            try:
                asked[broker] = self._manager.send(self._describe_configs_request([resource]), node_id=broker)
            except kafka_errors.KafkaError as error:
                found[broker] = error
        until = time.monotonic() + within_s
        for broker, answer in asked.items():
            try:
                response = await self._manager.wait_for(answer, max(1.0, (until - time.monotonic()) * 1000))
                told = self._describe_configs_process_responses([response], "all")
                values = told.get("broker", {}).get(str(broker), {})
                found[broker] = {setting: each.get("value") for setting, each in values.items()}
            except (kafka_errors.KafkaError, DriverError) as error:
                found[broker] = error
        return found

    def newest_metadata_version(self, broker: BrokerId) -> int | None:
        """Return the newest `metadata.version` that one broker knows, by its level; None before KRaft. Blocks."""
        known = self._api_versions(broker).supported_features
        return next((int(each.max_version) for each in known if each.name == METADATA), None)

    def metadata_version(self) -> int | None:
        """Return the `metadata.version` in force, by its level: each node knows it. None before KRaft. Blocks."""
        known = self._api_versions(None).finalized_features
        return next((int(each.max_version_level) for each in known if each.name == METADATA), None)

    def _api_versions(self, broker: BrokerId | None) -> Any:
        request = ApiVersionsRequest(
            client_software_name=self._manager.config["client_software_name"],
            client_software_version=self._manager.config["client_software_version"],
            min_version=3,
        )
        return self._manager.run(self._manager.send, request, broker)

    @classmethod
    def _describe_configs_process_responses(cls, responses: Iterable[Any], config_filter: str = "modified") -> Any:
        """Raise the errors that the library ignores: otherwise an unreadable setting would seem not to be set."""
        answered = list(responses)
        for response in answered:
            for result in response.results:
                check_described(result.resource_type, result.resource_name, result.error_code, result.error_message)
        return super()._describe_configs_process_responses(answered, config_filter)


REFUSALS_AT_MOST = 3
"""So many refused logins end the attempt to connect: a broker may not know yet about a user that was just created."""


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """The library's connections, which here keep the reason of a refused login, and stop after `REFUSALS_AT_MOST`.

    Nor do they go to a broker that is shunned.

    A broker sends the reason and closes the connection. If both arrive together, the library drops the bytes that it
    has read. And the library would try again until its time is over.
    """

    def __init__(self, *arguments: Any, **configuration: Any) -> None:
        super().__init__(*arguments, **configuration)
        self.refusals: list[Exception] = []
        self.connects = True
        """True until the cluster is found. After that, refused logins are left to the library's own retries."""
        self._shunned: dict[BrokerId, float] = {}

    def shun(self, brokers: Iterable[BrokerId], for_s: float) -> None:
        """Send nothing to these brokers for a while: a request to one of them fails at once."""
        self._shunned = dict.fromkeys(brokers, time.monotonic() + for_s)
        for broker in self._shunned:
            self.call_soon(
                self.close, broker
            )  # The library prefers a connection that is open, also to a silent broker.

    def connection_delay(self, node_id: BrokerId) -> float:
        """See the library's method."""
        return max(float(super().connection_delay(node_id)), self._shunned.get(node_id, 0.0) - time.monotonic())

    def least_loaded_node(self) -> Any:
        """See the library's method; a broker that was found silent a moment ago is chosen only if there is no other."""
        chosen = super().least_loaded_node()
        node = None if chosen is None else self.cluster.broker_metadata(chosen)
        if node is None or not is_silent(f"{node.host}:{node.port}"):
            return chosen
        others = (each for each in self.cluster.brokers() if not is_silent(f"{each.host}:{each.port}"))
        return next((each.node_id for each in others if self.connection_delay(each.node_id) <= 0), chosen)

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """See the library's method."""
        connection = super().get_connection(*arguments, **options)
        connection.init_future.add_errback(self._failed)
        return connection

    def _failed(self, error: Exception) -> None:
        refused = isinstance(error, kafka_errors.SaslAuthenticationFailedError | kafka_errors.AuthorizationError)
        if refused and all(error is not known for known in self.refusals):  # By identity: two errors compare as equal.
            self.refusals.append(error)
        if len(self.refusals) >= REFUSALS_AT_MOST and self.connects:
            self.closed = True  # The library's loop checks this flag; `close` is for other threads.

    async def _build_transport(self, *arguments: Any, **options: Any) -> Any:
        transport = await super()._build_transport(*arguments, **options)
        receive = transport._sock_recv  # noqa: SLF001

        def received() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, (None if data else error)  # The next read returns the error again.

        transport._sock_recv = received  # noqa: SLF001
        return transport


def _net_client(**configuration: Any) -> KafkaNetClient:
    net = NetworkSelector(**configuration)
    return KafkaNetClient(net=net, manager=_Connections(net, **configuration), **configuration)


class _Overheard(logging.Handler):
    """Keeps the errors that the library logs while it connects: it does not raise them, and silently tries again."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the errors in a log record."""
        found = record.args if isinstance(record.args, tuple) else ()
        self.errors.extend(argument for argument in found if isinstance(argument, BaseException))
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


def connected(configuration: Mapping[str, Any]) -> Any:
    """Connect a client, and return it when it has found the cluster.

    Raises:
        DriverError: no broker answers in time, the login is refused, or no token can be fetched.
    """
    configuration = answering(configuration)
    if isinstance(tokens := configuration.get(PROVIDER), BearerTokens):
        tokens.token()  # Without a token the library would try again and again, and report only that no broker answers.
    overheard = _Overheard()
    listened = logging.getLogger("kafka.net")
    listened.addHandler(overheard)
    client: Any = PinnedAdminClient.__new__(PinnedAdminClient)
    try:
        client.__init__(**configuration, kafka_client=_net_client)
    except Exception as error:
        if hasattr(client, "_net"):
            client._net.close()  # noqa: SLF001  otherwise its thread tries again for ever, and its sockets stay open
        if hasattr(client, "_manager") and client._manager.refusals:  # noqa: SLF001
            raise translated("connecting", "", client._manager.refusals[-1]) from error  # noqa: SLF001
        heard = [one for one in overheard.errors if not isinstance(one, kafka_errors.KafkaTimeoutError)]
        raise _why_not(configuration, error, heard) from error
    finally:
        listened.removeHandler(overheard)
    client._manager.connects = False  # noqa: SLF001
    return client


def _why_not(configuration: Mapping[str, Any], error: Exception, overheard: Sequence[BaseException]) -> DriverError:
    """Build the error that says why the library found no cluster, from what it logged: its own error has no reason."""
    protocol = configuration.get("security_protocol", "PLAINTEXT")
    told = " ".join(str(heard) for heard in overheard)
    hung_up = "disconnected" in told or "reset by peer" in told or "alert" in told
    if "CERTIFICATE_VERIFY_FAILED" in told:
        why = (
            f"the cluster's certificate is not trusted ({overheard[-1]}): is its authority in ssl.truststore.location?"
        )
    elif "sasl_mechanism" in configuration and hung_up:
        # Brokers close the connection after a wrong password, and the library does not see the reason.
        why = "the cluster does not let us in: it hung up while we logged in; are user name and password right?"
        why += f" Does that listener take sasl.mechanism {configuration['sasl_mechanism']}?"
    elif "SSL" in protocol and hung_up and not configuration[TLS].shows_certificate:
        why = "the cluster hung up: it may want a client certificate (ssl.keystore.location)"
    elif "SSL" in protocol and hung_up:
        why = f"the cluster hung up on our certificate ({overheard[-1]}): does it trust its authority?"
    elif "IllegalSaslState" in told:
        why = f"that listener asks for no login: security.protocol {protocol} does not suit it"
    elif "WRONG_VERSION_NUMBER" in told:
        why = f"that listener does not speak TLS: security.protocol {protocol} does not suit it"
    else:
        last = f"; last heard: {overheard[-1]}" if overheard else ""
        failed = translated("connecting", "", error)
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            found = look_at(servers_of(configuration), protocol)
            each = told_each({server: reason or "takes connections" for server, reason in found.items()})
            return DriverError(
                f"connecting: no broker told its cluster in time (security.protocol {protocol}): {each}{last}",
                retriable=True,
            )
        return DriverError(f"{failed} (security.protocol {protocol}){last}", retriable=failed.retriable)
    return DriverError(f"connecting: {why}", retriable=False)


def known_addresses(client: Any) -> list[str]:
    """Return `HOST:PORT` of the brokers that the library knows."""
    return [f"{broker.host}:{broker.port}" for broker in client._manager.cluster.brokers()]  # noqa: SLF001  not public


def is_shunters(client: KafkaAdminClient) -> bool:
    """Whether the controller is Shunter's, which lists the feature `shunter` in its answer to ApiVersions. Blocks."""
    try:
        return SHUNTER_FEATURE in client.describe_features(send_request_to_controller=True)
    except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
        return False  # Features came with Kafka 2.7.
