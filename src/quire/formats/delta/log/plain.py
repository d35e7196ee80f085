"""The log of a Delta table as any client leaves it: the state of a version, from a checkpoint and the commits since.

Quire's own states are found without a listing. This reads what others wrote: the log is listed, and may begin with a
checkpoint, of one file, of several, or with files beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec

from quire.errors import FormatError, NotFound, Unsupported
from quire.formats.delta.files.parquet import records, rows_in
from quire.formats.delta.log.actions import Action, Commit, decode
from quire.formats.delta.log.names import LOG, published, published_version
from quire.formats.delta.log.state import EMPTY, DataFile, State, check_readable, replay
from quire.store import Store, run_parallel

_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<id>[0-9a-f-]{36}))?\.(?P<kind>parquet|json)"
)
_KINDS = ("protocol", "metaData", "add", "txn", "domainMetadata", "sidecar")
"""What a state is made of; files that are gone are in a checkpoint for those who delete them."""
_MAPS = frozenset({"partitionValues", "configuration", "options", "tags"})
_ELSEWHERE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|^/|(^|/)\.\.(/|$)")


@dataclass(frozen=True)
class Checkpoint:
    """A state of the log in files of its own."""

    version: int
    files: tuple[str, ...]
    """Below the table, in order."""


class PlainLog:
    """One look at the log of a table."""

    def __init__(self, store: Store, where: str) -> None:
        self._store = store
        self._where = where
        self._listed = {e.key: e for e in store.list(LOG)}
        self.versions = tuple(sorted(v for key in self._listed if (v := published_version(key)) is not None))
        self.checkpoints = tuple(sorted(_checkpoints(self._listed), key=lambda c: c.version))

    @property
    def newest(self) -> int:
        """The newest version; -1 where there is no table."""
        newest = max((c.version for c in self.checkpoints), default=-1)
        return max(self.versions[-1] if self.versions else -1, newest)

    def written(self, version: int) -> int:
        """When the file of a version was written, in milliseconds; 0 when it is no longer there."""
        entry = self._listed.get(published(version))
        return 0 if entry is None else int(entry.modified.timestamp() * 1000)

    def state(self, version: int) -> State:
        """The table at a version. Every file says how many rows it has."""
        begins = [c for c in self.checkpoints if c.version <= version]
        start = begins[-1] if begins else None
        first = 0 if start is None else start.version + 1
        needed = range(first, version + 1)
        missing = [number for number in needed if published(number) not in self._listed]
        if missing or version < 0:
            raise NotFound(
                f"The log of the Delta table at {self._where} has no version {(missing or [version])[0]}.",
                next="Name a version that clients of the table can read.",
                uri=self._where,
            )
        calls: list[Any] = [partial(self._commit, number) for number in needed]
        if start is not None:
            calls.append(partial(self._whole, start))
        read = run_parallel(calls)
        base: State = read.pop() if start is not None else EMPTY
        state = check_readable(replay(base, read, f"{self._where}/{published(version)}"), self._where)
        if not state.metadata.id:
            raise FormatError(
                f"The log of the Delta table at {self._where} does not say what its columns are.",
                next="Restore it from a copy.",
            )
        _check_inside(state, self._where)
        return _counted(self._store, replace(state, time=self._time(state)))

    def _time(self, state: State) -> int:
        """When a version was made; a checkpoint does not say it."""
        if state.time or published(state.version) not in self._listed:
            return state.time
        return self._commit(state.version).time or self.written(state.version)

    def operations(self, above: int, version: int) -> list[Commit]:
        """The commits after one version up to another, as far as they are still there."""
        numbers = [n for n in self.versions if above < n <= version]
        return run_parallel([partial(self._commit, number) for number in numbers])

    def _commit(self, version: int) -> Commit:
        return decode(self._store.get(published(version)), published(version))

    def _whole(self, checkpoint: Checkpoint) -> State:
        read = [a for some in run_parallel([partial(self._actions, f) for f in checkpoint.files]) for a in some]
        beside = [action["sidecar"]["path"] for action in read if "sidecar" in action]
        paths = [path if "/" in path else f"{LOG}/_sidecars/{path}" for path in map(unquote, beside)]
        if any(_ELSEWHERE.search(path) for path in paths):
            raise _outside(self._where, paths[0])
        read += [a for some in run_parallel([partial(self._actions, path) for path in paths]) for a in some]
        before = replace(EMPTY, version=checkpoint.version - 1)
        return replay(before, [Commit(tuple(read))], f"{self._where}/{checkpoint.files[0]}")

    def _actions(self, path: str) -> list[Action]:
        body = self._store.get(path)
        if path.endswith(".json"):
            return [a for a in decode(body, path).actions if next(iter(a), "") in _KINDS]
        rows = records(body, _KINDS, f"{self._where}/{path}")
        return [{kind: _plain(told)} for row in rows for kind, told in row.items() if told is not None]


def _checkpoints(names: Mapping[str, Any]) -> Iterator[Checkpoint]:
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for key in names:
        found = _CHECKPOINT.fullmatch(key.removeprefix(f"{LOG}/"))
        if found is None:
            continue
        if found["part"] is None:
            yield Checkpoint(int(found["version"]), (key,))
        else:
            parts.setdefault((int(found["version"]), int(found["parts"])), {})[int(found["part"])] = key
    for (version, count), held in parts.items():
        if sorted(held) == list(range(1, count + 1)):
            yield Checkpoint(version, tuple(held[number] for number in sorted(held)))


def _plain(value: Any, name: str = "") -> Any:
    """A value of a checkpoint as the commits have it: without what is null, maps as objects."""
    if name in _MAPS:
        return dict(value)
    if isinstance(value, dict):
        told = {key: _plain(part, key) for key, part in value.items() if part is not None}
        parsed = told.pop("stats_parsed", None)
        if parsed is not None and "stats" not in told and "numRecords" in parsed:
            told["stats"] = _rows(parsed["numRecords"])
        told.pop("partitionValues_parsed", None)
        return told
    return value


def _rows(count: int) -> str:
    return msgspec.json.encode({"numRecords": count}).decode()


def _check_inside(state: State, where: str) -> None:
    for file in state.files:
        if _ELSEWHERE.search(file.path):
            raise _outside(where, file.path)
        if file.vector is not None and file.vector.storage_type not in ("u", "i"):
            raise _outside(where, file.vector.path_or_inline_dv)


def _outside(where: str, path: str) -> Unsupported:
    return Unsupported(
        f"The Delta table at {where} has a file outside its folder, {path}, as a shallow clone has.",
        next="Make a deep copy of it, and register the copy.",
        uri=where,
    )


def _counted(store: Store, state: State) -> State:
    """The state with the number of rows of files of which the log does not say it: their footers do."""
    unknown = [file for file in state.files if file.rows < 0]
    if not unknown:
        return state
    counts = run_parallel([partial(_footer, store, file) for file in unknown])
    known = {
        f.path: replace(f, rows=rows, stats=_with_rows(f.stats, rows)) for f, rows in zip(unknown, counts, strict=True)
    }
    return replace(state, files=tuple(known.get(file.path, file) for file in state.files))


def _with_rows(stats: str | None, rows: int) -> str:
    told = msgspec.json.decode(stats) if stats else {}
    return msgspec.json.encode({**told, "numRecords": rows}).decode()


def _footer(store: Store, file: DataFile) -> int:
    return rows_in(store.get(file.path), file.path)
