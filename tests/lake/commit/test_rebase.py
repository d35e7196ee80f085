"""Moving staged work onto a newer base: what a naive re-commit silently gets wrong, and what is not written twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.lake.conftest import Race, after, compact, rows

import quire
from quire.errors import Conflict
from quire.lake.commit import validators

# -- each silent corruption of a naive re-commit, by name -------------------------------------------------------------


def test_two_deletes_in_one_fragment_resurrect_no_row(keyed: Race) -> None:
    """A re-committed deletion file replaces the winner's: their deleted row would be back."""
    keyed.mine(lambda t: t.delete("id = 1"))
    keyed.theirs(lambda t: t.delete("id = 2"))
    keyed.theirs(lambda t: t.delete("id = 8"))
    keyed.commit()
    assert keyed.content() == after({1: None, 2: None, 8: None})


def test_two_upserts_in_one_fragment_leave_every_key_once(keyed: Race) -> None:
    """A re-committed upsert brings back the old version of the winner's row: its key would be there twice."""
    keyed.mine(lambda t: t.upsert(rows(1, times=3)))
    keyed.theirs(lambda t: t.upsert(rows(2, 8, times=7)))
    keyed.commit()
    assert keyed.content() == after({1: 3, 2: 14, 8: 56})


def test_an_index_over_own_rows_answers_right_after_fragments_were_renumbered(unkeyed: Race) -> None:
    """A re-committed index names fragments by number, and the winner's fragment has taken mine."""
    unkeyed.mine(lambda t: t.append(rows(50, 51)))
    unkeyed.mine(lambda t: t.create_index("id", "BTREE"))
    assert unkeyed.mine(lambda t: t.scan(filter="id = 50").to_pylist()) == [{"id": 50, "v": 500}]
    unkeyed.theirs(lambda t: t.append(rows(70, 71)))
    unkeyed.commit()
    pinned = unkeyed.dataset()
    assert "ScalarIndexQuery" in pinned.scanner(filter="id = 50").explain_plan()
    for number in (1, 8, 50, 51, 70, 71):
        assert pinned.to_table(filter=f"id = {number}").to_pylist() == [{"id": number, "v": 10 * number}]
    assert pinned.to_table(filter="id = 52").num_rows == 0


def test_a_delete_of_an_own_row_does_not_hit_the_winner(unkeyed: Race) -> None:
    """A re-committed deletion names my new fragment by number, which is the winner's now."""
    unkeyed.mine(lambda t: t.append(rows(50, 51)))
    assert unkeyed.mine(lambda t: t.delete("id = 50")) == 1
    unkeyed.theirs(lambda t: t.append(rows(70, 71)))
    unkeyed.commit()
    assert unkeyed.content() == after({}, (51, 510), (70, 700), (71, 710))


def test_an_update_of_an_own_row_does_not_hit_the_winner(unkeyed: Race) -> None:
    unkeyed.mine(lambda t: t.append(rows(50, 51)))
    assert unkeyed.mine(lambda t: t.update({"v": "v + 1"}, where="id = 51")) == 1
    unkeyed.theirs(lambda t: t.append(rows(70, 71)))
    unkeyed.commit()
    assert unkeyed.content() == after({}, (50, 500), (51, 511), (70, 700), (71, 710))


def test_a_delete_is_not_applied_to_an_overwritten_table(unkeyed: Race) -> None:
    """Lance accepts it: the fragment has the same number and other rows."""
    unkeyed.mine(lambda t: t.delete("id = 1"))
    unkeyed.theirs(lambda t: t.overwrite(rows(*range(11, 19))))
    unkeyed.refused()
    assert unkeyed.content() == [(i, 10 * i) for i in range(11, 19)]


def test_a_compaction_does_not_take_the_fragment_number_of_an_append(unkeyed: Race) -> None:
    """The number that was free when the compaction was planned belongs to the winner's rows now."""
    unkeyed.tx = compact(unkeyed.a, "t")
    unkeyed.theirs(lambda t: t.append(rows(70)))
    unkeyed.commit()
    assert unkeyed.content() == after({}, (70, 700))
    numbers = [f.fragment_id for f in unkeyed.dataset().get_fragments()]
    assert len(numbers) == len(set(numbers))


def test_sibling_versions_with_one_fragment_number_are_told_apart(unkeyed: Race) -> None:
    """Both wrote fragment n of their own; a delete in mine must not be read as a delete in theirs."""
    unkeyed.mine(lambda t: t.append(rows(50, 51, 52)))
    unkeyed.mine(lambda t: t.delete("id in (50, 8)"))
    unkeyed.theirs(lambda t: t.append(rows(70, 71, 72)))
    unkeyed.theirs(lambda t: t.delete("id = 71"))
    unkeyed.commit()
    assert unkeyed.content() == after({8: None}, (51, 510), (52, 520), (70, 700), (72, 720))


def test_staging_is_applied_to_the_pin_and_never_to_the_plain_head(unkeyed: Race) -> None:
    """A detached commit by address would be applied to HEAD, whatever is there, with no conflict check."""
    unkeyed.b.backfill()
    place = f"{unkeyed.uri}/{unkeyed.b.snapshot()['t'].describe()['location']}"
    head = lance.dataset(place).version
    unkeyed.mine(lambda t: t.delete("id = 1"))
    assert unkeyed.mine(lambda t: t.count()) == 7
    assert lance.dataset(place).version == head
    unkeyed.theirs(lambda t: t.delete("id = 2"))
    unkeyed.b.backfill()
    unkeyed.commit()
    unkeyed.b.backfill()
    plain = lance.dataset(place).to_table().to_pylist()
    assert sorted((r["id"], r["v"]) for r in plain) == after({1: None, 2: None}) == unkeyed.content()


# -- data files are written once --------------------------------------------------------------------------------------

STAGED: dict[str, Any] = {
    "append": lambda t: t.append(rows(100)),
    "upsert": lambda t: t.upsert(rows(1, 100, times=3)),
    "partial upsert": lambda t: t.upsert([{"id": 1}, {"id": 100}]),
    "update": lambda t: t.update({"v": "v + 1"}, where="id = 1"),
    "delete": lambda t: t.delete("id = 1"),
    "append and delete of an own row": lambda t: (t.append(rows(100, 101)), t.delete("id = 101")),
}


@pytest.mark.parametrize("statement", STAGED)
def test_rebase_writes_no_data_file_and_keeps_the_staged_ones(keyed: Race, statement: str) -> None:
    keyed.mine(STAGED[statement])
    work: Any = keyed.tx["t"]._edit.work
    work.settle()
    staged = {added.path for added in work.draft.net.added}
    keyed.theirs(lambda t: t.upsert(rows(2, 8, 200)))
    before = keyed.data_files()
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed, receipt.attempts) == (1, 0, 2)
    assert keyed.data_files() == before
    assert staged <= set(keyed.fragments())


def test_replay_of_an_upsert_keeps_its_data_files(keyed: Race) -> None:
    """Rows that were given whole are staged once; only which old rows they replace is found anew."""
    keyed.mine(lambda t: t.upsert(rows(1, 100, times=3)))
    keyed.theirs(lambda t: t.upsert(rows(1, 8, times=7)))
    work: Any = keyed.tx["t"]._edit.work
    work.settle()
    before = keyed.data_files()
    assert keyed.tx.commit().replayed == 1
    assert keyed.data_files() == before
    assert keyed.content() == after({1: 3, 8: 56}, (100, 300))


# -- losing more than once --------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[tuple[quire.Lake, list[Any]]]:
    """A lake whose table `t` calls the first waiting function before every publish: a rival that is always faster."""
    waiting: list[Any] = []

    def step(tx: Any, tables: list[str]) -> None:
        if tx.author == "mine" and waiting:
            waiting.pop(0)()

    validators.install("interrupted", step)
    with quire.create(tmp_path / "lake", backfill=False, author="mine") as lake:
        lake.create_table("t", rows(*range(1, 9)), key="id", validator="interrupted")
        yield lake, waiting
    del validators._installed["interrupted"]


def content(lake: quire.Lake) -> list[tuple[int, int]]:
    return sorted((r["id"], r["v"]) for r in lake.snapshot()["t"].to_pylist())


def test_a_writer_that_loses_again_and_again_rebases_every_time(interrupted: tuple[quire.Lake, list[Any]]) -> None:
    lake, waiting = interrupted
    other = quire.open(lake.uri, backfill=False, author="theirs")

    def rival(number: int) -> None:
        with other.transaction() as tx:
            tx["t"].upsert(rows(number, 100 + number, times=7))

    tx = lake.transaction()
    tx["t"].delete("id = 1")
    tx["t"].append(rows(50, 51))
    tx["t"].delete("id = 51")
    waiting += [lambda n=n: rival(n) for n in (2, 3, 4, 5, 6)]
    receipt = tx.commit()
    assert (receipt.attempts, receipt.rebased, receipt.replayed) == (6, 5, 0)
    changed: dict[int, int | None] = {1: None, **{n: 7 * n for n in range(2, 7)}}
    assert content(lake) == after(changed, (50, 500), *((100 + n, 7 * (100 + n)) for n in range(2, 7)))


def test_a_rebase_that_succeeded_can_still_meet_a_conflict_later(interrupted: tuple[quire.Lake, list[Any]]) -> None:
    """First a rival in other rows, then one in the same row: the second is compared with the moved work."""
    lake, waiting = interrupted
    other = quire.open(lake.uri, backfill=False, author="theirs")

    def update(number: int) -> None:
        with other.transaction() as tx:
            tx["t"].update({"v": "0"}, where=f"id = {number}")

    tx = lake.transaction()
    tx["t"].update({"v": "v + 1"}, where="id = 1")
    waiting += [lambda: update(8), lambda: update(1)]
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable
    assert content(lake) == after({1: 0, 8: 0})


def test_a_replay_is_followed_by_a_rebase_like_any_other_work(interrupted: tuple[quire.Lake, list[Any]]) -> None:
    lake, waiting = interrupted
    other = quire.open(lake.uri, backfill=False, author="theirs")

    def upsert(*numbers: int) -> None:
        with other.transaction() as tx:
            tx["t"].upsert(rows(*numbers, times=7))

    tx = lake.transaction()
    tx["t"].upsert(rows(1, 2, 100, times=3))
    waiting += [lambda: upsert(1), lambda: upsert(8), lambda: upsert(2)]
    receipt = tx.commit()
    assert (receipt.rebased, receipt.replayed) == (1, 2)
    assert content(lake) == after({1: 3, 2: 6, 8: 56}, (100, 300))


def test_row_and_byte_counts_are_right_after_a_rebase(keyed: Race) -> None:
    keyed.mine(lambda t: t.upsert(rows(1, 100, times=3)))
    keyed.mine(lambda t: t.delete("id = 2"))
    keyed.theirs(lambda t: t.delete("id = 8"))
    keyed.theirs(lambda t: t.append(rows(200, 201)))
    receipt = keyed.commit()
    assert (receipt.tables["t"].added, receipt.tables["t"].removed) == (2, 2)
    described = keyed.b.snapshot()["t"].describe()
    assert described["rows"] == len(keyed.content()) == 9
    sizes = [f.file_size_bytes for g in keyed.dataset().get_fragments() for f in g.metadata.files]
    assert described["bytes"] == sum(sizes)
