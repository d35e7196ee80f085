"""Graphs to ask questions of: a schema, rows by type, and a snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import quire
from quire.graph.catalog import Catalog
from quire.graph.language import plan
from quire.graph.language.checker.check import bind, check
from quire.graph.language.parse import parse
from quire.graph.query import explain, run
from quire.graph.query.explain_report import Explained
from quire.graph.schema.resolve import catalog
from quire.graph.types import identity


@dataclass
class Given:
    """A graph in memory."""

    catalog: Catalog
    lake: quire.Lake

    def checked(self, body: str, signature: str = "") -> plan.Query:
        return check(parse(f"query asked({signature}) {{ {body} }}").queries[0], self.catalog)

    def rows(
        self, body: str, signature: str = "", *, reduce: bool = True, embed: Any = None, **values: Any
    ) -> quire.Rows:
        query = self.checked(body, signature)
        return run(query, self.lake.snapshot(), bind(query, values), reduce=reduce, embed=embed)

    def ask(self, body: str, signature: str = "", *, reduce: bool = True, **values: Any) -> list[Any]:
        """The rows: tuples, or plain values where there is one column."""
        found = self.rows(body, signature, reduce=reduce, **values).to_pylist()
        rows = [tuple(row.values()) for row in found]
        return [row[0] for row in rows] if rows and len(rows[0]) == 1 else rows

    def explained(self, body: str, signature: str = "", *, analyze: bool = False, **values: Any) -> Explained:
        query = self.checked(body, signature)
        return explain(query, self.lake.snapshot(), bind(query, values), analyze=analyze)

    def add(self, type: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a type: nodes by properties, edges with `src` and `dst` too."""
        entity = next(e for e in self.catalog.entities if e.name == type)
        complete = []
        for number, row in enumerate(rows):
            id = identity([row[k] for k in entity.defined.key]) if entity.defined.key else f"{type}{number:04}"
            found = {p.column: row.get(p.name) for p in entity.defined.properties}
            ends = {c: row[c] for c in entity.system[1:]}
            complete.append({"id": row.get("@id", id), **ends, **found})
        import pyarrow as pa

        with self.lake.transaction("rows") as tx:
            tx[entity.table].append(pa.Table.from_pylist(complete, schema=entity.schema()))

    def index(self, type: str, build: Callable[[Any], None]) -> None:
        entity = next(e for e in self.catalog.entities if e.name == type)
        with self.lake.transaction("index") as tx:
            build(tx[entity.table])


def graph(schema: str, **rows: Sequence[Mapping[str, Any]]) -> Given:
    """A graph of a schema, with rows by type."""
    found = catalog(schema)
    lake = quire.create(f"memory://{uuid.uuid4().hex}", backfill=False)
    with lake.transaction("types") as tx:
        for entity in found.entities:
            tx.create_table(entity.table, schema=entity.schema())
    given = Given(found, lake)
    for type, values in rows.items():
        if values:
            given.add(type, values)
    return given


def edges(*pairs: str, **properties: Sequence[Any]) -> list[dict[str, Any]]:
    """Edges from pairs of one-letter ids, with values of properties in their order."""
    return [
        {"src": pair[0], "dst": pair[1], **{name: values[n] for name, values in properties.items()}}
        for n, pair in enumerate(pairs)
    ]


PEOPLE = """
node Person { name: String @key  age: I32?  city: String?  tags: [String]? }
node Company { name: String @key  size: I64? }
edge Knows: Person -> Person { since: Date?  kind: String? }
edge WorksAt: Person -> Company { role: String? }
"""


def people() -> Given:
    """a knows b twice, a chain b c d, a way back from c to a, d knows itself, e is alone. a and c work at x, b at a."""
    days = [f"20{n}-01-01" for n in range(10, 16)]
    import datetime as dt

    return graph(
        PEOPLE,
        Person=[
            {"name": "a", "age": 30, "city": "Rome", "tags": ["red", "blue"]},
            {"name": "b", "age": 25, "city": "Oslo", "tags": None},
            {"name": "c", "age": None, "city": "Rome", "tags": []},
            {"name": "d", "age": 41, "city": None, "tags": ["blue"]},
            {"name": "e", "age": 7, "city": "Bonn", "tags": ["red"]},
        ],
        Company=[{"name": "x", "size": 5}, {"name": "y", "size": None}, {"name": "a", "size": 2**53 + 1}],
        Knows=edges(
            "ab", "ab", "bc", "ca", "cd", "dd", since=[dt.date.fromisoformat(d) for d in days], kind=list("ffcfcx")
        ),
        WorksAt=edges("ax", "cx", "ba", role=["cook", None, "host"]),
    )
