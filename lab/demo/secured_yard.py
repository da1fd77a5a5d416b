"""The demo on a secured cluster (SASL_SSL, SCRAM, ACLs): the controller moves, and the executor moves back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition

from lab.demo.account import Account, ProvedOrNot, Screen
from lab.demo.executor_process import ExecutorProcess
from lab.demo.kraft_yard import KRaftYard, by_executor
from lab.demo.proof import Leftovers
from lab.demo.secrecy import Secrecy
from lab.demo.stage import (
    FROM,
    READ_BACK_TIMEOUT_S,
    TO,
    TOPICS,
    all_partitions,
    demo_folder,
    original_of,
)
from lab.demo.traffic import Traffic, read_everything
from lab.demo.yard import Yard, main_job
from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, ensure_kafka
from lab.testbed.cluster import ZooKeeperCluster
from shunter.drivers.admin.blocking import BlockingAdmin

BOOTSTRAP_TIMEOUT_MS = 15_000


def run_secured_demo(screen: Screen) -> int:
    """Run both halves; returns the exit status: 0 only if every claim was true."""
    with demo_folder(screen) as stage:
        folder = stage.path
        os.environ["SHUNTER_STATE"] = str(folder / "state")
        screen.step(f"fetching Kafka {ZOOKEEPER_MODE_VERSION} (once; later runs find it in the cache)")
        ensure_kafka(ZOOKEEPER_MODE_VERSION, progress=screen.detail)
        screen.step("starting ZooKeeper, the controller, and four Apache brokers: SASL_SSL, SCRAM-SHA-512, ACLs")
        secrecy = Secrecy(folder / "secrets", FROM + TO)
        yard = Yard(screen, folder, security=secrecy)
        with ZooKeeperCluster(
            folder,
            broker_ids=FROM + TO,
            before_brokers=yard.start_controller,
            properties={"min.insync.replicas": 1, **secrecy.properties()},
            broker_properties=secrecy.broker_properties(),
            progress=screen.detail,
        ) as cluster:
            entrance = secrecy.entrance
            admin = KafkaAdminClient(bootstrap_servers=entrance.bootstrap.split(","), **entrance.admin)
            with yard.stack:
                yard.stack.callback(admin.close)
                secrecy.allow(admin)
                first = main_job(yard, cluster)
                screen.account(first)
                second = _back_by_executor(yard, secrecy, cluster, admin)
                second = replace(second, checks=(*second.checks, *_refusals(screen, secrecy), _secret(yard, secrecy)))
                screen.account(second)
            stage.held = first.holds and second.holds
        return 0 if stage.held else 1


def _back_by_executor(yard: Yard, secrecy: Secrecy, cluster: ZooKeeperCluster, admin: KafkaAdminClient) -> Account:
    """Move everything back to where it began, by the executor, with a user who may only move."""
    entrance = secrecy.entrance
    written = read_everything(entrance.bootstrap, all_partitions(), READ_BACK_TIMEOUT_S, entrance.traffic)
    leftovers = Leftovers(cluster.zookeeper_connect)
    there = {tp: found.replicas for tp, found in leftovers.assignments(list(TOPICS)).items()}
    leftovers.close()
    following = {tp: max(numbers) + 1 for tp, numbers in written.items()}
    traffic = Traffic(entrance.bootstrap, all_partitions(), first=following, client=entrance.traffic)
    yard.stack.callback(traffic.stop)
    traffic.start()
    options = ("--command-config", str(secrecy.command_config("mover")))
    executor = ExecutorProcess(yard.folder / "executor", entrance.bootstrap, options)
    yard.stack.callback(executor.kill)
    targets = {tp: original_of(tp) for tp in all_partitions() if there[tp] != original_of(tp)}
    outside = KRaftYard(yard.screen, yard.folder, entrance, executor, originals=there, targets=targets)
    told = "moving everything back to brokers 1 and 2 by the executor, as a user who may move and no more"
    return by_executor(outside, admin, traffic, told)


def _refusals(screen: Screen, secrecy: Secrecy) -> tuple[ProvedOrNot, ...]:
    """Check that users without rights are refused, with Kafka's errors."""
    screen.step("asking Shunter for what nobody may have")
    move = {ClientPartition(TOPICS[0], 0): [1, 2]}
    asked: tuple[tuple[str, str, Callable[[], object]], ...] = (
        (
            "a wrong password is refused",
            "does not let us in",
            lambda: _moves_seen(secrecy.client("admin", password="guessed")),  # noqa: S106
        ),
        (
            "a stranger's certificate is refused by clients",
            "certificate is not trusted",
            lambda: _moves_seen({**secrecy.client("admin"), "ssl_cafile": None}),
        ),
        (
            "a user who may only write can't move",
            "ClusterAuthorizationFailed",
            lambda: _asked(secrecy.client("clients"), lambda admin: admin.alter_partition_reassignments(move)),
        ),
        (
            "a user who may only move can't delete",
            "TopicAuthorizationFailed",
            lambda: _asked(secrecy.client("mover"), lambda admin: admin.delete_topics([TOPICS[0]])),
        ),
    )
    return tuple(_refused(*each) for each in asked)


def _moves_seen(configuration: dict[str, object]) -> object:
    """List moves as Shunter's verbs do: they report why a login failed, and kafka-python retries until a timeout."""
    with BlockingAdmin({**configuration, "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS}) as admin:
        return admin.list_moves()


def _asked(configuration: dict[str, object], ask: Callable[[KafkaAdminClient], object]) -> object:
    admin = KafkaAdminClient(bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS, **configuration)
    try:
        return ask(admin)
    finally:
        admin.close()


def _refused(claim: str, expected: str, ask: Callable[[], object]) -> ProvedOrNot:
    try:
        found = f"answered: {ask()}"
    except Exception as error:  # noqa: BLE001 - the check looks at any error of the client
        found = f"{type(error).__name__}: {error}"
    return ProvedOrNot(claim, expected in found, found[:120])


def _secret(yard: Yard, secrecy: Secrecy) -> ProvedOrNot:
    """Check that no log, journal or plan holds a password. Given files with passwords, and records, are left out."""
    secret = [password.encode() for password in secrecy.passwords.values()]
    files = [
        path
        for path in yard.folder.rglob("*")
        if path.name != "server.properties" and not {"secrets", "data"} & set(path.relative_to(yard.folder).parts)
    ]
    told = [path for path in files if path.is_file() and any(each in path.read_bytes() for each in secret)]
    found = f"none in {len(files)} files" if not told else ", ".join(map(str, told[:3]))
    return ProvedOrNot("no password is in a log or a journal", not told, found)
