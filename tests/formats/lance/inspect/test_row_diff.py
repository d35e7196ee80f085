"""What changed between two commits, by rows: keyed, unkeyed, moved, reshaped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables, listed, rows
from tests.lake.conftest import compact

import quire
from quire.errors import TableNotFound


def changes(lake: quire.Lake, name: str, a: str = "1.0", b: str | None = None) -> dict[str, Any]:
    found = lake.diff(a, b)[name]
    assert (found.added, found.changed, found.removed) == (
        found.rows.added.num_rows,
        found.rows.changed_after.num_rows,
        found.rows.removed.num_rows,
    )
    return {
        "added": listed(found.rows.added),
        "before": listed(found.rows.changed_before),
        "after": listed(found.rows.changed_after),
        "removed": listed(found.rows.removed),
    }


NOTHING: dict[str, list[Any]] = {"added": [], "before": [], "after": [], "removed": []}


def test_rows_of_a_keyed_table_are_paired_by_key(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].upsert(rows(2, 4, times=7))
        tx["t"].delete("id = 1")
    expected = {"added": [(4, 28)], "before": [(2, 20)], "after": [(2, 14)], "removed": [(1, 10)]}
    assert changes(lake, "t") == expected
    assert "log" not in lake.diff("1.0")


def test_the_other_way_round_is_the_opposite(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].upsert(rows(2, 4, times=7))
        tx["t"].delete("id = 1")
    expected = {"added": [(1, 10)], "before": [(2, 14)], "after": [(2, 20)], "removed": [(4, 28)]}
    assert changes(lake, "t", "2.0", "1.0") == expected


def test_rows_without_a_key_are_a_multiset(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["log"].append(rows(1, 1, 4))
        tx["log"].update({"v": "0"}, where="id = 2")
    expected = {**NOTHING, "added": [(1, 10), (1, 10), (2, 0), (4, 40)], "removed": [(2, 20)]}
    assert changes(lake, "log") == expected


@pytest.mark.parametrize("name", ["t", "log"])
def test_rows_that_only_moved_are_no_change(lake: quire.Lake, name: str) -> None:
    with lake.transaction() as tx:
        tx[name].upsert(rows(1, 2), on="id")
        tx[name].update({"v": "v"}, where="id = 3")
    assert changes(lake, name) == NOTHING
    compact(lake, name).commit()
    assert changes(lake, name) == NOTHING
    with lake.transaction() as tx:
        tx[name].append(rows(4))
    compact(lake, name).commit()
    assert changes(lake, name) == {**NOTHING, "added": [(4, 40)]}


def test_nulls_are_equal_to_nulls_and_nothing_else(lake: quire.Lake) -> None:
    lake.create_table(
        "n", [{"id": 1, "x": None}, {"id": 2, "x": 5}], schema=pa.schema([("id", "i8"), ("x", "i8")]), key="id"
    )
    with lake.transaction() as tx:
        tx["n"].upsert([{"id": 1, "x": None}, {"id": 2, "x": None}])
    found = changes(lake, "n", "2.0")
    assert found == {**NOTHING, "before": [(2, 5)], "after": [(2, None)]}


def test_a_new_column_is_reported_as_a_column(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].add_columns({"w": "v + 1"})
    found = lake.diff("1.0")["t"]
    assert found.columns == {"added": ["w"], "removed": [], "retyped": []}
    assert (found.added, found.changed, found.removed) == (0, 0, 0)


def test_schema_and_rows_change_together(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].drop_columns("v")
        tx["t"].append([{"id": 4}])
        tx["t"].delete("id = 1")
    found = lake.diff("1.0")["t"]
    assert found.columns == {"added": [], "removed": ["v"], "retyped": []}
    assert (found.added, found.changed, found.removed) == (1, 0, 1)


def test_a_new_type_is_reported_as_a_column(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].alter_column("v", type=pa.string())
    found = lake.diff("1.0")["t"]
    assert found.columns == {"added": [], "removed": [], "retyped": ["v"]}
    assert (found.added, found.removed) == (0, 0)


def test_created_dropped_renamed_and_made_again(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("new", rows(1, 2))
        tx.rename_table("log", "diary")
        tx.drop_table("t")
        tx.create_table("t", rows(9))
    found = [(t.name, t.kind, t.added, t.removed) for t in lake.diff("1.0")]
    assert found == [
        ("diary", "renamed", 0, 0),
        ("new", "created", 2, 0),
        ("t", "dropped", 0, 3),
        ("t", "created", 1, 0),
    ]


def test_diff_between_branches_and_tags(lake: quire.Lake) -> None:
    lake.tag("v1")
    branch = lake.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    with lake.transaction() as tx:
        tx["t"].append(rows(5))
    assert changes(lake, "t", "v1", "exp") == {**NOTHING, "added": [(4, 40)]}
    assert changes(lake, "t", "exp", "main") == {**NOTHING, "added": [(5, 50)], "removed": [(4, 40)]}
    assert len(lake.diff("2.0", "2.0")) == 0
    with pytest.raises(TableNotFound):
        lake.diff("1.0", tables=["nope"])


def test_only_fragments_that_differ_are_read(tables: Tables) -> None:
    """The cost of a diff follows the change: files of untouched fragments may even be gone."""
    pin = tables.create(rows(1, 2))
    for number in range(3, 9):
        pin = tables.append(pin, number)
    after = tables.change(pin, lambda w: w.rows.delete("id = 8"), lambda w: w.rows.append(rows(9), missing="error"))
    untouched = {f.metadata.files[0].path for f in tables.handle(pin).get_fragments()[:-1]}
    for path in untouched:
        (tables.folder / pin.location / "data" / path).unlink()
    gone, come = tables.format.changed_rows(pin, after)
    assert listed(gone.read_all()) == [(8, 80)]
    assert listed(come.read_all()) == [(9, 90)]
