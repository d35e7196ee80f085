"""The published log: what clients see that know nothing of the lake, and how staged commits get there.

A commit is published by a copy of its file, byte by byte, under the name in which every client looks for its version,
if nobody has written there. Versions are published in order, by anybody, as often as anybody likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from quire.errors import FormatError
from quire.formats import Foreign, Head, OwnedCommit, Promotion
from quire.formats.delta.folder import Folder
from quire.formats.delta.log import checkpoint
from quire.formats.delta.log.actions import Commit, decode, name_by_content
from quire.formats.delta.log.names import (
    FOLDERS,
    LOG,
    Name,
    checkpoint_version,
    follows_path,
    published,
    published_version,
    staged_by_client,
    state_path,
)
from quire.formats.delta.log.plain import PlainLog
from quire.formats.delta.log.state import State, replay
from quire.ledger import Pin
from quire.store import Outcome, Store


class PublishedLog:
    """The log of one table as plain clients see it."""

    def __init__(self, folder: Folder, lake: str) -> None:
        self._folder = folder
        self._lake = lake

    @property
    def store(self) -> Store:
        return self._folder.files.of(self._folder.location)

    # -- looking ----------------------------------------------------------------------------------------------

    def has(self, version: int) -> bool:
        return version >= 0 and self.store.stat(published(version)) is not None

    def newest(self, near: int) -> int:
        """The newest published version, found by looking around one that it is likely near; -1 when there is none."""
        step, low = 1, near
        if not self.has(near):
            high = near
            while low >= 0 and not self.has(low):
                high, low, step = low, low - step, step * 2
            low = max(low, -1)
        else:
            high = near + 1
            while self.has(high):
                low, high, step = high, high + step, step * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.has(middle) else (low, middle)
        # Where old versions were cleaned up, looking downwards finds nothing.
        return low if low >= 0 else PlainLog(self.store, self._folder.location).newest

    def body(self, version: int) -> bytes | None:
        return self.store.get_or_none(published(version))

    def is_published(self, name: Name, body: bytes) -> bool:
        """Whether what lies at a version is the commit of this name."""
        if name.kind == "u":
            return self._folder.read(name.path) == body
        return name_by_content(body) == name.id if name.kind in ("s", "c") else True

    def ours(self, body: bytes, version: int) -> int | None:
        """The counter of a commit that this lake made; None for one of somebody else."""
        made = decode(body, published(version)).made
        return made.counter if made is not None and made.lake == self._lake else None

    def head(self, pin: Pin) -> Head:
        version = self.newest(max(Name.parse(pin.version).version, pin.head))
        body = self.body(version) if version >= 0 else None
        if body is None:
            raise FormatError(
                f"There is no published version of the Delta table at {pin.location}.", next="Restore it from a copy."
            )
        name = Name.parse(pin.version)
        if version == pin.head and version > 0:
            return Head(version, pin.counter)
        known = self.ours(body, version)
        if known is None and pin.head < version <= name.version:
            one = self.name_of(name, version)  # a client may have written it, and handed it to the owner
            known = pin.counter - (name.version - version) if self.is_published(one, body) else None
        return Head(version, known)

    # -- publishing -------------------------------------------------------------------------------------------

    def chain(self, name: Name, above: int) -> list[Name]:
        """The versions up to one that come after version `above`, in order."""
        found: list[Name] = []
        at: Name | None = name
        while at is not None and at.version > above:
            _, follows = self._folder.known(at.text)
            since = [Name.parse(text) for text in follows.since]
            found = [n for n in since if n.version > above] + [n for n in found if n.version > at.version]
            at = None if follows.state is None else Name.parse(follows.state)
            if at is not None and at.version > above:
                found = [at, *found]
                at = self._before(at)
        return found

    def name_of(self, name: Name, version: int) -> Name:
        """A version of the line that leads to this one."""
        return next(one for one in self.chain(name, version - 1) if one.version == version)

    def descends(self, name: Name, from_: Name) -> bool:
        """Whether a version comes after another one in the same line."""
        if name.version <= from_.version:
            return False
        first = self.chain(name, from_.version)[0]
        return first.version == from_.version + 1 and self._before(first) == from_

    def name_at(self, version: int) -> Name:
        """A published version of the lake's own, as a pin names it."""
        body = self.body(version)
        if body is None:
            raise FormatError(
                f"The log of the Delta table at {self._folder.location} has no version {version}.",
                next="Restore it from a copy.",
            )
        return self._named(version, body)

    def _named(self, version: int, body: bytes) -> Name:
        if not version:
            return Name(0)
        names = [Name(version, kind, name_by_content(body)) for kind in ("s", "c")]
        for entry in self.store.list(FOLDERS["u"]):
            name = staged_by_client(entry.key.rsplit("/", 1)[1])
            if name is not None and name.version == version and self.store.stat(follows_path(name)) is not None:
                names.append(name)
        there = (name for name in names if self.store.stat(name.path) is not None and self.is_published(name, body))
        return next(there, names[0])

    def _before(self, name: Name) -> Name | None:
        """The version before one of which the whole state is stored."""
        if name.kind == "r":
            return None
        if not name.kind:
            return None
        follows = self._folder.follows(name, decode(self._folder.read(name.path), name.path))
        last = follows.since[-1] if follows.since else follows.state
        return None if last is None else Name.parse(last)

    def promote(self, pin: Pin, *, table: str) -> Promotion:
        """Publish all versions up to a pinned one."""
        return self.publish(Name.parse(pin.version), pin.head, table=table)

    def publish(self, name: Name, heard: int, *, table: str) -> Promotion:
        """Publish all versions up to this one. Up to `heard`, what plain writers did is part of it."""
        there = self.body(name.version)
        if there is not None:
            return self._met(name, there, table)
        above = self.newest(name.version)
        names = self.chain(name, above)
        if above >= 0 and (foreign := self._stands_on(heard, above, names)) is not None:
            return Promotion(table, "foreign", above, foreign)
        for one in names:
            body = self._folder.read(one.path)
            outcome = self.store.create(published(one.version), body, mine=_never).outcome
            if outcome is Outcome.UNKNOWN:
                said = "the store did not say whether the version was created"
                return Promotion(table, "behind", one.version - 1, said)
            there = self.body(one.version) if outcome is Outcome.CONFLICT else None
            if there is not None and (there != body or one == name):
                return self._met(one, there, table)
        if checkpoint.is_due(above, name.version):
            checkpoint.write(self.store, self._folder.state(name.text))
        return Promotion(table, "promoted", name.version)

    def unpublished(self, name: Name) -> list[OwnedCommit]:
        """The versions up to one that are not published yet."""
        if self.has(name.version):
            return []
        return [self.owned(one) for one in self.chain(name, self.newest(name.version))]

    def owned(self, name: Name) -> OwnedCommit:
        body = self._folder.read(name.path)
        return OwnedCommit(name.version, name.path, len(body), decode(body, name.path).time)

    def _met(self, name: Name, there: bytes, table: str) -> Promotion:
        """What a published version that was found is to the one that was to be published."""
        if self.is_published(name, there):
            return Promotion(table, "current", name.version)
        if self.ours(there, name.version) is not None:
            return Promotion(table, "behind", name.version, f"version {name.version} is another commit of the lake")
        newest = self.newest(name.version)
        return Promotion(table, "foreign", newest, f"version {name.version} was written by a plain client")

    def _stands_on(self, heard: int, above: int, names: list[Name]) -> str | None:
        """Why the versions cannot follow the newest published one, if they cannot."""
        body = self.body(above)
        if body is None or not names or above <= heard:
            return None
        before = self._before(names[0])
        if before is None or before.version != above or self.is_published(before, body):
            return None
        return f"version {above} was written by a plain client"

    # -- comparing --------------------------------------------------------------------------------------------

    def differs(self, pin: Pin) -> str | None:
        name = Name.parse(pin.version)
        there = self.body(name.version)
        if there is None:
            newest = self.newest(name.version)
            body = self.body(newest) if newest >= 0 else None
            if body is not None and newest > pin.head and self.ours(body, newest) is None:
                return f"Version {newest} of the plain table was written by a plain client."
            return None
        if not self.is_published(name, there):
            return f"Version {name.version} of the plain table is another commit than the one that is pinned."
        newest = self.newest(name.version)
        body = self.body(newest) if newest > name.version else None
        if body is not None and self.ours(body, newest) is None:
            return f"Version {newest} of the plain table was written by a plain client."
        return None

    def is_at(self, pin: Pin, version: int) -> bool:
        name = Name.parse(pin.version)
        if version < 0 or name.version != version:
            return False
        body = self.body(version)
        return body is not None and self.is_published(name, body)

    # -- who needs what ---------------------------------------------------------------------------------------

    def trace(self, pin: Pin, head: int) -> Foreign:
        """The foreign versions up to `head`, back to the newest version that is Quire's own or was adopted."""
        ops: list[str] = []
        number = head
        while number > max(pin.head, -1):
            body = self.body(number)
            if body is None or self.ours(body, number) is not None:
                break
            ops.append(operation(decode(body, published(number))))
            number -= 1
        ops.reverse()
        return Foreign(number, head, tuple(ops), tuple(f"version {number + i}: {op}" for i, op in enumerate(ops, 1)))

    def plain_files(self, since: datetime) -> set[str]:
        """The published log, and the data files of what is its newest version or was one lately."""
        listed = {e.key: e for e in self.store.list(LOG) if not e.key.startswith(f"{LOG}/_") or "last" in e.key}
        versions = {v: e for key, e in listed.items() if (v := published_version(key)) is not None}
        needed = set(listed)
        superseded: datetime | None = None
        oldest = 0
        for number in sorted(versions, reverse=True):
            if superseded is not None and superseded < since:
                break
            state, more = self._state_at(number)
            needed |= set(data_of(state)) | more
            superseded = versions[number].modified
            oldest = number
        return needed - set(_before_checkpoint(listed, oldest))

    def _state_at(self, version: int) -> tuple[State, set[str]]:
        """The state of a published version, and the files that it was found by."""
        later: list[Commit] = []
        number = version
        while number >= 0:
            body = self.body(number)
            if body is None:
                break
            commit = decode(body, published(number))
            made = commit.made
            if made is not None and made.lake == self._lake:
                name = self._named(number, body)
                state, _ = self._folder.known(name.text)
                return replay(state, reversed(later), published(version)), set(log_of(self._folder, name))
            later.append(commit)
            number -= 1
        raise FormatError(
            f"The log of the Delta table at {self._folder.location} has no version {number}.",
            next="Restore it from a copy.",
        )


def _before_checkpoint(names: Iterable[str], oldest: int) -> Iterator[str]:
    """Parts of the log that no client needs to open this version or a later one."""
    begins = max((n for path in names if (n := checkpoint_version(path)) is not None and n <= oldest), default=0)
    for path in names:
        number = published_version(path)
        number = checkpoint_version(path) if number is None else number
        if number is not None and number < begins:
            yield path


def _never(found: bytes) -> bool:
    """Whose copy it is does not matter, and cannot be told: all are the same."""
    return False


def operation(commit: Commit) -> str:
    """What a plain client did, in the words of the lake."""
    kinds = {next(iter(action)) for action in commit.actions}
    if kinds & {"metaData", "protocol"}:
        return "schema"
    if "remove" not in kinds:
        return "append"
    name = commit.info.get("operation")
    known = {"DELETE": "delete", "UPDATE": "update", "MERGE": "update", "OPTIMIZE": "compact"}
    return known.get(str(name), "overwrite")


def data_of(state: State) -> Iterator[str]:
    """The data files of a state, and those that say which of their rows are gone."""
    for file in state.files:
        yield file.path
        if file.vector is not None and file.vector.storage_type == "u":
            yield file.vector.file()


def log_of(folder: Folder, name: Name) -> Iterator[str]:
    """The files that say what a state consists of."""
    _, follows = folder.known(name.text)
    for one in (*map(Name.parse, follows.since), name):
        yield one.path
        if one.kind == "u":
            yield follows_path(one)
    if follows.state is not None:
        yield state_path(Name.parse(follows.state))


def needed_by(folder: Folder, pin: Pin) -> dict[str, int | None]:
    """Every file of a pinned state, with its size where it is known."""
    name = Name.parse(pin.version)
    state, _ = folder.known(pin.version)
    sizes: dict[str, int | None] = {path: None for path in log_of(folder, name)}
    sizes[name.path] = None
    for path in data_of(state):
        file = state.by_path.get(path)
        sizes[path] = file.size if file is not None else None
    return sizes
