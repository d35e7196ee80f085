"""A lake on a real S3-compatible server, from its creation to what plain Lance clients see of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import lance
import pytest

import quire
from quire.store import metering
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3

PEOPLE = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]
EVENTS = [{"person": 1, "what": "born"}, {"person": 2, "what": "born"}]


@pytest.fixture
def uri(s3: SeaweedFS) -> str:
    place = s3.uri(uuid.uuid4().hex)
    with quire.create(place, storage_options=s3.options) as lake, lake.transaction("tables") as tx:
        tx.create_table("people", PEOPLE, key="id")
        tx.create_table("events", EVENTS)
    return place


def opened(uri: str, s3: SeaweedFS, **options: Any) -> quire.Lake:
    return quire.open(uri, storage_options=s3.options, **options)


def plain(lake: quire.Lake, s3: SeaweedFS, table: str) -> list[dict[str, Any]]:
    """What a plain Lance client reads."""
    location = lake.snapshot()[table].describe()["location"]
    found: list[dict[str, Any]] = (
        lance.dataset(f"{lake.uri}/{location}", storage_options=s3.options).to_table().to_pylist()
    )
    return found


def by_id(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in rows)


def test_a_commit_over_several_tables_is_seen_whole_by_other_handles(uri: str, s3: SeaweedFS) -> None:
    lake, reader = opened(uri, s3), opened(uri, s3, read_only=True)
    before = reader.snapshot()

    with lake.transaction("a new name and a new event") as tx:
        tx["people"].upsert([{"id": 2, "name": "Bobby"}, {"id": 3, "name": "Cy"}])
        tx["events"].append([{"person": 3, "what": "born"}])
        tx["events"].delete("person = 1")
        tx.create_table("places", [{"id": 1, "city": "London"}], key="id")

    after = reader.snapshot()
    assert by_id(before["people"].to_pylist()) == [(1, "Ada"), (2, "Bob")]
    assert before["events"].to_pylist() == EVENTS
    assert "places" not in before
    assert by_id(after["people"].to_pylist()) == [(1, "Ada"), (2, "Bobby"), (3, "Cy")]
    assert [e["person"] for e in after["events"].to_pylist()] == [2, 3]
    joined = after.sql("select name, what from people join events on id = person order by name").to_pylist()
    assert joined == [{"name": "Bobby", "what": "born"}, {"name": "Cy", "what": "born"}]


def test_plain_lance_reads_backfilled_tables_with_the_same_storage_options(uri: str, s3: SeaweedFS) -> None:
    with opened(uri, s3) as lake:
        with lake.transaction("both") as tx:
            tx["people"].upsert([{"id": 2, "name": "Bobby"}])
            tx["events"].append([{"person": 1, "what": "wrote"}])
        assert lake.flush()

        assert by_id(plain(lake, s3, "people")) == [(1, "Ada"), (2, "Bobby")]
        assert plain(lake, s3, "events") == [*EVENTS, {"person": 1, "what": "wrote"}]
        assert lake.foreign() == []


def test_a_plain_lance_writer_is_noticed_and_its_rows_are_adopted(uri: str, s3: SeaweedFS) -> None:
    lake = opened(uri, s3)
    lake.flush()
    location = lake.snapshot()["events"].describe()["location"]
    lance.write_dataset(
        lance.dataset(f"{uri}/{location}", storage_options=s3.options).to_table().slice(0, 1),
        f"{uri}/{location}",
        mode="append",
        storage_options=s3.options,
    )

    assert [p.table for p in lake.foreign()] == ["events"]
    lake.adopt("events")

    assert lake.snapshot()["events"].to_pylist() == [*EVENTS, EVENTS[0]]
    assert lake.foreign() == []


def test_conflicts_between_handles_end_as_on_local_disk(uri: str, s3: SeaweedFS) -> None:
    mine, theirs = opened(uri, s3), opened(uri, s3)
    appending = mine.transaction("append")
    appending["events"].append([{"person": 1, "what": "mine"}])
    inserting = mine.transaction("insert")
    inserting["people"].insert([{"id": 3, "name": "mine"}])
    updating = mine.transaction("update")
    updating["people"].update({"name": "upper(name)"}, where="id = 1")
    with theirs.transaction("faster") as tx:
        tx["events"].append([{"person": 2, "what": "theirs"}])
        tx["people"].upsert([{"id": 3, "name": "theirs"}, {"id": 1, "name": "Countess"}])

    receipt = appending.commit()
    with pytest.raises(quire.KeyConflict):
        inserting.commit()
    with pytest.raises(quire.Conflict):
        updating.commit()

    snapshot = mine.snapshot()
    assert receipt.rebased == 1
    assert sorted(e["what"] for e in snapshot["events"].to_pylist()) == ["born", "born", "mine", "theirs"]
    assert by_id(snapshot["people"].to_pylist()) == [(1, "Countess"), (2, "Bob"), (3, "theirs")]
    assert [c.message for c in mine.log()] == ["append", "faster", "tables", "create lake"]


def test_a_lake_with_history_opens_cold_and_travels_in_time(uri: str, s3: SeaweedFS) -> None:
    with opened(uri, s3) as lake:
        for number in range(40):
            with lake.transaction(f"{number}") as tx:
                tx["events"].append([{"person": number, "what": "counted"}])
        lake.tag("end", at="30.0")

    with metering() as meter:
        cold = opened(uri, s3, read_only=True)
        head = cold.snapshot()

    assert head.commit == "41.0"
    assert "list" not in meter.requests
    assert meter.hops <= 5  # four for the open, one to ask for news
    assert head["events"].count() == 42
    assert cold.at(tag="end")["events"].count() == 31
    assert cold.at(commit="1.0")["events"].to_pylist() == EVENTS


def add_rows(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx["people"].insert([{"id": 10, "name": "Ten"}])
    tx["events"].append([{"person": 10, "what": "born"}])


def change_rows(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx["people"].upsert([{"id": 1, "name": "A"}, {"id": 11, "name": "Eleven"}])
    tx["events"].update({"what": "'changed'"}, where="person = 1")
    tx["events"].delete("person = 2")


def change_tables(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx.create_table("more", [{"id": 1}], key="id")
    tx.rename_table("events", "happenings")
    tx["people"].add_columns({"length": "length(name)"})


def index(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx["people"].create_index("id")


def overwrite(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx["events"].overwrite([{"person": 5, "what": "only"}])


def lose_a_race(lake: quire.Lake, tx: quire.Transaction) -> None:
    tx["events"].append([{"person": 10, "what": "second"}])
    with quire.open(lake.uri, storage_options=lake._core.store.options) as rival:
        with rival.transaction("first") as other:
            other["events"].append([{"person": 11, "what": "first"}])


@pytest.mark.parametrize("program", [add_rows, change_rows, change_tables, index, overwrite, lose_a_race])
def test_no_listing_is_made_on_the_way_to_a_commit(
    uri: str, s3: SeaweedFS, program: Callable[[quire.Lake, quire.Transaction], None]
) -> None:
    with metering() as opening:
        lake = opened(uri, s3)
    with lake.transaction("metered") as tx:
        program(lake, tx)

    assert "list" not in opening.requests
    assert tx.receipt is not None
    requests = tx.receipt.cost["requests"]
    assert requests["create"] >= 1
    assert "list" not in requests
    with metering() as background:
        lake._live.checkpoint(force=True)
        lake._live.hint()
    assert set(background.requests) <= {"create", "put", "get"}
    lake.close()


def test_a_warm_append_to_two_tables_takes_two_requests_per_table_and_the_slot(uri: str, s3: SeaweedFS) -> None:
    lake = opened(uri, s3)
    with lake.transaction("second table") as tx:
        tx.create_table("notes", [{"text": "a"}])
    with lake.transaction("warm up") as tx:
        tx["events"].append([{"person": 1, "what": "warm"}])
        tx["notes"].append([{"text": "warm"}])
    lake.flush()

    with lake.transaction("measured") as tx:
        tx["events"].append([{"person": 1, "what": "measured"}])
        tx["notes"].append([{"text": "measured"}])

    assert tx.receipt is not None
    assert tx.receipt.cost["requests"] == {"put": 4, "create": 1}
    assert sum(tx.receipt.cost["external"].values()) == 0
    lake.close()
