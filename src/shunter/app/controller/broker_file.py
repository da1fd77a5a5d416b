"""A broker's `server.properties`, read once at the start for all its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import parse_properties
from shunter.formats.server_properties import ServerProperties
from shunter.formats.text_files import text_of


@dataclass(frozen=True, slots=True)
class BrokerFile:
    """The contents of the file when it was read. It is read once: it may be a pipe, or may change while we start."""

    path: Path
    said: Mapping[str, str] = field(repr=False)
    """The properties, passwords included."""

    @classmethod
    def read(cls, path: BrokerFile | Path | str) -> BrokerFile:
        """Read a file; a `BrokerFile` is returned unchanged.

        Raises:
            SettingsError: the file can't be read.
        """
        if isinstance(path, BrokerFile):
            return path
        try:
            text = text_of(Path(path).read_bytes())
            return cls(Path(path), parse_properties(text, str(path)))
        except (OSError, UnicodeDecodeError, FormatError) as error:
            raise SettingsError(f"server_properties {path}: {error}") from error

    @property
    def properties(self) -> ServerProperties:
        """The properties of listeners, logins and addresses."""
        return ServerProperties(self.said, str(self.path))
