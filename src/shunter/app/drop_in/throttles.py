"""Throttles as Apache's tool sets and clears them: former values are not remembered, and a refusal ends the command.

Source: Apache Kafka 3.9, `ReassignPartitionsCommand`: `modifyReassignmentThrottle`, `clearAllThrottles`. One
difference: a broker that is not live can't be asked; it causes a warning, and does not hold up the others
(KAFKA-13392).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.errors import ShunterError
from shunter.model.execution import ThrottleKey

Echo = Callable[[str], None]


class ThrottleRefused(ShunterError):
    """The cluster did not set or remove a throttle. No move may begin without its throttle."""


def change_throttles(cluster: BlockingAdmin, settings: Mapping[ThrottleKey, str | None], echo: Echo) -> None:
    """Set (None: remove) throttles, topics first, and wait until brokers apply them.

    Raises:
        ThrottleRefused: a topic or a live broker refused a setting; settings that were written before stay.
        DriverError: a permission is missing, or the cluster does not answer.
    """
    live = {str(node.id) for node in cluster.nodes()}
    dead = {key.name for key in settings if key.kind == "broker" and key.name not in live}
    asked = {key: value for key, value in settings.items() if key.kind == "topic" or key.name in live}
    for kind in ("topic", "broker"):
        refused = cluster.write_settings({key: value for key, value in asked.items() if key.kind == kind})
        gone = _gone(cluster, refused)
        dead |= gone
        for key, why in refused.items():
            if key.name not in gone:
                raise ThrottleRefused(f"throttles of {key.kind} {key.name} were not changed: {why}")
    for broker in sorted(dead, key=int):
        echo(f"Warning: throttles of broker {broker}: it is not live; nothing was changed there")
    late = cluster.not_in_force({key: value for key, value in asked.items() if key.name not in dead})
    for name, why in {f"{key.kind} {key.name}": why for key, why in late.items()}.items():
        echo(f"Warning: throttles of {name}: {why}")


def _gone(cluster: BlockingAdmin, refused: Mapping[ThrottleKey, str]) -> set[str]:
    """Brokers that did not answer because they are no longer live."""
    brokers = {key.name for key in refused if key.kind == "broker"}
    return brokers - {str(node.id) for node in cluster.nodes()} if brokers else set()
