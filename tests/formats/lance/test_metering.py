"""The meter against the wire: every request of Lance's is counted, and as many hops as there are on the way."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.laboratory.costs.quiet import Quiet

import quire
from quire.formats.lance import metering
from quire.formats.lance.metering import Window, metered
from quire.store import Meter, clock
from quire.store import metering as counting
from quire.testing.proxy import Proxy, longest_chain
from quire.testing.s3 import SeaweedFS

LATENCY = 0.02
LONG = 40_000
"""Rows whose data file is longer than what Lance reads of a file at first."""
TIMES = 12
"""A busy machine may start calls one after the other that are meant to overlap; the wire is then looked at again."""

Act = Callable[[quire.Lake], Any]


def rows(first: int, count: int = 1) -> pa.Table:
    ids = np.arange(first, first + count)
    noise = np.random.default_rng(0).random(count)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": noise, "text": [f"row {i}" for i in ids]})


def writing(*programs: Callable[[quire.Transaction], Any]) -> Act:
    def act(lake: quire.Lake) -> None:
        with lake.transaction("measured") as tx:
            for program in programs:
                program(tx)

    return act


def appending(tables: int) -> Act:
    return writing(*(lambda tx, n=n: tx[f"t{n}"].append(rows(10_000)) for n in range(tables)))


def upserting(table: str, number: int) -> Act:
    return writing(lambda tx: tx[table].upsert(rows(number), on="id"))


def nothing(lake: quire.Lake) -> None:
    pass


def warm(lake: quire.Lake) -> None:
    """The handle has written to every table before."""
    with lake.transaction("warm") as tx:
        for name in ("t0", "t1", "indexed"):
            tx[name].append(rows(5_000))


def both(*acts: Act) -> Act:
    def act(lake: quire.Lake) -> None:
        for one in acts:
            one(lake)

    return act


VERBS: dict[str, tuple[Act, Act]] = {
    "first look": (nothing, lambda lake: lake["t0"].schema),
    "append": (warm, appending(1)),
    "append to 2 tables": (warm, appending(2)),
    "append to 8 tables": (appending(8), appending(8)),
    "append, cold": (nothing, appending(1)),
    "append, indexed": (warm, writing(lambda tx: tx["indexed"].append(rows(10_000)))),
    "append a long file": (warm, writing(lambda tx: tx["t0"].append(rows(10_000, 600_000)))),
    "append a stream": (warm, writing(lambda tx: tx["t0"].append(rows(10_000).to_reader()))),
    "upsert": (warm, upserting("t0", 7)),
    "upsert, indexed": (warm, upserting("indexed", 7)),
    "upsert beside a deletion": (both(warm, upserting("t0", 7)), upserting("t0", 8)),
    "upsert beside a deletion, indexed": (both(warm, upserting("indexed", 7)), upserting("indexed", 8)),
    "upsert of some columns": (warm, writing(lambda tx: tx["t0"].upsert(rows(7).select(["id", "v"]), on="id"))),
    "upsert to a long file": (nothing, upserting("long", 7)),
    "upsert to a long file again": (upserting("long", 7), upserting("long", 8)),
    "insert": (warm, writing(lambda tx: tx["t0"].insert(rows(20_000), on="id"))),
    "insert, indexed": (warm, writing(lambda tx: tx["indexed"].insert(rows(20_000), on="id"))),
    "update": (warm, writing(lambda tx: tx["t0"].update({"text": "'new'"}, where="id = 7"))),
    "update, indexed": (warm, writing(lambda tx: tx["indexed"].update({"text": "'new'"}, where="id = 7"))),
    "update of a key": (warm, writing(lambda tx: tx["keyed"].update({"id": "id + 1000"}, where="id = 7"))),
    "update of no row": (warm, writing(lambda tx: tx["t0"].update({"v": "0.0"}, where="id = -1"))),
    "delete": (warm, writing(lambda tx: tx["t0"].delete("id = 7"))),
    "delete, indexed": (warm, writing(lambda tx: tx["indexed"].delete("id = 7"))),
    "delete from two fragments": (warm, writing(lambda tx: tx["t0"].delete("id in (7, 5000)"))),
    "overwrite": (warm, writing(lambda tx: tx["t0"].overwrite(rows(0)))),
    "create": (nothing, writing(lambda tx: tx.create_table("new", rows(0)))),
    "create without rows": (nothing, writing(lambda tx: tx.create_table("new", rows(0).schema))),
    "add a column": (warm, writing(lambda tx: tx["t0"].add_columns({"n": "length(text)"}))),
    "add a column of nulls": (warm, writing(lambda tx: tx["t0"].add_columns(pa.field("n", pa.int32())))),
    "drop a column": (warm, writing(lambda tx: tx["t0"].drop_columns("text"))),
    "rename a column": (warm, writing(lambda tx: tx["t0"].rename_column("text", "words"))),
    "change a type": (warm, writing(lambda tx: tx["t0"].alter_column("id", type=pa.float64()))),
    "forbid nulls": (warm, writing(lambda tx: tx["t0"].alter_column("id", nullable=False))),
    "create an index": (warm, writing(lambda tx: tx["t0"].create_index("id"))),
    "drop an index": (warm, writing(lambda tx: tx["indexed"].drop_index("id_idx"))),
    "compact": (both(warm, warm), lambda lake: lake.optimize(["t0"])),
    "read": (warm, lambda lake: lake["t0"].to_arrow()),
    "read again": (lambda lake: lake["t0"].to_arrow(), lambda lake: lake["t0"].to_arrow()),
    "read a long file": (nothing, lambda lake: lake["long"].to_arrow()),
    "read beside a deletion": (both(warm, upserting("t0", 7)), lambda lake: lake["t0"].to_arrow()),
    "count": (warm, lambda lake: lake["t0"].count("v > 0.5")),
    "ask in SQL": (warm, lambda lake: lake.sql("select sum(v) from t0 where id > 5").to_arrow()),
}


@pytest.fixture(scope="module")
def proxy(s3: SeaweedFS) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as running:
        yield running


class Found:
    """One run of a verb, by the meter and on the wire."""

    def __init__(self, s3: SeaweedFS, proxy: Proxy, prepare: Act, act: Act) -> None:
        quiet = Quiet()
        uri, options = s3.uri(f"metering-{uuid.uuid4().hex}"), {**s3.options, "aws_endpoint": proxy.endpoint}
        with clock.using(quiet):
            with quire.create(uri, storage_options=options, backfill=False) as made:
                _make(made)
            with quire.open(uri, storage_options=options, backfill=False) as lake:
                prepare(lake)
                lake.flush()
                proxy.settle()
                start = proxy.mark()
                with quiet.holding(), counting() as self.meter:
                    proxy.latency = LATENCY
                    try:
                        act(lake)
                        self._let_end(proxy, start)
                    finally:
                        proxy.latency = 0.0
                self.wire = proxy.since(start)

    def _let_end(self, proxy: Proxy, start: int) -> None:
        """What a commit reads ahead for the next one may end after it."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not (proxy.settle() and self.requests == len(proxy.since(start))):
            time.sleep(0.005)

    @property
    def requests(self) -> int:
        return self.meter.total + self.meter.external.get("lance", 0)

    def __str__(self) -> str:
        return "\n".join([repr(self.meter), *map(str, self.wire)])

    @property
    def hops(self) -> int:
        return longest_chain(self.wire)


def _make(lake: quire.Lake) -> None:
    with lake.transaction("tables") as tx:
        for number in range(8):
            tx.create_table(f"t{number}", rows(0, 100))
        tx.create_table("indexed", rows(0, 100)).create_index("id")
        tx.create_table("keyed", rows(0, 100), key="id")
        tx.create_table("long", rows(0, LONG))


@pytest.mark.s3
@pytest.mark.parametrize("verb", VERBS)
def test_the_meter_says_what_the_wire_says(s3: SeaweedFS, proxy: Proxy, verb: str) -> None:
    found = [Found(s3, proxy, *VERBS[verb])]
    while found[-1].meter.hops != found[-1].hops and len(found) < TIMES:
        found.append(Found(s3, proxy, *VERBS[verb]))
    for run in found:
        assert run.requests == len(run.wire), f"requests: {run}"
    assert {run.meter.hops for run in found} == {min(run.hops for run in found)}, f"hops: {found[-1]}"


@pytest.mark.s3
def test_side_by_side_appends_take_as_many_hops_as_one(s3: SeaweedFS, proxy: Proxy) -> None:
    for tables in (1, 2, 8):
        found = Found(s3, proxy, appending(8), appending(tables))
        assert found.meter.hops == 2
        assert (found.meter.requests["put"], found.meter.external.get("lance", 0)) == (2 * tables, 0)


# -- windows ----------------------------------------------------------------------------------------------------------


class Counter:
    """Stands in for Lance's counter: it says what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(metering, "FRESH", -1.0)
        monkeypatch.setattr(metering, "_read", lambda: {"file": 0, "memory": 0, "": self.count})


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def test_a_call_that_is_alone_took_what_was_counted(counter: Counter) -> None:
    with counting() as meter, metered("open", "s3://b/t", steps=2):
        counter.count += 5
    assert (meter.external, meter.hops) == ({"lance": 5}, 5)


def test_a_call_that_asks_for_things_at_once_took_its_steps(counter: Counter) -> None:
    with counting() as meter, metered("scan", "s3://b/t", steps=2) as window:
        window.in_turn = False
        counter.count += 5
    assert (meter.external, meter.hops) == ({"lance": 5}, 2)


def test_a_call_that_asked_for_nothing_took_no_hop(counter: Counter) -> None:
    with counting() as meter, metered("open", "s3://b/t", steps=2):
        pass
    assert (meter.external, meter.hops) == ({"lance": 0}, 0)


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_calls_that_overlap_are_not_charged_for_each_other(counter: Counter, first_to_end: int) -> None:
    with counting() as meter:
        open_ = [Window("write", "s3://b/t", steps=1).begin(), Window("write", "s3://b/u", steps=1).begin()]
        counter.count += 6
        open_.pop(first_to_end).end()
        open_.pop().end()
        assert meter.hops == 1
        with metered("open", "s3://b/t", steps=2):
            counter.count += 3
    assert meter.hops == 4
    assert meter.external == {"lance": 9}


def test_company_in_another_thread_is_seen(counter: Counter) -> None:
    begun, end = threading.Event(), threading.Event()

    def other() -> None:
        with metered("write", "s3://b/u", steps=1):
            begun.set()
            end.wait(10)

    with counting() as meter:
        thread = threading.Thread(target=other)
        with metered("write", "s3://b/t", steps=1):
            thread.start()
            assert begun.wait(10)
            counter.count += 4
        end.set()
        thread.join()
    assert meter.hops == 1


def test_a_call_that_fails_is_counted_and_leaves_nobody_company(counter: Counter) -> None:
    with counting() as meter:
        with pytest.raises(ValueError, match="broken"):
            _broken(counter)
        with metered("open", "s3://b/t", steps=1):
            counter.count += 2
    assert (meter.external, meter.hops) == ({"lance": 3}, 3)


def _broken(counter: Counter) -> None:
    with metered("open", "s3://b/t", steps=1):
        counter.count += 1
        raise ValueError("broken")


def test_scratch_work_on_this_machine_is_no_request_to_a_bucket(tmp_path: Any) -> None:
    lance = pytest.importorskip("lance")
    metering.start_counting()
    meters: dict[str, Meter] = {}
    for uri in ("s3://bucket/t", str(tmp_path)):
        with counting() as meters[uri], metered("write", uri, steps=1):
            lance.write_dataset(rows(0), tmp_path / uuid.uuid4().hex)
    assert meters["s3://bucket/t"].external == {"lance": 0}
    assert meters[str(tmp_path)].external["lance"] > 0


def test_a_reading_is_used_again_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(range(100))
    now = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(metering, "_reading", (0.0, {}))
    monkeypatch.setattr(metering, "_read", lambda: {"": next(readings)})
    assert metering._counts(metering.FRESH) == {"": 0}
    assert metering._counts(metering.FRESH) == {"": 0}
    assert metering._counts(0.0) == {"": 0}, "no time has passed"
    now[0] += metering.FRESH * 2
    assert metering._counts(metering.FRESH) == {"": 1}
    now[0] += metering.FRESH / 2
    assert metering._counts(metering.FRESH) == {"": 1}
    assert metering._counts(0.0) == {"": 2}


def test_reading_the_counter_is_cheap() -> None:
    """Not by the clock: a call reads it twice at most, and calls in a row once each."""
    taken = 0
    read = metering._read

    def counted() -> dict[str, int]:
        nonlocal taken
        taken += 1
        return read()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metering, "_read", counted)
        patch.setattr(metering, "FRESH", 3600.0)
        for _ in range(10):
            with metered("open", "s3://b/t", steps=1):
                pass
    assert taken <= 11
