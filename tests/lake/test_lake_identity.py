"""A lake that went away under an open handle: nothing is acknowledged, nothing is written, and the error says why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import CommitUnknown, CorruptRecord, LakeLost, LakeNotFound, QuireError
from quire.store import Store
from quire.store.backend import Failure, Follows, Reason
from quire.store.local import LocalFiles


def made(place: Path, ledger: Any = "log") -> quire.Lake:
    lake = quire.create(place, backfill=False, ledger=ledger)
    lake.create_table("t", [{"id": 1}], key="id")
    lake.flush()
    return lake


def write(lake: quire.Lake, number: int = 2) -> Any:
    with lake.transaction(f"write {number}") as tx:
        tx["t"].append([{"id": number}])
    return tx.receipt


def files(place: Path) -> set[str]:
    return {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()} if place.exists() else set()


def moved(lake: Path) -> None:
    lake.rename(lake.with_name("elsewhere"))


def unmounted(lake: Path) -> None:
    """The mount point is still there, and empty."""
    moved(lake)
    lake.mkdir()


def deleted(lake: Path) -> None:
    shutil.rmtree(lake)


def made_anew(lake: Path) -> None:
    deleted(lake)
    made(lake).close()


def copied_back(lake: Path) -> None:
    """The very same bytes, in another folder: what was staged since the copy was made is not in it."""
    shutil.copytree(lake, lake.with_name("copy"))
    deleted(lake)
    lake.with_name("copy").rename(lake)


def log_deleted(lake: Path) -> None:
    for folder in (lake / "_quire").glob("log/*"):
        shutil.rmtree(folder)
    shutil.rmtree(lake / "_quire/__manifest.lance", ignore_errors=True)


def format_deleted(lake: Path) -> None:
    (lake / "_quire/format.json").unlink()


def format_replaced(lake: Path) -> None:
    """By that of another lake."""
    other = lake.with_name("other")
    made(other).close()
    shutil.copy(other / "_quire/format.json", lake / "_quire/format.json")
    shutil.rmtree(other)


ACCIDENTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "moved": (moved, "moved to"),
    "unmounted": (unmounted, "another folder is in its place"),
    "deleted": (deleted, "deleted"),
    "made anew": (made_anew, "another folder is in its place"),
    "copied back": (copied_back, "another folder is in its place"),
    "log deleted": (log_deleted, "is gone"),
    "format deleted": (format_deleted, "_quire/format.json is gone"),
    "format replaced": (format_replaced, "_quire/format.json is not what it was"),
}

CASES = [
    *((accident, "log") for accident in ACCIDENTS),
    *((accident, "manifest") for accident in ("moved", "log deleted", "format deleted")),
]

VERBS: dict[str, Callable[[quire.Lake], Any]] = {
    "commit": write,
    "create a table": lambda lake: lake.create_table("u", [{"id": 1}]),
    "claim": lambda lake: lake.claim(),
    "refresh": lambda lake: lake.refresh(),
    "snapshot": lambda lake: lake.snapshot(),
    "log": lambda lake: list(lake.log()),
    "read": lambda lake: lake["t"].to_arrow(),
    "tag": lambda lake: lake.tag("v1"),
    "branch": lambda lake: lake.create_branch("b"),
    "optimize": lambda lake: lake.optimize(),
    "recover": lambda lake: lake.recover(),
    "status": lambda lake: lake.status(),
    "cleanup": lambda lake: lake.cleanup(),
}


@pytest.mark.parametrize(("accident", "ledger"), CASES)
def test_every_verb_of_a_warm_handle_says_that_the_lake_is_lost_and_writes_nothing(
    tmp_path: Path, accident: str, ledger: str
) -> None:
    happen, said = ACCIDENTS[accident]
    place = tmp_path / "lake"
    lake = made(place, ledger)
    happen(place)
    before = files(tmp_path)
    for name, verb in VERBS.items():
        if (accident, name) == ("log deleted", "cleanup"):  # it opens every branch anew, as somebody who comes now
            with pytest.raises(QuireError):
                verb(lake)
            continue
        with pytest.raises(LakeLost) as caught:
            verb(lake)
        assert said in caught.value.reason, name
        assert caught.value.next
        assert not caught.value.retryable
    lake.close()
    assert {f for f in files(tmp_path) - before if "/tables/" not in f} == set()
    if accident != "log deleted":
        assert files(tmp_path) == before


@pytest.mark.parametrize(("accident", "ledger"), CASES)
def test_a_transaction_that_was_staged_before_is_not_committed(tmp_path: Path, accident: str, ledger: str) -> None:
    place = tmp_path / "lake"
    lake = made(place, ledger)
    tx = lake.transaction()
    tx["t"].append([{"id": 2}])
    ACCIDENTS[accident][0](place)
    with pytest.raises(LakeLost):
        tx.commit()
    assert tx.status == "discarded"
    lake.close()
    if accident in ("moved", "unmounted"):
        found = quire.open(tmp_path / "elsewhere")
        assert [c.id for c in found.log()] == ["1.0", "0.0"]
        assert found.verify().ok
        write(found)
        assert found["t"].count() == 2


def test_a_lake_that_comes_back_is_written_again(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    lake = made(place)
    unmounted(place)
    with pytest.raises(LakeLost):
        write(lake)
    place.rmdir()
    (tmp_path / "elsewhere").rename(place)
    write(lake)
    assert lake["t"].count() == 2
    assert lake.verify().ok


@pytest.mark.parametrize("ledger", ["log", "manifest"])
def test_a_lake_without_its_format_file_is_damaged_and_no_place_for_another(tmp_path: Path, ledger: str) -> None:
    """A new lake there would not know the tables of the old one, and its cleanup would delete them."""
    place = tmp_path / "lake"
    lake = made(place, ledger)
    kept = (place / "_quire/format.json").read_bytes()
    format_deleted(place)
    before = files(place)
    verbs: list[Callable[[], Any]] = [
        lambda: quire.open(place),
        lambda: quire.open(place, read_only=True),
        lambda: quire.create(place),
        lambda: quire.create(place, exist_ok=True, ledger="manifest"),
        lambda: quire.repair(place),
    ]
    for verb in verbs:
        with pytest.raises(CorruptRecord, match=r"has lost _quire/format\.json") as caught:
            verb()
        assert caught.value.next
    assert files(place) == before
    (place / "_quire/format.json").write_bytes(kept)
    write(lake)
    assert quire.open(place)["t"].count() == 2


@pytest.mark.parametrize("ledger", ["log", "manifest"])
def test_what_a_crash_left_of_create_is_no_lake(tmp_path: Path, ledger: Any) -> None:
    place = tmp_path / "lake"
    for _ in range(3):
        quire.create(place, ledger=ledger).close()
        format_deleted(place)
        with pytest.raises(LakeNotFound):
            quire.open(place)
    write_to = quire.create(place, ledger=ledger)
    write_to.create_table("t", [{"id": 1}])
    assert quire.open(place)["t"].count() == 1


def test_a_bucket_that_lost_the_format_file_takes_no_other_lake(tmp_path: Path) -> None:
    uri = f"memory://{tmp_path.name}"
    quire.create(uri, backfill=False).create_table("t", [{"id": 1}])
    store = Store.open(uri)
    store.delete("_quire/format.json")
    for verb in (quire.open, quire.create):
        with pytest.raises(CorruptRecord, match="has lost"):
            verb(uri)


def test_a_format_file_that_was_put_back_is_the_same(tmp_path: Path) -> None:
    """From a backup: other times and another file, the same bytes."""
    lake = made(tmp_path / "lake")
    file = tmp_path / "lake/_quire/format.json"
    body = file.read_bytes()
    file.unlink()
    with pytest.raises(LakeLost, match=r"format\.json is gone"):
        write(lake)
    file.write_bytes(body)
    write(lake)
    assert lake["t"].count() == 2


def test_a_branch_whose_log_was_deleted_takes_no_commit_and_main_goes_on(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake")
    side = lake.create_branch("side")
    write(side)
    shutil.rmtree(tmp_path / "lake/_quire/log" / side._live.line.branch)
    for verb in (lambda: write(side, 5), side.refresh):
        with pytest.raises(LakeLost, match="gone"):
            verb()
    write(lake, 3)
    assert lake["t"].count() == 2


def test_a_branch_without_a_slot_of_its_own_follows_its_parent(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake")
    side = lake.create_branch("side")
    log_deleted(tmp_path / "lake")
    with pytest.raises(LakeLost):
        write(side)
    assert list((tmp_path / "lake/_quire/log").glob("*/*")) == []


def test_a_log_that_was_rolled_back_takes_no_commit(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake")
    write(lake)
    (tmp_path / "lake/_quire/log" / lake._live.line.branch / f"{2:020d}").unlink()
    for verb in (lambda: write(lake, 3), lake.refresh):
        with pytest.raises(LakeLost, match="missing"):
            verb()


def test_a_log_that_was_rolled_back_is_not_cleaned_up(tmp_path: Path) -> None:
    """What only the lost slot needed looks like rubbish."""
    place = tmp_path / "lake"
    lake = made(place)
    write(lake)
    lake.flush()
    max(path for path in place.glob("_quire/log/*/*") if path.name.isdigit()).unlink()
    before = files(place)
    with pytest.raises(LakeLost):
        lake.cleanup(keep=1, older_than=0, grace=0)
    assert files(place) == before


def test_a_log_that_went_another_way_takes_no_commit(tmp_path: Path) -> None:
    """Two copies of a lake each committed; then the log of one was put over the other's."""
    lake = made(tmp_path / "lake")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    write(lake, 2)
    with quire.open(tmp_path / "copy", backfill=False) as other:
        write(other, 3)
    slot = f"_quire/log/{lake._live.line.branch}/{2:020d}"
    shutil.copy(tmp_path / "copy" / slot, tmp_path / "lake" / slot)
    for verb in (lambda: write(lake, 4), lake.refresh):
        with pytest.raises(LakeLost, match="not the object that was read"):
            verb()


def test_news_that_do_not_follow_name_the_cause(tmp_path: Path) -> None:
    """Where nothing can be proved beforehand, as in an object store, it shows in the next record."""
    lake = made(tmp_path / "lake")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    write(lake, 2)
    with quire.open(tmp_path / "copy", backfill=False) as other:
        write(other, 3)
        write(other, 4)
    log = f"_quire/log/{lake._live.line.branch}"
    shutil.copytree(tmp_path / "copy" / log, tmp_path / "lake" / log, dirs_exist_ok=True)
    with pytest.raises(LakeLost, match="another copy of it"):
        lake.refresh()


def test_a_lake_whose_root_is_a_link_is_as_good_as_any_until_the_link_moves(tmp_path: Path) -> None:
    made(tmp_path / "one").close()
    made(tmp_path / "two").close()
    link = tmp_path / "lake"
    link.symlink_to(tmp_path / "one")
    lake = quire.open(link, backfill=False)
    write(lake)
    link.unlink()
    link.symlink_to(tmp_path / "two")
    with pytest.raises(LakeLost):
        write(lake)
    assert quire.open(tmp_path / "one")["t"].count() == 2
    assert quire.open(tmp_path / "two")["t"].count() == 1


def test_a_lake_in_memory_cannot_go_away(tmp_path: Path) -> None:
    lake = quire.create(f"memory://{tmp_path.name}")
    lake.create_table("t", [{"id": 1}])
    write(lake)
    assert lake["t"].count() == 2


# -- races ------------------------------------------------------------------------------------------------------------


def at_the_link(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], None], *, after: bool) -> None:
    """Let something happen just before or just after the call that makes a commit visible."""
    real = os.link

    def link(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(os, "link", real)
        if not after:
            happen()
        real(*args, **options)
        if after:
            happen()

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("after", [False, True])
def test_a_lake_that_moves_at_the_very_moment_is_told_as_unknown_and_the_commit_went_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    place = tmp_path / "lake"
    lake = made(place)
    tx = lake.transaction()
    tx["t"].append([{"id": 2}])
    tx["t"]._edit.work.settle()  # type: ignore[union-attr]
    at_the_link(monkeypatch, lambda: unmounted(place), after=after)
    with pytest.raises(CommitUnknown) as caught:
        tx.commit()
    assert files(place) == set()
    found = quire.open(tmp_path / "elsewhere")
    assert found.outcome(caught.value.token or "") is quire.Outcome.COMMITTED
    assert found["t"].count() == 2
    assert found.verify().ok


@pytest.mark.parametrize("after", [False, True])
def test_a_lake_that_is_deleted_at_the_very_moment_is_never_told_as_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    place = tmp_path / "lake"
    lake = made(place)
    tx = lake.transaction()
    tx["t"].append([{"id": 2}])
    tx["t"]._edit.work.settle()  # type: ignore[union-attr]
    at_the_link(monkeypatch, lambda: deleted(place), after=after)
    with pytest.raises(quire.QuireError) as caught:
        tx.commit()
    assert isinstance(caught.value, LakeLost | CommitUnknown) or not caught.value.retryable
    assert not place.exists()


def test_a_create_that_follows_another_object_proves_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.put("log/1", b"one")
    backend = LocalFiles(str(tmp_path))
    backend.extend("log/2", b"two", Follows("log/1", b"one".__eq__))
    assert store.get("log/2") == b"two"
    for follows in (Follows("log/1", b"other".__eq__), Follows("log/9", b"one".__eq__), Follows("no/1", b"x".__eq__)):
        with pytest.raises(Failure) as caught:
            backend.extend("log/3", b"three", follows)
        assert caught.value.reason is Reason.GONE
    with pytest.raises(Failure) as caught:
        backend.extend("log/2", b"mine", Follows("log/1", b"one".__eq__))
    assert caught.value.reason is Reason.EXISTS
    backend.extend("side/3", b"three", Follows("log/2", b"two".__eq__))
    assert files(tmp_path) == {"log/1", "log/2", "side/3"}
