"""The release whose requests are sent to all brokers: the oldest of those that live brokers are set to speak.

Kafka has one `inter.broker.protocol.version` for a cluster, and Apache's controller sends all brokers what its own
setting says. Shunter's controller does not have this setting, so the live brokers report theirs. All brokers get the
same release because of topic ids: a follower that got a topic's id fetches by it, and a leader that did not get the id
answers UNKNOWN_TOPIC_ID, for ever. Source: docs/decisions/0034-one-release.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shunter.core.controller.events import Event, TopicIdsAgreed
from shunter.model.partition import BrokerId
from shunter.wire.versions import ControlVersions

FIRST_WITH_TOPIC_IDS = 5
"""The first version of LeaderAndIsr that carries topic ids."""


class AgreedRelease:
    """Knows the versions of each live broker, and posts whether topic ids are in use when that is known or changes."""

    def __init__(self, ceiling: ControlVersions | None, post: Callable[[Event], None]) -> None:
        """Begin without brokers; `ceiling` is the newest release to use, if one is set."""
        self._ceiling = ceiling
        self._post = post
        self._known: dict[BrokerId, ControlVersions] = {}
        self._least = ceiling
        """The oldest release among those of known brokers and the ceiling; None: nothing is known."""
        self._expected: set[BrokerId] = set()
        """Brokers whose release is not known but may be soon."""
        self._told: bool | None = None

    def least(self, own: ControlVersions) -> ControlVersions:
        """Return the release that every live broker supports; `own` is that of the broker that gets the request."""
        return own if self._least is None else min(own, self._least, key=_versions)

    def live(self, brokers: Iterable[BrokerId]) -> None:
        """Note which brokers are live. A broker's release from before its restart counts until it reports again."""
        alive = set(brokers)
        self._expected = alive - self._known.keys()
        self._known = {broker: versions for broker, versions in self._known.items() if broker in alive}
        self._note_least()
        if alive:
            self._maybe_tell()
        else:
            self._told = None

    def tells(self, broker: BrokerId, versions: ControlVersions) -> None:
        """Note a broker's release."""
        self._known[broker] = versions
        self._note_least()
        self._expected.discard(broker)
        self._maybe_tell()

    def silent(self, broker: BrokerId) -> None:
        """Note that there is no connection to a broker: its release is not waited for."""
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
