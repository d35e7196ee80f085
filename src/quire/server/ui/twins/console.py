"""The console: which tables there are to ask, their columns as soon as a query names them, and the plan of a query."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from quire.errors import QuireError
from quire.graph.graph import Graph
from quire.lake.handles import explain
from quire.server.calls import Answer, Call
from quire.server.handlers.graph import text
from quire.server.ui.reading import At

COLUMNS_OF = 12
"""Tables whose columns are told at once."""


class Asked(At):
    query: str = ""
    lang: Literal["sql", "gq"] = "sql"
    run: bool = True
    params: str = ""
    """Values of the query's parameters, as JSON: part of the link that is shared."""


def console(call: Call) -> dict[str, Any]:
    """Names for completion. Columns come with `columns.json`, since each table that is opened costs a request."""
    snap = call.snapshot()
    graph = Graph(call.lake())
    catalog = graph.catalog(snap)
    types = [
        {"name": entity.name, "kind": entity.kind, "properties": list(entity.properties)} for entity in catalog.entities
    ]
    return {
        "commit": snap.commit,
        "time": snap.time.isoformat(),
        "tables": [{"name": name, "rows": snap[name].count()} for name in snap],
        "types": types,
        "stored": graph.stored(snap) if types else {},
    }


class Names(At):
    names: list[str] = []


def columns(call: Call) -> dict[str, Any]:
    """The columns of some tables."""
    snap = call.snapshot()
    known = [name for name in call.query.names[:COLUMNS_OF] if name in snap]
    return {"columns": {name: [{"name": f.name, "type": str(f.type)} for f in snap[name].schema] for name in known}}


class Planned(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    lang: Literal["sql", "gq"] = "sql"


def plan(call: Call) -> Answer:
    """How a query would be run."""
    wanted = call.decoded(Planned)
    snap = call.snapshot()
    if wanted.lang == "sql":
        return Answer({"plan": explain(snap, wanted.query)})
    return Answer({"plan": str(Graph(call.lake()).explain(text(wanted.query), at=snap))})


class Linted(msgspec.Struct, forbid_unknown_fields=True):
    query: str


def lint(call: Call) -> Answer:
    """What is wrong with the text of graph queries, and where."""
    wanted = call.decoded(Linted)
    try:
        found = Graph(call.lake()).lint(text(wanted.query), call.snapshot())
    except QuireError as error:
        said = error.to_dict()
        place = {"line": said.get("line"), "column": said.get("column")}
        return Answer({"findings": [{"severity": "error", "message": said["message"], "next": said["next"], **place}]})
    return Answer({"findings": [one.to_dict() for one in found]})
