"""Plain handles that were opened before a commit of the lake, and write after it: as after a plain writer's commit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import pytest
from tests.formats.lance.conftest import content, listed, place, plain, rows

import quire

Write = Callable[[Any], Any]
Said = tuple[str, str]

START = (rows(1, 2, 3), rows(4, 5, 6))


def merge(handle: Any, *ids: int) -> None:
    builder = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(rows(*ids, times=7))


def compact(lake: quire.Lake) -> None:
    lake.optimize(["t"])


def by(statement: Write) -> Callable[[quire.Lake], None]:
    def commit(lake: quire.Lake) -> None:
        with lake.transaction() as tx:
            statement(tx["t"])

    return commit


CHANGES: dict[str, tuple[Callable[[quire.Lake], None], Write, str]] = {
    "append": (by(lambda t: t.append(rows(50))), lambda u: lance.write_dataset(rows(50), u, mode="append"), "Append"),
    "upsert": (by(lambda t: t.upsert(rows(3, 50, times=7))), lambda u: merge(lance.dataset(u), 3, 50), "Update"),
    "delete": (by(lambda t: t.delete("id = 3")), lambda u: lance.dataset(u).delete("id = 3"), "Delete"),
    "delete a fragment": (by(lambda t: t.delete("id <= 3")), lambda u: lance.dataset(u).delete("id <= 3"), "Delete"),
    "delete all": (by(lambda t: t.delete("id > 0")), lambda u: lance.dataset(u).delete("id > 0"), "Delete"),
    "update": (
        by(lambda t: t.update({"v": "0"}, where="id = 3")),
        lambda u: lance.dataset(u).update({"v": "0"}, where="id = 3"),
        "Update",
    ),
    "update all": (
        by(lambda t: t.update({"v": "0"}, where="id > 0")),
        lambda u: lance.dataset(u).update({"v": "0"}, where="id > 0"),
        "Update",
    ),
    "compact": (compact, lambda u: lance.dataset(u).optimize.compact_files(), "Rewrite"),
    "overwrite": (by(lambda t: t.overwrite(rows(8))), lambda u: lance.write_dataset(rows(8), u, mode="overwrite"), ""),
}
"""What the lake does, what a plain writer does, and as what the first shall be told."""

STALE: dict[str, Write] = {
    "append": lambda h: lance.write_dataset(rows(77), h, mode="append"),
    "upsert of another row": lambda h: merge(h, 1, 77),
    "upsert of the same row": lambda h: merge(h, 3, 77),
    "insert": lambda h: h.merge_insert("id").when_not_matched_insert_all().execute(rows(1, 77)),
    "delete another row": lambda h: h.delete("id = 1"),
    "delete the same row": lambda h: h.delete("id = 3"),
    "delete another fragment": lambda h: h.delete("id >= 4"),
    "delete all": lambda h: h.delete("true"),
    "update another row": lambda h: h.update({"v": "1"}, where="id = 1"),
    "update the same row": lambda h: h.update({"v": "1"}, where="id = 3"),
    "index": lambda h: h.create_scalar_index("v", "BTREE"),
    "add a column": lambda h: h.add_columns({"x": "v + 2"}),
    "overwrite": lambda h: lance.write_dataset(rows(9), h, mode="overwrite"),
}


class Table:
    """A table before and after a change. What happens to a copy of it happens to no other."""

    def __init__(self, before: Path, after: Path) -> None:
        self.before, self.after = before, after

    def tried(self, stale: Write, at: Path) -> tuple[str, list[Any]]:
        """What writing through a handle of the time before says, and what is in the table then."""
        shutil.copytree(self.before, at)
        handle = lance.dataset(at)
        shutil.copytree(self.after, at, dirs_exist_ok=True)
        try:
            stale(handle)
            said = "done"
        except OSError as error:
            # The same conflict is worded by what the rival was.
            text = str(error).partition(", /")[0]
            said = re.sub(r"version \d+|transaction (Overwrite|Restore)", "", text)
        return said, listed(searched(lance.dataset(at)))


def searched(table: Any) -> Any:
    """All rows. Each is also found by its value, with or without an index, and is numbered apart from the others."""
    found = table.to_table(columns=["id", "v"], with_row_id=True)
    numbers = found["_rowid"].to_pylist()
    assert len(set(numbers)) == len(numbers)
    for value in set(found["v"].to_pylist()):
        by_value = table.to_table(columns=["id"], filter=f"v = {value}")["id"].to_pylist()
        assert sorted(by_value) == sorted(r["id"] for r in found.to_pylist() if r["v"] == value)
    return table.to_table()


def of_lake(where: Path, change: Callable[[quire.Lake], None], op: str, *, stable: bool = False) -> Table:
    with quire.create(where / "lake", backfill=False) as lake:
        lake.create_table("t", START[0], key="id", stable_row_ids=stable)
        by(lambda t: t.append(START[1]))(lake)
        lake.backfill()
        table = Path(place(lake, "t"))
        shutil.copytree(table, where / "before")
        change(lake)
        assert [p.outcome for p in lake.backfill()] == ["promoted"]
        assert plain(lake, "t") == content(lake, "t")
        head = lance.dataset(table)
        assert type(head.read_transaction(head.version).operation).__name__ == (op or "Restore")
    return Table(where / "before", table)


def of_plain(where: Path, change: Write, *, stable: bool) -> Table:
    table = where / "plain"
    lance.write_dataset(START[0], table, enable_stable_row_ids=stable)
    lance.write_dataset(START[1], table, mode="append")
    shutil.copytree(table, where / "before-plain")
    change(table)
    return Table(where / "before-plain", table)


@pytest.mark.parametrize("stable", [False, True], ids=["", "stable row ids"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_stale_handle_meets_what_it_would_meet_after_a_plain_commit(
    tmp_path: Path, change: str, stable: bool
) -> None:
    of_the_lake, of_a_writer, op = CHANGES[change]
    ours = of_lake(tmp_path, of_the_lake, op, stable=stable)
    theirs = of_plain(tmp_path, of_a_writer, stable=stable)
    for name, stale in STALE.items():
        if change == name == "overwrite":
            continue  # Lance takes the second of two overwrites for a conflict, and one after a restore for none
        at = tmp_path / f"stale {name}"
        assert ours.tried(stale, at / "ours") == theirs.tried(stale, at / "theirs"), name


@pytest.mark.parametrize(
    "change",
    [
        by(lambda t: t.create_index("id", "BTREE")),
        by(lambda t: t.add_columns({"w": "v + 1"})),
        by(lambda t: t.overwrite(rows(8))),
    ],
)
def test_where_more_than_rows_changed_a_stale_handle_fails_and_a_fresh_one_goes_on(
    tmp_path: Path, change: Callable[[quire.Lake], None]
) -> None:
    table = of_lake(tmp_path, change, "Restore")
    before = listed(lance.dataset(table.after).to_table())
    for stale in (STALE["append"], STALE["insert"], STALE["delete another row"]):
        said, found = table.tried(stale, tmp_path / "tried")
        assert "incompatible with concurrent" in said
        assert found == before
        shutil.rmtree(tmp_path / "tried")
    lance.dataset(table.after).delete("id = 8 or id = 1")
    assert len(lance.dataset(table.after).to_table()) == len(before) - 1


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "overwrite"])
def test_a_stale_lancedb_table_adds_merges_and_deletes_and_the_lake_adopts_it(lake: quire.Lake, change: str) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4, 5, 6))
    lake.backfill()
    folder, _, leaf = place(lake, "t").rpartition("/")
    tables = [lancedb.connect(folder).open_table(leaf.removesuffix(".lance")) for _ in range(3)]
    for table in tables:
        assert table.count_rows() == 6
    CHANGES[change][0](lake)
    lake.backfill()
    expected = dict(content(lake))

    tables[0].add(rows(77))
    tables[1].merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(1, 78, times=7))
    tables[2].delete("id = 2")
    expected.update({77: 770, 1: 7, 78: 7 * 78})
    expected.pop(2, None)
    assert sorted(plain(lake, "t")) == sorted(expected.items())
    found = lake.adopt("t")
    assert found.branch == "main"
    assert sorted(content(lake)) == sorted(plain(lake, "t")) == sorted(expected.items())
    assert lake.foreign() == []
    assert lake.verify(deep=True).findings == []
