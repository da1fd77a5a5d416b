"""`shunter hand-back`: give a cluster back to Apache's controller, with nothing left that only Shunter could end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shunter.app.reassign.session import ReassignSession
from shunter.app.zookeeper_security import zookeeper_access
from shunter.core.doers import Doer, Ground, asked_for
from shunter.core.wording import named
from shunter.drivers.seat_view import SeatHolder, SeatView, end_here
from shunter.errors import DriverError, RequestRejected
from shunter.formats import znodes
from shunter.model.reassignment import Intervention

ENDINGS = {"finish": None, "stop": Intervention.STOP, "rollback": Intervention.ROLL_BACK}
"""How moves under way end, by the value of `--moves`."""
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 15.0


class HandBack:
    """One hand-over, from Shunter to an Apache broker.

    Args:
        zookeeper: HOST:PORT[,…][/CHROOT].
        show: takes lines for people.
        timeout_s: bound of each step that waits.
        zookeeper_config: file of zookeeper.… properties for TLS and logins.

    Raises:
        SettingsError: that file can't be used.
    """

    def __init__(
        self, zookeeper: str, show: Callable[[str], None], timeout_s: float, zookeeper_config: Path | None = None
    ) -> None:
        self._zookeeper = zookeeper
        self._access = zookeeper_access(None, zookeeper_config)
        self._show = show
        self._timeout_s = timeout_s

    def run(self, bootstrap: str, properties: Path | None, ending: str) -> int:
        """Hand the cluster back.

        Returns:
            The exit status: 0 an Apache broker leads and nothing is left; 1 it was not done, or not completely, in
                time.

        Raises:
            DriverError, FormatError, SettingsError: the cluster can't be reached or read.
        """
        view = SeatView(self._zookeeper, self._access)
        try:
            return self._run(view, bootstrap, properties, ending)
        finally:
            view.close()

    def _run(self, view: SeatView, bootstrap: str, properties: Path | None, ending: str) -> int:
        holder = view.holder()
        if holder is None or not holder.shunter:
            who = "no process" if holder is None else f"broker {holder.broker}"
            self._show(f"{who} is the controller, not Shunter: there is nothing to hand back")
            return 0 if holder is not None else 1
        self._end_moves(bootstrap, properties, ending)
        if not self._await("moves have ended", lambda: not view.left(), lambda: _told(view.left())):
            self._show("Shunter goes on leading: nothing was handed back. See `shunter status`")
            return 1
        self._show("no move is under way, and no broker owes anything")
        before = view.under_replicated()
        if not self._await_resigned(view, holder):
            return 1
        taken = view.holder()
        self._show(f"broker {taken.broker if taken is not None else '?'} is the controller now")
        worse = "partitions are under-replicated that were not before"
        if not self._await(
            "all replicas are in sync again",
            lambda: view.under_replicated() <= before,
            lambda: f"{worse}: {', '.join(sorted(view.under_replicated() - before)[:3])}",
        ):
            return 1
        still = f"; {named(sorted(before))} were under-replicated before, and may still be" if before else ""
        self._show(f"nothing is under-replicated because of it{still}")
        self._tell_throttles(view, bootstrap)
        return 0 if self._is_still_apaches(view) else 1

    def _tell_throttles(self, view: SeatView, bootstrap: str) -> None:
        """Say which throttles are still set: nothing removes them by itself, and Apache's controller goes by them."""
        try:
            brokers, topics = view.throttled()
        except DriverError as refused:
            self._show(f"whether throttles are still set is not known: {refused}")
            return
        if brokers or topics:
            rates = f"throttle rates on {_brokers(brokers)}" if brokers else ""
            lists = f"lists of throttled replicas on {_some(topics, 'topic')}" if topics else ""
            told = " and ".join(each for each in (rates, lists) if each)
            self._show(f"{told} are still set; `shunter throttles clear --bootstrap-server {bootstrap}` removes them")

    def _is_still_apaches(self, view: SeatView) -> bool:
        """Whether no standby has taken the seat back meanwhile."""
        holder = view.holder()
        if holder is None or not holder.shunter:
            return True
        self._show(
            f"a standby, with broker id {holder.broker}, has taken the controllership back: stop it, and repeat this"
        )
        return False

    def _end_moves(self, bootstrap: str, properties: Path | None, ending: str) -> None:
        mode = ENDINGS[ending]
        if mode is None:
            return
        with ReassignSession(bootstrap, properties) as session:
            asked_for(Ground(shunters=session.is_shunters()), Doer.CONTROLLER)
            if not session.rows():
                return
            refused = {tp: why for tp, why in session.turn(mode, None, None).items() if why is not None}
        for tp, why in sorted(refused.items()):
            self._show(f"{tp}: {ending} was refused: {why}")

    def _await_resigned(self, view: SeatView, holder: SeatHolder) -> bool:
        if holder.process is not None and end_here(holder.process):
            self._show(f"told the controller, process {holder.process.pid}, to give the controllership back")
        else:
            who = "" if holder.process is None else f", process {holder.process.pid},"
            self._show(f"stop the controller{who} on its machine now: it is not on this one")
        return self._await(
            "an Apache broker is the controller",
            lambda: (now := view.holder()) is not None and not now.shunter,
            lambda: _who(view.holder()),
        )

    def _await(self, what: str, holds: Callable[[], bool], why_not: Callable[[], str]) -> bool:
        """Wait until something holds, and report every `_TELL_SECONDS` what it waits for."""
        started = told = time.monotonic()
        while not _tried(holds):
            now = time.monotonic()
            if now - started >= self._timeout_s:
                self._show(f"not within {self._timeout_s:g} s: {what}; {_reason(why_not)}")
                return False
            if now - told >= _TELL_SECONDS:
                told = now
                self._show(f"waiting until {what}: {_reason(why_not)}")
            time.sleep(_LOOK_SECONDS)
        return True


def _tried(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except (DriverError, RequestRejected):
        return False


def _reason(why_not: Callable[[], str]) -> str:
    """Why something does not hold yet. If ZooKeeper does not answer or refuses the read, that is the reason."""
    try:
        return f"there is {why_not()}"
    except (DriverError, RequestRejected) as error:
        return str(error)


def _told(left: Sequence[str]) -> str:
    """The first three znodes that are left, each with what ends it if waiting does not."""
    shown = "; ".join(f"{path} ({_way_out(path)})" for path in left[:3])
    return f"{shown}; and {len(left) - 3} more" if len(left) > 3 else shown


def _way_out(path: str) -> str:
    folder, _, name = path.rpartition("/")
    if path == znodes.CANCEL:
        return "the tool that created it has to remove it: nothing moves while it exists"
    if folder == znodes.OWED_DELETIONS:
        return f"broker {name} was dead when replicas left it: start it, or delete this znode if it never comes back"
    if folder == znodes.OWED_REPLICAS:
        return f"topic {name} lacks a replica: start a broker that has no replica of it, or assign other brokers to it"
    return "see `shunter status` for what it waits for; --moves stop or --moves rollback ends it"


def _brokers(names: Sequence[str]) -> str:
    """Brokers by id; the configuration called `<default>` is that of all brokers."""
    return _some(["all" if name == "<default>" else name for name in names], "broker")


def _some(names: Sequence[str], what: str) -> str:
    return f"{what}{'' if len(names) == 1 else 's'} {named(sorted(names))}"


def _who(holder: SeatHolder | None) -> str:
    if holder is None:
        return "no controller"
    return f"another Shunter, with broker id {holder.broker}: stop it, too" if holder.shunter else "a broker"
