"""Of Spark's many lines people hear the one that says what was wrong."""

import pytest

pytest.importorskip("pyspark")

from shunter.app.pipeline.stages import gist_of

TRACE = """
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "fleet_worker.py", line 16, in <module>
    {line}
{error}

"""


def test_a_workers_own_error_and_a_module_that_is_missing() -> None:
    assert gist_of(TRACE.format(line="raise", error="ValueError: no such thing")) == "ValueError: no such thing"
    missing = gist_of(TRACE.format(line="import numpy", error="ModuleNotFoundError: No module named 'numpy'"))
    assert missing.startswith(
        "ModuleNotFoundError: No module named 'numpy' in Spark's Python workers: docs/pipeline.md"
    )
    assert gist_of("\n[PATH_NOT_FOUND] There is none.\nmore\n") == "[PATH_NOT_FOUND] There is none."
    assert gist_of("") == "it does not say why"
