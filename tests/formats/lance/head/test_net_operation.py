"""As what a backfilled version is told: the true operation, where there is one, over any number of commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from tests.formats.lance.conftest import Tables, listed, rows

from quire.formats import IndexSpec, Upkeep
from quire.formats.lance.head import next_version
from quire.formats.lance.head.manifest_fields import Fields, fields_of
from quire.formats.lance.head.net_operation import net_operation
from quire.formats.lance.session import manifest_name
from quire.ledger import Pin

Statement = Callable[[Any], Any]


def append(*ids: int) -> Statement:
    return lambda w: w.rows.append(rows(*ids), missing="error")


def upsert(*ids: int, times: int = 7) -> Statement:
    return lambda w: w.rows.upsert(rows(*ids, times=times), ("id",))


def delete(where: str) -> Statement:
    return lambda w: w.rows.delete(where)


def update(where: str, v: str = "0") -> Statement:
    return lambda w: w.rows.update({"v": v}, {}, where, ())


def overwrite(*ids: int) -> Statement:
    return lambda w: w.rows.overwrite(rows(*ids), (), schema="keep")


def fields(tables: Tables, pin: Pin, version: int) -> Fields:
    return fields_of((Path(tables.uri(pin)) / "_versions" / manifest_name(version)).read_bytes())


def told(tables: Tables, pin: Pin) -> Any:
    """Promote a pin; the operation as which it is told. Whatever that is, the state is the pin's to the last byte."""
    before = tables.head(pin).version
    assert tables.format.promote(pin, commit=f"{pin.counter}.0", table="t").outcome == "promoted"
    head = tables.head(pin)
    assert head.version == before + 1
    assert fields(tables, pin, head.version).state() == fields(tables, pin, int(pin.version)).state()
    assert listed(head.to_table()) == tables.content(pin)
    made = head.read_transaction(head.version)
    assert made.transaction_properties == {
        "quire.lake": "the-lake",
        "quire.commit": f"{pin.counter}.0",
        "quire.counter": f"{pin.counter}",
    }
    assert (Path(tables.uri(pin)) / "_transactions" / f"{before}-{made.uuid}.txn").is_file()
    return made.operation


def numbers(fragments: Sequence[Any]) -> list[int]:
    return [f.id for f in fragments]


COMMITS: dict[str, tuple[list[list[Statement]], str]] = {
    "append": ([[append(50)]], "Append"),
    "two appends": ([[append(50)], [append(51)]], "Append"),
    "appends of one transaction": ([[append(50), append(51)]], "Append"),
    "insert": ([[upsert(50)]], "Append"),
    "upsert": ([[upsert(3, 50)]], "Update"),
    "the same row again and again": ([[upsert(3)], [upsert(3)], [upsert(3)], [upsert(3)]], "Update"),
    "update": ([[update("id = 3")]], "Update"),
    "delete": ([[delete("id = 3")]], "Delete"),
    "deletes": ([[delete("id = 3")], [delete("id = 4")], [delete("id = 2")]], "Delete"),
    "delete of a fragment": ([[delete("id <= 3")]], "Delete"),
    "delete of all": ([[delete("true")]], "Delete"),
    "delete of all in two": ([[delete("id <= 3")], [delete("true")]], "Delete"),
    "come and gone": ([[append(50)], [delete("id = 50")]], "Delete"),
    "come and gone at once": ([[append(50), delete("id = 50"), append(51)]], "Append"),
    "own rows deleted": ([[append(50, 51), delete("id = 50 or id = 1")]], "Update"),
    "everything moved": ([[update("true")]], "Update"),
    "everything moved, then some": ([[update("true")], [append(50)]], "Restore"),
    "some moved, then everything": ([[update("id = 3")], [append(50)], [update("true")]], "Update"),
    "overwrite": ([[overwrite(8)]], "Restore"),
    "overwrite with nothing": ([[overwrite()]], "Restore"),
    "overwrite and append": ([[overwrite(8), append(9)]], "Restore"),
    "overwrite between appends": ([[append(50)], [overwrite(8)], [append(9)]], "Restore"),
    "overwrite and delete": ([[overwrite(8, 9)], [delete("id = 8")]], "Restore"),
    "overwrite and update of all": ([[overwrite(8, 9)], [update("true")]], "Restore"),
    "add a column": ([[lambda w: w.columns.add({"w": "v + 1"})]], "Restore"),
    "rename a column": ([[lambda w: w.columns.rename("v", "w")]], "Restore"),
    "append and rename": ([[append(50)], [lambda w: w.columns.rename("v", "w")]], "Restore"),
    "index": ([[lambda w: w.indexes.create(IndexSpec("id", "BTREE", "ix"), replace=False)]], "Restore"),
}


UNCOVERED = {"delete of all", "delete of all in two", "everything moved", "some moved, then everything"}
"""What leaves no row that an index knew."""


@pytest.mark.parametrize("name", COMMITS)
def test_the_net_effect_of_commits_is_told(tables: Tables, name: str) -> None:
    commits, expected = COMMITS[name]
    pin = tables.append(tables.create(rows(1, 2, 3)), 4, 5, 6)
    told(tables, pin)
    for statements in commits:
        pin = tables.change(pin, *statements)
    assert type(told(tables, pin)).__name__ == expected


@pytest.mark.parametrize("name", [name for name, (_, op) in COMMITS.items() if op != "Restore"])
def test_it_is_told_beside_an_index_and_the_index_is_the_same(tables: Tables, name: str) -> None:
    """What the index covers afterwards is part of the state that is compared."""
    pin = tables.append(tables.create(rows(1, 2, 3)), 4, 5, 6)
    pin = tables.change(pin, lambda w: w.indexes.create(IndexSpec("id", "BTREE", "ix"), replace=False))
    told(tables, pin)
    for statements in COMMITS[name][0]:
        pin = tables.change(pin, *statements)
    assert type(told(tables, pin)).__name__ == COMMITS[name][1]
    for number in (1, 3, 4, 50, 51):
        head, asked = tables.head(pin), f"id = {number}"
        plans = [handle.scanner(filter=asked).explain_plan(True) for handle in (head, tables.handle(pin))]
        assert ["ScalarIndexQuery" in plan for plan in plans] == [name not in UNCOVERED] * 2
        found = listed(head.to_table(filter=asked))
        assert found == [row for row in tables.content(pin) if row[0] == number]


def test_what_is_told_names_the_fragments(tables: Tables) -> None:
    pin = tables.append(tables.append(tables.create(rows(1, 2, 3)), 4, 5, 6), 7)
    assert numbers(told(tables, pin).fragments) == [1, 2]
    pin = tables.change(pin, upsert(2, 7, 70))
    pin = tables.change(pin, delete("id = 5"))
    made = told(tables, pin)
    assert made.removed_fragment_ids == [2]
    assert [(f.id, f.num_deletions) for f in made.updated_fragments] == [(0, 1), (1, 1)]
    assert numbers(made.new_fragments) == [3]
    made = told(tables, tables.change(pin, delete("id < 4")))
    assert (made.deleted_fragment_ids, numbers(made.updated_fragments)) == ([0], [3])


def test_the_first_rows_of_a_table_are_an_append(tables: Tables) -> None:
    pin = tables.append(tables.create(schema=rows().schema), 1)
    assert numbers(told(tables, pin).fragments) == [0]


def test_numbers_that_a_compaction_left_out_are_kept(tables: Tables) -> None:
    pin = tables.append(tables.append(tables.create(rows(1, 2)), 3), 4)
    told(tables, pin)
    pin = tables.change(pin, lambda w: w.upkeep.compact(Upkeep(target_rows=100)))
    made = told(tables, pin)
    assert isinstance(made, LanceOperation.Rewrite)
    [new] = tables.handle(pin).get_fragments()
    assert new.fragment_id > 3
    pin = tables.append(pin, 5)
    assert numbers(told(tables, pin).fragments) == [new.fragment_id + 1]


def test_a_compaction_of_changed_rows_is_an_update(tables: Tables) -> None:
    pin = tables.append(tables.append(tables.create(rows(1, 2)), 3), 4)
    told(tables, pin)
    pin = tables.change(pin, append(5))
    pin = tables.change(pin, lambda w: w.upkeep.compact(Upkeep(target_rows=100)))
    assert told(tables, pin).removed_fragment_ids == [0, 1, 2]


def test_rows_that_come_back_are_a_restore(tables: Tables) -> None:
    """A plain handle that saw them gone may have inserted them anew."""
    first = tables.append(tables.create(rows(1, 2, 3)), 4)
    second = tables.change(first, delete("id = 2"))
    told(tables, second)
    back = Pin(**{**_values(first), "counter": second.counter + 1})
    assert isinstance(told(tables, back), LanceOperation.Restore)


def test_rows_that_are_taken_back_are_a_delete_and_their_numbers_are_not_given_again(tables: Tables) -> None:
    first = tables.append(tables.create(rows(1, 2, 3)), 4)
    second = tables.append(first, 50)
    told(tables, second)
    back = Pin(**{**_values(first), "counter": second.counter + 1})
    made = told(tables, back)
    assert (made.deleted_fragment_ids, made.updated_fragments) == ([2], [])
    other = tables.append(back, 60)  # fragment 2 again, with other rows: a plain handle must not take one for the other
    assert isinstance(told(tables, other), LanceOperation.Restore)
    assert isinstance(told(tables, tables.append(other, 70)), LanceOperation.Append)


def test_a_manifest_of_an_unknown_layout_is_restored(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = tables.append(tables.create(rows(1)), 2)
    monkeypatch.setattr("quire.formats.lance.head.manifest_fields.MAGIC", b"NEWS")
    assert tables.format.promote(pin, commit="2.0", table="t").outcome == "promoted"
    head = tables.head(pin)
    assert isinstance(head.read_transaction(head.version).operation, LanceOperation.Restore)
    assert listed(head.to_table()) == tables.content(pin)


@pytest.mark.parametrize("name", COMMITS)
def test_rows_with_stable_ids_keep_them(tables: Tables, name: str) -> None:
    """Lance would give other ids, and versions of origin, to what is committed. The state is the pin's all the same."""
    made = tables.format.create("tables/t", rows(1, 2, 3), schema=None, write="w0", stable_row_ids=True, table="t")
    commits, expected = COMMITS[name]
    pin = tables.append(made.stage().pin, 4, 5, 6)
    told(tables, pin)
    for statements in commits:
        pin = tables.change(pin, *statements)
    assert type(told(tables, pin)).__name__ == expected
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    assert tables.head(pin).to_table(columns=columns) == tables.handle(pin).to_table(columns=columns)
    before = tables.head(pin)
    if len(before.schema) == 2 and "v" in before.schema.names:
        lance.write_dataset(rows(90, 91), before, mode="append")
        numbers = tables.head(pin).to_table(columns=["_rowid"])["_rowid"].to_pylist()
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda op: LanceOperation.Delete([], [], "false"),
        lambda op: LanceOperation.Append(op.fragments[:1]),
        lambda op: LanceOperation.Update([0], [], op.fragments, [], []),
        lambda op: LanceOperation.UpdateConfig(table_metadata_updates={"a": "b"}),
    ],
)
def test_an_operation_that_does_not_lead_to_the_pin_is_not_told(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], Any], stable: bool
) -> None:
    """What Lance makes of the operation is compared, so a mistake in finding it costs a restore and never a row."""
    made = tables.format.create("tables/t", rows(1), schema=None, write="w0", stable_row_ids=stable, table="t")
    pin = tables.append(tables.append(made.stage().pin, 2), 3)
    monkeypatch.setattr(next_version, "net_operation", lambda *states: wrong(net_operation(*states)))
    assert isinstance(told(tables, pin), LanceOperation.Restore)


def test_a_plain_commit_goes_on_from_what_was_told(tables: Tables) -> None:
    pin = tables.append(tables.create(rows(1)), 2)
    stale = tables.head(pin)
    told(tables, pin)
    mine = Transaction(1, LanceOperation.Append(lance.fragment.write_fragments(rows(9), stale, mode="append")))
    after = LanceDataset.commit(stale, mine)
    assert [f.fragment_id for f in after.get_fragments()] == [0, 1, 2]
    assert listed(after.to_table()) == [(1, 10), (2, 20), (9, 90)]


def _values(pin: Pin) -> dict[str, Any]:
    return {name: getattr(pin, name) for name in pin.__struct_fields__}
