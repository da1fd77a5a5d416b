"""Errors in brokers' answers: a table of their consequences, and the brokers that are told again, with the time.

Source: Apache 3.9, `KafkaApis.handleLeaderAndIsrRequest`, `handleStopReplicaRequest`, `handleUpdateMetadataRequest` and
`ReplicaManager.becomeLeaderOrFollower`, `stopReplicas`. Apache's controller logs most of them and does nothing.

A broker that refuses a LeaderAndIsr does not know whom it follows, and no later request would tell it. So what it has to
know now is told again; leader epochs make that idempotent. A lasting refusal is asked about once a minute, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from shunter.core.controller.events import RequestAnswered
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Request
from shunter.core.controller.state import ControllerState
from shunter.core.wording import counted
from shunter.errors import ErrorCode
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition

AGAIN_MS = 1_000
AGAIN_AT_MOST_MS = 60_000
"""A broker that refused is told again after `AGAIN_MS`. The time doubles at each refusal, up to `AGAIN_AT_MOST_MS`."""


class Consequence(Enum):
    """The consequence of an error."""

    NOTHING = "nothing: it says what we know"
    TELL_AGAIN = "what was refused is told again, later each time"
    OFFLINE = "the replica is offline on that broker"
    RESIGN = "we are not the controller any more"


OF_REQUESTS: Final[Mapping[ErrorCode, Consequence]] = {
    ErrorCode.NONE: Consequence.NOTHING,
    ErrorCode.STALE_CONTROLLER_EPOCH: Consequence.RESIGN,
}
"""Errors of a whole request; any other is `TELL_AGAIN`: the broker is told everything that it has to know."""

OF_REPLICAS: Final[Mapping[ErrorCode, Consequence]] = {
    ErrorCode.NONE: Consequence.NOTHING,
    ErrorCode.STALE_CONTROLLER_EPOCH: Consequence.NOTHING,  # The broker has this leader epoch already, or a newer one.
    ErrorCode.KAFKA_STORAGE_ERROR: Consequence.OFFLINE,
}
"""Errors of one partition of a LeaderAndIsr; any other is `TELL_AGAIN`, for that partition.

In the answer to a StopReplica all errors of partitions mean the same: a deletion becomes owed (`Deletions`), a stop
without deletion is not repeated. FENCED_LEADER_EPOCH to a stop without deletion is not even told.
"""


def of_request(error: ErrorCode) -> Consequence:
    """The consequence of an error that a whole request got."""
    return OF_REQUESTS.get(error, Consequence.TELL_AGAIN)


def of_replica(error: ErrorCode) -> Consequence:
    """The consequence of an error that one partition of a LeaderAndIsr got."""
    return OF_REPLICAS.get(error, Consequence.TELL_AGAIN)


@dataclass(slots=True)
class RefusingBroker:
    """A broker that refused something. `partitions` None: a whole request. `due_ms` None: told again, no answer yet."""

    error: ErrorCode
    partitions: set[TopicPartition] | None
    due_ms: int | None
    failures: int = 1
    last_request: int = 0
    """The last of the requests that told the broker again. Once it accepts that one, it refuses nothing any more."""


@dataclass(slots=True)
class Answers:
    """Brokers that refuse requests. One instance per term."""

    state: ControllerState
    outbox: Outbox
    refusals: dict[BrokerId, RefusingBroker] = field(default_factory=dict[BrokerId, RefusingBroker])
    accepted: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that have accepted a request of this term."""
    resigns: str = ""
    """Why this controller has to resign; empty: it does not."""

    def on_answered(self, event: RequestAnswered, *, stop: bool, now_ms: int) -> list[Notice]:
        """Look at an answer to a request that was waited for; `stop`: it was a StopReplica."""
        consequence = of_request(event.error)
        if consequence is Consequence.RESIGN:
            told = f"broker {event.broker} has heard of a newer controller than epoch {self.state.controller_epoch}"
            self.resigns = told
            return [Notice("stale-controller", f"broker {event.broker}", told)]
        if consequence is Consequence.TELL_AGAIN:
            notices = self._refused(event, None, event.error, now_ms)
            self._maybe_resign()
            return notices
        self.accepted.add(event.broker)
        again = {} if stop else self.refused_replicas(event)
        if again:
            return self._refused(event, set(again), next(iter(again.values())), now_ms)
        notices = self._stops_failed(event) if stop and event.partition_errors else []
        return notices + self._went_well(event)

    def refused_replicas(self, event: RequestAnswered) -> dict[TopicPartition, ErrorCode]:
        """Partitions that a LeaderAndIsr's answer refuses and that are sent again: the broker has no replica yet."""
        errors = event.partition_errors.items()
        return {tp: error for tp, error in errors if of_replica(error) is Consequence.TELL_AGAIN}

    def served_again(self, event: RequestAnswered) -> list[TopicPartition]:
        """Replicas on failed log dirs, as the state has them, that the answer to a LeaderAndIsr accepts.

        Source: Apache 3.9, `KafkaController.processLeaderAndIsrResponseReceived`: a partition without an error leaves
        `replicasOnOfflineDirs`. One with another error than KAFKA_STORAGE_ERROR neither leaves it nor enters it. (A
        broker of 3.9 accepts such a replica only after a restart, `HostedPartition.Offline`.)
        """
        topics = self.outbox.roles.get((event.request_id, event.broker), ())
        if event.error is not ErrorCode.NONE or not topics:
            return []
        failed = {tp for tp, brokers in self.state.offline_replicas.items() if event.broker in brokers}
        if not failed:
            return []
        named = {TopicPartition(topic.name, number) for topic in topics for number, _ in topic.partitions}
        return sorted(failed.intersection(named).difference(event.partition_errors))

    def due(self, now_ms: int) -> bool:
        """Whether a broker has to be told again now."""
        moment = self.due_ms
        return moment is not None and moment <= now_ms

    @property
    def due_ms(self) -> int | None:
        """When the next broker has to be told again; None: no broker has to be."""
        if not self.refusals:
            return None
        return min((each.due_ms for each in self.refusals.values() if each.due_ms is not None), default=None)

    def take_due(self, now_ms: int) -> tuple[tuple[BrokerId, ...], list[Request]]:
        """Give the brokers that have to be told everything, and requests for those that refused single partitions.

        Call `handed_out` when all requests to these brokers were handed out.
        """
        everything: list[BrokerId] = []
        requests: list[Request] = []
        for broker, refusal in sorted(self.refusals.items()):
            if refusal.due_ms is None or refusal.due_ms > now_ms:
                continue
            if refusal.partitions is None:
                everything.append(broker)
            else:
                requests += self.outbox.lead_again(broker, sorted(refusal.partitions), now_ms)
            refusal.due_ms = None
            refusal.last_request = 1 << 62
        return tuple(everything), requests

    def handed_out(self) -> None:
        """The requests to the brokers of `take_due` were handed out."""
        last = self.outbox.next_request_id - 1
        for broker, refusal in tuple(self.refusals.items()):
            if refusal.last_request == 1 << 62:
                refusal.last_request = last
                if not self.outbox.unanswered.get(broker):
                    del self.refusals[broker]  # The broker hosts none of the partitions any more, so nothing was sent.

    def forget(self, brokers: Iterable[BrokerId]) -> None:
        """These brokers died or were restarted: they are told everything when they come."""
        for broker in brokers:
            self.refusals.pop(broker, None)
            self.accepted.discard(broker)

    def _refused(
        self, event: RequestAnswered, partitions: set[TopicPartition] | None, error: ErrorCode, now_ms: int
    ) -> list[Notice]:
        known = self.refusals.get(event.broker)
        if known is None or (known.error, known.partitions is None) != (error, partitions is None):
            notices = [self._notice(event.broker, partitions, error)]
        else:
            notices = []
        if known is None:
            self.refusals[event.broker] = RefusingBroker(error, partitions, now_ms + AGAIN_MS)
            return notices
        known.error = error
        if known.partitions is not None:
            known.partitions = None if partitions is None else known.partitions | partitions
        if known.due_ms is None:
            known.due_ms = now_ms + min(AGAIN_AT_MOST_MS, AGAIN_MS << min(known.failures, 10))
            known.failures += 1
        return notices

    def _notice(self, broker: BrokerId, partitions: set[TopicPartition] | None, error: ErrorCode) -> Notice:
        if partitions is None:
            told = f"it refuses our requests with {error.name}; they are sent again, later each time"
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                told += ". Our address or principal needs ClusterAction on the cluster (super.users, or an ACL)"
        else:
            told = f"it refuses {counted(len(partitions), 'replica')}, {min(partitions)} for one, with {error.name}; it is asked again"
        return Notice("control-refused", f"broker {broker}", told)

    def _stops_failed(self, event: RequestAnswered) -> list[Notice]:
        deleting = self.outbox.deletions.get((event.request_id, event.broker), ())
        # Brokers before 3.0 want a greater leader epoch than the last one for a stop, too. Apache's controller gets the
        # same refusal. It has no consequence: the broker follows nobody when it has stopped, or as it was told last.
        failed = {
            tp: error
            for tp, error in event.partition_errors.items()
            if error is not ErrorCode.FENCED_LEADER_EPOCH or tp in deleting
        }
        if not failed:
            return []
        tp, error = min(failed.items())
        told = f"it did not stop {counted(len(failed), 'replica')}, {tp} for one ({error.name})"
        return [Notice("stop-refused", f"broker {event.broker}", told)]

    def _went_well(self, event: RequestAnswered) -> list[Notice]:
        known = self.refusals.get(event.broker)
        if known is None or known.due_ms is not None or event.request_id < known.last_request:
            return []
        del self.refusals[event.broker]
        return [Notice("control-accepted", f"broker {event.broker}", "it takes our requests again")]

    def _maybe_resign(self) -> None:
        """Resign if every live broker denies this controller the right to control it: another process may have it."""
        others = self.outbox.others()
        if self.accepted or not others:
            return
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if all(broker in self.refusals and self.refusals[broker].error is denied for broker in others):
            self.resigns = f"every live broker ({len(others)}) refuses our requests with {denied.name}"
