"""`shunter hand-back`: give a cluster back to Apache's controller, with nothing left that only Shunter could end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shunter.app.access.private_files import replace_file
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.app.executor.reassign_session import ReassignSession
from shunter.core.reassignment import LeftMove, told_moves
from shunter.core.wording import named
from shunter.drivers.zookeeper.leadership_view import ControllerHolder, LeadershipView, LeftBehind, end_here
from shunter.errors import DriverError, RequestRejected, SettingsError
from shunter.formats.reassignment_json import encode_plan
from shunter.formats.znodes import paths as znodes
from shunter.model.execution import MoveOrder
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
        plan: if Shunter does not lead, moves that it has left are written into this file, as a plan.

    Raises:
        SettingsError: that file can't be used.
    """

    def __init__(
        self,
        zookeeper: str,
        show: Callable[[str], None],
        timeout_s: float,
        zookeeper_config: Path | None = None,
        plan: Path | None = None,
    ) -> None:
        self._zookeeper = zookeeper
        self._access = zookeeper_access(None, zookeeper_config)
        self._show = show
        self._timeout_s = timeout_s
        self._plan = plan

    def run(self, bootstrap: str, properties: Path | None, ending: str) -> int:
        """Hand the cluster back.

        Returns:
            The exit status: 0 another controller leads and nothing is left; 1 it was not done, or not completely, in
                time.

        Raises:
            DriverError, FormatError, SettingsError: the cluster can't be reached or read, or the plan not written.
        """
        view = LeadershipView(self._zookeeper, self._access)
        try:
            return self._run(view, bootstrap, properties, ending)
        finally:
            view.close()

    def _run(self, view: LeadershipView, bootstrap: str, properties: Path | None, ending: str) -> int:
        holder = view.holder()
        if holder is None or not holder.shunter:
            return self._look_behind(view, holder, bootstrap, properties)
        self._end_moves(bootstrap, properties, ending)
        if not self._await(
            "moves have ended",
            lambda: not view.left() or _led_by_another(view) is not None,
            lambda: _told(view.left(), _way_out),
        ):
            self._show("Shunter goes on leading: nothing was handed back. See `shunter status`")
            return 1
        other = _led_by_another(view)
        if other is not None:  # For example because a migration to KRaft has begun meanwhile.
            return self._look_behind(view, other, bootstrap, properties)
        self._show("no move is under way, and no broker owes anything")
        before = view.under_replicated()
        if not self._await_resigned(view, holder):
            return 1
        taken = view.holder()
        self._show(f"{'broker ?' if taken is None else taken} is the controller now")
        worse = "partitions are under-replicated that were not before"
        if not self._await(
            "all replicas are in sync again",
            lambda: view.under_replicated() <= before,
            lambda: f"{worse}: {', '.join(sorted(view.under_replicated() - before)[:3])}",
        ):
            return 1
        still = f"; {named(sorted(before))} were under-replicated before, and may still be" if before else ""
        self._show(f"nothing is under-replicated because of it{still}")
        self._tell_throttles(view, bootstrap, properties)
        return 0 if self._is_still_apaches(view) else 1

    def _look_behind(
        self, view: LeadershipView, holder: ControllerHolder | None, bootstrap: str, properties: Path | None
    ) -> int:
        """Shunter does not lead: say what it has left, such as moves that it could not end before a migration began."""
        who = "no process is the controller" if holder is None else f"{holder} is the controller, not Shunter"
        left = view.left_behind(kraft=holder is not None and holder.kraft)
        is_left = bool(left.moves or left.others)
        found = "but Shunter has left work that is not done" if is_left else "there is nothing to hand back"
        self._show(f"{who}{';' if is_left else ':'} {found}")
        self._tell_left(left, _reaching(bootstrap, properties))
        self._tell_throttles(view, bootstrap, properties)
        return 0 if holder is not None and not is_left else 1

    def _tell_left(self, left: LeftBehind, reaching: str) -> None:
        if left.moves:
            self._show(told_moves(left.moves))
            self._maybe_write_plan([move for move in left.moves if move.is_short], reaching)
        if left.others:
            self._show(f"left in ZooKeeper: {_told(left.others, _way_out_without_shunter)}")
        if left.over:
            self._show(
                f"records of moves that are over, in {znodes.REASSIGNMENTS}: {left.over}. No other controller reads them,"
                " and the next Shunter removes them"
            )

    def _maybe_write_plan(self, short: Sequence[LeftMove], reaching: str) -> None:
        """Write the moves that stop short of their targets as a plan, or say how to get it."""
        if not short:
            return
        if self._plan is None:
            self._show(
                "to end them at their targets, let Shunter lead again, or repeat this with --plan FILE for a plan"
            )
            return
        orders = (MoveOrder(move.tp, move.wanted) for move in short)
        replace_file(self._plan, f"{encode_plan(orders)}\n".encode())
        self._show(
            f"{self._plan} has their targets: when `shunter list {reaching}` shows no move,"
            f" run `shunter execute {self._plan} {reaching}`, or Apache's kafka-reassign-partitions with this file"
        )

    def _tell_throttles(self, view: LeadershipView, bootstrap: str, properties: Path | None) -> None:
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
            clear = f"shunter throttles clear {_reaching(bootstrap, properties)}"
            self._show(f"{told} are still set; `{clear}` removes them")

    def _is_still_apaches(self, view: LeadershipView) -> bool:
        """Whether no standby has taken the controllership back meanwhile."""
        holder = view.holder()
        if holder is None or not holder.shunter:
            return True
        self._show(
            f"a standby, with broker id {holder.broker}, has taken the controllership back: stop it, and repeat this"
        )
        return False

    def _end_moves(self, bootstrap: str, properties: Path | None, ending: str) -> None:
        """End moves as `ending` says; ask the brokers in any case.

        So a wrong address or password is found before the controller is ended. Whether these brokers show Shunter as
        their controller matters only where Shunter is asked: it may have no listener of the name that clients use.

        Raises:
            DriverError, FormatError, SettingsError: the brokers can't be reached, or are another cluster's.
        """
        mode = ENDINGS[ending]
        with ReassignSession(bootstrap, properties) as session:
            session.cluster.nodes()
            if mode is None:
                return
            if not session.is_shunters():
                raise SettingsError(
                    f"--bootstrap-server {bootstrap}: the controller of these brokers is not Shunter's, but Shunter leads"
                    f" the cluster of --zookeeper {self._zookeeper}. Name brokers of that cluster; if they are, they have"
                    " not heard of their controller yet: repeat this"
                )
            if not session.moves():
                return
            refused = {tp: why for tp, why in session.turn(mode, None).items() if why is not None}
        for tp, why in sorted(refused.items()):
            self._show(f"{tp}: {ending} was refused: {why}")

    def _await_resigned(self, view: LeadershipView, holder: ControllerHolder) -> bool:
        if holder.process is not None and end_here(holder.process):
            self._show(f"told the controller, process {holder.process.pid}, to give the controllership back")
        else:
            who = "" if holder.process is None else f", process {holder.process.pid},"
            self._show(f"stop the controller{who} on its machine now: it is not on this one")
        return self._await(
            "an Apache broker is the controller",
            lambda: _led_by_another(view) is not None,
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


def _led_by_another(view: LeadershipView) -> ControllerHolder | None:
    """The controller, if there is one that is no Shunter."""
    holder = view.holder()
    return None if holder is None or holder.shunter else holder


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


def _reaching(bootstrap: str, properties: Path | None) -> str:
    """The flags by which another command reaches the same cluster."""
    return f"--bootstrap-server {bootstrap}" + ("" if properties is None else f" --command-config {properties}")


def _told(left: Sequence[str], way_out: Callable[[str], str]) -> str:
    """The first three znodes that are left, each with what ends it."""
    shown = "; ".join(f"{path} ({way_out(path)})" for path in left[:3])
    return f"{shown}; and {len(left) - 3} more" if len(left) > 3 else shown


def _way_out_without_shunter(path: str) -> str:
    """What ends the work of a znode while Shunter does not lead."""
    folder, _, name = path.rpartition("/")
    if folder.startswith(f"{znodes.REASSIGNMENTS}/"):
        tp = f"{folder.rpartition('/')[2]}-{name}"
        return f"replicas that left {tp} may not be deleted yet, or it can't be read: let Shunter lead once more"
    if path == znodes.LEGACY_REASSIGNMENTS:
        return (
            "an Apache broker that leads carries it out: wait for that; a KRaft controller does not read it: delete it"
        )
    if folder == znodes.REASSIGNMENT_REQUESTS or path == znodes.EXTRA_REASSIGNMENTS:
        return "only Shunter reads it: let Shunter lead, or delete it and execute its plan in another way"
    if folder == znodes.OWED_DELETIONS:
        return (
            f"broker {name} was dead when replicas left it, and only Shunter has it delete them: let Shunter lead once"
            " more, or delete them from its log dirs by hand and then this znode"
        )
    if folder == znodes.OWED_REPLICAS:
        return f"topic {name} lacks a replica, which only Shunter gives it: assign one yourself, and delete this znode"
    return _way_out(path)


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


def _who(holder: ControllerHolder | None) -> str:
    if holder is None:
        return "no controller"
    return f"another Shunter, with broker id {holder.broker}: stop it, too" if holder.shunter else "a broker"
