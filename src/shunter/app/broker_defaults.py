"""Tells, while the controller leads, which of the brokers' defaults differ from each other or from ours.

`shunter controller --check` tells the same before. A default may differ later: a broker is restarted with another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from shunter.core.controller_check import ControllerFinding, Severity, compared_defaults
from shunter.model.partition import BrokerId
from shunter.model.settings import ControllerSettings

LOG = logging.getLogger("shunter.controller")


class BrokerDefaults:
    """Remembers what differs, so that each difference is told once, and its end too."""

    def __init__(self) -> None:
        """Begin with no difference."""
        self.different: dict[str, ControllerFinding] = {}
        """The differences of now, by the name of Kafka's setting."""

    def compare(self, told: Mapping[BrokerId, Mapping[str, str | None]], settings: ControllerSettings) -> None:
        """Log what has changed since the last call. Cost: O(brokers).

        Args:
            told: What each broker was started with.
            settings: Ours. Dynamic configuration is not compared: the brokers and we read the same.
        """
        findings = compared_defaults(told, settings, {})
        now = {finding.about: finding for finding in findings if finding.level is Severity.WARNING}
        for name, finding in now.items():
            if finding != self.different.get(name):
                LOG.warning("%s: %s; %s", name, finding.told, finding.todo)
        for name in sorted(self.different.keys() - now.keys()):
            LOG.info("%s: no difference any more", name)
        self.different = now
