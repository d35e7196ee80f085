"""Addresses of lakes and keys of objects: what is accepted, and what a wrong one is told."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from quire.errors import InvalidInput, InvalidUri

SCHEMES = ("file", "memory", "s3", "gs", "az")
_REGISTERED: set[str] = set()
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az"}
_EXAMPLE = {
    "file": "file:///path/to/lake",
    "memory": "memory://name",
    "s3": "s3://bucket/lake",
    "gs": "gs://bucket/lake",
    "az": "az://container/lake",
}
# Two letters or more, so that a Windows drive is a path.
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(/*)(.*)$", re.DOTALL)
# What is no host of a URL is a folder of the working directory for the libraries below.
_CONTAINER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")

TEMPORARY_SUFFIX = ".quire-tmp"
# `name#1` is how the object store library under Lance names a local file that is still being written.
_IN_FLIGHT = re.compile(r"#\d+$")


@dataclass(frozen=True)
class Address:
    """A root, taken apart. `container` is the bucket, or the name of a memory store; `path` has no slash at either end
    except for a local root, where it is the absolute path."""

    scheme: str
    container: str
    path: str

    @property
    def uri(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.container}" + (f"/{self.path}" if self.path else "")


def parse(uri: str | os.PathLike[str]) -> Address:
    """Understand a root, or raise `InvalidUri` with the form it should have had."""
    text = os.fspath(uri)
    if not text or _CONTROL.search(text.replace("\\", "" if os.name == "nt" else "\\")):
        raise InvalidUri(
            f"{shown(text)!r} is not an address.",
            next="Give a directory, or a URI such as s3://bucket/lake.",
            uri=shown(text),
        )
    match = _SCHEME.match(text)
    if match is None or not (match[2] or _known(match[1])):
        return _local(os.path.expanduser(text))
    scheme, slashes, rest = match[1].lower(), match[2], match[3]
    if not _known(scheme):
        raise InvalidUri(f"{shown(text)!r} has an unknown scheme, {scheme!r}.", next=_advice(scheme), uri=shown(text))
    scheme = _ALIASES.get(scheme, scheme)
    if scheme == "file":
        if len(slashes) != 3:
            raise InvalidUri(f"{shown(text)!r} is not a file URI.", next=f"Write {_EXAMPLE['file']}.", uri=shown(text))
        return _local("/" + unquote(rest))
    if len(slashes) != 2 or not rest:
        raise InvalidUri(f"{shown(text)!r} is incomplete.", next=f"Write {_EXAMPLE[scheme]}.", uri=shown(text))
    return _remote(scheme, rest, text)


def accept(scheme: str) -> None:
    """Take addresses of one more scheme: `scheme://container/path`."""
    _REGISTERED.add(scheme)
    _EXAMPLE.setdefault(scheme, f"{scheme}://name/lake")


def _known(scheme: str) -> bool:
    return scheme.lower() in SCHEMES or scheme.lower() in _ALIASES or scheme.lower() in _REGISTERED


def _advice(scheme: str) -> str:
    near = difflib.get_close_matches(scheme, (*SCHEMES, *_ALIASES), n=1, cutoff=0.5)
    if near:
        name = _ALIASES.get(near[0], near[0])
        return f"Did you mean {_EXAMPLE[name]}?"
    return "Use a directory, or one of " + ", ".join(f"{name}://" for name in SCHEMES) + "."


def _local(path: str) -> Address:
    root = os.path.abspath(path)
    if os.path.exists(root) and not os.path.isdir(root):
        raise InvalidUri(f"{root} is a file, not a directory.", next="Give the directory of the lake.", uri=root)
    return Address("file", "", root)


def _remote(scheme: str, rest: str, text: str) -> Address:
    if "?" in rest or "#" in rest:
        raise InvalidUri(
            f"{shown(text)!r} holds more than a location.", next="Pass settings as storage options.", uri=shown(text)
        )
    container, _, path = rest.partition("/")
    if "@" in container:
        raise InvalidUri(
            f"{shown(text)!r} holds credentials or an account.",
            next="Pass them as storage options or in the environment.",
            uri=shown(text),
        )
    if not _CONTAINER.fullmatch(container):
        raise InvalidUri(
            f"{shown(container)!r} is not a valid name of a bucket, a container or a lake in memory.",
            next="Use only letters, digits and . _ -",
            uri=shown(text),
        )
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise InvalidUri(f"{shown(text)!r} contains '.' or '..'.", next="Write the full path.", uri=shown(text))
    return Address(scheme, container, "/".join(parts))


def shown(text: str) -> str:
    """An address as it may be printed: without user, password or query."""
    return re.sub(r"(:/*)[^/@\s]*@", r"\1***@", text).partition("?")[0]


def check_key(key: str) -> str:
    """Return the key, or raise `InvalidInput` for one that would not mean the same object on every store."""
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts) or _CONTROL.search(key):
        raise InvalidInput(
            f"{key!r} is not a valid key.",
            next="Join names with single slashes, without a slash at the start.",
            key=key,
        )
    if is_temporary(parts[-1]):
        raise InvalidInput(f"{key!r} is reserved for temporary files.", next="Choose another name.", key=key)
    return key


def check_prefix(prefix: str) -> str:
    """Return the folder without its final slash; the empty prefix is the root."""
    bare = prefix.removesuffix("/")
    return check_key(bare) if bare else ""


def is_temporary(name: str) -> bool:
    """Whether a local file of this name is not an object yet."""
    return name.endswith(TEMPORARY_SUFFIX) or _IN_FLIGHT.search(name) is not None
