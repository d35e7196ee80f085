"""Insert-or-ignore: rows whose key exists are left out, whoever was first; never a duplicate, never a changed row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.lake.conftest import Race, rows

import quire
from quire.errors import ColumnNotFound, DuplicateKeys, ExpectationFailed, InvalidInput, KeyConflict
from quire.ledger import new_id
from quire.testing import memory

memory.install()


@pytest.fixture(params=["lance", "memory"])
def lake(request: pytest.FixtureRequest) -> Iterator[quire.Lake]:
    """`t` with key `id` and the rows 1 and 2; `plain` without a key, with the same."""
    with quire.create(f"memory://{new_id()}") as made:
        with made.transaction() as tx:
            tx.create_table("t", rows(1, 2), key="id", format=request.param)
            tx.create_table("plain", rows(1, 2), format=request.param)
        yield made


def held(lake: quire.Lake, table: str = "t") -> dict[int, int]:
    found = lake[table].to_pylist()
    content = {row["id"]: row["v"] for row in found}
    assert len(content) == len(found), "no key twice"
    return content


def test_rows_whose_key_exists_are_left_out(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert tx["t"].insert(rows(2, 3, 4, times=7), exists="ignore") == {"inserted": 2, "ignored": 1}
    assert held(lake) == {1: 10, 2: 20, 3: 21, 4: 28}
    assert tx.receipt.tables["t"].ops == ("insert",)
    assert (tx.receipt.tables["t"].added, tx.receipt.tables["t"].removed) == (2, 0)


def test_of_rows_with_one_key_the_first_is_kept(lake: quire.Lake) -> None:
    given = [{"id": 3, "v": 1}, {"id": 3, "v": 2}, {"id": 1, "v": 3}, {"id": 3, "v": 4}]
    with lake.transaction() as tx:
        assert tx["t"].insert(given, exists="ignore") == {"inserted": 1, "ignored": 3}
    assert held(lake) == {1: 10, 2: 20, 3: 1}


def test_nothing_new_is_nothing_to_commit(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert tx["t"].insert(rows(1, 2, times=7), exists="ignore") == {"inserted": 0, "ignored": 2}
        assert tx["t"].insert(rows().slice(0, 0), exists="ignore") == {"inserted": 0, "ignored": 0}
    assert tx.receipt.commit is None
    assert held(lake) == {1: 10, 2: 20}


def test_a_stream_is_inserted_as_one_statement(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.lake.commit.insert_or_ignore.CHUNK_BYTES", 1)
    batches = [batch for ids in ([1, 3], [3, 4], [4, 5, 2]) for batch in rows(*ids, times=7).to_batches()]
    with lake.transaction() as tx:
        given = pa.RecordBatchReader.from_batches(rows().schema, batches)
        assert tx["t"].insert(given, exists="ignore") == {"inserted": 3, "ignored": 4}
    assert held(lake) == {1: 10, 2: 20, 3: 21, 4: 28, 5: 35}


def test_it_sees_what_the_transaction_did_before(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].delete("id = 1")
        tx["t"].insert(rows(5))
        assert tx["t"].insert(rows(1, 2, 5, 6, times=7), exists="ignore") == {"inserted": 2, "ignored": 2}
        assert tx["t"].insert(rows(6, 7, times=8), exists="ignore") == {"inserted": 1, "ignored": 1}
    assert held(lake) == {1: 7, 2: 20, 5: 50, 6: 42, 7: 56}


def test_a_table_without_a_key_is_told_the_columns(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert tx["plain"].insert(rows(2, 3), on="id", exists="ignore") == {"inserted": 1, "ignored": 1}
        with pytest.raises(InvalidInput, match="has no key"):
            tx["plain"].insert(rows(4), exists="ignore")
        with pytest.raises(ColumnNotFound):
            tx["plain"].insert(rows(4), on="nope", exists="ignore")
    assert held(lake, "plain") == {1: 10, 2: 20, 3: 30}


def test_a_new_table_takes_the_first_of_each(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        made = tx.create_table("new", schema=rows().schema, key="id")
        assert made.insert(rows(1, 1, 2), exists="ignore") == {"inserted": 2, "ignored": 1}
    assert held(lake, "new") == {1: 10, 2: 20}


def test_a_strict_insert_stays_the_default(lake: quire.Lake) -> None:
    with pytest.raises(KeyConflict) as told, lake.transaction() as tx:
        tx["t"].insert(rows(2, 3))
    assert not told.value.retryable
    with pytest.raises(InvalidInput, match="not 'replace'"), lake.transaction() as tx:
        tx["t"].insert(rows(2, 3), exists="replace")


def test_a_row_without_a_key_is_refused_and_nothing_is_half_done(lake: quire.Lake) -> None:
    given = pa.table({"id": pa.array([7, None], pa.int64()), "v": pa.array([1, 2], pa.int64())})
    with lake.transaction() as tx:
        with pytest.raises(DuplicateKeys, match="null"):
            tx["t"].insert(given, exists="ignore")
        assert tx["t"].count() == 2
        tx["t"].insert(rows(3), exists="ignore")
    assert held(lake) == {1: 10, 2: 20, 3: 30}


def test_keys_of_several_columns_and_of_signed_zeros(tmp_path: Path) -> None:
    lake = quire.create(f"memory://{new_id()}")
    lake.create_table("t", pa.table({"a": [0.0, 1.0], "b": ["x", "y"], "v": [1, 2]}), key=["a", "b"])
    with lake.transaction() as tx:
        given = pa.table({"a": [-0.0, 0.0, -0.0, 2.0], "b": ["x", "y", "y", "x"], "v": [3, 4, 5, 6]})
        assert tx["t"].insert(given, exists="ignore") == {"inserted": 2, "ignored": 2}
    assert sorted(row["v"] for row in lake["t"].to_pylist()) == [1, 2, 4, 6]


def test_blobs_are_stored_as_blobs(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    graph = quire.Graph(lake)
    graph.apply_schema("node Photo { name: String @key  image: Blob? }")
    graph.load([{"type": "Photo", "data": {"name": "a", "image": "base64:AAA="}}])
    found = lake["node:Photo"].schema.names
    given = pa.table({"id": ["z"], "name": ["z"], "image": pa.array([b"xyz"], pa.large_binary())}).select(found)
    with lake.transaction() as tx:
        assert tx["node:Photo"].insert(given, exists="ignore", on="id" if not tx["node:Photo"].key else None) == {
            "inserted": 1,
            "ignored": 0,
        }


# -- beside others ----------------------------------------------------------------------------------------------------


def test_a_rival_that_adds_the_key_first_is_a_conflict_that_running_again_resolves(unkeyed: Race) -> None:
    unkeyed.mine(lambda t: t.insert(rows(8, 20, 21, times=7), on="id", exists="ignore"))
    unkeyed.theirs(lambda t: t.insert(rows(20, times=9), on="id"))
    error = unkeyed.refused(KeyConflict)
    assert error.retryable
    assert "transact" in str(error)


def test_a_rival_that_adds_other_keys_is_followed_without_writing_again(unkeyed: Race) -> None:
    assert unkeyed.mine(lambda t: t.insert(rows(8, 20), on="id", exists="ignore")) == {"inserted": 1, "ignored": 1}
    unkeyed.theirs(lambda t: t.insert(rows(30), on="id"))
    assert unkeyed.commit().rebased == 1
    assert [row[0] for row in unkeyed.content()] == [*range(1, 9), 20, 30]


def test_a_rival_that_removes_a_key_for_which_a_row_was_left_out_is_a_conflict(unkeyed: Race) -> None:
    unkeyed.mine(lambda t: t.insert(rows(8, 20), on="id", exists="ignore"))
    unkeyed.theirs(lambda t: t.delete("id = 8"))
    assert unkeyed.refused(ExpectationFailed).retryable


def test_a_replay_for_another_statement_is_no_duplicate_either(unkeyed: Race) -> None:
    def mine(t: Any) -> None:
        t.upsert(rows(1, times=7), on="id")
        t.insert(rows(8, 20), on="id", exists="ignore")

    def theirs(t: Any) -> None:
        t.upsert(rows(1, times=9), on="id")
        t.insert(rows(20, times=9), on="id")

    unkeyed.mine(mine)
    unkeyed.theirs(theirs)
    assert unkeyed.refused(KeyConflict).retryable


KEYS = st.lists(st.integers(0, 5), max_size=6)


@settings(max_examples=budget(10, full=25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), format=st.sampled_from(["memory", "memory", "memory", "lance"]))
def test_whatever_a_rival_does_the_result_is_that_of_one_after_the_other(data: Any, format: str) -> None:
    lake = quire.create(f"memory://{new_id()}", backfill=False)
    lake.create_table("t", rows(0, 1, 2), key="id", format=format)
    other = quire.open(lake.uri, backfill=False)
    mine = data.draw(KEYS, "mine")
    added, removed = data.draw(st.sets(st.integers(0, 5)), "added"), data.draw(st.sets(st.integers(0, 5)), "removed")
    runs = []

    def work(tx: quire.Transaction) -> dict[str, int]:
        counts = tx["t"].insert(
            pa.table({"id": pa.array(mine, pa.int64()), "v": pa.array(np.arange(len(mine)) + 100)}), exists="ignore"
        )
        if not runs:
            with other.transaction() as theirs:
                theirs["t"].upsert(rows(*sorted(added), times=1000))
                if removed:
                    theirs["t"].delete(f"id in ({', '.join(map(str, sorted(removed)))})")
        runs.append(counts)
        return counts

    counts = lake.transact(work)
    expected = {0: 0, 1: 10, 2: 20} | {i: 1000 * i for i in added}
    expected = {i: v for i, v in expected.items() if i not in removed}
    if len(runs) == 1 and not counts["inserted"]:  # nothing was written, so it was as if it had come first
        mine, counts = [], {"inserted": 0, "ignored": counts["ignored"] - len(mine)}
    before = len(expected)
    for position, i in enumerate(mine):
        expected.setdefault(i, 100 + position)
    assert held(lake) == expected
    assert counts == {"inserted": len(expected) - before, "ignored": len(mine) - (len(expected) - before)}


@pytest.mark.parametrize("name", ["position", "position0", "Position1", "position in the input", "k0", "count_all"])
def test_a_key_may_have_any_name(lake: quire.Lake, name: str) -> None:
    for key in ([name], ["other", name]):
        table = f"named{len(key)}"
        lake.create_table(table, pa.table({"other": [1, 2], name: [1, 2], "v": [10, 20]}), key=key)
        with lake.transaction() as tx:
            more = pa.table({"other": [2, 3, 3], name: [2, 3, 3], "v": [0, 30, 0]})
            assert tx[table].insert(more, exists="ignore") == {"inserted": 1, "ignored": 2}
        assert sorted(row["v"] for row in lake[table].to_pylist()) == [10, 20, 30]
