r"""Which labels of a Prometheus series name its Kafka cluster and its broker, and the TOML file that says so for a fleet.

[broker-from]
kubernetes_pod_name = '.*-(\\d+)'

[brokers]
"kafka1:7071" = 1

[cluster."UYZJg8bhT_6SxhsdaQZEQ"]
cluster = "eu1"
strimzi_io_cluster = "orders"
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any, NamedTuple

from shunter.errors import SettingsError

TABLES = ("broker-from", "brokers", "cluster")


class NamedCluster(NamedTuple):
    """A Kafka cluster's id, and the labels that all of its series have."""

    cluster_id: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """What the labels of series mean."""

    brokers: tuple[tuple[str, int], ...] = ()
    """`instance`, or what `broker_from` finds, to broker id."""
    cluster_label: str | None = None
    """The label whose value is a cluster's id; None: one of the usual ones. Not together with `clusters`."""
    clusters: tuple[NamedCluster, ...] = ()
    """If there are any, series of no other cluster are taken. A series belongs to the one with the most labels."""
    broker_from: tuple[tuple[str, str], ...] = ()
    """Labels, and expressions that match their whole value, whose one group is a broker's id or a name in `brokers`."""


def labels_from_file(place: str, text: str) -> SeriesLabels:
    """Read a mapping file.

    Raises:
        SettingsError: names the place, the value, the rule, and the way out.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{place}: {error}") from error
    for name, value in document.items():
        if name not in TABLES or not isinstance(value, dict):
            raise SettingsError(f"{place}: {name} is none of its tables: {', '.join(f'[{one}]' for one in TABLES)}")
    clusters = tuple(_cluster(place, name, value) for name, value in document.get("cluster", {}).items())
    owners: dict[frozenset[tuple[str, str]], str] = {}
    for one in clusters:
        other = owners.setdefault(frozenset(one.labels), one.cluster_id)
        if other != one.cluster_id:
            words = ", ".join(f"{label} = {value!r}" for label, value in one.labels)
            raise SettingsError(
                f"{place}: clusters {other} and {one.cluster_id} have the same labels ({words}): add a label that differs"
            )
    from_labels = tuple(
        broker_rule(f"{place}: [broker-from]", label, value) for label, value in document.get("broker-from", {}).items()
    )
    brokers = document.get("brokers", {})
    for name, value in brokers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SettingsError(f"{place}: [brokers] {name!r} = {value!r}: not a broker id, a whole number from 0 up")
    return SeriesLabels(tuple(brokers.items()), None, clusters, from_labels)


def _cluster(place: str, name: str, table: Any) -> NamedCluster:
    where = f"{place}: [cluster.{name!r}]"
    if not isinstance(table, dict) or not table:
        raise SettingsError(f"{where} names no label: write LABEL = 'VALUE' below it, a line for each label")
    for label, value in table.items():
        if not isinstance(value, str) or not value:
            raise SettingsError(f"{where} {label} = {value!r}: a label's value is a text: write it in quotes")
    return NamedCluster(name, tuple(table.items()))


def broker_rule(where: str, label: str, expression: Any) -> tuple[str, str]:
    """A label and the expression that finds a broker in it.

    Raises:
        SettingsError: the expression can't be read, or has not one group.
    """
    way = r"write one group around the broker's id, such as '.*-(\d+)'"
    try:
        groups = re.compile(expression).groups
    except (re.error, TypeError) as error:
        raise SettingsError(f"{where} {label} = {expression!r} is no regular expression ({error}): {way}") from error
    if groups != 1 or "(?P" in expression:
        raise SettingsError(f"{where} {label} = {expression!r} has {groups} groups, or named ones: {way}")
    return label, expression


__all__ = ["TABLES", "NamedCluster", "SeriesLabels", "broker_rule", "labels_from_file"]
