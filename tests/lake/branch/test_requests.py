"""Merge requests: everybody sees them, and nobody's word is lost when several speak at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import (
    BranchNotFound,
    CommitUnknown,
    Conflict,
    CorruptRecord,
    InvalidInput,
    ReadOnly,
    Refused,
    RequestClosed,
    RequestNotFound,
)
from quire.ledger import decode
from quire.ledger.requests import StoredRequest, StoredRequests
from quire.store import Store


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake", author="ada", backfill=False)
    lake.create_table("t", [{"id": 1}], key="id")
    lake.create_branch("exp")
    return lake


def at_once(*calls: Callable[[], Any]) -> list[Exception]:
    failed: list[Exception] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> None:
        start.wait()
        try:
            call()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_a_request_is_seen_by_everybody(lake: quire.Lake) -> None:
    made = lake.requests.open("exp", "Try it", "It is worth it.")
    assert (made.number, made.state, made.source, made.target) == (1, "open", "exp", "main")
    other = quire.open(lake.uri, author="bo", read_only=True)
    assert other.requests.get(1) == made
    assert [r.to_dict() for r in other.requests.list()] == [made.to_dict()]
    assert other.requests.list("closed") == []
    with pytest.raises(ReadOnly):
        other.requests.comment(1, "no")
    assert lake.requests.open("main", "and back", into="exp").number == 2


def test_what_is_said_of_it_stays_in_order(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    bo = quire.open(lake.uri, author="bo")
    bo.requests.review(1, "object", "why?")
    lake.requests.comment(1, "because")
    found = lake.requests.get(1)
    assert [(r.author, r.verdict, r.text, r.head) for r in found.reviews] == [
        ("bo", "object", "why?", "1.0"),
        ("ada", "comment", "because", "1.0"),
    ]
    assert [r.author for r in found.objections] == ["bo"]
    assert bo.requests.review(1, "approve").objections == ()


def test_a_closed_request_takes_comments_alone(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    assert lake.requests.close(1, "not now").state == "closed"
    assert lake.requests.close(1).state == "closed"
    with pytest.raises(RequestClosed, match="was closed") as caught:
        lake.requests.review(1, "approve")
    assert (caught.value.request, caught.value.state) == (1, "closed")
    assert [r.text for r in lake.requests.comment(1, "a pity").reviews] == ["not now", "a pity"]
    assert lake.requests.reopen(1).state == "open"
    assert lake.requests.review(1, "approve").state == "open"


def test_many_speak_at_once_and_every_word_is_kept(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    handles = [quire.open(lake.uri, author=f"a{n}") for n in range(6)]
    failed = at_once(
        *(lambda h=h, n=n: h.requests.comment(1, f"word {n}") for n, h in enumerate(handles)),  # type: ignore[misc]
        *(lambda h=h: h.requests.open("exp", "me too") for h in handles),  # type: ignore[misc]
    )
    assert failed == []
    assert sorted(r.text for r in lake.requests.get(1).reviews) == [f"word {n}" for n in range(6)]
    assert [r.number for r in lake.requests.list()] == [7, 6, 5, 4, 3, 2, 1]


def test_an_answer_that_is_lost_is_found_again(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store wrote it, and the answer never came: the write is recognized, and not made twice."""
    backend = lake._core.store._backend
    create, lost = backend.create, [True]

    def losing(key: str, data: bytes) -> Any:
        done = create(key, data)
        if lost and "/requests/" in key:
            lost.pop()
            raise TimeoutError("the answer was lost")
        return done

    monkeypatch.setattr(backend, "create", losing)
    try:
        made = lake.requests.open("exp", "once")
    except (CommitUnknown, quire.QuireError, TimeoutError):
        made = lake.requests.get(1)
    assert [r.number for r in lake.requests.list()] == [1]
    assert made.title == "once"


WRONG: dict[str, tuple[Callable[[quire.Lake], Any], type[Exception], str]] = {
    "no such request": (lambda lake: lake.requests.get(5), RequestNotFound, "no merge request 5"),
    "number 0": (lambda lake: lake.requests.get(0), InvalidInput, "number"),
    "no such branch": (lambda lake: lake.requests.open("nope", "x"), BranchNotFound, "nope"),
    "itself": (lambda lake: lake.requests.open("main", "x"), InvalidInput, "into itself"),
    "no title": (lambda lake: lake.requests.open("exp", " "), InvalidInput, "title"),
    "two lines": (lambda lake: lake.requests.open("exp", "a\nb"), InvalidInput, "title"),
    "too long": (lambda lake: lake.requests.open("exp", "x", "y" * 100_000), InvalidInput, "text"),
    "no verdict": (lambda lake: lake.requests.review(1, "perhaps"), InvalidInput, "verdict"),
    "empty comment": (lambda lake: lake.requests.comment(1, ""), InvalidInput, "empty"),
    "no state": (lambda lake: lake.requests.list("odd"), InvalidInput, "state"),
    "no resolution": (lambda lake: lake.requests.resolve(1, [{"table": "t"}]), InvalidInput, "not a conflict"),
    "odd resolution": (
        lambda lake: lake.requests.resolve(
            1, [{"table": "t", "fingerprint": "f", "resolution": "values", "merged": object()}]
        ),
        InvalidInput,
        "cannot be stored",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(lake: quire.Lake, name: str) -> None:
    call, error, said = WRONG[name]
    lake.requests.open("exp", "Try it")
    before = lake.requests.list("all")
    with pytest.raises(error, match=said):
        call(lake)
    assert lake.requests.list("all") == before


def test_resolutions_are_kept_one_for_each_conflict(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    first = {"table": "t", "key": {"id": 1}, "fingerprint": "a", "resolution": "ours"}
    lake.requests.resolve(1, [first, {**first, "fingerprint": "b", "resolution": "values", "merged": {"v": 2}}])
    found = lake.requests.resolve(1, [{**first, "resolution": "theirs"}])
    assert [(r["fingerprint"], r["resolution"], r["merged"], r["key"]) for r in found.resolutions] == [
        ("a", "theirs", None, {"id": 1}),
        ("b", "values", {"v": 2}, {"id": 1}),
    ]


def test_every_generation_stays(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    lake.requests.comment(1, "one")
    lake.requests.close(1)
    store = Store.open(lake.uri)
    kept = [entry.key for entry in store.list("_quire/requests")]
    assert kept == [f"_quire/requests/0000000001/{n:010d}" for n in range(3)]
    states = [decode(store.get(key), StoredRequest, key).state for key in kept]
    assert states == ["open", "open", "closed"]
    assert StoredRequests(store).last() == 1


def test_garbage_in_its_place_is_told(lake: quire.Lake) -> None:
    lake.requests.open("exp", "Try it")
    store = Store.open(lake.uri)
    store.put("_quire/requests/0000000001/0000000000", b"\xff{")
    for call in (lake.requests.list, lambda: lake.requests.get(1), lambda: lake.requests.comment(1, "x")):
        with pytest.raises(CorruptRecord, match="requests/0000000001"):
            call()
    assert lake.requests.open("exp", "goes on").number == 2


# -- merging ----------------------------------------------------------------------------------------------------------


def parted(lake: quire.Lake) -> None:
    """Both branches have news, and both changed row 1."""
    lake.delete_branch("exp")
    with lake.transaction() as tx:
        tx["t"].add_columns({"v": "0"})
    exp = lake.create_branch("exp")
    for branch, value in ((lake, 1), (exp, 2)):
        with branch.transaction(f"on {branch.branch_name}") as tx:
            tx["t"].upsert([{"id": 1, "v": value}, {"id": 10 + value, "v": value}])


def rows(lake: quire.Lake) -> dict[int, int]:
    return {row["id"]: row["v"] for row in quire.open(lake.uri)["t"].to_pylist()}


def test_a_merge_of_a_request_is_written_down_and_happens_once(lake: quire.Lake) -> None:
    parted(lake)
    lake.requests.open("exp", "Try it")
    preview = lake.merge("exp", preview=True)
    with pytest.raises(Conflict):
        lake.requests.merge(1)
    assert lake.requests.get(1).state == "open"
    lake.requests.resolve(1, [{**c.to_dict(), "resolution": "theirs"} for c in preview.conflicts])
    receipt = lake.requests.merge(1)
    found = lake.requests.get(1)
    assert (found.state, found.merged) == ("merged", receipt.commit)
    assert rows(lake) == {1: 2, 11: 1, 12: 2}
    [entry] = lake.log(1)
    assert entry.metadata == {"request": "1"}
    assert entry.message == "merge request 1: Try it"
    again = lake.requests.merge(1)
    assert (again.commit, again.repeated) == (receipt.commit, True)
    with pytest.raises(RequestClosed, match=f"merged as {receipt.commit}"):
        lake.requests.close(1)


def test_a_process_that_died_before_it_wrote_the_merge_down_is_made_up_for(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted(lake)
    lake.requests.open("exp", "Try it")
    monkeypatch.setattr(StoredRequests, "create", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lake.requests.merge(1, resolve="ours")
    monkeypatch.undo()
    other = quire.open(lake.uri)
    merged = other.head
    assert other.requests.get(1).state == "open"
    assert other.requests.merge(1).commit == merged == other.refresh()
    assert other.requests.get(1).merged == merged


def test_two_who_merge_a_request_at_once_merge_it_once(lake: quire.Lake) -> None:
    parted(lake)
    lake.requests.open("exp", "Try it")
    handles = [quire.open(lake.uri) for _ in range(3)]
    commits: list[Any] = []
    failed = at_once(*(lambda h=h: commits.append(h.requests.merge(1, resolve="ours").commit) for h in handles))  # type: ignore[misc]
    assert failed == []
    assert len(set(commits)) == 1
    assert sum(len(c.parents) == 2 for c in quire.open(lake.uri).log()) == 1


def test_objections_and_other_branches_stop_a_merge(lake: quire.Lake) -> None:
    with lake.branch("exp").transaction() as tx:
        tx["t"].insert([{"id": 5}])
    lake.requests.open("exp", "Try it")
    bo = quire.open(lake.uri, author="bo")
    bo.requests.review(1, "object", "no")
    with pytest.raises(Refused, match=r"objections \(bo\)"):
        lake.requests.merge(1)
    lake.requests.open("exp", "Another")
    lake.delete_branch("exp")
    lake.create_branch("exp")
    with pytest.raises(RequestClosed, match="made anew"):
        lake.requests.merge(1, force=True)
    lake.requests.open("exp", "Nothing new")
    with pytest.raises(Refused, match="nothing to merge"):
        lake.requests.merge(3)
    assert {r.state for r in lake.requests.list("all")} == {"open"}
