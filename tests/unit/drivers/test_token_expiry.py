"""Delegation tokens on the simulation's ZooKeeper: expired ones are deleted, and that is announced to brokers."""

import json
import logging

import pytest
from kazoo.exceptions import ConnectionLoss
from test_controller_seat import Place

from lab.simulation.zookeeper.wire import MULTI
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.drivers.zookeeper.token_expiry import TokenExpiry
from shunter.formats.znodes.tokens import TOKEN_CHANGES, TOKENS

NOW = 1_000_000


def token(expiry=NOW + 1, latest=NOW + 5, version=3):
    return json.dumps(
        {"version": version, "expiryTimestamp": expiry, "maxTimestamp": latest, "owner": "User%3Aa"}
    ).encode()


OUTDATED = token(expiry=NOW - 1)


@pytest.fixture
def place():
    made = Place().begin()
    made.expiry = TokenExpiry(made.seat.reader, made.seat.store, 1_000)
    return made


def add(place, **tokens):
    for path in ("/delegation_token", TOKENS, TOKEN_CHANGES):
        if place.tree.get(path) is None:
            place.act(Create(path, None))
    for name, data in tokens.items():
        place.act(Create(f"{TOKENS}/{name}", data))


def look(place, epoch=1, now=NOW):
    place.run(place.expiry.maybe_look(epoch, now))
    return sorted(place.tree.children(TOKENS) or ())


def announced(place):
    return [place.tree.get(f"{TOKEN_CHANGES}/{name}").data for name in sorted(place.tree.children(TOKEN_CHANGES))]


def test_without_tokens_nothing_is_done(place):
    assert look(place) == []


def test_what_has_expired_goes_and_is_announced(place):
    add(
        place,
        good=token(),
        last=token(NOW, NOW),
        unrenewed=token(expiry=NOW - 1),
        too_old=token(latest=NOW - 1),
        old_form=token(expiry=NOW - 1, version=1),
        broken=b"nonsense",
        newer=token(expiry=NOW - 1, version=4),
    )
    assert look(place) == ["broken", "good", "last", "newer"]
    assert announced(place) == [b"old_form", b"too_old", b"unrenewed"]


def test_it_is_looked_for_after_each_election_and_once_in_an_interval(place):
    assert look(place) == []
    add(place, t=token(expiry=NOW - 1))
    assert look(place, now=NOW + 999) == ["t"]
    assert look(place, now=NOW + 1_000) == []
    add(place, t=token(expiry=NOW - 1))
    assert look(place, epoch=2, now=NOW + 1_000) == []


def test_a_clock_that_was_set_back_does_not_keep_tokens(place):
    look(place)
    add(place, t=token(expiry=1))
    assert look(place, now=NOW - 50) == []


class Lossy:
    """Right before the first multi something happens, or the connection breaks."""

    def __init__(self, place, happens):
        self._call = place.kazoo._call
        self._happens = happens
        place.kazoo._call = self.call

    def call(self, request, waiter):
        if request.type == MULTI and self._happens is not None:
            happens, self._happens = self._happens, None
            if happens() == "lost":
                waiter.set_exception(ConnectionLoss())
                return
        self._call(request, waiter)


def test_a_token_that_was_renewed_meanwhile_stays_and_is_not_said_to_have_expired(place, caplog):
    caplog.set_level(logging.INFO)
    add(place, t=token(expiry=NOW - 1))
    Lossy(place, lambda: place.act(Put(f"{TOKENS}/t", token())))
    assert look(place) == ["t"]
    assert announced(place) == []
    assert "has expired" not in caplog.text


@pytest.mark.parametrize("written", [lambda _place: "lost", lambda place: place.act(Put(f"{TOKENS}/t", OUTDATED))])
def test_a_token_that_is_still_there_and_has_expired_is_deleted_in_the_same_check(place, caplog, written):
    """The multi was lost with the connection; or a broker wrote the token, which has expired all the same."""
    caplog.set_level(logging.INFO)
    add(place, t=OUTDATED)
    Lossy(place, lambda: written(place))
    assert look(place) == []
    assert announced(place) == [b"t"]
    assert caplog.messages.count("delegation token t has expired") == 1
