"""One suite for both ways to a lake: opened here, and behind a server. Whatever differs is a defect of the client."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import (
    ColumnNotFound,
    CommitNotFound,
    Conflict,
    DuplicateKeys,
    ExpectationFailed,
    InvalidExpression,
    InvalidInput,
    KeyConflict,
    NotFastForward,
    SchemaMismatch,
    TableExists,
    TableNotFound,
    TransactionClosed,
)
from quire.server.config import Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running


@pytest.fixture(params=["local", "server"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The same lake, opened here or through a server."""
    made = quire.create(tmp_path / "lake", backfill=False)
    if request.param == "local":
        yield made
        return
    config = Config(lakes={"demo": LakeConfig(str(tmp_path / "lake"))}, port=0)
    with running(config, RequestLog(lambda line: None)) as server, quire.connect(f"{server.url}/demo") as found:
        yield found


@pytest.fixture
def filled(lake: Any) -> Any:
    with lake.transaction("first") as tx:
        tx.create_table("people", [{"id": i, "name": f"p{i}", "age": 20 + i} for i in range(10)], key="id")
        tx.create_table("notes", [{"text": "one"}])
    return lake


def test_a_new_lake_is_empty(lake: Any) -> None:
    assert lake.tables() == []
    assert lake.snapshot().commit == lake.head == "0.0"
    assert [entry.message for entry in lake.log()] == ["create lake"]
    assert "people" not in lake
    with pytest.raises(TableNotFound):
        lake["people"]


def test_what_is_committed_is_read(filled: Any) -> None:
    snap = filled.snapshot()
    assert (snap.tables(), len(snap), list(snap), "notes" in snap) == (
        ["notes", "people"],
        2,
        ["notes", "people"],
        True,
    )
    people = snap["people"]
    assert (people.name, people.key, int(people.version), people.commit) == ("people", ("id",), 1, "1.0")
    assert (people.count(), len(people), people.count("age > 25")) == (10, 10, 4)
    assert people.schema.names == ["id", "name", "age"]
    assert people.scan(columns=["name"], filter="id = 3").to_pylist() == [{"name": "p3"}]
    assert people.scan(limit=2, offset=1).to_pylist() == people.to_pylist()[1:3]
    assert people.head(2).to_pylist() == people.to_pylist()[:2]
    assert people.to_arrow().num_rows == len(people.to_pandas()) == len(people.to_polars()) == 10
    assert people.describe()["key"] == ["id"]


def test_sql_joins_tables_of_one_commit(filled: Any) -> None:
    query = "select name, text from people, notes where id = ?"
    assert filled.sql(query, [3]).to_pylist() == [{"name": "p3", "text": "one"}]
    snap = filled.snapshot()
    with filled.transaction() as tx:
        tx["people"].delete("true")
    assert snap.sql("select count(*) as n from people").to_pylist() == [{"n": 10}]
    assert filled.sql("select count(*) as n from people").to_pylist() == [{"n": 0}]


DEEP = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.string())])
VALUES = pa.table(
    {
        "id": pa.array([1, 2], pa.int32()),
        "f": pa.array([math.nan, -math.inf]),
        "at": pa.array([dt.datetime(2026, 1, 1, 1, 2, 3, 4), None], pa.timestamp("us")),
        "day": pa.array([dt.date(1900, 1, 1), dt.date(9999, 12, 31)]),
        "raw": pa.array([b"\x00\xff", b""]),
        "big": pa.array([2**63 - 1, -(2**63)]),
        "v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "deep": pa.array([{"a": [1, None], "b": "x"}, None], DEEP),
    }
)  # fmt: skip


def test_every_value_comes_back_as_it_was(lake: Any) -> None:
    lake.create_table("values", VALUES, key="id")
    found = lake["values"].to_arrow()
    assert found.schema.equals(VALUES.schema)
    assert repr(found.to_pylist()) == repr(VALUES.to_pylist())
    assert lake["values"].schema.equals(VALUES.schema)


def test_python_values_fit_the_columns_of_the_table(lake: Any) -> None:
    lake.create_table("values", schema=VALUES.schema, key="id")
    row = {**VALUES.to_pylist()[0], "f": math.nan}
    with lake.transaction() as tx:
        assert tx["values"].insert([row]) == 1
        assert tx["values"].update(values={"f": -math.inf, "day": dt.date(2000, 2, 29)}, where="id = 1") == 1
    [found] = lake["values"].to_pylist()
    assert (found["f"], found["day"], found["raw"]) == (-math.inf, dt.date(2000, 2, 29), b"\x00\xff")


def test_a_transaction_sees_its_own_writes_and_tells_what_it_did(filled: Any) -> None:
    with filled.transaction("changes", metadata={"job": "42"}) as tx:
        people = tx["people"]
        assert people.append([{"id": 10, "name": "x", "age": 1}]) == 1
        assert people.upsert([{"id": 3, "name": "Carl", "age": 1}, {"id": 11, "name": "y", "age": 2}]) == {
            "inserted": 1,
            "updated": 1,
        }
        assert people.update({"age": "age + 1"}, values={"name": "Z"}, where="id = 4") == 1
        assert people.delete("id < 2") == 2
        assert people.insert([{"id": 3, "name": "no", "age": 0}], exists="ignore") == {"inserted": 0, "ignored": 1}
        assert (people.count(), people.count("id >= 10"), people.key) == (10, 2, ("id",))
        assert people.scan(filter="id = 4").to_pylist() == [{"id": 4, "name": "Z", "age": 25}]
        assert tx.sql("select max(id) as m from people").to_pylist() == [{"m": 11}]
        assert tx["notes"].overwrite([{"text": "two"}, {"text": "three"}]) == 2
        assert tx.tables() == ["notes", "people"]
    receipt = tx.receipt
    assert (receipt.commit, receipt.branch, set(receipt.tables)) == ("2.0", "main", {"notes", "people"})
    assert tx.status == "committed"
    shown = filled.show("2.0")
    assert (shown.message, shown.metadata["job"], shown.parents) == ("changes", "42", ("1.0",))
    assert filled.snapshot().commit == "2.0"


def test_tables_and_columns_change(filled: Any) -> None:
    with filled.transaction() as tx:
        tx["people"].add_columns({"city": pa.string(), "old": "age > 25"})
        tx["people"].rename_column("city", "town")
        assert tx["people"].create_index("name") == "name_idx"
        tx.rename_table("notes", "remarks")
    assert filled["people"].schema.names == ["id", "name", "age", "town", "old"]
    with filled.transaction() as tx:
        tx["people"].drop_columns(["town", "old"])
        tx["people"].drop_index("name_idx")
        tx.drop_table("remarks")
    assert filled.tables() == ["people"]
    assert filled["people"].schema.names == ["id", "name", "age"]


def test_an_exception_discards(filled: Any) -> None:
    def fail(tx: Any) -> None:
        with tx:
            tx["notes"].append([{"text": "two"}])
            raise RuntimeError

    tx = filled.transaction()
    with pytest.raises(RuntimeError):
        fail(tx)
    assert tx.status == "discarded"
    assert filled["notes"].count() == 1
    with pytest.raises(TransactionClosed):
        tx.commit()


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (TableNotFound, lambda tx: tx["nobody"]),
        (TableExists, lambda tx: tx.create_table("people", [{"a": 1}])),
        (KeyConflict, lambda tx: tx["people"].insert([{"id": 1, "name": "x", "age": 1}])),
        (DuplicateKeys, lambda tx: tx["people"].upsert([{"id": 1, "age": 1}, {"id": 1, "age": 2}])),
        (SchemaMismatch, lambda tx: tx["people"].append([{"id": "x", "name": "x", "age": 1}])),
        (SchemaMismatch, lambda tx: tx["notes"].append([{"text": "x", "extra": 1}])),
        (InvalidExpression, lambda tx: tx["people"].delete("nobody = ")),
        (ColumnNotFound, lambda tx: tx["people"].drop_columns("nobody")),
        (InvalidInput, lambda tx: tx["people"].delete("")),
    ],
)
def test_errors_are_of_the_same_class_and_nothing_is_lost_by_them(
    filled: Any, kind: type[Exception], step: Any
) -> None:
    with filled.transaction() as tx:
        tx["notes"].append([{"text": "before"}])
        with pytest.raises(kind) as caught:
            step(tx)
        assert caught.value.next  # type: ignore[attr-defined]
    assert filled["notes"].count() == 2


def test_a_key_conflict_says_which_key(filled: Any) -> None:
    with pytest.raises(KeyConflict) as caught, filled.transaction() as tx:
        tx["people"].insert([{"id": 1, "name": "x", "age": 1}])
    assert (caught.value.table, caught.value.keys, caught.value.retryable) == ("people", [{"id": 1}], False)


def test_conditions(filled: Any) -> None:
    for wrong in ({"expect": {"people": 9}}, {"if_head": "0.0"}):
        with pytest.raises(ExpectationFailed), filled.transaction(**wrong) as tx:
            tx["people"].delete("id = 1")
    with filled.transaction(expect={"people": 1}, if_head="1.0") as tx:
        tx["people"].delete("id = 1")
    assert filled["people"].count() == 9


def test_a_token_commits_once(filled: Any) -> None:
    token = quire.token()
    for _ in range(2):
        tx = filled.transaction(token=token)
        if tx.repeated() is None:
            with tx:
                tx["notes"].append([{"text": "once"}])
    assert tx.repeated().commit == "2.0"
    for sequence in (1, 2, 2, 1):
        tx = filled.transaction(token=quire.StreamToken("nightly", sequence), fresh=True)
        if tx.repeated() is None:
            with tx:
                tx["notes"].append([{"text": f"s{sequence}"}])
    assert sorted(row["text"] for row in filled["notes"].to_pylist()) == ["once", "one", "s1", "s2"]


def test_transact_runs_again_after_a_conflict(filled: Any) -> None:
    runs = []

    def change(tx: Any) -> int:
        age = tx["people"].scan(filter="id = 1").to_pylist()[0]["age"]
        if not runs:
            with filled.transaction(fresh=True) as rival:
                rival["people"].update(values={"age": 100}, where="id = 1")
        runs.append(age)
        tx["people"].update(values={"age": age + 1}, where="id = 1")
        return int(age)

    assert filled.transact(change) == 100
    assert runs == [21, 100]
    assert filled["people"].scan(filter="id = 1").to_pylist()[0]["age"] == 101


def test_a_conflict_is_retryable_when_the_program_is_to_run_again(filled: Any) -> None:
    tx = filled.transaction()
    tx["people"].to_pylist()
    with filled.transaction(fresh=True) as rival:
        rival["people"].update(values={"age": 100}, where="id = 1")
    tx["people"].update(values={"age": 1}, where="id = 1")
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable


def test_time_travel(filled: Any) -> None:
    with filled.transaction("second") as tx:
        tx["people"].delete("id < 5")
    filled.tag("v1", at="1.0", message="the first")
    time = filled.show("1.0").time
    for snap in (filled.at(commit="1.0"), filled.at(tag="v1"), filled.at(time=time)):
        assert (snap.commit, snap["people"].count()) == ("1.0", 10)
    assert {name: str(commit) for name, commit in filled.tags().items()} == {"v1": "1.0"}
    with pytest.raises(CommitNotFound):
        filled.at(commit="99.0")
    assert [entry.id for entry in filled.log()] == ["2.0", "1.0", "0.0"]
    assert [entry.id for entry in filled.log(limit=2)] == ["2.0", "1.0"]
    [people] = filled.diff("1.0")
    assert (people.name, people.kind, people.added, people.changed, people.removed) == ("people", "changed", 0, 0, 5)
    filled.revert("2.0")
    assert filled["people"].count() == 10
    filled.restore("2.0", tables=["people"])
    assert filled["people"].count() == 5
    filled.delete_tag("v1")
    assert filled.tags() == {}


def test_branches(filled: Any) -> None:
    trial = filled.create_branch("trial")
    with trial.transaction("on trial") as tx:
        tx["notes"].append([{"text": "trial"}])
    assert (trial["notes"].count(), filled["notes"].count()) == (2, 1)
    assert [b.name for b in filled.branches()] == ["main", "trial"]
    assert filled.branch("trial").snapshot().branch == "trial"
    receipt = filled.fast_forward("trial")
    assert receipt.branch == "main"
    assert filled["notes"].count() == 2
    for branch in (filled, trial):
        with branch.transaction() as tx:
            tx["notes"].append([{"text": "apart"}])
    with pytest.raises(NotFastForward):
        filled.fast_forward("trial")
    filled.delete_branch("trial")
    assert [b.name for b in filled.branches()] == ["main"]


def test_search(lake: Any) -> None:
    lake.create_table("docs", VALUES.select(["id", "v"]), key="id")
    found = lake["docs"].search(vector=[3.0, 4.0], limit=1, columns=["id"]).to_pylist()
    assert [row["id"] for row in found] == [2]
