"""Rejected rows go to a file or to a folder, by its name, whoever reads the rows; and the file holds the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.graph.load.cases import CASES
from tests.graph.load.twice import copies, loaded, person, prepared, written

import quire
from quire.errors import IntegrityError, InvalidInput, StorageError
from quire.rowfiles.rejects import names_folder
from quire.testing.tasks import PickledTasks

TOGETHER = "append without what breaks rules together"
ENGINES = pytest.mark.parametrize("engine", ["local", PickledTasks()], ids=["here", "tasks"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("graph") / "base")


@pytest.fixture
def graph(tmp_path: Path, base: Path) -> quire.Graph:
    return copies(base, tmp_path)[0]


def test_a_name_says_whether_it_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("", "utf-8")
    (tmp_path / "there.d").mkdir()
    folders = [tmp_path / "there.d", tmp_path / "new", f"{tmp_path}/new.d/", "s3://bucket/rejected", "s3://bucket/r/"]
    files = [tmp_path / "there", tmp_path / "new.ndjson", tmp_path / "a.b" / "c.txt", "s3://bucket/r.ndjson"]
    assert [names_folder(str(name)) for name in (*folders, *files)] == [True] * 5 + [False] * 4


@pytest.mark.parametrize("name", ["rejected.ndjson", "rejected"], ids=["file", "folder"])
@pytest.mark.parametrize("case", [TOGETHER, "append without rows that are wrong by themselves"])
def test_both_engines_write_the_same_rows_to_the_same_place(base: Path, tmp_path: Path, name: str, case: str) -> None:
    one = CASES[case]
    found = []
    for place, graph, engine in zip(("a", "b"), copies(base, tmp_path), ("local", PickledTasks()), strict=True):
        (tmp_path / place).mkdir()
        source = written(tmp_path / "in", one.files)
        done = loaded(graph, source, one.mode, tmp_path / place / name, engine=engine, **one.how)
        assert (len(done.rejects) >= one.rejected > 0, done.rejected) == (True, one.rejected)
        assert [entry.name for entry in (tmp_path / place).iterdir()] == [name], "nothing is left beside it"
        found.append(done.rejects)
    assert found[0] == found[1]


@ENGINES
def test_a_file_of_an_earlier_load_is_emptied_when_there_is_nothing_to_reject(
    graph: quire.Graph, tmp_path: Path, engine: Any
) -> None:
    rejects = tmp_path / "bad.ndjson"
    for rows, lines in (([person("a", age=900), person("b")], 1), ([person("c")], 0)):
        source = written(tmp_path / f"in{lines}", [rows])
        graph.load(source, skip_rejects=True, rejects=rejects, engine=engine)
        assert len(rejects.read_text("utf-8").splitlines()) == lines


@ENGINES
def test_a_load_that_is_refused_says_where_its_rejects_are(graph: quire.Graph, tmp_path: Path, engine: Any) -> None:
    source = written(tmp_path / "in", [[person("a", age=900)]])
    for rejects in (tmp_path / "bad.ndjson", tmp_path / "bad"):
        with pytest.raises(IntegrityError) as caught:
            graph.load(source, rejects=rejects, engine=engine)
        assert caught.value.fields["rejects"] == str(rejects)
    assert [json.loads(line)["line"] for line in (tmp_path / "bad.ndjson").read_text("utf-8").splitlines()] == [1]


@ENGINES
def test_a_file_that_is_read_or_cannot_be_written_is_refused(graph: quire.Graph, tmp_path: Path, engine: Any) -> None:
    source = written(tmp_path / "in", [[person("a", age=900)]])
    with pytest.raises(InvalidInput, match="is matched by"):
        graph.load(source, rejects=tmp_path / "in" / "bad.jsonl", engine=engine)
    with pytest.raises(StorageError, match="rejects cannot be written"):
        graph.load(source, skip_rejects=True, rejects=tmp_path / "in" / "0.jsonl" / "bad.ndjson", engine=engine)


def test_two_loads_write_to_one_folder(graph: quire.Graph, tmp_path: Path) -> None:
    for name in ("a", "b"):
        graph.load([person(name, age=900)], skip_rejects=True, rejects=tmp_path / "bad")
    files = sorted((tmp_path / "bad").iterdir())
    assert len(files) == 2
    assert all(file.name.endswith(".rejects.ndjson") for file in files)
