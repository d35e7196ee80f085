"""The verbs that have a price. A new verb of Quire's goes here, and with it into the golden file."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from tests.laboratory.costs.graph_verbs import GRAPHS
from tests.laboratory.costs.laboratory import Slack, Verb
from tests.laboratory.costs.lakes import GROWING, rows
from tests.laboratory.everywhere import Place

import quire
from quire.ledger import CHECKPOINT_EVERY
from quire.server.ui.twins import home

Program = Callable[[quire.Transaction], Any]
NEW = 1_000_000
"""The first id that no row has yet."""

FIVE = " union all ".join(f"select count(text) from t{number}" for number in range(1, 6))

RECORDS = "there is no checkpoint, so every record is read"
FRAGMENTS = "every commit left a fragment, and each is read"
FIRST_LOOK = "the first look-up ever by this column reads every fragment, and notes what it found for all later ones"
EVERY_TABLE = "it looks at every table"

PAST = Slack(
    2 * CHECKPOINT_EVERY,
    3,
    "commits of the past are read from the last checkpoint on that they name, and a search by time takes rounds",
)
SCAN = Slack(0, 1, "a scan reads so many fragments ahead, and comes to the last of a thousand a round later")
PAGES = Slack(
    2 * len(GROWING) + 1, 3, "a listing of a thousand versions has two pages; a missing checkpoint is written"
)
NOTED = Slack(1, 1, "where more than eight files are unknown, what is noted beside the table is read first")
CHECKPOINT = Slack(2, 3, "a missing checkpoint is written, and the hint to it")


# -- programs and handles ---------------------------------------------------------------------------------------------


def commit(lake: quire.Lake, *programs: Program) -> quire.Receipt:
    """One transaction that does all of this."""
    with lake.transaction("measured") as tx:
        for program in programs:
            program(tx)
    assert tx.receipt is not None
    return tx.receipt


def append(tables: int, first: int) -> Program:
    """Adds one row to each of the first tables."""

    def program(tx: quire.Transaction) -> None:
        for number in range(tables):
            tx[f"t{number}"].append(rows(first))

    return program


def upsert(table: str, key: int) -> Program:
    return lambda tx: tx[table].upsert(rows(key), on="id")


def warm(tables: int = 2) -> Callable[[Place], quire.Lake]:
    """A handle that has written to its tables before."""

    def prepare(place: Place) -> quire.Lake:
        lake = place.open()
        commit(lake, append(tables, NEW), lambda tx: tx["indexed"].append(rows(NEW)))
        return lake

    return prepare


def _used(program: Program) -> Callable[[Place], quire.Lake]:
    """A handle that has made such a statement before."""

    def prepare(place: Place) -> quire.Lake:
        lake = warm()(place)
        commit(lake, program)
        return lake

    return prepare


def _reader(place: Place) -> quire.Lake:
    return place.open(read_only=True)


def _queried(place: Place) -> quire.Snapshot:
    snap = _reader(place).snapshot()
    snap.sql(FIVE).to_arrow()
    return snap


def _second(place: Place) -> Place:
    place.open(read_only=True)
    return place


def _behind(news: int) -> Callable[[Place], quire.Lake]:
    """A handle that has not heard of some commits."""

    def prepare(place: Place) -> quire.Lake:
        lake, other = place.open(), place.open()
        for number in range(news):
            commit(other, append(1, NEW + number))
        return lake

    return prepare


def _middle(lake: quire.Lake) -> quire.CommitInfo:
    """A commit half-way back."""
    return lake.show(f"{int(lake.head.partition('.')[0]) // 2}.0")


def _past(place: Place) -> tuple[quire.Lake, quire.CommitInfo]:
    lake = place.open()
    return lake, _middle(lake)


def _new_client(place: Place) -> Any:
    """A handle of Lance itself, whose namespace is the lake."""
    import lance

    from quire.lance import Namespace

    here = contextvars.copy_context()  # with its clock, of which threads of Lance know nothing

    class Here(Namespace):
        def create_table_version(self, request: Any) -> Any:
            return here.copy().run(super().create_table_version, request)

        def list_table_versions(self, request: Any) -> Any:
            return here.copy().run(super().list_table_versions, request)

        def describe_table(self, request: Any) -> Any:
            return here.copy().run(super().describe_table, request)

    return lance.dataset(namespace_client=Here(place.open()), table_id=["t0"])


def _new_client_of_a_server(place: Place) -> Any:
    """The same over HTTP."""
    import lance
    import lance_namespace as spec

    from quire.server.config import Config, LakeConfig
    from quire.server.request_log import RequestLog
    from quire.server.serve import running

    options = dict(place.options)
    lake = LakeConfig(place.uri, storage_options=options, client_options=options)
    server = place.ends.enter_context(running(Config(lakes={"demo": lake}, port=0), RequestLog(lambda line: None)))
    place.keep(server.lakes.get("demo"))
    namespace = spec.connect("rest", {"uri": f"{server.url}/lance/demo"})
    return lance.dataset(namespace_client=namespace, table_id=["t0"])


def _client_of_a_server(place: Place) -> Any:
    dataset = _new_client_of_a_server(place)
    dataset.insert(rows(NEW))
    return dataset


def _client(place: Place) -> Any:
    """One that has written before."""
    dataset = _new_client(place)
    dataset.insert(rows(NEW))
    return dataset


def _tagged(place: Place) -> quire.Lake:
    lake = place.open()
    lake.tag("half", at=_middle(lake).id)
    return lake


def _forked(place: Place) -> quire.Lake:
    lake = place.open()
    lake.create_branch("exp")
    return lake


FIFTY = 50
"""Rows that each side of a merge has changed."""


def _diverged(program: Callable[[int], Program]) -> Callable[[Place], quire.Lake]:
    """A handle that has changed rows of a keyed table on two branches, apart."""

    def prepare(place: Place) -> quire.Lake:
        lake = place.open()
        lake.create_table("merged", rows(0, 10_000), key="id")
        exp = lake.create_branch("exp")
        for branch, first in ((lake, 0), (exp, 5_000)):
            commit(branch, program(first))
        return lake

    return prepare


def _updated(first: int) -> Program:
    return lambda tx: tx["merged"].update(values={"text": "new"}, where=f"id >= {first} and id < {first + FIFTY}")


def _inserted(first: int) -> Program:
    return lambda tx: tx["merged"].insert(rows(NEW + first, FIFTY))


def _merge(lake: quire.Lake) -> quire.Receipt:
    receipt = lake.merge("exp")
    assert receipt.outcome == "merged"
    return receipt


def _news(place: Place) -> Any:
    """A feed that stands before the newest commit of a handle in use."""
    lake = warm()(place)
    feed = lake.changes("now")
    commit(lake, append(2, NEW + 1))
    return feed


def _consumer(place: Place) -> Any:
    """A consumer that holds what it reads, and a block that it has read."""
    lake = warm()(place)
    consumer = lake.consumers.open("search", hold=3_600)
    commit(lake, append(2, NEW + 1))
    return consumer, list(consumer.changes())[-1]


def _on_branch(place: Place) -> quire.Lake:
    lake = _forked(place).branch("exp")
    commit(lake, append(2, NEW))
    return lake


def _lost(mine: Program, theirs: Program) -> Callable[[Place], tuple[quire.Transaction, Program]]:
    """A transaction that has begun before a rival's commit, of which it does not know."""

    def prepare(place: Place) -> tuple[quire.Transaction, Program]:
        lake, rival = warm()(place), place.open()
        tx = lake.transaction("measured")
        commit(rival, theirs)
        return tx, mine

    return prepare


def _finish(lost: tuple[quire.Transaction, Program]) -> quire.Receipt:
    tx, program = lost
    program(tx)
    receipt = tx.commit()
    assert receipt.attempts == 2
    assert receipt.rebased or receipt.replayed
    return receipt


def _unseen(tables: int) -> Callable[[Place], quire.Lake]:
    """Some tables have a commit that plain readers do not see."""

    def prepare(place: Place) -> quire.Lake:
        lake = place.open(backfill=False)
        commit(lake, append(tables, NEW))
        return lake

    return prepare


def _delta(tables: int) -> Callable[[Place], quire.Lake]:
    """A handle that has made Delta tables and written to them."""

    def prepare(place: Place) -> quire.Lake:
        lake = place.open()
        with lake.transaction("Delta tables") as tx:
            for number in range(tables):
                tx.create_table(f"d{number}", rows(0, 10), format="delta")
        commit(lake, append_delta(tables, NEW))
        return lake

    return prepare


def append_delta(tables: int, first: int) -> Program:
    """Adds one row to each of the first Delta tables."""

    def program(tx: quire.Transaction) -> None:
        for number in range(tables):
            tx[f"d{number}"].append(rows(first))

    return program


def _both(tx: quire.Transaction) -> None:
    append(2, NEW + 1)(tx)
    append_delta(2, NEW + 1)(tx)


def _both_warm(place: Place) -> quire.Lake:
    lake = _delta(2)(place)
    commit(lake, append(2, NEW))
    return lake


# -- the list ---------------------------------------------------------------------------------------------------------


def _writes(name: str, program: Program, prepare: Callable[[Place], quire.Lake] | None = None, **about: Any) -> Verb:
    return Verb(name, lambda lake: commit(lake, program), prepare or warm(about.get("tables", 2)), **about)


READING = (
    Verb("open cold", Place.open, lambda place: place, important=True, slack=PAST, per_commit=RECORDS),
    Verb("open cold, read-only", _reader, lambda place: place, important=True, slack=PAST, per_commit=RECORDS),
    Verb("open again in the same process", _reader, _second, slack=PAST, per_commit=RECORDS),
    Verb("open warm: a snapshot", lambda lake: lake.snapshot(), _reader, important=True),
    Verb(
        "cold snapshot",
        lambda place: _reader(place).snapshot(),
        lambda p: p,
        important=True,
        slack=PAST,
        per_commit=RECORDS,
    ),
    Verb(
        "first look at a table",
        lambda snap: snap["t0"].schema,
        lambda p: _reader(p).snapshot(),
        important=True,
    ),
    Verb(
        "SQL over 5 tables, cold",
        lambda place: _reader(place).sql(FIVE).to_arrow(),
        lambda p: p,
        tables=6,
        important=True,
        slack=PAST,
        per_commit=RECORDS,
    ),
    Verb("SQL over 5 tables of a snapshot", lambda snap: snap.sql(FIVE).to_arrow(), _queried, tables=6, important=True),
    Verb(
        "first page in the browser",
        lambda lake: home.overview(lake, lake.snapshot()),
        _reader,
        important=True,
        slack=PAST,
        per_commit=RECORDS,
    ),
    Verb("refresh, no news", lambda lake: lake.refresh(), _reader, important=True),
    Verb("refresh, 1 new commit", lambda lake: lake.refresh(), _behind(1), important=True),
    Verb("refresh, 40 new commits", lambda lake: lake.refresh(), _behind(40)),
    Verb("open at a commit", lambda at: at[0].at(commit=at[1].id), _past, slack=PAST, per_commit=RECORDS),
    Verb("open at a tag", lambda lake: lake.at(tag="half"), _tagged, slack=PAST, per_commit=RECORDS),
    Verb("open at a time", lambda at: at[0].at(time=at[1].time), _past, slack=PAST, per_commit=RECORDS),
    Verb("open a branch", lambda lake: lake.branch("exp"), _forked, slack=PAST, per_commit=RECORDS),
)
ROWS = (
    _writes("append to 1 table", append(1, NEW + 1), important=True),
    _writes("append to 2 tables", append(2, NEW + 1), important=True),
    _writes("append to 8 tables", append(8, NEW + 1), tables=8, important=True),
    _writes("append to 1 indexed table", lambda tx: tx["indexed"].append(rows(NEW + 1)), important=True),
    _writes("append to 2 tables of a branch", append(2, NEW + 1), _on_branch),
    _writes("upsert, indexed", upsert("indexed", 8), _used(upsert("indexed", 7)), important=True, slack=SCAN),
    _writes("upsert, not indexed", upsert("t0", 8), _used(upsert("t0", 7)), slack=SCAN),
    _writes("first upsert, indexed", upsert("indexed", 8), important=True),
    _writes("first upsert, not indexed", upsert("t0", 8), slack=NOTED, per_commit=FIRST_LOOK),
    _writes("strict insert, indexed", lambda tx: tx["indexed"].insert(rows(NEW + 1), on="id")),
    _writes(
        "strict insert, not indexed",
        lambda tx: tx["t0"].insert(rows(NEW + 1), on="id"),
        slack=NOTED,
        per_commit=FIRST_LOOK,
    ),
    _writes("update, indexed", lambda tx: tx["indexed"].update({"text": "'new'"}, where="id = 8")),
    _writes("delete, indexed", lambda tx: tx["indexed"].delete("id = 8")),
    _writes("overwrite", lambda tx: tx["t0"].overwrite(rows(0))),
)
DELTA = (
    _writes("append to 1 Delta table", append_delta(1, NEW + 1), _delta(1), wide=False),
    _writes("append to 2 Delta tables", append_delta(2, NEW + 1), _delta(2), wide=False),
    _writes("append to 8 Delta tables", append_delta(8, NEW + 1), _delta(8), wide=False),
    _writes("append to 2 Lance and 2 Delta tables", _both, _both_warm, wide=False),
    _writes("upsert of 1 key, Delta", upsert("d0", 8), _delta(1), wide=False),
    _writes("delete of 1 row, Delta", lambda tx: tx["d0"].delete("id = 8"), _delta(1), wide=False),
    _writes(
        "create a Delta table",
        lambda tx: tx.create_table("new", rows(0), format="delta"),
        _delta(1),
        wide=False,
    ),
    Verb(
        "first look at a Delta table",
        lambda snap: snap["d0"].schema,
        lambda place: (_delta(1)(place), _reader(place).snapshot())[1],
        wide=False,
    ),
)
CLIENTS = (
    Verb(
        "append by a Lance client",
        lambda dataset: dataset.insert(rows(NEW + 1)),
        _client,
        wide=False,
        metered=False,
    ),
    Verb(
        "append by a Lance client, first",
        lambda dataset: dataset.insert(rows(NEW + 1)),
        _new_client,
        wide=False,
        metered=False,
    ),
    Verb(
        "append by a Lance client over HTTP",
        lambda dataset: dataset.insert(rows(NEW + 1)),
        _client_of_a_server,
        wide=False,
        metered=False,
    ),
    Verb(
        "append by a Lance client over HTTP, first",
        lambda dataset: dataset.insert(rows(NEW + 1)),
        _new_client_of_a_server,
        wide=False,
        metered=False,
    ),
)
TABLES = (
    _writes("create a table", lambda tx: tx.create_table("new", rows(0))),
    _writes("rename a table", lambda tx: tx.rename_table("t0", "new")),
    _writes("drop a table", lambda tx: tx.drop_table("t0")),
    _writes("add a column", lambda tx: tx["t0"].add_columns({"length": "length(text)"}), per_commit=FRAGMENTS),
    _writes("drop a column", lambda tx: tx["t0"].drop_columns("text")),
    _writes("rename a column", lambda tx: tx["t0"].rename_column("text", "words")),
    _writes("change a column's type", lambda tx: tx["t0"].alter_column("id", type=pa.float64()), per_commit=FRAGMENTS),
    _writes("create an index", lambda tx: tx["t0"].create_index("id"), per_commit=FRAGMENTS),
)
REFS = (
    Verb("tag", lambda lake: lake.tag("v1")),
    Verb("create a branch", lambda lake: lake.create_branch("exp")),
    Verb("merge 50 + 50 updated rows", _merge, _diverged(_updated), slack=CHECKPOINT),
    Verb("merge 50 + 50 inserted rows", _merge, _diverged(_inserted), slack=CHECKPOINT),
    Verb("delete a branch", lambda lake: lake.delete_branch("exp"), _forked, slack=PAST, per_commit=RECORDS),
)
RACES = (
    Verb(
        "lost race of appends to 2 tables: rebase",
        _finish,
        _lost(append(2, NEW + 1), append(2, NEW + 2)),
        important=True,
    ),
    Verb(
        "lost race of upserts of 1 key: replay",
        _finish,
        _lost(upsert("indexed", 8), upsert("indexed", 8)),
    ),
)
UPKEEP = (
    Verb("backfill 1 table", lambda lake: lake._live.backfill(), _unseen(1), slack=PAGES, per_table=EVERY_TABLE),
    Verb("backfill 2 tables", lambda lake: lake._live.backfill(), _unseen(2), slack=PAGES, per_table=EVERY_TABLE),
    Verb("recover, nothing to do", lambda lake: lake.recover(), slack=PAGES, per_table=EVERY_TABLE),
    Verb("recover, 1 table behind", lambda lake: lake.recover(), _unseen(1), slack=PAGES, per_table=EVERY_TABLE),
    Verb("optimize 1 table", lambda lake: lake.optimize(["t0"]), warm(), per_commit=FRAGMENTS),
    Verb("optimize, nothing to do", lambda lake: lake.optimize(["t1"]), slack=CHECKPOINT),
    Verb("cleanup, dry run", lambda lake: lake.cleanup(dry_run=True), wide=False),
    Verb("revert", lambda lake: lake.revert(lake.head), warm(), slack=PAST, per_commit=RECORDS),
    Verb("claim", lambda lake: lake.claim(), slack=CHECKPOINT),
)

FEED = (
    Verb(
        "feed, 1 new commit to 2 tables",
        lambda feed: [table.rows for block in feed for table in block.tables.values()],
        _news,
        slack=PAST,
        per_commit=RECORDS,
    ),
    Verb("feed, a consumer goes on", lambda at: at[0]._consumers.open("search"), _consumer, wide=False),
    Verb("feed, a consumer commits", lambda at: at[0].commit(at[1]), _consumer, wide=False),
    Verb("restore 1 table", lambda at: at[0].restore(at[1].id, tables=["t0"]), _past, slack=PAST, per_commit=RECORDS),
)

VERBS: tuple[Verb, ...] = (*READING, *ROWS, *DELTA, *CLIENTS, *TABLES, *REFS, *RACES, *UPKEEP, *FEED, *GRAPHS)
