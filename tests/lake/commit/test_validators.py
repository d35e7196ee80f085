"""Tables that somebody else has rules for: the rules are kept with the table, and a validator sees what was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.lake.commit import validators

Rows = list[dict[str, Any]]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", [{"id": n, "v": n} for n in range(1, 5)], key="id")
        yield lake


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rows, Rows]]:
    """What the validator `watch` was shown: rows that were added and rows that were removed, by table."""
    seen: list[tuple[Rows, Rows]] = []

    def watch(tx: quire.Transaction, tables: list[str]) -> None:
        for table in tx.edited():
            assert table.name in tables
            delta = table.delta()
            seen.append((_sorted(delta.added), _sorted(delta.removed)))

    monkeypatch.setitem(validators._installed, "watch", watch)
    return seen


def _sorted(reader: Any) -> Rows:
    return sorted(reader.read_all().to_pylist(), key=lambda row: row["id"])


def row(id: int, v: int | None = None) -> dict[str, Any]:
    return {"id": id, "v": id if v is None else v}


def guarded(lake: quire.Lake, rows: Rows) -> None:
    with lake.transaction("guarded") as tx:
        tx.create_table("g", rows, key="id", validator="watch", rules='{"v": 1}')


CHANGES: dict[str, tuple[Callable[[Any], Any], Rows, Rows]] = {
    "append": (lambda g: g.append([row(9)]), [row(9)], []),
    "upsert": (lambda g: g.upsert([row(1, 5), row(9)]), [row(1, 5), row(9)], [row(1)]),
    "patch": (lambda g: g.upsert([{"id": 1, "v": 7}, {"id": 8, "v": 8}]), [row(1, 7), row(8)], [row(1)]),
    "update": (lambda g: g.update({"v": "v + 1"}, where="id > 2"), [row(3, 4)], [row(3)]),
    "delete": (lambda g: g.delete("id < 3"), [], [row(1), row(2)]),
    "overwrite": (lambda g: g.overwrite([row(2), row(6)]), [row(2), row(6)], [row(1), row(2), row(3)]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_validator_sees_what_a_statement_adds_and_removes(
    lake: quire.Lake, watched: list[tuple[Rows, Rows]], name: str
) -> None:
    change, added, removed = CHANGES[name]
    guarded(lake, [row(1), row(2), row(3)])
    assert watched.pop() == ([row(1), row(2), row(3)], [])
    with lake.transaction(name) as tx:
        change(tx["g"])
    assert watched == [(added, removed)]


def test_several_statements_are_seen_as_one_change(lake: quire.Lake, watched: list[tuple[Rows, Rows]]) -> None:
    guarded(lake, [row(1), row(2)])
    watched.clear()
    with lake.transaction() as tx:
        tx["g"].append([row(5), row(6)])
        tx["g"].delete("id in (1, 5)")
        tx["g"].upsert([row(6, 60)])
    assert watched == [([row(6, 60)], [row(1)])]


def test_a_dropped_or_reverted_table_is_seen_too(lake: quire.Lake, watched: list[tuple[Rows, Rows]]) -> None:
    guarded(lake, [row(1)])
    with lake.transaction() as tx:
        tx["g"].append([row(2)])
        commit = tx
    watched.clear()
    lake.revert(commit.receipt.commit)
    assert watched == [([], [row(2)])]
    with lake.transaction() as tx:
        tx.drop_table("g")
    assert watched[1:] == [([], [row(1)])]


def test_small_rows_are_not_read_again_to_be_judged(lake: quire.Lake, watched: list[tuple[Rows, Rows]]) -> None:
    guarded(lake, [row(n) for n in range(1, 5)])
    spent = {}
    for name in ("t", "g"):
        for number in (50, 51):  # the first one reads what is there, to find whether the key is taken
            lake.flush()
            with lake.transaction() as tx:
                tx[name].append([row(number)])
        spent[name] = (tx.receipt.cost["external"], tx.receipt.cost["requests"])
    assert watched[-1] == ([row(51)], [])
    assert spent["g"] == spent["t"]


def test_rules_are_kept_with_the_table_at_every_commit(lake: quire.Lake, watched: list[tuple[Rows, Rows]]) -> None:
    guarded(lake, [row(1)])
    first = lake.head
    with lake.transaction("rules") as tx:
        tx["g"].set_rules("other")
    assert watched[1:] == [([], [])]
    assert _rules(lake.snapshot()) == "other"
    assert _rules(lake.at(commit=first)) == '{"v": 1}'
    assert lake.show(lake.head).tables["g"].ops == ("schema",)
    with quire.open(lake.uri) as again:
        assert _rules(again.snapshot()) == "other"


def _rules(snapshot: quire.Snapshot) -> str:
    return next(t.info.rules for t in snapshot._state.tables.values() if t.info.name == "g")


def test_a_change_of_rules_conflicts_with_every_other_change(
    lake: quire.Lake, watched: list[tuple[Rows, Rows]]
) -> None:
    guarded(lake, [row(1)])
    with quire.open(lake.uri) as other:
        tx = lake.transaction("append")
        tx["g"].append([row(2)])
        with other.transaction("rules") as theirs:
            theirs["g"].set_rules("stricter")
        with pytest.raises(quire.Conflict):
            tx.commit()
        late = other.transaction("rules")
        late["g"].set_rules("laxer")
        with lake.transaction() as mine:
            mine["g"].append([row(3)])
        with pytest.raises(quire.Conflict):
            late.commit()


def test_the_rules_of_a_table_cannot_be_changed_without_its_validator(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("g", [row(1)], key="id", rules="of nobody")
        tx["g"].set_rules("of nobody either")
    validators.install("passing by", lambda tx, tables: None)
    try:
        with lake.transaction() as tx:
            tx.create_table("h", [row(1)], key="id", validator="passing by", rules="x")
    finally:
        del validators._installed["passing by"]
    with lake.transaction() as tx, pytest.raises(quire.errors.ValidatorMissing):
        tx["h"].set_rules("y")


def test_a_verdict_that_was_not_reached_is_asked_for_again(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses on a state that is not the newest any more: on the newest it is asked again, not taken as given."""
    asked = []
    with quire.open(lake.uri, backfill=False) as other:

        def at_most_two(tx: quire.Transaction, tables: list[str]) -> None:
            asked.append(tx.message)
            if tx["g"].count() > 2:
                if len(asked) == 4:
                    with other.transaction("of no concern") as beside:
                        beside["t"].append([row(99)])
                raise quire.errors.IntegrityError("Three are too many.", next="Leave one out.")

        monkeypatch.setitem(validators._installed, "two", at_most_two)
        with lake.transaction("g") as tx:
            tx.create_table("g", [row(1)], key="id", validator="two")
        other.refresh()
        late = lake.transaction("late")
        late["g"].append([row(2)])
        with other.transaction("first") as tx:
            tx["g"].append([row(3)])
        with pytest.raises(quire.errors.IntegrityError):
            late.commit()
        assert asked == ["g", "first", "late", "late", "late"]
        assert [r["id"] for r in other["g"].to_pylist()] == [1, 3]
        assert other["t"].count() == 5
