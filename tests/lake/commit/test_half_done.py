"""A statement that stops half-way can never be committed as if it had not been."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import quire
from quire.errors import StorageError, TransactionClosed


def break_data_folder(lake: quire.Lake, table: str) -> Path:
    """From now on no data file can be written to the table: its data folder is a file."""
    folder = Path(lake.uri) / lake[table].describe()["location"] / "data"
    shutil.move(folder, folder.with_name("data.aside"))
    folder.write_text("not a folder")
    return folder


def mend_data_folder(folder: Path) -> None:
    aside = folder.with_name("data.aside")
    folder.unlink()
    folder.mkdir(exist_ok=True)  # a write that was on its way may have made it in the meantime
    for file in aside.iterdir():
        shutil.move(file, folder / file.name)
    aside.rmdir()


def test_rows_whose_background_write_failed_are_not_left_out_of_the_commit(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    tx = lake.transaction()
    folder = break_data_folder(lake, "t")
    tx["t"].append([{"id": 2}])
    with pytest.raises(StorageError):
        tx["t"].count()
    mend_data_folder(folder)

    with pytest.raises(StorageError):
        tx.commit()
    assert tx.status == "discarded"
    assert lake["t"].to_pylist() == [{"id": 1}]


def test_a_transaction_that_was_given_up_does_not_end_as_if_all_were_well(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("a", [{"id": 1}])
    lake.create_table("b", [{"id": 1, "v": 1}], key="id")

    def program(tx: quire.Transaction) -> str:
        tx["a"].append([{"id": 2}])
        folder = break_data_folder(lake, "b")
        with pytest.raises(StorageError):
            tx["b"].upsert([{"id": 1, "v": 2}])
        mend_data_folder(folder)
        return "done"

    with pytest.raises(TransactionClosed, match="was discarded"):
        lake.transact(program)
    assert lake["a"].count() == 1


def test_a_read_that_fails_leaves_the_transaction_as_it_was(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("a", [{"id": 1}])
    lake.create_table("b", [{"id": 1}])
    folder = Path(lake.uri) / lake["b"].describe()["location"]
    fresh = quire.open(lake.uri, backfill=False)
    with fresh.transaction() as tx:
        tx["a"].append([{"id": 2}])
        shutil.move(folder, folder.with_name("aside"))
        with pytest.raises(quire.QuireError):
            tx["b"].to_arrow()
        shutil.move(folder.with_name("aside"), folder)
    assert lake["a"].count() == 2


def test_an_upsert_that_fails_in_storage_discards_the_transaction(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1, "v": 1}, {"id": 2, "v": 2}], key="id")
    tx = lake.transaction()
    folder = break_data_folder(lake, "t")
    with pytest.raises(StorageError):
        tx["t"].upsert([{"id": 1, "v": 10}])
    mend_data_folder(folder)

    with pytest.raises(TransactionClosed):
        tx.commit()
    assert sorted(r["v"] for r in lake["t"].to_pylist()) == [1, 2]


def test_an_interrupt_inside_a_statement_discards_the_transaction(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])

    def rows() -> object:
        yield [{"id": 2}]
        raise KeyboardInterrupt

    tx = lake.transaction()
    with pytest.raises(KeyboardInterrupt):
        tx["t"].append(rows())
    with pytest.raises(TransactionClosed):
        tx.commit()
    assert lake["t"].to_pylist() == [{"id": 1}]


def test_a_refused_statement_leaves_the_transaction_as_it_was(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}], key="id")
    with lake.transaction() as tx:
        tx["t"].insert([{"id": 2}])
        with pytest.raises(quire.KeyConflict):
            tx["t"].insert([{"id": 1}])
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 2]


def test_a_statement_that_matches_no_row_commits_nothing(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    head = lake.head
    with lake.transaction() as tx:
        assert tx["t"].delete("id = 7") == 0
        assert tx["t"].update({"id": "id + 1"}, where="id = 7") == 0
        assert tx["t"].append([]) == 0
    assert tx.receipt is not None
    assert tx.receipt.commit is None
    assert lake.refresh() == head


def test_a_table_that_was_created_and_dropped_takes_no_more_rows(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction() as tx:
        table = tx.create_table("t", [{"id": 1}])
        tx.drop_table("t")
        with pytest.raises(quire.errors.TableNotFound):
            table.append([{"id": 2}])
    assert lake.tables() == []
