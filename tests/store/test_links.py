"""Symbolic links below a root: never listed, never followed by a write or a delete, and reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quire.errors import StorageError
from quire.store import Store, folders
from quire.store.folders import LinkFound

LINKS: dict[str, tuple[str, str]] = {
    "to a file": ("a/link", "file"),
    "to a folder": ("a/link", "folder"),
    "dangling": ("a/link", "nowhere"),
    "to itself": ("a/link", "../lake/a/link"),
    "to the root": ("a/link", "../lake"),
    "for a folder of ours": ("b", "folder"),
}
"""Where the link lies in the lake, and what it points to beside it."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    outside = tmp_path / "folder"
    (outside / "deep").mkdir(parents=True)
    (outside / "k").write_bytes(b"theirs")
    (outside / "deep" / "k").write_bytes(b"theirs")
    (tmp_path / "file").write_bytes(b"theirs")
    made = Store.open(tmp_path / "lake")
    made.put("a/k", b"ours")
    return made


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("bound", [False, True])
def test_a_link_is_not_listed_and_nothing_behind_it_is_touched(
    store: Store, tmp_path: Path, kind: str, bound: bool
) -> None:
    where, target = LINKS[kind]
    if bound:
        store.bind()
    before = content(tmp_path / "folder") | {"file": (tmp_path / "file").read_bytes()}
    (tmp_path / "lake" / where).symlink_to(tmp_path / target)
    assert [e.key for e in store.list("")] == ["a/k"]
    for below in (where, f"{where}/deep"):
        with pytest.raises(StorageError, match="symbolic link"):
            list(store.list(below))
    assert store.links() == [where]
    for verb in (
        lambda: store.delete(f"{where}/k"),
        lambda: store.delete(f"{where}/deep/k"),
        lambda: store.put(f"{where}/new", b"x"),
        lambda: store.create(f"{where}/new", b"x", mine=lambda _: False),
    ):
        with pytest.raises(StorageError):
            verb()
    store.sweep(datetime.now(UTC) + timedelta(hours=1))
    store.delete(where)
    assert store.links() == []
    assert store.get("a/k") == b"ours"
    assert content(tmp_path / "folder") | {"file": (tmp_path / "file").read_bytes()} == before


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    store = Store.open(tmp_path / "lake")
    store.bind()
    store.put("a/k", b"x")
    assert [e.key for e in store.list("")] == ["a/k"]
    assert store.links() == []
    store.delete("a/k")
    assert not (tmp_path / "real/a/k").exists()


def test_a_temporary_link_is_swept_by_its_own_age(store: Store, tmp_path: Path) -> None:
    link = tmp_path / "lake/a/.x.quire-tmp"
    link.symlink_to(tmp_path / "file")
    os.utime(tmp_path / "file", (0, 0))
    store.sweep(datetime.now(UTC) - timedelta(hours=1))
    assert link.is_symlink()
    store.sweep(datetime.now(UTC) + timedelta(hours=1))
    assert not link.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"theirs"


SWAPS: dict[str, Callable[[Path], None]] = {
    "the folder": lambda lake: (lake / "a").rename(lake.parent / "a"),
    "the file": lambda lake: (lake / "a/k").unlink(),
}


@pytest.mark.parametrize("what", SWAPS)
def test_a_link_in_place_of_what_was_listed_is_not_followed(store: Store, tmp_path: Path, what: str) -> None:
    [listed] = store.list("a")
    SWAPS[what](tmp_path / "lake")
    if what == "the folder":
        (tmp_path / "lake/a").symlink_to(tmp_path / "folder")
        with pytest.raises(StorageError, match="symbolic link"):
            store.delete(listed.key)
    else:
        (tmp_path / "lake/a/k").symlink_to(tmp_path / "folder/k")
        store.delete(listed.key)
    assert (tmp_path / "folder/k").read_bytes() == b"theirs"


def test_where_folders_cannot_be_opened_links_are_found_all_the_same(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "BY_DESCRIPTOR", False)
    (tmp_path / "lake/b").symlink_to(tmp_path / "folder")
    with pytest.raises(LinkFound), folders.opened(str(tmp_path / "lake"), ["b", "deep"]):
        pass
    with pytest.raises(StorageError, match="symbolic link"):
        store.delete("b/k")
    store.delete("a/k")
    assert list(store.list("")) == []
    assert (tmp_path / "folder/k").read_bytes() == b"theirs"
