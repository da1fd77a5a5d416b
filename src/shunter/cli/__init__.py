"""Room `cli`: what people see in a terminal.

May touch: the terminal. Never: reach into core or drivers.
Imports: `app`, `views`; `web`, to open it.
"""

from shunter.cli.main import main

__all__ = ["main"]
