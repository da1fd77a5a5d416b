"""Who may drive a cluster from this host: the host's locked file, looked at and taken before the journal's lease.

A command that is refused must take nothing. Taking the lease of a journal in a topic can't be taken back, because it
fences the former driver. So the locked file comes first, then a look at the cluster's claim, and the lease last.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from shunter.app.executor.journals import JournalPlace
from shunter.app.state_folder import state_folder
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.journal.host_lock import DriverSeat, SeatTaken, StandsStill, StillDriver, standing_still
from shunter.drivers.journal.journals import JournalHeld, LeasedJournal
from shunter.model.notice import Notice

TAKES_IT_OVER = "; or `--take-over-cluster` takes the journal from it"


def standing_in(place: JournalPlace, journal: LeasedJournal) -> StillDriver | None:
    """The process of this host that has the cluster under this journal, but has let its lease run out; None: none."""
    lease, now_ms = journal.lease(), SystemClock().now_ms()
    standing = standing_still(state_folder(), place.seat_name, lease, socket.gethostname(), now_ms)
    return None if standing is None else standing._replace(short=place.shortage())


def refuse_standing(place: JournalPlace, journal: LeasedJournal) -> None:
    """Refuse to take a lease that has run out from a process that stands still.

    Raises:
        StandsStill: there is such a process.
    """
    standing = standing_in(place, journal)
    if standing is not None:
        raise StandsStill(standing)


async def take_seat(
    place: JournalPlace,
    journal: LeasedJournal,
    cluster_id: str,
    listener: Callable[[Notice], None],
    *,
    take_over: bool,
) -> DriverSeat | None:
    """Take the host's seat; None: the process that has it stands still, and `take_over` goes on without the seat.

    That is safe under the journal that this process has: every write and request of its checks the lease.

    Raises:
        JournalHeld: another executor drives the journal.
        StandsStill: the process that has the seat under this journal stands still.
        SeatTaken: a process that has another journal drives the cluster, or one begins or ends.
    """
    holder = await to_its_end(journal.holder, SystemClock().now_ms())
    if holder is not None:
        raise JournalHeld(str(place), holder)
    try:
        return DriverSeat(state_folder(), cluster_id, place.seat_name)
    except SeatTaken as taken:
        standing = await to_its_end(standing_in, place, journal)
        if not take_over or standing is None:
            raise _refusal(place, taken, standing, take_over=take_over) from None
        told = f"{standing}: this command takes the journal from it; if it goes on, it finds that out and ends"
        listener(Notice("stands-still", "", told))
        return None


def _refusal(place: JournalPlace, taken: SeatTaken, standing: StillDriver | None, *, take_over: bool) -> SeatTaken:
    """Make the error for a command that finds the seat taken."""
    if taken.holder is None:
        return taken
    if standing is not None:
        return StandsStill(standing, TAKES_IT_OVER if standing.short is None else "")
    process = taken.holder.process
    if taken.holder.journal != place.seat_name:
        hint = (
            f". --take-over-cluster takes nothing from a process of this host: end it first (kill {process}, or kill -9 "
            f"{process} if it is suspended)"
        )
        return SeatTaken(f"{taken}{hint if take_over else ''}", taken.holder)
    told = (
        f"process {process} has the cluster on this host under journal {place}, but not the journal's lease: it begins, "
        f"ends or stands still. Repeat this in a moment; if that does not help, end it (kill -9 {process})"
    )
    return SeatTaken(told, taken.holder)
