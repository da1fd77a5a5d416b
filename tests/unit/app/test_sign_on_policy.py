"""Single sign-on in the policy file: what the tables mean, and what is said of those that are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from shunter.app.access.page_sessions import PageSessions
from shunter.app.evaluation.policy import ServiceFile, read_service_file
from shunter.app.evaluation.policy_form import IssuerForm, ProxyForm
from shunter.app.service.reloading import needs_restart
from shunter.errors import FormatError, SettingsError
from shunter.model.security.access import AccessRole, IssuerRules, ProxyRules, SignOnRules
from shunter.model.security.listeners import Secret

PAGE = (Path(__file__).parents[3] / "docs" / "web.md").read_text().partition("## Single sign-on")[2]
SECTION = PAGE.partition("\n## ")[0]
EXAMPLES = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
HEAD = '[cluster.a]\nbootstrap-server = "h:1"\n[service]\naddress = "https://s.example"\n'
ROLES = '[sign-on.roles]\nops = "operate"\n'
OIDC = '[sign-on.oidc]\nissuer = "https://i.example"\nclient-id = "c"\n'


@pytest.fixture(autouse=True)
def _no_secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SHUNTER_OIDC_CLIENT_SECRET", raising=False)
    return


def read(folder: Path, text: str) -> ServiceFile:
    path = folder / "keeper.toml"
    path.write_text(text)
    return read_service_file(path)


def issuer_of(file: ServiceFile) -> IssuerRules:
    assert file.sign_on is not None
    assert file.sign_on.issuer is not None
    return file.sign_on.issuer


def test_the_least_and_the_most_that_can_be_said_of_an_issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert issuer_of(read(tmp_path, HEAD + ROLES + OIDC)) == IssuerRules("https://i.example", "c", "https://s.example")
    monkeypatch.setenv("SHUNTER_OIDC_CLIENT_SECRET", "from the environment")
    assert issuer_of(read(tmp_path, HEAD + ROLES + OIDC)).client_secret == Secret("from the environment")
    (tmp_path / "secret").write_text("from a file\n")
    (tmp_path / "secret").chmod(0o600)
    more = (
        'client-secret-file = "secret"\nscopes = ["openid", "groups"]\naudience = "tools"\nuser-claim = "email"\n'
        'groups-claim = "realm_access.roles"\nca-file = "ca.pem"\nleeway-seconds = 5\nsession-minutes = 60\nlabel = "ID"\n'
    )
    found = issuer_of(read(tmp_path, HEAD + ROLES + OIDC + more))
    assert found == IssuerRules(
        *("https://i.example", "c", "https://s.example", Secret("from a file"), ("openid", "groups"), "tools"),
        *("realm_access.roles", "email", str(tmp_path / "ca.pem"), 5, 3600, "ID"),
    )
    assert "from a file" not in repr(found)


def test_a_proxy(tmp_path: Path) -> None:
    text = HEAD + ROLES + '[sign-on.proxy]\nfrom = ["10.0.0.5", "fd00::/64"]\nuser-header = "Remote-User"\n'
    proxy = ProxyRules((ip_network("10.0.0.5/32"), ip_network("fd00::/64")), "Remote-User")
    assert read(tmp_path, text).sign_on == SignOnRules({"ops": AccessRole.OPERATE}, None, proxy)
    assert read(tmp_path, HEAD).sign_on is None


def test_a_change_needs_a_restart(tmp_path: Path) -> None:
    before, after = read(tmp_path, HEAD + ROLES + OIDC), read(tmp_path, HEAD + ROLES.replace("operate", "read") + OIDC)
    assert list(needs_restart(before, after)) == ["[sign-on] changed, which needs a restart of the service"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page(tmp_path: Path, example: str) -> None:
    (tmp_path / "oidc-secret").write_text("s")
    assert read(tmp_path, '[cluster.a]\nbootstrap-server = "h:1"\n' + example).sign_on is not None


def test_the_page_has_every_key_and_every_default() -> None:
    assert len(EXAMPLES) == 3
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (.+) \|$", SECTION, re.MULTILINE))
    assert list(rows) == [each.alias for each in IssuerForm.model_fields.values()]
    for field in IssuerForm.model_fields.values():
        if isinstance(field.default, str | int):
            assert str(field.default) in rows[field.alias or ""], field.alias
    assert [each.alias for each in ProxyForm.model_fields.values() if f"{each.alias} = " not in SECTION] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OIDC, "[sign-on.roles] is missing, and has no default: write it"),
        ("[sign-on]\nroles = {}\n" + OIDC, "[sign-on.roles]"),
        ('[sign-on.roles]\nops = "admin"\n' + OIDC, "[sign-on.roles] ops = 'admin': read or operate or administer is"),
        (ROLES, "sign-on: who signs people on is missing: write [sign-on.oidc] or [sign-on.proxy]"),
        (ROLES + '[sign-on.oidc]\nissuer = "https://i"\n', "[sign-on.oidc] client-id is missing, and has no default"),
        (ROLES + OIDC.replace("https", "http"), "issuer = 'http://i.example': what an issuer says must not be changed"),
        (
            ROLES + OIDC + 'client-secret = "x"\n',
            "client-secret is not a key of a policy; did you mean client-secret-file?",
        ),
        (ROLES + OIDC + 'scopes = ["email"]\n', "scopes = ['email']: openid is wanted among them"),
        (ROLES + OIDC + "leeway-seconds = 301\n", "[sign-on.oidc] leeway-seconds = 301"),
        (ROLES + "[sign-on.proxy]\nfrom = []\n", "[sign-on.proxy] from"),
        (ROLES + '[sign-on.proxy]\nfrom = ["0.0.0.0/0"]\n', "'0.0.0.0/0' is every address, and anybody could write"),
        (ROLES + '[sign-on.proxy]\nfrom = ["proxy"]\n', "write an address or a network, as 10.0.0.5 or 10.1.0.0/16"),
        (ROLES + '[sign-on.proxy]\nfrom = ["10.0.0.5/8"]\n', "10.0.0.5/8 has host bits set: write an address"),
        (ROLES + '[sign-on.proxy]\nfrom = ["10.0.0.5"]\nuser-header = "A b"\n', "user-header = 'A b': a header's name"),
    ],
)
def test_what_is_wrong_is_named_with_the_rule(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, HEAD + text)
    assert told in str(refused.value)


def test_an_issuer_needs_an_address_to_send_people_back_to(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[?service\]?\.?address is missing|service\.address is missing"):
        read(tmp_path, '[cluster.a]\nbootstrap-server = "h:1"\n' + ROLES + OIDC)


def test_a_secret_s_file_is_there_and_has_something(tmp_path: Path) -> None:
    text = HEAD + ROLES + OIDC + 'client-secret-file = "secret"\n'
    with pytest.raises(FormatError, match=r"secret.*can't be read"):
        read(tmp_path, text)
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(SettingsError, match="the file is empty: write the secret into it"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "row", ['["d", "", 1]', '["d", "t", 1, "anna", []]', '["d", "", 1, "anna", 5]', '["d", "", 1, 7, []]']
)
def test_a_damaged_session_is_nobody_s(tmp_path: Path, row: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "sessions.json"
    path.write_text(f'{{"version": 1, "sessions": [{row}]}}')
    PageSessions(path, lambda: 0)
    assert "sign in again" in caplog.text
