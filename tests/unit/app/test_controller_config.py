"""What `shunter controller` can be told and refuses, what others are told of it, and defaults that differ."""

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from shunter.app.controller.broker_defaults import BrokerDefaults
from shunter.app.controller.process import ControllerProcess, registered_endpoints
from shunter.app.controller.security import Security
from shunter.app.controller.settings import load_controller_config, strange_variables
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.core.authorizer import NetworkAuthorizer
from shunter.drivers.listener.server import Listener, parse_listener
from shunter.errors import SettingsError
from shunter.model.security.listeners import ListenerSecurity, SecurityProtocol, SecuritySettings
from shunter.model.settings import ControllerSettings

GIVEN = {"zookeeper": "localhost:2181", "broker_id": 1000}
OURS = ControllerSettings(broker_id=100)
PLAIN = SecuritySettings()


def test_a_file_may_begin_with_a_mark_and_has_to_be_utf_8(tmp_path):
    file = tmp_path / "controller.toml"
    file.write_bytes("\ufeffbroker-id = 1001\n".encode())
    assert (
        load_controller_config(file, {"zookeeper": "localhost:2181", "listener": ["PLAINTEXT://:9090"]}).broker_id
        == 1001
    )
    file.write_bytes(b"broker-id = 1001 # caf\xe9\n")
    with pytest.raises(SettingsError, match=r"controller\.toml: .*utf-8"):
        load_controller_config(file, GIVEN)


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("PLAINTEXT://127.0.0.1:9090", ["PLAINTEXT://127.0.0.1:9090"]),
        ("PLAINTEXT://:9090, INTERNAL://:9091", ["PLAINTEXT://:9090", "INTERNAL://:9091"]),
        ('["PLAINTEXT://:9090"]', ["PLAINTEXT://:9090"]),
    ],
)
def test_the_environment_may_name_listeners_as_people_write_them(monkeypatch, text, listeners):
    monkeypatch.setenv("SHUNTER_LISTENER", text)
    assert load_controller_config(None, GIVEN).listener == listeners


def test_a_list_that_is_no_json_names_the_setting_and_the_value(monkeypatch):
    monkeypatch.setenv("SHUNTER_LISTENER", "[PLAINTEXT://:9090]")
    with pytest.raises(SettingsError, match=r"listener: .*JSON list, but is not one.*got '\[PLAINTEXT"):
        load_controller_config(None, GIVEN)


@pytest.mark.parametrize("broker_id", [-1, 2**31, 99_999_999_999])
def test_a_broker_id_that_kafka_has_no_room_for_is_refused(broker_id):
    with pytest.raises(SettingsError, match=f"broker_id: .*got {broker_id}"):
        load_controller_config(None, {**GIVEN, "listener": ["PLAINTEXT://:0"], "broker_id": broker_id})


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_a_listener_that_is_named_after_a_protocol_is_refused_where_nothing_says_how_it_is_secured(name):
    with pytest.raises(SettingsError, match=f"listener {name}: .*--server-properties"):
        Security(None, [parse_listener(f"{name}://localhost:9090")], NetworkAuthorizer())


def test_a_brokers_properties_say_where_everything_is_and_what_is_said_here_goes_over_it(tmp_path, monkeypatch):
    path = tmp_path / "server.properties"
    path.write_text(
        "broker.id=7\nzookeeper.connect=zk:2181/kafka\nlisteners=PLAINTEXT://a:9092, OTHER://a:9093\nbroker.rack=r1\n"
    )
    config = load_controller_config(None, {"server_properties": path, "broker_id": 1000})
    assert (config.zookeeper, config.rack, config.broker_id) == ("zk:2181/kafka", "r1", 1000)
    assert config.listener == ["PLAINTEXT://a:9092", "OTHER://a:9093"]
    monkeypatch.setenv("SHUNTER_RACK", "r2")
    config = load_controller_config(None, {"server_properties": path, "broker_id": 1000, "listener": ["OTHER://b:1"]})
    assert (config.rack, config.listener) == ("r2", ["OTHER://b:1"])
    with pytest.raises(SettingsError, match="broker_id"):
        load_controller_config(None, {"server_properties": path})
    with pytest.raises(SettingsError, match=r"absent.*No such file"):
        load_controller_config(None, {"server_properties": tmp_path / "absent"})


def test_a_brokers_properties_are_read_once_at_the_start(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "zookeeper.connect=zk:2181\nlisteners=CLIENTS://a:9092\nlistener.security.protocol.map=CLIENTS:SASL_PLAINTEXT\n"
        "inter.broker.listener.name=CLIENTS\nsasl.enabled.mechanisms=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
        'sasl.jaas.config=M required username="me" password="planted";\nzookeeper.set.acl=true\n'
        "zookeeper.digest.user=me\nzookeeper.digest.password=planted\n"
    )
    config = load_controller_config(None, {"server_properties": path, "broker_id": 1000})
    assert "planted" not in repr(config)
    path.unlink()  # Or it was a pipe, or somebody has changed it since.
    listeners = [parse_listener(text) for text in config.listener]
    security = Security(config.server_properties, listeners, NetworkAuthorizer())
    assert security.settings.of("CLIENTS").sasl.login.user == "me"
    (owner,) = zookeeper_access(config.server_properties, None).makes_for
    assert owner.startswith("digest:me:")


def test_a_variable_that_names_no_setting_is_told_and_not_refused(monkeypatch):
    """Kubernetes sets the first two in every container beside a service named shunter."""
    monkeypatch.setenv("SHUNTER_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("SHUNTER_PORT", "tcp://10.0.0.1:9090")
    monkeypatch.setenv("SHUNTER_BROKERID", "7")
    assert load_controller_config(None, {**GIVEN, "listener": ["PLAINTEXT://:0"]}).broker_id == 1000
    names = ["SHUNTER_BROKERID", "SHUNTER_BROKER_ID", "SHUNTER_CACHE", "SHUNTER_SERVICE_HOST", "PATH"]
    assert strange_variables(names) == [
        "SHUNTER_BROKERID names no setting; did you mean SHUNTER_BROKER_ID?",
        "SHUNTER_SERVICE_HOST names no setting",
    ]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("foo", "1", "foo names no setting (got '1'); see docs/settings.md"),
        ("write_target_replicas", 1, "write_target_replicas names no setting (got 1); see docs/settings.md"),
        (
            "reassignment_max_concurent",
            "4",
            "reassignment_max_concurent names no setting (got '4'); did you mean reassignment_max_concurrent?",
        ),
        ("takeover", "maybe", "takeover: it has to be one of never, vacant, standby, preempt (got 'maybe')"),
        (
            "takeover",
            "Stand-by",
            "takeover: it has to be one of never, vacant, standby, preempt; did you mean standby? (got 'Stand-by')",
        ),
        ("broker_id", -1, "broker_id: it should be greater than or equal to 0 (got -1)"),
        (
            "max_connections",
            "x",
            "max_connections: it should be a valid integer, unable to parse string as an integer (got 'x')",
        ),
        ("zookeeper", None, "zookeeper: it should be a valid string (got None)"),
    ],
)
def test_a_setting_that_can_not_be_used_is_told_in_plain_words(name, value, told):
    given = {**GIVEN, "listener": ["PLAINTEXT://:0"], name: value}
    with pytest.raises(SettingsError) as refused:
        load_controller_config(None, given)
    assert str(refused.value) == f"settings can't be used: {told}"


class NothingInTheWay:
    found = None

    async def obstacle(self, _reader):
        return None


class EmptyZooKeeper:
    """A client of a ZooKeeper without ACLs; it is connected as soon as it listens."""

    connected = True

    def listen(self, **_):
        pass

    async def children(self, _path, *, watch=False):
        return None

    async def get_many(self, paths):
        return [None for _ in paths], 0


async def test_a_start_is_judged_after_the_permissions_were_read(tmp_path):
    """Each start on a cluster with an authorizer stood by for a second, and was not ready for 15 s."""
    path = tmp_path / "server.properties"
    path.write_text("authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nsuper.users=User:ANONYMOUS\n")
    given = {**GIVEN, "listener": ["PLAINTEXT://127.0.0.1:0"], "server_properties": str(path)}
    process = ControllerProcess(load_controller_config(None, given))
    permissions = process.security.permissions
    asked_again = []
    permissions.on_known = lambda: asked_again.append(1)
    judged = asyncio.create_task(process._look_around(NothingInTheWay(), SimpleNamespace()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not judged.done()
    reading = permissions.begin(EmptyZooKeeper())
    assert await judged is None
    assert asked_again == [1]
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def test_each_difference_is_told_once_and_its_end_too(caplog):
    caplog.set_level(logging.INFO, logger="shunter.controller")
    defaults = BrokerDefaults()
    alike = {1: {"num.partitions": "1", "min.insync.replicas": "1"}, 2: {"num.partitions": "1"}}
    other = {1: {"num.partitions": "1", "min.insync.replicas": "1"}, 2: {"num.partitions": "6"}}
    for told in ({}, alike, other, other, alike, alike):
        defaults.compare(told, OURS)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0] == "num.partitions: brokers differ: 1 on 1; 6 on 2; set it alike on all brokers"
    assert caplog.messages[1] == "num.partitions: no difference any more"
    assert not defaults.different


def test_other_settings_of_ours_are_another_difference(caplog):
    defaults = BrokerDefaults()
    told = {1: {"min.insync.replicas": "2"}}
    defaults.compare(told, OURS)
    defaults.compare(told, replace(OURS, default_min_isr=3))
    defaults.compare(told, replace(OURS, default_min_isr=2))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message.partition("; ")[2] for message in warned] == ["set default_min_isr=2"] * 2
    assert not defaults.different


def test_a_listener_is_registered_where_it_listens():
    (endpoint,) = registered_endpoints((Listener("PLAINTEXT", "10.0.0.5", 9090),), (), PLAIN)
    assert (endpoint.listener, endpoint.host, endpoint.port) == ("PLAINTEXT", "10.0.0.5", 9090)


def test_an_advertised_address_takes_its_place():
    opened = (Listener("PLAINTEXT", "0.0.0.0", 9090), Listener("INTERNAL", "10.0.0.5", 9091))
    outer, inner = registered_endpoints(opened, (Listener("PLAINTEXT", "kafka.example.org", 0),), PLAIN)
    assert (outer.host, outer.port) == ("kafka.example.org", 9090)
    assert (inner.host, inner.port) == ("10.0.0.5", 9091)


def test_an_empty_host_is_registered_by_the_machines_name():
    (endpoint,) = registered_endpoints((Listener("PLAINTEXT", "", 9090),), (), PLAIN)
    assert endpoint.host not in {"", "0.0.0.0"}


@pytest.mark.parametrize(
    ("opened", "advertised", "told"),
    [
        ((Listener("PLAINTEXT", "0.0.0.0", 9090),), (), "advertised_listener=PLAINTEXT://HOST:9090"),
        ((Listener("PLAINTEXT", "a", 1),), (Listener("OUTER", "b", 2),), "no listener has that name"),
    ],
)
def test_what_nobody_could_connect_to_is_refused(opened, advertised, told):
    with pytest.raises(SettingsError, match=told):
        registered_endpoints(opened, advertised, PLAIN)


def test_two_listeners_of_one_name_are_refused():
    opened = (Listener("PLAINTEXT", "10.0.0.5", 9090), Listener("PLAINTEXT", "10.0.0.5", 9091))
    with pytest.raises(SettingsError, match=r"PLAINTEXT.*repeat"):
        registered_endpoints(opened, (), PLAIN)


def test_the_protocol_that_is_spoken_is_registered():
    secured = SecuritySettings({"INTERNAL": ListenerSecurity(SecurityProtocol.SASL_SSL)})
    opened = (Listener("INTERNAL", "10.0.0.5", 9091), Listener("PLAINTEXT", "10.0.0.5", 9090))
    assert [each.security_protocol for each in registered_endpoints(opened, (), secured)] == ["SASL_SSL", "PLAINTEXT"]
