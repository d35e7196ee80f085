"""Whole lakes whose log is a Lance table: the same commits, races and upkeep as with the log ledger."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import lance
import pytest
from tests.system import writers
from tests.system.processes import together
from tests.system.test_many_writers import check_every_commit

import quire
from quire.ledger.manifest.table import TABLE

PROCESSES = 4


@pytest.fixture(
    params=[pytest.param(("local", 12), id="local"), pytest.param(("s3", 4), id="s3", marks=pytest.mark.s3)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str] | None, int]:
    """A free place for a lake, its storage options, and how many transactions a writer should make there."""
    kind, count = request.param
    if kind == "local":
        return str(tmp_path / "lake"), None, count
    s3 = request.getfixturevalue("s3")
    return s3.uri(uuid.uuid4().hex), s3.options, count


def slots(uri: str, options: dict[str, str] | None) -> list[int]:
    """Every row of the ledger's table, by slot; the lakes here have one branch."""
    table = lance.dataset(f"{uri}/{TABLE}", storage_options=options)
    found = table.to_table(columns=["branch", "slot"]).to_pylist()
    assert len({row["branch"] for row in found}) == 1
    return sorted(row["slot"] for row in found)


def append(lake: quire.Lake, table: str, number: int) -> str:
    with lake.transaction(f"append {number}") as tx:
        tx[table].append([{"id": number}])
    assert tx.receipt is not None
    return tx.receipt.commit


def test_a_lake_works_as_with_any_ledger(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with quire.create(uri, ledger="manifest") as lake:
        with lake.transaction("two tables") as tx:
            tx.create_table("a", [{"id": 1, "v": "x"}], key="id")
            tx.create_table("b", [{"id": 1}])
        lake.tag("v1")
        experiment = lake.create_branch("experiment")
        with experiment.transaction("elsewhere") as tx:
            tx["a"].upsert([{"id": 1, "v": "changed"}, {"id": 2, "v": "new"}])
        append(lake, "b", 2)
        lake.revert(append(lake, "b", 3))
    with quire.open(uri) as lake:
        assert [row["id"] for row in lake["b"].to_pylist()] == [1, 2]
        assert lake["a"].to_pylist() == [{"id": 1, "v": "x"}]
        assert sorted(r["v"] for r in lake.branch("experiment")["a"].to_pylist()) == ["changed", "new"]
        assert lake.at(tag="v1")["b"].count() == 1
        assert [c.message for c in lake.log()][-2:] == ["two tables", "create lake"]
        assert lake.verify().ok
    assert not list(Path(uri, "_quire", "log").rglob("0*")), "a slot was written as an object"


def test_a_log_longer_than_a_checkpoint_is_opened_from_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with quire.create(uri, ledger="manifest") as lake:
        lake.create_table("t", [{"id": 0}])
        for number in range(1, 70):
            append(lake, "t", number)
    Path(uri, "_quire", "hint-main.json").unlink(missing_ok=True)
    with quire.open(uri, read_only=True) as lake:
        assert lake["t"].count() == 70
        assert len(list(lake.log())) == 71
    assert slots(uri, None) == list(range(71))


@pytest.mark.slow
def test_cleanup_buries_slots_and_keeps_their_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with quire.create(uri, ledger="manifest") as lake:
        lake.create_table("t", [{"id": 0}])
        commits = [append(lake, "t", number) for number in range(1, 12)]
        time.sleep(6)  # cleanup keeps what was the head in the last few seconds
        cleaned = lake.cleanup(keep=3, older_than=0, grace=0)
        assert cleaned.slots >= 8
        append(lake, "t", 12)
        assert lake.verify().ok
    with quire.open(uri) as lake:
        assert sorted(row["id"] for row in lake["t"].to_pylist()) == list(range(13))
        with pytest.raises(quire.errors.SnapshotExpired):
            lake.at(commit=commits[0])["t"].to_pylist()
        assert lake.at(commit=commits[-1])["t"].count() == 12
    found = slots(uri, None)
    assert found == list(range(len(found)))


@pytest.mark.slow
def test_processes_that_append_to_the_same_two_tables_all_succeed(
    place: tuple[str, dict[str, str] | None, int],
) -> None:
    uri, options, count = place
    with quire.create(uri, storage_options=options, ledger="manifest") as lake:
        with lake.transaction("tables") as tx:
            for table in writers.TABLES:
                tx.create_table(table, schema=writers.SCHEMA)

    finished = together(writers.append_to_both, [(uri, options, number, count) for number in range(PROCESSES)])

    written: list[writers.Written] = [f.result for f in finished]
    assert [w.errors for w in written] == [[]] * PROCESSES
    acknowledged = {c: f"{w.writer}/{seq}" for w in written for seq, c in enumerate(w.commits)}
    assert len(acknowledged) == PROCESSES * count
    with quire.open(uri, storage_options=options, read_only=True) as lake:
        log = list(lake.log())
        assert {c.id: c.message for c in log if c.author.startswith("writer ")} == acknowledged
        check_every_commit(lake, [c.id for c in reversed(log)][2:], acknowledged)
        assert lake.verify().ok
    found = slots(uri, options)
    assert found == list(range(len(found)))
    assert {int(c.id.split(".")[0]) for c in log} == set(found)
