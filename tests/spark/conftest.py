"""One Spark for all tests that need it: two cores, one gigabyte, and the product's own settings for small inputs."""

import os
import sys
import time
import warnings
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


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
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
