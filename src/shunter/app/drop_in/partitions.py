"""`shunter kafka-reassign-partitions` on the Admin API: it does the same as Apache 3.9's tool, with the same output.

Source: Apache Kafka 3.9, `ReassignPartitionsCommand`; KIP-455's drafts for --incremental, --cancel-others, --cancel-all
and --list --json. Intended differences: docs/kafka-reassign-partitions.md.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from shunter.app.drop_in import log_dirs
from shunter.app.drop_in.options import Options
from shunter.app.drop_in.throttles import change_throttles
from shunter.core.controller.topics.placement import place_partitions
from shunter.core.throttles import cleared, limited, log_dirs_limited, traffic_of
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment
from shunter.errors import RequestRejected, ShunterError
from shunter.formats.tool_json import (
    AskedFor,
    ToolInputRefused,
    check_executable,
    format_reassignment,
    parse_reassignment,
    parse_topics,
)
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Intervention

EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional "
    "flag can also be used to change the throttle by resubmitting the current reassignment."
)
RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
_INTEGER = re.compile(r"[+-]?\d+")
Echo = Callable[[str], None]


class ToolFailed(ShunterError):
    """The tool prints the message and nothing else, and exits with 1."""


class ReassignPartitions:
    """The tool's actions on one cluster."""

    def __init__(self, connect: Callable[[], BlockingAdmin], echo: Echo, *, seed: int = 0) -> None:
        """Prepare; the connection is made when it is needed. `seed` is for the random placement of --generate."""
        self._connect = connect
        self.echo = echo
        self.random = random.Random(seed)  # noqa: S311 - a placement is not a secret

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "cluster" in vars(self):
            self.cluster.close()

    @cached_property
    def cluster(self) -> BlockingAdmin:
        """The cluster, connected at the first use, so that errors in a plan are reported before."""
        return self._connect()

    def run(self, options: Options) -> None:
        """Carry out a command line.

        Raises:
            ToolFailed: the action was refused; the tool prints the message.
            ShunterError: any other failure; like Apache's tool, this one prints it as `Error: …`.
        """
        actions = {
            "verify": self.verify,
            "verify-extra": self.verify,
            "generate": self.generate,
            "generate-extra": self.generate,
            "execute": self.execute,
            "cancel": self.cancel,
            "cancel-all": self.cancel_all,
            "list": self.list_moves,
        }
        actions[options.action](options)

    # ---- list

    def list_moves(self, options: Options) -> None:
        """Print reassignments under way, as text or as a plan."""
        moves = self._under_way()
        if "json" in options:
            self.echo(format_reassignment({tp: move.target for tp, move in moves.items()}) if moves else "{}")
        elif moves:
            lines = "\n".join(_described(tp, moves[tp]) for tp in sorted(moves))
            self.echo(f"Current partition reassignments:\n{lines}")
        else:
            self.echo("No partition reassignments found.")

    def _under_way(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return self.cluster.list_moves(None if partitions is None else list(partitions))

    # ---- verify

    def verify(self, options: Options) -> None:
        """Print the state of each of the plan's partitions; if no reassignment is under way, remove the throttles."""
        asked = parse_reassignment(_read(options.value("reassignment-json-file")))
        under_way = self._under_way()
        self.echo(self._states(asked, under_way))
        moving_dirs = log_dirs.verify(self.cluster, asked.log_dirs, self.echo)
        if not under_way and not moving_dirs and "preserve-throttles" not in options:
            self._clear_throttles(asked)

    def _states(self, asked: AskedFor, under_way: Mapping[TopicPartition, PartitionReassignment]) -> str:
        targets = {tp: replicas or () for tp, replicas in asked.partitions}
        known = self.cluster.partitions([tp for tp in targets if tp not in under_way])
        lines = ["Status of partition reassignment:"]
        for tp in sorted(targets):
            if tp in under_way:
                lines.append(f"Reassignment of partition {tp} is still in progress.")
                continue
            current = known[tp].replicas if tp in known else ()
            if current == targets[tp]:
                lines.append(f"Reassignment of partition {tp} is completed.")
            else:
                told = f"but replica set is {_joined(current)} rather than {_joined(targets[tp])}."
                lines.append(f"There is no active reassignment of partition {tp}, {told}")
        return "\n".join(lines)

    def _clear_throttles(self, asked: AskedFor, told: str = "") -> None:
        """Print `told`; clear throttles of all nodes, and of the plan's brokers and topics, like Apache's tool."""
        nodes = (node.id for node in self.cluster.nodes())
        brokers = sorted({*nodes, *(broker for _, replicas in asked.partitions for broker in replicas or ())})
        topics = sorted({tp.topic for tp, _ in asked.partitions})
        self.echo(f"{told}Clearing broker-level throttles on broker{_s(brokers)} {_joined(brokers)}")
        change_throttles(self.cluster, cleared(brokers, ()), self.echo)
        self.echo(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
        change_throttles(self.cluster, cleared((), topics), self.echo)

    # ---- generate

    def generate(self, options: Options) -> None:
        """Propose an assignment of topics to brokers."""
        text = _read(options.value("topics-to-move-json-file"))
        brokers, topics = _generate_arguments(text, options.value("broker-list"))
        current = self._current_topics(topics)
        racks = "disable-rack-aware" not in options
        chosen = [node for node in self.cluster.nodes() if node.id in brokers]
        rackless = sum(node.rack is None for node in chosen)
        if racks and rackless not in (0, len(chosen)):
            raise ToolInputRefused(
                "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
                "assignment without rack information."
            )
        placed = [Broker(node.id, 0, (), node.rack if racks else None) for node in chosen]
        proposed = self._proposed(current, placed)
        self.echo(f"Current partition replica assignment\n{format_reassignment(current)}\n")
        self.echo(f"Proposed partition reassignment configuration\n{format_reassignment(proposed)}")

    def _proposed(
        self, current: Mapping[TopicPartition, Replicas], brokers: list[Broker]
    ) -> dict[TopicPartition, Replicas]:
        by_topic: dict[str, list[TopicPartition]] = {}
        for tp in sorted(current):
            by_topic.setdefault(tp.topic, []).append(tp)
        proposed: dict[TopicPartition, Replicas] = {}
        for partitions in by_topic.values():
            factor = len(current[partitions[0]])
            if factor > len(brokers):
                raise ToolInputRefused(f"Replication factor: {factor} larger than available brokers: {len(brokers)}.")
            start, shift = (self.random.randrange(len(brokers)) for _ in range(2))
            placed = place_partitions(brokers, len(partitions), factor, start=start, shift=shift)
            proposed.update(zip(partitions, placed, strict=True))
        return proposed

    def _current_topics(self, names: Iterable[str]) -> dict[TopicPartition, Replicas]:
        current: dict[TopicPartition, Replicas] = {}
        for name, partitions in self.cluster.topics(set(names)).items():
            if partitions is None:
                raise ToolInputRefused(_unknown(f"Topic {name} not found."))
            current.update((TopicPartition(name, number), info.replicas) for number, info in partitions.items())
        return current

    # ---- execute

    def execute(self, options: Options) -> None:
        """Start the plan's reassignments, with throttles if the command line has them."""
        text = _read(options.value("reassignment-json-file"))
        rates = options.number("throttle"), options.number("replica-alter-log-dirs-throttle")
        timeout_ms = options.number("timeout")
        others = "cancel-others" in options
        cancels = others or "incremental" in options
        asked = parse_reassignment(text, nulls=cancels)
        check_executable(asked, cancels=cancels)
        under_way = self._under_way()
        if under_way and not cancels and "additional" not in options:
            raise ToolFailed(EXISTING)
        proposed = {tp: replicas for tp, replicas in asked.partitions if replicas}
        cancelled = [tp for tp, replicas in asked.partitions if not replicas]
        if others:
            cancelled += [tp for tp in sorted(under_way) if tp not in dict(asked.partitions)]
        self._check_brokers(broker for replicas in proposed.values() for broker in replicas)
        current = self._current(proposed)
        if proposed:
            self.echo(_rollback_plan(current))
        self._throttle(rates, asked, under_way, proposed, current)
        self._start(proposed)
        if cancelled:
            self._cancel(cancelled, _intervention(options))
        if asked.log_dirs:
            log_dirs.execute(self.cluster, asked.log_dirs, timeout_ms, self.echo)

    def _check_brokers(self, brokers: Iterable[BrokerId]) -> None:
        known = {node.id for node in self.cluster.nodes()}
        unknown = min((broker for broker in brokers if broker not in known), default=None)
        if unknown is not None:
            raise ToolInputRefused(f"Unknown broker id {unknown}")

    def _current(self, proposed: Mapping[TopicPartition, Replicas]) -> dict[TopicPartition, Replicas]:
        everything = self._current_topics({tp.topic for tp in proposed})
        missing = [tp for tp in proposed if tp not in everything]
        if missing:
            raise ToolInputRefused(_unknown(f"Unable to find partition: {', '.join(map(str, sorted(missing)))}"))
        return {tp: everything[tp] for tp in proposed}

    def _throttle(
        self,
        rates: tuple[int, int],
        asked: AskedFor,
        under_way: Mapping[TopicPartition, PartitionReassignment],
        proposed: Mapping[TopicPartition, Replicas],
        current: Mapping[TopicPartition, Replicas],
    ) -> None:
        rate, log_dir_rate = rates
        if rate < 0 and log_dir_rate < 0:
            return
        self.echo(RUN_VERIFY)
        if rate >= 0:
            moving = {tp: move.traffic for tp, move in under_way.items()}
            change_throttles(self.cluster, limited(traffic_of(moving, proposed, current), rate), self.echo)
            self.echo(f"The inter-broker throttle limit was set to {rate} B/s")
        if log_dir_rate >= 0:
            brokers = (broker for broker, _ in asked.log_dirs)
            change_throttles(self.cluster, log_dirs_limited(brokers, log_dir_rate), self.echo)
            self.echo(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")

    def _start(self, proposed: Mapping[TopicPartition, Replicas]) -> None:
        if not proposed:
            return
        errors = _errors(self.cluster.alter_moves(proposed, AlterOptions()))
        if errors:
            raise ToolFailed("Error reassigning partition(s):\n" + "\n".join(_listed(errors)))
        named = ",".join(map(str, sorted(proposed)))
        self.echo(f"Successfully started partition reassignment{_s(proposed)} for {named}")

    # ---- cancel

    def cancel(self, options: Options) -> None:
        """Cancel the plan's partitions that are being moved."""
        text, timeout_ms = _read(options.value("reassignment-json-file")), options.number("timeout")
        asked = parse_reassignment(text)
        under_way = self._under_way(tp for tp, _ in asked.partitions) if asked.partitions else {}
        # Apache's tool passes over reassignments that only add replicas (KAFKA-15653 is not fixed in 3.9).
        active = [tp for tp, move in sorted(under_way.items()) if not move.adding or move.removing]
        if active:
            self._cancel(active, _intervention(options))
        else:
            self.echo("None of the specified partition reassignments are active.")
        told = log_dirs.cancel(self.cluster, asked.log_dirs, timeout_ms, self.echo)
        if "preserve-throttles" not in options:
            self._clear_throttles(asked, told)
        elif told:
            self.echo(told)

    def _cancel(self, partitions: Iterable[TopicPartition], mode: Intervention | None) -> None:
        chosen = AlterOptions(intervention=self._sayable(mode))
        cancelled = sorted(partitions)
        errors = _errors(self.cluster.alter_moves(dict.fromkeys(cancelled), chosen))
        if errors:
            told = "\n".join(_listed(errors))
            raise ToolFailed(f"Error cancelling partition reassignment{_s(errors)} for:\n{told}")
        named = ",".join(map(str, cancelled))
        self.echo(f"Successfully cancelled partition reassignment{_s(cancelled)} for: {named}")

    def _sayable(self, mode: Intervention | None) -> Intervention | None:
        """The kind of cancel to send: always one to Shunter's controller; None to Apache's, which only rolls back."""
        if self.cluster.is_shunter():
            return mode or Intervention.ROLL_BACK
        if mode is Intervention.STOP:
            raise ToolFailed("The controller is not Shunter's: it can only roll back. Use --rollback to do that.")
        return None

    def cancel_all(self, options: Options) -> None:
        """Cancel everything: stop it where it stands (KIP-455's draft), or roll it back."""
        mode = _intervention(options) or Intervention.STOP
        under_way = self._under_way()
        if not under_way:
            self.echo("None of the specified partition reassignments are active.")
        elif self.cluster.is_shunter():
            results = self.cluster.cancel_whole(None, AlterOptions(intervention=mode))
            errors = _errors(results)
            if errors:
                raise ToolFailed(
                    f"Error cancelling partition reassignment{_s(errors)} for:\n" + "\n".join(_listed(errors))
                )
            named = ",".join(map(str, sorted(results)))
            self.echo(f"Successfully cancelled partition reassignment{_s(results)} for: {named}")
        else:
            self._cancel(under_way, mode)
        if "preserve-throttles" not in options:
            self._clear_throttles(AskedFor(tuple((tp, move.replicas) for tp, move in sorted(under_way.items())), {}))


def _intervention(options: Options) -> Intervention | None:
    if "stop" in options:
        return Intervention.STOP
    return Intervention.ROLL_BACK if "rollback" in options else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise ToolInputRefused(f"Unable to read file {path}: {error}") from error


def _generate_arguments(text: str, broker_list: str) -> tuple[list[BrokerId], tuple[str, ...]]:
    brokers = [_broker(word) for word in _java_split(broker_list)]
    if len(set(brokers)) != len(brokers):
        repeated = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        raise ToolInputRefused(f"Broker list contains duplicate entries: [{', '.join(map(str, repeated))}]")
    topics = parse_topics(text)
    if len(set(topics)) != len(topics):
        twice = sorted({name for name in topics if topics.count(name) > 1})
        raise ToolInputRefused(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return brokers, topics


def _java_split(text: str) -> list[str]:
    """Split like Java's `split(",")`: empty words at the end are left out, and a text without commas is one word."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return [] if words == [""] and text else words


def _broker(word: str) -> BrokerId:
    """Read a broker id like Java's `Integer.parseInt`."""
    if not _INTEGER.fullmatch(word) or not -(2**31) <= int(word) < 2**31:
        raise ToolInputRefused(f'For input string: "{word}"')
    return int(word)


def _described(tp: TopicPartition, move: PartitionReassignment) -> str:
    adding = f" adding: {_joined(move.adding)}." if move.adding else ""
    removing = f" removing: {_joined(move.removing)}." if move.removing else ""
    return f"{tp}: replicas: {_joined(move.replicas)}.{adding}{removing}"


def _rollback_plan(current: Mapping[TopicPartition, Replicas]) -> str:
    told = "Save this to use as the --reassignment-json-file option during rollback"
    return f"Current partition replica assignment\n\n{format_reassignment(current)}\n\n{told}"


def _errors(outcomes: Mapping[TopicPartition, Exception | None]) -> dict[TopicPartition, Exception]:
    return {tp: error for tp, error in outcomes.items() if error is not None}


def _listed(errors: Mapping[TopicPartition, Exception]) -> Iterable[str]:
    return (
        f"{tp}: {error.message if isinstance(error, RequestRejected) else error}"
        for tp, error in sorted(errors.items())
    )


def _unknown(told: str) -> str:
    return f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: {told}"


def _joined(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))


def _s(things: object) -> str:
    return "" if len(things) == 1 else "s"  # type: ignore[arg-type]
