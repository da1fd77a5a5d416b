"""Files as editors on Windows leave them: with a byte order mark, some of them as UTF-16."""

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.app.client_configuration import stream_options
from shunter.app.controller.broker_file import BrokerFile
from shunter.app.controller.settings import load_controller_config
from shunter.app.evaluation.policy import read_service_file
from shunter.app.pipeline.outlook import read_owners
from shunter.app.profiles import read_profiles
from shunter.errors import FormatError, SettingsError
from shunter.formats.plan_files import read_plan_input
from shunter.formats.reassignment_json import decode_plan
from shunter.formats.text_files import text_of
from shunter.formats.topic_wishes import decode_wishes

PLAN = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}'
YARD = '{"brokers": {"1": "a"}, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "size": 1}]}'
POLICY = '[cluster.yard]\nbootstrap-server = "kafka1:9092"\n'


def _profiles(path: Path) -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SHUNTER_CONFIG", str(path))
        return read_profiles().clusters


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "plan": (PLAN, lambda path: decode_plan(path.read_bytes(), "plan")),
    "plan input": (YARD, lambda path: read_plan_input(path.read_bytes(), "yard").sizes.tolist()),
    "topics": ("[t]\nreplication = 2\n", lambda path: decode_wishes(path.read_bytes(), "wanted", ("t",))),
    "policy": (POLICY, lambda path: [cluster.name for cluster in read_service_file(path).clusters]),
    "settings": (POLICY, _profiles),
    "properties": ("security.protocol=SSL\n", lambda path: stream_options(path, {})),
    "broker": ("broker.id=7\n", lambda path: BrokerFile.read(path).said),
    "owners": ('{"pay.*": "team-ä"}', read_owners),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("written", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_part_of_a_file(name: str, written: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.write_text(text, encoding="utf-8")
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(written, b"")
    marked.write_bytes(mark + text.replace("\n", "\r\n").encode(written))
    assert read(marked) == read(plain)


def test_half_a_character_is_told_as_an_unreadable_file(tmp_path: Path) -> None:
    broken = codecs.BOM_UTF16_LE + b"{"
    with pytest.raises(UnicodeDecodeError):
        text_of(broken)
    with pytest.raises(FormatError, match="not JSON"):
        decode_plan(broken, "plan")
    path = tmp_path / "shunter.toml"
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SettingsError, match="settings file"):
        load_controller_config(path, {})
