"""Airflow 3: Shunter's pipeline once a day. Put this file into the folder of DAGs.

Each task is one command. It starts a Spark of its own on the worker's machine (or uses yours, by `--master` in SHUNTER_OPTIONS), ends
with the command's exit status, and gives its `--json` to XCom. Running a task again does no work twice. Set these environment variables
of the workers:

    SHUNTER           the command; else `shunter` of the PATH. It may be in a virtual environment of its own.
    SHUNTER_LAKE      the folder of the tables
    SHUNTER_LANDING   the folder below which `snapshots` (of `collect`) and `prometheus` (of `collect-prometheus`) are
    SHUNTER_CLUSTER   the id of the cluster that Prometheus scrapes
    SHUNTER_BROKERS   the broker of each instance: `--broker kafka1:7071=1 --broker kafka2:7071=2`
    SHUNTER_PLANS     the folder for plans and the report
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

COMMAND = "${SHUNTER:-shunter} pipeline $SHUNTER_OPTIONS"

with DAG(
    "shunter_pipeline",
    schedule="30 4 * * *",
    start_date=datetime(2025, 1, 1),  # noqa: DTZ001 - Airflow takes it for UTC
    catchup=False,
    # Only one stage at a time may replace a cluster's derived tables. Another one would be refused.
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
) as dag:

    def stage(task_id: str, arguments: str, **given: object) -> BashOperator:
        """One command of `shunter pipeline`; its last line, the JSON, goes to XCom."""
        return BashOperator(task_id=task_id, bash_command=f"{COMMAND} {arguments}", **given)

    snapshots = stage("ingest_snapshots", "ingest $SHUNTER_LANDING/snapshots --kind snapshots --json")
    prometheus = stage(
        "ingest_prometheus",
        "ingest $SHUNTER_LANDING/prometheus --kind prometheus --cluster $SHUNTER_CLUSTER $SHUNTER_BROKERS --json",
    )
    compact = stage("compact", "compact --keep-days 60 --json")
    model = stage("model", "model --json")
    quality = stage("quality", "quality --json")
    # Not tried again: a cluster that can't be planned today can't be planned in five minutes.
    plan = stage("plan", "plan --out $SHUNTER_PLANS --json", retries=0)
    schedule = stage("schedule", "schedule --json", retries=0)
    report = stage("report", "report --cluster $SHUNTER_CLUSTER --out $SHUNTER_PLANS/report.html", retries=0)

    [snapshots, prometheus] >> compact >> model >> quality >> plan >> schedule >> report
