"""What the HTTP server needs from this machine: a port, a UNIX socket, TLS files. Each failure has its own sentence."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from shunter.errors import DriverError, SettingsError

BACKLOG = 1_024
"""Connections that the kernel keeps until their turn comes; net.core.somaxconn limits it."""

MOST_PATH = 107
"""The longest path of a UNIX socket on Linux, without its zero byte (`sun_path`, unix(7))."""


def shown_host(host: str) -> str:
    """A host as URLs have it: IPv6 addresses are in brackets."""
    return f"[{host}]" if ":" in host else host


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0: the kernel chooses a port.

    Raises:
        DriverError: the port or the host can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # asyncio turns Nagle's algorithm off only if the protocol is named; otherwise each answer waits 40 ms for an ACK.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # SO_REUSEADDR lets two processes bind one port if neither listens yet. The second one's listen() fails.
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    # Python can't encode some names for DNS: UnicodeError or TypeError, by its version.
    except (OSError, UnicodeError, TypeError) as error:
        told = f"--listen {shown_host(host)}:{port}: can't listen: {_listening_failure(error, host, port)}"
        raise DriverError(told, retriable=False) from error
    return listener


def _listening_failure(error: Exception, host: str, port: int) -> str:
    if not isinstance(error, OSError) or isinstance(error, socket.gaierror):
        return f"no address of {host} was found; write an address of this machine, such as 127.0.0.1"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken; end the process that listens there, or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; write one of its addresses, such as 127.0.0.1"
    if error.errno == errno.EACCES:
        return f"this user may not use port {port}; choose a port from 1024 on"
    return error.strerror or str(error)


@contextlib.contextmanager
def listen_in(path: Path) -> Iterator[socket.socket]:
    """A UNIX socket that listens, and that only its owner may open. Pre: no other process serves this folder.

    Raises:
        DriverError: the socket can't be made there.
    """
    size = len(os.fsencode(path))
    if size > MOST_PATH:
        rule = f"a socket's path has at most {MOST_PATH} bytes: name a shorter --state-dir"
        raise DriverError(f"{path}: has {size} bytes, and {rule}", retriable=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            path.unlink(missing_ok=True)
            former = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(former)
            listener.listen(BACKLOG)
        except OSError as error:
            raise DriverError(f"{path}: can't be listened on: {error}", retriable=False) from error
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def user_of(link: socket.socket) -> str:
    """The user at the other end of a UNIX socket, as the kernel knows it."""
    _process, user, _group = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def load_tls(config: uvicorn.Config, certificate: Path | None, key: Path | None) -> None:
    """Let uvicorn read its TLS files, if it is to use any.

    Raises:
        SettingsError: the certificate or its key can't be used.
    """
    try:
        config.load()
    except OSError as error:
        if certificate is None or key is None:
            raise
        _refuse_unreadable("--certificate", certificate)
        _refuse_unreadable("--key", key)
        raise SettingsError(_tls_failure(error, certificate, key)) from error


def _refuse_unreadable(flag: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        told = f"{flag} {path}: can't be read: {error.strerror}; name a PEM file that this user may read"
        raise SettingsError(told) from error


def _tls_failure(error: OSError, certificate: Path, key: Path) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"--key {key}: is not the key of --certificate {certificate}; give the key that belongs to it"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certificate)
    except ssl.SSLError:
        return f"--certificate {certificate}: has no certificate that can be read; give a PEM file with the chain"
    return f"--key {key}: has no key that can be read; give a PEM file with the key, without a passphrase"
