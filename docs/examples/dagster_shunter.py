"""Dagster: Shunter's pipeline once a day. `dagster dev -f dagster_shunter.py`, or `dagster job execute -f … -j shunter_pipeline`.

Each op is one command, which starts a Spark of its own. Its `--json` becomes the op's metadata, and an exit status above 0 the op's
failure. Running an op again does no work twice. The environment variables are those of airflow_shunter.py: SHUNTER, SHUNTER_OPTIONS,
SHUNTER_LAKE, SHUNTER_LANDING, SHUNTER_CLUSTER, SHUNTER_BROKERS, SHUNTER_PLANS.
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
    In,
    Nothing,
    OpDefinition,
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

RETRIED = RetryPolicy(max_retries=2, delay=300, backoff=Backoff.LINEAR)
# A cluster that can't be planned today can't be planned in five minutes.
NOT_RETRIED = ("plan", "schedule", "report")


def stage(name: str) -> OpDefinition:
    """An op for one command of `shunter pipeline`. It runs after the ops that it is given."""

    @op(
        name=name,
        ins={"after": In(Nothing)},
        retry_policy=None if name in NOT_RETRIED else RETRIED,
    )
    def run(context: OpExecutionContext) -> None:
        given = {"SHUNTER": "shunter", "SHUNTER_OPTIONS": "", **os.environ}
        command = shlex.split(Template(f"$SHUNTER pipeline $SHUNTER_OPTIONS {STAGES[name]}").substitute(given))
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = ended.stdout.strip().splitlines()
        if ended.returncode:
            # Only status 1 is tried again. After the others (refused, nothing to do) a retry changes nothing.
            raise Failure(
                f"{name} ended with {ended.returncode}: {ended.stderr.strip() or (lines or [''])[-1]}",
                allow_retries=ended.returncode == 1,
            )
        told = lines[-1] if lines else ""
        context.add_output_metadata(json.loads(told) if told.startswith("{") else {"told": told})

    return run


ops = {name: stage(name) for name in STAGES}


@job(executor_def=in_process_executor)
def shunter_pipeline() -> None:
    """From what was collected to a plan with its schedule and report."""
    after = [ops["ingest_snapshots"](), ops["ingest_prometheus"]()]
    for name in ("compact", "model", "quality", "plan", "schedule", "report"):
        after = ops[name](after=after)


daily = ScheduleDefinition(job=shunter_pipeline, cron_schedule="30 4 * * *")
defs = Definitions(jobs=[shunter_pipeline], schedules=[daily])
