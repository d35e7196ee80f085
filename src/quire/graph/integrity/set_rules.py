"""Rules that rows keep or break together: unique values, ends of edges, edges per node, no edge left behind.

Each is a question about values (`lookups`) to the tables as the transaction leaves them, so that what it wrote,
what it removed and what was there before all count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from quire.graph.catalog import Catalog, Definition, Entity
from quire.graph.integrity import violations
from quire.graph.integrity.held_rows import Held, occurrences
from quire.graph.integrity.lookups import CHUNK, distinct, is_in
from quire.graph.integrity.violations import Violation, Violations
from quire.graph.types import Type
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View

TEXT = Type("String")
Answer = Callable[[Any], None]


class Change(Protocol):
    """One type whose rows are changed: keys of those that came, of those that are gone, and of those to look at."""

    @property
    def entity(self) -> Entity: ...
    @property
    def before(self) -> Definition | None: ...
    @property
    def all_together(self) -> bool: ...
    @property
    def came(self) -> pa.Table: ...
    @property
    def gone(self) -> pa.Table: ...
    @property
    def added(self) -> pa.Table: ...


class Tables(Protocol):
    """Tables as a transaction leaves them."""

    def at(self, entity: Entity) -> View: ...
    def held(self, entity: Entity) -> Held: ...


@dataclass
class Questions:
    """Look-ups that are made side by side, and what is done with each answer."""

    looks: Tables
    _asked: list[tuple[Callable[[], Any], Answer]] = field(default_factory=list)

    def ask(
        self, entity: Entity, columns: Sequence[str], wanted: pa.Table, answer: Answer, enough: int | None = None
    ) -> None:
        """How often rows of `wanted` occur in columns of a type's table; `answer` gets the numbers.

        It need not be told how many there are beyond `enough`.
        """
        if wanted.num_rows:
            kinds = [_kind(entity, name) for name in columns]
            self.look(entity, lambda held: held.counts(columns, kinds, wanted, enough), answer)

    def look(self, entity: Entity, look: Callable[[Held], Any], answer: Answer) -> None:
        """Ask something else of a type's table."""
        held = self.looks.held(entity)
        self._asked.append((lambda: look(held), answer))

    def answer(self) -> None:
        """Make all look-ups, and hand over the answers in the order in which they were asked for."""
        asked, self._asked = self._asked, []
        for (_, then), numbers in zip(asked, run_parallel([look for look, _ in asked]), strict=True):
            then(numbers)


def ask_all(catalog: Catalog, changed: Sequence[Change], looks: Tables, found: Violations) -> None:
    """Add what is wrong with the rows of all changed types together."""
    by_id = {one.entity.id: one for one in changed}
    questions = Questions(looks)
    then = Questions(looks)
    for one in changed:
        for names in one.entity.defined.unique:
            _ask_unique(questions, one, names, found)
        if one.entity.kind == "edge":
            _ask_ends(questions, catalog, one, found)
            _ask_at_most(questions, one, found)
        else:
            _ask_gone(questions, catalog, one, found)
    for edge in catalog.edges:
        if edge.defined.at_least:
            _ask_at_least(questions, then, catalog, edge, by_id, found)
    questions.answer()
    then.answer()


# -- unique -----------------------------------------------------------------------------------------------------------


def _ask_unique(questions: Questions, one: Change, names: Sequence[str], found: Violations) -> None:
    entity = one.entity
    columns = entity.columns(names)
    kinds = [_kind(entity, name) for name in columns]

    def answer(twice: pa.Table) -> None:
        if twice.num_rows:
            found.add(_not_unique(entity, names, columns, twice, one, found.room), twice.num_rows)

    if one.added.num_rows:
        questions.look(entity, lambda held: held.repeated(columns, kinds, one.added), answer)


def _not_unique(
    entity: Entity, names: Sequence[str], columns: Sequence[str], twice: pa.Table, one: Change, room: int
) -> Iterator[Violation]:
    for row in twice.slice(0, room).to_pylist():
        values = list(row.values())
        yield violations.not_unique(entity, names, values, _an_id(one.added, columns, values))


def _an_id(rows: pa.Table, columns: Sequence[str], values: Sequence[Any]) -> str | None:
    """The id of the last row that has these values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, value in zip(columns, values, strict=True):
        rows = rows.filter(pc.equal(rows.column(name), pa.scalar(value, rows.schema.field(name).type)))
    return str(rows.column("id")[-1].as_py()) if rows.num_rows else None


# -- ends -------------------------------------------------------------------------------------------------------------


def _ask_ends(questions: Questions, catalog: Catalog, one: Change, found: Violations) -> None:
    edge = one.entity
    for end, node in (("src", catalog.source(edge)), ("dst", catalog.target(edge))):
        wanted = distinct(one.added, [end])

        def answer(numbers: Any, end: str = end, node: Entity = node, wanted: pa.Table = wanted) -> None:
            lost = wanted.filter(numbers == 0)
            if lost.num_rows:
                _add_lost(one, end, node, lost, found)

        questions.ask(node, ["id"], wanted, answer, enough=1)


def _add_lost(one: Change, end: str, node: Entity, lost: pa.Table, found: Violations) -> None:
    import pyarrow.compute as pc

    rows = one.added.filter(pc.is_in(one.added.column(end), value_set=lost.column(end).combine_chunks()))
    some = rows.slice(0, found.room).to_pylist()
    found.add((violations.no_end(one.entity, end, node, row["id"], row[end]) for row in some), rows.num_rows)


def _ask_gone(then: Questions, catalog: Catalog, one: Change, found: Violations) -> None:
    """Nodes that the base has and this transaction has not must leave no edge behind."""
    touching = list(catalog.touching(one.entity))
    if not touching or one.before is None or not one.gone.num_rows:
        return
    before = distinct(one.gone, ["id"])
    gone = before.filter(occurrences(one.came, ["id"], before) == 0)  # ids are unique: no other row has them
    for edge, end in touching:

        def left(counted: Any, edge: Entity = edge, end: str = end) -> None:
            _add_left(then.looks, one.entity, edge, end, gone, counted, found)

        then.ask(edge, [end], gone, left)


def _add_left(
    looks: Tables, node: Entity, edge: Entity, end: str, gone: pa.Table, counted: Any, found: Violations
) -> None:
    """Tell the edges that would be left behind, one by one."""
    left = gone.filter(counted > 0).column("id").slice(0, CHUNK).to_pylist()
    if not left:
        return
    rows = looks.at(edge).scan(columns=["id", end], filter=is_in(end, TEXT, left), limit=max(1, found.room))
    told = (violations.left_behind(edge, end, node, row["id"], row[end]) for row in rows.read_all().to_pylist())
    found.add(told, int(counted.sum()))


# -- cardinality ------------------------------------------------------------------------------------------------------


def _ask_at_most(questions: Questions, one: Change, found: Violations) -> None:
    edge, most = one.entity, one.entity.defined.at_most
    if most is None:
        return
    wanted = distinct(one.added, ["src"])

    def answer(numbers: Any) -> None:
        rows = (numbers > most).nonzero()[0]
        found.add((_too_many(one, wanted, row, numbers[row]) for row in rows[: found.room]), len(rows))

    # As many as were allowed before and all that came can be told; a hub has no more to count than that.
    questions.ask(edge, ["src"], wanted, answer, enough=most + one.added.num_rows)


def _too_many(one: Change, sources: pa.Table, row: int, number: int) -> Violation:
    source = sources.column("src")[int(row)].as_py()
    return violations.too_many(one.entity, source, number, _an_id(one.added, ["src"], [source]))


def _ask_at_least(
    questions: Questions,
    then: Questions,
    catalog: Catalog,
    edge: Entity,
    changed: dict[str, Change],
    found: Violations,
) -> None:
    """Nodes that are new, and nodes that lost an edge, as far as they are still there."""
    least, source = edge.defined.at_least, catalog.source(edge)
    wanted = _sources(questions.looks, source, edge, changed)
    if wanted is None:
        return

    def check(there: Any) -> None:
        ids = wanted.filter(there > 0)

        def answer(numbers: Any) -> None:
            rows = (numbers < least).nonzero()[0]
            found.add((_too_few(edge, source, ids, row, numbers[row]) for row in rows[: found.room]), len(rows))

        then.ask(edge, ["src"], ids, answer, enough=least)

    questions.ask(source, ["id"], wanted, check, enough=1)


def _sources(looks: Tables, source: Entity, edge: Entity, changed: dict[str, Change]) -> pa.Table | None:
    """Ids of the nodes that may have too few edges now."""
    import pyarrow as pa

    found = []
    if source.id in changed:
        found.append(distinct(changed[source.id].added, ["id"]))
    mine = changed.get(edge.id)
    if mine is not None and mine.all_together:
        found.append(looks.at(source).scan(columns=["id"]).read_all())
    elif mine is not None:
        found.append(distinct(mine.gone, ["src"]).rename_columns(["id"]))
    return distinct(pa.concat_tables(found), ["id"]) if found else None


def _too_few(edge: Entity, source: Entity, nodes: pa.Table, row: int, number: int) -> Violation:
    return violations.too_few(edge, source, nodes.column("id")[int(row)].as_py(), number)


def _kind(entity: Entity, column: str) -> Type:
    """What a column of a type's table holds."""
    if column in entity.system:
        return TEXT
    return next(p.type for p in entity.defined.properties if p.column == column)
