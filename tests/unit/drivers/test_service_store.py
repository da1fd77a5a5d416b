"""The service's store: a damaged file is refused, one service per folder, a batch is written as a whole or not."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.drivers.service.store import (
    DAY_MS,
    EVENTS_KEPT_MS,
    PLANS_KEPT,
    PLANS_KEPT_MS,
    ServiceSeat,
    ServiceStore,
    ServiceTaken,
    StoreDamaged,
    StoreFailed,
)
from shunter.formats.service_records import decode_proposal, encode_changes, encode_proposal
from shunter.model.keeper import Condition, Memory, Since, Subject
from shunter.model.service import (
    BrokerEffect,
    EventSearch,
    HistoryEvent,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    LogDirChange,
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
    changes=(
        PlannedChange("t", 0, (1, 2), (1, 3)),
        PlannedChange("t", 1, (1, 2), (1, 2), (LogDirChange(1, "/a", "/b", 9),)),
        PlannedChange("t", 2, (1, 2), (1, 2), elect=True),
    ),
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
    partitions=1,
)
EVERYTHING = StoreBatch(
    proposals=(PROPOSAL,),
    events=(HistoryEvent(0, "prod", 7, "proposed", "told", "rebalance-1", "anna", "why", 9, {"n": 1}),),
    intents=(("prod", KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 7, "why")),),
    switches=(KillSwitch("prod", "anna", 7, "why", ("t-0",)),),
    memory=("prod", Memory("abc", 7, (Since(Subject(Condition.DISK_BAND, "broker 1"), 5, "m"),))),
    look=("prod", LookGist(7, ((1, 5, 10),), 3, 1, ("disk-band",))),
    answer=KeyedAnswer("k", "order", 7, OrderDone("done", "rebalance-1", ("not b",))),
)


def test_what_is_written_is_read_after_a_restart(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(EVERYTHING)
    with closing(ServiceStore(tmp_path / "s")) as store:
        assert store.proposals("prod", ended=False) == (PROPOSAL.gist,)
        assert store.opened("prod") == (PROPOSAL,)
        assert store.proposal("prod", PROPOSAL.id) == PROPOSAL
        assert store.proposal("prod", "other") is None
        assert store.events(EventSearch("prod", 0, most=9)) == (
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
        assert store.events(EventSearch("prod", 0, most=9)) == ()


@pytest.mark.parametrize("removed", ["s", "s*"])
def test_a_file_that_is_removed_under_the_service_is_made_anew(tmp_path: Path, removed: str) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(EVERYTHING)
        for path in tmp_path.glob(removed):
            path.unlink()
        store.write(StoreBatch(events=(HistoryEvent(0, "prod", 8, "kind", "after"),)))
        store.write(StoreBatch(events=(HistoryEvent(0, "prod", 9, "kind", "and after that"),)))
    with closing(ServiceStore(tmp_path / "s")) as store:
        assert [each.text for each in store.events(EventSearch("prod", 0, most=9))] == [
            "after",
            "told",
            "and after that",
        ]
        assert store.switches() == {"prod": EVERYTHING.switches[0]}
        assert store.opened("prod") == (PROPOSAL,)


def test_nothing_is_written_where_the_file_or_its_folder_is_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    with closing(ServiceStore(folder / "s")) as store:
        store.write(EVERYTHING)
        (folder / "s").rename(folder / "kept")
        (folder / "s").write_bytes(b"")
        with pytest.raises(StoreFailed, match="another file than the one that this service opened"):
            store.write(EVERYTHING)
        (folder / "kept").replace(folder / "s")
        store.write(StoreBatch(switches_gone=("prod",)))
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(StoreFailed, match="unable to open"):
            store.write(EVERYTHING)
        (tmp_path / "elsewhere").rename(folder)
        store.write(StoreBatch(intents_gone=(("prod", IntentKind.DRAIN, "3"),)))
    with closing(ServiceStore(folder / "s")) as store:
        assert (store.switches(), store.intents()) == ({}, {})


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
    held = [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    assert tmp_path / "s" not in held, "who may not use the file does not keep it open"


def test_a_folder_has_one_service_until_it_dies(tmp_path: Path) -> None:
    code = "import sys, pathlib; from shunter.drivers.service.store import ServiceSeat; "
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
    assert decode_proposal(encode_proposal(PROPOSAL), "here", encode_changes(PROPOSAL)) == PROPOSAL
    assert decode_proposal(encode_proposal(PROPOSAL), "here") == PROPOSAL.gist


def over(number: int, at_ms: int, state: ProposalState = ProposalState.DONE) -> KeptProposal:
    return replace(PROPOSAL, id=f"p-{number}", state=state, made_at_ms=at_ms, changed_at_ms=at_ms)


def plans_kept(store: ServiceStore) -> list[str]:
    return [
        each.id for each in store.proposals("prod", ended=True) if (store.proposal("prod", each.id) or each).changes
    ]


def test_the_plans_of_proposals_that_are_over_are_let_go_and_their_gist_stays(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        other = replace(over(99, 1), cluster="other")
        store.write(StoreBatch(proposals=(other, over(0, 1, ProposalState.WAITING))))
        for number in range(1, PLANS_KEPT + 6):
            store.write(StoreBatch(proposals=(over(number, number),)))
        latest = [f"p-{number}" for number in range(PLANS_KEPT + 5, 5, -1)]
        assert plans_kept(store) == [*latest, "p-0"], "what is open keeps its plan, however old"
        assert len(store.proposals("prod", ended=True)) == PLANS_KEPT + 6
        first = store.proposal("prod", "p-1")
        assert first is not None
        assert (first.partitions, first.moves, first.votes) == (1, 1, PROPOSAL.votes)
        assert store.proposal("other", "p-99") == other, "one cluster's proposals don't push out another one's"


def test_old_plans_go_without_new_ones_and_old_proposals_after_them(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(StoreBatch(proposals=(over(1, 1), over(2, DAY_MS))))

        def look(at_ms: int) -> None:
            store.write(StoreBatch(look=("prod", LookGist(at_ms, (), 3, 1))))

        look(PLANS_KEPT_MS)
        assert plans_kept(store) == ["p-2", "p-1"]
        look(PLANS_KEPT_MS + 2)
        assert plans_kept(store) == ["p-2"]
        look(EVENTS_KEPT_MS + 2)
        assert [each.id for each in store.proposals("prod", ended=True)] == ["p-2"]


def test_a_vote_does_not_write_the_plan_again(tmp_path: Path) -> None:
    many = tuple(PlannedChange("t", at, (1, 2), (1, 3)) for at in range(2_000))
    great = replace(PROPOSAL, changes=many, partitions=len(many))
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(StoreBatch(proposals=(great,)))
        before = (tmp_path / "s-wal").stat().st_size
        store.write(StoreBatch(proposals=(replace(great, state=ProposalState.APPROVED),)))
        assert (tmp_path / "s-wal").stat().st_size - before < 30_000, "a few pages"
        assert store.opened("prod") == (replace(great, state=ProposalState.APPROVED),)


def test_since_when_a_host_writes_its_history(tmp_path: Path) -> None:
    with closing(ServiceStore(tmp_path / "s")) as store:
        assert store.began_ms() is None
        began = (HistoryEvent(0, "", at_ms, "service-began", "") for at_ms in (7, 9))
        store.write(StoreBatch(events=(HistoryEvent(0, "prod", 3, "proposed", "of another host"), *began)))
        assert store.began_ms() == 7


def test_pages_of_events_go_by_the_end_of_each_whenever_it_was_written(tmp_path: Path) -> None:
    ends = ((5, None), (2, 9), (7, None), (1, None))
    events = tuple(HistoryEvent(0, "prod", at_ms, "kind", "", until_ms=until_ms) for at_ms, until_ms in ends)
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(StoreBatch(events=events))
        latest = store.events(EventSearch("prod", 0, most=2))
        assert [(each.at_ms, each.until_ms) for each in latest] == [(7, None), (2, 9)]
        assert [each.at_ms for each in store.events(EventSearch("prod", 0, None, 9, latest[0].number))] == [1, 5]
        assert [each.at_ms for each in store.events(EventSearch("prod", 8, most=9))] == [2], "it had not ended then"


def test_events_are_found_by_kind_and_by_person(tmp_path: Path) -> None:
    rows = [("approve", "anna"), ("pause-all", "anna"), ("approve", "ben"), ("look", "")]
    with closing(ServiceStore(tmp_path / "s")) as store:
        store.write(StoreBatch(events=tuple(HistoryEvent(0, "prod", 1, kind, "", who=who) for kind, who in rows)))
        assert [each.who for each in store.events(EventSearch(kind="approve"))] == ["anna", "ben"]
        assert [each.kind for each in store.events(EventSearch(who="anna"))] == ["approve", "pause-all"]
        assert len(store.events(EventSearch("prod", kind="approve", who="ben"))) == 1
        assert store.events(EventSearch("prod", kind="look", who="ben")) == ()
