"""The plan input, plans in the output of Apache's tool and of Cruise Control, and plan files; what is ambiguous is refused."""

import json
import re
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FormatError
from shunter.formats.client_properties import parse_properties
from shunter.formats.plan_files import PlanInput, read_plan_input, write_moves, write_reassignment
from shunter.formats.reassignment_json import decode_plan
from shunter.formats.tool_json import ToolInputRefused, parse_reassignment
from shunter.model.execution import MoveOrder
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)
ENTRY = '{"topic": "t", "partition": 0, "replicas": [1, 2]}'


def document(**changes: Any) -> dict[str, Any]:
    return {
        "brokers": {"1": "a", "2": "b", "10": "a"},
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "size": 8},
            {"topic": "t", "partition": 1, "replicas": [10], "size": 16.5},
        ],
    } | changes


def row(**changes: Any) -> dict[str, Any]:
    whole = {"topic": "t", "partition": 0, "replicas": [1, 2], "size": 8} | changes
    return {key: value for key, value in whole.items() if value is not ...}


def read(found: Any, **options: bool):
    return read_plan_input(json.dumps(found).encode(), "in.json", **options)


def test_columns_are_read_by_topic_and_partition() -> None:
    found = read(document())
    assert found.brokers == (1, 2, 10)
    assert found.racks == ("a", "b")
    assert found.rack_of.tolist() == [0, 1, 0]
    assert found.replicas.tolist() == [[0, 1], [2, -1]]
    assert found.sizes.tolist() == [8, 16.5]
    assert found.numbers.tolist() == [0, 1]
    assert (found.bytes_in, found.min_isr, found.disk_capacity) == (None, None, None)


def test_the_order_of_the_rows_does_not_matter() -> None:
    """The planner takes equal items in the order in which they come, so rows are sorted: one cluster, one plan."""
    partitions = [
        row(topic=topic, partition=number, size=100 * number + len(topic), bytes_in=number, min_isr=1 + number % 2)
        for topic in ("aa", "b")
        for number in (2, 10, 1)
    ]
    expected, *others = (read(document(partitions=list(order))) for order in permutations(partitions))
    assert expected.numbers.tolist() == [1, 2, 10] * 2
    assert expected.sizes.tolist() == [102, 202, 1002, 101, 201, 1001]
    assert expected.topic_of.tolist() == [0, 0, 0, 1, 1, 1]
    for found in others:
        for name, values in expected._asdict().items():
            assert np.array_equal(getattr(found, name), values) or values is None, name


def test_what_is_optional_is_read_where_it_is() -> None:
    brokers = {"1": {"rack": "a", "disk_capacity": 100}, "2": {"rack": "b"}}
    partitions = [row(bytes_in=1.5, bytes_out=2, min_isr=2), row(partition=1)]
    found = read(document(brokers=brokers, partitions=partitions))
    assert found.disk_capacity is not None
    assert found.disk_capacity.tolist() == [100, np.inf]
    assert (found.bytes_in.tolist(), found.bytes_out.tolist(), found.min_isr.tolist()) == ([1.5, 0], [2, 0], [2, 1])


def test_racks_can_be_ignored_where_there_are_none() -> None:
    found = read(document(brokers={"1": None, "2": None, "10": None}), ignore_racks=True)
    assert found.racks == ("",)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "is a JSON list, not an object"),
        ({}, "key 'brokers' is missing"),
        (document(brokers={}), "key 'brokers' is empty"),
        (document(brokers=[1]), "key 'brokers' is missing or no JSON object"),
        (document(partitions=[]), "key 'partitions' is empty"),
        (document(partitions={}), "key 'partitions' is missing or no JSON array"),
        (document(brokers={"x": "a"}), "brokers: key 'x' is not a broker id"),
        (document(brokers={"-1": "a"}), "brokers: key '-1' is not a broker id"),
        (document(brokers={"1": "a", "01": "a"}), "brokers: key '01' is not a broker id of its own"),
        (document(brokers={"1": None}), "brokers.1: rack is None, not a name"),
        (document(brokers={"1": ""}), "brokers.1: rack is '', not a name"),
        (document(brokers={"1": {"rack": "a", "disk": 5}}), "brokers.1: unknown key 'disk'"),
        (
            document(brokers={"1": {"rack": "a", "disk_capacity": 0}}),
            "brokers.1.disk_capacity: 0 is not a number above 0",
        ),
        (document(partitions=[5]), r"partitions\[0\]: 5 is not an object"),
        (document(partitions=[row(sizee=5)]), r"partitions\[0\]: unknown key 'sizee'"),
        (document(partitions=[row(topic="")]), r"partitions\[0\].topic: '' is not a topic's name"),
        (document(partitions=[row(topic=...)]), r"partitions\[0\].topic: None is not a topic's name"),
        (document(partitions=[row(partition=-1)]), r"partitions\[0\].partition: -1 is not a partition number"),
        (document(partitions=[row(partition=True)]), r"partitions\[0\].partition: True is not a partition number"),
        (document(partitions=[row(partition=2**31)]), r"partitions\[0\].partition: 2147483648 is not"),
        (document(partitions=[row(replicas=[])]), r"partitions\[0\].replicas: \[\] is not a list of broker ids"),
        (document(partitions=[row(replicas=["1"])]), r"partitions\[0\].replicas: \['1'\] is not a list of broker ids"),
        (document(partitions=[row(replicas=5)]), r"partitions\[0\].replicas: 5 is not a list"),
        (
            document(partitions=[row(replicas=[1, 3])]),
            r"partitions\[0\]: replicas \[1, 3\] name broker 3, which is not",
        ),
        (document(partitions=[row(replicas=[1, 1])]), r"replicas \[1, 1\] for t-0 repeat broker 1"),
        (document(partitions=[row(), row()]), r"partitions\[1\]: partition t-0 is already row 0"),
        (document(partitions=[row(size=-5)]), r"partitions\[0\].size: -5 is not a number of at least 0"),
        (document(partitions=[row(size="8")]), r"partitions\[0\].size: '8' is not a number"),
        (document(partitions=[row(size=...)]), r"partitions\[0\].size: None is not a number"),
        (document(partitions=[row(), row(partition=1, bytes_in=-1)]), r"partitions\[1\].bytes_in: -1 is not"),
        (document(partitions=[row(min_isr="a")]), r"partitions\[0\].min_isr: 'a' is not a count"),
    ],
)
def test_what_breaks_a_rule_is_named_with_file_and_place(found: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said) as told:
        read(found)
    assert str(told.value).startswith("in.json: ")


@pytest.mark.parametrize("raw", [b"", b"{", b'{"brokers": NaN}', b"\xff\xfe"])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"in.json: is not JSON"):
        read_plan_input(raw, "in.json")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def read_or_refused(found: Any) -> PlanInput | FormatError:
    try:
        return read(found)
    except FormatError as error:
        return error


@given(st.sampled_from(["topic", "partition", "replicas", "size", "bytes_in", "min_isr"]), anything)
def test_any_value_is_read_or_refused(key: str, value: Any) -> None:
    found = read_or_refused(document(partitions=[row(**{key: value})]))
    if isinstance(found, FormatError):
        assert "partitions[0]" in str(found)
    else:
        assert len(found.sizes) == 1
        assert (found.sizes >= 0).all()


@given(st.sampled_from(["brokers", "partitions"]), anything)
def test_any_part_is_read_or_refused(key: str, value: Any) -> None:
    found = read_or_refused(document(**{key: value}))
    if isinstance(found, FormatError):
        assert found.place == "in.json"
    else:
        assert found.brokers


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        ({"live": "yes"}, "brokers.1: live: 'yes' is neither true nor false"),
        ({"log_dirs": {}}, "brokers.1: log_dirs: {} is not a list"),
        ({"log_dirs": [{}]}, "brokers.1.log_dirs[0]: {} is not an object with a path"),
        ({"log_dirs": [{"path": "/a", "used": 1}]}, "brokers.1.log_dirs[0]: unknown key 'used'"),
        ({"log_dirs": [{"path": "/a", "usable": -1}]}, "brokers.1.log_dirs[0]: usable: -1 is not a number"),
    ],
)
def test_a_broken_fact_about_a_broker_is_named(broker: dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=re.escape(told)):
        read(document(brokers={"1": {"rack": "a", **broker}}, partitions=[row(replicas=[1])]))


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ({"isr": [9]}, "partitions[0].isr: [9] is not a list of ids of brokers of this file"),
        ({"offline": 1}, "partitions[0].offline: 1 is not a list"),
        ({"leader": -2}, "partitions[0].leader: -2 is not the id of a broker of this file, nor -1"),
    ],
)
def test_a_broken_fact_about_a_partition_is_named(fact: dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=re.escape(told)):
        read(document(partitions=[row(**fact)]))


def test_what_is_not_said_is_unknown() -> None:
    plain = read(document())
    assert (plain.facts, plain.isr, plain.offline, plain.leader) == ((), None, None, None)
    some = read(document(partitions=[row(partition=0, leader=-1), row(partition=1, isr=[])]))
    assert some.leader is not None
    assert some.leader.tolist() == [-1, -2]
    assert some.isr is not None
    assert some.isr.tolist() == [[-2], [-1]]


def test_a_plan_names_its_elections() -> None:
    written = write_reassignment([("t", 0, [3, 1], [3, 1]), ("t", 1, [3, 1], [1, 3])], {("t", 0)})
    assert [order.elect for order in decode_plan(written, "plan.json")] == [True, False]


def test_the_reassignment_is_what_kafka_takes() -> None:
    written = write_reassignment([("t", 0, [3, 1], [2, 1]), ("t", 1, [3, 1], None)])
    first = {"topic": "t", "partition": 0, "replicas": [3, 1], "original_replicas": [2, 1]}
    second = {"topic": "t", "partition": 1, "replicas": [3, 1]}
    assert json.loads(written) == {"version": 1, "partitions": [first, second]}
    assert [order.planned_from for order in decode_plan(written, "plan.json")] == [(2, 1), ()]


def test_explained_moves_are_one_json_object_a_line() -> None:
    lines = write_moves([{"row": "move"}, {"row": "broker"}]).splitlines()
    assert [json.loads(line) for line in lines] == [{"row": "move"}, {"row": "broker"}]


def test_a_saved_cluster_without_racks_is_one_rack() -> None:
    """`plan --save` writes null for the rack of every broker; `plan --from` refused that."""
    brokers = {"1": {"rack": None}, "2": {"rack": None}}
    partition = {"topic": "t", "partition": 0, "replicas": [1], "size": 1}
    raw = json.dumps({"brokers": brokers, "partitions": [partition]}).encode()
    assert len(read_plan_input(raw, "here").racks) == 1


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{{"version": 1, "partitons": [{ENTRY}]}}', "'partitons' is no key of a plan; 'partitions' is one"),
        ('{"version": 1}', 'it has no "partitions"'),
        ('{"partitions": [{"topic": "t", "partition": 0, "replica": [1]}]}', "'replica' is no key of a plan"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "xyz": 1}]}',
            "'xyz' is no key of a plan; topic,",
        ),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "replicas": [2]}]}',
            r"plan.json \(t-0\): key 'replicas' comes twice; remove one of them",
        ),
        (f'{{"partitions": [], "partitions": [{ENTRY}]}}', "plan.json: key 'partitions' comes twice"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', r'\(t-0\): it has no "replicas"; write null to cancel'),
    ],
)
def test_an_unknown_or_missing_key_is_an_error_that_names_it(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        decode_plan(text, "plan.json")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"version": 1, "x": "\xff"}', "byte 0xff at offset 21 is not UTF-8; write the file as UTF-8"),
        (b'\xef\xbb\xbf{"x": "\xe9"}', "byte 0xe9 at offset 10 is not UTF-8"),
        (b"\xff\xfe{", "at offset 2 is not UTF-16"),
    ],
)
def test_a_byte_that_is_not_text_is_named_with_its_place(raw: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        decode_plan(raw, "plan.json")


def test_a_plan_that_is_nested_too_deeply_is_refused() -> None:
    depth = 1000
    deep = '{"partitions": ' + "[" * depth + "]" * depth + "}"
    with pytest.raises(FormatError, match=r"plan\.json"):
        decode_plan(deep, "plan.json")


def test_a_plan_of_nothing_and_a_cancel_are_plans() -> None:
    assert decode_plan('{"version": 1, "partitions": []}', "plan.json") == ()
    (order,) = decode_plan('{"partitions": [{"topic": "t", "partition": 0, "replicas": null}]}', "plan.json")
    assert order.target == ()


@pytest.mark.parametrize(("text", "kind"), [('{"security.protocol": "SSL"}', "JSON"), (" <properties/>", "XML")])
def test_a_properties_file_of_another_format_is_refused(text: str, kind: str) -> None:
    with pytest.raises(FormatError, match=f"client.json: this is {kind}"):
        parse_properties(text, "client.json")
