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
from typing import TYPE_CHECKING, Any, Literal, Unpack

from quire.arguments import bounded, checks_arguments
from quire.errors import InvalidInput, InvalidQuery, NotFound, Unsupported, shown
from quire.graph import load as loading
from quire.graph import mutate as mutating
from quire.graph import query as reading
from quire.graph import stored_queries as storing
from quire.graph.catalog import VALIDATOR, Catalog
from quire.graph.embed import missing as filling
from quire.graph.embed.fill import Vectors, asked_with
from quire.graph.language import ast, bind, check, lint, parse, plan
from quire.graph.names import nearest
from quire.graph.query.search.settings import Settings
from quire.graph.reading.blobs import Blob, open_blob
from quire.graph.reading.export import chosen, frames, to_networkx, write_ndjson
from quire.graph.reading.find import Find, find
from quire.graph.reading.neighbours import Neighbour, find_node, id_of, neighbours
from quire.graph.schema.apply import Applied, apply
from quire.graph.schema.diagram import picture
from quire.graph.schema.plan import Plan
from quire.graph.schema.plan import plan as plan_of
from quire.graph.schema.printer import show
from quire.graph.seen import seen_infos
from quire.graph.topology import Algorithm, Direction
from quire.graph.topology.kept import KeptColumns
from quire.lake import Lake as Opened
from quire.lake import engines
from quire.lake.commit.transaction import TransactionOptions
from quire.lake.handles import columns_seen, invoke, see_whole_graph, snapshot_of, state_of
from quire.lake.read.sql_limits import asked
from quire.ledger import TableInfo
from quire.progress import Progress, silent
from quire.prompt import Escaped, PublicNames, one_line
from quire.rowfiles.kinds import Format

if TYPE_CHECKING:
    import networkx

    from quire.graph.embed import Embedder
    from quire.graph.language import Finding
    from quire.graph.load.receipt import LoadReceipt
    from quire.graph.mutate import MutationReceipt
    from quire.graph.query.explain_report import Explained
    from quire.graph.topology.run import FoundPath
    from quire.lake import Lake, Rows, Snapshot, Table
    from quire.lake.commit.transaction import Transaction
    from quire.lake.read.row_history import RowHistory

KEPT = 64
"""Checked queries that are remembered."""

Infos = tuple[TableInfo, ...]
Text = str | os.PathLike[str]
"""The text of a schema or of queries, or the path of a file that holds it."""


@checks_arguments
class Graph(Escaped, PublicNames):
    """The graph of a lake, on the branch of its handle. It holds only a cache, so make one whenever you need it.

    `embedder` makes the vectors of `@embed` properties, and of texts that `nearest` searches for.
    """

    def __new__(cls, lake: Any, *, embedder: Embedder | None = None) -> Any:
        """A lake behind a server has a graph of its own, with the same verbs."""
        made = getattr(lake, "remote_graph", None) if cls is Graph else None
        return object.__new__(cls) if made is None else made(embedder)

    def __init__(self, lake: Lake, *, embedder: Embedder | None = None) -> None:
        if not isinstance(lake, Opened):
            raise InvalidInput(f"Graph takes a lake, not {shown(lake)}.", next="Write Graph(quire.open(…)).")
        self.lake = lake
        self.embedder = embedder
        self._columns = KeptColumns()
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

    def plan_schema(self, schema: Text, *, drop_data: bool = False, break_queries: bool = False) -> Plan:
        """What applying a schema would do, and what prevents it. Nothing is changed."""
        text, file = read_text(schema)
        snapshot = self.lake.snapshot()
        allowed = {"drop_data": drop_data, "break_queries": break_queries}
        return plan_of(self.catalog(snapshot), text, file=file, snapshot=snapshot, **allowed)

    def apply_schema(
        self,
        schema: Text,
        *,
        drop_data: bool = False,
        break_queries: bool = False,
        message: str | None = None,
        table_format: str | None = None,
        **options: Unpack[TransactionOptions],
    ) -> Applied:
        """Make the graph have this schema, in one commit over all types; `SchemaRefused` lists what prevents it.

        `drop_data=True` allows dropping types and properties that hold data, and `break_queries=True` changes after
        which stored queries no longer run. A schema that the graph has already makes
        no commit. New types are tables of `table_format`: by default of the one that the graph began with, `"lance"`.
        `options` are those of `lake.transaction`.
        """
        text, file = read_text(schema)
        see_whole_graph(self.lake, VALIDATOR)
        applied = Applied((), self.catalog())  # if the token was used before, there is nothing to do
        how: TransactionOptions = {"fresh": True, **options}
        with self.lake.transaction(message or "apply schema", **how) as tx:
            if tx.repeated() is not None:
                return replace(applied, receipt=tx.receipt)
            allowed = {"drop_data": drop_data, "break_queries": break_queries}
            applied = apply(tx, text, file=file, table_format=table_format, **allowed)
        return replace(applied, receipt=tx.receipt)

    # -- rows -------------------------------------------------------------------------------------------------

    def load(
        self,
        source: Any,
        mode: Literal["append", "merge", "overwrite"] = "append",
        *,
        type: str | None = None,
        edge: str | None = None,
        format: Format | None = None,
        csv: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        max_errors: int = 20,
        rejects: str | os.PathLike[str] | None = None,
        skip_rejects: bool | int = False,
        progress: Progress | None = None,
        engine: Any = "local",
        message: str | None = None,
        options: TransactionOptions | None = None,
    ) -> LoadReceipt:
        """Load rows of any number of types in one commit; see `quire.graph.load.load` for sources and modes.

        With a Spark session as `engine` its executors read and write the rows; `"auto"` is the running session for a
        source that is large (`quire.lake.engines`), and this process otherwise. `options` are those of
        `lake.transaction`.
        """
        session = engines.chosen(engine, lambda: loading.size_of(source))
        how: dict[str, Any] = {
            "type": type,
            "edge": edge,
            "format": format,
            "csv": csv,
            "dry_run": dry_run,
            "max_errors": max_errors,
            "rejects": rejects,
            "skip_rejects": skip_rejects,
            "progress": progress,
        }
        begun: TransactionOptions = {"fresh": True, **(options or {})}
        tx = self.lake.transaction(message or f"load ({mode})", **begun)
        tx.counts_told = False
        first = tx.repeated()
        if first is not None:
            return loading.LoadReceipt.again(mode, first, dry_run=dry_run)
        done = loading.LoadReceipt(mode)
        with tx:
            done = loading.load(tx, source, mode, embedder=self.embedder, complete=True, session=session, **how)
        return done if dry_run else done.committed(tx)

    def mutate(
        self,
        query: Text,
        which: str | None = None,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        message: str | None = None,
        options: TransactionOptions | None = None,
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
            tx.counts_told = False
            checked = self._compiled(text, which, _infos(tx), file)
            if not isinstance(checked.body, plan.Mutation):
                raise InvalidQuery(
                    f"{checked.name} is a query, not a mutation.", next="Run it with query (`quire query`)."
                )
            given = bind(checked, {**dict(params or {}), **values})
            return mutating.run(tx, checked.body, given, vectors=vectors)

        how: TransactionOptions = {"fresh": True, **(options or {})}
        done = self.lake.transact(run, message or f"mutate {which or ''}".strip(), **how)
        done = done or mutating.MutationReceipt()
        return done.committed(made[-1]) if made else done

    def embed(
        self,
        types: Sequence[str] | None = None,
        *,
        rows_per_commit: int = filling.ROWS_PER_COMMIT,
        progress: Progress | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> filling.Embedded:
        """Make the vectors of `@embed` properties that stored texts lack, in commits of bounded size.

        They lack after a load without an embedder, when `@embed` is new, and when a change of the model set them to
        null (`apply_schema(…, drop_data=True)`). Each commit stays: whatever ends the work, the next call goes on with
        the rest. A text that others change meanwhile gets the vector of what it is then. `types` are all by default.
        """
        bounded("rows_per_commit", rows_per_commit, 1, filling.MOST_PER_COMMIT)
        snapshot = self.lake.snapshot()
        properties = filling.properties_of(self.catalog(snapshot), types)
        work = filling.Missing(self.lake, self.embedder, rows_per_commit, progress or silent, message, metadata)
        return work.fill(snapshot, properties)

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
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
        exact: bool = False,
        nprobes: int | None = None,
        refine: int | None = None,
        **values: Any,
    ) -> Rows:
        """The rows of a read: its text, the path of a file, or the name of a stored query.

        `which` names one of several queries in a text. Parameters are given by name; `params` takes those that are
        called like an argument of this method. With a Spark session as `engine` it is Spark that reads and joins, and
        the same rows are collected; `"auto"` is the running session where the tables that the query reads are large
        (`quire.lake.engines`). `quire.spark.query` collects nothing.

        `timeout` in seconds, `memory` in bytes and `max_rows` end the query with `LimitExceeded`, and Ctrl-C ends it;
        without them it may take half of the memory, and more on disk. On Spark its own settings bound a query.

        The best rows of a search come from indexes where there are some. With one of vectors the answer is approximate,
        and so are ranks that are fused; `approximate` of the rows says so. `nprobes` is how many partitions of such an
        index are searched, `refine` how many times as many rows as needed are ranked by their whole vectors, and
        `exact=True` looks at every vector.
        """
        settings = Settings.of(exact, nprobes, refine)
        snapshot = self._at(at)
        checked = self._read_query(query, which, snapshot)
        given = bind(checked, {**dict(params or {}), **values})
        session = engines.chosen(engine, lambda: reading.size_of(checked, snapshot))
        embed = asked_with(self.embedder)
        if session is not None:
            if timeout is not None or memory is not None or max_rows is not None:
                raise Unsupported(
                    "timeout, memory and max_rows bound queries of this process, not of Spark.",
                    next="Leave them out and set bounds on the Spark session, or use engine='local'.",
                )
            spark = engines.provided(session, "graph_query.run")
            rows: Rows = spark.run(session, checked, snapshot, given, embed=embed)
            return rows
        with asked(timeout=timeout, memory=memory, max_rows=max_rows):
            return reading.run(checked, snapshot, given, embed=embed, settings=settings)

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
        exact: bool = False,
        nprobes: int | None = None,
        refine: int | None = None,
        **values: Any,
    ) -> Explained:
        """How a read would be answered: plan, what is pushed into scans, SQL; with `analyze` it is run and counted.

        The SQL is that of the `engine`, which is chosen as in `query`, as is how vectors are searched. `ranking` says
        what found the best rows of a search, and whether the answer is exact or approximate.
        """
        snapshot = self._at(at)
        checked = self._read_query(query, which, snapshot)
        given = bind(checked, {**dict(params or {}), **values})
        session = engines.chosen(engine, lambda: reading.size_of(checked, snapshot))
        how: dict[str, Any] = {"embed": asked_with(self.embedder), "analyze": analyze}
        if session is not None:
            spark = engines.provided(session, "graph_query.run")
            told: Explained = spark.explain(session, checked, snapshot, given, **how)
            return told
        return reading.explain(checked, snapshot, given, settings=Settings.of(exact, nprobes, refine), **how)

    def lint(self, queries: Text, at: Snapshot | None = None) -> list[Finding]:
        """Everything wrong or doubtful about the queries of a text, without running them."""
        text, file = read_text(queries)
        return lint(text, self.catalog(at), file=file)

    # -- without a language -----------------------------------------------------------------------------------

    def find(self, type: str, name: str | None = None, /, *, at: Snapshot | None = None, **equal: Any) -> Find:
        """A read that is put together by calls, beginning with the nodes of a type; see `quire.graph.reading.find`.

        `graph.find("Person", name="Ada").out("knows").order("-age").limit(10).to_pylist()`
        """
        return find(self, type, name, at, equal)

    def node(self, type: str, *key: Any, at: Snapshot | None = None) -> dict[str, Any] | None:
        """A node by the values of its key, or by its id where its type has none. Blobs are left out."""
        snapshot = self._at(at)
        return find_node(snapshot, self.catalog(snapshot).node(type), key)

    def history(self, type: str, *key: Any, limit: int | None = None) -> RowHistory:
        """Every version of a node by its key, or of an edge by its id, newest first; see `Lake.history`."""
        catalog = self.catalog()
        edge = type in {e.name for e in catalog.edges}
        entity = catalog.edge(type) if edge else catalog.node(type)
        id = str(key[0]) if edge and len(key) == 1 else id_of(entity, key)
        return self.lake.history(entity.table, id, limit=limit).renamed(entity.shown)

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

    def algorithm(
        self,
        name: Algorithm,
        edge: str,
        *,
        direction: Direction | None = None,
        weight: str | None = None,
        at: Snapshot | None = None,
        **settings: Any,
    ) -> Rows:
        """What an algorithm says of every node at the ends of an edge type: the columns `type`, `id` and its name.

        `degree`, `pagerank`, `components`, `labels` (label propagation), `core` (k-cores), and `similarity` of
        neighbours, with pairs in the columns `id` and `other`. `quire.graph.topology.algorithms` says what each can be
        told in `settings`. What the algorithms read is kept by this `Graph`, and a commit costs only what it changed.
        """
        from quire.graph.topology import run as topology

        snapshot = self._at(at)
        return topology.rows(
            self._columns,
            snapshot,
            self.catalog(snapshot),
            name,
            edge,
            direction=direction,
            weight=weight,
            settings=settings,
        )

    def write_algorithm(
        self,
        name: Algorithm,
        edge: str,
        property: str,
        *,
        direction: Direction | None = None,
        weight: str | None = None,
        message: str | None = None,
        options: TransactionOptions | None = None,
        **settings: Any,
    ) -> dict[str, int]:
        """Set a property of all nodes to what an algorithm says of them, in one commit; how many nodes of each type.

        It is computed again if nodes or edges changed before the commit.
        """
        from quire.graph.topology import run as topology

        def run(tx: Transaction) -> dict[str, int]:
            snapshot = snapshot_of(self.lake, state_of(tx).head)
            catalog = self.catalog(snapshot)
            for entity in (*topology.having(catalog, edge), catalog.edge(edge)):
                tx[entity.table].count("id is not null")  # noted as read: a change of it is a conflict
            how: dict[str, Any] = {"direction": direction, "weight": weight, "settings": settings}
            return topology.write(tx, self._columns, snapshot, catalog, name, edge, property, **how)

        how: TransactionOptions = {"fresh": True, "isolation": "serializable", **(options or {})}
        return self.lake.transact(run, message or f"{name} of {edge} as {property}", **how) or {}

    def paths(
        self,
        edge: str,
        source: Any,
        target: Any,
        *,
        direction: Direction = "out",
        weight: str | None = None,
        hops: int | None = None,
        every: bool = False,
        limit: int = 1_000,
        at: Snapshot | None = None,
    ) -> list[FoundPath]:
        """The shortest paths along an edge type between two nodes by their keys: one, or `every`, `limit` at most.

        Shortest is the fewest edges, of which `hops` may be walked, or the least sum of `weight`, a number of the
        edges that is above 0. There is none where the target cannot be reached.
        """
        from quire.graph.topology import run as topology

        snapshot = self._at(at)
        how: dict[str, Any] = {"direction": direction, "weight": weight, "hops": hops, "every": every, "limit": limit}
        ends = [key if isinstance(key, tuple | list) else (key,) for key in (source, target)]
        return topology.paths(self._columns, snapshot, self.catalog(snapshot), edge, ends[0], ends[1], **how)

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

    def store(self, queries: Text, *, message: str | None = None, **options: Unpack[TransactionOptions]) -> list[str]:
        """Keep the queries of a text in the lake, each under its name; one that is there is replaced."""
        text, file = read_text(queries)
        names: list[str] = []
        with self.lake.transaction(message or "store queries", **options) as tx:
            names = storing.store(tx, text, self._catalog(_infos(tx)), file=file)
        return names

    def unstore(self, *names: str, message: str | None = None, **options: Unpack[TransactionOptions]) -> None:
        """Remove stored queries; all of them must be there. Earlier commits keep them."""
        with self.lake.transaction(message or f"remove {', '.join(names)}", **options) as tx:
            storing.remove(tx, names)

    def stored(self, at: Snapshot | None = None) -> dict[str, str]:
        """The stored queries by name, now or at a snapshot."""
        return storing.stored(self._at(at))

    # -- plumbing ---------------------------------------------------------------------------------------------

    def _read_query(self, query: Text, which: str | None, snapshot: Snapshot) -> plan.Query:
        return reading_only(self.check(query, which, at=snapshot))

    def _at(self, at: Snapshot | None) -> Snapshot:
        return snapshot_at(self.lake, at)

    def _text(self, query: Text, which: str | None, at: Snapshot | None = None) -> tuple[str, str | None, str]:
        """The text that a query is in, its name there, and the file that the text is from."""
        if not isinstance(query, str) or "{" in query or _is_path(query):
            text, file = read_text(query)
            return text, which, file
        stored = self.stored(at)
        if query not in stored:
            raise storing.missing(query, list(stored))
        self._invoke(query)
        return stored[query], query, ""

    def _invoke(self, query: str) -> None:
        """Refuse a stored query that the actor may not run."""
        invoke(self.lake, query)

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
                raise not_one(queries, which, file)
            found = self._checked[key] = check(chosen[0], self._catalog(infos), file=file)
            _forget(self._checked)
        return found

    def __repr__(self) -> str:
        return one_line(f"<Graph on {self.lake!r}>")


def snapshot_at(lake: Lake, at: Snapshot | None) -> Snapshot:
    """The snapshot that was given, which may be of a lake without tables, or the newest one."""
    from quire.lake.read.snapshot import Snapshot

    if at is not None and not isinstance(at, Snapshot):
        raise InvalidInput(f"at takes a snapshot, not {at!r}.", next="Write at=graph.lake.at(commit=…).")
    return lake.snapshot() if at is None else at


def reading_only(checked: plan.Query) -> plan.Query:
    """A query that is no mutation."""
    if not checked.is_read:
        raise InvalidQuery(f"{checked.name} is a mutation, not a query.", next="Run it with mutate (`quire mutate`).")
    return checked


def _infos(at: Snapshot | Transaction) -> Infos:
    """The records of the tables of a graph, which hold its catalog."""
    found = tuple(t.info for t in state_of(at).tables.values() if t.info.validator == VALIDATOR)
    sees = columns_seen(at)
    return found if sees is None else seen_infos(found, sees)


def catalog_records(at: Snapshot) -> list[dict[str, str]]:
    """The records of a graph's tables as plain values, of which `Catalog.of` makes its types again elsewhere."""
    return [{"id": one.id, "name": one.name, "validator": VALIDATOR, "rules": one.rules} for one in _infos(at)]


def not_one(queries: Sequence[ast.Query], which: str | None, file: str) -> InvalidQuery:
    """There is no query of this name in a text, or more than one query and no name."""
    names, where = [q.name for q in queries], file or "the text"
    said = f"There is no query {which!r} in {where}." if which else f"There are {len(names)} queries in {where}."
    if which in names:
        said = f"There is more than one query {which!r} in {where}."
    near = nearest(which, names) if which and which not in names else ""
    return InvalidQuery(said, next=near or (f"Name one of {', '.join(names)}." if names else "Write one."))


def _forget(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)


def _is_path(text: str) -> bool:
    """Whether a text is but the name of a file."""
    return "{" not in text and "\n" not in text and text.endswith((".pg", ".gq"))


def read_text(given: Text) -> tuple[str, str]:
    """A text and the file that it is from: a path, a name that ends in .pg or .gq, or the text itself."""
    if isinstance(given, str) and not _is_path(given):
        return given, ""
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(f"Expected a text or the path of a file, not {given!r}.", next="Give a str or a Path.")
    path = Path(given)
    try:
        return path.read_text("utf-8"), str(path)
    except FileNotFoundError:
        raise NotFound(f"There is no file {str(path)!r}.", next="Check the path.") from None
    except UnicodeDecodeError:
        raise InvalidQuery(f"{str(path)!r} is not UTF-8 text.", next="Save it as UTF-8.") from None
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error.strerror}.", next="Check the permissions.") from None
