"""`shunter pipeline collect-prometheus`: files for `ingest --kind prometheus`, from the server itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from shunter.cli.pipeline.options import Duration, complaining

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("collect-prometheus")
@click.argument("url")
@click.option(
    "--since", type=click.DateTime(), help="The begin (UTC). Without it: the end of the folder's newest file."
)
@click.option("--until", type=click.DateTime(), help="The end (UTC). Without it: now.")
@click.option(
    "--step",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Time from one point to the next, which is how often Prometheus scrapes.",
)
@click.option(
    "--span",
    type=Duration(),
    default="6h",
    show_default=True,
    help="The most that one query asks for; never more than Prometheus' 11,000 points.",
)
@click.option("--query", help="The selector. Without it: the metrics that `ingest --kind prometheus` reads.")
@click.option(
    "--cluster-label",
    "cluster_labels",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Ask only for series that have this label.",
)
@click.option("--tenant", help="Mimir's tenant (X-Scope-OrgID); several with | between them.")
@click.option("--user", help="Log in as this user; --token-file has the password (as Grafana Cloud wants it).")
@click.option("--token-file", type=_FILE, help="A bearer token; read anew for each query.")
@click.option("--plain-http", is_flag=True, help="Send the token unencrypted, because the network is trusted.")
@click.option("--ca-file", type=_FILE, help="Certificates (PEM) to trust instead of the system's.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("prometheus"),
    show_default=True,
    help="Folder for the answers; `ingest --kind prometheus` reads it.",
)
@complaining
def collect_prometheus(
    url: str,
    since: datetime | None,
    until: datetime | None,
    step: float,
    span: float,
    query: str | None,
    cluster_labels: tuple[str, ...],
    tenant: str | None,
    user: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    out: Path,
    *,
    plain_http: bool,
) -> None:
    """Ask the Prometheus at URL for the metrics of brokers, span by span, and keep its answers.

    If it is run again, it goes on where it stopped. It starts no Spark.

    \b
    Examples:
      shunter pipeline collect-prometheus http://prometheus:9090 --since 2026-11-01
      shunter pipeline ingest prometheus --kind prometheus --cluster prod-eu --broker kafka1:7071=1
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline.prometheus_collection import PrometheusServer, PrometheusSpan, query_of  # noqa: PLC0415
    from shunter.app.pipeline.prometheus_collection import collect_prometheus as collected  # noqa: PLC0415
    from shunter.app.pipeline.series_labels import split_labels  # noqa: PLC0415

    names, labels = split_labels(cluster_labels)
    if names:
        raise click.UsageError(f"--cluster-label {names[0]}: say by which value too, as in {names[0]}=prod-eu")
    if query is not None and labels:
        raise click.UsageError("--cluster-label is for the query that is asked without --query: put it into yours")
    if user is not None and token_file is None:
        raise click.UsageError("--user needs its password: put it into a file, and name that with --token-file")
    end = None if until is None else int(until.replace(tzinfo=UTC).timestamp())
    begin = None if since is None else int(since.replace(tzinfo=UTC).timestamp())
    asked = PrometheusSpan(end, begin, max(1, round(step)), round(span), query or query_of(labels))
    answers = 0
    server = PrometheusServer(url, token_file, ca_file, plain_http=plain_http, tenant=tenant, user=user)
    for one in collected(server, out, asked):
        answers += 1
        click.echo(f"{one.path}: {one.series:,} series from {_told(one.start)} to {_told(one.end)}")
        for warning in one.warnings:
            click.echo(f"{one.path}: the server warns: {warning}", err=True)
        if not one.series:
            click.echo(f"{one.path}: no series: does the query name the metrics as your exporter does?", err=True)
    if not answers:
        click.echo("nothing new: the newest file ends less than a step ago")


def _told(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
