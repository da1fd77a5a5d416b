"""The command line of `shunter kafka-reassign-partitions`: Apache 3.9's, and what the KIPs' tools have besides.

Source: Apache Kafka 3.9, `ReassignPartitionsCommandOptions`; KIP-236 and both drafts of KIP-455 for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shunter.errors import ShunterError

HELP_TEXT = "This tool helps to move topic partitions between replicas."

APACHE_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
KIP_ACTIONS = ("remove-cancel", "generate-extra", "execute-extra", "verify-extra", "cancel-all")

_OURS = frozenset({*KIP_ACTIONS, "zookeeper", "incremental", "cancel-others", "json", "stop", "rollback"})

_ABOUT = {
    "verify": "Verify if the reassignment completed as specified by --reassignment-json-file; if nothing is going on "
    "any more, throttles are removed.",
    "generate": "Generate a candidate partition reassignment configuration; it is not executed.",
    "execute": "Kick off the reassignment as specified by --reassignment-json-file.",
    "cancel": "Cancel the active reassignments of --reassignment-json-file; with --zookeeper and without a file: "
    "create /admin/reassign_cancel, which rolls back everything (KIP-236).",
    "list": "List all active partition reassignments; with --json as a plan.",
    "remove-cancel": "Remove /admin/reassign_cancel: new reassignments are taken again (KIP-236).",
    "generate-extra": "As --generate, for --execute-extra (KIP-236).",
    "execute-extra": "Submit more reassignments while some are in flight, by /admin/reassign_partitions_extra (KIP-236).",
    "verify-extra": "Verify what --execute-extra submitted (KIP-236).",
    "cancel-all": "Stop every reassignment where it stands, or with --rollback revert it (KIP-455's draft).",
    "bootstrap-server": "REQUIRED, but with --zookeeper: the server(s) to use for bootstrapping.",
    "zookeeper": "ZooKeeper's addresses and chroot, for clusters in ZooKeeper mode (KIP-236).",
    "command-config": "Property file containing configs to be passed to Admin Client.",
    "reassignment-json-file": "The JSON file with the partition reassignment configuration.",
    "topics-to-move-json-file": "The JSON file with the topics to move to the brokers of --broker-list.",
    "broker-list": 'The brokers to which the partitions shall be moved, in the form "0,1,2".',
    "disable-rack-aware": "Disable rack aware replica assignment.",
    "throttle": "Bytes per second that moves between brokers may use; at least 1 KB/s.",
    "replica-alter-log-dirs-throttle": "Bytes per second that moves between log dirs may use; at least 1 KB/s.",
    "timeout": "How long to wait for log directory moves to begin, ms.",
    "additional": "Execute this reassignment in addition to others, or change the throttle of one.",
    "preserve-throttles": "Do not modify broker or topic throttles.",
    "incremental": "As --additional; null or empty replicas cancel a partition (KIP-455's first draft).",
    "cancel-others": "Cancel every reassignment that is not in the plan (KIP-455's first draft).",
    "json": "With --list: print the JSON that --reassignment-json-file takes.",
    "stop": "Cancelling keeps what is in sync already (needs Shunter's controller).",
    "rollback": "Cancelling restores the original replicas.",
    "help": "Print usage information.",
    "version": "Display Kafka version.",
}
WITH_VALUE = frozenset(
    {
        "bootstrap-server",
        "zookeeper",
        "command-config",
        "reassignment-json-file",
        "topics-to-move-json-file",
        "broker-list",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
    }
)
_NUMBERS = frozenset({"throttle", "replica-alter-log-dirs-throttle", "timeout"})
_REQUIRED = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
    "remove-cancel": ("zookeeper",),
    "generate-extra": ("topics-to-move-json-file", "broker-list"),
    "execute-extra": ("reassignment-json-file", "zookeeper"),
    "verify-extra": ("reassignment-json-file",),
    "cancel-all": (),
}
_CONNECTING = frozenset({"bootstrap-server", "command-config", "zookeeper"})
_PERMITTED = {
    "verify": {"preserve-throttles"},
    "generate": {"disable-rack-aware"},
    "execute": {
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "incremental",
        "cancel-others",
        "stop",
        "rollback",
    },
    "cancel": {"preserve-throttles", "timeout", "stop", "rollback"},
    "list": {"json"},
    "remove-cancel": set[str](),
    "generate-extra": {"disable-rack-aware"},
    "execute-extra": set[str](),
    "verify-extra": {"preserve-throttles"},
    "cancel-all": {"preserve-throttles", "stop", "rollback"},
}
_BY_ZOOKEEPER = {
    "execute": set[str](),
    # What the cancel znode does is a rollback; and no throttle is touched by way of ZooKeeper.
    "cancel": {"rollback", "preserve-throttles"},
    "verify": {"preserve-throttles"},
    "list": {"json"},
    "remove-cancel": set[str](),
    "execute-extra": set[str](),
    "verify-extra": {"preserve-throttles"},
}
"""Of what an action permits, what can be carried out by way of ZooKeeper; actions that can't are absent."""


class UsageError(ShunterError):
    """The command line can't be used: the tool prints the message and its usage, and exits with 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """A command line that can be carried out."""

    action: str
    values: Mapping[str, str]
    flags: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.flags or name in self.values

    def number(self, name: str, default: int) -> int:
        """A whole number, or its default."""
        return int(self.values.get(name, default))


def usage() -> str:
    """All options, one per line."""
    width = max(map(len, _ABOUT)) + 4
    return "\n".join(f"{'--' + name:<{width}}{_ABOUT[name]}" for name in sorted(_ABOUT))


def parse(arguments: Sequence[str]) -> Options:
    """Read a command line as joptsimple does: `--name value`, `--name=value`, unambiguous abbreviations.

    Raises:
        UsageError: with Apache's sentence where Apache's tool has one.
    """
    values, flags, given = _split(arguments)
    if not arguments or "help" in flags:
        raise UsageError(HELP_TEXT)
    actions = [name for name in (*APACHE_ACTIONS, *KIP_ACTIONS) if name in given]
    if len(actions) != 1:
        told = ", ".join(f"--{name}" for name in APACHE_ACTIONS)
        raise UsageError(f"Command must include exactly one action: {told}")
    action = actions[0]
    if "bootstrap-server" not in values and "zookeeper" not in values:
        raise UsageError("Please specify --bootstrap-server")
    by_zookeeper = action == "cancel" and "zookeeper" in values
    required = () if by_zookeeper else _REQUIRED[action]
    for name in required:
        if name not in values:
            raise UsageError(f'Missing required argument "[{name}]"')
    permitted = {action, *required, *_PERMITTED[action], *_CONNECTING}
    for name in given:
        if name not in permitted:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    _check_protocol(action, values, given)
    _check_values(values, flags)
    if action == "execute" and {"stop", "rollback"} & flags and not {"incremental", "cancel-others"} & flags:
        raise UsageError(
            "--stop and --rollback say what a cancel means: --execute cancels nothing without --incremental"
            " or --cancel-others"
        )
    return Options(action, values, frozenset(flags))


def _check_protocol(action: str, values: Mapping[str, str], given: Sequence[str]) -> None:
    """Refuse what the chosen way to the cluster can't carry out, rather than do half of what was asked."""
    if "zookeeper" not in values:
        return
    if "bootstrap-server" in values:
        raise UsageError("--bootstrap-server and --zookeeper exclude each other: say which way to go")
    if action not in _BY_ZOOKEEPER:
        raise UsageError(f"--{action} can't be carried out by way of --zookeeper: use --bootstrap-server")
    refused = {"command-config", *_PERMITTED[action]} - _BY_ZOOKEEPER[action]
    for name in given:
        if name in refused:
            raise UsageError(
                f"--{name} can't be carried out by way of --zookeeper with --{action}: use --bootstrap-server"
            )


def _check_values(values: Mapping[str, str], flags: set[str]) -> None:
    for name in sorted(_NUMBERS & values.keys()):
        if not values[name].removeprefix("-").isdecimal():
            raise UsageError(f"Cannot parse argument '{values[name]}' of option {name}")
    if {"stop", "rollback"} <= flags:
        raise UsageError("--stop and --rollback exclude each other")


def _split(arguments: Sequence[str]) -> tuple[dict[str, str], set[str], list[str]]:
    values: dict[str, str] = {}
    flags: set[str] = set()
    given: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--"):
            continue  # Apache's tool passes over what is no option.
        typed, has_value, value = word[2:].partition("=")
        name = _full_name(typed)
        given.append(name)
        if name not in WITH_VALUE:
            flags.add(name)
        elif has_value:
            values[name] = value
        elif waiting and not waiting[0].startswith("--"):
            values[name] = waiting.pop(0)
        else:
            raise UsageError(f"Option {name} requires an argument")
    return values, flags, given


def _full_name(typed: str) -> str:
    if typed in _ABOUT:
        return typed
    candidates = [name for name in _ABOUT if typed and name.startswith(typed)]
    # What Apache's tool takes for one of its options is not made ambiguous by ours.
    candidates = [name for name in candidates if name not in _OURS] or candidates
    if len(candidates) != 1:
        raise UsageError(f"{typed} is not a recognized option")
    return candidates[0]
