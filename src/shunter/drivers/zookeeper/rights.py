"""Finds out from the server which rights this client has on a znode, and changes nothing.

Each question is a multi whose last operation can't succeed. The server refuses the first operation that it does not
permit, and carries out none. So the answer includes all logins of this client, super users, and the ACLs.
"""

from __future__ import annotations

from typing import Final

from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import (
    CheckVersion,
    ConnectionLost,
    Create,
    Operation,
    Put,
    Remove,
    ZooKeeperRefused,
)

READ, WRITE, CREATE, DELETE = "read", "write", "create children", "delete children"
_NOBODYS_VERSION: Final = 2**31 - 1
_CHILD: Final = "shunter-asks-for-its-rights"


async def lacking(client: ZooKeeperClient, path: str, needed: frozenset[str]) -> tuple[str, ...]:
    """Return the rights of `needed` that this client does not have on a znode; none if there is no such znode.

    Raises:
        DriverError: ZooKeeper can't be asked.
    """
    if await _is_absent(client, path):
        return ()
    missing = [READ] if READ in needed and await _may_not_read(client, path) else []
    child = f"{path.rstrip('/')}/{_CHILD}"
    never = CheckVersion(path, _NOBODYS_VERSION)
    if WRITE in needed and await _refused(client, (Put(path, b"", _NOBODYS_VERSION),)):
        missing.append(WRITE)
    may_not_create = await _refused(client, (Create(child, None), never))
    if CREATE in needed and may_not_create:
        missing.append(CREATE)
    if DELETE in needed and (may_not_create or await _refused(client, (Create(child, None), Remove(child), never))):
        missing.append(DELETE)
    return tuple(missing)


async def _is_absent(client: ZooKeeperClient, path: str) -> bool:
    try:
        return await client.exists(path) is None
    except ZooKeeperRefused as refusal:
        if refusal.code != wire.NO_AUTH:  # Servers since 3.9.2 show a znode's stat only to clients that may read it.
            raise
        return False


async def _may_not_read(client: ZooKeeperClient, path: str) -> bool:
    try:
        await client.children(path)
    except ZooKeeperRefused as refusal:
        if refusal.code != wire.NO_AUTH:
            raise
        return True
    return False


async def _refused(client: ZooKeeperClient, operations: tuple[Operation, ...]) -> bool:
    while True:
        try:
            await client.multi(operations)
        except ConnectionLost:
            continue
        except ZooKeeperRefused as refusal:
            return refusal.code in {wire.NO_AUTH, wire.INVALID_ACL}
        return False
