"""Users' configuration in ZooKeeper: the controller changes SCRAM credentials in it, and brokers the other settings.

A change is announced below `/config/changes`, which each broker watches. Source: Apache's `AdminZkClient`.
"""

from __future__ import annotations

from shunter.core.user_credentials import CredentialChanges, altered_config
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Operation, Put, Remove
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.configs import ConfigChange, decode_config, encode_config, encode_config_change, sanitized

USERS = "users"


class UserConfigs:
    """Reads a user's configuration, and writes it behind the controller's fence."""

    def __init__(self, client: ZooKeeperClient, store: ZooKeeperStore) -> None:
        self._client = client
        self._store = store

    async def alter_credentials(self, user: str, changes: CredentialChanges) -> None:
        """Change one user's credentials durably.

        Raises:
            RequestRejected: The changes are not possible, or this process is not the controller.
            FormatError: The user's znode can't be read.
            DriverError: ZooKeeper refuses.
        """

        async def decide() -> list[Operation]:
            return await self._operations(user, changes)

        await self._store.amend(decide)

    async def _operations(self, user: str, changes: CredentialChanges) -> list[Operation]:
        """Decide the writes. As in Apache, a user's znode that would be empty is deleted, unless it has children."""
        name = sanitized(user)
        path = znodes.config(USERS, name)
        found = await self._client.get(path)
        wanted = altered_config(user, {} if found is None else decode_config(path, found.data), changes)
        data = encode_config(wanted)
        operation: Operation
        if found is None:
            operation = Create(path, data)
        elif wanted or await self._has_children(path):
            operation = Put(path, data, found.version)
        else:
            operation = Remove(path, found.version)
        announced = encode_config_change(ConfigChange(USERS, name))
        prefix = f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}"
        return [operation, Create(prefix, announced, sequential=True)]

    async def _has_children(self, path: str) -> bool:
        listed = await self._client.children(path)
        return listed is not None and bool(listed[0])
