"""An index for which there were few rows, or none to learn from, is as healthy as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import InvalidInput
from quire.formats.lance.indexes.build import KINDS, OPTIONS

COLUMNS = {"LABEL_LIST": "labels", "INVERTED": "text", "NGRAM": "text"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("v", pa.list_(pa.float32(), 4)),
    ]
)
UNBUILT = {
    "empty": {"BITMAP"},
    "nulls": {"IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ"},
}
"""What Lance does not build over such rows: a typed refusal."""


def column(kind: str) -> str:
    return COLUMNS.get(kind, "v" if kind.startswith("IVF") else "id")


def rows(count: int, start: int = 0, *, nulls: bool = False) -> pa.Table:
    ids = pa.array(range(start, start + count), pa.int64())
    if nulls:
        return pa.table([ids, *(pa.nulls(count, SCHEMA.field(i).type) for i in range(1, 4))], schema=SCHEMA)
    vectors = np.random.default_rng(start).random((count, 4), np.float32)
    return pa.table(
        [
            ids,
            pa.array([f"word{i % 3} fox" for i in range(count)], pa.string()),
            pa.array([[f"l{i % 3}"] for i in range(count)], SCHEMA.field("labels").type),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4),
        ],
        schema=SCHEMA,
    )


SHAPES: dict[str, pa.Table] = {
    "empty": rows(0),
    "one row": rows(1),
    "few rows": rows(5),
    "nulls": rows(5, nulls=True),
    "many rows": rows(300),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_healthy_index_of_any_kind_is_verified_whatever_becomes_of_its_rows(tmp_path: Path, shape: str) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    built = []
    for kind in KINDS:
        lake.create_table(kind, SHAPES[shape])
        try:
            with lake.transaction() as tx:
                tx[kind].create_index(column(kind), kind)
            built.append(kind)
        except InvalidInput:
            pass
    assert set(KINDS) - set(built) == UNBUILT.get(shape, set())

    def change(statement: Any) -> None:
        with lake.transaction() as tx:
            for kind in built:
                statement(tx[kind])
        assert lake.verify(deep=True).findings == []

    change(lambda table: table.delete("id < 2"))
    change(lambda table: table.append(rows(4, 1000)))
    assert not [t for t in lake.optimize().tables if t.outcome == "failed"]
    assert lake.verify(deep=True).findings == []
    change(lambda table: table.delete("true"))
    lake.optimize()
    assert lake.verify(deep=True).findings == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_that_a_kind_does_not_know_is_refused_with_those_it_knows(tmp_path: Path, kind: str) -> None:
    lake = quire.create(f"memory://{tmp_path.name}-{kind}")
    lake.create_table("t", rows(5))
    foreign = {name for names in OPTIONS.values() for name in names} - set(OPTIONS.get(kind, ()))
    for option in sorted({*foreign, "metrik", "num_partition"}):
        with pytest.raises(InvalidInput) as caught, lake.transaction() as tx:
            tx["t"].create_index(column(kind), kind, **{option: 1})
        assert (caught.value.option, caught.value.index_kind) == (option, kind)
        assert all(name in str(caught.value.next) for name in OPTIONS.get(kind, ("none",)))
    assert lake["t"].indexes() == []
