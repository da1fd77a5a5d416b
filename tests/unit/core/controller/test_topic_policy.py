"""Rules that an operator sets for new topics: POLICY_VIOLATION names the value, the rule and the setting."""

import pytest
from harness import Harness
from test_topics import create, grow, new_topic

from shunter.errors import ErrorCode
from shunter.model.settings import TopicPolicy


def world(**policy):
    return Harness(brokers=(1, 2, 3), topic_policy=TopicPolicy(**policy)).start()


@pytest.mark.parametrize(
    ("policy", "good", "bad", "told"),
    [
        (
            {"name_pattern": "[a-z]+"},
            new_topic("abc", 1, 1),
            new_topic("abc-1", 1, 1),
            "Topic name 'abc-1' does not match '[a-z]+'; the controller's setting topic_policy_name_pattern says so.",
        ),
        (
            {"least_replication_factor": 2},
            new_topic("good", 1, 2),
            new_topic("bad", 1, 1),
            "Replication factor 1 of topic 'bad' is below 2",
        ),
        (
            {"least_replication_factor": 2},
            new_topic("good", assignments={0: (1, 2)}),
            new_topic("bad", assignments={0: (1,), 1: (2,)}),
            "topic_policy_least_replication_factor",
        ),
        (
            {"greatest_replication_factor": 2},
            new_topic("good", 1, 2),
            new_topic("bad", 1, 3),
            "Replication factor 3 of topic 'bad' is above 2",
        ),
        (
            {"most_partitions": 3},
            new_topic("good", 3, 1),
            new_topic("bad", 4, 1),
            "Topic 'bad' can't have 4 partitions: 3 is the most; the controller's setting topic_policy_most_partitions",
        ),
        (
            {"least_min_isr": 2},
            new_topic("good", 1, 3, min_insync_replicas=" 2 "),
            new_topic("bad", 1, 3),
            "min.insync.replicas=1 of topic 'bad' is below 2; the controller's setting topic_policy_least_min_isr",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_what_breaks_a_rule_is_refused_and_what_keeps_it_is_made(policy, good, bad, told, validate_only):
    made, refused = create(world(**policy), good, bad, validate_only=validate_only)
    assert made.error is ErrorCode.NONE
    assert refused.error is ErrorCode.POLICY_VIOLATION
    assert told in refused.message


def test_the_default_of_all_topics_counts_where_a_topic_does_not_say():
    kept = Harness(brokers=(1, 2, 3), topic_policy=TopicPolicy(least_min_isr=2), default_min_isr=2).start()
    assert create(kept, new_topic("t", 1, 3))[0].error is ErrorCode.NONE


def test_a_topic_does_not_grow_beyond_the_rule():
    kept = world(most_partitions=3)
    create(kept, new_topic("t", 2, 1))
    assert grow(kept, "t", 4)[0] is ErrorCode.POLICY_VIOLATION
    assert grow(kept, "t", 3, token=79) == (ErrorCode.NONE, None)


def test_without_rules_nothing_is_refused():
    assert create(Harness(brokers=(1,)).start(), new_topic("t", 100, 1))[0].error is ErrorCode.NONE
