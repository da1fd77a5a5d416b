"""Phase two: what has to be true once nothing fails any longer, and a sentence for each thing that is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.simulation.brokers.broker import SimulatedBroker
from lab.simulation.brokers.replica import Role
from lab.simulation.process import ShunterProcess
from shunter.core.reassignment import describe_waiting
from shunter.formats.znodes import paths as znodes
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition
from shunter.model.reassignment import Phase

if TYPE_CHECKING:
    from lab.simulation.world import World


def find_unfinished(world: World) -> list[str]:
    """List what is not done yet; empty when the world has converged.

    Invariants: brokers converge to ZooKeeper's truth; a finished move leaves no open record; deletions owed by dead
    brokers are done when the brokers are back. Source: issue; etcd's and Kafka's simulations, "phase two: heal and
    demand completion".
    """
    process = _controller(world)
    if process is None:
        return [f"nobody is the controller ({world.owner_of(world.truth.controller_session)} holds the znode)"]
    told = [
        *_brokers(world),
        *_registrations(world),
        *_moves(world, process),
        *_partitions(world),
        *_controller_state(world, process),
    ]
    return told or world.edges.last_act() or world.garbling.last_act()


def _controller(world: World) -> ShunterProcess | None:
    owner = world.owner_of(world.truth.controller_session)
    return next((each for each in world.processes.values() if each.name == owner and each.active), None)


def _brokers(world: World) -> list[str]:
    return [
        f"broker {broker.id} is not registered, or not in rack {world.rack(broker.id)} yet"
        for broker in world.brokers.values()
        if broker.id not in world.truth.brokers or not broker.accepting or broker.rack != world.rack(broker.id)
    ]


def _registrations(world: World) -> list[str]:
    """Only brokers are registered, and the controller if some broker looks it up in ZooKeeper.

    Source: docs/decisions/0025-ourselves.md.
    """
    registered = world.truth.brokers.keys() - world.brokers.keys()
    asked = [world.looks_controllers_up(broker) for broker in world.brokers]
    wanted = {world.truth.controller} if True in asked or None in asked else set[int]()
    told = [f"{sorted(registered - wanted)} are registered, and nobody looks them up"] if registered - wanted else []
    return [*told, *(f"{broker} is looked up, and is not registered" for broker in wanted - registered)]


def _moves(world: World, process: ShunterProcess) -> list[str]:
    truth = world.truth
    told: list[str] = []
    barred = {tp for tp in truth.records if _barred(world, tp)}
    for tp, record in truth.records.items():
        if tp in barred or (barred and record.phase is Phase.PENDING):
            # A pending move may wait behind one that can't end.
            world.coverage.count("neighbour", "barred by an older log")
            continue
        waiting = process.machine.state.waiting.get(tp)
        why = describe_waiting(waiting[0]) if waiting is not None else "says nothing of waiting"
        told.append(f"{tp} is {record.phase.value} towards {list(record.target)}: {why}")
    if truth.legacy is not None and not barred:
        told.append(f"the legacy znode names {sorted(truth.legacy.targets)}")
    told += [f"{name} has not been taken over" for name in truth.requests]
    for broker, owed in truth.owed.items():
        # The older log's leader epoch may be greater than the present topic's. The deletion is refused until a restart.
        left = [tp for tp, _ in owed.partitions if not _has_an_older_log(world, broker, tp)]
        if left:
            told.append(f"broker {broker} owes {left}")
    told += [f"the deletion queue still names {name}" for name in truth.deleting if not _undeletable(world, name)]
    return told


def _partitions(world: World) -> list[str]:
    truth = world.truth
    told: list[str] = []
    for tp in truth.partitions():
        assignment, state = truth.assignment(tp), truth.states.get(tp)
        if assignment is None or tp.topic in truth.deleting or _barred(world, tp):
            continue
        if assignment.in_motion:
            told.append(f"{tp} is in motion: {assignment}")
        if state is None or state.leader < 0:
            told.append(f"{tp} has no leader: {state}")
        elif set(state.isr) != set(assignment.replicas):
            told.append(f"{tp} has ISR {list(state.isr)} of {list(assignment.replicas)}")
        if not told:
            told += _data(world, tp)
    for broker in world.brokers.values():
        told += _hosted(world, broker)
    return told


def _kept(world: World, tp: TopicPartition) -> bool:
    """Whether a partition's ISR has no broker, only a controller that an Apache controller has elected as leader.

    No broker has the partition's records, and only an operator may declare them lost ("assignment-kept"). Source:
    docs/decisions/0026-owed-replicas.md.
    """
    state = world.truth.states.get(tp)
    return state is not None and bool(world.apache.terms) and world.brokers.keys().isdisjoint(state.isr)


def _on_nobody_known(world: World, replicas: Iterable[BrokerId]) -> bool:
    """Whether some of these replicas are on a former controller whose id ZooKeeper never kept.

    The next controller takes that id for a broker that is down. Source: docs/decisions/0026-owed-replicas.md,
    "Cost".
    """
    unmarked = (each for each in world.unmarked.intersection(replicas) if each != world.truth.controller)
    return any(world.tree.get(znodes.controller_id(each)) is None for each in unmarked)


def _barred(world: World, tp: TopicPartition) -> bool:
    """Whether a partition can never be completed on all its brokers.

    Only a controller's id is in its ISR; or one of its replicas is on a former controller that is not known as one; or
    an older topic's log is in the way.

    An Apache controller that deletes a topic does not know of replicas that Shunter's move has dropped and that wait
    for deletion. A new topic of the same name may be placed on their brokers. Brokers refuse that for ever
    (KAFKA-14616), and StopReplica has no topic id, so no request can delete the one log and not the other.
    """
    assignment = world.truth.assignment(tp)
    if _kept(world, tp) or (assignment is not None and _on_nobody_known(world, assignment.replicas)):
        return True
    return assignment is not None and any(_has_an_older_log(world, broker, tp) for broker in assignment.replicas)


def _undeletable(world: World, name: str) -> bool:
    """Whether a topic's deletion waits for a former controller that is not known as one."""
    topic = world.truth.topics.get(name)
    return topic is not None and any(_on_nobody_known(world, each.replicas) for each in topic.assignments.values())


def _has_an_older_log(world: World, broker: int, tp: TopicPartition) -> bool:
    log = world.brokers[broker].disk.get(tp) if broker in world.brokers else None
    return bool(world.apache.terms) and log is not None and log.topic_id not in (None, world.topic_id(tp.topic))


def _data(world: World, tp: TopicPartition) -> list[str]:
    state, assignment = world.truth.states[tp], world.truth.assignment(tp)
    assert assignment is not None
    leader = world.brokers[state.leader].replicas.get(tp) if state.leader in world.brokers else None
    if leader is None or leader.role is not Role.LEADER or leader.leader_epoch != state.leader_epoch:
        return [f"broker {state.leader} does not lead {tp} yet in epoch {state.leader_epoch}"]
    world.safety.ledgers.leader_began(state.leader, leader)
    mark = leader.log.high_watermark
    return [
        f"broker {broker} has another log of {tp}"
        for broker in assignment.replicas
        if broker not in world.brokers
        or (log := world.brokers[broker].disk.get(tp)) is None
        or log.entries[:mark] != leader.log.entries[:mark]
    ]


def _hosted(world: World, broker: SimulatedBroker) -> list[str]:
    truth = world.truth
    told: list[str] = []
    for tp in truth.partitions():
        assignment, state = truth.assignment(tp), truth.states.get(tp)
        if assignment is None or state is None or tp.topic in truth.deleting or _barred(world, tp):
            continue
        replica = broker.replicas.get(tp)
        have = "nothing" if replica is None else f"leader epoch {replica.leader_epoch}"
        if broker.id in assignment.replicas and have != f"leader epoch {state.leader_epoch}":
            told.append(f"broker {broker.id} has {have} of {tp} where {state.leader_epoch} is the truth")
        known = broker.metadata.get(tp)
        if known is None or (known.leader, known.leader_epoch, set(known.isr)) != (
            state.leader,
            state.leader_epoch,
            set(state.isr),
        ):
            told.append(f"broker {broker.id} believes {known} of {tp} where {state} is the truth")
    if not world.apache.terms:
        for tp in sorted(broker.disk):
            assignment = truth.assignment(tp)
            unwanted = assignment is None or broker.id not in assignment.replicas
            if unwanted and str(tp) not in world.not_owed:
                told.append(f"broker {broker.id} still has a log of {tp}")
    told += _placed(world, broker)
    alive = truth.brokers.keys() | {truth.controller}
    if broker.alive != alive:
        told.append(f"broker {broker.id} believes {sorted(broker.alive)} alive, {sorted(alive)} are")
    return told


def _placed(world: World, broker: SimulatedBroker) -> list[str]:
    """Check what a broker knows of others' ports and racks, and the replication factors of topics that brokers made.

    Source: `KafkaController.onBrokerUpdate`; issue, "a topic never gets fewer replicas than were asked for".
    """
    told = [
        f"broker {broker.id} believes broker {other.id} at port {[each.port for each in known.endpoints]}, not {other.port}"
        for other in world.brokers.values()
        if (known := broker.live.get(other.id)) is not None and [each.port for each in known.endpoints] != [other.port]
    ]
    racks = {number: known.rack for number, known in broker.live.items()}
    real = {number: other.rack for number, other in world.brokers.items()}
    told += [
        f"broker {broker.id} believes broker {number} in rack {racks[number]}, not {real[number]}"
        for number in racks.keys() & real.keys()
        if racks[number] != real[number]
    ]
    if all(real.values()) is not all(racks.values()) or any(real.values()) is not any(racks.values()):
        told.append(f"broker {broker.id} can't place topics: it believes in racks {racks}, and there are {real}")
    for name, topic in world.truth.topics.items():
        asked = None if topic.topic_id is None else world.asked_factors.get(topic.topic_id)
        if asked is None or name in world.truth.deleting:
            continue
        factor, first_ones = asked
        for number, placed in topic.assignments.items():
            if _kept(world, TopicPartition(name, number)) or (topic.topic_id, number) in world.decided_anew:
                continue
            if _on_nobody_known(world, placed.replicas):
                world.coverage.count("neighbour", "on a controller that nobody knows")
                continue
            if number >= first_ones and (topic.topic_id, 0) in world.decided_anew:
                continue  # A topic grows with as many replicas as its first partition has.
            if len(placed.replicas) != factor or not set(placed.replicas) <= set(world.brokers):
                told.append(f"{name}-{number} is on {list(placed.replicas)}, {factor} brokers were asked for")
    return told


def _who_leads(state: LeaderAndIsr | None) -> tuple[object, ...] | None:
    return None if state is None else state[:3]


def _controller_state(world: World, process: ShunterProcess) -> list[str]:
    truth, machine = world.truth, process.machine
    told: list[str] = []
    if set(machine.state.topics) != set(truth.topics):
        told.append(f"the controller knows topics {sorted(machine.state.topics)}, there are {sorted(truth.topics)}")
    for tp in truth.partitions():
        known, state = machine.state.partition(tp), truth.states.get(tp)
        if known is None or known.assignment != truth.assignment(tp):
            told.append(f"the controller believes {known} of {tp}, the truth is {truth.assignment(tp)}")
        elif _who_leads(known.leadership) != _who_leads(state):
            # `_partitions` checks that each partition has a state, and knows which partitions can't have one.
            told.append(f"the controller believes {known.leadership} of {tp}, the truth is {state}")
    if dict(machine.state.reassignments) != truth.records:
        told.append("the controller's moves are not those of ZooKeeper")
    if machine.outbox.unanswered:
        told.append(f"brokers {sorted(machine.outbox.unanswered)} have not answered")
    if machine.intake.queue.pending() or machine.outstanding is not None:
        told.append(f"{machine.intake.queue.pending()} items wait in the controller")
    if process.control.callers:
        told.append(f"{len(process.control.callers)} callers have no answer")
    return [*told, *_remembered(process)]


def _remembered(process: ShunterProcess) -> list[str]:
    """Memory stays bounded: nothing is kept about partitions and moves that are gone. Source: issue; TIGER_STYLE."""
    intake, state, outbox = process.machine.intake, process.machine.state, process.machine.outbox
    kept: dict[str, Iterable[TopicPartition]] = {
        "waiting": (tp for tp in state.waiting if tp not in state.reassignments),
        "undeleted": (tp for tp in intake.moves.undeleted if tp not in state.reassignments),
        "refused": (tp for _, tp in intake.moves.refused),
        "offline": (tp for tp in state.offline_replicas if state.partition(tp) is None),
        "unreadable": (tp for tp in state.unreadable if state.partition(tp) is None),
        "metadata": outbox.pending_metadata | outbox.returned,
        "roles": (
            TopicPartition(t.name, n) for topics in outbox.roles.values() for t in topics for n, _ in t.partitions
        ),
        "deletions": (tp for partitions in outbox.deletions.values() for tp in partitions),
    }
    told = [
        f"the controller still remembers as {what} {stale}" for what, each in kept.items() if (stale := sorted(each))
    ]
    deleting = sorted({*intake.deletions.remaining, *state.deleting})
    if deleting:
        told.append(f"the controller is still deleting {deleting}")
    replies = intake.topic_replies
    if replies.unled or replies.unannounced or replies.announced:
        told.append(f"answers about topics are still held back: {replies.unled or replies.announced}")
    return told
