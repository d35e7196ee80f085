"""Whether the tables of a graph still are what their definitions say.

A schema is changed with `quire schema apply`; whatever else changes the tables of a graph by hand is held to this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from quire.errors import NotFound
from quire.formats.blob_cell import is_blob
from quire.graph.catalog import STORED, Catalog, Entity
from quire.graph.integrity.violations import Violation, Violations
from quire.graph.names import TYPE

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.validators import Proposal


def check_structure(proposal: Proposal, catalog: Catalog, tables: Sequence[str], found: Violations) -> None:
    """Add what is wrong with the tables themselves. Where anything is, rows need not be looked at."""
    changed, tx = set(tables), proposal.tx
    if catalog and STORED in changed and STORED not in tx:
        found.add([Violation(STORED, "schema", f"Table {STORED!r} carries the schema of the graph and stays.")])
    by_id = {e.id: e for e in catalog.entities}
    gone = {table.info.id for table in proposal.changed() if table.dropped}
    for entity in catalog.entities:
        ends = {entity.defined.source, entity.defined.target}
        if entity.table in changed or f"{entity.kind}:{entity.name}" not in tx or ends & gone:
            name = next((n for n, i in proposal.names.items() if i == entity.id), entity.table)
            found.add(Violation(entity.name, "schema", said) for said in _wrong(proposal, entity, name, by_id))


def _wrong(proposal: Proposal, entity: Entity, name: str, by_id: dict[str, Entity]) -> Iterator[str]:
    if name != entity.table or TYPE.fullmatch(entity.name) is None:
        yield f"Table {name!r} of a graph is named {entity.kind}:Type, with a type that begins with a capital."
        return
    table = proposal.table(entity.id)
    if table.info.key != ("id",):
        yield f"Table {name!r} has the key {', '.join(table.info.key) or 'none'}, not id."
    yield from _columns(entity, table.schema(), name)
    yield from _names(entity)
    if entity.kind == "edge":
        for end, what in ((entity.defined.source, "leaves"), (entity.defined.target, "leads to")):
            proposal.rest_on(end)  # that it is there is looked at again when it moves
            if end not in by_id or by_id[end].kind != "node":
                yield f"Edge type {entity.name} {what} a node type that no longer exists."


def _columns(entity: Entity, schema: pa.Schema, table: str) -> Iterator[str]:
    wanted = entity.schema()
    for field in wanted:
        index = schema.get_field_index(field.name)
        if index < 0:
            yield f"Table {table!r} lacks column {field.name!r}, which the schema of the graph has."
        elif schema.field(index).type != field.type and not is_blob(field):
            have = schema.field(index).type
            yield f"Column {field.name!r} of table {table!r} is {have}, and {field.type} by the schema of the graph."
        elif schema.field(index).nullable and not field.nullable:
            yield f"Column {field.name!r} of table {table!r} may not be null in a graph."
    for name in schema.names:
        if name not in wanted.names:
            yield f"Table {table!r} has a column {name!r}, which the schema of the graph lacks."


def _names(entity: Entity) -> Iterator[str]:
    """Rules name properties that are there."""
    defined = entity.defined
    sets = [defined.key, *defined.unique, [r.property for r in defined.ranges], [c.property for c in defined.checks]]
    for names in sets:
        try:
            entity.columns(names)
        except NotFound as error:
            yield f"A rule of {entity.name} cannot be read: {error.message}"
