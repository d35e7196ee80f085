"""The graph: its schema, queries, mutations, loads, blobs. A text is a text here, never the name of a file."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput, InvalidQuery, NotFound
from quire.graph.graph import Graph, catalog_records
from quire.graph.reading.blobs import Blob, open_blob
from quire.lake import Rows
from quire.lake.commit.transaction import TransactionOptions
from quire.server import row_formats
from quire.server.bodies import BodyFile
from quire.server.calls import Answer, Call, at_commit, decoded
from quire.server.handlers.commits import BODY, check_same, first_of, if_head, noted, token_of
from quire.server.handlers.tables import PAGE, At, json_value
from quire.server.problems import HttpRefusal

PIECE = 1 << 20


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """A query of the graph: its text, which one of several, and its parameters."""

    query: str
    which: str | None = None
    params: dict[str, Any] = {}
    limit: int | None = None
    timeout: float | None = None
    memory: int | None = None
    max_rows: int | None = None
    """Bounds of this query: they lower those of the server."""
    exact: bool = False
    nprobes: int | None = None
    refine: int | None = None
    """How vectors are searched."""


class StoredAsked(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a stored query."""

    params: dict[str, Any] = {}
    limit: int | None = None
    timeout: float | None = None
    memory: int | None = None
    max_rows: int | None = None
    """Bounds of this query: they lower those of the server."""
    exact: bool = False
    nprobes: int | None = None
    refine: int | None = None
    """How vectors are searched."""


class Explaining(Asked):
    """A query to explain; with `analyze` it is run and counted."""

    analyze: bool = False


class Linting(msgspec.Struct, forbid_unknown_fields=True):
    """Queries to check without running them."""

    queries: str


class Storing(msgspec.Struct, forbid_unknown_fields=True):
    """Queries to keep in the lake, each under its name."""

    queries: str
    branch: str = "main"
    message: str | None = None
    metadata: dict[str, str] = {}


class BlobAsked(At):
    by: Literal["key", "row"] = "key"
    """Whether `id` is the key of a node, or the id that its row has."""


class Mutating(msgspec.Struct, forbid_unknown_fields=True):
    """A mutation of the graph."""

    query: str
    which: str | None = None
    params: dict[str, Any] = {}
    branch: str = "main"
    message: str | None = None
    if_head: str | None = None
    timeout: float | None = None
    metadata: dict[str, str] = {}


class SchemaText(msgspec.Struct, forbid_unknown_fields=True):
    """A schema, and whether data may be dropped and stored queries be broken for it."""

    schema: str
    drop_data: bool = False
    break_queries: bool = False
    table_format: str | None = None
    branch: str = "main"
    if_head: str | None = None
    expect: dict[str, int] = {}
    timeout: float | None = None
    message: str | None = None
    metadata: dict[str, str] = {}


class LoadAsked(msgspec.Struct, forbid_unknown_fields=True):
    """How rows are loaded. The body is JSON lines, each with its type, as `quire dump` writes them."""

    branch: str = "main"
    mode: Literal["append", "merge", "overwrite"] = "append"
    type: str | None = None
    edge: str | None = None
    message: str | None = None
    dry_run: bool = False
    format: Literal["jsonl", "csv", "arrow"] = "jsonl"
    max_errors: int = 20
    skip_rejects: int = 0
    """How many rows that break a rule may be left out; below zero any number."""
    csv: str | None = None
    """The form of CSV as JSON: `delimiter`, `quote`, `null`, `header`, `encoding`."""
    if_head: str | None = None
    timeout: float | None = None
    meta: list[str] = []
    """Kept with the commit, each as NAME=VALUE."""


def schema(call: Call) -> Answer:
    snap = call.snapshot()
    graph = Graph(call.lake())
    value = {"commit": snap.commit, "schema": graph.schema(snap), "types": catalog_records(snap)}
    return at_commit(call, call.lake(), snap.commit, Answer(value))


def plan_schema(call: Call) -> Answer:
    wanted = call.decoded(SchemaText)
    graph = Graph(call.lake(wanted.branch))
    allowed = {"drop_data": wanted.drop_data, "break_queries": wanted.break_queries}
    return Answer(graph.plan_schema(text(wanted.schema), **allowed).to_dict())


def apply_schema(call: Call) -> Answer:
    wanted = call.decoded(SchemaText)
    lake = call.lake(wanted.branch)
    options: TransactionOptions = {
        "token": token_of(call),
        "metadata": noted(wanted.metadata),
        "if_head": if_head(call, lake, wanted.if_head),
        "expect": wanted.expect,
        "timeout": wanted.timeout,
    }
    how: dict[str, Any] = {"message": wanted.message, "table_format": wanted.table_format}
    how |= {"drop_data": wanted.drop_data, "break_queries": wanted.break_queries}
    done = Graph(lake).apply_schema(text(wanted.schema), **how, **options)
    return Answer({**done.to_dict(), "receipt": done.receipt.to_dict() if done.receipt else None})


def query(call: Call) -> Answer:
    wanted = call.decoded(Asked)
    return _rows(call, text(wanted.query), wanted.which, wanted)


def stored(call: Call) -> Answer:
    snap = call.snapshot()
    return at_commit(call, call.lake(), snap.commit, Answer({"queries": Graph(call.lake()).stored(snap)}))


def run_stored(call: Call) -> Answer:
    """A stored query by its name: whoever may read may run it."""
    wanted = call.decoded(StoredAsked)
    name = call.path["query"]
    known = Graph(call.lake()).stored(call.snapshot())
    if name not in known:
        raise NotFound(f"There is no stored query {name!r}.", next="GET queries lists them.", query=name)
    return _rows(call, text(known[name]), name, wanted)


def _rows(call: Call, query: str, which: str | None, asked: Asked | StoredAsked) -> Answer:
    kind = row_formats.wanted(call.headers.get("accept", ""))
    snap = call.snapshot()
    graph = Graph(call.lake())
    if not graph.check(query, which, at=snap).is_read:
        raise InvalidQuery("This is a mutation, not a query.", next="POST it to mutate.")
    bounds: dict[str, Any] = {"timeout": asked.timeout, "memory": asked.memory, "max_rows": asked.max_rows}
    bounds |= {"exact": asked.exact, "nprobes": asked.nprobes, "refine": asked.refine}
    rows: Rows = graph.query(query, which, at=snap, params=asked.params, **bounds)
    if kind != "json":
        answer = row_formats.stream(rows, kind)
    else:
        most = min(PAGE if asked.limit is None else max(0, asked.limit), call.server.limits.page_rows)
        columns = row_formats.columns_of(rows.schema)
        values, more = row_formats.page(rows, most)
        answer = Answer({"commit": snap.commit, "columns": columns, "rows": values, "truncated": more})
    answer.headers["quire-commit"] = snap.commit
    if rows.approximate is not None:
        answer.headers["quire-approximate"] = rows.approximate
    return answer


def explain(call: Call) -> Answer:
    wanted = call.decoded(Explaining)
    snap = call.snapshot()
    graph, query = Graph(call.lake()), text(wanted.query)
    how: dict[str, Any] = {"exact": wanted.exact, "nprobes": wanted.nprobes, "refine": wanted.refine}
    found = graph.explain(query, wanted.which, at=snap, analyze=wanted.analyze, params=wanted.params, **how)
    return Answer({"commit": snap.commit, **found.to_dict()})


def lint(call: Call) -> Answer:
    wanted = call.decoded(Linting)
    snap = call.snapshot()
    found = Graph(call.lake()).lint(text(wanted.queries), snap)
    return Answer({"commit": snap.commit, "findings": [one.to_dict() for one in found]})


def store(call: Call) -> Answer:
    wanted = call.decoded(Storing)
    lake = call.lake(wanted.branch)
    options: TransactionOptions = {"token": token_of(call), "metadata": noted(wanted.metadata)}
    return Answer({"stored": Graph(lake).store(text(wanted.queries), message=wanted.message, **options)})


def unstore(call: Call) -> Answer:
    Graph(call.lake()).unstore(call.path["query"], token=token_of(call), metadata=noted({}))
    return Answer(status=204, body=b"")


def mutate(call: Call) -> Answer:
    body = call.body.whole()
    wanted = decoded(body, Mutating)
    lake = call.lake(wanted.branch)
    digest = hashlib.sha256(body).hexdigest()
    options: TransactionOptions = {
        "token": token_of(call),
        "if_head": if_head(call, lake, wanted.if_head),
        "timeout": wanted.timeout,
        "metadata": {**noted(wanted.metadata), BODY: digest},
    }
    first = first_of(lake, options["token"])
    if first is not None:
        check_same(lake, first, digest)
        again: dict[str, Any] = {"commit": first.commit, "inserted": {}, "updated": {}, "deleted": {}, "repeated": True}
        again["receipt"] = first.to_dict()
        return Answer(again, headers={"idempotency-replayed": "true"})
    done = Graph(lake).mutate(
        text(wanted.query), wanted.which, params=wanted.params, message=wanted.message, options=options
    )
    return Answer({**done.to_dict(), "receipt": done.receipt.to_dict() if done.receipt else None})


def load(call: Call) -> Answer:
    """Rows of any types in one commit, checked against all rules; the body is read as it arrives."""
    asked: LoadAsked = call.query
    meta = dict(one.partition("=")[::2] for one in asked.meta)
    lake = call.lake()
    options: TransactionOptions = {
        "token": token_of(call),
        "metadata": noted(meta),
        "if_head": if_head(call, lake, asked.if_head),
        "timeout": asked.timeout,
    }
    form = None if asked.csv is None else json_value(asked.csv, "csv")
    source = io.BufferedReader(BodyFile(call.body), 1 << 16)
    done = Graph(lake).load(
        source,
        asked.mode,
        type=asked.type,
        edge=asked.edge,
        format=asked.format,
        csv=form,
        dry_run=asked.dry_run,
        max_errors=asked.max_errors,
        skip_rejects=asked.skip_rejects if asked.skip_rejects > 0 else asked.skip_rejects < 0,
        message=asked.message,
        options=options,
    )
    answer = Answer({**done.to_dict(), "receipt": done.receipt.to_dict() if done.receipt else None})
    if done.repeated:
        answer.headers["idempotency-replayed"] = "true"
    return answer


# -- blobs -------------------------------------------------------------------------------------------------------------


def blob(call: Call) -> Answer:
    """The bytes of a blob, or one range of them."""
    snap = call.snapshot()
    kind, name = call.path["type"], call.path["property"]
    found: Blob | None
    if call.query.by == "row":
        catalog = Graph(call.lake()).catalog(snap)
        entity = catalog.edge(kind) if kind in {e.name for e in catalog.edges} else catalog.node(kind)
        found = open_blob(snap, entity, call.path["id"], name)
    else:
        key = json_value(call.path["id"], "id")
        found = Graph(call.lake()).blob(kind, key if not isinstance(key, list) else tuple(key), name, snap)
    if found is None:
        raise NotFound(f"{name!r} of this {kind} is null.", next="Look at its other properties.")
    first, last = _range(call.headers.get("range", ""), found.size)
    answer = Answer(stream=_pieces(found, first, last), media_type="application/octet-stream")
    answer.headers |= {"accept-ranges": "bytes", "content-disposition": "attachment"}
    if (first, last) != (0, found.size - 1):
        answer.status = 206
        answer.headers["content-range"] = f"bytes {first}-{last}/{found.size}"
    return at_commit(call, call.lake(), snap.commit, answer)


def _range(header: str, size: int) -> tuple[int, int]:
    """The first and last byte that are asked for. More than one range is answered with the whole."""
    asked = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip())
    if asked is None or (not asked[1] and not asked[2]):
        return 0, size - 1
    if not asked[1]:
        first, last = max(0, size - int(asked[2])), size - 1
    else:
        first, last = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
    if first > last:
        error = InvalidInput(f"The blob has {size} bytes.", next="Ask for a range within.", size=size)
        raise HttpRefusal(416, error, {"content-range": f"bytes */{size}"})
    return first, last


def _pieces(found: Blob, first: int, last: int) -> Iterator[bytes]:
    at = first
    while at <= last:
        piece = found.read_range(at, min(PIECE, last - at + 1))
        at += len(piece)
        yield piece


def text(given: str) -> str:
    """A text of a language, and never a name of a file: those have one line only."""
    return f"{given}\n"
