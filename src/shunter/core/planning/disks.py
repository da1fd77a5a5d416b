"""Log dirs within brokers: the replicas that go from one to another, so that all are filled alike, or some are empty.

No byte crosses the network: a broker copies a replica from one of its log dirs to another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.core.planning.request import SPENT, PlanRefused
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica
from shunter.model.partition import BrokerId

_FAILED = (
    "it failed, so no replica is copied to or from it; `shunter plan --scope offline` gives its replicas other brokers"
)


class DiskMove(NamedTuple):
    """A replica that its broker copies to another of its log dirs."""

    broker: BrokerId
    replica: DiskReplica
    target: str


class DisksPlan(NamedTuple):
    """The moves, what could not be done: (what, why), and the log dirs that were left out, a sentence each."""

    moves: tuple[DiskMove, ...]
    undone: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def bytes_moved(self) -> int:
        """Bytes that are copied."""
        return sum(move.replica.size_bytes for move in self.moves)


class DiskFill(NamedTuple):
    """How a broker's log dirs are filled with replicas, in shares of their mean."""

    least: float
    most: float
    mendable: bool
    """Whether a replica that went from the fullest log dir to the emptiest would lower the most, if there is room."""


@dataclass(slots=True)
class _Shelf:
    """A log dir under change. `load` is bytes that it will hold, `free` bytes that may come before any others leave."""

    disk: Disk
    weight: float
    load: int
    free: float
    replicas: list[DiskReplica] = field(default_factory=list[DiskReplica])

    @property
    def fill(self) -> float:
        """How full it will be: bytes over weight."""
        return self.load / self.weight


@dataclass(slots=True)
class _Made:
    """A plan under change, and what its caps still leave."""

    moves_left: float
    bytes_left: float
    moves: list[DiskMove] = field(default_factory=list[DiskMove])
    undone: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def allows(self, replica: DiskReplica) -> bool:
        """Whether the caps leave room for one more copy."""
        return self.moves_left >= 1 and replica.size_bytes <= self.bytes_left

    def move(self, broker: BrokerId, replica: DiskReplica, here: _Shelf, there: _Shelf) -> None:
        """Plan a copy. The room that it frees is not counted: it may be free only after all other copies."""
        here.replicas.remove(replica)
        here.load -= replica.size_bytes
        there.load += replica.size_bytes
        there.free -= replica.size_bytes
        self.moves_left -= 1
        self.bytes_left -= replica.size_bytes
        self.moves.append(DiskMove(broker, replica, there.disk.path))


def plan_disks(
    brokers: Iterable[BrokerDisks],
    *,
    chosen: Sequence[BrokerId] = (),
    emptied: Sequence[tuple[BrokerId, str]] = (),
    band: float = 0.1,
    headroom: float = 0.2,
    excluded_topics: Collection[str] = (),
    max_moves: int | None = None,
    max_bytes: int | None = None,
) -> DisksPlan:
    """Plan the log dirs of brokers. Deterministic; planning its own result again changes nothing.

    Args:
        brokers: The log dirs and replicas of each broker. Nothing leaves or reaches a log dir that failed, and nothing
            reaches one that is cordoned.
        chosen: The brokers to plan; none: all.
        emptied: Log dirs that all replicas leave; then nothing is balanced.
        band: How far from the mean of its broker's log dirs a log dir may be filled.
        headroom: The share of each log dir that stays free.
        excluded_topics: Topics whose replicas stay where they are.
        max_moves: The most replicas that are copied; None: no cap.
        max_bytes: The most bytes that are copied; None: no cap.

    Raises:
        PlanRefused: a broker or log dir does not exist.
    """
    known = {each.broker: each for each in brokers}
    for broker in (*chosen, *(broker for broker, _path in emptied)):
        if broker not in known:
            raise PlanRefused(f"broker {broker} reported no log dirs; known are {sorted(known)}")
    made = _Made(float("inf") if max_moves is None else max_moves, float("inf") if max_bytes is None else max_bytes)
    about = set(chosen) or ({broker for broker, _path in emptied} if emptied else set(known))
    notes: list[str] = []
    for broker in sorted(about):
        disks, paths = known[broker].disks, [path for owner, path in emptied if owner == broker]
        unknown = sorted(set(paths) - {disk.path for disk in disks})
        if unknown:
            names = ", ".join(disk.path for disk in sorted(disks))
            raise PlanRefused(f"broker {broker} has no log dir {unknown[0]}; it has {names}")
        notes += _left_out(broker, disks, paths)
        failed = [disk.path for disk in sorted(disks) if disk.failed and disk.path in paths]
        made.undone += [(f"{path} of broker {broker} stays as it is", _FAILED) for path in failed]
        if not paths or len(failed) < len(paths):
            _plan_one(broker, _shelves(known[broker], headroom, excluded_topics), set(paths) - {*failed}, band, made)
    return DisksPlan(tuple(made.moves), tuple(made.undone), tuple(notes))


def _left_out(broker: BrokerId, disks: Sequence[Disk], emptied: Collection[str]) -> Iterator[str]:
    """Say which log dirs a plan leaves out, or lets nothing come to."""
    for disk in sorted(disks):
        where = f"{disk.path} of broker {broker}"
        if disk.failed and disk.path not in emptied:
            yield f"{where} is left out: {_FAILED}"
        elif disk.cordoned and not disk.failed and disk.path not in emptied:
            yield f"{where} is cordoned: nothing comes to it"


def _plan_one(broker: BrokerId, shelves: list[_Shelf], emptied: Collection[str], band: float, made: _Made) -> None:
    """Plan one broker: empty some of its log dirs, or (none) balance all."""
    stays = f"broker {broker} stays as it is"
    if len(shelves) < 2 or len(emptied) == len(shelves):
        made.undone.append((stays, "it has no other log dir that works"))
    elif all(shelf.disk.cordoned for shelf in shelves if shelf.disk.path not in emptied):
        others = "its other log dirs" if emptied else "its log dirs"
        made.undone.append((stays, f"{others} are cordoned, so nothing comes to them"))
    elif emptied:
        _empty(broker, shelves, emptied, made)
    else:
        _balance(broker, shelves, band, made)


def disk_fill(found: BrokerDisks, excluded_topics: Collection[str] = ()) -> DiskFill | None:
    """How a broker's log dirs are filled, as `plan_disks` judges them; None: a single log dir, or no replicas."""
    shelves = _shelves(found, 0.0, excluded_topics)
    mean = sum(shelf.load for shelf in shelves) / sum(shelf.weight for shelf in shelves) if shelves else 0.0
    if len(shelves) < 2 or mean <= 0:
        return None
    here, there = _ends(shelves)
    mendable = any(_lowers(each, here, there) for each in here.replicas)
    return DiskFill(there.fill / mean, here.fill / mean, mendable)


def _ends(shelves: list[_Shelf]) -> tuple[_Shelf, _Shelf]:
    """The fullest log dir, and the emptiest one that may get replicas."""
    fullest = max(shelves, key=lambda shelf: (shelf.fill, shelf.disk.path))
    able = [shelf for shelf in shelves if not shelf.disk.cordoned] or [fullest]
    return fullest, min(able, key=lambda shelf: (shelf.fill, shelf.disk.path))


def _shelves(found: BrokerDisks, headroom: float, excluded_topics: Collection[str]) -> list[_Shelf]:
    """A broker's log dirs that work, weighed by their sizes if all are known, else alike.

    Excluded replicas are only load.
    """
    disks = sorted(disk for disk in found.disks if not disk.failed)
    sized = all(disk.total_bytes for disk in disks)
    shelves = [
        _Shelf(
            disk,
            float(disk.total_bytes or 1) if sized else 1.0,
            0,
            float("inf")
            if disk.usable_bytes is None or not disk.total_bytes
            else disk.usable_bytes - headroom * disk.total_bytes,
        )
        for disk in disks
    ]
    by_path = {shelf.disk.path: shelf for shelf in shelves}
    for replica in sorted(found.replicas, key=lambda each: (-each.size_bytes, each.topic, each.partition)):
        if replica.log_dir in by_path:
            by_path[replica.log_dir].load += replica.size_bytes
            if replica.topic not in excluded_topics:
                by_path[replica.log_dir].replicas.append(replica)
    return shelves


def _empty(broker: BrokerId, shelves: list[_Shelf], paths: Collection[str], made: _Made) -> None:
    """Empty log dirs: the greatest replicas first, each to the log dir where it fits and which is then least full."""
    others = [shelf for shelf in shelves if shelf.disk.path not in paths and not shelf.disk.cordoned]
    for here in (shelf for shelf in shelves if shelf.disk.path in paths):
        for replica in list(here.replicas):
            fitting = [shelf for shelf in others if shelf.free >= replica.size_bytes]
            if not fitting or not made.allows(replica):
                what = f"{replica.topic}-{replica.partition} stays in {here.disk.path} of broker {broker}"
                full = "no other log dir has room for it less the headroom (headroom-percent)"
                made.undone.append((what, SPENT if fitting else full))
                continue
            there = min(fitting, key=lambda shelf: ((shelf.load + replica.size_bytes) / shelf.weight, shelf.disk.path))
            made.move(broker, replica, here, there)


def _balance(broker: BrokerId, shelves: list[_Shelf], band: float, made: _Made) -> None:
    """Balance log dirs: from the fullest to the emptiest goes the replica that brings both nearest to each other."""
    mean = sum(shelf.load for shelf in shelves) / sum(shelf.weight for shelf in shelves)
    while mean > 0:
        here, there = _ends(shelves)
        if here.fill <= mean * (1 + band) and there.fill >= mean * (1 - band):
            return
        ideal = (here.load * there.weight - there.load * here.weight) / (here.weight + there.weight)
        fitting = [each for each in here.replicas if _lowers(each, here, there) and each.size_bytes <= there.free]
        replicas = [each for each in fitting if made.allows(each)]
        if not replicas:
            what = f"{here.disk.path} of broker {broker} is filled {here.fill / mean:.2f} times as much as the mean of its log dirs"
            why = "no replica in it lowers that, or fits into the emptiest one less the headroom (headroom-percent)"
            made.undone.append((what, SPENT if fitting else why))
            return
        nearest = min(replicas, key=lambda each: abs(each.size_bytes - ideal))
        made.move(broker, nearest, here, there)


def _lowers(replica: DiskReplica, here: _Shelf, there: _Shelf) -> bool:
    """Whether a replica's move from `here` to `there` leaves `there` less full than `here` is now."""
    return replica.size_bytes > 0 and (there.load + replica.size_bytes) / there.weight < here.fill
