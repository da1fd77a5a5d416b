"""Choice of how an execution is shown: bars on a terminal, plain lines, or JSON."""

from __future__ import annotations

import sys

from shunter.cli.execution.display import Display, JsonLines, PlainLines


def make_display(*, as_json: bool) -> Display:
    """The display that suits the place where output goes."""
    if as_json:
        return JsonLines()
    if not sys.stdout.isatty():
        return PlainLines()
    from shunter.cli.execution.bars import Bars  # noqa: PLC0415 - drawing is a tenth of a command's start

    return Bars()
