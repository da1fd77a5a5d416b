"""`shunter why`: choose the lines of the state-change log that answer a question, and print them for people.

A question is about a partition, its move alone, a topic, or a broker. Lines are read once, in order. A broker's answer
to a request is chosen if the request's own line was chosen for that broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shunter.core.controller.review import Part, Reason
from shunter.core.wording import counted, named
from shunter.formats.log_lines import time_text
from shunter.model.log_line import LogLine
from shunter.model.partition import NO_LEADER, TopicPartition

ALWAYS = frozenset({"started", "stopped", "elected", "gap"})
TERM_NOTICES = frozenset({"in-charge", "resigned", "moves-left", "reload", "request-met-a-bug"})
LISTED_AT_MOST = 20
"""How many lines of one kind are shown for one event; the others are counted."""


@dataclass(frozen=True, slots=True)
class Question:
    """The subject of a question. Exactly one of `partition`, `topic` and `broker` is given.

    Attributes:
        moves: Leave out lines that are not about moves of the partition or topic.
        since_ms: Leave out lines before this time.
    """

    partition: TopicPartition | None = None
    topic: str | None = None
    broker: int | None = None
    moves: bool = False
    since_ms: int = 0

    @property
    def name(self) -> str:
        """The subject, for people."""
        if self.partition is not None:
            return str(self.partition)
        return f"topic {self.topic}" if self.topic is not None else f"broker {self.broker}"

    def names(self, facts: Mapping[str, Any]) -> bool:
        """Whether a line's topic and partition are the subject's."""
        if self.partition is not None:
            topic, partition = facts.get("topic"), facts.get("partition")
            return topic == self.partition.topic and partition in {self.partition.partition, None}
        return self.topic is not None and facts.get("topic") == self.topic


@dataclass(slots=True)
class Selection:
    """Chooses lines; `begins_ms` is the time of the log's first line, whatever that is about."""

    question: Question
    begins_ms: int | None = None
    lost: int = 0
    """Events that are missing in the log, by its own count."""
    named: bool = False
    """Whether a chosen line names the subject; lines about the whole cluster are chosen without naming it."""
    _n: int = 0
    """Number of the last event of which a decision, move or write was chosen: its requests are chosen with it."""
    _replicas: set[int] = field(default_factory=set[int])
    """Brokers that have, or had, replicas of the subject."""
    _requests: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """Chosen requests of this process, with the brokers whose answers count."""

    def choose(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Give the lines that answer the question, in order."""
        for line in lines:
            if self.begins_ms is None:
                self.begins_ms = line.at_ms
            if self._chosen(line) and line.at_ms >= self.question.since_ms:
                self.named = self.named or self._named_in(line)
                yield line

    def _named_in(self, line: LogLine) -> bool:
        if line.kind in ALWAYS or (line.kind == "notice" and line.facts.get("notice") in TERM_NOTICES):
            return False
        if line.kind == "sent" and self.question.broker is None:
            return self._listed(line.facts)
        if line.kind == "brokers":
            return self.question.broker in _ids_of(line.facts)
        return self.question.broker is not None or line.kind == "notice" or self.question.names(line.facts)

    def _listed(self, facts: Mapping[str, Any]) -> bool:
        """Whether a request's line lists the partition, or one of the topic. A long request's line lists none."""
        listed: Mapping[str, list[int]] = facts.get("partitions", {})
        if self.question.partition is not None:
            return self.question.partition.partition in listed.get(self.question.partition.topic, ())
        return self.question.topic in listed

    def _chosen(self, line: LogLine) -> bool:
        facts = line.facts
        match line.kind:
            case "started":
                self._requests.clear()
                self._n = 0
            case "gap":
                self.lost += int(facts.get("lost", 0))
            case "decided":
                return self._noted(facts, chosen=self._decided(facts))
            case "move" | "written":
                return self._noted(facts, chosen=self.question.names(facts) or self._of_broker(facts))
            case "sent":
                return self._sent(facts)
            case "answered":
                brokers = self._requests.get(facts.get("request", -1), ())
                wrong = "error" in facts or "errors" in facts
                return facts.get("broker") in brokers or (wrong and self._of_broker(facts))
            case "brokers":
                return self._brokers(facts)
            case "notice":
                return self._noticed(facts)
            case "refused":
                by_broker = self.question.broker is not None and f"client '{self.question.broker}'" in facts["cause"]
                return self.question.names(facts) or by_broker
            case _:
                pass
        return line.kind in ALWAYS

    def _noted(self, facts: Mapping[str, Any], *, chosen: bool) -> bool:
        if chosen:
            self._n = facts.get("n", 0)
        return chosen

    def _decided(self, facts: Mapping[str, Any]) -> bool:
        broker = self.question.broker
        if broker is not None:
            return broker in {*facts.get("dropped", ()), *facts.get("owed", ())} or _concerns(facts, broker)
        if not self.question.names(facts):
            return False
        for state in (facts.get("before"), facts.get("after")):
            self._replicas.update(state["replicas"] if state else ())
        if self.question.moves:
            return "waits" in facts or _replicas(facts, "before") != _replicas(facts, "after")
        return True

    def _of_broker(self, facts: Mapping[str, Any]) -> bool:
        return self.question.broker is not None and facts.get("broker") == self.question.broker

    def _sent(self, facts: Mapping[str, Any]) -> bool:
        """Whether a request lists the partition, goes with a chosen decision, or tells a broker everything."""
        brokers, question = set(facts.get("brokers", ())), self.question
        if question.broker is not None:
            wanted = brokers & {question.broker}
            chosen = bool(wanted) and (facts.get("n") == self._n or facts.get("full", False))
        else:
            wanted = brokers if facts.get("api") == "UpdateMetadata" else brokers & self._replicas
            if "partitions" in facts:
                chosen, wanted = self._listed(facts), brokers
            else:
                chosen = facts.get("n") == self._n or facts.get("full", False)
        if not chosen or not wanted:
            return False
        self._requests[facts["request"]] = wanted
        return True

    def _brokers(self, facts: Mapping[str, Any]) -> bool:
        ids = _ids_of(facts)
        if self.question.broker is not None:
            return self.question.broker in ids or "live" in facts
        return bool(ids & self._replicas) and "live" not in facts

    def _noticed(self, facts: Mapping[str, Any]) -> bool:
        about, question = str(facts.get("about", "")), self.question
        if facts.get("notice") in TERM_NOTICES:
            return True
        if question.broker is not None:
            return about == f"broker {question.broker}"
        if question.partition is not None:
            return about in {str(question.partition), question.partition.topic}
        return about == question.topic or about.rpartition("-")[0] == question.topic


def _ids_of(facts: Mapping[str, Any]) -> set[int]:
    """The brokers that a line about brokers names."""
    return {broker for ids in facts.values() if isinstance(ids, list) for broker in ids}


def _concerns(facts: Mapping[str, Any], broker: int) -> bool:
    """Whether a decision made a broker lead, be in sync or be assigned, or ended that."""
    if "before" not in facts:
        return False
    before, after = facts["before"] or {}, facts["after"] or {}
    if (before.get("leader") == broker) != (after.get("leader") == broker):
        return True
    return any((broker in before.get(of, ())) != (broker in after.get(of, ())) for of in ("isr", "replicas"))


def _replicas(facts: Mapping[str, Any], when: str) -> Any:
    state = facts.get(when) or {}
    return [state.get(of) for of in ("replicas", "adding", "removing")]


# ---- lines for people


def narrate(lines: Iterable[LogLine]) -> Iterator[str]:
    """Print chosen lines for people: a heading for each cause, and below it the lines that it led to, with delays."""
    cause, began, counted = None, 0, dict[str, int]()
    hidden = 0
    last_epoch = None
    for line in lines:
        if line.kind == "elected":
            epoch = int(line.facts.get("epoch", 0))
            if last_epoch is not None and epoch > last_epoch + 1:
                yield from _rest(hidden)
                hidden = 0
                yield f"(controller epochs {last_epoch + 1} to {epoch - 1} were other controllers'; what they did is not in this log)"
            last_epoch = epoch
        told = line.facts.get("cause")
        if told is None or told != cause:
            yield from _rest(hidden)
            hidden, counted = 0, {}
            cause, began = told, line.at_ms
            when = time_text(line.at_ms).replace("T", " ").removesuffix("Z")
            if told is None:
                yield f"{when}  {sentence(line)}"
                continue
            yield f"{when}  {heading(told)}"
        counted[line.kind] = counted.get(line.kind, 0) + 1
        if counted[line.kind] > LISTED_AT_MOST:
            hidden += 1
            continue
        yield f"  {f'+{line.at_ms - began} ms':>10}  {sentence(line)}"
    yield from _rest(hidden)


CAUSES: Mapping[str, str] = {
    "AlterPartitionReceived": "a leader asked for another ISR",
    "BatchRefused": "a write was refused",
    "BatchWritten": "a write is durable",
    "BrokersRead": "the brokers in ZooKeeper changed",
    "CancelZnodeFound": "/admin/reassign_cancel came or went",
    "ClusterLoaded": "everything was read after an election",
    "ConfigsRead": "dynamic configuration changed",
    "ConnectionChanged": "a connection to a broker was lost or made",
    "ControlledShutdownRequested": "a broker that stops asked to hand over its leaderships",
    "Elected": "an election was won",
    "ElectionRequested": "somebody asked for an election of leaders",
    "ExtraReassignmentsFound": "/admin/reassign_partitions_extra was written",
    "LegacyReassignmentsFound": "/admin/reassign_partitions was written",
    "LogDirsFailed": "a broker announced that a log dir failed",
    "ReplicasFailed": "replicas were seen to be on a failed log dir",
    "PartitionsRead": "states of partitions were read again",
    "PartitionsSubmitted": "somebody asked for more partitions",
    "ReassignmentRequestsFound": "/admin/reassignment_requests was written",
    "ReassignmentsSubmitted": "somebody asked for moves, or cancelled some",
    "RequestAnswered": "a broker answered",
    "SessionExpired": "the controllership was lost",
    "SettingsChanged": "the settings were read again",
    "TimePassed": "time passed",
    "TopicDeletionsFound": "/admin/delete_topics was written",
    "TopicDeletionsSubmitted": "somebody asked to delete topics",
    "TopicsRead": "topics in ZooKeeper changed",
    "TopicsSubmitted": "somebody asked for new topics",
    "timer": "time passed",
}
"""Events in words, by the first part of a cause."""


def heading(cause: str) -> str:
    """A cause for people: the event in words, and the cause's id, which logs and notices also have."""
    words = CAUSES.get(cause.partition("#")[0].partition(",")[0])
    return cause if words is None else f"{words} [{cause}]"


def _rest(hidden: int) -> Iterator[str]:
    if hidden:
        yield f"  {'':>10}  … and {hidden} lines more of the same kinds (--json has them all)"


def sentence(line: LogLine) -> str:
    """One line for people."""
    facts = line.facts
    match line.kind:
        case "started":
            return f"Shunter {facts['version']} started as broker id {facts['broker_id']}, process {facts['pid']}"
        case "stopped":
            why = f": {facts['failure']}" if facts.get("failure") else ""
            return f"process {facts['pid']} stopped{why}"
        case "elected":
            return f"elected: controller epoch {facts['epoch']}"
        case "gap":
            return f"{facts['lost']} events are missing here: their lines could not be written"
        case "brokers":
            return "; ".join(f"{_BROKERS[what]} {_ids(facts[what])}" for what in _BROKERS if what in facts)
        case "decided":
            return _decision(facts)
        case "move":
            return _move(facts)
        case "written":
            about = f"topic {facts['topic']}" if "topic" in facts else f"broker {facts['broker']}"
            sized = f" ({counted(facts['partitions'], 'partition')})" if "partitions" in facts else ""
            return f"{about}: {facts['what']}{sized}"
        case "notice":
            return f"{facts['notice']}: {facts['about']}: {facts['text']}"
        case "sent":
            full = ", everything" if facts.get("full") else ""
            return f"{facts['api']} #{facts['request']} queued to {_ids(facts['brokers'])}{full}"
        case "answered":
            return _answer(facts)
        case "refused":
            about = f"{facts['topic']}-{facts['partition']}: " if "partition" in facts else ""
            return f"refused: {about}{facts['error']}" + (f", {facts['message']}" if facts.get("message") else "")
        case _:
            return line.kind


_BROKERS = {"live": "live:", "came": "came:", "went": "gone:", "restarted": "restarted:"}


def _ids(brokers: Iterable[int]) -> str:
    ids = list(brokers)
    return f"broker{'' if len(ids) == 1 else 's'} {named(ids, LISTED_AT_MOST)}"


def _decision(facts: Mapping[str, Any]) -> str:
    changes: list[str] = []
    if "before" in facts:
        before, after = facts["before"] or {}, facts["after"] or {}
        for of, name in (
            ("leader", "leader"),
            ("leader_epoch", "leader epoch"),
            ("isr", "ISR"),
            ("replicas", "replicas"),
        ):
            if before.get(of) != after.get(of):
                changes.append(f"{name} {_value(before.get(of))} → {_value(after.get(of))}")
        changes += [f"{of} {after[of]}" for of in ("adding", "removing") if after.get(of)]
    if facts.get("dropped"):
        changes.append(f"{_ids(facts['dropped'])} shall delete its replica")
    if facts.get("owed"):
        changes.append(f"{_ids(facts['owed'])} will be asked to delete its replica when it is back")
    if "waits" in facts:
        changes.append(f"the move {facts['waits'] or 'waits for nothing any more'}")
    rules = "; ".join(_rule(name) for name in facts.get("rules", ()))
    return f"{facts['topic']}-{facts['partition']}: {', '.join(changes) or 'written'} [rule {rules}]"


def _value(value: object) -> str:
    return "none" if value is None or value == NO_LEADER else str(value)


def _rule(name: str) -> str:
    """A rule's name, and in words why the partition was reviewed and which part of the review decided."""
    reason, _, part = name.partition("/")
    words: list[str] = []
    for kind, told in ((Reason, reason), (Part, part)):
        member = told.upper().replace("-", "_")
        if member in kind.__members__:
            words.append(kind[member].value)
    return f"{name}: {'; '.join(words)}" if words else name


def _move(facts: Mapping[str, Any]) -> str:
    before, after = facts["before"] or "no move", facts["after"] or "over"
    told = f"{facts['topic']}-{facts['partition']}: move {facts['trigger']}: {before} → {after}"
    told += f", from {facts['original']} to {facts['target']}"
    step = facts.get("step")
    if step:
        moves = [f"{what} {step[what]}" for what in ("added", "dropped") if step[what]]
        told += (
            f"; step: {', '.join([*moves, 'replicas ' + str(step['replicas'])])}{', the last' if step['final'] else ''}"
        )
    return told


def _answer(facts: Mapping[str, Any]) -> str:
    after = f" after {facts['after_ms']} ms" if "after_ms" in facts else ""
    told = f"broker {facts['broker']} acknowledged #{facts['request']}{after}"
    if "error" in facts:
        return f"broker {facts['broker']} refused #{facts['request']}{after}: {facts['error']}"
    if facts.get("errors"):
        refused = ", ".join(f"{each['topic']}-{each['partition']} {each['error']}" for each in facts["errors"][:5])
        return f"{told}, but refused {counted(facts['error_count'], 'partition')}: {refused}"
    return told
