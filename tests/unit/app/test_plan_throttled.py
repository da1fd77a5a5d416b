"""Which throttles at brokers count for a plan: the verb and the service leave out those of their own journal."""

import asyncio
import json
from typing import Any

import pytest

from shunter.app import doctor
from shunter.app.evaluation.observation import sighting_of
from shunter.app.executor.session import LoadedJournal, Target
from shunter.app.planning import live
from shunter.app.planning.plan import PlanOptions
from shunter.core.executor.state import ExecutorState, GivenBack, Throttle
from shunter.core.executor.throttling.debts import own_rates
from shunter.core.keeper.proposals import planned_for
from shunter.core.planning.request import PlanRequest, Scope
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from shunter.drivers.host.clock import SystemClock
from shunter.model.check_up import CheckedJournal, CheckUp
from shunter.model.execution import ThrottleKey
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.model.keeper import KeeperPolicy

NO_CHECK_UP = CheckUp("yard", 1, "Apache (KRaft)", (), (), {}, ())
RATE = 20_000
STATE = ExecutorState(
    throttles={
        ThrottleKey("broker", "3", FOLLOWER_RATE): Throttle(None, str(RATE), {str(RATE), "30000"}),
        ThrottleKey("topic", "t", LEADER_REPLICAS): Throttle(None, "0:4", {"0:4"}),
    },
    given_back={ThrottleKey("broker", "4", LEADER_RATE): GivenBack({"500"}, 1_000)},
)
OFFLINE = PlanRequest(Scope.OFFLINE)


def yard(*held: int, untold: tuple[tuple[int, str], ...] = ()) -> Inventory:
    """Broker 5 is dead; 1 and 2 hold all other replicas, and 3 and 4 may receive. `held`: brokers under a throttle."""
    brokers = [
        InventoryBroker(each, "h", None, None, None, throttle=RATE if each in held else None) for each in (1, 2, 3, 4)
    ]
    rows = [InventoryPartition("t", None, at, (1, 2, 5), (1, 2), 1, 0, 1, 1, ((1, 5 << 20),), (5,)) for at in range(4)]
    return Inventory("yard", 0, tuple(brokers), tuple(rows), untold_throttles=untold)


def by_verb(
    monkeypatch: pytest.MonkeyPatch, seen: Inventory, opened: live.OpenGoals | None = None
) -> tuple[set[int], tuple[str, ...]]:
    """Which brokers receive by `shunter plan --scope offline`, and its notes."""
    monkeypatch.setattr(live, "take_inventory", lambda _configuration, **_asked: seen)
    made = live.plan_cluster("k:9092", None, PlanOptions(scope="offline"), None, opened)
    rows = json.loads(made.planned.reassignment)["partitions"]
    return {each["replicas"][2] for each in rows}, (*made.planned.plan.notes, *made.notes)


def by_service(seen: Inventory, journal: CheckedJournal) -> tuple[set[int], tuple[str, ...]]:
    made = planned_for(OFFLINE, sighting_of(seen, NO_CHECK_UP, journal, ()), KeeperPolicy())
    return {each.replicas[2] for each in made.changes}, made.undone


def test_own_rates_are_those_of_the_journal_and_for_a_while_those_that_it_gave_back() -> None:
    assert own_rates(STATE, 1_000) == {(3, RATE), (3, 30_000), (4, 500)}
    assert own_rates(STATE, 10_000_000) == {(3, RATE), (3, 30_000)}


def test_somebodys_throttle_counts_and_the_journals_own_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_rates(STATE, SystemClock().now_ms())
    journal = CheckedJournal("j", rates=own)
    assert by_verb(monkeypatch, yard())[0] == by_service(yard(), journal)[0] == {3, 4}
    assert by_verb(monkeypatch, yard(3), live.OpenGoals(rates=own))[0] == by_service(yard(3), journal)[0] == {3, 4}
    told = "somebody else's throttle holds broker {} to 20.0 kB/s: it would get only what no other broker may take"
    for receivers, notes in (by_verb(monkeypatch, yard(3)), by_service(yard(3), CheckedJournal("j"))):
        assert receivers == {4}
        assert told.format(3) in notes
    for receivers, notes in (by_verb(monkeypatch, yard(4), live.OpenGoals(rates=own)), by_service(yard(4), journal)):
        assert receivers == {3}
        assert told.format(4) in notes


def test_what_is_not_known_of_throttles_is_told_and_does_not_stop_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = yard(untold=((3, "no answer came in time"),))
    told = "whether a throttle holds broker 3 is not known, so the plan takes it for none: no answer came in time"
    for receivers, notes in (by_verb(monkeypatch, seen), by_service(seen, CheckedJournal("j"))):
        assert receivers == {3, 4}
        assert told in notes


class Place:
    """A journal that exists."""

    topic = None

    def exists(self) -> bool:
        return True

    def __str__(self) -> str:
        return "j"


def test_verb_and_service_learn_their_own_rates_from_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def holder_of(_target: Target) -> tuple[Any, None]:
        return Place(), None

    monkeypatch.setattr(live, "holder_of", holder_of)
    monkeypatch.setattr(live, "read_journal", lambda _place: (STATE, None))
    assert asyncio.run(live.open_goals(Target("k:9092"))).rates == {(3, RATE), (3, 30_000)}
    monkeypatch.setattr(doctor, "load_journal", lambda _place: LoadedJournal((), STATE, None))
    place: Any = Place()
    journal, _loaded, _seen = asyncio.run(doctor._look_into_journal(place, "", NO_CHECK_UP, 0))
    assert journal.rates == {(3, RATE), (3, 30_000)}
