"""What a program was told of names and versions: a name is read like a row, and a version belongs to one table."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import quire
from quire.errors import Conflict, ExpectationFailed, TableNotFound

Reader = Callable[[quire.Transaction], Any]


@pytest.fixture
def lake() -> quire.Lake:
    made = quire.create(f"memory://{uuid.uuid4().hex}")
    with made.transaction() as tx:
        for name in ("a", "b", "log"):
            tx.create_table(name, [{"id": 1, "of": name}])
    return made


def other(lake: quire.Lake) -> quire.Lake:
    """Another program's handle: what it commits is in another slot."""
    return quire.open(lake.uri)


def swap(tx: quire.Transaction) -> None:
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        tx.rename_table(old, new)


def named(tx: quire.Transaction, name: str) -> Any:
    try:
        return tx[name].id
    except TableNotFound:
        return None


def unknown_to_sql(tx: quire.Transaction) -> None:
    with pytest.raises(TableNotFound):
        tx.sql("select * from new")


READS: dict[str, Reader] = {
    "by name": lambda tx: named(tx, "a"),
    "whether it is there": lambda tx: "a" in tx,
    "all names": lambda tx: tx.tables(),
    "its schema": lambda tx: tx["a"].schema,
    "by SQL": lambda tx: tx.sql("select * from a").to_pylist(),
}
CHANGES: dict[str, Reader] = {
    "swap": swap,
    "rename": lambda tx: tx.rename_table("a", "z"),
    "drop": lambda tx: tx.drop_table("a"),
    "made anew": lambda tx: (tx.drop_table("a"), tx.create_table("a", [{"id": 2, "of": "new"}])),
}
ABSENT: dict[str, Reader] = {
    "by name": lambda tx: named(tx, "new"),
    "whether it is there": lambda tx: "new" in tx,
    "all names": lambda tx: tx.tables(),
    "by SQL": unknown_to_sql,
}


# -- names are read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_a_serializable_reader_of_a_name_conflicts_when_it_means_another_table(
    lake: quire.Lake, read: str, change: str
) -> None:
    tx = lake.transaction(isolation="serializable")
    READS[read](tx)
    tx["log"].append([{"id": 2, "of": "reader"}])
    with other(lake).transaction() as rival:
        CHANGES[change](rival)
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable


@pytest.mark.parametrize("read", ABSENT)
def test_a_serializable_reader_of_an_absent_name_conflicts_when_it_is_taken(lake: quire.Lake, read: str) -> None:
    tx = lake.transaction(isolation="serializable")
    ABSENT[read](tx)
    tx["log"].append([{"id": 2, "of": "reader"}])
    with other(lake).transaction() as rival:
        rival.create_table("new", [{"id": 1}])
    with pytest.raises(Conflict):
        tx.commit()


def test_names_that_were_not_read_and_ones_own_do_not_stand_in_the_way(lake: quire.Lake) -> None:
    tx = lake.transaction(isolation="serializable")
    tx.create_table("mine", [{"id": 1}])
    assert "mine" in tx
    tx.rename_table("mine", "still_mine")
    tx["log"].append([{"id": 2, "of": "reader"}])
    with other(lake).transaction() as rival:
        rival.rename_table("a", "z")
        rival.create_table("new", [{"id": 1}])
    tx.commit()
    assert lake.tables() == ["b", "log", "new", "still_mine", "z"]


@pytest.mark.parametrize("read", READS)
def test_under_snapshot_isolation_a_name_is_read_without_consequence(lake: quire.Lake, read: str) -> None:
    tx = lake.transaction()
    READS[read](tx)
    tx["log"].append([{"id": 2, "of": "reader"}])
    with other(lake).transaction() as rival:
        swap(rival)
    assert tx.commit().commit is not None


def test_a_swap_and_a_reader_of_a_name_make_no_cycle(lake: quire.Lake) -> None:
    """Each has read what the other changes: one of them runs again."""
    reader, swapper = (one.transaction(isolation="serializable") for one in (lake, other(lake)))
    of = reader.sql("select of from a").to_pylist()[0]["of"]
    reader["log"].append([{"id": 2, "of": of}])
    if swapper["log"].count() == 1:
        swap(swapper)
    swapper.commit()
    with pytest.raises(Conflict):
        reader.commit()


# -- a version belongs to a table -------------------------------------------------------------------------------------


def anew(lake: quire.Lake) -> None:
    """Another table of the same name, at the same version."""
    version = lake["a"].version
    with lake.transaction() as tx:
        tx.drop_table("a")
        tx.create_table("a", [{"id": 9, "of": "another"}])
    while lake["a"].version < version:
        with lake.transaction() as tx:
            tx["a"].append([{"id": 10, "of": "another"}])
    assert lake["a"].version == version


REPLACED: dict[str, Callable[[quire.Lake], None]] = {
    "made anew": anew,
    "swapped": lambda lake: lake.transact(swap),
}


@pytest.mark.parametrize("how", REPLACED)
@pytest.mark.parametrize("plain", [False, True], ids=["looked up", "a number"])
def test_another_table_at_the_same_version_is_not_the_one_that_is_expected(
    lake: quire.Lake, plain: bool, how: str
) -> None:
    with lake.transaction() as tx:
        tx["a"].append([{"id": 2, "of": "a"}])
        tx["b"].append([{"id": 2, "of": "b"}])
    version = int(lake["a"].version) if plain else lake["a"].version
    begun = lake.transaction(expect={"a": version})
    begun["log"].append([{"id": 2, "of": "a"}])
    REPLACED[how](other(lake))
    with pytest.raises(ExpectationFailed, match="not the expected table") as caught:
        begun.commit()
    assert (caught.value.table, caught.value.expected, caught.value.actual) == ("a", 2, 2)


@pytest.mark.parametrize("how", REPLACED)
def test_a_version_that_was_looked_up_knows_its_table_for_ever(lake: quire.Lake, how: str) -> None:
    versions = [lake["a"].version, pickle.loads(pickle.dumps(lake["a"].version))]
    with lake.transaction("told by a receipt") as tx:
        tx["a"].append([{"id": 2, "of": "a"}])
        tx["b"].append([{"id": 2, "of": "b"}])
    assert tx.receipt is not None
    told = tx.receipt.tables["a"].version
    assert told is not None
    REPLACED[how](lake)
    lake.refresh()
    for version in (*versions, told):
        with pytest.raises(ExpectationFailed), lake.transaction(expect={"a": version}) as late:
            late["log"].append([{"id": 3, "of": "late"}])
    with lake.transaction(expect={"a": lake["a"].version}) as tx:
        tx["log"].append([{"id": 4, "of": "in time"}])


def test_a_version_of_another_branch_is_not_the_one_that_is_expected(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    for branch, of in ((lake, "main"), (exp, "exp")):
        with branch.transaction() as tx:
            tx["a"].append([{"id": 2, "of": of}])
    theirs = exp["a"].version
    assert theirs == lake["a"].version
    with pytest.raises(ExpectationFailed, match="another branch"), lake.transaction(expect={"a": theirs}) as tx:
        tx["a"].append([{"id": 3, "of": "main"}])
    lake.delete_branch("exp")
    again = lake.create_branch("exp", at="1.0")
    with again.transaction() as tx:
        tx["a"].append([{"id": 2, "of": "the branch made anew"}])
    assert theirs == again["a"].version
    with pytest.raises(ExpectationFailed, match="another branch"), again.transaction(expect={"a": theirs}) as tx:
        tx["a"].append([{"id": 3, "of": "the branch made anew"}])


def test_a_version_of_a_branch_is_that_of_the_branch_that_took_it_over(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    before = exp["a"].version
    with lake.transaction(expect={"a": before}) as tx:
        tx["log"].append([{"id": 2, "of": "a"}])
    lake.delete_branch("exp")
    exp = lake.create_branch("next")
    with exp.transaction() as tx:
        tx["a"].append([{"id": 2, "of": "next"}])
    lake.fast_forward("next")
    with lake.transaction(expect={"a": exp["a"].version}) as tx:
        tx["log"].append([{"id": 3, "of": "a"}])


def test_a_version_is_a_number_like_any_other(lake: quire.Lake) -> None:
    version = lake["a"].version
    assert (version, version + 1, f"{version}", repr(version), json.dumps(version)) == (1, 2, "1", "1", "1")
    assert {version: "x"}[1] == "x"
    assert type(lake["a"].describe()["version"]) is int
    with lake.transaction() as tx:
        tx["a"].append([{"id": 2, "of": "a"}])
    assert tx.receipt is not None
    assert type(tx.receipt.to_dict()["tables"]["a"]["version"]) is int


def test_a_plain_number_of_a_table_that_a_handle_has_not_met_holds(lake: quire.Lake) -> None:
    """The handle is behind: where it begins, the name still means the table before."""
    behind = other(lake)
    with lake.transaction() as tx:
        tx["a"].append([{"id": 2, "of": "a"}])
    behind.refresh()
    with lake.transaction() as tx:
        tx.drop_table("a")
        tx.create_table("a", [{"id": 9, "of": "another"}])
    with behind.transaction(expect={"a": 1}) as tx:
        tx["log"].append([{"id": 2, "of": "a"}])
    assert lake["log"].count() == 2
