"""What a graph has to say of a merge: rows that break its rules in the merged state, and columns that go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from quire.conversion import held
from quire.filters import In
from quire.graph.catalog import STORED, VALIDATOR, Catalog, Definition, Entity
from quire.graph.integrity.changes import catalog_of
from quire.graph.integrity.validator import check
from quire.graph.integrity.violations import Violation
from quire.lake.commit.validators import Breach, Proposal
from quire.ledger import TableInfo

Rule = Literal["orphan", "unique", "cardinality", "check", "null"]
RULES: dict[str, Rule] = {
    "end": "orphan",
    "orphan": "orphan",
    "unique": "unique",
    "card": "cardinality",
    "required": "null",
}


class GraphMerging:
    """See `lake.commit.validators.Merging`."""

    def breaches(self, tx: Any, tables: list[str], most: int) -> list[Breach]:
        found = check(tx, tables, most=most)
        catalog = catalog_of(tx)
        ends = _ends(tx, catalog, found.violations)
        return [_breach(catalog, one, ends) for one in found.violations]

    def groups(self, info: TableInfo) -> list[tuple[str, ...]]:
        if info.validator != VALIDATOR or info.name == STORED:
            return []
        defined = msgspec.json.decode(info.rules, type=Definition)
        columns = {p.name: p.column for p in defined.properties}
        together: list[tuple[str, ...]] = [("src", "dst")] if defined.kind == "edge" else []
        if len(defined.key) > 1:
            together.append(tuple(columns.get(n, n) for n in defined.key))
        for prop in defined.properties:
            note = prop.annotation("embed")
            if note is not None and note.value in columns:
                together.append((prop.column, columns[str(note.value)]))
        return joined(together)


def joined(groups: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Groups that have a column in common are one."""
    found: list[set[str]] = []
    for group in map(set, groups):
        for other in [one for one in found if one & group]:
            found.remove(other)
            group |= other
        found.append(group)
    return [tuple(sorted(group)) for group in found]


def _ends(tx: Any, catalog: Catalog, violations: Sequence[Violation]) -> dict[tuple[str, str], dict[str, Any]]:
    """Edges without an end, by type and id, as they would be."""
    wanted: dict[str, list[str]] = {}
    for one in violations:
        if RULES.get(one.rule) == "orphan" and one.id is not None:
            wanted.setdefault(one.type, []).append(one.id)
    found = {}
    for name, ids in wanted.items():
        view = Proposal(tx).table(catalog.edge(name).id).view()
        rows = view.scan(columns=["id", "src", "dst"], filter=In("id", tuple(dict.fromkeys(ids)))).read_all()
        found.update({(name, row["id"]): row for row in held.rows(rows)})
    return found


def _breach(catalog: Catalog, one: Violation, ends: dict[tuple[str, str], dict[str, Any]]) -> Breach:
    entity = next((e for e in catalog.entities if e.name == one.type), None)
    table = entity.table if entity is not None else one.type
    columns = () if one.property is None else tuple(one.property.split(", "))
    partners: tuple[tuple[str, Any], ...] = ()
    rule = RULES.get(one.rule, "check")
    edge = ends.get((one.type, str(one.id)))
    if rule == "orphan" and entity is not None and entity.kind == "edge" and edge is not None:
        node = _node(catalog, entity, one.property)
        column = "src" if one.property == "from" else "dst"
        columns, partners = (column,), ((node.table, edge[column]),)
    key = None if one.id is None else {"id": one.id}
    return Breach(table, rule, key, columns, one.message, partners)


def _node(catalog: Catalog, edge: Entity, side: str | None) -> Entity:
    return catalog.source(edge) if side == "from" else catalog.target(edge)
