"""Search terms as columns of the scans: whoever reads a scan computes them, with the SQL of this process.

Distances, matches and scores depend on one variable alone. So an engine that reads parts of a table elsewhere gives
each part to DuckDB there, and joins what it says. The numbers are the same, to the last bit, and a vector or a text
that is only searched need not be handed on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Entity
from quire.graph.language import plan
from quire.graph.query.search.search import Searches
from quire.graph.query.sql.fragments import Values

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.layout import Layout

NOTHING = "CAST(0 AS DOUBLE)"


@dataclass
class Made:
    """Columns that are computed where a variable is read. It can be sent there."""

    texts: dict[str, str] = field(default_factory=dict)
    """SQL of DuckDB by the name of the column."""
    kinds: dict[str, str] = field(default_factory=dict)
    """`float64` or `bool`."""
    bound: dict[str, Any] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in self.kinds.items()])

    def of(self, connection: Any, rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
        """The columns for some rows that have the variable's columns, in their order."""
        import pyarrow as pa

        terms = ", ".join(f"CAST({text} AS {_KINDS[self.kinds[n]]}) AS {n}" for n, text in self.texts.items())
        connection.register("read", pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows)
        found = connection.sql(f"SELECT {terms} FROM read", params=self.bound).to_arrow_table()
        return [found.column(n).combine_chunks().cast(pa.type_for_alias(self.kinds[n])) for n in self.texts]


_KINDS = {"float64": "DOUBLE", "bool": "BOOLEAN"}


@dataclass
class Scored(Searches):
    """The searches of one run whose terms are columns."""

    layout: Layout | None = None
    made: dict[str, Made] = field(default_factory=dict)
    """By variable."""
    _terms: list[tuple[plan.Expression, str]] = field(default_factory=list)

    @classmethod
    def of(cls, searches: Searches, layout: Layout) -> Scored:
        """The same searches; what one has learnt the other knows."""
        return cls(
            searches.snapshot,
            searches.known,
            searches.embed,
            searches.reads,
            searches.ask,
            searches.embedded,
            searches.split,
            layout=layout,
        )

    def distance(self, term: plan.Nearest, column: str, values: Values) -> str:
        return self._column(term, "float64", lambda bound: Searches.distance(self, term, column, bound))

    def matches(self, term: plan.TextMatch, entity: Entity, column: str, values: Values) -> str:
        if not self.tokens(term):
            return "FALSE"
        return self._column(term, "bool", lambda bound: Searches.matches(self, term, entity, column, bound))

    def score(self, term: plan.Bm25, entity: Entity, column: str, values: Values) -> str:
        if not self.tokens(term):
            return NOTHING
        found = self._column(term, "float64", lambda bound: Searches.score(self, term, entity, column, bound))
        return f"coalesce({found}, {NOTHING})"  # a variable that may be null has no row to compute it for

    def _column(self, term: plan.Nearest | plan.TextMatch | plan.Bm25, kind: str, write: Any) -> str:
        for other, name in self._terms:
            if other == term:
                return name
        assert self.layout is not None
        variable = term.field.variable
        made = self.made.setdefault(variable, Made())
        name = f"v{self.layout.number(variable)}_x{len(made.texts)}"
        values = Values()
        values.bound = made.bound  # the columns of one scan share their names
        made.texts[name], made.kinds[name] = write(values), kind
        self._terms.append((term, name))
        return name
