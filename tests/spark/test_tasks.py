"""Tasks that fail, die and are run again: exactly the right rows, in exactly one commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.fragment
import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import DuplicateKeys, InvalidInput, KeyConflict, QuireError
from quire.formats import tasks
from quire.formats.tasks import grouped
from quire.lake import engines
from quire.lake.key_files import KeyFiles
from quire.spark import jobs


def failing(how: str, marker: Path) -> Any:
    """Passes rows on; the first attempt ends after it has delivered most of them."""

    def run(batches: Any) -> Any:
        import os
        import signal

        for batch in batches:
            yield batch.slice(0, batch.num_rows - 1)
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("this attempt is over")
            yield batch.slice(batch.num_rows - 1)

    return run


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_task_that_is_run_again_counts_once(lake: quire.Lake, spark: Any, tmp_path: Path, how: str) -> None:
    marker = tmp_path / "failed"
    rows = spark.range(0, 20_000, 1, 2).mapInArrow(failing(how, marker), "id long")
    with quire.spark.transaction(spark, lake) as tx:
        tx.create_table("t", rows, key="id")
    assert marker.exists()
    assert lake["t"].count() == 20_000
    assert lake.sql("select count(distinct id) as n, sum(id) as s from t").to_pylist() == [
        {"n": 20_000, "s": sum(range(20_000))}
    ]
    assert len(list(lake.log())) == 2


def test_the_driver_writes_no_data_file(lake: quire.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", [{"id": 1}], key="id")

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the driver writes a data file")

    monkeypatch.setattr(lance.fragment, "write_fragments", never)
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].upsert(spark.range(5))
        tx["t"].insert(spark.range(10, 12))
        tx["t"].delete(spark.range(2))
    assert sorted(row["id"] for row in lake["t"].to_pylist()) == [2, 3, 4, 10, 11]


def written_here() -> int:
    """Bytes that this process has given to the system to write, to files and elsewhere."""
    lines = Path("/proc/self/io").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the accounts of /proc")
def test_what_the_driver_writes_does_not_follow_the_data(lake: quire.Lake, spark: Any) -> None:
    """Every byte of every data file passes through an executor: the system's own accounts say so."""
    lake.create_table("t", schema=pa.schema([("id", pa.int64()), ("v", pa.float64())]), key="id")

    def rows(low: int, high: int) -> Any:
        return spark.range(low, high, 1, 2).selectExpr("id", "rand() as v")

    before = written_here()
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].insert(rows(0, 300_000))
    with quire.spark.transaction(spark, lake) as tx:
        assert tx["t"].upsert(rows(100_000, 400_000)) == {"inserted": 100_000, "updated": 200_000}
        assert tx["t"].delete(spark.range(0, 50_000)) == 50_000
    here = written_here() - before
    files = [file.stat().st_size for file in Path(lake.uri).glob("**/data/*.lance")]
    assert sum(files) > 5_000_000
    assert here < sum(files) / 20


def test_a_task_that_never_succeeds_leaves_the_lake_as_it_was(lake: quire.Lake, spark: Any) -> None:
    lake.create_table("t", [{"id": 1}])

    def broken(batches: Any) -> Any:
        for batch in batches:
            yield batch
            raise RuntimeError("every attempt is over")

    with pytest.raises(Exception, match="every attempt is over"), quire.spark.transaction(spark, lake) as tx:
        tx["t"].append(spark.range(0, 10, 1, 1).mapInArrow(broken, "id long"))
    assert quire.open(lake.uri)["t"].to_pylist() == [{"id": 1}]


def test_an_error_of_a_task_comes_as_the_class_that_it_was(spark: Any) -> None:
    def refuse(number: int) -> Any:
        if number == 1:
            raise KeyConflict("There is one.", next="Look.", table="t", keys=[{"id": 1}])
        return {}, b""

    with pytest.raises(KeyConflict) as caught:
        jobs.on_numbers(spark, 2, refuse)
    assert (caught.value.message, caught.value.next, caught.value.keys) == ("There is one.", "Look.", [{"id": 1}])


@pytest.mark.parametrize("error", [InvalidInput("a"), DuplicateKeys("b", next="c", table="t"), QuireError("d")])
def test_errors_survive_the_way(error: QuireError) -> None:
    back = engines.rebuilt(error.to_dict())
    assert type(back) is type(error)
    assert back.to_dict() == error.to_dict()


@pytest.mark.parametrize("unique", [True, False])
def test_keys_are_compared_in_rounds_where_there_is_no_spark(lake: quire.Lake, unique: bool) -> None:
    lake.create_table("t", pa.table({"id": range(50), "kind": [str(i % 7) for i in range(50)]}))
    on = ("id", "kind")
    with lake.transaction() as tx:
        place = tx["t"].target()

        def keys(rows: list[tuple[int, str]], few: int) -> KeyFiles:
            data = pa.table({"id": [i for i, _ in rows], "kind": [k for _, k in rows]})
            fragments, count = tasks.write_rows(tasks.Output(place, "t", on), data.to_batches(max_chunksize=5))
            return KeyFiles(None, place, tuple(tasks.paths_of(place, fragments)), on, count, "t", unique, few)

        some = [(i, str(i % 7)) for i in range(40, 60)]
        whole, shared = keys(some, 1000).seek(place, None), keys(some, 8).seek(place, None)
        assert (shared.matched, shared.addresses) == (whole.matched, whole.addresses)
        assert shared.matched == 10
        keys(some, 8).check_distinct()
        with pytest.raises(DuplicateKeys) as caught:
            keys([*some, (44, "2")], 8).check_distinct()
        assert caught.value.keys == [{"id": 44, "kind": "2"}]


def test_fragments_are_grouped_by_rows() -> None:
    assert grouped([], 10) == []
    assert grouped([(0, 4), (1, 4), (2, 4), (7, 50), (8, 1)], 10) == [[0, 1], [2], [7], [8]]
