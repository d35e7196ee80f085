"""A deep verify finds rows that share a key or a stable row id, and says which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.lake.commit.table_change import Edit
from quire.lake.upkeep import verify_unique


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake", backfill=False) as made:
        with made.transaction() as tx:
            tx.create_table("plain", [{"id": 1}, {"id": 1}])
            tx.create_table("keyed", [{"id": i, "at": float(i)} for i in range(10)], key=["id", "at"])
            tx.create_table("stable", [{"id": i} for i in range(5)], stable_row_ids=True)
        yield made


def smuggle(lake: quire.Lake, name: str, rows: pa.Table) -> None:
    """Append rows past every check of the lake, as a plain writer's rows once came in."""
    with lake.transaction() as tx:
        edit = tx[name]._edit
        assert edit.base is not None
        free = Edit(edit.info, edit.base, ops=["append"])
        free.work = lake._core.format("lance").begin(edit.base.pin, write=tx.write, table=name)
        free.work.rows.append(rows, missing="null")
        tx.edits[edit.info.id] = free


def share_row_ids(lake: quire.Lake) -> None:
    """Append a fragment of the table again under the same row ids."""
    from lance import LanceOperation as Op
    from lance.fragment import FragmentMetadata

    with lake.transaction() as tx:
        edit = tx["stable"]._edit
        assert edit.base is not None
        work: Any = lake._core.format("lance").begin(edit.base.pin, write=tx.write, table="stable")
        [fragment] = work.draft.base.get_fragments()
        again = FragmentMetadata.from_json(json.dumps({**fragment.metadata.to_json(), "id": 0}))
        work.draft.chain(work.draft.stager.detach(work.draft.base, Op.Append([again])))
        edit.work = work
        edit.did("append")


def test_rows_that_are_all_different_are_sound(lake: quire.Lake) -> None:
    told: list[tuple[str, int, int | None]] = []
    found = lake.verify(lambda *step: told.append(step), deep=True)
    assert found.findings == []
    assert [step for step in told if step[0] == "keys"] == [("keys", n, None) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": 3, "at": 3.0}], "id=3, at=3.0"),
        ([{"id": 77, "at": 0.5}, {"id": 77, "at": 0.5}], "id=77"),
        ([{"id": 0, "at": -0.0}], "id=0"),
        ([{"id": 5, "at": None}], "no value in the key"),
    ],
    ids=["of an older row", "of each other", "zero by another sign", "null"],
)
def test_rows_that_share_a_key_are_found(lake: quire.Lake, rows: list[dict[str, Any]], said: str) -> None:
    smuggle(lake, "keyed", pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("at", pa.float64())])))
    assert lake.verify().ok
    [finding] = lake.verify(deep=True).findings
    assert (finding.check, finding.where) == ("key", "table 'keyed' version 2")
    assert said in finding.message


def test_rows_that_share_a_stable_id_are_found(lake: quire.Lake) -> None:
    share_row_ids(lake)
    [finding] = [f for f in lake.verify(deep=True).findings if f.check != "rows"]
    assert (finding.check, finding.where) == ("row id", "table 'stable' version 2")


def test_branches_and_tags_are_looked_at_and_what_is_past_is_not(lake: quire.Lake) -> None:
    side = lake.create_branch("side")
    duplicate = pa.table({"id": [3], "at": [3.0]})
    smuggle(side, "keyed", duplicate)
    smuggle(lake, "keyed", duplicate)
    lake.tag("bad")
    with lake.transaction() as tx:
        tx["keyed"].delete("id = 3")
    assert [f.where for f in lake.verify(deep=True).findings] == ["table 'keyed' version 2"] * 2
    lake.delete_tag("bad")
    assert len(lake.verify(deep=True).findings) == 1


def test_what_does_not_fit_into_memory_goes_to_disk(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_unique, "MEMORY", "24MB")
    count = 600_000
    lake.create_table("large", pa.table({"id": [f"{i:032d}" for i in range(count)]}), key="id")
    assert lake.verify(deep=True).findings == []


def test_types_that_sql_lacks_are_compared_all_the_same(lake: quire.Lake) -> None:
    kinds = {
        "duration": pa.array([1, 2], pa.duration("ns")),
        "binary": pa.array([b"a", b"b"], pa.binary()),
        "time": pa.array([1, 2], pa.time64("ns")),
        "unsigned": pa.array([0, 2**64 - 1], pa.uint64()),
    }
    for name, values in kinds.items():
        lake.create_table(name, pa.table({"k": values}), key="k")
    assert lake.verify(deep=True).findings == []
    for name, values in kinds.items():
        smuggle(lake, name, pa.table({"k": values}))
    assert len(lake.verify(deep=True).findings) == len(kinds)
