"""`/feature` on the simulation's ZooKeeper: created, corrected, changed, and left alone if it can't be read."""

import pytest
from test_controller_seat import Place

from shunter.core.features import FeatureUpdate, Upgrade
from shunter.drivers.zookeeper.feature_keeper import FeatureKeeper
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.errors import ErrorCode, FormatError, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.features import decode_features, encode_features
from shunter.model.features import FinalizedFeatures

BROKERS = ({"f": (1, 5)},)
TO_FOUR = (FeatureUpdate("f", 4, Upgrade.UPGRADE),)


@pytest.fixture
def place():
    made = Place().begin()
    made.protocol = (3, 9, 1_000)
    made.keeper = FeatureKeeper(made.seat.client, made.seat.store, lambda: made.protocol)
    return made


def found(place):
    znode = place.tree.get(znodes.FEATURE)
    return None if znode is None else decode_features(znode.data)


def update(place, *, validate_only=False):
    return place.run(outcome_of(place.keeper.update(TO_FOUR, BROKERS, validate_only=validate_only)))


async def outcome_of(work):
    try:
        return await work
    except (RequestRejected, FormatError) as refused:
        return refused


def test_it_is_made_when_the_brokers_protocol_is_known(place):
    place.protocol = None
    place.run(place.keeper.keep(1))
    assert found(place) is None
    place.protocol = (2, 6, 0)
    place.run(place.keeper.keep(1))
    assert found(place) == FinalizedFeatures(1, False)
    place.protocol = (3, 9, 1_000)
    place.run(place.keeper.keep(1))
    assert found(place) == FinalizedFeatures(2, True)


def test_it_is_looked_at_once_for_each_election(place):
    place.run(place.keeper.keep(1))
    place.act(Put(znodes.FEATURE, encode_features(FinalizedFeatures(1, False))))
    place.run(place.keeper.keep(1))
    assert found(place) == FinalizedFeatures(1, False)
    place.run(place.keeper.keep(2))
    assert found(place) == FinalizedFeatures(2, True)


def test_levels_are_changed_and_stay(place):
    place.run(place.keeper.keep(1))
    assert update(place, validate_only=True) == {"f": None}
    assert found(place).levels == {}
    assert update(place) == {"f": None}
    assert found(place).levels == {"f": 4}
    place.run(place.keeper.keep(2))
    assert found(place).levels == {"f": 4}


def test_an_update_that_comes_before_it_was_looked_at_finds_it_valid(place):
    """Apache's controller checks the znode before it serves. Shunter's has to learn the brokers' protocol first."""
    assert update(place) == {"f": None}
    assert found(place) == FinalizedFeatures(2, True, {"f": 4})


def test_while_the_system_is_off_nothing_can_be_updated(place):
    place.protocol = (2, 6, 0)
    for operation in (None, Create(znodes.FEATURE, encode_features(FinalizedFeatures(1, False)))):
        if operation is not None:
            place.act(operation)
        refused = update(place)
        assert refused.error_code is ErrorCode.INVALID_REQUEST
        assert refused.message == "Feature versioning system is disabled."
    place.protocol = None
    assert update(place).error_code is ErrorCode.INVALID_REQUEST


def test_what_can_t_be_read_is_left_alone(place):
    place.act(Create(znodes.FEATURE, b"nonsense"))
    place.run(place.keeper.keep(1))
    assert isinstance(update(place), FormatError)
    assert place.tree.get(znodes.FEATURE).data == b"nonsense"
