"""From a table that anybody may write to to one whose commits the lake owns, and back.

A plain table becomes the lake's with the version after its newest one, which its clients may be writing too. So the
owner first writes down what it is about to do, a *promise*, with the commit itself beside it, and then creates the file
of the version if there is none. Whoever finds the promise can tell what became of it, and finish it: the commit lies at
its version, or another one does, and then the promise is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from quire.conversion.source import Source
from quire.errors import CommitUnknown, FormatError, NotOwner
from quire.formats import Staged
from quire.formats import keys as keylib
from quire.formats.delta.folder import Folder
from quire.formats.delta.log import dialects
from quire.formats.delta.log.actions import Follows, name_by_content
from quire.formats.delta.log.names import STATES, Name, published, state_path
from quire.formats.delta.log.plain import PlainLog
from quire.formats.delta.log.published import PublishedLog
from quire.formats.delta.log.state import State, check_writable, now
from quire.formats.delta.staging.commit import Base, version_on
from quire.formats.delta.staging.draft import Draft
from quire.formats.delta.staging.work import DeltaWork
from quire.ledger import Pin
from quire.ledger.records import reader
from quire.store import Outcome

PROMISE = f"{STATES}/promise.json"
Fate = Literal["kept", "broken"]


class Promise(msgspec.Struct, frozen=True):
    """What an owner is about to do with a plain table."""

    lake: str
    name: str
    """The version, as pins name it."""
    dialect: dialects.Dialect


# -- a plain table as it is --------------------------------------------------------------------------------------------


def noted(folder: Folder, state: State) -> Name:
    """Write down a state of a plain table, whose log its clients may shorten."""
    body = Folder.whole_file(state)
    name = Name(state.version, "r", name_by_content(body))
    folder.files.write(folder.location, state_path(name), body)
    folder.states.keep(folder.location, name.text, state, Follows(state=name.text))
    return name


def pinned(location: str, name: Name, state: State, *, counter: int, head: int) -> Pin:
    return Pin(
        format="delta",
        location=location,
        version=name.text,
        counter=counter,
        rows=state.rows,
        bytes=state.bytes,
        head=head,
        fragments=len(state.files),
    )


class Followed(DeltaWork):
    """A newer version of a plain table, as the work of a transaction: commits of its clients are taken as they are."""

    def __init__(self, draft: Draft, state: State, key: Sequence[str]) -> None:
        super().__init__(draft)
        check_key(draft.folder, state, key, draft.table)
        self._state = state
        draft.go_back(state)

    def stage(self, behind: Any = ()) -> Staged:
        draft = self.draft
        name = noted(draft.folder, self._state)
        draft.files.append(state_path(name))
        pin = pinned(draft.pin.location, name, self._state, counter=draft.pin.counter + 1, head=self._state.version)
        return Staged(pin, (), draft.tally.added, draft.tally.removed, (state_path(name),))


def check_key(folder: Folder, state: State, key: Sequence[str], table: str) -> None:
    """Refuse rows of others that do not keep a table's key."""
    if not key:
        return
    keylib.check_columns(key, state.schema, table)
    if state.rows:
        batches = (batch for _, _, batch in folder.rows(state, list(key)))
        keys = Source(state.schema.empty_table().select(list(key)).schema, batches, whole=False)
        keylib.check_distinct(keys.table(), key, table)


# -- to an owner -------------------------------------------------------------------------------------------------------


def own(
    folder: Folder, pin: Pin, dialect: dialects.Dialect, *, lake: str, write: str, key: Sequence[str], table: str
) -> Pin | None:
    """Make the newest version of a plain table, and all that follow, the lake's; None when a client was faster.

    What this answers is in the log of the table, for everybody, and must be committed.
    """
    held = read_promise(folder, pin)
    if held is None:
        held = _promised(folder, pin, dialect, lake=lake, write=write, key=key, table=table)
    elif held.lake != lake:
        raise NotOwner(
            f"Another lake is taking over the Delta table at {folder.location}.",
            next="Use the table through that lake.",
            uri=folder.location,
            lake=held.lake,
        )
    if held is None or keep(folder, held, lake) == "broken":
        return None
    name = Name.parse(held.name)
    state = folder.state(held.name)
    return pinned(pin.location, name, state, counter=pin.counter + 1, head=name.version - 1)


def _done(folder: Folder, state: State, lake: str, table: str) -> Promise:
    """The same as a promise, from the log itself: that its newest version is one by which the lake took it over."""
    log = PublishedLog(folder, lake)
    body = log.body(state.version)
    dialect = dialects.dialect_of(state, table)
    if body is None or dialect is None or log.ours(body, state.version) is None:
        raise owned_by_another(folder.location, table)
    return Promise(lake, log.name_at(state.version).text, dialect)


def read_promise(folder: Folder, pin: Pin) -> Promise | None:
    """A promise that was not settled yet. One about a version that the lake has gone past is an old one."""
    store = folder.files.of(folder.location)
    body = store.get_or_none(PROMISE)
    if body is None:
        return None
    try:
        held: Promise = reader(Promise).decode(body)
        version = Name.parse(held.name).version
    except msgspec.MsgspecError as error:
        raise FormatError(
            f"{PROMISE} of the table at {folder.location} is damaged ({error}).", next="Remove it."
        ) from None
    if version > Name.parse(pin.version).version:
        return held
    store.delete(PROMISE)
    return None


def _promised(
    folder: Folder, pin: Pin, dialect: dialects.Dialect, *, lake: str, write: str, key: Sequence[str], table: str
) -> Promise | None:
    """Write down what the next version will be; None when somebody else has promised something meanwhile."""
    store = folder.files.of(folder.location)
    log = PlainLog(store, folder.location)
    state = log.state(log.newest)
    if dialects.dialect_of(state, table) is not None:
        return _done(folder, state, lake, table)
    check_key(folder, state, key, table)
    when = max(now(), state.time + 1, log.written(state.version) + 1)
    target = dialects.owned(state, dialect, lake, since=when)
    check_writable(target, folder.location)
    base = Base(state, Follows(state=noted(folder, state).text), pin.counter)
    version = version_on(
        base, target, counter=pin.counter + 1, lake=lake, write=write, time=when, operation="UPGRADE PROTOCOL"
    )
    folder.files.write(folder.location, version.name.path, version.body)
    promise = Promise(lake, version.name.text, dialect)
    body = msgspec.json.encode(promise)
    made = store.create(PROMISE, body, mine=lambda found: found == body).outcome
    if made is Outcome.UNKNOWN:
        raise _unknown(folder.location, PROMISE)
    return promise if made is Outcome.COMMITTED else None


def keep(folder: Folder, promise: Promise, lake: str) -> Fate:
    """Do what was promised, if nobody has done it and no client of the table was faster."""
    name = Name.parse(promise.name)
    log = PublishedLog(folder, lake)
    there = log.body(name.version)
    if there is None:
        body = folder.read(name.path)
        made = log.store.create(published(name.version), body, mine=lambda found: found == body).outcome
        if made is Outcome.UNKNOWN:
            raise _unknown(folder.location, published(name.version))
        there = log.body(name.version)
    if there is not None and log.is_published(name, there):
        return "kept"
    forget(folder, promise.name)
    return "broken"


def forget(folder: Folder, name: str) -> None:
    """A promise that is settled. Should a later one go with it, the log of the table tells the same."""
    store = folder.files.of(folder.location)
    body = store.get_or_none(PROMISE)
    if body is not None and name.encode() in body:
        store.delete(PROMISE)


def owned_by_another(location: str, table: str) -> NotOwner:
    return NotOwner(
        f"The commits of the Delta table at {location} have an owner already.",
        next="Convert it to a plain table there, then register it.",
        uri=location,
        table=table,
    )


def _unknown(location: str, path: str) -> CommitUnknown:
    return CommitUnknown(
        f"The store did not say whether {path} of the Delta table at {location} was written.",
        next="Convert the table again; this is safe.",
        uri=location,
    )


# -- to a plain table --------------------------------------------------------------------------------------------------


def release(work: DeltaWork) -> None:
    """Make the next version one after which every client may write to the table."""
    draft = work.draft
    state = dialects.plain(draft.current())
    files = tuple(replace(f, vector=None, deleted=draft.folder.marks(f)) if f.gone else f for f in state.files)
    draft.chain(state.change(files=files))
    draft.operation = "DROP FEATURE"
