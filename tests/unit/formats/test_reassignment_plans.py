"""Plan files: their allowed contents, and misspelt keys, which are errors and not passed over."""

from __future__ import annotations

import pytest

from shunter.errors import FormatError
from shunter.formats.client_properties import parse_properties
from shunter.formats.reassignment_json import decode_plan

ENTRY = '{"topic": "t", "partition": 0, "replicas": [1, 2]}'


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
