"""An operator's rules for topics: the purpose of Apache's `create.topic.policy.class.name`, without Java."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from shunter.core.topic_configs import shortened
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import Replicas
from shunter.model.settings import TopicPolicy

_MIN_ISR = "min.insync.replicas"


def check_topic_policy(
    policy: TopicPolicy, name: str, placed: Collection[Replicas], configs: Mapping[str, str], default_min_isr: str
) -> None:
    """Check a new topic against the rules.

    Args:
        policy: the rules.
        name: the topic's name.
        placed: the replicas of each partition, as the request or the controller placed them.
        configs: the request's configuration, checked before.
        default_min_isr: `min.insync.replicas` of topics that don't set it.

    Raises:
        RequestRejected: POLICY_VIOLATION, with the value, the rule, and the setting that has it.
    """
    if re.fullmatch(policy.name_pattern, name) is None:
        raise _violation(f"Topic name '{shortened(name)}' does not match '{policy.name_pattern}'", "name_pattern")
    check_partition_policy(policy, name, len(placed))
    factors = [len(replicas) for replicas in placed]
    if min(factors) < policy.least_replication_factor:
        told = f"Replication factor {min(factors)} of topic '{name}' is below {policy.least_replication_factor}"
        raise _violation(told, "least_replication_factor")
    if policy.greatest_replication_factor and max(factors) > policy.greatest_replication_factor:
        told = f"Replication factor {max(factors)} of topic '{name}' is above {policy.greatest_replication_factor}"
        raise _violation(told, "greatest_replication_factor")
    least = int(configs.get(_MIN_ISR, default_min_isr))
    if least < policy.least_min_isr:
        raise _violation(f"{_MIN_ISR}={least} of topic '{name}' is below {policy.least_min_isr}", "least_min_isr")


def check_partition_policy(policy: TopicPolicy, name: str, partitions: int) -> None:
    """Check a topic's number of partitions against the rules, also when the topic grows.

    Raises:
        RequestRejected: POLICY_VIOLATION.
    """
    if policy.most_partitions and partitions > policy.most_partitions:
        told = f"Topic '{name}' can't have {partitions} partitions: {policy.most_partitions} is the most"
        raise _violation(told, "most_partitions")


def _violation(told: str, rule: str) -> RequestRejected:
    return RequestRejected(ErrorCode.POLICY_VIOLATION, f"{told}; the controller's setting topic_policy_{rule} says so.")
