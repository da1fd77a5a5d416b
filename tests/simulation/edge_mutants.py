"""Deliberate bugs at the controller's edge, most of which it once had: each must be found within its number of worlds.

They are hunted in the worlds that have edges, one of seven (`simulation.actions.EDGE_WEIGHTS`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants import Mutant, mutant

from lab.simulation.actions import ASIDE, ASIDE_OF, ASIDE_WEIGHTS
from lab.simulation.brokers import channels
from lab.simulation.shape import NEWEST_ALTER_PARTITION
from shunter.core.controller.brokers import broker_requests, elections, liveness, ourselves
from shunter.core.controller.brokers.answers import Answers
from shunter.core.controller.brokers.broker_requests import BrokerRequests
from shunter.core.controller.brokers.liveness import Liveness
from shunter.core.controller.brokers.ourselves import live_brokers
from shunter.core.controller.moves import owed_replicas, znode_protocols
from shunter.core.controller.moves import reassignments as moves
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import SendLeaderAndIsr
from shunter.core.controller.state import ControllerState
from shunter.core.controller.topics import changes as topics
from shunter.drivers.election.election import Election
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.listener.handlers import brokers, reassignments
from shunter.drivers.zookeeper import client as zookeeper
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.drivers.zookeeper.requests import Remove
from shunter.errors import ErrorCode, RequestRejected
from shunter.formats.znodes import paths as znodes

EDGE_MUTANTS: list[Mutant] = []
GARBLED_FIRST = next(number for number, weights in ASIDE.items() if weights is ASIDE_WEIGHTS)
edge_mutant: Callable[..., Callable[..., Any]] = partial(mutant, every=ASIDE_OF, into=EDGE_MUTANTS)


def _announced(requests, keep):
    return [replace(each, new=keep(each.new)) if isinstance(each, SendLeaderAndIsr) else each for each in requests]


@edge_mutant(Outbox, "leader_and_isr", within=20)
def first_replicas_are_not_new(original, self, changes, now_ms):
    """The bug that was found: a new topic's replicas are announced as if they had been there before."""
    return _announced(original(self, changes, now_ms), lambda new: new - changes.first)


@edge_mutant(Outbox, "leader_and_isr", within=20)
def added_replicas_are_not_new(original, self, changes, now_ms):
    """A move's additions are announced as if they had been there before."""
    return _announced(original(self, changes, now_ms), lambda new: new & changes.first)


@edge_mutant(Liveness, "on_brokers_read", within=20)
def moved_endpoints_are_not_told(original, self, brokers, now_ms):
    """The bug that was found: brokers are not told that a live broker has another address."""
    live = live_brokers(self.state, brokers)
    if {each.id: each.epoch for each in live.values()} == {each.id: each.epoch for each in self.state.brokers.values()}:
        self.state.brokers = live
        return iter(())
    return original(self, brokers, now_ms)


# ---- requests of clients and tools


@edge_mutant(reassignments, "_changes", within=20)
def empty_lists_cancel(original, topic, request):
    """The bug that was found: an empty list of replicas is taken for null."""
    return (replace(change, replicas=change.replicas or None) for change in original(topic, request))


@edge_mutant(moves, "validate_target", within=60)
def everybody_in_a_target_has_to_live(original, replicas, known, **named):
    """The bug that was found: a target with a dead broker is refused, even if that broker has a replica already."""
    return original(replicas, known, **{**named, "had": ()})


@edge_mutant(znode_protocols, "original_replicas", within=40)
def tools_are_believed(original, standing, given):
    """The bug that was found: `original_replicas` of a tool's znode is the original, whatever the assignment is."""
    return given or original(standing, given)


# ---- ZooKeeper that refuses


@edge_mutant(Election, "_pause", within=100)
def refused_elections_do_not_wait(original, self, why):
    """The bug that was found: an election that is refused is tried again at once."""


@edge_mutant(ControllerSeat, "give_back", within=100)
def the_seat_is_kept(original, self, controller_epoch, reason):
    """The bug that was found: a controller that can't read the cluster keeps `/controller` for ever, without acting."""


@edge_mutant(Election, "_deregister", within=200)
async def a_standby_stays_registered(original, self, registration):
    """The bug that was found here: a standby whose registration could not be removed does not try again."""
    await original(self, registration)
    return True


# ---- leaders


@edge_mutant(brokers, "_altered", within=100)
def old_leaders_are_told_what_they_do_not_know(original, topic, name, results, unknown, version):
    """The bug that was found: leaders before 3.3 get an error that they don't know."""
    return original(topic, name, results, unknown, NEWEST_ALTER_PARTITION)


@edge_mutant(BrokerRequests, "_another", within=40)
def any_broker_epoch_passes(original, self, broker, epoch):
    """The bug that was found: no broker epoch, or a newer one than is registered, passes."""
    known = self.state.brokers.get(broker)
    return known is None or 0 <= epoch < known.epoch


@edge_mutant(broker_requests, "decide_isr", within=40)
def newer_states_pass(original, draft, sender, proposal):
    """The bug that was found here: a leader that knows a newer state than Shunter is answered from Shunter's state."""
    known = draft.partition(proposal.tp)
    if known is not None and known.leadership is not None:
        newest = known.leadership.partition_epoch
        proposal = replace(proposal, partition_epoch=min(proposal.partition_epoch, newest))
    return original(draft, sender, proposal)


# ---- brokers that refuse, and connections that silently lose everything


@edge_mutant(Answers, "_refused", within=100)
def errors_in_answers_vanish(original, self, event, partitions, error, now_ms):
    """The bug that was found: a control request that a broker refused is not sent again."""
    return []


@edge_mutant(channels.Channel, "_time", within=60)
def requests_have_no_time_limit(original, self, up):
    """The bug that was found: Shunter waits for ever for an answer on a connection that a firewall has forgotten."""


# ---- topic configurations


@edge_mutant(topics, "check_topic_configs", within=20)
def any_configuration_is_taken(original, *arguments, **named):
    """The bug that was found: a topic gets a configuration that no broker can start with."""


# ---- the controller among the brokers


EDGE_MUTANTS.append(
    Mutant(
        "controllers_keep_their_place",
        40,
        # A replica that a broker placed on the controller stays there. It is replaced before the first election and
        # after.
        (
            (elections, "without_controllers", lambda draft, tp, replicas: replicas),
            (owed_replicas, "replace_controllers", lambda draft, tp: None),
        ),
        every=ASIDE_OF,
    )
)


@edge_mutant(owed_replicas, "replace_controllers", within=100)
def led_partitions_keep_a_controller(original, draft, tp):
    """The bug that was found here: so does a replica of a partition for which Apache's controller elected a leader."""


@edge_mutant(owed_replicas, "place_owed", within=100)
def owed_replicas_are_never_placed(original, draft, tp):
    """A partition that began with fewer replicas than were asked for never gets the others."""


EDGE_MUTANTS.append(
    Mutant(
        "other_controllers_are_brokers",
        100,
        # The bug that was found here: a replica that was placed on a former controller waits for it for ever.
        ((ControllerState, "controllers", property(lambda self: frozenset((self.controller_id,)))),),
        every=ASIDE_OF,
    )
)


@edge_mutant(liveness, "live_brokers", within=100)
def we_stay_in_our_first_rack(original, state, read):
    """Shunter's own rack stays the same when brokers get or lose racks during its term."""
    live, us = original(state, read), state.brokers.get(state.controller_id)
    if us is not None and us.id in live:
        live[us.id] = live[us.id]._replace(rack=us.rack)
    return live


@edge_mutant(ourselves, "_registration_wanted", within=20)
def registered_for_good(original, state):
    """Shunter stays registered in ZooKeeper although no broker looks it up."""
    return original(state) or None


@edge_mutant(ourselves, "_registration_wanted", within=40)
def old_brokers_do_not_find_us(original, state):
    """Shunter removes its registration although a broker looks it up."""
    return False


# ---- Apache's refusals


@edge_mutant(topics, "_check_new_assignments", within=100)
def growth_may_be_uneven(original, asked, have, wanted, factor, known):
    """The bug that was found: CreatePartitions accepts another replication factor than the topic's."""
    return original(asked, have, wanted, len(asked[0]) if asked else factor, known)


@edge_mutant(topics, "_check_assignments", within=100)
def all_brokers_of_a_new_topic_have_to_live(original, state, asked):
    """The bug that was found: CreateTopics refuses an assignment that names a broker which is down."""
    if not state.brokers.keys() >= {broker for replicas in asked.values() for broker in replicas}:
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a broker is down")
    return original(state, asked)


EDGE_MUTANTS.append(
    # The bug that was found: clients may create KRaft's metadata topic.
    Mutant("the_metadata_topic_can_be_made", 100, ((topics, "CLUSTER_METADATA_TOPIC", ""),), every=ASIDE_OF)
)


# ---- throttled requests, and unreadable znodes

EDGE_MUTANTS.append(
    # A request that an overloaded server refused is sent again at once, which adds to its load.
    Mutant("throttled_reads_do_not_wait", 40, ((zookeeper, "_THROTTLED_SECONDS", 0.0),), every=ASIDE_OF)
)


@edge_mutant(ClusterReader, "_owed_replicas", within=120, first=GARBLED_FIRST)
async def unreadable_debts_are_rubbish(original, self, unreadable):
    """An unreadable znode of owed replicas is removed, as Apache's controller removes unreadable znodes."""
    owed, broken = await original(self, unreadable)
    for name in broken:
        await self._client.multi((Remove(znodes.owed_replicas(name)),))
    return owed, frozenset()
