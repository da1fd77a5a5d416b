"""The errors of Shunter, each with the side that caused it.

```
ShunterError
├── InvariantViolation        a bug of Shunter: the state machine refuses to go on
├── RequestRejected           the caller's fault: Kafka's error code and a sentence, per partition, as data
├── FormatError               bytes or text from outside that can't be read (znode, journal, plan, frame)
├── SettingsError             a setting that can't be used: names the setting, its value, the rule
└── DriverError               a server, a file or the network failed; `.retriable` says whether a retry makes sense
```
Messages give the value, the rule and the place: `replicas [4, 4] for topic-0 repeat broker 4`.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's protocol error codes, as far as Shunter sends or reads them (source: Kafka protocol, `Errors`)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    STALE_CONTROLLER_EPOCH = 11
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    THROTTLING_QUOTA_EXCEEDED = 89
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108


class ShunterError(Exception):
    """Root of Shunter's own errors."""


class InvariantViolation(ShunterError):
    """A bug of Shunter, with the facts that are needed to reproduce it. Code that catches it must stop acting."""

    def __init__(self, rule: str, **facts: object) -> None:
        self.rule = rule
        self.facts = facts
        told = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        super().__init__(f"{rule} ({told})" if told else rule)


def told_code(code: ErrorCode, message: str) -> str:
    """Kafka's name of an error, and its message if there is another one: no name stands there twice."""
    return code.name if message in ("", code.name) else f"{code.name}: {message.removeprefix(f'{code.name}: ')}"


class RequestRejected(ShunterError):
    """A request, or one partition of it, is refused with Kafka's code and a sentence that says why."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        self.error_code = error_code
        self.message = message
        super().__init__(told_code(error_code, message))


class FormatError(ShunterError):
    """Something written by others can't be read. `place` is a znode path, a file and line, or a connection."""

    def __init__(self, place: str, rule: str) -> None:
        self.place = place
        self.rule = rule
        super().__init__(f"{place}: {rule}")


class SettingsError(ShunterError):
    """A setting can't be used."""


class DriverError(ShunterError):
    """Something outside of this process failed: a server, a file or the network.

    `fact` is the message without the way out (`flags`) that only a command has which was refused because of it.
    """

    def __init__(self, message: str, *, retriable: bool, flags: str = "") -> None:
        self.retriable = retriable
        self.fact = message
        super().__init__(f"{message}{flags}")
