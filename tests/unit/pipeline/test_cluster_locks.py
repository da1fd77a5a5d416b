"""Locks of a cluster's tables: one process holds a lock, even if several ask at the same time, and never for ever."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from shunter.errors import DriverError, FormatError
from shunter.pipeline.lake.locks import LEASE, ClusterLocks, LockHolder
from shunter.pipeline.lake.stores import LocalStore

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
MODEL = LockHolder("model", "here", 17)


def locks_in(folder, *, now=NOW, gone=()):
    return ClusterLocks(LocalStore(folder), "lake", lambda: now, lambda holder: holder.process in gone)


def test_a_cluster_is_held_by_one(tmp_path):
    locks = locks_in(tmp_path)
    with locks.held(["yard", "other/x"], MODEL):
        busy = r"cluster yard: `model` \(process 17 on here\) is at it since 2025-03-01 12:00"
        with pytest.raises(DriverError, match=busy), locks.held(["yard"], LockHolder("compact", "there", 18)):
            pass
        with locks.held(["third"], MODEL):
            pass
        with pytest.raises(DriverError, match="cluster other/x: `model`"), locks.held([], MODEL):
            pass
    busy = pytest.raises(DriverError, match="all clusters: `model`")
    with locks.held([], MODEL), busy, locks.held(["yard"], MODEL):
        pass
    with locks.held(["yard"], MODEL), locks.held(["third"], MODEL):
        pass


def test_what_was_refused_holds_nothing(tmp_path):
    locks = locks_in(tmp_path)
    with locks.held(["b"], MODEL):
        with pytest.raises(DriverError), locks.held(["a", "b"], MODEL):
            pass
        with locks.held(["a"], MODEL):
            pass


def test_a_lock_of_a_process_that_is_gone_counts_no_more(tmp_path):
    left = locks_in(tmp_path).held(["yard"], MODEL)
    left.__enter__()
    with pytest.raises(DriverError, match="ends by itself at 18:00 UTC"), locks_in(tmp_path).held(["yard"], MODEL):
        pass
    with locks_in(tmp_path, gone={17}).held(["yard"], MODEL):
        pass
    with locks_in(tmp_path, now=NOW + LEASE).held([], MODEL):
        pass
    left.__exit__(None, None, None)


def test_of_many_at_once_one_holds_it(tmp_path):
    inside, most = [], []

    def work(number):
        locks = locks_in(tmp_path)
        done = 0
        for _ in range(20):
            try:
                with locks.held([] if number == 0 else ["yard"], MODEL):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)
                    done += 1
            except DriverError:
                continue
        return done

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(work, range(6)))
    assert sum(done) == len(most) > 0
    assert set(most) == {1}
    assert len(list(tmp_path.iterdir())) < 60, "old ones are deleted"


def test_a_lock_that_is_none_is_named(tmp_path):
    (tmp_path / "yard@1.json").write_text("{}")
    with pytest.raises(FormatError, match=r"lake/yard@1.json: is no lock"), locks_in(tmp_path).held(["yard"], MODEL):
        pass
