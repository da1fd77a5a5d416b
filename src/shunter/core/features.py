"""Finalized features (KIP-584): how `/feature` is kept valid, and which updates of UpdateFeatures are refused.

Source: Apache 3.9, `KafkaController.maybeSetupFeatureVersioning` and `processFeatureUpdates`; tools match on its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from shunter.errors import ErrorCode, RequestRejected
from shunter.model.features import FinalizedFeatures, Protocol

_VERSIONED_SINCE: Final[Protocol] = (2, 7, 0)
_SECOND_LAYOUT_SINCE: Final[Protocol] = (3, 3, 0)
Supported = Mapping[str, tuple[int, int]]
"""The features that a broker registers: feature -> (lowest, highest) level."""


class Upgrade(Enum):
    """The kinds of updates, with Kafka's numbers."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature's new level; below 1 and not an upgrade: the feature is no longer finalized."""

    feature: str
    level: int
    upgrade: Upgrade

    @property
    def deletes(self) -> bool:
        """Whether the feature is to be finalized no longer."""
        return self.level < 1 and self.upgrade is not Upgrade.UPGRADE


def kept_valid(found: FinalizedFeatures | None, protocol: Protocol) -> FinalizedFeatures:
    """The contents that `/feature` must have for a cluster of that protocol: enabled since 2.7, with the levels it has.

    Brokers in ZooKeeper mode register no features of their own: none is finalized in a new cluster.
    """
    layout = 2 if protocol >= _SECOND_LAYOUT_SINCE else 1
    if protocol < _VERSIONED_SINCE:
        return FinalizedFeatures(layout, enabled=False)
    levels = found.levels if found is not None and found.enabled else {}
    return FinalizedFeatures(layout, True, levels)


def update_features(
    levels: Mapping[str, int], updates: Iterable[FeatureUpdate], brokers: Sequence[Supported]
) -> tuple[dict[str, int], dict[str, RequestRejected | None]]:
    """Apply updates, each for itself.

    Args:
        levels: the levels that are finalized now.
        updates: one for each feature.
        brokers: the features that each live broker supports.

    Returns:
        The levels that are finalized afterwards; and by feature, why its update was refused (None: it was not).
    """
    target = dict(levels)
    results: dict[str, RequestRejected | None] = {}
    for update in updates:
        told = _refuse(update, levels.get(update.feature), brokers)
        results[update.feature] = None if told is None else RequestRejected(ErrorCode.INVALID_REQUEST, told)
        if told is None and update.deletes:
            del target[update.feature]
        elif told is None:
            target[update.feature] = update.level
    return target, results


def _refuse(update: FeatureUpdate, existing: int | None, brokers: Sequence[Supported]) -> str | None:
    if not update.feature:
        return "Feature name can not be empty."
    if update.upgrade is Upgrade.UNKNOWN:
        return "Received unknown upgrade type."
    if update.deletes:
        return "Can not delete non-existing finalized feature." if existing is None else None
    if update.level < 1:
        return (
            f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType in the "
            "request."
        )
    told = None if existing is None else _refuse_change(update, existing)
    return told if told is not None else _refuse_level(update, brokers)


def _refuse_change(update: FeatureUpdate, existing: int) -> str | None:
    safe = update.upgrade is Upgrade.SAFE_DOWNGRADE
    if update.level == existing:
        verb = "downgrade" if safe else "upgrade"
        return f"Can not {verb} a finalized feature from existing versionLevel:{existing} to the same value."
    if update.level < existing and not safe:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to provided "
            f"versionLevel:{update.level} without setting the downgradeType to SAFE in the request."
        )
    if update.level > existing and update.upgrade is not Upgrade.UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{update.level} can not be "
            f"greater than existing versionLevel:{existing}."
        )
    return None


def _refuse_level(update: FeatureUpdate, brokers: Sequence[Supported]) -> str | None:
    """Refuse a level that not every live broker supports. Apache's controller first checks what it supports itself."""
    ranges = [broker[update.feature] for broker in brokers if update.feature in broker]
    if not ranges:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if not any(lowest <= update.level <= highest for lowest, highest in ranges):
        return (
            f"Could not apply finalized feature update because the provided versionLevel:{update.level} is lower than the "
            f"supported minVersion:{min(lowest for lowest, _ in ranges)}."
        )
    if len(ranges) < len(brokers) or not all(lowest <= update.level <= highest for lowest, highest in ranges):
        return (
            "Could not apply finalized feature update because brokers were found to have incompatible versions for the "
            "feature."
        )
    return None
