"""Whether this process may stand for the controllership, by the znodes and by the controllers that it saw before."""

from __future__ import annotations

from typing import NamedTuple

from shunter.drivers.host.process_identity import is_alive_here, is_dead, this_process
from shunter.drivers.zookeeper.requests import Znode
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import (
    NO_KRAFT,
    ControllerRegistration,
    ProcessIdentity,
    decode_broker,
    decode_controller,
    decode_controller_epoch,
    decode_migration_owner,
    decode_process,
)
from shunter.model.partition import BrokerId
from shunter.model.settings import Takeover

MENDED_WITHIN_S = 5.0
"""How often unreadable znodes are read again; not all of them are watched."""
_REVERTED = (
    f"if that was reverted, delete {znodes.MIGRATION}, and also {znodes.CONTROLLER} if a KRaft controller holds it,"
    " because no session ends that znode"
)
MIGRATION_BEGUN = (
    f"{znodes.MIGRATION} is there: this cluster migrates to KRaft, whose controllers wait until every id in"
    f" {znodes.BROKER_IDS} has registered with them, and ours never does; {_REVERTED}"
)


class Scene(NamedTuple):
    """The znodes that decide whether to stand."""

    controller: Znode | None
    registration: Znode | None
    epoch: Znode
    migration: Znode | None
    is_shunters: bool = False
    """Whether the id of the controller is one of Shunter's, by the durable list (looked up for `standby` only)."""

    @property
    def of_one_session(self) -> bool:
        """Whether controller and registration belong to one session, and so end together."""
        if self.controller is None or self.registration is None:
            return False
        return self.controller.owner == self.registration.owner


class Prospect(NamedTuple):
    """What is in the way; `obstacle` None: nothing is."""

    obstacle: str | None = None
    again_in_s: float | None = None
    """In how many seconds to look again if no watch fires."""
    rival: ProcessIdentity | None = None
    """The Shunter process that is in the way, if it runs on this machine: nothing is in the way after its death."""


class Candidacy:
    """Judges whether this process may stand now, and remembers whom it saw leading.

    Args:
        broker_id: the id of this process.
        takeover: when `/controller` may be taken; may be changed.
        cool_down_s: with `preempt`, how long a controller that was elected meanwhile is left alone; with `standby`, the
            least time between two takeovers from Apache controllers.
    """

    def __init__(self, broker_id: BrokerId, takeover: Takeover, cool_down_s: float) -> None:
        self.takeover = takeover
        self._id = broker_id
        self._path = znodes.broker(broker_id)
        self._cool_down = cool_down_s
        self._first_seen: tuple[int, float] | None = None
        self._looked = False
        self._after_shunter = False
        self._deposed_s: float | None = None

    def look_at(self, scene: Scene, now_s: float) -> None:
        """Take in who holds `/controller` now."""
        controller = scene.controller
        czxid = 0 if controller is None else controller.czxid
        if self._first_seen is None or self._first_seen[0] != czxid:
            # A controller that was there at the first look may be preempted at once; a later one only after a while.
            self._first_seen = (czxid, now_s if self._looked else -1.0 - self._cool_down)
        self._looked = True
        if controller is None:
            return
        try:
            held, process = _holder(controller)
        except FormatError:
            return
        if process is not None or scene.is_shunters:
            self._after_shunter = True
        elif held.kraft_epoch != NO_KRAFT:
            self._after_shunter = False

    def won(self, scene: Scene, now_s: float) -> None:
        """Take in that this process was elected in this scene."""
        self._after_shunter = True
        if scene.controller is not None and decode_process(scene.controller.data, znodes.CONTROLLER) is None:
            self._deposed_s = now_s

    def lost(self) -> None:
        """Take in that this process leads no more."""
        self._first_seen = None

    def judge(self, scene: Scene, session: int, now_s: float) -> Prospect:
        """Return what is in the way. `session` is this process's own."""
        if self.takeover is Takeover.NEVER:
            return Prospect("takeover is 'never'")
        try:
            migrator = -1 if scene.migration is None else decode_migration_owner(scene.migration.data)
            decode_controller_epoch(scene.epoch.data)
            stale = scene.registration is not None and self._is_stale(scene.registration, session)
        except FormatError as refusal:
            return Prospect(str(refusal), MENDED_WITHIN_S)
        if migrator != -1:
            told = f"{znodes.MIGRATION} says that KRaft controller {migrator} migrates this cluster"
            return Prospect(f"{told}; {_REVERTED}")
        if scene.migration is not None:
            return Prospect(MIGRATION_BEGUN)
        if scene.registration is not None and not stale:
            return self._id_taken(scene.registration)
        if scene.controller is None:
            return Prospect()
        ours = {session}
        if stale and scene.registration is not None:
            ours.add(scene.registration.owner)
        return self._in_the_way(scene.controller, ours, scene.is_shunters, now_s)

    def _is_stale(self, registration: Znode, session: int) -> bool:
        """Whether a registration under this id is of this session, or of a Shunter process that is dead."""
        if registration.owner == session:
            return True
        process = decode_process(registration.data, self._path)
        return process is not None and is_dead(process)

    def _id_taken(self, registration: Znode) -> Prospect:
        """Say what holds this id: a live broker, or a Shunter process whose session may not have ended yet."""
        session = f"session 0x{registration.owner:x}"
        try:
            broker = decode_broker(str(self._id), registration.data, registration.czxid)
            ours = decode_process(registration.data, self._path)
        except FormatError as refusal:
            return Prospect(f"broker id {self._id} is registered by another session ({session}), and {refusal}")
        where = ", ".join(f"{each.host}:{each.port}" for each in broker.endpoints) or "no endpoint"
        if ours is not None:
            told = (
                f"broker id {self._id} is registered by the Shunter process {ours.pid} at {where} ({session}): "
                "it lives, or its session has not ended yet"
            )
            return Prospect(told, rival=_nearby(ours))
        return Prospect(
            f"broker id {self._id} is taken by the broker at {where} ({session}): give us another --broker-id"
        )

    def _in_the_way(self, controller: Znode, ours: set[int], is_shunters: bool, now_s: float) -> Prospect:
        """Judge the process that holds `/controller`. A Shunter process that is provably dead is not in the way."""
        try:
            held, process = _holder(controller)
        except FormatError as refusal:
            return Prospect(str(refusal))
        if held.kraft_epoch != NO_KRAFT or not controller.owner:
            return Prospect(
                f"a KRaft controller ({held.broker}) holds {znodes.CONTROLLER}, which no session ends:"
                f" if it runs no more because a migration was reverted, delete {znodes.CONTROLLER}"
            )
        if controller.owner in ours or (process is not None and is_dead(process)):
            return Prospect()
        rival = None if process is None else _nearby(process)
        if held.broker == self._id:
            who = "another session" if process is None else f"the Shunter process {process.pid}"
            session = f"session 0x{controller.owner:x}"
            told = f"{who} is the controller with our broker id {held.broker} ({session})"
            return Prospect(f"{told}: it lives, or its session has not ended yet", rival=rival)
        if self.takeover is Takeover.PREEMPT:
            return self._why_not_preempt(held.broker, process, rival, now_s)
        if self.takeover is Takeover.STANDBY and process is None and not is_shunters:
            return self._why_not_depose(held.broker, now_s)
        return Prospect(f"broker {held.broker} is the controller", rival=rival)

    def _why_not_preempt(
        self, broker: BrokerId, process: ProcessIdentity | None, rival: ProcessIdentity | None, now_s: float
    ) -> Prospect:
        assert self._first_seen is not None
        left = self._first_seen[1] + self._cool_down - now_s
        if self._first_seen[1] >= 0 and process is not None:
            told = f"broker {broker} became the controller while we watched"
            return Prospect(f"{told}, and is a Shunter, which a standby does not depose", rival=rival)
        if self._first_seen[1] >= 0 and left > 0:
            return Prospect(f"broker {broker} became the controller less than {self._cool_down} s ago", left)
        return Prospect()

    def _why_not_depose(self, broker: BrokerId, now_s: float) -> Prospect:
        """Judge an Apache controller, as a standby of Shunters."""
        if not self._after_shunter:
            return Prospect(f"broker {broker} is the controller, and no Shunter has led since we watch")
        left = 0.0 if self._deposed_s is None else self._deposed_s + self._cool_down - now_s
        if left > 0:
            told = (
                f"broker {broker} became the controller less than {self._cool_down} s after we took the seat from one"
            )
            return Prospect(told, left)
        return Prospect()


def _holder(controller: Znode) -> tuple[ControllerRegistration, ProcessIdentity | None]:
    """Read who holds `/controller`; the process is None if that is no Shunter.

    Raises:
        FormatError: it can't be read.
    """
    return decode_controller(controller.data), decode_process(controller.data, znodes.CONTROLLER)


def _nearby(process: ProcessIdentity) -> ProcessIdentity | None:
    """Return a process that runs on this machine and is another one than this, so that its death can be seen."""
    return process if process != this_process() and is_alive_here(process) else None
