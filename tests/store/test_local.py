"""Local disk: one winner among processes, durable when a write returns, nothing half-written to be seen."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.store.racers import race

from quire.errors import NotFound, PermissionDenied, StorageError, UnsafeStore
from quire.store import Outcome, Store
from quire.testing import processes

RACERS, ROUNDS = 12, 30


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The real paths of what is fsynced."""
    paths: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_twelve_processes_race_and_one_wins_each_round(tmp_path: Path) -> None:
    spawn = processes.context()
    with spawn.Manager() as manager, ProcessPoolExecutor(RACERS, mp_context=spawn) as pool:
        barrier = manager.Barrier(RACERS)
        futures = [pool.submit(race, str(tmp_path), ROUNDS, barrier) for _ in range(RACERS)]  # type: ignore[arg-type]
        results = [future.result(120) for future in futures]
    store = Store.open(tmp_path)
    for number in range(ROUNDS):
        found = [dict(result)[number] for result in results]
        assert found.count(None) == 1
        assert set(found) - {None} == {store.get(f"log/{number:04}")}
    assert len(files(tmp_path)) == ROUNDS


def test_temporary_files_are_neither_left_nor_listed(local: Store) -> None:
    root = Path(local.uri)
    local.put("a/k", b"x")
    local.create("a/l", b"x", mine=lambda _: False)
    local.create("a/l", b"y", mine=lambda _: False)
    assert files(root) == ["a/k", "a/l"]
    (root / "a" / ".0123.quire-tmp").write_bytes(b"left by a crash")
    (root / "a" / "data.lance#1").write_bytes(b"being written by Lance")
    assert [entry.key for entry in local.list("")] == ["a/k", "a/l"]


@pytest.mark.parametrize("verb", ["put", "create"])
def test_file_and_every_folder_are_synced(local: Store, synced: list[str], verb: str) -> None:
    if verb == "put":
        local.put("a/b/k", b"x")
    else:
        local.create("a/b/k", b"x", mine=lambda _: False)
    root = local.uri
    assert synced[-2].endswith(".quire-tmp")
    assert synced[-1] == f"{root}/a/b"
    assert {f"{root}/a", root, os.path.dirname(root)} <= set(synced[:-2])
    synced.clear()
    local.put("a/b/l", b"x")
    assert len(synced) == 2


def test_a_folder_removed_behind_our_back_is_made_again(local: Store) -> None:
    local.put("a/b/k", b"x")
    os.unlink(f"{local.uri}/a/b/k")
    os.rmdir(f"{local.uri}/a/b")
    local.put("a/b/l", b"x")
    assert local.get("a/b/l") == b"x"


def test_a_lost_create_syncs_what_it_found(local: Store, synced: list[str]) -> None:
    local.put("a/k", b"x")
    synced.clear()
    assert local.create("a/k", b"y", mine=lambda _: False).outcome is Outcome.CONFLICT
    assert synced[-1] == f"{local.uri}/a"


def test_sync_reaches_files_and_folders_up_to_the_root(local: Store, synced: list[str], tmp_path: Path) -> None:
    root = Path(local.uri)
    (root / "t" / "data").mkdir(parents=True)
    (root / "t" / "data" / "1").write_bytes(b"x")
    (root / "t" / "2").write_bytes(b"x")
    local.sync(["t/data/1", str(root / "t" / "2")])
    assert sorted(synced) == sorted(map(str, [root, root / "t", root / "t/data", root / "t/data/1", root / "t/2"]))
    with pytest.raises(NotFound):
        local.sync(["t/nope"])
    (tmp_path / "elsewhere").write_bytes(b"x")
    local.sync([str(tmp_path / "elsewhere")])
    assert str(tmp_path) in synced


def test_a_place_that_cannot_be_written_is_denied(tmp_path: Path) -> None:
    place = tmp_path
    if os.geteuid() == 0:
        place = Path("/sys/kernel")  # where even root may make no file
        if not place.is_dir():
            pytest.skip("needs /sys")
    else:
        tmp_path.chmod(0o500)
    store = Store.open(place / "lake")
    for write in (lambda: store.put("k", b"x"), lambda: store.create("k", b"x", mine=lambda _: False)):
        with pytest.raises(PermissionDenied, match=str(place)):
            write()


def test_a_read_only_file_system_is_denied(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(PermissionDenied, match="Read-only file system"):
        local.create("k", b"x", mine=lambda _: False)


def test_a_full_disk_is_not_an_unknown_outcome(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        local.create("k", b"x", mine=lambda _: False)
    assert files(Path(local.uri)) == []


def test_a_file_system_without_hard_links_is_unsafe(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsafeStore, match="hard links"):
        local.create("k", b"x", mine=lambda _: False)


def test_a_link_that_failed_after_it_was_made_is_committed(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def lose(source: str, target: str) -> None:
        real(source, target)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", lose)
    assert local.create("k", b"x", mine=lambda found: found == b"x").outcome is Outcome.COMMITTED


def test_a_root_below_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    store = Store.open(tmp_path / "file" / "lake")
    assert store.get_or_none("k") is None
    with pytest.raises(StorageError, match=str(tmp_path)):
        store.put("k", b"x")


def test_a_folder_cannot_become_an_object(local: Store) -> None:
    local.put("a/k", b"x")
    for write in (lambda: local.put("a", b"x"), lambda: local.create("a", b"x", mine=lambda _: False)):
        with pytest.raises(StorageError):
            write()
    local.delete("a")
    assert local.get("a/k") == b"x"


def test_what_a_disk_does_not_confirm_is_no_commit(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there, but the folder that names it may be forgotten in a power cut."""
    local.create("log/0", b"first", mine=b"first".__eq__)
    real = os.fsync

    def failing(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    assert local.create("log/1", b"mine", mine=b"mine".__eq__).outcome is Outcome.UNKNOWN
    assert local.create("log/0", b"mine", mine=b"mine".__eq__).outcome is Outcome.CONFLICT
    monkeypatch.undo()
    assert local.get("log/1") == b"mine"


def test_half_written_files_go_when_they_are_old(local: Store, tmp_path: Path) -> None:
    local.put("a/b", b"x")
    left = Path(local.uri, "a", ".1.quire-tmp")
    left.write_bytes(b"half")
    local.sweep(datetime.now(UTC) - timedelta(hours=1))
    assert left.exists()
    local.sweep(datetime.now(UTC) + timedelta(hours=1))
    assert not left.exists()
    assert local.get("a/b") == b"x"
