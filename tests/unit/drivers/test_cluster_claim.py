"""The claim in the cluster: which executor has it, is refused or may take it, and when a claim is lost."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from shunter.drivers.journal import claim as cluster_claim
from shunter.drivers.journal.claim import ClusterClaim, SeenClaim, claim_seen_by
from shunter.drivers.journal.claimants import Claimant, ClusterClaimed
from shunter.drivers.journal.group_member import GroupMember
from shunter.drivers.journal.journals import Presence
from shunter.errors import DriverError
from shunter.model.notice import Notice

MINE = Claimant("ann", "here", 7, 1_700_000_000_000, "here:/a.journal")
THEIRS = Claimant("bob", "there", 8, 1_700_000_000_000, "there:/b.journal")
HERE = Presence("here", 7, lambda process: process != 99)


class Coordinator:
    """A group's coordinator: members in the order in which they joined; the first one leads."""

    def __init__(self) -> None:
        """Begin without members."""
        self.members: dict[str, bytes] = {}
        self.generation = 0
        self.error = 0
        self.client_id = "c"
        self.made = 0
        self.groups_error = 0
        self.leader = -1

    def joined(self, claimant: Claimant) -> str:
        """Add another member."""
        self.made += 1
        self.members[f"other-{self.made}"] = orjson.dumps(claimant)
        self.generation += 1
        return f"other-{self.made}"

    def answer(self, request: Any) -> Any:
        """Answer as Kafka's group coordinator does."""
        if isinstance(request, DescribeGroupsRequest):
            listed = [
                SimpleNamespace(member_id=name, client_id=self.client_id, client_host="/10.0.0.9", member_metadata=told)
                for name, told in self.members.items()
            ]
            return SimpleNamespace(
                groups=[SimpleNamespace(error_code=self.error, members=listed, authorized_operations=None)]
            )
        if self.error:
            return SimpleNamespace(error_code=self.error)
        if isinstance(request, JoinGroupRequest):
            if not request.member_id:
                self.made += 1
                return SimpleNamespace(error_code=79, member_id=f"m{self.made}")
            if request.member_id not in self.members:
                self.generation += 1
            self.members[request.member_id] = request.protocols[0].metadata
            leader = next(iter(self.members))
            return SimpleNamespace(
                error_code=0, member_id=request.member_id, generation_id=self.generation, leader=leader
            )
        known = request.member_id in self.members
        if isinstance(request, LeaveGroupRequest):
            self.members.pop(request.member_id, None)
            return SimpleNamespace(error_code=0 if known else 25)
        assert isinstance(request, SyncGroupRequest | HeartbeatRequest)
        return SimpleNamespace(error_code=25 if not known else 27 if request.generation_id != self.generation else 0)

    def client(self) -> Any:
        """A fake of kafka-python's client, with the parts that a claim uses."""

        async def send(request: Any, _node: int, *, request_timeout_ms: int | None = None) -> Any:
            del request_timeout_ms
            return self.answer(request)

        async def find(_group: str) -> int:
            return 1

        def run(work: Callable[..., Any], *arguments: Any) -> Any:
            return asyncio.run(work(*arguments))

        cluster = SimpleNamespace(_coordinators={})
        manager = SimpleNamespace(run=run, send=send, cluster=cluster)

        def describe(topics: list[str]) -> list[dict[str, Any]]:
            parts = [
                {"partition_index": number, "leader_id": self.leader, "replica_nodes": [1, 2], "isr_nodes": [1]}
                for number in range(50)
            ]
            return [{"name": name, "error_code": self.groups_error, "partitions": parts} for name in topics]

        return SimpleNamespace(
            _manager=manager,
            _find_coordinator_id=find,
            describe_topics=describe,
            describe_cluster=lambda: {"brokers": [{"broker_id": 1}, {"broker_id": 2}]},
            close=lambda: None,
        )


async def claimed(
    coordinator: Coordinator, mine: Claimant = MINE, *, take_over: bool = False
) -> tuple[ClusterClaim, asyncio.Task[None]]:
    claim = ClusterClaim(coordinator.client(), mine, take_over=take_over, presence=HERE)
    await claim.look()
    await claim.clear()
    keeping = asyncio.create_task(claim.keep())
    await claim.granted()
    return claim, keeping


async def ended(keeping: asyncio.Task[None]) -> BaseException | None:
    keeping.cancel()
    (outcome,) = await asyncio.gather(keeping, return_exceptions=True)
    return outcome


async def test_the_first_one_has_it_and_the_second_is_told_who_and_where() -> None:
    coordinator = Coordinator()
    claim, keeping = await claimed(coordinator)
    second = ClusterClaim(coordinator.client(), THEIRS, presence=replace_host("there"))
    with pytest.raises(ClusterClaimed) as refused:
        await second.look()
    for told in ("ann on here, process 7, since 2023-11-14 22:13:20 UTC", "/a.journal, at 10.0.0.9", "--take-over"):
        assert told in str(refused.value)
    await ended(keeping)
    await claim.leave()
    await second.look()
    assert coordinator.members == {}


async def test_who_only_looks_takes_nothing_from_a_former_process_of_its_journal() -> None:
    """It has not taken the journal's lease yet, and may still be refused."""
    coordinator = Coordinator()
    coordinator.joined(replace(THEIRS, journal=MINE.journal))
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE)
    await claim.look()
    assert len(coordinator.members) == 1
    await claim.clear()
    assert coordinator.members == {}


def test_who_only_looks_is_told_of_others_and_makes_no_topic_of_groups() -> None:
    coordinator = Coordinator()
    assert claim_seen_by(coordinator.client(), MINE.journal, HERE) == SeenClaim()
    coordinator.joined(MINE)
    assert claim_seen_by(coordinator.client(), MINE.journal, HERE) == SeenClaim(), "its own journal's lease tells"
    told = claim_seen_by(coordinator.client(), "there:/b.journal", replace_host("there")).claimant
    assert told.startswith("ann on here, process 7, since 2023")
    dead = Presence(MINE.host, 9, lambda _process: False)
    assert claim_seen_by(coordinator.client(), "here:/b.journal", dead) == SeenClaim(), "a dead process drives nothing"
    coordinator.groups_error, coordinator.error = 3, 16
    assert claim_seen_by(coordinator.client(), "there:/b.journal", HERE) == SeenClaim(), "nobody is asked"


def replace_host(host: str) -> Presence:
    return Presence(host, 8, lambda _process: True)


@pytest.mark.parametrize(
    "holder",
    [replace(THEIRS, journal=MINE.journal), replace(THEIRS, host="here", process=99)],
    ids=["whose journal we have", "a dead process of this host"],
)
async def test_who_can_not_drive_any_more_keeps_nobody_off(holder: Claimant) -> None:
    coordinator = Coordinator()
    coordinator.joined(holder)
    _claim, keeping = await claimed(coordinator)
    assert len(coordinator.members) == 1
    await ended(keeping)


async def test_a_dead_process_is_known_by_its_connections_name_while_its_own_words_are_not_shown() -> None:
    coordinator = Coordinator()
    coordinator.members["other-1"] = b""
    for name, refused in (("shunter-executor|bob|here|98", True), ("c", True), ("shunter-executor|bob|here|99", False)):
        coordinator.client_id = name
        claim = ClusterClaim(coordinator.client(), MINE, presence=HERE)
        if refused:
            with pytest.raises(ClusterClaimed, match="bob on here, process 98" if "98" in name else "driven by c at"):
                await claim.look()
        else:
            await claim.look()
            await claim.clear()
    assert coordinator.members == {}


async def test_a_living_process_of_this_host_keeps_us_off_and_can_be_taken_over() -> None:
    coordinator = Coordinator()
    coordinator.joined(replace(THEIRS, host="here", process=98))
    with pytest.raises(ClusterClaimed):
        await ClusterClaim(coordinator.client(), MINE, presence=HERE).look()
    _claim, keeping = await claimed(coordinator, take_over=True)
    assert list(coordinator.members) == ["m2"]
    await ended(keeping)


async def test_who_was_taken_over_hears_of_it_and_may_ask_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_claim, "BEAT_S", 0.01)
    coordinator = Coordinator()
    claim, keeping = await claimed(coordinator)
    coordinator.members.clear()
    coordinator.joined(THEIRS)
    with pytest.raises(ClusterClaimed, match="the claim was lost: this cluster is driven by bob on there"):
        await keeping
    with pytest.raises(ClusterClaimed):
        await claim.granted()


async def test_who_was_left_out_for_standing_still_claims_again_where_nobody_else_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_claim, "BEAT_S", 0.01)
    coordinator = Coordinator()
    claim, keeping = await claimed(coordinator)
    coordinator.members.clear()
    async with asyncio.timeout(40):
        while not coordinator.members:  # noqa: ASYNC110  the coordinator answers in another thread
            await asyncio.sleep(0)
    await claim.granted()
    assert await ended(keeping) is not None


async def test_who_stood_still_asks_for_nothing_before_it_has_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own request finds out before its next heartbeat does."""
    coordinator = Coordinator()
    claim, keeping = await claimed(coordinator)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    coordinator.members.clear()
    monkeypatch.setattr(claim, "_heard_s", -1e9)
    asking = asyncio.create_task(claim.granted())
    async with asyncio.timeout(40):
        while claim._is_granted():  # noqa: ASYNC110  the coordinator answers in another thread
            await asyncio.sleep(0)
    assert not asking.done()
    await claim._beat()
    await asking
    assert len(coordinator.members) == 1


async def test_a_claim_is_unheard_while_its_coordinator_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    claim, keeping = await claimed(coordinator)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    now_s, heard = claim._heard_s, []
    monkeypatch.setattr(cluster_claim, "time", SimpleNamespace(monotonic=lambda: now_s))
    for passed_s, coordinator.error in ((3, 0), (25, 15), (2, 0)):
        now_s += passed_s
        await claim._beat()
        heard.append(claim.unheard_ms())
    assert heard == [0, 25_000, 0]
    await claim.leave()


async def test_of_two_that_join_at_once_the_later_one_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_claim, "BEAT_S", 0.01)
    coordinator = Coordinator()
    first, second = (
        ClusterClaim(coordinator.client(), each, presence=HERE) for each in (MINE, replace(THEIRS, process=98))
    )
    await first.look()
    await second.look()
    keeping = asyncio.create_task(first.keep())
    await first.granted()
    with pytest.raises(ClusterClaimed, match="ann on here"):
        await second.keep()
    await second.leave()
    assert not keeping.done(), "it joined again, and leads"
    await first.granted()
    await ended(keeping)


async def test_a_member_that_is_left_out_between_joining_and_syncing_joins_again() -> None:
    coordinator = Coordinator()
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE)
    answers, synced = coordinator.answer, 0

    def answer(request: Any) -> Any:
        nonlocal synced
        if isinstance(request, SyncGroupRequest):
            synced += 1
            if synced < 3:
                coordinator.members.clear()
                return SimpleNamespace(error_code=27 if synced == 1 else 25)
        return answers(request)

    coordinator.answer = answer  # type: ignore[method-assign]
    keeping = asyncio.create_task(claim.keep())
    await claim.granted()
    assert (synced, len(coordinator.members)) == (3, 1)
    await ended(keeping)


async def test_what_nobody_expects_of_the_coordinator_ends_the_wait_for_the_claim() -> None:
    coordinator = Coordinator()
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, required=True, within_s=0.0)
    coordinator.answer = lambda _request: SimpleNamespace()  # type: ignore[method-assign]
    keeping = asyncio.create_task(claim.keep())
    with pytest.raises(DriverError, match="claiming the cluster"):
        await claim.granted()
    with pytest.raises(DriverError, match="claiming the cluster"):
        await claim.granted()
    assert isinstance(await ended(keeping), DriverError)


async def test_a_missing_permission_is_named() -> None:
    coordinator = Coordinator()
    coordinator.error = kafka_errors.GroupAuthorizationFailedError.errno
    with pytest.raises(DriverError, match="needs Read on Group shunter-executor") as refused:
        await ClusterClaim(coordinator.client(), MINE, presence=HERE).look()
    assert not refused.value.retriable


async def test_a_standing_executor_needs_the_coordinator_and_is_told_the_way_out() -> None:
    coordinator = Coordinator()
    coordinator.error = kafka_errors.CoordinatorNotAvailableError.errno
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, required=True, within_s=0.0)
    with pytest.raises(DriverError, match="say --take-over-cluster to go on without a claim") as refused:
        await claim.look()
    assert "__consumer_offsets-9 with replicas [1, 2] has no leader" in str(refused.value)


async def test_without_a_coordinator_a_command_goes_on_and_claims_as_soon_as_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_claim, "BEAT_S", 0.01)
    monkeypatch.setattr(cluster_claim, "TELL_AFTER_S", 0.0)
    coordinator, told = Coordinator(), list[Notice]()
    coordinator.error = kafka_errors.CoordinatorNotAvailableError.errno
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, within_s=1.0, listener=told.append)
    await claim.look()
    await claim.clear()
    keeping = asyncio.create_task(claim.keep())
    await claim.granted()
    assert [notice.kind for notice in told] == ["cluster-claim-waits", "cluster-unclaimed"]
    assert "__consumer_offsets-9 with replicas [1, 2] has no leader" in told[0].text
    coordinator.joined(replace(THEIRS, journal=MINE.journal))
    coordinator.error = 0
    async with asyncio.timeout(40):
        while claim.unclaimed:  # noqa: ASYNC110  the coordinator answers in another thread
            await asyncio.sleep(0)
    assert list(coordinator.members) == ["m2"], "a former process of its journal is removed"
    assert told[-1].kind == "cluster-claimed"
    await claim.granted()
    await ended(keeping)


async def test_who_goes_on_without_the_claim_ends_when_another_executor_turns_out_to_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_claim, "BEAT_S", 0.01)
    coordinator = Coordinator()
    coordinator.error = kafka_errors.CoordinatorNotAvailableError.errno
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, within_s=0.0)
    await claim.look()
    keeping = asyncio.create_task(claim.keep())
    await claim.granted()
    coordinator.joined(THEIRS)
    coordinator.error = 0
    with pytest.raises(ClusterClaimed, match="bob on there"):
        await keeping
    with pytest.raises(ClusterClaimed):
        await claim.granted()


async def test_a_coordinator_that_falls_silent_before_the_join_keeps_nobody_from_going_on() -> None:
    """A group whose partition is below its min.insync.replicas shows its members, and takes none."""
    coordinator = Coordinator()
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, within_s=0.0)
    await claim.look()
    await claim.clear()
    coordinator.error = kafka_errors.CoordinatorNotAvailableError.errno
    keeping = asyncio.create_task(claim.keep())
    await claim.granted()
    assert "claiming the cluster" in claim.unclaimed
    await ended(keeping)


async def test_a_coordinator_that_does_not_answer_at_all_is_not_waited_for_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_claim, "ANSWER_WITHIN_S", 0.05)
    hangs = threading.Event()
    coordinator = Coordinator()
    coordinator.answer = lambda _request: hangs.wait(40)  # type: ignore[method-assign]
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE, within_s=0.0)
    await claim.look()
    assert "TimeoutError" in claim.unclaimed
    hangs.set()


def test_a_coordinator_that_died_is_asked_for_again() -> None:
    """Found in a test run: the library kept the dead broker, until the wait was over."""
    coordinator = Coordinator()
    client = coordinator.client()
    client._manager.cluster._coordinators["x"] = 1

    def dead(_request: Any) -> Any:
        raise kafka_errors.NodeNotReadyError(1)

    coordinator.answer = dead  # type: ignore[method-assign]
    with pytest.raises(kafka_errors.NodeNotReadyError):
        GroupMember(client, "shunter-executor", b"", 30_000).members()
    assert client._manager.cluster._coordinators == {}


def test_the_state_of_the_groups_topic_is_said_without_asking_a_coordinator() -> None:
    coordinator = Coordinator()
    member = GroupMember(coordinator.client(), "shunter-executor", b"", 30_000)
    assert member.groups_partition() == "__consumer_offsets-9 with replicas [1, 2] has no leader"
    coordinator.leader = 1
    assert member.groups_partition().endswith("is led by broker 1, in sync are [1]")
    coordinator.groups_error = 3
    assert "does not exist, and its replication factor may ask for more than 2 brokers" in member.groups_partition()


async def test_a_claim_says_where_its_service_is_reached() -> None:
    coordinator = Coordinator()
    coordinator.joined(replace(THEIRS, address="https://lab-2:8090"))
    claim = ClusterClaim(coordinator.client(), MINE, presence=HERE)
    with pytest.raises(
        ClusterClaimed, match=r"driven by https://lab-2:8090 of there \(bob, process 8\), since"
    ) as held:
        await claim.look()
    assert held.value.holder.startswith("https://lab-2:8090 of there")
