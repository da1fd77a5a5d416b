"""Whether a host is this machine's loopback, so that no other machine sees what goes there."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

_IPV4 = re.compile(r"127(\.[0-9]+){1,3}")
"""The loopback's IPv4 addresses, short forms such as 127.1 included: whatever follows 127, no other machine has them."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host: `localhost`, 127.0.0.0/8 or ::1, without brackets and port.

    A name that only begins like an address, such as 127.example.com, may be another machine's.
    """
    if host.lower() == "localhost" or _IPV4.fullmatch(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # Python before 3.13 says of ::ffff:127.0.0.1 that it is not on the loopback.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
