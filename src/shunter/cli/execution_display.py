"""How an execution shows itself: bars on a terminal, plain lines elsewhere, JSON lines where asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic, strftime
from types import TracebackType
from typing import Any, Protocol, Self

import click
import orjson

from shunter.core.wording import counted, told_bytes
from shunter.views.execution import OPEN_STATES, ExecutionView, view_to_json

SHOWN_MOVES = 12
PLAIN_EVERY_MS = 5_000


SAID_AGAIN_MS = 60_000
"""The same is not said again before this."""
NAME_WIDTH = 48


class Told(Protocol):
    """A notice of the executor."""

    @property
    def kind(self) -> str:
        """A stable name."""
        ...

    @property
    def about(self) -> str:
        """What it concerns."""
        ...

    @property
    def text(self) -> str:
        """The sentence."""
        ...


class Display(Protocol):
    """Shows views and notices as they come."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def view(self, view: ExecutionView) -> None:
        """Show how things stand."""
        ...

    def notice(self, notice: Told) -> None:
        """Show a notice."""
        ...

    def quiet(self) -> None:
        """Draw no more."""
        ...

    def quieted(self) -> AbstractContextManager[None]:
        """Leave the terminal to a question as long as this is open: no view is shown meanwhile."""
        ...


def sentence(notice: Told) -> str:
    """A notice for people: what it is about is said before it where it does not say so itself."""
    about = "" if notice.kind == "admin-failed" else notice.about
    return notice.text if about in notice.text else f"{about}: {notice.text}"


class QuietDisplay:
    """What displays have in common: a question silences them, and nothing is said twice in a row."""

    asking = False
    """A question stands on the terminal."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        """Notices that were said lately, and when."""

    def is_news(self, told: str) -> bool:
        """Whether this was not said a moment ago: what fails every second is said once a minute."""
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
        """Nothing to put away."""

    def quiet(self) -> None:
        """Nothing is drawn."""

    @contextmanager
    def quieted(self) -> Iterator[None]:
        """No view is shown as long as this is open."""
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
        """A line of progress; of idleness one."""
        if self.idle and not view.running:
            return
        self.idle = not view.running
        say_json({"event": "progress", **view_to_json(view, most_moves=SHOWN_MOVES)})

    def notice(self, notice: Told) -> None:
        """A line for a notice."""
        say_json({"event": "notice", "kind": notice.kind, "about": notice.about, "text": notice.text})


class PlainLines(QuietDisplay):
    """A line every few seconds, and one whenever the counts change."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[int, dict[str, int]] = (0, {})

    def view(self, view: ExecutionView) -> None:
        """Perhaps a line of progress."""
        at_ms, counts = self._last
        due_ms = at_ms + PLAIN_EVERY_MS
        if self.asking or not view.counts or (counts == view.counts and (view.at_ms < due_ms or not view.running)):
            return
        self._last = (view.at_ms, dict(view.counts))
        click.echo(f"{clock_time()} {told_view(view)}")

    def notice(self, notice: Told) -> None:
        """A line for a notice."""
        told = sentence(notice)
        if self.is_news(told):
            click.echo(f"{clock_time()} {told}")


def shortened(name: str, width: int = NAME_WIDTH) -> str:
    """A long name, cut in the middle: its beginning and its number are what tells it from others."""
    if len(name) <= width:
        return name
    behind = (width - 1) // 2
    return f"{name[: width - 1 - behind]}…{name[-behind:]}"


def clock_time() -> str:
    """The local time, as lines begin with it."""
    return strftime("%H:%M:%S")


def told_view(view: ExecutionView) -> str:
    """One line: how much is done, how fast, when it ends."""
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(view.counts.items()))
    parts = [f"{view.share:.1%}", counts, f"{told_bytes(view.copied_bytes)} of {told_bytes(view.total_bytes)}"]
    if view.running:
        parts.append(told_eta(view))
    waiting = Counter(row.waits for row in view.moves if row.state in OPEN_STATES and row.waits.startswith("waits"))
    for told, count in waiting.most_common(1):
        if not view.held:
            parts.append(_told_waiting(count, told))
    if view.limit is not None and view.running:
        parts.append(f"limit {told_bytes(view.limit)}/s")
    if view.silent_ms:
        parts.append(f"the cluster has not answered for {told_ms(view.silent_ms)}")
    if view.brokers_down:
        parts.append(f"down: broker {', '.join(str(broker) for broker in view.brokers_down)}")
    return " · ".join(parts)


def _told_waiting(count: int, told: str) -> str:
    """So many moves wait for the same: `1 move waits for its turn`, `2 moves wait for their turn`."""
    if count != 1:
        told = told.replace("waits", "wait", 1).replace(" its ", " their ", 1)
    return f"{counted(count, 'move')} {told}"


def told_eta(view: ExecutionView) -> str:
    """When it ends, with its interval; or why it does not, or that this is not known yet."""
    if view.left_ms is None or view.low_ms is None or view.high_ms is None or view.bytes_per_s is None:
        return view.held or "end unknown yet"
    rate = f"{told_bytes(int(view.bytes_per_s))}/s, " if view.bytes_per_s else ""
    what = "what goes on ends" if view.held else "ends"
    told = f"{rate}{what} in {told_ms(view.left_ms)} ({told_ms(view.low_ms)} to {told_ms(view.high_ms)})"
    return f"{told}; {view.held}" if view.held else told


def told_ms(milliseconds: int) -> str:
    """A duration for people."""
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def say_json(document: dict[str, Any]) -> None:
    """One JSON object on a line of its own."""
    click.echo(orjson.dumps(document).decode())
