"""Transactions: statements in order, one commit, and the promises that callers can ask for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.lake.conftest import rows

import quire
from quire.errors import (
    BranchClosed,
    BranchExists,
    BranchNotFound,
    CommitNotFound,
    Conflict,
    DeadlineExceeded,
    DuplicateKeys,
    ExpectationFailed,
    InvalidArgument,
    InvalidInput,
    InvalidName,
    InvalidToken,
    KeyConflict,
    NotFastForward,
    Refused,
    SchemaMismatch,
    TableExists,
    TableNotFound,
    TransactionClosed,
)
from quire.lake.commit import tokens
from quire.ledger import fold
from quire.ledger.records import Commit, OpaqueToken, Point, Record
from quire.store import metering

Pairs = list[tuple[int, int | None]]


def content(place: Any, name: str = "t") -> list[tuple[Any, ...]]:
    """All rows of a table, sorted. A lake is asked for its newest commit; counts must agree with the rows."""
    table = (place.snapshot() if isinstance(place, quire.Lake) else place)[name]
    found = table.to_arrow()
    assert table.count() == found.num_rows
    return sorted(tuple(r.values()) for r in found.to_pylist())


def again(lake: quire.Lake, **options: Any) -> quire.Lake:
    """Another writer: a handle opened apart."""
    return quire.open(lake.uri, backfill=False, **options)


@pytest.fixture
def people(lake: quire.Lake) -> quire.Lake:
    """A lake with a keyed table `t` and an unkeyed table `log`, both with ids 1 to 3."""
    with lake.transaction() as tx:
        tx.create_table("t", rows(1, 2, 3), key="id")
        tx.create_table("log", rows(1, 2, 3))
    return lake


# -- statements see each other, in order ------------------------------------------------------------------------------

SEQUENCES: dict[str, tuple[Callable[[Any], Any], Pairs]] = {
    "append, delete own row": (
        lambda t: (t.append(rows(4, 5)), t.delete("id = 4")),
        [(1, 10), (2, 20), (3, 30), (5, 50)],
    ),
    "append, delete all own rows": (lambda t: (t.append(rows(4)), t.delete("id = 4")), [(1, 10), (2, 20), (3, 30)]),
    "append, update own row": (
        lambda t: (t.append(rows(4)), t.update({"v": "v + 1"}, where="id >= 3")),
        [(1, 10), (2, 20), (3, 31), (4, 41)],
    ),
    "append, upsert own row": (
        lambda t: (t.append(rows(4)), t.upsert(rows(3, 4, 5, times=7), on="id")),
        [(1, 10), (2, 20), (3, 21), (4, 28), (5, 35)],
    ),
    "update, update again": (
        lambda t: (t.update({"v": "v + 1"}, where="id = 1"), t.update({"v": "v * 2"}, where="v = 11")),
        [(1, 22), (2, 20), (3, 30)],
    ),
    "update, then a condition on the old value finds nothing": (
        lambda t: (t.update({"v": "0"}, where="id = 1"), t.delete("v = 10")),
        [(1, 0), (2, 20), (3, 30)],
    ),
    "delete, append the same key": (
        lambda t: (t.delete("id = 1"), t.append(rows(1, times=7))),
        [(1, 7), (2, 20), (3, 30)],
    ),
    "upsert, delete, upsert": (
        lambda t: (t.upsert(rows(1, times=7), on="id"), t.delete("id = 1"), t.upsert(rows(1, times=8), on="id")),
        [(1, 8), (2, 20), (3, 30)],
    ),
    "delete everything, append": (lambda t: (t.delete("true"), t.append(rows(9))), [(9, 90)]),
    "append, overwrite": (lambda t: (t.append(rows(4)), t.overwrite(rows(8))), [(8, 80)]),
    "overwrite, append": (lambda t: (t.overwrite(rows(8)), t.append(rows(9))), [(8, 80), (9, 90)]),
    "overwrite, update, delete": (
        lambda t: (t.overwrite(rows(7, 8)), t.update({"v": "v + 1"}, where="id = 8"), t.delete("id = 7")),
        [(8, 81)],
    ),
    "overwrite with nothing, append": (lambda t: (t.overwrite(rows()), t.append(rows(9))), [(9, 90)]),
    "append, append, append": (
        lambda t: (t.append(rows(4)), t.append(rows(5)), t.append(rows(6))),
        [(i, 10 * i) for i in range(1, 7)],
    ),
    "nothing at all": (
        lambda t: (t.append(rows()), t.upsert(rows(), on="id"), t.delete("false"), t.update({"v": "0"}, where="false")),
        [(1, 10), (2, 20), (3, 30)],
    ),
}


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_statements_apply_in_order_and_see_each_other(people: quire.Lake, name: str, sequence: str) -> None:
    statements, expected = SEQUENCES[sequence]
    with people.transaction() as tx:
        statements(tx[name])
        inside = content(tx, name)
    assert inside == expected
    assert content(people, name) == expected
    assert content(again(people), name) == expected


def test_a_schema_change_then_rows_of_the_new_shape(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx["t"].append(rows(4))
        tx["t"].add_columns({"w": "v + 1"})
        tx["t"].append([{"id": 5, "v": 50, "w": 0}])
        tx["t"].update({"w": "w * 2"}, where="id = 4")
        tx["t"].rename_column("v", "x")
        tx["t"].upsert([{"id": 1, "x": 7, "w": 8}])
        inside = content(tx)
    expected = [(1, 7, 8), (2, 20, 21), (3, 30, 31), (4, 40, 82), (5, 50, 0)]
    assert inside == content(people) == expected


def test_create_append_index_in_one_transaction(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx.create_table("t", schema=rows().schema, key="id")
        table.append(rows(1, 2, 3))
        table.delete("id = 2")
        table.create_index("id", "BTREE")
        table.append(rows(4))
    assert tx.receipt is not None
    assert tx.receipt.commit == "1.0"
    assert content(lake) == [(1, 10), (3, 30), (4, 40)]
    [index] = lake.snapshot()["t"].indexes()
    assert (index["name"], index["rows_indexed"]) == ("id_idx", 3)


def test_an_index_is_right_for_rows_written_after_it_was_used(people: quire.Lake) -> None:
    with people.transaction() as tx:
        table = tx["t"]
        table.create_index("id", "BTREE")
        assert table.scan(filter="id = 3").to_pylist() == [{"id": 3, "v": 30}]
        table.append(rows(4))
        table.update({"v": "7"}, where="id = 3")
        table.delete("id = 1")
        assert table.scan(filter="id in (1, 3, 4)").to_pylist() == [{"id": 4, "v": 40}, {"id": 3, "v": 7}]
    found = people.snapshot()["t"]
    assert sorted(r["v"] for r in found.scan(filter="id in (1, 3, 4)").to_pylist()) == [7, 40]
    assert [ix["name"] for ix in found.indexes()] == ["id_idx"]


def test_a_new_table_is_not_written_through_a_link(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", rows(1))
    (tmp_path / "lake/tables").rename(tmp_path / "elsewhere")
    (tmp_path / "lake/tables").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        assert lake["t"].count() == 1
        for data, schema in ((rows(1), None), (None, rows(1).schema)):
            with pytest.raises(Refused, match="symbolic link"):
                lake.create_table("u", data, schema=schema)
        assert lake.tables() == ["t"]
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_a_table_created_and_dropped_in_one_transaction_never_existed(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx.create_table("new", rows(1))
        tx.drop_table("new")
        assert "new" not in tx
    assert people.tables() == ["log", "t"]


def test_drop_and_create_under_one_name_makes_another_table(people: quire.Lake) -> None:
    old = people.snapshot()["t"].id
    with people.transaction() as tx:
        tx.drop_table("t")
        tx.create_table("t", rows(9))
    assert content(people) == [(9, 90)]
    assert people.snapshot()["t"].id != old


def test_two_tables_swap_names(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx["t"].append(rows(4))
        tx.rename_table("t", "between")
        tx.rename_table("log", "t")
        tx.rename_table("between", "log")
    assert content(people, "log") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert content(people, "t") == [(1, 10), (2, 20), (3, 30)]
    assert people.snapshot()["log"].key == ("id",)


def test_a_rename_keeps_identity_history_and_files(people: quire.Lake) -> None:
    before = people.snapshot()["t"].describe()
    with people.transaction() as tx:
        tx.rename_table("t", "u")
    after = people.snapshot()["u"].describe()
    assert [after[k] for k in ("id", "location", "rows", "key")] == [
        before[k] for k in ("id", "location", "rows", "key")
    ]
    with people.transaction() as tx:
        tx["u"].append(rows(4))
    assert content(people, "u") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert people.at(commit="1.0").tables() == ["log", "t"]


def test_sql_inside_a_transaction_sees_own_writes_in_every_table(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx["t"].upsert(rows(3, times=7))
        tx["log"].append(rows(3))
        found = tx.sql("select t.v, count(*) as n from t join log using (id) where id = 3 group by all").to_pylist()
    assert found == [{"v": 21, "n": 2}]


# -- keys -------------------------------------------------------------------------------------------------------------


def test_partial_upsert_keeps_the_columns_that_are_not_given(lake: quire.Lake) -> None:
    lake.create_table("t", [{"id": 1, "a": "x", "b": 1.5}, {"id": 2, "a": "y", "b": 2.5}], key="id")
    with lake.transaction() as tx:
        counts = tx["t"].upsert([{"id": 3, "b": 0.5}, {"id": 1, "b": 9.5}])
    assert counts == {"inserted": 1, "updated": 1}
    assert content(lake) == [(1, "x", 9.5), (2, "y", 2.5), (3, None, 0.5)]


def test_partial_upsert_of_a_new_row_needs_the_required_columns(lake: quire.Lake) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int64())]
    )
    lake.create_table("t", [{"id": 1, "a": "x", "b": 1}], schema=schema, key="id")
    with pytest.raises(SchemaMismatch, match="'a'"), lake.transaction() as tx:
        tx["t"].upsert([{"id": 1, "b": 2}, {"id": 2, "b": 2}])
    assert content(lake) == [(1, "x", 1)]


def test_composite_keys_compare_all_columns(lake: quire.Lake) -> None:
    lake.create_table("t", [{"a": 1, "b": "x", "v": 1}, {"a": 1, "b": "y", "v": 2}], key=["a", "b"])
    with lake.transaction() as tx:
        counts = tx["t"].upsert([{"a": 1, "b": "y", "v": 7}, {"a": 2, "b": "x", "v": 8}])
    assert counts == {"inserted": 1, "updated": 1}
    assert content(lake) == [(1, "x", 1), (1, "y", 7), (2, "x", 8)]
    with pytest.raises(KeyConflict) as caught, lake.transaction() as tx:
        tx["t"].append([{"a": 3, "b": "x", "v": 0}, {"a": 1, "b": "x", "v": 0}])
    assert caught.value.fields["keys"] == [{"a": 1, "b": "x"}]


def test_composite_keys_race_by_all_columns(lake: quire.Lake) -> None:
    lake.create_table("t", [{"a": 0, "b": "x", "v": 0}], key=["a", "b"])
    other = again(lake)
    tx = lake.transaction()
    tx["t"].append([{"a": 1, "b": "x", "v": 1}])
    with other.transaction() as theirs:
        theirs["t"].append([{"a": 1, "b": "y", "v": 2}, {"a": 2, "b": "x", "v": 3}])
    tx.commit()
    assert content(lake) == [(0, "x", 0), (1, "x", 1), (1, "y", 2), (2, "x", 3)]
    tx = other.transaction()
    tx["t"].append([{"a": 5, "b": "z", "v": 1}])
    with lake.transaction() as theirs:
        theirs["t"].append([{"a": 5, "b": "z", "v": 2}])
    with pytest.raises(KeyConflict):
        tx.commit()


@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize(
    ("data", "said"), [([(4, 1), (4, 2)], "more than once: id=4"), ([(4, 1), (None, 2)], "null in key column 'id'")]
)
def test_keys_that_are_null_or_twice_in_one_batch_are_refused(
    people: quire.Lake, verb: str, data: list[tuple[Any, int]], said: str
) -> None:
    with pytest.raises(DuplicateKeys, match=said), people.transaction() as tx:
        getattr(tx["t"], verb)([{"id": i, "v": v} for i, v in data])
    assert content(people) == [(1, 10), (2, 20), (3, 30)]


def test_more_keys_than_a_record_lists_are_compared_by_reading_them(people: quire.Lake) -> None:
    """Beyond 512 keys a record holds no hashes."""
    other = again(people)
    many = range(1000, 1600)
    tx = people.transaction()
    tx["t"].append(rows(*many))
    with other.transaction() as theirs:
        theirs["t"].append(rows(*range(2000, 2600)))
    tx.commit()
    assert len(content(people)) == 3 + 600 + 600
    tx = other.transaction()
    tx["t"].append(rows(*range(3000, 3600)))
    with people.transaction() as theirs:
        theirs["t"].append(rows(*range(3599, 4300)))
    with pytest.raises(KeyConflict) as caught:
        tx.commit()
    assert caught.value.fields["keys"] == [{"id": 3599}]


def test_an_update_may_move_keys_as_long_as_they_stay_distinct(people: quire.Lake) -> None:
    with people.transaction() as tx:
        assert tx["t"].update({"id": "id + 1"}) == 3
    assert content(people) == [(2, 10), (3, 20), (4, 30)]
    with pytest.raises(KeyConflict), people.transaction() as tx:
        tx["t"].update({"id": "3"}, where="id = 2")
    with pytest.raises(DuplicateKeys), people.transaction() as tx:
        tx["t"].update({"id": "9"})
    assert content(people) == [(2, 10), (3, 20), (4, 30)]


def test_a_failed_statement_leaves_the_transaction_as_it_was(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx["t"].append(rows(4))
        with pytest.raises(KeyConflict):
            tx["t"].append(rows(5, 1))
        with pytest.raises(DuplicateKeys):
            tx["t"].upsert(rows(6, 6))
        with pytest.raises(KeyConflict):
            tx["t"].update({"id": "1"}, where="id = 2")
        tx["t"].append(rows(7))
    assert content(people) == [(1, 10), (2, 20), (3, 30), (4, 40), (7, 70)]


# -- life -------------------------------------------------------------------------------------------------------------


def test_an_exception_discards_everything(people: quire.Lake) -> None:
    head = people.head

    def work(tx: quire.Transaction) -> None:
        tx["t"].append(rows(4))
        tx.create_table("new", rows(1))
        tx.drop_table("log")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), people.transaction() as tx:
        work(tx)
    assert tx.status == "discarded"
    assert tx.status != "committed"
    assert people.refresh() == head
    assert people.tables() == ["log", "t"]
    assert content(people) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("end", ["commit", "discard"])
def test_a_transaction_that_is_over_refuses_every_verb(people: quire.Lake, end: str) -> None:
    tx = people.transaction()
    table = tx["t"]
    table.append(rows(4))
    getattr(tx, end)()
    for verb in (
        lambda: table.append(rows(5)),
        lambda: table.delete("true"),
        lambda: table.count(),
        lambda: table.to_arrow(),
        lambda: table.require_keys([1]),
        lambda: tx["t"],
        lambda: tx.create_table("x", rows(1)),
        lambda: tx.drop_table("t"),
        lambda: tx.rename_table("t", "x"),
        lambda: tx.sql("select 1"),
        lambda: tx.commit(),
    ):
        with pytest.raises(TransactionClosed):
            verb()
    assert len(content(people)) == (4 if end == "commit" else 3)


def test_a_failed_commit_ends_the_transaction(people: quire.Lake) -> None:
    tx = people.transaction(if_head="0.0")
    tx["t"].append(rows(4))
    with pytest.raises(ExpectationFailed):
        tx.commit()
    with pytest.raises(TransactionClosed):
        tx.commit()


def test_a_transaction_without_changes_makes_no_commit(people: quire.Lake) -> None:
    head = people.head
    with people.transaction() as tx:
        assert tx["t"].count() == 3
    assert tx.receipt is not None
    assert tx.receipt.commit is None
    assert people.refresh() == head


def test_time_that_ran_out_commits_nothing(people: quire.Lake) -> None:
    head = people.head
    tx = people.transaction(timeout=0.0)
    with pytest.raises(DeadlineExceeded):
        tx["t"].append(rows(4))
    tx = people.transaction(timeout=3600)
    tx["t"].append(rows(4))
    tx.deadline = 0.0
    with pytest.raises(DeadlineExceeded) as caught:
        tx.commit()
    assert caught.value.retryable
    assert people.refresh() == head
    assert content(people) == [(1, 10), (2, 20), (3, 30)]


def test_transact_returns_what_the_function_returned(people: quire.Lake) -> None:
    assert people.transact(lambda tx: tx["t"].append(rows(4, 5))) == 2
    assert len(content(people)) == 5


def test_transact_with_no_time_left_runs_nothing(people: quire.Lake) -> None:
    with pytest.raises(DeadlineExceeded):
        people.transact(lambda tx: tx["t"].append(rows(4)), timeout=0.0)
    assert len(content(people)) == 3


def test_unknown_names_are_refused_with_what_there_is(people: quire.Lake) -> None:
    with people.transaction() as tx:
        with pytest.raises(TableNotFound, match="'log'"):
            tx["lag"]
        with pytest.raises(TableExists):
            tx.create_table("t", rows(1))
        with pytest.raises(TableExists):
            tx.rename_table("log", "t")
        with pytest.raises(InvalidName):
            tx.create_table("no/slash", rows(1))
        with pytest.raises(InvalidInput, match="isolation"):
            people.transaction(isolation="chaos")  # type: ignore[arg-type]


# -- the caller's own compare-and-swap --------------------------------------------------------------------------------


def test_expect_holds_as_long_as_the_table_is_at_that_version(people: quire.Lake) -> None:
    other = again(people)
    version = people.snapshot()["t"].version
    tx = people.transaction(expect={"t": version})
    tx["t"].append(rows(4))
    with other.transaction() as theirs:
        theirs["log"].append(rows(4))
    tx.commit()
    assert people.snapshot()["t"].version == version + 1
    other.refresh()
    tx = other.transaction(expect={"t": version + 1})
    tx["log"].append(rows(5))
    with people.transaction() as theirs:
        theirs["t"].append(rows(5))
    with pytest.raises(ExpectationFailed) as caught:
        tx.commit()
    assert caught.value.fields["table"] == "t"
    assert (caught.value.fields["expected"], caught.value.fields["actual"]) == (version + 1, version + 2)
    assert not caught.value.retryable


@pytest.mark.parametrize("expectation", ["expect", "if_head"])
def test_an_expectation_learnt_elsewhere_holds_on_a_handle_that_is_behind(people: quire.Lake, expectation: str) -> None:
    behind = again(people)
    with people.transaction() as tx:
        tx["t"].append(rows(4))
    options: dict[str, Any] = {"expect": {"t": 2}} if expectation == "expect" else {"if_head": "2.0"}
    with behind.transaction(**options) as tx:
        tx["log"].append(rows(4))
    assert len(content(people, "log")) == 4


def test_expect_zero_means_that_the_table_must_not_exist(people: quire.Lake) -> None:
    with people.transaction(expect={"new": 0}) as tx:
        tx.create_table("new", rows(1))
    with pytest.raises(ExpectationFailed), people.transaction(expect={"new": 0}) as tx:
        tx["t"].append(rows(4))
    assert len(content(people)) == 3


def test_if_head_holds_only_at_that_very_commit(people: quire.Lake) -> None:
    other = again(people)
    with people.transaction(if_head=people.head) as tx:
        tx["t"].append(rows(4))
    head = people.head
    tx = people.transaction(if_head=head)
    tx["t"].append(rows(5))
    with other.transaction() as theirs:
        theirs.create_table("elsewhere", rows(1))
    with pytest.raises(ExpectationFailed) as caught:
        tx.commit()
    assert (caught.value.fields["expected"], caught.value.fields["actual"]) == (head, other.head)
    assert len(content(people)) == 4


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_a_stream_token_commits_once_and_skips_everything_up_to_it(people: quire.Lake) -> None:
    other = again(people)
    for lake, sequence, number in [(people, 5, 4), (other, 5, 5), (other, 3, 6), (people, 6, 7), (other, 6, 8)]:
        with lake.transaction(token=quire.StreamToken("events", sequence)) as tx:
            tx["log"].append(rows(number))
        assert tx.receipt is not None
        assert tx.receipt.repeated is (number not in (4, 7))
    with other.transaction(token=quire.StreamToken("others", 0)) as tx:
        tx["log"].append(rows(9))
    assert [i for i, _ in content(people, "log")] == [1, 2, 3, 4, 7, 9]


def test_an_opaque_token_names_the_commit_it_made_before(people: quire.Lake) -> None:
    token = quire.token()
    receipts = []
    for lake in (people, again(people), people):
        with lake.transaction(token=token) as tx:
            tx["log"].append(rows(4))
        receipts.append(tx.receipt)
    assert [r.repeated for r in receipts if r] == [False, True, True]
    assert {r.commit for r in receipts if r} == {"2.0"}
    assert len(content(people, "log")) == 4
    assert people.show("2.0").token == token


def test_a_token_that_a_rival_used_meanwhile_is_found_after_the_lost_race(people: quire.Lake) -> None:
    other = again(people)
    token = quire.token()
    tx = people.transaction(token=token)
    tx["t"].append(rows(4))
    with other.transaction(token=token) as theirs:
        theirs["t"].append(rows(4))
    receipt = tx.commit()
    assert (receipt.repeated, receipt.commit) == (True, "2.0")
    assert len(content(people)) == 4


def test_transact_with_a_used_token_does_not_run_the_function(people: quire.Lake) -> None:
    token = quire.token()
    assert people.transact(lambda tx: tx["log"].append(rows(4)), token=token) == 1
    assert people.transact(lambda tx: pytest.fail("ran again"), token=token) is None


def test_a_token_older_than_the_window_is_refused(people: quire.Lake) -> None:
    millis = int((datetime.now(UTC) - tokens.WINDOW - timedelta(minutes=1)).timestamp() * 1000)
    with (
        pytest.raises(InvalidToken, match="no longer remembered"),
        people.transaction(token=f"qt-{millis:012x}-{'0' * 16}") as tx,
    ):
        tx["log"].append(rows(4))
    assert len(content(people, "log")) == 3


def test_a_token_that_may_have_been_forgotten_is_refused(people: quire.Lake) -> None:
    """When more tokens were used than a state holds, a page knows the old ones, or they are refused."""
    state = people._live.state
    minted = [state.time + timedelta(seconds=i) for i in range(10_001)]
    commits = tuple(
        Commit(write=f"w{i}", time=at, author="x", token=OpaqueToken(id=f"token {i}", minted=at))
        for i, at in enumerate(minted)
    )
    record = Record(
        format=1,
        branch=state.branch,
        slot=state.slot + 1,
        write="w",
        previous=state.write,
        time=state.time,
        commits=commits,
    )
    later = fold(state, record)
    pages = people._live.history.pages
    assert "token 0" not in later.tokens
    assert tokens.used(later, None, OpaqueToken(id="token 10000", minted=minted[-1]), pages) == later.head
    first = Point(branch=state.branch, slot=state.slot + 1, index=0)
    assert tokens.used(later, None, OpaqueToken(id="token 0", minted=minted[0]), pages) == first
    assert tokens.used(later, None, OpaqueToken(id="never used", minted=minted[0]), pages) is False
    since = msgspec.structs.replace(later, token_pages=(), tokens_since=later.token_pages[0].last)
    for forgotten in ("token 0", "never used"):
        with pytest.raises(InvalidToken):
            tokens.used(since, None, OpaqueToken(id=forgotten, minted=minted[0]), pages)


@pytest.mark.parametrize("name", [5, 1.5, True, None, b"b", ("a",), "\ud800", "a\ud800"], ids=repr)
def test_a_new_column_is_named_by_text(people: quire.Lake, name: Any) -> None:
    with pytest.raises(InvalidInput, match="name of a column"), people.transaction() as tx:
        tx["log"].add_columns({name: pa.int64()})


@pytest.mark.parametrize("token", ["", "abc", "qt-1-2", 7, quire.StreamToken("", 1), quire.StreamToken("s", -1)])
def test_a_malformed_token_is_refused_before_anything_is_staged(people: quire.Lake, token: Any) -> None:
    with pytest.raises((InvalidToken, InvalidArgument)):
        people.transaction(token=token)


def test_a_branch_remembers_the_tokens_of_its_past(people: quire.Lake) -> None:
    token = quire.token()
    with people.transaction(token=token) as tx:
        tx["log"].append(rows(4))
    with people.create_branch("exp").transaction(token=token) as tx:
        tx["log"].append(rows(5))
    assert tx.receipt is not None
    assert tx.receipt.repeated


# -- isolation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_write_skew_between_two_tables(people: quire.Lake, isolation: Any) -> None:
    """Each reads one table and writes the other. Serially, the second would have seen the first."""
    other = again(people)
    a = people.transaction(isolation=isolation)
    b = other.transaction(isolation=isolation)
    a["log"].append(rows(100 + a["t"].count()))
    b["t"].append(rows(200 + b["log"].count()))
    b.commit()
    if isolation == "serializable":
        with pytest.raises(Conflict, match="serializable") as caught:
            a.commit()
        assert caught.value.retryable
        assert len(content(people, "log")) == 3
    else:
        a.commit()
        assert len(content(people, "log")) == 4


def test_serializable_reads_by_sql_and_by_condition_count(people: quire.Lake) -> None:
    other = again(people)
    for read in (
        lambda tx: tx.sql("select count(*) from t").to_arrow(),
        lambda tx: tx["t"].delete("id = 77"),
        lambda tx: tx["t"].scan(filter="id = 1").to_arrow(),
    ):
        people.refresh()
        tx = people.transaction(isolation="serializable")
        read(tx)
        tx["log"].append(rows(9))
        with other.transaction() as theirs:
            theirs["t"].update({"v": "v + 1"}, where="id = 3")
        with pytest.raises(Conflict, match="serializable"):
            tx.commit()


REFUSED: dict[str, Callable[[quire.Transaction], Any]] = {
    "insert": lambda tx: tx["t"].insert(rows(1)),
    "append to a table with a key": lambda tx: tx["t"].append(rows(1)),
    "an update of keys": lambda tx: tx["t"].update({"id": "1"}, where="id = 2"),
    "require_keys": lambda tx: tx["t"].require_keys([77]),
    "require_absent": lambda tx: tx["t"].require_absent([1]),
    "require_none": lambda tx: tx["t"].require_none("v", [10]),
}
"""What tells the program that it is refused something of the rows of `t`."""
TOLD: dict[str, Callable[[quire.Transaction], Any]] = {
    "version": lambda tx: tx["t"].version,
    "bytes": lambda tx: tx["t"].bytes,
    "commit": lambda tx: tx["t"].commit,
    "delta": lambda tx: tx["t"].delta(),
    "indexes": lambda tx: tx["t"].indexes(),
    "describe": lambda tx: tx["t"].describe(),
    "count": lambda tx: tx["t"].count(),
    "len": lambda tx: len(tx["t"]),
    "head": lambda tx: tx["t"].head().to_arrow(),
}


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("what", [*REFUSED, *TOLD])
def test_what_a_program_was_told_is_a_read(people: quire.Lake, what: str, isolation: Any) -> None:
    """Nothing that it does then is run again on what a rival wrote; a serializable one rests on it."""
    tx = people.transaction(isolation=isolation)
    if what in REFUSED:
        with pytest.raises((KeyConflict, ExpectationFailed)):
            REFUSED[what](tx)
    else:
        TOLD[what](tx)
    tx["log" if isolation == "serializable" else "t"].upsert(rows(3, times=100), on="id")
    with again(people).transaction() as theirs:
        theirs["t"].upsert(rows(3, times=7))
    with pytest.raises(Conflict, match="read") as caught:
        tx.commit()
    assert caught.value.retryable
    assert content(people) == [(1, 10), (2, 20), (3, 21)]


def test_the_columns_of_a_table_are_read_apart_from_its_rows(people: quire.Lake) -> None:
    other = again(people)
    for change, passes in (
        (lambda t: t.insert(rows(7)), True),
        (lambda t: t.update({"v": "v + 1"}, where="id = 3"), True),
        (lambda t: t.add_columns({"w": "1"}), False),
    ):
        people.refresh()
        tx = people.transaction(isolation="serializable")
        tx["log"].append([{"id": len(tx["t"].schema), "v": 0}])
        with other.transaction(fresh=True) as theirs:
            change(theirs["t"])
        if passes:
            tx.commit()
        else:
            with pytest.raises(Conflict, match="serializable"):
                tx.commit()


TAKEN: dict[str, Callable[[quire.Transaction], Any]] = {
    "create": lambda tx: tx.create_table("t", rows(1)),
    "rename": lambda tx: tx.rename_table("log", "t"),
}


@pytest.mark.parametrize("verb", TAKEN)
def test_a_name_that_is_taken_is_a_read_of_the_name(people: quire.Lake, verb: str) -> None:
    tx = people.transaction(isolation="serializable")
    with pytest.raises(TableExists):
        TAKEN[verb](tx)
    tx["log"].append(rows(9))
    with again(people).transaction() as theirs:
        theirs.drop_table("t")
    with pytest.raises(Conflict, match="name 't'"):
        tx.commit()


def test_serializable_is_not_disturbed_by_other_tables_or_upkeep(people: quire.Lake) -> None:
    other = again(people)
    tx = people.transaction(isolation="serializable")
    tx["t"].count()
    tx["log"].append(rows(9))
    with other.transaction() as theirs:
        theirs.create_table("elsewhere", rows(1))
    with other.transaction() as theirs:
        theirs["t"].create_index("id", "BTREE")
    tx.commit()
    assert len(content(people, "log")) == 4


def test_a_snapshot_never_changes(people: quire.Lake) -> None:
    held, tx = people.snapshot(), people.transaction()
    with again(people).transaction() as theirs:
        theirs["t"].delete("true")
        theirs.drop_table("log")
    people.refresh()
    assert content(held) == content(tx) == [(1, 10), (2, 20), (3, 30)]
    assert held.tables() == ["log", "t"]


# -- reads that a decision rests on -----------------------------------------------------------------------------------


@pytest.fixture
def graph(lake: quire.Lake) -> quire.Lake:
    """Nodes 1 to 3 and one edge between the first two."""
    with lake.transaction() as tx:
        tx.create_table("nodes", rows(1, 2, 3), key="id")
        tx.create_table("edges", [{"source": 1, "target": 2}])
    return lake


def link(tx: quire.Transaction, source: int, target: int) -> None:
    tx["nodes"].require_keys([source, target])
    tx["edges"].append([{"source": source, "target": target}])


def unlink(tx: quire.Transaction, node: int) -> None:
    tx["edges"].require_none("source", [node])
    tx["edges"].require_none("target", [node])
    tx["nodes"].delete(f"id = {node}")


def test_an_edge_insert_sees_that_its_node_vanished(graph: quire.Lake) -> None:
    other = again(graph)
    tx = graph.transaction()
    link(tx, 1, 3)
    with other.transaction() as theirs:
        unlink(theirs, 3)
    with pytest.raises(ExpectationFailed, match="id=3") as caught:
        tx.commit()
    assert caught.value.fields["table"] == "nodes"
    assert content(graph, "edges") == [(1, 2)]


def test_a_node_delete_sees_that_an_edge_appeared(graph: quire.Lake) -> None:
    other = again(graph)
    tx = graph.transaction()
    unlink(tx, 3)
    with other.transaction() as theirs:
        link(theirs, 1, 3)
    with pytest.raises(ExpectationFailed, match="target=3"):
        tx.commit()
    assert [r[0] for r in content(graph, "nodes")] == [1, 2, 3]


def test_edges_and_nodes_that_do_not_touch_rebase(graph: quire.Lake) -> None:
    other = again(graph)
    tx = graph.transaction()
    link(tx, 1, 2)
    with other.transaction() as theirs:
        unlink(theirs, 3)
    tx.commit()
    assert content(graph, "edges") == [(1, 2), (1, 2)]
    assert [r[0] for r in content(graph, "nodes")] == [1, 2]


def test_a_checked_read_holds_after_a_failed_statement_on_the_same_table(graph: quire.Lake) -> None:
    """The failed statement left work on the table behind; the check must look at the new base all the same."""
    other = again(graph)
    tx = graph.transaction()
    with pytest.raises(KeyConflict):
        tx["nodes"].append(rows(1))
    link(tx, 1, 3)
    with other.transaction() as theirs:
        unlink(theirs, 3)
    with pytest.raises(ExpectationFailed):
        tx.commit()
    assert content(graph, "edges") == [(1, 2)]


def test_a_checked_read_sees_own_writes_on_the_new_base(graph: quire.Lake) -> None:
    other = again(graph)
    tx = graph.transaction()
    tx["nodes"].append(rows(4))
    link(tx, 3, 4)
    with other.transaction() as theirs:
        theirs["nodes"].append(rows(5))
    tx.commit()
    assert content(graph, "edges") == [(1, 2), (3, 4)]


def test_require_absent_fails_at_once_and_from_either_side(graph: quire.Lake) -> None:
    other = again(graph)
    with pytest.raises(ExpectationFailed, match="has a row with id=1"), graph.transaction() as tx:
        tx["nodes"].require_absent([1])
    tx = graph.transaction()
    tx["nodes"].require_absent([9])
    tx["edges"].append([{"source": 1, "target": 1}])
    with other.transaction() as theirs:
        theirs["nodes"].append(rows(9))
    with pytest.raises(ExpectationFailed):
        tx.commit()


def test_require_keys_fails_at_once_when_a_key_is_missing(graph: quire.Lake) -> None:
    with pytest.raises(ExpectationFailed) as caught, graph.transaction() as tx:
        tx["nodes"].require_keys([1, 7, 8])
    assert caught.value.fields["keys"] == [{"id": 7}, {"id": 8}]


def test_a_checked_table_that_was_dropped_is_a_conflict(graph: quire.Lake) -> None:
    other = again(graph)
    tx = graph.transaction()
    link(tx, 1, 3)
    with other.transaction() as theirs:
        theirs.drop_table("nodes")
    with pytest.raises(Conflict, match="dropped"):
        tx.commit()
    assert content(graph, "edges") == [(1, 2)]


# -- threads ----------------------------------------------------------------------------------------------------------


def run_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_that_share_a_lake_append_every_row_once(people: quire.Lake) -> None:
    def work(number: int) -> None:
        for step in range(5):
            with people.transaction() as tx:
                row = rows(1000 + 10 * number + step)
                tx["log"].append(row)
                tx["t"].append(row)

    run_threads(8, work)
    expected = sorted([1, 2, 3, *(1000 + 10 * n + s for n in range(8) for s in range(5))])
    for lake in (people, again(people)):
        assert [i for i, _ in content(lake)] == [i for i, _ in content(lake, "log")] == expected


def test_threads_that_count_up_the_same_rows_lose_no_update(people: quire.Lake) -> None:
    """Two writers, four threads each, and one counter per row: transact runs again whatever lost."""
    lakes = [people, again(people)]

    def work(number: int) -> None:
        for step in range(3):
            lakes[number % 2].transact(
                lambda tx, row=1 + (number + step) % 3: tx["t"].update({"v": "v + 1"}, where=f"id = {row}"), retries=200
            )

    run_threads(8, work)
    counts = Counter(1 + (n + s) % 3 for n in range(8) for s in range(3))
    assert content(people) == [(i, 10 * i + counts[i]) for i in (1, 2, 3)]


def test_threads_that_upsert_the_same_keys_leave_each_key_once(people: quire.Lake) -> None:
    def work(number: int) -> None:
        for _ in range(3):
            people.transact(lambda tx: tx["t"].upsert(rows(1, 50, 60 + number, times=number + 100)), retries=100)

    run_threads(8, work)
    found = content(people)
    assert [i for i, _ in found] == [1, 2, 3, 50, *range(60, 68)]
    values = dict(found)
    assert values[1] * 50 == values[50]


# -- time travel and branches -----------------------------------------------------------------------------------------


def test_time_travel_by_commit_tag_and_time(people: quire.Lake) -> None:
    people.tag("v1")
    with people.transaction() as tx:
        tx["t"].delete("id = 1")
    assert tx.receipt is not None
    assert tx.receipt.time is not None
    with people.transaction() as tx:
        tx.drop_table("t")
    first, second = [(1, 10), (2, 20), (3, 30)], [(2, 20), (3, 30)]
    assert content(people.at(commit="1.0")) == content(people.at(tag="v1")) == first
    when = people.show("2.0").time
    assert content(people.at(time=when)) == content(people.at(time=when.isoformat())) == second
    assert content(people.at(time=when - timedelta(microseconds=1))) == first
    assert people.at(time=datetime.now(UTC) + timedelta(days=1)).tables() == ["log"]
    with pytest.raises(CommitNotFound):
        people.at(commit="99.0")
    with pytest.raises(CommitNotFound):
        people.at(time="1999-01-01")
    with pytest.raises(InvalidInput):
        people.at(commit="1.0", tag="v1")


def test_a_branch_starts_at_any_commit_and_is_apart_from_main(people: quire.Lake) -> None:
    with people.transaction() as tx:
        tx["t"].append(rows(4))
    people.tag("four", at="2.0")
    early, tagged = people.create_branch("early", at="1.0"), people.create_branch("tagged", at="four")
    with early.transaction() as tx:
        tx["t"].delete("id = 1")
        tx.rename_table("log", "diary")
    with people.transaction() as tx:
        tx["t"].append(rows(5))
    assert content(early) == [(2, 20), (3, 30)]
    assert content(tagged) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert [i for i, _ in content(people)] == [1, 2, 3, 4, 5]
    assert (early.tables(), people.tables()) == (["diary", "t"], ["log", "t"])
    assert [b.name for b in people.branches()] == ["main", "early", "tagged"]
    assert content(again(people, branch="early")) == content(early)


def test_a_branch_of_a_branch_and_its_log(people: quire.Lake) -> None:
    one = people.create_branch("one")
    with one.transaction("on one") as tx:
        tx["t"].append(rows(4))
    two = one.create_branch("two")
    with two.transaction("on two") as tx:
        tx["t"].append(rows(5))
    with one.transaction("later on one") as tx:
        tx["t"].append(rows(6))
    assert [i for i, _ in content(two)] == [1, 2, 3, 4, 5]
    assert [i for i, _ in content(again(people, branch="two"))] == [1, 2, 3, 4, 5]
    assert [c.message for c in two.log()][:2] == ["on two", "on one"]
    assert content(two.at(commit="2.0")) == content(one.at(commit="2.0"))


def test_fast_forward_takes_everything_or_nothing(people: quire.Lake) -> None:
    branch = people.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
        tx.create_table("new", rows(1))
    with branch.transaction() as tx:
        tx["t"].delete("id = 1")
        tx.rename_table("log", "diary")
    receipt = people.fast_forward("exp")
    assert receipt.commit == "2.0"
    assert people.tables() == branch.tables() == ["diary", "new", "t"]
    assert content(people) == content(branch) == [(2, 20), (3, 30), (4, 40)]
    assert content(again(people), "new") == [(1, 10)]


def test_fast_forward_can_be_repeated(people: quire.Lake) -> None:
    """Nothing new is no commit; more commits on the branch follow the first ones."""
    branch = people.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    people.fast_forward("exp")
    head = people.head
    assert people.fast_forward("exp").commit is None
    assert people.refresh() == head
    with branch.transaction() as tx:
        tx["t"].append(rows(5))
    people.fast_forward("exp")
    assert [i for i, _ in content(people)] == [1, 2, 3, 4, 5]
    with people.transaction() as tx:
        tx["t"].append(rows(6))
    with branch.transaction() as tx:
        tx["t"].append(rows(7))
    with pytest.raises(NotFastForward):
        people.fast_forward("exp")
    assert [i for i, _ in content(people)] == [1, 2, 3, 4, 5, 6]


def test_fast_forward_of_a_diverged_branch_is_refused(people: quire.Lake) -> None:
    branch = people.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    with again(people).transaction() as tx:
        tx["log"].append(rows(4))
    with pytest.raises(NotFastForward) as caught:
        people.fast_forward("exp")
    assert (caught.value.fields["target"], caught.value.fields["source"]) == ("main", "exp")
    assert content(people) == [(1, 10), (2, 20), (3, 30)]


def test_a_writer_that_still_holds_a_deleted_branch_is_refused(people: quire.Lake) -> None:
    branch = people.create_branch("exp")
    tx = branch.transaction()
    tx["t"].append(rows(4))
    again(people).delete_branch("exp")
    with pytest.raises(BranchClosed):
        tx.commit()
    with pytest.raises(BranchNotFound):
        people.branch("exp")
    assert [b.name for b in people.branches()] == ["main"]


def test_the_name_of_a_deleted_branch_can_be_used_again(people: quire.Lake) -> None:
    old = people.create_branch("exp")
    with old.transaction() as tx:
        tx["t"].append(rows(4))
    with pytest.raises(BranchExists):
        people.create_branch("exp")
    people.delete_branch("exp")
    new = people.create_branch("exp")
    assert content(new) == [(1, 10), (2, 20), (3, 30)]
    with new.transaction() as tx:
        tx["t"].append(rows(5))
    with pytest.raises(BranchClosed), old.transaction() as tx:
        tx["t"].append(rows(6))
    assert [i for i, _ in content(again(people, branch="exp"))] == [1, 2, 3, 5]


def test_a_tag_outlives_the_branch_it_was_made_on(people: quire.Lake) -> None:
    branch = people.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    branch.tag("kept")
    people.delete_branch("exp")
    assert [i for i, _ in content(people.at(tag="kept"))] == [1, 2, 3, 4]
    assert [i for i, _ in content(again(people).at(tag="kept"))] == [1, 2, 3, 4]


def test_branches_cost_the_same_for_any_number_of_tables(tmp_path: Path) -> None:
    """Create, write, read, fast-forward and delete: requests to the store with 2 and with 50 tables."""
    costs = []
    for count in (2, 50):
        spent = []
        with quire.create(tmp_path / f"lake{count}", backfill=False) as lake:
            with lake.transaction() as tx:
                for number in range(count):
                    tx.create_table(f"t{number}", schema=rows().schema)

            def write(lake: quire.Lake = lake) -> None:
                with lake.branch("exp").transaction() as tx:
                    tx["t0"].append(rows(1))

            for step in (
                lambda lake=lake: lake.create_branch("exp"),
                write,
                lambda lake=lake: lake.branch("exp").snapshot()["t0"].count(),
                lambda lake=lake: lake.fast_forward("exp"),
                lambda lake=lake: lake.delete_branch("exp"),
            ):
                # Hints are written in the background and spare requests; each step begins with the same ones.
                assert lake.flush()
                with metering() as meter:
                    step()
                spent.append(meter.requests)
        costs.append(spent)
    assert costs[0] == costs[1]
