"""Backfill: plain readers see a published state once, in order, and never at a foreign writer's cost."""

from __future__ import annotations

import lance
import lancedb
import pytest
from tests.formats.lance.conftest import Tables, content, place, plain, rows

import quire


def test_promotion_is_exact_and_idempotent(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    done = [tables.format.promote(second, commit="2.0", table="t") for _ in range(3)]
    assert [p.outcome for p in done] == ["promoted", "current", "current"]
    assert tables.head(first).version == 2
    assert tables.head(first).to_table() == tables.handle(second).to_table()
    head = tables.format.head(second)
    assert (head.version, head.counter, head.commit) == (2, 2, "2.0")


def test_intermediate_states_may_be_skipped_and_older_ones_never_come_back(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    third = tables.change(second, lambda w: w.delete("id = 1"))
    assert tables.format.promote(third, commit="3.0", table="t").outcome == "promoted"
    assert tables.format.promote(second, commit="2.0", table="t").outcome == "current"
    assert tables.head(first).to_table().to_pylist() == [{"id": 2, "v": 20}]
    assert tables.head(first).version == 2


def test_work_goes_on_from_the_staged_and_from_the_promoted_state(tables: Tables) -> None:
    pin = tables.create(rows(1))
    for number in range(2, 6):
        pin = tables.append(pin, number)
        if number % 2:
            tables.format.promote(pin, commit=f"{number}.0", table="t")
    assert tables.content(pin) == [(i, 10 * i) for i in range(1, 6)]
    assert tables.head(pin).to_table() == tables.handle(pin).to_table()


def test_promotion_leaves_nothing_behind_but_the_version(tables: Tables) -> None:
    pin = tables.append(tables.create(rows(1)), 2)
    folder = tables.folder / pin.location / "_versions"
    before = {p.name for p in folder.iterdir()}
    tables.format.promote(pin, commit="2.0", table="t")
    new = {p.name for p in folder.iterdir()} - before
    assert new - {"latest_version_hint.json"} == {f"{2**64 - 1 - 2:020d}.manifest"}


def test_a_foreign_write_is_reported_and_never_overwritten(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    lance.write_dataset(rows(77), tables.uri(first), mode="append")
    done = tables.format.promote(second, commit="2.0", table="t")
    assert (done.outcome, done.version) == ("foreign", 2)
    assert tables.head(first).to_table()["id"].to_pylist() == [1, 77]


def test_plain_lance_and_lancedb_read_and_search_backfilled_tables(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].upsert(rows(3, 4, times=7))
        tx["t"].delete("id = 1")
        tx["t"].create_index("id", "BTREE")
        tx["log"].append(rows(4))
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30)]
    assert {p.outcome for p in lake.backfill()} == {"promoted"}
    for name in ("t", "log"):
        assert plain(lake, name) == content(lake, name)
    assert lance.dataset(place(lake, "t")).to_table(filter="id = 4").to_pylist() == [{"id": 4, "v": 28}]
    folder, _, leaf = place(lake, "t").rpartition("/")
    table = lancedb.connect(folder).open_table(leaf.removesuffix(".lance"))
    assert sorted(tuple(r.values()) for r in table.to_arrow().to_pylist()) == content(lake, "t")


def test_a_plain_version_says_which_lake_and_commit_it_is(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4))
    lake.backfill()
    head = lance.dataset(place(lake, "t"))
    properties = head.read_transaction(head.version).transaction_properties
    assert properties["quire.lake"] == lake.status()["lake"]
    assert properties["quire.commit"] == "2.0"


@pytest.mark.parametrize("steps", [1, 2])
def test_a_revert_reaches_plain_readers(lake: quire.Lake, steps: int) -> None:
    """Also back to the state in which the table was created, which is a version of the plain history itself."""
    for number in range(4, 4 + steps):
        with lake.transaction() as tx:
            tx["log"].append(rows(number))
    lake.backfill()
    for commit in range(1 + steps, 1, -1):
        lake.revert(f"{commit}.0")
    lake.backfill()
    assert plain(lake, "log") == content(lake, "log") == [(1, 10), (2, 20), (3, 30)]
    assert lake.status()["pending_backfill"] == []
    with lake.transaction() as tx:
        tx["log"].append(rows(9))
    lake.backfill()
    assert plain(lake, "log") == content(lake, "log") == [(1, 10), (2, 20), (3, 30), (9, 90)]


def test_only_main_is_backfilled(lake: quire.Lake) -> None:
    branch = lake.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    assert branch.backfill() == []
    lake.backfill()
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30)]
    lake.fast_forward("exp")
    lake.backfill()
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_two_backfills_at_once_promote_once(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4))
    other = quire.open(lake.uri, backfill=False)
    version = lance.dataset(place(lake, "t")).version
    outcomes = [p.outcome for p in (*lake.backfill(), *other.backfill()) if p.table == "t"]
    assert sorted(outcomes) == ["current", "promoted"]
    assert lance.dataset(place(lake, "t")).version == version + 1
