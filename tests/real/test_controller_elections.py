"""Tasks that only a controller can do: controlled shutdowns, elections on request, producer ids."""

import itertools
import json

from raw_connection import RawConnection

from lab.testbed.tools import LEADER_ELECTION
from lab.testbed.waiting import wait_until
from shunter.wire.requests import ALLOCATE_PRODUCER_IDS

INIT_PRODUCER_ID = 22
COORDINATOR_LOAD_IN_PROGRESS = 14
"""A broker answers with this error while it waits for its first block."""


def state(zk, tp):
    return json.loads(zk.get(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state")[0])


def elect(yard, kind, tp):
    where = ("--topic", tp.topic, "--partition", str(tp.partition))
    tool = yard.cluster.kafka_tool(
        LEADER_ELECTION, "--bootstrap-server", yard.bootstrap, "--election-type", kind, *where
    )
    return tool.stdout + tool.stderr


def test_a_broker_that_is_stopped_is_relieved_before_it_ends(yard, topic, zk):
    """SIGTERM: a controlled shutdown, granted once other brokers lead. Then Apache's tool gives leadership back."""
    partitions = yard.create(topic, (1, 2, 3))
    assert {state(zk, tp)["leader"] for tp in partitions} == {1}
    broker = yard.cluster.brokers[1]
    with yard.traffic(partitions) as traffic:
        broker.stop(timeout_s=40)
        try:
            left = [state(zk, tp) for tp in partitions]
            log = broker.log_tail(400)
        finally:
            broker.start()
        assert "Controlled shutdown request returned successfully" in log
        assert [(each["leader"], each["isr"]) for each in left] == [(2, [2, 3])] * 4
        wait_until(lambda: all(1 in state(zk, tp)["isr"] for tp in partitions), what="it is in sync", timeout_s=40)
        assert {state(zk, tp)["leader"] for tp in partitions} == {2}
        told = elect(yard, "PREFERRED", partitions[0])
        assert f"Successfully completed leader election (PREFERRED) for partitions {partitions[0]}" in told
        assert state(zk, partitions[0])["leader"] == 1
        told = elect(yard, "PREFERRED", partitions[0])
        assert f"Valid replica already elected for partitions {partitions[0]}" in told
        assert state(zk, partitions[1])["leader"] == 2
        assert "Error completing leader election" in elect(yard, "PREFERRED", partitions[0]._replace(partition=9))
    assert traffic.longest_gap_s < 15


def test_an_unclean_election_needs_the_operators_word(yard, topic, zk):
    """3 alone is in sync and dies: 4 does not lead before an operator asks for it."""
    (tp,) = yard.create(topic, (3, 4), partitions=1)
    third, fourth = yard.cluster.brokers[3], yard.cluster.brokers[4]
    try:
        fourth.kill()
        wait_until(lambda: state(zk, tp)["isr"] == [3], what="4 has left the ISR", timeout_s=30)
        third.kill()
        wait_until(lambda: state(zk, tp)["leader"] == -1, what="nobody leads", timeout_s=30)
        assert state(zk, tp)["isr"] == [3], "the last in sync stays, dead or not"
        fourth.start()
        yard.cluster.wait_for_metadata()
        assert state(zk, tp)["leader"] == -1
        refused = elect(yard, "PREFERRED", tp)
        assert "Error completing leader election (PREFERRED)" in refused
        told = elect(yard, "UNCLEAN", tp)
        assert f"Successfully completed leader election (UNCLEAN) for partitions {tp}" in told
        assert (state(zk, tp)["leader"], state(zk, tp)["isr"]) == (4, [4])
    finally:
        for broker in (third, fourth):
            if not broker.alive:
                broker.start()
    wait_until(lambda: sorted(state(zk, tp)["isr"]) == [3, 4], what="3 follows 4", timeout_s=40)


def producer_ids(port, count):
    """The ids that a broker gives to new producers. It may have to ask the controller for a block first."""
    given = []
    asked = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    with RawConnection(port) as connection:

        def one_more():
            answer = connection.ask(INIT_PRODUCER_ID, 4, asked)
            assert int(answer.error_code) in {0, COORDINATOR_LOAD_IN_PROGRESS}
            given.extend([answer.producer_id] if not answer.error_code else [])
            return len(given) >= count

        for _ in range(count):
            one_more()
        wait_until(one_more, what=f"the broker at {port} gives {count} ids", timeout_s=20)
    return given


def block(yard, zk, broker):
    """A block that the controller gives to a broker, as (first, last)."""
    epoch = zk.exists(f"/brokers/ids/{broker}").czxid
    with RawConnection(yard.controller.port) as connection:
        answer = connection.ask(ALLOCATE_PRODUCER_IDS, 0, {"broker_id": broker, "broker_epoch": epoch})
    assert int(answer.error_code) == 0, answer
    return answer.producer_id_start, answer.producer_id_start + answer.producer_id_len - 1


def test_producer_ids_are_never_given_twice(yard, zk):
    """Across blocks, brokers, and a kill of the controller."""
    ports = {id_: broker.port for id_, broker in yard.cluster.brokers.items()}
    given = [id_ for port in ports.values() for id_ in producer_ids(port, 20)]
    blocks = [block(yard, zk, 1), block(yard, zk, 2)]
    yard.controller.kill()
    yard.controller.start()
    wait_until(lambda: yard.moving() is not None, what="the controller answers again", timeout_s=30)
    blocks += [block(yard, zk, 1), block(yard, zk, 3)]
    given += producer_ids(ports[1], 1_100)
    given += [id_ for port in ports.values() for id_ in producer_ids(port, 20)]
    assert len(set(given)) == len(given)
    assert not [id_ for id_ in given for first, last in blocks if first <= id_ <= last]
    for (_, last), (first, _) in itertools.pairwise(blocks):
        assert last < first
    claimed = json.loads(zk.get("/latest_producer_id_block")[0])
    assert int(claimed["block_end"]) >= max(*given, blocks[-1][1])


def test_a_stale_broker_gets_no_producer_ids(yard, zk):
    epoch = zk.exists("/brokers/ids/2").czxid
    with RawConnection(yard.controller.port) as connection:
        old = connection.ask(ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 2, "broker_epoch": epoch - 1})
        unknown = connection.ask(ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 77, "broker_epoch": epoch})
        newer = connection.ask(ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 2, "broker_epoch": epoch + 1})
    assert int(old.error_code) == int(newer.error_code) == 77
    assert int(unknown.error_code) == 102
