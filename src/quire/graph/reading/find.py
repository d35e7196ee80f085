"""Reads that are put together by calls, for those who do not want a query file.

    graph.find("Person", name="Ada").out("knows").where("age", ">", 30).order("-age").limit(10).to_pylist()

Each call gives a new `Find`; nothing is read before the rows are asked for. `text` is the query that runs: every value
is a parameter of it, none is pasted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from quire.arguments import checks_arguments
from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog, Entity
from quire.graph.language import ast, show_query
from quire.graph.names import nearest
from quire.graph.types import Type
from quire.prompt import Escaped, PublicNames, one_line

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from quire.graph.graph import Graph
    from quire.graph.query.explain_report import Explained
    from quire.lake import Rows, Snapshot

TEXT = Type("String")
TESTS = ("search", "match_text", "fuzzy")
"""Operators that are functions in the language."""
NULLS = {"is null": False, "is not null": True}
OPERATORS = (*get_args(ast.Operator), *NULLS, *TESTS)
AGGREGATES = get_args(ast.AggregateName)

Way = Literal["out", "in", "either"]


@checks_arguments
@dataclass(frozen=True)
class Find(Escaped, PublicNames):
    """A read of a graph. `graph.find` makes one."""

    graph: Graph = field(repr=False)
    at: Snapshot | None = field(default=None, repr=False)
    _entities: tuple[tuple[str, Entity], ...] = ()
    """Variables and their types. The last node is where the next step begins."""
    _clauses: tuple[ast.Clause, ...] = ()
    _values: tuple[tuple[Type, Any], ...] = ()
    _outputs: tuple[ast.Projection, ...] = ()
    _order: tuple[ast.Ordering, ...] = ()
    _distinct: bool = False
    _limit: int | None = None
    _offset: int | None = None

    # -- where to ---------------------------------------------------------------------------------------------

    def out(
        self,
        edge: str,
        hops: int | tuple[int, int | None] | None = None,
        *,
        name: str | None = None,
        edge_name: str | None = None,
    ) -> Find:
        """Go on to the nodes that an edge leads to; `hops=(1, 3)` reaches up to three steps away, `(1, None)` all.

        `name="friend"` names the node that is reached, `edge_name="k"` the edge: then every edge gives its own row.
        """
        return self._step(edge, "out", hops, name=name, edge_name=edge_name)

    def into(
        self,
        edge: str,
        hops: int | tuple[int, int | None] | None = None,
        *,
        name: str | None = None,
        edge_name: str | None = None,
    ) -> Find:
        """Go on to the nodes that an edge comes from."""
        return self._step(edge, "in", hops, name=name, edge_name=edge_name)

    def either(
        self,
        edge: str,
        hops: int | tuple[int, int | None] | None = None,
        *,
        name: str | None = None,
        edge_name: str | None = None,
    ) -> Find:
        """Go on along an edge in either direction; its two ends must be of one type."""
        return self._step(edge, "either", hops, name=name, edge_name=edge_name)

    def without(self, edge: str, way: Way = "out") -> Find:
        """Keep the nodes that have no such edge."""
        step = self._traverse(edge, way, ast.Variable("_"), None, None)
        return replace(self, _clauses=(*self._clauses, ast.Not((step,))))

    def where(self, name: str | None = None, operator: str = "=", value: Any = None, /, **equal: Any) -> Find:
        """Keep the rows for which this holds: `where("age", ">", 30)`, `where(city="Oslo")`, `where("age", "is null")`.

        Operators are those of the language: = != < <= > >= contains starts_with in, `is null`, `is not null`, and
        search, match_text, fuzzy on text. `"friend.age"` is a property of a node or edge that was given a name.
        """
        found = self
        if name is not None:
            found = found._where(name, operator, value)
        elif not equal:
            raise InvalidQuery("where was given no condition.", next='Write where("age", ">", 30) or where(age=30).')
        for key, given in equal.items():
            found = found._where(key, "=", given)
        return found

    # -- what of it -------------------------------------------------------------------------------------------

    def select(self, *names: str, **named: str | tuple[str, str]) -> Find:
        """What a row consists of: `select("name", friend="friend.name", n=("*", "count"))`.

        A pair is an aggregate, as in pandas: the property and one of count, sum, avg, min, max; the other outputs are
        what it is grouped by. Without `select` a row has the properties of the last node.
        """
        made = [ast.Projection(self._access(name), name.rpartition(".")[2]) for name in names]
        for alias, given in named.items():
            _check_name(alias)
            expression = self._access(given) if isinstance(given, str) else self._aggregate(*given)
            made.append(ast.Projection(expression, alias))
        outputs = (*self._outputs, *made)
        aliases = [one.alias for one in outputs]
        for output in outputs:
            if aliases.count(output.alias) > 1:
                raise InvalidQuery(
                    f"Two outputs are called {output.alias!r}.",
                    next=f'Name one: select(other="friend.{output.alias}").',
                )
        return replace(self, _outputs=outputs)

    def order(self, *names: str) -> Find:
        """Sort by properties or outputs; `"-age"` sorts downwards."""
        aliases = {one.alias for one in self._outputs}
        made = []
        for name in names:
            bare = name.removeprefix("-")
            by: ast.Expression = ast.Name(bare) if bare in aliases else self._access(bare)
            made.append(ast.Ordering(by, name != bare))
        return replace(self, _order=(*self._order, *made))

    def nearest(self, name: str, to: Any, limit: int = 10) -> Find:
        """The nodes whose vector is nearest to a vector, or to a text if the graph has an embedder."""
        prop = self._property(name)[1]
        if prop.base != "Vector":
            raise InvalidQuery(f"{name} is not a vector but {prop}.", next="Name a property of type Vector.")
        found, value = self._value(TEXT if isinstance(to, str) else prop.required, to)
        by = ast.Call("nearest", (self._access(name), value))
        return replace(found, _order=(*self._order, ast.Ordering(by)), _limit=_count(limit, 1))

    def distinct(self) -> Find:
        """Each row once."""
        return replace(self, _distinct=True)

    def limit(self, count: int) -> Find:
        """At most so many rows."""
        return replace(self, _limit=_count(count, 0))

    def offset(self, count: int) -> Find:
        """Leave out the first rows."""
        return replace(self, _offset=_count(count, 0))

    # -- answers ----------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The query that it stands for."""
        return show_query(self._query())

    @property
    def params(self) -> dict[str, Any]:
        """The values of its parameters."""
        return {f"v{n}": value for n, (_, value) in enumerate(self._values, 1)}

    def rows(self) -> Rows:
        """Run it."""
        return self.graph.query(self.text, at=self.at, params=self.params)

    def explain(self, *, analyze: bool = False) -> Explained:
        """How it would be answered."""
        return self.graph.explain(self.text, at=self.at, analyze=analyze, params=self.params)

    def count(self) -> int:
        """How many rows it has."""
        if self._outputs or self._distinct or self._limit is not None or self._offset is not None:
            return int(self.rows().to_arrow().num_rows)
        counted = replace(self, _order=(), _outputs=(ast.Projection(ast.Aggregate("count", None), "n"),))
        return int(counted.to_pylist()[0]["n"])

    def first(self) -> dict[str, Any] | None:
        """The first row, or None."""
        found = self.limit(1).to_pylist() if self._limit is None else self.to_pylist()
        return found[0] if found else None

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self.rows().to_arrow()

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return self.rows().to_pylist()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self.rows().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return self.rows().to_polars()

    def __repr__(self) -> str:
        return one_line(f"<Find {' '.join(self.text.split())}>")

    # -- plumbing ---------------------------------------------------------------------------------------------

    @property
    def _catalog(self) -> Catalog:
        return self.graph.catalog(self.at)

    @property
    def _here(self) -> tuple[str, Entity]:
        return next((name, entity) for name, entity in reversed(self._entities) if entity.kind == "node")

    def _bind(self, entity: Entity, name: str | None) -> tuple[Find, str]:
        """It with one more variable."""
        taken = {known for known, _ in self._entities}
        if name is None:
            base = name = entity.name[0].lower() + entity.name[1:]
            while name in taken:
                name = f"{base}{len(taken) + 1}"
                base += "_"
        _check_name(name)
        if name in taken:
            raise InvalidQuery(f"{name!r} is the name of a node or edge already.", next="Give it another name.")
        return replace(self, _entities=(*self._entities, (name, entity))), name

    def _start(self, type: str, name: str | None, equal: dict[str, Any]) -> Find:
        entity = self._catalog.node(type)
        found, name = self._bind(entity, name)
        found = replace(found, _clauses=(ast.Bind(ast.Variable(name), entity.name),))
        return found.where(**equal) if equal else found

    def _step(
        self,
        edge: str,
        way: Way,
        hops: int | tuple[int, int | None] | None,
        *,
        name: str | None = None,
        edge_name: str | None = None,
    ) -> Find:
        entity = self._catalog.edge(edge)
        here = self._here[1]
        ends = {"out": (entity.defined.source, entity.defined.target)}
        ends["in"] = ends["out"][::-1]
        start, end = ends["in" if way == "in" else "out"]
        if start != here.id:
            verb = {"out": "leaves", "in": "leads to", "either": "touches"}[way]
            raise InvalidQuery(
                f"{entity.name} {verb} {self._catalog.by_id(start).name}, and the last node is a {here.name}.",
                next="Go the other way (out, into), or along another edge.",
            )
        found = self
        if edge_name is not None:
            found, edge_name = found._bind(entity, edge_name)
        found, name = found._bind(self._catalog.by_id(end), name)
        clause = self._traverse(edge, way, ast.Variable(name), edge_name, _bounds(hops))
        return replace(found, _clauses=(*found._clauses, clause))

    def _traverse(
        self, edge: str, way: Way, other: ast.Variable, binding: str | None, bounds: ast.Bounds | None
    ) -> ast.Traverse:
        entity = self._catalog.edge(edge)
        if way not in ("out", "in", "either"):
            raise InvalidQuery(f"There is no direction {way!r}.", next="Use out, in or either.")
        here = ast.Variable(self._here[0])
        source, target = (other, here) if way == "in" else (here, other)
        word = entity.name[0].lower() + entity.name[1:]
        bound = None if binding is None else ast.Variable(binding)
        return ast.Traverse(source, word, target, bound, way == "either", bounds)

    def _property(self, name: str) -> tuple[ast.Access, Type]:
        owner, _, bare = name.rpartition(".")
        known = dict(self._entities)
        if not owner:
            owner, entity = self._here
        elif owner in known:
            entity = known[owner]
        else:
            raise InvalidQuery(
                f"No node or edge is called {owner!r}.",
                next=nearest(owner, known) or f"There are {', '.join(known)}.",
            )
        if bare in entity.system and bare not in entity.properties:
            kind = TEXT
        else:
            kind = entity.property(bare).type
        return ast.Access(ast.Variable(owner), bare), kind

    def _access(self, name: str) -> ast.Access | ast.Variable:
        if name in dict(self._entities):
            return ast.Variable(name)
        return self._property(name)[0]

    def _aggregate(self, name: str, function: str) -> ast.Aggregate:
        if function not in AGGREGATES:
            raise InvalidQuery(
                f"There is no aggregate {function!r}.", next=f"There are {', '.join(AGGREGATES)}: (property, function)."
            )
        argument = None if name == "*" else self._access(name)
        return ast.Aggregate(cast("ast.AggregateName", function), argument)

    def _value(self, kind: Type, value: Any) -> tuple[Find, ast.Variable]:
        """It with one more parameter, and that parameter."""
        kind = TEXT if kind.base == "enum" and not kind.many else kind
        found = replace(self, _values=(*self._values, (kind, value)))
        return found, ast.Variable(f"v{len(found._values)}")

    def _where(self, name: str, operator: str, value: Any) -> Find:
        if operator not in OPERATORS:
            raise InvalidQuery(f"There is no operator {operator!r}.", next=f"There are {', '.join(OPERATORS)}.")
        access, kind = self._property(name)
        if operator in NULLS:
            return replace(self, _clauses=(*self._clauses, ast.IsNull(access, NULLS[operator])))
        if value is None:
            raise InvalidQuery("A value cannot be compared with null.", next=f'Write where("{name}", "is null").')
        if operator in TESTS:
            found, given = self._value(TEXT, value)
            call = ast.Call(operator, (access, given))
            return replace(found, _clauses=(*self._clauses, ast.Matches(call)))
        base = "String" if kind.base == "enum" else kind.base
        if operator == "in":
            compared = Type(base, many=True)
            value = list(value)
        elif operator == "contains":
            compared = Type(base)
        else:
            compared = kind.required
        found, given = self._value(compared, value)
        clause = ast.Compare(cast("ast.Operator", operator), access, given)
        return replace(found, _clauses=(*self._clauses, clause))

    def _query(self) -> ast.Query:
        outputs = self._outputs
        if not outputs:
            name, entity = self._here
            known = [p.name for p in entity.defined.properties if p.type.base != "Blob"]
            if not entity.defined.key and "id" not in known:
                known = ["id", *known]
            outputs = tuple(ast.Projection(ast.Access(ast.Variable(name), p), p) for p in known)
        parameters = tuple(ast.Parameter(f"v{n}", kind) for n, (kind, _) in enumerate(self._values, 1))
        limit, offset = (None if n is None else ast.Literal(n, "I64") for n in (self._limit, self._offset))
        read = ast.Read(self._clauses, outputs, self._distinct, (), self._order, limit, offset)
        return ast.Query("find", parameters, read)


def find(graph: Graph, type: str, name: str | None, at: Snapshot | None, equal: dict[str, Any]) -> Find:
    """A read that begins with the nodes of a type."""
    return Find(graph, at)._start(type, name, equal)


def _bounds(hops: int | tuple[int, int | None] | None) -> ast.Bounds | None:
    if hops is None:
        return None
    least, most = (hops, hops) if isinstance(hops, int) else hops
    return ast.Bounds(_count(least, 0), None if most is None else _count(most, least))


def _count(given: Any, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 2**63:
        raise InvalidQuery(f"{given!r} is not a whole number of at least {least}.", next="Give a count.")
    return given


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][A-Za-z0-9_]*", name) or re.fullmatch(r"v\d+", name):
        raise InvalidQuery(
            f"{name!r} cannot be a name in a query.",
            next="Use a small letter, then letters, digits and _; v1, v2, … are taken.",
        )
