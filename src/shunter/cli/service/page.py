"""Flags of `shunter serve run` for the page and the HTTP API, and the door to the service."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    # The HTTP framework is half of a command's start, so it is not loaded where no page is served.
    from shunter.app.access.audit_log import AuditLog
    from shunter.app.service.front import Front
    from shunter.app.service.running import Door
    from shunter.model.security.access import SignOnRules
    from shunter.web.server import WebOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of the page; hands the command `page`, a function from a state folder to options, or None."""

    @click.option(
        "--listen", metavar="HOST:PORT", help="Serve the page and the HTTP API at this address; port 0: any free port."
    )
    @click.option(
        "--tokens", type=_FILE, help="File of tokens, as `shunter token` writes it.  [default: everybody may only read]"
    )
    @click.option(
        "--host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="Another host name that browsers may ask for, such as a proxy's; repeat for several.",
    )
    @click.option("--certificate", type=_FILE, help="PEM file with the chain, for TLS.")
    @click.option("--key", type=_FILE, help="PEM file with the key of --certificate.")
    @click.option(
        "--plain-http",
        is_flag=True,
        help="Let other machines send tokens without TLS: a proxy in front has it, or the network is trusted.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, listen: str | None, **rest: Any) -> Any:
        own = {name: rest.pop(name) for name in ("tokens", "hosts", "certificate", "key", "plain_http")}
        if listen is None and any(own.values()):
            given = next(name for name, value in own.items() if value)
            flag = "host" if given == "hosts" else given.replace("_", "-")
            raise click.UsageError(f"--{flag} is for --listen")
        page = None if listen is None else functools.partial(_options, listen, own)
        return command(*args, page=page, **rest)

    return wrapped


def _options(listen: str, own: dict[str, Any], folder: Path) -> WebOptions:
    from shunter.web.server import WebOptions, check_options  # noqa: PLC0415 - as above

    found = re.fullmatch(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+)):(?P<port>\d{1,5})", listen)
    if found is None or int(found["port"]) > 65_535:
        raise click.UsageError(f"--listen {listen}: write HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080")
    host = found["six"] or found["name"]
    options = WebOptions(host, int(found["port"]), sessions=folder / "sessions.json", **own)
    check_options(options)
    return options


def open_door(door: Path, options: WebOptions | None, say: Callable[[str], None]) -> Door:
    """Serve the HTTP API at the UNIX socket `door`, and with `options` the page and the API at a port."""

    @contextlib.asynccontextmanager
    async def opened(front: Front, audit: AuditLog, sign_on: SignOnRules | None) -> AsyncIterator[None]:
        from shunter.web.server import serving  # noqa: PLC0415 - as above

        async with serving(front, options, audit, door=door, sign_on=sign_on) as address:
            if address:
                say(f"the page is at {address}")
            yield

    return opened
