"""The files that pages are made of: modules, styles and vendored bundles, read from inside the package.

All lie below one address that holds a digest of them all, so browsers keep them for ever and never mix two versions.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from quire.errors import NotFound
from quire.server.calls import Answer, Call

MEDIA = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


@functools.cache
def every() -> dict[str, bytes]:
    """All files by their path below `static`."""
    found: dict[str, bytes] = {}

    def walk(folder: Traversable, prefix: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda e: e.name):
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}/")
            elif "." + entry.name.rpartition(".")[2] in MEDIA:
                found[prefix + entry.name] = entry.read_bytes()

    walk(files("quire.server.ui").joinpath("static"), "")
    return found


@functools.cache
def digest() -> str:
    """What stands for all of them."""
    total = hashlib.sha256()
    for name, data in every().items():
        total.update(f"{name}:{len(data)}\n".encode() + data)
    return total.hexdigest()[:16]


@functools.lru_cache(maxsize=256)
def _zipped(name: str) -> bytes:
    return gzip.compress(every()[name], 6, mtime=0)


def asset(call: Call) -> Answer:
    """One file. An address of another version is answered with this one, and not kept."""
    name = "/".join(call.path[part] for part in ("folder", "file") if part in call.path)
    data = every().get(name)
    if data is None:
        raise NotFound("There is no such file of the pages.", next="Load the page again.")
    headers = {"vary": "accept-encoding"}
    if call.path["digest"] == digest():
        headers["cache-control"] = "public, max-age=31536000, immutable"
    if "gzip" in call.headers.get("accept-encoding", "") and len(data) > 1_000:
        data = _zipped(name)
        headers["content-encoding"] = "gzip"
    return Answer(body=data, media_type=MEDIA["." + name.rpartition(".")[2]], headers=headers)
