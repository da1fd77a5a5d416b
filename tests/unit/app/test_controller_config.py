"""What `shunter controller` can be told, and how it refuses what can't be used."""

import pytest

from shunter.app.settings import load_controller_config, strange_variables
from shunter.drivers.rpc_server import parse_listener
from shunter.errors import SettingsError

GIVEN = {"zookeeper": "localhost:2181", "broker_id": 1000}


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
    with pytest.raises(SettingsError, match=r"listener: .*JSON list and is none.*got '\[PLAINTEXT"):
        load_controller_config(None, GIVEN)


@pytest.mark.parametrize("broker_id", [-1, 2**31, 99_999_999_999])
def test_a_broker_id_that_kafka_has_no_room_for_is_refused(broker_id):
    with pytest.raises(SettingsError, match=f"broker_id: .*got {broker_id}"):
        load_controller_config(None, {**GIVEN, "listener": ["PLAINTEXT://:0"], "broker_id": broker_id})


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_a_listener_that_is_named_after_a_protocol_we_do_not_speak_is_refused(name):
    with pytest.raises(SettingsError, match=f"{name}.*speaks plaintext"):
        parse_listener(f"{name}://localhost:9090")


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
