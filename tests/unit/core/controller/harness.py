"""A fake cluster for the controller's machine alone: it keeps what is written, and answers requests.

No sockets, no time of its own. Leaders take in followers when told to (`catch_up`).
"""

from collections import deque
from dataclasses import replace
from uuid import UUID

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BatchRefused,
    BatchWritten,
    BrokersRead,
    CancelZnodeFound,
    ClusterLoaded,
    Elected,
    Envelope,
    ExtraReassignmentsFound,
    IsrProposal,
    LegacyReassignmentsFound,
    LogDirsFailed,
    NewTopic,
    PartitionsRead,
    ReassignmentChange,
    ReassignmentRequestsFound,
    ReassignmentsSubmitted,
    RequestAnswered,
    TimePassed,
    TopicsSubmitted,
)
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import (
    ConnectBrokers,
    LoadCluster,
    ReadPartitions,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from shunter.drivers.zookeeper.requests import JUTE_LIMIT
from shunter.drivers.zookeeper.store_operations import estimate
from shunter.errors import ErrorCode
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, TopicPartition
from shunter.model.records import (
    CheckTopic,
    CloseOwedDeletion,
    CloseReassignment,
    CreateReassignmentRequest,
    DeleteQueueEntry,
    DeleteReassignmentRequest,
    DeleteTopic,
    ForgetControllerId,
    PutDeletionMark,
    PutExtraReassignments,
    PutLegacyReassignments,
    PutOwedDeletion,
    PutOwedReplicas,
    PutPartition,
    PutProducerIdBlock,
    PutReassignment,
    PutReassignmentRequest,
    PutRegistration,
    PutTopic,
)
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import (
    ClusterSnapshot,
    LeftOut,
    LegacyReassignments,
    OwedDeletions,
    OwedReplicas,
    ReassignmentRequest,
)
from shunter.model.topic import Topic, TopicSnapshot
from shunter.model.weights import DELETED_AT_ONCE

US = 100


def _targets(moves):
    return {TopicPartition(*tp): tuple(replicas) for tp, replicas in moves.items()}


def broker(id_, epoch):
    return Broker(id_, epoch, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + id_),))


def size_of(record):
    """Bytes of a record in a request. The store deletes the states of a large topic in portions before the batch."""
    if isinstance(record, DeleteTopic) and len(record.partitions) > DELETED_AT_ONCE:
        record = record._replace(partitions=())
    return estimate(record)


class Store:
    """ZooKeeper as records: every batch is checked whole, then applied whole."""

    def __init__(self):
        self.epoch = 0
        self.topics = {}
        self.states = {}
        self.configs = {}
        self.reassignments = {}
        self.owed = {}
        self.owed_replicas = {}
        self.controller_ids = frozenset()
        self.registrations = []
        """The controller's registration, as it was written; None: withdrawn."""
        self.deleting = set()
        self.legacy = None
        self.extra = None
        self.requests = {}
        self.sequence = 0
        self.cancel = None
        self.producer = (0, -1)
        self.czxid = 1000
        self.broken = set()
        """Partitions whose state was overwritten with nonsense."""
        self.left_out = LeftOut()
        self.log = []

    def snapshot(self, brokers):
        return ClusterSnapshot(
            cluster_id="cluster",
            brokers=tuple(brokers),
            topics=tuple(self.topic_snapshot(name) for name in sorted(set(self.topics) - self.left_out.topics)),
            left_out=self.left_out,
            reassignments=dict(self.reassignments),
            legacy=None if self.left_out.legacy else self.legacy,
            owed_deletions=dict(self.owed),
            owed_replicas=dict(self.owed_replicas),
            controller_ids=self.controller_ids,
            deleting_topics=tuple(sorted(self.deleting)),
            producer_id_block=self.producer,
            broker_configs={},
            cancel=self.cancel,
            extra=self.extra,
            requests=tuple(self.requests[name] for name in sorted(self.requests)),
        )

    def request(self, targets, *, legacy=False):
        """A persistent sequential znode."""
        self.czxid += 1
        name = f"request_{self.sequence:010d}"
        self.sequence += 1
        self.requests[name] = ReassignmentRequest(name, dict(targets), legacy, self.czxid)
        return name

    def topic_snapshot(self, name):
        topic = self.topics[name]
        states = {n: self.states[TopicPartition(name, n)] for n in topic.assignments if (name, n) in self.states}
        broken = tuple(n for n in states if (name, n) in self.broken)
        states = {n: state for n, state in states.items() if n not in broken}
        return TopicSnapshot(topic, states, self.configs.get(name, {}), broken)

    def write(self, batch):
        if not all(self._expected(record) for record in batch.records):
            named = [getattr(record, "tp", getattr(record, "topic", None)) for record in batch.records]
            names = {item.topic if isinstance(item, TopicPartition) else item.name for item in named if item}
            names |= {record.name for record in batch.records if isinstance(record, CheckTopic)}
            return BatchRefused(
                batch.batch_id,
                "version",
                tuple(self.topic_snapshot(name) for name in sorted(names & set(self.topics))),
                tuple(sorted(names - set(self.topics))),
                None if self.left_out.legacy else self.legacy,
                self.extra,
                self.left_out.legacy,
            )
        self.log.append(batch.records)
        outcomes = [self._apply(record) for record in batch.records]
        return BatchWritten(batch.batch_id, tuple(o[0] for o in outcomes), tuple(o[1] for o in outcomes))

    def _expected(self, record):
        match record:
            case PutTopic(topic):
                return self.topics.get(topic.name, Topic("", None, {})).version == topic.version
            case CheckTopic(name, version):
                return name in self.topics and self.topics[name].version == version
            case PutPartition(tp) if tp in self.broken:
                return False
            case PutPartition(tp, leadership):
                known = self.states.get(tp)
                return (known.partition_epoch if known else -1) == leadership.partition_epoch
            case PutReassignment(tp, move):
                known = self.reassignments.get(tp)
                return (known.version if known else -1) == move.version
            case CloseReassignment(tp, version):
                return tp in self.reassignments and self.reassignments[tp].version == version
            case PutOwedDeletion(id_, _, version) | CloseOwedDeletion(id_, version):
                return self.owed.get(id_, OwedDeletions((), -1)).version == version
            case PutOwedReplicas(name, version=version):
                known = self.owed_replicas.get(name)
                return (known.version if known else -1) == version
            case PutLegacyReassignments() if self.left_out.legacy:
                return False
            case PutLegacyReassignments(_, version):
                return (-1 if self.legacy is None else self.legacy.version) == version
            case PutReassignmentRequest(name=name, version=version):
                return name in self.requests and self.requests[name].version == version
            case PutExtraReassignments(_, version):
                return self.extra is not None and self.extra.version == version
            case _:
                return True

    def _apply(self, record):
        self.czxid += 1
        match record:
            case PutTopic(topic, configs):
                self.topics[topic.name] = topic._replace(version=topic.version + 1)
                if topic.version < 0:
                    self.configs[topic.name] = dict(configs)
                return topic.version + 1, 0
            case PutPartition(tp, leadership):
                self.states[tp] = leadership._replace(partition_epoch=leadership.partition_epoch + 1)
                return leadership.partition_epoch + 1, 0
            case PutReassignment(tp, move):
                czxid = move.czxid or self.czxid
                self.reassignments[tp] = move._replace(version=move.version + 1, czxid=czxid)
                return move.version + 1, czxid
            case CloseReassignment(tp):
                del self.reassignments[tp]
            case PutOwedDeletion(id_, partitions, version):
                self.owed[id_] = OwedDeletions(partitions, version + 1)
                return version + 1, 0
            case CloseOwedDeletion(id_):
                del self.owed[id_]
            case PutOwedReplicas(name, _, ()):
                del self.owed_replicas[name]
            case PutOwedReplicas(name, topic_id, partitions, version):
                self.owed_replicas[name] = OwedReplicas(topic_id, partitions, version + 1)
                return version + 1, 0
            case PutRegistration(ourselves, wanted):
                self.registrations.append(ourselves if wanted else None)
                return (0, self.czxid) if wanted else (-1, 0)
            case ForgetControllerId(id_):
                self.controller_ids -= {id_}
            case PutLegacyReassignments(targets, version):
                czxid = self.czxid if self.legacy is None else self.legacy.czxid
                written = None if targets is None else LegacyReassignments(dict(targets), {}, version + 1)
                self.legacy = None if written is None else written._replace(czxid=czxid)
                return version + 1, czxid if version < 0 else 0
            case PutExtraReassignments(targets, version):
                self.extra = (
                    None if targets is None else self.extra._replace(targets=dict(targets), version=version + 1)
                )
                return version + 1, 0
            case CreateReassignmentRequest(targets, legacy):
                self.request(targets, legacy=legacy)
                return 0, 0
            case PutReassignmentRequest(name, targets, _, version):
                self.requests[name] = self.requests[name]._replace(targets=dict(targets), version=version + 1)
                return version + 1, 0
            case DeleteReassignmentRequest(name):
                self.requests.pop(name, None)
            case PutDeletionMark(name):
                self.deleting.add(name)
                return 0, 0
            case DeleteTopic(name, partitions):
                del self.topics[name]
                self.deleting.discard(name)
                for number in partitions:
                    self.states.pop(TopicPartition(name, number), None)
            case PutProducerIdBlock(last=last, version=version):
                self.producer = (last + 1, version + 1)
                return version + 1, 0
            case DeleteQueueEntry("delete_topics", name):
                self.deleting.discard(name)
            case DeleteQueueEntry() | CheckTopic():
                pass
        return -1, 0


class Harness:
    """Runs a machine against a store and brokers that answer at once (unless told to be silent)."""

    def __init__(self, brokers=(1, 2, 3, 4), **settings):
        self.settings = replace(ControllerSettings(US), **settings)
        self.machine = ControllerMachine(self.settings)
        self.store = Store()
        self.now_ms = 1_000_000
        self.next_epoch = 500
        self.live = {}
        for id_ in (US, *brokers):
            self.register(id_)
        self.hosted = {id_: {} for id_ in brokers}
        self.failed = {}
        """By broker: its replicas on a log dir that failed since it was started."""
        self.deleted = []
        self.sent = []
        self.replies = {}
        self.notices = []
        self.silent = set()
        self.unanswered = []
        self.events = deque()
        self.hold_writes = False
        self.held_batches = []
        self.resigned = False
        self.proposals = 0
        self.wake_at_ms = None
        self.request_limit = JUTE_LIMIT
        self.forbidden = lambda record: False
        """Bytes that ZooKeeper takes in one request."""

    # ---- the world

    def register(self, id_):
        self.next_epoch += 1
        self.live[id_] = broker(id_, self.next_epoch)

    def start(self, **topics):
        """Elect the controller, and make topics by their name and assignments."""
        self.store.epoch += 1
        self.resigned = False
        self.feed(Elected(self.store.epoch, self.store.epoch))
        for name, assignments in topics.items():
            self.create(name, assignments)
        return self

    def fail_over(self):
        """The controller's process dies, and another Shunter takes over; requests on their way are lost."""
        self.machine = ControllerMachine(self.settings)
        self.events.clear()
        self.unanswered.clear()
        self.held_batches.clear()
        self.hold_writes = False
        self.start()

    def feed(self, *events):
        self.events.extend(events)
        self.run()

    def run(self):
        while self.events:
            self._handle(self.events.popleft())
        return self

    def pass_time(self, ms):
        self.now_ms += ms
        self.feed(TimePassed())

    def _handle(self, event):
        ready = self.machine.handle(Envelope(self.now_ms, "test", event))
        self.notices += ready.notices
        self.resigned |= bool(ready.resigned)
        self.wake_at_ms = ready.wake_at_ms
        for request in ready.requests:
            self._send(request)
        for token, reply in ready.replies:
            assert token not in self.replies, "answered twice"
            self.replies[token] = reply
        for read in ready.reads:
            if isinstance(read, ReadPartitions):
                found = {tp: self.store.states[tp] for tp in read.partitions if tp not in self.store.broken}
                self.events.append(PartitionsRead(found))
                continue
            assert isinstance(read, LoadCluster)
            self.events.append(ClusterLoaded(self.store.snapshot(self.live[id_] for id_ in sorted(self.live))))
        if ready.writes is not None:
            if self.hold_writes:
                self.held_batches.append(ready.writes)
            else:
                self.events += self._write(ready.writes)
        if ready.more:
            self.events.append(TimePassed())

    def release_writes(self):
        self.hold_writes = False
        batches, self.held_batches = self.held_batches, []
        self.feed(*(event for batch in batches for event in self._write(batch)))

    def _write(self, batch):
        """The batch's outcome, and the event of the watch on the requests' folder."""
        if sum(map(size_of, batch.records)) > self.request_limit:
            return [BatchRefused(batch.batch_id, "too-great")]
        if any(map(self.forbidden, batch.records)):
            return [BatchRefused(batch.batch_id, "forbidden", told="ZooKeeper refused Put /forbidden with code -102")]
        before = set(self.store.requests)
        outcome = self.store.write(batch)
        return [outcome] if set(self.store.requests) == before else [outcome, self.requests_found()]

    def _send(self, request):
        self.sent.append(request)
        if isinstance(request, ConnectBrokers):
            return
        targets = request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,)
        for id_ in targets:
            if id_ in self.silent:
                self.unanswered.append((id_, request))
            elif id_ in self.live:
                self._receive(id_, request)

    def _receive(self, id_, request):
        errors = {}
        failed = self.failed.get(id_, ())
        if isinstance(request, SendLeaderAndIsr):
            for topic in request.topics:
                for number, partition in topic.partitions:
                    tp = TopicPartition(topic.name, number)
                    if tp in failed:
                        errors[tp] = ErrorCode.KAFKA_STORAGE_ERROR
                    else:
                        self.hosted.setdefault(id_, {})[tp] = partition
        elif isinstance(request, SendStopReplica):
            for stop in request.partitions:
                if stop.tp in failed:
                    errors[stop.tp] = ErrorCode.KAFKA_STORAGE_ERROR
                elif stop.delete:
                    self.deleted.append((id_, stop.tp))
                    self.hosted.setdefault(id_, {}).pop(stop.tp, None)
        self.events.append(RequestAnswered(request.request_id, id_, ErrorCode.NONE, errors))

    def fail_log_dir(self, id_, *partitions):
        """A log dir with these replicas fails: the broker announces it, and refuses them until it is restarted."""
        self.failed.setdefault(id_, set()).update(partitions)
        self.feed(LogDirsFailed((id_,)))

    def answer_all(self):
        waiting, self.unanswered = self.unanswered, []
        self.silent.clear()
        for id_, request in waiting:
            if id_ in self.live:
                self._receive(id_, request)
        self.run()

    def kill(self, id_):
        del self.live[id_]
        self.unanswered = [(other, request) for other, request in self.unanswered if other != id_]
        self.feed(self.brokers_read())

    def revive(self, id_):
        self.register(id_)
        self.feed(self.brokers_read())

    def bounce(self, id_):
        self.failed.pop(id_, None)
        self.register(id_)
        self.feed(self.brokers_read())

    def brokers_read(self):
        return BrokersRead(tuple(self.live[id_] for id_ in sorted(self.live)))

    # ---- znodes that people write

    def requests_found(self):
        return ReassignmentRequestsFound(tuple(self.store.requests[name] for name in sorted(self.store.requests)))

    def write_legacy(self, moves, originals=None):
        known = self.store.legacy
        self.store.czxid += 1
        version, czxid = (0, self.store.czxid) if known is None else (known.version + 1, known.czxid)
        self.store.legacy = LegacyReassignments(_targets(moves), _targets(originals or {}), version, czxid)
        self.feed(LegacyReassignmentsFound(self.store.legacy))

    def write_extra(self, moves):
        known = self.store.extra
        self.store.czxid += 1
        version, czxid = (0, self.store.czxid) if known is None else (known.version + 1, known.czxid)
        self.store.extra = LegacyReassignments(_targets(moves), {}, version, czxid)
        self.feed(ExtraReassignmentsFound(self.store.extra))

    def write_request(self, moves, *, legacy=False):
        name = self.store.request(_targets(moves), legacy=legacy)
        self.feed(self.requests_found())
        return name

    def write_cancel(self):
        self.store.czxid += 1
        self.store.cancel = self.store.czxid
        self.feed(CancelZnodeFound(self.store.cancel))

    def remove_cancel(self):
        self.store.cancel = None
        self.feed(CancelZnodeFound(None))

    def told(self, kind):
        return [notice for notice in self.notices if notice.kind == kind]

    # ---- actions of people

    def create(self, name, assignments, **configs):
        token = len(self.replies) + 10_000
        new = NewTopic(name, UUID(int=hash(name) % 2**127), -1, -1, dict(enumerate(assignments)), configs)
        self.feed(TopicsSubmitted((new,), False, token))
        return self.replies.get(token)

    def reassign(self, moves, token=1, **options):
        changes = tuple(
            ReassignmentChange(TopicPartition(*tp), None if replicas is None else tuple(replicas), **options)
            for tp, replicas in moves.items()
        )
        self.feed(ReassignmentsSubmitted(changes, reply_to=token))

    def result(self, token):
        return {tp: error.name for tp, error, _ in self.replies[token].partitions}

    def state(self, tp):
        return self.machine.state.partition(TopicPartition(*tp))

    def leadership(self, tp) -> LeaderAndIsr:
        return self.state(tp).leadership

    def replicas(self, tp):
        return self.state(tp).assignment.replicas

    def catch_up(self, tp, *brokers):
        """The leader asks to take followers into the ISR."""
        tp = TopicPartition(*tp)
        told = self.leadership(tp)
        isr = told.isr + tuple(id_ for id_ in brokers if id_ not in told.isr)
        self.propose(tp, isr)

    def propose(self, tp, isr, token=None):
        tp = TopicPartition(*tp)
        told = self.leadership(tp)
        proposal = IsrProposal(tp, told.leader_epoch, told.partition_epoch, tuple((id_, -1) for id_ in isr))
        self.proposals += 1
        token = token or 50_000 + self.proposals
        self.feed(AlterPartitionReceived(told.leader, self.live[told.leader].epoch, (proposal,), token))
        return self.replies.get(token)

    def catch_up_all(self, rounds=20):
        """Every live replica of every partition catches up, until nothing moves any more."""
        for _ in range(rounds):
            before = len(self.store.log)
            for name, topic in sorted(self.store.topics.items()):
                for number in sorted(topic.assignments):
                    state = self.state((name, number))
                    if state is None or state.leadership is None or state.leadership.leader not in self.live:
                        continue
                    behind = [
                        id_ for id_ in state.assignment.replicas if id_ in self.live and id_ not in state.leadership.isr
                    ]
                    if behind:
                        self.catch_up((name, number), *behind)
            self.pass_time(100)
            if len(self.store.log) == before:
                return self
        return self

    def check(self):
        """Check the invariants that hold between any two events."""
        state = self.machine.state
        for name, topic in self.store.topics.items():
            for number, assignment in topic.assignments.items():
                tp = TopicPartition(name, number)
                known = self.store.states.get(tp)
                assert len(set(assignment.replicas)) == len(assignment.replicas), tp
                assert set(assignment.adding) <= set(assignment.replicas), tp
                if known is not None:
                    assert known.isr, f"{tp}: empty ISR"
                    assert set(known.isr) <= set(assignment.replicas), (tp, known, assignment)
                    assert known.leader in known.isr or known.leader == -1, (tp, known)
                if self.machine.outstanding is None and state.active and not self.held_batches:
                    mine = state.partition(tp)
                    assert mine is not None
                    assert mine.assignment == assignment, (tp, mine, assignment)
                    if mine.leadership is None or mine.leadership.partition_epoch == known.partition_epoch:
                        assert mine.leadership == known, (tp, mine, known)
        return self
