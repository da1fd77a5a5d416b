"""Reloading of the policy file, after a change or on request. A new policy is applied as a whole, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from shunter.app.evaluation.policy import KeptCluster, ServiceFile, read_service_file
from shunter.app.service.service import ClusterService
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.errors import FormatError, SettingsError

WATCH_EVERY_S = 1.0
"""How often the file is checked. A changed file is read once it has not changed for this long."""

Stamp = tuple[int, int, int] | None


class PolicyFile:
    """Keeps a service's policy up to date with its file. If a file is refused, the former policy stays in force.

    `file` is the contents that are in force.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Read the file; `say` gets a sentence about the result of each change.

        Raises:
            FormatError, SettingsError: the file can't be used.
        """
        self._path = path
        self._say = say
        self._asked = asyncio.Event()
        self._trouble = ""
        # The stamp is taken before the file is read, so that a change during the read is noticed.
        self._stamp = stamp_of(path)
        self.file = read_service_file(path)

    def ask(self) -> None:
        """Ask for a reload now, even if the file has not changed."""
        self._asked.set()

    def refresh(self) -> None:
        """Read the file again before the service starts, because the process may have stood by for long."""
        self._stamp = stamp_of(self._path)
        try:
            self.file = read_service_file(self._path)
        except (FormatError, SettingsError) as error:
            self._trouble = f"{error}. The policy that was read at the start is in force"
            self._say(self._trouble)

    async def watch(self, service: ClusterService, every_s: float = WATCH_EVERY_S) -> None:
        """Reload the file after each change or request, until cancelled. Pre: the service was made from `file`."""
        service.policy_trouble = self._trouble
        seen = self._stamp
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._asked.wait()
            asked, now = self._asked.is_set(), await asyncio.to_thread(stamp_of, self._path)
            self._asked.clear()
            still, seen = now == seen, now
            if asked or (still and now != self._stamp):
                self._stamp = now
                await self.reload(service)

    async def reload(self, service: ClusterService) -> None:
        """Read and check the file, and apply it; or say why the former policy stays in force."""
        try:
            file = await asyncio.to_thread(read_service_file, self._path)
        except (FormatError, SettingsError) as error:
            await self._refuse(service, str(error))
            return
        against = [*needs_restart(self.file, file)] or [*_contradicted(file, service)]
        if against:
            await self._refuse(service, f"{self._path}: {'; '.join(against)}")
            return
        await self._take(service, file)

    async def _refuse(self, service: ClusterService, why: str) -> None:
        told = f"{why}. The policy that was read before stays in force"
        new, service.policy_trouble = told != service.policy_trouble, told
        self._say(told)
        if new:
            await service.note("policy-refused", told)

    async def _take(self, service: ClusterService, file: ServiceFile) -> None:
        changed = [
            f"{now.name}: {', '.join(tables)}"
            for before, now in zip(self.file.clusters, file.clusters, strict=True)
            if (tables := _changed(before, now))
        ]
        if self.file.look_every_s != file.look_every_s:
            changed.append(f"[service]: look-seconds = {file.look_every_s:g}")
        for cluster in file.clusters:
            keeper = service.keepers[cluster.name]
            keeper.cluster = cluster
            keeper.parts = replace(keeper.parts, look_every_s=file.look_every_s)
            keeper.hurry()
        ends_trouble = bool(service.policy_trouble)
        self.file, service.policy_trouble = file, ""
        told = f"{self._path} is in force: {'; '.join(changed) or 'nothing of it changed'}"
        self._say(told)
        service.published.tell()
        if changed or ends_trouble:
            await service.note("policy-taken", told)


def _contradicted(file: ServiceFile, service: ClusterService) -> Iterator[str]:
    """Sentences about intents that were given by orders and that contradict the file."""
    for cluster in file.clusters:
        intents = service.keepers[cluster.name].intents
        for intent in intents:
            others = with_intents(cluster.policy, [each for each in intents if each is not intent])
            against = contradiction(others, intent)
            if against:
                yield f"{intent.who} asked for {intent.kind.value} of {intent.about} in {cluster.name}: {against}"


def stamp_of(path: Path) -> Stamp:
    """A value that changes with the file; None: the file does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def needs_restart(before: ServiceFile, now: ServiceFile) -> Iterator[str]:
    """Sentences about differences between two files that a running service can't apply."""
    old, new = ({each.name: replace(each.target, address="") for each in file.clusters} for file in (before, now))
    for name in sorted(old.keys() ^ new.keys()):
        yield f"cluster.{name} {'came' if name in new else 'went'}, which needs a restart of the service"
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"cluster.{name} is elsewhere, or has another journal, which needs a restart of the service"
    if list(old) != list(new) and old.keys() == new.keys():
        yield "the clusters are in another order, which needs a restart of the service"
    if [each.model for each in before.clusters] != [each.model for each in now.clusters] and list(old) == list(new):
        yield "lake or model-hours changed, which needs a restart of the service"
    for what in ("snapshots", "snapshot_every_s", "notify", "address", "sign_on"):
        if getattr(before, what) != getattr(now, what):
            named = {
                "snapshots": "snapshots",
                "snapshot_every_s": "snapshot-minutes",
                "notify": "[[notify]]",
                "address": "address",
                "sign_on": "[sign-on]",
            }[what]
            yield f"{named} changed, which needs a restart of the service"


def _changed(before: KeptCluster, now: KeptCluster) -> list[str]:
    """The names of tables that differ between two files, and a new mode."""
    same = before.mode == now.mode  # Else what conditions may do differs by the mode.
    told = same or before.table.get("conditions") != now.table.get("conditions")
    parts = (
        ("conditions", told and before.policy.watches != now.policy.watches),
        ("limits", before.policy.rails != now.policy.rails),
        ("intents", before.policy.intents != now.policy.intents),
        ("execution", before.options != now.options),
        ("controllers", before.controllers != now.controllers),
        ("balance", before.policy.balance != now.policy.balance),
        (f'mode = "{now.mode}"', not same),
    )
    return [name for name, differs in parts if differs]
