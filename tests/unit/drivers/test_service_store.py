"""The service's store: whole or refused, one service for a folder, all of a batch or nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from shunter.drivers.service_store import ServiceSeat, ServiceStore, ServiceTaken, StoreDamaged, StoreFailed
from shunter.formats.service_records import decode_proposal, encode_proposal
from shunter.model.keeper import Condition, Memory, Since, Subject
from shunter.model.service import (
    BrokerEffect,
    HistoryEvent,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    LookGist,
    OrderDone,
    PlannedChange,
    ProposalState,
    StoreBatch,
    Vote,
)

PROPOSAL = KeptProposal(
    id="rebalance-1",
    cluster="prod",
    cluster_id="abc",
    scope="rebalance",
    conditions=("disk-band",),
    reasons=("broker 1 has too much",),
    changes=(PlannedChange("t", 0, (1, 2), (1, 3)),),
    moves=1,
    bytes=5,
    leader_changes=0,
    rollback_bytes=5,
    brokers=(BrokerEffect(1, (1, 2, 3), (4, 5, 6)),),
    made_at_ms=7,
    state=ProposalState.WAITING,
    changed_at_ms=7,
    votes=(Vote("anna", 8, approves=True, comment="ok"),),
    held_back=("a window",),
)
EVERYTHING = StoreBatch(
    proposals=(PROPOSAL,),
    events=(HistoryEvent(0, "prod", 7, "proposed", "told", "rebalance-1", "anna", "why", 9, {"n": 1}),),
    intents=(("prod", KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 7, "why")),),
    switches=(KillSwitch("prod", "anna", 7, "why", ("t-0",)),),
    memory=("prod", Memory("abc", 7, (Since(Subject(Condition.DISK_BAND, "broker 1"), 5, "m"),))),
    look=("prod", LookGist(7, ((1, 5, 10),), 3, 1, ("disk-band",))),
    answer=KeyedAnswer("k", "order", 7, OrderDone("done", "rebalance-1")),
)


def test_what_is_written_is_read_after_a_restart(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(EVERYTHING)
    with closing(ServiceStore(tmp_path / "s")) as store:
        assert store.proposals("prod", ended=False) == (PROPOSAL,)
        assert store.events("prod", 0, None, 9) == (
            HistoryEvent(1, "prod", 7, "proposed", "told", "rebalance-1", "anna", "why", 9, {"n": 1}),
        )
        assert store.intents() == {"prod": (EVERYTHING.intents[0][1],)}
        assert store.switches() == {"prod": EVERYTHING.switches[0]}
        assert EVERYTHING.memory is not None
        assert store.memory("prod") == EVERYTHING.memory[1]
        assert EVERYTHING.look is not None
        assert store.looks("prod", 0) == (EVERYTHING.look[1],)
        assert store.answer("k") == EVERYTHING.answer
        assert store.answer("l") is None
        gone = (("prod", IntentKind.DRAIN, "3"),)
        store.write(StoreBatch(intents_gone=gone, switches_gone=("prod",), answer_gone="k"))
        assert (store.intents(), store.switches(), store.answer("k")) == ({}, {}, None)


def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        bad = HistoryEvent(0, "prod", 7, "kind", None)  # type: ignore[arg-type]
        with pytest.raises((StoreFailed, StoreDamaged)):
            store.write(StoreBatch(proposals=(PROPOSAL,), events=(bad,)))
        assert store.proposals("prod", ended=True) == ()


def test_a_full_disk_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        events = tuple(HistoryEvent(0, "prod", at, "kind", "x" * 1000) for at in range(100))
        with pytest.raises(StoreFailed, match="full"):
            store.write(StoreBatch(events=events))
        assert store.events("prod", 0, None, 9) == ()


@pytest.mark.parametrize("spoilt", [b"no database at all" * 100, None])
def test_a_damaged_file_is_refused(tmp_path: Path, spoilt: bytes | None) -> None:
    path = tmp_path / "s"
    with closing(ServiceStore(path)) as store:
        store.write(StoreBatch(events=tuple(HistoryEvent(0, "p", at, "kind", "x" * 1000) for at in range(100))))
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = path.read_bytes()
    path.write_bytes(spoilt or raw[: len(raw) // 2] + b"\xff" * 4096 + raw[len(raw) // 2 + 4096 :])
    for beside in tmp_path.glob("s-*"):
        beside.unlink()
    with pytest.raises(StoreDamaged):
        ServiceStore(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")):
        pass
    with closing(sqlite3.connect(tmp_path / "s")) as raw:
        raw.execute("UPDATE about SET value = '99'")
        raw.commit()
    with pytest.raises(StoreDamaged, match="of version 99, and this program understands 1"):
        ServiceStore(tmp_path / "s")


def test_a_folder_has_one_service_until_it_dies(tmp_path: Path) -> None:
    code = "import sys, pathlib; from shunter.drivers.service_store import ServiceSeat; "
    code += "seat = ServiceSeat(pathlib.Path(sys.argv[1])); print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "here\n"
        with pytest.raises(ServiceTaken, match=f"process {other.pid} serves from this folder"):
            ServiceSeat(tmp_path)
        other.kill()
        other.wait()
    ServiceSeat(tmp_path).leave()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="can't be used as a state folder"):
        ServiceSeat(tmp_path / "file")


def test_a_proposal_is_read_as_it_was_written() -> None:
    assert decode_proposal(encode_proposal(PROPOSAL), "here") == PROPOSAL
