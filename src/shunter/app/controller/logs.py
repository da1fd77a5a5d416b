"""The logs in `log_dir`, which a controller keeps for programs and for `shunter why`."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from shunter import __version__
from shunter.app.controller.settings import ControllerConfig
from shunter.core.controller.events import Envelope
from shunter.core.controller.ready import Ready
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.log_files import LogFile
from shunter.drivers.listener.handlers.audit import Audited, api_name, audit_line, outcome
from shunter.drivers.listener.handlers.context import Call
from shunter.model.log_line import LogLine
from shunter.views.state_log import StateLog, slim, worth_telling

LOG = logging.getLogger("shunter.controller")
STATE_LOG = "state-changes.log"
AUDIT_LOG = "audit.log"
FILE_BYTES = 67_108_864
"""The size at which a file of these logs is rotated: small enough to be opened in an editor."""
FILES = 8
"""How many files are kept of each log, the newest included: half a GiB each at most."""
FAILURE_AT_MOST = 500
"""The most characters that are kept of the reason why a process ends."""

Handled: TypeAlias = tuple[Envelope, Ready] | LogLine


class ControllerLogs:
    """The state-change log and the audit log of one controller process; without `log_dir` there are no files.

    `outcomes` counts administrative requests by API and outcome, with or without a log.
    """

    def __init__(self, config: ControllerConfig) -> None:
        """Describe the logs; nothing is opened yet."""
        self._clock = SystemClock()
        self._broker_id = config.broker_id
        self._view = StateLog()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.state: LogFile[Handled] | None = None
        self.audit: LogFile[Audited] | None = None
        if config.log_dir is not None:
            make = partial(LogFile, clock=self._clock, file_bytes=FILE_BYTES, files=FILES)
            self.state = make(Path(config.log_dir, STATE_LOG), self._lines)
            self.audit = make(Path(config.log_dir, AUDIT_LOG), lambda item: (audit_line(item),))

    @property
    def files(self) -> tuple[LogFile[Any], ...]:
        """The logs that are kept."""
        return tuple(log for log in (self.state, self.audit) if log is not None)

    def start(self) -> None:
        """Open the logs, and write that the process has started."""
        if self.state is None:
            LOG.info(
                "no state-change log and no audit log are kept, and `shunter why` can't answer: log_dir is not set"
            )
            return
        for log in self.files:
            log.start()
        LOG.info("the state-change log is %s, the audit log is beside it", self.state.path)
        facts = {"broker_id": self._broker_id, "pid": os.getpid(), "version": __version__}
        self.state.post(LogLine(self._clock.now_ms(), "started", facts))

    def handled(self, envelope: Envelope, ready: Ready) -> None:
        """Log an event and its consequences; see `ControllerLoop.on_handled`."""
        if self.state is not None and worth_telling(envelope, ready):
            self.state.post((slim(envelope), ready), 1 + len(ready.decisions) + len(ready.transitions))

    def audited(self, call: Call, answer: Any, failure: str | None, seconds: float) -> None:
        """Log and count an administrative request; see `Node.audit`."""
        self.outcomes[api_name(call.parsed.api_key), outcome(answer, failure)] += 1
        if self.audit is not None:
            self.audit.post(Audited(self._clock.now_ms(), call, answer, failure, round(seconds * 1_000)))

    def close(self, failure: BaseException | None = None) -> None:
        """Write waiting lines and close. `failure`: why the process ends, if it was not asked to stop."""
        if self.state is not None:
            why = {} if failure is None else {"failure": str(failure)[:FAILURE_AT_MOST]}
            self.state.post(LogLine(self._clock.now_ms(), "stopped", {"pid": os.getpid(), **why}))
        for log in self.files:
            log.close()

    def _lines(self, item: Handled) -> Iterator[LogLine]:
        if isinstance(item, LogLine):
            yield item
        else:
            yield from self._view.lines(*item)
