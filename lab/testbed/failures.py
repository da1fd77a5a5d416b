"""The testbed's errors, for real parts that are missing or do not work."""

from __future__ import annotations

from shunter.errors import DriverError


class PartMissing(DriverError):
    """A requirement of a real part is not on this machine; the message says how to get it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=False)


class PartFailed(DriverError):
    """A real part did not start, ended by itself or did not answer in time; the message ends with its log's tail."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=False)


class PortStolen(PartFailed):
    """Another process took the port after the kernel had named it and before the part bound it."""
