"""The Admin API for the executor and the tools: `AdminClient` on top of kafka-python's client.

kafka-python blocks, so every call runs in a thread. Only this folder uses private names of the library. For instance,
the library does not forget its controller when that broker dies, so this module does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import errors as kafka_errors

from shunter.core.under_way import copies_among
from shunter.core.wording import NAMED, named
from shunter.drivers.admin.answers import NotSet, SettingsSeen, TopicsSeen, translated
from shunter.drivers.admin.bootstrap_probe import look_at, protocol_of, servers_of
from shunter.drivers.admin.client import SHUNNED_FOR_S, connected, is_shunters, known_addresses
from shunter.drivers.admin.log_dirs import (
    LogDirsSeen,
    describe_log_dirs,
    gather_log_dirs,
    move_replicas,
    take_log_dirs,
)
from shunter.drivers.admin.metadata import MetadataObserver, live_brokers
from shunter.drivers.admin.protocol import StillOurs, always
from shunter.drivers.admin.quorum import quorum_of
from shunter.drivers.admin.settings import (
    Change,
    ToldByBrokers,
    grouped,
    not_seen_in_force,
    owners_of,
    read_settings,
    refusals,
    settings_told_by,
    told_by_each,
    topic_settings,
    write_settings,
)
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.formats.client_properties import TLS
from shunter.model.check_up import Quorum
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.log_dirs import LogDirCopies
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.security.listeners import CertificateFault

if TYPE_CHECKING:
    from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment

Answer = TypeVar("Answer")

SHUNTER_FRESH_S = 15.0
THREADS = 16
CLOSE_WITHIN_S = 5.0
READ_WITHIN_S = 12.0
WRITE_WITHIN_S = 25.0
"""Time limits of calls that read or write: the library waits for ever for a broker that refuses connections."""
PATIENCE_S = 60.0
"""How long a tool asks again, as Apache's clients do (`default.api.timeout.ms`)."""
AGAIN_S = 0.5
UNSENT_AGAIN = 2
"""How often a request that was not sent is tried again at once: the library may have chosen a broker that just died."""
UNSENT_FOR_S = 10.0
"""How long a tool tries such a request again, because a tool has no next turn. A dead broker's session lasts 9 s by
default; until it ends, a KRaft cluster names the dead broker as its controller as often as any other broker."""
BROKER_WITHIN_S = 8.0
"""A broker that does not answer about its log dirs within this time is left out until the next turn."""


class KafkaPythonAdmin:
    """`AdminClient` over kafka-python 3."""

    patient = False
    """Whether this is a tool's client, which asks again for a while if the broker that the library chose has died."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """Connect.

        Args:
            configuration: kafka-python's names (`formats.client_properties` makes them from Apache's).

        Raises:
            DriverError: no broker answers, or the login is refused.
        """
        self._configuration = dict(configuration)
        self._client: Any = connected(self._configuration)
        self._replacing = False
        self._observer = MetadataObserver()
        self._shunter = (-1e9, False)  # When the controller was last asked, and whether it is Shunter's.
        # Separate threads: calls that hang on a dead broker must not keep the journal from being written.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="admin")

    @property
    def expiring_certificate(self) -> CertificateFault | None:
        """That the certificate that this client shows to brokers expires soon; None: it does not, or there is none."""
        tls = self._configuration.get(TLS)
        return None if tls is None else tls.contexts.expires_soon

    @classmethod
    async def connect(cls, configuration: Mapping[str, Any], *, patient: bool = False) -> KafkaPythonAdmin:
        """Connect without blocking the loop.

        Args:
            configuration: See `__init__`.
            patient: Ask again for a while if the library chooses a broker that has died.

        Raises:
            DriverError: no broker answers (raised within seconds), or the login is refused.
        """
        made = await asyncio.to_thread(cls, configuration)
        made.patient = patient
        return made

    @contextlib.asynccontextmanager
    async def apart(self, silent: Collection[BrokerId]) -> AsyncIterator[KafkaPythonAdmin]:
        """A client with connections of its own, which sends nothing to silent brokers for a while.

        A broker answers a connection's requests in turn. One that it forwards to a controller that hangs holds all
        that come after it.

        Raises:
            DriverError: no broker answers.
        """
        manager = self._client._manager  # noqa: SLF001  as in `_learn_brokers`
        live = [f"{each.host}:{each.port}" for each in manager.cluster.brokers() if each.node_id not in silent]
        other = await self.connect(self._configuration | {"bootstrap_servers": live}, patient=self.patient)
        try:
            other._client.shun(silent, SHUNNED_FOR_S)  # noqa: SLF001  of this class too
            yield other
        finally:
            await other.close()

    async def _call(
        self, what: str, permission: str, work: Callable[[Any], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        unsent: list[DriverError] = []
        while len(unsent) <= UNSENT_AGAIN:
            try:
                return await self._call_once(what, permission, work, within_s)
            except DriverError as error:
                if not _was_not_sent(error):
                    raise
                unsent.append(error)
        raise unsent[0]  # Later errors say only that the library does not connect to that broker for a moment.

    async def _ask_any(
        self, what: str, permission: str, work: Callable[[Any], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        """As `_call`, for requests that any broker answers. A tool repeats them until a live broker answers.

        If no broker answers in time, the error says which brokers do not answer.
        """
        clock = asyncio.get_running_loop().time
        give_up_s = clock() + UNSENT_FOR_S
        while True:
            try:
                return await self._call(what, permission, work, within_s=within_s)
            except DriverError as error:
                if not self.patient or not error.retriable:
                    raise
                if clock() >= give_up_s:
                    told = await asyncio.to_thread(who_answers, self._everybody(), self._client)
                    raise DriverError(f"{error}; {told}", retriable=True) from error
            await asyncio.sleep(AGAIN_S)

    async def _call_once(self, what: str, permission: str, work: Callable[[Any], Answer], within_s: float) -> Answer:
        client = self._client
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes at the moment when the work is done.
            async with asyncio.timeout(within_s):
                return await self._in_thread(lambda: work(client))
        except TimeoutError as error:
            await self._replace(client)
            raise DriverError(f"{what} was not answered within {within_s:.0f} s", retriable=True) from error
        except (DriverError, RequestRejected):
            raise
        except Exception as error:
            if not isinstance(error, kafka_errors.AuthorizationError):
                client._controller_id = None  # noqa: SLF001  the library would remember a dead controller for ever
                client.pinned = None
            if isinstance(error, kafka_errors.UnknownBrokerIdError):
                await self._learn_brokers(client)
            raise translated(what, permission, error) from error

    async def _learn_brokers(self, client: Any) -> None:
        """Refresh the library's list of brokers: otherwise the library would not know a returned broker for minutes."""
        manager = client._manager  # noqa: SLF001  it refreshes metadata every five minutes, or after some errors
        with contextlib.suppress(TimeoutError, kafka_errors.KafkaError, RuntimeError, OSError):
            async with asyncio.timeout(BROKER_WITHIN_S):
                await self._in_thread(lambda: manager.run(manager.cluster.refresh_metadata))

    async def _replace(self, stuck: Any) -> None:
        """Replace a client that waits for a dead broker. Closing the old client frees its threads."""
        if self._client is not stuck or self._replacing:
            return
        self._replacing = True
        try:
            async with asyncio.timeout(WRITE_WITHIN_S):
                self._client = await self._in_thread(lambda: connected(self._everybody()))
        except Exception:  # noqa: BLE001  whatever the error, the old client may still recover
            return
        finally:
            self._replacing = False
        # Closing may wait for the dead broker too, so a separate thread does it, and no code waits for the thread.
        threading.Thread(target=stuck.close, daemon=True).start()

    def _everybody(self) -> dict[str, Any]:
        """Return the configuration with the named servers and all brokers seen since: the named ones may have died."""
        servers = dict.fromkeys([*servers_of(self._configuration), *self._observer.addresses])
        return self._configuration | {"bootstrap_servers": list(servers)}

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def ask(
        self, what: str, permission: str, work: Callable[[Any], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        """Make a request that only one command needs: `work` gets the client, and may block.

        Raises:
            DriverError: no broker answered in time, or `permission` is missing.
        """
        return await self._call(what, permission, work, within_s=within_s)

    async def cluster_id(self) -> str:
        """Return the cluster's id."""
        described = await self._ask_any(
            "DescribeCluster", "Describe on Cluster", lambda client: client.describe_cluster()
        )
        return str(described["cluster_id"])

    async def is_shunter(self) -> bool:
        """Whether the controller lists the feature `shunter` in its answer to ApiVersions; asked again after a while.

        Another controller may lead between this answer and a request. An Apache controller ignores unknown tagged
        fields, and the rest of Shunter's request means the same to it.
        """
        now = time.monotonic()
        asked_at, known = self._shunter
        if now - asked_at < SHUNTER_FRESH_S:
            return known
        known = await self._ask_any("ApiVersions", "", is_shunters)
        self._shunter = (now, known)
        return known

    async def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        names = await self._ask_any("Metadata", "Describe on Topic", lambda client: client.list_topics())
        return sorted(str(name) for name in names)

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """Return all reassignments under way."""

        def ask(client: Any) -> dict[TopicPartition, OngoingReassignment]:
            return {
                TopicPartition(tp.topic, tp.partition): OngoingReassignment(
                    tuple(found["replicas"]), tuple(found["adding_replicas"]), tuple(found["removing_replicas"])
                )
                for tp, found in client.list_partition_reassignments().items()
            }

        return await self._ask_any("ListPartitionReassignments", "Describe on Cluster", ask)

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Read the metadata of topics, and which brokers are up. If `sure`, the call fails while brokers disagree."""
        return await self._ask_any(
            "Metadata", "Describe on Topic", lambda client: self._observer.observe(client, names, sure=sure)
        )

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Read sizes of replicas and space of log dirs, per broker; brokers that do not answer are in `failed`."""
        return await gather_log_dirs(asked, lambda broker: self._log_dirs_of(broker, asked[broker]), take_log_dirs)

    async def log_dir_copies(self) -> LogDirCopies:
        """Ask every live broker which replicas it copies from one of its log dirs to another."""
        seen = await gather_log_dirs(
            await self.brokers(), lambda broker: self._log_dirs_of(broker, None), take_log_dirs
        )
        return LogDirCopies(copies_among(seen.sizes, seen.futures), dict(seen.failed))

    async def _log_dirs_of(
        self, broker: BrokerId, partitions: Sequence[TopicPartition] | None
    ) -> list[dict[str, Any]] | str:
        """Return a broker's answer about its log dirs, or why there is none."""
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                return await self._call(
                    f"reading the log dirs of broker {broker}",
                    "Describe on Cluster",
                    lambda client: describe_log_dirs(client, broker, partitions),
                )
        except TimeoutError:
            return f"broker {broker} did not answer within {BROKER_WITHIN_S:.0f} s"
        except DriverError as error:
            if not error.retriable:
                raise
            return str(error)

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Read settings of brokers and topics.

        Raises:
            DriverError: it names the broker that did not answer, or the topics that no broker told of.
        """
        # Each broker has to be asked for its own settings.
        groups: dict[str, list[ThrottleKey]] = {}
        for key in keys:
            groups.setdefault(key.name if key.kind == "broker" else "", []).append(key)
        told = await asyncio.gather(*map(self._read_some, groups.values()), return_exceptions=True)
        failed = [each for each in told if isinstance(each, BaseException)]
        if failed:
            raise _joined(failed)
        seen = [each for each in told if isinstance(each, SettingsSeen)]
        own, effective = ({key: value for each in seen for key, value in each[at].items()} for at in (0, 1))
        return SettingsSeen({key: own[key] for key in keys}, {key: effective[key] for key in keys})

    async def _read_some(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Read settings of topics, or of one broker."""
        return await self._call(
            f"reading settings of {owners_of(keys)}",
            f"DescribeConfigs on {'Cluster' if keys[0].kind == 'broker' else 'Topic'}",
            lambda client: read_settings(client, keys),
        )

    async def topic_throttles(self, keys: Sequence[ThrottleKey], brokers: Collection[BrokerId]) -> ToldByBrokers:
        """Read topics' throttles from each of these brokers: a broker may apply what others don't."""
        return await told_by_each(keys, brokers, self._settings_at)

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]], *, keeps_factor: bool = False
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Send RPC 45. If the controller has moved, the library finds it again."""
        from shunter.drivers.admin.reassignments import AlterOptions  # noqa: PLC0415  as in `alter_moves`

        options = AlterOptions(changes_factor=not keeps_factor)
        if await self.is_shunter():
            # The executor takes the steps itself: so each step is one reassignment all at once, and null rolls back.
            options = replace(options, strategy=Strategy.ALL_AT_ONCE, intervention=Intervention.ROLL_BACK)
        try:
            outcomes = await self.alter_moves(dict(targets), options)
        except RequestRejected as refused:
            error = kafka_errors.for_code(int(refused.error_code))(refused.message)
            raise translated("AlterPartitionReassignments", "Alter on Cluster", error) from refused
        return {tp: _code(outcome) for tp, outcome in outcomes.items()}

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        """Send IncrementalAlterConfigs, and wait until brokers have applied the settings; return the errors."""
        missing = await self.write_settings(settings, still_ours)
        late = await self.not_in_force({key: value for key, value in settings if key not in missing})
        return missing | {key: NotSet(told, refused=False) for key, told in late.items()}

    async def write_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        """Send IncrementalAlterConfigs, topics first; return the settings that were not set.

        Raises:
            DriverError: a permission is missing.
        """
        errors: dict[ThrottleKey, NotSet] = {}
        for group in grouped(settings):
            await still_ours()
            errors.update(await self._write_some(group))
        return errors

    async def write_patiently(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, NotSet]:
        """As `write_settings`, for a tool, which has no next turn: repeats unanswered writes while the broker is up.

        Raises:
            DriverError: a permission is missing.
        """
        clock = asyncio.get_running_loop().time
        give_up_s = clock() + PATIENCE_S
        missing = await self.write_settings(list(settings.items()))
        while missing and not any(why.refused for why in missing.values()) and clock() < give_up_s:
            live = await self.brokers()
            again = [key for key in missing if key.kind == "topic" or int(key.name) in live]
            if not again:
                break
            await asyncio.sleep(AGAIN_S)
            told = await self.write_settings([(key, settings[key]) for key in again])
            missing = {key: why for key, why in missing.items() if key not in again} | told
        return missing

    async def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        """Wait until brokers report settings that were written; return those that were not reported in time."""
        return await not_seen_in_force(settings, await self.brokers(), self._settings_at) if settings else {}

    async def quorum(self) -> Quorum | None:
        """Return the metadata quorum as its leader tells it; None: the cluster has none."""
        return await self.ask("the quorum", "Describe on Cluster", quorum_of)

    async def brokers(self) -> dict[BrokerId, str | None]:
        """Return live brokers and their racks, by id."""
        described = await self._ask_any(
            "DescribeCluster", "Describe on Cluster", lambda client: client.describe_cluster()
        )
        return live_brokers(described)

    async def _settings_at(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
        """Read settings from one broker; settings that it does not report are left out."""
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                what = f"reading at broker {broker} the settings of {owners_of(keys)}"
                return await self._call(what, "DescribeConfigs", lambda client: settings_told_by(client, broker, keys))
        except TimeoutError as error:
            raise DriverError(f"broker {broker} did not tell its settings in time", retriable=True) from error

    async def _write_some(self, group: Sequence[Change]) -> dict[ThrottleKey, NotSet]:
        keys = [ThrottleKey(kind, name, each) for (kind, name), values in group for each in values]
        try:
            answered = await self._call(
                f"changing settings of {owners_of(keys)}",
                "AlterConfigs on Cluster (brokers) and on Topic (topics)",
                lambda client: write_settings(client, group),
                within_s=WRITE_WITHIN_S,
            )
        except DriverError as error:
            if not error.retriable:
                raise
            unanswered = NotSet(str(error), refused=False)
            return dict.fromkeys(keys, unanswered)
        return refusals(group, answered)

    # ---- requests of the tools

    async def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Read the metadata of topics from any broker, by name; a topic that does not exist has an error code."""
        if not names:
            return []
        found = await self._ask_any(
            "Metadata", "Describe on Topic", lambda client: client.describe_topics(sorted(set(names)))
        )
        return sorted(found, key=lambda topic: str(topic["name"]))

    async def topic_settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Read topics' effective settings, without those that are Kafka's defaults."""
        needed = "DescribeConfigs on Topic"
        return await self._call(
            f"reading settings of topic {named(names)}", needed, lambda client: topic_settings(client, names)
        )

    async def alter_moves(
        self, changes: Mapping[TopicPartition, Replicas | None], options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        """Send RPC 45 with Shunter's options; None cancels. Return each partition's refusal.

        Raises:
            DriverError: no answer, or only Shunter's controller understands `options`, and another one leads.
            RequestRejected: refused as a whole.
        """
        # Importing the codec takes half a second, which other calls need not wait for.
        from shunter.drivers.admin import reassignments  # noqa: PLC0415

        shunter = await self.is_shunter()
        return await self._alter(lambda client: reassignments.alter_moves(client, changes, options, shunter=shunter))

    async def cancel_whole(
        self, topics: Collection[str] | None, options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        """Cancel every reassignment of some topics, or (None) of all; see `reassignments.cancel_whole`."""
        from shunter.drivers.admin import reassignments  # noqa: PLC0415  as above

        shunter = await self.is_shunter()
        return await self._alter(lambda client: reassignments.cancel_whole(client, topics, options, shunter=shunter))

    async def _alter(self, work: Callable[[Any], Answer]) -> Answer:
        return await self._call("AlterPartitionReassignments", "Alter on Cluster", work, within_s=WRITE_WITHIN_S)

    async def list_moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return reassignments under way (None: all), with the details that only Shunter's controller sends."""
        from shunter.drivers.admin import reassignments  # noqa: PLC0415  as above

        shunter = await self.is_shunter()
        return await self._ask_any(
            "ListPartitionReassignments",
            "Describe on Cluster",
            lambda client: reassignments.list_moves(client, partitions, detailed=shunter),
        )

    async def elect_preferred(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Send ElectLeaders for the first replica of each partition; return each partition's error and message."""
        by_topic: dict[str, list[int]] = {}
        for tp in sorted(partitions):
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        return await self._call("ElectLeaders", "Alter on Cluster", lambda client: _elect(client, by_topic))

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """Send AlterReplicaLogDirs to one broker after the other; return each replica's error.

        Raises:
            DriverError: it names the broker that did not answer. Those after it were not asked.
        """
        answered: dict[tuple[BrokerId, TopicPartition], ErrorCode] = {}
        for broker in dict.fromkeys(broker for broker, _tp, _path in replicas):
            own = [each for each in replicas if each[0] == broker]
            what = f"AlterReplicaLogDirs at broker {broker}"
            answered |= await self._call(what, "Alter on Cluster", functools.partial(move_replicas, replicas=own))
        return answered

    async def close(self) -> None:
        """Close all connections."""
        closing = threading.Thread(target=self._client.close, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_WITHIN_S)
        self._threads.shutdown(wait=False, cancel_futures=True)


def who_answers(configuration: Mapping[str, Any], client: Any) -> str:
    """Say which brokers answer now, and what is wrong with the others. Blocks."""
    found = look_at(
        list(dict.fromkeys([*servers_of(configuration), *known_addresses(client)])), protocol_of(configuration)
    )
    answers = [f"{each} {reason or 'answers'}" for each, reason in found.items()]
    told = f"of the brokers that are known, {', '.join(answers)}"
    if not any(found.values()):
        return told
    return (
        f"{told}; if the controller was there, brokers forward requests to it for another half a minute: try again then; "
        "if it stays so, the metadata quorum may have lost its majority: `shunter doctor`"
    )


_PREFERRED = 0
"""ElectionType of ElectLeaders."""


def _elect(client: Any, by_topic: dict[str, list[int]]) -> dict[TopicPartition, tuple[ErrorCode, str]]:
    answer = client.elect_leaders(_PREFERRED, by_topic, raise_errors=False)
    refused = int(getattr(answer, "error_code", 0) or 0)
    if refused:
        raise kafka_errors.for_code(refused)
    return {
        TopicPartition(str(topic.topic), int(found.partition_id)): (
            ErrorCode(int(found.error_code)),
            str(found.error_message or ""),
        )
        for topic in answer.replica_election_results
        for found in topic.partition_result
    }


def _joined(errors: Sequence[BaseException]) -> BaseException:
    """One error for several brokers: the first that must not be tried again, else all of them in words."""
    final = [each for each in errors if not (isinstance(each, DriverError) and each.retriable)]
    if final or len(errors) == 1:
        return (final or errors)[0]
    return DriverError("; ".join(map(str, errors[:NAMED])), retriable=True)


def _was_not_sent(error: DriverError) -> bool:
    """Whether the chosen broker refused the connection, or refused one shortly before, so that none was tried."""
    cause = error.__cause__
    refused = isinstance(cause, kafka_errors.KafkaConnectionError) and "ECONNREFUSED" in str(cause)
    return refused or isinstance(cause, kafka_errors.NodeNotReadyError)


def _code(outcome: Exception | None) -> tuple[ErrorCode, str]:
    """Return one partition's error code, and the controller's message."""
    if outcome is None:
        return ErrorCode.NONE, ""
    if isinstance(outcome, RequestRejected):
        return outcome.error_code, outcome.message
    raise outcome
