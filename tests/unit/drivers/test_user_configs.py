"""SCRAM credentials on the simulation's ZooKeeper: writes, announcements, and other processes' writes meanwhile."""

import pytest
from test_controller_seat import Place

from shunter.core.user_credentials import CredentialChanges, Deletion, Upsertion, credential
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.configs import decode_config, decode_config_change, encode_config, sanitized

ANN = Upsertion("ann", 1, 4096, b"salt", b"salted")
ALTER = CredentialChanges((ANN,), ())
DELETE = CredentialChanges((), (Deletion("ann", 1),))
PATH = "/config/users/ann"


@pytest.fixture
def place():
    return Place().begin()


def alter(place, changes, user="ann"):
    return place.run(outcome_of(UserConfigs(place.seat.client, place.seat.store).alter_credentials(user, changes)))


async def outcome_of(work):
    try:
        await work
    except (RequestRejected, DriverError) as refused:
        return refused
    return None


def config(place, path=PATH):
    found = place.tree.get(path)
    return None if found is None else decode_config(path, found.data)


def announced(place):
    names = sorted(place.tree.children(znodes.CONFIG_CHANGES))
    return [decode_config_change(name, place.tree.get(f"{znodes.CONFIG_CHANGES}/{name}").data).entity for name in names]


def test_a_new_credential_is_written_and_announced_at_once(place):
    assert alter(place, ALTER) is None
    assert config(place) == {"SCRAM-SHA-256": credential(ANN)}
    assert announced(place) == ["ann"]
    assert place.tree.get(PATH).mzxid == place.tree.get(znodes.CONFIG_CHANGES).pzxid


def test_quotas_of_the_user_stay(place):
    place.act(Create(PATH, encode_config({"producer_byte_rate": "5"})))
    assert alter(place, ALTER) is None
    assert config(place) == {"producer_byte_rate": "5", "SCRAM-SHA-256": credential(ANN)}
    assert alter(place, DELETE) is None
    assert config(place) == {"producer_byte_rate": "5"}
    assert announced(place) == ["ann", "ann"]


def test_with_the_last_of_it_the_znode_goes_unless_clients_have_quotas_below_it(place):
    alter(place, ALTER)
    assert alter(place, DELETE) is None
    assert place.tree.get(PATH) is None
    alter(place, ALTER)
    place.act(Create(f"{PATH}/clients", None))
    assert alter(place, DELETE) is None
    assert config(place) == {}


def test_a_refusal_writes_nothing(place):
    refused = alter(place, DELETE)
    assert refused.error_code is ErrorCode.RESOURCE_NOT_FOUND
    assert place.tree.get(PATH) is None
    assert announced(place) == []


def test_what_somebody_wrote_meanwhile_is_decided_over_again(place):
    place.act(Create(PATH, encode_config({})))
    store, client = place.seat.store, place.seat.client
    read, once = client.get, []

    async def get(path, **more):
        found = await read(path, **more)
        if path == PATH and not once:
            once.append(place.act(Put(PATH, encode_config({"producer_byte_rate": "7"}))))
        return found

    client.get = get
    assert place.run(outcome_of(UserConfigs(client, store).alter_credentials("ann", ALTER))) is None
    assert config(place) == {"producer_byte_rate": "7", "SCRAM-SHA-256": credential(ANN)}
    assert announced(place) == ["ann"]


def test_who_is_not_the_controller_any_more_writes_nothing(place):
    place.act(Put(znodes.CONTROLLER_EPOCH, b"9"))
    refused = alter(place, ALTER)
    assert refused.error_code is ErrorCode.NOT_CONTROLLER
    assert place.tree.get(PATH) is None


def test_a_write_whose_answer_was_lost_is_not_refused(place):
    alter(place, ALTER)
    place.then[PATH] = place.kazoo.drop
    assert alter(place, DELETE) is None
    assert not place.then
    assert place.tree.get(PATH) is None
    assert announced(place) == ["ann", "ann"]


@pytest.mark.parametrize(
    ("name", "znode"),
    [
        ("ann", "ann"),
        ("CN=a, O=b c", "CN%3Da%2C%20O%3Db%20c"),
        ("a*b+c~d/e%f", "a%2Ab%2Bc%7Ed%2Fe%25f"),
        ("zoë_x.y-z", "zo%C3%AB_x.y-z"),
        ("<default>", "%3Cdefault%3E"),
    ],
)
def test_names_are_written_as_apache_writes_them(name, znode):
    assert sanitized(name) == znode
