"""Reads a live cluster for a check-up, each part by itself: a part that can't be read must not hide the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType

from shunter.core.under_way import copies_among
from shunter.drivers.admin.bootstrap_probe import look
from shunter.drivers.admin.client import ANSWERS_WITHIN_S, SHUNNED_FOR_S, is_shunters
from shunter.drivers.admin.cluster import PATIENCE_S, READ_WITHIN_S, KafkaPythonAdmin
from shunter.drivers.admin.log_dirs import LogDirsSeen, describe_log_dirs, take_log_dirs, unlisted
from shunter.drivers.admin.settings import min_insync
from shunter.errors import DriverError
from shunter.model.check_up import (
    FEATURES,
    LOG_DIRS,
    MOVES,
    QUORUM,
    CheckedBroker,
    CheckedListener,
    CheckedLogDir,
    CheckedTopic,
    CheckUp,
    FencedBroker,
    Quorum,
)
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import BrokerId, EligibleLeaders, TopicPartition

Answer = TypeVar("Answer")

_LISTENERS = (
    "advertised.listeners",
    "listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
)
_LogDirs: TypeAlias = tuple[tuple[CheckedLogDir, ...], tuple[LogDirCopy, ...], frozenset[TopicPartition] | None]
_NO_LOG_DIRS: _LogDirs = (), (), None
_NOBODY: frozenset[BrokerId] = frozenset()
_NO_ELIGIBLE: dict[TopicPartition, EligibleLeaders] = {}
_Moves: TypeAlias = dict[TopicPartition, OngoingReassignment]
_NO_MOVES: _Moves = {}
_UNTOLD = Quorum(-1, ())
"""In the place of the quorum: not known whether there is one."""
HURRIED_S = 2.5
"""How long the controller is waited for while a broker hangs."""
_OPERATIONS = {3: "READ", 7: "ALTER", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS"}
"""Code -> name, of those of Kafka's operations that Shunter's commands need."""
_ABSENT = (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError)


@dataclass(slots=True)
class _Visit:
    """One reading of a cluster, with the parts that could not be read, and why."""

    admin: KafkaPythonAdmin
    unread: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    unanswered: list[str] = field(default_factory=list[str])
    """Those of them that were not answered; a refusal is an answer."""
    hurried_s: float | None = None
    """How long an answer of the controller is waited for; None: as long as the client does."""

    async def part(
        self,
        what: str,
        permission: str,
        work: Callable[[Any], Answer],
        otherwise: Answer,
        *,
        within_s: float = READ_WITHIN_S,
    ) -> Answer:
        """Read one part with the client; if it can't be read, note why, and return `otherwise`."""
        return await self.noted(what, self.admin.ask(what, permission, work, within_s=within_s), otherwise)

    async def noted(self, what: str, answer: Awaitable[Answer], otherwise: Answer) -> Answer:
        """Wait for an answer; if there is none, note why, and return `otherwise`."""
        try:
            return await answer
        except DriverError as error:
            self.unread.append((what, str(error)))
            if error.retriable:
                self.unanswered.append(what)
            return otherwise

    async def of_controller(self, what: str, answer: Awaitable[Answer], otherwise: Answer) -> Answer:
        """As `noted`, of what only the controller knows: if a broker hangs, it may be that one, or the last one."""
        try:
            # Not by the client's own limit: after that it would connect anew, which takes longer than the whole look.
            async with asyncio.timeout(self.hurried_s):
                return await self.noted(what, answer, otherwise)
        except TimeoutError:
            self.unanswered.append(what)
            self.unread.append((what, f"it was not answered within {self.hurried_s:.1f} s, as a broker hangs"))
            return otherwise


async def take_check_up(admin: KafkaPythonAdmin) -> CheckUp:
    """Read a cluster once: ask each broker, and try to connect to each listener.

    Raises:
        DriverError: no broker answers which brokers are in the cluster.
    """
    visit = _Visit(admin)
    silent = await visit.part(
        "which brokers answer", "", lambda client: client.shun_silent(ANSWERS_WITHIN_S, SHUNNED_FOR_S), _NOBODY
    )
    described = await admin.ask("DescribeCluster", "Describe on Cluster", lambda client: client.describe_cluster())
    registered = sorted(described["brokers"], key=lambda broker: int(broker["broker_id"]))
    up = [broker for broker in registered if not broker.get("is_fenced", False)]
    ids = sorted(int(broker["broker_id"]) for broker in up)
    addresses = {int(broker["broker_id"]): f"{broker['host']}:{broker['port']}" for broker in up}
    listeners = await _listeners(visit, {broker: addresses[broker] for broker in ids if broker not in silent})
    racks = {int(broker["broker_id"]): broker.get("rack") or None for broker in up}
    brokers = await asyncio.gather(
        *(
            _silent(visit, broker, racks[broker], addresses[broker])
            if broker in silent
            else _broker(visit, broker, racks[broker], listeners.get(broker, ()))
            for broker in ids
        )
    )
    fenced = await _fenced([broker for broker in registered if broker.get("is_fenced", False)])
    # Brokers forward requests to a controller that hangs for half a minute, also after the next one was elected.
    visit.hurried_s = HURRIED_S if silent or any(broker.problem for broker in fenced) else None
    async with admin.apart(silent) if visit.hurried_s is not None else nullcontext(admin) as controller:
        (before, topics, ongoing), quorum, shunter = await asyncio.gather(
            _topics_and_moves(visit, controller),
            visit.of_controller(QUORUM, controller.quorum(), _UNTOLD),
            visit.of_controller(FEATURES, controller.ask(FEATURES, "", is_shunters), False),
        )
    leaderless = [each.name for each in topics if any(part.leader < 0 for part in each.partitions.values())]
    eligible = await visit.part(
        "eligible leaders", "Describe on Topic", lambda client: client.eligible_leaders(leaderless), _NO_ELIGIBLE
    )
    told = "Apache" if quorum is _UNTOLD else "Apache (ZooKeeper)" if quorum is None else "Apache (KRaft)"
    own, known = described.get("authorized_operations"), None if quorum is _UNTOLD else quorum
    by = None if quorum is _UNTOLD else int(described["controller_id"]) if quorum is None else quorum.leader
    lost = {QUORUM, MOVES} <= set(visit.unanswered)
    return CheckUp(
        cluster_id=str(described["cluster_id"]),
        controller=by,
        controlled_by="Shunter" if shunter else told,
        brokers=tuple(brokers),
        topics=_with_unlisted(topics, brokers, {**before, **ongoing}),
        ongoing=ongoing,
        ended={tp: move for tp, move in before.items() if tp not in ongoing},
        eligible=eligible,
        operations=None if own is None else frozenset(str(name) for name in own),
        clock_ahead_ms=None if known is None else known.ahead_ms,
        quorum=known,
        unread=tuple(dict.fromkeys(visit.unread)),
        unanswered=tuple(what for what in (QUORUM, MOVES, FEATURES) if lost and what in visit.unanswered),
        fenced=fenced,
        certificate=admin.expiring_certificate,
    )


async def _topics_and_moves(
    visit: _Visit, controller: KafkaPythonAdmin
) -> tuple[_Moves, tuple[CheckedTopic, ...], _Moves]:
    """Topics, and the reassignments on both sides of them. If the first are not told in a hurry, nor are the second."""
    before = await visit.of_controller(MOVES, controller.list_reassignments(), _NO_MOVES)
    untold = visit.hurried_s is not None and any(what == MOVES for what, _why in visit.unread)
    topics = await _topics(visit)
    if untold:
        return before, topics, _NO_MOVES
    return before, topics, await visit.of_controller(MOVES, controller.list_reassignments(), _NO_MOVES)


async def _silent(visit: _Visit, broker: BrokerId, rack: str | None, address: str) -> CheckedBroker:
    """A broker that is listed as live and does not answer: it is asked nothing more."""
    told = f"does not answer within {ANSWERS_WITHIN_S:.0f} s"
    visit.unread.append((f"{LOG_DIRS}{broker}", f"the broker {told}"))
    listener = CheckedListener("for clients", address, told, used=True)
    return CheckedBroker(broker, rack, "", (listener,), silent=True)


async def _broker(
    visit: _Visit, broker: BrokerId, rack: str | None, listeners: tuple[CheckedListener, ...]
) -> CheckedBroker:
    release = await visit.part(f"the version of broker {broker}", "", partial(_release, broker=broker), "")
    what = f"{LOG_DIRS}{broker}"
    found = await visit.part(what, "Describe on Cluster", partial(_log_dirs, broker=broker), _NO_LOG_DIRS)
    silent = not release and any(each.used and each.problem for each in listeners)
    return CheckedBroker(broker, rack, release, listeners, *found, silent=silent)


_RELEASES = ((21, "3.9"), (25, "4.0"), (27, "4.1"), (29, "4.2"), (30, "4.3"), (33, "4.4"))
"""The newest `metadata.version` of each release, by its level."""


def _release(client: Any, broker: BrokerId) -> str:
    """Return the broker's release of Kafka: by the newest `metadata.version` that it knows, else by its APIs.

    The library knows no release newer than itself, and takes a newer broker for the newest that it knows.
    """
    level = None
    with suppress(*_ABSENT):
        level = client.newest_metadata_version(broker)
    before = _RELEASES[0][0]
    if level is None or level < before:
        return ".".join(str(number) for number in client.get_broker_version_data(broker).broker_version)
    return next((name for newest, name in _RELEASES if level <= newest), f"newer than {_RELEASES[-1][1]}")


async def _listeners(visit: _Visit, addresses: Mapping[BrokerId, str]) -> dict[BrokerId, tuple[CheckedListener, ...]]:
    """Read the listeners that each broker advertises, and try to connect to all of them at the same time."""
    told = await asyncio.gather(
        *(
            visit.part(
                f"listeners of broker {broker}",
                "DescribeConfigs on Cluster",
                partial(_advertised, broker=broker),
                [("for clients", address, False)],
            )
            for broker, address in sorted(addresses.items())
        )
    )
    asked = [
        (broker, name, where, secured)
        for broker, found in zip(sorted(addresses), told, strict=True)
        for name, where, secured in found
    ]
    problems = await asyncio.to_thread(_knock, [(where, secured) for _broker, _name, where, secured in asked])
    listeners: dict[BrokerId, tuple[CheckedListener, ...]] = {}
    for (broker, name, where, _secured), problem in zip(asked, problems, strict=True):
        seen = CheckedListener(name, where, problem or "", where == addresses[broker])
        listeners[broker] = (*listeners.get(broker, ()), seen)
    return listeners


async def _fenced(brokers: Sequence[Mapping[str, Any]]) -> tuple[FencedBroker, ...]:
    """Fenced brokers, and whether their listeners answer: one that hangs does not."""
    found = await asyncio.to_thread(_knock, [(f"{broker['host']}:{broker['port']}", True) for broker in brokers])
    return tuple(
        FencedBroker(int(broker["broker_id"]), problem or "") for broker, problem in zip(brokers, found, strict=True)
    )


def _knock(doors: Sequence[tuple[str, bool]]) -> list[str | None]:
    """Return what is wrong with each address, or None. All addresses are tried at the same time. Blocks."""
    with ThreadPoolExecutor(max(1, min(32, len(doors)))) as pool:
        return list(pool.map(lambda door: look(door[0], knock=door[1]), doors))


def _advertised(client: Any, broker: BrokerId) -> list[tuple[str, str, bool]]:
    """Return (name, address, whether it speaks TLS) of each listener that a broker advertises."""
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(_LISTENERS))
    found = client.describe_configs([resource], config_filter="all")["broker"][str(broker)]
    values = {name: str(setting["value"] or "") for name, setting in found.items()}
    secured = dict(pair.split(":", 1) for pair in values.get("listener.security.protocol.map", "").split(",") if pair)
    control = {name.strip() for name in values.get("controller.listener.names", "").split(",")}
    told: list[tuple[str, str, bool]] = []
    for listener in (values.get("advertised.listeners") or values.get("listeners", "")).split(","):
        name, _mark, where = listener.strip().partition("://")
        if where and name not in control:
            told.append((name, where, "SSL" in secured.get(name, name)))
    return told


def _log_dirs(client: Any, broker: BrokerId) -> _LogDirs:
    """Return a broker's log dirs, the copies between them, and the replicas in those that work if one has failed."""
    found = describe_log_dirs(client, broker, None)
    seen = LogDirsSeen({}, {}, {}, {}, (broker,))
    take_log_dirs(seen, broker, found)
    log_dirs = tuple(
        CheckedLogDir(
            str(log_dir["log_dir"]),
            int(log_dir.get("total_bytes", -1)),
            int(log_dir.get("usable_bytes", -1)),
            "" if log_dir["error_code"] == 0 else kafka_errors.for_code(log_dir["error_code"]).__name__,
            bool(log_dir.get("is_cordoned")),
        )
        for log_dir in found
    )
    listed = frozenset(tp for _broker, tp in seen.sizes) if seen.broken else None
    return log_dirs, copies_among(seen.sizes, seen.futures), listed


async def _topics(visit: _Visit) -> tuple[CheckedTopic, ...]:
    found = await visit.part(
        "topics", "Describe on Topic", lambda client: client.all_topics(), list[Any](), within_s=PATIENCE_S
    )
    names = [str(topic.name) for topic in found]
    min_isr = await visit.part(
        "min.insync.replicas",
        "DescribeConfigs on Topic",
        lambda client: min_insync(client, names),
        dict[str, int](),
        within_s=PATIENCE_S,
    )
    return tuple(
        CheckedTopic(
            str(topic.name),
            min_isr.get(str(topic.name), 1),
            _partitions(topic),
            named_operations(topic.authorized_operations),
        )
        for topic in sorted(found, key=lambda topic: str(topic.name))
    )


def _partitions(topic: Any) -> dict[int, ObservedPartition]:
    return {
        int(part.partition_index): ObservedPartition(
            tuple(part.replica_nodes), tuple(part.isr_nodes), int(part.leader_id), tuple(part.offline_replicas or ())
        )
        for part in topic.partitions
    }


def _with_unlisted(
    topics: Sequence[CheckedTopic], brokers: Iterable[CheckedBroker], moves: _Moves
) -> tuple[CheckedTopic, ...]:
    """The topics, with replicas as offline that no working log dir of a damaged broker lists."""
    listed = {broker.broker: broker.listed for broker in brokers if broker.listed is not None}
    if not listed:
        return tuple(topics)

    def judged(tp: TopicPartition, part: ObservedPartition) -> ObservedPartition:
        move = moves.get(tp)
        settled = (*part.isr, *part.offline, *((*move.adding, *move.removing) if move is not None else ()))
        holders = (broker for broker, held in listed.items() if tp in held)
        return part._replace(offline=(*part.offline, *unlisted(part.replicas, settled, listed, holders)))

    return tuple(
        replace(
            topic,
            partitions={
                number: judged(TopicPartition(topic.name, number), part) for number, part in topic.partitions.items()
            },
        )
        for topic in topics
    )


def named_operations(codes: Iterable[int] | None) -> frozenset[str] | None:
    """Return the names of the allowed operations that Shunter's commands need; None if the broker did not list them."""
    return None if codes is None else frozenset(_OPERATIONS[code] for code in codes if code in _OPERATIONS)
