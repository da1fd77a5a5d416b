"""Reports, while the controller leads, which defaults of brokers differ from each other or from the controller's.

`shunter controller --check` reports the same before the controller runs. A difference may also come later, when a
broker is restarted with another default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from shunter.core.controller_check import compared_defaults
from shunter.model.check_up import Finding, Level
from shunter.model.partition import BrokerId
from shunter.model.settings import ControllerSettings

LOG = logging.getLogger("shunter.controller")


class BrokerDefaults:
    """Remembers the differences, so that each is logged once, and its end too."""

    def __init__(self) -> None:
        """Begin with no difference."""
        self.different: dict[str, Finding] = {}
        """The current differences, by the name of Kafka's setting."""

    def compare(self, told: Mapping[BrokerId, Mapping[str, str | None]], settings: ControllerSettings) -> None:
        """Log what has changed since the last call. Cost: O(brokers).

        Args:
            told: The defaults that each broker was started with.
            settings: The controller's settings. Dynamic configuration is not compared: all read the same.
        """
        findings = compared_defaults(told, settings, {})
        now = {finding.check: finding for finding in findings if finding.level is Level.WARNING}
        for name, finding in now.items():
            if finding != self.different.get(name):
                LOG.warning("%s: %s; %s", name, finding.text, finding.advice)
        for name in sorted(self.different.keys() - now.keys()):
            LOG.info("%s: no difference any more", name)
        self.different = now
