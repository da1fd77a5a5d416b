"""SCRAM credentials of users: which parts of a request are refused, and the user's configuration that follows.

Refusals and their words follow Apache's `ZkAdminManager.alterUserScramCredentials`, because tools match on them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from shunter.errors import ErrorCode, RequestRejected

ITERATIONS_AT_LEAST: Final = 4_096
ITERATIONS_AT_MOST: Final = 16_384
BYTES_AT_MOST: Final = 4_096
"""The longest salt: a user's configuration is one znode. Apache's clients draw some 26 bytes."""

_HASHES: Final[Mapping[int, str]] = {1: "sha256", 2: "sha512"}
MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers of the mechanisms, and the names under which a user's configuration has their credentials."""


class Upsertion(NamedTuple):
    """A credential that a user is to have from now on. The client salts and hashes the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class Deletion(NamedTuple):
    """A credential that a user is to lose."""

    user: str
    mechanism: int


class CredentialChanges(NamedTuple):
    """Everything that one request asks for."""

    upsertions: tuple[Upsertion, ...]
    deletions: tuple[Deletion, ...]

    @property
    def users(self) -> tuple[str, ...]:
        """All users that are named, sorted."""
        return tuple(sorted({each.user for each in self.upsertions} | {each.user for each in self.deletions}))


def refused_users(changes: CredentialChanges) -> dict[str, RequestRejected]:
    """Refuse users by the contents of the request alone. Every change for such a user is refused."""
    refused = {each.user: why for each in changes.deletions if (why := _refuse_deletion(each)) is not None}
    refused |= {each.user: why for each in changes.upsertions if (why := _refuse_upsertion(each)) is not None}
    pairs = Counter([(each.user, each.mechanism) for each in changes.upsertions])
    pairs.update((each.user, each.mechanism) for each in changes.deletions)
    for user, _ in sorted(pair for pair, count in pairs.items() if count > 1):
        told = "A user credential cannot be altered twice in the same request"
        refused.setdefault(user, RequestRejected(ErrorCode.DUPLICATE_RESOURCE, told))
    return refused


def altered_config(user: str, config: Mapping[str, str], changes: CredentialChanges) -> dict[str, str]:
    """Apply changes to a user's configuration. Its quotas stay.

    Raises:
        RequestRejected: a change deletes a credential that the user does not have.
    """
    wanted = dict(config)
    gone = [MECHANISMS[each.mechanism] for each in changes.deletions if each.user == user]
    if any(name not in config for name in gone):
        told = "Attempt to delete a user credential that does not exist"
        raise RequestRejected(ErrorCode.RESOURCE_NOT_FOUND, told)
    for name in gone:
        del wanted[name]
    for each in changes.upsertions:
        if each.user == user:
            wanted[MECHANISMS[each.mechanism]] = credential(each)
    return wanted


def credential(asked: Upsertion) -> str:
    """Derive the credential that a broker checks a login against, in the form in which Kafka keeps it.

    Source: RFC 5802, section 3 (StoredKey, ServerKey); Kafka's `ScramFormatter` and `ScramCredentialUtils`.
    """
    algorithm = _HASHES[asked.mechanism]
    client_key = hmac.digest(asked.salted_password, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    server_key = hmac.digest(asked.salted_password, b"Server Key", algorithm)
    salt, stored, server = (base64.b64encode(part).decode() for part in (asked.salt, stored_key, server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={asked.iterations}"


def _refuse_user(user: str, mechanism: int) -> RequestRejected | None:
    if not user:
        return RequestRejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in MECHANISMS:
        return RequestRejected(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if user in {".", ".."}:
        told = f"Username must not be '{user}': ZooKeeper has no znode of that name"
        return RequestRejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, told)
    return None


def _refuse_deletion(asked: Deletion) -> RequestRejected | None:
    return _refuse_user(asked.user, asked.mechanism)


def _refuse_upsertion(asked: Upsertion) -> RequestRejected | None:
    refused = _refuse_user(asked.user, asked.mechanism)
    told = None
    if asked.iterations < ITERATIONS_AT_LEAST:
        told = "Too few iterations"
    elif asked.iterations > ITERATIONS_AT_MOST:
        told = "Too many iterations"
    elif not asked.salted_password:
        told = "The salted password must not be empty"
    elif len(asked.salt) > BYTES_AT_MOST:
        told = f"The salt has {len(asked.salt)} bytes, and {BYTES_AT_MOST} is the most"
    if refused is None and told is not None:
        return RequestRejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, told)
    return refused
