"""The same loads in this process and by numbered tasks: the same tables, receipts, errors, violations and rejects."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.graph.load.cases import CASES, assert_alike
from tests.graph.load.twice import edge, person, prepared, written

import quire
from quire.errors import InvalidInput
from quire.graph.embed import HashEmbedder
from quire.testing.tasks import PickledTasks


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("graph") / "base")


@pytest.mark.parametrize("name", CASES)
def test_tasks_do_and_tell_the_same(base: Path, tmp_path: Path, name: str) -> None:
    assert_alike(base, tmp_path, CASES[name], PickledTasks(repeats=True))


def test_every_file_is_read_by_a_task_and_rows_stay_with_the_tasks(tmp_path: Path) -> None:
    graph = quire.Graph(quire.open(prepared(tmp_path / "lake")), embedder=HashEmbedder(4))
    people = [[person(f"n{file}-{i}", text="tea" * 200) for i in range(400)] for file in range(5)]
    source = written(tmp_path / "in", [*people, [edge("Likes", "n0-0", "n4-0")]])
    engine = PickledTasks()
    done = graph.load(source, engine=engine)
    assert (done.rows, engine.jobs[0]) == (2001, 6)
    assert engine.largest < 64 << 10, "no row crosses the seam"


def test_rows_of_this_process_are_no_source_for_tasks(tmp_path: Path) -> None:
    graph = quire.Graph(quire.open(prepared(tmp_path / "lake")))
    with pytest.raises(InvalidInput, match="from files"):
        graph.load([person("a")], engine=PickledTasks())


def test_an_embedder_that_cannot_be_pickled_is_refused(tmp_path: Path) -> None:
    graph = quire.Graph(quire.open(prepared(tmp_path / "lake")), embedder=HashEmbedder(4))
    graph.embedder.lock = threading.Lock()  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="cannot be sent"):
        graph.load(written(tmp_path / "in", [[person("a")]]), engine=PickledTasks())
