"""People's words live with the cluster: whoever takes over has them, and whoever has not read them only observes."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kafka import errors as kafka_errors
from service_orders import order
from service_world import Clock
from words_world import SESSION_MS, LockedTopic, Log, Service, SharedYard

from shunter.app.executor import history
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target
from shunter.app.service.driving import Driving
from shunter.app.service.known import UNSURE_MS
from shunter.core.executor.history import Execution
from shunter.core.executor.state import Move, MoveEnd
from shunter.core.keeper.cluster_facts import WordsPlace
from shunter.core.keeper.situation import HERE_ALONE, ClusterSeverity
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.service import words_topic
from shunter.drivers.service.words_topic import WordsTopic
from shunter.errors import DriverError
from shunter.formats.word_records import WordsDriver
from shunter.model.execution import ExecutionOptions, OngoingReassignment, Outcome
from shunter.model.keeper import DEFAULTS, Condition, GuardRails, KeeperPolicy, Mode
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.model.service import (
    EventSearch,
    IntentKind,
    KeptIntent,
    KillSwitch,
    OrderKind,
    OrderRefused,
    ProposalState,
    Refusal,
    ServiceOrder,
    Signature,
    StoreBatch,
    Words,
)

ANNA, BEN = Signature("anna"), Signature("ben")
ROWS: list[tuple[int, ...]] = [(1, 2), (1, 3), (1, 2), (3, 2), (1, 3), (3, 2)]
OFF = {each: replace(watch, mode=Mode.OFF) for each, watch in DEFAULTS.items()}
DRAINS = KeeperPolicy({**OFF, Condition.DRAIN: replace(DEFAULTS[Condition.DRAIN], mode=Mode.ACT)})


def yard() -> SharedYard:
    return SharedYard(Clock(), rows=[*ROWS], random=Random(1))


@pytest.mark.parametrize("unread", [False, True])
def test_an_undo_from_a_shell_names_the_intents_that_take_it_back_again(
    monkeypatch: pytest.MonkeyPatch, *, unread: bool
) -> None:
    """An outsider's find: broker 2 was filled again by hand, and the service emptied it once more."""
    log, lock = Log(Random(1)), threading.Lock()
    given = [(IntentKind.DRAIN, 2), (IntentKind.DRAIN, 3), (IntentKind.DEMOTE, 1), (IntentKind.FREEZE_BROKER, 2)]
    intents = tuple(KeptIntent(kind, str(broker), 0, "anna", 0) for kind, broker in given)
    LockedTopic(log, "service", lock).take(WordsDriver("host", 1, 0, "", ""), Words(intents))
    log.unread = unread
    tps = [TopicPartition("t", at) for at in (0, 1)]
    moves = {
        tp: Move(tp, None, (1, 2), (4, 3), Strategy.INCREMENTAL, 5, (), adopted=False, accepted_at_ms=0, current=(4, 3))
        for tp in tps
    }
    for move in moves.values():
        move.ended = MoveEnd(Outcome.DONE, "", 1)

    class Cluster:
        async def observe_topics(self, _names: object) -> TopicsSeen:
            return TopicsSeen({}, {}, 1)

        async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
            return {}

        async def close(self) -> None:
            """Nothing is open."""

    async def connect(_target: object) -> Cluster:
        return Cluster()

    async def past(_target: object) -> tuple[JournalPlace, tuple[Execution, ...]]:
        return JournalPlace(Path("j")), (Execution(1, 0, ["p"], ExecutionOptions(), moves),)

    monkeypatch.setattr(history, "connect", connect)
    monkeypatch.setattr(history, "past_executions", past)
    monkeypatch.setattr(words_topic, "WordsTopic", lambda *_: LockedTopic(log, "shell", lock))
    told = asyncio.run(history.undoing(Target("k:9092"), None))[1].told
    if unread:
        (one,) = told
        assert one.startswith("whether a service has an intent against this is not known: ")
        return
    lead, replicas = told
    assert lead == (
        "broker 1 gets the lead of 2 partitions, and a service has the intent to demote it (by anna): it takes that away "
        "again; `shunter withdraw demote 1` ends the intent"
    )
    assert replicas.startswith("broker 2 gets 2 replicas, and a service has the intent to drain it (by anna): ")


def told_of(service: Service) -> str:
    """What every front end says of the cluster."""
    stands = service.published.page("yard").row.situation
    return " | ".join((stands.headline, *stands.notes))


async def draining(a: Service) -> None:
    """A drives, and is in the middle of a drain."""
    await a.driven()
    await a.desk.carry_out(order(IntentKind.DRAIN, "2"), ANNA)
    for _ in range(3):
        await a.look()
    assert [each.state for each in a.keeper.proposals.values()] == [ProposalState.RUNNING]


async def paused_and_cut_off(world: SharedYard, a: Service) -> None:
    """A drives, and pauses; it is paused once more while it is cut off, so that its host alone has that."""
    await a.driven()
    await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
    world.cut("a")
    world.clock.ms += 1
    await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)


async def takes_over(b: Service) -> None:
    b.shared_yard.pass_time(SESSION_MS + 1)
    await b.until(lambda: b.keeper.reconciled and b.keeper.words_known)


async def test_whoever_takes_over_goes_on_with_the_drain_and_the_switch(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a, Service(world, "b", tmp_path / "b", DRAINS) as b:
        await draining(a)
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
        await b.until(lambda: b.keeper.switch is not None)
        assert "paused by ben since" in told_of(b), "the switch of the service that drives"
        with pytest.raises(OrderRefused) as refused:
            await b.desk.carry_out(order(OrderKind.WITHDRAW, "drain", "2"), ANNA)
        assert refused.value.refusal is Refusal.STANDBY
        plans = [*world.submitted]
        await a.kill()
        await takes_over(b)
        assert [(each.kind, each.about, each.who) for each in b.keeper.intents] == [(IntentKind.DRAIN, "2", "anna")]
        assert b.keeper.switch is not None
        assert (b.keeper.switch.who, b.keeper.switch.fleet) == ("ben", True)
        assert all(world.moves[at].paused for at in world.open)
        await b.look()
        assert world.submitted == plans, "it is the same drain, and nothing was begun"
        await b.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
        await b.until(lambda: b.keeper.switch is None)
        world.copy()
        await b.until(lambda: all(e.state is ProposalState.CARRIED_OUT for e in b.keeper.proposals.values()))
        for _ in range(3):
            world.clock.ms += 3_600_000
            await b.look()
        assert not b.keeper.proposals, "a look has seen that the drain is done"
        assert not any(2 in row for row in world.rows), "the broker is never refilled"
        assert world.strayed == []
        async with Service(world, "a", tmp_path / "a", DRAINS) as again:
            await again.until(lambda: again.shared.place is WordsPlace.READ)
            assert again.keeper.switch is None
            assert again.keeper.intents == b.keeper.intents
            assert not again.keeper.reconciled, "it is a standby"


async def test_whoever_serves_tells_who_drove_since_when_and_what_the_service_before_did(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a, Service(world, "b", tmp_path / "b", DRAINS) as b:
        began_ms = world.clock.ms
        await draining(a)
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
        await b.until(lambda: b.keeper.switch is not None)
        world.clock.ms += 60_000
        world.cut("a")
        await takes_over(b)
        world.heal("a")
        world.pass_time(0)
        await a.until(lambda: any(each.kind == "driver-lost" for each in a.events))
        (lost,) = [each for each in a.events if each.kind == "driver-lost"]
        assert (lost.at_ms, lost.until_ms) == (began_ms, world.clock.ms), "it says how long a drove"
        assert "the service on a no longer drives yard" in lost.text
        # It is told after the words and the journal were read, so after `takes_over`.
        await b.until(lambda: sum(each.kind == "driver" for each in b.events) > 1)
        drove = [each.text for each in b.events if each.kind == "driver"]
        assert drove == [
            "a drives yard; the service on b stands by",
            "the service on b drives yard; before, the service on a (process 1) did",
        ]
    async with Service(world, "c", tmp_path / "c", DRAINS) as c:
        await takes_over(c)
        history = await c.records.read(lambda store: store.events(EventSearch("yard", 0, most=100)))
        told = [(each.kind, each.who) for each in history]
        assert ("intend", "anna") in told
        assert ("pause-all", "ben") in told
        assert "proposed" in [kind for kind, _who in told]
        assert all(each.at_ms == began_ms for each in history if each.kind in ("intend", "pause-all", "proposed"))
        assert [each.kind for each in c.events] == ["driver"], "what another service did was notified then"


async def test_what_is_in_force_is_shown_before_this_host_has_its_copy(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a, Service(world, "b", tmp_path / "b", DRAINS) as b:
        await a.driven()
        free = threading.Event()

        def slowly(_cluster: str, words: Words, _events: object) -> None:
            if words.switch is not None:
                free.wait(10)

        b.store.replace_words = slowly  # type: ignore[method-assign]
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
        try:
            await b.until(lambda: b.keeper.switch is not None)
            assert "paused by ben since" in told_of(b)
        finally:
            free.set()


async def test_votes_holds_and_answers_to_keys_go_over(tmp_path: Path) -> None:
    policy = replace(
        DRAINS,
        watches={**OFF, Condition.DISK_BAND: replace(DEFAULTS[Condition.DISK_BAND], minutes=0)},
        rails=GuardRails(approvals=2),
    )
    world = SharedYard(Clock(), random=Random(1))
    async with Service(world, "a", tmp_path / "a", policy) as a, Service(world, "b", tmp_path / "b", policy) as b:
        await a.driven()
        await a.look()
        (waiting,) = a.keeper.proposals.values()
        keyed = Signature("anna", key="k")
        done = await a.desk.carry_out(order(OrderKind.APPROVE, waiting.id), keyed)
        await a.desk.carry_out(order(IntentKind.HOLD, "fill"), BEN)
        await a.kill()
        await takes_over(b)
        (kept,) = b.keeper.proposals.values()
        assert [each.who for each in kept.votes] == ["anna"]
        assert kept.changes == waiting.changes
        assert await b.desk.carry_out(order(OrderKind.APPROVE, waiting.id), keyed) == done, "it is not counted twice"
        assert [each.about for each in b.keeper.intents] == ["fill"]
        await b.desk.carry_out(order(OrderKind.APPROVE, waiting.id), BEN)
        await b.look()
        assert world.submitted == [waiting.id]


async def test_words_that_can_not_be_read_are_waited_for_and_nothing_is_begun(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        await a.desk.carry_out(order(IntentKind.FREEZE_TOPIC, "t"), ANNA)
        await a.kill()
    world.log.unread = True
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        world.pass_time(SESSION_MS + 1)
        await b.until(lambda: "only observes" in told_of(b))
        await b.look()
        assert b.published.page("yard").row.partitions == len(ROWS), "it looks"
        with pytest.raises(OrderRefused, match="are not read yet") as refused:
            await b.desk.carry_out(order(IntentKind.DRAIN, "2"), ANNA)
        assert refused.value.refusal is Refusal.STORE
        assert not b.keeper.reconciled
        assert world.submitted == []
        world.log.unread = False
        await b.until(lambda: b.keeper.reconciled)
        assert [each.kind for each in b.keeper.intents] == [IntentKind.FREEZE_TOPIC]
        await b.until(lambda: "not known" not in told_of(b))


async def test_a_service_that_was_cut_off_can_not_write_and_stands_by_when_it_comes_back(tmp_path: Path) -> None:
    world = yard()
    async with (
        Service(world, "a", tmp_path / "a", DRAINS) as a,
        Service(world, "b", tmp_path / "b", DRAINS) as b,
    ):
        await draining(a)
        world.cut("a")
        await takes_over(b)
        with pytest.raises(OrderRefused):
            await a.desk.carry_out(order(OrderKind.WITHDRAW, "drain", "2"), ANNA)
        await b.desk.carry_out(order(IntentKind.FREEZE_TOPIC, "x"), BEN)
        world.heal("a")
        with pytest.raises(OrderRefused):
            await a.desk.carry_out(order(OrderKind.WITHDRAW, "drain", "2"), ANNA)
        world.pass_time(1_000)
        await a.until(lambda: a.shared.place is WordsPlace.READ and len(a.keeper.intents) == 2)
        assert a.keeper.intents == b.keeper.intents
        assert b.keeper.words_known
        assert world.strayed == []


async def test_a_writer_that_was_fenced_takes_the_words_again_only_with_the_claim(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        stranger = Service(world, "b", tmp_path / "b", DRAINS)
        await stranger.shared.take(Words())  # Without the claim: nobody should, and somebody's bug may.
        with pytest.raises(OrderRefused, match="another service took it over"):
            await a.desk.carry_out(order(IntentKind.DRAIN, "2"), ANNA)
        world.tell()
        await a.until(lambda: a.keeper.words_known and a.keeper.reconciled)
        await a.desk.carry_out(order(IntentKind.DRAIN, "2"), ANNA)
        await stranger.shared.close()
        await stranger.records.close()


@pytest.mark.parametrize("kind", [OrderKind.PAUSE, IntentKind.DRAIN])
async def test_a_writer_whose_transaction_ran_out_of_time_goes_on(tmp_path: Path, kind: OrderKind | IntentKind) -> None:
    """Found by hand: the first order after an outage was refused, for another process had taken the words over."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        world.log.epoch += 1
        done = await a.desk.carry_out(order(kind, *(["2"] if kind is IntentKind.DRAIN else [])), ANNA)
        assert not done.undone
        assert a.shared.place is WordsPlace.TAKEN


@pytest.mark.parametrize("kind", [OrderKind.PAUSE, IntentKind.DRAIN])
async def test_an_order_is_taken_though_a_client_was_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: OrderKind | IntentKind
) -> None:
    """An SRE's find: in an outage's first minute an order was refused that the cluster could take: a client was in an
    error state, or asked a coordinator that had died."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        failing = [kafka_errors.KafkaError("Cannot execute transactional method because we are in an error state")]
        begin = WordsTopic.write

        def write(topic: WordsTopic, batch: Any, now_ms: int) -> None:
            if failing:
                topic._topic.guarded("writing to", lambda: raised(failing.pop()))
            begin(topic, batch, now_ms)

        monkeypatch.setattr(WordsTopic, "write", write)
        done = await a.desk.carry_out(order(kind, *(["2"] if kind is IntentKind.DRAIN else [])), ANNA)
        assert not done.undone
        assert a.shared.place is WordsPlace.TAKEN
        assert not failing


def raised(error: Exception) -> None:
    raise error


async def test_a_write_of_which_nobody_knows_is_looked_up(tmp_path: Path) -> None:
    """The commit is answered with an error, and was carried out: the word is refused, and then it is there."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        committed = world.log.end_transaction

        def doubtful(transaction: int, *, committed_: bool = True, **_: object) -> None:
            committed(transaction, committed=committed_)
            world.log.doubtful = 1.0

        world.log.end_transaction = lambda transaction, *, committed: doubtful(transaction, committed_=committed)  # type: ignore[method-assign]
        with pytest.raises(OrderRefused):
            await a.desk.carry_out(order(IntentKind.DRAIN, "2"), ANNA)
        assert not a.keeper.words_known
        world.log.end_transaction = committed  # type: ignore[method-assign]
        world.log.doubtful = 0.0
        world.tell()
        await a.until(lambda: a.keeper.words_known)
        assert [each.kind for each in a.keeper.intents] == [IntentKind.DRAIN]


async def test_a_cluster_in_which_no_topic_can_be_made_has_its_words_on_this_host_and_that_is_said(
    tmp_path: Path,
) -> None:
    world = yard()
    world.log.denied = "Create on Topic __shunter_words"
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        told = told_of(a)
        assert "live on this host alone" in told
        assert "needs Read and Write on Topic __shunter_words" in told
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        assert a.keeper.switch is not None
        assert [each.kind for each in a.keeper.intents] == [IntentKind.DRAIN]
    world.log.denied = ""
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        assert "on this host alone" not in told_of(a)
        assert a.shared.place is WordsPlace.TAKEN
        await a.kill()
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        await takes_over(b)
        assert b.keeper.switch is not None, "the words of the host went to the cluster when that became possible"
        assert [each.kind for each in b.keeper.intents] == [IntentKind.DRAIN]


async def test_a_kill_switch_that_the_cluster_did_not_take_is_brought_there_later(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        world.log.unread = True
        done = await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
        assert "kept on this host" in done.text
        assert all(world.moves[at].paused for at in world.open), "it is in force"
        assert a.keeper.switch is not None
        assert a.keeper.switch.unsent
        await a.kill()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        assert a.keeper.switch is not None
        world.log.unread = False
        await takes_over(a)
        world.tell()
        await a.until(lambda: a.keeper.switch is not None and not a.keeper.switch.unsent)
        await a.kill()
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        await takes_over(b)
        assert b.keeper.switch is not None


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pause_and_its_lift_that_the_cluster_never_had_leave_no_move_paused(
    tmp_path: Path, *, restarted: bool
) -> None:
    """An SRE's find: both were given in one outage, and 39 moves stayed paused although no pause was in force."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        world.log.unread = True
        assert "kept on this host" in (await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)).text
        assert all(world.moves[at].paused for at in world.open)
        if not restarted:
            await a.desk.carry_out(order(OrderKind.RESUME), ANNA)
            world.log.unread = False
            await a.until(lambda: world.tell() is None and a.keeper.switch is None)
            assert not any(world.moves[at].paused for at in world.open)
        await a.kill()
    if not restarted:
        return
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.keeper.look_once()
        await a.desk.carry_out(order(OrderKind.RESUME), ANNA)
        world.log.unread = False
        await takes_over(a)
        world.tell()
        await a.until(lambda: a.keeper.switch is None)
        assert not any(world.moves[at].paused for at in world.open)


async def test_a_pause_that_is_lifted_while_it_waits_to_be_sent_is_not_sent_any_more(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        a.keeper.switch = KillSwitch("yard", "ben", world.clock.ms, unsent=True)
        lifting = asyncio.create_task(a.desk.carry_out(ServiceOrder(OrderKind.RESUME), ANNA))
        for _ in range(3):
            await asyncio.sleep(0)
        await a.keeper.send_switch(world.clock.ms)
        await lifting
        await a.until(lambda: a.keeper.switch is None)
        await a.kill()
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        await takes_over(b)
        assert b.keeper.switch is None


async def test_a_kill_switch_given_to_a_service_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    world = yard()
    async with (
        Service(world, "a", tmp_path / "a", DRAINS) as a,
        Service(world, "b", tmp_path / "b", DRAINS) as b,
    ):
        await draining(a)
        world.cut("a")
        await takes_over(b)
        world.heal("a")
        assert a.keeper.driving is not None, "it does not know yet"
        with pytest.raises(OrderRefused, match="not taken: another service has taken yard over: give the order there"):
            await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        assert a.keeper.switch is None
        assert await a.records.read(lambda store: store.switches()) == {}
        assert b.keeper.switch is None
        assert world.strayed == []


async def test_a_kill_switch_is_not_taken_while_nobody_knows_who_drives(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        assert a.driving is not None
        a.driving.cancel()
        await asyncio.gather(a.driving, return_exceptions=True)
        a.driving = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
        a.keeper.known.idle_why = "the claim was lost: this cluster is driven by b"
        for asked in (ServiceOrder(OrderKind.PAUSE), ServiceOrder(OrderKind.PAUSE, "yard")):
            with pytest.raises(OrderRefused, match="not taken yet: another service may drive yard: the claim") as told:
                await a.desk.carry_out(asked, ANNA)
            assert told.value.refusal is Refusal.UNREACHABLE
        assert a.keeper.switch is None
        assert OrderKind.PAUSE not in a.desk.fleet_orders()[0]


async def test_a_kill_switch_is_taken_where_brokers_answer_and_nobody_can_drive_for_a_while(tmp_path: Path) -> None:
    """An outsider's find: with the quorum lost and one broker left, a pause was refused for as long as that lasted."""
    world = yard()

    @contextlib.asynccontextmanager
    async def no_seat(_listener: object) -> AsyncIterator[Driving]:
        raise DriverError("DescribeCluster failed", retriable=True)
        yield

    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        a.keeper.parts = replace(a.keeper.parts, seat=no_seat)
        await a.until(lambda: a.keeper.known.undriven_ms is not None)
        with pytest.raises(OrderRefused, match="not taken yet: another service may drive yard: DescribeCluster"):
            await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        world.clock.ms += UNSURE_MS
        done = await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        assert "the pause of yard is kept on this host, and given to the cluster once a broker takes it" in done.text
        assert f"paused by anna since 1970-01-01 12:00 UTC: {HERE_ALONE}" in told_of(a)
        assert OrderKind.PAUSE not in a.desk.fleet_orders()[0]
        await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
        assert a.keeper.facts().paused is None


async def test_whoever_pauses_first_stays_and_the_second_is_told_and_in_the_history(tmp_path: Path) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE, "yard"), ANNA._replace(comment="fire"))
        world.clock.ms += 60_000
        done = await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
        assert "yard is already paused by anna since 1970-01-01 12:00 UTC (fire), and that stays" in done.text
        (_first, second) = [each for each in a.events if each.kind == "pause-all"]
        assert (second.who, second.text) == ("ben", f"ben: {done.text}")
        switch = a.keeper.switch
        assert switch is not None
        assert (switch.who, switch.at_ms, switch.comment) == ("anna", world.clock.ms - 60_000, "fire")
        assert (switch.fleet, switch.unsent) == (True, False), "the whole fleet is paused, and the cluster has that"


async def test_in_an_outage_a_kill_switch_is_kept_can_be_lifted_and_comes_into_force_when_the_cluster_answers(
    tmp_path: Path,
) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        await a.kill()
    world.cut("a")
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.until(lambda: a.keeper.known.unanswered)
        for _ in range(2):
            done = await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
            assert "kept on this host, and given to the cluster once a broker takes it" in done.text
            assert OrderKind.RESUME in a.desk.fleet_orders()[0]
            done = await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
            assert "lifted" in done.text
            assert a.keeper.facts().paused is None
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        world.heal("a")
        await takes_over(a)
        world.tell()
        await a.until(lambda: a.keeper.switch is not None and not a.keeper.switch.unsent)
        assert all(world.moves[at].paused for at in world.open)


async def test_a_pause_from_before_an_outage_is_lifted_during_it_and_moves_go_on_when_the_cluster_answers(
    tmp_path: Path,
) -> None:
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await draining(a)
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        assert all(world.moves[at].paused for at in world.open)
        await a.kill()
    world.cut("a")
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.until(lambda: a.keeper.known.unanswered)
        await a.keeper.look_once()
        assert "paused by anna" in told_of(a)
        assert OrderKind.RESUME in a.published.page("yard").row.situation.orders
        done = await a.desk.carry_out(order(OrderKind.RESUME), BEN)
        (kept,) = done.undone
        assert kept.startswith("that the pause of yard is lifted is kept on this host, and given to the cluster")
        assert "ben lifted the pause" in told_of(a)
        assert OrderKind.PAUSE in a.published.page("yard").row.situation.orders
        world.heal("a")
        await takes_over(a)
        world.tell()
        await a.until(lambda: a.keeper.switch is None)
        assert not any(world.moves[at].paused for at in world.open)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_pause_that_was_lifted_in_an_outage_stays_where_another_service_drives(
    tmp_path: Path, *, replaced: bool
) -> None:
    """`replaced`: what is lifted is a later pause, which the cluster never had."""
    world = yard()
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        await b.driven()
        async with Service(world, "a", tmp_path / "a", DRAINS) as a:
            await a.until(lambda: a.keeper.known.held_by != "")
            await b.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
            await a.until(lambda: a.keeper.switch is not None)
            world.cut("a")
            await a.until(lambda: a.keeper.known.unanswered)
            if replaced:
                world.clock.ms += 1
                await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
            done = await a.desk.carry_out(order(OrderKind.RESUME), BEN)
            assert "that the pause of yard is lifted is kept on this host" in done.text
            world.heal("a")
            await a.until(lambda: any(each.kind == "resume-not-sent" for each in a.events))
            (lost,) = [each for each in a.events if each.kind == "resume-not-sent"]
            assert "that ben lifted the pause never reached the cluster" in lost.text
            assert b.keeper.facts().paused is not None
            await a.until(lambda: "paused by anna" in told_of(a))


async def test_a_pause_that_the_driver_lifts_in_an_outage_is_said_to_be_lifted_on_its_host_alone(
    tmp_path: Path,
) -> None:
    """An outsider's find: "the pause of the fleet is lifted", exit status 0, and the next driver never heard of it."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await paused_and_cut_off(world, a)
        assert a.keeper.driving is not None
        done = await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
        (kept,) = done.undone
        assert kept.startswith("that the pause of yard is lifted is kept on this host, and given to the cluster")
        assert "is lifted; moves" not in done.text
        async with Service(world, "b", tmp_path / "b", DRAINS) as b:
            await takes_over(b)
            world.heal("a")
            a.shared_yard.pass_time(1)
            await a.until(lambda: any(each.kind == "resume-not-sent" for each in a.events))
            (lost,) = [each for each in a.events if each.kind == "resume-not-sent"]
            assert "that ben lifted the pause never reached the cluster" in lost.text
            await a.until(lambda: "paused by anna" in told_of(a))


async def test_a_lift_that_a_pause_of_another_service_overtakes_is_not_said_to_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by random worlds: "the pause of the fleet is lifted", while the words of who drives came in, paused."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await paused_and_cut_off(world, a)
        write = a.keeper.records.write

        async def overtaken(batch: StoreBatch) -> None:
            await write(batch)
            if batch.switches:
                a.keeper.turn(batch.switches[0]._replace(who="carl", lifted=False, unsent=False))

        monkeypatch.setattr(a.keeper.records, "write", overtaken)
        with pytest.raises(OrderRefused, match=r"yard: paused by carl since .*: the pause stays in force; ask again"):
            await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)


async def test_a_pause_lifted_on_one_host_alone_is_told_to_be_lost_where_the_cluster_was_paused_anew(
    tmp_path: Path,
) -> None:
    """An outsider's find: the other service was paused in the same outage, drove then, and the lift just vanished."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await paused_and_cut_off(world, a)
        async with Service(world, "b", tmp_path / "b", DRAINS) as b:
            world.cut("b")
            await b.until(lambda: b.keeper.known.unanswered)
            world.clock.ms += 1_000
            await b.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
            (here,) = (note for note in told_of(b).split(" | ") if "paused by anna" in note)
            assert "this host alone has that" in here, "the cluster may be paused or not: this host can't know"
            await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
            assert "ben lifted the pause: this host alone has that" in told_of(a)
            world.heal("b")
            await takes_over(b)
            world.heal("a")
            a.shared_yard.pass_time(1)
            await a.until(lambda: any(each.kind == "resume-not-sent" for each in a.events))
            (lost,) = [each for each in a.events if each.kind == "resume-not-sent"]
            assert "that ben lifted the pause never reached the cluster, and anna paused it at" in lost.text
            await a.until(lambda: "paused by anna" in told_of(a))


async def test_a_pause_lifted_in_an_outage_where_nobody_drives_is_not_called_lifted(tmp_path: Path) -> None:
    """An outsider's find: "the pause of the fleet is lifted; …; that it is lifted is kept on this host"."""
    world = yard()
    world.cut("a")
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.until(lambda: a.keeper.known.unanswered)
        with pytest.raises(
            OrderRefused, match="was not paused when this service last read that, and whoever drives yard"
        ):
            await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        done = await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), BEN)
        assert done.text.startswith("that the pause of yard is lifted is kept on this host, and given to the cluster")
        assert done.undone == (done.text,)


async def test_a_driver_that_could_not_read_its_plans_fates_reads_them_later(tmp_path: Path) -> None:
    """Found by the fuzz, seed 2: cut off while it took its words again, it drove on, and began nothing any more."""
    async with Service(yard(), "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        a.keeper.reconciled = False
        a.shared_yard.tell()
        await a.until(lambda: a.keeper.reconciled)


async def test_a_pause_that_is_lifted_while_the_words_are_taken_again_is_lifted_here_too(tmp_path: Path) -> None:
    """Found by the fuzz, seed 1004: the cluster had it lifted, and who drove kept it, as it had just read it there."""
    async with Service(yard(), "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        keeper = a.keeper
        paused = keeper.switch
        async with keeper._writing:  # As while the words are taken.
            lifting = asyncio.create_task(a.desk.carry_out(order(OrderKind.RESUME), BEN))
            await a.until(lambda: bool(keeper._writing._waiters))
            await keeper._adopt(Words(keeper.intents, paused), 0, None)
        await lifting
        await a.until(lambda: keeper.switch is None)


async def test_a_kill_switch_that_was_kept_and_then_dropped_is_critical_until_it_is_seen(tmp_path: Path) -> None:
    world = yard()
    world.cut("a")
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.until(lambda: a.keeper.known.unanswered)
        await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), ANNA)
        async with Service(world, "b", tmp_path / "b", DRAINS) as b:
            await b.driven()
            world.heal("a")
            await a.until(lambda: a.keeper.known.held_by != "" and a.keeper.switch is None)
            await a.until(lambda: any(each.kind == "pause-not-sent" for each in a.events))
            (lost,) = [each for each in a.events if each.kind == "pause-not-sent"]
            assert lost.facts["severity"] == "critical"
            await a.keeper.look_once()
            stands = a.published.page("yard").row.situation
            assert stands.severity is ClusterSeverity.CRITICAL
            assert stands.headline.startswith("the pause of anna never reached the cluster")
            assert "give it there" in stands.headline
            with pytest.raises(
                OrderRefused, match="give the order there; this message is taken away: yard: the pause of anna"
            ):
                await a.desk.carry_out(ServiceOrder(OrderKind.RESUME), ANNA)
            stands = a.published.page("yard").row.situation
            assert "never reached" not in " ".join((stands.headline, *stands.notes))


async def test_what_is_on_one_host_alone_says_so_and_goes_to_the_cluster_within_a_minute(tmp_path: Path) -> None:
    """The fuzz's find: the first write failed once, and what people were promised for ten minutes was lost with the host."""
    world = yard()
    world.log.doubtful = 1.0
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        a.shared.again_s = 60.0
        await a.until(lambda: a.shared.place is WordsPlace.ALONE)
        done = await a.desk.carry_out(order(IntentKind.FREEZE_TOPIC, "t"), ANNA)
        assert "; this host alone has that, until the cluster takes it (" in done.text
        assert not a.shared.to_be_taken
        world.log.doubtful = a.shared._again_at_s = 0.0
        world.tell()
        await a.until(lambda: a.shared.place is WordsPlace.TAKEN)
    async with Service(world, "b", tmp_path / "b", DRAINS) as b:
        await b.driven()
        assert [each.about for each in b.keeper.intents] == ["t"]


async def test_a_pause_is_on_this_host_before_the_cluster_has_refused_it(tmp_path: Path) -> None:
    """An SRE's find: a pause given in an outage was gone after `kill -9`, and nobody was told."""
    world = yard()
    async with Service(world, "a", tmp_path / "a", DRAINS) as a:
        await a.driven()
        with world.lock:  # Whatever asks the topic waits.
            await a.desk.carry_out(ServiceOrder(OrderKind.PAUSE), BEN)
            kept = await a.keeper.records.read(lambda store: store.switches())
        assert [(each.who, each.unsent) for each in kept.values()] == [("ben", True)]
