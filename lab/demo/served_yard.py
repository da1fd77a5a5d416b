"""The demo of the service: it balances a KRaft cluster, is killed, heals a dead broker, and drains another one."""

from __future__ import annotations

import asyncio
import os
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from kafka import KafkaAdminClient

from lab.demo.account import ProvedOrNot, Screen, ServedAccount
from lab.demo.cluster_proof import check_journal, check_nothing_ongoing, check_throttles
from lab.demo.executor_process import ExecutorProcess
from lab.demo.proof import check_records
from lab.demo.service_process import PERSON, ServiceProcess
from lab.demo.shares import Shares, shares_of, told_shares, within
from lab.demo.stage import (
    FROM,
    MOST_AT_ONCE,
    MOVE_TIMEOUT_S,
    READ_BACK_TIMEOUT_S,
    THROTTLE_BYTES_PER_S,
    TO,
    TOPICS,
    all_partitions,
    create_topics,
    demo_folder,
    moves_seen,
    start_traffic,
)
from lab.demo.traffic import Traffic, read_everything
from lab.testbed.artifacts import KRAFT_VERSION, ensure_kafka
from lab.testbed.kraft import KRaftCluster
from shunter.app.executor.history import past_executions
from shunter.app.executor.session import Target
from shunter.drivers.admin.inventory import take_inventory
from shunter.errors import DriverError
from shunter.model.inventory import Inventory

NAME = "demo"
DRAINED, DIES = TO
BAND = 0.2
"""How far from the mean a broker's share may be by the policy."""
LOOK_EVERY_S = 0.5
BEGUN = ("starting", "running", "carried-out")
"""States of proposals that were begun and are not over."""
# Conditions such as broker-empty are off, so that one plan balances the cluster; else brokers would be filled in turn.
POLICY = """\
[cluster.{name}]
bootstrap-server = "{bootstrap}"
journal = "{journal}"

[cluster.{name}.balance]
headroom-percent = 0

[cluster.{name}.conditions]
disk-band = {{ minutes = 0, begin-percent = {band:.0f} }}
replicas-band = {{ minutes = 0, begin-percent = {band:.0f} }}
broker-dead = {{ do = "act", minutes = 0 }}
drain = "act"
leaders-band = "off"
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = "off"

[cluster.{name}.execution]
throttle = {throttle}
max-concurrent = {at_once}

[service]
look-seconds = 2
"""


@dataclass(slots=True)
class ServedYard:
    """The parts of this demo, and its results."""

    screen: Screen
    folder: Path
    cluster: KRaftCluster
    service: ServiceProcess
    journal: Path
    admin: KafkaAdminClient
    traffic: Traffic
    started: float = field(default_factory=time.monotonic)
    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    checks: list[ProvedOrNot] = field(default_factory=list[ProvedOrNot])

    def taken(self) -> Inventory:
        """The cluster now, read from its brokers."""
        return take_inventory({"bootstrap_servers": self.cluster.bootstrap.split(",")})

    def claim(self, claim: str, holds: bool, found: str) -> None:
        """Keep one claim, and whether it was proved."""
        self.checks.append(ProvedOrNot(claim, holds, found))


def run_served_demo(screen: Screen, *, keep: bool, opens: bool) -> int:
    """Run the whole demo; returns the exit status: 0 only if every claim was true.

    Args:
        screen: The display.
        keep: Leave cluster and service running at the end.
        opens: Open the page in a browser.
    """
    with demo_folder(screen) as stage:
        folder = stage.path
        os.environ["SHUNTER_STATE"] = str(folder / "state")
        screen.step(f"fetching Kafka {KRAFT_VERSION} (once; later runs find it in the cache)")
        ensure_kafka(KRAFT_VERSION, progress=screen.detail)
        screen.step("starting four Apache brokers, which are their own controllers (KRaft)")
        # The executor's group is in the offsets topic. Two brokers leave, so two replicas of it have to be enough.
        properties = {"min.insync.replicas": 1, "offsets.topic.replication.factor": 2}
        with (
            KRaftCluster(folder, node_ids=FROM + TO, properties=properties, progress=screen.detail) as cluster,
            ExitStack() as stack,
        ):
            yard = _lopsided(screen, folder, cluster, stack)
            _start_service(yard, opens=opens)
            account = _served(yard)
            screen.served(account)
            stage.held = account.holds
            if keep:
                _keep(yard)
        return 0 if stage.held else 1


def _lopsided(screen: Screen, folder: Path, cluster: KRaftCluster, stack: ExitStack) -> ServedYard:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    stack.callback(admin.close)
    screen.step(f"creating {', '.join(TOPICS)} on brokers 1 and 2 alone, and filling them")
    create_topics(admin)
    journal = folder / "executor" / "demo.journal"
    policy = POLICY.format(
        name=NAME,
        bootstrap=cluster.bootstrap,
        journal=journal,
        band=BAND * 100,
        throttle=THROTTLE_BYTES_PER_S,
        at_once=MOST_AT_ONCE,
    )
    journal.parent.mkdir()
    service = ServiceProcess(folder / "service", policy, NAME)
    stack.callback(service.kill)
    traffic = start_traffic(screen, cluster.bootstrap, stack)
    return ServedYard(screen, folder, cluster, service, journal, admin, traffic)


def _start_service(yard: ServedYard, *, opens: bool) -> None:
    yard.screen.step("starting the service: shunter serve keeper.toml --listen 127.0.0.1:0 --tokens tokens.json")
    yard.service.start()
    yard.screen.detail(f"the page: {yard.service.page}")
    if opens:
        webbrowser.open(yard.service.page)


def _served(yard: ServedYard) -> ServedAccount:
    """All acts of the demo, and their results."""
    plan = _proposed(yard)
    _approved_and_killed(yard, plan)
    _broker_dies(yard)
    _drained(yard)
    _read_back(yard)
    _journal_told(yard)
    return ServedAccount(tuple(yard.rows), tuple(yard.checks))


# ---- one act after the other


def _proposed(yard: ServedYard) -> Mapping[str, Any]:
    yard.screen.step("waiting for the keeper: it looks every two seconds, and may propose")
    before = _shares(yard)
    _until(yard, "the keeper proposes a plan", lambda: bool(_plans(yard, "waiting")))
    (plan, *others) = _plans(yard, "waiting")
    yard.screen.detail(f"{plan['id']}: {plan['moves']} replicas to copy, {plan['bytes'] / 1e6:.0f} MB")
    for reason in plan["reasons"][:3]:
        yard.screen.detail(f"because {reason}")
    told = f"{plan['scope']}: {'; '.join(plan['conditions'])}"
    yard.claim("the keeper proposed a balance by itself", plan["scope"] == "rebalance" and not others, told)
    # The keeper goes on looking meanwhile, and no look may begin a move.
    ongoing = check_nothing_ongoing(yard.admin)
    untouched = {broker for each in _ours(yard.taken()) for broker in each.replicas} == set(FROM)
    yard.claim("nothing moved before it was approved", ongoing.holds and untouched, ongoing.found)
    yard.rows.append(("shares of the mean", f"{told_shares(before)} before"))
    return plan


def _approved_and_killed(yard: ServedYard, plan: Mapping[str, Any]) -> None:
    screen, service = yard.screen, yard.service
    screen.step(f"approving it as {PERSON}, through the HTTP API")
    screen.detail(service.order("approve", proposal=plan["id"], comment="the demo approves"))
    counts = _until_moves(yard, lambda seen: seen.get("done", 0) * 4 >= sum(seen.values()) and "moving" in seen)
    screen.step("killing the service with SIGKILL, in the middle of it")
    service.kill()
    killed = time.monotonic()
    left = ExecutorProcess(yard.journal.parent, yard.cluster.bootstrap).order("status")
    told = ", ".join(f"{count} {state}" for state, count in sorted(left["counts"].items()))
    screen.detail(f"shunter status, from the journal: {told}")
    opened = sum(count for state, count in left["counts"].items() if state in ("moving", "pending"))
    yard.claim("it was killed with moves under way", bool(opened) and "moving" in counts, told)
    service.start()
    _until_moves(yard, bool)
    back_s = time.monotonic() - killed
    screen.detail(f"the service drives them again {back_s:.1f} s after the kill; the page is where it was")
    _until(yard, "the plan is carried out", lambda: _state_of(yard, plan["id"]) not in BEGUN)
    state = _state_of(yard, plan["id"])
    yard.claim("the plan that was approved was carried out to its end", state == "done", f"{plan['id']} is {state}")
    (vote,) = next(each for each in _plans(yard) if each["id"] == plan["id"])["votes"]
    yard.claim("the approving person is recorded", vote["who"] == PERSON, f"{vote['who']}: {vote['comment']}")
    shares = _shares(yard)
    yard.claim(f"every broker is within {BAND:.0%} of the mean", within(shares, BAND), told_shares(shares))
    yard.rows += [
        ("", f"{told_shares(shares)} after"),
        ("moved", f"{plan['moves']} replicas, {plan['bytes'] / 1e6:.0f} MB, as approved"),
        ("service back after", f"{back_s:.1f} s"),
    ]


def _broker_dies(yard: ServedYard) -> None:
    screen, node = yard.screen, yard.cluster.nodes[DIES]
    _until(yard, "all replicas are in sync", lambda: _whole(yard.taken()))
    held = sum(DIES in each.replicas for each in yard.taken().partitions)
    screen.step(f"broker {DIES} dies: SIGKILL. The policy lets the keeper act on that by itself")
    node.kill()
    died = time.monotonic()
    _until_gone(yard, DIES, f"broker {DIES} is healed")
    healed_s = time.monotonic() - died
    _until(yard, "a look shows that broker's end", lambda: not _plans(yard, *BEGUN, scope="offline"))
    healing = _plans(yard, "done", scope="offline")
    acted = bool(healing) and all(each["acts"] and not each["votes"] for each in healing)
    told = ", ".join(f"{each['id']}: {each['moves']} replicas" for each in healing) or "none"
    yard.claim("the dead broker's replicas were copied elsewhere without an approval", acted, told)
    yard.rows.append((f"broker {DIES} healed after", f"{healed_s:.1f} s: {held} replicas"))
    screen.detail(
        f"all {held} replicas are in sync elsewhere, {healed_s:.1f} s after its death; it is started again, empty"
    )
    node.start()


def _drained(yard: ServedYard) -> None:
    screen, service = yard.screen, yard.service
    screen.step(f"draining broker {DRAINED}, through the HTTP API, until it is safe to remove")
    asked = time.monotonic()
    screen.detail(service.order("intend", intent="drain", brokers=[DRAINED], comment="it is to be removed"))
    _until(yard, f"broker {DRAINED} is safe to remove", lambda: _safe(yard, DRAINED))
    drained_s = time.monotonic() - asked
    held = [each for each in yard.taken().partitions if DRAINED in each.replicas]
    yard.claim(f"broker {DRAINED} holds nothing when it is shown as safe to remove", not held, f"{len(held)} replicas")
    # A dead broker's throttles are restored once it is up again.
    _until(yard, "all throttles are given back", lambda: check_throttles(yard.admin, TOPICS, FROM + TO).holds)
    yard.checks.append(check_throttles(yard.admin, TOPICS, FROM + TO))
    screen.detail(f"safe to remove after {drained_s:.1f} s; now it is stopped, to see whether that is true")
    yard.cluster.nodes[DRAINED].stop()
    taken = yard.taken()
    found = f"{len(taken.partitions)} partitions, {sum(len(each.isr) for each in taken.partitions)} replicas in sync"
    yard.claim(
        f"without broker {DRAINED} every partition is led and has all its replicas in sync", _whole(taken), found
    )
    yard.rows.append((f"broker {DRAINED} empty after", f"{drained_s:.1f} s"))


def _read_back(yard: ServedYard) -> None:
    yard.screen.step("reading everything back, and looking for leftovers")
    traffic = yard.traffic
    traffic.stop()
    found = read_everything(yard.cluster.bootstrap, all_partitions(), READ_BACK_TIMEOUT_S)
    yard.checks += check_records(traffic.acks, found)
    told = "; ".join(traffic.failures[:2]) or "none"
    yard.claim("no write was refused", not traffic.failures, told)
    # The first client may still take the stopped broker for the controller.
    with closing(KafkaAdminClient(bootstrap_servers=yard.cluster.bootstrap.split(","))) as admin:
        yard.checks.append(check_nothing_ongoing(admin))
    yard.rows += [
        ("records acknowledged", f"{traffic.acked:,}"),
        ("longest ack gap", f"{traffic.longest_gap_s:.2f} s"),
    ]


def _journal_told(yard: ServedYard) -> None:
    """Compare the service's proposals with the executions in the executor's journal."""
    done = sorted(each["id"] for each in _plans(yard, "done"))
    status = yard.service.stop()
    yard.claim("the service ends when it is told to", status == 0, f"exit status {status}")
    _place, executions = asyncio.run(past_executions(Target(yard.cluster.bootstrap, None, yard.journal)))
    plans = sorted(plan for each in executions for plan in each.plans)
    told = f"{len(plans)} plans in the journal, {len(done)} proposals done"
    yard.claim("every proposal was carried out once, and nothing else was", plans == done, told)
    yard.checks.append(check_journal(ExecutorProcess(yard.journal.parent, yard.cluster.bootstrap).order("status")))


# ---- looking


def _until(yard: ServedYard, what: str, holds: Callable[[], bool]) -> None:
    """Wait for something, and show the moves meanwhile.

    Raises:
        DriverError: it took longer than `MOVE_TIMEOUT_S`.
    """
    deadline = time.monotonic() + MOVE_TIMEOUT_S
    pause = Event()
    while not holds():
        if time.monotonic() > deadline:
            told = f"waited {MOVE_TIMEOUT_S:.0f} s in vain until {what}: {yard.service.log_tail()}"
            raise DriverError(told, retriable=False)
        _show(yard)
        pause.wait(LOOK_EVERY_S)


def _until_moves(yard: ServedYard, holds: Callable[[Mapping[str, int]], bool]) -> Mapping[str, int]:
    """Wait until the counts of moves by state satisfy `holds`; returns the counts."""
    seen: list[Mapping[str, int]] = []

    def asked() -> bool:
        seen.append(yard.service.ask("moves")["counts"])
        return holds(seen[-1])

    _until(yard, "moves are under way", asked)
    return seen[-1]


def _until_gone(yard: ServedYard, broker: int, what: str) -> None:
    """Wait until no partition has a replica on a broker, all replicas are in sync, and the healing plan has ended."""

    def gone() -> bool:
        try:
            taken = yard.taken()
        except DriverError:
            return False  # The client may still ask a broker that has just died.
        return _whole(taken) and all(broker not in each.replicas for each in taken.partitions)

    _until(yard, what, gone)
    _until(yard, "the plan that healed it has ended", lambda: not _plans(yard, *BEGUN))


def _show(yard: ServedYard) -> None:
    answer = yard.service.ask("moves")
    seen = moves_seen(
        answer["summary"], answer["counts"], answer["rows"], yard.traffic, yard.started, yard.cluster.bootstrap
    )
    if seen.moving + seen.pending:
        yard.screen.progress(seen)


def _plans(yard: ServedYard, *states: str, scope: str = "") -> list[dict[str, Any]]:
    """Proposals in any of these states (none named: in all), the oldest first."""
    found = [each["proposal"] for each in yard.service.ask("proposals?ended=true")["proposals"]]
    return [
        each
        for each in reversed(found)
        if each["state"] in (states or (each["state"],)) and scope in ("", each["scope"])
    ]


def _state_of(yard: ServedYard, proposal: str) -> str:
    return next((each["state"] for each in _plans(yard) if each["id"] == proposal), "unknown")


def _safe(yard: ServedYard, broker: int) -> bool:
    return any(each["id"] == broker and each["safe_to_remove"] for each in yard.service.ask()["brokers"])


def _ours(taken: Inventory) -> list[Any]:
    return [each for each in taken.partitions if each.topic in TOPICS]


def _whole(taken: Inventory) -> bool:
    """Whether every partition is led, and all its replicas are in sync."""
    return all(each.leader >= 0 and set(each.isr) == set(each.replicas) for each in taken.partitions)


def _shares(yard: ServedYard) -> Shares:
    """Bytes and replicas of each broker. Leaders are left out, because the plan does not balance them."""
    found = shares_of(yard.taken())
    return {what: of for what, of in found.items() if what != "leaders"}


def _keep(yard: ServedYard) -> None:
    yard.screen.step("left running (--keep); ctrl-C ends it")
    yard.service.start()
    yard.screen.detail(f"the page: {yard.service.page}")
    yard.screen.detail(f"brokers: {yard.cluster.bootstrap}; broker {DRAINED} is stopped")
    try:
        Event().wait()
    except KeyboardInterrupt:
        yard.screen.detail("ending")
