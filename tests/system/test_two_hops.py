"""Staged here, sent at once: what comes of it in the store, on this machine, and when a request fails."""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest

import quire
from quire.formats import outbox
from quire.formats.lance import scratch
from quire.store import Store, conditional_put
from quire.testing.proxy import Proxy, Request
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3

Program = Callable[[quire.Transaction], Any]


def rows(*ids: int, times: int = 10) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * n for n in ids], pa.int64())})


def values(*ids: int, times: int = 10) -> list[tuple[int, int]]:
    return [(n, times * n) for n in ids]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetitions follow at once."""
    monkeypatch.setattr(conditional_put, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def proxy(s3: SeaweedFS) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as proxy:
        yield proxy


class Place:
    """A lake behind a proxy, with two tables of five rows, and one that is indexed."""

    def __init__(self, s3: SeaweedFS, proxy: Proxy) -> None:
        self.uri, self.proxy = s3.uri(f"hops-{uuid.uuid4().hex}"), proxy
        self.direct = s3.options
        self.options = {**s3.options, "aws_endpoint": proxy.endpoint}
        self.lake = quire.create(self.uri, storage_options=self.options, backfill=False)
        with self.lake.transaction("tables") as tx:
            for name in ("a", "b"):
                tx.create_table(name, rows(*range(5)), key="id")
            tx.create_table("indexed", rows(*range(5))).create_index("id")
        self.lake.flush()

    def another(self) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, backfill=False)

    def content(self, table: str) -> list[tuple[int, int]]:
        """What another process reads, of Quire's and of Lance's."""
        with quire.open(self.uri, storage_options=self.direct, read_only=True) as lake:
            found = lake.snapshot()[table]
            pairs = sorted((row["id"], row["v"]) for row in found.to_pylist())
            entry = lake._live.state.by_name(table)
            assert entry is not None
            uri, version = f"{self.uri}/{entry.pin.location}", int(entry.pin.version)
        plain = lance.dataset(uri, version=version, storage_options=self.direct)
        assert sorted(zip(*plain.to_table(columns=["id", "v"]).to_pydict().values(), strict=True)) == pairs
        return pairs

    def files(self) -> Counter[str]:
        """Objects below the tables, by their folder."""
        below = Store.open(f"{self.uri}/tables", self.direct).list("")
        return Counter(entry.key.split("/")[1] for entry in below)

    def sent(self, since: int) -> Counter[str]:
        self.proxy.settle()
        return Counter(r.key_class for r in self.proxy.since(since) if r.method == "PUT")


@pytest.fixture
def place(s3: SeaweedFS, proxy: Proxy) -> Iterator[Place]:
    found = Place(s3, proxy)
    yield found
    proxy.heal()
    found.lake.close()


VERBS: dict[str, tuple[Program, list[tuple[int, int]], dict[str, int]]] = {
    # what is done to table `a`, its rows afterwards, and what is sent beside the slot
    "append": (
        lambda tx: tx["a"].insert(rows(5)),
        values(*range(6)),
        {"data": 1, "staged manifest": 1},
    ),
    "upsert": (
        lambda tx: tx["a"].upsert(rows(4, 5, times=7)),
        values(*range(4)) + values(4, 5, times=7),
        {"data": 1, "deletion": 1, "staged manifest": 1},
    ),
    "update": (
        lambda tx: tx["a"].update({"v": "v + 1"}, where="id = 0"),
        [(0, 1), *values(1, 2, 3, 4)],
        {"data": 1, "deletion": 1, "staged manifest": 1},
    ),
    "delete": (
        lambda tx: tx["a"].delete("id < 2"),
        values(2, 3, 4),
        {"deletion": 1, "staged manifest": 1},
    ),
    "delete of everything": (lambda tx: tx["a"].delete("true"), [], {"staged manifest": 1}),
    "overwrite": (
        lambda tx: tx["a"].overwrite(rows(8, 9)),
        values(8, 9),
        {"data": 1, "staged manifest": 1},
    ),
    "append, then overwrite": (
        lambda tx: (tx["a"].insert(rows(5)), tx["a"].overwrite(rows(8, 9))),
        values(8, 9),
        {"data": 1, "staged manifest": 1},
    ),
    "rename a column and back": (
        lambda tx: (tx["a"].rename_column("v", "w"), tx["a"].rename_column("w", "v")),
        values(*range(5)),
        {"staged manifest": 1},
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_sent_is_what_the_version_consists_of(place: Place, verb: str) -> None:
    program, expected, sends = VERBS[verb]
    start = place.proxy.mark()
    with place.lake.transaction(verb) as tx:
        program(tx)
    assert place.sent(start) == {**sends, "slot": 1}
    assert place.content("a") == expected
    assert place.content("b") == values(*range(5))
    assert place.files()["_transactions"] == 0
    assert here() == []


@pytest.fixture(autouse=True)
def _others() -> None:
    """What tables of other tests in this process hold, which are still open, is not of these tests."""
    OTHERS.clear()
    OTHERS.update(lying())


OTHERS: set[Path] = set()


def lying() -> set[Path]:
    """Files in scratch folders of this process. Copies of manifests by which open handles read are none of them."""
    walks = [walk for root in scratch._roots.values() for walk in os.walk(root.path)]
    return {Path(folder, name) for folder, _, names in walks for name in names if Path(folder).name != "_versions"}


def here() -> list[Path]:
    """Those of a test that stay once what happens in the background is over."""
    until = time.monotonic() + 10
    while True:
        found = sorted(lying() - OTHERS)
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def test_what_is_read_inside_a_transaction_is_sent_once(place: Place) -> None:
    start = place.proxy.mark()
    with place.lake.transaction("mixed") as tx:
        tx["a"].insert(rows(5))
        assert tx["a"].count() == 6
        assert sorted(tx["a"].to_arrow()["id"].to_pylist()) == list(range(6))
        tx["a"].delete("id = 5")
        tx["a"].upsert(rows(0, times=3))
        assert tx["a"].count() == 5
        made = tx.create_table("new", rows(1))
        assert made.count() == 1
        made.append(rows(2))
    sent = place.sent(start)
    assert (sent["data"], sent["slot"]) == (4, 1)
    assert place.content("a") == [(0, 0), *values(1, 2, 3, 4)]
    assert place.content("new") == values(1, 2)


def test_a_transaction_that_is_given_up_leaves_nothing_anywhere(place: Place) -> None:
    before = place.files()
    tx = place.lake.transaction("given up")
    tx["a"].delete("id = 0")
    tx["b"].insert(rows(7))
    tx.create_table("new", rows(1))
    tx.discard()
    with pytest.raises(quire.KeyConflict), place.lake.transaction("a key that is there") as tx:
        tx["b"].insert(rows(0))
    assert place.files() == before
    assert here() == []


def test_a_lost_race_sends_manifests_and_vectors_again_and_no_row(place: Place) -> None:
    other = place.another()
    with other.transaction("to have it open") as tx:
        tx["b"].insert(rows(100))
    place.lake.refresh()
    with place.lake.transaction("loser") as tx:
        tx["a"].upsert(rows(0, 5, times=7))
        with other.transaction("winner") as first:
            first["a"].delete("id = 1")
            first["a"].insert(rows(6))
        start = place.proxy.mark()
    assert tx.receipt is not None
    assert (tx.receipt.rebased, tx.receipt.attempts) == (1, 2)
    sent = place.sent(start)
    assert (sent["data"], sent["slot"]) == (1, 2)
    assert (sent["deletion"], sent["staged manifest"]) == (2, 2)
    assert place.content("a") == [(0, 0), (2, 20), (3, 30), (4, 40), (5, 35), (6, 60)]
    other.close()


def test_more_rows_than_are_kept_stream_to_the_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "AT_ONCE", 1000)
    many = rows(*range(100, 1100))
    before = place.files()
    tx = place.lake.transaction("many")
    tx["a"].insert(pa.RecordBatchReader.from_batches(many.schema, many.to_batches(max_chunksize=50)))
    tx["b"].insert(rows(5))
    assert (place.files() - before) == {"data": 1}, "the few rows are still here"
    tx.commit()
    assert place.content("a") == values(*range(5), *range(100, 1100))
    assert place.content("b") == values(*range(6))


def test_a_machine_without_temporary_folders_commits_as_well(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Path("/nowhere/at/all")
    monkeypatch.setattr(scratch, "MEMORY", missing)
    monkeypatch.setattr(scratch, "_disk", lambda: missing)
    with place.lake.transaction("here") as tx:
        tx["a"].upsert(rows(4, 5, times=7))
        tx["b"].delete("id = 0")
        tx["indexed"].append(rows(9))
        tx.create_table("new", rows(1)).append(rows(2))
    monkeypatch.undo()
    assert place.content("a") == values(*range(4)) + values(4, 5, times=7)
    assert place.content("b") == values(1, 2, 3, 4)
    assert place.content("indexed") == values(0, 1, 2, 3, 4, 9)
    assert place.content("new") == values(1, 2)


def test_upkeep_and_plain_clients_work_on_such_versions(place: Place) -> None:
    lake, store = place.lake, place.direct
    with lake.transaction("rows that come and go") as tx:
        tx["a"].upsert(rows(4, 5, times=7))
        tx["indexed"].append(rows(5))
    with lake.transaction("rows that go") as tx:
        tx["a"].delete("id = 0")
    lake.recover()
    assert lake.verify(deep=True).findings == []
    location = f"{place.uri}/{lake._live.state.by_name('b').pin.location}"  # type: ignore[union-attr]
    lance.write_dataset(rows(6), location, mode="append", storage_options=store)
    folder, _, name = location.rpartition("/")
    client = lancedb.connect(folder, storage_options=store).open_table(name.removesuffix(".lance"))
    client.add(rows(7))
    assert sorted(client.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 6, 7]
    lake.adopt("b")
    assert place.content("b") == values(*range(5), 6, 7)
    reverted = lake.revert(lake.log()[1].id, "as it was")
    assert reverted.commit is not None
    assert place.content("a") == values(*range(4)) + values(4, 5, times=7)
    lake.optimize()
    lake.cleanup(keep=1, older_than=0, grace=0, dead_after=60)
    assert lake.verify(deep=True).findings == []
    assert place.content("a") == values(*range(4)) + values(4, 5, times=7)
    assert place.content("b") == values(*range(5), 6, 7)


# -- faults -----------------------------------------------------------------------------------------------------------

KINDS = ("data", "deletion", "staged manifest")
FAULTS: dict[str, Callable[[Proxy, Callable[[Request], bool]], Any]] = {
    "answer lost": lambda proxy, when: proxy.cut(when, side="after"),
    "request lost": lambda proxy, when: proxy.cut(when, side="before"),
    "500": lambda proxy, when: proxy.answer(500, when),
    "503": lambda proxy, when: proxy.answer(503, when, times=2),
    "late": lambda proxy, when: proxy.delay(0.3, when),
}


def writes(kind: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "PUT" and request.key_class == kind


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_send_that_fails_is_sent_again(place: Place, kind: str, fault: str) -> None:
    FAULTS[fault](place.proxy, writes(kind))
    with place.lake.transaction("two tables") as tx:
        tx["a"].upsert(rows(4, 5, times=7))
        tx["b"].delete("id = 0")
    assert tx.receipt is not None
    assert (tx.receipt.cost["retries"] > 0) == (fault != "late")
    assert place.content("a") == values(*range(4)) + values(4, 5, times=7)
    assert place.content("b") == values(1, 2, 3, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_send_that_goes_on_failing_commits_nothing(place: Place, kind: str) -> None:
    fault = place.proxy.answer(500, writes(kind), times=None)
    tx = place.lake.transaction("two tables")
    tx["a"].upsert(rows(4, 5, times=7))
    tx["b"].delete("id = 0")
    with pytest.raises(quire.QuireError) as caught:
        tx.commit()
    assert caught.value.kind == "storage"
    assert "secret" not in str(caught.value).lower()
    place.proxy.heal()
    del fault
    assert place.content("a") == place.content("b") == values(*range(5))
    with place.lake.transaction("again") as tx:
        tx["a"].upsert(rows(4, 5, times=7))
    assert place.content("a") == values(*range(4)) + values(4, 5, times=7)


def test_threads_that_share_slots_have_all_their_rows_in_the_store(place: Place) -> None:
    from quire.store import run_parallel

    def one(n: int) -> None:
        with place.lake.transaction(f"{n}") as tx:
            tx["indexed"].append(rows(100 + n))

    with ExitStack() as stack:
        place.proxy.latency = 0.02
        stack.callback(setattr, place.proxy, "latency", 0.0)
        run_parallel([lambda n=n: one(n) for n in range(24)])  # type: ignore[misc]
    assert place.content("indexed") == values(*range(5), *range(100, 124))
