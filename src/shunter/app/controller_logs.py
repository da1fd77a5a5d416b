"""The logs that a controller keeps for programs and for `shunter why`: what is in `log_dir`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from shunter import __version__
from shunter.app.settings import ControllerConfig
from shunter.core.controller.events import Envelope
from shunter.core.controller.ready import Ready
from shunter.drivers.clock import SystemClock
from shunter.drivers.log_files import LogFile
from shunter.model.log_line import LogLine
from shunter.views.state_log import StateLog, slim, worth_telling

LOG = logging.getLogger("shunter.controller")
STATE_LOG = "state-changes.log"

Handled: TypeAlias = tuple[Envelope, Ready] | LogLine


class ControllerLogs:
    """The state-change log of one controller process; nothing where no `log_dir` is set."""

    def __init__(self, config: ControllerConfig) -> None:
        """Describe them; nothing is opened yet."""
        self._clock = SystemClock()
        self._broker_id = config.broker_id
        self._view = StateLog()
        self.state: LogFile[Handled] | None = None
        if config.log_dir is not None:
            self.state = LogFile(
                Path(config.log_dir) / STATE_LOG,
                self._entries,
                self._clock,
                file_bytes=config.log_file_bytes,
                files=config.log_files,
            )

    @property
    def files(self) -> tuple[LogFile[Handled], ...]:
        """All that are kept."""
        return () if self.state is None else (self.state,)

    def start(self) -> None:
        """Begin."""
        if self.state is None:
            LOG.info("no state-change log is kept, and `shunter why` can't answer: log_dir is not set")
            return
        self.state.start()
        LOG.info("the state-change log is %s", self.state.path)
        facts = {"broker_id": self._broker_id, "pid": os.getpid(), "version": __version__}
        self.state.post(LogLine(self._clock.now_ms(), "started", facts))

    def handled(self, envelope: Envelope, ready: Ready) -> None:
        """Take in what an event led to; see `ControllerLoop.on_handled`."""
        if self.state is not None and worth_telling(envelope, ready):
            self.state.post((slim(envelope), ready), 1 + len(ready.decisions) + len(ready.transitions))

    def close(self) -> None:
        """End; what waits is written."""
        if self.state is not None:
            self.state.post(LogLine(self._clock.now_ms(), "stopped", {"pid": os.getpid()}))
            self.state.close()

    def _entries(self, item: Handled) -> Iterator[LogLine]:
        if isinstance(item, LogLine):
            yield item
        else:
            yield from self._view.entries(*item)
