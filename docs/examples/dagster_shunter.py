"""Dagster: Shunter's pipeline once a day. `dagster dev -f dagster_shunter.py`, or `dagster job execute -f … -j shunter_pipeline`.

One op does all stages by one command, which starts one Spark. The `--json` of each stage becomes the op's metadata, and an exit status
above 0 the op's failure. Running it again skips the files that were taken. The environment variables are those of airflow_shunter.py:
SHUNTER, SHUNTER_OPTIONS, SHUNTER_LAKE, SHUNTER_LANDING, SHUNTER_CLUSTER, SHUNTER_BROKERS, SHUNTER_PLANS.
"""

import json
import os
import shlex
import subprocess
from string import Template

from dagster import (
    Backoff,
    Definitions,
    Failure,
    OpExecutionContext,
    RetryPolicy,
    ScheduleDefinition,
    in_process_executor,
    job,
    op,
)

STAGES = {
    "ingest_snapshots": "ingest $SHUNTER_LANDING/snapshots --kind snapshots --json",
    "ingest_prometheus": "ingest $SHUNTER_LANDING/prometheus --kind prometheus --cluster $SHUNTER_CLUSTER $SHUNTER_BROKERS --json",
    "compact": "compact --keep-days 60 --json",
    "model": "model --json",
    "quality": "quality --json",
    "plan": "plan --out $SHUNTER_PLANS --json",
    "schedule": "schedule --json",
    "report": "report --cluster $SHUNTER_CLUSTER --out $SHUNTER_PLANS/report.html",
}


@op(retry_policy=RetryPolicy(max_retries=2, delay=300, backoff=Backoff.LINEAR))
def stages(context: OpExecutionContext) -> None:
    """From what was collected to a plan with its schedule and report."""
    given = {"SHUNTER": "shunter", "SHUNTER_OPTIONS": "", **os.environ}
    row = " ".join(STAGES.values())
    command = shlex.split(Template(f"$SHUNTER pipeline $SHUNTER_OPTIONS do {row}").substitute(given))
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    # Each stage writes one line. Of a row that failed there are those of the stages before, and of the one that failed.
    lines = ended.stdout.strip().splitlines()
    if ended.returncode:
        # Only status 1 is tried again. After the others (refused, nothing to do) a retry changes nothing.
        raise Failure(
            f"the row ended with {ended.returncode}: {ended.stderr.strip() or (lines or [''])[-1]}",
            allow_retries=ended.returncode == 1,
        )
    told = dict(zip(STAGES, lines, strict=True))
    context.add_output_metadata({name: json.loads(one) if one.startswith("{") else one for name, one in told.items()})


@job(executor_def=in_process_executor)
def shunter_pipeline() -> None:
    """The stages, in one op."""
    stages()


daily = ScheduleDefinition(job=shunter_pipeline, cron_schedule="30 4 * * *")
defs = Definitions(jobs=[shunter_pipeline], schedules=[daily])
