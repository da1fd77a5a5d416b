"""What of AlterUserScramCredentials is refused, and what a user's configuration becomes; words and codes are Apache's."""

from __future__ import annotations

import base64
import hashlib

import pytest

from shunter.core.user_credentials import (
    CredentialChanges,
    Deletion,
    Upsertion,
    altered_config,
    credential,
    refused_users,
)
from shunter.errors import ErrorCode, RequestRejected

SHA_256, SHA_512 = 1, 2


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
