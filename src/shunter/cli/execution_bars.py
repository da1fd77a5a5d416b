"""An execution on a terminal: progress bars that are redrawn as things change."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shunter.cli.execution_display import (
    SHOWN_MOVES,
    QuietDisplay,
    Told,
    clock_time,
    sentence,
    shortened,
    told_view,
)
from shunter.views.execution import OPEN_STATES, ExecutionView


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
        self._live.update(_drawn(view))

    def notice(self, notice: Told) -> None:
        """A line above the bars."""
        told = sentence(notice)
        if self.is_news(told):
            self._console.print(Text(f"{clock_time()} {told}"))


def _drawn(view: ExecutionView) -> Group:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _column in range(4):
        table.add_column(no_wrap=True)
    for row in [row for row in view.moves if row.state in OPEN_STATES][:SHOWN_MOVES]:
        share = 0.0 if row.total_bytes == 0 else row.copied_bytes / row.total_bytes
        bar = ProgressBar(total=1.0, completed=share, width=20)
        table.add_row(
            shortened(row.partition), bar, f"{list(row.current)} → {list(row.target)}", row.waits or row.state
        )
    hidden = sum(view.counts.get(state, 0) for state in OPEN_STATES) - SHOWN_MOVES
    more = Text(f"… and {hidden} more") if hidden > 0 else Text("")
    whole = Table.grid()  # A bar alone does not end its line.
    whole.add_row(ProgressBar(total=1.0, completed=view.share, width=60))
    return Group(Text(told_view(view)), whole, table, more)
