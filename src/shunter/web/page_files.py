"""The page's files: read once, compressed once, at addresses that have a digest of them all.

A browser may keep such a file for ever, because a changed file has another address. The page names its files by
addresses relative to its own, and they name each other so, so the page works below any path of a proxy.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

ASSETS = Path(__file__).parent / "assets"
FOR_EVER = "public, max-age=31536000, immutable"
KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".md": "text/plain",
    ".txt": "text/plain",
}
_WRITTEN = b'"/assets/'
"""How index.html names files."""
_PRELOADS = b"<!-- preloads -->"
"""Where index.html names every module, so that a browser asks for all of them at once."""


class _File(NamedTuple):
    kind: str
    raw: bytes
    packed: bytes


class PageFiles:
    """The page, and the files that it loads."""

    def __init__(self, folder: Path = ASSETS) -> None:
        """Read a folder."""
        names = sorted(path for path in folder.rglob("*") if path.is_file())
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}
        self._page = contents.pop("index.html")
        modules = (name for name in contents if name.endswith(".js") and name != "theme.js")
        preloads = "\n    ".join(f'<link rel="modulepreload" href="/assets/{name}">' for name in modules)
        self._page = self._page.replace(_PRELOADS, preloads.encode())
        together = hashlib.sha256()
        for name, raw in contents.items():
            together.update(f"{name} {len(raw)} ".encode() + raw)
        self.digest = together.hexdigest()[:16]
        self._files = {
            name: _File(KINDS[Path(name).suffix], raw, gzip.compress(raw, 9, mtime=0)) for name, raw in contents.items()
        }

    def page(self, request: Request, status: int = 200) -> Response:
        """The page. It reads from its own address which view to show."""
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        up = "../" * (raw_path.count(b"/") - 1)
        page = self._page.replace(_WRITTEN, f'"{up}assets/{self.digest}/'.encode())
        return Response(page, status, {"cache-control": "no-cache"}, "text/html")

    def file(self, digest: str, name: str, asked: Headers) -> Response | None:
        """One of its files; None: there is none of this name, or the digest is of another release."""
        found = self._files.get(name)
        if found is None or digest != self.digest:
            return None
        headers = {"cache-control": FOR_EVER, "vary": "accept-encoding"}
        if "gzip" not in asked.get("accept-encoding", ""):
            return Response(found.raw, 200, headers, found.kind)
        return Response(found.packed, 200, {**headers, "content-encoding": "gzip"}, found.kind)
