"""A graph is loaded on Spark as in this process: the same rows, receipts and errors."""

from __future__ import annotations

import json
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.graph.embed.service import serving

import quire
from quire.errors import EmbedderError, IntegrityError, InvalidInput, NotFound, QuireError, Refused
from quire.graph.embed import HashEmbedder, OpenAIEmbedder
from quire.graph.integrity.changes import catalog_of
from quire.graph.load.staged import inputs
from quire.graph.load.staged.read_task import portable
from quire.rowfiles import files as row_files

SCHEMA = """
node Person { name: String @key  age: I32?  since: Date?  @range(age, 0..150) }
node City { name: String @key }
edge Knows: Person -> Person { weight: F64? }
edge LivesIn: Person -> City @card(0..1)
"""


def node(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


def edge(type: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": type, "from": source, "to": target, "data": data}


PEOPLE = [node("Person", name=f"p{i}", age=i, since="2026-01-02") for i in range(30)]
REST = [
    node("City", name="Ulm"),
    *(edge("Knows", f"p{i}", f"p{(i * 7) % 30}", weight=i / 2) for i in range(1, 30)),
    *(edge("LivesIn", f"p{i}", "Ulm") for i in range(10)),
]


def written(folder: Path, **files: list[Any]) -> str:
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    return str(folder / "*.jsonl")


@pytest.fixture
def both(tmp_path: Path) -> tuple[quire.Graph, quire.Graph]:
    """The same empty graph twice: for this process, and for Spark."""
    made = [quire.Graph(quire.create(tmp_path / name)) for name in ("here", "there")]
    for one in made:
        one.apply_schema(SCHEMA)
    return made[0], made[1]


def content(graph: quire.Graph) -> dict[str, list[dict[str, Any]]]:
    """All rows; ids of edges are made anew by every load, so they are left out."""
    found = {}
    for entity in graph.catalog().entities:
        rows = graph.lake[entity.table].to_pylist()
        if entity.kind == "edge":
            rows = [{k: v for k, v in row.items() if k != "id"} for row in rows]
        found[entity.name] = sorted(rows, key=str)
    return found


def test_files_are_loaded_in_one_commit(both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path) -> None:
    here, there = both
    source = written(tmp_path / "in", a=PEOPLE[:20], b=PEOPLE[20:], c=REST)
    first, second = here.load(source), there.load(source, engine=spark)
    assert content(here) == content(there)
    assert first.types == second.types
    assert len(list(there.lake.log())) == len(list(here.lake.log())) == 3
    again = written(tmp_path / "more", a=[node("Person", name="p3", age=99, since=None), PEOPLE[4]])
    first, second = here.load(again, "merge"), there.load(again, "merge", engine=spark)
    assert content(here) == content(there)
    assert first.types == second.types


def test_frames_are_loaded_by_type(both: tuple[quire.Graph, quire.Graph], spark: Any) -> None:
    here, there = both
    people = [{"name": f"p{i}", "age": i} for i in range(9)]
    knows = [{"from": f"p{i}", "to": "p0"} for i in range(1, 9)]
    here.load({"Person": people, "Knows": knows})
    frames = {
        "Person": spark.createDataFrame([tuple(r.values()) for r in people], "name string, age int"),
        "Knows": spark.createDataFrame([tuple(r.values()) for r in knows], "`from` string, `to` string"),
    }
    done = there.load(frames, engine=spark)
    assert content(here) == content(there)
    assert done.rows == 17


@pytest.mark.full
def test_an_overwrite_replaces_the_types_that_come(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path
) -> None:
    here, there = both
    for graph in both:
        graph.load(written(tmp_path / "in", a=PEOPLE[:5]))
    source = written(tmp_path / "other", a=PEOPLE[10:12])
    first, second = here.load(source, "overwrite"), there.load(source, "overwrite", engine=spark)
    assert content(here) == content(there)
    assert first.types == second.types
    assert sorted(i["name"] for i in here.lake["node:Person"].indexes()) == sorted(
        i["name"] for i in there.lake["node:Person"].indexes()
    )


def told(violation: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(violation.get(name) for name in ("type", "rule", "property", "file", "line"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "bad",
    [
        node("Person", name="x", age=200),
        node("Person", name="x", since="soon"),
        "{nonsense",
        PEOPLE[3],
        edge("Knows", "p1", "nobody"),
    ],
)
def test_what_is_wrong_is_told_as_in_this_process(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path, bad: Any
) -> None:
    here, there = both
    source = written(tmp_path / "in", a=PEOPLE, b=[PEOPLE[0] | {"data": {"name": "first"}}, bad])
    errors: list[QuireError] = []
    for load in (lambda: here.load(source), lambda: there.load(source, engine=spark)):
        with pytest.raises(IntegrityError) as caught:
            load()
        errors.append(caught.value)
    local, remote = errors
    assert [told(v) for v in remote.violations] == [told(v) for v in local.violations]
    assert remote.violations[0]["line"] == 2
    assert remote.violations[0]["file"].endswith("b.jsonl")
    assert there.lake["node:Person"].count() == 0


@pytest.mark.full
def test_rows_that_break_a_rule_by_themselves_can_be_left_out(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path
) -> None:
    here, there = both
    bad = [node("Person", name=f"old {i}", age=200 + i) for i in range(3)]
    source = written(tmp_path / "in", a=[*PEOPLE, *bad[:2]], b=bad[2:])
    with pytest.raises(IntegrityError):
        there.load(source, skip_rejects=2, engine=spark)
    rejects = tmp_path / "rejects"
    first = here.load(source, skip_rejects=True)
    second = there.load(source, skip_rejects=True, rejects=str(rejects), engine=spark)
    assert (second.rejected, second.types) == (first.rejected, first.types)
    assert content(here) == content(there)
    told = [json.loads(line) for file in sorted(rejects.glob("*.ndjson")) for line in file.read_text().splitlines()]
    assert [(Path(row["file"]).name, row["line"], row["rule"]) for row in told] == [
        ("a.jsonl", 31, "range"),
        ("a.jsonl", 32, "range"),
        ("b.jsonl", 1, "range"),
    ]


def test_a_dry_run_changes_nothing(both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path) -> None:
    _, there = both
    done = there.load(written(tmp_path / "in", a=PEOPLE), dry_run=True, engine=spark)
    assert (done.rows, done.dry_run, done.receipt) == (30, True, None)
    assert there.lake["node:Person"].count() == 0


def test_sources_that_executors_cannot_read_are_refused(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path
) -> None:
    _, there = both
    with pytest.raises(InvalidInput):
        there.load(PEOPLE, engine=spark)
    with pytest.raises(NotFound, match="nix.jsonl"):
        there.load(str(tmp_path / "nix.jsonl"), engine=spark)
    with pytest.raises(InvalidInput):
        there.load(spark.range(1), engine=spark)
    with pytest.raises(InvalidInput, match="is not an engine"):
        there.load(PEOPLE, engine="sparc")


# -- frames ------------------------------------------------------------------------------------------------------------

TYPES = """
node Thing {
  name: String @key
  flag: Bool?
  small: I32?
  large: U64?
  ratio: F64?
  price: F64?
  day: Date?
  moment: DateTime?
  words: [String]?
  data: Blob?
  vec: Vector(3)?
}
"""


def things() -> list[tuple[Any, ...]]:
    day, moment = date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)
    full = (True, 7, Decimal(2**63), 0.5, Decimal("12.50"), day, moment, ["a", "b"], b"xy", [1.0, 2.0, 3.0])
    some = (False, -1, Decimal(0), 1.5, None, None, None, [], b"", None)
    return [("full", *full), ("none", *([None] * 10)), ("some", *some)]


def test_frames_are_typed_as_arrow_data_is(tmp_path: Path, spark: Any) -> None:
    ddl = (
        "name string, flag boolean, small bigint, large decimal(20,0), ratio float, price decimal(10,2), day date,"
        " moment timestamp, words array<string>, data binary, vec array<float>"
    )
    frame = spark.createDataFrame(things(), ddl)
    here, there = (quire.Graph(quire.create(tmp_path / name)) for name in ("here", "there"))
    for graph in (here, there):
        graph.apply_schema(TYPES)
    here.load(frame.toArrow(), type="Thing")
    assert there.load(frame, type="Thing", engine=spark).inserted == {"Thing": 3}
    columns = [name for name in here.lake["node:Thing"].schema.names if name != "data"]
    first, second = (g.lake["node:Thing"].scan(columns=columns).to_arrow().sort_by("name") for g in (here, there))
    assert first == second
    assert second.column("large").to_pylist() == [2**63, None, 0]
    for name in ("full", "some"):
        blobs = [graph.blob("Thing", name, "data") for graph in (here, there)]
        assert blobs[0] is not None
        assert blobs[1] is not None
        assert blobs[0].read() == blobs[1].read()


@pytest.mark.full
def test_columns_of_a_frame_that_do_not_fit_are_told_once(both: tuple[quire.Graph, quire.Graph], spark: Any) -> None:
    _, there = both
    frame = spark.range(10).selectExpr("cast(id as string) as nam")
    with pytest.raises(IntegrityError, match="nam") as caught:
        there.load(frame, type="Person", engine=spark)
    assert (caught.value.count, caught.value.rule) == (1, "property")


# -- embedders ---------------------------------------------------------------------------------------------------------


class Broken(HashEmbedder):
    """A service that gives up."""

    def embed(self, texts: Any) -> list[list[float]]:
        raise EmbedderError("The service is away.", next="Wait.")


def test_an_embedder_is_held_to_the_schema_and_its_errors_are_told(tmp_path: Path, spark: Any) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema('node Doc { key: String @key  text: String?  vec: Vector(4)? @embed("text", model="hash-4") }')
    source = written(tmp_path / "in", a=[node("Doc", key="a", text="tea")])
    graph.embedder = HashEmbedder(4, model="another")
    with pytest.raises(Refused, match="another"):
        graph.load(source, engine=spark)
    graph.embedder = Broken(4)
    with pytest.raises(EmbedderError, match="away"):
        graph.load(source, engine=spark)
    graph.embedder = HashEmbedder(4)
    seen: list[tuple[str, int, int | None]] = []
    done = graph.load(
        source, engine=spark, progress=lambda what, done, total: seen.append((Path(what).name, done, total))
    )
    assert done.types["Doc"].unembedded == 0
    assert graph.lake["node:Doc"].to_pylist()[0]["vec"] == pytest.approx(HashEmbedder(4).embed(["tea"])[0])
    assert seen[-2:] == [("embedding Doc.vec", 1, None), ("a.jsonl", 1, None)]
    assert set(seen[:-2]) == {("tasks", 0, 1), ("tasks", 1, 1)}


def test_a_large_file_is_read_by_several_tasks_and_every_line_keeps_its_number(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = both
    monkeypatch.setattr(row_files, "SHARE", 700)
    rows = [node("Person", name=f"p{i}", age=i) for i in range(100)]
    lines = [json.dumps(row, separators=(", \r", ":")) for row in rows]  # a lone \r is white space of JSON
    lines[40:40] = ["", "no json at all", json.dumps(node("Person", name="old", age=900))]
    source = tmp_path / "people.jsonl"
    source.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())  # and the last line has no end
    assert len(taken := inputs.taken_apart(spark, inputs.inputs_of(str(source), catalog(there))[0].parts)) > 5
    assert taken[-1].data.share is not None
    assert 80 < taken[-1].data.share.before < 103
    seen: dict[str, int] = {}
    told = [
        one.load(
            str(source), engine=engine, skip_rejects=2, progress=lambda what, done, total: seen.update({what: done})
        )
        for one, engine in ((here, "local"), (there, spark))
    ]
    assert [[(v.line, v.rule) for v in done.violations] for done in told] == [[(42, "json"), (43, "range")]] * 2
    assert there.lake["node:Person"].count() == here.lake["node:Person"].count() == 100
    assert [len(files(one)) for one in (here, there)] == [1, len(taken)]
    assert seen[str(source)] == 101


@pytest.mark.full
def test_row_groups_of_a_large_file_are_read_by_several_tasks(
    both: tuple[quire.Graph, quire.Graph], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, there = both
    monkeypatch.setattr(row_files, "SHARE", 100)
    table = pa.table({"name": [f"p{i}" for i in range(50)], "age": pa.array([*range(49), 900], pa.int32())})
    pq.write_table(table, tmp_path / "Person.parquet", row_group_size=10)
    with pytest.raises(IntegrityError) as caught:
        there.load(str(tmp_path / "Person.parquet"), engine=spark)
    assert [(v["line"], v["rule"]) for v in caught.value.fields["violations"]] == [(50, "range")]
    assert there.load(str(tmp_path / "Person.parquet"), engine=spark, skip_rejects=1).rows == 49
    assert len(files(there)) == 5


def catalog(graph: quire.Graph) -> Any:
    return catalog_of(graph.lake.transaction())


def files(graph: quire.Graph) -> list[Any]:
    """The fragments of the people, one at least for each task that wrote any."""
    return list(graph.lake["node:Person"].parts()[1])


def test_an_embedder_that_cannot_travel_is_refused(both: tuple[quire.Graph, quire.Graph], spark: Any) -> None:
    _, there = both
    locked = HashEmbedder(4)
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    there.embedder = locked
    with pytest.raises(InvalidInput, match="cannot be sent"):
        there.load(spark.range(1), type="Person", engine=spark)


def test_a_service_is_asked_by_tasks_with_the_key_that_nobody_sees(tmp_path: Path, spark: Any) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema('node Doc { key: String @key  text: String?  vec: Vector(4)? @embed("text", model="hash-4") }')
    source = written(tmp_path / "in", a=[node("Doc", key="a", text="tea")])
    with serving() as service:
        graph.embedder = OpenAIEmbedder(HashEmbedder(4).model, base_url=service.url, api_key="secret-key")
        graph.load(source, engine=spark)
    assert {header["Authorization"] for header in service.headers} == {"Bearer secret-key"}
    assert graph.lake["node:Doc"].to_pylist()[0]["vec"] == pytest.approx(HashEmbedder(4).embed(["tea"])[0])
    assert "secret-key" not in repr(portable(spark, graph.embedder))
