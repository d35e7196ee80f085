"""A write by the format `quire` beside cleanup: no process of ours lives as long as its job.

The calls are those that Spark makes: one process makes the writer, executors write, another process commits or aborts.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import Conflict, Fenced, Revoked
from quire.formats import tasks
from quire.lake.commit import detached
from quire.ledger.notes_and_leases import notes
from quire.spark import types
from quire.spark.datasource import _Writer

ROWS = pa.record_batch({"id": pa.array(range(100, 110), pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", [{"id": 1}])
        for n in range(3):
            with lake.transaction(f"more {n}") as tx:
                tx["t"].append([{"id": n}])
        yield lake


def begun(lake: quire.Lake, *, overwrite: bool = False) -> tuple[_Writer, Any]:
    schema = types.spark_schema(ROWS.schema)
    writer = pickle.loads(pickle.dumps(_Writer({"lake": lake.uri, "table": "t"}, schema, overwrite, None)))
    return writer, writer.write(iter([ROWS]))


def passes(lake: quire.Lake, seconds: float = 60.0) -> None:
    """Make everything in the lake look older, as the store sees it."""
    lake.close()
    for folder, _, names in os.walk(lake.uri):
        for path in (os.path.join(folder, name) for name in names):
            then = os.stat(path).st_mtime - seconds
            os.utime(path, (then, then))


def clean(lake: quire.Lake, **options: Any) -> int:
    return lake.cleanup(**{"keep": 1, "older_than": 0, "grace": 0, **options}).files


def test_a_long_job_keeps_its_files_and_leaves_no_note(lake: quire.Lake) -> None:
    writer, message = begun(lake)
    passes(lake)
    with lake.transaction("meanwhile") as tx:
        tx["t"].append([{"id": 7}])
    clean(lake)
    writer.commit([message])
    assert lake["t"].count() == 4 + 1 + 10
    assert list(notes(lake._core.store)) == []
    assert lake.verify().ok
    passes(lake)
    assert clean(lake) > 0
    assert lake.verify().ok


def test_a_job_that_was_taken_for_dead_is_refused_and_nothing_dangles(lake: quire.Lake) -> None:
    writer, message = begun(lake)
    passes(lake)
    clean(lake, dead_after=30)
    before = lake.head
    with pytest.raises(Revoked, match="Nothing was committed"):
        writer.commit([message])
    writer.abort([message])
    assert lake.snapshot().commit == before
    assert lake.verify().ok


def test_a_job_whose_base_was_buried_is_refused(lake: quire.Lake) -> None:
    writer, message = begun(lake)
    for round_ in range(2):
        passes(lake)
        with lake.transaction(f"meanwhile {round_}") as tx:
            tx["t"].append([{"id": 7}])
        passes(lake)
        clean(lake, dead_after=30)
    with pytest.raises(Revoked):
        writer.commit([message])
    assert lake.verify().ok


def test_an_aborted_job_leaves_no_note(lake: quire.Lake) -> None:
    writer, message = begun(lake)
    assert len(list(notes(lake._core.store))) == 1
    writer.abort([message])
    assert list(notes(lake._core.store)) == []


def test_a_job_whose_outcome_is_unknown_keeps_its_files_though_it_is_aborted(lake: quire.Lake) -> None:
    writer, message = begun(lake)
    passes(lake)
    detached.keep(lake, writer.begun)
    writer.abort([message])
    [left] = notes(lake._core.store)
    assert left.what.id != writer.begun.note
    with lake.transaction("meanwhile") as tx:
        tx["t"].append([{"id": 7}])
    clean(lake)
    written = [Path(path).name for path in tasks.paths_of(writer.output.place, message.fragments)]
    there = {path.name for path in Path(lake.uri).rglob("*.lance") if path.is_file()}
    assert written
    assert there.issuperset(written)


def test_an_overwrite_does_not_undo_what_came_while_it_was_written(lake: quire.Lake) -> None:
    writer, message = begun(lake, overwrite=True)
    with lake.transaction("meanwhile") as tx:
        tx["t"].append([{"id": 7}])
    with pytest.raises(Conflict, match="'t'"):
        writer.commit([message])
    assert lake["t"].count() == 5


@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "overwrite"])
def test_a_job_that_began_before_a_claim_is_refused(lake: quire.Lake, overwrite: bool) -> None:
    """The process that commits opens the lake after the claim; the work is older."""
    writer, message = begun(lake, overwrite=overwrite)
    before = lake["t"].count()
    lake.claim()
    with pytest.raises(Fenced) as caught:
        writer.commit([message])
    assert (caught.value.epoch, caught.value.began) == (1, 0)
    writer.abort([message])
    assert lake["t"].count() == before
    assert list(notes(lake._core.store)) == []
    later, message = begun(lake, overwrite=overwrite)
    later.commit([message])
    assert lake["t"].count() == (0 if overwrite else before) + ROWS.num_rows
