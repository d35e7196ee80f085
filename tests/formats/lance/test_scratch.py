"""Folders of this machine: for this user alone, gone with their block, and after a crash gone with the next process."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from quire.formats.lance import scratch
from quire.testing import processes


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders of one's own, and no root of this process yet."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(scratch, "MEMORY", place)
    monkeypatch.setattr(scratch, "_disk", lambda: place)
    monkeypatch.setattr(scratch, "_roots", {})
    monkeypatch.setattr(scratch, "ROOM", 0)
    return place


def left(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def test_a_folder_is_for_this_user_alone_and_goes_with_its_block(places: Path) -> None:
    with scratch.folder() as one, scratch.folder() as other:
        assert one != other
        for folder in (one, one.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (one / "rows").write_bytes(b"secret")
    with contextlib.suppress(RuntimeError), scratch.folder() as third:
        (third / "rows").write_bytes(b"secret")
        raise RuntimeError
    assert left(places) == []


def test_another_live_process_keeps_its_folders(places: Path) -> None:
    process, root = started(places)
    try:
        with scratch.folder():
            assert left(root) == ["0/rows"]
    finally:
        process.kill()
        process.join()


def test_what_a_killed_process_left_goes_with_the_next_one(places: Path) -> None:
    process, root = started(places)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert left(root) == ["0/rows"], "nobody was there to remove it"
    with scratch.folder():
        assert not root.exists()


def started(place: Path) -> tuple[Any, Path]:
    """A process that is inside a block."""
    process = processes.context().Process(target=_stay, args=(str(place),))
    process.start()
    deadline = time.monotonic() + 30
    while not (found := [p for p in place.glob("*/*/rows") if p.read_bytes()]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, found[0].parent.parent


def _stay(place: str) -> None:
    scratch.MEMORY = Path(place)
    scratch.ROOM = 0
    scratch._names = iter(range(9))  # type: ignore[assignment]
    with scratch.folder() as folder:
        (folder / "rows").write_bytes(b"secret")
        time.sleep(60)


def test_links_and_files_of_that_name_are_left_alone(places: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_bytes(b"x")
    (places / f"{scratch.PREFIX}link").symlink_to(victim)
    (places / f"{scratch.PREFIX}file").write_bytes(b"x")
    inside = places / f"{scratch.PREFIX}dead"
    inside.mkdir()
    (inside / "out").symlink_to(victim)
    with scratch.folder():
        pass
    assert (victim / "precious").read_bytes() == b"x"
    assert (places / f"{scratch.PREFIX}link").is_symlink()
    assert (places / f"{scratch.PREFIX}file").is_file()
    assert not inside.exists(), "a folder that nobody holds"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_left_alone(places: Path) -> None:
    theirs = places / f"{scratch.PREFIX}theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    with scratch.folder():
        assert theirs.exists()


def test_a_root_that_was_tidied_away_is_made_again(places: Path) -> None:
    with scratch.folder() as folder:
        root = folder.parent
    root.rmdir()
    with scratch.folder() as again:
        assert again.parent != root
        assert again.is_dir()


def test_memory_without_room_is_not_used(places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(scratch, "_disk", lambda: disk)
    with scratch.folder(1 << 60) as folder:
        assert folder.is_relative_to(disk)
    with scratch.folder(1) as folder:
        assert folder.is_relative_to(places)


def test_a_machine_without_any_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_disk", lambda: tmp_path / "missing")
    monkeypatch.setattr(scratch, "MEMORY", tmp_path / "missing")
    with pytest.raises(scratch.NoScratch, match="missing") as caught, scratch.folder():
        raise AssertionError
    assert "TMPDIR" in caught.value.next
