"""The settings that Spark is opened with, on this machine and elsewhere."""

from dataclasses import replace

from shunter.pipeline.session import JAVA_OPTIONS, SMALL_BYTES, SMALL_JAVA, SessionSettings, is_small, spark_settings

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


def test_a_connect_session_is_given_what_a_session_may_set():
    chosen = spark_settings(SessionSettings(conf={"spark.remote": "sc://yard:15002"}))
    assert chosen["spark.remote"] == "sc://yard:15002"
    assert all(name.startswith("spark.sql.") for name in chosen.keys() - {"spark.remote"})
    assert "spark.sql.extensions" not in chosen


def test_on_this_machine_small_work_is_cut_into_few_tasks():
    here, elsewhere = (spark_settings(SessionSettings(master=master)) for master in ("local[3]", "spark://yard:7077"))
    assert here["spark.sql.shuffle.partitions"] == "3"
    assert here["spark.databricks.delta.snapshotPartitions"] == "1"
    assert spark_settings(SessionSettings(master="local"))["spark.sql.shuffle.partitions"] == "1"
    assert "spark.sql.shuffle.partitions" not in elsewhere


def test_small_inputs_are_not_worth_a_compilation():
    here = spark_settings(SessionSettings(master="local[3]", small=True))
    assert here[JAVA_OPTIONS].endswith(SMALL_JAVA)
    names = ("codegen.wholeStage", "adaptive.enabled", "shuffle.partitions")
    assert [here[f"spark.sql.{name}"] for name in names] == ["false", "false", "1"]
    asked = SessionSettings(master="local[3]", small=True, shuffle_partitions=4)
    assert spark_settings(asked)["spark.sql.shuffle.partitions"] == "4"
    elsewhere = SessionSettings(master="spark://yard:7077")
    assert spark_settings(elsewhere) == spark_settings(replace(elsewhere, small=True)), "a cluster keeps its own"


def test_what_this_machine_holds_is_measured_and_elsewhere_nothing_is_small(tmp_path):
    folder = tmp_path / "with blank"
    (folder / "day").mkdir(parents=True)
    (folder / "day" / "one").write_bytes(b"x" * 1_000)
    assert is_small([str(folder), folder.as_uri(), str(tmp_path / "not there")])
    with (folder / "day" / "two").open("wb") as sparse:
        sparse.truncate(SMALL_BYTES)
    assert not is_small([str(folder)])
    assert not is_small([folder.as_uri()])
    assert not any(is_small([place]) for place in ("s3a://bucket/lake", f"{tmp_path}/*.json"))
