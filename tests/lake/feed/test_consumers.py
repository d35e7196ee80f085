"""Named consumers: they go on where they were, and cleanup waits for them, but not for ever."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import ConsumerNotFound, FeedGap, InvalidInput, InvalidName, ReadOnly
from quire.lake.upkeep.cleanup.collector import Collector
from quire.store import Store
from quire.testing import processes

NOW: dict[str, Any] = {"keep": 1, "older_than": 0, "grace": 0}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", [{"id": 0}], key="id")
        yield lake


def age(lake: quire.Lake, seconds: float = 60.0) -> None:
    for folder, _, names in os.walk(lake.uri):
        for name in names:
            path = os.path.join(folder, name)
            then = os.stat(path).st_mtime - seconds
            os.utime(path, (then, then))


def clean(lake: quire.Lake, seconds: float = 60.0) -> quire.Lake:
    lake.close()
    age(lake, seconds)
    lake.cleanup(**NOW)
    return quire.open(lake.uri)


def write(lake: quire.Lake, *ids: int) -> None:
    for n in ids:
        with lake.transaction(f"write {n}") as tx:
            tx["t"].upsert([{"id": n}])


def told(consumer: Any) -> list[int]:
    """The rows that are new to a consumer."""
    found = []
    for block in consumer.changes():
        for table in block.tables.values():
            found += table.rows.column("id").to_pylist()
        consumer.commit(block)
    return found


def test_it_goes_on_where_it_was(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", since="beginning")
    assert told(consumer) == [0]
    write(lake, 1, 2)
    again = quire.open(lake.uri).consumers.open("search")
    assert told(again) == [1, 2]
    assert told(consumer) == told(again) == []
    assert [(c.name, c.commit, c.holds) for c in lake.consumers.list()] == [("search", "3.0", False)]
    assert lake.consumers.open("later").at == "3.0"


def test_what_was_not_committed_comes_again(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", since="beginning")
    write(lake, 1, 2)
    first, second, *_ = consumer.changes()
    consumer.commit(second)
    consumer.commit(first)  # going back does nothing
    assert consumer.at == second.commit
    assert told(lake.consumers.open("search")) == [2]


def test_two_processes_under_one_name_never_go_back(lake: quire.Lake) -> None:
    a = lake.consumers.open("search", since="beginning")
    b = quire.open(lake.uri).consumers.open("search")
    write(lake, 1, 2)
    blocks = list(a.changes())
    b.commit(blocks[2])
    a.commit(blocks[0])  # it is behind: the other one is further
    assert a.at == b.at == blocks[2].commit
    keys = [entry.key for entry in Store.open(lake.uri).list("_quire/consumers")]
    assert len(keys) == 1


def test_it_keeps_its_filter_and_refuses_another(lake: quire.Lake) -> None:
    lake.create_table("u", [{"id": 5}])
    lake.consumers.open("search", since="beginning", tables=["u"], ops=["insert"])
    assert told(lake.consumers.open("search")) == [5]
    assert told(lake.consumers.open("search", tables=["u"])) == []
    for wrong in ({"tables": ["t"]}, {"ops": ["delete"]}, {"images": "none"}):
        with pytest.raises(InvalidInput, match="follows other"):
            lake.consumers.open("search", **wrong)  # type: ignore[arg-type]
    lake.create_branch("exp")
    with pytest.raises(InvalidInput, match="follows branch 'main'"):
        lake.branch("exp").consumers.open("search")


def test_cleanup_waits_for_what_it_holds(lake: quire.Lake) -> None:
    lake.consumers.open("search", since="beginning", hold=3600)
    write(lake, 1, 2, 3, 4)
    lake = clean(lake)
    assert lake.consumers.list()[0].holds
    assert told(lake.consumers.open("search")) == [0, 1, 2, 3, 4]
    lake = clean(lake)
    assert [c.id for c in lake.log()] == [lake.head]
    assert lake.verify().findings == []


def test_one_that_stays_away_loses_its_hold_and_begins_anew(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", since="beginning", hold=3600)
    write(lake, 1, 2)
    lake = clean(lake, 4000)
    assert not lake.consumers.list()[0].holds
    consumer = lake.consumers.open("search")
    with pytest.raises(FeedGap) as caught:
        told(consumer)
    assert caught.value.cursor
    assert "baseline" in (caught.value.next or "")
    consumer.reset("baseline")
    write(lake, 3)
    [whole, *rest] = lake.consumers.open("search").changes()
    assert whole.baseline
    assert sorted(whole.tables["t"].rows.column("id").to_pylist()) == [0, 1, 2, 3]
    assert rest == []
    # Not committed: all rows come again.
    [whole, *_] = lake.consumers.open("search").changes()
    lake.consumers.open("search").commit(whole)
    assert told(lake.consumers.open("search")) == []


def test_committing_after_the_hold_ran_out_says_so_if_cleanup_was_there(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", since="beginning", hold=3600)
    write(lake, 1, 2, 3)
    blocks = list(consumer.changes())
    lake = clean(lake, 4000)
    consumer = lake.consumers.open("search")
    with pytest.raises(FeedGap):
        consumer.commit(blocks[0])
    consumer.commit(blocks[-1])
    assert lake.consumers.list()[0].holds


def test_a_hold_that_is_renewed_lasts(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", hold=3600)
    write(lake, 1)
    for _ in range(3):
        lake = clean(lake, 2000)
        consumer = lake.consumers.open("search")
        consumer.renew()
    assert told(lake.consumers.open("search")) == [1]


def test_a_consumer_of_a_branch_holds_its_past_on_main(lake: quire.Lake) -> None:
    write(lake, 1, 2)
    exp = lake.create_branch("exp")
    exp.consumers.open("search", since="beginning", hold=3600)
    write(exp, 10), write(lake, 3, 4)
    lake = clean(lake)
    assert told(lake.branch("exp").consumers.open("search")) == [0, 1, 2, 10]


def test_a_dropped_consumer_holds_nothing(lake: quire.Lake) -> None:
    consumer = lake.consumers.open("search", since="beginning", hold=3600)
    write(lake, 1, 2)
    blocks = list(consumer.changes())
    lake.consumers.drop("search")
    assert lake.consumers.list() == []
    for call in (lambda: lake.consumers.drop("search"), lambda: consumer.commit(blocks[0]), consumer.changes):
        with pytest.raises(ConsumerNotFound, match="'search'"):
            call()
    lake = clean(lake)
    assert [c.id for c in lake.log()] == [lake.head]
    lake = clean(lake)
    assert list(Store.open(lake.uri).list("_quire/consumers")) == []
    assert lake.consumers.open("search").at == lake.head


def test_one_that_begins_while_a_cleanup_is_at_work_is_seen_by_it_or_told(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes itself down after the floors were planned, and before protectors are listed."""
    write(lake, 1, 2, 3)
    lake.close()
    age(lake)
    publish = Collector._publish
    other = quire.open(lake.uri)

    def between(self: Collector, plan: Any) -> None:
        other.consumers.open("search", since="beginning", hold=3600)
        publish(self, plan)

    monkeypatch.setattr(Collector, "_publish", between)
    lake.cleanup(**NOW)
    monkeypatch.undo()
    assert told(other.consumers.open("search")) == [0, 1, 2, 3]
    lake = clean(quire.open(lake.uri))
    assert lake.verify().findings == []
    with pytest.raises(FeedGap):
        lake.consumers.open("late", since="beginning", hold=3600)
    assert [c.name for c in lake.consumers.list()] == ["search"]


WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "name": ({"name": "a b"}, InvalidName),
    "short hold": ({"hold": 3}, InvalidInput),
    "long hold": ({"hold": 1e12}, InvalidInput),
    "images": ({"images": "odd"}, InvalidInput),
    "op": ({"ops": ["odd"]}, InvalidInput),
    "since": ({"since": "9.0"}, quire.errors.NotFound),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_and_nothing_is_written(lake: quire.Lake, name: str) -> None:
    given_, error = WRONG[name]
    with pytest.raises(error):
        lake.consumers.open(**{"name": "search", **given_})
    assert list(Store.open(lake.uri).list("_quire/consumers")) == []
    with pytest.raises(ReadOnly):
        quire.open(lake.uri, read_only=True).consumers.open("search")


def test_garbage_in_its_place_is_told_and_nothing_is_deleted(lake: quire.Lake) -> None:
    lake.consumers.open("search", since="beginning", hold=3600)
    write(lake, 1, 2)
    store = Store.open(lake.uri)
    [entry] = store.list("_quire/consumers")
    store.put(entry.key, store.get(entry.key).replace(b"search", b"seArch"))
    lake.close()
    age(lake)
    for call in (lake.consumers.list, lambda: lake.consumers.open("search"), lambda: lake.cleanup(**NOW)):
        with pytest.raises(quire.errors.CorruptRecord, match="consumers/search"):
            call()
    assert len(list(lake.log())) == 4


def _consume(uri: str, done: Any) -> None:
    """Apply changes to a copy, until it is killed."""
    lake, copy = quire.open(uri), quire.open(f"{uri}-copy")
    consumer = lake.consumers.open("copy", since="beginning", hold=3600)
    for block in consumer.changes(follow=True, poll=0.05, timeout=5):
        with copy.transaction(block.message, token=block.token("copy")) as tx:
            if not tx.repeated():
                for table in block.tables.values():
                    rows = table.rows.select(["id"])
                    if "t" in tx:
                        tx["t"].append(rows)
                    else:
                        tx.create_table("t", rows)
        consumer.commit(block)
        if block.message == "last":
            done.set()
            return


def test_a_consumer_that_is_killed_again_and_again_applies_each_change_once(lake: quire.Lake) -> None:
    quire.create(f"{lake.uri}-copy").close()
    context = processes.context()
    done = context.Event()
    worker: multiprocessing.process.BaseProcess | None = None
    rng = random.Random(7)
    for n in range(1, 13):
        write(lake, n)
        if n % 4 == 0:
            lake.cleanup(keep=1, older_than=0)
        if worker is None or not worker.is_alive():
            worker = context.Process(target=_consume, args=(lake.uri, done))
            worker.start()
        time.sleep(rng.random() * 0.3)
        if n in (4, 8):
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
    with lake.transaction("last") as tx:
        tx["t"].upsert([{"id": 99}])
    if worker is None or not worker.is_alive():
        worker = context.Process(target=_consume, args=(lake.uri, done))
        worker.start()
    assert done.wait(60)
    worker.join()
    copied = quire.open(f"{lake.uri}-copy")["t"].to_arrow().column("id").to_pylist()
    assert sorted(copied) == [*range(13), 99]


@settings(max_examples=budget(5, full=100), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_what_is_held_is_there_whatever_cleanup_does(seed: int, tmp_path_factory: Any) -> None:
    rng = random.Random(seed)
    lake = quire.create(tmp_path_factory.mktemp("held") / "lake")
    lake.create_table("t", [{"id": 0}], key="id")
    read: dict[str, list[int]] = {}
    ids = iter(range(1, 1000))
    written = [0]
    for _ in range(14):
        roll = rng.random()
        if roll < 0.5:
            written.append(next(ids))
            write(lake, written[-1])
        elif roll < 0.6 and len(read) < 3:
            name = f"c{len(read)}"
            lake.consumers.open(name, since="now", hold=3600)
            read[name] = list(written)
        elif roll < 0.8 and read:
            name = rng.choice(sorted(read))
            consumer = lake.consumers.open(name)
            for block in list(consumer.changes())[: rng.randint(1, 3)]:
                for table in block.tables.values():
                    read[name] += table.rows.column("id").to_pylist()
                consumer.commit(block)
        else:
            lake = clean(lake, 10)
    lake = clean(lake, 10)
    for name, known in read.items():
        assert known + told(lake.consumers.open(name)) == written
    assert lake.verify().findings == []
