"""The metadata quorum of a KRaft cluster: who leads it, and how far its voters are."""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as kafka_errors

from shunter.model.check_up import Quorum, Voter

_ABSENT = (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError)


def quorum_of(client: Any) -> Quorum | None:
    """Return the quorum; None: the cluster has none. Blocks.

    The leader tells by its own clock when each voter fetched last, and when each voter last had everything; that of
    itself is now. Each voter fetches about every half second.
    """
    try:
        before = time.time()
        partition = client.describe_metadata_quorum()["topics"][0]["partitions"][0]
        now_ms = int((before + time.time()) / 2 * 1000)
    except _ABSENT:
        return None
    times = {
        int(voter["replica_id"]): [
            int(voter.get(name, -1)) for name in ("last_fetch_timestamp", "last_caught_up_timestamp")
        ]
        for voter in partition["current_voters"]
    }
    latest = max((fetched for fetched, _caught_up in times.values()), default=-1)
    voters = (
        Voter(node, *(None if at_ms < 0 else max(0, latest - at_ms) for at_ms in told))
        for node, told in sorted(times.items())
    )
    return Quorum(int(partition["leader_id"]), tuple(voters), latest - now_ms if latest > 0 else None)
