"""The versions of the control requests that a cluster speaks, by `inter.broker.protocol.version`.

Source: Apache Kafka 3.9, ControllerChannelManager; MetadataVersion for the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from shunter.errors import SettingsError
from shunter.model.features import Protocol

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6

_NAME: Final = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})*(?:-IV(\d{1,3}))?")
_LAST: Final = 1_000
"""A release without a suffix means its last internal version."""


class ControlVersions(NamedTuple):
    """Versions of the three control requests. `since` is the first release that speaks them."""

    since: str
    leader_and_isr: int
    update_metadata: int
    stop_replica: int


_TABLE: Final = (
    ((3, 4, 0), ControlVersions("3.4", 7, 8, 4)),
    ((3, 2, 0), ControlVersions("3.2", 6, 7, 3)),
    ((2, 8, 1), ControlVersions("2.8", 5, 7, 3)),
    ((2, 6, 0), ControlVersions("2.6", 4, 6, 3)),
    ((2, 4, 1), ControlVersions("2.4", 4, 6, 2)),
    ((2, 4, 0), ControlVersions("2.4-IV0", 3, 5, 1)),
    ((2, 2, 0), ControlVersions("2.2", 2, 5, 1)),
)
OLDEST: Final = _TABLE[-1][1].since


def protocol_of(inter_broker_protocol: str) -> Protocol:
    """Read `inter.broker.protocol.version` ('3.9', '2.8-IV1').

    Raises:
        SettingsError: not a version.
    """
    found = _NAME.fullmatch(inter_broker_protocol.strip())
    if found is None:
        raise SettingsError(
            f"inter.broker.protocol.version={inter_broker_protocol!r} is no version: write '3.9' or '2.8-IV1'"
        )
    return int(found[1]), int(found[2]), _LAST if found[3] is None else int(found[3])


def control_versions(inter_broker_protocol: str) -> ControlVersions:
    """Map `inter.broker.protocol.version` to request versions, as Apache's controller does.

    Raises:
        SettingsError: not a version, older than 2.2 or newer than ZooKeeper mode (3.9).
    """
    release = protocol_of(inter_broker_protocol)
    if release < (4, 0, 0):
        for first, versions in _TABLE:
            if release >= first:
                return versions
    raise SettingsError(
        f"inter.broker.protocol.version={inter_broker_protocol!r} can't be served: it must be from 2.2 to 3.9,"
        " the releases with ZooKeeper mode and broker epochs"
    )


def common_control_versions(brokers: Iterable[Mapping[int, tuple[int, int]]]) -> ControlVersions | None:
    """Choose the newest versions that all brokers support, from their answers to ApiVersions.

    Args:
        brokers: per broker API key -> (lowest, highest) version.

    Returns:
        None if no row of the table fits all brokers, or there are no brokers.
    """
    ranges = list(brokers)
    if not ranges:
        return None
    for _, versions in _TABLE:
        asked = (
            (LEADER_AND_ISR, versions.leader_and_isr),
            (UPDATE_METADATA, versions.update_metadata),
            (STOP_REPLICA, versions.stop_replica),
        )
        if all(
            key in broker and broker[key][0] <= version <= broker[key][1] for broker in ranges for key, version in asked
        ):
            return versions
    return None


DESCRIBE_TRANSACTIONS = 65
"""An API that brokers serve since Kafka 3.0, whatever their inter-broker protocol is."""


def looks_controllers_up(ranges: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a broker that serves these APIs looks the controller's address up in ZooKeeper when it stops.

    Brokers older than 3.0 do so for their controlled shutdown. Later brokers take the address from their metadata.
    Source: Apache's `KafkaServer.controlledShutdown` of 2.8.2 and 3.0.2.
    """
    return DESCRIBE_TRANSACTIONS not in ranges
