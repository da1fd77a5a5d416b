"""The audit log: lines of JSON, for their owner alone, in files whose size is bounded."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from shunter.app.access.audit_log import FILES, MOST_NAMED, REFUSED_A_MINUTE, AuditLine, AuditLog
from shunter.model.service import OrderDone, OrderKind, ServiceOrder, Signature

LINE = AuditLine("anna", "token", "10.0.0.1", "pause")


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_its_files_are_rotated_and_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with closing(AuditLog(path, file_bytes=2_000)) as log:
        for number in range(200):
            log.write(LINE, f"done {number}")
    files = list(tmp_path.iterdir())
    assert len(files) == FILES
    assert all(each.stat().st_size <= 2_000 and each.stat().st_mode & 0o777 == 0o600 for each in files)
    assert lines(path)[-1]["outcome"] == "done 199"


def test_a_full_disk_is_told_and_the_line_is_in_the_process_log(caplog: pytest.LogCaptureFixture) -> None:
    with closing(AuditLog(Path("/dev/full"))) as log, caplog.at_level(logging.ERROR):
        log.write(LINE, "done")
    assert "No space left on device" in caplog.text
    assert '"outcome":"done"' in caplog.text


def test_many_addresses_without_a_right_fill_nothing(tmp_path: Path) -> None:
    path, now_ms = tmp_path / "audit.log", [0]
    with closing(AuditLog(path, now_ms=lambda: now_ms[0])) as log:
        for number in range(1_000):
            log.write_refused(AuditLine("", "", f"10.0.{number // 250}.{number % 250}", "GET /"), "refused")
        now_ms[0] = 60_000
        log.write_refused(AuditLine("", "", "10.1.1.1", "GET /"), "refused")
    told = lines(path)
    assert len(told) == REFUSED_A_MINUTE + 2
    assert told[-2]["peer"] == "other addresses"
    assert told[-2]["outcome"] == f"{1_000 - REFUSED_A_MINUTE} more requests were refused in a minute"


async def test_an_order_names_its_first_objects(tmp_path: Path) -> None:
    async def done(_order: ServiceOrder, _signature: Signature) -> OrderDone:
        return OrderDone("done")

    order = ServiceOrder(OrderKind.STOP, "prod", partitions=tuple(f"t-{number}" for number in range(1_000)))
    with closing(AuditLog(tmp_path / "audit.log")) as log:
        await log.order(done, order, Signature("anna", "hot"), by="socket", peer="this host")
    (line,) = lines(tmp_path / "audit.log")
    about = line["about"]
    assert isinstance(about, list)
    assert (len(about), line["named"], line["comment"], line["by"]) == (MOST_NAMED, 1_000, "hot", "socket")
