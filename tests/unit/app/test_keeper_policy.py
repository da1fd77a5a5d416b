"""The policy file: what it means, and what is said of one that is wrong."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from service_world import Clock, Yard

from shunter.app.evaluation import first_policy as first
from shunter.app.evaluation.policy import KeptCluster, ModelPlace, read_policies
from shunter.app.evaluation.policy_form import policy_schema
from shunter.app.executor.session import Target
from shunter.drivers.service.controller_status import ControllersPlace
from shunter.errors import FormatError, SettingsError
from shunter.model.keeper import (
    DEFAULTS,
    IN_DAYS,
    MEASURED,
    Condition,
    GuardRails,
    Intents,
    KeeperPolicy,
    Mode,
    Watch,
)
from shunter.model.limits import Window

PAGE = (Path(__file__).parents[3] / "docs" / "keeper.md").read_text()
HEAD = '[cluster.a]\nbootstrap-server = "h:1"\n'


def read(folder: Path, text: str) -> KeptCluster:
    path = folder / "keeper.toml"
    path.write_text(text)
    (found,) = read_policies(path)
    return found


def test_the_example_of_the_page_is_a_policy(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    found = read(tmp_path, example[1])
    assert found.name == "prod"
    assert found.target.bootstrap == "kafka1:9092,kafka2:9092"
    assert found.target.properties == tmp_path / "prod.properties"
    watches = found.policy.watches
    assert watches[Condition.BROKER_DEAD] == Watch(Mode.PROPOSE, 45)
    assert watches[Condition.DISK_BAND] == Watch(Mode.PROPOSE, 60, 0.25, 0.1)
    assert watches[Condition.RACKS] == Watch(Mode.NOTIFY, 30)
    assert watches[Condition.LEADERS_AWAY].mode is Mode.OFF
    assert watches[Condition.REPLICAS_BAND] == DEFAULTS[Condition.REPLICAS_BAND]
    assert found.policy.rails == GuardRails(
        moves=200,
        bytes=2 * 10**12,
        moves_per_day=500,
        bytes_per_day=5 * 10**12,
        cool_down_minutes=60,
        cool_off_minutes=120,
        windows=(Window(1320, 360, zone="UTC"),),
        frozen_topics=("payments", "audit-*"),
        frozen_brokers=(7,),
        gap_minutes=15,
        people={"token anna-ci": "anna", "user anna": "anna", "user root": "anna"},
    )
    assert found.policy.intents == Intents((3,), (4,), {"orders": 3}, 2, {5: 8}, (9,), cordon=True)


def test_a_lake_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + '[service]\nlake = "lake"\nmodel-hours = 6\n')
    assert found.model == ModelPlace(tmp_path / "lake", 6)
    assert read(tmp_path, HEAD).model is None


def test_controllers_are_where_they_serve_metrics(tmp_path: Path) -> None:
    text = 'controllers = ["http://127.0.0.1:9464/", "https://[::1]:9465"]\ncontrollers-token-file = "t"\n'
    place = ControllersPlace(("http://127.0.0.1:9464", "https://[::1]:9465"), tmp_path / "t")
    assert read(tmp_path, HEAD + text).controllers == place
    assert read(tmp_path, HEAD).controllers is None


def test_what_is_left_out_is_as_the_defaults_are(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD).policy == KeeperPolicy()


@pytest.mark.parametrize("condition", list(Condition))
def test_the_page_has_every_condition_with_its_default(condition: Condition) -> None:
    watch = DEFAULTS[condition]
    told = f"{watch.mode.value} " + (f"after {watch.minutes} minutes" if watch.minutes else "at once")
    if condition in MEASURED:
        told += f", {100 * watch.begin:.0f} to {100 * watch.end:.0f} %"
    if condition in IN_DAYS:
        told += f", {watch.begin:g} to {watch.end:g} days"
    assert re.search(rf"^\| `{condition.value}` \|.*\| {re.escape(told)} \|$", PAGE, re.MULTILINE), told


def test_a_profile_says_where_the_cluster_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text('[cluster.prod]\nbootstrap-server = "p:9"\njournal = "j"\n')
    monkeypatch.setenv("SHUNTER_CONFIG", str(tmp_path / "config.toml"))
    target = read(tmp_path, '[cluster.a]\nprofile = "prod"\n').target
    assert (target.bootstrap, target.journal) == ("p:9", tmp_path / "j")
    with pytest.raises(SettingsError, match="names no cluster 'other'; it names prod"):
        read(tmp_path, '[cluster.a]\nprofile = "other"\n')
    with pytest.raises(SettingsError, match="journal: profile = 'prod' says where the cluster is: leave one out"):
        read(tmp_path, '[cluster.a]\nprofile = "prod"\njournal = "k"\n')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no cluster: write [cluster.NAME]"),
        ("clusters = 1\n", "clusters is not a key of a policy; did you mean cluster?"),
        ("[cluster.a]\n", '[cluster.a]: bootstrap-server = "HOST:PORT" is missing'),
        ('[cluster."a/b"]\nbootstrap-server = "h:1"\n', "letters, digits"),
        (HEAD + 'journal = "x"\njournal-topic = "y"\n', "only one of them is allowed: leave one out"),
        (
            HEAD + "bootstrap-servers = 3\n",
            "bootstrap-servers is not a key of a policy; did you mean bootstrap-server?",
        ),
        (HEAD + "conditions = 3\n", "[cluster.a] conditions = 3: a table is wanted"),
        (HEAD + 'conditions.disc-band = "off"\n', "disc-band is not a key of a policy; did you mean disk-band?"),
        (HEAD + 'conditions.racks = "acts"\n', "racks.do = 'acts': off or notify or propose or act is wanted"),
        (
            HEAD + 'conditions.leaders-away = "propose"\n',
            "leaders-away.do = 'propose': no plan mends leaders-away: off or notify is wanted",
        ),
        (HEAD + "conditions.racks.minutes = -1\n", "racks.minutes = -1: a whole number from 0 on is wanted"),
        (HEAD + "conditions.racks.minutes = true\n", "racks.minutes = True: a whole number"),
        (
            HEAD + "conditions.racks.begin-percent = 3\n",
            "racks.begin-percent is not a key of a policy; known are do, minutes",
        ),
        (
            HEAD + "conditions.disk-band.begin-percent = 5\n",
            "end-percent = 10 is above begin-percent = 5: a plan must not aim above",
        ),
        (
            HEAD + "conditions.disk-runway.begin-percent = 5\n",
            "disk-runway.begin-percent is not a key of a policy; known are do, minutes, begin-days, end-days",
        ),
        (
            HEAD + "conditions.disk-runway = { begin-days = 20 }\n",
            "end-days = 14 is below begin-days = 20: a plan must not aim at fewer days than begin it",
        ),
        (HEAD + "conditions.disk-runway.end-days = 0\n", "end-days = 0: a number of days above 0 and up to 3,650"),
        (HEAD + "conditions.disk-full.end-percent = 100\n", "end-percent = 100: a number above 0 and below 100"),
        (HEAD + "limits.moves = 0\n", "limits.moves = 0: a whole number from 1 on is wanted"),
        (HEAD + 'limits.bytes = "12Q"\n', "limits.bytes = '12Q': bytes are wanted, as in \"500G\""),
        (HEAD + "limits.bytes = 0.5\n", "limits.bytes = 0.5: bytes are wanted"),
        (
            HEAD + 'limits.windows = "22:00-06:00"\n',
            "limits.windows = '22:00-06:00': a list is wanted, as in ['22:00-06:00']",
        ),
        (HEAD + 'limits.windows = ["22-06"]\n', "'22-06' is not a window: write \"22:00-06:00\""),
        (HEAD + 'limits.windows = ["22:00-22:00"]\n', "begins when it ends: leave it out"),
        (HEAD + "limits.frozen-topics = [1]\n", "limits.frozen-topics = 1: a text is wanted"),
        (HEAD + "limits.frozen-brokers = [-1]\n", "limits.frozen-brokers = -1: a whole number from 0 on is wanted"),
        (HEAD + 'limits.windows = ["Fun 22:00-06:00"]\n', "'Fun' is no weekday: write"),
        (HEAD + 'limits.windows = ["22:00-06:00 Mars/Base"]\n', "Mars/Base is no time zone of this machine"),
        (HEAD + 'mode = "look"\n', "[cluster.a] mode = 'look': keep or drive or observe is wanted"),
        ("mode = 3\n" + HEAD, ": mode = 3: keep or drive or observe is wanted"),
        (HEAD + 'balance.goals = ["racks"]\n', "balance.goals = 'racks': disk-band or bytes-in-band or"),
        (HEAD + 'balance.hard = ["disk-band", "disk-band"]\n', "balance.hard: 'disk-band' is named twice"),
        (HEAD + "balance.headroom-percent = -1\n", "headroom-percent = -1: a number from 0 to below 100"),
        (HEAD + 'balance.disk-capacity.x = "1T"\n', "balance.disk-capacity.x: a broker's id is wanted"),
        (HEAD + "limits.gap-minute = 1\n", "limits.gap-minute is not a key of a policy; did you mean gap-minutes?"),
        (HEAD + "intents.drain = 3\n", "intents.drain = 3: a list is wanted, as in [3]"),
        (HEAD + "intents.replication.orders = 0\n", "replication.orders = 0: a whole number from 1 on is wanted"),
        (
            HEAD + "intents.drain = [3]\nlimits.frozen-brokers = [3]\n",
            "intents.drain = [3]: broker 3 is in limits.frozen-brokers, too",
        ),
        (HEAD + 'controllers = "h:1"\n', "controllers = 'h:1': a list is wanted"),
        (
            HEAD + 'controllers = ["h:9464"]\n',
            "controllers: 'h:9464': the address of a controller's metrics is wanted, as in \"http",
        ),
        (HEAD + 'controllers = ["http://h"]\n', "'http://h': the address of a controller's metrics"),
        (HEAD + 'controllers = ["http://h:99999"]\n', "'http://h:99999': the address of a controller's metrics"),
        (
            HEAD + 'controllers = ["http://h:1/metrics"]\n',
            "'http://h:1/metrics': the address of a controller's metrics",
        ),
        (HEAD + 'controllers = ["http://me:secret@h:1"]\n', "the address of a controller's metrics"),
        (HEAD + 'controllers-ca-file = "ca.pem"\n', "controllers-ca-file is for controllers: name these, too"),
        (
            HEAD + 'controllers = ["http://h:1"]\ncontrollers-token-file = "t"\n',
            "controllers = 'http://h:1': the token would cross the network unencrypted: https:// is wanted",
        ),
        (
            HEAD + 'controllers = ["http://127.example.com:1"]\ncontrollers-token-file = "t"\n',
            "controllers = 'http://127.example.com:1': the token would cross the network unencrypted",
        ),
        (HEAD + "[service]\nmodel-hours = 3\n", "[service] model-hours is for models of the lake: set lake"),
        (HEAD + "intents.replace = [3]\n", "intents.replace = [3]: a table is wanted"),
        (HEAD + "intents.replace.three = 7\n", "intents.replace.three: a broker's id is wanted, as in { 3 = 7 }"),
        (HEAD + "intents.replace.3 = 3\n", "intents.replace of 3: broker 3 can't take its own place"),
        (
            HEAD + "intents.drain = [3]\nintents.replace = { 3 = 7 }\n",
            "intents.replace of 3: broker 3 is to be drained: leave one of them out",
        ),
        (HEAD + "intents.demote = [5]\nintents.add = [5]\n", "intents.add of 5: broker 5 is to be demoted"),
    ],
)
def test_what_is_wrong_is_named_with_its_way_out(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert told in str(caught.value)
    assert str(tmp_path / "keeper.toml") in str(caught.value)


def test_a_file_that_is_not_there_or_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"missing\.toml: can't be read: No such file"):
        read_policies(tmp_path / "missing.toml")
    with pytest.raises(FormatError, match=r"keeper\.toml: can't be read: Expected"):
        read(tmp_path, "[cluster")


def test_one_switch_lets_the_service_only_observe(tmp_path: Path) -> None:
    observing = read(
        tmp_path, 'mode = "observe"\n' + HEAD + 'conditions.disk-band = "act"\nconditions.racks = "off"\n'
    ).policy
    assert observing.observes
    assert {each.mode for each in observing.watches.values()} == {Mode.NOTIFY, Mode.OFF}
    assert observing.mode(Condition.RACKS) is Mode.OFF
    assert not read(tmp_path, 'mode = "observe"\n' + HEAD + 'mode = "keep"\n').policy.observes


def test_a_service_says_where_it_is_reached(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + '[service]\naddress = "https://lab-2:8090"\n')
    assert (found.target.address, read(tmp_path, HEAD).target.address) == ("https://lab-2:8090", "")


def test_a_service_that_only_drives_proposes_nothing(tmp_path: Path) -> None:
    driving = read(tmp_path, HEAD + 'mode = "drive"\nconditions.disk-band = "act"\nconditions.racks = "off"\n').policy
    assert not driving.observes
    assert {each.mode for each in driving.watches.values()} == {Mode.NOTIFY, Mode.OFF}


def test_windows_have_days_and_zones(tmp_path: Path) -> None:
    windows = '["Fri-Mon 22:00-06:00 Europe/Berlin", "Wed,Sat 01:00-02:00"]'
    found = read(tmp_path, HEAD + f"limits.windows = {windows}\n").policy.rails.windows
    assert found == (Window(1320, 360, (0, 4, 5, 6), "Europe/Berlin"), Window(60, 120, (2, 5), "UTC"))


def test_the_schema_knows_every_key_of_the_pages_example(tmp_path: Path) -> None:
    schema = policy_schema()
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None

    def known(given: Any, form: dict[str, Any]) -> None:
        form = schema["$defs"][form["$ref"].rpartition("/")[2]] if "$ref" in form else form
        if isinstance(given, list):
            for each in given:
                known(each, form.get("items", {}))
            return
        if not isinstance(given, dict):
            return
        form = next((each for each in form.get("anyOf", ()) if each.get("type") == "object"), form)
        for key, value in given.items():
            assert key in form.get("properties", {}) or form.get("additionalProperties") not in (None, False), key
            inner = form.get("properties", {}).get(key, form.get("additionalProperties"))
            known(value, inner if isinstance(inner, dict) else {})

    known(tomllib.loads(example[1]), schema)
    watch = schema["$defs"]["Conditions"]["properties"]["leaders-away"]["anyOf"]
    assert watch[0] == {"enum": ["off", "notify"]}
    assert "title" not in schema["$defs"]["LimitsForm"]["properties"]["moves"]


def test_a_first_policy_has_three_lines_that_only_observe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "take_sighting", lambda _target: Yard(Clock()).sight())
    text = first.first_policy("prod", Target("kafka1:9092", tmp_path / "admin.properties"), tmp_path)
    in_force = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert in_force == [
        'mode = "observe"',
        "[cluster.prod]",
        'bootstrap-server = "kafka1:9092"',
        'command-config = "admin.properties"',
    ]
    assert read(tmp_path, text).policy.observes
    assert "# It would tell: disk-band: broker 1 carries 1.50 of the mean in disk" in text
    uncommented = "\n".join(
        line.removeprefix("# ") for line in text.splitlines() if re.match(r"# ?(\[|[a-z-]+ = )", line)
    )
    read(tmp_path, "\n".join(in_force) + "\n" + uncommented)


def test_the_page_of_the_first_ten_minutes_has_policies(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "first-service.md").read_text()
    first_lines, notify, bounds = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert read(tmp_path, first_lines + notify).policy.observes
    kept = read(tmp_path, first_lines.replace("observe", "keep") + bounds)
    assert not kept.policy.observes
    assert kept.policy.rails.windows == (Window(1320, 360, (0, 1, 2, 3, 4), "Europe/Berlin"),)
