"""Tables outside the lake's folder: read where the lake may read, written only where the opener said so."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import quire
from quire.errors import CorruptRecord, InvalidInput, OutsideLake, Refused
from quire.store import Reach
from quire.store.address import parse


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "beside" / "plain.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(place))
    return place


@pytest.fixture
def lake(tmp_path: Path, outside: Path) -> Iterator[quire.Lake]:
    """A lake whose table `plain` lies outside it, with a commit that was not backfilled."""
    with quire.create(tmp_path / "lake", backfill=False) as made:
        with made.transaction() as tx:
            tx.register_table("plain", str(outside), key="id")
            tx.create_table("own", [{"id": 1}])
        made.backfill()
        with made.transaction() as tx:
            tx["plain"].append([{"id": 2}])
            tx["own"].append([{"id": 2}])
        yield made


def state(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def ids(lake: quire.Lake, table: str = "plain") -> list[int]:
    return sorted(lake[table].to_arrow()["id"].to_pylist())


def append(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["plain"].append([{"id": 3}])


def adopt(lake: quire.Lake) -> None:
    location = lake["plain"].describe()["location"]
    lance.write_dataset(pa.table({"id": [9]}), location, mode="append")
    lake.adopt("plain")


WRITES: dict[str, Callable[[quire.Lake], Any]] = {"append": append, "adopt": adopt}


def test_opening_a_lake_writes_nothing_outside_it(lake: quire.Lake, outside: Path) -> None:
    before = state(outside)
    with quire.open(lake.uri) as opened:
        opened.flush()
        [left] = [p for p in opened.backfill() if p.outcome == "blocked"]
        assert (left.table, "external" in left.detail) == ("plain", True)
        assert [s.table for s in opened.recover().left] == ["plain"]
        assert opened.status()["pending_backfill"] == ["plain"]
        assert opened.status()["outside"] == {"plain": {"location": str(outside), "writable": False}}
        [skipped] = [t for t in opened.optimize().tables if t.table == "plain"]
        assert (skipped.outcome, "external" in skipped.detail) == ("nothing", True)
        opened.cleanup(keep=1, older_than=0, grace=0)
        assert ids(opened) == [1, 2]
        assert opened.verify(deep=True).ok
    assert state(outside) == before
    assert lance.dataset(f"{lake.uri}/{lake['own'].describe()['location']}").count_rows() == 2


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_outside_is_refused_until_the_opener_names_the_place(
    lake: quire.Lake, outside: Path, verb: str
) -> None:
    for external in (None, [], [str(outside.parent / "other.lance")], [str(outside)[:-1]]):
        refused = quire.open(lake.uri, external=external, backfill=False)
        head = refused.head
        with pytest.raises(OutsideLake) as caught:
            WRITES[verb](refused)
        assert caught.value.location == str(outside)
        assert refused.refresh() == head
    allowed = quire.open(lake.uri, external=[outside.parent], backfill=False)
    WRITES[verb](allowed)
    assert allowed.head != head


@pytest.mark.parametrize("external", ["allow", "itself", "above"])
def test_with_the_place_named_backfill_goes_on(lake: quire.Lake, outside: Path, external: str) -> None:
    named: Any = {"allow": "allow", "itself": [str(outside)], "above": [outside.parent]}[external]
    with quire.open(lake.uri, external=named) as opened:
        opened.flush()
        assert opened.status()["pending_backfill"] == []
        assert opened.status()["outside"]["plain"]["writable"]
    assert lance.dataset(str(outside)).count_rows() == 2


def test_the_handle_that_registers_a_table_may_write_it(lake: quire.Lake, outside: Path) -> None:
    append(lake)
    assert {p.outcome for p in lake.backfill()} == {"promoted"}
    assert lance.dataset(str(outside)).count_rows() == 3


def test_a_read_only_lake_reads_outside_and_writes_nothing(lake: quire.Lake, outside: Path) -> None:
    before = state(outside)
    with quire.open(lake.uri, read_only=True, external="allow") as reader:
        assert ids(reader) == [1, 2]
        assert pickle.loads(pickle.dumps(reader.snapshot()))["plain"].count() == 2
    assert state(outside) == before


def test_a_table_of_the_lake_behind_a_link_is_not_written(lake: quire.Lake, tmp_path: Path) -> None:
    place = Path(lake.uri) / lake["own"].describe()["location"]
    place.rename(tmp_path / "moved.lance")
    place.symlink_to(tmp_path / "moved.lance")
    before = state(tmp_path / "moved.lance")
    with quire.open(lake.uri) as opened:
        opened.flush()
        assert ids(opened, "own") == [1, 2]
        with pytest.raises(Refused, match="symbolic link"), opened.transaction() as tx:
            tx["own"].append([{"id": 3}])
        assert {p.table: p.outcome for p in opened.backfill()}["own"] == "blocked"
        assert [f.where for f in opened.verify().findings if f.check == "link"] == [str(place.relative_to(lake.uri))]
    assert state(tmp_path / "moved.lance") == before


# -- addresses --------------------------------------------------------------------------------------------------------

NOWHERE = (
    "",
    ".",
    "..",
    "../x.lance",
    "tables/../../x.lance",
    "tables//x.lance",
    "tables/x.lance/",
    "_quire",
    "_quire/log/x",
    "tables/\0x",
    "a\nb",
    "/",
    "/data/../etc",
    "/data//x",
    "//host/share",
    "file:///data/x",
    "s3a://bucket/x",
    "s3://bucket/../x",
    "s3://user:secret@bucket/x",
    "s3://bucket",
    "gopher://bucket/x",
    "x" * 5000,
)
ROOTS = ("/data/lake", "s3://bucket/lake")


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("location", NOWHERE)
def test_a_location_in_another_form_than_a_registration_writes_is_never_followed(root: str, location: str) -> None:
    reach = Reach(parse(root), "allow")
    if location in ("/", "s3://bucket"):
        return  # odd, and an address all the same
    for ask in (reach.address, reach.writable):
        with pytest.raises(CorruptRecord) as caught:
            ask(location)
        assert caught.value.next


READS: dict[tuple[str, str], bool] = {
    ("/data/lake", "/other/x.lance"): True,
    ("/data/lake", "s3://bucket/x.lance"): False,
    ("s3://bucket/lake", "s3://bucket/x.lance"): True,
    ("s3://bucket/lake", "s3://elsewhere/x.lance"): False,
    ("s3://bucket/lake", "gs://bucket/x.lance"): False,
    ("s3://bucket/lake", "/etc/x.lance"): False,
    ("az://box/lake", "az://box/x.lance"): True,
}


@pytest.mark.parametrize(("root", "location"), READS)
def test_credentials_go_only_to_the_store_they_were_given_for(root: str, location: str) -> None:
    bare, named = Reach(parse(root)), Reach(parse(root), [location])
    if READS[root, location]:
        assert bare.address(location) == location
    else:
        with pytest.raises(OutsideLake):
            bare.address(location)
    with pytest.raises(OutsideLake):
        bare.writable(location)
    assert named.address(location) == location
    named.writable(location)
    assert named.allows(f"{location}/deeper")
    assert not named.allows(f"{location}-other")


def test_a_setting_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="external"):
        quire.create(tmp_path / "lake", external="yes")
