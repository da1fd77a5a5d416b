"""How an execution shows itself: bars on a terminal, plain lines elsewhere, JSON lines where asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from time import localtime, monotonic, strftime
from types import TracebackType
from typing import Any, Protocol, Self

import click
import orjson

from shunter.core.wording import counted, told_brokers, told_bytes, told_ms
from shunter.model.notice import Notice
from shunter.views.execution import OLD_MS, OPEN_STATES, ExecutionView, MoveRow, told_eta, view_to_json

SHOWN_MOVES = 12
PLAIN_EVERY_MS = 5_000


SAID_AGAIN_MS = 60_000
"""The same notice is not printed again within this time."""
HELD_EVERY_MS = 60_000
"""What holds moves up is said again after this time, then after twice as long each time; in between it is counted."""
HELD_AT_MOST_MS = 3_600_000
NAME_WIDTH = 48


class Display(Protocol):
    """Shows views and notices as they come."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def view(self, view: ExecutionView) -> None:
        """Show how things stand."""
        ...

    def notice(self, notice: Notice) -> None:
        """Show a notice."""
        ...

    def quiet(self) -> None:
        """Stop drawing."""
        ...

    def quieted(self) -> AbstractContextManager[None]:
        """A context that leaves the terminal to a question: no view is shown while it is open."""
        ...


def sentence(notice: Notice) -> str:
    """A notice for people. Its subject is put before it, unless the text names the subject itself."""
    about = "" if notice.kind == "admin-failed" else notice.about
    return notice.text if about in notice.text else f"{about}: {notice.text}"


class QuietDisplay:
    """Base of displays: a question silences them, and no notice is repeated at once."""

    asking = False
    """A question is on the terminal."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        """Notices that were shown, and when each was last shown (seconds, monotonic)."""

    def is_news(self, told: str) -> bool:
        """Whether this notice was not shown within the last minute: a failure every second is shown once a minute."""
        now_s = monotonic()
        if now_s - self._said.get(told, -1e9) < SAID_AGAIN_MS / 1000:
            return False
        self._said[told] = now_s
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to release."""

    def quiet(self) -> None:
        """Do nothing: nothing is drawn."""

    @contextmanager
    def quieted(self) -> Iterator[None]:
        """Show no view while this is open."""
        self.quiet()
        self.asking = True
        try:
            yield
        finally:
            self.asking = False


class JsonLines(QuietDisplay):
    """One JSON object a line: `{"event": "progress" | "notice", ...}`."""

    idle = False

    def view(self, view: ExecutionView) -> None:
        """Print a line of progress; while the executor is idle, one line only."""
        if self.idle and not view.running:
            return
        self.idle = not view.running
        say_json({"event": "progress", **view_to_json(view, most_moves=SHOWN_MOVES)})

    def notice(self, notice: Notice) -> None:
        """A line for a notice."""
        say_json({"event": "notice", "kind": notice.kind, "about": notice.about, "text": notice.text})


class PlainLines(QuietDisplay):
    """A line every few seconds, and one whenever the counts change."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[int, dict[str, int]] = (0, {})
        self._held = ""
        self._held_again_ms = 0
        self._held_every_ms = HELD_EVERY_MS

    def view(self, view: ExecutionView) -> None:
        """Print a line of progress if one is due."""
        at_ms, counts = self._last
        due_ms = at_ms + PLAIN_EVERY_MS
        if self.asking or not view.counts or (counts == view.counts and (view.at_ms < due_ms or not view.running)):
            return
        self._last = (view.at_ms, dict(view.counts))
        click.echo(f"{clock_time()} {told_view(self._shortly(view))}")

    def _shortly(self, view: ExecutionView) -> ExecutionView:
        """The view with what holds moves up in full if that is new, or is due again; otherwise only counted."""
        if view.held != self._held:
            self._held, self._held_every_ms = view.held, HELD_EVERY_MS
        elif view.at_ms < self._held_again_ms:
            stuck = sum(bool(row.stuck) for row in view.moves)
            return replace(view, held=f"held up as before: {counted(stuck, 'move')} stuck") if stuck else view
        else:
            self._held_every_ms = min(HELD_AT_MOST_MS, 2 * self._held_every_ms)
        self._held_again_ms = view.at_ms + self._held_every_ms
        return view

    def notice(self, notice: Notice) -> None:
        """A line for a notice."""
        told = sentence(notice)
        if self.is_news(told):
            click.echo(f"{clock_time()} {told}")


def shortened(name: str, width: int = NAME_WIDTH) -> str:
    """A long name, cut in the middle: its beginning and its number distinguish it from others."""
    if len(name) <= width:
        return name
    behind = (width - 1) // 2
    return f"{name[: width - 1 - behind]}…{name[-behind:]}"


def clock_time() -> str:
    """The local time, with which lines begin."""
    return strftime("%H:%M:%S")


def told_view(view: ExecutionView) -> str:
    """One line: how much is done, how fast, when it ends."""
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(view.counts.items()))
    added = f" ({told_bytes(view.added_bytes)} of it by plans that joined)" if view.added_bytes else ""
    left, base = view.to_copy
    copied = f"{told_bytes(left)} left of {told_bytes(base)}{added}" if base else "nothing to copy"
    given_up = base - view.total_bytes
    copied += f", {told_bytes(given_up)} of that no longer wanted" if base and given_up > 0 else ""
    copied += f", and {counted(view.unsized, 'move')} of unknown size" if view.unsized else ""
    parts = [f"{view.share:.1%}", counts, copied] if view.running else [counts]
    if view.age_ms >= OLD_MS:
        at = strftime("%H:%M:%S", localtime((view.at_ms - view.age_ms) / 1000))
        parts.insert(0, f"as of {at} ({told_ms(view.age_ms)} ago)")
    if view.running and any(view.counts.get(state) for state in OPEN_STATES):
        parts.append(told_eta(view))
    elif view.running and view.held:
        parts.append(view.held)  # What the end waits for.
    waiting = Counter(row.waits for row in view.moves if row.state in OPEN_STATES and row.waits.startswith("waits"))
    for told, count in waiting.most_common(1):
        if not view.held:
            parts.append(_told_waiting(count, told))
    if view.limit is not None and view.running:
        parts.append(f"limit {told_bytes(view.limit)}/s")
    if view.lower and view.running:
        parts.append(f"somebody else's throttle holds {view.lower}")
    if view.silent_ms:
        parts.append(f"the cluster has not answered for {told_ms(view.silent_ms)}")
    if view.brokers_down:
        parts.append(f"down: {told_brokers(view.brokers_down)}")
    return " · ".join(parts)


def told_move(row: MoveRow) -> str:
    """One line about a move, and a second one if it can't end."""
    state = row.state.replace("_", " ")
    goal = row.original if row.direction == "back" else row.target
    told = f"{row.partition} {list(row.current)} → {list(goal)} ({row.direction}, {state})"
    told = f"{told}: {row.waits}" if row.waits else told
    return f"{told}\n    {row.stuck}" if row.stuck else told


def told_others(rows: Sequence[MoveRow]) -> str:
    """One line about moves that the journal does not have: how much is done, and what a rollback would copy."""
    copied, total, back = (
        sum(each)
        for each in zip(*((row.copied_bytes, row.total_bytes, row.rollback_bytes) for row in rows), strict=True)
    )
    stuck = sum(bool(row.stuck) for row in rows)
    rollback = f"a rollback copies {told_bytes(back)}" if back else "a rollback is instant"
    if stuck:
        rollback = f"{stuck} can't end now"  # Whether a rollback is possible stands with the move.
    count = counted(len(rows), "move is", "moves are")
    return f"{count} under way that the journal does not have: {told_bytes(copied)} of {told_bytes(total)}; {rollback}"


def _told_waiting(count: int, told: str) -> str:
    """How many moves wait for the same thing: `1 move waits for its turn`, `2 moves wait for their turn`."""
    if count != 1:
        told = told.replace("waits", "wait", 1).replace(" its ", " their ", 1)
    return f"{counted(count, 'move')} {told}"


def say_json(document: dict[str, Any]) -> None:
    """One JSON object on a line of its own."""
    click.echo(orjson.dumps(document).decode())
