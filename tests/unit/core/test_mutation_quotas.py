"""KIP-599: whose quota holds, how a bucket fills, and what is refused by it. Figures are those of the KIP's own tests."""

import pytest

from shunter.core.mutation_quotas import (
    BUCKETS_AT_MOST,
    Allowance,
    Buckets,
    QuotaEntity,
    TokenBucket,
    quota_entities,
    rate_of,
)


def bucket(rate=2.0, burst_s=10.0, now_s=100.0):
    return TokenBucket(rate, burst_s, now_s)


def test_the_most_special_quota_is_looked_for_first():
    """Source: Apache's `DefaultQuotaCallback`."""
    told = [
        (None if one.user is None else "default" if one.default_user else one.user,
         None if one.client is None else "default" if one.default_client else one.client)
        for one in quota_entities("u", "c")
    ]  # fmt: skip
    assert told == [
        ("u", "c"),
        ("u", "default"),
        ("u", None),
        ("default", "c"),
        ("default", "default"),
        ("default", None),
        (None, "c"),
        (None, "default"),
    ]


def test_without_a_client_id_users_quotas_alone_are_looked_for():
    assert quota_entities("u", "") == (QuotaEntity("u", None), QuotaEntity("u", None, default_user=True))


@pytest.mark.parametrize(
    ("text", "rate"), [("2.5", 2.5), ("0", 0.0), ("-1", None), ("nan", None), ("inf", None), ("x", None)]
)
def test_a_rate_is_a_number_that_is_not_negative(text, rate):
    assert rate_of({"controller_mutation_rate": text}) == rate


def test_an_entity_without_a_rate_has_no_quota():
    assert rate_of({"producer_byte_rate": "5"}) is None


def test_a_strict_quota_takes_one_request_beyond_its_tokens_and_refuses_the_next():
    """Two topics of 30 partitions, a bucket of 20 tokens: the second waits for 10 tokens at 2 a second."""
    tokens = bucket()
    allowance = Allowance(tokens)
    assert allowance.admit("a", 30)
    assert allowance.throttle_ms == 0
    assert not allowance.admit("b", 30)
    assert allowance.throttle_ms == 5_000
    tokens.fill(2.0, 10.0, 104.9)
    assert not Allowance(tokens).admit("b", 30)
    tokens.fill(2.0, 10.0, 105.0)
    again = Allowance(tokens)
    assert again.admit("b", 30)
    assert again.throttle_ms == 0


def test_a_permissive_quota_takes_everything_and_tells_the_client_to_wait():
    allowance = Allowance(bucket(), strict=False)
    assert allowance.admit("a", 30)
    assert allowance.admit("b", 30)
    assert allowance.throttle_ms == 20_000


@pytest.mark.parametrize(("strict", "throttle_ms"), [(True, 0), (False, 5_000)])
def test_what_was_not_changed_is_given_back(strict, throttle_ms):
    tokens = bucket()
    allowance = Allowance(tokens, strict=strict)
    allowance.admit("a", 30)
    if not strict:
        allowance.admit("b", 15)
    allowance.give_back(["b", "unknown"])
    assert tokens.tokens == -10
    assert allowance.throttle_ms == throttle_ms
    allowance.give_back(["a", "a"])
    assert tokens.tokens == 20


def test_a_bucket_holds_no_more_than_its_burst_and_a_changed_rate_counts_from_now():
    tokens = bucket()
    tokens.fill(4.0, 10.0, 1_000.0)
    assert (tokens.tokens, tokens.rate) == (20.0, 4.0)
    tokens.fill(4.0, 10.0, 1_002.0)
    assert tokens.tokens == 28.0
    tokens.fill(4.0, 10.0, 900.0)
    assert tokens.tokens == 28.0


def test_a_rate_of_zero_waits_for_ever():
    allowance = Allowance(bucket(rate=0.0))
    assert allowance.admit("a", 1)
    assert not allowance.admit("b", 1)
    assert allowance.throttle_ms == 2**31 - 1


def test_without_a_quota_everything_is_taken():
    allowance = Allowance()
    assert allowance.admit("a", 10**9)
    allowance.give_back(["a"])
    assert allowance.throttle_ms == 0


def test_a_default_quota_is_one_for_each_user_and_the_oldest_are_forgotten():
    buckets = Buckets()
    first = buckets.bucket(QuotaEntity("u0", None, default_user=True), 1.0, 1.0, 0.0)
    assert buckets.bucket(QuotaEntity("u0", None), 1.0, 1.0, 0.0) is first
    first.add(-5)
    for number in range(1, BUCKETS_AT_MOST + 1):
        buckets.bucket(QuotaEntity(f"u{number}", None, default_user=True), 1.0, 1.0, 0.0)
    assert buckets.bucket(QuotaEntity("u0", None), 1.0, 1.0, 0.0).tokens == 1.0
