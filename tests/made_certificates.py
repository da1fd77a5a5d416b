"""Authorities and certificates of every kind, good and bad, made in memory."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
BOTH = (*SERVER, *CLIENT)
ANY = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)


@dataclass(frozen=True)
class Made:
    """A certificate, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def public(self) -> str:
        """The certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def pem(self, *others: Made) -> str:
        """The key, the certificate and those of others, as the text of a key store."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return key + "".join(each.public for each in (self, *others))


def issued(
    name: str,
    issuer: Made | None,
    *,
    ca: bool = False,
    days: tuple[float, float] = (-2, 9),
    usage: Sequence[x509.ObjectIdentifier] = (),
    names: Sequence[str] = ("IP:127.0.0.1",),
) -> Made:
    """A certificate of an issuer, or of itself; `days` from now to its first and to its last moment."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = key if issuer is None else issuer.key
    first, last = (NOW + dt.timedelta(days=each) for each in days)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if ca:
        builder = builder.add_extension(key_usage(signs=True), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), critical=False)
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    return Made(builder.sign(signer, hashes.SHA256()), key)


def key_usage(*, signs: bool) -> x509.KeyUsage:
    """Python 3.13 wants it of an authority, which `signs`."""
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    none = dict.fromkeys((*unused, "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, **none)


def authority(name: str, *, days: tuple[float, float] = (-9, 99)) -> Made:
    """A root."""
    return issued(name, None, ca=True, days=days, names=())


def other_key(made: Made) -> Made:
    """The same certificate with a key that is not its own: what it signs is not signed by that certificate."""
    return replace(made, key=ec.generate_private_key(ec.SECP256R1()))


def _name(text: str) -> x509.GeneralName:
    kind, _, value = text.partition(":")
    return x509.DNSName(value) if kind == "DNS" else x509.IPAddress(ipaddress.ip_address(value))
