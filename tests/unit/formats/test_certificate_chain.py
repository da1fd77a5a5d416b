"""Which certificates Java's peers accept, and how a subject becomes a principal; tests/real asks Kafka about both."""

import datetime as dt

import pytest

from certificate_cases import ACCEPTED, FOR, NOT_FOR, REFUSED, ROOT
from made_certificates import BOTH, NOW, SERVER, Made, authority, issued
from shunter.errors import FormatError
from shunter.formats.security.certificate_chain import expiry, faults_of, host_fault, valid_until
from shunter.formats.security.certificate_names import mapping_rules, principal_name
from shunter.model.security.listeners import FaultKind


def chain(*made: Made):
    return tuple(each.certificate for each in made)


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_false_alarm(name):
    shown, trusted = ACCEPTED[name]
    known = None if trusted is None else chain(*trusted)
    assert list(faults_of(chain(*shown), known, NOW, as_client=False)) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_every_such_peer_refuses(name):
    shown, trusted, told = REFUSED[name]
    known = None if trusted is None else chain(*trusted)
    (fault,) = faults_of(chain(*shown), known, NOW, as_client=False)
    assert told in fault.told
    assert fault.todo
    untrusted = "leads to" in told
    assert fault.kind is (FaultKind.UNTRUSTED if untrusted else FaultKind.UNUSABLE)


def test_a_certificate_that_clients_show_has_to_be_for_clients():
    (fault,) = faults_of(chain(issued("x", ROOT, usage=SERVER)), chain(ROOT), NOW, as_client=True)
    assert "is not for a client, which ssl.client.auth asks for" in fault.told
    assert not list(faults_of(chain(issued("x", ROOT, usage=BOTH)), chain(ROOT), NOW, as_client=True))


@pytest.mark.parametrize(("names", "host"), [*FOR, (["IP:::1"], "[::1]")])
def test_a_host_that_the_certificate_is_for(names, host):
    assert host_fault(issued("x", ROOT, names=names).certificate, host) is None


@pytest.mark.parametrize(("names", "host", "told"), NOT_FOR)
def test_a_host_that_the_certificate_is_not_for(names, host, told):
    fault = host_fault(issued("x", ROOT, names=names).certificate, host)
    assert fault is not None
    assert told in fault.told
    assert host in fault.todo
    assert fault.kind is FaultKind.OTHER_HOST


def test_dates_are_told_as_utc():
    (fault,) = faults_of(chain(issued("x", ROOT)), None, NOW + dt.timedelta(days=30), as_client=False)
    last = NOW + dt.timedelta(days=9)
    assert fault.told == f"its certificate (CN=x) expired at {last:%Y-%m-%d %H:%M:%S} UTC"


ISSUING = issued("issuing", ROOT, ca=True, days=(-100, 3))


@pytest.mark.parametrize(
    ("days", "told"),
    [
        ((-351, 14.5), None),
        ((-355, 13.5), "expires in 13 days, at "),
        ((-364, 1.25), "expires in 30 hours, at "),
        ((-80, 10), None),
        ((-82, 8.5), "expires in 8 days, at "),
        ((-0.5, 0.5), None),
        ((-0.95, 0.05), "expires within two hours, at "),
        ((-9, -1), None),
        ((1, 9), None),
    ],
)
def test_a_certificate_that_expires_soon_is_told_and_one_that_lives_for_days_only_near_its_end(days, told):
    fault = expiry(chain(issued("x", ROOT, days=days)), chain(ROOT), NOW)
    assert (fault is None) == (told is None)
    if fault is not None:
        assert fault.kind is FaultKind.EXPIRES
        assert told in fault.told


def test_the_first_certificate_of_a_chain_to_expire_is_what_counts():
    own = issued("x", ISSUING, days=(-100, 200))
    whole = chain(own, ISSUING)
    assert valid_until(whole, chain(ROOT)) == ISSUING.certificate.not_valid_after_utc
    assert valid_until(whole, None) == ISSUING.certificate.not_valid_after_utc
    assert valid_until(whole, chain(ISSUING)) == own.certificate.not_valid_after_utc, "peers trust their own copy"
    assert valid_until(whole, chain(own)) is None, "Java asks for nothing more then"
    old = authority("old", days=(-9, -1))
    alone = issued("x", old)
    assert valid_until(chain(alone, old), None) == alone.certificate.not_valid_after_utc, "a root does not count"


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
