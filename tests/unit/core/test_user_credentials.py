"""What of AlterUserScramCredentials and UpdateFeatures is refused, and what they write; words and codes are Apache's."""

import base64
import hashlib

import pytest

from shunter.core.features import FeatureUpdate, Upgrade, kept_valid, update_features
from shunter.core.user_credentials import (
    CredentialChanges,
    Deletion,
    Upsertion,
    altered_config,
    credential,
    refused_users,
)
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.features import FinalizedFeatures

SHA_256, SHA_512 = 1, 2
UPGRADE, SAFE, UNSAFE, UNKNOWN = Upgrade.UPGRADE, Upgrade.SAFE_DOWNGRADE, Upgrade.UNSAFE_DOWNGRADE, Upgrade.UNKNOWN
BROKERS = ({"f": (2, 5), "g": (1, 1)}, {"f": (1, 5)})


def upsertion(user="ann", mechanism=SHA_256, iterations=4096, salt=b"salt", password=b"salted"):
    return Upsertion(user, mechanism, iterations, salt, password)


def changes(*asked):
    return CredentialChanges(
        tuple(each for each in asked if isinstance(each, Upsertion)),
        tuple(each for each in asked if isinstance(each, Deletion)),
    )


def test_a_credential_is_what_rfc_5802_derives():
    """RFC 7677, section 3: user `user`, password `pencil`, 4096 iterations."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    kept = dict(part.split("=", 1) for part in credential(upsertion(salt=salt, password=salted)).split(","))
    assert list(kept) == ["salt", "stored_key", "server_key", "iterations"]
    assert kept["salt"] == "W22ZaJ0SNY7soEsUEjb6gQ=="
    # The server's signature in that example proves the server key.
    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    signed = f"{first},r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    import hmac

    proof = hmac.digest(base64.b64decode(kept["server_key"]), signed.encode(), "sha256")
    assert base64.b64encode(proof).decode() == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        (upsertion(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (Deletion("", 9), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(mechanism=3, iterations=1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (Deletion("ann", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion(password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty"),
        (upsertion(salt=b"x" * 4097), ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt has 4097 bytes, and 4096 is the most"),
        (upsertion(user=".."), ErrorCode.UNACCEPTABLE_CREDENTIAL, "ZooKeeper has no znode of that name"),
    ],
)  # fmt: skip
def test_what_can_t_be_is_refused_for_its_user_alone(asked, code, told):
    refused = refused_users(changes(asked, upsertion(user="bob")))
    assert list(refused) == [asked.user]
    assert refused[asked.user].error_code is code
    assert told in refused[asked.user].message


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_the_bounds_themselves_are_accepted(iterations):
    assert refused_users(changes(upsertion(iterations=iterations))) == {}


@pytest.mark.parametrize("second", [upsertion(iterations=5000), Deletion("ann", SHA_256)])
def test_one_credential_twice_in_a_request_is_refused(second):
    refused = refused_users(changes(upsertion(), second, upsertion(user="bob")))
    assert {user: why.error_code for user, why in refused.items()} == {"ann": ErrorCode.DUPLICATE_RESOURCE}


def test_two_mechanisms_of_one_user_are_two_credentials():
    asked = changes(upsertion(), Deletion("ann", SHA_512))
    assert refused_users(asked) == {}
    kept = altered_config("ann", {"SCRAM-SHA-512": "old", "producer_byte_rate": "5"}, asked)
    assert kept == {"SCRAM-SHA-256": credential(upsertion()), "producer_byte_rate": "5"}


def test_a_credential_that_is_not_there_can_t_be_deleted():
    with pytest.raises(RequestRejected, match="does not exist") as refused:
        altered_config("ann", {"SCRAM-SHA-256": "old"}, changes(Deletion("ann", SHA_512), upsertion()))
    assert refused.value.error_code is ErrorCode.RESOURCE_NOT_FOUND


def test_other_users_changes_are_left_aside():
    asked = changes(upsertion(user="bob"), Deletion("ann", SHA_256))
    assert altered_config("ann", {"SCRAM-SHA-256": "old"}, asked) == {}
    assert asked.users == ("ann", "bob")


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
