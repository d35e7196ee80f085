"""The log ledger: it keeps the promises of every ledger, and those of its own layout and cost."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest
from tests.ledger.building import grown

from quire.errors import CorruptRecord, NewerFormat, QuireError
from quire.ledger import FORMAT, LogLedger, Record, decode, encode, slot_key
from quire.ledger.log import MAX_RECORD, SideObject
from quire.ledger.records import NEWEST, raw
from quire.store import Outcome, Store, metering
from quire.testing.ledger import Factory, LedgerConformance, fill, make_chain, make_large_record, make_record
from quire.testing.s3 import SeaweedFS


class TestOnDisk(LedgerConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> tuple[str, dict[str, str]]:
        return str(tmp_path / "lake"), {}


class TestInMemory(LedgerConformance):
    test_processes_race_and_one_wins_each_slot = None  # type: ignore[assignment]  # memory is one process's own

    @pytest.fixture
    def place(self) -> tuple[str, dict[str, str]]:
        return f"memory://{uuid.uuid4().hex}", {}


@pytest.mark.s3
class TestOnS3(LedgerConformance):
    raced_slots = 2  # contended creates wait in steps of a second there

    @pytest.fixture
    def place(self, s3: SeaweedFS) -> tuple[str, dict[str, str]]:
        return s3.uri(uuid.uuid4().hex), s3.options


# -- layout ------------------------------------------------------------------------------------------------------------


def test_a_slot_is_one_readable_json_object(store: Store) -> None:
    record = make_record("b", 12)
    fill(LogLedger(store), [record])
    assert slot_key("b", 12) == "_quire/log/b/00000000000000000012"
    found = msgspec.json.decode(store.get(slot_key("b", 12)))
    assert (found["format"], found["branch"], found["slot"], found["write"]) == (FORMAT, "b", 12, record.write)
    assert [entry.key for entry in store.list("_quire/log")] == [slot_key("b", 12)]


def side_of(store: Store, record: Record) -> str:
    """The one side object of a record."""
    [found] = [e.key for e in store.list("_quire/log/b") if e.key.startswith(f"_quire/log/b/side-{record.write}")]
    return found


def test_a_record_at_the_limit_stays_one_object_and_one_byte_more_moves_aside(store: Store) -> None:
    fits = make_large_record("b", 0, 1000)
    fits = make_large_record("b", 0, 1000 + MAX_RECORD - len(encode(fits)))
    assert len(encode(fits)) == MAX_RECORD
    over = make_large_record("b", 1, len(fits.commits[0].message) + 1)
    fill(LogLedger(store), [fits, over])
    assert len(store.get(slot_key("b", 0))) == MAX_RECORD
    assert len(store.get(slot_key("b", 1))) < 1024
    assert {e.key for e in store.list("_quire/log/b")} == {slot_key("b", 0), slot_key("b", 1), side_of(store, over)}


def test_the_side_object_is_written_before_the_slot(store: Store) -> None:
    ledger, record = LogLedger(store), make_large_record("b", 0, MAX_RECORD)
    fill(ledger, [make_record("b", 0)])
    with metering() as cost:
        assert ledger.append(record).outcome is Outcome.CONFLICT
    assert cost.requests["put"] == 1
    first = side_of(store, record)
    assert ledger.append(msgspec.structs.replace(record, slot=1)).outcome is Outcome.COMMITTED
    kept = [e.key for e in store.list("_quire/log/b") if "side-" in e.key]
    assert len(kept) == 2  # another one for another slot: the first may be cleaned up
    assert first in kept


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 100])
def test_an_append_is_one_request_at_any_depth(memory: Store, depth: int) -> None:
    log = grown(memory, depth)
    record = log.next()
    with metering() as cost:
        log.ledger.append(record)
    assert cost.requests == {"create": 1}
    assert cost.hops == 1


def test_a_lost_append_costs_one_read_more(memory: Store) -> None:
    fill(LogLedger(memory), [make_record("b", 0)])
    with metering() as cost:
        assert LogLedger(memory).append(make_record("b", 0)).outcome is Outcome.CONFLICT
    assert cost.requests == {"create": 1, "get": 1}


def test_many_slots_are_read_in_one_hop(memory: Store) -> None:
    ledger = LogLedger(memory)
    fill(ledger, make_chain("b", 50))
    with metering() as cost:
        ledger.read("b", list(range(50)))
    assert (cost.requests, cost.hops) == ({"get": 50}, 1)


def test_many_records_with_side_objects_are_read_in_two_hops(memory: Store) -> None:
    ledger = LogLedger(memory)
    records = [make_large_record("b", slot, MAX_RECORD) for slot in range(12)]
    fill(ledger, records)
    with metering() as cost:
        assert ledger.read("b", list(range(12))) == records
    assert (cost.requests, cost.hops) == ({"get": 24}, 2)


def test_a_right_belief_finds_the_head_in_one_hop(memory: Store) -> None:
    log = grown(memory, 100)
    with metering() as cost:
        assert log.ledger.head("main", log.head) == log.head
    assert cost.hops == 1
    assert cost.total <= 8


# -- what is stored cannot be trusted ----------------------------------------------------------------------------------


def put_record(store: Store, record: Record, slot: int = 0, branch: str = "b") -> str:
    key = slot_key(branch, slot)
    store.put(key, raw(record))
    return key


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff\xfe", b"null", b"[]", b"7", b"{", b"{}", b'{"format":1}', b"\xef\xbb\xbf{}"],
)
def test_garbage_in_a_slot_is_a_corrupt_record_that_names_it(memory: Store, body: bytes) -> None:
    memory.put(slot_key("b", 3), body)
    with pytest.raises(CorruptRecord) as caught:
        LogLedger(memory).read("b", [3])
    assert caught.value.object == slot_key("b", 3)
    assert slot_key("b", 3) in str(caught.value)


def test_every_truncation_of_a_slot_is_a_corrupt_record(memory: Store) -> None:
    whole = encode(make_record("b", 0))
    for length in range(len(whole)):
        memory.put(slot_key("b", 0), whole[:length])
        with pytest.raises(CorruptRecord):
            LogLedger(memory).read("b", [0])


def test_a_slot_of_the_future_is_refused_by_name_and_number(memory: Store) -> None:
    memory.put(slot_key("b", 0), b'{"format":999,"shape":"unheard of"}')
    with pytest.raises(NewerFormat) as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.fields == {"object": slot_key("b", 0), "found": 999, "supported": NEWEST}
    assert f"has format 999; this version of Quire reads formats up to {NEWEST}. Upgrade Quire" in str(caught.value)


@pytest.mark.parametrize(("slot", "branch"), [(1, "b"), (0, "other"), (10**18, "b")])
def test_a_record_in_the_wrong_place_is_corrupt(memory: Store, slot: int, branch: str) -> None:
    key = put_record(memory, msgspec.structs.replace(make_record("b", 0), slot=slot, branch=branch))
    with pytest.raises(CorruptRecord, match=f"it says that it is slot {slot} of log {branch}") as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.object == key


@pytest.mark.parametrize("slot", [-1, 10**30, 10**4000], ids=["-1", "10^30", "10^4000"])
def test_a_record_with_a_number_that_is_no_slot_is_corrupt(memory: Store, slot: int) -> None:
    key = put_record(memory, msgspec.structs.replace(make_record("b", 0), slot=slot))
    with pytest.raises(CorruptRecord) as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.object == key


@pytest.mark.parametrize(
    "side",
    [
        "../../format.json",
        "side-other",
        "",
        "/etc/passwd",
        "side-\x00",
        "side-w/../x",
        "side-wx",
        "side-w-",
        "side-w-/x",
    ],
)
def test_a_record_cannot_name_an_object_that_is_not_its_own(memory: Store, side: str) -> None:
    key = put_record(memory, msgspec.structs.replace(make_record("b", 0, write="w"), side=side))
    with pytest.raises(CorruptRecord, match="side object") as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.object == key


@pytest.mark.parametrize("write", ["x/../../../../secret", "..", "/", "a\x00b", "a//b", "x.quire-tmp", "x" * 5000, ""])
def test_a_write_id_cannot_lead_to_another_object_or_to_an_untyped_error(store: Store, write: str) -> None:
    outside = SideObject(format=FORMAT, commits=make_record("b", 0).commits)
    store.put("_quire/secret", encode(outside))
    put_record(store, msgspec.structs.replace(make_record("b", 0, write=write), commits=(), side=f"side-{write}"))
    with pytest.raises(CorruptRecord):
        LogLedger(store).read("b", [0])


def test_a_missing_side_object_is_named(memory: Store) -> None:
    record = make_large_record("b", 0, MAX_RECORD)
    fill(LogLedger(memory), [record])
    side = side_of(memory, record)
    memory.delete(side)
    with pytest.raises(CorruptRecord, match="it is missing, but slot 0 needs it") as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.object == side


@pytest.mark.parametrize("body", [b"", b"{}", b'{"format":1,"commits":7}'])
def test_a_side_object_of_garbage_is_named(memory: Store, body: bytes) -> None:
    record = make_large_record("b", 0, MAX_RECORD)
    fill(LogLedger(memory), [record])
    side = side_of(memory, record)
    memory.put(side, body)
    with pytest.raises(CorruptRecord) as caught:
        LogLedger(memory).read("b", [0])
    assert caught.value.object == side


def test_a_side_object_of_the_future_is_refused(memory: Store) -> None:
    record = make_large_record("b", 0, MAX_RECORD)
    fill(LogLedger(memory), [record])
    memory.put(side_of(memory, record), b'{"format":99}')
    with pytest.raises(NewerFormat):
        LogLedger(memory).read("b", [0])


@pytest.mark.parametrize("body", [b"garbage", b'{"format":999}', encode(make_record("other", 5))])
def test_an_append_to_a_slot_of_garbage_says_so_and_leaves_it(store: Store, body: bytes) -> None:
    store.put(slot_key("b", 0), body)
    with pytest.raises((CorruptRecord, NewerFormat)) as caught:
        LogLedger(store).append(make_record("b", 0))
    assert caught.value.object == slot_key("b", 0)
    assert store.get(slot_key("b", 0)) == body


def test_the_head_is_found_past_slots_that_cannot_be_read(memory: Store) -> None:
    fill(LogLedger(memory), make_chain("b", 9))
    memory.put(slot_key("b", 9), b"garbage")
    assert LogLedger(memory).head("b", 2) == 9
    with pytest.raises(QuireError):
        LogLedger(memory).read("b", [9])


def test_a_copy_of_a_log_reads_the_same(factory: Factory, store: Store, tmp_path: Path) -> None:
    records = [*make_chain("b", 3), make_large_record("b", 3, MAX_RECORD)]
    fill(factory(), records)
    copy = Store.open(tmp_path / "copy")
    for entry in store.list("_quire"):
        copy.put(entry.key, store.get(entry.key))
    assert LogLedger(copy).read("b", [0, 1, 2, 3]) == records
    assert decode(copy.get(slot_key("b", 0)), Record, "slot 0") == records[0]
