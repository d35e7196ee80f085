"""What people do in their first hour, and what they must be told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import quire
from quire.errors import ExpectationFailed, InvalidExpression, InvalidInput


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    made = quire.create(tmp_path / "lake", backfill=False)
    made.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
    return made


STATEMENTS = {
    "insert": lambda tx: tx["people"].insert([{"id": 2, "name": "Bob"}]),
    "create": lambda tx: tx.create_table("more", [{"x": 1}]),
    "drop": lambda tx: tx.drop_table("people"),
    "rename": lambda tx: tx.rename_table("people", "persons"),
    "columns": lambda tx: tx["people"].add_columns({"twice": "id * 2"}),
    "index": lambda tx: tx["people"].create_index("id"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("kind", ["stream", "opaque"])
def test_a_job_with_a_token_may_run_again_whatever_it_does(lake: quire.Lake, statement: str, kind: str) -> None:
    token = quire.StreamToken("nightly", 1) if kind == "stream" else quire.token()
    runs: list[bool] = []
    for handle in (lake, lake, quire.open(lake.uri, backfill=False)):
        with handle.transaction("nightly", token=token) as tx:
            STATEMENTS[statement](tx)
        assert tx.receipt is not None
        runs.append(tx.receipt.repeated)
    assert runs == [False, True, True]
    assert lake.refresh() == "2.0"


def test_a_token_hides_no_error_of_work_that_was_not_done(lake: quire.Lake) -> None:
    with pytest.raises(quire.KeyConflict), lake.transaction(token=quire.token()) as tx:
        tx["people"].insert([{"id": 1, "name": "again"}])
    token = quire.StreamToken("s", 1)
    with lake.transaction(token=token) as tx:
        tx["people"].insert([{"id": 2, "name": "Bob"}])
    with pytest.raises(ZeroDivisionError), lake.transaction(token=token):
        1 / 0  # noqa: B018 - the program's own error


def test_a_named_pandas_index_is_a_column_and_row_numbers_are_not(lake: quire.Lake) -> None:
    frame = pd.DataFrame({"doc": [1, 1, 2], "n": [1, 2, 3]})
    lake.create_table("sums", frame.groupby("doc").sum())
    assert lake["sums"].to_pylist() == [{"doc": 1, "n": 3}, {"doc": 2, "n": 3}]
    with lake.transaction() as tx:
        tx["sums"].append(frame[frame["n"] > 1])
    assert lake["sums"].count() == 4
    with lake.transaction() as tx:
        tx["people"].upsert(pd.DataFrame({"name": ["Eve"]}, index=pd.Index([1], name="id")))
    assert lake["people"].to_pylist() == [{"id": 1, "name": "Eve"}]


def test_a_frame_without_rows_or_with_a_column_of_nothing_fits_every_type(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert tx["people"].upsert(pd.DataFrame({"id": [], "name": []})) == {"inserted": 0, "updated": 0}
        tx["people"].insert(pd.DataFrame({"id": [5], "name": [np.nan]}))
    assert {r["id"]: r["name"] for r in lake["people"].to_pylist()} == {1: "Ada", 5: None}


def test_a_fresh_transaction_sees_what_others_committed(lake: quire.Lake) -> None:
    other = quire.open(lake.uri, backfill=False)
    with lake.transaction() as tx:
        tx["people"].insert([{"id": 2, "name": "Bob"}])
    with other.transaction(fresh=True) as tx:
        assert tx["people"].delete("true") == 2
    assert lake["people"].count() == 0


def test_lists_where_vectors_are_needed_are_told_how_to_become_vectors(lake: quire.Lake) -> None:
    lake.create_table("v", [{"id": 1, "vec": [1.0, 2.0]}, {"id": 2, "vec": [3.0, 4.0]}])
    for attempt in (
        lambda: lake["v"].search([1.0, 2.0]),
        lambda: lake["v"].search([1.0, 2.0], column="vec"),
        lambda: lake.transact(lambda tx: tx["v"].create_index("vec", "IVF_FLAT")),
    ):
        with pytest.raises(InvalidInput) as told:
            attempt()
        assert 'alter_column("vec", type=pa.list_(pa.float32(), N))' in str(told.value)
    with lake.transaction() as tx:
        tx["v"].alter_column("vec", type=pa.list_(pa.float32(), 2))
    assert lake["v"].search([3.0, 4.0], limit=1).to_pylist()[0]["id"] == 2


def test_an_index_option_that_does_not_exist_is_refused(lake: quire.Lake) -> None:
    lake.create_table("v", pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}))
    with pytest.raises(InvalidInput, match="no option 'partitions'"), lake.transaction() as tx:
        tx["v"].create_index("v", "IVF_FLAT", partitions=7)


def test_small_words(lake: quire.Lake) -> None:
    with lake.transaction("second") as tx:
        assert repr(tx["people"]) == "<Table 'people' inside a transaction>"
        tx["people"].insert([{"id": 2, "name": "Bob"}])
        assert "open: people changed" in repr(tx)
    assert len(repr(lake.log(limit=2)).splitlines()) == 2
    assert repr(lake["people"].scan()).startswith("<Rows of id, name, not read yet>\n")
    assert lake.show("HEAD").message == "second"
    with pytest.raises(AttributeError, match="with lake.transaction"):
        lake["people"].append([])  # type: ignore[attr-defined]
    with pytest.raises(InvalidExpression, match=r"lake\.tables"):
        lake.sql("show tables")
    with (
        pytest.raises(ExpectationFailed, match="Table 'docs' does not exist"),
        lake.transaction(expect={"docs": 1}) as tx,
    ):
        tx["people"].delete("true")


def test_a_commit_named_as_a_fast_forward_shows_it_can_be_shown(lake: quire.Lake) -> None:
    b = lake.create_branch("b")
    with b.transaction("on b") as tx:
        tx["people"].insert([{"id": 2, "name": "Bob"}])
    lake.fast_forward("b")
    parent = lake.show("HEAD").parents[1]
    assert lake.show(parent).message == "on b"


def test_a_check_is_not_broken_by_the_transactions_own_later_writes(lake: quire.Lake) -> None:
    other = quire.open(lake.uri, backfill=False)
    tx = lake.transaction()
    tx["people"].require_absent([2])
    tx["people"].insert([{"id": 2, "name": "Bob"}])
    tx["people"].require_keys([1, 2])
    tx["people"].delete("id = 1")
    with other.transaction() as rival:
        rival["people"].insert([{"id": 50, "name": "elsewhere"}])
    tx.commit()
    assert sorted(r["id"] for r in lake["people"].to_pylist()) == [2, 50]


def test_a_check_still_finds_what_a_rival_did_beside_own_writes(lake: quire.Lake) -> None:
    other = quire.open(lake.uri, backfill=False)
    lake.create_table("edges", [{"src": 1}])
    tx = lake.transaction()
    tx["people"].insert([{"id": 2, "name": "Bob"}])
    tx["people"].require_keys([1])
    tx["edges"].append([{"src": 1}])
    with other.transaction(fresh=True) as rival:
        rival["people"].delete("id = 1")
    with pytest.raises(ExpectationFailed):
        tx.commit()
    assert lake["edges"].count() == 1
