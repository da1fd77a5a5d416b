"""Plans as other tools print them: the whole output of Apache's tool, and Cruise Control's proposals.

`kafka-reassign-partitions --generate` prints the present assignment, a rollback, and then the proposed one, the plan.
`--execute` prints the present assignment alone; before Kafka 2.6 the plan that it started follows. Cruise Control's
proposals are `{"proposals": [{"topicPartition": {"topic": "t", "partition": 0, "hash": 1}, "oldLeader": 1,
"oldReplicas": [1, 2], "newReplicas": [3, 2]}], ...}`; a string `"t-0"` may stand for the object.

Source: Apache Kafka 3.9 and 0.10, `ReassignPartitionsCommand`; Cruise Control 2.5, `OptimizationResult` and
`ExecutionProposal.getJsonStructure`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from shunter.errors import FormatError
from shunter.formats.journal import partition_from_text
from shunter.model.execution import MoveOrder
from shunter.model.partition import Replicas, TopicPartition

CURRENT = "Current partition replica assignment"
PROPOSED = "Proposed partition reassignment configuration"
STARTED = "Successfully started reassignment of partitions"
_MEANT = {
    CURRENT: "the replicas before, which are a rollback",
    PROPOSED: "the proposed plan",
    STARTED: "the plan that was started",
    "": "a plan without a heading",
}
_PROPOSAL_KEYS = {"topicPartition", "oldLeader", "oldReplicas", "newReplicas"}


class SeveralPlans(FormatError):
    """A file has several plans, and nothing says which one is meant."""


class _Printed(NamedTuple):
    """A plan within a tool's output; `heading`: what the line before it says, "" if that is no heading."""

    line: int
    heading: str
    text: str


def plan_document(text: str, place: str) -> str:
    """The text of the one plan in a file, which may be the whole output of a tool.

    Returns:
        The plan's own text; the whole text, if no plan can be found in it.

    Raises:
        FormatError: the text has several plans, or one that is cut off; names the lines, and what each plan is.
    """
    if _is_one_document(text):
        return text
    found = list(_printed(text, place))
    wanted = [each for each in found if each.heading == PROPOSED]
    if PROPOSED in text and not wanted:
        raise FormatError(place, f"after {PROPOSED!r} comes no plan: save the tool's whole output, or that plan alone")
    if len(wanted) == 1 and all(each.heading in (CURRENT, PROPOSED) for each in found):
        return wanted[0].text
    if len(found) > 1:
        told = "; ".join(f"line {each.line}: {_MEANT[each.heading]}" for each in found)
        raise SeveralPlans(place, f"holds {len(found)} plans ({told}): save the one that is meant in a file of its own")
    return found[0].text if found else text


def _is_one_document(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _printed(text: str, place: str) -> Iterator[_Printed]:
    """Plans that begin a line, or follow a heading within it, and end their line."""
    decoder, start, before = json.JSONDecoder(), 0, ""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].strip()
        heading = next((each for each in (CURRENT, PROPOSED, STARTED) if line.startswith(each)), "")
        if not (line.startswith("{") or (heading and "{" in line)):
            before, start = line or before, end + 1
            continue
        at = text.index("{", start)
        number = text.count("\n", 0, at) + 1
        try:
            document, after = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not heading and not text[:start].strip():
                return  # The text is no tool's output, but a plan that is no JSON.
            raise FormatError(
                place, f"line {number}: the JSON that begins there is cut off or damaged: {error}"
            ) from error
        end = text.find("\n", after)
        end = len(text) if end < 0 else end
        if text[after:end].strip():
            raise FormatError(place, f"line {number}: {text[after:end].strip()[:40]!r} follows the JSON in its line")
        if isinstance(document, dict) and {"partitions", "proposals"} & document.keys():
            known = heading or next((each for each in _MEANT if each and before.startswith(each)), "")
            yield _Printed(number, known, text[at:after])
        before, start = "", end + 1


def is_of_cruise_control(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an answer of Cruise Control about proposals, with the proposals or without."""
    return "partitions" not in document and bool({"proposals", "goalSummary"} & document.keys())


def decode_proposals(document: Mapping[str, Any], place: str) -> tuple[MoveOrder, ...]:
    """Read Cruise Control's proposals. Where another replica leads than the first of the new ones, that is elected.

    Raises:
        FormatError: it has no proposals, or one of them breaks a rule; names the proposal, and what it saw.
    """
    proposals = document.get("proposals")
    if not isinstance(proposals, list):
        told = f"its proposals are {proposals!r}" if "proposals" in document else "it has no proposals"
        raise FormatError(place, f"an answer of Cruise Control, and {told}: ask with ?json=true&verbose=true")
    orders = [_proposal(each, f"{place}, proposal {index}") for index, each in enumerate(proposals)]
    twice = next((order.tp for at, order in enumerate(orders) if order.tp in {each.tp for each in orders[:at]}), None)
    if twice is not None:
        raise FormatError(place, f"{twice} has more than one proposal")
    return tuple(orders)


def _proposal(entry: object, place: str) -> MoveOrder:
    if not isinstance(entry, Mapping) or entry.keys() != _PROPOSAL_KEYS:
        seen = f"has {', '.join(sorted(map(str, entry)))}" if isinstance(entry, Mapping) else f"is {entry!r}"
        raise FormatError(place, f"it {seen}; a proposal has {', '.join(sorted(_PROPOSAL_KEYS))}")
    tp = _partition(entry["topicPartition"], place)
    place = f"{place} ({tp})"
    old, new = (_brokers(entry[key], f"{place}, {key}") for key in ("oldReplicas", "newReplicas"))
    leader = entry["oldLeader"]
    if not isinstance(leader, int) or isinstance(leader, bool):
        raise FormatError(place, f"oldLeader {leader!r} is no broker id")
    if not new:
        raise FormatError(place, "newReplicas are empty: a partition has one replica at least")
    if old == new and leader == new[0]:
        raise FormatError(
            place,
            f"from {[*old]} to {[*new]} changes nothing between brokers; a move between a broker's disks is not told in"
            " these proposals: plan it by `shunter plan --scope disks`",
        )
    return MoveOrder(tp, new, planned_from=old, elect=leader != new[0])


def _partition(value: object, place: str) -> TopicPartition:
    if isinstance(value, Mapping) and {"topic", "partition"} <= value.keys() <= {"topic", "partition", "hash"}:
        topic, number = value["topic"], value["partition"]
        if (
            isinstance(topic, str)
            and topic
            and isinstance(number, int)
            and not isinstance(number, bool)
            and number >= 0
        ):
            return TopicPartition(topic, number)
    elif isinstance(value, str):
        try:
            return partition_from_text(value)
        except ValueError as error:
            raise FormatError(place, f"topicPartition {error}") from error
    raise FormatError(place, f"topicPartition {value!r} is no topic and partition")


def _brokers(value: object, place: str) -> Replicas:
    if not isinstance(value, list) or any(not isinstance(each, int) or isinstance(each, bool) for each in value):
        raise FormatError(place, f"{value!r} is no list of broker ids")
    return tuple(value)
