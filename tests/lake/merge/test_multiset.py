"""Tables without a key: rows are events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.lake.merge.conftest import Fork

import quire
from quire.errors import InvalidInput, UnresolvedConflicts
from quire.testing import memory


class Events(Fork):
    """Table `log` without a key: twice `a`, once `b`, `c`, `d`, in two files."""

    def __init__(self, lake: quire.Lake, format: str) -> None:
        self.lake, self.format = lake, format
        lake.transact(lambda tx: tx.create_table("log", rows("aab"), format=format) and None)
        lake.transact(lambda tx: tx["log"].append(rows("cd")) and None)
        self.exp = lake.create_branch("exp")

    def text(self) -> str:
        with quire.open(self.lake.uri, read_only=True) as fresh:
            return "".join(sorted(r["e"] for r in fresh["log"].to_pylist()))


def rows(text: str) -> pa.Table:
    """One row for each letter, with values that are not equal to themselves elsewhere."""
    schema = pa.schema({"e": pa.string(), "n": pa.int64(), "v": pa.list_(pa.float32())})
    return pa.Table.from_pylist([{"e": letter, "n": None, "v": [1.0, float("nan")]} for letter in text], schema)


def append(text: str) -> Any:
    return lambda tx: tx["log"].append(rows(text))


def delete(where: str) -> Any:
    return lambda tx: tx["log"].delete(where)


@pytest.fixture(params=["lance", "memory"])
def events(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Events]:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        yield Events(lake, request.param)


def test_what_both_added_is_there_and_what_either_removed_is_gone(events: Events) -> None:
    events.ours(append("xa"), delete("e = 'b'"))
    events.theirs(append("xy"), delete("e in ('b', 'c')"))
    before = events.data_files()
    assert events.lake.merge("exp").outcome == "merged"
    assert events.text() == "aaadxxy"
    assert events.data_files() == before


@pytest.mark.parametrize("who", ["ours", "theirs", "both"])
def test_appends_merge_whoever_was_compacted(events: Events, who: str) -> None:
    events.ours(append("xa"), delete("e = 'b'"))
    events.theirs(append("xy"), delete("e = 'c'"))
    for name, lake in (("ours", events.lake), ("theirs", events.exp)):
        if who in (name, "both"):
            lake.optimize()
    before = events.data_files()
    plan = events.lake.merge("exp", preview=True)
    assert len(plan.conflicts) == 0
    plan.commit()
    assert events.text() == "aaadxxy"
    assert who == "both" or events.data_files() == before


@pytest.mark.parametrize(("choose", "left"), [("ours", "b"), ("theirs", ""), ("delete", ""), ({"count": 3}, "bbb")])
def test_after_a_compaction_nobody_knows_which_of_equal_rows_was_meant(events: Events, choose: Any, left: str) -> None:
    events.ours(append("bb"), delete("e = 'c'"))
    with events.lake.transaction() as tx:
        tx["log"].delete("e = 'b'")
        tx["log"].append(rows("bb"))
    events.theirs(delete("e = 'b'"), append("x"))
    events.lake.optimize()
    with pytest.raises(UnresolvedConflicts):
        events.lake.merge("exp")
    plan = events.lake.merge("exp", preview=True)
    [one] = plan.conflicts
    assert (one.kind, one.counts) == ("count", {"base": 1, "ours": 2, "theirs": 0})
    with pytest.raises(InvalidInput):
        plan.resolve("log", one.key, values={"count": -1})
    how = {"values": choose} if isinstance(choose, dict) else {"choose": choose}
    plan.resolve("log", one.key, **how)
    plan.commit()
    assert events.text() == "aa" + (left + "b" if choose == "ours" else left) + "dx"


def test_who_replaced_all_rows_is_in_conflict_with_who_changed_some(events: Events) -> None:
    events.ours(lambda tx: tx["log"].overwrite(rows("z")))
    events.theirs(append("x"))
    plan = events.lake.merge("exp", preview=True)
    assert [(c.kind, c.key, c.ours_op, c.theirs_op) for c in plan.conflicts] == [("count", None, "overwrite", "update")]
    events.lake.merge("exp", resolve="theirs")
    assert events.text() == "aabcdx"


@pytest.mark.parametrize("swapped", [False, True])
def test_rows_beside_an_overwrite_that_was_resolved_away(events: Events, swapped: bool) -> None:
    events.theirs(lambda tx: tx["log"].overwrite(rows("pq")))
    events.ours(append("x"))
    events.lake.merge("exp", resolve="ours", mode="no-ff")
    assert events.text() == "aabcdx"
    events.theirs(delete("e = 'p'"), append("r"))
    if swapped:
        events.exp.merge("main")
        assert "".join(sorted(r["e"] for r in events.exp["log"].to_pylist())) == "aabcdrx"
    else:
        events.lake.merge("exp")
        assert events.text() == "aabcdrx"
