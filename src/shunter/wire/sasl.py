"""SASL PLAIN, SCRAM and OAUTHBEARER, client and server side, as in Kafka: messages in, messages out.

Source: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER); Kafka's `PlainSaslServer`,
`ScramSaslServer`, `ScramMessages`. Kafka's SCRAM has no channel binding and ignores extensions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from shunter.model.security.listeners import SCRAM_HASHES, ScramCredential, Secret

LEAST_ITERATIONS: Final = 4_096

BEARER_REFUSAL_HEARD: Final = b"\x01"
"""A client's answer to a server's message that says what is wrong with the client's token."""
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_BEARER: Final = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_BEARER_AUTH: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_SERVER_FIRST: Final = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class SaslRefused(Exception):
    """A login is refused. `told` is the message for the client; None means Kafka's general message."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        self.told = told
        super().__init__(reason)


def check_plain(token: bytes, users: Mapping[str, Secret]) -> str:
    """Check a PLAIN login and return the user's name.

    Raises:
        SaslRefused: with Kafka's message for the client.
    """
    try:
        parts = token.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        raise SaslRefused("the token is not UTF-8", "Invalid SASL/PLAIN response: not UTF-8") from None
    if len(parts) != 3:
        told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        raise SaslRefused(told, told)
    authorization, user, password = parts
    for value, noun in ((user, "username"), (password, "password")):
        if not value:
            raise SaslRefused(f"no {noun}", f"Authentication failed: {noun} not specified")
    known = users.get(user)
    expected = known.reveal() if known is not None else ""
    # Passwords are compared for unknown users too, so that the time of the answer does not show whether a user exists.
    if not hmac.compare_digest(expected.encode(), password.encode()) or known is None:
        raise SaslRefused(
            f"invalid password or unknown user {user!r}", "Authentication failed: Invalid username or password"
        )
    if authorization and authorization != user:
        told = "Authentication failed: Client requested an authorization id that is different from username"
        raise SaslRefused(f"user {user!r} asks for another authorization id", told)
    return user


def plain_token(user: str, password: Secret) -> bytes:
    """Make the only token of a PLAIN login."""
    return f"\0{user}\0{password.reveal()}".encode()


class BearerResponse(NamedTuple):
    """A client's first message by OAUTHBEARER."""

    token: Secret
    authorization: str
    """The id that the client asks for; empty means the token's subject."""


def read_bearer(response: bytes) -> BearerResponse:
    """Read a client's first response (RFC 7628, 3.1, as Kafka's `OAuthBearerClientInitialResponse`).

    Raises:
        SaslRefused: `response` is malformed.
    """
    told = "Invalid OAUTHBEARER client first message"
    found = _BEARER.fullmatch(response.decode("utf-8", errors="replace"))
    if found is None:
        raise SaslRefused(told)
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER_AUTH.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslRefused(f"{told}: invalid 'auth' format")
    return BearerResponse(Secret(bearer["token"]), found["authzid"] or "")


def bearer_response(token: str, extensions: Mapping[str, str]) -> bytes:
    """Make a client's first message by OAUTHBEARER."""
    pairs = {"auth": f"Bearer {token}", **extensions}
    return b"n,,\x01" + b"".join(f"{name}={value}\x01".encode() for name, value in pairs.items()) + b"\x01"


class ScramServer:
    """The server's side of one SCRAM login. Call in this order: `hear_first`, `challenge`, `hear_final`."""

    def __init__(self, mechanism: str) -> None:
        self.user = ""
        self._mechanism = mechanism
        self._hash = SCRAM_HASHES[mechanism]
        self._first_bare = self._client_nonce = self._first = self._nonce = ""
        self._binding = ""
        self._credential: ScramCredential | None = None

    def hear_first(self, token: bytes) -> str:
        """Read the client's first message and return the user's name.

        Raises:
            SaslRefused: the message can't be read, is for a delegation token, or asks for another authorization id.
        """
        found = _CLIENT_FIRST.fullmatch(token.decode("utf-8", "replace"))
        if found is None:
            raise SaslRefused("the first SCRAM message can't be read")
        if ",tokenauth=true" in found["extensions"].lower():
            raise SaslRefused("delegation tokens are not taken by this controller: brokers take them")
        self.user = _plain_name(found["name"])
        self._first_bare, self._client_nonce = found["bare"], found["nonce"]
        authorization = "" if found["authzid"] is None else found["authzid"]
        self._binding = f"n,{'a=' + authorization if authorization else ''},"
        if authorization and _plain_name(authorization) != self.user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslRefused(told, told)
        return self.user

    def challenge(self, credential: ScramCredential | None, nonce: str) -> bytes:
        """Answer the first message. `nonce` is random, of printable characters without a comma.

        Raises:
            SaslRefused: the user has no credential of this mechanism, or one with too few iterations.
        """
        if credential is None:
            raise SaslRefused(f"user {self.user!r} has no credential for {self._mechanism}")
        if credential.iterations < LEAST_ITERATIONS:
            raise SaslRefused(f"user {self.user!r}: {credential.iterations} iterations are below {LEAST_ITERATIONS}")
        self._credential, self._nonce = credential, self._client_nonce + nonce
        salt = base64.b64encode(credential.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._first.encode()

    def hear_final(self, token: bytes) -> bytes:
        """Check the client's proof, and return the proof that the server knows the user's credential.

        Raises:
            SaslRefused: the password is wrong, or the message does not fit the messages before.
        """
        found = _CLIENT_FINAL.fullmatch(token.decode("utf-8", "replace"))
        if found is None or self._credential is None:
            raise SaslRefused("the final SCRAM message can't be read")
        if not hmac.compare_digest(found["nonce"].encode(), self._nonce.encode()):
            raise SaslRefused("the final SCRAM message has another nonce")
        if base64.b64decode(found["binding"]).decode("utf-8", "replace") != self._binding:
            raise SaslRefused("the final SCRAM message has another GS2 header than the first")
        message = f"{self._first_bare},{self._first},{found['unproved']}".encode()
        signature = hmac.digest(self._credential.stored_key, message, self._hash)
        proof = base64.b64decode(found["proof"])
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        stored = hashlib.new(self._hash, key).digest()
        if len(proof) != len(signature) or not hmac.compare_digest(stored, self._credential.stored_key):
            raise SaslRefused(f"invalid password of user {self.user!r}")
        verified = hmac.digest(self._credential.server_key, message, self._hash)
        return b"v=" + base64.b64encode(verified)


class ScramChallenge(NamedTuple):
    """The server's first message."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


class ScramClient:
    """The client's side of one SCRAM login. Call in this order: `first`, `hear_challenge`, `final`, `check`."""

    def __init__(self, mechanism: str, user: str, nonce: str) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._first_bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._nonce = nonce
        self._verified = b""

    def first(self) -> bytes:
        """Make the first message."""
        return b"n,," + self._first_bare.encode()

    def hear_challenge(self, token: bytes) -> ScramChallenge:
        """Read the server's first message.

        Raises:
            SaslRefused: the message can't be read, does not answer the first message, or has too few iterations.
        """
        text = token.decode("utf-8", "replace")
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found["nonce"].startswith(self._nonce):
            raise SaslRefused("the broker's first SCRAM message can't be read")
        if int(found["iterations"]) < LEAST_ITERATIONS:
            raise SaslRefused(f"the broker asks for {found['iterations']} iterations, below {LEAST_ITERATIONS}")
        return ScramChallenge(text, found["nonce"], base64.b64decode(found["salt"]), int(found["iterations"]))

    def final(self, challenge: ScramChallenge, salted_password: bytes) -> bytes:
        """Make the final message: the proof that the client knows the password."""
        unproved = f"c=biws,r={challenge.nonce}"
        message = f"{self._first_bare},{challenge.text},{unproved}".encode()
        client_key = hmac.digest(salted_password, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._verified = hmac.digest(hmac.digest(salted_password, b"Server Key", self._hash), message, self._hash)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def check(self, token: bytes) -> None:
        """Check the server's proof that it knows the user's credential.

        Raises:
            SaslRefused: the proof is wrong: this may not be the server that was meant.
        """
        if not hmac.compare_digest(token, b"v=" + base64.b64encode(self._verified)):
            raise SaslRefused("the broker does not prove that it knows our password")


def salted(mechanism: str, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Salt a password. Cost: some 4 ms for 4,096 iterations."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.reveal().encode(), salt, iterations)


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
