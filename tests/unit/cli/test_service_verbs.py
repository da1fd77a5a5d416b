"""Verbs that speak to a service: which one is meant, what is sent, and what is refused before anybody is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.service import place
from shunter.drivers.service.service_api import ServiceServer
from shunter.model.service import IntentKind, OrderDone, OrderKind, ServiceOrder

MOVES = [
    {"partition": "orders-0", "whose": "ours", "state": "moving"},
    {"partition": "orders-1", "whose": "ours", "state": "paused"},
    {"partition": "orders-2", "whose": "ours", "state": "done"},
    {"partition": "orders-3", "whose": "external", "state": "moving"},
    {"partition": "audit-0", "whose": "ours", "state": "moving"},
]


PLANNED = {
    "id": "drain-1",
    "moves": 7,
    "bytes": 70,
    "least_bytes": None,
    "rollback_bytes": 70,
    "made_at_ms": 0,
    "reasons": [],
    "held_back": [],
    "brokers": [],
}


class Service:
    """The places that were asked, and the orders that they got."""

    def __init__(self) -> None:
        self.places: list[object] = []
        self.orders: list[ServiceOrder] = []
        self.signed: list[tuple[str, str]] = []
        self.bytes = 0
        self.undone: list[str] = []
        self.changes = False

    def at(self, server: ServiceServer) -> Self:
        self.places.append(server)
        return self

    def fleet(self) -> Any:
        return {"clusters": [{"name": "prod"}]}

    def moves(self, _cluster: str) -> Any:
        return iter(MOVES)

    def preview(self, _order: ServiceOrder) -> Any:
        return {"text": "told", "bytes": self.bytes}

    def sketch(self, _order: ServiceOrder, *, changes: bool) -> Any:
        self.changes = changes
        return {"proposal": {**PLANNED, "undone": self.undone}}

    def order(self, order: ServiceOrder, comment: str, key: str) -> OrderDone:
        self.orders.append(order)
        self.signed.append((comment, key))
        return OrderDone("done")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    made = Service()
    monkeypatch.setattr(place, "ServiceClient", made.at)
    monkeypatch.setenv("SHUNTER_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("SHUNTER_SERVICE", raising=False)
    (tmp_path / "config.toml").write_text(
        '[cluster.prod]\nbootstrap-server = "127.0.0.1:1"\nservice = "https://keeper:8090"\ntoken-file = "secret"\n'
        '[cluster.test]\nbootstrap-server = "127.0.0.1:1"\n'
    )
    return made


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


TURNS = {"stop": OrderKind.STOP, "rollback": OrderKind.ROLL_BACK, "pause": OrderKind.PAUSE, "resume": OrderKind.RESUME}


@pytest.mark.parametrize("verb", TURNS)
def test_the_ordinary_verbs_speak_to_a_service_that_is_named(service: Service, verb: str) -> None:
    done = run(verb, "orders-3", "--service", "/run/service.sock", "--yes", "--comment", "why", "--key", "k")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "done"), done.output
    assert service.orders == [ServiceOrder(TURNS[verb], "prod", partitions=("orders-3",))]
    assert (service.signed, {*service.places}) == ([("why", "k")], {ServiceServer(Path("/run/service.sock"))})


def test_the_kill_switch_is_a_pause_of_nothing_by_name_and_never_asks(service: Service) -> None:
    service.bytes = 5
    assert run("pause", "--service", "s").exit_code == 0
    assert run("resume", "--service", "s", "--cluster", "prod").exit_code == 0
    assert service.orders == [ServiceOrder(OrderKind.PAUSE), ServiceOrder(OrderKind.RESUME, "prod")]


def test_what_is_copied_again_is_said_before(service: Service) -> None:
    assert run("pause", "orders-0", "--service", "s").exit_code == 0, "nothing is lost by it"
    service.bytes = 5
    asked = run("pause", "orders-0", "--service", "s")
    assert (asked.exit_code, len(service.orders)) == (ExitCode.USAGE, 1)
    assert "told. No question can be asked here" in asked.output


def test_topics_and_plans_are_the_open_moves_of_the_service(service: Service) -> None:
    assert run("stop", "--topic", "orders", "--service", "s", "--yes").exit_code == 0
    assert service.orders[0].partitions == ("orders-0", "orders-1")
    nothing = run("stop", "--topic", "nothing", "--service", "s", "--yes")
    assert (nothing.exit_code, len(service.orders)) == (ExitCode.REFUSED, 1)


def test_limits_are_one_order(service: Service) -> None:
    assert run("limit", "20M", "--max-in", "4", "--service", "s").exit_code == 0
    assert run("limit", "none", "--service", "s").exit_code == 0
    assert run("limit", "--service", "s").exit_code == ExitCode.USAGE
    assert service.orders == [
        ServiceOrder(OrderKind.LIMIT, "prod", bytes_per_s=20_000_000, max_in=4),
        ServiceOrder(OrderKind.LIMIT, "prod", bytes_per_s=0),
    ]


def test_throttles_that_were_left_are_cleared_by_the_service(service: Service) -> None:
    assert run("throttles", "clear", "--service", "s").exit_code == 0
    assert service.orders == [ServiceOrder(OrderKind.CLEAR_THROTTLES, "prod")]


def test_a_profile_names_the_service_of_its_cluster(service: Service, tmp_path: Path) -> None:
    assert run("stop", "--cluster", "prod", "--yes").exit_code == 0
    assert service.orders == [ServiceOrder(OrderKind.STOP, "prod")]
    assert {*service.places} == {ServiceServer("https://keeper:8090", tmp_path / "secret", None, False)}
    assert run("approve", "p-1", "--cluster", "prod").exit_code == 0
    assert service.orders[1:] == [ServiceOrder(OrderKind.APPROVE, "prod", proposal="p-1")]


def test_the_token_of_a_profile_is_not_sent_to_another_service(service: Service) -> None:
    assert run("approve", "p-1", "--cluster", "prod", "--service", "http://elsewhere:1").exit_code == 0
    assert {*service.places} == {ServiceServer("http://elsewhere:1", None, None, False)}
    assert service.orders[0].cluster == "prod"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("stop", "--cluster", "test"), "journal"),
        (("stop", "--bootstrap-server", "127.0.0.1:1"), "journal"),
        (("stop", "--cluster", "prd"), "names no cluster 'prd'"),
        (("stop", "--leave", "--service", "s"), "--leave is for an executor, and --service names a service"),
        (("stop", "--journal", "j", "--service", "s"), "--journal is for an executor"),
        (("stop", "--cluster", "test", "--comment", "why"), "--comment is for a service: name one by --service"),
        (("serve", "status", "--service", "s", "--cluster", "prd"), "has no such cluster; it has prod"),
        (("stop", "--service", "s", "--ca-file", "x"), "are for a --service with an address"),
        (("approve", "p", "--plain-http"), "are for a --service with an address"),
    ],
)
def test_the_driver_is_meant_unless_a_service_is_named(service: Service, words: tuple[str, ...], told: str) -> None:
    done = run(*words, "--yes") if words[0] == "stop" else run(*words)
    assert (done.exit_code != 0, service.orders) == (True, []), done.output
    assert told in done.output or told == "journal"


def test_intents_are_given_and_withdrawn(service: Service) -> None:
    for words in (
        ("intend", "drain", "3,7", "8"),
        ("intend", "replace", "3=7"),
        ("intend", "replication", "orders", "audit", "--replicas", "3"),
        ("intend", "hold", "rebalance"),
        ("withdraw", "replace", "3"),
        ("withdraw", "freeze-topic", "logs-*"),
    ):
        assert run(*words, "--service", "s").exit_code == 0, words
    give, back = OrderKind.INTEND, OrderKind.WITHDRAW
    assert service.orders == [
        ServiceOrder(give, "prod", IntentKind.DRAIN, brokers=(3, 7, 8)),
        ServiceOrder(give, "prod", IntentKind.REPLACE, replacements=((3, 7),)),
        ServiceOrder(give, "prod", IntentKind.REPLICATION, topics=("orders", "audit"), replicas=3),
        ServiceOrder(give, "prod", IntentKind.HOLD, scope="rebalance"),
        ServiceOrder(back, "prod", IntentKind.REPLACE, brokers=(3,)),
        ServiceOrder(back, "prod", IntentKind.FREEZE_TOPIC, topics=("logs-*",)),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("intend", "drain", "three"), "'three': brokers are wanted, as 3 or 3,7"),
        (("intend", "replace", "3"), "'3': pairs OLD=NEW are wanted, as 3=7"),
        (("intend", "hold", "drain", "fill"), "one scope is wanted"),
        (("intend", "explode", "3"), "'explode' is not one of 'drain'"),
        (("withdraw", "drain"), "Missing argument 'ITEMS...'"),
        (("propose", "rebalance", "--band-percent", "100"), "is not in the range 0<x<100"),
    ],
)
def test_what_makes_no_sense_is_not_sent(service: Service, words: tuple[str, ...], told: str) -> None:
    done = run(*words, "--service", "s")
    assert (done.exit_code, service.orders) == (ExitCode.USAGE, []), done.output
    assert told in done.output.replace("\n", " ")


def test_a_dry_run_says_what_its_plan_leaves_undone(service: Service) -> None:
    words = ("propose", "drain", "1,2,3,4", "--dry-run", "--service", "s")
    assert run(*words).exit_code == ExitCode.DONE
    service.undone = ["t-0 stays on broker 1: too few brokers are left"]
    done = run(*words)
    assert (done.exit_code, service.orders) == (ExitCode.PARTLY, [])
    assert "  left undone: t-0 stays on broker 1: too few brokers are left\n" in done.output
    assert " at the most, by the observation of 1970-01-01 00:00 UTC\n" in done.output
    assert run(*words, "--json").exit_code == ExitCode.PARTLY
    assert service.changes, "for a program the plan comes with its partitions"


def test_a_verb_without_a_place_names_the_service_too(service: Service) -> None:
    done = run("pause")
    assert (done.exit_code, service.orders) == (ExitCode.USAGE, [])
    assert "SHUNTER_SERVICE" in done.output.replace("\n", " ")


def test_a_plan_has_the_fields_of_its_scope(service: Service) -> None:
    for words in (
        ("propose", "replace", "3=7", "--most-moves", "5", "--without-topics", "a,b-*"),
        ("propose", "move", "orders-3", "--to", "4,5"),
        ("propose", "disks"),
    ):
        assert run(*words, "--service", "s").exit_code == 0, words
    kind = OrderKind.PROPOSE
    assert service.orders == [
        ServiceOrder(kind, "prod", scope="replace", replacements=((3, 7),), most_moves=5, without_topics=("a", "b-*")),
        ServiceOrder(kind, "prod", scope="move", partitions=("orders-3",), to=(4, 5)),
        ServiceOrder(kind, "prod", scope="disks"),
    ]
