"""The settings that Spark is opened with, on this machine and elsewhere."""

from shunter.pipeline.session import JAVA_OPTIONS, SessionSettings, spark_settings

LIMIT = "spark.sql.codegen.hugeMethodLimit"


def test_large_methods_are_compiled_here_and_not_written_elsewhere():
    here, elsewhere = (spark_settings(SessionSettings(master=master)) for master in ("local[2]", None))
    assert "-XX:-DontCompileHugeMethods" in here[JAVA_OPTIONS]
    assert LIMIT not in here, "smaller methods are slower than one that is compiled"
    assert elsewhere[LIMIT] == "8000"


def test_what_is_asked_for_wins_but_for_utc():
    conf = {JAVA_OPTIONS: "-Xss4m", LIMIT: "1", "spark.sql.session.timeZone": "CET"}
    chosen = spark_settings(SessionSettings(master="spark://yard:7077", conf=conf))
    assert chosen[JAVA_OPTIONS].endswith(" -Xss4m")
    assert (chosen[LIMIT], chosen["spark.sql.session.timeZone"]) == ("1", "UTC")


def test_on_this_machine_small_work_is_cut_into_few_tasks():
    here, elsewhere = (spark_settings(SessionSettings(master=master)) for master in ("local[3]", "spark://yard:7077"))
    assert here["spark.sql.shuffle.partitions"] == "3"
    assert here["spark.databricks.delta.snapshotPartitions"] == "1"
    assert spark_settings(SessionSettings(master="local"))["spark.sql.shuffle.partitions"] == "1"
    assert "spark.sql.shuffle.partitions" not in elsewhere
