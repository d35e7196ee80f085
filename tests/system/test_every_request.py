"""A client dies at every request of every operation that writes, before and after the server acted on it.

The default run takes a sample of the requests, derived from what they are for; `make every-request` takes all of them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.laboratory.everywhere import Crash, Damage, Image, Operation, Place, Rounds, uncovered

import quire
import quire.delta
from quire.formats import Handed, tasks
from quire.graph.embed import HashEmbedder
from quire.ledger import CHECKPOINT_EVERY
from quire.testing.proxy import Request, Side
from quire.testing.s3 import SeaweedFS

EVERY = int(os.environ.get("QUIRE_EVERY_REQUEST", "0"))
"""1: every request; 5: every fifth; 0: the request that decides, and one more."""
AT_ONCE = 8
OTHERS = 1

Program = Callable[[quire.Transaction], Any]

# -- prepared lakes ---------------------------------------------------------------------------------------------------

PEOPLE = [{"id": n, "name": f"p{n}", "city": "Bath"} for n in range(4)]
GRAPH = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
READ = "query all() { match { $p: Person } return { $p.name } }"
CHANGE = """query change() {
  insert Person { name: "Di" }
  update Person set { age: 1 } where name = "Ada"
  delete Person where name = "Bo"
}"""
EVENTS = [{"person": n, "what": "born", "at": n} for n in range(4)]


def plain(uri: str, options: dict[str, str]) -> None:
    """Three tables, an index, a tag, a branch that is ahead of main, and a Lance table that belongs to nobody."""
    with quire.create(uri, storage_options=options) as lake:
        with lake.transaction("tables") as tx:
            tx.create_table("people", PEOPLE, key="id")
            tx.create_table("events", EVENTS)
            tx.create_table("old", [{"id": 1}])
        with lake.transaction("rows") as tx:
            tx["events"].append([{"person": 1, "what": "wrote", "at": 9}])
            tx["people"].create_index("id")
            tx["people"].update({"city": "'Wells'"}, where="id = 3")
        lake.tag("v1")
        lake.create_branch("ahead")
        lake.create_branch("done")
    with quire.open(uri, storage_options=options, branch="ahead") as ahead, ahead.transaction("ahead") as tx:
        tx["people"].upsert([{"id": 0, "name": "ahead", "city": "York"}])
        tx["events"].append([{"person": 0, "what": "moved", "at": 10}])
    lance.write_dataset(pa.table({"id": [7]}), f"{uri}/elsewhere", storage_options=options)


def requested(uri: str, options: dict[str, str]) -> None:
    """Somebody asks for the branch that is ahead to be merged."""
    plain(uri, options)
    with quire.open(uri, storage_options=options) as lake:
        lake.requests.open("ahead", "Try it")


def database(uri: str, options: dict[str, str]) -> None:
    """Beside the plain lake, a database of plain tables; one more of them is registered already."""
    plain(uri, options)
    for name in ("one", "two"):
        lance.write_dataset(pa.table({"id": [7]}), f"{uri}/database/{name}.lance", storage_options=options)
    with quire.open(uri, storage_options=options) as lake, lake.transaction("registered") as tx:
        tx.register_table("taken", f"{uri}/elsewhere")


def behind(uri: str, options: dict[str, str]) -> None:
    """Plain clients do not see the last commits yet."""
    plain(uri, options)
    with quire.open(uri, storage_options=options, backfill=False) as lake:
        for _ in range(2):
            lake.transact(both)


def foreign(uri: str, options: dict[str, str]) -> None:
    """A plain client has written to a table."""
    plain(uri, options)
    with quire.open(uri, storage_options=options) as lake:
        location = lake["events"].describe()["location"]
    rows = pa.table({"person": [5], "what": ["plain"], "at": [5]})
    lance.write_dataset(rows, f"{uri}/{location}", mode="append", storage_options=options)


def full(uri: str, options: dict[str, str]) -> None:
    """The next commit is the one that writes a checkpoint."""
    plain(uri, options)
    with quire.open(uri, storage_options=options) as lake:
        while int(lake.head.partition(".")[0]) < CHECKPOINT_EVERY - 1:
            with lake.transaction("again") as tx:
                tx["old"].append([{"id": 2}])


def old(uri: str, options: dict[str, str]) -> None:
    """Commits that nobody needs, one that a tag keeps, one where a branch starts, a branch that was merged, rubbish."""
    plain(uri, options)
    with quire.open(uri, storage_options=options) as lake:
        lake.tag("first", at="1.0")
        for n in range(3):
            with lake.transaction("more") as tx:
                tx["events"].overwrite([{"person": n, "what": "only", "at": n}])
                tx["people"].update({"city": "'Ely'"}, where=f"id = {n}")
        with lake.create_branch("merged").transaction("there") as tx:
            tx["people"].update({"city": "'Hull'"}, where="id = 3")
        lake.fast_forward("merged")
        lake.delete_branch("merged")
        tx = lake.transaction("not meant")
        both(tx)
        tx["people"].count()
        tx.discard()


def graph(uri: str, options: dict[str, str]) -> None:
    """A graph of two types with rows, and a stored query."""
    with quire.create(uri, storage_options=options) as lake:
        made = quire.Graph(lake)
        made.apply_schema(GRAPH)
        made.load([{"type": "Person", "data": {"name": name}} for name in ("Ada", "Bo")])
        made.load([{"edge": "Knows", "id": "k1", "from": "Ada", "to": "Bo"}])
        made.store(READ)


def delta(uri: str, options: dict[str, str]) -> None:
    """Beside the plain lake, a Delta table whose last versions are not published yet."""
    plain(uri, options)
    with quire.open(uri, storage_options=options, backfill=False) as lake:
        with lake.transaction("orders") as tx:
            tx.create_table("orders", [{"id": n, "total": n} for n in range(4)], key="id", format="delta")
        for n in (4, 5):
            with lake.transaction("order") as tx:
                tx["orders"].insert([{"id": n, "total": n}])


def released(uri: str, options: dict[str, str]) -> None:
    """The same table after the lake let go of it: a plain Delta table, and a copy of it that belongs to nobody."""
    delta(uri, options)
    with quire.open(uri, storage_options=options) as lake:
        quire.delta.convert(lake, "orders", "plain")
        location = lake["orders"].describe()["location"]
        store = lake._core.store
        for entry in store.list(location):
            if "/_quire/" not in entry.key and "_commits/" not in entry.key:
                store.put(f"apart.delta/{entry.key[len(location) + 1 :]}", store.get(entry.key))


def nothing(uri: str, options: dict[str, str]) -> None:
    pass


def texts(uri: str, options: dict[str, str]) -> None:
    """A graph with texts that have no vector yet."""
    with quire.create(uri, storage_options=options) as lake:
        pages = quire.Graph(lake)
        pages.apply_schema('node Page { number: I64 @key  text: String  vector: Vector(4)? @embed("text") }')
        pages.load([{"type": "Page", "data": {"number": n, "text": f"page {n}"}} for n in range(3)])


IMAGES: dict[str, Callable[[str, dict[str, str]], None]] = {
    f.__name__: f
    for f in (plain, requested, database, behind, foreign, full, old, graph, texts, delta, released, nothing)
}

# -- operations -------------------------------------------------------------------------------------------------------


def both(tx: quire.Transaction) -> None:
    tx["events"].append([{"person": 2, "what": "ran", "at": 11}])
    tx["people"].upsert([{"id": 1, "name": "one", "city": "Ely"}, {"id": 9, "name": "nine", "city": "Ely"}])


def commits(program: Program) -> Callable[[quire.Lake], None]:
    """A transaction that also writes to another table, so that a half of it could be seen."""

    def act(lake: quire.Lake) -> None:
        with lake.transaction("the operation") as tx:
            program(tx)
            tx["old"].append([{"id": 3}])

    return act


def sell(tx: quire.Transaction) -> None:
    """Rows of a Delta table that come, change and go."""
    tx["orders"].upsert([{"id": 1, "total": 10}, {"id": 9, "total": 9}])
    tx["orders"].delete("id = 2")


def owned(lake: quire.Lake) -> None:
    """Take plain Delta tables over, so that the lake can write to them; one whose conversion was stopped goes on."""
    for name in lake.snapshot().tables():
        if lake[name].describe()["format"] == "delta":
            quire.delta.convert(lake, name)


def require(tx: quire.Transaction) -> None:
    tx["people"].require_keys([1])
    tx["people"].require_absent([77])
    tx["events"].require_none("person", [77])


def drop(tx: quire.Transaction) -> None:
    tx.drop_table("people")


def hand_in(tx: quire.Transaction) -> None:
    """Rows in data files that somebody else wrote; here this process did."""
    rows = pa.table({"person": [2], "what": ["ran"], "at": [11]})
    fragments, _ = tasks.write_rows(tasks.Output(tx["events"].target(), "events"), rows.to_batches())
    tx["events"].hand_in(Handed("append", tuple(fragments)))


def begun(place: Place) -> quire.Transaction:
    """A transaction that has lost its race before it begins to write."""
    tx = place.open().transaction("slow")
    place.open().transact(both)
    return tx


def lose(tx: quire.Transaction) -> None:
    tx["events"].append([{"person": 3, "what": "lost", "at": 12}])
    tx["people"].upsert([{"id": 1, "name": "mine", "city": "Ely"}])
    tx.commit()


def expecting(place: Place, rivals: int) -> quire.Lake:
    """A handle that has met so many rivals."""
    lake = place.open()
    offers = lake._live.offers
    offers.met(rivals)
    offers.hop, offers._until = 0.002, float("inf")
    return lake


def among_rivals(place: Place) -> quire.Lake:
    """A handle that offers its commit first, and leads by itself when nobody has taken it."""
    return expecting(place, 64)


def beside_an_offer(place: Place) -> quire.Lake:
    """A handle that leads, where a writer that is gone has offered a commit."""
    owner = expecting(place, 64)
    owner._live.offers.round = 1e6  # it waits for others as long as it may
    with contextlib.suppress(quire.CommitUnknown), owner.transaction("offered", timeout=0.1) as tx:
        tx["people"].upsert([{"id": 2, "name": "offered", "city": "Ely"}])
    lake = expecting(place, 1)
    lake._live.offers.led = lake._live.state.slot
    return lake


def offer(lake: quire.Lake) -> None:
    with lake.transaction("offered") as tx:
        both(tx)
    if tx.until == 0:
        raise RuntimeError("nothing was offered")


def take_along(lake: quire.Lake) -> None:
    with lake.transaction("takes along") as tx:
        tx["events"].append([{"person": 2, "what": "ran", "at": 11}])
    if tx.receipt.cost["shared"] != 2:
        raise RuntimeError("nothing was taken along")


def discard(lake: quire.Lake) -> None:
    tx = lake.transaction("not meant")
    both(tx)
    tx["people"].count()
    tx.discard()


def consume(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("copy", since="beginning", hold=600)
    for block in list(consumer.changes())[:1]:
        consumer.commit(block)


def optimize(lake: quire.Lake) -> None:
    done = lake.optimize()
    if any(t.outcome not in ("optimized", "nothing") for t in done.tables):
        raise RuntimeError(f"not optimized: {done}")


def maintain(lake: quire.Lake) -> None:
    with lake.maintain(every=600.0, optimize=True) as upkeep:
        while upkeep.done.rounds == 0:
            time.sleep(0.001)


TABLE_VERBS: dict[str, Program] = {
    "append": lambda tx: tx["events"].append([{"person": 2, "what": "ran", "at": 11}]),
    "insert": lambda tx: tx["people"].insert([{"id": 8, "name": "eight", "city": "Ely"}]),
    "upsert": lambda tx: tx["people"].upsert([*PEOPLE[1:2], {"id": 8, "name": "eight", "city": "Ely"}]),
    "update": lambda tx: tx["people"].update({"name": "upper(name)"}, where="id < 2"),
    "delete": lambda tx: tx["events"].delete("person = 1"),
    "overwrite": lambda tx: tx["events"].overwrite([{"person": 1, "what": "only", "at": 0}]),
    "add_columns": lambda tx: tx["people"].add_columns({"length": "length(name)"}),
    "drop_columns": lambda tx: tx["people"].drop_columns("city"),
    "rename_column": lambda tx: tx["people"].rename_column("city", "town"),
    "set_rules": lambda tx: tx["people"].set_rules("stricter"),
    "alter_column": lambda tx: tx["events"].alter_column("at", type=pa.float64()),
    "create_index": lambda tx: tx["events"].create_index("person"),
    "drop_index": lambda tx: tx["people"].drop_index("id_idx"),
    "hand_in": hand_in,
}
TRANSACTION_VERBS: dict[str, Program] = {
    "create_table": lambda tx: tx.create_table("new", PEOPLE, key="id"),
    "register_table": lambda tx: tx.register_table("taken", f"{tx.live.core.store.uri}/elsewhere"),
    "rename_table": lambda tx: tx.rename_table("people", "persons"),
    "drop_table": drop,
}

ROWS = [{"type": "Person", "data": {"name": "Cy"}}, {"edge": "Knows", "id": "k2", "from": "Cy", "to": "Ada"}]
GRAPH_VERBS: dict[str, Callable[[quire.Graph], Any]] = {
    "apply_schema": lambda g: g.apply_schema(
        GRAPH.replace("I32?", "I32?  city: String?") + "  node Place { name: String @key }"
    ),
    "load": lambda g: g.load(ROWS, "merge"),
    "mutate": lambda g: g.mutate(CHANGE),
    "store": lambda g: g.store(READ.replace("all", "every")),
    "unstore": lambda g: g.unstore("all"),
    "write_algorithm": lambda g: g.write_algorithm("degree", "Knows", "age"),
}


def embed(lake: quire.Lake) -> None:
    quire.Graph(lake, embedder=HashEmbedder(4)).embed()


OPERATIONS = [
    *(Operation(f"table {n}", commits(p), (f"TransactionTable.{n}",)) for n, p in TABLE_VERBS.items()),
    *(Operation(f"transaction {n}", commits(p), (f"Transaction.{n}",)) for n, p in TRANSACTION_VERBS.items()),
    Operation(
        "table require",
        commits(require),
        ("TransactionTable.require_keys", "TransactionTable.require_absent", "TransactionTable.require_none"),
    ),
    Operation("transaction rebased", lose, ("Transaction.commit",), begin=begun),
    Operation("transaction offered", offer, begin=among_rivals),
    Operation("transaction that takes another along", take_along, begin=beside_an_offer),
    Operation("transaction discarded", discard, ("Transaction.discard",)),
    Operation("transact", lambda lake: lake.transact(both), ("Lake.transact", "Lake.transaction")),
    Operation("checkpoint", lambda lake: lake.transact(both), image="full"),
    Operation("create table", lambda lake: lake.create_table("new", PEOPLE), ("Lake.create_table",)),
    Operation(
        "register database",
        lambda lake: lake.register_database(f"{lake.uri}/database"),
        ("Lake.register_database",),
        image="database",
    ),
    Operation("take over", lambda lake: lake.take_over("taken"), ("Lake.take_over",), image="database", tells=False),
    Operation("revert", lambda lake: lake.revert("2.0"), ("Lake.revert",)),
    Operation("restore", lambda lake: lake.restore("1.0"), ("Lake.restore",)),
    Operation("claim", lambda lake: lake.claim(), ("Lake.claim",)),
    Operation("tag", lambda lake: lake.tag("v2"), ("Lake.tag",)),
    Operation("delete tag", lambda lake: lake.delete_tag("v1"), ("Lake.delete_tag",)),
    Operation("create branch", lambda lake: lake.create_branch("more"), ("Lake.create_branch",)),
    Operation("delete branch", lambda lake: lake.delete_branch("done"), ("Lake.delete_branch",)),
    Operation("open a request", lambda lake: lake.requests.open("ahead", "Try it").number, ("Lake.requests",)),
    Operation(
        "merge a request",
        lambda lake: lake.requests.merge(1),
        image="requested",
        finish=lambda lake: lake.requests.merge(1),
    ),
    Operation("consume", consume, ("Lake.consumers",)),
    Operation("merge", lambda lake: lake.merge("ahead", mode="no-ff"), ("Lake.merge",)),
    Operation("cherry-pick", lambda lake: lake.cherry_pick("branch:ahead"), ("Lake.cherry_pick",)),
    Operation("fast-forward", lambda lake: lake.fast_forward("ahead"), ("Lake.fast_forward",)),
    Operation(
        "adopt",
        lambda lake: lake.adopt("events"),
        ("Lake.adopt",),
        image="foreign",
        finds=("head",),
        finish=lambda lake: lake.adopt("events"),
    ),
    Operation(
        "backfill",
        lambda lake: lake.backfill(),
        ("Lake.backfill",),
        begin=lambda place: place.open(backfill=False),
        image="behind",
    ),
    Operation(
        "recover",
        lambda lake: lake.recover(),
        ("Lake.recover",),
        begin=lambda place: place.open(backfill=False),
        image="behind",
    ),
    *(
        Operation(f"graph {n}", lambda lake, act=act: act(quire.Graph(lake)), (f"Graph.{n}",), image="graph")
        for n, act in GRAPH_VERBS.items()
    ),
    Operation("graph embed", embed, ("Graph.embed",), image="texts"),
    Operation("delta table changed", commits(sell), image="delta"),
    Operation(
        "delta table with another column", commits(lambda tx: tx["orders"].add_columns({"v": "1"})), image="delta"
    ),
    Operation("delta table created", commits(lambda tx: tx.create_table("new", PEOPLE, format="delta")), image="delta"),
    Operation("delta table restored", lambda lake: lake.restore("3.0", tables=["orders"]), image="delta"),
    Operation("delta table optimized", optimize, image="delta"),
    Operation(
        "delta table registered",
        commits(
            lambda tx: tx.register_table("apart", f"{tx.live.core.store.uri}/apart.delta", key="id", format="delta")
        ),
        image="released",
        finish=owned,
    ),
    Operation("delta table owned", lambda lake: quire.delta.convert(lake, "orders"), image="released", finish=owned),
    Operation(
        "delta table let go of",
        lambda lake: quire.delta.convert(lake, "orders", "plain"),
        image="delta",
        finish=lambda lake: (quire.delta.convert(lake, "orders", "plain"), owned(lake)),
    ),
    Operation(
        "delta table published",
        lambda lake: lake.backfill(),
        begin=lambda place: place.open(backfill=False),
        image="delta",
    ),
    Operation("optimize", optimize, ("Lake.optimize",)),
    Operation(
        "cleanup",
        lambda lake: lake.cleanup(keep=1, older_than=0, grace=0),
        ("Lake.cleanup",),
        image="old",
        finish=lambda lake: lake.cleanup(keep=1, older_than=0, grace=0),
        age=6.0,
    ),
    Operation("maintain", maintain, ("Lake.maintain",), image="behind", tells=False),
    Operation("lease", lambda lake: lake.snapshot().lease().release(), ("Snapshot.lease",)),
    Operation("open", lambda place: place.open(), ("quire.open",), begin=lambda place: place, image="behind"),
    Operation(
        "create",
        lambda place: place.keep(quire.create(place.uri, storage_options=place.options)),
        ("quire.create",),
        begin=lambda place: place,
        image="nothing",
    ),
]

# -- nothing is forgotten ---------------------------------------------------------------------------------------------

CLASSES = (quire.Lake, quire.Snapshot, quire.Transaction, quire.TransactionTable, quire.Graph)
FUNCTIONS = ("create", "open")

READ_ONLY_NAMES = {
    *("CommitInfo", "CommitUnknown", "Conflict", "KeyConflict", "Log", "Outcome", "QuireError", "Receipt", "Rows"),
    *("StreamToken", "Table", "TableReceipt", "connect", "errors", "metrics", "repair", "token"),
}
_TABLE_READS = (
    *("bytes", "commit", "count", "delta", "describe", "dropped", "head", "id", "identified_by", "indexes", "key"),
    *(
        "name",
        "parts",
        "rules",
        "scan",
        "schema",
        "search",
        "target",
        "to_arrow",
        "to_duckdb",
        "to_pandas",
        "to_polars",
        "to_pylist",
        "version",
    ),
)
_LAKE_READS = (
    *(
        "at",
        "branch",
        "branch_name",
        "branches",
        "changes",
        "history",
        "watch",
        "close",
        "cost",
        "diff",
        "flush",
        "foreign",
        "head",
        "log",
        "outcome",
        "acting",
        "audit",  # entries of those who were refused are written in the background: tests/policy
        "policy",  # what it sets is one object of its own, created if absent: tests/policy
    ),
    *(
        "export",
        "read_only",
        "recoveries",
        "refresh",
        "show",
        "snapshot",
        "sql",
        "status",
        "tables",
        "tags",
        "uri",
        "verify",
    ),
)
_GRAPH_READS = (
    *("algorithm", "paths"),
    *("blob", "catalog", "check", "explain", "export", "find", "frames", "lint", "neighbours", "node", "picture"),
    *("history", "plan_schema", "query", "schema", "stored", "table", "to_networkx"),
)
_SNAPSHOT_READS = ("commit", "cost", "export", "sql", "tables", "time")  # an export writes files elsewhere
READS = {
    *(f"TransactionTable.{name}" for name in _TABLE_READS),
    *(f"Lake.{name}" for name in _LAKE_READS),
    *(f"Snapshot.{name}" for name in _SNAPSHOT_READS),
    *(f"Graph.{name}" for name in _GRAPH_READS),
    *(f"Transaction.{name}" for name in ("edited", "receipt", "repeated", "sql", "tables")),
    "Lake.repair",  # no lake here needs it: tests/lake/upkeep/test_repair.py
}


def test_every_public_method_is_an_operation_here_or_known_to_read_only() -> None:
    covered = {name for operation in OPERATIONS for name in operation.covers}
    written = {name for name in covered if not name.startswith("quire.")}

    missing, gone = uncovered(CLASSES, READS | written)

    assert sorted(missing) == [], "add an operation that covers them, or put them into READS if they write nothing"
    assert sorted(gone) == [], "these are gone"
    assert READS & written == set()
    assert {f"quire.{name}" for name in FUNCTIONS} <= covered


def test_every_public_name_is_looked_at_here() -> None:
    looked_at = READ_ONLY_NAMES | {c.__name__ for c in CLASSES} | set(FUNCTIONS)
    assert set(quire.__all__) == looked_at


# -- every request ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(s3: SeaweedFS) -> Callable[[str], Image]:
    """Prepared lakes, each made when it is first asked for."""

    @functools.cache
    def made(name: str) -> Image:
        folder = f"image-{name}-{uuid.uuid4().hex}"
        IMAGES[name](s3.uri(folder), s3.options)
        return Image.of(s3, folder)

    return made


def cases(rounds: Rounds) -> list[tuple[int, Side]]:
    """All of them, or a sample: the request that decides on both sides, and others that differ between operations."""
    every = rounds.everywhere()
    start = zlib.crc32(rounds.operation.name.encode())
    if EVERY:
        return every[start % EVERY :: EVERY]
    decisive = [(n, side) for n, side in every if is_decisive(rounds.seen[n - 1])]
    decides = [*decisive[:2], *decisive[-2:]]  # to delete a branch is to close its log, and then to retire its name
    others = [(n, side) for n, side in every if (n, side) not in decides and not rounds.seen[n - 1].reads]
    others = others or every
    return list(dict.fromkeys([*decides, *(others[(start + n) % len(others)] for n in range(OTHERS))]))


def is_decisive(request: Request) -> bool:
    return request.kind == "create" and request.key_class in ("slot", "ref", "format")


@pytest.mark.sampled(8)
@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name.replace(" ", "-"))
def test_a_client_dies_at_every_request(s3: SeaweedFS, image: Callable[[str], Image], operation: Operation) -> None:
    rounds = Rounds(s3, image(operation.image), operation)

    def crash(case: tuple[int, Side]) -> Crash | Damage:
        try:
            return rounds.crash(*case)
        except Damage as damage:
            return damage

    chosen = cases(rounds)
    if operation.age:
        rounds.lay(chosen)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(crash, chosen))

    wrong = [str(d) for d in done if isinstance(d, Damage)]
    ended = [d for d in done if isinstance(d, Crash)]
    reached = [d for d in ended if d.request is not None]
    assert not wrong, "\n".join(wrong)
    assert rounds.requests > 0
    assert 2 * len(reached) >= len(ended), "most runs never came to their cut"
    if rounds.before != rounds.after and EVERY < 2:
        assert {d.did for d in reached} == {True, False}, "the cuts were all on one side of the moment that matters"


# -- the machinery finds what it is for -------------------------------------------------------------------------------


def twice(lake: quire.Lake) -> None:
    """Not one commit but two."""
    lake.transact(lambda tx: tx["events"].append([{"person": 2, "what": "first", "at": 1}]))
    lake.transact(lambda tx: tx["people"].delete("id = 1"))


def hushed(lake: quire.Lake) -> None:
    with contextlib.suppress(quire.QuireError):
        lake.transact(both)


def panicking(lake: quire.Lake) -> None:
    lake.transact(both)
    lake.refresh()


def littering(lake: quire.Lake) -> None:
    """A checkpoint that is not what the log says, and then the commit."""
    store = lake._core.store
    store.put(f"_quire/log/{lake._live.line.branch}/checkpoint-{1:020d}", b"{}")
    lake.transact(both)
    store.delete(f"_quire/log/{lake._live.line.branch}/checkpoint-{1:020d}")


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "at", "found"),
    [
        (twice, lambda r: r.kind == "create" and r.key_class == "slot", "neither as before nor as after"),
        (hushed, lambda r: r.kind == "PUT" and r.key_class == "data", "reported success, and it is not there"),
        (panicking, lambda r: r.kind == "GET" and r.key_class == "slot", "and it was done"),
        (littering, lambda r: r.kind == "create" and r.key_class == "slot", "verify: checkpoint"),
    ],
)
def test_an_operation_that_is_not_safe_is_found_out(
    s3: SeaweedFS, image: Callable[[str], Image], act: Any, at: Callable[[Request], bool], found: str
) -> None:
    rounds = Rounds(s3, image("plain"), Operation(act.__name__, act))
    number = max(n for n, request in enumerate(rounds.seen, 1) if at(request))
    with pytest.raises(Damage, match=found):
        rounds.crash(number, "before")
