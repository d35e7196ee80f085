"""The verbs that have a price. A new verb of Quire's goes here, and with it into the golden file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import quire
from quire.ledger import CHECKPOINT_EVERY
from quire.testing.costs.graph_verbs import GRAPHS
from quire.testing.costs.laboratory import Slack, Verb
from quire.testing.costs.lakes import GROWING, rows
from quire.testing.everywhere import Place

Program = Callable[[quire.Transaction], Any]
NEW = 1_000_000
"""The first id that no row has yet."""

RECORDS = "there is no checkpoint, so every record is read"
FRAGMENTS = "every commit left a fragment, and each is read"
EVERY_TABLE = "it looks at every table"

PAST = Slack(
    2 * CHECKPOINT_EVERY,
    3,
    "commits of the past are read from the last checkpoint on that they name, and a search by time takes rounds",
)
MANIFEST = Slack(2, 2, "a manifest that names a thousand fragments is read in three parts")
SCAN = Slack(0, 1, "a scan reads so many fragments ahead, and comes to the last of a thousand a round later")
PAGES = Slack(
    2 * len(GROWING) + 1, 3, "a listing of a thousand versions has two pages; a missing checkpoint is written"
)
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


def _tagged(place: Place) -> quire.Lake:
    lake = place.open()
    lake.tag("half", at=_middle(lake).id)
    return lake


def _forked(place: Place) -> quire.Lake:
    lake = place.open()
    lake.create_branch("exp")
    return lake


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
        slack=MANIFEST,
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
    _writes("first upsert, indexed", upsert("indexed", 8), important=True, per_commit=FRAGMENTS),
    _writes("first upsert, not indexed", upsert("t0", 8), per_commit=FRAGMENTS),
    _writes("strict insert, indexed", lambda tx: tx["indexed"].insert(rows(NEW + 1), on="id"), per_commit=FRAGMENTS),
    _writes("strict insert, not indexed", lambda tx: tx["t0"].insert(rows(NEW + 1), on="id"), per_commit=FRAGMENTS),
    _writes(
        "update, indexed", lambda tx: tx["indexed"].update({"text": "'new'"}, where="id = 8"), per_commit=FRAGMENTS
    ),
    _writes("delete, indexed", lambda tx: tx["indexed"].delete("id = 8"), per_commit=FRAGMENTS),
    _writes("overwrite", lambda tx: tx["t0"].overwrite(rows(0))),
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
    Verb("delete a branch", lambda lake: lake.delete_branch("exp"), _forked, slack=PAST, per_commit=RECORDS),
)
RACES = (
    Verb(
        "lost race of appends to 2 tables: rebase",
        _finish,
        _lost(append(2, NEW + 1), append(2, NEW + 2)),
        important=True,
        slack=MANIFEST,
    ),
    Verb(
        "lost race of upserts of 1 key: replay",
        _finish,
        _lost(upsert("indexed", 8), upsert("indexed", 8)),
        per_commit=FRAGMENTS,
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

VERBS: tuple[Verb, ...] = (*READING, *ROWS, *TABLES, *REFS, *RACES, *UPKEEP, *GRAPHS)
