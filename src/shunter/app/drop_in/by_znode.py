"""`shunter kafka-reassign-partitions --zookeeper`: KIP-236's options, with the outputs that the KIP shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from shunter.app.drop_in.options import Options
from shunter.drivers.zookeeper.reassign_znodes import ReassignZnodes
from shunter.errors import ShunterError
from shunter.formats.tool_json import ToolInputRefused, check_executable, format_reassignment, parse_reassignment
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition

Echo = Callable[[str], None]
CANCEL = "/admin/reassign_cancel"


class ZnodeToolFailed(ShunterError):
    """The tool prints the message and nothing else, and exits with 1."""


class ReassignByZnode:
    """The tool's actions on one ZooKeeper."""

    def __init__(self, znodes: ReassignZnodes, echo: Echo, *, hidden_originals: bool = True) -> None:
        """Prepare.

        Args:
            znodes: A session.
            echo: Prints a line.
            hidden_originals: Leave `original_replicas` out, because Apache's parser would discard the whole znode for
                this field; Shunter finds the original replicas by itself.
        """
        self.znodes = znodes
        self.echo = echo
        self.hidden_originals = hidden_originals

    def run(self, options: Options) -> None:
        """Carry out a command line.

        Raises:
            ZnodeToolFailed: the action was refused; the tool prints the message.
            ShunterError: any other failure; the tool prints it as `Error: …`.
        """
        actions: Mapping[str, Callable[[Options], None]] = {
            "cancel": self.cancel,
            "remove-cancel": self.remove_cancel,
            "execute": self.execute,
            "execute-extra": self.execute_extra,
            "verify": self.verify,
            "verify-extra": self.verify,
            "list": self.list_moves,
        }
        actions[options.action](options)

    def cancel(self, _: Options) -> None:
        """Create the cancel znode, which rolls back all pending reassignments."""
        pending = self._pending()
        told = ", ".join(
            f"{tp} -> Map(replicas -> Buffer({_listed(target)}), original_replicas -> Buffer({_listed(original)}))"
            for tp, (target, original) in sorted(pending.items())
        )
        if not self.znodes.create_cancel():
            raise ZnodeToolFailed(f"The cancellation is in place already: {CANCEL} exists.")
        self.echo(f"Rolling back the current pending reassignments Map({told})")
        self.echo("Successfully submitted cancellation of reassignments.")

    def remove_cancel(self, _: Options) -> None:
        """Remove the cancel znode, so that new reassignments are accepted again."""
        if not self.znodes.remove_cancel():
            raise ZnodeToolFailed(f"There is no znode {CANCEL}.")
        self.echo(f"Successfully remove the znode {CANCEL}.")

    def _pending(self) -> dict[TopicPartition, tuple[Replicas, Replicas]]:
        pending = {tp: (move.target, move.original) for tp, move in self.znodes.moves().items()}
        legacy = self.znodes.legacy()
        if legacy is not None:
            current = self._current({tp.topic for tp in legacy.targets})
            for tp, target in legacy.targets.items():
                known = current.get(tp)
                original = known.original if known is not None else ()
                pending.setdefault(tp, (target, original))
        return pending

    def execute(self, options: Options) -> None:
        """Write the legacy znode."""
        targets, current = self._asked(options)
        originals = {} if self.hidden_originals else {tp: current[tp].original for tp in targets}
        if not self.znodes.create_legacy(targets, originals):
            raise ZnodeToolFailed(
                "There is an existing assignment running. Use --execute-extra to add to it (KIP-236)."
            )
        self._tell_started(targets)

    def execute_extra(self, options: Options) -> None:
        """Write the extra znode: further reassignments while others are in flight."""
        targets, _ = self._asked(options)
        self.znodes.add_extra(targets)
        self._tell_started(targets)

    def _asked(
        self, options: Options
    ) -> tuple[dict[TopicPartition, Replicas], dict[TopicPartition, ReplicaAssignment]]:
        if self.znodes.cancelling():
            raise ZnodeToolFailed(
                f"{CANCEL} exists: no new reassignments can be submitted until it is removed (--remove-cancel)."
            )
        asked = parse_reassignment(_read(options.value("reassignment-json-file")))
        check_executable(asked, cancels=False)
        if asked.log_dirs:
            raise ToolInputRefused("log_dirs can't be set through ZooKeeper: use --bootstrap-server")
        targets = {tp: replicas or () for tp, replicas in asked.partitions}
        current = self._current({tp.topic for tp in targets})
        missing = [str(tp) for tp in sorted(targets) if tp not in current]
        if missing:
            raise ToolInputRefused(f"Unable to find partition: {', '.join(missing)}")
        plan = format_reassignment({tp: current[tp].original for tp in targets})
        told = "Save this to use as the --reassignment-json-file option during rollback"
        self.echo(f"Current partition replica assignment\n\n{plan}\n\n{told}")
        return targets, current

    def _tell_started(self, targets: Mapping[TopicPartition, Replicas]) -> None:
        plural = "" if len(targets) == 1 else "s"
        named = ",".join(str(tp) for tp in sorted(targets))
        self.echo(f"Successfully started partition reassignment{plural} for {named}")

    def verify(self, options: Options) -> None:
        """Print the state of each of the plan's partitions."""
        asked = parse_reassignment(_read(options.value("reassignment-json-file")))
        pending = self._pending()
        extra = self.znodes.extra()
        waiting = extra.targets if extra is not None else {}
        targets = {tp: replicas or () for tp, replicas in asked.partitions}
        current = self._current({tp.topic for tp in targets})
        self.echo("Status of partition reassignment:")
        for tp in sorted(targets):
            found = current[tp].replicas if tp in current else ()
            if tp in pending or tp in waiting:
                self.echo(f"Reassignment of partition {tp} is still in progress.")
            elif found == targets[tp]:
                self.echo(f"Reassignment of partition {tp} is completed.")
            else:
                told = f"but replica set is {_comma(found)} rather than {_comma(targets[tp])}."
                self.echo(f"There is no active reassignment of partition {tp}, {told}")

    def list_moves(self, options: Options) -> None:
        """Print pending reassignments."""
        targets = {tp: target for tp, (target, _) in self._pending().items()}
        if "json" in options:
            self.echo(format_reassignment(targets) if targets else "{}")
        elif targets:
            lines = (f"{tp}: target: {_comma(target)}." for tp, target in sorted(targets.items()))
            self.echo("Current partition reassignments:\n" + "\n".join(lines))
        else:
            self.echo("No partition reassignments found.")

    def _current(self, topics: Iterable[str]) -> dict[TopicPartition, ReplicaAssignment]:
        current: dict[TopicPartition, ReplicaAssignment] = {}
        for name in sorted(topics):
            current.update(self.znodes.assignments(name) or {})
        return current


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolInputRefused(f"Unable to read file {path}: {error}") from error


def _listed(brokers: Replicas) -> str:
    return ", ".join(map(str, brokers))


def _comma(brokers: Replicas) -> str:
    return ",".join(map(str, brokers))
