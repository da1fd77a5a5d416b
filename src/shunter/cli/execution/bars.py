"""An execution on a terminal: progress bars that are redrawn as things change."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shunter.cli.execution.display import (
    NAME_WIDTH,
    SHOWN_MOVES,
    QuietDisplay,
    clock_time,
    sentence,
    shortened,
    told_view,
)
from shunter.model.notice import Notice
from shunter.views.execution import OPEN_STATES, ExecutionView

BAR, LEAST_BAR, LEAST_NAME = 20, 5, 8
GAP = 2
"""Widths in cells: of a move's bar, of a bar and a name where there is little room, and between columns."""


class Bars(QuietDisplay):
    """Progress bars on a terminal, redrawn as things change; notices scroll by above them."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def quiet(self) -> None:
        """Stop redrawing."""
        self._live.stop()

    def view(self, view: ExecutionView) -> None:
        """Redraw."""
        if self.asking or not view.counts:
            return
        if not self._live.is_started:
            self._live.start()
        self._live.update(drawn(view, self._console.width))

    def notice(self, notice: Notice) -> None:
        """A line above the bars."""
        told = sentence(notice)
        if self.is_news(told):
            self._console.print(Text(f"{clock_time()} {told}"))


class _Widths(NamedTuple):
    """Cells of the columns of the table of moves."""

    name: int
    bar: int
    places: int
    state: int


def _widths(names: Sequence[str], places: Sequence[str], states: Sequence[str], width: int) -> _Widths:
    """Share out a terminal's width. Names and replicas come first: without them nobody knows what a row is about."""
    room = width - GAP * (len(_Widths._fields) - 1)
    longest = max(map(cell_len, places), default=0)
    name = min(max(map(cell_len, names), default=0), max(LEAST_NAME, room - longest - LEAST_BAR - 1))
    left = room - name - longest
    bar = max(LEAST_BAR, min(BAR, left - max(map(cell_len, states), default=0)))
    return _Widths(name, bar, longest, max(1, left - bar))


def drawn(view: ExecutionView, width: int) -> Group:
    """What a terminal of so many columns shows."""
    rows = [row for row in view.moves if row.state in OPEN_STATES][:SHOWN_MOVES]
    places = [f"{list(row.current)} → {list(row.target)}" for row in rows]
    states = [row.waits or row.state for row in rows]
    widths = _widths([shortened(row.partition) for row in rows], places, states, width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    for cells in widths:
        table.add_column(no_wrap=True, width=cells)
    for row, place, state in zip(rows, places, states, strict=True):
        share = 0.0 if row.total_bytes == 0 else row.copied_bytes / row.total_bytes
        bar = ProgressBar(total=1.0, completed=share, width=widths.bar)
        table.add_row(Text(shortened(row.partition, min(NAME_WIDTH, widths.name))), bar, Text(place), Text(state))
    hidden = sum(view.counts.get(state, 0) for state in OPEN_STATES) - SHOWN_MOVES
    more = Text(f"… and {hidden} more") if hidden > 0 else Text("")
    whole = Table.grid()  # A bar alone does not end its line.
    whole.add_row(ProgressBar(total=1.0, completed=view.share, width=60))
    return Group(Text(told_view(view)), whole, table, more)
