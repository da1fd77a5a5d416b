"""One Spark for all tests that need it: two cores, one gigabyte, and the product's own settings for small inputs."""

import os
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

HERE = Path(__file__).parent
NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
EACH_RUN = {
    "test_a_line_that_is_no_sample_is_no_second_cluster",
    "test_a_plan_that_repeats_a_replica_or_a_partition_is_not_written",
    "test_a_planner_that_dies_is_told",
    "test_a_small_case_is_exact",
    "test_each_bad_row_is_kept_with_its_rule_and_counted",
    "test_each_cluster_has_its_row",
    "test_from_snapshots_to_a_report",
    "test_good_rows_arrive_typed_and_twice_is_once",
    "test_leader_and_follower_are_apart",
    "test_moves_with_their_bytes_and_stalls",
    "test_no_answer_of_an_exporter_is_misread",
    "test_no_moment_of_a_replica_counts_twice",
    "test_on_a_folder_of_this_machine_one_process_at_a_time_writes_a_table",
    "test_one_row_for_each_replica_and_role",
    "test_prometheus_counters_resets_gaps_and_shares",
    "test_the_day_on_which_a_broker_is_full",
    "test_the_lake_plans_an_incident_as_a_file_of_it_is_planned",
    "test_the_stages_are_exported_and_bring_no_spark_before_they_are_asked_for",
    "test_wrong_questions_end_with_2",
}
"""Of the tests with Spark, those of the default run: each stage and each kind of source once, in four minutes. The others
are long."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark import SparkContext

    from shunter.app.pipeline.delta_jars import delta_jars
    from shunter.drivers.host.cache import cache_folder
    from shunter.pipeline.session import SessionSettings, open_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Rows come back from Spark in local time, and the tests compare them with times of UTC.
    os.environ["TZ"] = "UTC"
    time.tzset()
    scratch = tmp_path_factory.mktemp("spark")
    settings = SessionSettings(
        name="shunter-tests",
        master="local[2]",
        memory="1g",
        small=True,
        jars=delta_jars(cache_folder()),
        conf={
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "ERROR",
        },
    )
    with warnings.catch_warnings():
        # py4j leaves its launcher's pipe to the garbage collector. Shunter can't change that.
        warnings.simplefilter("ignore", ResourceWarning)
        session = open_session(settings)
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    # PySpark keeps the JVM for the next session of this process, and does not wait for the JVM's end.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def lake(tmp_path):
    from shunter.pipeline.lake.tables import Lake

    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def now():
    return NOW


def pytest_collection_modifyitems(items):
    """Spark's Python side leaves the sockets of `collect` to the garbage collector. Shunter can't change that."""
    for item in items:
        if item.get_closest_marker("spark"):
            if item.path.parent == HERE and item.originalname not in EACH_RUN:
                item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
