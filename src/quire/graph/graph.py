"""A graph on a lake: the face of schemas, loads, mutations and queries.

graph = Graph(lake)
graph.apply_schema("node Person { name: String @key }")
graph.load("people.jsonl", mode="merge")
graph.query("query all() { match { $p: Person } return { $p.name } }").to_pylist()
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import InvalidInput, InvalidQuery, NotFound
from quire.graph import load as loading
from quire.graph import mutate as mutating
from quire.graph import query as reading
from quire.graph import stored as storing
from quire.graph.around import Neighbour, find_node, id_of, neighbours
from quire.graph.blobs import Blob, open_blob
from quire.graph.catalog import VALIDATOR, Catalog
from quire.graph.embed.fill import Vectors, asked_with
from quire.graph.export import chosen, frames, to_networkx, write_ndjson
from quire.graph.find import Find, find
from quire.graph.language import bind, check, lint, parse, plan, tree
from quire.graph.names import nearest
from quire.graph.schema.apply import Applied, apply
from quire.graph.schema.picture import picture
from quire.graph.schema.plan import Plan
from quire.graph.schema.plan import plan as plan_of
from quire.graph.schema.show import show
from quire.lake import engines
from quire.ledger import TableInfo

if TYPE_CHECKING:
    import networkx

    from quire.graph.embed import Embedder
    from quire.graph.language import Finding
    from quire.graph.load.receipt import LoadReceipt
    from quire.graph.mutate import MutationReceipt
    from quire.graph.query.explained import Explained
    from quire.lake import Lake, Rows, Snapshot, Table
    from quire.lake.transaction import Transaction

KEPT = 64
"""Checked queries that are remembered."""

Infos = tuple[TableInfo, ...]
Text = str | os.PathLike[str]
"""The text of a schema or of queries, or the path of a file that holds it."""


class Graph:
    """The graph of a lake, on the branch of its handle. It keeps nothing but what can be read again.

    `embedder` makes the vectors of `@embed` properties, and of texts that `nearest` is asked with.
    """

    def __init__(self, lake: Lake, *, embedder: Embedder | None = None) -> None:
        if isinstance(lake, str | os.PathLike):
            raise InvalidInput(f"A graph is of a lake, not of {os.fspath(lake)!r}.", next="Write Graph(quire.open(…)).")
        self.lake = lake
        self.embedder = embedder
        self._catalogs: OrderedDict[Infos, Catalog] = OrderedDict()
        self._checked: OrderedDict[tuple[str, str | None, Infos], plan.Query] = OrderedDict()

    # -- schema -----------------------------------------------------------------------------------------------

    def catalog(self, at: Snapshot | None = None) -> Catalog:
        """The types of the graph, now or at a snapshot. It costs no request of its own."""
        return self._catalog(_infos(self._at(at)))

    def schema(self, at: Snapshot | None = None) -> str:
        """The schema as text."""
        return show(self.catalog(at))

    def picture(self, at: Snapshot | None = None) -> str:
        """The schema as an SVG."""
        return picture(self.catalog(at))

    def plan_schema(self, schema: Text, *, drop_data: bool = False) -> Plan:
        """What applying a schema would do, and what stands against it. Nothing is changed."""
        text, file = _read(schema)
        snapshot = self.lake.snapshot()
        return plan_of(self.catalog(snapshot), text, file=file, drop_data=drop_data, snapshot=snapshot)

    def apply_schema(
        self, schema: Text, *, drop_data: bool = False, message: str | None = None, **options: Any
    ) -> Applied:
        """Make the graph have this schema, in one commit over all types; `SchemaRefused` lists what stands against it.

        `drop_data=True` allows to drop types and properties that hold data. A schema that is there already makes no
        commit. `options` are those of `lake.transaction`.
        """
        text, file = _read(schema)
        applied = Applied((), self.catalog())  # if the token was used before, there is nothing to do
        with self.lake.transaction(message or "apply schema", **{"fresh": True, **options}) as tx:
            applied = apply(tx, text, file=file, drop_data=drop_data)
        return replace(applied, receipt=tx.receipt)

    # -- rows -------------------------------------------------------------------------------------------------

    def load(
        self,
        source: Any,
        mode: Literal["append", "merge", "overwrite"] = "append",
        *,
        type: str | None = None,
        edge: str | None = None,
        dry_run: bool = False,
        engine: Any = "local",
        message: str | None = None,
        options: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> LoadReceipt:
        """Load rows of any number of types in one commit; see `quire.graph.load.load` for sources and modes.

        With a Spark session as `engine` its executors read and write the rows; `"auto"` is the running session for a
        source that is large (`quire.lake.engines`), and this process otherwise. `options` are those of
        `lake.transaction`.
        """
        session = engines.chosen(engine, lambda: loading.size_of(source))
        if session is not None:
            how = {"type": type, "edge": edge, "dry_run": dry_run, "message": message, "options": options, **how}
            loaded: LoadReceipt = engines.provided(session, "graph").load(session, self, source, mode, **how)
            return loaded
        tx = self.lake.transaction(message or f"load ({mode})", **{"fresh": True, **dict(options or {})})
        done = loading.LoadReceipt(mode)  # if the token was used before, there is nothing to do
        with tx:
            how = {"embedder": self.embedder, "complete": True, **how}
            done = loading.load(tx, source, mode, type=type, edge=edge, dry_run=dry_run, **how)
        return done if dry_run else done.committed(tx)

    def mutate(
        self,
        query: Text,
        which: str | None = None,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        message: str | None = None,
        options: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> MutationReceipt:
        """Run the statements of a mutation as one commit, again when somebody else came first.

        `options` are those of `lake.transaction`: `if_head="12.0"` makes it conditional.
        """
        text, which, file = self._text(query, which)
        made: list[Transaction] = []
        vectors = Vectors(self.embedder, remember=True)

        def run(tx: Transaction) -> MutationReceipt:
            made.append(tx)
            checked = self._compiled(text, which, _infos(tx), file)
            if not isinstance(checked.body, plan.Mutation):
                raise InvalidQuery(f"{checked.name} reads.", next="Run it with query (`quire query`).")
            given = bind(checked, {**dict(params or {}), **values})
            return mutating.run(tx, checked.body, given, vectors=vectors)

        how = {"fresh": True, **dict(options or {})}
        done = self.lake.transact(run, message or f"mutate {which or ''}".strip(), **how)
        done = done or mutating.MutationReceipt()
        return done.committed(made[-1]) if made else done

    # -- queries ----------------------------------------------------------------------------------------------

    def check(self, query: Text, which: str | None = None, /, *, at: Snapshot | None = None) -> plan.Query:
        """What a query means in this graph, read or mutation: its parameters and their types, without running it."""
        snapshot = self._at(at)
        text, which, file = self._text(query, which, snapshot)
        return self._compiled(text, which, _infos(snapshot), file)

    def query(
        self,
        query: Text,
        which: str | None = None,
        /,
        *,
        at: Snapshot | None = None,
        engine: Any = "local",
        params: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Rows:
        """The rows of a read: its text, the path of a file, or the name of a stored query.

        `which` names one of several queries in a text. Parameters are given by name; `params` takes those that are
        called like an argument of this method. With a Spark session as `engine` it is Spark that reads and joins, and
        the same rows are collected; `"auto"` is the running session where the tables that the query reads are large
        (`quire.lake.engines`). `quire.spark.query` collects nothing.
        """
        snapshot = self._at(at)
        checked = self._read_query(query, which, snapshot)
        given = bind(checked, {**dict(params or {}), **values})
        session = engines.chosen(engine, lambda: reading.size_of(checked, snapshot))
        embed = asked_with(self.embedder)
        if session is not None:
            rows: Rows = engines.provided(session, "query_run").run(session, checked, snapshot, given, embed=embed)
            return rows
        return reading.run(checked, snapshot, given, embed=embed)

    def explain(
        self,
        query: Text,
        which: str | None = None,
        /,
        *,
        at: Snapshot | None = None,
        analyze: bool = False,
        engine: Any = "local",
        params: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Explained:
        """How a read would be answered: plan, what is pushed into scans, SQL; with `analyze` it is run and counted.

        The SQL is that of the `engine`, which is chosen as in `query`.
        """
        snapshot = self._at(at)
        checked = self._read_query(query, which, snapshot)
        given = bind(checked, {**dict(params or {}), **values})
        session = engines.chosen(engine, lambda: reading.size_of(checked, snapshot))
        how: dict[str, Any] = {"embed": asked_with(self.embedder), "analyze": analyze}
        if session is not None:
            told: Explained = engines.provided(session, "query_run").explain(session, checked, snapshot, given, **how)
            return told
        return reading.explain(checked, snapshot, given, **how)

    def lint(self, queries: Text, at: Snapshot | None = None) -> list[Finding]:
        """Everything wrong or doubtful about the queries of a text, without running them."""
        text, file = _read(queries)
        return lint(text, self.catalog(at), file=file)

    # -- without a language -----------------------------------------------------------------------------------

    def find(self, type: str, name: str | None = None, /, *, at: Snapshot | None = None, **equal: Any) -> Find:
        """A read that is put together by calls, beginning with the nodes of a type; see `quire.graph.find`.

        `graph.find("Person", name="Ada").out("knows").order("-age").limit(10).to_pylist()`
        """
        return find(self, type, name, at, equal)

    def node(self, type: str, *key: Any, at: Snapshot | None = None) -> dict[str, Any] | None:
        """A node by the values of its key, or by its id where its type has none. Blobs are left out."""
        snapshot = self._at(at)
        return find_node(snapshot, self.catalog(snapshot).node(type), key)

    def neighbours(
        self,
        type: str,
        *key: Any,
        edge: str | None = None,
        direction: Literal["out", "in", "both"] = "both",
        limit: int | None = None,
        at: Snapshot | None = None,
    ) -> list[Neighbour]:
        """The edges of a node and the nodes at their other ends; `limit` holds for each type of edge and direction."""
        snapshot = self._at(at)
        catalog = self.catalog(snapshot)
        return neighbours(snapshot, catalog, catalog.node(type), key, edge=edge, direction=direction, limit=limit)

    def blob(self, type: str, key: Any, property: str, at: Snapshot | None = None) -> Blob | None:
        """A blob of a node by its key (of several values: a tuple), or of an edge by its id, to be read by range.

        None where it is null; `NotFound` where there is no such node or edge.
        """
        snapshot = self._at(at)
        catalog = self.catalog(snapshot)
        edge = type in {e.name for e in catalog.edges}
        entity = catalog.edge(type) if edge else catalog.node(type)
        id = str(key) if edge else id_of(entity, key if isinstance(key, tuple | list) else (key,))
        return open_blob(snapshot, entity, id, property)

    def table(self, type: str, at: Snapshot | None = None) -> Table:
        """The table of a node or edge type, to scan, search or hand on."""
        snapshot = self._at(at)
        [entity] = [e for e in chosen(self.catalog(snapshot), [type]) if e.name == type]
        return snapshot[entity.table]

    def frames(
        self,
        kind: Literal["arrow", "pandas", "polars"] = "pandas",
        types: Collection[str] | None = None,
        at: Snapshot | None = None,
    ) -> dict[str, Any]:
        """Every type as one frame, by its name, all of one commit; blobs are left out.

        Where `types` names node types alone, the edges between them come along.
        """
        snapshot = self._at(at)
        return frames(snapshot, chosen(self.catalog(snapshot), types), kind)

    def to_networkx(self, types: Collection[str] | None = None, at: Snapshot | None = None) -> networkx.MultiDiGraph:
        """The graph for networkx: nodes are `(type, id)`, the key of an edge is its id; both carry what they have."""
        snapshot = self._at(at)
        catalog = self.catalog(snapshot)
        return to_networkx(snapshot, catalog, chosen(catalog, types))

    def export(
        self, path: str | os.PathLike[str], types: Collection[str] | None = None, at: Snapshot | None = None
    ) -> dict[str, int]:
        """Write NDJSON that `load` reads again, `.gz` compressed; how many rows of each type there are."""
        snapshot = self._at(at)
        return write_ndjson(snapshot, chosen(self.catalog(snapshot), types), path)

    # -- stored queries ---------------------------------------------------------------------------------------

    def store(self, queries: Text, *, message: str | None = None, **options: Any) -> list[str]:
        """Keep the queries of a text in the lake, each under its name; one that is there is replaced."""
        text, file = _read(queries)
        names: list[str] = []
        with self.lake.transaction(message or "store queries", **options) as tx:
            names = storing.store(tx, text, self._catalog(_infos(tx)), file=file)
        return names

    def unstore(self, *names: str, message: str | None = None, **options: Any) -> None:
        """Remove stored queries; all of them must be there. Earlier commits keep them."""
        with self.lake.transaction(message or f"remove {', '.join(names)}", **options) as tx:
            storing.remove(tx, names)

    def stored(self, at: Snapshot | None = None) -> dict[str, str]:
        """The stored queries by name, now or at a snapshot."""
        return storing.stored(self._at(at))

    # -- plumbing ---------------------------------------------------------------------------------------------

    def _read_query(self, query: Text, which: str | None, snapshot: Snapshot) -> plan.Query:
        checked = self.check(query, which, at=snapshot)
        if not checked.is_read:
            raise InvalidQuery(f"{checked.name} changes the graph.", next="Run it with mutate (`quire mutate`).")
        return checked

    def _at(self, at: Snapshot | None) -> Snapshot:
        """The snapshot that was given, which may be of a lake without tables, or the newest one."""
        from quire.lake.snapshot import Snapshot

        if at is not None and not isinstance(at, Snapshot):
            raise InvalidInput(f"at is a snapshot, not {at!r}.", next="Write at=graph.lake.at(commit=…).")
        return self.lake.snapshot() if at is None else at

    def _text(self, query: Text, which: str | None, at: Snapshot | None = None) -> tuple[str, str | None, str]:
        """The text that a query is in, its name there, and the file that the text is from."""
        if not isinstance(query, str) or "{" in query or _is_path(query):
            text, file = _read(query)
            return text, which, file
        stored = self.stored(at)
        if query not in stored:
            raise storing.missing(query, list(stored))
        return stored[query], query, ""

    def _catalog(self, infos: Infos) -> Catalog:
        found = self._catalogs.get(infos)
        if found is None:
            found = self._catalogs[infos] = Catalog.of(infos)
            _forget(self._catalogs)
        return found

    def _compiled(self, text: str, which: str | None, infos: Infos, file: str = "") -> plan.Query:
        key = (text, which, infos)
        found = self._checked.get(key)
        if found is None:
            queries = parse(text, file=file).queries
            chosen = [q for q in queries if which is None or q.name == which]
            if len(chosen) != 1:
                raise _not_one(queries, which, file)
            found = self._checked[key] = check(chosen[0], self._catalog(infos), file=file)
            _forget(self._checked)
        return found

    def __repr__(self) -> str:
        return f"<Graph on {self.lake!r}>"


def _infos(at: Snapshot | Transaction) -> Infos:
    """The records of the tables of a graph, which hold its catalog."""
    from quire.lake.snapshot import Snapshot

    state = at._state if isinstance(at, Snapshot) else at.at
    return tuple(t.info for t in state.tables.values() if t.info.validator == VALIDATOR)


def _not_one(queries: Sequence[tree.Query], which: str | None, file: str) -> InvalidQuery:
    """There is no query of this name in a text, or more than one query and no name."""
    names, where = [q.name for q in queries], file or "the text"
    said = f"There is no query {which!r} in {where}." if which else f"There are {len(names)} queries in {where}."
    if which in names:
        said = f"There is more than one query {which!r} in {where}."
    near = nearest(which, names) if which and which not in names else ""
    return InvalidQuery(said, next=near or (f"Say which: {', '.join(names)}." if names else "Write one."))


def _forget(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)


def _is_path(text: str) -> bool:
    """Whether a text is but the name of a file."""
    return "{" not in text and "\n" not in text and text.endswith((".pg", ".gq"))


def _read(given: Text) -> tuple[str, str]:
    """A text and the file that it is from: a path, a name that ends in .pg or .gq, or the text itself."""
    if isinstance(given, str) and not _is_path(given):
        return given, ""
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(f"A text or the path of a file is wanted, not {given!r}.", next="Give a str or a Path.")
    path = Path(given)
    try:
        return path.read_text("utf-8"), str(path)
    except FileNotFoundError:
        raise NotFound(f"There is no file {str(path)!r}.", next="Give the path of a file that is there.") from None
    except UnicodeDecodeError:
        raise InvalidQuery(f"{str(path)!r} is not UTF-8 text.", next="Save it as UTF-8.") from None
    except OSError as error:
        raise InvalidInput(
            f"{str(path)!r} cannot be read: {error.strerror}.", next="Give a file that you may read."
        ) from None
