"""Room `cli`: what people see in a terminal.

May touch: the terminal. Never: decide, or open a connection of its own.
Imports: `app`, `views`, `model`, `errors`; `web`, to open it; `pipeline`, for types; of `core` values
that `app` gives and takes.
"""

from shunter.cli.main import main

__all__ = ["main"]
