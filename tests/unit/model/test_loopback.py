"""One answer to the question whether a host is this machine's loopback."""

from __future__ import annotations

import pytest

from shunter.model.security.loopback import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "127.1", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]
)
def test_the_loopback_is_local(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "10.0.0.5", "128.0.0.1", "::2", "::ffff:10.0.0.5", "kafka1", "localhost.example.com", "1"],
)
def test_any_other_host_is_not_local(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.com", "127.0.0.1.example.com", "127.0.0.1.2.3", "127."])
def test_a_name_that_begins_like_the_loopback_is_not_local(host: str) -> None:
    assert not is_loopback(host)
