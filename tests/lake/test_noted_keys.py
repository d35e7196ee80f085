"""What is noted of keys: in records, in an object beside a table's files, and what damage to it does."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import KeyConflict
from quire.ledger.records import seal

COUNT = 40


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([10 * n for n in ids], pa.int64())})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake whose table has a fragment for each of its rows, and one noted object."""
    with quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", rows(0), key="id")
        for number in range(1, COUNT):
            with lake.transaction() as tx:
                tx["t"].append(rows(number))
        lake.flush()
    assert noted(tmp_path / "lake").exists()
    return tmp_path / "lake"


def noted(folder: Path) -> Path:
    [table] = (folder / "tables").iterdir()
    return table / "_keys" / "noted.json"


def stored(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(noted(folder).read_bytes())
    del found["sum"]
    return found


def put(folder: Path, content: dict[str, object]) -> None:
    noted(folder).write_bytes(seal(json.dumps(content, separators=(",", ":")).encode()))


def of_another_table(folder: Path) -> None:
    """Empty sets for the very files of this table, in the name of another one."""
    nothing = [{**file, "prints": ""} for file in stored(folder)["files"]]  # type: ignore[attr-defined]
    put(folder, {**stored(folder), "table": "tables/other.lance", "files": nothing})


def cut(folder: Path) -> None:
    body = noted(folder).read_bytes()
    noted(folder).write_bytes(body[: len(body) // 2])


def one_bit(folder: Path) -> None:
    body = bytearray(noted(folder).read_bytes())
    body[len(body) // 2] ^= 1
    noted(folder).write_bytes(bytes(body))


def odd_prints(folder: Path) -> None:
    """Not base64, half a fingerprint, not in order: none of it is believed."""
    files = stored(folder)["files"]
    backwards = base64.b64encode(np.array([7, 5], "<u4").tobytes()).decode()
    for file, prints in zip(files, ["!", "AAAA", backwards] * COUNT, strict=False):  # type: ignore[call-overload]
        file["prints"] = prints
    put(folder, {**stored(folder), "files": files})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda folder: noted(folder).unlink(),
    "empty": lambda folder: noted(folder).write_bytes(b""),
    "cut": cut,
    "one bit": one_bit,
    "of another table": of_another_table,
    "a newer format": lambda folder: put(folder, {**stored(folder), "format": 99}),
    "odd prints": odd_prints,
    "not an object": lambda folder: noted(folder).write_bytes(b"[1, 2]"),
}


def without_notes_in_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> quire.Lake:
    """A handle that knows nothing but what the object says."""
    from quire.lake.context import Core

    monkeypatch.setattr(Core, "hear", lambda self, record: None)
    return quire.open(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_a_look_and_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    DAMAGES[damage](folder)
    with without_notes_in_the_log(folder, monkeypatch) as lake:
        with lake.transaction() as tx:
            counts = tx["t"].upsert(rows(3, 7, 100), on="id")
        assert counts == {"inserted": 1, "updated": 2}
        with pytest.raises(KeyConflict), lake.transaction() as tx:
            tx["t"].append(rows(5))
        with lake.transaction() as tx:
            assert tx["t"].delete("id = 9") == 1
            assert tx["t"].update(values={"v": 0}, where="id IN (11, 9)") == 1
        assert sorted(lake["t"].to_arrow()["id"].to_pylist()) == sorted({*range(COUNT), 100} - {9})
    if damage != "a newer format":
        assert json.loads(noted(folder).read_bytes())["table"] == "tables/" + noted(folder).parents[1].name


def test_an_object_of_a_newer_version_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, {**stored(folder), "format": 99})
    before = noted(folder).read_bytes()
    with without_notes_in_the_log(folder, monkeypatch) as lake:
        for number in range(200, 240):
            with lake.transaction() as tx:
                tx["t"].append(rows(number))
        lake.flush()
    assert noted(folder).read_bytes() == before


def test_the_object_is_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what keeps a new process from reading every fragment, so what it says is what happens: one that lies on
    purpose, with a sum that fits, hides rows. `verify` with every byte tells of it."""
    files = [{**file, "prints": ""} for file in stored(folder)["files"]]  # type: ignore[attr-defined]
    put(folder, {**stored(folder), "files": files})
    with without_notes_in_the_log(folder, monkeypatch) as lake:
        assert lake["t"].count(filter="id = 7") == 0
        assert lake["t"].count() == COUNT
        assert not [f for f in lake.verify().findings if "noted.json" in f.message]
        found = [f for f in lake.verify(deep=True).findings if "noted.json" in f.message]
        assert found
        assert {f.check for f in found} == {"rows"}
        noted(folder).unlink()
    with without_notes_in_the_log(folder, monkeypatch) as lake:
        assert lake["t"].count(filter="id = 7") == 1
        assert lake.verify(deep=True).ok


def test_records_note_the_keys_of_small_commits_alone(folder: Path) -> None:
    with quire.open(folder) as lake:
        with lake.transaction() as tx:
            tx["t"].append(rows(500, 501))
        with lake.transaction() as tx:
            tx["t"].append(rows(*range(1000, 2000)))
        live = lake._live
        last = live.state.slot
        small, large = (r.commits[0].changes[0].noted for r in live.history.between(last - 2, last))
        [one] = small
        assert len(base64.b64decode(one.prints)) == 8
        assert one.fields == (0,)
        assert large == ()


def test_cleanup_keeps_the_object_of_a_table_and_removes_that_of_one_that_is_gone(folder: Path) -> None:
    with quire.open(folder) as lake:
        aged(folder)
        lake.cleanup(older_than=0, keep=1, grace=0)
        assert noted(folder).exists()
        with lake.transaction() as tx:
            tx.drop_table("t")
        for name in ("u", "w"):
            lake.create_table(name, rows(1))
    aged(folder)
    with quire.open(folder) as lake:
        lake.cleanup(older_than=0, keep=1, grace=0)
    assert not list((folder / "tables").glob("*/_keys/noted.json"))


def aged(folder: Path) -> None:
    """As if a minute had passed since everything was written."""
    for path in folder.rglob("*"):
        at = path.stat().st_mtime - 60
        os.utime(path, (at, at))


def test_what_an_index_covers_goes_from_the_object(folder: Path) -> None:
    assert len(stored(folder)["files"]) >= COUNT - 16  # type: ignore[arg-type]
    with quire.open(folder) as lake:
        with lake.transaction() as tx:
            tx["t"].create_index("id")
        lake.optimize()
        for number in range(200, 200 + COUNT):
            with lake.transaction() as tx:
                tx["t"].append(rows(number))
        lake.flush()
    paths = {file["path"] for file in stored(folder)["files"]}  # type: ignore[attr-defined]
    assert paths
    with quire.open(folder) as lake:
        assert lake["t"].count() == 2 * COUNT
