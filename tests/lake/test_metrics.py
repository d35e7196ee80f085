"""What commits and opens took: in the receipt, in the log, on the handle, and told to whoever watches."""

from __future__ import annotations

import pickle
import tarfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.store.watched import Spans, traced

import quire
from quire.errors import LakeNotFound
from quire.ledger import Commit, Cost, encode
from quire.ledger.records import Stored
from quire.store import conditional_put, metering
from quire.store.backend import Failure, Reason

KEYS = {"requests", "total", "external", "retries", "hops", "bytes_in", "bytes_out", "seconds", "phases"}
OLD = Path(__file__).parents[1] / "fixtures" / "lakes"


class Faulty:
    """A connection that drops the next slots' writes, or refuses them, and hears nothing while it is deaf."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.lose = 0
        self.refuse = self.deaf = False

    def create(self, key: str, data: bytes) -> None:
        if "_quire/log/" in key and self.refuse:
            raise Failure(Reason.REFUSED, "no space left")
        if "_quire/log/" in key and self.lose:
            self.lose -= 1
            raise Failure(Reason.FAILED, "connection reset")
        self._real.create(key, data)

    def get(self, key: str) -> bytes:
        if self.deaf:
            raise Failure(Reason.FAILED, "connection reset")
        found: bytes = self._real.get(key)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> quire.Lake:
    """A warm handle on two tables, in memory, whose requests fail at once if they do."""
    monkeypatch.setattr(conditional_put, "_FIRST_PAUSE", 0.001)
    made = quire.create(f"memory://metrics-{uuid.uuid4().hex}")
    with made.transaction("tables") as tx:
        for name in ("a", "b"):
            tx.create_table(name, [{"id": 1}])
    made.flush()
    return made


@pytest.fixture
def connection(lake: quire.Lake) -> Faulty:
    faulty = Faulty(lake._core.store._backend)
    lake._core.store._backend = faulty  # type: ignore[assignment]
    return faulty


@pytest.fixture
def spans() -> Iterator[Spans]:
    with traced() as found:
        yield found


def append(lake: quire.Lake, *tables: str, **options: Any) -> quire.Receipt:
    with lake.transaction("append", **options) as tx:
        for table in tables or ("a", "b"):
            tx[table].append([{"id": 7}])
    assert tx.receipt is not None
    return tx.receipt


# -- in the receipt ----------------------------------------------------------------------------------------------------


def test_a_receipt_says_what_the_commit_took_and_where_time_went(lake: quire.Lake) -> None:
    cost = append(lake).cost
    assert set(cost) == KEYS | {"shared"}
    assert (cost["requests"], cost["retries"], cost["shared"]) == ({"create": 1}, 0, 1)
    assert {"statements", "move", "stage", "publish"} <= set(cost["phases"])
    assert sum(cost["phases"].values()) <= cost["seconds"]


def test_a_request_that_was_sent_again_is_on_the_bill(lake: quire.Lake, connection: Faulty) -> None:
    connection.lose = 1
    cost = append(lake).cost
    assert cost["requests"] == {"create": 2, "get": 1}, "the slot, and a look at who has it"
    assert cost["retries"] == 1


# -- in the log --------------------------------------------------------------------------------------------------------


def test_the_log_keeps_what_a_commit_took(lake: quire.Lake) -> None:
    receipt = append(lake)
    shown = lake.show(receipt.commit or "").cost
    assert shown is not None
    assert set(shown) == set(receipt.cost)
    for what in ("requests", "total", "external", "retries", "hops", "shared", "bytes_in"):
        assert shown[what] == receipt.cost[what], what
    assert set(shown["phases"]) == set(receipt.cost["phases"]) - {"publish"}, "it is written before it is published"
    assert 0 < shown["seconds"] <= receipt.cost["seconds"]
    assert lake.log()[0].cost == {name: value for name, value in shown.items() if name != "shared"}
    assert lake.show(receipt.commit or "").to_dict()["cost"] == shown


def test_what_was_spent_on_lost_slots_is_kept_too(lake: quire.Lake) -> None:
    late = lake.transaction("late")
    late["a"].append([{"id": 8}])
    rival = quire.open(lake.uri)
    append(rival)
    receipt = late.commit()
    assert receipt.attempts > 1
    shown = lake.show(receipt.commit or "").cost
    assert shown is not None
    assert shown["requests"]["create"] == receipt.attempts == receipt.cost["requests"]["create"]
    assert (shown["total"], shown["hops"]) == (receipt.cost["total"], receipt.cost["hops"])


def test_a_commit_that_shares_its_slot_says_with_how_many(lake: quire.Lake, connection: Faulty) -> None:
    """While one commit holds the door, others gather behind it."""
    opened, entered = threading.Event(), threading.Event()
    real = connection._real

    class Held:
        def create(self, key: str, data: bytes) -> None:
            if "_quire/log/" in key and not entered.is_set():
                entered.set()
                opened.wait(30)
            real.create(key, data)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    connection._real = Held()
    receipts: dict[int, quire.Receipt] = {}
    threads = [threading.Thread(target=lambda n=n: receipts.update({n: append(lake, "ab"[n % 2])})) for n in range(4)]
    threads[0].start()
    assert entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    group = lake._live.group
    while len(group._waiting) < 3:
        threading.Event().wait(0.005)
    opened.set()
    for thread in threads:
        thread.join()

    assert sorted(r.cost["shared"] for r in receipts.values()) == [1, 3, 3, 3]
    for receipt in receipts.values():
        shown = lake.show(receipt.commit or "").cost
        assert shown is not None
        for what in ("shared", "requests", "external", "hops", "retries"):
            assert shown[what] == receipt.cost[what], what
        assert sum(receipt.cost["phases"].values()) <= receipt.cost["seconds"]


def test_the_slot_of_a_manifest_ledger_is_not_known_beforehand(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", ledger="manifest", backfill=False)
    lake.create_table("t", [{"id": 1}])
    append(lake, "t")
    receipt = append(lake, "t")
    shown = lake.show(receipt.commit or "").cost
    assert shown is not None
    assert shown["requests"] == {}
    assert shown["hops"] < receipt.cost["hops"]
    assert shown["external"]["lance"] < receipt.cost["external"]["lance"]


def test_a_commit_that_does_not_say_has_none(lake: quire.Lake) -> None:
    assert lake.show("0.0").cost is None
    assert lake.show("0.0").to_dict()["cost"] is None


@pytest.mark.parametrize("number", [1, 2])
def test_lakes_from_before_have_none(number: int, tmp_path: Path) -> None:
    with tarfile.open(OLD / f"format-{number}" / "lake.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    [found] = [path.parent.parent for path in tmp_path.rglob("format.json")]
    old = quire.open(found, read_only=True)
    costs = [entry.cost for entry in old.log()]
    assert costs
    assert set(costs) == {None}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return (
        field.default
        if field.default is not msgspec.NODEFAULT
        else msgspec.field(default_factory=field.default_factory)
    )


def test_a_reader_that_does_not_know_the_field_reads_on(lake: quire.Lake) -> None:
    append(lake)
    [record] = lake._core.ledger.read(lake._live.line.branch, [2])
    assert record is not None
    assert record.commits[0].cost is not None
    fields = [
        (f.name, f.type, _default(f)) for f in msgspec.structs.fields(Commit) if f.name != "cost" and not f.required
    ]
    needed = [(f.name, f.type) for f in msgspec.structs.fields(Commit) if f.required]
    before = msgspec.defstruct("Commit", [*needed, *fields], bases=(Stored,), frozen=True)
    read = msgspec.json.decode(encode(record), type=dict)["commits"][0]
    old = msgspec.convert(read, before)
    assert msgspec.structs.asdict(old) == {
        name: value for name, value in msgspec.structs.asdict(record.commits[0]).items() if name != "cost"
    }


@pytest.mark.parametrize("wrong", [{"hops": -1}, {"requests": {"get": "x"}}, {"phases": {"stage": 1.5}}, "free"])
def test_a_cost_that_is_none_is_damage(wrong: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(wrong), type=Cost)


# -- on opening --------------------------------------------------------------------------------------------------------


def test_opening_a_lake_says_what_it_took(lake: quire.Lake) -> None:
    with metering() as meter:
        cold = quire.open(lake.uri, read_only=True)
    assert set(cold.cost) == KEYS
    for what in ("requests", "hops", "bytes_in", "retries"):
        assert cold.cost[what] == getattr(meter, what), what
    assert cold.cost["requests"]["get"] >= 3
    assert set(cold.cost["phases"]) == {"format", "log"}
    assert sum(cold.cost["phases"].values()) <= cold.cost["seconds"]


def test_making_a_lake_and_opening_a_branch_say_so_too(lake: quire.Lake) -> None:
    assert lake.cost["requests"]["create"] >= 2
    made = lake.create_branch("exp")
    assert made.cost["requests"]["create"] >= 1
    assert lake.branch("exp").cost["requests"] == {"get": lake.branch("exp").cost["total"]}
    assert lake.branch("main") is lake


def test_a_snapshot_of_a_warm_handle_costs_one_request(lake: quire.Lake) -> None:
    cost = lake.snapshot().cost
    assert set(cost) == KEYS
    assert (cost["requests"], cost["hops"], cost["external"]) == ({"get": 1}, 1, {})
    assert set(cost["phases"]) == {"log"}


def test_the_cost_of_a_snapshot_is_that_of_opening_it(lake: quire.Lake) -> None:
    snap = quire.open(lake.uri, read_only=True).snapshot()
    before = dict(snap.cost)
    assert snap["a"].to_pylist() == [{"id": 1}]
    assert snap.cost == before


def test_time_travel_says_what_it_took(lake: quire.Lake) -> None:
    append(lake)
    with metering() as meter:
        snap = quire.open(lake.uri, read_only=True).at(commit="1.0")
    assert 0 < snap.cost["total"] < meter.total


def test_a_snapshot_from_elsewhere_says_what_opening_it_here_took(lake: quire.Lake) -> None:
    here = pickle.loads(pickle.dumps(lake.snapshot()))
    assert here.cost["requests"] == {"get": 2}
    assert set(here.cost["phases"]) == {"format"}


# -- told to whoever watches -------------------------------------------------------------------------------------------


def commits() -> dict[str, int]:
    lines = [line for line in quire.metrics().splitlines() if line.startswith("quire_commits_total")]
    return {line.split('"')[1]: int(line.rpartition(" ")[2]) for line in lines}


def told(before: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in commits().items() if count != before[name]}


def test_a_commit_is_a_span_that_says_what_happened(lake: quire.Lake, spans: Spans) -> None:
    before = commits()
    receipt = append(lake)
    span = spans.one("quire.commit")
    attributes = dict(span.attributes or {})
    assert attributes == {
        "quire.lake": lake.uri,
        "quire.lake_id": lake.status()["lake"],
        "quire.branch": "main",
        "quire.commit": receipt.commit,
        "quire.tables": 2,
        "quire.attempts": 1,
        "quire.rebased": 0,
        "quire.replayed": 0,
        "quire.shared": 1,
        "quire.outcome": "committed",
        "quire.requests": 1,
        "quire.requests_lance": receipt.cost["external"]["lance"],
        "quire.hops": receipt.cost["hops"],
        "quire.retries": 0,
        "quire.bytes_in": receipt.cost["bytes_in"],
        "quire.bytes_out": receipt.cost["bytes_out"],
    }
    phases = [child.name for child in spans.children(span)]
    assert phases.index("quire.commit.move") < phases.index("quire.commit.stage") < phases.index("quire.commit.publish")
    assert told(before) == {"committed": 1}


def test_a_conflict_is_told_as_one_and_shows_no_row(lake: quire.Lake, spans: Spans) -> None:
    lake.create_table("k", [{"id": "first"}], key="id")
    late = lake.transaction("late")
    late["k"].append([{"id": "a secret of mine"}])
    with quire.open(lake.uri).transaction("rival") as tx:
        tx["k"].append([{"id": "a secret of mine"}])
    before = commits()
    spans.clear()
    with pytest.raises(quire.KeyConflict) as caught:
        late.commit()
    assert "a secret of mine" in str(caught.value)
    span = spans.one("quire.commit")
    assert (span.attributes or {})["quire.outcome"] == "conflict"
    assert (span.attributes or {})["error.type"] == "key-conflict"
    assert (span.attributes or {})["quire.requests"] == late.meter.total
    assert "secret" not in span.to_json()
    assert told(before) == {"conflict": 1}


def test_an_outcome_that_is_unknown_is_told_as_such(lake: quire.Lake, connection: Faulty, spans: Spans) -> None:
    before = commits()
    connection.lose = 99
    tx = lake.transaction("lost")
    tx["a"].append([{"id": 8}])
    connection.deaf = True
    with pytest.raises(quire.CommitUnknown):
        tx.commit()
    connection.deaf = False
    assert (spans.one("quire.commit").attributes or {})["quire.outcome"] == "unknown"
    assert told(before) == {"unknown": 1}


def test_what_was_done_before_or_is_nothing_counts_apart(lake: quire.Lake, spans: Spans) -> None:
    token = quire.StreamToken(scope="s", sequence=1)
    append(lake, token=token)
    before = commits()
    spans.clear()
    assert append(lake, token=token).repeated
    lake.transaction("nothing").commit()
    assert told(before) == {"repeated": 1, "nothing": 1}
    assert [(s.attributes or {})["quire.outcome"] for s in spans.named("quire.commit")] == ["repeated", "nothing"]


def test_another_failure_is_an_error(lake: quire.Lake, connection: Faulty, spans: Spans) -> None:
    before = commits()
    connection.refuse = True
    with pytest.raises(quire.errors.StorageError):
        append(lake)
    span = spans.one("quire.commit")
    assert (span.attributes or {})["quire.outcome"] == "error"
    assert (span.attributes or {})["error.type"] == "storage"
    assert told(before) == {"error": 1}


def test_opening_is_a_span_too(lake: quire.Lake, spans: Spans) -> None:
    handle = quire.open(lake.uri, read_only=True)
    handle.snapshot()
    opened, snapshot = spans.one("quire.open"), spans.one("quire.snapshot")
    for span, cost in ((opened, handle.cost), (snapshot, {"total": 1, "hops": 1})):
        attributes = dict(span.attributes or {})
        assert attributes["quire.lake"] == lake.uri
        assert attributes["quire.commit"] == "1.0"
        assert attributes["quire.tables"] == 2
        assert (attributes["quire.outcome"], attributes["quire.requests"]) == ("opened", cost["total"])
        assert attributes["quire.hops"] == cost["hops"]
    assert [child.name for child in spans.children(opened)] == ["quire.open.format", "quire.open.log"]
    assert [child.name for child in spans.children(snapshot)] == ["quire.snapshot.log"]


def test_a_lake_that_cannot_be_opened_is_told_without_its_credentials(spans: Spans) -> None:
    for uri in ("memory://nothing-here", "s3://user:password@bucket/lake?token=password"):
        with pytest.raises((LakeNotFound, quire.errors.InvalidUri)):
            quire.open(uri)
    for span in spans.named("quire.open"):
        assert (span.attributes or {})["quire.outcome"] == "error"
        assert not span.status.is_ok
        assert "password" not in span.to_json()


def test_a_statement_outside_a_commit_is_no_span(lake: quire.Lake, spans: Spans) -> None:
    tx = lake.transaction("not committed")
    tx["a"].append([{"id": 8}])
    tx.discard()
    assert spans.all() == []
