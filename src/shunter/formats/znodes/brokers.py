"""Znodes of brokers and controller: registrations, `/controller`, the cluster's id, a migration to KRaft.

Source: Apache Kafka 3.9, `BrokerIdZNode`, `ControllerZNode`, `ControllerEpochZNode`, `ClusterIdZNode`, `MigrationZNode`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import (
    INT64,
    Document,
    read_document,
    read_integer,
    read_object,
    read_partition_number,
    read_text,
    read_version,
    write_document,
)
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId

NO_KRAFT = -1
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROCESS_FIELD = "shunter_process"
_CONTROLLER_FIELD = "shunter_controller"


class ProcessIdentity(NamedTuple):
    """The process that wrote a registration, precise enough to find out whether it still runs.

    Only processes that share `boot_id` and `pid_namespace` can judge one another. `started` (clock ticks since boot,
    Linux `/proc/PID/stat`) tells two processes apart that had the same pid one after the other.
    """

    boot_id: str
    pid_namespace: str
    pid: int
    started: int


class ControllerRegistration(NamedTuple):
    """Znode `/controller`. `kraft_epoch` is -1 unless a KRaft controller holds it."""

    broker: BrokerId
    kraft_epoch: int = NO_KRAFT


def decode_broker(name: str, data: bytes | None, epoch: int) -> Broker:
    """Read a registration, versions 1 to 5.

    Args:
        name: The znode's name, which is the broker's id.
        data: What the znode holds.
        epoch: The znode's czxid: the broker epoch.

    Raises:
        FormatError: it can't be read.
    """
    place = f"{znodes.BROKER_IDS}/{name}"
    broker_id = read_partition_number(name, place)
    document = read_document(data, place)
    version = read_version(document, place, range(1, 6))
    rack = document.get("rack")
    if rack is not None and type(rack) is not str:
        raise FormatError(place, f"rack is {rack!r} where a text is expected")
    endpoints = _first_endpoint(document, place) if version == 1 else _endpoints(document, place)
    return Broker(broker_id, epoch, endpoints, rack, _features(document, place))


def is_controller_only(data: bytes | None, place: str) -> bool:
    """Whether a registration is a Shunter controller's. Such a broker holds no data, and must not get any."""
    return read_document(data, place).get(_CONTROLLER_FIELD) is True


def encode_broker(
    broker: Broker, *, timestamp_ms: int, process: ProcessIdentity | None = None, controller_only: bool = False
) -> bytes:
    """Print a registration, version 5. Apache ignores the fields that mark a Shunter controller and its process."""
    plain = next((endpoint for endpoint in broker.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
    document: Document = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [_endpoint_text(endpoint) for endpoint in broker.endpoints],
        "jmx_port": -1,
        "timestamp": str(timestamp_ms),
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints
        },
        "features": {name: {"min_version": low, "max_version": high} for name, low, high in broker.features},
    }
    if broker.rack is not None:
        document["rack"] = broker.rack
    if controller_only:
        document[_CONTROLLER_FIELD] = True
    if process is not None:
        document[_PROCESS_FIELD] = process._asdict()
    return write_document(document)


def decode_process(data: bytes | None, place: str) -> ProcessIdentity | None:
    """Read which Shunter process wrote a registration or `/controller`; None if it names no Shunter process."""
    document = read_document(data, place)
    if document.get(_PROCESS_FIELD) is None:
        return None
    process = read_object(document, _PROCESS_FIELD, place)
    return ProcessIdentity(
        read_text(process, "boot_id", place),
        read_text(process, "pid_namespace", place),
        read_integer(process, "pid", place),
        read_integer(process, "started", place, high=INT64),
    )


def decode_controller(data: bytes | None) -> ControllerRegistration:
    """Read `/controller`, versions 1 (before 3.4) and 2."""
    document = read_document(data, znodes.CONTROLLER)
    read_version(document, znodes.CONTROLLER, (1, 2), absent=1)
    broker = read_integer(document, "brokerid", znodes.CONTROLLER)
    kraft_epoch = NO_KRAFT
    if document.get("kraftControllerEpoch") is not None:
        kraft_epoch = read_integer(document, "kraftControllerEpoch", znodes.CONTROLLER, low=NO_KRAFT)
    return ControllerRegistration(broker, kraft_epoch)


def encode_controller(broker: BrokerId, *, timestamp_ms: int, process: ProcessIdentity | None = None) -> bytes:
    """Print `/controller`, version 2, for a controller of ZooKeeper mode. Apache ignores the process field."""
    document: Document = {
        "version": 2,
        "brokerid": broker,
        "timestamp": str(timestamp_ms),
        "kraftControllerEpoch": NO_KRAFT,
    }
    if process is not None:
        document[_PROCESS_FIELD] = process._asdict()
    return write_document(document)


def decode_controller_epoch(data: bytes | None) -> int:
    """Read `/controller_epoch`: a number in plain text."""
    text = (data or b"").decode("ascii", "replace")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise FormatError(znodes.CONTROLLER_EPOCH, f"{text!r} is not a number")
    return int(text)


def encode_controller_epoch(epoch: int) -> bytes:
    """Print `/controller_epoch`."""
    return b"%d" % epoch


def encode_controller_id() -> bytes:
    """Print a child of `/admin/shunter/controllers`; the znode's name is the controller's id."""
    return write_document({"version": 1})


def decode_controller_id(name: str, data: bytes | None) -> BrokerId:
    """Read a child of `/admin/shunter/controllers`: the id of a Shunter that has been the controller.

    Raises:
        FormatError: it can't be read, or its name is no broker id.
    """
    place = f"{znodes.CONTROLLERS}/{name}"
    broker_id = read_partition_number(name, place, "broker id")
    read_version(read_document(data, place), place, (1,))
    return broker_id


def decode_cluster_id(data: bytes | None) -> str:
    """Read `/cluster/id`; its version is a text in every Kafka."""
    return read_text(read_document(data, znodes.CLUSTER_ID), "id", znodes.CLUSTER_ID)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Print `/cluster/id`."""
    return write_document({"version": "1", "id": cluster_id})


def decode_migration_owner(data: bytes | None) -> int:
    """Read from `/migration` which KRaft controller migrates this cluster; -1 for none (yet)."""
    document = read_document(data, znodes.MIGRATION)
    read_version(document, znodes.MIGRATION, (0,))
    return read_integer(document, "kraft_controller_id", znodes.MIGRATION, low=-1)


def _first_endpoint(document: Document, place: str) -> tuple[Endpoint, ...]:
    host = read_text(document, "host", place)
    return (Endpoint("PLAINTEXT", "PLAINTEXT", host, read_integer(document, "port", place, high=65535)),)


def _endpoints(document: Document, place: str) -> tuple[Endpoint, ...]:
    texts = document.get("endpoints")
    if type(texts) is not list or not all(type(text) is str for text in texts):
        raise FormatError(place, f"endpoints is {texts!r} where a list of texts is expected")
    protocols = read_object(document, "listener_security_protocol_map", place)
    return tuple(_endpoint(text, protocols, place) for text in texts)


def _endpoint(text: str, protocols: Document, place: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        raise FormatError(place, f"endpoint {text!r} is not of the form LISTENER://host:port")
    listener = found[1]
    protocol = protocols.get(listener, listener)
    if protocol not in _PROTOCOLS:
        raise FormatError(place, f"listener {listener!r} has security protocol {protocol!r}, not one of {_PROTOCOLS}")
    return Endpoint(listener, protocol, found[2], int(found[3]))


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _features(document: Document, place: str) -> tuple[tuple[str, int, int], ...]:
    features = read_object(document, "features", place)
    found: list[tuple[str, int, int]] = []
    for name in sorted(features):
        levels = read_object(features, name, place)
        low = read_integer(levels, "min_version", place, high=32767)
        found.append((name, low, read_integer(levels, "max_version", place, high=32767)))
    return tuple(found)
