"""The policy file of a service that runs: a change is taken over whole, or refused whole and said."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from service_orders import order

from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.app.service.reloading import PolicyFile
from shunter.app.service.running import serve_until_told
from shunter.app.service.service import ClusterService, open_service
from shunter.cli.service.page import open_door
from shunter.model.keeper import Condition, Mode
from shunter.model.service import EventSearch, IntentKind, OrderKind, Signature

FILE = '[cluster.away]\nbootstrap-server = "127.0.0.1:1"\n'
FROZEN = FILE + "limits.frozen-brokers = [3]\n"


class Watched:
    """A policy file, and the service that keeps to it."""

    def __init__(self, path: Path, policy: PolicyFile, service: ClusterService, told: list[str]) -> None:
        self.path = path
        self.policy = policy
        self.service = service
        self.told = told

    async def change(self, text: str) -> None:
        """Write another file, and let it be read."""
        self.path.write_text(text)
        await self.policy.reload(self.service)

    async def kinds(self) -> list[str]:
        """What the history says."""
        return [event.kind for event in (await self.service.timeline(EventSearch(most=100))).events]


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[Watched]:
    path, told = folder / "k.toml", list[str]()
    path.write_text(FILE)
    policy = PolicyFile(path, told.append)
    async with open_service(policy.file, folder) as (service, _front):
        service.keepers["away"].topic_of_words = None  # Its cluster never answers, so it could not take any words.
        yield Watched(path, policy, service, told)


async def test_a_change_is_in_force_at_once_and_told(tmp_path: Path) -> None:
    async with watched(tmp_path) as at:
        keeper = at.service.keepers["away"]
        await at.change(FILE + 'conditions.racks = "act"\nexecution.throttle = "5M"\n[service]\nlook-seconds = 7\n')
        assert keeper.policy.mode(Condition.RACKS) is Mode.ACT
        assert (keeper.cluster.options.throttle, keeper.parts.look_every_s) == (5_000_000, 7.0)
        assert at.told[-1].endswith("is in force: away: conditions, execution; [service]: look-seconds = 7")
        assert await at.kinds() == ["policy-taken"]
        await at.policy.reload(at.service)
        assert at.told[-1].endswith("nothing of it changed")
        assert await at.kinds() == ["policy-taken"]


async def test_a_mode_that_changes_alone_is_told_by_its_name(tmp_path: Path) -> None:
    async with watched(tmp_path) as at:
        for text, told in (
            ('mode = "drive"\n' + FILE, 'away: mode = "drive"'),
            (FILE, 'away: mode = "keep"'),
            (FILE + 'mode = "drive"\nconditions.racks = "off"\n', 'away: conditions, mode = "drive"'),
        ):
            await at.change(text)
            assert at.told[-1].endswith(f"is in force: {told}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FILE + "limits.moves = 0\n", "limits.moves = 0: a whole number from 1 on is wanted"),
        ("[cluster", "can't be read: Expected"),
        (FILE + '[cluster.near]\nbootstrap-server = "h:1"\n', "cluster.near came, which needs a restart"),
        ('[cluster.near]\nbootstrap-server = "h:1"\n', "cluster.away went, which needs a restart"),
        (FILE.replace("127.0.0.1:1", "127.0.0.1:2"), "cluster.away is elsewhere, or has another journal"),
        (FILE + 'journal = "j"\n', "cluster.away is elsewhere, or has another journal"),
        (FILE + '[service]\nsnapshots = "s"\n', "snapshots changed, which needs a restart"),
        (FILE + '[service]\naddress = "https://lab-2:8090"\n', "address changed, which needs a restart"),
        (FILE + '[[notify]]\nkind = "command"\ncommand = ["true"]\n', "[[notify]] changed, which needs a restart"),
    ],
)
async def test_a_file_that_is_refused_leaves_the_one_before_in_force(tmp_path: Path, text: str, why: str) -> None:
    async with watched(tmp_path) as at:
        await at.change(FROZEN)
        await at.change(text)
        assert at.service.keepers["away"].policy.rails.frozen_brokers == (3,)
        trouble = at.service.fleet().policy_trouble
        assert all(each.facts().policy_trouble == trouble for each in at.service.keepers.values())
        assert why in trouble
        assert str(at.path) in trouble
        assert trouble.endswith("The policy that was read before stays in force")
        assert at.told[-1] == trouble
        await at.policy.reload(at.service)
        assert await at.kinds() == ["policy-taken", "policy-refused"], "the same trouble is told once"
        await at.change(FROZEN)
        assert at.service.fleet().policy_trouble == ""
        assert await at.kinds() == ["policy-taken", "policy-refused", "policy-taken"]


async def test_a_file_that_contradicts_what_somebody_asked_for_is_refused(tmp_path: Path) -> None:
    async with watched(tmp_path) as at:
        await at.service.carry_out(order(IntentKind.DRAIN, "3", cluster="away"), Signature("anna"))
        await at.change(FROZEN)
        trouble = at.service.fleet().policy_trouble
        assert "anna asked for drain of 3 in away: broker 3 is frozen" in trouble
        await at.service.carry_out(order(OrderKind.WITHDRAW, "drain", "3", cluster="away"), Signature("anna"))
        await at.policy.reload(at.service)
        assert at.service.keepers["away"].policy.rails.frozen_brokers == (3,)


async def test_a_service_that_stood_by_serves_by_the_file_as_it_is_then(tmp_path: Path) -> None:
    path, told = tmp_path / "k.toml", list[str]()
    path.write_text(FILE)
    policy = PolicyFile(path, told.append)
    path.write_text(FROZEN)
    policy.refresh()
    assert policy.file.clusters[0].policy.rails.frozen_brokers == (3,)
    path.write_text("[cluster")
    policy.refresh()
    assert policy.file.clusters[0].policy.rails.frozen_brokers == (3,)
    assert "is in force" in told[-1]


@pytest.mark.parametrize("by", ["a change", "SIGHUP"])
async def test_a_process_reads_the_file_again_by_itself_and_on_sighup(tmp_path: Path, by: str) -> None:
    path, told = tmp_path / "k.toml", list[str]()
    path.write_text(FILE)
    door = open_door(tmp_path / "s" / SOCKET, None, told.append)

    async def until(found: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not found():  # noqa: ASYNC110 - turns of the loop
                await asyncio.sleep(0)

    serving = asyncio.create_task(serve_until_told(path, tmp_path / "s", told.append, door))
    await until(lambda: any("serves away" in each for each in told))
    if by == "a change":
        path.write_text(FROZEN + "limits.moves = 0\n")
        await until(lambda: any("limits.moves = 0" in each for each in told))
        fleet = await asyncio.to_thread(ServiceClient(ServiceServer(tmp_path / "s" / SOCKET)).fleet)
        assert "limits.moves = 0" in fleet["policy_trouble"]
        path.write_text(FROZEN)
    else:
        os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: "is in force" in told[-1])
    assert "away: limits" in told[-1] or by == "SIGHUP"
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 60)
