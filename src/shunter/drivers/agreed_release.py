"""The release whose requests we send to all brokers: the oldest of those that they speak to one another.

Kafka has one `inter.broker.protocol.version` for a cluster, and Apache's controller sends what its own setting says to
everybody. We have no setting of a broker's, so the live brokers tell theirs. One release for all, because of topic ids:
a follower that was told a topic's id fetches by it, and a leader that was not told answers UNKNOWN_TOPIC_ID, for ever.
Source: docs/decisions/0034-one-release.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shunter.core.controller.events import Event, TopicIdsAgreed
from shunter.model.partition import BrokerId
from shunter.wire.versions import ControlVersions

FIRST_WITH_TOPIC_IDS = 5
"""The first version of LeaderAndIsr that carries topic ids."""


class AgreedRelease:
    """Knows what each live broker takes; says by an event whether topic ids are in use, when that is known or changes."""

    def __init__(self, ceiling: ControlVersions | None, post: Callable[[Event], None]) -> None:
        """Begin with no broker; `ceiling` is what we were told to send at most."""
        self._ceiling = ceiling
        self._post = post
        self._known: dict[BrokerId, ControlVersions] = {}
        self._least = ceiling
        """What all brokers of which something is known take, and what we send at most; None: nothing is known."""
        self._expected: set[BrokerId] = set()
        """Brokers of which nothing is known, and that may be about to tell."""
        self._told: bool | None = None

    def least(self, own: ControlVersions) -> ControlVersions:
        """The release that every live broker takes; `own` is the release of the broker that it is for."""
        return own if self._least is None else min(own, self._least, key=_versions)

    def live(self, brokers: Iterable[BrokerId]) -> None:
        """These brokers live. What one took before it was restarted counts until it tells anew."""
        alive = set(brokers)
        self._expected = alive - self._known.keys()
        self._known = {broker: versions for broker, versions in self._known.items() if broker in alive}
        self._note_least()
        if alive:
            self._maybe_tell()
        else:
            self._told = None

    def tells(self, broker: BrokerId, versions: ControlVersions) -> None:
        """A broker told what it takes."""
        self._known[broker] = versions
        self._note_least()
        self._expected.discard(broker)
        self._maybe_tell()

    def silent(self, broker: BrokerId) -> None:
        """There is no connection to a broker: nobody waits for what it may tell."""
        self._expected.discard(broker)
        self._maybe_tell()

    def _note_least(self) -> None:
        known = [*self._known.values(), *([] if self._ceiling is None else [self._ceiling])]
        self._least = min(known, key=_versions, default=None)

    def _maybe_tell(self) -> None:
        if self._expected or not self._known:
            return
        used = self.least(next(iter(self._known.values()))).leader_and_isr >= FIRST_WITH_TOPIC_IDS
        if used is not self._told:
            self._told = used
            self._post(TopicIdsAgreed(used))


def _versions(release: ControlVersions) -> tuple[int, int, int]:
    return release.leader_and_isr, release.update_metadata, release.stop_replica
