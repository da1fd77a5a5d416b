"""A ZooKeeper-mode cluster under two of Shunter's controllers, with moves that are begun, replaced and cancelled."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from lab.demo.account import ProvedOrNot
from lab.demo.proof import Leftovers
from lab.soak.yard import BROKERS, HEAVY, PARTITIONS, PROPERTIES, SETTLED_WITHIN_S, Soak, Work
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.process import run_bounded
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LISTS
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions
from shunter.errors import DriverError, RequestRejected
from shunter.model.execution import ThrottleKey
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Intervention

CONTROLLERS = (1000, 1001)
SESSION_MS = 6_000
LEADS_WITHIN_S = 90.0
COMMAND_WITHIN_S = 90.0
RATES = (100_000, 200_000, 500_000, 1_000_000)
CANCELS = (None, Intervention.ROLL_BACK, Intervention.STOP)


class Expected:
    """The replicas that each partition may have at rest, by what the controller answered. None: any."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, set[Replicas] | None] = {}
        self._origins: dict[TopicPartition, set[Replicas] | None] = {}
        self.lost: list[str] = []

    def rests(self, tp: TopicPartition, replicas: Replicas) -> None:
        """Nothing moves this partition now: its last move ended as it should, or was lost."""
        ends = self._ends.get(tp)
        if ends is not None and replicas not in ends:
            self.lost.append(f"{tp} is at {list(replicas)}, expected: {sorted(ends)}")
        self._ends[tp], self._origins[tp] = {replicas}, {replicas}

    def moves(self, tp: TopicPartition, target: Replicas, *, surely: bool) -> None:
        """A move was asked for. If another one was under way, that one's target may have been reached before."""
        ends, origins = self._ends.get(tp), self._origins.get(tp)
        self._origins[tp] = None if ends is None or origins is None else origins | ends
        self._ends[tp] = {target} if surely else None if ends is None else ends | {target}

    def turns(self, tp: TopicPartition, mode: Intervention | None, *, surely: bool) -> None:
        """A move was rolled back, or stopped where it was."""
        ends, origins = self._ends.get(tp), self._origins.get(tp)
        back = None if mode is Intervention.STOP else origins
        self._ends[tp] = back if surely or back is None or ends is None else ends | back

    def forget(self, topic: str) -> None:
        """The topic was deleted, or may have been."""
        for tp in [each for each in self._ends if each.topic == topic]:
            del self._ends[tp], self._origins[tp]


class ControlledSoak(Soak):
    """One ZooKeeper, three brokers of 3.9, a leading controller and a standby."""

    name = "controlled"

    def __init__(self, out: Path, seed: int, minutes: float) -> None:
        super().__init__(out, seed, minutes)
        self.cluster = ZooKeeperCluster(
            self.folder,
            broker_ids=BROKERS,
            properties=PROPERTIES,
            heap_mib=256,
            before_brokers=self._start_controllers,
        )
        self.controllers: dict[int, ShunterController] = {}
        self.expected = Expected()

    @property
    def bootstrap(self) -> str:
        """Addresses of the live brokers."""
        return self.cluster.bootstrap

    @property
    def servers(self) -> Sequence[Server]:
        """The brokers."""
        return tuple(self.cluster.brokers.values())

    def start(self, stack: ExitStack) -> None:
        """Start ZooKeeper, the controllers, the brokers and the clients."""
        stack.enter_context(self.cluster)
        self.furnish(stack)
        self._throttle(RATES[0])

    def _start_controllers(self, cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        for id_ in CONTROLLERS:
            folder = self.folder / f"controller-{id_}"
            options = ("--set", f"session-timeout-ms={SESSION_MS}", "--set", f"log-dir={folder / 'log'}")
            controller = ShunterController(folder, cluster.zookeeper_connect, broker_id=id_, options=options)
            stack.callback(controller.stop)
            self.controllers[id_] = controller
            controller.start_or_stand_by(LEADS_WITHIN_S)

    def processes(self) -> Mapping[str, int]:
        """The controllers."""
        living = {id_: each.process.pid for id_, each in self.controllers.items() if each.alive}
        return {f"controller {id_}": pid for id_, pid in living.items() if pid is not None}

    def logs(self) -> list[Path]:
        """What the controllers wrote."""
        return [path for each in self.controllers.values() for path in (each.process.log_path, each.folder / "log")]

    def kill_process(self) -> None:
        """Kill the controller that leads, and start it again."""
        leads = self._is_led
        wait_until(leads, what="a controller leads", timeout_s=LEADS_WITHIN_S)
        leader = next(each for each in self.controllers.values() if each.is_leading())
        leader.kill()
        leader.start_or_stand_by(LEADS_WITHIN_S)
        wait_until(leads, what="a controller leads again", timeout_s=LEADS_WITHIN_S)

    def _is_led(self) -> bool:
        return any(each.alive and each.is_leading() for each in self.controllers.values())

    def works(self) -> Mapping[str, Work]:
        """What operators and their tools ask of the controller."""
        return {
            "move": Work(6, self._move),
            "submit": Work(1, self._submit),
            "cancel": Work(4, self._cancel),
            "configuration": Work(2, self._configure),
            "throttle": Work(1, lambda: not self._throttle(self.chance.choice(RATES))),
            "look": Work(1, lambda: bool(self._look())),
        }

    def settle(self) -> list[ProvedOrNot]:
        """Take the throttles away, and wait until all moves have ended."""
        wait_until(self._is_led, what="a controller leads", timeout_s=LEADS_WITHIN_S)
        wait_until(self._is_quiet, what="nothing moves", timeout_s=SETTLED_WITHIN_S, interval_s=2)
        self._look()
        lost = self.expected.lost
        with closing(Leftovers(self.cluster.zookeeper_connect)) as left:
            wait_until(lambda: left.check_znodes().holds, what="no znode is left", timeout_s=SETTLED_WITHIN_S)
            return [
                ProvedOrNot("no move was lost", not lost, "; ".join(lost[:3]) or "none"),
                left.check_znodes(),
                left.check_throttles([*PARTITIONS], [*BROKERS]),
            ]

    def _client(self) -> BlockingAdmin:
        return BlockingAdmin({"bootstrap_servers": self.bootstrap.split(",")})

    def _look(self, client: BlockingAdmin | None = None) -> dict[TopicPartition, ReplicaAssignment]:
        """All partitions, from ZooKeeper. For those that the controller does not list, what is expected is checked."""
        if client is None:
            with self._client() as own:
                return self._look(own)
        listed = client.list_moves()
        with closing(Leftovers(self.cluster.zookeeper_connect)) as zookeeper:
            found = zookeeper.assignments([*PARTITIONS, *self.topics])
        for tp, assignment in found.items():
            if tp not in listed:
                self.expected.rests(tp, assignment.replicas)
        return found

    def _targets(self, found: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, Replicas]:
        chosen = self.chance.sample(sorted(found), self.chance.randint(1, 4))
        return {tp: tuple(self.chance.sample(BROKERS, self.chance.choice((2, 2, 3)))) for tp in chosen}

    def _move(self) -> bool:
        with self._client() as client:
            targets = self._targets(self._look(client))
            answers = self._asked(client, targets, AlterOptions())
        for tp, target in targets.items():
            self.expected.moves(tp, target, surely=answers.get(tp, self) is None)
        return self._took(answers)

    def _submit(self) -> bool:
        targets = self._targets(self._look())
        plan = self.folder / "plan.json"
        partitions = [{"topic": tp.topic, "partition": tp.partition, "replicas": to} for tp, to in targets.items()]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        command = [sys.executable, "-m", "shunter", "submit", str(plan), "--bootstrap-server", self.bootstrap, "--yes"]
        done = run_bounded(command, timeout_s=COMMAND_WITHIN_S)
        for tp, target in targets.items():
            self.expected.moves(tp, target, surely=done.returncode == 0)
        if done.returncode != 0:
            raise DriverError(f"exit status {done.returncode}: {done.stderr[-300:]}", retriable=True)
        return True

    def _cancel(self) -> bool:
        mode = self.chance.choice(CANCELS)
        with self._client() as client:
            self._look(client)
            listed = sorted(client.list_moves())
            if not listed:
                return False
            chosen = dict.fromkeys(self.chance.sample(listed, self.chance.randint(1, len(listed))))
            answers = self._asked(client, chosen, AlterOptions(intervention=mode))
        for tp in chosen:
            self.expected.turns(tp, mode, surely=answers.get(tp, self) is None)
        return self._took(answers)

    def _asked(
        self, client: BlockingAdmin, changes: Mapping[TopicPartition, Replicas | None], options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        """The answers; without one, each partition's answer is the failure."""
        try:
            return client.alter_moves(changes, options)
        except (DriverError, RequestRejected) as failed:
            return dict.fromkeys(changes, failed)

    def _took(self, answers: Mapping[TopicPartition, Exception | None]) -> bool:
        refusals = [refusal for refusal in answers.values() if refusal is not None]
        if refusals:
            raise refusals[0]
        return True

    def _configure(self) -> bool:
        topic = self.chance.choice([*PARTITIONS, *self.topics])
        hours = self.chance.randint(24, 1_000)
        with self._client() as client:
            return not client.write_settings({ThrottleKey("topic", topic, "retention.ms"): str(hours * 3_600_000)})

    def _throttle(self, rate: int | None) -> Mapping[ThrottleKey, str]:
        """Make copies slow (None: no longer); the settings that no broker took."""
        settings = {ThrottleKey("topic", HEAVY, each): None if rate is None else "*" for each in LISTS}
        for broker in BROKERS:
            rates = (ThrottleKey("broker", str(broker), each) for each in (LEADER_RATE, FOLLOWER_RATE))
            settings |= dict.fromkeys(rates, None if rate is None else str(rate))
        with self._client() as client:
            return client.write_settings(settings)

    def _is_quiet(self) -> bool:
        try:
            refused = self._throttle(None)
            with self._client() as client:
                return not refused and not client.list_moves()
        except DriverError as failed:
            self.note("settling", "unanswered", failed)
            return False
