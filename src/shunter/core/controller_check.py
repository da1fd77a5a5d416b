"""Findings about a cluster before Shunter's controller takes it over: what would be in the way, each with a remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from shunter.core.wording import counted, named
from shunter.model.check_up import Finding, Level
from shunter.model.partition import BrokerId
from shunter.model.security.listeners import AUTHORIZERS, CertificateFault, FaultKind
from shunter.model.security.loopback import is_loopback
from shunter.model.settings import ControllerSettings

CONTROL_PLANE: Final = "control.plane.listener.name"
INTER_BROKER: Final = "inter.broker.listener.name"
INTER_BROKER_SECURITY: Final = "security.inter.broker.protocol"
PROTOCOL: Final = "inter.broker.protocol.version"
POLICY: Final = "create.topic.policy.class.name"
AUTHORIZER: Final = "authorizer.class.name"
_DEFAULTS: Final[Mapping[str, tuple[str, Callable[[ControllerSettings], object]]]] = {
    "num.partitions": ("default_partitions", lambda s: s.default_partitions),
    "default.replication.factor": ("default_replication_factor", lambda s: s.default_replication_factor),
    "min.insync.replicas": ("default_min_isr", lambda s: s.default_min_isr),
    "unclean.leader.election.enable": ("unclean_leader_election", lambda s: s.unclean_leader_election),
    "delete.topic.enable": ("delete_topics", lambda s: s.delete_topics),
    "auto.leader.rebalance.enable": ("leader_rebalance_enable", lambda s: s.leader_rebalance_enable),
    "leader.imbalance.per.broker.percentage": ("leader_imbalance_percent", lambda s: s.leader_imbalance_percent),
}
"""Broker settings by which Apache's controller decides, and the name and value of Shunter's setting for each."""
COMPARED: Final = tuple(_DEFAULTS)
ASKED: Final = (CONTROL_PLANE, INTER_BROKER, INTER_BROKER_SECURITY, PROTOCOL, POLICY, AUTHORIZER, *COMPARED)
ZNODE_LIMIT: Final = 1_048_575
"""The default of `jute.maxbuffer`: bytes of one request or answer."""
BROKERS_NAMED: Final = 8
"""The most brokers that a finding names; the others are counted."""


class Cause(Enum):
    """Why a broker can't be reached."""

    NO_LISTENER = "no listener"
    """It has none that Shunter's settings know."""
    NETWORK = "network"
    CLOSED = "closed"
    """The broker closed the connection, or one side does not speak what the other expects."""
    LOGIN = "login"
    """The broker refuses the login, or there is no token for it."""
    ITS_CERTIFICATE = "its certificate"
    ITS_HOST = "its host"
    """The broker's certificate is for another host."""
    OUR_CERTIFICATE = "our certificate"


_WAYS_OUT: Final[Mapping[Cause, str]] = {
    Cause.NO_LISTENER: "name a broker's file that secures such a listener with --server-properties, or give the broker"
    " a PLAINTEXT listener",
    Cause.NETWORK: "start that broker, or open the way from this machine to that address",
    Cause.CLOSED: "compare listener.security.protocol.map, ssl.enabled.protocols, ssl.cipher.suites and ssl.client.auth"
    " of --server-properties with the broker's; its log has its reason",
    Cause.LOGIN: "check user and password in the sasl.jaas.config of --server-properties, and whether brokers know that"
    " user for sasl.mechanism.inter.broker.protocol",
    Cause.ITS_CERTIFICATE: "put the authority of the broker's certificate into the ssl.truststore of"
    " --server-properties, or renew the broker's certificate if its dates are over",
    Cause.ITS_HOST: "give the broker a certificate for that host; where brokers have"
    " ssl.endpoint.identification.algorithm= (empty), set that in --server-properties too",
    Cause.OUR_CERTIFICATE: "put the authority of the certificate in the ssl.keystore of --server-properties into the"
    " broker's ssl.truststore, or take a certificate that brokers trust",
}


class BrokerFound(NamedTuple):
    """A registered broker.

    `unreachable`: why it can't be reached, and `cause` of which kind that is; `settings` None: it does not say them.
    """

    id: BrokerId
    address: str
    """`HOST:PORT`; "nowhere": the broker has registered no listener."""
    rack: str | None = None
    unreachable: str | None = None
    settings: Mapping[str, str | None] | None = None
    sees_us_at: str | None = None
    """The address of this machine's end of the connection to the broker."""
    listeners: tuple[str, ...] = ()
    """Names of the listeners that the broker has registered."""
    cause: Cause = Cause.NETWORK

    @property
    def host(self) -> str:
        """The host of `address`."""
        return self.address.rpartition(":")[0].strip("[]")


class WayBack(NamedTuple):
    """The address at which brokers would look for one of Shunter's listeners, and what can be seen of it from here.

    `addresses` are those of `host`; empty: it has none. `unreached`: why this machine did not reach it.
    """

    listener: str
    host: str
    port: int
    addresses: tuple[str, ...] = ()
    unreached: str | None = None


class ListenerFault(NamedTuple):
    """Why peers refuse the certificate of one of Shunter's listeners. `by_brokers`: brokers come to it."""

    listener: str
    fault: CertificateFault
    by_brokers: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. Sentences are empty or None if there is nothing to say."""

    listeners: tuple[str, ...]
    """Names of Shunter's listeners."""
    hosts: tuple[str, ...]
    """Hosts at which brokers and clients would look for Shunter."""
    closed_listeners: tuple[str, ...] = ()
    """Sentences: why some of Shunter's listeners can't be opened."""
    ways_back: tuple[WayBack, ...] = ()
    """How brokers reach each of Shunter's listeners that can be opened."""
    authorizes: bool = False
    """Whether Shunter's settings name Kafka's own authorizer for its listeners."""
    certificates: tuple[ListenerFault, ...] = ()
    """Why peers refuse the certificates of Shunter's listeners."""
    controller: str | None = None
    """A name for the present controller."""
    kraft: str | None = None
    """A sentence: which KRaft controller leads or migrates the cluster."""
    id_taken: str | None = None
    """A sentence: which broker is registered under Shunter's broker id."""
    brokers: tuple[BrokerFound, ...] = ()
    topics: int = 0
    partitions: int = 0
    moves: tuple[str, ...] = ()
    """Partitions that are being moved."""
    without_replicas: tuple[str, ...] = ()
    """Partitions that have no replicas."""
    requests: tuple[str, ...] = ()
    """Znodes in which tools have asked for moves."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """(path, why)."""
    largest: tuple[str, int] = ("", 0)
    """(path, bytes) of the largest znode."""
    refused: tuple[tuple[str, str], ...] = ()
    """(path, what Shunter may not do there)."""
    belongs_to: tuple[str, ...] = ()
    """Identities that have all rights on the cluster's topics in ZooKeeper, as `scheme:id`."""
    dynamic_defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """The brokers' cluster-wide dynamic configuration: it overrides the settings that brokers or Shunter start with."""
    ours_belongs_to: tuple[str, ...] | None = ()
    """Identities that would own the znodes that Shunter makes; None: everybody may change them; empty: not known."""


_CLUSTER_ID = "/cluster/id"


def findings(facts: Facts, settings: ControllerSettings) -> tuple[Finding, ...]:
    """Judge the facts: problems first, then warnings, then what is well.

    A problem: Shunter would not become the controller, or brokers would not find it. A warning: it would become the
    controller, and something would change.
    """
    found = [*_places(facts), *_brokers(facts), *_ways_back(facts), *_settings(facts, settings), *_znodes(facts)]
    order = list(Level)
    return tuple(sorted(found, key=lambda finding: order.index(finding.level), reverse=True))


def _places(facts: Facts) -> Iterator[Finding]:
    for told in facts.closed_listeners:
        yield Finding(Level.PROBLEM, "listener", told, "free the port, or say another one with --listener")
    for listener, fault, by_brokers in facts.certificates:
        stops = by_brokers and fault.kind not in {FaultKind.DOUBTFUL, FaultKind.EXPIRES}
        level = Level.PROBLEM if stops else Level.WARNING
        yield Finding(level, "certificate", f"listener {listener}: {fault.told}", fault.todo)
    remote = [broker.id for broker in facts.brokers if not is_loopback(broker.host)]
    for host in facts.hosts:
        if remote and is_loopback(host):
            told = f"brokers such as {remote[0]} are on other machines and would look for us at {host}"
            yield Finding(Level.PROBLEM, "listener", told, "say an address that they reach, with advertised_listener")
    if facts.kraft is not None:
        yield Finding(
            Level.PROBLEM,
            "migration",
            facts.kraft,
            "a cluster that migrates to KRaft is left alone: finish or revert it",
        )
    if facts.id_taken is not None:
        yield Finding(Level.PROBLEM, "broker id", facts.id_taken, "say a --broker-id that no broker has")
    if facts.controller is not None and facts.kraft is None:
        yield Finding(
            Level.WARNING,
            "controller",
            f"{facts.controller} leads now, and would go on",
            "stop that broker, or start Shunter with --takeover preempt",
        )


def _brokers(facts: Facts) -> Iterator[Finding]:
    if not facts.brokers:
        told = "no broker is registered in this ZooKeeper"
        if any(path == _CLUSTER_ID for path, _ in facts.unreadable):
            told += f", and there is no {_CLUSTER_ID}: the chroot does not look like a Kafka cluster's"
        yield Finding(Level.PROBLEM, "brokers", told, "check --zookeeper and its chroot, or start the brokers")
        return
    unreachable = [broker for broker in facts.brokers if broker.unreachable is not None]
    for broker in unreachable:
        told = f"broker {broker.id} at {broker.address}: {broker.unreachable}"
        level = Level.PROBLEM if len(unreachable) == len(facts.brokers) else Level.WARNING
        yield Finding(level, "reachability", told, _WAYS_OUT[broker.cause])
    silent = [broker.id for broker in facts.brokers if broker.settings is None and broker.unreachable is None]
    if silent:
        told = f"brokers {_listed(silent)} do not tell their settings"
        todo = "allow our user (ANONYMOUS, where there is no login) DescribeConfigs, or compare them by hand"
        yield Finding(Level.WARNING, "brokers", told, todo)
    reached = len(facts.brokers) - len(unreachable)
    if reached:
        yield Finding(
            Level.FINE,
            "reachability",
            f"{reached} of {counted(len(facts.brokers), 'broker')} {'answers' if reached == 1 else 'answer'} us",
        )
    without = [broker.id for broker in facts.brokers if broker.rack is None]
    if without and len(without) < len(facts.brokers):
        told = f"brokers {_listed(without)} have no rack and others have one: no broker creates internal topics then"
        yield Finding(Level.WARNING, "racks", told, "give every broker a broker.rack, or none")
    yield from _listeners(facts)


def _listeners(facts: Facts) -> Iterator[Finding]:
    missing: dict[str, list[BrokerId]] = defaultdict(list)
    for broker in facts.brokers:
        if broker.settings is None:
            continue
        inter = broker.settings.get(INTER_BROKER) or broker.settings.get(INTER_BROKER_SECURITY) or "PLAINTEXT"
        for name in dict.fromkeys((broker.settings.get(CONTROL_PLANE) or inter, inter)):
            if name not in facts.listeners:
                missing[name].append(broker.id)
    for name, brokers in sorted(missing.items()):
        told = f"brokers {_listed(brokers)} look for their controller on a listener {name}, and we have none"
        yield Finding(Level.PROBLEM, "listener", told, f"start Shunter with --listener {name}://HOST:PORT as well")
    yield from _of_clients(facts, missing)


def _of_clients(facts: Facts, reported: Collection[str]) -> Iterator[Finding]:
    """Listeners at which clients would not see the controller (docs/decisions/0025-ourselves.md)."""
    only_theirs: dict[str, list[BrokerId]] = defaultdict(list)
    for broker in facts.brokers:
        for name in broker.listeners:
            if name not in facts.listeners and name not in reported:
                only_theirs[name].append(broker.id)
    for name, brokers in sorted(only_theirs.items()):
        told = (
            f"clients that come to brokers {_listed(brokers)} by listener {name} would not see the controller: tools "
            f'can\'t create topics or move partitions there; brokers log "Listeners are not identical across brokers"'
        )
        todo = (
            f"start Shunter with --listener {name}://HOST:PORT as well, or have tools bootstrap by {facts.listeners[0]}"
        )
        yield Finding(Level.WARNING, "listener", told, todo)


def _ways_back(facts: Facts) -> Iterator[Finding]:
    """What this machine can see of the brokers' way to Shunter, and what not: brokers connect to a controller alone."""
    for way in facts.ways_back:
        place = f"{way.host}:{way.port}"
        if not way.addresses:
            told = f"the host of {way.listener}://{place} has no address on this machine"
            todo = "see that the brokers' machines know that name, or say an address with advertised_listener"
            yield Finding(Level.WARNING, "way back", told, todo)
            continue
        if way.unreached is not None:
            told = f"we listened, and could not connect to {place} from this machine: {way.unreached}"
            todo = "right where only others are forwarded to us; else say another address with advertised_listener"
            yield Finding(Level.WARNING, "way back", told, todo)
        other: dict[str, list[BrokerId]] = defaultdict(list)
        for broker in facts.brokers:
            if broker.sees_us_at is not None and broker.sees_us_at not in way.addresses:
                other[broker.sees_us_at].append(broker.id)
        for address, brokers in sorted(other.items()):
            told = f"brokers {_listed(brokers)} see us come from {address}, and would look for us at {place}"
            todo = "right where both are this machine's, or the one is forwarded to it; else say advertised_listener"
            yield Finding(Level.WARNING, "way back", told, todo)
        told = (
            f"whether brokers reach {way.listener}://{place} can't be seen from here: they connect to who leads alone"
        )
        todo = f"start Shunter with --takeover never, and on each broker's machine: nc -vz {way.host} {way.port}"
        yield Finding(Level.FINE, "way back", told, todo)


def _settings(facts: Facts, settings: ControllerSettings) -> Iterator[Finding]:
    told = {broker.id: broker.settings for broker in facts.brokers if broker.settings is not None}
    yield from _where_brokers_differ(PROTOCOL, _by_value(PROTOCOL, told))
    yield from compared_defaults(told, settings, facts.dynamic_defaults)
    for name, what, todo in (
        (POLICY, "have one", "it is not asked under Shunter: set the topic_policy_… settings"),
        (AUTHORIZER, *_authorizers(ours=facts.authorizes)),
    ):
        brokers = [broker for broker, known in told.items() if _concerns(name, known.get(name), facts)]
        if brokers:
            yield Finding(Level.WARNING, name, f"brokers {_listed(brokers)} {what}", todo)


def _concerns(name: str, value: str | None, facts: Facts) -> bool:
    known = name == AUTHORIZER and facts.authorizes and value in AUTHORIZERS
    return bool(value) and not known


def _authorizers(*, ours: bool) -> tuple[str, str]:
    """Return what is told of brokers with an authorizer that Shunter does not have, and what to do."""
    if ours:
        return "have another than AclAuthorizer", "Shunter judges by AclAuthorizer's rules: compare what theirs allows"
    told = (
        "Shunter's own listeners would have no authorizer: name a broker's file that has one with --server-properties"
    )
    return "have one", told


def compared_defaults(
    told: Mapping[BrokerId, Mapping[str, str | None]], settings: ControllerSettings, dynamic: Mapping[str, str]
) -> Iterator[Finding]:
    """Compare the settings by which Apache's controller decides: the brokers' with each other and with Shunter's.

    Args:
        told: By broker: the settings that it gave.
        settings: Shunter's.
        dynamic: The brokers' cluster-wide dynamic configuration, which overrides Shunter's settings. Pass it only if
            the brokers' settings include it.
    """
    for name in COMPARED:
        values = _by_value(name, told)
        yield from _where_brokers_differ(name, values)
        if len(values) == 1:
            yield from _compared(name, next(iter(values)), settings, dynamic)


def _by_value(name: str, told: Mapping[BrokerId, Mapping[str, str | None]]) -> dict[str, list[BrokerId]]:
    values: dict[str, list[BrokerId]] = defaultdict(list)
    for broker, known in told.items():
        value = known.get(name)
        if value is not None:
            values[value].append(broker)
    return values


def _where_brokers_differ(name: str, values: Mapping[str, list[BrokerId]]) -> Iterator[Finding]:
    if len(values) > 1:
        which = "; ".join(f"{value} on {_listed(brokers)}" for value, brokers in sorted(values.items()))
        yield Finding(Level.WARNING, name, f"brokers differ: {which}", "set it alike on all brokers")


def _compared(name: str, theirs: str, settings: ControllerSettings, dynamic: Mapping[str, str]) -> Iterator[Finding]:
    setting, value = _DEFAULTS[name]
    ours = dynamic.get(name, str(value(settings)))
    ours = ours.lower() if ours in {"True", "False"} else ours
    if ours == theirs:
        yield Finding(Level.FINE, name, f"{theirs}, as the brokers have it")
    else:
        told = f"the brokers have {theirs}, and Shunter would decide by {ours}"
        yield Finding(Level.WARNING, name, told, f"set {setting}={theirs}")


def _znodes(facts: Facts) -> Iterator[Finding]:
    for path, missing in facts.refused:
        told = f"{path}: ZooKeeper's ACL does not let us {missing}"
        yield Finding(Level.PROBLEM, "ZooKeeper", told, "log in as the brokers do (zookeeper_config, docs/security.md)")
    yield from _ownership(facts)
    for path, why in facts.unreadable:
        if path == _CLUSTER_ID and not facts.brokers:
            continue  # It is told with the brokers that are missing.
        yield Finding(Level.WARNING, "ZooKeeper", f"{path} can't be read: {why}", "mend it: it would be left alone")
    path, size = facts.largest
    if size > ZNODE_LIMIT // 2:
        told = f"{path} has {size} bytes, of {ZNODE_LIMIT} that ZooKeeper takes where jute.maxbuffer is not set"
        yield Finding(Level.WARNING, "ZooKeeper", told, "give that topic no more partitions")
    if facts.without_replicas:
        told = f"{counted(len(facts.without_replicas), 'partition has', 'partitions have')} no replicas: nobody can read or write there ({named(facts.without_replicas)})"
        todo = "delete the topic, or give the partition replicas with kafka-reassign-partitions"
        yield Finding(Level.WARNING, "partitions", told, todo)
    if facts.moves:
        told = f"{counted(len(facts.moves), 'partition is', 'partitions are')} being moved: Shunter would go on with them ({named(facts.moves)})"
        yield Finding(Level.WARNING, "moves", told, "wait for them, or go on")
    for path in facts.requests:
        yield Finding(Level.WARNING, "moves", f"a tool has asked for moves in {path}", "Shunter would take them over")
    if not facts.refused and not facts.unreadable:
        told = f"{counted(facts.topics, 'topic')} with {counted(facts.partitions, 'partition')} can be read"
        yield Finding(Level.FINE, "ZooKeeper", told)


def _ownership(facts: Facts) -> Iterator[Finding]:
    """Brokers have to be able to change the znodes that Shunter makes, and others only if they can change theirs."""
    theirs = tuple(who for who in facts.belongs_to if not who.startswith("world:"))
    if not theirs:
        return
    if facts.ours_belongs_to is None:
        told = f"the topics' znodes belong to {', '.join(theirs)}, and what Shunter makes could be changed by everybody"
        yield Finding(Level.WARNING, "ZooKeeper", told, "set zookeeper.set.acl=true, as the brokers have it")
        return
    schemes = {who.partition(":")[0] for who in theirs}
    comparable = [who for who in facts.ours_belongs_to if who.partition(":")[0] in schemes]
    if comparable and not set(comparable) & set(theirs):
        told = (
            f"the topics' znodes belong to {', '.join(theirs)}, and what Shunter makes would to {', '.join(comparable)}"
        )
        todo = "log in as the brokers do: a broker that leads after Shunter could not change what Shunter made"
        yield Finding(Level.PROBLEM, "ZooKeeper", told, todo)


def _listed(brokers: Iterable[BrokerId]) -> str:
    return named(sorted(brokers), BROKERS_NAMED)
