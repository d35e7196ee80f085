"""Lakes that were written with format 1 stay readable: bytes that once were written, and what they mean.

The files below `fixtures/format-1` are never edited. A new format gets a folder of its own beside them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quire.ledger import (
    Change,
    Commit,
    FormatFile,
    Hint,
    History,
    Keys,
    Line,
    LogLedger,
    OpaqueToken,
    Pin,
    Point,
    Read,
    Record,
    Ref,
    Refs,
    Segment,
    State,
    StreamToken,
    TableInfo,
    TableState,
    decode,
    encode,
)
from quire.ledger.log import SideObject
from quire.ledger.records import Stored
from quire.store import Store

FIXTURE = Path(__file__).parent / "fixtures" / "format-1"

MAIN = "00c0ffee00c0ffee"
CHILD = "0badcafe0badcafe"
SIDE = "5555555555555555"


def when(seconds: int, micros: int = 0) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=micros)


def pin(table: str, counter: int, rows: int) -> Pin:
    version = str(9223372036854775808 + counter)
    return Pin("lance", f"tables/{table}", version, counter, rows=rows, bytes=rows * 64, head=1)


PEOPLE = TableInfo(id="aaaaaaaaaaaaaaaa", name="people", key=("id",))
EVENTS = TableInfo(id="bbbbbbbbbbbbbbbb", name="événements", stable_row_ids=True, validator="graph")
RENAMED = TableInfo(id="bbbbbbbbbbbbbbbb", name="events", stable_row_ids=True, validator="graph")

START = Commit(write="1000000000000000", time=when(0), author="ada@host", message="create lake")
MADE = Commit(
    write="1111111111111111",
    time=when(1),
    author="ada@host",
    message='first "load"\nof two tables',
    parents=(Point(MAIN, 0),),
    changes=(
        Change(PEOPLE.id, "people", ("create",), pin(PEOPLE.id, 1, 2), PEOPLE, (Keys(("id",), 2, "AAECAwQFBgc="),), 2),
        Change(EVENTS.id, "événements", ("create",), pin(EVENTS.id, 1, 3), EVENTS, added=3),
    ),
    stream=StreamToken("kafka/orders", 41),
)
GROUPED = (
    Commit(
        write="2222222222222222",
        time=when(2),
        author="bob@host",
        parents=(Point(MAIN, 1),),
        changes=(Change(PEOPLE.id, "people", ("upsert", "delete"), pin(PEOPLE.id, 2, 4), added=3, removed=1),),
        reads=(Read("key-exists", PEOPLE.id, ("id",), 1), Read("table", EVENTS.id)),
        isolation="serializable",
        token=OpaqueToken("qt-019b79e2f0c0-0123456789abcdef", when(2)),
    ),
    Commit(
        write="2222222222222223",
        time=when(2),
        author="cy@host",
        parents=(Point(MAIN, 2),),
        changes=(Change(EVENTS.id, "events", ("rename",), info=RENAMED),),
        stream=StreamToken("kafka/orders", 42),
    ),
)
ASIDE = Commit(
    write=SIDE,
    time=when(3, 1),
    author="ada@host",
    message="moved aside",
    parents=(Point(MAIN, 2, 1),),
    changes=(Change(PEOPLE.id, "people", ("drop",), removed=4),),
    reverts=Point(MAIN, 2),
)
APART = Commit(
    write="6666666666666666",
    time=when(4),
    author="dee@host",
    parents=(Point(MAIN, 2),),
    adopts=Point(MAIN, 1),
    changes=(Change(EVENTS.id, "événements", ("append",), pin(EVENTS.id, 2, 5), added=2),),
)

RECORDS = [
    Record(1, MAIN, 0, "1000000000000000", "", when(0), "genesis", commits=(START,)),
    Record(1, MAIN, 1, MADE.write, "1000000000000000", when(1), commits=(MADE,)),
    Record(1, MAIN, 2, "2222222222222222", MADE.write, when(2), commits=GROUPED),
    Record(1, MAIN, 3, SIDE, "2222222222222222", when(3, 1), checkpoint=Point(MAIN, 2), side=f"side-{SIDE}"),
    Record(1, MAIN, 4, "4444444444444444", SIDE, when(5), "claim", 7, Point(MAIN, 2)),
]
APART_RECORDS = [
    Record(1, CHILD, 3, APART.write, "2222222222222222", when(4), commits=(APART,)),
    Record(1, CHILD, 4, "7777777777777777", APART.write, when(6), "closed"),
]
CHECKPOINT = State(
    format=1,
    branch=MAIN,
    slot=2,
    write="2222222222222222",
    time=when(2),
    head=Point(MAIN, 2, 1),
    tables={
        PEOPLE.id: TableState(PEOPLE, pin(PEOPLE.id, 2, 4), Point(MAIN, 2)),
        EVENTS.id: TableState(RENAMED, pin(EVENTS.id, 1, 3), Point(MAIN, 2, 1)),
    },
    streams={"kafka/orders": 42},
    tokens={"qt-019b79e2f0c0-0123456789abcdef": (Point(MAIN, 2), when(2))},
)
CHILD_LINE = Line(CHILD, (Segment(MAIN, 2, 0),))
CHILD_REF = Ref(1, "8888888888888888", "branch", "feature/x", "dee@host", when(3), "try", CHILD_LINE, Point(MAIN, 2))
GONE = Ref(1, "9999999999999999", "gone", "feature/x", "dee@host", when(7))
TAG = Ref(1, "aaaaaaaaaaaaaaab", "tag", "v1", "ada@host", when(3), line=Line(MAIN), target=Point(MAIN, 1))

OBJECTS: dict[str, Stored] = {
    "_quire/format.json": FormatFile(1, "feedfeedfeedfeed", MAIN, "log", when(0)),
    "_quire/hint-main.json": Hint(MAIN, 4, Point(MAIN, 2), 3),
    **{f"_quire/log/{r.branch}/{r.slot:020d}": r for r in (*RECORDS, *APART_RECORDS)},
    f"_quire/log/{MAIN}/side-{SIDE}": SideObject(1, (ASIDE,)),
    f"_quire/log/{MAIN}/checkpoint-{2:020d}": CHECKPOINT,
    "_quire/refs/branch.feature%2Fx/0000000000": CHILD_REF,
    "_quire/refs/branch.feature%2Fx/0000000001": GONE,
    "_quire/refs/tag.v1/0000000000": TAG,
}


@pytest.fixture
def lake(memory: Store) -> Store:
    for path in FIXTURE.rglob("*"):
        if path.is_file():
            memory.put(path.relative_to(FIXTURE).as_posix(), path.read_bytes())
    return memory


@pytest.mark.parametrize("key", OBJECTS)
def test_an_object_means_what_it_meant(key: str) -> None:
    assert decode((FIXTURE / key).read_bytes(), type(OBJECTS[key]), key) == OBJECTS[key]


@pytest.mark.parametrize("key", OBJECTS)
def test_an_object_is_still_written_with_the_same_bytes(key: str) -> None:
    # Two versions of the library may write one checkpoint, and each must recognise the other's as its own.
    assert encode(OBJECTS[key]) == (FIXTURE / key).read_bytes()


def test_no_object_is_left_out() -> None:
    files = {path.relative_to(FIXTURE).as_posix() for path in FIXTURE.rglob("*") if path.is_file()}
    assert files == set(OBJECTS)


def test_the_log_reads_as_it_did(lake: Store) -> None:
    history = History(lake, LogLedger(lake), Line(branch=MAIN))
    for hint in (None, Hint(MAIN, 4, Point(MAIN, 2), 3)):
        state = history.open(hint)
        assert (state.slot, state.epoch, state.head, state.names()) == (4, 7, Point(MAIN, 3), {"events": EVENTS.id})
        assert state.streams == {"kafka/orders": 42}
    assert history.at_slot(2) == msgspec.structs.replace(CHECKPOINT, reaches={})  # replayed, not read
    messages: list[Any] = [(point.commit, entry.write) for point, entry in history.commits(history.open())]
    assert messages == [
        ("3.0", SIDE),
        ("2.1", "2222222222222223"),
        ("2.0", "2222222222222222"),
        ("1.0", MADE.write),
        ("0.0", START.write),
    ]


def test_a_branch_inside_a_group_reads_as_it_did(lake: Store) -> None:
    state = History(lake, LogLedger(lake), CHILD_LINE).open()
    assert (state.slot, state.closed, state.head) == (4, True, Point(CHILD, 3))
    assert state.names() == {"people": PEOPLE.id, "événements": EVENTS.id}
    assert state.tables[EVENTS.id].pin.rows == 5


def test_the_refs_read_as_they_did(lake: Store) -> None:
    refs = Refs(lake)
    assert refs.get("branch", "feature/x") == (GONE, 1)
    assert (list(refs.list("branch")), list(refs.list("tag"))) == ([], [TAG])
