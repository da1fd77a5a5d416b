"""The demo on a KRaft cluster: the executor moves, is killed, goes on, stops one move, and rolls another one back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import orjson
from kafka import KafkaAdminClient

from lab.demo.account import Account, ProvedOrNot, Screen
from lab.demo.cluster_proof import assignments_of, check_journal, check_nothing_ongoing, check_throttles
from lab.demo.entrance import WayIn
from lab.demo.executor_process import ExecutorProcess
from lab.demo.proof import check_assignments, check_records
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
    original_of,
    start_traffic,
    target_of,
)
from lab.demo.traffic import Traffic, read_everything
from lab.testbed.artifacts import KRAFT_VERSION, ensure_kafka
from lab.testbed.kraft import KRaftCluster
from shunter.app.exit_codes import ExitCode
from shunter.errors import DriverError
from shunter.model.partition import Replicas, TopicPartition

LOOK_EVERY_S = 0.5


@dataclass(slots=True)
class KRaftYard:
    """The parts of this demo."""

    screen: Screen
    folder: Path
    entrance: WayIn
    executor: ExecutorProcess
    originals: Mapping[TopicPartition, Replicas] = field(
        default_factory=lambda: {tp: original_of(tp) for tp in all_partitions()}
    )
    targets: Mapping[TopicPartition, Replicas] = field(
        default_factory=lambda: {tp: target_of(tp) for tp in all_partitions()}
    )
    started: float = field(default_factory=time.monotonic)


def run_kraft_demo(screen: Screen, *, keep: bool) -> int:
    """Run the whole demo; returns the exit status: 0 only if every claim was true."""
    with demo_folder(screen) as stage:
        folder = stage.path
        os.environ["SHUNTER_STATE"] = str(folder / "state")
        screen.step(f"fetching Kafka {KRAFT_VERSION} (once; later runs find it in the cache)")
        ensure_kafka(KRAFT_VERSION, progress=screen.detail)
        screen.step("starting four Apache brokers, which are their own controllers (KRaft)")
        with KRaftCluster(
            folder, node_ids=FROM + TO, properties={"min.insync.replicas": 1}, progress=screen.detail
        ) as cluster:
            executor = ExecutorProcess(folder / "executor", cluster.bootstrap)
            yard = KRaftYard(screen, folder, WayIn(cluster.bootstrap), executor)
            with ExitStack() as stack:
                stack.callback(yard.executor.kill)
                account = _main_job(yard, stack)
                screen.account(account)
            stage.held = account.holds
            if keep:
                _keep(yard)
        return 0 if stage.held else 1


def _main_job(yard: KRaftYard, stack: ExitStack) -> Account:
    admin = KafkaAdminClient(bootstrap_servers=yard.entrance.bootstrap.split(","))
    stack.callback(admin.close)
    yard.screen.step(f"creating {', '.join(TOPICS)} on brokers 1 and 2, and filling them")
    create_topics(admin)
    traffic = start_traffic(yard.screen, yard.entrance.bootstrap, stack)
    return by_executor(
        yard, admin, traffic, "moving every partition of brokers 1 and 2 to 3 and 4, one replica at a time"
    )


def by_executor(yard: KRaftYard, admin: KafkaAdminClient, traffic: Traffic, told: str) -> Account:
    """Move everything by the executor, kill it, resume, stop one move, roll one back, and prove; ends the traffic."""
    screen, executor, targets = yard.screen, yard.executor, yard.targets
    yard.started = time.monotonic()
    screen.step(told)
    options = ("--throttle", str(THROTTLE_BYTES_PER_S), "--max-concurrent", str(MOST_AT_ONCE), "--yes")
    executor.start("execute", str(_write_plan(yard)), *options)
    screen.detail(f"replication throttle: {THROTTLE_BYTES_PER_S / 1e6:.0f} MB/s for each broker, set by the executor")
    view = _watch(yard, traffic, lambda seen: seen["counts"].get("done", 0) * 3 >= len(targets))
    back_s = _kill_and_go_on(yard, traffic)
    stopped, rolled_back = _interrupt(yard, traffic)
    view = _watch(yard, traffic, lambda seen: not seen["running"])
    status = _end(yard)
    moving_s = time.monotonic() - yard.started
    screen.step("reading everything back, and looking for leftovers")
    traffic.stop()
    found = read_everything(yard.entrance.bootstrap, all_partitions(), READ_BACK_TIMEOUT_S, yard.entrance.traffic)
    assignments = assignments_of(admin, TOPICS)
    checks = (
        *check_records(traffic.acks, found),
        *check_assignments(assignments, targets, yard.originals, stopped, rolled_back),
        check_nothing_ongoing(admin),
        check_throttles(admin, TOPICS, FROM + TO),
        check_journal(executor.order("status")),
        ProvedOrNot("the executor says that two moves were turned", status == ExitCode.TURNED, f"exit status {status}"),
        ProvedOrNot("no write was refused", not traffic.failures, "; ".join(traffic.failures[:2]) or "none"),
    )
    return Account(
        moved=len(targets) - 2,
        stopped=f"{stopped} at {list(assignments[stopped].replicas)}",
        rolled_back=f"{rolled_back} to {list(assignments[rolled_back].replicas)}",
        records_acked=traffic.acked,
        longest_ack_gap_s=traffic.longest_gap_s,
        moving_s=moving_s,
        killed="executor",
        back_s=back_s,
        bytes_copied=int(view["copied_bytes"]),
        checks=checks,
    )


def _write_plan(yard: KRaftYard) -> Path:
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(target)} for tp, target in yard.targets.items()
    ]
    path = yard.folder / "plan.json"
    path.write_bytes(orjson.dumps({"version": 1, "partitions": partitions}))
    return path


def _watch(yard: KRaftYard, traffic: Traffic, over: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """Show the moves until `over`, or until the executor ended by itself; returns the last view.

    Raises:
        DriverError: it took longer than `MOVE_TIMEOUT_S`, or the executor failed.
    """
    deadline = time.monotonic() + MOVE_TIMEOUT_S
    pause = Event()
    while True:
        ended = yard.executor.ended()
        view = yard.executor.look()
        if view is not None and view["counts"]:
            seen = moves_seen(view, view["counts"], view["moves"], traffic, yard.started, yard.entrance.bootstrap)
            yard.screen.progress(seen)
            if over(view):
                return view
        if ended is not None:
            if view is None or ended not in (ExitCode.DONE, ExitCode.TURNED):
                told = f"the executor ended with status {ended}: {yard.executor.log_tail()}"
                raise DriverError(told, retriable=False)
            return view
        if time.monotonic() > deadline:
            raise DriverError(f"the moves did not come to an end within {MOVE_TIMEOUT_S:.0f} s", retriable=False)
        pause.wait(LOOK_EVERY_S)


def _kill_and_go_on(yard: KRaftYard, traffic: Traffic) -> float:
    yard.screen.step("killing the executor with SIGKILL, in the middle of it")
    killed = time.monotonic()
    yard.executor.kill()
    told = yard.executor.order("status")
    left = ", ".join(f"{count} {state}" for state, count in sorted(told["counts"].items()))
    yard.screen.detail(f"shunter status, from the journal: driven by no executor; {left}")
    killed_after_s = time.monotonic() - killed
    resumed = time.monotonic()
    yard.executor.start("resume")
    _watch(yard, traffic, lambda seen: bool(seen["counts"]))
    back_s = time.monotonic() - resumed
    yard.screen.detail(f"shunter resume: it goes on after {back_s:.1f} s ({killed_after_s:.1f} s went into the look)")
    return time.monotonic() - killed


def _interrupt(yard: KRaftYard, traffic: Traffic) -> tuple[TopicPartition, TopicPartition]:
    yard.screen.step("stopping one move and rolling another one back, from another shell")
    stopped = _turn_one(yard, traffic, "stop", ())
    yard.screen.detail(f"stopped: {stopped}")
    rolled_back = _turn_one(yard, traffic, "rollback", (stopped,))
    yard.screen.detail(f"being rolled back: {rolled_back}")
    return stopped, rolled_back


def _turn_one(yard: KRaftYard, traffic: Traffic, verb: str, sparing: tuple[TopicPartition, ...]) -> TopicPartition:
    """Turn the move that began last. If it is over before the order, try another one."""
    for _attempt in all_partitions():
        view = _watch(yard, traffic, lambda seen: bool(_moving(seen, sparing)))
        moving = _moving(view, sparing)
        if not moving:
            break
        tp = moving[-1]
        consent = ("--yes",) if verb == "rollback" else ()
        if yard.executor.order(verb, str(tp), *consent)["accepted"]:
            return tp
    raise DriverError("all moves were over before one could be stopped and one rolled back", retriable=True)


def _moving(view: Mapping[str, Any], sparing: tuple[TopicPartition, ...]) -> list[TopicPartition]:
    """Moves that have begun and were not turned yet, in the plan's order."""
    found: list[TopicPartition] = []
    for row in view["moves"]:
        topic, _dash, number = str(row["partition"]).rpartition("-")
        tp = TopicPartition(topic, int(number))
        if row["state"] == "moving" and row["direction"] == "forward" and tp not in sparing:
            found.append(tp)
    return found


def _end(yard: KRaftYard) -> int:
    """Wait until the executor has restored throttles and ended; returns its exit status."""
    deadline = time.monotonic() + MOVE_TIMEOUT_S
    pause = Event()
    while (status := yard.executor.ended()) is None:
        if time.monotonic() > deadline:
            raise DriverError("the executor did not end after its last move", retriable=False)
        pause.wait(0.1)
    return status


def _keep(yard: KRaftYard) -> None:
    yard.screen.step("left running (--keep); ctrl-C ends it")
    yard.screen.detail(f"brokers: {yard.entrance.bootstrap}")
    where = f"--bootstrap-server {yard.entrance.bootstrap} --journal {yard.executor.journal}"
    yard.screen.detail(f"try: shunter status {where}")
    yard.screen.detail(f"or another plan: shunter execute PLAN --throttle 2M {where}")
    try:
        Event().wait()
    except KeyboardInterrupt:
        yard.screen.detail("ending")
