"""Rules from a certificate's subject to a principal; `tests/real/test_stores_beside_java.py` asks Kafka about the same."""

from __future__ import annotations

import pytest

from shunter.errors import FormatError
from shunter.formats.security.certificate_names import mapping_rules, principal_name


@pytest.mark.parametrize(
    ("rule", "subject", "name"),
    [
        (r"RULE:^CN=(\w+)$/$1/", "CN=Zoe", "Zoe"),
        (r"RULE:^CN=(\w+)$/$1/", "CN=Zoë", None),
        (r"RULE:^CN=(\d+)$/$1/", "CN=٣٤", None),
        (r"RULE:^CN=(\S+)\s(.*)$/$1/", "CN=a\u00a0b", None),
        ("RULE:(?i)^cn=(k.*)$/$1/", "CN=Kelvin", "Kelvin"),
        ("RULE:(?i)^cn=(k.*)$/$1/", "CN=\u212aelvin", None),
        ("RULE:^CN=(.*)$/$1/L", "CN=\u212aelvin", "kelvin"),
        ("RULE:^CN=(.*)$/$1/L", "CN=ZOË", "zoë"),
        ("RULE:^CN=(.*)$/$1/U", "CN=straße", "STRASSE"),
    ],
)
def test_patterns_know_ascii_alone_and_cases_all_letters(rule, subject, name):
    assert principal_name(mapping_rules(rule), subject) == name


@pytest.mark.parametrize("rule", ["RULE:(?u)^CN=(.*)$/$1/", "RULE:(?U)^CN=(.*)$/$1/", "RULE:^CN=(/$1/"])
def test_a_pattern_that_python_can_not_follow_is_refused(rule):
    with pytest.raises(FormatError, match="rule's pattern"):
        mapping_rules(rule)
