"""Examines a cluster for `shunter controller --check`: reads ZooKeeper, asks each broker, and changes nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Sequence

from shunter.core.controller_check import ASKED, BrokerFound, Cause, Facts, WayBack
from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess, LoginRefused
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.brokers.settings import settings_of
from shunter.drivers.listener.server import Listener
from shunter.drivers.zookeeper.client import CHUNK, ZooKeeperClient, chunks
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.drivers.zookeeper.requests import ZooKeeperRefused
from shunter.drivers.zookeeper.rights import CREATE, DELETE, READ, WRITE, lacking
from shunter.errors import DriverError, FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import decode_controller, decode_migration_owner, is_controller_only
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import TopicPartition
from shunter.model.snapshot import ClusterSnapshot

ANSWER_SECONDS = 5.0
ASKED_AT_ONCE = 8
_WHOLE = frozenset({READ, WRITE, CREATE, DELETE})
_FOLDER = frozenset({READ, CREATE, DELETE})
_FILE = frozenset({READ, WRITE})
NEEDED = {
    "/": _FOLDER,
    znodes.CONTROLLER_EPOCH: _FILE,
    znodes.BROKER_IDS: _FOLDER,
    znodes.TOPICS: _FOLDER,
    f"{znodes.CONFIGS}/topics": _FOLDER,
    f"{znodes.CONFIGS}/users": _FOLDER,
    f"{znodes.CONFIGS}/brokers": frozenset({READ}),
    znodes.CONFIG_CHANGES: frozenset({READ, CREATE}),
    "/admin": _FOLDER,
    znodes.DELETE_TOPICS: _FOLDER,
    znodes.ISR_CHANGES: frozenset({READ, DELETE}),
    znodes.LOG_DIR_EVENTS: frozenset({READ, DELETE}),
    znodes.PRODUCER_ID_BLOCK: _FILE,
    znodes.FEATURE: _FILE,
}
"""Path -> rights that a controller needs. The rights to create and delete a znode are those of its parent."""
_OTHER_HOST = frozenset({62, 64})
"""OpenSSL's numbers for a certificate of another host name, and of another address."""
TOPICS_LOOKED_AT = 500
"""Number of topics whose rights are checked; they are usually the same for all topics of a cluster."""


async def look(
    client: ZooKeeperClient,
    broker_id: int,
    listeners: Sequence[Listener],
    endpoints: Sequence[Endpoint],
    name: str | None,
    access: BrokerAccess = PLAIN_ACCESS,
) -> Facts:
    """Gather the facts that decide whether a controller could do its work.

    Args:
        client: connected, and writes nothing.
        broker_id: of the controller.
        listeners: of the controller.
        endpoints: the addresses of these listeners that brokers and clients would use.
        name: of the brokers' listener that the controller would use; None: any usable one.
        access: connects and logs in to brokers.

    Raises:
        DriverError: ZooKeeper can't be read.
    """
    reader = ClusterReader(client)
    found = (await reader.cluster()).snapshot
    brokers = [broker for broker in found.brokers if broker.id != broker_id]
    controller, kraft = await _leaders(client)
    limit = asyncio.Semaphore(ASKED_AT_ONCE)
    ours = [endpoint.listener for endpoint in endpoints]
    closed = {each: told for each in listeners if (told := _why_closed(each)) is not None}
    open_ones = [(each, told) for each, told in zip(listeners, endpoints, strict=True) if each not in closed]
    legacy = (znodes.LEGACY_REASSIGNMENTS, znodes.EXTRA_REASSIGNMENTS, znodes.CANCEL)
    requested = [path for path in legacy if await client.exists(path) is not None]
    return Facts(
        listeners=tuple(endpoint.listener for endpoint in endpoints),
        hosts=tuple(endpoint.host for endpoint in endpoints),
        closed_listeners=tuple(closed.values()),
        ways_back=tuple([await way_back(listener, endpoint) for listener, endpoint in open_ones]),
        controller=controller,
        kraft=kraft,
        id_taken=await _who_has(client, broker_id),
        brokers=tuple(await asyncio.gather(*(ask(broker, name, ours, limit, access) for broker in brokers))),
        topics=len(found.topics),
        partitions=sum(len(each.topic.assignments) for each in found.topics),
        moves=tuple(sorted({str(tp) for tp in found.reassignments} | _moving(found))),
        without_replicas=tuple(str(tp) for tp in _without_replicas(found)),
        requests=tuple(requested),
        unreadable=found.unreadable,
        largest=await _largest(client, found),
        refused=await _refused(client, found),
        belongs_to=await _owners(client),
        dynamic_defaults=found.broker_configs.get("<default>", {}),
        ours_belongs_to=client.access.makes_for,
    )


def _without_replicas(found: ClusterSnapshot) -> Iterator[TopicPartition]:
    for name, topic in sorted((each.topic.name, each.topic) for each in found.topics):
        for number, assignment in topic.assignments.items():
            if not assignment.replicas:
                yield TopicPartition(name, number)


async def _leaders(client: ZooKeeperClient) -> tuple[str | None, str | None]:
    """Return the controller, and the KRaft controller that controls or migrates this cluster."""
    (held, migration), _ = await client.get_many((znodes.CONTROLLER, znodes.MIGRATION))
    try:
        controller = None if held is None else decode_controller(held.data)
        if controller is not None and controller.kraft_epoch >= 0:
            return None, f"KRaft controller {controller.broker} has this cluster"
        owner = None if migration is None else decode_migration_owner(migration.data)
    except FormatError as unreadable:
        return None, str(unreadable)
    kraft = None if owner is None else f"{znodes.MIGRATION} is there (KRaft controller {owner})"
    return None if controller is None else f"broker {controller.broker}", kraft


async def _who_has(client: ZooKeeperClient, broker_id: int) -> str | None:
    path = znodes.broker(broker_id)
    found = await client.get(path)
    if found is None:
        return None
    try:
        ours = is_controller_only(found.data, path)
    except FormatError:
        ours = False
    who = "another Shunter, which leads now or did a moment ago," if ours else "a broker"
    return f"{who} has the id {broker_id}"


async def ask(
    broker: Broker, name: str | None, ours: Sequence[str], limit: asyncio.Semaphore, access: BrokerAccess
) -> BrokerFound:
    """Connect to a broker as a controller would, and ask for its settings."""
    address = next((f"{each.host}:{each.port}" for each in broker.endpoints), "nowhere")
    found = BrokerFound(broker.id, address, broker.rack, listeners=tuple(each.listener for each in broker.endpoints))
    try:
        endpoint = access.likely_endpoint(broker, name, ours)
    except FormatError as failure:
        return found._replace(unreachable=str(failure), cause=Cause.NO_LISTENER)
    found = found._replace(address=f"{endpoint.host}:{endpoint.port}")
    async with limit:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = await BrokerConnection.open(endpoint, "shunter-check", access)
                found = found._replace(sees_us_at=connection.local_host)
                try:
                    settings = await settings_of(connection, broker.id, ASKED)
                finally:
                    connection.close()
        except DriverError:
            return found
        except (OSError, EOFError, TimeoutError, FormatError) as failure:
            why = str(failure) or f"no answer within {ANSWER_SECONDS:g} s"
            return found._replace(unreachable=why, cause=_cause(failure), sees_us_at=None)
    return found._replace(settings=settings)


def _cause(failure: Exception) -> Cause:
    """Return which kind of failure it is to connect and log in to a broker."""
    match failure:
        case LoginRefused():
            return Cause.LOGIN
        case ssl.SSLCertVerificationError():
            return Cause.ITS_HOST if failure.verify_code in _OTHER_HOST else Cause.ITS_CERTIFICATE
        case ssl.SSLError():
            return Cause.OUR_CERTIFICATE if _refuses_ours(failure.reason or "") else Cause.CLOSED
        case EOFError() | ConnectionResetError() | FormatError():
            return Cause.CLOSED
    return Cause.NETWORK


def _refuses_ours(reason: str) -> bool:
    """Whether a TLS alert of the broker is about our certificate."""
    return "_ALERT_" in reason and any(part in reason for part in ("CERTIFICATE", "UNKNOWN_CA"))


def _why_closed(listener: Listener) -> str | None:
    """Try to bind a listener's address; return why that fails, or None."""
    try:
        found = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        return f"{listener.name}://{listener.host}:{listener.port} can't be opened: {error}"
    return None


async def way_back(listener: Listener, endpoint: Endpoint) -> WayBack:
    """Listen for a moment, and connect to the address that brokers and clients would use."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await loop.getaddrinfo(endpoint.host, endpoint.port or None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return WayBack(endpoint.listener, endpoint.host, endpoint.port)
    addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
    unreached = None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            server = await asyncio.start_server(lambda _, writer: writer.close(), listener.host or None, listener.port)
            async with server:
                port = endpoint.port or server.sockets[0].getsockname()[1]
                _, writer = await asyncio.open_connection(endpoint.host, port)
                writer.close()
    except (OSError, TimeoutError) as failure:
        unreached = str(failure) or f"no answer within {ANSWER_SECONDS:g} s"
    return WayBack(endpoint.listener, endpoint.host, endpoint.port, addresses, unreached)


def _moving(found: ClusterSnapshot) -> set[str]:
    return {
        f"{each.topic.name}-{number}"
        for each in found.topics
        for number, assignment in each.topic.assignments.items()
        if assignment.adding or assignment.removing
    }


async def _largest(client: ZooKeeperClient, found: ClusterSnapshot) -> tuple[str, int]:
    largest = ("", 0)
    for portion in chunks([znodes.topic(each.topic.name) for each in found.topics], CHUNK):
        read, _ = await client.get_many(portion)
        for path, znode in zip(portion, read, strict=True):
            size = 0 if znode is None or znode.data is None else len(znode.data)
            largest = max(largest, (path, size), key=lambda each: each[1])
    return largest


async def _owners(client: ZooKeeperClient) -> tuple[str, ...]:
    try:
        return await client.owners(znodes.TOPICS)
    except ZooKeeperRefused:
        return ()  # The znode is missing, or ZooKeeper shows ACLs only to owners; then other findings report it.


async def _refused(client: ZooKeeperClient, found: ClusterSnapshot) -> tuple[tuple[str, str], ...]:
    refused: list[tuple[str, str]] = []
    topics = {znodes.topic(each.topic.name): _WHOLE for each in found.topics[:TOPICS_LOOKED_AT]}
    for path, needed in {**NEEDED, **topics}.items():
        missing = await lacking(client, path, needed)
        if missing:
            refused.append((path, ", ".join(missing)))
    return tuple(refused)
