"""What `/feature` has to be, and what of UpdateFeatures is refused; words and codes are Apache's (KIP-584)."""

from __future__ import annotations

import pytest

from shunter.core.features import FeatureUpdate, Upgrade, kept_valid, update_features
from shunter.errors import ErrorCode
from shunter.model.features import FinalizedFeatures

UPGRADE, SAFE, UNSAFE, UNKNOWN = Upgrade.UPGRADE, Upgrade.SAFE_DOWNGRADE, Upgrade.UNSAFE_DOWNGRADE, Upgrade.UNKNOWN
BROKERS = ({"f": (2, 5), "g": (1, 1)}, {"f": (1, 5)})


@pytest.mark.parametrize(
    ("found", "protocol", "wanted"),
    [
        (None, (3, 9, 0), FinalizedFeatures(2, True)),
        (None, (3, 2, 0), FinalizedFeatures(1, True)),
        (None, (2, 7, 0), FinalizedFeatures(1, True)),
        (None, (2, 6, 0), FinalizedFeatures(1, False)),
        (FinalizedFeatures(1, True, {"f": 3}), (3, 3, 0), FinalizedFeatures(2, True, {"f": 3})),
        (FinalizedFeatures(2, True, {"f": 3}), (2, 6, 0), FinalizedFeatures(1, False)),
        (FinalizedFeatures(1, False, {"f": 3}), (2, 8, 1), FinalizedFeatures(1, True)),
    ],
)
def test_the_znode_is_what_apaches_controller_makes_at_its_election(found, protocol, wanted):
    assert kept_valid(found, protocol) == wanted


@pytest.mark.parametrize(
    ("update", "told"),
    [
        (FeatureUpdate("", 1, UPGRADE), "Feature name can not be empty."),
        (FeatureUpdate("f", 4, UNKNOWN), "Received unknown upgrade type."),
        (FeatureUpdate("x", 0, SAFE), "Can not delete non-existing finalized feature."),
        (FeatureUpdate("f", 0, UPGRADE), "Can not provide versionLevel: 0 less than 1"),
        (FeatureUpdate("f", 3, UPGRADE), "Can not upgrade a finalized feature from existing versionLevel:3 to the same"),
        (FeatureUpdate("f", 3, SAFE), "Can not downgrade a finalized feature from existing versionLevel:3 to the same"),
        (FeatureUpdate("f", 2, UPGRADE), "without setting the downgradeType to SAFE"),
        (FeatureUpdate("f", 2, UNSAFE), "without setting the downgradeType to SAFE"),
        (FeatureUpdate("f", 4, SAFE), "can not be greater than existing versionLevel:3."),
        (FeatureUpdate("f", 1, SAFE), "incompatible versions for the feature."),
        (FeatureUpdate("f", 6, UPGRADE), "is lower than the supported minVersion:1."),
        (FeatureUpdate("g", 1, UPGRADE), "incompatible versions for the feature."),
        (FeatureUpdate("x", 1, UPGRADE), "the provided feature is not supported."),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(update, told):
    levels, results = update_features({"f": 3}, [update], BROKERS)
    assert levels == {"f": 3}
    assert results[update.feature].error_code is ErrorCode.INVALID_REQUEST
    assert told in results[update.feature].message


def test_each_update_is_decided_for_itself():
    updates = [
        FeatureUpdate("f", 5, UPGRADE),
        FeatureUpdate("old", 0, SAFE),
        FeatureUpdate("x", 1, UPGRADE),
    ]
    levels, results = update_features({"f": 3, "old": 1}, updates, BROKERS)
    assert levels == {"f": 5}
    assert {feature for feature, why in results.items() if why is None} == {"f", "old"}


def test_a_level_may_go_down_when_the_request_says_so():
    assert update_features({"f": 3}, [FeatureUpdate("f", 2, SAFE)], BROKERS) == ({"f": 2}, {"f": None})
