"""The graph of a lake behind a server.

Types, checks and lint come from the schema, which is asked for once a commit; what reads rows goes over the snapshot's
tables; queries, loads and mutations are run by the server.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.client.graph_loads import body_of
from quire.client.reading import RemoteSnapshot, refuse_engine
from quire.client.told import receipt_of
from quire.client.transport import key_of, segment
from quire.errors import InvalidInput, NotFound, Unsupported
from quire.graph import stored_queries
from quire.graph.catalog import Catalog
from quire.graph.graph import Graph, not_one, read_text, reading_only
from quire.graph.language import Finding, ast, bind, check, lint, parse
from quire.graph.reading.export import chosen, frames, to_networkx, write_ndjson
from quire.graph.reading.find import Find, find
from quire.graph.reading.neighbours import Neighbour, find_node, id_of, neighbours
from quire.graph.schema.diagram import picture
from quire.lake.read.row_history import RowHistory
from quire.lake.read.table import Rows
from quire.progress import Progress
from quire.rowfiles.write import to_json

if TYPE_CHECKING:
    import networkx

    from quire.client.lake import RemoteLake
    from quire.graph.language import plan
    from quire.graph.load.receipt import LoadReceipt
    from quire.graph.mutate import MutationReceipt
    from quire.graph.query.explain_report import Explained
    from quire.graph.schema.apply import Applied

KEPT = 64


@dataclass(frozen=True)
class TypeRecord:
    """What the lake keeps of a type with its table."""

    id: str
    name: str
    validator: str
    rules: str


class RemoteGraph(Graph):
    """The verbs of `quire.Graph` on a lake behind a server. The server's embedder makes vectors."""

    lake: Any

    def __init__(self, lake: RemoteLake, *, embedder: Any = None) -> None:
        if embedder is not None:
            raise Unsupported(
                "An embedder is not used through a server.", next="Let the server make vectors, or give them as values."
            )
        self.lake: Any = lake
        self.embedder = None
        self._catalogs_at: OrderedDict[str, tuple[str, Catalog]] = OrderedDict()

    # -- the schema -------------------------------------------------------------------------------------------

    def _told(self, at: RemoteSnapshot) -> tuple[str, Catalog]:
        key = f"{at.branch}:{at.commit}"
        if key not in self._catalogs_at:
            told = self.lake.server.ask("GET", "schema", query=at.at)
            records: Any = [TypeRecord(**one) for one in told["types"]]
            self._catalogs_at[key] = told["schema"], Catalog.of(records)
            while len(self._catalogs_at) > KEPT:
                self._catalogs_at.popitem(last=False)
        return self._catalogs_at[key]

    def _at(self, at: Any) -> Any:
        if at is not None and not isinstance(at, RemoteSnapshot):
            raise InvalidInput(f"at takes a snapshot of this lake, not {at!r}.", next="Write at=lake.at(commit=…).")
        return self.lake.snapshot() if at is None else at

    def catalog(self, at: Any = None) -> Catalog:
        """The types of the graph, now or at a snapshot."""
        return self._told(self._at(at))[1]

    def schema(self, at: Any = None) -> str:
        """The schema as text."""
        return self._told(self._at(at))[0]

    def plan_schema(self, schema: Any, *, drop_data: bool = False, break_queries: bool = False) -> Any:
        """What applying a schema would do, and what prevents it. Nothing is changed."""
        from quire.client.graph_plans import RemoteSchemaPlan

        asked = {"schema": read_text(schema)[0], "drop_data": drop_data, "break_queries": break_queries}
        asked |= {"branch": self.lake.branch_name}
        return RemoteSchemaPlan.of(self.lake.server.ask("POST", "schema/plan", asked))

    def apply_schema(
        self,
        schema: Any,
        *,
        drop_data: bool = False,
        break_queries: bool = False,
        message: str | None = None,
        table_format: str | None = None,
        **options: Any,
    ) -> Applied:
        """Make the graph have this schema, in one commit over all types; see `Graph.apply_schema`."""
        from quire.client.graph_plans import step_of
        from quire.graph.schema.apply import Applied

        asked = {"schema": read_text(schema)[0], "drop_data": drop_data, "break_queries": break_queries}
        asked |= {"table_format": table_format}
        told = self._write("schema/apply", {**asked, "message": message}, options)
        receipt = None if told["receipt"] is None else receipt_of(told["receipt"])
        return Applied(tuple(map(step_of, told["steps"])), self.catalog(), receipt)

    def _write(self, path: str, asked: dict[str, Any], options: Mapping[str, Any] | None) -> Any:
        """A request that commits, once however often it is sent."""
        how = {n: v for n, v in (options or {}).items() if v is not None and n not in ("token", "fresh")}
        if how.pop("author", None) is not None:
            raise Unsupported("The author is whom the token names.", next="Leave author= out.")
        if how.pop("isolation", "snapshot") != "snapshot":
            raise Unsupported("This verb has one isolation through a server.", next="Leave isolation= out.")
        if not how.get("expect"):
            how.pop("expect", None)
        given = {name: value for name, value in {**asked, **how}.items() if value is not None}
        key = key_of((options or {}).get("token"))
        return self.lake.server.ask(
            "POST",
            path,
            body=to_json({**given, "branch": self.lake.branch_name}),
            headers={"idempotency-key": key, "content-type": "application/json"},
            again=True,
        )

    # -- rows -------------------------------------------------------------------------------------------------

    def load(
        self,
        source: Any,
        mode: Literal["append", "merge", "overwrite"] = "append",
        *,
        type: str | None = None,
        edge: str | None = None,
        format: Any = None,
        csv: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        max_errors: int = 20,
        rejects: Any = None,
        skip_rejects: bool | int = False,
        progress: Progress | None = None,
        engine: Any = "local",
        message: str | None = None,
        options: Any = None,
    ) -> LoadReceipt:
        """Load rows of any types in one commit; see `Graph.load`. Files are read here and sent as they are read."""
        from quire.client.graph_plans import loaded

        refuse_engine(engine)
        if rejects is not None:
            raise Unsupported(
                "Rejected rows are not written to a file through a server.",
                next="Look at the violations of the receipt, or open the lake itself.",
            )
        how = dict(options or {})
        if how.pop("expect", None) or how.pop("isolation", "snapshot") != "snapshot" or how.pop("author", None):
            raise Unsupported("A load through a server takes no expect, isolation or author.", next="Leave them out.")
        body, kind = body_of(source, format)
        skipped = -1 if skip_rejects is True else int(skip_rejects)
        asked: dict[str, Any] = {"mode": mode, "type": type, "edge": edge, "message": message, "format": kind}
        asked |= {"dry_run": "true" if dry_run else "false", "max_errors": max_errors, "skip_rejects": skipped}
        asked |= {"branch": self.lake.branch_name, "if_head": how.get("if_head"), "timeout": how.get("timeout")}
        asked |= {"csv": None if csv is None or kind != "csv" else json.dumps(dict(csv))}
        asked |= {"meta": [f"{name}={value}" for name, value in (how.get("metadata") or {}).items()]}
        headers = {"idempotency-key": key_of(how.get("token")), "content-type": "application/octet-stream"}
        if progress is not None:
            progress("loading", 0, 1)
        return loaded(self.lake.server.send("load", body, query=asked, headers=headers))

    def mutate(
        self,
        query: Any,
        which: str | None = None,
        /,
        *,
        params: Mapping[str, Any] | None = None,
        message: str | None = None,
        options: Any = None,
        **values: Any,
    ) -> MutationReceipt:
        """Run the statements of a mutation as one commit; see `Graph.mutate`."""
        from quire.graph.mutate import MutationReceipt

        text, which, _ = self._text(query, which)
        asked = {"query": text, "which": which, "params": {**dict(params or {}), **values}, "message": message}
        told = self._write("mutate", asked, options)
        counts = {name: told.get(name, {}) for name in ("inserted", "updated", "deleted", "unembedded")}
        return MutationReceipt(**counts, receipt=None if told["receipt"] is None else receipt_of(told["receipt"]))

    def embed(self, types: Any = None, **how: Any) -> Any:
        """Not through a server."""
        raise Unsupported(
            "Vectors that texts lack are not made through a server: the embedder is asked by a process of its own.",
            next="Open the lake itself, such as s3://bucket/lake, and call embed there.",
        )

    def history(self, type: str, *key: Any, limit: int | None = None) -> RowHistory:
        """Every version of a node by its key, or of an edge by its id, newest first."""
        catalog = self.catalog()
        edge = type in {e.name for e in catalog.edges}
        entity = catalog.edge(type) if edge else catalog.node(type)
        id = str(key[0]) if edge and len(key) == 1 else id_of(entity, key)
        found: RowHistory = self.lake.history(entity.table, id, limit=limit).renamed(entity.shown)
        return found

    # -- queries ----------------------------------------------------------------------------------------------

    def check(self, query: Any, which: str | None = None, /, *, at: Any = None) -> plan.Query:
        """What a query means in this graph, without running it."""
        snapshot = self._at(at)
        text, which, file = self._text(query, which, snapshot)
        queries = parse(text, file=file).queries
        named: list[ast.Query] = [q for q in queries if which is None or q.name == which]
        if len(named) != 1:
            raise not_one(queries, which, file)
        return check(named[0], self.catalog(snapshot), file=file)

    def query(
        self,
        query: Any,
        which: str | None = None,
        /,
        *,
        at: Any = None,
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
        """The rows of a read: its text, the path of a file, or the name of a stored query. They stream."""
        refuse_engine(engine)
        snapshot = self._at(at)
        asked = self._asked(query, which, snapshot, {**dict(params or {}), **values})
        asked |= {"timeout": timeout, "memory": memory, "max_rows": max_rows}
        asked |= {"exact": exact, "nprobes": nprobes, "refine": refine}
        return Rows(self.lake.server.rows("POST", "query", body=to_json(asked), query=snapshot.at))

    def _invoke(self, query: str) -> None:
        """The server judges what it is asked."""

    def _asked(self, query: Any, which: str | None, at: RemoteSnapshot, values: dict[str, Any]) -> dict[str, Any]:
        text, which, _ = self._text(query, which, self._at(at))
        bind(reading_only(self.check(query, which, at=at)), values)  # a wrong value is told before it is sent
        return {"query": text, "which": which, "params": values}

    def explain(
        self,
        query: Any,
        which: str | None = None,
        /,
        *,
        at: Any = None,
        analyze: bool = False,
        engine: Any = "local",
        params: Mapping[str, Any] | None = None,
        exact: bool = False,
        nprobes: int | None = None,
        refine: int | None = None,
        **values: Any,
    ) -> Explained:
        """How the server answers a read; with `analyze` it is run and counted."""
        from quire.graph.query.explain_report import Explained, Scanned

        refuse_engine(engine)
        snapshot = self._at(at)
        asked = {**self._asked(query, which, snapshot, {**dict(params or {}), **values}), "analyze": analyze}
        asked |= {"exact": exact, "nprobes": nprobes, "refine": refine}
        told = self.lake.server.ask("POST", "explain", body=to_json(asked), query=snapshot.at)
        lists = ("columns", "indexes")
        scans = tuple(Scanned(**{**one, **{n: tuple(one[n]) for n in lists}}) for one in told["scans"])
        del told["commit"]
        return Explained(**{**told, "tree": tuple(told["tree"]), "scans": scans})

    def blob(self, type: str, key: Any, property: str, at: Any = None) -> Any:
        """A blob of a node by its key, or of an edge by its id, to be read by range; None where it is null."""
        text = json.dumps(list(key) if isinstance(key, tuple | list) else key, default=str)
        return self._blob(self._at(at), type, text, property, by="key")

    def _blob(self, at: RemoteSnapshot, type: str, id: str, property: str, *, by: str) -> Any:
        server = self.lake.server
        path = f"{server.base}/blobs/{segment(type)}/{segment(id)}/{segment(property)}"
        try:
            return RemoteBlob(server.transport, path, {**at.at, "by": by}, f"{type}.{property}")
        except NotFound as error:
            if "is null" in error.message:
                return None
            raise

    def export(self, path: Any, types: Collection[str] | None = None, at: Any = None) -> dict[str, int]:
        """Write NDJSON that `load` reads again, `.gz` compressed; how many rows of each type there are."""
        snapshot = self._at(at)

        def blob(entity: Any, property: str, id: str) -> bytes | None:
            found = self._blob(snapshot, entity.name, id, property, by="row")
            return None if found is None else found.readall()

        return write_ndjson(snapshot, chosen(self.catalog(snapshot), types), path, blob)

    # -- the same verbs, whose snapshots are of a server ------------------------------------------------------

    def picture(self, at: Any = None) -> str:
        """The schema as an SVG."""
        return picture(self.catalog(at))

    def lint(self, queries: Any, at: Any = None) -> list[Finding]:
        """Everything wrong or doubtful about the queries of a text, without running them."""
        text, file = read_text(queries)
        return lint(text, self.catalog(at), file=file)

    def find(self, type: str, name: str | None = None, /, *, at: Any = None, **equal: Any) -> Find:
        """A read that is put together by calls, beginning with the nodes of a type."""
        return find(self, type, name, at, equal)

    def node(self, type: str, *key: Any, at: Any = None) -> dict[str, Any] | None:
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
        at: Any = None,
    ) -> list[Neighbour]:
        """The edges of a node and the nodes at their other ends."""
        snapshot = self._at(at)
        catalog = self.catalog(snapshot)
        return neighbours(snapshot, catalog, catalog.node(type), key, edge=edge, direction=direction, limit=limit)

    def table(self, type: str, at: Any = None) -> Any:
        """The table of a node or edge type, to scan, search or hand on."""
        snapshot = self._at(at)
        [entity] = [e for e in chosen(self.catalog(snapshot), [type]) if e.name == type]
        return snapshot[entity.table]

    def frames(
        self,
        kind: Literal["arrow", "pandas", "polars"] = "pandas",
        types: Collection[str] | None = None,
        at: Any = None,
    ) -> dict[str, Any]:
        """Every type as one frame, by its name, all of one commit; blobs are left out."""
        snapshot = self._at(at)
        return frames(snapshot, chosen(self.catalog(snapshot), types), kind)

    def to_networkx(self, types: Collection[str] | None = None, at: Any = None) -> networkx.MultiDiGraph:
        """The graph for networkx."""
        snapshot = self._at(at)
        catalog = self.catalog(snapshot)
        return to_networkx(snapshot, catalog, chosen(catalog, types))

    # -- stored queries ---------------------------------------------------------------------------------------

    def stored(self, at: Any = None) -> dict[str, str]:
        """The stored queries by name, now or at a snapshot."""
        return stored_queries.stored(self._at(at))

    def store(self, queries: Any, *, message: str | None = None, **options: Any) -> list[str]:
        """Keep the queries of a text in the lake, each under its name."""
        asked = {"queries": read_text(queries)[0], "message": message}
        found: list[str] = self._write("queries", asked, options)["stored"]
        return found

    def unstore(self, *names: str, message: str | None = None, **options: Any) -> None:
        """Remove stored queries; all of them must be there."""
        with self.lake.transaction(message or f"remove {', '.join(names)}", **options) as tx:
            stored_queries.remove(tx, names)


class RemoteBlob(io.RawIOBase):
    """A blob behind a server, as a file that is read only. It belongs to one commit and never changes."""

    def __init__(self, transport: Any, path: str, asked: dict[str, Any], name: str) -> None:
        super().__init__()
        self._transport, self._path, self._asked, self.name = transport, path, asked, name
        self._at = 0
        reply = transport.ask("GET", path, query=asked, headers={"accept": "*/*", "range": "bytes=0-0"})
        told = reply.headers.get("content-range", "")
        self.size = int(told.rpartition("/")[2]) if told else len(reply.body)

    def read_range(self, offset: int, length: int) -> bytes:
        """Bytes from `offset` on, `length` of them or as many as there are."""
        if offset < 0 or length < 0:
            raise InvalidInput(
                f"A range begins at 0 or later and is not shorter than 0, not {offset} and {length}.",
                next="Correct it.",
            )
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        span = {"accept": "*/*", "range": f"bytes={offset}-{offset + length - 1}"}
        found: bytes = self._transport.ask("GET", self._path, query=self._asked, headers=span).body
        return found

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        found = self.read_range(self._at, len(view))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        found = self.read_range(self._at, self.size)
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        to = offset + (0, self._at, self.size)[whence]
        if to < 0:
            raise ValueError(f"a blob has no place {to}")
        self._at = to
        return to

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True
