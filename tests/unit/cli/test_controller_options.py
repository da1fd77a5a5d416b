"""What `shunter controller` refuses before it opens anything: options that do not go together."""

import pytest
from click.testing import CliRunner

from shunter.cli import main


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--json"], "--json goes with --check or --observe"),
        (["--check", "--observe"], "--check and --observe exclude one another"),
        (["--seconds", "5"], "--seconds and --settle go with --observe"),
        (["--check", "--settle", "5"], "--seconds and --settle go with --observe"),
        (["--observe"], "zookeeper: it has to be set"),
    ],
)
def test_options_that_do_not_go_together(options, told):
    done = CliRunner().invoke(main, ["controller", *options])
    assert done.exit_code == 2
    assert told in done.output
