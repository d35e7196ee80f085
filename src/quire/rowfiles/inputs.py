"""Files that are read and belong to no lake: by name or by pattern, on disk or in a bucket.

for path in expand("s3://bucket/raw/2026-*/part-*.csv"):
    with open_input(path) as stream:
        ...
"""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Mapping
from typing import IO, cast

from quire.errors import InvalidInput, NotFound
from quire.store.store import Store

AHEAD = 8 << 20
"""Bytes that one request reads from a bucket, when they are read in order."""

REJECTS = ".rejects.ndjson"
"""Ends the names of files of rows that a load left out. A pattern matches none of them unless it ends so too: what was
left out is no input of the next run."""

_REMOTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]+)/(.*)", re.DOTALL)

Options = Mapping[str, str]


def is_remote(path: str) -> bool:
    """Whether a path is an address in a bucket rather than in the file system."""
    return "://" in path and not path.startswith("file://")


def expand(name: str, base: str = "", options: Options | None = None) -> list[str]:
    """The files that a name or a pattern stands for, sorted; none where nothing matches.

    `*`, `?` and `[…]` stay inside one folder, `**` goes through all below. A relative name starts from `base`. A name
    that is no pattern is returned as it is: that it is missing is found when it is opened. Files of rows that a load
    left out are matched only by a pattern that ends in `.rejects.ndjson` too.
    """
    if is_remote(base) and "://" not in name and not os.path.isabs(name):
        name = f"{base.rstrip('/')}/{name}"
    if is_remote(name):
        return _no_rejects(name, _expand_remote(name, options)) if glob.has_magic(name) else [name]
    path = name.removeprefix("file://") if name.startswith("file://") else os.path.join(base, name)
    if glob.has_magic(path) and not os.path.exists(path):
        return _no_rejects(name, sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p)))
    return [path]


def names(name: str, path: str, base: str = "") -> bool:
    """Whether a name or a pattern stands for a file, whether that is there or not."""
    if is_remote(base) and "://" not in name and not os.path.isabs(name):
        name = f"{base.rstrip('/')}/{name}"
    if is_remote(name) != is_remote(path):
        return False
    if not is_remote(name):
        whole = os.path.join(base, name.removeprefix("file://"))
        name, path = os.path.realpath(whole), os.path.realpath(path.removeprefix("file://"))
    found = glob.has_magic(name) and _pattern(name).fullmatch(path) is not None
    return name == path or (found and bool(_no_rejects(name, [path])))


def _no_rejects(pattern: str, found: list[str]) -> list[str]:
    return found if pattern.endswith(REJECTS) else [path for path in found if not path.endswith(REJECTS)]


def size_of(path: str, options: Options | None = None) -> int:
    """Bytes of a file, 0 where there is none: to choose who reads it."""
    if not is_remote(path):
        return os.path.getsize(path) if os.path.isfile(path) else 0
    store, key = _object(path, options)
    found = store.stat(key)
    return 0 if found is None else found.size


def open_input(path: str, options: Options | None = None) -> IO[bytes]:
    """A file to read from, which can be sought in. `NotFound` where there is none."""
    if not is_remote(path):
        try:
            return open(path.removeprefix("file://"), "rb")
        except FileNotFoundError:
            raise NotFound(f"There is no file {path}.", next="Check the path.", file=path) from None
    store, key = _object(path, options)
    found = store.stat(key)
    if found is None:
        raise NotFound(f"There is no file {path}.", next="Check the path.", file=path)
    return cast(IO[bytes], io.BufferedReader(_Ranges(store, key, found.size), AHEAD))


def _object(path: str, options: Options | None) -> tuple[Store, str]:
    match = _REMOTE.fullmatch(path)
    if match is None or not match[3]:
        raise InvalidInput(f"{path!r} does not name a file.", next="Write s3://bucket/folder/file.", file=path)
    return Store.open(f"{match[1]}://{match[2]}", options), match[3]


def _expand_remote(name: str, options: Options | None) -> list[str]:
    match = _REMOTE.fullmatch(name)
    if match is None or not match[3] or glob.has_magic(match[2]):
        raise InvalidInput(f"{name!r} is not a file pattern.", next="Write s3://bucket/folder/*.csv.", file=name)
    root, pattern = f"{match[1]}://{match[2]}", match[3]
    before = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    folder = before.rpartition("/")[0]
    wanted = _pattern(pattern)
    return [f"{root}/{e.key}" for e in Store.open(root, options).list(folder) if wanted.fullmatch(e.key)]


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of files as an expression over keys."""
    found, at = "", 0
    while at < len(text):
        if text.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif text.startswith("**", at):
            found, at = found + ".*", at + 2
        elif text[at] == "*":
            found, at = found + "[^/]*", at + 1
        elif text[at] == "?":
            found, at = found + "[^/]", at + 1
        elif text[at] == "[" and (end := text.find("]", at + 2)) > 0:
            inside = text[at + 1 : end].replace("\\", "\\\\")
            found, at = found + f"[{'^' + inside[1:] if inside.startswith('!') else inside}]", end + 1
        else:
            found, at = found + re.escape(text[at]), at + 1
    return re.compile(found, re.DOTALL)


class _Ranges(io.RawIOBase):
    """An object as a file: each read is a request for a range."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._store.get_range(self._key, self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
