"""A plain writer and the lake number new rows side by side: adopted rows never share a stable id with others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.formats.lance.conftest import content, place, plain, rows
from tests.formats.lance.head.test_foreign import FOREIGN

import quire


@pytest.fixture(params=["id", None], ids=["keyed", "unkeyed"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[quire.Lake]:
    """A lake with a table `t` of stable row ids and an index on them."""
    with quire.create(tmp_path / "lake", backfill=False) as made:
        made.create_table("t", rows(1, 2, 3), key=request.param, stable_row_ids=True)
        with made.transaction() as tx:
            tx["t"].create_index("id", "BTREE")
        made.backfill()
        yield made


def pinned(lake: quire.Lake) -> Any:
    state = lake.snapshot()._state.by_name("t")
    assert state is not None
    return lance.dataset(place(lake, "t"), version=int(state.pin.version))


def check(handle: Any) -> None:
    """Every row has an id of its own, and the index answers as a scan does."""
    found = handle.to_table(columns=["id", "v"], with_row_id=True)
    ids = found["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)
    for number in found["id"].to_pylist():
        asked = {"filter": f"id = {number}"}
        scanned = handle.scanner(**asked, use_scalar_index=False).to_table().to_pylist()
        assert handle.scanner(**asked).to_table().to_pylist() == scanned


@pytest.mark.parametrize("writer", ["append", "two appends", "delete", "update", "upsert", "append and compact"])
def test_no_row_shares_its_id_after_an_adoption_beside_other_rows(lake: quire.Lake, writer: str) -> None:
    write, expected = FOREIGN[writer]
    with lake.transaction() as tx:
        tx["t"].append(rows(50, 51))
    write(place(lake, "t"))
    assert lake.adopt("t").branch == "main"
    assert content(lake) == sorted([*expected, (50, 500), (51, 510)])
    check(pinned(lake))
    with lake.transaction() as tx:
        tx["t"].append(rows(60, 61))
    lake.optimize()
    check(pinned(lake))
    lake.backfill()
    check(lance.dataset(place(lake, "t")))
    lance.write_dataset(rows(90), place(lake, "t"), mode="append")
    lake.adopt("t")
    check(pinned(lake))
    assert content(lake) == plain(lake, "t") == sorted([*expected, *((i, 10 * i) for i in (50, 51, 60, 61, 90))])


def test_a_row_that_a_plain_writer_changed_keeps_its_id(lake: quire.Lake) -> None:
    before = {r["id"]: r["_rowid"] for r in pinned(lake).to_table(columns=["id"], with_row_id=True).to_pylist()}
    with lake.transaction() as tx:
        tx["t"].append(rows(50))
    FOREIGN["update"][0](place(lake, "t"))
    lake.adopt("t")
    after = {r["id"]: r["_rowid"] for r in pinned(lake).to_table(columns=["id"], with_row_id=True).to_pylist()}
    assert {number: after[number] for number in before} == before
