"""KIP-236, second protocol: request znodes, durable reassignments, the bridge. Each test quotes what it holds."""

import json

import pytest
from harness import Harness

from shunter.core.controller.events import LegacyReassignmentsFound
from shunter.core.controller.ready import SendStopReplica
from shunter.drivers.zookeeper.watches import ClusterWatches
from shunter.formats.znodes.requests import decode_request, encode_request
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Phase, Strategy
from shunter.model.records import CreateReassignmentRequest, DeleteReassignmentRequest, PutReassignment
from shunter.model.snapshot import LegacyReassignments

TP = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)


def yard(**settings):
    settings.setdefault("strategy", Strategy.ALL_AT_ONCE)
    return Harness(brokers=(1, 2, 3, 4, 5, 6), **settings).start(t=[(1, 2, 3), (2, 1, 3)])


@pytest.fixture
def world():
    return yard()


def written(world, kind):
    return [record for records in world.store.log for record in records if isinstance(record, kind)]


# ---- legacy


def test_the_legacy_znode_is_bridged_into_a_request(world):
    """'Controller creates /admin/reassignment_requests/request_xxx (for xxx the znode sequence number)'"""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    assert written(world, CreateReassignmentRequest) == [
        CreateReassignmentRequest(((TP, (4, 5, 6)), (SECOND, (4, 5, 6))), legacy=True)
    ]
    assert written(world, DeleteReassignmentRequest)
    assert all(move.legacy for move in world.store.reassignments.values())


def test_the_json_of_a_bridged_request():
    """'{ "version":1, "assignments":{ "my-topic": {"0":[1,2,3]} "your-topic": {"3":[4,5,6]} } "legacy":true }'"""
    targets = ((TopicPartition("my-topic", 0), (1, 2, 3)), (TopicPartition("your-topic", 3), (4, 5, 6)))
    data = encode_request(targets, legacy=True)
    assert json.loads(data) == {
        "version": 1,
        "assignments": {"my-topic": {"0": [1, 2, 3]}, "your-topic": {"3": [4, 5, 6]}},
        "legacy": True,
    }
    found = decode_request("request_0000000007", data, czxid=9)
    assert (found.targets, found.legacy, found.czxid) == (dict(targets), True, 9)


# ---- the new protocol


def test_a_request_initiates_makes_the_record_and_is_deleted(world):
    """'It will initiate the reassignment, create a znode /admin/reassignments/$topic/$partition and then delete …'"""
    world.write_request({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    assert set(world.store.reassignments) == {TP, SECOND}
    assert not any(move.legacy for move in world.store.reassignments.values())
    assert not world.store.requests
    order = [type(record) for records in world.store.log for record in records]
    assert order.index(DeleteReassignmentRequest) > order.index(PutReassignment)


def test_more_requests_for_the_same_partition_re_initiate_it(world):
    """'A client can subsequently create more requests involving the same partitions … re-initiate reassignment'"""
    world.write_request({TP: (4, 5, 6)})
    world.write_request({TP: (4, 5, 1)})
    assert world.store.reassignments[TP].target == (4, 5, 1)
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 1)


def test_a_request_for_the_old_replicas_cancels(world):
    """'it is possible to "cancel" the reassignment of a single partition by changing the reassignment to the old'"""
    world.write_request({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.write_request({TP: (1, 2, 3)})
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2, 3)
    assert not world.store.reassignments


def test_the_record_goes_when_all_new_replicas_are_in_sync(world):
    """'When the ISR includes all the newly assigned replicas …, the controller would remove the relevant child'"""
    world.write_request({TP: (4, 5, 6)})
    world.catch_up(TP, 4, 5)
    assert TP in world.store.reassignments
    world.catch_up(TP, 6)
    assert TP not in world.store.reassignments


def test_records_correspond_precisely_to_what_is_being_reassigned(world):
    """'the child nodes of /admin/reassignments are correspond precisely to the replicas currently being reassigned'"""
    world.write_request({TP: (4, 5, 6)})
    world.reassign({SECOND: (4, 5, 6)})
    assert set(world.store.reassignments) == {TP, SECOND}
    world.catch_up(TP, 4, 5, 6)
    assert set(world.store.reassignments) == {SECOND}


def test_the_czxid_identifies_a_reassignment_over_all_its_steps():
    """'the ZooKeeper czxid of a child node of /admin/reassignments identifies a reassignment uniquely'"""
    world = yard(strategy=Strategy.INCREMENTAL)
    world.write_request({TP: (4, 5, 6)})
    identity = world.store.reassignments[TP].czxid
    assert identity > 0
    world.catch_up(TP, 4)
    world.catch_up(TP, 5)
    assert world.store.reassignments[TP].czxid == identity
    world.catch_up_all()
    assert TP not in world.store.reassignments
    world.write_request({TP: (1, 2, 3)})
    assert world.store.reassignments[TP].czxid > identity


def test_a_change_in_flight_is_told_from_a_step():
    """'or (by comparing the czxid with the mzxid) has been changed': the record counts changes (decision 0110)."""
    world = yard(strategy=Strategy.INCREMENTAL)
    world.write_request({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    assert world.store.reassignments[TP].changes == 0
    world.write_request({TP: (4, 5, 1)})
    assert world.store.reassignments[TP].changes == 1
    world.write_request({TP: (4, 5, 1)})
    assert world.store.reassignments[TP].changes == 1


def test_a_legacy_and_a_non_legacy_request_for_one_partition(world):
    """'If it does, and one is a legacy request and the other is not, then it logs a warning that … being ignored.'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_request({TP: (1, 2, 4)})
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert [notice.about for notice in world.told("request-ignored")] == ["t-0"]
    assert not world.store.requests


def test_a_non_legacy_move_and_a_legacy_entry(world):
    """'The check in 3.b.i prevents the same partition being reassigned via different routes.'"""
    world.write_request({TP: (4, 5, 6)})
    world.write_legacy({TP: (1, 2, 4), SECOND: (4, 5, 6)})
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert [notice.about for notice in world.told("legacy-ignored")] == ["t-0"]
    assert set(world.store.legacy.targets) == {SECOND}


def test_a_legacy_request_may_change_a_legacy_move(world):
    """'only if the context being added has the same legacy flag as any current context for the partition'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_request({TP: (4, 5, 1)}, legacy=True)
    assert world.store.reassignments[TP].target == (4, 5, 1)


def test_an_api_request_takes_a_legacy_move_over(world):
    """Design: 'an API request removes its partitions from l when it is accepted (as Apache does)'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.reassign({TP: (1, 2, 4)})
    assert world.result(1) == {TP: "NONE"}
    assert world.store.legacy is None
    assert not world.store.reassignments[TP].legacy


def test_top_is_stored_in_the_record(world):
    """'we compute the value top = len(original_assignment)'; 'Otherwise we store this in the … znode.'"""
    world.write_request({TP: (4, 5)})
    assert world.store.reassignments[TP].top == 3


def test_a_top_below_min_insync_replicas_is_warned_of_and_ignored():
    """'We check top >= min.insync.replicas, logging a warning and ignore the reassignment if the check fails.'"""
    world = yard()
    world.create("u", [(1,)], **{"min.insync.replicas": "2"})
    world.write_request({("u", 0): (2, 3)})
    assert ("u", 0) not in world.store.reassignments
    assert "min.insync.replicas 2" in world.told("request-ignored")[0].text
    assert not world.store.requests


def test_a_changed_reassignment_lets_go_of_intermediate_replicas_at_once():
    """'an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4] … broker 3 will remain'"""
    world = Harness(brokers=(1, 2, 3, 4), strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2)])
    world.write_request({TP: (2, 3)})
    assert 3 in world.replicas(TP)
    world.write_request({TP: (2, 4)})
    assert 3 not in world.replicas(TP)
    assert (3, TP) in world.deleted


def test_an_intermediate_replica_that_became_the_leader_goes_too():
    """'More complex scenarios exist where such "intermediate replicas" become the leader.'"""
    world = Harness(brokers=(1, 2, 3, 4), strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2)])
    world.write_request({TP: (3, 4)})
    world.catch_up(TP, 3)
    for id_ in (1, 2):
        world.kill(id_)
    assert world.leadership(TP).leader == 3
    for id_ in (1, 2):
        world.revive(id_)
    world.write_request({TP: (2, 4)})
    assert world.leadership(TP).leader == 3  # the only one in sync: KAFKA-14808
    world.catch_up_all()
    assert world.replicas(TP) == (2, 4)
    assert world.leadership(TP).leader in (2, 4)
    assert not world.store.reassignments
    world.check()


def test_a_dropped_replicas_transitions():
    """'Make the transitions in the RSM: -> Offline -> ReplicaDeletionStarted -> ReplicaDeletionSuccessful -> Non…'"""
    world = yard()
    world.write_request({TP: (4, 5, 6)})
    world.silent = {6}
    sent = len(world.sent)
    world.write_request({TP: (4, 5, 1)})
    assert 6 not in world.leadership(TP).isr  # Offline: out of the ISR
    assert 6 not in world.replicas(TP)  # 'Update the assigned replicas in memory and in ZK'
    stops = [r for r in world.sent[sent:] if isinstance(r, SendStopReplica) and r.broker == 6]
    assert stops[0].partitions[0].delete  # ReplicaDeletionStarted
    assert world.machine.intake.moves.undeleted == {TP: {6}}
    world.answer_all()  # ReplicaDeletionSuccessful
    assert world.machine.intake.moves.undeleted == {}  # NonExistentReplica
    assert TP not in world.hosted[6]


# ---- catch-up


def test_catching_up_by_the_legacy_path(world):
    """'if this is the last partition being reassigned …, then /admin/reassign_partitions is deleted.'"""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.catch_up(TP, 4, 5, 6)
    assert set(world.store.legacy.targets) == {SECOND}
    world.catch_up(SECOND, 4, 5, 6)
    assert world.store.legacy is None
    assert not world.store.reassignments  # 'The controller removes /admin/reassignments/$topic/$partition'


# ---- failover


def without_controller(world, change):
    """Something is written while there is no active controller."""
    change(world.store)
    world.fail_over()


def test_failover_case_1_a_legacy_znode_written_meanwhile(world):
    """'Creation of /admin/reassign_partitions while there was no active controller'"""

    def change(store):
        store.czxid += 1
        store.legacy = LegacyReassignments({TP: (4, 5, 6)}, {}, 0, store.czxid)

    without_controller(world, change)
    assert world.store.reassignments[TP].legacy
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert world.store.legacy is None


def test_failover_case_2_requests_written_meanwhile(world):
    """'Creation of childen of /admin/reassignment_requests while there was no active controller'"""
    without_controller(world, lambda store: store.request({TP: (4, 5, 6)}))
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert not world.store.requests


def test_failover_case_3_reassignments_in_flight(world):
    """'Restarting reassignment of all the in-flight reassignments in /admin/reassignments'"""
    world.write_request({TP: (4, 5, 6)})
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert not world.store.reassignments


def test_at_failover_requests_come_before_the_legacy_znode(world):
    """'Add ReassignedPartitionsContexts for each child of /admin/reassignment_requests', then for the legacy znode."""

    def change(store):
        store.czxid += 1
        store.legacy = LegacyReassignments({TP: (1, 2, 4), SECOND: (4, 5, 6)}, {}, 0, store.czxid)
        store.request({TP: (4, 5, 6)})

    without_controller(world, change)
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert not world.store.reassignments[TP].legacy
    assert world.store.reassignments[SECOND].legacy
    assert set(world.store.legacy.targets) == {SECOND}


def test_at_failover_a_request_does_not_change_a_legacy_move(world):
    """'but only if the context being added has the same legacy flag as any current context for the partition'"""
    world.write_legacy({TP: (4, 5, 6)})
    without_controller(world, lambda store: store.request({TP: (1, 2, 4)}))
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert world.told("request-ignored")


def test_at_failover_a_legacy_entry_does_not_change_a_requested_move(world):
    """'Add ReassignedPartitionsContexts for partition in /admin/reassign_partitions, but only if … same legacy flag'"""
    world.write_request({TP: (4, 5, 6)})

    def change(store):
        store.czxid += 1
        store.legacy = LegacyReassignments({TP: (1, 2, 4)}, {}, 0, store.czxid)

    without_controller(world, change)
    assert world.store.reassignments[TP].target == (4, 5, 6)
    assert world.store.legacy is None


def test_a_failover_between_the_bridge_and_the_move_starts_it_once(world):
    """Decision 0110: legacy znode and bridged request name the same move; taking both changes nothing."""
    world.hold_writes = True
    world.write_legacy({TP: (4, 5, 6)})
    batch = world.held_batches.pop(0)
    assert any(isinstance(record, CreateReassignmentRequest) for record in batch.records)
    world.store.write(batch)
    world.fail_over()
    assert world.store.reassignments[TP].changes == 0
    assert not world.store.requests
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert world.store.legacy is None


def test_one_watch_serves_all_requests():
    """'that required a ZK watch per reassignment, which would not scale well. This proposal requires only 1 more'"""
    watches = ClusterWatches(_Listened(), None, None, lambda _: None, lambda: None)
    concerns = [path for path in watches._concerns if path.startswith("/admin/reassignment")]
    assert concerns == ["/admin/reassignment_requests"]


@pytest.mark.parametrize("way", ["rpc", "legacy", "extra"])
def test_a_partition_with_fewer_originals_than_min_insync_replicas_may_grow(way):
    """'We check top >= min.insync.replicas': of request znodes alone, because growth mends the partition (0106)."""
    world = Harness(brokers=(1, 2, 3), default_min_isr=2).start(t=[(1,)])
    {"rpc": world.reassign, "legacy": world.write_legacy, "extra": world.write_extra}[way]({TP: (1, 2, 3)})
    assert world.store.reassignments[TP].top == 1
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2, 3)


class _Listened:
    """The part of a client that watches need to be made."""

    def listen(self, *, watches):
        self.watches = watches


def test_compatibility_with_the_legacy_znode_is_maintained(world):
    """'compatibility with /admin/reassign_partitions is maintained, so existing software will continue working'"""
    world.store.legacy = LegacyReassignments({TP: (4, 5, 6)}, {}, 0)
    world.feed(LegacyReassignmentsFound(world.store.legacy))
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert world.store.legacy is None


def test_a_request_that_names_nobodys_partition_is_told_and_deleted(world):
    """Decision 0110: no request stays for ever, whatever it names."""
    world.write_request({("nowhere", 3): (4, 5)})
    assert world.told("request-refused")
    assert not world.store.requests


def test_a_request_in_slices_is_deleted_after_its_last_partition():
    """'The controller deletes /admin/reassignment_requests/request_xxx': once all of it is durable."""
    world = Harness(brokers=(1, 2, 3, 4, 5, 6), slice_partitions=2).start()
    world.create("t", [(1, 2, 3)] * 7)
    world.write_request({("t", n): (4, 5, 6) for n in range(7)})
    assert len(world.store.reassignments) == 7
    assert not world.store.requests
    batches = [
        index for index, records in enumerate(world.store.log) if any(isinstance(r, PutReassignment) for r in records)
    ]
    deleted = [
        i for i, records in enumerate(world.store.log) if any(isinstance(r, DeleteReassignmentRequest) for r in records)
    ]
    assert len(batches) > 2
    assert deleted[0] >= batches[-1]


def test_phases_are_part_of_the_record(world):
    """The record has the move's phase, so that the next controller goes on in it."""
    world.write_request({TP: (4, 5, 6)})
    assert world.store.reassignments[TP].phase is Phase.MOVING
