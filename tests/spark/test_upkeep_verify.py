"""Verify by the tasks of a session: the same findings as by one process, on a sound lake and on damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import InvalidInput
from quire.lake import engines
from quire.lake import engines as parts_module
from quire.lake.upkeep import verify_files
from quire.lake.upkeep.verify import Verification


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound") / "lake"
    lake = quire.create(place)
    with lake.transaction() as tx:
        tx.create_table("people", [{"id": n, "name": f"p{n}", "home": {"x": n, "y": [n]}} for n in range(50)], key="id")
        tx.create_table("events", [{"id": 1, "v": 1.0}])
    with lake.transaction() as tx:
        tx["people"].upsert([{"id": 3, "name": "three", "home": None}])
        tx["people"].create_index("id")
        tx["events"].append([{"id": 2, "v": 2.0}])
    with lake.transaction() as tx:
        tx["events"].add_columns({"w": "v * 2"})
        tx["events"].drop_columns("v")
        tx["people"].delete("id < 5")
    lake.tag("t")
    with lake.create_branch("b").transaction() as tx:
        tx["events"].delete("id = 1")
    lake.optimize()
    lake.flush()
    lake.backfill()
    return place


@pytest.fixture
def place(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "lake"))


def verified(place: Path, **options: Any) -> Verification:
    return quire.open(place, read_only=True).verify(**options)


def folder(place: Path, table: str) -> Path:
    return place / quire.open(place, read_only=True)[table].describe()["location"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_lake(sound: Path, engine: Any, deep: bool) -> None:
    here, there = verified(sound, deep=deep), verified(sound, deep=deep, engine=engine)
    assert here == there
    assert here.ok
    vectors = len(list(sound.glob("tables/*/_deletions/*")))
    assert here.read > vectors if deep else here.read == vectors
    told: dict[str, int] = {}
    verified(sound, deep=deep, engine=engine, progress=lambda what, done, total: told.update({what: done}))
    assert (told.pop("keys", 0) > 0) == deep
    assert told == {
        "records": here.records,
        "pins": here.pins,
        "files": here.files,
        "read": here.read,
    }


def manifest(place: Path, table: str) -> Path:
    """The manifest that a tag pins."""
    state = quire.open(place, read_only=True).at(tag="t")._state.by_name(table)
    assert state is not None
    return folder(place, table) / "_versions" / f"d{state.pin.version}.manifest"


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def spoil(path: Path) -> None:
    """The same size, other bytes."""
    data = bytearray(path.read_bytes())
    for at in range(0, len(data) - 200, 7):
        data[at] ^= 0xFF
    path.write_bytes(data)


def exchange(path: Path) -> None:
    """A file of the right form with other rows, padded so that it has the right size."""
    other = max((p for p in path.parent.iterdir() if p != path), key=lambda p: p.stat().st_size)
    size = path.stat().st_size
    path.write_bytes(other.read_bytes())
    if path.stat().st_size != size:
        path.write_bytes(b"\0" * size)


def largest(place: Path, pattern: str) -> Path:
    return max(place.glob(pattern), key=lambda p: p.stat().st_size)


DAMAGE: dict[str, tuple[Callable[[Path], Path], Callable[[Path], None], set[str], set[str]]] = {
    "data gone": (lambda p: largest(folder(p, "people"), "data/*.lance"), remove, {"file"}, {"file"}),
    "data shorter": (lambda p: largest(folder(p, "events"), "data/*.lance"), shorten, {"file"}, {"file"}),
    "data spoilt": (lambda p: largest(folder(p, "people"), "data/*.lance"), spoil, set(), {"data"}),
    "data of another": (lambda p: min(folder(p, "people").glob("data/*.lance")), exchange, set(), {"data"}),
    "vector gone": (lambda p: largest(folder(p, "people"), "_deletions/*"), remove, {"file"}, {"file"}),
    "vector spoilt": (lambda p: largest(folder(p, "people"), "_deletions/*"), spoil, {"data"}, {"data"}),
    "manifest gone": (lambda p: manifest(p, "events"), remove, {"pin"}, {"pin"}),
    "record gone": (lambda p: min(p.glob(f"_quire/log/*/{2:020d}")), remove, {"chain"}, {"chain"}),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_by_both(place: Path, engine: Any, damage: str) -> None:
    where, break_it, shallow, deep = DAMAGE[damage]
    path = where(place)
    break_it(path)
    for options, expected in (({}, shallow), ({"deep": True}, deep)):
        here, there = verified(place, **options), verified(place, **options, engine=engine)
        assert here.to_dict() == there.to_dict()
        assert expected <= {f.check for f in here.findings}
        assert here.ok == (not expected)
    if "file" in deep or "data" in deep:
        assert any(f.where.endswith(path.name) for f in here.findings)


def test_many_states_are_many_tasks(sound: Path, engine: Any, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    from quire.lake.upkeep import verify

    monkeypatch.setattr(verify, "BATCH", 2)
    monkeypatch.setattr(verify_files, "TASK_BYTES", 1)
    jobs: list[int] = []
    answers = parts_module.answers
    monkeypatch.setattr(verify_files, "answers", lambda s, p: jobs.append(len(p)) or answers(s, p))
    spoil(largest(folder(place, "people"), "data/*.lance"))
    here, there = verified(place, deep=True), verified(place, deep=True, engine=engine)
    assert here.to_dict() == there.to_dict()
    assert jobs[0] == -(-there.pins // 2)
    assert jobs[2] == there.read


def test_auto_goes_by_the_bytes_of_the_tables(sound: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []
    answers = parts_module.answers
    monkeypatch.setattr(verify_files, "answers", lambda s, p: jobs.append(len(p)) or answers(s, p))
    size = sum(t.bytes for t in map(quire.open(sound, read_only=True).__getitem__, ("people", "events")))
    monkeypatch.setattr(engines, "AUTO_BYTES", 10 * size)
    assert verified(sound, engine="auto").ok
    assert jobs == []
    monkeypatch.setattr(engines, "AUTO_BYTES", size // 2)
    assert verified(sound, engine="auto").ok
    assert jobs
    with pytest.raises(InvalidInput):
        verified(sound, engine="nix")
