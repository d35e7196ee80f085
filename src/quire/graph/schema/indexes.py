"""Which indexes a type has, and building them.

Ids and the ends of edges are always indexed; properties where the schema asks for it. Rows that were written later are
found without an index, so an index that waits for rows changes the speed of a query and never its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import Unsupported
from quire.filters import IsNull, Not
from quire.graph.catalog import Entity, Property

if TYPE_CHECKING:
    from quire.lake.commit.transaction_table import TransactionTable


@dataclass(frozen=True)
class Index:
    """An index of one column. The name is made of the property's id, so a rename does not touch it."""

    name: str
    column: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    of: int = 0
    """The id of the property, 0 for columns of the system."""

    @property
    def needs_rows(self) -> bool:
        """Whether it is trained on values, and so cannot be built without any."""
        return self.kind.startswith("IVF")


def wanted(entity: Entity) -> dict[str, Index]:
    """The indexes that a type should have, by name."""
    found = [Index(f"{column}_btree", column, "BTREE") for column in entity.system]
    asked = {name for names in (entity.defined.key, *entity.defined.unique, *entity.defined.index) for name in names}
    texts = {names[0] for names in entity.defined.index if len(names) == 1}
    for prop in entity.defined.properties:
        if prop.name in asked and not (entity.kind == "edge" and prop.name in ("src", "dst")):
            found += _of(prop, text=prop.name in texts)
    return {index.name: index for index in found}


def _of(prop: Property, *, text: bool) -> Iterator[Index]:
    if prop.type.base == "Vector":
        yield Index(f"p{prop.id}_vector", prop.column, "IVF_FLAT", {"metric": metric(prop)}, prop.id)
        return
    yield Index(f"p{prop.id}_btree", prop.column, "BTREE", of=prop.id)
    if text and prop.type.base == "String":
        from quire.graph.query.search.search import TEXT_INDEX

        yield Index(f"p{prop.id}_text", prop.column, "INVERTED", TEXT_INDEX, prop.id)


def metric(prop: Property) -> str:
    """How distances of a vector property are measured: `@metric("cosine")`, or else L2."""
    given = prop.annotation("metric")
    return str(given.value) if given is not None else "l2"


def build(table: TransactionTable, entity: Entity) -> list[str]:
    """Build the indexes that a type should have and that its table lacks; the names of those that were built.

    One that is trained on values waits until there are some.
    """
    there = {index["name"] for index in table.indexes()}
    return _built(table, (index for name, index in wanted(entity).items() if name not in there))


def follow(table: TransactionTable, entity: Entity, had: dict[str, Index], moved: Iterable[int]) -> None:
    """Bring the indexes of a table to what its type now asks for.

    `moved` are properties whose column was written anew: their indexes went with the old one.
    """
    now, anew = wanted(entity), set(moved)
    there = {index["name"] for index in table.indexes()}
    for name, index in had.items():
        if name in there and (name not in now or now[name].options != index.options):
            table.drop_index(name)
            there.discard(name)
    _built(table, (i for name, i in now.items() if name not in there or i.of in anew))


def _built(table: TransactionTable, found: Iterable[Index]) -> list[str]:
    """Build indexes; none where tables of the format have none, since no answer depends on them."""
    names: list[str] = []
    for index in found:
        if not index.needs_rows or table.count(Not(IsNull(index.column))):
            try:
                table.create_index(index.column, index.kind, name=index.name, replace=True, **index.options)
            except Unsupported as error:
                if error.fields.get("indexes") != "none":
                    raise
                return names
            names.append(index.name)
    return names
