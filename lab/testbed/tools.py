"""Apache Kafka's own command-line tools."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.testbed.artifacts import TOOLS_VERSION, kafka_classpath
from lab.testbed.java import java_command
from lab.testbed.process import run_bounded
from lab.testbed.server import logging_options

REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOOL_HEAP_MIB = 128


def uses_log4j2(version: str) -> bool:
    """Whether a Kafka version logs with log4j 2 (from 4.0 on) or with log4j 1."""
    return int(version.split(".", maxsplit=1)[0]) >= 4


def _named(main_class: str, version: str) -> str:
    """The class of a tool in that version: with 4.4 the last ones left Scala's packages."""
    release = tuple(int(part) for part in version.split(".")[:2])
    moved = release >= (4, 4) and main_class in {"kafka.admin.AclCommand", CONFIGS, CONSOLE_PRODUCER}
    return "org.apache.kafka.tools." + main_class.rpartition(".")[2] if moved else main_class


def tool_command(
    main_class: str,
    *arguments: str,
    version: str = TOOLS_VERSION,
    heap_mib: int = TOOL_HEAP_MIB,
) -> Sequence[str]:
    """The command line of a Kafka tool, for a tool that runs long, as a `ManagedProcess`.

    Raises:
        PartMissing, PartFailed: See `artifacts.ensure_kafka`.
    """
    return java_command(
        _named(main_class, version),
        arguments,
        classpath=kafka_classpath(version),
        heap_mib=heap_mib,
        options=logging_options(log4j2=uses_log4j2(version), level="WARN"),
    )


def kafka_tool(
    main_class: str,
    *arguments: str,
    version: str = TOOLS_VERSION,
    timeout_s: float = 60.0,
    input_text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a Kafka tool to its end.

    Args:
        main_class: See the names in this module.
        arguments: As on its command line.
        version: The tool's version.
        timeout_s: Bound, in seconds; Java itself takes about a second to start.
        input_text: The tool's standard input.

    Raises:
        PartFailed: It still ran when the bound was reached.
    """
    command = tool_command(main_class, *arguments, version=version)
    return run_bounded(command, timeout_s=timeout_s, input_text=input_text)
