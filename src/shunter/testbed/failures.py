"""What the testbed says when a real part does not do its part."""

from __future__ import annotations

from shunter.errors import DriverError


class PartMissing(DriverError):
    """Something that a real part needs is not on this machine; the message names the way to get it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=False)


class PartFailed(DriverError):
    """A real part did not start, ended by itself or did not answer in time; the message ends with its log's tail."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=False)


class PortStolen(PartFailed):
    """Somebody else took the port between the moment the kernel named it and the moment the part bound it."""
