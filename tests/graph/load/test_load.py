"""Rows from files and frames: modes, errors with file and line, one commit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.load import LoadReceipt, load
from quire.graph.schema.apply import apply

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  tags: [String]?
  photo: Blob?
  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge Likes: Person -> Person
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as made:
        with made.transaction("schema") as tx:
            apply(tx, SCHEMA)
        yield made


def loaded(lake: quire.Lake, source: Any, mode: Any = "append", **more: Any) -> LoadReceipt:
    with lake.transaction("load") as tx:
        receipt = load(tx, source, mode, **more)
    return receipt


def lines(path: Path, *rows: Any) -> str:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return str(path)


PEOPLE = [{"type": "Person", "data": {"name": n, "age": 30}} for n in ("Alice", "Bob")]
EDGE = {"edge": "Knows", "from": "Alice", "to": "Bob", "data": {"since": "2020-01-01"}}


def test_nodes_and_edges_of_one_file_land_in_one_commit(lake: quire.Lake, tmp_path: Path) -> None:
    receipt = loaded(lake, lines(tmp_path / "g.ndjson", EDGE, "", *PEOPLE))
    assert {n: t.inserted for n, t in receipt.types.items()} == {"Knows": 1, "Person": 2}
    [edge] = lake["edge:Knows"].to_pylist()
    assert (edge["src"], edge["dst"], edge["since"].isoformat()) == ("Alice", "Bob", "2020-01-01")
    assert edge["id"][14] == "7"


def test_compressed_files_are_read(lake: quire.Lake, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, PEOPLE)).encode()))
    assert loaded(lake, str(path)).rows == 2


@pytest.mark.parametrize(
    ("row", "rule", "property"),
    [
        ({"type": "Person", "data": {"name": "E", "age": "x"}}, "type", "age"),
        ({"type": "Person", "data": {"name": "E", "age": 151}}, "range", "age"),
        ({"type": "Person", "data": {"name": "E", "agee": 1}}, "property", "agee"),
        ({"type": "Person", "data": {"age": 1}}, "required", "name"),
        ({"type": "Persn", "data": {}}, "unknown", None),
        ({"edge": "Knows", "from": "Alice", "to": "Nobody"}, "end", "to"),
        ({"edge": "Knows", "from": "Alice"}, "required", "to"),
        ({"type": "Person", "data": {"name": "Alice"}}, "key", "name"),
        ("{no json", "json", None),
    ],
)
def test_an_error_names_file_line_property_and_rule(
    lake: quire.Lake, tmp_path: Path, row: Any, rule: str, property: str | None
) -> None:
    path = lines(tmp_path / "g.ndjson", *PEOPLE, row)
    with pytest.raises(IntegrityError) as caught:
        loaded(lake, path)
    [found] = caught.value.violations
    assert (found["rule"], found.get("property"), found["file"], found["line"]) == (rule, property, path, 3)
    assert lake["node:Person"].count() == 0


def test_append_refuses_what_is_there_and_merge_replaces_it(lake: quire.Lake) -> None:
    loaded(lake, PEOPLE)
    with pytest.raises(IntegrityError, match="exists already"):
        loaded(lake, PEOPLE)
    receipt = loaded(lake, [{"type": "Person", "data": {"name": "Bob", "age": 5}}], "merge")
    assert (receipt.types["Person"].inserted, receipt.types["Person"].updated) == (0, 1)
    assert {r["name"]: r["age"] for r in lake["node:Person"].to_pylist()} == {"Alice": 30, "Bob": 5}


def test_an_edge_is_merged_by_what_is_unique(lake: quire.Lake) -> None:
    loaded(lake, [*PEOPLE, EDGE])
    [before] = lake["edge:Knows"].to_pylist()
    receipt = loaded(lake, [{**EDGE, "data": {"since": "2021-01-01"}}], "merge")
    [after] = lake["edge:Knows"].to_pylist()
    assert receipt.types["Knows"].updated == 1
    assert after["id"] == before["id"]
    assert after["since"].year == 2021


def test_an_edge_that_nothing_identifies_is_new_in_every_merge(lake: quire.Lake) -> None:
    loaded(lake, PEOPLE)
    for count in (1, 2):
        loaded(lake, [{"edge": "Likes", "from": "Alice", "to": "Bob"}], "merge")
        assert lake["edge:Likes"].count() == count
    assert loaded(lake, [{"edge": "Likes", "id": "l1", "from": "Alice", "to": "Bob"}], "merge").rows == 1


def test_overwrite_replaces_a_type_and_refuses_to_orphan(lake: quire.Lake) -> None:
    loaded(lake, [*PEOPLE, EDGE])
    with pytest.raises(IntegrityError) as caught:
        loaded(lake, PEOPLE[:1], "overwrite")
    assert caught.value.rule == "orphan"
    receipt = loaded(lake, [*PEOPLE[1:], {**EDGE, "from": "Bob"}], "overwrite")
    assert receipt.types["Person"].removed == 2
    assert [r["id"] for r in lake["node:Person"].to_pylist()] == ["Bob"]


def test_csv_is_read_by_the_types_of_the_properties(lake: quire.Lake, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text('name,age,born,tags\nAlice,3,2020-01-01,"[""a"", ""b""]"\n"Bo\nb",,,\nEve,x,,\n')
    with pytest.raises(IntegrityError) as caught:
        loaded(lake, str(path))
    assert (caught.value.line, caught.value.property) == (5, "age")
    assert loaded(lake, str(path), skip_rejects=True).rejected == 1
    rows = {r["name"]: r for r in lake["node:Person"].to_pylist()}
    assert rows["Alice"]["tags"] == ["a", "b"]
    assert rows["Bo\nb"]["age"] is None


@pytest.mark.parametrize("kind", ["parquet", "arrow", "table", "pandas", "polars", "rows"])
def test_columns_come_from_anywhere(lake: quire.Lake, tmp_path: Path, kind: str) -> None:
    table = pa.table({"name": ["Alice", "Bob"], "age": pa.array([1, 2], pa.int64())})
    source: Any = {"table": table, "rows": table.to_pylist()}.get(kind)
    if kind == "parquet":
        source = str(tmp_path / "p.parquet")
        pq.write_table(table, source)
    elif kind == "arrow":
        source = str(tmp_path / "p.arrow")
        with pa.ipc.new_file(source, table.schema) as file:
            file.write_table(table)
    elif kind == "pandas":
        source = table.to_pandas()
    elif kind == "polars":
        source = pytest.importorskip("polars").from_arrow(table)
    assert loaded(lake, source, type="Person").rows == 2
    edges = pa.table({"from": ["Alice"], "to": ["Bob"]})
    assert loaded(lake, edges, edge="Knows").rows == 1


def test_a_dry_run_finds_the_same_and_writes_nothing(lake: quire.Lake) -> None:
    tx = lake.transaction()
    assert load(tx, PEOPLE, dry_run=True).rows == 2
    assert lake["node:Person"].count() == 0
    with pytest.raises(IntegrityError):
        load(lake.transaction(), [EDGE], dry_run=True)


def test_rejects_are_written_and_skipped_on_request(lake: quire.Lake, tmp_path: Path) -> None:
    out = tmp_path / "rejects.ndjson"
    bad = {"type": "Person", "data": {"name": "Eve", "age": 999}}
    lost = {"edge": "Likes", "from": "Alice", "to": "Eve"}
    receipt = loaded(lake, [*PEOPLE, bad, lost], rejects=out, skip_rejects=True)
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert [t["rule"] for t in told] == ["range", "end"]
    assert told[0]["row"]["data"]["name"] == "Eve"
    assert receipt.rejected == 2
    assert lake["edge:Likes"].count() == 0


def test_errors_are_collected_up_to_a_number(lake: quire.Lake) -> None:
    rows = [{"type": "Person", "data": {"name": f"p{n}", "age": 999}} for n in range(50)]
    with pytest.raises(IntegrityError) as caught:
        loaded(lake, rows, max_errors=7)
    assert len(caught.value.violations) == 7
    assert "And at least 4 more: the search stopped at 7." in caught.value.message
    assert (caught.value.fields["count"], caught.value.fields["stopped"]) == (7, True)


@pytest.mark.parametrize(
    ("wrong", "options", "said"),
    [
        (5, {"max_errors": 2}, "There may be more: the search stopped at 2."),
        (5, {"max_errors": 20}, "And 2 more."),
        (3, {"max_errors": 20}, ""),
        (9, {"skip_rejects": 5}, "And at least 3 more: the search stopped at 6."),
    ],
)
def test_a_refused_load_says_whether_it_found_everything(
    lake: quire.Lake, wrong: int, options: dict[str, Any], said: str
) -> None:
    rows = [{"type": "Person", "data": {"name": f"p{n}", "age": 999}} for n in range(wrong)]
    with pytest.raises(IntegrityError) as caught:
        loaded(lake, rows, **options)
    assert caught.value.message.endswith(said or "999.") or said in caught.value.message
    assert ("more" in caught.value.message) == bool(said)
    assert caught.value.fields["stopped"] == ("stopped" in said)


def test_blobs_are_base64(lake: quire.Lake) -> None:
    loaded(lake, [{"type": "Person", "data": {"name": "Eve", "photo": "base64:aGk="}}])
    assert lake["node:Person"].count("photo is not null") == 1


def test_many_interleaved_rows_spill_and_land(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.graph.load.gather.MEMORY", 1 << 20)

    def rows() -> Iterator[dict[str, Any]]:
        for n in range(30_000):
            yield {"type": "Person", "data": {"name": f"p{n}"}}
            yield {"edge": "Likes", "from": f"p{n}", "to": f"p{(n * 7) % 30_000}"}

    receipt = loaded(lake, rows())
    assert receipt.rows == 60_000
    assert lake["edge:Likes"].count() == lake["node:Person"].count() == 30_000
