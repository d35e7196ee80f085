"""Statements about one row cost the same however many fragments no index covers, on a handle that knows nothing too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.laboratory.costs.lakes import Laid, rows

import quire
from quire.testing.s3 import SeaweedFS

FEW, MANY = 50, 1000
ROWS = 100
"""Rows that the index covers. Each fragment after them holds one more."""
Act = Callable[[quire.Transaction, int], object]

VERBS: dict[str, tuple[Act, tuple[int, int], tuple[int, int]]] = {
    # requests and hops: of the first statement of a handle, and of those after it
    "upsert of a new row": (lambda tx, n: tx["t"].upsert(rows(10_000_000 + n), on="id"), (6, 5), (3, 2)),
    "upsert of a row that is there": (lambda tx, n: tx["t"].upsert(rows(ROWS + n), on="id"), (7, 6), (4, 3)),
    "strict insert": (lambda tx, n: tx["t"].insert(rows(20_000_000 + n), on="id"), (6, 5), (3, 2)),
    "update": (lambda tx, n: tx["t"].update(values={"text": "new"}, where=f"id = {ROWS + 10 + n}"), (7, 5), (4, 3)),
    "delete": (lambda tx, n: tx["t"].delete(f"id = {ROWS + 20 + n}"), (6, 6), (3, 3)),
}


@pytest.fixture(scope="module")
def scattered(s3: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """By its number of fragments, a lake whose table has an index over the first of them alone."""
    found = {}
    for count in (FEW, MANY):
        folder = tmp_path_factory.mktemp("scattered") / "lake"
        _make(folder, count)
        found[count] = s3.uri(f"scattered-{count}")
        Laid(folder, found[count], s3.options)
        shutil.rmtree(folder)
    return found


def _make(folder: Path, count: int) -> None:
    with quire.create(folder) as lake:
        with lake.transaction() as tx:
            tx.create_table("t", rows(0, ROWS)).create_index("id")
        lake.flush()
        with lake.transaction() as tx:
            for number in range(count - 1):
                tx["t"].append(rows(ROWS + number))
        lake.flush()


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("verb", VERBS)
def test_the_number_of_fragments_does_not_matter(
    scattered: dict[int, str], s3: SeaweedFS, verb: str, count: int
) -> None:
    act, first, warm = VERBS[verb]
    with quire.open(scattered[count], storage_options=s3.options, backfill=False) as lake:
        for number, (requests, hops) in enumerate((first, warm, warm)):
            with lake.transaction() as tx:
                act(tx, number)
            assert tx.receipt is not None
            cost = tx.receipt.cost
            made = sum(cost["requests"].values()) + sum(cost["external"].values())
            assert made <= requests, (number, cost)
            assert cost["hops"] <= hops, (number, cost)
            lake.flush()


def test_keys_are_read_from_the_log_where_nothing_was_stored(s3: SeaweedFS) -> None:
    """Each of forty writers died right after its commit; whoever comes has read their commits anyhow."""
    uri = s3.uri("scattered-log")
    with quire.create(uri, storage_options=s3.options, backfill=False) as lake:
        lake.create_table("t", rows(0, ROWS), key="id")
        lake._background.submit = lambda *args, **options: None  # type: ignore[method-assign]
        for number in range(20):
            with lake.transaction() as tx:
                tx["t"].append(rows(ROWS + number))
    with quire.open(uri, storage_options=s3.options, backfill=False) as lake:
        with lake.transaction() as tx:
            assert tx["t"].upsert(pa.concat_tables([rows(ROWS + 3), rows(5000)]), on="id") == {
                "inserted": 1,
                "updated": 1,
            }
        assert tx.receipt is not None
        assert sum(tx.receipt.cost["external"].values()) <= 10
        assert lake["t"].count() == ROWS + 21
