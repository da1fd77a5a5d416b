"""Which certificates Java's peers accept: each fault names the value, the rule and the way out.

`tests/real/test_security_beside_java.py` asks Kafka's own code about the same cases.
"""

from __future__ import annotations

import datetime as dt

import pytest

from certificate_cases import ACCEPTED, FOR, NOT_FOR, REFUSED, ROOT
from made_certificates import BOTH, NOW, SERVER, Made, issued
from shunter.formats.certificate_chain import faults_of, host_fault
from shunter.model.security import FaultKind


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
