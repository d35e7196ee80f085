"""Which rows of a graph prevent a change of its schema.

The checks run on the tables as they are before the change, through a snapshot or a transaction. Values are passed as
columns with neutral names, never as text of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from quire import duckdb_engines
from quire.filters import Condition, IsNull, Not
from quire.graph.catalog import Catalog, Definition, Property
from quire.graph.schema.describe import card_text, check_text, range_text
from quire.graph.schema.diff import TypeChange, retyped
from quire.graph.schema.steps import Refusal
from quire.graph.schema.type_rules import anchored

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.transaction import Transaction
    from quire.lake.read.snapshot import Snapshot
    from quire.lake.read.table import Table

EXAMPLES = 5
"""So many ids of rows are shown."""


@dataclass(frozen=True)
class Obstacles:
    """Rows that prevent something."""

    rows: int
    examples: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """`3 rows (a, b, c)`."""
        ids = ", ".join(self.examples) + (", …" if self.rows > len(self.examples) else "")
        return f"{self.rows} {'row' if self.rows == 1 else 'rows'}{f' ({ids})' if ids else ''}"


def refusals_of(change: TypeChange, old: Catalog, tables: Snapshot | Transaction, *, drop_data: bool) -> list[Refusal]:
    """The changes of one type that its rows prevent."""
    if change.old is None:
        return list(_too_few(change, old, tables))
    table = tables[change.table]
    if change.new is None:
        return [] if drop_data else list(_dropped_type(change, table))
    found: list[Refusal] = []
    if table.count():
        found += _key(change, change.old.defined, change.new, table)
        found += _ends(change, change.old.defined, change.new, table)
        found += [] if drop_data else _dropped_properties(change, table)
        found += _embedded(change, table, drop_data=drop_data)
        found += _required(change, table)
        found += _values(change, table)
        found += _unique(change, change.old.defined, change.new, table)
        found += _ranges(change, change.old.defined, change.new, table)
        found += _checks(change, change.old.defined, change.new, table)
        found += _too_many(change, change.old.defined, change.new, table)
    found += _too_few(change, old, tables)
    return found


# -- data that would be lost ------------------------------------------------------------------------------------------


def _dropped_type(change: TypeChange, table: Table) -> Iterator[Refusal]:
    rows = table.count()
    if rows:
        found = Obstacles(rows, _some(table))
        yield _refusal(
            "drops-data",
            change,
            f"Dropping {change.kind} type {change.name} would lose {found.shown}.",
            "Delete them first, or pass drop_data=True (`--drop-data`).",
            found,
        )


def _dropped_properties(change: TypeChange, table: Table) -> Iterator[Refusal]:
    for prop in change.dropped():
        found = _where(table, Not(IsNull(prop.column)))
        if found.rows:
            yield _refusal(
                "drops-data",
                change,
                f"Dropping {change.name}.{prop.name} would lose the values of {found.shown}.",
                "Pass drop_data=True (`--drop-data`) if they are not needed.",
                found,
                prop,
            )


def _embedded(change: TypeChange, table: Table, *, drop_data: bool) -> Iterator[Refusal]:
    """Vectors of two models, or of two texts, would be searched as if they were of one."""
    for old, new in change.remade():
        found = _where(table, Not(IsNull(old.column)))
        if not found.rows or (drop_data and new.type.optional):
            continue
        advice = "Pass drop_data=True (`--drop-data`) to set them to null, and load the texts again"
        yield _refusal(
            "embed-changed",
            change,
            f"The text or model of {change.name}.{new.name} cannot change: {found.shown} have a vector of the old one.",
            f"{advice}." if new.type.optional else f"Make it {new.type.bare}?. Then: {advice[0].lower()}{advice[1:]}.",
            found,
            new,
        )


# -- identity ---------------------------------------------------------------------------------------------------------


def _key(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    """Ids are made of the key: its properties may be renamed, but not exchanged."""
    before = [change.old.properties[name].id for name in old.key] if change.old else []
    numbers = {p.name: p.id for p in new.properties}
    after = [numbers[name] for name in new.key]
    # The text of a number as F32 is not its text as F64.
    same_text = not any(o.name in old.key and retyped(o, n) and o.type.base == "F32" for o, n in change.kept())
    if before != after or not same_text:
        found = Obstacles(table.count(), _some(table))
        yield _refusal(
            "key-changed",
            change,
            f"The key of {change.name} cannot change: the ids of {found.shown} are made of it.",
            "Add a new node type with the key that you want and load the rows into it.",
            found,
        )


def _ends(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    if (old.source, old.target) != (new.source, new.target):
        found = Obstacles(table.count(), _some(table))
        yield _refusal(
            "ends-changed",
            change,
            f"The ends of edge type {change.name} cannot change: it has {found.shown}.",
            "Add a new edge type, or delete the edges first.",
            found,
        )


# -- values -----------------------------------------------------------------------------------------------------------


def _required(change: TypeChange, table: Table) -> Iterator[Refusal]:
    for prop in change.added():
        if not prop.type.optional and prop.annotation("default") is None:
            found = Obstacles(table.count(), _some(table))
            yield _refusal(
                "required-without-default",
                change,
                f"{change.name}.{prop.name} is required and new, so {found.shown} would have no value for it.",
                f"Write {prop.type}? or give a @default(…).",
                found,
                prop,
            )
    for old, new in change.kept():
        found = _where(table, IsNull(old.column)) if old.type.optional and not new.type.optional else Obstacles(0)
        if found.rows:
            yield _refusal(
                "missing-values",
                change,
                f"{change.name}.{new.name} cannot be required: {found.shown} have no value for it.",
                "Fill them first.",
                found,
                new,
            )


def _values(change: TypeChange, table: Table) -> Iterator[Refusal]:
    for old, new in change.kept():
        gone = old.type.base == "String" or set(old.type.values) - set(new.type.values)
        if new.type.base != "enum" or not old.type.is_text or not gone:
            continue
        condition = "c0 is not null and not list_contains($values, c0)"
        found = _selected(table, [old.column], condition, {"values": list(new.type.values)})
        if found.rows:
            yield _refusal(
                "enum-values",
                change,
                f"{change.name}.{new.name} cannot be {new.type.bare}: {found.shown} have other values.",
                "Update them first, or keep the values.",
                found,
                new,
            )


def _ranges(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    for rule in new.ranges:
        before = change.before(rule.property)
        if before is None or any(
            r.property == before.name and (r.low, r.high) == (rule.low, rule.high) for r in old.ranges
        ):
            continue
        parts = {"low": "c0 < $low", "high": "c0 > $high"}
        bounds = {k: v for k, v in (("low", rule.low), ("high", rule.high)) if v is not None}
        found = _selected(table, [before.column], " or ".join(parts[k] for k in bounds), bounds)
        if found.rows:
            yield _broken(change, range_text(rule, rule.property), found, rule.property, "range")


def _checks(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    for rule in new.checks:
        before = change.before(rule.property)
        if before is None or any(c.property == before.name and c.pattern == rule.pattern for c in old.checks):
            continue
        found = _unmatched(table, before.column, rule.pattern)
        if found.rows:
            yield _broken(change, check_text(rule, rule.property), found, rule.property, "check")


# -- sets of rows -----------------------------------------------------------------------------------------------------


def _unique(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    known = {tuple(sorted(names)) for names in old.unique}
    added = {p.name: p for p in change.added()}
    for names in new.unique:
        before = {n: n if _is_end(change, n) else getattr(change.before(n), "name", None) for n in names}
        if tuple(sorted(n for n in before.values() if n)) in known and None not in before.values():
            continue
        fresh = [added[n] for n in names if before[n] is None]
        if any(p.type.optional or p.annotation("default") is None for p in fresh):
            continue  # all null, and null never clashes
        columns = [n if _is_end(change, n) else _before(change, n).column for n in names if before[n] is not None]
        found = _repeated(table, columns)
        if found.rows:
            yield _broken(change, f"@unique({', '.join(names)})", found, names[0] if len(names) == 1 else "", "unique")


def _too_many(change: TypeChange, old: Definition, new: Definition, table: Table) -> Iterator[Refusal]:
    if new.at_most is None or (old.at_most is not None and old.at_most <= new.at_most):
        return
    query = "select src as id, count(*) as n from rows group by src having count(*) > $most"
    found = _counted(query, {"most": new.at_most}, rows=_named(table, {"src": "src"}))
    if found.rows:
        yield _cardinality(change, new, found, "more")


def _too_few(change: TypeChange, old: Catalog, tables: Snapshot | Transaction) -> Iterator[Refusal]:
    """Sources with fewer edges than the new bound asks for. A new edge type has none at all."""
    new = change.new
    if new is None or not new.at_least or new.source not in {e.id for e in old.nodes}:
        return
    before = change.old.defined if change.old is not None else None
    if before is not None and before.source == new.source and before.at_least >= new.at_least:
        return
    nodes = _named(tables[old.by_id(new.source).table], {"id": "id"})
    query = "select id from nodes"
    parts: dict[str, Any] = {"nodes": nodes}
    if before is not None:
        parts["rows"] = _named(tables[change.table], {"src": "src"})
        counts = "select src, count(*) as n from rows group by src"
        query = f"select id from nodes left join ({counts}) on id = src where coalesce(n, 0) < $least"
    found = _counted(query, {"least": new.at_least} if before is not None else {}, **parts)
    if found.rows:
        yield _cardinality(change, new, found, "fewer")


def reads_others(change: TypeChange) -> bool:
    """Whether the verdict rests on rows of a table that the change does not touch: those of the source's type."""
    before = change.old.defined.at_least if change.old is not None else 0
    return change.new is not None and change.new.at_least > before


# -- refusals ---------------------------------------------------------------------------------------------------------


def _refusal(
    code: str, change: TypeChange, sentence: str, advice: str, found: Obstacles, prop: Property | None = None
) -> Refusal:
    return Refusal(code, change.name, sentence, advice, prop.name if prop else "", found.rows, found.examples)


def _broken(change: TypeChange, rule: str, found: Obstacles, prop: str, code: str) -> Refusal:
    sentence = f"{rule} cannot be added to {change.name}: {found.shown} break it."
    return Refusal(code, change.name, sentence, "Change the rows first.", prop, found.rows, found.examples)


def _cardinality(change: TypeChange, new: Definition, found: Obstacles, word: str) -> Refusal:
    nodes = "node has" if found.rows == 1 else "nodes have"
    ids = ", ".join(found.examples) + (", …" if found.rows > len(found.examples) else "")
    sentence = f"{card_text(new)} cannot be put on {change.name}: {found.rows} {nodes} {word} edges ({ids})."
    return Refusal("card", change.name, sentence, "Change the edges first.", "", found.rows, found.examples)


def _is_end(change: TypeChange, name: str) -> bool:
    return change.kind == "edge" and name in ("src", "dst")


def _before(change: TypeChange, name: str) -> Property:
    found = change.before(name)
    assert found is not None
    return found


# -- looking at rows --------------------------------------------------------------------------------------------------


def _some(table: Table) -> tuple[str, ...]:
    return tuple(table.scan(columns=["id"], limit=EXAMPLES).to_arrow().column(0).to_pylist())


def _where(table: Table, filter: Condition) -> Obstacles:
    rows = table.count(filter)
    if not rows:
        return Obstacles(0)
    return Obstacles(
        rows, tuple(table.scan(columns=["id"], filter=filter, limit=EXAMPLES).to_arrow().column(0).to_pylist())
    )


def _named(table: Table, names: dict[str, str]) -> pa.RecordBatchReader:
    """Some columns of a table under other names, as a stream."""
    import pyarrow as pa

    rows = table.scan(columns=list(dict.fromkeys(names.values())))
    index = [rows.schema.get_field_index(column) for column in names.values()]
    schema = pa.schema([pa.field(n, rows.schema.field(i).type) for n, i in zip(names, index, strict=True)])
    pick = partial(pa.RecordBatch.from_arrays, schema=schema)
    return pa.RecordBatchReader.from_batches(schema, (pick([b.column(i) for i in index]) for b in rows))


def _columns(columns: Sequence[str]) -> dict[str, str]:
    return {f"c{n}": column for n, column in enumerate(columns)}


def _selected(table: Table, columns: Sequence[str], condition: str, params: dict[str, Any]) -> Obstacles:
    rows = _named(table, {"id": "id", **_columns(columns)})
    return _counted(f"select id from rows where {condition}", params, rows=rows)


def _repeated(table: Table, columns: Sequence[str]) -> Obstacles:
    """Rows that share their values in these columns with another row. Without a column all rows do."""
    keys = list(_columns(columns))
    there = " and ".join(f"{k} is not null" for k in keys) or "true"
    groups = f"group by {', '.join(keys)}" if keys else ""
    query = f"""
        with shared as materialized (
            select min(id) as a, max(id) as b, count(*) as n from rows where {there} {groups} having count(*) > 1
        )
        select (select sum(n) from shared), list([a, b]) from (select a, b from shared order by a limit {EXAMPLES})
    """
    rows, pairs = _asked(query, {}, rows=_named(table, {"id": "id", **_columns(columns)}))
    return Obstacles(int(rows or 0), tuple(id for pair in pairs or () for id in pair)[:EXAMPLES])


def _unmatched(table: Table, column: str, pattern: str) -> Obstacles:
    """Rows whose text does not match, told by the same function that guards every write."""
    import pyarrow.compute as pc

    count, examples = 0, list[str]()
    for batch in _named(table, {"id": "id", "c0": column}):
        wrong = pc.invert(pc.match_substring_regex(batch.column(1), pattern=anchored(pattern)))
        ids = batch.column(0).filter(wrong)
        count += len(ids)
        examples += ids.slice(0, EXAMPLES - len(examples)).to_pylist()
    return Obstacles(count, tuple(examples))


def _counted(query: str, params: dict[str, Any], **readers: Any) -> Obstacles:
    rows, examples = _asked(f"select count(*), min(id, {EXAMPLES}) from ({query})", params, **readers)
    return Obstacles(int(rows), tuple(examples or ()))


def _asked(query: str, params: dict[str, Any], **readers: Any) -> tuple[Any, Any]:
    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        for name, reader in readers.items():
            connection.register(name, reader)
        [(first, second)] = connection.execute(query, params).fetchall()
    return first, second
