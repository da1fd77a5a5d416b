"""The election of the controller: to stand for it, win it in one multi, notice its loss, and give it back.

The multi creates `/brokers/ids/N` and `/controller` and raises `/controller_epoch`, all or nothing: so no broker can
have this controller's id then. The core removes the registration as soon as no broker needs it. A standby is never
registered, because Apache would place replicas on it. Znodes left by an earlier session of this process, or by a
Shunter process with this id that is provably dead, are removed in the same multi.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum

from shunter.core.controller.events import Elected, SessionExpired
from shunter.drivers.election.candidacy import MENDED_WITHIN_S, MIGRATION_BEGUN, Candidacy, Scene
from shunter.drivers.election.id_note import NOTED_WITHIN_S, IdNote
from shunter.drivers.host.process_identity import is_dead, this_process
from shunter.drivers.zookeeper.client import SessionState, WatchEvent, WatchKind, ZooKeeperClient
from shunter.drivers.zookeeper.requests import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    CheckVersion,
    ConnectionLost,
    Create,
    Operation,
    Put,
    Remove,
    SessionLost,
    Znode,
    ZooKeeperRefused,
)
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import (
    ProcessIdentity,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_controller,
    encode_controller_epoch,
    is_controller_only,
)
from shunter.model.broker import Broker
from shunter.model.settings import Takeover

logger = logging.getLogger(__name__)

OVERTAKEN_WITHIN_S = 2.0
"""How long after a fenced write to wait for the news that another controller was elected."""
UNFIT_FOR_S = 1.0
"""How often the survey is repeated while it finds an obstacle: its result can't be watched."""
SCOUT_EVERY_S = 15.0
"""How often a standby checks whether it could do the work if it were elected."""
FIT_FOR_S = 2.5 * SCOUT_EVERY_S
"""How long such a check that found no obstacle counts: with it no survey delays an election."""
DEATH_SEEN_WITHIN_S = 0.2
"""How often a controller process on this machine is looked at: after its death nothing has to be waited for."""
PAUSE_S = 0.25
PAUSE_AT_MOST_S = 30.0
"""The pause after ZooKeeper's refusal, or a term that the core ended: it doubles from the first to the second."""
LEAP_AT_MOST = 10
"""After each failure (as of `_pause`) the next election raises the epoch by twice as much, up to 2 to this power.

If somebody deleted `/controller_epoch`, brokers refuse every epoch up to the one that they know, which may be in the
thousands. Any epoch that no controller has had serves.
"""
CLOCKS_DIFFER = 0.01
"""By this share of its timeout a session is taken to end early: ZooKeeper's clock may be faster than ours."""
TIMER_S = 0.001
"""A timer may fire a little early."""
SETTLED_AFTER_S = 60.0
"""After a term that lasted this long, pauses begin with the shortest again."""


_LOST_RACE = frozenset({NO_NODE, BAD_VERSION, NODE_EXISTS})
"""ZooKeeper's refusals of an election that another process has won meanwhile."""


class _News(Enum):
    """What is known to have changed since the last look at the znodes."""

    NOTHING = 0
    VACATED = 1
    OTHER = 2


class Election:
    """Stands for the controllership until `resign`. After a loss it stands again, as `takeover` allows."""

    def __init__(
        self,
        client: ZooKeeperClient,
        registration: Broker,
        *,
        takeover: Takeover,
        on_elected: Callable[[Elected], None],
        on_lost: Callable[[SessionExpired], None],
        cool_down_seconds: float = 30.0,
        survey: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """Prepare; nothing happens before `run`.

        Args:
            client: A started client.
            registration: The broker to register as; its epoch is not used.
            takeover: When `/controller` may be taken.
            on_elected: Called at once after an election was won.
            on_lost: Called at once when the controllership is lost, with the reason.
            cool_down_seconds: See `Candidacy`: two preempting candidates must not depose one another for ever.
            survey: Returns why this process could not do a controller's work, or None; called before each election,
                and now and then while another process is the controller.
        """
        self._client = client
        self._registration = registration
        self._path = znodes.broker(registration.id)
        self._candidacy = Candidacy(registration.id, takeover, cool_down_seconds)
        self._process = this_process()
        self._note = IdNote(client, registration.id)
        self._scene: Scene | None = None
        self._news = _News.OTHER
        self._fit_until_s = 0.0
        self._scout_again = asyncio.Event()
        self._on_elected = on_elected
        self._on_lost = on_lost
        self._changed = asyncio.Event()
        self._expired = False
        self._elected: Elected | None = None
        self._czxid = 0
        self._told: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._overtaken = False
        self._survey = survey
        self._scouting: asyncio.Task[None] | None = None
        self._unfit: str | None = None
        self._given_up: str | None = None
        self._failures = 0
        self._not_before_s = 0.0
        self._elected_s = 0.0
        self._refused = False
        self._noted = True
        client.listen(states=self._on_state, watches=self._on_watch)

    @property
    def epoch_version(self) -> int | None:
        """The fence of the current term; None while this process is not the controller."""
        return None if self._elected is None else self._elected.epoch_version

    @property
    def obstacle(self) -> str | None:
        """Why this process is not the controller, in a sentence; None if no obstacle is known."""
        return self._told

    @property
    def refused(self) -> bool:
        """Whether `obstacle` prevents the election of this process though no other process is the controller."""
        return self._refused

    @property
    def unfit(self) -> str | None:
        """Why this standby could not do a controller's work if it were elected now; None if no reason is known."""
        return self._unfit if self._elected is None else None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """The task of the election, and the task that surveys meanwhile; neither ends by itself."""
        return tuple(task for task in (self._task, self._scouting) if task is not None)

    def survey_again(self) -> None:
        """Survey the brokers at once: what kept this process from leading may be over."""
        self._fit_until_s = 0.0
        self._scout_again.set()
        self._changed.set()

    def fenced(self) -> None:
        """Note that a write met another controller epoch. If no other controller shows up soon, none was elected.

        Then somebody has written the epoch by hand: `/controller` still belongs to this session, but its writes fail.
        """
        if self._elected is not None:
            asyncio.get_running_loop().call_later(OVERTAKEN_WITHIN_S, self._stand_anew, self._elected)

    def _stand_anew(self, term: Elected) -> None:
        if self._elected is term:
            self._overtaken = True
            self._changed.set()

    def give_back(self, controller_epoch: int, reason: str) -> None:
        """Give up the term of this epoch, because the core has resigned: other candidates must not have to wait.

        Nothing happens if that term is over already. This process stands again after a pause; others may be first.
        """
        if self._elected is not None and self._elected.controller_epoch == controller_epoch:
            self._given_up = reason
            self._fit_until_s = 0.0  # The reason may be that no broker can be reached.
            self._changed.set()

    def start(self) -> None:
        """Start the tasks."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self.run(), name="election")
        if self._survey is not None:
            self._scouting = loop.create_task(self._scout(self._survey), name="scout")

    async def _scout(self, survey: Callable[[], Awaitable[str | None]]) -> None:
        """While another process is the controller, log early that this one could not take over.

        It is a separate task because asking slow brokers takes seconds, and an election must not wait for that.
        """
        while True:
            self._scout_again.clear()
            await self._client.wait_connected()
            if self._elected is None:
                with contextlib.suppress(ConnectionLost, SessionLost, ZooKeeperRefused):
                    self._found_unfit(await survey())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SCOUT_EVERY_S):
                    await self._scout_again.wait()

    def _found_unfit(self, unfit: str | None) -> None:
        self._fit_until_s = _monotonic_seconds() + FIT_FOR_S if unfit is None else 0.0
        if unfit is not None and unfit != self._unfit and self._elected is None:
            logger.warning("could not take over: %s", unfit)
        self._unfit = unfit

    async def resign(self) -> None:
        """Stop standing. If this process is the controller, give that up at once."""
        for task in self.tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._task = self._scouting = None
        if self._elected is None:
            return
        self._lose("resigned")
        try:
            await self._vacate()
        except (ConnectionLost, SessionLost, ZooKeeperRefused) as refusal:
            logger.info("resigning left it to the end of the session: %s", refusal)

    async def run(self) -> None:
        """Stand, hold, and stand again, for ever."""
        while True:
            try:
                await self._stand()
                self._lose(await self._hold())
                if self._given_up is not None:
                    self._pause(f"we gave the controllership back: {self._given_up}")
                    self._given_up = None
                    await self._vacate()
            except SessionLost:
                self._lose("the ZooKeeper session expired")
                await self._client.wait_connected()
            except ZooKeeperRefused as refusal:
                self._lose(str(refusal))
                self._pause(str(refusal))
                with contextlib.suppress(SessionLost, ZooKeeperRefused):
                    await self._vacate()
                await asyncio.sleep(self._not_before_s - _monotonic_seconds())

    def _pause(self, why: str) -> None:
        """Stand again after a pause, which is longer each time. Another candidate may be elected meanwhile."""
        pause = min(PAUSE_AT_MOST_S, PAUSE_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._not_before_s = _monotonic_seconds() + pause
        self._refused = True
        self._say(why)

    def _say(self, obstacle: str) -> None:
        if obstacle != self._told:
            logger.info("standing by: %s", obstacle)
            self._told = obstacle

    async def _vacate(self) -> None:
        """Remove `/controller` and the registration if this session still owns them; the epoch's version is checked."""
        paths = (znodes.CONTROLLER_EPOCH, znodes.CONTROLLER, self._path)
        (epoch, controller, registration), _ = await self._client.get_many(paths)
        ours = [
            Remove(path, znode.version)
            for path, znode in ((znodes.CONTROLLER, controller), (self._path, registration))
            if znode is not None and znode.owner == self._client.session_id
        ]
        if epoch is None or not ours:
            return
        with contextlib.suppress(ConnectionLost):  # The next `_look` finds the znodes that are left, with this owner.
            await self._client.multi((CheckVersion(znodes.CONTROLLER_EPOCH, epoch.version), *ours))

    async def _stand(self) -> None:
        """Wait for a chance, and take it. Return when this process is the controller."""
        while self._elected is None:
            self._changed.clear()
            await self._client.wait_connected()
            scene = self._vacated_scene() or await self._look()
            obstacle, again_in, rival = self._candidacy.judge(scene, self._client.session_id, _monotonic_seconds())
            left = self._not_before_s - _monotonic_seconds()
            if obstacle is None and left <= 0:
                unfit = await self._why_unfit()
                self._unfit = unfit
                if unfit is None:
                    await self._take(scene)
                    continue
                self._refused = True
                self._say(unfit)
                left = UNFIT_FOR_S
            if obstacle is None:
                again_in = left
            else:
                self._refused = False
                self._say(obstacle)
            ours = scene.registration is not None and scene.registration.owner == self._client.session_id
            if ours and scene.registration is not None and not await self._deregister(scene.registration):
                again_in = MENDED_WITHIN_S if again_in is None else min(again_in, MENDED_WITHIN_S)
            if self._elected is None:
                await self._note.look()
            await self._wait(again_in, rival)

    async def _why_unfit(self) -> str | None:
        """Survey the brokers, unless that was done a moment ago: it takes time, in which a broker would be elected."""
        if self._survey is None or _monotonic_seconds() < self._fit_until_s:
            return None
        return await self._survey()

    async def _wait(self, seconds: float | None, rival: ProcessIdentity | None) -> None:
        """Wait for a change, for so long, or until a process on this machine has died."""
        # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes together with the event, and a candidate
        # that resigned would stand again.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while rival is not None and not self._changed.is_set() and not is_dead(rival):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(DEATH_SEEN_WITHIN_S):
                            await self._changed.wait()
                if rival is None:
                    await self._changed.wait()

    async def _look(self) -> Scene:
        """Watch and read the znodes that decide, in one round trip: brokers stand at the same time."""
        self._news = _News.NOTHING
        watched = (znodes.CONTROLLER, self._path, znodes.MIGRATION)
        # The epoch is read first: if another process is elected meanwhile, the multi fails on the epoch's version.
        paths = (znodes.CONTROLLER_EPOCH, *watched)
        arming = asyncio.gather(*(self._client.exists(path, watch=True) for path in watched))
        armed, ((epoch, *found), _) = await asyncio.gather(arming, self._client.get_many(paths))
        if epoch is None:
            await self._client.create_if_absent(znodes.CONTROLLER_EPOCH, encode_controller_epoch(0))
            return await self._look()
        if [_stamp(znode) for znode in armed] != [_stamp(znode) for znode in found]:
            return await self._look()  # Something changed between a watch and the read.
        controller, registration, migration = found
        is_shunters = controller is not None and await self._is_of_a_shunter(controller)
        self._scene = Scene(controller, registration, epoch, migration, is_shunters)
        self._candidacy.look_at(self._scene, _monotonic_seconds())
        return self._scene

    async def _is_of_a_shunter(self, controller: Znode) -> bool:
        """Whether the controller's id is durably one of Shunter's, and no broker's; looked up for `standby` only.

        A Shunter on a system without `/proc` can't tell its process in `/controller`.
        """
        if self._candidacy.takeover is not Takeover.STANDBY:
            return False
        try:
            id_ = decode_controller(controller.data).broker
            (noted, broker), _ = await self._client.get_many((znodes.controller_id(id_), znodes.broker(id_)))
            return noted is not None and (broker is None or is_controller_only(broker.data, znodes.broker(id_)))
        except FormatError:
            return False

    def _vacated_scene(self) -> Scene | None:
        """Return the scene after the controller that was seen last has gone, if nothing else has changed since.

        Then nothing has to be read before the election, which a broker would win meanwhile. The multi fails if the
        epoch is another one.
        """
        scene, news = self._scene, self._news
        self._scene, self._news = None, _News.NOTHING
        if scene is None or news is not _News.VACATED or scene.controller is None:
            return None
        return scene._replace(controller=None, registration=None if scene.of_one_session else scene.registration)

    async def _take(self, scene: Scene) -> None:
        """Try to win. After a lost connection the next look finds this session's znodes, and replaces them."""
        now_ms = time.time_ns() // 1_000_000
        epoch = decode_controller_epoch(scene.epoch.data) + (1 << min(self._failures, LEAP_AT_MOST))
        operations: list[Operation] = [
            Put(znodes.CONTROLLER_EPOCH, encode_controller_epoch(epoch), scene.epoch.version)
        ]
        if scene.controller is not None:
            operations.append(Remove(znodes.CONTROLLER, scene.controller.version))
        if scene.registration is not None:
            operations.append(Remove(self._path, scene.registration.version))
        registration = encode_broker(
            self._registration, timestamp_ms=now_ms, process=self._process, controller_only=True
        )
        operations.append(Create(self._path, registration, ephemeral=True))
        controller = encode_controller(self._registration.id, timestamp_ms=now_ms, process=self._process)
        operations.append(Create(znodes.CONTROLLER, controller, ephemeral=True))
        try:
            committed, noted = await self._note.win(operations)
        except ConnectionLost as lost:
            logger.info("the controllership was not won: %s", lost)
            return
        except ZooKeeperRefused as refusal:
            if refusal.code in _LOST_RACE and not self._failures:
                logger.info("the controllership was not won: %s", refusal)
                self._failures = 1  # The next look shows which process was faster.
            else:
                self._pause(f"nobody is the controller, and our election is refused: {refusal}")
            return
        self._elected_s = _monotonic_seconds()
        self._candidacy.won(scene, self._elected_s)
        self._given_up = None
        self._refused = False
        self._czxid = committed.zxid
        self._expired = False
        self._overtaken = False
        self._told = None
        self._elected = Elected(epoch, committed.versions[0], self._registration._replace(epoch=committed.zxid))
        logger.info("elected: controller epoch %d", epoch)
        self._noted = noted
        self._on_elected(self._elected)
        # Not at once: if the answer came so late that the session may be over, the news of the election comes first.
        asyncio.get_running_loop().call_soon(self._watch_the_session)
        if not noted:
            self._noted = await self._write_the_note(self._elected)

    async def _hold(self) -> str:
        """Wait until this process is no longer the controller; return why."""
        while True:
            self._changed.clear()
            if self._expired:
                return "the ZooKeeper session expired"
            znode = await self._client.exists(znodes.CONTROLLER, watch=True)
            if self._expired:
                return "the ZooKeeper session expired"
            if znode is None:
                return f"somebody deleted {znodes.CONTROLLER}"
            if znode.czxid != self._czxid or znode.owner != self._client.session_id:
                return f"somebody else took {znodes.CONTROLLER}"
            if self._given_up is not None:
                return self._given_up
            if self._overtaken:
                return f"somebody wrote {znodes.CONTROLLER_EPOCH}"
            left = await self._why_leave()
            if left is not None:
                self._given_up = left
                return left
            await self._wait_for_a_change()

    async def _wait_for_a_change(self) -> None:
        """Wait until something may have changed. Until this id is noted, try to write the note meanwhile."""
        while self._elected is not None and not self._noted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NOTED_WITHIN_S):
                    await self._changed.wait()
            if self._changed.is_set():
                return
            self._noted = await self._write_the_note(self._elected)
        await self._changed.wait()

    async def _write_the_note(self, term: Elected) -> bool:
        return await self._note.write(term.epoch_version, lambda: self._elected is term)

    async def _why_leave(self) -> str | None:
        """Return why this process must give the controllership up though it still has it; None if it may keep it."""
        if await self._client.exists(znodes.MIGRATION, watch=True) is not None:
            return MIGRATION_BEGUN
        registration = await self._client.exists(self._path, watch=True)
        if registration is not None and registration.owner != self._client.session_id:
            return f"a broker has registered itself with our broker id {self._registration.id}: give one another id"
        return None

    async def _deregister(self, registration: Znode) -> bool:
        """Remove the registration, because a standby must not have one; return whether that was done."""
        try:
            await self._client.multi((Remove(self._path, registration.version),))
        except (ConnectionLost, ZooKeeperRefused) as refusal:
            logger.info("%s of a standby stays for now: %s", self._path, refusal)
            return False
        return True

    def _lose(self, reason: str) -> None:
        if self._elected is None:
            return  # `_watch_the_session` was faster than ZooKeeper's news.
        self._elected = None
        self._candidacy.lost()
        if _monotonic_seconds() - self._elected_s > SETTLED_AFTER_S:
            self._failures = 0
        logger.warning("not the controller any more: %s", reason)
        self._on_lost(SessionExpired(reason))

    def _on_state(self, state: SessionState) -> None:
        self._news = _News.OTHER
        if state is SessionState.EXPIRED:
            self._expired = True
            self._note.forget()
        self._changed.set()

    def _watch_the_session(self) -> None:
        """Give up when ZooKeeper may have ended the session: while it can't be reached, it can't report that.

        It is counted from ZooKeeper's last answer. kazoo notices a silence later, by two thirds of the timeout.
        """
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._elected is None:
            return
        timeout_s = self._client.session_timeout_s
        left_s = self._client.session_ends_s - CLOCKS_DIFFER * timeout_s - _monotonic_seconds()
        if left_s > TIMER_S:
            self._patience = asyncio.get_running_loop().call_later(left_s, self._watch_the_session)
            return
        self._expired = True
        self._lose(f"ZooKeeper has not answered for {timeout_s:g} s, and our session lasts no longer")
        self._changed.set()

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path == self._note.path:
            self._note.forget()
        if event.path not in {znodes.CONTROLLER, self._path, znodes.MIGRATION}:
            return
        if event.kind is not WatchKind.DELETED or event.path == znodes.MIGRATION:
            self._news = _News.OTHER
        elif event.path == self._path and not (self._scene is not None and self._scene.of_one_session):
            # It did not go with the controller. By the last look it would be there for ever: its watch has fired.
            self._news = _News.OTHER
        elif event.path == znodes.CONTROLLER and self._news is _News.NOTHING:
            self._news = _News.VACATED
        self._changed.set()


def _stamp(znode: Znode | None) -> tuple[int, int] | None:
    return None if znode is None else (znode.czxid, znode.version)


def _monotonic_seconds() -> float:
    """Return the event loop's time, which a simulation can replace."""
    return asyncio.get_running_loop().time()
