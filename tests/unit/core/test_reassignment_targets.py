"""Which targets are refused, and what is said."""

from __future__ import annotations

import pytest

from shunter.core.reassignment import validate_target, validate_top
from shunter.errors import ErrorCode


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ([], "replicas [] for topic-0 are empty"),
        ([4, 4], "replicas [4, 4] for topic-0 repeat broker 4"),
        ([1, -2], "replicas [1, -2] for topic-0 name broker -2: broker ids are not negative"),
        ([1, 9], "replicas [1, 9] for topic-0 name broker 9, which is not a live broker"),
        ([1, 100], "replicas [1, 100] for topic-0 name broker 100, which is a controller and holds no data"),
        ([1], "replicas [1] for topic-0 are 1, fewer than min.insync.replicas 2"),
    ],
)
def test_a_bad_target_is_refused_with_value_rule_and_place(replicas, words):
    refusal = validate_target(replicas, {1, 4, 100}, place="topic-0", controllers={100, 101}, min_isr=2)
    assert refusal is not None
    code, message = refusal
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message.startswith(words)


def test_a_good_target_passes_and_a_small_one_can_be_forced():
    assert validate_target((1, 4), {1, 4}, place="topic-0", min_isr=2) is None
    assert validate_target((1,), {1, 4}, place="topic-0", min_isr=2, forced=True) is None


def test_a_broker_that_has_or_had_a_replica_may_be_dead():
    assert validate_target((1, 4, 9), {1, 4}, place="topic-0", had={9}) is None
    assert validate_target((1, 4, 100), {1, 4}, place="topic-0", had={9, 100}, controllers={100}) is not None


def test_a_request_for_too_few_originals_is_ignored_with_a_warning():
    assert validate_top(2, 2, place="topic-0") is None
    assert validate_top(1, 2, place="topic-0") == (
        "topic-0 has 1 original replicas, fewer than min.insync.replicas 2: the request is ignored"
    )
