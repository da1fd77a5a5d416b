"""The state-change log: an event and its `Ready` as lines that programs and `shunter why` read.

One `StateLog` follows one controller process. All lines that one event led to have one number (`n`), so that a request
can be traced to its decisions even if it has too many partitions to be listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from shunter.core.controller.decisions import Decision
from shunter.core.controller.events import BrokersRead, ClusterLoaded, Elected, Envelope, RequestAnswered
from shunter.core.controller.moves.lifecycle import Transition
from shunter.core.controller.ready import (
    AlterPartitionReply,
    ConnectBrokers,
    ControlledShutdownReply,
    PartitionResultsReply,
    Ready,
    RefusedReply,
    Reply,
    Request,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    TopicResultsReply,
)
from shunter.core.reassignment.situation import describe_waiting
from shunter.core.wording import counted
from shunter.errors import ErrorCode
from shunter.model.broker import Broker
from shunter.model.log_line import LogLine
from shunter.model.partition import PartitionState, TopicPartition
from shunter.model.records import CloseOwedDeletion, DeleteTopic, PutDeletionMark, PutOwedDeletion, PutTopic, Record

Facts: TypeAlias = dict[str, Any]
LISTED_AT_MOST = 100
"""The most partitions that one line lists; of more partitions it has the number."""
REMEMBERED_REQUESTS = 20_000
REMEMBERED_CALLERS = 20_000


def worth_telling(envelope: Envelope, ready: Ready) -> bool:
    """Whether there may be something to log. The check is cheap, because it is made for every event."""
    if ready.requests or ready.decisions or ready.transitions or ready.notices or ready.replies or ready.written:
        return True
    event = envelope.event
    return isinstance(event, RequestAnswered | BrokersRead | Elected) or bool(getattr(event, "reply_to", 0))


def slim(envelope: Envelope) -> Envelope:
    """The envelope without the part that is large and not logged: the whole cluster that was read."""
    if isinstance(envelope.event, ClusterLoaded):
        return Envelope(envelope.now_ms, envelope.cause, BrokersRead(tuple(envelope.event.snapshot.brokers)))
    return envelope


class StateLog:
    """Makes lines, and remembers what they need of earlier events. Used from one thread."""

    def __init__(self) -> None:
        self._n = 0
        self._epoch = 0
        self._brokers: dict[int, int] | None = None
        self._sent: dict[int, tuple[int, str]] = {}
        """By request id: when the request was queued, and its cause."""
        self._callers: dict[int, str] = {}
        """By token of a waiting caller: the cause of its request."""

    def lines(self, envelope: Envelope, ready: Ready) -> Iterator[LogLine]:
        """Yield the lines of one event, in order: what came, what was decided, what was sent, what was refused."""
        self._n += 1
        now_ms, cause = envelope.now_ms, envelope.cause
        for kind, facts in self._of_event(envelope):
            yield LogLine(now_ms, kind, {"epoch": self._epoch, "n": self._n, "cause": cause, **facts})
        shared: Facts = {"epoch": self._epoch, "n": self._n}
        # Decisions carry the cause of their own task: another event may have begun the write.
        causes = {ruling.cause for decision in ready.decisions for ruling in decision.rulings}
        told = causes.pop() if len(causes) == 1 else cause
        for decision in ready.decisions:
            facts = _decided(decision)
            facts |= shared
            yield LogLine(now_ms, "decided", facts)
        for transition in ready.transitions:
            yield LogLine(now_ms, "move", {**shared, **_moved(transition)})
        for facts in _of_records(ready.written):
            yield LogLine(now_ms, "written", {**shared, "cause": told, **facts})
        for notice in ready.notices:
            named = {"notice": notice.kind, "about": notice.about, "text": notice.text}
            yield LogLine(now_ms, "notice", {**shared, "cause": told, **named})
        for request in ready.requests:
            if not isinstance(request, ConnectBrokers):
                self._remember(self._sent, request.request_id, (now_ms, told), REMEMBERED_REQUESTS)
                yield LogLine(now_ms, "sent", {**shared, "cause": told, **_sent(request)})
        for token, reply in ready.replies:
            asked = self._callers.pop(token, cause)
            for facts in _refusals(reply):
                yield LogLine(now_ms, "refused", {**shared, "cause": asked, **facts})

    def _of_event(self, envelope: Envelope) -> Iterator[tuple[str, Facts]]:
        event = envelope.event
        match event:
            case Elected(epoch):
                self._epoch, self._brokers = epoch, None
                yield "elected", {}
            case BrokersRead(brokers):
                yield from self._brokers_read(brokers)
            case RequestAnswered():
                yield "answered", self._answered(event, envelope.now_ms)
            case _:
                token: int = getattr(event, "reply_to", 0)
                if token:
                    self._remember(self._callers, token, envelope.cause, REMEMBERED_CALLERS)

    @staticmethod
    def _remember(known: dict[int, Any], key: int, value: object, at_most: int) -> None:
        known[key] = value
        if len(known) > at_most:
            del known[next(iter(known))]

    def _brokers_read(self, brokers: tuple[Broker, ...]) -> Iterator[tuple[str, Facts]]:
        now = {broker.id: broker.epoch for broker in brokers}
        before, self._brokers = self._brokers, now
        if before is None:
            yield "brokers", {"live": sorted(now)}
            return
        facts: Facts = {
            "came": sorted(now.keys() - before.keys()),
            "went": sorted(before.keys() - now.keys()),
            "restarted": sorted(broker for broker in now.keys() & before.keys() if now[broker] != before[broker]),
        }
        if any(facts.values()):
            yield "brokers", {name: ids for name, ids in facts.items() if ids}

    def _answered(self, event: RequestAnswered, now_ms: int) -> Facts:
        facts: Facts = {"request": event.request_id, "broker": event.broker}
        if event.request_id in self._sent:
            sent_ms, facts["cause"] = self._sent[event.request_id]
            facts["after_ms"] = now_ms - sent_ms
        if event.error is not ErrorCode.NONE:
            facts["error"] = event.error.name
        if event.partition_errors:
            listed = sorted(event.partition_errors.items())[:LISTED_AT_MOST]
            facts["errors"] = [{**_named(tp), "error": error.name} for tp, error in listed]
            facts["error_count"] = len(event.partition_errors)
        return facts


def _named(tp: TopicPartition) -> Facts:
    return {"topic": tp.topic, "partition": tp.partition}


def _partition(state: PartitionState | None) -> Facts | None:
    """A partition as a line shows it, without empty fields."""
    if state is None:
        return None
    assignment, leadership = state
    facts: Facts = {"replicas": assignment.replicas}
    if assignment.adding:
        facts["adding"] = assignment.adding
    if assignment.removing:
        facts["removing"] = assignment.removing
    if leadership is not None:
        facts |= {"leader": leadership.leader, "leader_epoch": leadership.leader_epoch, "isr": leadership.isr}
    return facts


@cache
def rule_name(reason: str, part: str) -> str:
    """A rule's stable name: `broker-gone/elect`; `asked` if the event itself asked for the decision."""
    name = f"{reason or 'asked'}/{part}" if part else reason or "asked"
    return name.lower().replace("_", "-")


def _decided(decision: Decision) -> Facts:
    first, *others = decision.rulings
    facts: Facts = {
        "topic": decision.tp.topic,
        "partition": decision.tp.partition,
        "cause": first.cause,
        "rules": [rule_name(first.reason, first.part)],
    }
    if others:
        facts["rules"] = list(dict.fromkeys(rule_name(each.reason, each.part) for each in decision.rulings))
        other_causes = [cause for cause in dict.fromkeys(each.cause for each in others) if cause != first.cause]
        if other_causes:
            facts["other_causes"] = other_causes
    if decision.before != decision.after:
        facts |= {"before": _partition(decision.before), "after": _partition(decision.after)}
    if decision.dropped:
        facts["dropped"] = decision.dropped
    if decision.owed:
        facts["owed"] = decision.owed
    if decision.waits_anew:
        facts["waits"] = None if decision.waits is None else describe_waiting(decision.waits)
    return facts


def _moved(transition: Transition) -> Facts:
    move = transition.move
    facts: Facts = {
        **_named(transition.tp),
        "cause": transition.cause,
        "trigger": transition.trigger.value,
        "before": None if transition.before is None else transition.before.value,
        "after": None if transition.after is None else transition.after.value,
        "original": move.original,
        "target": move.target,
    }
    step = transition.step
    if step is not None:
        facts["step"] = {"added": step.added, "dropped": step.dropped, "replicas": step.replicas, "final": step.final}
    return facts


def _of_records(records: tuple[Record, ...]) -> Iterator[Facts]:
    """Written records other than those of single partitions and moves."""
    for record in records:
        match record:
            case PutTopic(topic) if topic.version < 0:
                yield {"topic": topic.name, "what": "topic created", "partitions": len(topic.assignments)}
            case PutDeletionMark(name):
                yield {"topic": name, "what": "topic queued for deletion"}
            case DeleteTopic(name):
                yield {"topic": name, "what": "topic deleted"}
            case PutOwedDeletion(broker, partitions):
                yield {"broker": broker, "what": "deletions owed", "partitions": len(partitions)}
            case CloseOwedDeletion(broker):
                yield {"broker": broker, "what": "no deletions owed any more"}
            case _:
                pass


def _sent(request: Request) -> Facts:
    """A request that was queued to its brokers' channels."""
    match request:
        case SendUpdateMetadata(request_id, brokers):
            facts: Facts = {"request": request_id, "api": "UpdateMetadata", "brokers": brokers}
            count = sum(len(topic.partitions) for topic in request.topics)
            named = ((topic.name, number) for topic in request.topics for number, _ in topic.partitions)
        case SendLeaderAndIsr(request_id, broker):
            facts = {"request": request_id, "api": "LeaderAndIsr", "brokers": (broker,)}
            count = sum(len(topic.partitions) for topic in request.topics)
            named = ((topic.name, number) for topic in request.topics for number, _ in topic.partitions)
        case SendStopReplica(request_id, broker, partitions=stopped):
            facts = {"request": request_id, "api": "StopReplica", "brokers": (broker,)}
            count = len(stopped)
            named = ((stop.tp.topic, stop.tp.partition) for stop in stopped)
            facts["deletes"] = sum(stop.delete for stop in stopped)
        case ConnectBrokers():
            return {}
    if not isinstance(request, SendStopReplica) and request.full:
        facts["full"] = True
    facts["partition_count"] = count
    if count <= LISTED_AT_MOST:
        listed: dict[str, list[int]] = {}
        for topic, number in named:
            listed.setdefault(topic, []).append(number)
        facts["partitions"] = listed
    return facts


def _refusals(reply: Reply) -> Iterator[Facts]:
    """The errors that a caller got; of many partitions the first ones."""
    if reply.error is not ErrorCode.NONE:
        message = reply.message if isinstance(reply, RefusedReply | PartitionResultsReply) else None
        yield {"error": reply.error.name, **({"message": message} if message else {})}
    refused: list[tuple[TopicPartition, ErrorCode, str | None]]
    match reply:
        case AlterPartitionReply(_, partitions):
            refused = [(tp, error, None) for tp, error in partitions if isinstance(error, ErrorCode) and error]
        case PartitionResultsReply(_, _, results):
            refused = [each for each in results if each[1]]
        case TopicResultsReply(_, topics):
            for topic in [each for each in topics if each.error][:LISTED_AT_MOST]:
                yield {"topic": topic.name, "error": topic.error.name, "message": topic.message}
            return
        case ControlledShutdownReply(_, remaining) if remaining:
            yield {"what": f"it still leads {counted(len(remaining), 'partition')}", "error": "NONE"}
            return
        case _:
            return
    for tp, error, message in refused[:LISTED_AT_MOST]:
        yield {**_named(tp), "error": error.name, **({"message": message} if message else {})}
