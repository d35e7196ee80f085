"""Insert, update and delete: the statements of a mutation, in order, in one transaction.

A later statement sees what the earlier ones did. What rows have to keep is for the validator to say, when the
transaction is committed; here it is only decided which rows there are.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from quire import duckdb_engines
from quire.errors import InvalidQuery, KeyConflict
from quire.filters import Condition, either, every
from quire.graph.catalog import Catalog, Entity, Property
from quire.graph.embed.fill import Vectors, made
from quire.graph.integrity import Violation, Violations
from quire.graph.integrity.changes import catalog_of
from quire.graph.integrity.lookups import is_in
from quire.graph.language import plan
from quire.graph.load.receipt import upserted_in
from quire.graph.load.row_ids import end_id, ends_of, new_ids
from quire.graph.load.typed import default_of
from quire.graph.types import Type, Wrong, identity
from quire.lake.handles import need_rows
from quire.lake.receipt import committed_as
from quire.prompt import OneLine, counts
from quire.store import clock

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.transaction import Transaction
    from quire.lake.receipt import Receipt

TEXT = Type("String")
CHUNK = 20_000
"""So many ids go into one filter: every statement after the first has a price of its own."""

Action = Literal["inserted", "updated", "deleted"]


@dataclass(frozen=True, repr=False)
class MutationReceipt(OneLine):
    """Rows by type, exactly. `receipt` is the proof of the commit; None while it is not committed."""

    inserted: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    unembedded: dict[str, int] = field(default_factory=dict)
    """Rows whose text was written without a vector, because no embedder was configured."""
    receipt: Receipt | None = None
    upserted: dict[str, Counter[str]] = field(default_factory=dict, repr=False, compare=False)
    """What upserts did to each table when they ran: others may have come first since."""

    def _facts(self) -> str:
        done = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        return "; ".join([committed_as(self.receipt), *(f"{did} {counts(rows)}" for did, rows in done.items() if rows)])

    def committed(self, tx: Transaction) -> MutationReceipt:
        """The same after the commit, as it came to be: a row that others inserted first was updated instead."""
        inserted, updated = Counter(self.inserted), Counter(self.updated)
        for table, counted in self.upserted.items():
            name = table.partition(":")[2]
            added, replaced = upserted_in(tx, table) or (counted["inserted"], counted["updated"])
            inserted[name] += added - counted["inserted"]
            updated[name] += replaced - counted["updated"]
        told = [{t: n for t, n in sorted(counts.items()) if n} for counts in (inserted, updated)]
        return replace(self, inserted=told[0], updated=told[1], receipt=tx.receipt)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "commit": self.receipt.commit if self.receipt else None,
            "inserted": dict(self.inserted),
            "updated": dict(self.updated),
            "deleted": dict(self.deleted),
            "unembedded": dict(self.unembedded),
        }


def run(
    tx: Transaction,
    mutation: plan.Mutation,
    params: Mapping[str, Any],
    *,
    now: dt.datetime | None = None,
    vectors: Vectors | None = None,
) -> MutationReceipt:
    """Run the statements of a mutation in a transaction; they are committed with it.

    `params` are the values that `bind` gives. `now()` is one time for all statements. `vectors` makes the vectors of
    `@embed` properties whose text is written without them; given again to another run, it asks for no text twice.
    """
    found = _Run(tx, catalog_of(tx), params, now or clock.now(), vectors or Vectors())
    return found.statements(mutation.statements)


@dataclass
class _Run:
    tx: Transaction
    catalog: Catalog
    params: Mapping[str, Any]
    now: dt.datetime
    vectors: Vectors
    counted: dict[Action, Counter[str]] = field(
        default_factory=lambda: {"inserted": Counter(), "updated": Counter(), "deleted": Counter()}
    )
    unembedded: Counter[str] = field(default_factory=Counter)
    upserted: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """What upserts did to each table when they ran."""

    def statements(self, all_of_them: Sequence[plan.MutationStatement]) -> MutationReceipt:
        for _, some in groupby(all_of_them, key=_together):
            statements = list(some)
            inserts = [s for s in statements if isinstance(s, plan.Insert)]
            if inserts:
                self._insert(inserts[0].entity, inserts)
                continue
            for statement in statements:
                if isinstance(statement, plan.Update):
                    self._update(statement)
                elif isinstance(statement, plan.Delete):
                    self._delete(statement)
        told = {action: {t: n for t, n in sorted(by_type.items()) if n} for action, by_type in self.counted.items()}
        bare = {t: n for t, n in sorted(self.unembedded.items()) if n}
        return MutationReceipt(told["inserted"], told["updated"], told["deleted"], bare, upserted=dict(self.upserted))

    def _count(self, action: Action, entity: Entity, rows: int) -> None:
        self.counted[action][entity.name] += rows

    # -- insert -----------------------------------------------------------------------------------------------

    def _insert(self, entity: Entity, statements: Sequence[plan.Insert]) -> None:
        """Inserts of one type that follow each other are written together."""
        rows = [self._row(statement) for statement in statements]
        if not (entity.kind == "node" and entity.defined.key):
            table = self._table(entity, [row.values for row in rows])
            self.unembedded[entity.name] += sum(bool(row.bare) for row in rows)
            try:
                self._count("inserted", entity, self.tx[entity.table].insert(table))
            except KeyConflict as error:
                raise _taken(entity, error) from None
            return
        last: dict[str, _Row] = {}
        for row in rows:
            before = last.get(row.values["id"])
            last[row.values["id"]] = row if before is None else before.then(row)
        upserted = list(last.values())
        self.unembedded[entity.name] += sum(bool(row.bare - row.kept) for row in upserted)
        columns = {column for row in upserted for column in row.kept}
        keep = {column: [column in row.kept for row in upserted] for column in sorted(columns)}
        counts = self.tx[entity.table].upsert(self._table(entity, [row.values for row in upserted]), keep=keep)
        self.upserted[entity.table] += Counter(counts)
        self._count("inserted", entity, counts["inserted"])
        # Of several inserts with one key, those after the first update it.
        self._count("updated", entity, counts["updated"] + len(rows) - len(last))

    def _table(self, entity: Entity, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_pylist([dict(row) for row in rows], schema=entity.schema())

    def _row(self, statement: plan.Insert) -> _Row:
        """A new row, and what of it a row that is there keeps: all that the statement does not give."""
        entity = statement.entity
        given = {s.property.name: self._value(entity, s.property, s.value) for s in statement.assignments}
        row = {p.column: given.get(p.name, p.type.value(default_of(p))) for p in entity.defined.properties}
        kept = {p.column for p in entity.defined.properties if p.name not in given}
        bare = set()
        for one in made(entity):
            text = row[one.text.column]
            if row[one.vector.column] is None and text is not None:
                row[one.vector.column] = self.vectors.one(one, text)
                if row[one.vector.column] is None:
                    bare.add(one.vector.column)
            if one.text.name in given:
                kept.discard(one.vector.column)  # the vector of the old text does not stay with the new one
        if entity.kind == "edge":
            for column, end, node in (
                ("src", statement.source, self.catalog.source(entity)),
                ("dst", statement.target, self.catalog.target(entity)),
            ):
                assert end is not None
                row[column] = self._end(entity, end, node, "from" if column == "src" else "to")
        return _Row({**row, "id": self._id(statement, row)}, kept, bare)

    def _id(self, statement: plan.Insert, row: Mapping[str, Any]) -> str:
        entity = statement.entity
        if entity.kind == "node" and entity.defined.key:
            key = [row[column] for column in entity.columns(entity.defined.key)]
            if None in key:
                raise _missing(entity, entity.defined.key[key.index(None)])
            return identity(key)
        given = self._constant(statement.id) if statement.id is not None else None
        return str(TEXT.value(given)) if given is not None else str(new_ids(1)[0])

    def _end(self, entity: Entity, end: plan.End, node: Entity, side: str) -> str:
        values = [self._constant(value) for value in end.values]
        if None in values:
            raise _missing(entity, side)
        try:
            return _known_by(values[0], node) if end.is_id else end_id(values, node)
        except Wrong as error:
            raise _wrong(entity, side, error) from None

    def _value(
        self, entity: Entity, prop: Property, expression: plan.Expression, row: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return prop.type.value(self._constant(expression, row))
        except Wrong as error:
            raise _wrong(entity, prop.name, error) from None

    def _constant(self, expression: plan.Expression, row: Mapping[str, Any] | None = None) -> Any:
        from quire.graph.language.checker.constant import evaluate

        return evaluate(expression, self.params, self.now, row)

    # -- update and delete ------------------------------------------------------------------------------------

    def _update(self, statement: plan.Update) -> None:
        entity = statement.entity
        if any(_of_the_row(s.value) for s in statement.assignments):
            self._update_each(statement)
            return
        values = self._assigned(statement)
        table = self.tx[entity.table]
        for condition in self._conditions(entity, statement.where):
            rows = table.update(values=values, where=condition)
            self._count("updated", entity, rows)
            self.unembedded[entity.name] += rows if _is_bare(entity, values) else 0

    def _assigned(self, statement: plan.Update, row: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The columns that a statement sets, and what to."""
        entity = statement.entity
        values = {s.property.column: self._value(entity, s.property, s.value, row) for s in statement.assignments}
        for one in made(entity):
            # The vector of the old text does not stay with the new one.
            if one.text.column in values and values.get(one.vector.column) is None:
                text = values[one.text.column]
                values[one.vector.column] = None if text is None else self.vectors.one(one, text)
        return values

    def _update_each(self, statement: plan.Update) -> None:
        """Set what follows from the values of each row. They were read, so nobody else may have changed them since."""
        import pyarrow as pa

        entity = statement.entity
        table = self.tx[entity.table]
        read = [s.value for s in statement.assignments]
        columns = list(dict.fromkeys([*entity.system, *(p.column for p in _properties(read))]))
        conditions = list(self._conditions(entity, statement.where))  # before the first of them changes what holds
        rows = [row for c in conditions for row in table.scan(columns=columns, filter=c).to_pylist()]
        for some in (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)):
            written = [{"id": row["id"], **self._assigned(statement, row)} for row in some]
            self.unembedded[entity.name] += sum(_is_bare(entity, row) for row in written)
            schema = pa.schema([f for f in entity.schema() if f.name in written[0]])
            self._count("updated", entity, table.upsert(pa.Table.from_pylist(written, schema=schema))["updated"])

    def _delete(self, statement: plan.Delete) -> None:
        entity = statement.entity
        if entity.kind == "edge":
            for condition in self._conditions(entity, statement.where):
                self._count("deleted", entity, self.tx[entity.table].delete(condition))
            return
        conditions = list(self._conditions(entity, statement.where))
        ids = [id for c in conditions for id in self._ids(entity, c)]
        ends: dict[Entity, list[str]] = {}
        for edge, end in self.catalog.touching(entity):
            ends.setdefault(edge, []).append(end)
        for edge in ends:
            need_rows(self.tx, edge.id, edge.system, entity.table)
        for edge, columns in ends.items():
            for some in _in_parts(ids):
                condition = either([is_in(column, TEXT, some) for column in columns])
                self._count("deleted", edge, self.tx[edge.table].delete(condition))
        for condition in conditions if ids else ():
            self._count("deleted", entity, self.tx[entity.table].delete(condition))

    def _ids(self, entity: Entity, condition: Condition) -> list[str]:
        found: list[str] = self.tx[entity.table].scan(columns=["id"], filter=condition).to_arrow()["id"].to_pylist()
        return found

    def _conditions(self, entity: Entity, where: Sequence[plan.Predicate]) -> Iterator[Condition]:
        """Filters that together hold for exactly the rows that satisfy all predicates, and no row twice.

        Lance is given what it can tell exactly. When that is not all, the rows are found first and named by their ids.
        """
        from quire.graph.query.known_values import Known
        from quire.graph.query.pushed_filters import Filters

        known = Known(self.params, self.now)
        pushed = [Filters(plan.ROW, known).push(predicate) for predicate in where]
        text = every([p for p in pushed if p is not None])
        if None not in pushed:
            yield text
            return
        for some in _in_parts(self._found(entity, where, known, text)):
            yield is_in("id", TEXT, some)

    def _found(self, entity: Entity, where: Sequence[plan.Predicate], known: Any, filter: Condition) -> list[str]:
        """Ids of the rows that satisfy all predicates, among those that pass a filter."""
        import duckdb

        from quire.graph.query.duckdb_run import ENGINE
        from quire.graph.query.layout import Layout
        from quire.graph.query.search.search import Searches
        from quire.graph.query.sql.expressions import Terms
        from quire.graph.query.sql.fragments import Values, all_of

        read = {prop.id for prop in _properties(tuple(where))}
        properties = tuple(p for p in entity.defined.properties if p.id in read)
        layout = Layout(plan.Read(plan.Block(), (), {plan.ROW: plan.Needs(entity, properties)}))
        values, place = Values(), layout.place(plan.ROW)
        terms = Terms(layout, known, values, Searches(self.tx, known))  # type: ignore[arg-type]
        condition = all_of(terms.predicate(predicate) for predicate in where)
        rows = self.tx[entity.table].scan(columns=list(place.columns.values()), filter=filter).to_arrow()
        shown = rows.select(list(place.columns.values())).rename_columns(list(place.columns))
        with duckdb_engines.connected(ENGINE) as connection:
            connection.register(place.relation, shown)
            try:
                found = connection.execute(
                    f"select {layout.system(plan.ROW, 'id')} from {place.relation} where {condition}", values.bound
                ).fetchall()
            except duckdb.Error as error:
                first = str(error).splitlines()[0]
                raise InvalidQuery(
                    f"The rows of {entity.name} cannot be chosen: {first}.", next="Correct the where.", type=entity.name
                ) from None
        return [id for (id,) in found]


@dataclass(frozen=True)
class _Row:
    """A row to be inserted, or merged into the one that is there."""

    values: dict[str, Any]
    kept: set[str]
    """Columns whose values are for a new row only."""
    bare: set[str]
    """Vectors that nobody could make of the texts that are there."""

    def then(self, later: _Row) -> _Row:
        """Both, one after the other."""
        values = {c: self.values[c] if c in later.kept else v for c, v in later.values.items()}
        return _Row(values, self.kept & later.kept, (self.bare & later.kept) | (later.bare - later.kept))


def _is_bare(entity: Entity, values: Mapping[str, Any]) -> bool:
    """Whether a text is written, and no vector that is made of it."""
    return any(values.get(one.text.column) is not None and values[one.vector.column] is None for one in made(entity))


def _together(statement: plan.MutationStatement) -> Any:
    """Inserts of one type stay together; every other statement stands alone."""
    return statement.entity.id if isinstance(statement, plan.Insert) else id(statement)


def _of_the_row(term: object) -> bool:
    """Whether an expression needs the row that is at hand."""
    if isinstance(term, plan.Field | plan.System):
        return True
    if isinstance(term, list | tuple):
        return any(map(_of_the_row, term))
    return is_dataclass(term) and any(_of_the_row(getattr(term, part.name)) for part in fields(term))


def _in_parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _properties(term: object) -> Iterator[Property]:
    """The properties that a predicate reads."""
    if isinstance(term, plan.Field):
        yield term.property
    elif isinstance(term, list | tuple):
        for part in term:
            yield from _properties(part)
    elif is_dataclass(term):
        for part in fields(term):
            yield from _properties(getattr(term, part.name))


def _known_by(text: Any, node: Entity) -> str:
    """The id of a node from the text of its key: canonical, as in a load."""
    found = ends_of([TEXT.value(text)], node)
    for said in found.wrong.values():
        raise Wrong(said)
    return str(found.column[0].as_py())


def _taken(entity: Entity, error: KeyConflict) -> KeyConflict:
    ids = [key["id"] for key in error.fields.get("keys", ())]
    return KeyConflict(
        f"{entity.name} {', '.join(map(repr, ids))} exists already.",
        next="Leave the id out to get a new one, or update the existing one.",
        type=entity.name,
        keys=ids,
    )


def _missing(entity: Entity, name: str) -> Exception:
    found = Violations()
    found.add([Violation(entity.name, "required", f"{entity.name}: {name} is required and missing.", property=name)])
    return found.error()


def _wrong(entity: Entity, name: str, error: Wrong) -> InvalidQuery:
    return InvalidQuery(
        f"{entity.name}.{name} {error}.", next="Give a value of its type.", type=entity.name, property=name
    )
