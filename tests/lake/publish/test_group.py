"""Group commit: transactions of one process that wait for the same slot share it, and none harms another."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.budget import budget
from tests.lake.crowd import Crowd, wait_for
from tests.lake.crowd import crowd as crowd_of

import quire
from quire import errors
from quire.lake.commit import validators
from quire.lake.publish import group as grouping
from quire.lake.publish import publish
from quire.ledger import Point
from quire.store import Outcome

TABLES = 6


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture(params=["log", "manifest"])
def lake(uri: str, request: pytest.FixtureRequest) -> Iterator[quire.Lake]:
    with quire.create(uri, ledger=request.param, backfill=False) as lake:
        with lake.transaction("tables") as tx:
            for n in range(TABLES):
                tx.create_table(f"t{n}", [{"id": -1}])
            tx.create_table("keyed", [{"id": 0, "v": "old"}], key="id")
        yield lake


def age(uri: str) -> None:
    """Make everything look a minute older, as the store sees it."""
    for path in Path(uri).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - 60
            os.utime(path, (then, then))


def append(table: str, value: int) -> Callable[[quire.Transaction], Any]:
    return lambda tx: tx[table].append([{"id": value}])


def crowd(lake: quire.Lake) -> AbstractContextManager[Crowd]:
    return crowd_of(lake, append("t0", 0))


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows.to_pylist())


def slots(lake: quire.Lake) -> list[list[str]]:
    """Messages by slot, oldest first, of what came after the tables."""
    found: dict[int, list[str]] = {}
    for entry in reversed(list(lake.log())):
        slot = int(entry.id.partition(".")[0])
        if slot > 1:
            found.setdefault(slot, []).append(entry.message)
    return list(found.values())


# -- sharing ----------------------------------------------------------------------------------------------------------


def test_members_that_wait_share_one_slot_and_stay_commits_of_their_own(lake: quire.Lake, uri: str) -> None:
    tokens = {n: quire.token() for n in range(1, TABLES)}
    with crowd(lake) as together:
        for n in range(1, TABLES):
            together.commit(f"c{n}", append(f"t{n}", n), token=tokens[n])
    assert not together.errors
    assert slots(lake) == [["first"], [f"c{n}" for n in range(1, TABLES)]]
    for n in range(1, TABLES):
        receipt = together.receipts[f"c{n}"]
        assert receipt is not None
        assert (receipt.commit, receipt.attempts) == (f"3.{n - 1}", 1)
        assert receipt.cost["shared"] == TABLES - 1
        assert list(receipt.tables) == [f"t{n}"]
        shown = lake.show(receipt.commit)
        assert (shown.message, shown.author, shown.token) == (f"c{n}", f"author of c{n}", tokens[n])
        assert shown.parents == (f"3.{n - 2}" if n > 1 else "2.0",)
        assert shown.time == receipt.time
    with quire.open(uri, read_only=True) as cold:
        for n in range(1, TABLES):
            snapshot = cold.at(commit=f"3.{n - 1}")
            assert [ids(snapshot[f"t{m}"]) for m in range(1, TABLES)] == [
                [-1, m] if m <= n else [-1] for m in range(1, TABLES)
            ]
        assert cold.verify().ok
    times = [entry.time for entry in lake.log()]
    assert times == sorted(set(times), reverse=True)


def test_a_commit_that_meets_nobody_has_its_slot_for_itself(lake: quire.Lake) -> None:
    for n in range(3):
        with lake.transaction("alone") as tx:
            tx["t0"].append([{"id": n}])
        assert tx.receipt is not None
        assert (tx.receipt.commit, tx.receipt.cost["shared"]) == (f"{n + 2}.0", 1)


def test_appends_to_one_table_are_fused(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 6):
            together.commit(f"c{n}", lambda tx, n=n: (append("t0", n)(tx), append(f"t{n}", n)(tx)))  # type: ignore[misc]
    assert not together.errors
    assert slots(lake) == [["first"], [f"c{n}" for n in range(1, 6)]]
    with quire.open(uri, read_only=True) as cold:
        for n in range(1, 6):
            snapshot = cold.at(commit=f"3.{n - 1}")
            assert ids(snapshot["t0"]) == [-1, 0, *range(1, n + 1)]
            assert snapshot["t0"].version == n + 2
            assert ids(snapshot[f"t{n}"]) == [-1, n]
            receipt = together.receipts[f"c{n}"]
            assert receipt is not None
            assert (receipt.tables["t0"].version, receipt.tables["t0"].added) == (n + 2, 1)
        assert cold.verify().ok
        folder = Path(uri) / str(cold["t0"].describe()["location"]) / "data"
    assert len(list(folder.iterdir())) == 7, "no data file was written twice"


def test_a_fused_commit_can_be_reverted_alone(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        for n in range(1, 5):
            together.commit(f"c{n}", append("t0", n))
    lake.revert("3.1")
    assert ids(lake["t0"]) == [-1, 0, 1, 3, 4]
    assert lake.verify().ok


def test_strict_inserts_with_other_keys_are_fused_and_the_same_key_is_a_conflict(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        for name, key in (("a", 1), ("b", 2), ("again", 1), ("c", 3)):
            together.commit(name, lambda tx, k=key, n=name: tx["keyed"].insert([{"id": k, "v": n}]))  # type: ignore[misc]
    assert slots(lake) == [["first"], ["a", "b", "c"]]
    assert list(together.errors) == ["again"]
    assert isinstance(together.errors["again"], errors.KeyConflict)
    assert {r["id"]: r["v"] for r in lake["keyed"].to_pylist()} == {0: "old", 1: "a", 2: "b", 3: "c"}


def test_rows_with_and_without_keys_are_not_fused(lake: quire.Lake) -> None:
    """What `append` brought may hold a key that a strict insert must not find."""

    def both(tx: quire.Transaction) -> None:
        tx["t1"].append([{"id": 5}])
        tx["t1"].insert([{"id": 7}], on="id")

    with crowd(lake) as together:
        together.commit("both", both)
        together.commit("strict", lambda tx: tx["t1"].insert([{"id": 5}], on="id"))
        together.commit("plain", append("t2", 5))
        together.commit("strict after plain", lambda tx: tx["t2"].insert([{"id": 5}], on="id"))
    assert set(together.errors) == {"strict", "strict after plain"}
    assert all(isinstance(error, errors.KeyConflict) for error in together.errors.values())
    assert ids(lake["t1"]) == [-1, 5, 7]


def test_plain_clients_see_the_whole_group(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append("t0", n))
    assert {p.outcome for p in lake.backfill()} <= {"promoted", "current"}
    location = lake["t0"].describe()["location"]
    assert sorted(lance.dataset(f"{uri}/{location}").to_table()["id"].to_pylist()) == [-1, 0, 1, 2, 3]


# -- members that need each other -------------------------------------------------------------------------------------


def test_upserts_of_one_row_take_one_slot_after_the_other(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        for n in range(1, 5):
            together.commit(f"c{n}", lambda tx, n=n: tx["keyed"].upsert([{"id": 0, "v": f"c{n}"}]))  # type: ignore[misc]
    assert not together.errors
    assert [len(messages) for messages in slots(lake)] == [1, 1, 1, 1, 1]
    last = slots(lake)[-1][0]
    assert lake["keyed"].to_pylist() == [{"id": 0, "v": last}]
    assert lake["keyed"].version == 5


def test_members_with_other_tables_pass_one_that_must_wait(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        together.commit("up", lambda tx: tx["keyed"].upsert([{"id": 0, "v": "up"}]))
        together.commit("later", lambda tx: tx["keyed"].update({"v": "'later'"}, where="id = 9"))
        together.commit("deletes", lambda tx: tx["keyed"].delete("id = 0"))
        together.commit("other", append("t1", 1))
    assert slots(lake)[1] == ["up", "other"]
    assert set(together.errors) == {"deletes"}
    assert isinstance(together.errors["deletes"], errors.Conflict)
    assert lake["keyed"].to_pylist() == [{"id": 0, "v": "up"}]


def test_two_creators_of_one_name_cannot_both_win(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        for n in range(3):
            together.commit(f"c{n}", lambda tx, n=n: tx.create_table("same", [{"id": n}]))  # type: ignore[misc]
        together.commit("renames", lambda tx: tx.rename_table("t5", "same"))
        together.commit("drops", lambda tx: tx.drop_table("t4"))
        together.commit("takes the name", lambda tx: tx.create_table("new", [{"id": 7}]))
    assert slots(lake)[1] == ["c0", "drops", "takes the name"]
    assert {name: type(e) for name, e in together.errors.items()} == dict.fromkeys(
        ("c1", "c2", "renames"), errors.NameConflict
    )
    assert ids(lake["same"]) == [0]
    assert "t4" not in lake.snapshot()


def test_a_token_is_used_once_within_a_group(lake: quire.Lake) -> None:
    token = quire.token()
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append(f"t{n}", n), token=token)
        together.commit("position 2", append("t4", 4), token=quire.StreamToken(scope="s", sequence=2))
        together.commit("position 1", append("t5", 5), token=quire.StreamToken(scope="s", sequence=1))
    assert slots(lake)[1:] == [["c1", "position 2"]]
    for n in (2, 3):
        receipt = together.receipts[f"c{n}"]
        assert receipt is not None
        assert (receipt.repeated, receipt.commit) == (True, "3.0")
    late = together.receipts["position 1"]
    assert late is not None
    assert late.repeated


def test_conditions_hold_for_the_very_state_a_member_lands_on(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        together.commit("moves", append("t1", 1))
        together.commit("expects the old", append("t2", 2), expect={"t1": 1})
        together.commit("expects what is", append("t3", 3), expect={"t5": 1})
        together.commit("wants the head", append("t4", 4), if_head="2.0")
    assert slots(lake)[1] == ["moves", "expects what is"]
    assert set(together.errors) == {"expects the old", "wants the head"}
    assert all(isinstance(e, errors.ExpectationFailed) for e in together.errors.values())


def test_what_a_member_relies_on_is_looked_at_again(lake: quire.Lake) -> None:
    def relies(tx: quire.Transaction) -> None:
        tx["keyed"].require_keys([0])
        tx["t1"].append([{"id": 1}])

    def reads(tx: quire.Transaction) -> None:
        tx["t2"].append([{"id": tx["keyed"].count()}])

    with crowd(lake) as together:
        together.commit("deletes", lambda tx: tx["keyed"].delete("id = 0"))
        together.commit("relies", relies)
        together.commit("reads", reads, isolation="serializable")
        together.commit("snapshot", lambda tx: tx["t3"].append([{"id": tx["keyed"].count()}]))
    assert slots(lake)[1] == ["deletes", "snapshot"]
    assert {name: type(e) for name, e in together.errors.items()} == {
        "relies": errors.ExpectationFailed,
        "reads": errors.Conflict,
    }


# -- members that fail ------------------------------------------------------------------------------------------------


def test_a_member_that_cannot_be_staged_harms_nobody(lake: quire.Lake, uri: str, monkeypatch: Any) -> None:
    """Its own new table is gone when it is staged; those who come before and after it do not notice."""
    stage = publish.stage

    def failing(tx: Any, behind: Any = None) -> Any:
        if tx.message == "fails":
            raise errors.StorageError("The disk is full.")
        return stage(tx, behind)

    with crowd(lake) as together:
        for name, value in (("a", 1), ("fails", 2), ("b", 3)):
            together.commit(name, append("t0", value))
        together.commit("other", append("t1", 1))
        monkeypatch.setattr(publish, "stage", failing)
    monkeypatch.undo()
    assert list(together.errors) == ["fails"]
    assert slots(lake)[1] == ["a", "b", "other"]
    assert ids(lake["t0"]) == [-1, 0, 1, 3]
    assert ids(lake.at(commit="3.0")["t0"]) == [-1, 0, 1]
    assert lake.verify().ok


def test_a_member_whose_time_runs_out_is_never_published(lake: quire.Lake) -> None:
    with crowd(lake) as together:
        together.commit("hasty", append("t1", 1), timeout=0.2)
        together.commit("patient", append("t2", 2))
        wait_for(lambda: "hasty" in together.errors)
    assert isinstance(together.errors["hasty"], errors.DeadlineExceeded)
    assert slots(lake) == [["first"], ["patient"]]
    assert ids(lake["t1"]) == [-1]


def test_an_eager_member_whose_time_runs_out_lets_the_others_go_on(lake: quire.Lake) -> None:
    group = lake._live.group
    with crowd(lake) as together:
        late = lake.transaction("late", timeout=0.1)
        late["t1"].append([{"id": 1}])
        member = grouping.Member(late, {"rebased": 0, "replayed": 0}, 4, grouping.ticket())
        raised: list[BaseException] = []

        def wait_in_vain() -> None:
            try:
                group.join_first(member, lambda: True)
            except errors.DeadlineExceeded as error:
                raised.append(error)

        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        together.commit("other", append("t2", 2))
        thread.join(30)
        assert not thread.is_alive()
    assert len(raised) == 1
    assert slots(lake) == [["first"], ["other"]]


def test_an_outcome_is_told_once(lake: quire.Lake) -> None:
    tx = lake.transaction("settled")
    member = grouping.Member(tx, {}, 1, grouping.ticket())
    member.settle(lost=True)
    member.tell_to_lead()
    member.settle(error=errors.StorageError("late"))
    assert (member.settled, member.leads, member.lost, member.error) == (True, False, True, None)


def test_a_member_that_is_taken_back_before_it_stands_in_the_queue_holds_up_nobody(lake: quire.Lake) -> None:
    group = lake._live.group
    with crowd(lake) as together:
        for _ in range(2):
            tx = lake.transaction("taken back")
            tx["t1"].append([{"id": 1}])
            member = grouping.Member(tx, {"rebased": 0, "replayed": 0}, 1, grouping.ticket())
            assert group._withdraw(member)
            group._join(member)
            group._join_first(member, lambda: True)
        together.commit("other", append("t2", 2))
    assert slots(lake) == [["first"], ["other"]]
    assert group._leader is None


@pytest.mark.parametrize("leave", [SystemExit, RuntimeError])
def test_a_validator_that_breaks_down_is_its_own_transactions_affair(
    lake: quire.Lake, leave: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []

    def validator(tx: quire.Transaction, tables: list[str]) -> None:
        where.append(threading.current_thread().name)
        if len(where) > 1:
            raise leave("bye")

    monkeypatch.setitem(validators._installed, "strict", validator)
    with lake.transaction("guarded table") as tx:
        tx.create_table("guarded", [{"id": 0}], validator="strict")
    where.clear()
    with crowd(lake) as together:
        together.commit("moves it", append("guarded", 1))
        together.commit("breaks", append("guarded", 2))
        together.commit("other", append("t1", 1))
        assert len(where) == 2
    assert list(together.errors) == ["breaks"]
    assert isinstance(together.errors["breaks"], leave)
    assert ids(lake["guarded"]) == [0, 1]
    assert ids(lake["t1"]) == [-1, 1]
    assert len(set(where)) == len(where), "each runs in the thread of its transaction"


def test_a_validator_runs_again_only_when_what_it_saw_has_moved(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    monkeypatch.setitem(validators._installed, "strict", lambda tx, tables: runs.append(tx.message))
    with lake.transaction("guarded table") as tx:
        tx.create_table("guarded", [{"id": 0}], validator="strict")

    def reads(tx: quire.Transaction) -> None:
        tx["guarded"].append([{"id": tx["t5"].count()}])

    with crowd(lake) as together:
        together.commit("a", reads)
    assert runs.count("a") == 1, "the slot before it moved another table"
    with crowd(lake) as together:
        together.commit("moves", append("t5", 1))
        together.commit("b", reads)
    assert runs.count("b") == 2, "a table that it had read was moved"
    assert together.receipts["b"] is not None


def test_what_a_validator_has_read_is_not_fused_over(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rule may be about a table that has no validator itself."""

    def at_most(tx: quire.Transaction, tables: list[str]) -> None:
        if tx["t1"].count() > 3:
            raise errors.Refused("too many", next="Stop.")

    monkeypatch.setitem(validators._installed, "few", at_most)
    with lake.transaction("guarded table") as tx:
        tx.create_table("guarded", [{"id": 0}], validator="few")

    def two(tx: quire.Transaction) -> None:
        tx["guarded"].append([{"id": 1}])
        tx["t1"].append([{"id": 1}, {"id": 2}])

    with crowd(lake) as together:
        together.commit("plain", append("t1", 0))
        together.commit("guarded", two)
    assert {name: type(error) for name, error in together.errors.items()} == {"guarded": errors.Refused}
    assert ids(lake["t1"]) == [-1, 0]


def test_a_validator_sees_other_tables_as_they_are_where_the_commit_lands(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, list[str]]] = []

    def parent_exists(tx: quire.Transaction, tables: list[str]) -> None:
        seen.append((tx["keyed"].count(), tx.tables()))
        if seen[-1][0] == 0:
            raise errors.Refused("an orphan", next="Insert the parent first.")

    monkeypatch.setitem(validators._installed, "parents", parent_exists)
    with lake.transaction("guarded table") as tx:
        tx.create_table("guarded", [{"id": 0}], validator="parents")
    seen.clear()
    with crowd(lake) as together:
        together.commit("deletes", lambda tx: (tx["keyed"].delete("id = 0"), tx.rename_table("t5", "renamed")))
        together.commit("child", append("guarded", 1))
    assert list(together.errors) == ["child"]
    assert [count for count, _ in seen] == [1, 0]
    assert "renamed" in seen[1][1]
    assert "t5" not in seen[1][1]


def test_a_leader_that_breaks_down_takes_nobody_along(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    build = publish.build

    def broken(live: Any, seen: Any, entries: Any) -> Any:
        if len(entries) > 1:
            monkeypatch.setattr(publish, "build", build)
            raise SystemExit("bye")
        return build(live, seen, entries)

    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append("t1", n))
        monkeypatch.setattr(publish, "build", broken)
    assert {name: type(error) for name, error in together.errors.items()} == {"c1": SystemExit}
    assert ids(lake["t1"]) == [-1, 2, 3]


def test_a_thread_that_is_stopped_in_the_queue_leaves_it(lake: quire.Lake) -> None:
    class Stop(BaseException):
        pass

    with crowd(lake) as together:
        together.commit("stopped", append("t1", 1))
        together.commit("other", append("t2", 2))
        ident = together._threads[1].ident
        assert ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Stop))
    assert {name: type(error) for name, error in together.errors.items()} == {"stopped": Stop}
    with lake.transaction("afterwards") as tx:
        tx["t1"].append([{"id": 3}])
    assert slots(lake) == [["first"], ["other"], ["afterwards"]]


def test_nothing_can_be_added_to_a_transaction_that_is_being_committed(lake: quire.Lake) -> None:
    tx = lake.transaction("closed")
    table = tx["t1"]
    table.append([{"id": 1}])
    with lake._live.publishing:
        thread = threading.Thread(target=tx.commit)
        thread.start()
        wait_for(lambda: bool(lake._live.group._taken))
        with pytest.raises(errors.TransactionClosed, match="being committed"):
            table.append([{"id": 2}])
    thread.join(60)
    assert ids(lake["t1"]) == [-1, 1]


def test_whoever_leads_cannot_wait_for_itself(lake: quire.Lake) -> None:
    """As a validator would that commits, once its transaction leads."""
    raised: list[BaseException] = []

    def commits() -> bool:
        with lake.transaction("inner") as inner:
            inner["t1"].append([{"id": 1}])
        return True

    def run() -> None:
        member = grouping.Member(lake.transaction("outer"), {}, 4, grouping.ticket())
        try:
            lake._live.group.join_first(member, commits)
        except errors.Refused as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for itself"
    assert len(raised) == 1
    with lake.transaction("afterwards") as tx:
        tx["t1"].append([{"id": 2}])
    assert slots(lake) == [["afterwards"]]


def test_a_transaction_is_committed_by_one_thread_only(lake: quire.Lake) -> None:
    tx = lake.transaction("once")
    tx["t1"].append([{"id": 1}])
    with lake._live.publishing:
        thread = threading.Thread(target=tx.commit)
        thread.start()
        wait_for(lambda: bool(lake._live.group._taken))
        with pytest.raises(errors.TransactionClosed, match="Another thread"):
            tx.commit()
    thread.join(60)
    assert ids(lake["t1"]) == [-1, 1]
    assert tx.status == "committed"


def test_an_error_that_nobody_expected_leaves_the_outcome_open(lake: quire.Lake, monkeypatch: Any) -> None:
    append_ = lake._core.ledger.append

    def broken(*args: Any, **options: Any) -> Any:
        append_(*args, **options)
        raise MemoryError("after the slot was written")

    monkeypatch.setattr(lake._core.ledger, "append", broken)
    tx = lake.transaction("unheard")
    tx["t1"].append([{"id": 1}])
    with pytest.raises(MemoryError):
        tx.commit()
    monkeypatch.undo()
    assert tx.status == "unknown"
    assert lake.outcome(tx) is Outcome.COMMITTED


def test_a_group_that_loses_its_slot_tries_the_next(lake: quire.Lake, uri: str) -> None:
    rival = quire.open(uri, backfill=False)
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append("t1", n))
        with rival.transaction("rival") as tx:
            tx["t1"].append([{"id": 100}])
        with rival.transaction("rival again") as tx:
            tx["t1"].append([{"id": 101}])
    assert not together.errors
    assert sorted(message for slot in slots(lake) for message in slot) == [
        "c1",
        "c2",
        "c3",
        "first",
        "rival",
        "rival again",
    ]
    assert ids(lake["t1"]) == [-1, 1, 2, 3, 100, 101]
    assert lake.verify().ok


def test_a_claim_by_another_refuses_the_whole_group(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append(f"t{n}", n))
        quire.open(uri, backfill=False).claim()
    assert set(together.errors) == {"first", "c1", "c2", "c3"}
    assert all(isinstance(e, errors.Fenced) for e in together.errors.values())


def test_commits_that_would_make_a_record_too_large_take_the_next_slot(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(4):
            together.commit("x" * 13_000 + str(n), append("t1", n))  # twice: in the author, too
    assert not together.errors
    assert [len(messages) for messages in slots(lake)][:2] == [1, 2]
    assert not list(Path(uri).rglob("side-*"))
    assert ids(lake["t1"]) == [-1, 0, 1, 2, 3]


def test_with_grouping_off_every_commit_has_a_slot(lake: quire.Lake) -> None:
    lake._core.grouped = False
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append(f"t{n}", n))
    assert slots(lake) == [["first"], ["c1"], ["c2"], ["c3"]]


# -- commits inside a slot, later -------------------------------------------------------------------------------------


def test_tags_branches_and_cleanup_know_commits_inside_a_slot(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 5):
            together.commit(f"c{n}", append("t0", n))
    lake.tag("middle", at="3.1")
    branch = lake.create_branch("side", at="3.2")
    with branch.transaction("on the side") as tx:
        tx["t0"].append([{"id": 50}])
    assert ids(branch["t0"]) == [-1, 0, 1, 2, 3, 50]
    for n in range(5):
        with lake.transaction("more") as tx:
            tx["t0"].append([{"id": 10 + n}])
    unsettled = lake.show("3.3")
    age(uri)
    lake.cleanup(keep=1, older_than=0, grace=0)
    with quire.open(uri, read_only=True) as cold:
        assert ids(cold.at(tag="middle")["t0"]) == [-1, 0, 1, 2]
        assert ids(cold.branch("side")["t0"]) == [-1, 0, 1, 2, 3, 50]
        assert ids(cold["t0"]) == [-1, 0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
        assert cold.verify().ok
    assert unsettled.point == Point(branch=lake._live.line.branch, slot=3, index=3)


def test_a_branch_from_inside_a_slot_is_not_compared_with_the_rest_of_it(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append("t1", n))
    branch = lake.create_branch("side", at="3.0")
    slow = branch.transaction("slow")
    slow["t1"].overwrite([{"id": 9}])
    with quire.open(uri, branch="side", backfill=False).transaction("first on the branch") as tx:
        tx["t2"].append([{"id": 1}])
    slow.commit()
    assert ids(branch["t1"]) == [9]


def test_a_buried_group_still_says_that_its_members_were_committed(lake: quire.Lake, uri: str) -> None:
    with crowd(lake) as together:
        for n in range(1, 4):
            together.commit(f"c{n}", append(f"t{n}", n))
    writes = [lake.show(f"3.{n}").write for n in range(3)]
    for n in range(4):
        with lake.transaction("more") as tx:
            tx["t0"].append([{"id": 10 + n}])
    age(uri)
    lake.cleanup(keep=1, older_than=0, grace=0)
    with pytest.raises(errors.SnapshotExpired):
        quire.open(uri).at(commit="3.1")
    for write in writes:
        told = errors.CommitUnknown("?", branch="main", log=lake._live.line.branch, slot=3, write=write)
        assert lake.outcome(told) is Outcome.COMMITTED


# -- load -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [False, True])
def test_many_threads_lose_nothing(lake: quire.Lake, uri: str, mixed: bool) -> None:
    def work(thread: int, n: int, tx: quire.Transaction) -> None:
        value = thread * 100 + n
        tx["t0"].append([{"id": value}])
        tx[f"t{1 + thread % (TABLES - 1)}"].append([{"id": value}])
        if mixed and n % 3 == 0:
            tx["keyed"].upsert([{"id": value % 7, "v": str(value)}])

    threads, rounds = 12, budget(4, full=6)
    failed: list[BaseException] = []
    receipts: list[quire.Receipt] = []

    def run(thread: int) -> None:
        try:
            for n in range(rounds):
                ran: list[quire.Transaction] = []
                lake.transact(lambda tx, n=n, ran=ran: (ran.append(tx), work(thread, n, tx)), f"{thread}.{n}")
                receipt = ran[-1].receipt
                assert receipt is not None
                receipts.append(receipt)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed
    wanted = sorted(t * 100 + n for t in range(threads) for n in range(rounds))
    assert ids(lake["t0"]) == [-1, *wanted]
    assert sorted(value for n in range(1, TABLES) for value in ids(lake[f"t{n}"])[1:]) == wanted
    assert len({r.commit for r in receipts}) == threads * rounds
    assert max(r.cost["shared"] for r in receipts) > 1, "no two ever shared a slot"
    with quire.open(uri, read_only=True) as cold:
        assert cold.verify().ok
        assert cold["t0"].version == threads * rounds + 1
