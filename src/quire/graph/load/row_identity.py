"""Which row is which: rows that are there already by what is unique, and rows whose ids clash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import Refused
from quire.graph.integrity.lookups import Places, counts, distinct, matches
from quire.graph.integrity.violations import Violation
from quire.graph.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View
    from quire.graph.catalog import Entity

Mode = Literal["append", "merge", "overwrite"]
TEXT = Type("String")

TWICE = "is in the data more than once"
THERE = "exists already"
ANOTHER = "exists already with different unique values"


@dataclass(frozen=True)
class Ids:
    """The ids of all rows of a type, by position, where they are not those that were gathered."""

    column: pa.ChunkedArray
    known: Any
    """Whether each row is there already, by what is unique, or may be, because it goes by its id: a numpy array."""


def known_by(entity: Entity) -> tuple[str, ...]:
    """The names of the rule by which rows are the same under merge; none where only an id says so.

    Of several it is the one that holds both ends of an edge, and else the one whose properties are declared first.
    """
    if entity.defined.key or not entity.defined.unique:
        return ()
    ends = ("src", "dst") if entity.kind == "edge" else ()
    order = {name: place for place, name in enumerate((*ends, *(n for n in entity.properties if n not in ends)))}
    return min(
        entity.defined.unique,
        key=lambda names: (not (ends and set(ends) <= set(names)), sorted(order[name] for name in names)),
    )


def goes_by(entity: Entity, *, lacking: bool) -> Sequence[str]:
    """The columns that say under merge which rows are the same; none where that is the id.

    `lacking` says that rows came without an id. Nodes then need something else, or it is `Refused`: nobody could name
    them to merge them again. Edges without either are new ones, each with an id of its own. A row of which one of
    these columns is null goes by its id all the same.
    """
    if entity.kind == "node" and (entity.defined.key or not lacking):
        return ()
    if names := known_by(entity):
        return entity.columns(names)
    if not lacking or entity.kind == "edge":
        return ()
    raise Refused(
        f"{entity.name} cannot be merged: it has no @key and no id is given with every row, so its rows have no key.",
        next="Give an id with every row, declare what is unique, or load with mode append.",
        type=entity.name,
    )


def merged_ids(view: View, entity: Entity, columns: Sequence[str], rows: pa.Table) -> Ids | None:
    """The ids of rows that are there already by what is unique; None where none is. `rows` has ids and the columns."""
    import numpy as np
    import pyarrow as pa

    wanted = distinct(rows, columns)
    kinds = [type_of(entity, c) for c in columns]
    found = matches(view, columns, kinds, wanted, ["id"])
    by_id = nulls(rows, columns)
    if not found.num_rows:
        return Ids(rows.column("id"), by_id) if by_id.any() else None
    there = Places(wanted.take(found.column("position"))).of([rows.column(c) for c in columns])
    known = there >= 0
    # Every id is taken from one column: the gathered ones, and those that are there behind them.
    order = np.where(known, rows.num_rows + there, np.arange(rows.num_rows))
    both = pa.chunked_array([*rows.column("id").chunks, *found.column("id").chunks])
    return Ids(both.take(pa.array(order)), known | by_id)


def nulls(rows: pa.Table, columns: Sequence[str]) -> Any:
    """A mask of the rows that have a null in any of some columns: what is unique does not tell them apart."""
    import numpy as np

    found = np.zeros(rows.num_rows, bool)
    for name in columns:
        found |= rows.column(name).is_null().to_numpy()
    return found


def by_unique(entity: Entity, mode: Mode, *, lacking: bool = True) -> bool:
    """Whether an id that is there stands for another row, because rows are the same by what is unique.

    Nodes of which all came with an id go by that.
    """
    return mode == "merge" and bool(known_by(entity)) and (entity.kind == "edge" or lacking)


def clashing(
    at: Callable[[], View], mode: Mode, ids: pa.ChunkedArray, known: Any = None, *, unique: bool = False
) -> dict[int, str]:
    """Positions of rows whose id is there already, or was given by an earlier row, and what is said of each.

    `at` opens the table, if it has to be asked. `known` is a mask of the rows that are there already and may be;
    `unique` says that all others may not, as `by_unique` tells.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    bad: dict[int, str] = {}
    wanted = distinct(pa.table({"id": ids}), ["id"])
    if wanted.num_rows != len(ids):
        bad.update({int(row): TWICE for row in _later(ids)})
    if mode == "append" or unique:
        there = wanted.filter(counts(at(), ["id"], [TEXT], wanted, enough=1) > 0)
        if there.num_rows:
            taken = pc.is_in(ids, value_set=there.column("id").combine_chunks()).to_numpy()
            mine = np.zeros(len(ids), bool) if known is None else known
            bad.update({int(row): ANOTHER if unique else THERE for row in np.flatnonzero(taken & ~mine)})
    return bad


def clash(entity: Entity, id: str, said: str) -> Violation:
    """A row whose id clashes."""
    prop = ", ".join(entity.defined.key) or "id"
    return Violation(entity.name, "key", f"{entity.name} {id!r} {said}.", id, prop)


def incomplete(entity: Entity, id: str, missing: str) -> Violation:
    """A row that is new and lacks what is required."""
    what = f"{entity.name} {id!r} is new and lacks {missing}, which is required."
    return Violation(entity.name, "required", what, id, missing)


def _later(ids: pa.ChunkedArray) -> Any:
    """Positions of rows whose id an earlier row has."""
    import numpy as np

    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return np.setdiff1d(np.arange(len(codes)), first, assume_unique=True)


def type_of(entity: Entity, column: str) -> Type:
    """What a column of a type holds."""
    return next((p.type for p in entity.defined.properties if p.column == column), TEXT)
