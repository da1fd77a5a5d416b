"""Every control request has the same bytes as kio's encoding, in every version."""

from functools import partial
from typing import Any

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import InvariantViolation
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.wire.control import (
    leader_and_isr_body,
    live_brokers_fragment,
    stop_replica_bodies,
    stop_replica_body,
    update_metadata_parts,
)
from shunter.wire.fragments import FragmentCache

heads = st.fixed_dictionaries(
    {"controller_id": peer.int32s, "controller_epoch": peer.int32s, "broker_epoch": peer.int64s}
)
HEAD: dict[str, Any] = {"controller_id": 7, "controller_epoch": 3, "broker_epoch": 4_294_967_400}
ONE = PartitionState(ReplicaAssignment((0, 1, 2)), LeaderAndIsr(0, 5, (0, 1, 2), 4, 3))


@pytest.mark.parametrize("version", [5, 6, 7, 8])
@peer.FEW
@given(data=st.data(), head=heads, topics=peer.topic_lists, live=peer.broker_lists)
def test_update_metadata_is_kios(version: int, data: Any, head: Any, topics: Any, live: Any) -> None:
    places = [TopicPartition(topic.name, number) for topic in topics for number, _ in topic.partitions]
    offline = data.draw(st.dictionaries(st.sampled_from(places), peer.replica_lists) if places else st.just({}))
    expected = peer.written(peer.update_metadata(version, topics, live, offline, **head))
    fragment = live_brokers_fragment(version, live)
    for cache in (None, FragmentCache()):
        asked = {"topics": topics, "live": fragment, "offline": offline, "cache": cache}
        assert b"".join(update_metadata_parts(version, **head, **asked)) == expected


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
@peer.FEW
@given(data=st.data(), head=heads, topics=peer.topic_lists, leaders=peer.broker_lists, full=st.booleans())
def test_leader_and_isr_is_kios(version: int, data: Any, head: Any, topics: Any, leaders: Any, full: bool) -> None:
    places = [TopicPartition(topic.name, number) for topic in topics for number, _ in topic.partitions]
    new = frozenset(data.draw(st.sets(st.sampled_from(places)) if places else st.just(set())))
    listeners = sorted({endpoint.listener for broker in leaders for endpoint in broker.endpoints}) or ["INTERNAL"]
    listener = data.draw(st.sampled_from(listeners))
    type_ = 2 if full else 1
    expected = peer.written(peer.leader_and_isr(version, topics, leaders, listener, new, **head, type_=type_))
    for cache in (None, FragmentCache()):
        asked = {"listener": listener, "topics": topics, "new": new, "full": full, "cache": cache}
        assert leader_and_isr_body(version, **head, leaders=leaders, **asked) == expected


stopped = st.builds(
    peer.Stopped,
    st.builds(TopicPartition, peer.names, st.integers(0, 9_999)),
    st.sampled_from([-2, -1, 0, 7]),
    st.booleans(),
)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@peer.PATIENT
@given(head=heads, partitions=st.lists(stopped, max_size=8))
def test_stop_replica_is_kios(version: int, head: Any, partitions: Any) -> None:
    groups = [partitions]
    if version < 3:
        kinds = ([one for one in partitions if one.delete], [one for one in partitions if not one.delete])
        groups = [kind for kind in kinds if kind]
    expected = tuple(peer.written(peer.stop_replica(version, group, **head)) for group in groups)
    assert stop_replica_bodies(version, **head, partitions=partitions) == expected


def test_stop_replica_below_3_refuses_two_kinds_in_one_body() -> None:
    some = [peer.Stopped(TopicPartition("t", 0), 1, True), peer.Stopped(TopicPartition("t", 1), 1, False)]
    with pytest.raises(InvariantViolation, match="all partitions or none"):
        stop_replica_body(2, **HEAD, partitions=some)


@pytest.mark.parametrize("version", [4, 9])
def test_update_metadata_refuses_versions_without_broker_epochs_and_unknown_ones(version: int) -> None:
    with pytest.raises(InvariantViolation, match="versions 5 to 8"):
        live_brokers_fragment(version, [])


@pytest.mark.parametrize(("api", "version"), [(4, 1), (4, 8), (5, 0), (5, 5)])
def test_other_unserved_versions_are_refused(api: int, version: int) -> None:
    asked: dict[str, Any] = {"leaders": [], "listener": "L", "topics": [], "new": (), "full": False, "cache": None}
    encode = partial(leader_and_isr_body, **asked) if api == 4 else partial(stop_replica_body, partitions=[])
    with pytest.raises(InvariantViolation, match="is served in versions"):
        encode(version, **HEAD)


def test_an_unknown_security_protocol_is_refused() -> None:
    with pytest.raises(InvariantViolation, match="one of Kafka's four"):
        live_brokers_fragment(8, [Broker(1, 1, (Endpoint("X", "TELEPATHY", "h", 1),))])


def test_transcript_of_an_update_metadata_v8() -> None:
    """One partition, one broker: the bytes written so that a person can read them."""
    live = live_brokers_fragment(8, [Broker(1, 9, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), "r1")])
    topics = [peer.Slice("t", None, ((0, ONE),))]
    body = b"".join(update_metadata_parts(8, **HEAD, topics=topics, live=live, offline={}, cache=None))
    told = [
        "00000007 00 00000003 0000000100000068",  # controller id, not KRaft, controller epoch, broker epoch
        "02 0274 00000000000000000000000000000000 02",  # one topic "t", no id, one partition
        "00000000 00000003 00000000 00000005",  # number, controller epoch, leader, leader epoch
        "04 000000000000000100000002 00000004",  # isr, znode version
        "04 000000000000000100000002 01 00",  # replicas, none of them offline, no tags
        "00",  # end of the topic
        "02 00000001 02 00002384 0268 0a504c41494e54455854 0000 00 037231 00",  # the broker
        "00",  # no tags: Type is left out
    ]
    assert body == bytes.fromhex(" ".join(told))


class TestCache:
    """A topic is encoded once, and again only as far as it changed."""

    def body(self, cache: FragmentCache | None, topics: Any, offline: Any = None, version: int = 8) -> bytes:
        asked = {"topics": topics, "live": b"\x01", "offline": offline or {}, "cache": cache}
        return b"".join(update_metadata_parts(version, **HEAD, **asked))

    @peer.PATIENT
    @given(data=st.data(), partitions=st.lists(peer.states, min_size=1, max_size=12), rounds=st.integers(1, 4))
    def test_any_history_gives_the_bytes_of_no_history(self, data: Any, partitions: Any, rounds: int) -> None:
        cache = FragmentCache()
        numbered = list(enumerate(partitions))
        for _ in range(rounds):
            position = data.draw(st.integers(0, len(numbered) - 1))
            numbered[position] = (numbered[position][0], data.draw(peer.states))
            if data.draw(st.booleans()):
                numbered.append((len(numbered), data.draw(peer.states)))
            numbers = st.integers(0, len(numbered) - 1)
            offline = data.draw(
                st.dictionaries(st.builds(TopicPartition, st.just("t"), numbers), st.just((4,)), max_size=2)
            )
            topic_id = data.draw(st.sampled_from([None, peer.UUID(int=5)]))
            version = data.draw(st.sampled_from([5, 6, 8]))
            some = numbered if data.draw(st.booleans()) else numbered[:: data.draw(st.integers(1, 3))]
            topics = [peer.Slice("t", topic_id, tuple(some))]
            assert self.body(cache, topics, offline, version) == self.body(None, topics, offline, version)

    def test_unchanged_states_give_the_same_object(self) -> None:
        cache = FragmentCache()
        topic = peer.Slice("t", None, ((0, ONE), (1, ONE)))
        same = peer.Slice("t", None, ((0, ONE), (1, PartitionState(*ONE))))
        first = list(update_metadata_parts(8, **HEAD, topics=[topic], live=b"", offline={}, cache=cache))
        second = list(update_metadata_parts(8, **HEAD, topics=[same], live=b"", offline={}, cache=cache))
        assert first[2] is second[2]

    def test_a_slice_does_not_push_out_the_whole(self) -> None:
        cache = FragmentCache()
        whole = peer.Slice("t", None, tuple((number, ONE) for number in range(50)))
        self.body(cache, [whole])
        self.body(cache, [peer.Slice("t", None, ((3, ONE),))])
        assert cache.size().partitions == 50

    def test_size_forget_and_clear(self) -> None:
        cache = FragmentCache()
        self.body(cache, [peer.Slice("a", None, ((0, ONE),)), peer.Slice("b", None, ((0, ONE), (1, ONE)))])
        assert cache.size()[:2] == (2, 3)
        assert cache.size().held > 3 * 48
        cache.forget("b")
        assert cache.size()[:2] == (1, 1)
        cache.clear()
        assert cache.size() == (0, 0, 0)

    def test_a_topic_made_anew_under_its_name_is_not_taken_for_the_old_one(self) -> None:
        cache = FragmentCache()
        old = peer.Slice("t", peer.UUID(int=1), ((0, ONE), (1, ONE)))
        new = peer.Slice("t", peer.UUID(int=2), ((0, ONE),))
        self.body(cache, [old])
        assert self.body(cache, [new]) == self.body(None, [new])
        assert cache.size().partitions == 1
