"""The manifest ledger: it keeps the promises of every ledger, also where Lance's own guard fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lancedb
import msgspec
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.dataset import MergeInsertBuilder
from tests.budget import budget

from quire.errors import CorruptRecord, InvalidInput, NewerFormat, NotFound, PermissionDenied, StorageError, Unsupported
from quire.ledger import Ledger, Record, encode
from quire.ledger.manifest.ledger import ManifestLedger, object_id, slot_name
from quire.ledger.manifest.table import KEY, PRIMARY_KEY, SMALL_FRAGMENTS, TABLE, ManifestTable, schema
from quire.ledger.records import NEWEST
from quire.store import Outcome, Store, metering, run_parallel
from quire.testing.ledger import Factory, LedgerConformance, fill, make_chain, make_record, make_tombstone
from quire.testing.proxy import Proxy, Request
from quire.testing.s3 import SeaweedFS

AT_ONCE = timedelta(0)
"""Remove every version but the newest: what a careless cleanup does."""


def open_manifest(uri: str, options: Mapping[str, str]) -> Ledger:
    return ManifestLedger(Store.open(uri, options))


class ManifestConformance(LedgerConformance):
    racers = budget(3, full=6)
    raced_slots = 4

    @pytest.fixture
    def factory(self, place: tuple[str, Mapping[str, str]]) -> Factory:
        return partial(open_manifest, *place)


class TestOnDisk(ManifestConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> tuple[str, dict[str, str]]:
        return str(tmp_path / "lake"), {}


@pytest.mark.s3
class TestOnS3(ManifestConformance):
    racers = budget(3, full=4)

    @pytest.fixture
    def place(self, s3: SeaweedFS) -> tuple[str, dict[str, str]]:
        return s3.uri(uuid.uuid4().hex), s3.options


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake")


@pytest.fixture
def ledger(local: Store) -> ManifestLedger:
    return ManifestLedger(local)


def plain(store: Store) -> LanceDataset:
    """The table, as somebody without Quire opens it."""
    return lance.dataset(store.child_uri(TABLE), storage_options=store.options or None)


def row_of(record: Record, /, **columns: Any) -> pa.Table:
    row = {
        KEY: object_id(record.branch, record.slot),
        "branch": record.branch,
        "slot": record.slot,
        "write": record.write,
        "time": record.time,
        "record": encode(record).decode(),
    }
    return pa.Table.from_pylist([row | columns], schema=schema())


def writes_in(store: Store, branch: str, slot: int) -> list[str]:
    """The write ids of all rows that a slot has, in the order of commits."""
    found = plain(store).to_table(filter=f"{KEY} = '{object_id(branch, slot)}'", with_row_id=True).to_pylist()
    return [row["write"] for row in sorted(found, key=lambda row: row["_rowid"])]


# -- layout ------------------------------------------------------------------------------------------------------------


def test_the_log_is_open_to_plain_lance_and_lancedb(ledger: ManifestLedger, local: Store) -> None:
    chain = make_chain("b", 3)
    fill(ledger, chain)
    table = plain(local)
    assert table.schema.names == [KEY, "branch", "slot", "write", "time", "record"]
    assert not table.schema.field(KEY).nullable
    assert table.schema.field(KEY).metadata[PRIMARY_KEY.encode()] == b"true"
    found = sorted(table.to_table().to_pylist(), key=lambda row: row["slot"])
    assert [row[KEY] for row in found] == [f"b/{slot:020d}" for slot in range(3)]
    assert [(row["branch"], row["slot"], row["write"], row["time"]) for row in found] == [
        ("b", r.slot, r.write, r.time) for r in chain
    ]
    assert [msgspec.json.decode(row["record"])["write"] for row in found] == [r.write for r in chain]
    opened = lancedb.connect(local.child_uri("_quire")).open_table("__manifest")
    assert opened.count_rows("branch = 'b'") == 3


def test_a_branch_id_is_taken_as_it_is(ledger: ManifestLedger) -> None:
    odd = ["it's", "a' OR '1'='1", "%", "ü/x"]
    records = [make_record(branch, 0) for branch in odd]
    fill(ledger, records)
    assert [ledger.read(branch, [0])[0] for branch in odd] == records
    assert [ledger.head(branch, 0) for branch in [*odd, "a"]] == [0, 0, 0, 0, -1]


def test_importing_it_loads_no_lance() -> None:
    code = "import sys, quire.ledger.manifest.ledger; print([m for m in ('lance', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_store_that_lance_cannot_see_is_refused() -> None:
    with pytest.raises(Unsupported, match="memory"):
        ManifestLedger(Store.open("memory://x"))


# -- the first append makes the table ----------------------------------------------------------------------------------


def test_reading_makes_no_table(ledger: ManifestLedger, local: Store) -> None:
    assert (ledger.read("b", [0, 1]), ledger.head("b", 7), ledger.written("b")) == ([None, None], -1, {})
    ledger.compact()
    assert list(local.list("")) == []


def test_racers_make_one_table(factory: Factory, place: tuple[str, Mapping[str, str]]) -> None:
    racers = 8
    barrier = threading.Barrier(racers)

    def first_append(number: int) -> Outcome:
        ledger = factory()
        barrier.wait(60)
        return ledger.append(make_record(f"b{number}", 0)).outcome

    with ThreadPoolExecutor(racers) as pool:
        assert set(pool.map(first_append, range(racers))) == {Outcome.COMMITTED}
    assert [factory().head(f"b{number}", 0) for number in range(racers)] == [0] * racers
    assert plain(Store.open(*place)).version == 1 + racers


def test_a_late_creator_takes_the_table_that_is_there(ledger: ManifestLedger, local: Store) -> None:
    chain = make_chain("b", 5)
    fill(ledger, chain)
    first = f"{TABLE}/_versions/{2**64 - 2:020d}.manifest"
    made = local.get(first)
    ManifestTable(local).create()
    assert local.get(first) == made
    ledger.compact(older_than=AT_ONCE)
    assert local.get_or_none(first) is None
    ManifestTable(local).create()
    assert ManifestLedger(local).read("b", [0, 1, 2, 3, 4, 5]) == [*chain, None]


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    if request.param == "local":
        return str(tmp_path / "lake"), {}
    s3: SeaweedFS = request.getfixturevalue("s3")
    return s3.uri(uuid.uuid4().hex), s3.options


@pytest.fixture
def factory(place: tuple[str, Mapping[str, str]]) -> Factory:
    return partial(open_manifest, *place)


# -- what the guard does, and the ways in which it is lost -------------------------------------------------------------
#
# Two writers read the same version and insert the same slot. Each test compares the guarded insert with one that lacks
# one thing only. `tests/canaries/test_primary_key.py` watches the same behaviour of Lance apart from any ledger.

Insert = Callable[[LanceDataset, pa.Table], Any]


def insert(table: LanceDataset, row: pa.Table, on: str | list[str] = KEY, use_index: bool = False) -> None:
    """As the ledger does it."""
    table.merge_insert(on).when_not_matched_insert_all().conflict_retries(0).use_index(use_index).execute(row)


def both_insert(uri: str, how: Insert, fields: pa.Schema, prepare: Callable[[LanceDataset], Any] | None = None) -> int:
    """Rows that a slot has after two stale writers have tried to take it."""
    table = lance.write_dataset(row_of(make_record("b", 0)).cast(fields), uri, enable_stable_row_ids=True)
    if prepare is not None:
        prepare(table)
    stale = [lance.dataset(uri), lance.dataset(uri)]
    how(stale[0], row_of(make_record("b", 1)).cast(fields))
    try:
        how(stale[1], row_of(make_record("b", 1)).cast(fields))
    except OSError:
        pass
    found: int = lance.dataset(uri).count_rows("slot = 1")
    return found


def annotated(*columns: str) -> pa.Schema:
    """The ledger's schema with these columns as its key, in this order."""
    fields = [field.remove_metadata() for field in schema()]
    for position, name in enumerate(columns, start=1):
        at = schema().get_field_index(name)
        fields[at] = fields[at].with_metadata({PRIMARY_KEY: "true", f"{PRIMARY_KEY}:position": str(position)})
    return pa.schema(fields)


def test_without_the_annotation_both_writers_win(tmp_path: Path) -> None:
    assert both_insert(f"{tmp_path}/guarded", insert, schema()) == 1
    assert both_insert(f"{tmp_path}/bare", insert, annotated()) == 2


def test_an_index_on_the_key_lets_both_writers_win_unless_it_is_not_used(tmp_path: Path) -> None:
    def index(table: LanceDataset) -> None:
        table.create_scalar_index(KEY, "BTREE")

    assert both_insert(f"{tmp_path}/unused", insert, schema(), index) == 1
    assert both_insert(f"{tmp_path}/used", partial(insert, use_index=True), schema(), index) == 2
    assert both_insert(f"{tmp_path}/none", partial(insert, use_index=True), schema()) == 1


def test_an_uncommitted_insert_lets_both_writers_win(tmp_path: Path) -> None:
    def staged(table: LanceDataset, row: pa.Table) -> None:
        builder = table.merge_insert(KEY).when_not_matched_insert_all().conflict_retries(0).use_index(False)
        transaction, _ = builder.execute_uncommitted(row)
        LanceDataset.commit(table, transaction, max_retries=0)

    assert both_insert(f"{tmp_path}/at-once", insert, schema()) == 1
    assert both_insert(f"{tmp_path}/staged", staged, schema()) == 2


def test_a_composite_key_in_another_order_lets_both_writers_win(tmp_path: Path) -> None:
    fields = annotated("branch", "slot")
    assert both_insert(f"{tmp_path}/in-order", partial(insert, on=["branch", "slot"]), fields) == 1
    assert both_insert(f"{tmp_path}/reversed", partial(insert, on=["slot", "branch"]), fields) == 2


def test_a_cleanup_of_versions_lets_both_writers_win(tmp_path: Path) -> None:
    """The fourth way: what a stale writer would have to be compared with is gone, and Lance does not mind."""
    found = {}
    for name in ("kept", "cleaned"):
        uri = f"{tmp_path}/{name}"
        stale = lance.write_dataset(row_of(make_record("b", 0)), uri, enable_stable_row_ids=True)
        for slot in (1, 2):
            insert(lance.dataset(uri), row_of(make_record("b", slot)))
        if name == "cleaned":
            lance.dataset(uri).cleanup_old_versions(older_than=AT_ONCE)
        try:
            insert(stale, row_of(make_record("b", 1)))
        except OSError:
            pass
        found[name] = lance.dataset(uri).count_rows("slot = 1")
    assert found == {"kept": 1, "cleaned": 2}


# -- what decides instead ----------------------------------------------------------------------------------------------


def test_of_two_rows_the_first_is_the_slots_whatever_becomes_of_the_table(local: Store) -> None:
    ledger, chain = ManifestLedger(local), make_chain("b", 4)
    fill(ledger, chain)
    late = make_record("b", 1)
    lance.write_dataset(row_of(late), local.child_uri(TABLE), mode="append")
    for _ in range(3):
        assert writes_in(local, "b", 1) == [chain[1].write, late.write]
        assert ManifestLedger(local).read("b", [0, 1, 2, 3, 4]) == [*chain, None]
        assert ledger.append(late).winner == chain[1]
        assert ledger.append(chain[1]).outcome is Outcome.COMMITTED
        ledger.compact(older_than=AT_ONCE)
    ledger.bury(make_tombstone(chain[1]))
    assert ledger.read("b", [1]) == [make_tombstone(chain[1])]
    assert ledger.append(late).winner == make_tombstone(chain[1])


def test_an_index_that_somebody_added_does_not_disarm_the_guard(local: Store) -> None:
    fill(ManifestLedger(local), [make_record("b", 0)])
    plain(local).create_scalar_index(KEY, "BTREE")
    table, first, second = ManifestTable(local), make_record("b", 1), make_record("b", 1)
    one, two = table.open(), table.open()
    assert one is not None
    assert two is not None
    assert table.insert(one, row_of(first))
    with pytest.raises(StorageError):
        table.insert(two, row_of(second))
    assert writes_in(local, "b", 1) == [first.write]


def test_a_slot_that_a_sleeping_collector_brought_back_stays_buried(local: Store) -> None:
    ledger, chain = ManifestLedger(local), make_chain("b", 4)
    fill(ledger, chain)
    ledger.compact(older_than=None)
    asleep = plain(local)
    ledger.bury(make_tombstone(chain[1]))
    fill(ledger, [make_record("other", 0)])
    plain(local).cleanup_old_versions(older_than=AT_ONCE)
    grave = row_of(make_tombstone(chain[2]))
    asleep.merge_insert(KEY).when_matched_update_all().conflict_retries(0).use_index(False).execute(grave)
    assert len(writes_in(local, "b", 1)) == 2, "Lance now merges what it cannot see; this test shows nothing any more"
    expected = [chain[0], make_tombstone(chain[1]), make_tombstone(chain[2]), chain[3]]
    assert ManifestLedger(local).read("b", [0, 1, 2, 3]) == expected


def test_a_late_version_on_local_disk_hides_nothing(ledger: ManifestLedger, local: Store) -> None:
    """Lance keeps a hint of the newest version there, and a sleeper overwrites it with its own."""
    chain = make_chain("b", 8)
    fill(ledger, chain)
    version = f"{TABLE}/_versions/{2**64 - 1 - 4:020d}.manifest"
    late = local.get(version)
    ledger.compact(older_than=AT_ONCE)
    local.put(version, late)
    local.put(f"{TABLE}/_versions/latest_version_hint.json", b'{"version":4}')
    for reader in (ledger, ManifestLedger(local)):
        assert reader.read("b", list(range(9))) == [*chain, None]
        assert reader.append(make_record("b", 5)).winner == chain[5]


@pytest.fixture
def proxied(s3: SeaweedFS) -> Iterator[tuple[Proxy, Store, Store]]:
    """A proxy, a store behind it, and the same store without it."""
    uri = s3.uri(uuid.uuid4().hex)
    with Proxy(s3.endpoint) as proxy:
        yield proxy, Store.open(uri, {**s3.options, "aws_endpoint": proxy.endpoint}), Store.open(uri, s3.options)


def when_put(part: str, meanwhile: Callable[[], object] = lambda: None) -> Callable[[Request], bool]:
    """A request that writes below a part of the table; `meanwhile` runs before the first one goes on."""
    waiting = [meanwhile]

    def when(request: Request) -> bool:
        met = request.method == "PUT" and f"{TABLE}/{part}/" in request.key
        if met and waiting:
            waiting.pop()()
        return met

    return when


@pytest.mark.s3
@pytest.mark.parametrize("held", ["data", "_versions"], ids=["before it compares", "before its version is written"])
def test_a_writer_that_slept_through_a_cleanup_is_told_who_won(proxied: tuple[Proxy, Store, Store], held: str) -> None:
    proxy, behind, direct = proxied
    others = ManifestLedger(direct)
    fill(others, make_chain("b", 3))
    sleeper, late, winner = ManifestLedger(behind), make_record("b", 3), make_record("b", 3)
    assert sleeper.head("b", 0) == 2
    versions: list[set[str]] = []

    def meanwhile() -> None:
        fill(others, [winner, *make_chain("b", 3, first=4)])
        others.compact(older_than=AT_ONCE)
        versions.append({entry.key for entry in direct.list(f"{TABLE}/_versions")})

    hold = proxy.delay(0, when_put(held, meanwhile))
    appended = sleeper.append(late)

    assert hold.hits
    # Lance let it through: as a second row, or as a version that is older than the newest.
    landed = {entry.key for entry in direct.list(f"{TABLE}/_versions")} - versions[0]
    assert landed, "nothing was written behind the winner's back; this test shows nothing any more"
    assert writes_in(direct, "b", 3) == ([winner.write, late.write] if held == "data" else [winner.write])
    assert (appended.outcome, appended.winner) == (Outcome.CONFLICT, winner)
    for reader in (others, sleeper, ManifestLedger(direct)):
        assert reader.read("b", [3]) == [winner]
        assert reader.head("b", 3) == 6


# -- unknown outcomes --------------------------------------------------------------------------------------------------


@pytest.mark.s3
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("part", ["data", "_transactions", "_versions"])
def test_a_cut_connection_is_settled(proxied: tuple[Proxy, Store, Store], part: str, side: Any) -> None:
    proxy, behind, direct = proxied
    ledger, chain = ManifestLedger(behind), make_chain("b", 3)
    fill(ledger, chain[:2])
    cut = proxy.cut(when_put(part), side=side)
    assert ledger.append(chain[2]).outcome is Outcome.COMMITTED
    assert cut.hits
    assert ManifestLedger(direct).read("b", [0, 1, 2]) == chain
    assert writes_in(direct, "b", 2) == [chain[2].write]


def failing(monkeypatch: pytest.MonkeyPatch, times: int, *, after: bool = False) -> list[int]:
    """Let Lance's inserts fail so many times, before or after they were done."""
    real, calls = MergeInsertBuilder.execute, [0]

    def execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        done = real(self, *args, **kwargs) if after or calls[0] > times else None
        if calls[0] <= times:
            raise OSError("Too many concurrent writers")
        return done

    monkeypatch.setattr(MergeInsertBuilder, "execute", execute)
    return calls


def test_an_insert_that_failed_for_no_reason_of_its_slot_is_tried_again(
    ledger: ManifestLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, [make_record("b", 0)])
    calls = failing(monkeypatch, 2)
    record = make_record("b", 1)
    assert ledger.append(record).outcome is Outcome.COMMITTED
    assert calls == [3]
    assert ledger.read("b", [1]) == [record]


def test_an_insert_whose_answer_was_lost_is_committed(ledger: ManifestLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record("b", 0)
    calls = failing(monkeypatch, 1, after=True)
    assert ledger.append(record).outcome is Outcome.COMMITTED
    assert calls == [1]


def test_an_insert_that_may_still_land_is_unknown(ledger: ManifestLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(ledger, [make_record("b", 0)])
    record = make_record("b", 1)
    with monkeypatch.context() as broken:
        failing(broken, 1000)
        assert ledger.append(record, deadline=time.monotonic() + 0.3).outcome is Outcome.UNKNOWN
    assert ledger.append(record).outcome is Outcome.COMMITTED


def test_an_insert_whose_slot_cannot_be_read_is_unknown(
    ledger: ManifestLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record("b", 0)

    def unreadable(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise OSError("no answer")

    with monkeypatch.context() as broken:
        failing(broken, 1, after=True)
        broken.setattr(LanceDataset, "to_table", unreadable)
        assert ledger.append(record).outcome is Outcome.UNKNOWN
        with pytest.raises(StorageError, match="no answer"):
            ledger.read("b", [0])
    assert ledger.append(record).outcome is Outcome.COMMITTED


@pytest.mark.s3
def test_a_store_that_refuses_us_says_so(s3: SeaweedFS) -> None:
    uri = s3.uri(uuid.uuid4().hex)
    fill(ManifestLedger(Store.open(uri, s3.options)), [make_record("b", 0)])
    stranger = ManifestLedger(Store.open(uri, {**s3.options, "aws_secret_access_key": "wrong"}))
    for attempt in (lambda: stranger.append(make_record("b", 1)), lambda: stranger.read("b", [0])):
        with pytest.raises(PermissionDenied):
            attempt()


@pytest.mark.s3
def test_a_writer_that_may_only_read_is_told_so(proxied: tuple[Proxy, Store, Store]) -> None:
    proxy, behind, direct = proxied
    fill(ManifestLedger(direct), [make_record("b", 0)])
    refused = proxy.answer(403, lambda request: request.method == "PUT", times=None)
    with pytest.raises(PermissionDenied):
        ManifestLedger(behind).append(make_record("b", 1))
    assert refused.hits
    assert ManifestLedger(direct).read("b", [0, 1])[1] is None


# -- bury --------------------------------------------------------------------------------------------------------------


def test_only_a_slot_that_exists_can_be_buried_and_only_under_its_own_name(ledger: ManifestLedger) -> None:
    record = make_record("b", 0)
    for _ in range(2):
        with pytest.raises(NotFound) as caught:
            ledger.bury(make_tombstone(make_record("b", 1)))
        assert caught.value.object == slot_name("b", 1)
        ledger.append(record)
    with pytest.raises(InvalidInput, match="belongs to another write"):
        ledger.bury(make_tombstone(make_record("b", 0)))
    assert ledger.read("b", [0, 1]) == [record, None]


def test_slots_that_are_buried_side_by_side_share_commits(ledger: ManifestLedger, local: Store) -> None:
    chain = make_chain("b", 40)
    fill(ledger, chain)
    before = plain(local).version
    run_parallel([partial(ledger.bury, make_tombstone(record)) for record in [*chain[:-1], *chain[:5]]])
    assert ManifestLedger(local).read("b", list(range(40))) == [*map(make_tombstone, chain[:-1]), chain[-1]]
    assert plain(local).version - before < 30


# -- upkeep ------------------------------------------------------------------------------------------------------------


def test_small_fragments_are_merged_by_themselves(ledger: ManifestLedger, local: Store) -> None:
    chain = make_chain("b", 2 * SMALL_FRAGMENTS)
    most = 0
    for record in chain:
        fill(ledger, [record])
        most = max(most, len(plain(local).get_fragments()))
        if most > SMALL_FRAGMENTS:
            break
    until = time.monotonic() + 60
    while len(plain(local).get_fragments()) > 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(plain(local).get_fragments()) <= 2
    assert ledger.read("b", list(range(len(chain)))) == [r if r.slot <= record.slot else None for r in chain]


def test_compaction_keeps_every_row_and_removes_old_versions(ledger: ManifestLedger, local: Store) -> None:
    chain = make_chain("b", 20)
    fill(ledger, chain)
    ledger.compact(older_than=None)
    assert len(plain(local).get_fragments()) == 1
    assert len(list(local.list(f"{TABLE}/_versions"))) > 20
    ledger.compact(older_than=timedelta(days=1))
    assert len([e for e in local.list(f"{TABLE}/_versions") if e.key.endswith(".manifest")]) > 20
    ledger.compact(older_than=AT_ONCE)
    assert len([e for e in local.list(f"{TABLE}/_versions") if e.key.endswith(".manifest")]) == 1
    assert len(list(local.list(f"{TABLE}/data"))) == 1
    assert ManifestLedger(local).read("b", list(range(21))) == [*chain, None]
    times = ledger.written("b")
    assert sorted(times) == list(range(20))


@pytest.mark.slow
def test_nothing_is_lost_while_versions_are_cleaned_up_under_the_writers(factory: Factory) -> None:
    """Writers race for the slots of one branch; a careless cleanup takes away all that Lance compares them with."""
    done = threading.Event()
    lasting = budget(15, full=60)
    acknowledged: list[dict[int, str]] = []

    def write(number: int) -> dict[int, str]:
        ledger, won, slot = factory(), {}, 0
        while slot < lasting:
            record = make_record("b", slot)
            appended = ledger.append(record)
            while appended.outcome is Outcome.UNKNOWN:  # files went away under every look; the same write settles it
                appended = ledger.append(record)
            if appended.outcome is Outcome.COMMITTED:
                won[slot] = record.write
            slot += 1
        return won

    def clean() -> int:
        ledger, rounds = factory(), 0
        assert isinstance(ledger, ManifestLedger)
        while not done.is_set():
            try:
                ledger.compact(older_than=AT_ONCE)
                rounds += 1
            except StorageError:
                continue  # two compactors are in each other's way
        return rounds

    with ThreadPoolExecutor(6) as pool:
        cleaners = [pool.submit(clean) for _ in range(2)]
        try:
            acknowledged = list(pool.map(write, range(4)))
        finally:
            done.set()
        assert sum(cleaner.result() for cleaner in cleaners) >= 3
    times_won = Counter(slot for won in acknowledged for slot in won)
    assert times_won == Counter(range(lasting))
    winners = {slot: write for won in acknowledged for slot, write in won.items()}
    held = factory().read("b", list(range(lasting)))
    assert {record.slot: record.write for record in held if record is not None} == winners


# -- durable on local disk ---------------------------------------------------------------------------------------------


def test_a_commit_is_durable_before_it_is_acknowledged(
    ledger: ManifestLedger, local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    synced: set[str] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    other = ManifestLedger(local)
    fill(other, make_chain("b", 2))
    monkeypatch.setattr(os, "fsync", fsync)
    fill(ledger, make_chain("b", 1, first=2))
    needed = {f"data/{file.path}" for part in plain(local).get_fragments() for file in part.data_files()}
    needed |= {"data", "_versions", f"_versions/{2**64 - 1 - plain(local).version:020d}.manifest"}
    assert len(needed) == 6
    assert {os.path.join(local.child_uri(TABLE), part) for part in needed} <= synced


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_an_append_costs_the_same_at_any_depth(s3: SeaweedFS) -> None:
    ledger = ManifestLedger(Store.open(s3.uri(uuid.uuid4().hex), s3.options))
    costs = []
    for record in make_chain("b", 40):
        with metering() as cost:
            fill(ledger, [record])
        costs.append((cost.external["lance"], cost.total))
    assert costs[-1] == costs[5]
    assert costs[-1] <= (8, 0)


# -- what is stored cannot be trusted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", "{}", '{"format":1}', "\x00"])
def test_garbage_in_a_slot_is_a_corrupt_record_that_names_it(ledger: ManifestLedger, local: Store, text: str) -> None:
    fill(ledger, [make_record("b", 2)])
    lance.write_dataset(row_of(make_record("b", 3), record=text), local.child_uri(TABLE), mode="append")
    for look in (lambda: ledger.read("b", [2, 3]), lambda: ledger.append(make_record("b", 3))):
        with pytest.raises(CorruptRecord) as caught:
            look()
        assert caught.value.object == slot_name("b", 3)
    assert ledger.head("b", 0) == 3


def test_a_slot_of_the_future_is_refused(ledger: ManifestLedger, local: Store) -> None:
    fill(ledger, [make_record("b", 0)])
    text = f'{{"format":{NEWEST + 1},"shape":"unheard of"}}'
    lance.write_dataset(row_of(make_record("b", 1), record=text), local.child_uri(TABLE), mode="append")
    with pytest.raises(NewerFormat) as caught:
        ledger.read("b", [1])
    assert caught.value.object == slot_name("b", 1)


@pytest.mark.parametrize("columns", [{"slot": 4}, {"branch": "c"}, {KEY: "b/4"}], ids=["slot", "branch", "key"])
def test_a_row_in_the_wrong_place_is_corrupt(ledger: ManifestLedger, local: Store, columns: dict[str, Any]) -> None:
    fill(ledger, [make_record("b", 0)])
    lance.write_dataset(row_of(make_record("b", 3), **columns), local.child_uri(TABLE), mode="append")
    with pytest.raises(CorruptRecord, match="it says that it is slot 3 of log b"):
        ledger.read(columns.get("branch", "b"), [columns.get("slot", 3)])


@pytest.mark.parametrize("fault", ["no annotation", "no stable row ids", "another table"])
def test_a_table_that_cannot_guard_is_refused(ledger: ManifestLedger, local: Store, fault: str) -> None:
    fields = {"no annotation": annotated(), "another table": pa.schema([("a", pa.int64())])}.get(fault, schema())
    lance.write_dataset(fields.empty_table(), local.child_uri(TABLE), enable_stable_row_ids="row ids" not in fault)
    for use in (lambda: ledger.append(make_record("b", 0)), lambda: ledger.read("b", [0]), lambda: ledger.head("b", 0)):
        with pytest.raises(CorruptRecord) as caught:
            use()
        assert caught.value.object == TABLE
