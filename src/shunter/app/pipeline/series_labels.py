"""What the labels of Prometheus' series mean: from options, and from a mapping file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from shunter.errors import FormatError, SettingsError
from shunter.formats.series_labels import NamedCluster, SeriesLabels, broker_rule, labels_from_file
from shunter.formats.text_files import text_of


def series_labels(
    cluster: str | None,
    cluster_labels: Iterable[str],
    broker_from: Iterable[tuple[str, str]],
    brokers: Iterable[tuple[str, int]],
    file: Path | None,
) -> SeriesLabels:
    """Put options and a mapping file together.

    Args:
        cluster: The cluster whose series have the labels that `cluster_labels` names with a value.
        cluster_labels: `LABEL`, or `LABEL=VALUE`.

    Raises:
        FormatError: the file can't be read.
        SettingsError: a value can't be used; the error names the rule and the way out.
    """
    told = SeriesLabels() if file is None else labels_from_file(str(file), _text(file))
    names, values = split_labels(cluster_labels)
    if told.clusters and (names or values):
        raise SettingsError(f"--cluster-label and the clusters of {file} both name clusters: leave one of them out")
    if values and cluster is None:
        raise SettingsError("--cluster-label LABEL=VALUE says which series are of --cluster: give --cluster too")
    if values and cluster is not None:
        told = replace(told, clusters=(NamedCluster(cluster, values),))
    elif names:
        told = replace(told, cluster_label=names[0])
    rules = tuple(broker_rule("--broker-from", *one) for one in broker_from)
    return replace(told, brokers=(*told.brokers, *brokers), broker_from=(*rules, *told.broker_from))


def split_labels(cluster_labels: Iterable[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Tell `LABEL` (at most one) and `LABEL=VALUE` apart.

    Raises:
        SettingsError: both are there, or two without a value, or an empty part.
    """
    told = tuple(cluster_labels)
    names = tuple(one for one in told if "=" not in one)
    values = tuple((label, value) for label, _, value in (one.partition("=") for one in told if "=" in one))
    if len(names) > 1 or (names and values):
        raise SettingsError(
            f"--cluster-label {names[0]}: one label has the cluster's id as its value; say LABEL=VALUE if several tell it together"
        )
    if not all(names) or any(not label or not value for label, value in values):
        raise SettingsError("--cluster-label takes LABEL or LABEL=VALUE, and neither part may be empty")
    return names, values


def _text(file: Path) -> str:
    try:
        return text_of(file.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise FormatError(str(file), f"can't be read: {told}") from error


__all__ = ["series_labels", "split_labels"]
