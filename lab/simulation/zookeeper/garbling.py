"""Znodes that are overwritten with data that can't be read, and repaired by hand later.

Meanwhile the data that were read there last count (`Truth.garbled`). A controller may neither overwrite such a znode
nor take it for absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from lab.simulation.rules.truth import Garbled
from lab.simulation.scheduler import SECOND
from lab.simulation.zookeeper.garbled_znodes import GARBLED, READ_AT_START, READERS, WEIGHTS, last_name
from lab.simulation.zookeeper.tree import Transaction
from shunter.drivers.zookeeper.requests import Create, Put, Remove
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import (
    decode_partitions,
    encode_legacy_reassignments,
    encode_partitions,
)
from shunter.formats.znodes.configs import ConfigChange, encode_config_change
from shunter.formats.znodes.requests import encode_request

if TYPE_CHECKING:
    from lab.simulation.world import World


OWED_SHARE = 0.7
ANNOUNCEMENTS = (f"{znodes.ISR_CHANGES}/isr_change_", f"{znodes.LOG_DIR_EVENTS}/log_dir_event_")


class Garbling:
    """Overwrites znodes, and repairs them."""

    def __init__(self, world: World) -> None:
        """Begin with nothing garbled."""
        self.world = world
        self._last: str | None = None

    def garble(self, random: Random) -> bool:
        """Overwrite a znode of a random kind; if there is none, perhaps create one that can't be read."""
        tree = self.world.tree
        kind = random.choices(GARBLED, WEIGHTS)[0]
        if tree.children(znodes.OWED_REPLICAS) and random.random() < OWED_SHARE:
            kind = "owed replicas"  # Such znodes are rare and short-lived.
        pattern, read = READERS[kind]
        found = [path for path in tree.paths() if re.fullmatch(pattern, path) and path not in self.world.truth.garbled]
        if found:
            path = random.choice(found)
            znode = tree.get(path)
            former = b"" if znode is None or znode.data is None else znode.data
            operation = Put(path, _nonsense(random, former, path, read))
            path = self._commit(operation, former, seen=True)
        else:
            path = self._write_nonsense(random, kind, read)
        if not path:
            return False
        self.world.coverage.count("garbled", kind)
        if kind in READ_AT_START and random.random() < 0.5:
            self.world.faults.controller_deposed(random)  # The next controller meets the unreadable znode.
        if random.random() < 0.7:
            self.world.scheduler.after(int(random.choice((0.05, 0.5, 3, 12)) * SECOND), self.mend, path)
        return True

    def _write_nonsense(self, random: Random, kind: str, read: Callable[[str, bytes], Any]) -> str:
        """Create a znode that can't be read, as by mistake; `mend` writes the intended data later."""
        operators = self.world.operators
        if kind in ("legacy", "extra"):
            path, meant = READERS[kind][0], encode_legacy_reassignments(operators.targets(random))
        elif kind == "request":
            path, meant = znodes.REASSIGNMENT_REQUEST_PREFIX, encode_request(operators.targets(random), legacy=False)
        elif kind == "preferred election":
            path, meant = znodes.PREFERRED_ELECTION, encode_partitions(tuple(self.world.truth.partitions()))
        else:
            path = random.choice(ANNOUNCEMENTS)
            self._commit(Create(path, _nonsense(random, b"", path, decode_partitions), sequential=True), None)
            return ""
        nonsense = _nonsense(random, meant, path.removesuffix("_"), read)
        return self._commit(Create(path, nonsense, sequential=kind == "request"), meant)

    def _commit(self, operation: Create | Put, former: bytes | None, *, seen: bool = False) -> str:
        """Write; returns the path of the znode, or "" if the write was refused."""
        truth = self.world.truth
        truth.expect_nonsense(Garbled(former, seen))
        done = self.world.tree.commit([operation], self.world.operator)
        truth.expect_nonsense(None)
        return done.changes[0].path if isinstance(done, Transaction) else ""

    # ---- by hand

    def mend(self, path: str) -> None:
        """Repair a znode, unless it was overwritten or removed since."""
        tree, truth = self.world.tree, self.world.truth
        garbled = truth.garbled.get(path)
        if garbled is None or garbled.former is None:
            return
        self.world.scheduler.note(f"{path} is put right")
        tree.commit([Put(path, garbled.former)], self.world.operator)
        kind = next(kind for kind, (pattern, _) in READERS.items() if re.fullmatch(pattern, path))
        self.world.coverage.count("mended", kind)
        if kind in ("legacy", "extra", "request"):
            # Only now are these targets asked for. Others may have been taken since the znode was written.
            self.world.operators.named(list(READERS[kind][1](path, garbled.former).targets.items()))
        if kind == "config":
            told = encode_config_change(ConfigChange("topics", last_name(path)))
            announcement = f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}"
            tree.commit([Create(announcement, told, sequential=True)], self.world.operator)
        if kind in READ_AT_START and tree.get(znodes.CONTROLLER) is not None:
            tree.commit([Remove(znodes.CONTROLLER)], self.world.operator)

    def mend_all(self) -> None:
        """Repair every znode, for phase two."""
        for path in tuple(self.world.truth.garbled):
            self.mend(path)

    def last_act(self) -> list[str]:
        """When the world is at rest: write a request that can't be read, and repair it a moment later.

        In a busy cluster another change or another controller causes a new read of the request. Here only the repair
        does.
        """
        world = self.world
        if self._last is None and any(action.kind == "garble" for action in world.actions):
            self._last = self._write_nonsense(Random(f"last act {world.seed}"), "request", READERS["request"][1])
            world.scheduler.after(2 * SECOND, self.mend, self._last)
            world.scheduler.note(f"the last act: {self._last} can't be read")
        return [f"{self._last} can't be read yet"] if self._last in world.truth.garbled else []


def _nonsense(random: Random, former: bytes, path: str, read: Callable[[str, bytes], Any]) -> bytes:
    """Data similar to `former` that can't be read at `path`."""
    tries = [
        b"\xff\xfe\x00",
        b"",
        b"[]",
        former[: random.randrange(1 + len(former))],
        re.sub(rb'"version":[0-9]+', b'"version":99', former),
        *_of_other_types(random, former),
    ]
    random.shuffle(tries)
    return next(data for data in (*tries, b"nonsense") if not _is_readable(path, data, read))


def _is_readable(path: str, data: bytes, read: Callable[[str, bytes], Any]) -> bool:
    try:
        read(path, data)
    except FormatError:
        return False
    return True


def _of_other_types(random: Random, former: bytes) -> Sequence[bytes]:
    """The document with one of its fields of another type."""
    try:
        document = orjson.loads(former)
    except orjson.JSONDecodeError:
        return ()
    if type(document) is not dict or not document:
        return ()
    field = random.choice(list(document))
    others: tuple[Any, ...] = ("x", -7, [[]], {"x": [None]}, 10**15)
    return [orjson.dumps({**document, field: other}) for other in others]
