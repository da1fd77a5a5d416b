import pytest

from shunter.errors import SettingsError
from shunter.model.security.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a,OU=b:c", Principal("User", "CN=a,OU=b:c")),
        ("Group:", Principal("Group", "")),
    ],
)
def test_a_principal_is_what_stands_before_and_behind_the_first_colon(text, principal):
    assert parse_principal(text) == principal
    assert str(principal) == text


def test_who_has_no_type_is_no_principal():
    with pytest.raises(SettingsError, match="'alice' is not of the form TYPE:NAME"):
        parse_principal("alice")


def test_nobody_is_anonymous_as_in_kafka():
    assert str(ANONYMOUS) == "User:ANONYMOUS"
