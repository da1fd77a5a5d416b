"""Plans within the output of Apache's tool, and Cruise Control's proposals; what is ambiguous is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shunter.errors import FormatError
from shunter.formats.reassignment_json import decode_plan
from shunter.formats.tool_json import ToolInputRefused, parse_reassignment
from shunter.model.execution import MoveOrder
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)


def plan(*replicas: int) -> str:
    entry = {"topic": "t", "partition": 0, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}
    return json.dumps({"version": 1, "partitions": [entry]})


GENERATED = f"""Current partition replica assignment
{plan(1, 2)}

Proposed partition reassignment configuration
{plan(3, 2)}
"""
EXECUTED = f"""Current partition replica assignment

{plan(1, 2)}

Save this to use as the --reassignment-json-file option during rollback
Successfully started partition reassignment for t-0
"""
STARTED = EXECUTED.replace(
    "Successfully started partition reassignment for t-0",
    f"Successfully started reassignment of partitions {plan(3, 2)}",
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (GENERATED, (3, 2)),
        (GENERATED.replace("\n", "\r\n"), (3, 2)),
        (GENERATED.replace(plan(3, 2), json.dumps(json.loads(plan(3, 2)), indent=2)), (3, 2)),
        ("WARN: a broker is slow\n" + GENERATED + "$ \n", (3, 2)),
        (EXECUTED, (1, 2)),
        (f"the plan of Monday:\n{plan(5)}\n", (5,)),
        ('{"level": "info"}\n' + plan(5), (5,)),
    ],
)
def test_the_output_of_apaches_tool_is_a_plan(text: str, target: tuple[int, ...]) -> None:
    assert decode_plan(text, "plan.json") == (MoveOrder(T0, target),)
    if not text.startswith("{"):
        assert parse_reassignment(text).partitions == ((T0, target),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            STARTED,
            "holds 2 plans (line 3: the replicas before, which are a rollback; line 6: the plan that was started): save",
        ),
        (
            plan(1) + "\n" + plan(2),
            "holds 2 plans (line 1: a plan without a heading; line 2: a plan without a heading)",
        ),
        (GENERATED + GENERATED, "holds 4 plans"),
        (GENERATED.split("{", maxsplit=1)[0] + plan(1), None),
        (GENERATED[: GENERATED.index('"version": 1', 60)], "line 5: the JSON that begins there is cut off or damaged"),
        (GENERATED.split(plan(3, 2), maxsplit=1)[0], "after 'Proposed partition reassignment"),
        (f"see {plan(1)}", "not JSON"),
        (f"\n{plan(1)} and more\n", "line 2: 'and more' follows the JSON in its line"),
        ('{"version": 1, "partitions": [', "not JSON"),
    ],
)
def test_what_is_ambiguous_or_cut_off_is_refused_by_name(text: str, told: str | None) -> None:
    if told is None:
        assert decode_plan(text, "plan.json") == (MoveOrder(T0, (1,)),)
        return
    with pytest.raises(FormatError) as refused:
        decode_plan(text, "plan.json")
    assert told in str(refused.value)


def proposal(**changed: Any) -> dict[str, Any]:
    where = {"hash": 7, "partition": 0, "topic": "t"}
    return {"topicPartition": where, "oldLeader": 1, "oldReplicas": [1, 2], "newReplicas": [3, 2], **changed}


def answer(*proposals: Any, **more: Any) -> str:
    return json.dumps({"summary": {}, "goalSummary": [], "proposals": list(proposals), "version": 1, **more})


@pytest.mark.parametrize(
    ("entry", "order"),
    [
        (proposal(), MoveOrder(T0, (3, 2), planned_from=(1, 2), elect=True)),
        (proposal(topicPartition="t-0"), MoveOrder(T0, (3, 2), planned_from=(1, 2), elect=True)),
        (proposal(newReplicas=[1, 3]), MoveOrder(T0, (1, 3), planned_from=(1, 2))),
        (proposal(oldLeader=2, newReplicas=[1, 2]), MoveOrder(T0, (1, 2), planned_from=(1, 2), elect=True)),
    ],
)
def test_proposals_of_cruise_control_are_a_plan(entry: dict[str, Any], order: MoveOrder) -> None:
    assert decode_plan(answer(entry), "proposals.json") == (order,)
    assert parse_reassignment(answer(entry)).partitions == ((T0, order.target),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"summary": {}, "goalSummary": []}', "it has no proposals: ask with ?json=true&verbose=true"),
        (answer(proposals={}), "its proposals are {}: ask with"),
        (answer(proposal(), proposal()), "t-0 has more than one proposal"),
        (answer({"topicPartition": "t-0"}), "proposal 0: it has topicPartition; a proposal has newReplicas, oldLeader"),
        (answer(7), "proposal 0: it is 7; a proposal has"),
        (answer(proposal(topicPartition="t")), "proposal 0: topicPartition 't' is no partition: write topic-number"),
        (answer(proposal(topicPartition={"topic": "t"})), "topicPartition {'topic': 't'} is no topic and partition"),
        (answer(proposal(newReplicas=[])), "proposal 0 (t-0): newReplicas are empty"),
        (answer(proposal(newReplicas=["3"])), "(t-0), newReplicas: ['3'] is no list of broker ids"),
        (answer(proposal(oldLeader=None)), "oldLeader None is no broker id"),
        (answer(proposal(newReplicas=[1, 2])), "from [1, 2] to [1, 2] changes nothing between brokers"),
    ],
)
def test_proposals_that_break_a_rule_are_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(FormatError) as refused:
        decode_plan(text, "proposals.json")
    assert told in str(refused.value)
    with pytest.raises(ToolInputRefused) as by_tool:
        parse_reassignment(text)
    assert told in str(by_tool.value)


def test_the_drop_in_refuses_two_plans_and_passes_over_other_text_as_apaches_tool_does() -> None:
    assert parse_reassignment(plan(1) + " and more").partitions == ((T0, (1,)),)
    with pytest.raises(ToolInputRefused, match=r"holds 2 plans \(line 1: a plan without a heading; line 2"):
        parse_reassignment(plan(1) + "\n" + plan(2))
