"""Whether Java's peers accept a certificate: its dates, its usage, the way to a trusted certificate, and its host.

The rules are those of Java's `X509TrustManagerImpl` (`PKIXValidator`, `EndEntityChecker`, `HostnameChecker`). OpenSSL is
stricter in some points, so its verdict alone would refuse certificates that brokers accept: Java checks neither dates nor
usage of a certificate that is in the trust store itself, and it lets a root stay when its dates are over.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from shunter.model.security.listeners import CertificateFault, FaultKind

EXPIRES_SOON: Final = dt.timedelta(days=14)
_ANY_USAGE: Final = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
_USAGES: Final = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}
_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


def faults_of(
    chain: tuple[x509.Certificate, ...],
    trusted: tuple[x509.Certificate, ...] | None,
    now: dt.datetime,
    *,
    as_client: bool,
) -> Iterator[CertificateFault]:
    """Find what every peer with the same settings refuses.

    Args:
        chain: of the key store, its own certificate first.
        trusted: the trust store of these peers; None: it is not known.
        now: with a time zone.
        as_client: whether the certificate is shown by the client's side of a connection too.
    """
    own = chain[0]
    if own in (trusted or ()):
        return  # Java asks for nothing more then.
    yield from _dated(own, "its certificate", now)
    for usage in (ExtendedKeyUsageOID.SERVER_AUTH, *((ExtendedKeyUsageOID.CLIENT_AUTH,) if as_client else ())):
        yield from _used(own, usage)
    if trusted is not None:
        yield from _led(own, chain[1:], trusted, now)


def valid_until(
    chain: tuple[x509.Certificate, ...], trusted: tuple[x509.Certificate, ...] | None
) -> dt.datetime | None:
    """Return when peers will refuse a chain because of its dates; None: never, because they trust its own certificate.

    Args:
        chain: of the key store, its own certificate first.
        trusted: the trust store of these peers; None: it is not known.
    """
    own, *others = chain
    if own in (trusted or ()):
        return None
    if trusted is not None and _leads(own, (), trusted):
        return own.not_valid_after_utc
    # A root that is sent along does not count: peers trust their own copy, whatever its dates.
    needed = (each for each in others if each.issuer != each.subject)
    return min(each.not_valid_after_utc for each in (own, *needed))


def expiry(
    chain: tuple[x509.Certificate, ...], trusted: tuple[x509.Certificate, ...] | None, now: dt.datetime
) -> CertificateFault | None:
    """Tell that a chain expires soon: within two weeks, and within the last tenth of its own certificate's time.

    Certificates that live for hours or days are renewed when a third of their time is left.
    """
    last = valid_until(chain, trusted)
    if last is None:
        return None
    left = last - now
    lifetime = chain[0].not_valid_after_utc - chain[0].not_valid_before_utc
    if not dt.timedelta() < left < min(EXPIRES_SOON, lifetime / 10):
        return None
    hours = int(left.total_seconds() // 3_600)
    in_time = f"in {hours // 24} days" if hours >= 48 else f"in {hours} hours" if hours >= 2 else "within two hours"
    told = f"its certificate ({_called(chain[0])}) expires {in_time}, at {_time(last)}"
    return CertificateFault(FaultKind.EXPIRES, told, "renew it in ssl.keystore in time")


def host_fault(certificate: x509.Certificate, host: str) -> CertificateFault | None:
    """Return why peers that check the host refuse the certificate at this host; None: they accept it."""
    if any(_fits(name, host) for name in _names(certificate, host)):
        return None
    alternative = _extension(certificate, x509.SubjectAlternativeName)
    named = ", ".join(str(each.value) for each in alternative or ()) or "no host by a subject alternative name"
    told = f"its certificate ({_called(certificate)}) is for {named}, and not for {host}"
    todo = (
        f"issue one whose subject alternative names have {host}, or advertise a host that it names; where brokers have"
        " ssl.endpoint.identification.algorithm= (empty), set that here too"
    )
    return CertificateFault(FaultKind.OTHER_HOST, told, todo)


def _dated(certificate: x509.Certificate, which: str, now: dt.datetime) -> Iterator[CertificateFault]:
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > last:
        told = f"{which} ({_called(certificate)}) expired at {_time(last)}"
        yield CertificateFault(FaultKind.UNUSABLE, told, "renew it in ssl.keystore")
    elif now < first:
        told = f"{which} ({_called(certificate)}) is not valid before {_time(first)}"
        yield CertificateFault(FaultKind.UNUSABLE, told, "wait, take another one, or set this machine's clock")


def _used(certificate: x509.Certificate, usage: ObjectIdentifier) -> Iterator[CertificateFault]:
    allowed = _extension(certificate, x509.ExtendedKeyUsage)
    if allowed is None or usage in allowed or _ANY_USAGE in allowed:
        return
    listed = ", ".join(_USAGES.get(each, each.dotted_string) for each in allowed)
    role = "a server" if usage == ExtendedKeyUsageOID.SERVER_AUTH else "a client, which ssl.client.auth asks for"
    told = f"its certificate ({_called(certificate)}) is not for {role}: its extended key usage is {listed} alone"
    yield CertificateFault(FaultKind.UNUSABLE, told, f"issue one with {_USAGES[usage]}, or without that extension")


def _led(
    own: x509.Certificate, others: Collection[x509.Certificate], trusted: Collection[x509.Certificate], now: dt.datetime
) -> Iterator[CertificateFault]:
    current = [each for each in others if not list(_dated(each, "", now))]
    if _leads(own, current, trusted):
        return
    if _leads(own, others, trusted):
        for each in others:
            yield from _dated(each, "a certificate of its chain", now)
        return
    last = own
    while (found := next((each for each in others if each != last and _issued(last, each)), None)) is not None:
        others = [each for each in others if each != found]
        last = found
    told = (
        f"its certificate ({_called(own)}) leads to {_text(last.issuer)}, and the trust store of the same file"
        f" has only {', '.join(sorted({_called(each) for each in trusted}))}"
    )
    todo = "put that authority into ssl.truststore here and at the brokers, or take a certificate of one that is there"
    yield CertificateFault(FaultKind.UNTRUSTED, told, todo)


def _leads(
    certificate: x509.Certificate, others: Collection[x509.Certificate], trusted: Collection[x509.Certificate]
) -> bool:
    """Whether a trusted certificate vouches for this one, by others or directly."""
    if certificate in trusted or any(_issued(certificate, each) for each in trusted):
        return True
    return any(
        _leads(each, [other for other in others if other != each], trusted)
        for each in others
        if _issued(certificate, each)
    )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if _comparable(certificate.issuer) != _comparable(issuer.subject):
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except InvalidSignature:
        return False
    except (ValueError, TypeError):
        return True  # The library does not know the kind of signature; Java may.
    return True


def _comparable(name: x509.Name) -> list[frozenset[tuple[str, str]]]:
    """Names count as equal without regard to case and to how many blanks there are (RFC 5280, 7.1), as in Java."""
    return [
        frozenset((each.oid.dotted_string, " ".join(str(each.value).split()).lower()) for each in part)
        for part in name.rdns
    ]


def _names(certificate: x509.Certificate, host: str) -> list[str]:
    """Return the names that count for this host: the common name counts for a host name if there is no other."""
    alternative = _extension(certificate, x509.SubjectAlternativeName)
    if _address(host) is not None:
        return [] if alternative is None else [str(each) for each in alternative.get_values_for_type(x509.IPAddress)]
    hosts = [] if alternative is None else alternative.get_values_for_type(x509.DNSName)
    return hosts or [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:]]


def _fits(name: str, host: str) -> bool:
    address = _address(host)
    if address is not None:
        return _address(name) == address
    parts, asked = name.lower().split("."), host.lower().split(".")
    if "*" in parts[-1]:
        return False  # It would be for every host of a top-level domain, or for all.
    patterns = (re.escape(part).replace(r"\*", ".*") for part in parts)
    return len(parts) == len(asked) and all(map(re.fullmatch, patterns, asked))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, ValueError):
        return None  # ValueError: an extension that the library can't read, of whatever kind.


def _called(certificate: x509.Certificate) -> str:
    return _text(certificate.subject)


def _text(name: x509.Name) -> str:
    return name.rfc4514_string() or "without a name"


def _time(when: dt.datetime) -> str:
    return f"{when.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def sentence(faults: Iterable[CertificateFault]) -> str:
    """Join faults to one sentence for a log."""
    return "; ".join(f"{each.told}: {each.todo}" for each in faults)
