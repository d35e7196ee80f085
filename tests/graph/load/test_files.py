"""Files as they come: long rows, blank lines, text streams, and the file that rejects go to."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire.errors import IntegrityError, InvalidInput, StorageError
from quire.graph.graph import Graph
from quire.graph.load import load, readers
from quire.rowfiles import columnar

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? }
node Word { text: String @key }
edge Knows: Person -> Person @card(1..)
edge Likes: Person -> Person { @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = Graph(lake)
        made.apply_schema(SCHEMA.replace(" @card(1..)", ""))
        yield made


def names(graph: Graph, table: str = "node:Person") -> list[str]:
    return sorted(r["id"] for r in graph.lake[table].scan(columns=["id"]).to_pylist())


# -- CSV --------------------------------------------------------------------------------------------------------------


def test_a_row_of_several_megabytes_is_read(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text("name,note\nAda," + "x" * (5 << 20) + "\nBob,y\n")
    assert graph.load(path).rows == 2


def test_blank_lines_and_broken_ones_count_as_lines(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text('name,age\n\n"A\nda",1\ntoo,many,fields\n\n\nBob,x\nEve,2\nfew\n')
    with pytest.raises(IntegrityError) as caught:
        graph.load(path)
    assert [(v["line"], v["rule"]) for v in caught.value.violations] == [(5, "csv"), (8, "type"), (10, "csv")]
    assert graph.load(path, skip_rejects=True).rejected == 3
    assert names(graph) == ["A\nda", "Eve"]


def test_a_blank_line_of_a_file_with_one_column_is_no_row(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "Word.csv"
    path.write_text('text\none\n\n""\n\ntwo\n')
    graph.load(path)
    assert names(graph, "node:Word") == ["", "one", "two"]


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_a_file_that_was_opened_as_text_is_read(graph: Graph, tmp_path: Path, format: Any) -> None:
    text = "name\nÅda\n" if format == "csv" else '{"name": "Åda"}\n'
    graph.load(io.StringIO(text), type="Person", format=format)
    path = tmp_path / "rows"
    path.write_text(text.replace("Åda", "Bøb"), "utf-8")
    with path.open(encoding="utf-8") as stream:
        graph.load(stream, type="Person", format=format)
    assert names(graph) == ["Bøb", "Åda"]


def test_few_rows_are_read_at_once_when_they_are_large(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "BYTES", 1 << 16)
    seen: list[int] = []
    taken = readers.Typist.columns

    def noted(self: Any, batch: pa.RecordBatch, *more: Any, **named: Any) -> Any:
        seen.append(batch.num_rows)
        return taken(self, batch, *more, **named)

    monkeypatch.setattr(readers.Typist, "columns", noted)
    rows = [{"name": str(i), "note": f"{i:05}" * 2_000} for i in range(100)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "Person.parquet", compression="none", use_dictionary=False)
    graph.load(tmp_path / "Person.parquet")
    assert max(seen) <= 8
    assert len(names(graph)) == 100


# -- rejects ----------------------------------------------------------------------------------------------------------


def test_the_file_of_rejects_is_that_of_this_load(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "rejects.ndjson"
    graph.load([{"name": "a", "age": "x"}, {"name": "b", "age": "y"}], type="Person", skip_rejects=True, rejects=path)
    assert len(path.read_text().splitlines()) == 2
    graph.load([{"name": "c"}], type="Person", skip_rejects=True, rejects=path)
    assert path.read_text() == ""


def test_rejects_that_cannot_be_written_are_told_as_such(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="rejects cannot be written"):
        graph.load(
            [{"name": "a", "age": "x"}], type="Person", skip_rejects=True, rejects=tmp_path / "no" / "file.ndjson"
        )


def test_rejects_never_overwrite_what_is_loaded(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text("name,age\na,x\n")
    with pytest.raises(InvalidInput, match="is loaded"):
        graph.load(path, skip_rejects=True, rejects=path)
    assert path.read_text() == "name,age\na,x\n"


def test_a_receipt_says_which_rows_were_left_out_and_why(graph: Graph) -> None:
    rows = [
        {"type": "Person", "data": {"name": "a"}},
        {"type": "Person", "data": {"name": "b", "age": "x"}},
        {"edge": "Likes", "from": "a", "to": "nobody"},
        {"type": "Persn", "data": {}},
    ]
    done = graph.load(rows, skip_rejects=True)
    assert {name: (t.inserted, t.rejected) for name, t in done.types.items()} == {
        "Person": (1, 1),
        "Likes": (0, 1),
        "Persn": (0, 1),
    }
    assert sorted(v.rule for v in done.violations) == ["end", "type", "unknown"]


def test_a_violation_names_the_line_of_the_row_that_is_loaded(graph: Graph, tmp_path: Path) -> None:
    """Two rows have one id: the second is rejected, and what is wrong with the first is told with the first's line."""
    path = tmp_path / "g.ndjson"
    edge = {"edge": "Likes", "id": "e", "from": "a", "to": "nobody"}
    rows = [{"type": "Person", "data": {"name": "a"}}, edge, edge]
    path.write_text("\n".join(map(json.dumps, rows)))
    done = graph.load(path, skip_rejects=True)
    assert sorted((v.rule, v.line) for v in done.violations) == [("end", 2), ("key", 3)]


def test_many_rows_are_skipped_in_few_looks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from quire.graph.load import in_memory

    looks = []
    found = in_memory.InMemory.culprits

    def noted(self: Any, *more: Any) -> Any:
        looks.append(more)
        return found(self, *more)

    monkeypatch.setattr(in_memory.InMemory, "culprits", noted)
    people = [{"type": "Person", "data": {"name": str(i)}} for i in range(10)]
    edges = [{"edge": "Likes", "from": str(i % 10), "to": f"nobody {i}"} for i in range(1_000)]
    good = {"edge": "Likes", "from": "1", "to": "2"}
    done = graph.load([*people, *edges, good], skip_rejects=True)
    assert (done.types["Likes"].inserted, done.types["Likes"].rejected) == (1, 1_000)
    assert len(looks) <= 2


# -- several loads in one commit --------------------------------------------------------------------------------------


def test_nodes_may_come_before_the_edges_that_they_need(tmp_path: Path) -> None:
    person, edge = {"type": "Person", "data": {"name": "a"}}, {"edge": "Knows", "from": "a", "to": "a"}
    with quire.create(str(tmp_path / "card"), backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        with lake.transaction() as tx:
            load(tx, [person])
            load(tx, [edge])
        assert names(graph) == ["a"]
        with pytest.raises(IntegrityError, match="at least 1"), lake.transaction() as tx:
            load(tx, [{"type": "Person", "data": {"name": "b"}}])
        for more in ({}, {"dry_run": True}):
            with pytest.raises(IntegrityError) as caught:
                graph.load([{"type": "Person", "data": {"name": "b"}}], **more)
            assert (caught.value.rule, caught.value.line) == ("card", 1)


def test_rejected_rows_can_be_corrected_and_loaded_again(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "rejects.ndjson"
    graph.load([{"type": "Person", "data": {"name": "a", "age": 3}}])
    rows = [
        {"edge": "Likes", "from": "a", "to": "later"},
        {"type": "Person", "data": {"name": "a", "note": "again"}},
        {"edge": "Likes", "from": "a", "to": "a"},
    ]
    assert graph.load(rows, skip_rejects=True, rejects=path).rejected == 2
    told = [json.loads(line)["row"] for line in path.read_text().splitlines()]
    assert sorted(told, key=str) == [
        {"edge": "Likes", "from": "a", "to": "later", "data": {}},
        {"type": "Person", "data": {"name": "a", "note": "again"}},
    ]
    again = [{"type": "Person", "data": {"name": "later"}}, *told]
    graph.load(again, "merge")
    assert graph.lake["edge:Likes"].count() == 2


def test_a_row_that_is_in_no_file_is_named_by_its_number(graph: Graph) -> None:
    with pytest.raises(IntegrityError, match=r"^row 2: Person.*age must be a whole number"):
        graph.load([{"name": "a"}, {"name": "b", "age": "x"}], type="Person")


@pytest.mark.parametrize("source", [5, [5], None, b"rows"])
def test_what_holds_no_rows_is_refused(graph: Graph, source: Any) -> None:
    with pytest.raises(InvalidInput, match="it is not a source of rows"):
        graph.load(source, type="Person")
