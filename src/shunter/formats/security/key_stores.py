"""Key stores and trust stores as Kafka takes them: PEM, PKCS12, and Java's own JKS.

PKCS12 and keys are read by `cryptography`. JKS is read here: no library that reads it is maintained, its form has not
changed since 1998, and Java still makes such stores on request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from shunter.errors import FormatError
from shunter.model.security.listeners import Secret

_JKS_MAGIC: Final = 0xFEEDFEED
_JCEKS_MAGIC: Final = 0xCECECECE
_KEY, _TRUSTED = 1, 2
_JKS_WHITENER: Final = b"Mighty Aphrodite"
"""Stands between password and content in the digest at the end of each store. Source: Java's `JavaKeyStore`."""
_SALT = _DIGEST = 20
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)


class KeyPair(NamedTuple):
    """A private key and the certificates that vouch for it, its own first."""

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]

    def pem(self, password: bytes) -> bytes:
        """Print the pair as PEM, with the key encrypted if there is a password."""
        protection = BestAvailableEncryption(password) if password else NoEncryption()
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
        return key + b"".join(each.public_bytes(Encoding.PEM) for each in self.chain)


def read_key_store(data: bytes, place: str, password: Secret | None, key_password: Secret | None) -> KeyPair:
    """Read the first key of a store of any kind. The kind is recognized by the content, as in today's Java.

    Raises:
        FormatError: the store can't be read, the password is wrong, or it has no key.
    """
    if _is_jks(data):
        keys, _ = _read_jks(data, place, password, key_password or password)
        if not keys:
            raise FormatError(place, "has no private key")
        return keys[0]
    if _PRIVATE_KEY.search(data):
        return _read_pem(data, place, key_password)
    if b"-----BEGIN" in data:
        raise FormatError(place, "has no private key")
    key, own, others = _read_pkcs12(data, place, password)
    if key is None or own is None:
        raise FormatError(place, "has no private key with a certificate")
    return KeyPair(key, (own, *_chain(own, others)))


def read_trust_store(data: bytes, place: str, password: Secret | None) -> tuple[x509.Certificate, ...]:
    """Read all certificates of a store of any kind.

    Raises:
        FormatError: the store can't be read, the password is wrong, or it has no certificate.
    """
    if _is_jks(data):
        keys, found = _read_jks(data, place, password, None)
        certificates = (*found, *(each for pair in keys for each in pair.chain))
    elif b"-----BEGIN" in data:
        certificates = _certificates(data, place)
    else:
        _, own, others = _read_pkcs12(data, place, password)
        certificates = (*(() if own is None else (own,)), *others)
    if not certificates:
        raise FormatError(place, "has no certificate")
    return tuple(certificates)


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Put the certificates that vouch for `own` in order; unrelated ones are left out."""
    chain: list[x509.Certificate] = []
    last = own
    while last.issuer != last.subject:
        issuer = next((each for each in others if each.subject == last.issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
        last = issuer
    return chain


def _certificates(data: bytes, place: str) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificate(found) for found in _CERTIFICATE.findall(data))
    except ValueError as refusal:
        raise FormatError(place, f"a certificate can't be read: {refusal}") from None


def _read_pem(data: bytes, place: str, key_password: Secret | None) -> KeyPair:
    found = _PRIVATE_KEY.search(data)
    assert found is not None
    try:
        key = load_pem_private_key(found[0], None if key_password is None else key_password.reveal().encode())
    except TypeError as refusal:
        if key_password is None:
            raise FormatError(place, "its key is encrypted: ssl.key.password is not set") from None
        # There is a password, and the key is not encrypted: Java accepts that too.
        if "not encrypted" not in str(refusal):
            raise FormatError(place, "its key can't be read") from None
        key = load_pem_private_key(found[0], None)
    except ValueError:
        raise FormatError(place, "its key can't be read; is ssl.key.password right?") from None
    chain = _certificates(data, place)
    if not chain:
        raise FormatError(place, "has a private key and no certificate for it")
    return KeyPair(key, chain)


def _read_pkcs12(
    data: bytes, place: str, password: Secret | None
) -> tuple[PrivateKeyTypes | None, x509.Certificate | None, list[x509.Certificate]]:
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.reveal().encode())
    except ValueError:
        raise FormatError(place, "is no PEM, PKCS12 or JKS store, or its password is another one") from None
    own = None if store.cert is None else store.cert.certificate
    return store.key, own, [each.certificate for each in store.additional_certs]


def _is_jks(data: bytes) -> bool:
    return int.from_bytes(data[:4], "big") in {_JKS_MAGIC, _JCEKS_MAGIC}


class _Reader:
    """Reads what Java's `DataOutputStream` writes."""

    def __init__(self, data: bytes, place: str) -> None:
        self._data, self._offset, self._place = data, 0, place

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._offset:
            raise FormatError(self._place, "ends before its content does")
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")

    @property
    def read(self) -> bytes:
        return self._data[: self._offset]


def _read_jks(
    data: bytes, place: str, password: Secret | None, key_password: Secret | None
) -> tuple[list[KeyPair], list[x509.Certificate]]:
    """Read a JKS store; keys only if there is a `key_password`.

    Layout: magic, version, count; entries of tag, alias, time, and a protected key with its chain, or a certificate;
    SHA-1 over password, a constant and all of that. Source: Java's `sun.security.provider.JavaKeyStore`.
    """
    reader = _Reader(data, place)
    if reader.number(4) == _JCEKS_MAGIC:
        told = "is a JCEKS store; `keytool -importkeystore -deststoretype PKCS12` makes one that can be read"
        raise FormatError(place, told)
    version = reader.number(4)
    keys: list[KeyPair] = []
    trusted: list[x509.Certificate] = []
    for _ in range(reader.number(4)):
        tag = reader.number(4)
        reader.text()
        reader.number(8)
        if tag == _TRUSTED:
            trusted.append(_jks_certificate(reader, version, place))
            continue
        if tag != _KEY:
            raise FormatError(place, f"has an entry of the unknown kind {tag}")
        protected = reader.take(reader.number(4))
        chain = tuple(_jks_certificate(reader, version, place) for _ in range(reader.number(4)))
        if key_password is not None:
            keys.append(KeyPair(_unprotected(protected, key_password, place), chain))
    if password is not None:
        content = _java_characters(password) + _JKS_WHITENER + reader.read
        digest = hashlib.sha1(content, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, reader.take(_DIGEST)):
            raise FormatError(place, "was changed, or its password is another one")
    return keys, trusted


def _jks_certificate(reader: _Reader, version: int, place: str) -> x509.Certificate:
    kind = reader.text() if version == 2 else "X.509"
    encoded = reader.take(reader.number(4))
    if kind != "X.509":
        raise FormatError(place, f"has a certificate of the unknown kind {kind!r}")
    try:
        return x509.load_der_x509_certificate(encoded)
    except ValueError as refusal:
        raise FormatError(place, f"a certificate can't be read: {refusal}") from None


def _unprotected(protected: bytes, password: Secret, place: str) -> PrivateKeyTypes:
    """Undo the protection of one key: a stream of SHA-1 digests over password and salt, and a digest at the end.

    The key is in an EncryptedPrivateKeyInfo: a sequence of an algorithm and an octet string, which ends the structure.
    """
    algorithm = bytes.fromhex("06 0a 2b 06 01 04 01 2a 02 11 01 01".replace(" ", ""))
    start = protected.find(algorithm)
    if start < 0:
        raise FormatError(place, "its key is protected in another way than that of Java's JKS stores")
    start += len(algorithm)
    if protected[start : start + 2] == b"\x05\x00":
        start += 2
    length = protected[start + 1]
    body = protected[start + 2 + (length & 0x7F if length & 0x80 else 0) :]
    salt, hidden, digest = body[:_SALT], body[_SALT:-_DIGEST], body[-_DIGEST:]
    secret = _java_characters(password)
    stream, last = b"", salt
    while len(stream) < len(hidden):
        last = hashlib.sha1(secret + last, usedforsecurity=False).digest()
        stream += last
    plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain, usedforsecurity=False).digest(), digest):
        raise FormatError(place, "its key can't be read; is ssl.key.password (or ssl.keystore.password) right?")
    return load_der_private_key(plain, None)


def _java_characters(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")
