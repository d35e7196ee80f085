"""Conflicts of a merge: what nobody but a person, or a rule of theirs, can decide."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from quire.arguments import checks_arguments
from quire.errors import UnresolvedConflicts, _plain
from quire.formats.keys import show
from quire.lake import display
from quire.prompt import Escaped, one_line

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal[
    "insert-insert",
    "update-update",
    "delete-update",
    "count",
    "name",
    "dropped",
    "schema",
    "orphan",
    "unique",
    "cardinality",
    "check",
    "null",
]
Op = Literal["insert", "update", "delete", "none", "create", "drop", "rename", "schema", "overwrite"]
Side = Literal["ours", "theirs"]
Resolution = Literal["ours", "theirs", "values", "delete"]

SHOWN = 100
"""So many conflicts an error holds."""


@checks_arguments
@dataclass(frozen=True)
class MergeConflict(Escaped):
    """One thing that both sides changed, and how it is resolved, if it is.

    `base`, `ours` and `theirs` are the row before, on the branch that is merged into, and on the one that is merged;
    None where there is no such row. For a conflict about a whole table they say what each side did, and `key` is None.
    """

    table: str
    kind: Kind
    key: dict[str, Any] | None
    columns: tuple[str, ...]
    """The columns in conflict; all other cells of the row are merged whatever is decided about these."""
    base: dict[str, Any] | None
    ours: dict[str, Any] | None
    theirs: dict[str, Any] | None
    ours_op: Op
    theirs_op: Op
    ours_commit: str | None = None
    """The last commit of that side that touched the row; of a table without a key, or as a whole, that touched it."""
    theirs_commit: str | None = None
    counts: dict[str, int] | None = None
    """Of equal rows in a table without a key: how many there were, and are on each side."""
    rule: str | None = None
    partners: tuple[tuple[str, Any], ...] = ()
    """Rows that break a rule together with this one: table and key."""
    fingerprint: str = ""
    """Of what is in conflict. A resolution with another one was made for something else, and is not applied."""
    resolution: Resolution | None = None
    merged: dict[str, Any] | None = None
    """The row as the resolution leaves it; None while there is none, and where it is deleted."""

    @property
    def open(self) -> bool:
        """Whether it still has to be resolved."""
        return self.resolution is None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "table": self.table,
            "kind": self.kind,
            "key": self.key,
            "columns": list(self.columns),
            "base": self.base,
            "ours": self.ours,
            "theirs": self.theirs,
            "ours_op": self.ours_op,
            "theirs_op": self.theirs_op,
            "ours_commit": self.ours_commit,
            "theirs_commit": self.theirs_commit,
            "counts": self.counts,
            "rule": self.rule,
            "partners": [list(partner) for partner in self.partners],
            "fingerprint": self.fingerprint,
            "resolution": self.resolution,
            "merged": self.merged,
        }

    def __repr__(self) -> str:
        where = f" at {show([self.key])}" if self.key is not None else ""
        told = f", resolved: {self.resolution}" if self.resolution else ""
        columns = f" in {', '.join(self.columns)}" if self.columns else ""
        return one_line(f"<{self.kind} in {self.table!r}{where}{columns}{told}>")


def sealed(conflict: MergeConflict, table: str) -> MergeConflict:
    """The same with its fingerprint; `table` is the id of its table."""
    parts = (table, conflict.kind, conflict.key, conflict.base, conflict.ours, conflict.theirs, conflict.counts)
    told = repr((*parts, conflict.rule, conflict.partners))
    return replace(conflict, fingerprint=hashlib.blake2b(told.encode(errors="replace"), digest_size=12).hexdigest())


class Conflicts(Sequence[MergeConflict]):
    """All conflicts of a plan, those that are resolved included. `conflicts["people"]` are those of one table."""

    def __init__(self, found: Sequence[MergeConflict]) -> None:
        self._found = tuple(found)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[MergeConflict]:
        return iter(self._found)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return Conflicts([c for c in self._found if c.table == index])
        return Conflicts(self._found[index]) if isinstance(index, slice) else self._found[index]

    @property
    def open(self) -> Conflicts:
        """Those that still have to be resolved."""
        return Conflicts([c for c in self._found if c.open])

    @property
    def counts(self) -> dict[str, int]:
        """How many there are, by kind."""
        return counted(c.kind for c in self._found)

    def to_list(self) -> list[dict[str, Any]]:
        """All of them as plain values."""
        return [c.to_dict() for c in self._found]

    def to_arrow(self) -> pa.Table:
        """As an Arrow table; rows and keys are JSON text, because tables differ in their columns."""
        import pyarrow as pa

        plain = [
            {n: _text(v) if n in _AS_TEXT else v for n, v in conflict.to_dict().items()} for conflict in self._found
        ]
        return pa.Table.from_pylist(plain, schema=_schema())

    def __repr__(self) -> str:
        if not self._found:
            return "no conflicts"
        more = f"\n… {len(self._found) - 20} more" if len(self._found) > 20 else ""
        return "\n".join(map(repr, self._found[:20])) + more

    def _repr_html_(self) -> str:
        names = ("table", "kind", "key", "columns", "base", "ours", "theirs", "resolution")
        rows = [tuple(getattr(c, n) for n in names) for c in self._found[:50]]
        return display.shown(f"<b>{len(self)} conflicts</b>", lambda: display.html_table(names, rows), html=True)


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each word occurs, in the order of the words."""
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return dict(sorted(found.items()))


def unresolved(source: str, target: str, found: Conflicts) -> UnresolvedConflicts:
    told = ", ".join(f"{n} {kind}" for kind, n in found.counts.items())
    tables = sorted({c.table for c in found})
    return UnresolvedConflicts(
        f"Merging {source!r} into {target!r} has {len(found)} open conflict{'s' * (len(found) != 1)} ({told}) in "
        f"{', '.join(map(repr, tables[:5]))}{', …' if len(tables) > 5 else ''}. Nothing was committed.",
        next='Look at the conflicts of lake.merge(…, preview=True), and resolve them there, or with resolve="theirs".',
        source=source,
        target=target,
        count=len(found),
        counts=found.counts,
        conflicts=[c.to_dict() for c in found[:SHOWN]],
    )


_AS_TEXT = ("key", "base", "ours", "theirs", "merged", "counts", "partners")


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(_plain(value))


def _schema() -> pa.Schema:
    import pyarrow as pa

    text = ("table", "kind", "key", "base", "ours", "theirs", "ours_op", "theirs_op", "ours_commit", "theirs_commit")
    more = ("counts", "rule", "partners", "fingerprint", "resolution", "merged")
    fields = [pa.field(n, pa.string()) for n in (*text, *more)]
    return pa.schema([*fields[:3], pa.field("columns", pa.list_(pa.string())), *fields[3:]])
