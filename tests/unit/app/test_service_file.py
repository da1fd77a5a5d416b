"""What the policy file says of the service itself, and what is said of one that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shunter.app.evaluation.policy import ServiceFile, read_service_file
from shunter.errors import SettingsError
from shunter.model.execution import ExecutionOptions
from shunter.model.service import INFORMED, NOTIFIED, Notifier, NotifierKind

PAGE = (Path(__file__).parents[3] / "docs" / "keeper.md").read_text()
HEAD = '[cluster.a]\nbootstrap-server = "h:1"\n'


def read(folder: Path, text: str) -> ServiceFile:
    path = folder / "keeper.toml"
    path.write_text(text)
    return read_service_file(path)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    found = read(tmp_path, example[1])
    assert (found.look_every_s, found.snapshots, found.snapshot_every_s) == (60, tmp_path / "snapshots", 3600)
    assert found.notify == (Notifier(NotifierKind.SLACK, "https://hooks.slack.com/services/T0/B0/secret"),)
    (cluster,) = found.clusters
    assert cluster.options == ExecutionOptions(throttle=50_000_000, max_in=2)
    assert cluster.policy.rails.approvals == 1


def test_the_page_names_every_event_that_is_told() -> None:
    assert [kind for kind in (*NOTIFIED, *INFORMED) if f"`{kind}`" not in PAGE] == []


def test_copies_between_log_dirs_have_a_throttle_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + '[cluster.a.execution]\nlog-dir-throttle = "20M"\n')
    assert found.clusters[0].options == ExecutionOptions(log_dir_throttle=20_000_000)


def test_whose_a_token_and_a_user_are(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + '[people]\nanna = { tokens = ["anna-ci"], users = ["anna", "root"] }\nben = {}\n')
    people = found.clusters[0].policy.rails.people
    assert people == {"token anna-ci": "anna", "user anna": "anna", "user root": "anna"}


def test_what_is_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD)
    assert (found.look_every_s, found.snapshots, found.notify) == (60, None, ())
    assert found.clusters[0].options == ExecutionOptions()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[service]\nlook-second = 3\n", "look-second is not a key of a policy; did you mean look-seconds?"),
        ("[service]\nlook-seconds = 0\n", "look-seconds = 0: a whole number from 1 on is wanted"),
        ('[[notify]]\nkind = "mail"\n', "[[notify]] 1 kind = 'mail': webhook or slack or alertmanager or command"),
        ('[[notify]]\nkind = "slack"\n', "[[notify]] 1: slack needs url, and can't have command"),
        ('[[notify]]\nkind = "command"\ncommand = []\n', "command = []: a program is wanted"),
        ('[[notify]]\nkind = "webhook"\nurl = "hook"\n', "url = 'hook': http://HOST or https://HOST is wanted"),
        ('[[notify]]\nkind = "webhook"\nurl = "http://h:99999/"\n', "http://HOST or https://HOST is wanted"),
        ('[[notify]]\nkind = "webhook"\nurl = "http://:80/"\n', "http://HOST or https://HOST is wanted"),
        (
            '[[notify]]\nkind = "webhook"\nurl = "http://h"\nevents = ["begin"]\n',
            "events: 'begin' is not an event; did you mean begun?",
        ),
        ('[cluster.a.execution]\nthrottle = "fast"\n', "execution.throttle = 'fast': bytes are wanted"),
        (
            '[cluster.a.execution]\nthrottle-floor = "1M"\n',
            "there is no throttle; name a throttle that is at least its floor",
        ),
        ('[people]\nanna = { token = ["a"] }\n', "[people] anna.token is not a key of a policy; did you mean tokens?"),
        ('[people]\nanna = ["a"]\n', "[people] anna = ['a']: a table is wanted"),
        (
            '[people]\nanna = { users = ["root"] }\nben = { users = ["root"] }\n',
            "[people] ben.users: user root is anna already: leave one of them out",
        ),
        ("[cluster.a.limits]\napprovals = 0\n", "limits.approvals = 0: a whole number from 1 on is wanted"),
        ("[cluster.a.limits]\nmoves = 99999999999\n", "moves = 99999999999: at most 2,147,483,647 is allowed"),
        (
            '[cluster.a.limits]\nbytes = "9999999999T"\n',
            "bytes = '9999999999T': at most 9,223,372,036,854,775,807 bytes",
        ),
        (f'[cluster.a.limits]\nbytes = "{"9" * 400}"\n', "at most 9,223,372,036,854,775,807 bytes are allowed"),
        ('[cluster.b]\nbootstrap-server = "kafka1"\n', "[cluster.b] bootstrap server 'kafka1' is no HOST:PORT"),
    ],
)
def test_what_is_wrong_is_named_with_the_rule(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, HEAD + text)
    assert told in str(refused.value)


def test_a_journal_is_of_one_cluster(tmp_path: Path) -> None:
    both = '[cluster.a]\nbootstrap-server = "h:1"\njournal = "j"\n[cluster.b]\nbootstrap-server = "h:2"\njournal = "./x/../j"\n'
    with pytest.raises(SettingsError, match=r"\[cluster\.a\] has it too, and each cluster needs a journal of its own"):
        read(tmp_path, both)


def test_a_mark_at_the_start_of_the_file_is_no_part_of_it(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff" + HEAD).clusters[0].name == "a"
