"""The place of a journal: a file of this host, or a topic of the cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shunter.core.own_topics import Shortage
from shunter.drivers.journal.copy import JournalCopy
from shunter.drivers.journal.journals import LeasedJournal, this_process
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import FormatError

TOPIC_PREFIX = "kafka:"


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """A journal that may not exist yet. `topic` None: a file. `path` is the file; for a topic, views are beside it."""

    path: Path
    topic: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return str(self.path) if self.topic is None else f"{TOPIC_PREFIX}{self.topic}"

    def exists(self) -> bool:
        """Whether the journal exists; a file may exist only as its copy."""
        if self.topic is None:
            return self.path.exists() or JournalCopy(self.path).path.exists()
        from shunter.drivers.journal.topic import topic_exists  # noqa: PLC0415  brings the client library with it

        return topic_exists(self.configuration, self.topic)

    def shortage(self) -> Shortage | None:
        """Why nobody can write to the journal now; None: it can be written, as far as is known."""
        if self.topic is None:
            return None
        from shunter.drivers.journal.topic import topic_shortage  # noqa: PLC0415  as above

        return topic_shortage(self.configuration, self.topic)

    def check(self) -> None:
        """Check that a missing journal file can be made; leaves nothing behind.

        Raises:
            FormatError: it can't be made, and why.
        """
        if self.topic is not None or self.path.exists():
            return
        folder = next(folder for folder in self.path.absolute().parents if folder.exists())
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            told = (
                f"no journal can be made there: {folder}: {error.strerror}; name another by --journal or $SHUNTER_STATE"
            )
            raise FormatError(str(self.path), told) from error

    def open(self, owner: str, address: str = "") -> LeasedJournal:
        """Open the journal; it is made if it is missing. `address`: where the service is reached that opens it.

        Raises:
            FormatError: it can't be made.
        """
        self.check()
        if self.topic is None:
            return SqliteJournal(self.path, owner, presence=this_process(address))
        from shunter.drivers.journal.topic import TopicJournal  # noqa: PLC0415  as above

        return TopicJournal(self.configuration, self.topic, owner, presence=this_process(address))

    @property
    def seat_name(self) -> str:
        """The journal's name in the file that its driver locks on its host: a file's whole path."""
        return str(self) if self.topic is not None else str(self.path.resolve())

    @property
    def view_path(self) -> Path:
        """The file in which its driver writes views for other shells on this host."""
        return self.path.with_name(self.path.name + ".view")
