"""The command line of `shunter kafka-reassign-partitions`: Apache 3.9's options, and further options of the KIPs.

There is one table of options and one of actions. Words are read by the rules of joptsimple, which Apache's tool uses.
So an option may have one dash or two, and can't be abbreviated. The word after an option that takes a value is always
its value, even if it begins with a dash. A value is checked when it is used; an option that was given twice is refused
only then.

Source: Apache Kafka 3.9, `ReassignPartitionsCommandOptions`; joptsimple 5.0.4, `OptionParser`; KIP-236 and both drafts of
KIP-455 for the others.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shunter.errors import ShunterError

HELP_TEXT = "This tool helps to move topic partitions between replicas."
_LONG = re.compile(r"[+-]?\d+")
_HELP_WIDTH = 80


class Option(NamedTuple):
    """One option. `value` names its value, "": it takes none; a number has a default. `example` is shown verbatim."""

    about: str
    value: str = ""
    default: int | None = None
    example: str = ""


_PLAN = """{"partitions":
  [{"topic": "foo", "partition": 1, "replicas": [1,2,3],
    "log_dirs": ["dir1","dir2","dir3"]}],
 "version":1}"""
_TOPICS = """{"topics": [{"topic": "foo"},{"topic": "foo1"}], "version":1}"""
_RATE = "Not less than 1 KB/s. Given again with --additional, it changes the rate of moves under way."

OPTIONS: Mapping[str, Option] = {
    "additional": Option("Execute this reassignment in addition to others, or change the throttle of one."),
    "bootstrap-server": Option(
        "REQUIRED, except with --zookeeper: the server(s) to use for bootstrapping.",
        "Server(s) to use for bootstrapping",
    ),
    "broker-list": Option(
        'The brokers to which the partitions shall be moved, in the form "0,1,2"; --generate needs it.', "brokerlist"
    ),
    "cancel": Option(
        "Cancel the active reassignments of --reassignment-json-file; with --zookeeper and without a file: create"
        " /admin/reassign_cancel, which rolls back everything (KIP-236)."
    ),
    "cancel-all": Option("Stop every reassignment where it stands, or with --rollback revert it (KIP-455's draft)."),
    "cancel-others": Option("Cancel every reassignment that is not in the plan (KIP-455's first draft)."),
    "command-config": Option(
        "Property file containing configs to be passed to Admin Client.", "Admin client property file"
    ),
    "disable-rack-aware": Option("Disable rack aware replica assignment."),
    "execute": Option("Kick off the reassignment as specified by --reassignment-json-file."),
    "execute-extra": Option(
        "Submit more reassignments while some are in flight, by /admin/reassign_partitions_extra (KIP-236)."
    ),
    "generate": Option("Generate a candidate partition reassignment configuration; it is not executed."),
    "generate-extra": Option("As --generate, for --execute-extra (KIP-236)."),
    "help": Option("Print usage information."),
    "incremental": Option("As --additional; null or empty replicas cancel a partition (KIP-455's first draft)."),
    "json": Option("With --list: print the JSON that --reassignment-json-file takes."),
    "list": Option("List all active partition reassignments; with --json as a plan."),
    "preserve-throttles": Option("Do not modify broker or topic throttles."),
    "reassignment-json-file": Option(
        'The JSON file with the partition reassignment configuration. "log_dirs" is optional, has as many entries as'
        ' "replicas", and each is "any" or the absolute path of a log directory on that broker. The format is',
        "manual assignment json file path",
        example=_PLAN,
    ),
    "remove-cancel": Option("Remove /admin/reassign_cancel, so that new reassignments are accepted again (KIP-236)."),
    "replica-alter-log-dirs-throttle": Option(
        f"Bytes per second that moves between log directories of a broker may use. {_RATE}",
        "replicaAlterLogDirsThrottle",
        -1,
    ),
    "rollback": Option("Cancelling restores the original replicas."),
    "stop": Option("Cancelling keeps new replicas that are in sync (needs Shunter's controller)."),
    "throttle": Option(f"Bytes per second that moves between brokers may use. {_RATE}", "throttle", -1),
    "timeout": Option("How long to wait for log directory moves to begin, in ms.", "timeout", 10_000),
    "topics-to-move-json-file": Option(
        "The JSON file with the topics to move to the brokers of --broker-list. The format is",
        "topics to reassign json file path",
        example=_TOPICS,
    ),
    "verify": Option(
        "Verify if the reassignment completed as specified by --reassignment-json-file; if no reassignment is under"
        " way, throttles are removed."
    ),
    "verify-extra": Option("Verify what --execute-extra submitted (KIP-236)."),
    "version": Option("Display Kafka version."),
    "zookeeper": Option(
        "ZooKeeper's addresses and chroot, for clusters in ZooKeeper mode (KIP-236).", "ZooKeeper connect string"
    ),
    "zk-tls-config-file": Option(
        "With --zookeeper: the file with zookeeper.ssl… properties, as Kafka's other tools take it; it may also have"
        " Shunter's properties for a login.",
        "ZooKeeper TLS configuration",
    ),
}


class ToolAction(NamedTuple):
    """Required and permitted options of an action. `by_zookeeper`: those permitted with --zookeeper; None: no way."""

    required: tuple[str, ...] = ()
    permitted: frozenset[str] = frozenset()
    by_zookeeper: frozenset[str] | None = None


_FILE, _TOPICS_FILES = ("reassignment-json-file",), ("topics-to-move-json-file", "broker-list")
_CONNECTING = frozenset({"bootstrap-server", "command-config", "zookeeper", "zk-tls-config-file"})
APACHE_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
ACTIONS: Mapping[str, ToolAction] = {
    "generate": ToolAction(_TOPICS_FILES, frozenset({"disable-rack-aware"})),
    "execute": ToolAction(
        _FILE,
        frozenset(
            {
                *("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
                *("incremental", "cancel-others", "stop", "rollback"),
            }
        ),
        frozenset(),
    ),
    "verify": ToolAction(_FILE, frozenset({"preserve-throttles"}), frozenset({"preserve-throttles"})),
    "cancel": ToolAction(
        _FILE,
        frozenset({"preserve-throttles", "timeout", "stop", "rollback"}),
        # The cancel znode rolls back, and the way through ZooKeeper changes no throttle.
        frozenset({"rollback", "preserve-throttles"}),
    ),
    "list": ToolAction((), frozenset({"json"}), frozenset({"json"})),
    "remove-cancel": ToolAction(("zookeeper",), by_zookeeper=frozenset()),
    "generate-extra": ToolAction(_TOPICS_FILES, frozenset({"disable-rack-aware"})),
    "execute-extra": ToolAction((*_FILE, "zookeeper"), by_zookeeper=frozenset()),
    "verify-extra": ToolAction(_FILE, frozenset({"preserve-throttles"}), frozenset({"preserve-throttles"})),
    "cancel-all": ToolAction((), frozenset({"preserve-throttles", "stop", "rollback"})),
}


class UsageError(ShunterError):
    """The command line can't be used: the tool prints the message and its usage, and exits with 1."""


class ValueRefused(ShunterError):
    """An option's value can't be used; like Apache's tool, this one notices only when it needs the value."""


class VersionAsked(ShunterError):
    """The command line has `--version`: print the version, and do nothing else."""


@dataclass(frozen=True, slots=True)
class Options:
    """A valid command line: its action, and all values of each option."""

    action: str
    given: Mapping[str, tuple[str, ...]]

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def value(self, name: str) -> str:
        """The value of an option that was given.

        Raises:
            ValueRefused: it was given more than once.
        """
        values = self.given[name]
        if len(values) > 1:
            raise ValueRefused(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0]

    def number(self, name: str) -> int:
        """A whole number of 64 bits, or the option's default.

        Raises:
            ValueRefused: the value is not a number, or was given more than once.
        """
        default = OPTIONS[name].default
        assert default is not None, f"{name} takes no number"
        if name not in self.given:
            return default
        for text in self.given[name]:
            if _LONG.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
                raise ValueRefused(f"Cannot parse argument '{text}' of option {name}")
        return int(self.value(name))


def usage() -> str:
    """All options with their values and defaults, as joptsimple prints them."""
    heads = {name: f"--{name} <{_taken(option)}>" if option.value else f"--{name}" for name, option in OPTIONS.items()}
    width = max(len(name) for name in OPTIONS) + 4
    lines = [f"{'Option':<{width}}Description", f"{'------':<{width}}-----------"]
    for name, option in OPTIONS.items():
        default = f" (default: {option.default})" if option.default is not None else ""
        head = textwrap.wrap(heads[name], width - 2, subsequent_indent="  ", break_on_hyphens=False)
        about = (
            textwrap.wrap(option.about + default, _HELP_WIDTH - width, break_on_hyphens=False)
            + option.example.splitlines()
        )
        rows = max(len(head), len(about))
        columns = zip(head + [""] * (rows - len(head)), about + [""] * (rows - len(about)), strict=True)
        lines += [f"{left:<{width}}{right}".rstrip() for left, right in columns]
    return "\n".join(lines)


def _taken(option: Option) -> str:
    return f"{'String' if option.default is None else 'Long'}: {option.value}"


def parse(arguments: Sequence[str]) -> Options:
    """Read a command line.

    Raises:
        UsageError: it can't be used; the message is Apache's if Apache's tool has one.
        VersionAsked: it asks for the version.
    """
    given = _split(arguments)
    if not arguments or "help" in given:
        raise UsageError(HELP_TEXT)
    if "version" in given:
        raise VersionAsked
    actions = [name for name in ACTIONS if name in given]
    if len(actions) != 1:
        told = ", ".join(f"--{name}" for name in APACHE_ACTIONS)
        raise UsageError(f"Command must include exactly one action: {told}")
    name, action = actions[0], ACTIONS[actions[0]]
    if not {"bootstrap-server", "zookeeper"} & given.keys():
        raise UsageError("Please specify --bootstrap-server")
    required = () if name == "cancel" and "zookeeper" in given else action.required
    missing = next((one for one in required if one not in given), None)
    if missing is not None:
        raise UsageError(f'Missing required argument "[{missing}]"')
    permitted = {name, *action.required, *action.permitted, *_CONNECTING}
    foreign = next((one for one in given if one not in permitted), None)
    if foreign is not None:
        raise UsageError(f'Option "[{foreign}]" can\'t be used with action "[{name}]"')
    options = Options(name, {option: tuple(values) for option, values in given.items()})
    _check_protocol(options, action)
    _check_cancels(options)
    return options


def _check_protocol(options: Options, action: ToolAction) -> None:
    """Refuse a command line that the chosen way (ZooKeeper or brokers) can't carry out completely."""
    if "zookeeper" not in options:
        if "zk-tls-config-file" in options:
            raise UsageError("--zk-tls-config-file goes with --zookeeper")
        return
    name = options.action
    if "bootstrap-server" in options:
        raise UsageError("--bootstrap-server and --zookeeper exclude each other: choose one of them")
    if action.by_zookeeper is None:
        raise UsageError(f"--{name} can't be carried out through --zookeeper: use --bootstrap-server")
    refused = {"command-config", *action.permitted} - action.by_zookeeper
    found = next((one for one in options.given if one in refused), None)
    if found is not None:
        raise UsageError(f"--{found} can't be carried out through --zookeeper with --{name}: use --bootstrap-server")


def _check_cancels(options: Options) -> None:
    if "stop" in options and "rollback" in options:
        raise UsageError("--stop and --rollback exclude each other")
    if options.action != "execute" or {"incremental", "cancel-others"} & options.given.keys():
        return
    if {"stop", "rollback"} & options.given.keys():
        raise UsageError(
            "--stop and --rollback say how to cancel: --execute cancels only with --incremental or --cancel-others"
        )


def _split(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values by option, in the order of the options, as joptsimple's `OptionParser(false)` reads them."""
    given: dict[str, list[str]] = {}
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            break  # The rest are not options, and Apache's tool ignores them.
        if word == "-" or not word.startswith("-"):
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in OPTIONS:
            # After one dash, joptsimple reads a row of one-letter options, and there are none of these.
            raise UsageError(f"{name if word.startswith('--') else word[1]} is not a recognized option")
        values = given.setdefault(name, [])
        if not OPTIONS[name].value:
            continue  # A flag's value is ignored.
        if equals:
            values.append(value)
        elif waiting:
            values.append(waiting.pop(0))
        else:
            raise UsageError(f"Option {name} requires an argument")
    return given
