"""Versions that unmodified Lance clients stage, checked, and made into commits.

A client writes its data, a transaction and a manifest under a name of its own, and asks for the next number. What it
is told it made must lie at exactly that number with its own transaction: by the transaction it finds out, after an
answer was lost, whether the version is its own, and deletes its files if it believes that it is not. So the lake keeps
a copy of the client's manifest that differs by its number alone, pins it, and whoever backfills puts it into the line.

A client works on what it saw. If its version is not what its operation makes of the pin, it saw something else, and
its version would take away what others committed: then it is told to look again.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import (
    Conflict,
    CorruptRecord,
    DuplicateKeys,
    InvalidInput,
    NotFound,
    QuireError,
    Revoked,
    Unsupported,
)
from quire.formats import NewTable, Overlap, PlainVersion, Staged, StagedVersion, Work
from quire.formats.lance.head.backfill import cleans_itself
from quire.formats.lance.head.foreign import OPS, Graft
from quire.formats.lance.head.manifest_copy import Loose, files_of, read
from quire.formats.lance.head.manifest_fields import Fields, fields_of
from quire.formats.lance.inspect.contents import needed
from quire.formats.lance.inspect.row_diff import changed_rows
from quire.formats.lance.manifest_bytes import fields as protobuf_fields
from quire.formats.lance.manifest_bytes import parse, renumbered
from quire.formats.lance.session import DETACHED, LanceSession, manifest_name
from quire.formats.lance.staging.net_change import data_bytes
from quire.formats.lance.view import LanceView
from quire.formats.roaring_bitmap import bitmap
from quire.ledger import Acknowledged, Change, Pin
from quire.store import Store, clock, run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

STAGED = re.compile(r"(?:_versions/(\d{20})\.manifest-[0-9A-Za-z-]{8,64}|_batches/[0-9a-f]{16}/(\d{20})\.manifest)")
"""As a client names it, or as a batch keeps it back."""
LINEAR = re.compile(r"_versions/(\d{20})\.manifest")
TRANSACTION_FILE = 12
"""A field of Lance's `table.proto`."""
LARGEST = 256 << 20
"""Bytes of a manifest that is looked at."""
ABOUT_ROWS = {"Append", "Update", "Delete", "CreateIndex", "Merge", "Project", "UpdateConfig", "DataReplacement"}
ALLOWED = ABOUT_ROWS | {"Overwrite", "Restore"}
MARK = 1 << 52
"""Below it lies the number that a client gave a version, in that of its copy, where the copy is marked."""
_FRAGMENTS = 5
_INDEX = (1, 2, 3, _FRAGMENTS)
"""Of an index in `table.proto`: its id, columns and name, and the fragments it covers."""


# -- what a client has staged -----------------------------------------------------------------------------------------


def staged_version(session: LanceSession, location: str, name: str) -> StagedVersion:
    """Read a staged manifest; see `Managed.staged_version`."""
    found = STAGED.fullmatch(name)
    number = 2**64 - 1 - int(found[1] or found[2]) if found is not None else 0
    if found is None or not 0 < number < 2**62:
        raise _not_staged(name, "a staged manifest is named _versions/<20 digits>.manifest-<id>")
    files = files_of(session, location)
    try:
        entry = files.stat(name)
        if entry is None or entry.size > LARGEST:
            raise _not_staged(name, "there is no such file" if entry is None else f"it has {entry.size} bytes")
        body = files.get(name)
        parse(body, number, name)
        operation, transaction = _transaction(files, number, body)
    except NotFound:
        raise _not_staged(name, "there is no such file") from None
    except (CorruptRecord, ValueError) as error:
        raise _not_staged(name, str(error)) from None
    if operation not in ALLOWED:
        raise _not_allowed(operation)
    properties = dict(getattr(transaction, "transaction_properties", None) or {})
    return StagedVersion(location, name, number, str(transaction.uuid), (OPS[operation],), properties, body)


def _transaction(files: Store, number: int, body: bytes) -> tuple[str, Any]:
    with Loose() as loose:
        transaction = _read(loose, files, number, body)
        return type(transaction.operation).__name__, transaction


def _read(loose: Loose, files: Store, number: int, body: bytes) -> Any:
    """The transaction that led to a version: of the manifest, or of the file beside it that the manifest names."""
    name = fields_of(body).values.get(TRANSACTION_FILE, [b""])[0]
    if isinstance(name, bytes) and re.fullmatch(rb"\d+-[0-9a-zA-Z-]+\.txn", name):
        key = f"_transactions/{name.decode()}"
        stored = files.get_or_none(key)
        if stored is not None:
            loose.add(key, stored)
    transaction = loose.open(number, body).read_transaction(number)
    if transaction is None:
        raise ValueError("it does not say what it did")
    return transaction


def _not_staged(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name[:200]!r} is not a manifest that a client has staged: {why}.",
        next="Let Lance write the version; it stages the manifest and passes its path.",
        name=name[:200],
    )


def _not_allowed(operation: str) -> Unsupported:
    if operation in ("Rewrite", "BaseOperation"):
        return Unsupported(
            "Clients do not compact tables of a lake: that would destroy versions which commits rest on.",
            next="Run `quire optimize`; it compacts beside all writers.",
            operation=operation,
        )
    return Unsupported(
        f"A lake does not take the operation {operation} from clients.", next="Use Quire for it.", operation=operation
    )


# -- is it what it says it is? ----------------------------------------------------------------------------------------


def check_follows(files: Store, number: int, before: bytes, after: StagedVersion) -> None:
    """Raise `Conflict` unless a staged version is what its operation makes of the state `before`, at `number`."""
    from lance import LanceOperation

    with Loose() as loose:
        transaction = _read(loose, files, after.number, after.body)
        operation = transaction.operation
    with Loose() as loose:
        onto = loose.open(number, renumbered(before, number))
        if isinstance(operation, LanceOperation.Restore):
            loose.open(int(operation.version), read(files, int(operation.version)))
        properties = dict(getattr(transaction, "transaction_properties", None) or {})
        try:
            made = loose.commit(onto, operation, after.transaction, properties)
        except QuireError as error:
            raise _differs(after, error.message) from None
    # Of what is overwritten nothing is left, so older versions of Lance number fragments from 0 again.
    anew = isinstance(operation, LanceOperation.Overwrite)
    if _contents(number + 1, made.manifest, anew=anew) != _contents(number + 1, after.body, anew=anew):
        raise _differs(after, "the client has seen another state of it")


def _contents(number: int, body: bytes, *, anew: bool = False) -> tuple[Any, ...]:
    """Fragments, columns and indexes of a version, as this Lance reads them; `anew`, fragments by their order."""
    with Loose() as loose:
        handle: Any = loose.open(number, body)
        fragments = [f.metadata.to_json() for f in handle.get_fragments()]
        columns = [(f.id(), f.name(), str(f.to_arrow())) for f in _columns(handle.lance_schema.fields())]
        config = dict(handle.config())
    fragments.sort(key=lambda m: int(m["id"]))
    if anew:
        fragments = [{**told, "id": at} for at, told in enumerate(fragments)]
    return fragments, columns, _indexes(fields_of(body)), config


def _columns(found: Sequence[Any]) -> Iterator[Any]:
    for field in found:
        yield field
        yield from _columns(field.children())


def _indexes(found: Fields) -> list[list[tuple[int, list[Any]]]]:
    parts = []
    for index in found.indexes:
        values: dict[int, list[Any]] = {}
        for number, value, _ in protobuf_fields(index):
            values.setdefault(number, []).append(_set_of(value) if number == _FRAGMENTS else value)
        parts.append([(number, values.get(number, [])) for number in _INDEX])
    return sorted(parts, key=repr)


def _set_of(stored: bytes) -> Any:
    """A set of fragments as numbers: versions of Lance write the same one in different forms."""
    try:
        return bitmap(stored, 0)[0].tolist()
    except (struct.error, ValueError, IndexError):
        return stored


def _differs(staged: StagedVersion, why: str) -> Conflict:
    return Conflict(
        f"Version {staged.number} does not follow the newest state of the table: {why}.",
        next="Open the table again, and write again.",
        version=staged.number,
    )


# -- as a commit ------------------------------------------------------------------------------------------------------


def keep(session: LanceSession, staged: StagedVersion, *, marked: bool = False) -> int:
    """Store a copy of what a client has staged as a staged version of ours; its number.

    Of a marked one the last digits are the number that the client gave it.
    """
    chance = int(clock.token(), 16) & (DETACHED - 1)
    version = DETACHED | ((chance & ~(MARK - 1)) | (staged.number & (MARK - 1)) if marked else chance)
    body = renumbered(staged.body, version)
    name = f"_versions/{manifest_name(version)}"
    files_of(session, staged.location).put(name, body)
    session.files.keep(staged.location, name, body)
    return version


def new_files(files: Store, handle: LanceDataset, before: LanceDataset | None) -> tuple[str, ...]:
    """What a version needs and the one before does not. All of it must be there: a client's files are not protected."""
    known = set(needed(before)) if before is not None else set()
    fresh = [name for name in needed(handle) if name not in known and not name.startswith("_versions/")]
    strange = [name for name in fresh if ".." in name.split("/") or name.startswith("/") or "//" in name]
    if strange or any(_lies_elsewhere(f.metadata) for f in handle.get_fragments()):
        raise InvalidInput(
            f"The version names files outside of its table{f', such as {strange[0][:200]!r}' if strange else ''}.",
            next="Write the data into the table.",
        )

    def absent(name: str) -> bool:
        return next(iter(files.list(name)), None) is None if name.endswith("/") else files.stat(name) is None

    missing = [n for n, gone in zip(fresh, run_parallel([partial(absent, n) for n in fresh]), strict=True) if gone]
    if missing:
        raise Revoked(
            f"{missing[0]} of the version is not in the store, and {len(missing) - 1} files more; a cleanup may have "
            "removed them.",
            next="Write the rows again.",
            files=missing[:20],
        )
    return tuple(fresh)


def _lies_elsewhere(metadata: Any) -> bool:
    described = json.dumps(metadata.to_json())
    return '"base_id"' in described and bool(re.search(r'"base_id": \d', described))


class ClientWork(Graft):
    """Versions that a client made, as work on the pin that they follow. It is published as it is, or not at all."""

    def __init__(
        self,
        session: LanceSession,
        pin: Pin,
        line: bytes,
        staged: Sequence[StagedVersion],
        *,
        key: Sequence[str],
        properties: dict[str, str],
        table: str,
        marked: bool = False,
    ) -> None:
        files = files_of(session, pin.location)
        base, last = session.open(pin, table), staged[-1]
        # The line's newest version has numbered its fragments on, where it was brought back to an older state.
        number = staged[0].number - 1
        body = line
        if _contents(number, line) != _contents(base.version, session.manifest(pin.location, base.version, table)):
            raise _differs(staged[0], "the line is at another state")
        for one in staged:
            check_follows(files, one.number - 1, body, one)
            body = one.body
        self._numbers = [(one, keep(session, one, marked=marked)) for one in staged]
        head = session.open_version(pin.location, self._numbers[-1][1], table)
        check_settings(head)
        self._new = new_files(files, head, base)
        ops = tuple(dict.fromkeys(op for one in staged for op in one.ops))
        self._last = last.number
        super().__init__(session, pin, base, head, same=True, key=key, ops=ops, properties=properties, table=table)

    def _check_unique(self, key: Sequence[str], keys: Any) -> None:
        """A client that broke a key must not try again: it would break it again."""
        try:
            super()._check_unique(key, keys)
        except Conflict as error:
            raise DuplicateKeys(error.message, next=error.next, **error.fields) from None

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        return Overlap("rows", hard=True)

    def view(self) -> LanceView:
        return LanceView(self.draft.session, self.head, self.draft.table)

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        return changed_rows(self.draft.base, self.head, columns)

    def written(self) -> tuple[str, Sequence[str]]:
        return self.draft.pin.location, (*self._new, *(f"_versions/{manifest_name(v)}" for _, v in self._numbers))

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        assert not behind
        pin, net, head = self.draft.pin, self.draft.net, self.head
        rows = int(head.count_rows())
        counter = pin.counter + 1
        acknowledged = [
            Acknowledged(number=one.number, version=str(version), transaction=one.transaction, counter=pin.counter)
            for one, version in self._numbers
        ]
        acknowledged[-1] = msgspec.structs.replace(acknowledged[-1], counter=counter)
        made = msgspec.structs.replace(
            pin,
            version=str(head.version),
            head=self._last,
            counter=counter,
            rows=rows,
            bytes=data_bytes(f.metadata for f in head.get_fragments()),
            fragments=len(head.fragment_ids()),
            acknowledged=tuple(acknowledged),
        )
        added, removed = net.rows_added, net.rows_removed
        if self.exclusive:
            added, removed = max(0, rows - pin.rows), max(0, pin.rows - rows)
        staged = Staged(made, self.keys(), added, removed, tuple(self.written()[1]))
        return replace(staged, noted=self._noted())


def client_table(
    session: LanceSession, staged: Sequence[StagedVersion], *, table: str, marked: bool = False
) -> NewTable:
    """See `Managed.client_table`."""
    first, location = staged[0], staged[0].location
    files = files_of(session, location)
    if first.number != 1 or first.ops != ("overwrite",):
        raise _differs(first, "a table begins with version 1")
    before = first
    for one in staged[1:]:
        check_follows(files, before.number, before.body, one)
        before = one
    versions = [(one, keep(session, one, marked=marked)) for one in staged]
    head = session.open_version(location, versions[-1][1], table)
    check_settings(head)
    names = (*new_files(files, head, None), *(f"_versions/{manifest_name(version)}" for _, version in versions))
    acknowledged = [
        Acknowledged(number=one.number, version=str(version), transaction=one.transaction, counter=0)
        for one, version in versions
    ]
    acknowledged[-1] = msgspec.structs.replace(acknowledged[-1], counter=1)
    pin = Pin(
        format="lance",
        location=location,
        version=str(versions[-1][1]),
        counter=1,
        rows=int(head.count_rows()),
        bytes=data_bytes(f.metadata for f in head.get_fragments()),
        head=staged[-1].number,
        fragments=len(head.fragment_ids()),
        acknowledged=tuple(acknowledged),
    )
    return NewTable(pin, names)


def check_settings(head: LanceDataset) -> None:
    """Refuse settings by which the table would delete its own versions."""
    cleans = cleans_itself(head)
    if cleans:
        raise Unsupported(
            f"The setting {cleans[0]} lets clients delete versions of the table that commits rest on.",
            next="Leave it out; `quire cleanup` deletes what no commit needs.",
            settings=cleans,
        )


# -- the line ---------------------------------------------------------------------------------------------------------


def line(session: LanceSession, location: str) -> list[PlainVersion]:
    """See `Managed.line`."""
    found = []
    for entry in files_of(session, location).list("_versions"):
        name = LINEAR.fullmatch(entry.key)
        if name is not None:
            found.append(PlainVersion(2**64 - 1 - int(name[1]), entry.key, entry.size, entry.modified))
    return sorted(found, key=lambda version: -version.number)


def plain_version(session: LanceSession, location: str, number: int) -> PlainVersion | None:
    """See `Managed.plain_version`."""
    if not 0 < number < 2**62:
        return None
    name = f"_versions/{manifest_name(number)}"
    entry = files_of(session, location).stat(name)
    return None if entry is None else PlainVersion(number, name, entry.size, entry.modified)
