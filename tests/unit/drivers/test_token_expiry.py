"""Delegation tokens on the simulation's ZooKeeper: expired ones are deleted, and that is announced to brokers."""

from __future__ import annotations

import json

import pytest
from test_controller_seat import Place

from shunter.drivers.token_expiry import TokenExpiry
from shunter.drivers.zookeeper_requests import Create, Put
from shunter.formats.token_znodes import TOKEN_CHANGES, TOKENS

NOW = 1_000_000


def token(expiry=NOW + 1, latest=NOW + 5, version=3):
    return json.dumps(
        {"version": version, "expiryTimestamp": expiry, "maxTimestamp": latest, "owner": "User%3Aa"}
    ).encode()


@pytest.fixture
def place():
    made = Place().begin()
    made.expiry = TokenExpiry(made.seat.reader, made.seat.store, lambda: 1_000)
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


def test_a_token_that_was_renewed_meanwhile_stays(place):
    add(place, t=token(expiry=NOW - 1))
    reader, read = place.seat.reader, place.seat.reader.children_with_data

    async def children_with_data(parent):
        found = await read(parent)
        place.act(Put(f"{TOKENS}/t", token()))
        return found

    reader.children_with_data = children_with_data
    assert look(place) == ["t"]
    assert announced(place) == []
