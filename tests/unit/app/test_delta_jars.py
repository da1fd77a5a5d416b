"""Delta's jars: for which Spark there are some, who brings his own, and stores on which two writers are not kept apart."""

import tomllib
from pathlib import Path

import pytest

from shunter.app.pipeline import delta_jars as module
from shunter.app.pipeline.delta_jars import DELTA_VERSION, PINNED, brings_delta, coordinates, delta_jars
from shunter.app.pipeline.stages import PipelineSettings, refuse_if_unsafe
from shunter.errors import DriverError, SettingsError


def test_each_spark_has_its_own_jar_and_one_without_is_named():
    assert coordinates("4.2.0") == f"io.delta:delta-spark_4.2_2.13:{DELTA_VERSION}"
    with pytest.raises(
        DriverError, match=r"pyspark 4\.3\.0: Delta Lake .* has no jar for it, but for Spark 4\.1, 4\.2"
    ):
        coordinates("4.3.0")


def test_what_pip_installs_has_a_jar():
    """A stranger's find: `pip install 'shunter[all]'` took a Spark without one."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for extra in ("pipeline", "connect"):
        (wanted,) = (each for each in extras[extra] if each.startswith("pyspark"))
        most = int(wanted.partition("<4.")[2])
        coordinates(f"4.{most - 1}.0")
        with pytest.raises(DriverError):
            coordinates(f"4.{most}.0")


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages"])
def test_a_platforms_own_jars_count(name):
    assert brings_delta({name: "x.jar,io.delta:delta-spark_4.1_2.13:4.3.1"})
    assert not brings_delta({name: "x.jar"})


def test_a_jar_that_is_not_the_pinned_one_is_refused(tmp_path, monkeypatch):
    def fetch(work, name):
        (Path(work) / f"{name}-{DELTA_VERSION}.jar").write_bytes(b"another")

    monkeypatch.setattr(module, "_fetch", fetch)
    with pytest.raises(DriverError, match="it is not the jar that was pinned; delete it"):
        delta_jars(tmp_path)
    assert all(len(digest) == 64 for digest in PINNED.values())


@pytest.mark.parametrize("root", ["/lake", "lake", "unity.yards", "hdfs://n/lake", "abfss://c@a/lake", "gs://b/lake"])
def test_stores_that_make_a_commit_once_are_taken(root):
    refuse_if_unsafe(PipelineSettings(root))


@pytest.mark.parametrize("scheme", ["s3a", "s3", "oss"])
def test_a_store_that_does_not_keep_two_writers_apart_is_refused_by_name(scheme):
    root = f"{scheme}://bucket/lake"
    with pytest.raises(SettingsError, match=f"{root}: on {scheme}:// two writers at once could lose rows"):
        refuse_if_unsafe(PipelineSettings(root))
    refuse_if_unsafe(PipelineSettings(root, single_writer=True))
    refuse_if_unsafe(PipelineSettings(root, conf={f"spark.delta.logStore.{scheme}.impl": "com.example.Store"}))


def test_a_folder_is_absolute_and_a_schema_is_named_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert PipelineSettings("lake/").lake.root == str(tmp_path / "lake")
    assert PipelineSettings("unity.yards").lake.root == "unity.yards"
    assert PipelineSettings("s3a://b/lake").lake.root == "s3a://b/lake"
