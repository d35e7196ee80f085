"""Unsent files: each is written once, whoever asks, and what nobody asks for never."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from quire.errors import StorageError
from quire.formats import outbox
from quire.formats.outbox import Outbox, Parcel
from quire.formats.table_files import TableFiles
from quire.store import Store, metering, run_parallel


@pytest.fixture
def box(tmp_path: Path) -> Outbox:
    return Outbox(TableFiles(Store.open(tmp_path)), "tables/t")


def everything(name: str) -> bool:
    return True


def test_a_file_is_written_once_whoever_asks_and_how_often(box: Outbox, tmp_path: Path) -> None:
    box.add({f"data/{n}": b"%d" % n for n in range(20)})
    with metering() as meter:
        run_parallel([lambda: box.send(everything)] * 8)
    assert meter.requests == {"put": 20}
    assert sorted(p.name for p in (tmp_path / "tables/t/data").iterdir()) == sorted(map(str, range(20)))
    assert "data/3" not in box


def test_only_what_is_asked_for_is_written(box: Outbox, tmp_path: Path) -> None:
    box.add({"data/a": b"a", "_versions/1": b"b"})
    box.send(lambda name: name.startswith("data/"))
    assert ("data/a" in box, "_versions/1" in box) == (False, True)
    assert not (tmp_path / "tables/t/_versions").exists()
    assert (box.data("data/a"), box.data("_versions/1")) == (None, b"b")


def test_a_file_that_failed_is_sent_again(box: Outbox, tmp_path: Path) -> None:
    (tmp_path / "tables").write_bytes(b"in the way")
    box.add({"data/a": b"a"})
    with pytest.raises(StorageError):
        box.send(everything)
    assert "data/a" in box
    (tmp_path / "tables").unlink()
    box.send(everything)
    assert (tmp_path / "tables/t/data/a").read_bytes() == b"a"


def test_whoever_comes_second_waits_until_the_file_is_there() -> None:
    parcel, begun, go_on = Parcel(b"x"), threading.Event(), threading.Event()
    written: list[str] = []

    def slowly(data: bytes) -> None:
        begun.set()
        assert go_on.wait(10)
        written.append("first")

    first = threading.Thread(target=parcel.send, args=(slowly,))
    first.start()
    assert begun.wait(10)

    def ask() -> None:
        parcel.send(lambda data: written.append("again"))
        written.append("went on")

    second = threading.Thread(target=ask)
    second.start()
    second.join(0.05)
    assert written == []
    go_on.set()
    first.join(10)
    second.join(10)
    assert written == ["first", "went on"]


def test_what_is_kept_is_bounded_and_released(box: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before = outbox._count()
    monkeypatch.setattr(outbox, "PER_PROCESS", before + 1000)
    assert box.room == 1000
    box.add({"data/a": bytes(600)})
    assert box.room == 400
    box.add({"data/b": bytes(600)})
    assert box.room == 0
    box.send(lambda name: name == "data/a")
    assert box.room == 400
    box.drop(["data/b"])
    assert (box.room, outbox._count()) == (1000, before)
