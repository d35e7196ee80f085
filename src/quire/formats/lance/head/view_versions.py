"""Versions of a table in a view: a branch, or an open transaction.

A view has no plain line. Each of its states is shown to clients as a manifest with a number of the view's own, in a
folder of the view's own, and what a client makes of it follows at the next number. Nobody was told that such a
version is one of the plain line, so it may be moved onto another state like any other change, until it is committed.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quire.errors import InvalidInput
from quire.formats import Overlap, PlainVersion, Staged, StagedVersion, Work
from quire.formats.lance.head.client_versions import MARK, ClientWork
from quire.formats.lance.head.foreign import Graft
from quire.formats.lance.head.manifest_copy import Loose, files_of
from quire.formats.lance.manifest_bytes import renumbered
from quire.formats.lance.session import DETACHED, LanceSession, version_of
from quire.formats.lance.staging.net_change import data_bytes
from quire.formats.lance.staging.work import LanceWork
from quire.formats.lance.view import LanceView
from quire.ledger import Change, Pin
from quire.store import Outcome, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats.lance.staging.rows import LanceRows

MOVABLE = frozenset({"append", "update", "delete"})


class ViewWork(ClientWork):
    """Versions that a client made in a view, as work on the pin that the view shows.

    With `movable`, rows are moved onto a rival's state by the rules for any other transaction. Without, they are
    published as they are, or not at all.
    """

    def __init__(
        self,
        session: LanceSession,
        pin: Pin,
        staged: Sequence[StagedVersion],
        *,
        key: Sequence[str],
        properties: dict[str, str],
        table: str,
        movable: bool,
    ) -> None:
        line = renumbered(session.manifest(pin.location, version_of(pin), table), staged[0].number - 1)
        self._movable = movable and {op for one in staged for op in one.ops} <= MOVABLE
        super().__init__(session, pin, line, staged, key=key, properties=properties, table=table, marked=not movable)

        self.rows = cast("LanceRows", _Closed(table))
        for name in ("columns", "indexes", "upkeep", "files"):
            self.__dict__[name] = self.rows  # in the place of what they would be made to be

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        if not self._movable:
            return Overlap("rows", hard=True)
        return Graft.rebase(self, onto, theirs)

    def view(self) -> LanceView:
        return LanceWork.view(self) if self._moved else super().view()

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        return LanceWork.delta(self, columns) if self._moved else super().delta(columns)

    def written(self) -> tuple[str, Sequence[str]]:
        location, names = super().written()
        return location, [*names, *LanceWork.written(self)[1]] if self._moved else names

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        assert not behind
        if self._moved:
            return LanceWork.stage(self)
        pin, net, head = self.draft.pin, self.draft.net, self.head
        rows = int(head.count_rows())
        made = msgspec.structs.replace(
            pin,
            version=str(head.version),
            counter=pin.counter + 1,
            rows=rows,
            bytes=data_bytes(f.metadata for f in head.get_fragments()),
            fragments=len(head.fragment_ids()),
        )
        added, removed = net.rows_added, net.rows_removed
        if self.exclusive:
            added, removed = max(0, rows - pin.rows), max(0, pin.rows - rows)
        return Staged(made, self.keys(), added, removed, tuple(self.written()[1]))


class _Closed:
    """Stands for the statements of a table that takes none, as clients write versions of it."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        raise InvalidInput(
            f"A Lance client has written versions of table {self._table!r} in this transaction, so statements cannot "
            "change it.",
            next="Write all of it in one way, or commit first.",
            table=self._table,
        )


def is_marked(pin: Pin, number: int) -> bool:
    """Whether a client gave this state this number."""
    version = version_of(pin)
    return bool(version & DETACHED) and version & (MARK - 1) == number


def shown(session: LanceSession, pin: Pin, number: int, folder: str, *, table: str, exact: bool) -> PlainVersion:
    """A state as a manifest of that number in a folder of a view, which is made if it is not there.

    With `exact`, or where a client gave it the number, it tells of itself what the state does. Else it tells of a
    restore: a client that has seen an earlier state must open the table again, as more may have happened in between
    than one version says.
    """
    files = files_of(session, pin.location)
    name = f"{folder}/{2**64 - 1 - number:020d}.manifest"
    entry = files.stat(name)
    if entry is None:
        stored = session.manifest(pin.location, version_of(pin), table)
        if exact or is_marked(pin, number):
            body = renumbered(stored, number)
        else:
            body = _restored(files, stored, number)
        made = files.create(name, body, mine=body.__eq__)
        assert made.outcome in (Outcome.COMMITTED, Outcome.CONFLICT)
        entry = files.stat(name)
        assert entry is not None
    return PlainVersion(number, name, entry.size, entry.modified)


def _restored(files: Store, stored: bytes, number: int) -> bytes:
    from lance import LanceOperation

    named = uuid.UUID(bytes=hashlib.blake2b(stored, digest_size=16).digest())
    with Loose() as loose:
        onto = loose.open(number - 1, renumbered(stored, number - 1))
        made = loose.commit(onto, LanceOperation.Restore(number - 1), str(named), {})
    files.put(made.name, made.transaction)
    return made.manifest
