"""Compares the decisions of the controller's machine, which runs beside an Apache controller, with what Apache writes.

The machine gets the news that a controller gets, and is told that each of its batches was written. The writes of
Apache's controller are kept from it, and compared with its own. Requests, which only Apache's controller gets, are
inferred from their effects. A difference that lasts for `settle` under one controller is reported once, and then Apache's
state is taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from shunter.core.controller.events import (
    BrokersRead,
    ClusterLoaded,
    ConfigsRead,
    ElectionRequested,
    Event,
    LogDirsFailed,
    PartitionsRead,
    ReassignmentChange,
    ReassignmentsSubmitted,
    TopicDeletionsFound,
    TopicIdsAgreed,
    TopicsRead,
)
from shunter.core.controller.state import ControllerState
from shunter.core.observed_requests import Inferred, Place, infer, isr_news, listed, place_of, request_behind
from shunter.model.partition import LeaderAndIsr, TopicPartition
from shunter.model.records import DeleteTopic, PutPartition, PutTopic, Record
from shunter.model.topic import Topic, TopicSnapshot

Told: TypeAlias = tuple[Event, str]
"""An event for the machine, and its cause in words for people."""
FIRST_VERSION = 2**40
"""The first version that the machine is told. Each is newer than the one before, and than any of ZooKeeper's."""
DELETED_IN_MOTION = "docs/decisions/0117-deletions-end-moves.md"
EXACT_ORDER = "docs/decisions/0104-rollback.md"
NOTHING = "nothing that we were told of"


class DecisionDifference(NamedTuple):
    """One difference between Shunter and Apache. `explained` names the document that says why; empty: none does."""

    about: str
    ours: str
    apache: str
    cause: str
    explained: str = ""


@dataclass(slots=True)
class Dispute:
    """A difference between the two sides, and since when neither side has changed, ms."""

    ours: Place | bool
    shown: Place | bool
    since_ms: int
    inferred: bool = False


@dataclass(slots=True)
class ObservationTally:
    """Counts for the summary."""

    decisions: int = 0
    """Partitions and topics that Shunter would have changed."""
    agreed: int = 0
    """How many of these Apache changed in the same way."""
    inferred: Counter[str] = field(default_factory=Counter[str])
    """Counts of requests and events that were inferred from their effects, by kind."""


@dataclass(slots=True)
class Observation:
    """One comparison, from its start to its end.

    Args:
        view: the machine's state; only read here.
        settle_ms: how long a difference has to stand, without a change on either side.
    """

    view: ControllerState
    settle_ms: int
    topics: dict[str, Topic] = field(default_factory=dict[str, Topic])
    """Topics as ZooKeeper shows them."""
    states: Mapping[TopicPartition, LeaderAndIsr] = field(default_factory=dict[TopicPartition, LeaderAndIsr])
    """Partitions' states as ZooKeeper showed them in the last round."""
    disputes: dict[TopicPartition | str, Dispute] = field(default_factory=dict[TopicPartition | str, Dispute])
    pending: set[TopicPartition | str] = field(default_factory=set[TopicPartition | str])
    """Partitions and topics that Shunter has decided to change, and Apache has not changed yet."""
    because: dict[TopicPartition | str, str] = field(default_factory=dict[TopicPartition | str, str])
    """By partition or topic: the cause of Shunter's last decision about it."""
    failed_dirs: set[int] = field(default_factory=set[int])
    """Brokers that announced a failed log dir."""
    tally: ObservationTally = field(default_factory=ObservationTally)
    newly_agreed: Counter[str] = field(default_factory=Counter[str])
    """Decisions of Shunter that the last round found on Apache's side, too, counted by cause."""
    reported: set[DecisionDifference] = field(default_factory=set[DecisionDifference])
    versions: int = FIRST_VERSION

    def next_version(self) -> int:
        """A version that is newer than any that the machine knows."""
        self.versions += 1
        return self.versions

    # ---- events for the machine

    def hear(self, event: Event) -> list[Told]:
        """Turn news from ZooKeeper into the events that the machine may get."""
        match event:
            case ClusterLoaded(snapshot):
                self.topics = {each.topic.name: each.topic for each in snapshot.topics}
                self.states = {
                    TopicPartition(each.topic.name, number): state
                    for each in snapshot.topics
                    for number, state in each.states.items()
                }
                self.disputes.clear()
                self.pending.clear()
                ids = all(topic.topic_id is not None for topic in self.topics.values())
                return [(event, "the start"), (TopicIdsAgreed(ids), "the start")]
            case TopicsRead():
                return self._on_topics_read(event)
            case PartitionsRead():
                return []  # Rounds read them.
            case LogDirsFailed(brokers):
                self.failed_dirs.update(brokers)
                return []
            case BrokersRead(brokers):
                return [(event, self._told_of_brokers({broker.id: broker.epoch for broker in brokers}))]
            case TopicDeletionsFound(names):
                return [(event, f"deletion of {', '.join(names)} was asked for")]
            case ElectionRequested():
                return [(event, "preferred leaders were asked for by znode")]
            case ConfigsRead():
                return [(event, "configuration was changed")]
            case _:
                return [(event, f"{type(event).__name__} by znode")]

    def _told_of_brokers(self, live: Mapping[int, int]) -> str:
        known = {id_: broker.epoch for id_, broker in self.view.brokers.items()}
        told = [f"broker {id_} is gone" for id_ in sorted(known.keys() - live.keys())]
        told += [f"broker {id_} came" for id_ in sorted(live.keys() - known.keys())]
        told += [f"broker {id_} was restarted" for id_ in sorted(live.keys() & known) if live[id_] != known[id_]]
        self.failed_dirs -= {id_ for id_ in self.failed_dirs if live.get(id_) != known.get(id_)}
        return ", ".join(told) or "brokers are the same"

    def _on_topics_read(self, event: TopicsRead) -> list[Told]:
        told: list[Told] = []
        changes: list[ReassignmentChange] = []
        for read in event.topics:
            name = read.topic.name
            before = self.topics.get(name)
            self.topics[name] = read.topic
            known = self.view.topics.get(name)
            if known is None and before is not None and before.topic_id == read.topic.topic_id:
                continue  # The machine has deleted the topic already.
            if known is None or known.topic_id not in (None, read.topic.topic_id):
                fresh = read.topic._replace(version=self.next_version())
                told.append((TopicsRead((TopicSnapshot(fresh, {}, read.configs),)), f"topic {name} was made"))
                continue
            ours = {number: each.assignment for number, each in known.partitions.items()}
            kept = {number: ours.get(number, shown) for number, shown in read.topic.assignments.items()}
            topic = read.topic._replace(assignments=kept, version=self.next_version())
            what = "got more partitions" if kept.keys() - ours.keys() else "was written"
            told.append((TopicsRead((TopicSnapshot(topic, {}, read.configs),)), f"topic {name} {what}"))
            for number, shown in sorted(read.topic.assignments.items()):
                if before is not None and number in ours and before.assignments.get(number) != shown:
                    change = request_behind(TopicPartition(name, number), ours[number], shown)
                    changes += () if change is None else (change,)
        for name in event.gone:
            self.topics.pop(name, None)
        for change in changes:
            what = "a cancel" if change.replicas is None else f"a move to {listed(change.replicas)}"
            self.tally.inferred["requests to move or to cancel"] += 1
            told.append((ReassignmentsSubmitted((change,)), f"{what} was asked for"))
        return told

    def decided(self, records: Iterable[Record], cause: str) -> None:
        """Note a batch that Shunter would write. The machine's state must still be as it was before the batch."""
        for record in records:
            match record:
                case PutPartition(tp, leadership):
                    known = self.view.partition(tp)
                    before = None if known is None else known.leadership
                    if before is None or (before.leader, set(before.isr)) != (leadership.leader, set(leadership.isr)):
                        self._note(tp, cause)
                case PutTopic(topic):
                    for number, assignment in topic.assignments.items():
                        tp = TopicPartition(topic.name, number)
                        known = self.view.partition(tp)
                        if known is None or known.assignment != assignment:
                            self._note(tp, cause)
                case DeleteTopic(name):
                    self._note(name, cause)
                case _:
                    pass

    def _note(self, about: TopicPartition | str, cause: str) -> None:
        self.because[about] = cause
        if about not in self.pending:
            self.pending.add(about)
            self.tally.decisions += 1

    # ---- rounds

    def look(
        self, states: Mapping[TopicPartition, LeaderAndIsr], now_ms: int, *, steady: bool
    ) -> tuple[list[Told], list[DecisionDifference]]:
        """Compare the machine's state with what ZooKeeper shows now.

        Args:
            states: the states of all partitions of `topics` that have one.
            now_ms: the moment.
            steady: whether the controller is the same as in the last round. Without a controller nothing can be late.

        Returns:
            Events for the machine, and differences. Each difference is returned once.
        """
        news = {
            tp: news
            for tp, shown in states.items()
            if (before := self.states.get(tp)) is not None
            and before != shown
            and (known := self.view.partition(tp)) is not None
            and (news := isr_news(known, before, shown, self.view.brokers.keys(), self.next_version)) is not None
        }
        self.states = states
        told: list[Told] = [(PartitionsRead(news), "leaders changed their ISRs")] if news else []
        found: list[DecisionDifference] = []
        open_ones: set[TopicPartition | str] = set()
        inferred = Inferred(self.view, states, self.failed_dirs, self.next_version)
        for about, ours, shown in self._unequal():
            open_ones.add(about)
            dispute = self._dispute(about, ours, shown, now_ms, steady=steady)
            settled = now_ms - dispute.since_ms >= self.settle_ms
            if isinstance(about, TopicPartition) and isinstance(ours, Place) and isinstance(shown, Place):
                guessed = infer(inferred, about, ours, shown, settled=settled and not dispute.inferred)
                if guessed:
                    dispute.inferred = dispute.inferred or settled
                    dispute.since_ms = now_ms
                    continue
            if settled:
                found.append(self._difference(about, ours, shown))
        self.tally.inferred.update(inferred.counted)
        self._close(open_ones)
        fresh = [each for each in found if each not in self.reported]
        self.reported.update(fresh)
        return [*told, *inferred.told], fresh

    def _unequal(self) -> Iterator[tuple[TopicPartition | str, Place | bool, Place | bool]]:
        """The differences: topics that only one side has, and partitions that the two sides have differently."""
        for name in sorted(self.view.topics.keys() ^ self.topics.keys()):
            yield name, name in self.view.topics, name in self.topics
        for name in sorted(self.view.topics.keys() & self.topics.keys()):
            ours_known, shown_known = self.view.topics[name].partitions, self.topics[name].assignments
            for number in sorted(ours_known.keys() & shown_known.keys()):
                tp = TopicPartition(name, number)
                if tp in self.view.unreadable:
                    continue  # The machine decides nothing about an unreadable partition.
                ours = place_of(*ours_known[number])
                shown = place_of(shown_known[number], self.states.get(tp))
                if ours != shown:
                    yield tp, ours, shown

    def _dispute(
        self, about: TopicPartition | str, ours: Place | bool, shown: Place | bool, now_ms: int, *, steady: bool
    ) -> Dispute:
        dispute = self.disputes.get(about)
        if dispute is None or dispute.shown != shown:
            dispute = self.disputes[about] = Dispute(ours, shown, now_ms)
        elif dispute.ours != ours or not steady:
            dispute.ours, dispute.since_ms = ours, now_ms
        return dispute

    def _close(self, open_ones: set[TopicPartition | str]) -> None:
        for about in [about for about in self.disputes if about not in open_ones]:
            del self.disputes[about]
        done = self.pending - open_ones
        self.pending -= done
        self.tally.agreed += len(done)
        self.newly_agreed = Counter(self.because[about] for about in done)

    def _difference(self, about: TopicPartition | str, ours: Place | bool, shown: Place | bool) -> DecisionDifference:
        cause = self.because.get(about, NOTHING)
        if isinstance(ours, Place) and isinstance(shown, Place):
            reordered = ours._replace(replicas=()) == shown._replace(replicas=())
            reordered = reordered and sorted(ours.replicas) == sorted(shown.replicas)
            explained = EXACT_ORDER if reordered and "a cancel was asked for" in cause else ""
            return DecisionDifference(str(about), str(ours), str(shown), cause, explained)
        moving = not ours and any(each.in_motion for each in self.topics[str(about)].assignments.values())
        words = {True: "it is there", False: "it is deleted"}
        explained = DELETED_IN_MOTION if moving else ""
        return DecisionDifference(str(about), words[bool(ours)], words[bool(shown)], cause, explained)
