"""SASL DIGEST-MD5 against the example of RFC 2831, section 4, and refused challenges."""

import pytest

from shunter.drivers.zookeeper.digest_md5 import DigestMd5
from shunter.errors import FormatError

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def test_the_example_of_the_rfc():
    login = DigestMd5("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    said = login.response(CHALLENGE).decode()
    assert "response=d388dad90d4bbd760a152321f2143af7" in said
    assert 'username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001' in said
    assert login.server_proved(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    assert not login.server_proved(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")
    assert not login.server_proved(b"")


def test_a_server_can_prove_nothing_before_it_was_answered():
    assert not DigestMd5("chris", "secret").server_proved(b"rspauth=")


def test_a_name_with_quotes_is_escaped():
    assert b'username="o\\"b\\\\r"' in DigestMd5('o"b\\r', "x").response(CHALLENGE)


@pytest.mark.parametrize(
    "challenge",
    [b"", b"nonce=1", b'nonce="1",algorithm=md5', b'nonce="1",algorithm=md5-sess,qop="auth-int"'],
)
def test_another_mechanism_is_refused(challenge):
    with pytest.raises(FormatError):
        DigestMd5("chris", "secret").response(challenge)


def test_each_login_has_a_nonce_of_its_own():
    assert DigestMd5("a", "b").response(CHALLENGE) != DigestMd5("a", "b").response(CHALLENGE)
