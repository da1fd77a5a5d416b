"""An executor's journal as JSON lines, read while another process may drive it."""

import json
import sqlite3
import zlib
from pathlib import Path

import pytest

from shunter.app.executor.journal_export import as_json_lines, export_journal
from shunter.errors import FormatError


def journal(path, bodies, spoil=False):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum INTEGER)")
    for number, body in enumerate(bodies, start=1):
        text = json.dumps(body)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, zlib.crc32(text.encode()) + spoil))
    connection.commit()
    connection.close()
    return path


def plan(name):
    return {"at": 1, "cause": "c", "kind": "plan-accepted", "plan_id": name, "cluster_id": "yard", "options": {}}


def test_lines_name_cluster_and_journal_and_the_last_plan_as_asked(tmp_path):
    move = {"at": 2, "cause": "c", "kind": "move-accepted", "tp": "t-0"}
    path = journal(tmp_path / "j.journal", [plan("a"), plan("b"), move])
    out = export_journal(path, tmp_path / "out.jsonl", plan_id="mine")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["sequence"], line["cluster_id"], line["journal"]) for line in lines] == [
        (n, "yard", "j") for n in (1, 2, 3)
    ]
    assert [line.get("plan_id") for line in lines] == ["a", "mine", None]


def test_files_of_either_kind(tmp_path):
    ready = tmp_path / "ready.jsonl"
    ready.write_text(json.dumps({**plan("a"), "journal": "j", "sequence": 1}) + "\n")
    path = journal(tmp_path / "j.journal", [plan("a")])
    with as_json_lines([str(ready), str(path), "hdfs://somewhere/j"]) as lines:
        assert lines[0] == str(ready)
        assert json.loads(Path(lines[1]).read_text())["plan_id"] == "a"
        assert lines[2] == "hdfs://somewhere/j"


def test_what_is_damaged_is_named(tmp_path):
    with pytest.raises(FormatError, match="entry 1: the checksum does not match"):
        export_journal(journal(tmp_path / "j", [plan("a")], spoil=True), tmp_path / "o")
    (tmp_path / "text").write_bytes(b"SQLite format 3\x00 and no more")
    with pytest.raises(FormatError, match="not readable as a journal"):
        export_journal(tmp_path / "text", tmp_path / "o")
    with pytest.raises(FormatError, match="there is no such journal"), as_json_lines([str(tmp_path / "absent")]):
        pass
    for text, told in (
        ("hello\n", "line 1: is not a journal: neither a SQLite file nor JSON"),
        ('{"kind": "x", "at": 1}\n', "line 1: is not a journal entry: it has no cluster_id, journal, sequence"),
    ):
        (tmp_path / "lines").write_text(text)
        with pytest.raises(FormatError, match=told), as_json_lines([str(tmp_path / "lines")]):
            pass
