"""An unanswered request is sent again while a broker can be asked; a refusal is reported at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError

from shunter.drivers.admin import cluster
from shunter.drivers.admin.answers import NotSet
from shunter.drivers.admin.cluster import KafkaPythonAdmin
from shunter.drivers.admin.metadata import MetadataObserver
from shunter.drivers.admin.protocol import StillOurs, always
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

RATES = [ThrottleKey("broker", name, "leader.replication.throttled.rate") for name in "12"]
WANTED: dict[ThrottleKey, str | None] = dict.fromkeys(RATES, "5")
SILENT, REFUSED = NotSet("no answer", refused=False), NotSet("PolicyViolation", refused=True)


class Cluster(KafkaPythonAdmin):
    """Answers each write as the test says; a broker dies after so many writes."""

    def __init__(self, answers: Sequence[dict[ThrottleKey, NotSet]], *, second_dies: bool = False) -> None:
        self.answers = list(answers)
        self.second_dies = second_dies
        self.asked: list[list[ThrottleKey]] = []

    async def write_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        await still_ours()
        self.asked.append([key for key, _value in settings])
        return self.answers.pop(0)

    async def brokers(self) -> dict[BrokerId, str | None]:
        return {1: None} if self.second_dies else {1: None, 2: None}

    async def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return dict.fromkeys(settings, "taken, but broker 2 did not apply it")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AGAIN_S", 0.0)


async def test_only_what_nobody_answered_for_is_asked_again() -> None:
    admin = Cluster([{RATES[1]: SILENT}, {RATES[1]: SILENT}, {}])
    assert await admin.write_patiently(WANTED) == {}
    assert admin.asked == [RATES, RATES[1:], RATES[1:]]


async def test_a_refusal_is_told_at_once() -> None:
    admin = Cluster([{RATES[0]: SILENT, RATES[1]: REFUSED}])
    assert await admin.write_patiently(WANTED) == {RATES[0]: SILENT, RATES[1]: REFUSED}


async def test_what_was_taken_and_is_not_shown_yet_was_not_refused() -> None:
    """Found by simulation (seed 99002444): the executor took one for the other."""
    missing = await Cluster([{RATES[0]: REFUSED}]).alter_settings(list(WANTED.items()))
    assert missing == {RATES[0]: REFUSED, RATES[1]: NotSet("taken, but broker 2 did not apply it", refused=False)}


async def test_a_dead_broker_is_not_waited_for() -> None:
    admin = Cluster([dict.fromkeys(RATES, SILENT), {}], second_dies=True)
    assert await admin.write_patiently(WANTED) == {RATES[1]: SILENT}
    assert admin.asked == [RATES, RATES[:1]]


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 0.0)
    assert await Cluster([{RATES[0]: SILENT}]).write_patiently(WANTED) == {RATES[0]: SILENT}


class Broken(KafkaPythonAdmin):
    """A client whose calls fail one after the other as the test says, and then succeed."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls = 0
        self._client = self
        self._threads = ThreadPoolExecutor(1)
        self._observer = MetadataObserver()
        self._manager = SimpleNamespace(cluster=SimpleNamespace(brokers=list))

    def list_topics(self) -> list[str]:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return ["t"]


REFUSES, LEFT_ALONE = KafkaConnectionError("111 ECONNREFUSED"), NodeNotReadyError(4)


async def test_a_request_that_a_dead_broker_did_not_take_goes_to_another_one() -> None:
    """The library chooses any known broker: a dead broker stays in metadata until its session ends."""
    broken = Broken(REFUSES, LEFT_ALONE)
    assert await broken.topic_names() == ["t"]
    assert broken.calls == 3


async def test_where_nobody_is_there_the_first_failure_is_told() -> None:
    broken = Broken(REFUSES, LEFT_ALONE, LEFT_ALONE, LEFT_ALONE)
    with pytest.raises(DriverError, match="Metadata failed: the connection failed: 111 ECONNREFUSED"):
        await broken.topic_names()
    assert broken.calls == 3


@pytest.mark.parametrize("failure", [KafkaConnectionError("socket disconnected"), RequestTimedOutError()])
async def test_what_may_have_been_sent_is_not_sent_again(failure: Exception) -> None:
    broken = Broken(failure)
    with pytest.raises(DriverError, match="Metadata failed"):
        await broken.topic_names()
    assert broken.calls == 1


async def test_a_tool_goes_on_until_it_meets_a_broker_that_is_alive() -> None:
    """A KRaft cluster names any broker as its controller, also a dead one, and often three times in a row."""
    broken = Broken(*[REFUSES, LEFT_ALONE, KafkaConnectionError("socket disconnected")] * 4)
    broken.patient = True
    assert await broken.topic_names() == ["t"]
    assert broken.calls == 13


async def test_a_tool_that_gives_up_says_which_brokers_it_knows_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setattr(cluster, "UNSENT_FOR_S", 0.0)
    broken = Broken(*[REFUSES] * 9)
    broken.patient = True
    broken._configuration = {"bootstrap_servers": f"127.0.0.1:{free_port}"}
    told = f"known, 127.0.0.1:{free_port} refuses connections: nothing listens there"
    with pytest.raises(DriverError, match=told):
        await broken.topic_names()


class Stuck:
    """The library's client for a dead broker: every request waits until the client is closed, and then fails."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def list_topics(self) -> list[str]:
        self._closed.wait()
        raise KafkaConnectionError("closed")

    describe_cluster = list_topics


class Alive:
    """The library's client for a broker that answers."""

    def list_topics(self) -> list[str]:
        return ["t"]

    def describe_cluster(self) -> dict[str, Any]:
        return {"cluster_id": "yard", "brokers": [{"broker_id": 1, "rack": None}]}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (KafkaPythonAdmin.topic_names, ["t"]),
        (KafkaPythonAdmin.cluster_id, "yard"),
        (KafkaPythonAdmin.brokers, {1: None}),
    ],
)
async def test_a_request_is_repeated_with_the_client_that_replaced_the_stuck_one(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[KafkaPythonAdmin], Awaitable[Any]], answer: Any
) -> None:
    monkeypatch.setattr(cluster, "UNSENT_FOR_S", 1.0)
    clients: list[Any] = [Stuck(), Alive()]
    monkeypatch.setattr(cluster, "connected", lambda _configuration: clients.pop(0))
    admin = KafkaPythonAdmin({"bootstrap_servers": "127.0.0.1:1"})
    admin.patient = True
    asking = asyncio.ensure_future(ask(admin))
    with pytest.raises(DriverError, match="was not answered within 0 s"):
        await admin.ask("Metadata", "", lambda client: client.list_topics(), within_s=0.05)
    assert await asking == answer
