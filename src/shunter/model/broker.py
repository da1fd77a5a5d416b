"""A broker as ZooKeeper shows it."""

from __future__ import annotations

from typing import NamedTuple

from shunter.model.partition import BrokerId

CONTROLLERS_LOG_DIR = "none-on-a-controller"
"""The only log dir that a Shunter controller shows. It is empty, and stands for none at all: Java's Admin client takes an
answer without any log dir for a refusal (CLUSTER_AUTHORIZATION_FAILED), and `kafka-log-dirs --describe` then fails."""


class Endpoint(NamedTuple):
    """One listener of a broker; `security_protocol` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    listener: str
    security_protocol: str
    host: str
    port: int


class Broker(NamedTuple):
    """A live broker. `epoch` is the czxid of its registration (KIP-380); a new epoch under one id is a bounce."""

    id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
