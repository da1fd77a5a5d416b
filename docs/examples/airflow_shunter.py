"""Airflow 3: Shunter's pipeline once a day. Put this file into the folder of DAGs.

One task does all stages by one command, which starts one Spark on the worker's machine (or uses yours, by `--master` in
SHUNTER_OPTIONS). It ends with the exit status of the stage that failed, and gives its last line, the report's path, to XCom; the log has
the `--json` of each stage. Set these environment variables of the workers:

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

STAGES = """
ingest $SHUNTER_LANDING/snapshots --kind snapshots --json
ingest $SHUNTER_LANDING/prometheus --kind prometheus --cluster $SHUNTER_CLUSTER $SHUNTER_BROKERS --json
compact --keep-days 60 --json
model --json
quality --json
plan --out $SHUNTER_PLANS --json
schedule --json
report --cluster $SHUNTER_CLUSTER --out $SHUNTER_PLANS/report.html
"""

with DAG(
    "shunter_pipeline",
    schedule="30 4 * * *",
    start_date=datetime(2025, 1, 1),  # noqa: DTZ001 - Airflow takes it for UTC
    catchup=False,
    # Only one stage at a time may replace a cluster's derived tables. Another one would be refused.
    max_active_runs=1,
    # A second try skips the files that were taken, and makes everything else anew.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
) as dag:
    BashOperator(
        task_id="stages",
        bash_command="${SHUNTER:-shunter} pipeline $SHUNTER_OPTIONS do " + " ".join(STAGES.split()),
    )
