"""Cleanup among symbolic links: it deletes its own files, names the links, and touches nothing behind them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import quire
from quire.errors import QuireError, Refused


def aged(place: Path) -> None:
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink():
            then = path.stat().st_mtime - 10_000
            os.utime(path, (then, then))


def link(where: str, target: str) -> Callable[[Path], str]:
    def make(lake: Path) -> str:
        table = next((lake / "tables").iterdir()).name
        log = next((lake / "_quire/log").iterdir()).name
        key = where.format(table=table, log=log)
        (lake / key).symlink_to(lake.parent / target)
        return key

    return make


LINKS = {
    "a file in a table": link("tables/{table}/data/extra.lance", "treasure/file"),
    "a folder in a table": link("tables/{table}/data/extra", "treasure"),
    "a table": link("tables/0123456789abcdef.lance", "treasure"),
    "dangling": link("tables/{table}/data/extra.lance", "nowhere"),
    "a loop": link("tables/loop", "lake/tables"),
    "beside everything": link("notes", "treasure"),
}
IN_THE_LEDGER = {
    "a folder of a log": link("_quire/log/{log}/side-x", "treasure"),
    "a log": link("_quire/log/0123456789abcdef", "treasure"),
    "recovery": link("_quire/recovery", "treasure"),
    "notes": link("_quire/writers", "treasure"),
    "dangling": link("_quire/log/{log}/side-x", "nowhere"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_cleanup_leaves_links_and_what_they_point_to(tmp_path: Path, kind: str) -> None:
    treasure = tmp_path / "treasure"
    (treasure / "data").mkdir(parents=True)
    for name in ("file", "data/file", "00000000000000000000", "checkpoint-00000000000000000001"):
        (treasure / name).write_bytes(b"precious")
        os.utime(treasure / name, (0, 0))
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", [{"id": 0}], key="id")
        for number in range(1, 5):
            with lake.transaction() as tx:
                tx["t"].upsert([{"id": 0}, {"id": number}])
        lake.backfill()
    key = LINKS[kind](tmp_path / "lake")
    aged(tmp_path / "lake")
    before = {p: p.read_bytes() for p in treasure.rglob("*") if p.is_file()}
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        assert [f.where for f in lake.verify().findings] == [key]
        planned = lake.cleanup(keep=1, older_than=0, grace=0, dry_run=True)
        done = lake.cleanup(keep=1, older_than=0, grace=0)
        assert planned.links == done.links == [key]
        assert done.files > 0
        assert all("extra" not in name and "0123456789abcdef" not in name for name in planned.names)
        assert lake["t"].count() == 5
    assert (tmp_path / "lake" / key).is_symlink()
    assert {p: p.read_bytes() for p in treasure.rglob("*") if p.is_file()} == before


def lake_with_history(place: Path) -> None:
    with quire.create(place, backfill=False) as lake:
        lake.create_table("t", [{"id": 0, "n": 0}], key="id")
        for number in range(1, 4):
            with lake.transaction() as tx:
                tx["t"].upsert([{"id": 0, "n": number}])


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("kind", IN_THE_LEDGER)
def test_a_link_in_the_ledger_stops_cleanup(tmp_path: Path, kind: str, dry_run: bool) -> None:
    (tmp_path / "treasure").mkdir()
    lake_with_history(tmp_path / "lake")
    shutil.rmtree(tmp_path / "lake/_quire/writers", ignore_errors=True)
    key = IN_THE_LEDGER[kind](tmp_path / "lake")
    aged(tmp_path / "lake")
    before = sorted(p for p in (tmp_path / "lake").rglob("*") if "tables" in p.parts or "log" in p.parts)
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        with pytest.raises(Refused, match="symbolic link") as caught:
            lake.cleanup(keep=1, older_than=0, grace=0, dry_run=dry_run)
        assert caught.value.key == key
        assert key in [finding.where for finding in lake.verify().findings]
    assert sorted(p for p in (tmp_path / "lake").rglob("*") if "tables" in p.parts or "log" in p.parts) == before


@pytest.mark.parametrize("folder", ["refs", "refs/*", "leases"])
def test_what_protects_a_commit_is_not_overlooked_behind_a_link(tmp_path: Path, folder: str) -> None:
    """With the folder at its place again, the commit is there."""
    lake_with_history(tmp_path / "lake")
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        if folder == "leases":
            held = lake.at(commit="1.0").lease()
        else:
            lake.tag("keep", at="1.0")
    [moved] = (tmp_path / "lake/_quire").glob(folder)
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "elsewhere")
    aged(tmp_path / "lake")
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        with pytest.raises(Refused, match="symbolic link"):
            lake.cleanup(keep=1, older_than=0, grace=0)
        if folder == "refs":
            with pytest.raises(QuireError, match="symbolic link"):
                lake.tags()
    moved.unlink()
    (tmp_path / "elsewhere").rename(moved)
    with quire.open(tmp_path / "lake", backfill=False) as lake:
        assert lake.at(commit="1.0")["t"].to_pylist() == [{"id": 0, "n": 0}]
        if folder == "leases":
            held.release()
