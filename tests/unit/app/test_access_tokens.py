"""Tokens: made once, kept as digests, judged by role and time; files that others may read are refused."""

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.access.access_tokens import AccessRole, Person, Tokens, add_token, digest_of, read_tokens, remove_token
from shunter.app.access.private_files import modes_for_others
from shunter.cli.main import main
from shunter.errors import FormatError, SettingsError

DAY_MS = 86_400_000


def test_a_token_is_known_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret = add_token(path, "anna", AccessRole.OPERATE, 1)
    (token,) = read_tokens(path)
    assert Tokens(path).person(secret) == Person("anna", AccessRole.OPERATE, token.made_ms + DAY_MS)
    assert Tokens(path).person(secret + "x") is None
    assert secret.removeprefix("shunter_") not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_expires(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret = add_token(path, "anna", AccessRole.READ, 1)
    made = read_tokens(path)[0].made_ms
    before, after = Tokens(path, lambda: made + DAY_MS - 1), Tokens(path, lambda: made + DAY_MS)
    assert before.person(secret) == Person("anna", AccessRole.READ, made + DAY_MS)
    assert [each.name for each in before.expiring(1)] == ["anna"]
    assert Tokens(path, lambda: made - 1).expiring(1) == ()
    assert (after.current(), after.expiring(1)) == ((), ())
    assert before.expired_of(digest_of(secret)) is None
    assert after.person(secret) is None
    assert after.expired_of(digest_of(secret)) == "anna"


def test_a_change_of_the_file_counts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first = add_token(path, "anna", AccessRole.READ, None)
    tokens = Tokens(path)
    second = add_token(path, "bert", AccessRole.ADMINISTER, None)
    assert tokens.person(second) == Person("bert", AccessRole.ADMINISTER)
    remove_token(path, "anna")
    assert tokens.person(first) is None
    path.unlink()
    with pytest.raises(FormatError, match="can't be read"):
        tokens.person(second)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens.json"
    add_token(path, "anna", AccessRole.READ, None)
    path.chmod(mode)
    with pytest.raises(FormatError, match=f"has mode {mode:04o}.*chmod 600"):
        Tokens(path)


@pytest.mark.parametrize(
    ("mode", "owner", "user", "left"),
    [
        (0o440, 0, 10001, 0),  # a Secret that Kubernetes mounts for a pod's user
        (0o444, 0, 10001, 0o004),
        (0o460, 0, 10001, 0o020),
        (0o440, 10001, 10001, 0o040),
        (0o440, 0, 0, 0o040),
        (0o400, 10001, 10001, 0),
    ],
)
def test_the_group_of_a_user_may_read_what_root_owns(mode: int, owner: int, user: int, left: int) -> None:
    status = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, user, 0, 0, 0, 0))
    assert modes_for_others(status, user) == left


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is no file of tokens"),
        ("[]", "is no file of tokens"),
        ('{"version": 2, "tokens": []}', "version 2 is not understood"),
        ('{"version": 1, "tokens": [{"name": "a"}]}', "is no file of tokens"),
        (
            '{"version": 1, "tokens": [{"name": "a", "role": "god", "sha256": "", "made_ms": 1, "expires_ms": null}]}',
            "is no file of tokens",
        ),
    ],
)
def test_a_broken_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(FormatError, match=told):
        Tokens(path)


def test_names_are_given_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    add_token(path, "anna", AccessRole.READ, None)
    with pytest.raises(SettingsError, match="has a token 'anna' already"):
        add_token(path, "anna", AccessRole.READ, None)
    with pytest.raises(SettingsError, match="can't name a token"):
        add_token(path, "anna\nbert", AccessRole.READ, None)
    with pytest.raises(SettingsError, match="no token 'bert'; it has: anna"):
        remove_token(path, "bert")


def test_the_command(tmp_path: Path) -> None:
    path = str(tmp_path / "tokens.json")
    runner = CliRunner()
    made = runner.invoke(main, ["token", "add", "anna", "--tokens", path, "--role", "operate", "--days", "7"])
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    person = Tokens(Path(path)).person(secret)
    assert person is not None
    assert (person.name, person.role) == ("anna", AccessRole.OPERATE)
    listed = runner.invoke(main, ["token", "list", "--tokens", path])
    assert "anna" in listed.output
    assert secret not in listed.output
    assert runner.invoke(main, ["token", "remove", "anna", "--tokens", path]).exit_code == 0
    assert runner.invoke(main, ["token", "remove", "anna", "--tokens", path]).exit_code == 2
    assert runner.invoke(main, ["token", "list", "--tokens", path + "x"]).exit_code == 5
