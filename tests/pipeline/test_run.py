"""A pipeline of files into tables: both engines do the same, in one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire import pipeline
from quire.errors import IntegrityError, InvalidInput, NotFound, QuireError, SchemaMismatch, TableNotFound

PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string()), ("age", pa.int32()), ("origin", pa.string())])
PLACES = pa.schema([("city", pa.string()), ("size", pa.float64())])

MAPPING = """
message: nightly
sources:
  - files: people-*.csv
    table: people
    where: "years <> '0'"
    columns:
      id: pid
      age: {column: years, cast: integer}
      origin: {value: "crm's"}
      name: {sql: "trim(first || ' ' || last)"}
  - files: more.jsonl
    table: people
    columns: {id: id, name: {sql: "upper(name)"}, age: {sql: "2026 - born", cast: integer}, origin: {value: null}}
  - files: [places.parquet]
    table: places
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "people-1.csv").write_text('pid,first,last,years\n1,Ada,"Love\nlace",36\n2,Bo,,0\n', "utf-8")
    (folder / "people-2.csv").write_text("pid,first,last,years\n3,Cy,Young,50\n", "utf-8")
    lines = [{"id": 4, "name": "dora", "born": 2000}, {"id": 5, "name": "emil", "born": 1990}]
    (folder / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    pq.write_table(pa.table({"size": [1.5, None], "city": ["Ulm", "Bonn"]}), folder / "places.parquet")
    (folder / "pipeline.yaml").write_text(MAPPING, "utf-8")
    return folder


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    return "local" if request.param == "local" else request.getfixturevalue("spark")


@pytest.fixture
def tables(lake: quire.Lake) -> quire.Lake:
    with lake.transaction() as tx:
        tx.create_table("people", schema=PEOPLE, key="id")
        tx.create_table("places", schema=PLACES)
    return lake


def people(lake: quire.Lake) -> dict[int, tuple[Any, ...]]:
    return {r["id"]: (r["name"], r["age"], r["origin"]) for r in lake["people"].to_pylist()}


EXPECTED = {
    1: ("Ada Love\nlace", 36, "crm's"),
    3: ("Cy Young", 50, "crm's"),
    4: ("DORA", 26, None),
    5: ("EMIL", 36, None),
}


def test_files_of_all_kinds_are_one_commit(tables: quire.Lake, files: Path, engine: Any) -> None:
    done = pipeline.run(tables, files / "pipeline.yaml", engine=engine)
    assert people(tables) == EXPECTED
    assert tables["places"].to_pylist() == [{"city": "Ulm", "size": 1.5}, {"city": "Bonn", "size": None}]
    assert {name: (fed.inserted, fed.updated, fed.files) for name, fed in done.tables.items()} == {
        "people": (4, 0, 3),
        "places": (2, 0, 1),
    }
    assert done.rows == 6
    newest = next(iter(tables.log()))
    assert (newest.message, sorted(newest.tables), newest.id) == ("nightly", ["people", "places"], "2.0")


def test_a_second_run_merges(tables: quire.Lake, files: Path, engine: Any) -> None:
    mapping = {"sources": [{"files": str(files / "more.jsonl"), "table": "people", "columns": COLUMNS}]}
    pipeline.run(tables, mapping, engine="local")
    (files / "more.jsonl").write_text('{"id": 5, "name": "eva"}\n{"id": 6, "name": "fay"}\n', "utf-8")
    with pytest.raises(IntegrityError, match=r"more.jsonl:1: .* id=5 already"):
        pipeline.run(tables, mapping, engine=engine)
    done = pipeline.run(tables, mapping, engine=engine, mode="merge")
    assert (done.tables["people"].inserted, done.tables["people"].updated) == (1, 1)
    assert {id: row[0] for id, row in people(tables).items()} == {4: "dora", 5: "eva", 6: "fay"}
    done = pipeline.run(tables, mapping, engine=engine, mode="overwrite")
    assert (done.tables["people"].inserted, done.tables["people"].removed) == (2, 3)
    assert sorted(people(tables)) == [5, 6]


COLUMNS = {"id": "id", "name": "name", "age": {"value": None, "cast": "integer"}, "origin": {"value": "x"}}


def test_a_token_runs_a_pipeline_once(tables: quire.Lake, files: Path) -> None:
    token = quire.token()
    for _ in range(2):
        done = pipeline.run(tables, files / "pipeline.yaml", token=token)
    assert done.receipt is not None
    assert done.receipt.repeated
    assert people(tables) == EXPECTED


def refused(tables: quire.Lake, files: Path, engine: Any, feed: dict[str, Any]) -> QuireError:
    return refused_all(tables, files, [feed], engine)


def refused_all(tables: quire.Lake, files: Path, feeds: list[dict[str, Any]], engine: Any = "local") -> QuireError:
    before = tables.head
    with pytest.raises(QuireError) as caught:
        pipeline.run(tables, {"base": str(files), "sources": feeds}, engine=engine)
    assert quire.open(tables.uri).head == before
    return caught.value


BROKEN = {
    "bad.csv": ("id,name,age,origin\n1,a,1,x\n2,b,many,x\n", "type", "age", 3),
    "fraction.csv": ("id,name,age,origin\n1,a,1.5,x\n", "type", "age", 2),
    "null.csv": ("id,name,age,origin\n1,a,1,x\n,b,1,x\n", "key", "id", 3),
    "fields.csv": ('id,name,age,origin\n1,"a\nb",1,x\n2,b\n', "csv", None, 4),
    "twice.csv": ("id,name,age,origin\n1,a,1,x\n2,a,1,x\n1,b,1,x\n", "key", "id", 4),
    "bad.jsonl": ('{"id": 1, "name": "a", "age": 1, "origin": "x"}\n\n{"id": 2, "na\n', "json", None, 3),
    "list.jsonl": ('{"id": 1, "name": "a", "age": 1, "origin": "x"}\n[1]\n', "json", None, 2),
    "big.jsonl": ('{"id": 1, "name": "a", "age": 5000000000, "origin": "x"}\n', "type", "age", 1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_row_that_does_not_fit_is_told_with_file_line_and_rule(tables: quire.Lake, files: Path, name: str) -> None:
    text, rule, column, line = BROKEN[name]
    (files / name).write_text(text, "utf-8")
    error = refused(tables, files, "local", {"files": name, "table": "people"})
    assert isinstance(error, IntegrityError)
    [told] = error.fields["violations"]
    assert (told["rule"], told.get("property"), told["line"]) == (rule, column, line)
    assert told["file"] == str(files / name)
    assert told["type"] == "people"


@pytest.mark.parametrize(
    ("skip", "said", "stopped"),
    [
        (False, "And at least 17 more: the search stopped at 20.", True),
        (30, "And at least 28 more: the search stopped at 31.", True),
        ("10%", "And 54 more.", False),
    ],
)
def test_a_refused_run_says_whether_it_found_everything(
    tables: quire.Lake, files: Path, skip: Any, said: str, stopped: bool
) -> None:
    (files / "many.csv").write_text("id,name,age,origin\n" + "x,a,1,o\n" * 57, "utf-8")
    mapping = {"base": str(files), "skip_rejects": skip, "sources": [{"files": "many.csv", "table": "people"}]}
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(tables, mapping)
    assert said in caught.value.message
    assert caught.value.fields["stopped"] == stopped


def test_this_process_and_spark_tell_the_same(tables: quire.Lake, files: Path, spark: Any) -> None:
    for name, (text, *_) in BROKEN.items():
        (files / name).write_text(text, "utf-8")
    feeds = [{"files": name, "table": "people"} for name in BROKEN]
    told = []
    for engine in ("local", spark):
        with pytest.raises(IntegrityError) as caught:
            pipeline.run(tables, {"base": str(files), "sources": feeds}, engine=engine, max_errors=100)
        told.append(caught.value.to_dict())
    assert told[0] == told[1]


def test_rows_that_break_a_rule_are_left_out_and_written_elsewhere(
    tables: quire.Lake, files: Path, engine: Any
) -> None:
    tables.transact(lambda tx: tx["people"].append([{"id": 9, "name": "old", "age": 1, "origin": None}]))
    for name, (text, *_) in BROKEN.items():
        (files / name).write_text(text.replace("\n1,", f"\n{100 + len(name)},"), "utf-8")
    (files / "old.csv").write_text("id,name,age,origin\n9,new,1,x\n10,ten,1,x\n", "utf-8")
    (files / "other.csv").write_text("id,name,age,origin\n10,later,1,x\n", "utf-8")
    feeds = [{"files": name, "table": "people"} for name in ("old.csv", "other.csv", "bad.csv", "fields.csv")]
    mapping = {"base": str(files), "rejects": "out", "skip_rejects": 4, "sources": feeds}
    done = pipeline.run(tables, mapping, engine=engine)
    assert (done.tables["people"].inserted, done.tables["people"].rejected, done.rejected) == (3, 4, 4)
    rows = {r["id"]: r["name"] for r in tables["people"].to_pylist()}
    assert (rows[9], rows[10]) == ("old", "ten")
    assert len(rows) == 4
    written = [json.loads(line) for path in (files / "out").iterdir() for line in path.read_text().splitlines()]
    found = sorted((Path(r["file"]).name, r["line"], r["rule"]) for r in written)
    assert found == [
        ("bad.csv", 3, "type"),
        ("fields.csv", 4, "csv"),
        ("old.csv", 2, "key"),
        ("other.csv", 2, "key"),
    ]
    assert [r["row"]["name"] for r in written if r["rule"] == "key"] in (["new", "later"], ["later", "new"])
    assert sorted((v.file, v.line) for v in done.violations) == sorted((r["file"], r["line"]) for r in written)


@pytest.mark.parametrize(("allowed", "goes"), [(1, False), (2, True), ("20%", True), ("19%", False), (True, True)])
def test_a_threshold_decides(tables: quire.Lake, files: Path, allowed: Any, goes: bool) -> None:
    rows = "".join(f"{n},x,{'many' if n < 2 else n},o\n" for n in range(10))
    (files / "some.csv").write_text(f"id,name,age,origin\n{rows}", "utf-8")
    mapping = {"base": str(files), "skip_rejects": allowed, "sources": [{"files": "some.csv", "table": "people"}]}
    before = tables.head
    if goes:
        assert pipeline.run(tables, mapping).rejected == 2
        assert len(people(tables)) == 8
    else:
        with pytest.raises(IntegrityError) as caught:
            pipeline.run(tables, mapping)
        assert caught.value.fields["count"] == 2
        assert tables.head == before


def test_keys_that_are_there_twice_and_keys_that_the_table_has_are_all_told_with_their_lines(
    tables: quire.Lake, files: Path, engine: Any
) -> None:
    # Every other line is taken, so lines do not follow one another; some keys are there before, some are there twice.
    with tables.transaction() as tx:
        tx["people"].insert([{"id": 10, "name": "before", "age": 1, "origin": "x"}])
    numbers = [n - 2 if n in (500, 2_000) else n for n in range(3_000)]
    (files / "many.csv").write_text("id,name,age,origin\n" + "".join(f"{n},a,{n % 2},x\n" for n in numbers))
    feed = {"files": "many.csv", "table": "people", "where": "age = '0'"}
    mapping = {"base": str(files), "rejects": "out", "skip_rejects": 3, "sources": [feed]}

    done = pipeline.run(tables, mapping, engine=engine)

    told = sorted((v.line, v.rule, "already" in v.message) for v in done.violations)
    assert told == [(12, "key", True), (502, "key", False), (2_002, "key", False)]
    written = [json.loads(line) for p in (files / "out").glob("*.ndjson") for line in p.read_text().splitlines()]
    assert sorted(row["line"] for row in written) == [12, 502, 2_002]
    assert (done.rejected, done.tables["people"].inserted) == (3, 1_497)
    rows = {row["id"]: row["name"] for row in tables["people"].to_pylist()}
    assert rows == {n: "before" if n == 10 else "a" for n in range(0, 3_000, 2) if n not in (500, 2_000)}


def test_keys_that_are_zero_are_one_key(lake: quire.Lake, files: Path) -> None:
    lake.create_table("at", schema=pa.schema([("at", pa.float64())]), key="at")
    (files / "zeros.csv").write_text("at\n0.0\n1\n-0.0\n")
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(lake, {"base": str(files), "sources": [{"files": "zeros.csv", "table": "at"}]})
    assert [(v["line"], v["rule"]) for v in caught.value.fields["violations"]] == [(4, "key")]


def test_a_dry_run_finds_everything_and_commits_nothing(tables: quire.Lake, files: Path) -> None:
    before = tables.head
    done = pipeline.run(tables, files / "pipeline.yaml", dry_run=True)
    assert (done.rows, done.dry_run, done.receipt) == (6, True, None)
    assert quire.open(tables.uri).head == before


def test_each_source_has_its_mode(tables: quire.Lake, files: Path, engine: Any) -> None:
    pipeline.run(tables, files / "pipeline.yaml")
    (files / "more.jsonl").write_text('{"id": 5, "name": "eva"}\n{"id": 6, "name": "fay"}\n', "utf-8")
    pq.write_table(pa.table({"size": [9.0], "city": ["Jena"]}), files / "places.parquet")
    feeds: list[dict[str, Any]] = [
        {"files": "more.jsonl", "table": "people", "columns": COLUMNS, "mode": "merge"},
        {"files": "places.parquet", "table": "places", "mode": "overwrite"},
    ]
    done = pipeline.run(tables, {"base": str(files), "sources": feeds}, engine=engine)
    assert (done.tables["people"].inserted, done.tables["people"].updated) == (1, 1)
    assert (done.tables["places"].inserted, done.tables["places"].removed) == (1, 2)
    assert tables["places"].to_pylist() == [{"city": "Jena", "size": 9.0}]
    assert len(list(tables.log())) == 4


def test_rows_are_inserted_by_the_columns_that_a_source_names(tables: quire.Lake, files: Path, engine: Any) -> None:
    feed = {"files": "places.parquet", "table": "places", "mode": "insert", "on": "city"}
    pipeline.run(tables, {"base": str(files), "sources": [feed]}, engine=engine)
    error = refused(tables, files, engine, feed)
    assert isinstance(error, IntegrityError)
    assert [v["line"] for v in error.fields["violations"]] == [1, 2]
    done = pipeline.run(tables, {"base": str(files), "sources": [{**feed, "mode": "merge"}]}, engine=engine)
    assert (done.tables["places"].inserted, done.tables["places"].updated) == (0, 2)


def test_frames_are_sources_too(tables: quire.Lake, engine: Any) -> None:
    rows = pa.table({"pid": [1, 2], "who": ["a", "b"]})
    frame = rows if engine == "local" else engine.createDataFrame(rows.to_pylist(), "pid long, who string")
    columns = {"id": "pid", "name": {"sql": "upper(who)"}, "age": {"value": 3}, "origin": {"value": None}}
    mapping = {"sources": [{"frame": "given", "table": "people", "columns": columns, "where": "pid > 1"}]}
    done = pipeline.run(tables, mapping, engine=engine, frames={"given": frame})
    assert people(tables) == {2: ("B", 3, None)}
    assert done.tables["people"].inserted == 1
    with pytest.raises(InvalidInput, match="'given'"):
        pipeline.run(tables, mapping, engine=engine)
    wrong = rows if engine != "local" else None
    if wrong is not None:
        with pytest.raises(InvalidInput, match="createDataFrame"):
            pipeline.run(tables, mapping, engine=engine, frames={"given": wrong})


def test_a_frame_with_a_key_twice_is_refused(tables: quire.Lake, engine: Any) -> None:
    rows = [{"id": n % 2, "name": str(n), "age": 1, "origin": "x"} for n in range(4)]
    frame = pa.Table.from_pylist(rows, PEOPLE)
    if engine != "local":
        frame = engine.createDataFrame(rows, "id long, name string, age int, origin string").coalesce(1)
    mapping = {"sources": [{"frame": "f", "table": "people"}]}
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(tables, mapping, engine=engine, frames={"f": frame})
    assert caught.value.fields["count"] == 2
    done = pipeline.run(tables, {**mapping, "skip_rejects": True}, engine=engine, frames={"f": frame})
    assert (done.rejected, done.rows) == (2, 2)
    assert {id: row[0] for id, row in people(tables).items()} == {0: "0", 1: "1"}


def test_mistakes_in_a_mapping_are_told_before_anything_runs(tables: quire.Lake, files: Path) -> None:
    feed = {"files": "more.jsonl", "table": "people"}
    assert isinstance(refused(tables, files, "local", {**feed, "files": "nix-*.csv"}), NotFound)
    assert isinstance(refused(tables, files, "local", {**feed, "table": "nix"}), TableNotFound)
    assert isinstance(refused(tables, files, "local", {**feed, "colums": {}}), InvalidInput)
    assert "needs exactly one" in str(refused(tables, files, "local", {**feed, "columns": {"id": {"cast": "bigint"}}}))
    assert "table, node and edge" in str(refused(tables, files, "local", {**feed, "node": "Person"}))
    assert "files and frame" in str(refused(tables, files, "local", {**feed, "frame": "f"}))
    assert "with different modes" in str(refused_all(tables, files, [feed, {**feed, "mode": "merge"}]))
    nix = {**COLUMNS, "name": "nix"}
    assert "no column 'nix'" in str(refused(tables, files, "local", {**feed, "columns": nix}))
    assert isinstance(refused(tables, files, "local", feed), SchemaMismatch)
    cast = {"id": {"column": "id", "cast": "bigint) as id, (select 1"}}
    assert "is not an SQL type" in str(refused(tables, files, "local", {**feed, "columns": cast}))
    assert "nix" in str(refused(tables, files, "local", {**feed, "columns": {"id": {"sql": "nix + 1"}}}))
    outside = {**feed, "columns": {"id": {"sql": f"(select count(*) from read_csv('{files}/people-1.csv'))"}}}
    assert isinstance(refused(tables, files, "local", outside), InvalidInput)
    with pytest.raises(InvalidInput, match="is not an engine"):
        pipeline.run(tables, files / "pipeline.yaml", engine="sparc")
    (files / "broken.yaml").write_text("sources: [", "utf-8")
    with pytest.raises(InvalidInput, match="is not valid YAML"):
        pipeline.read_pipeline(files / "broken.yaml")


def test_many_tables_are_one_job_and_one_commit(lake: quire.Lake, files: Path, engine: Any) -> None:
    names = [f"t{number:03}" for number in range(120)]
    with lake.transaction() as tx:
        for name in names:
            tx.create_table(name, schema=PLACES)
    before = len(list(lake.log()))
    jobs = [] if engine == "local" else watched_jobs(engine)
    feeds = [{"files": "places.parquet", "table": name} for name in names]
    done = pipeline.run(lake, {"base": str(files), "sources": feeds}, engine=engine)
    assert len(list(lake.log())) == before + 1
    assert (len(done.tables), done.rows) == (120, 240)
    assert {lake[name].count() for name in names} == {2}
    if engine != "local":
        assert len(watched_jobs(engine)) == len(jobs) + 1


def watched_jobs(spark: Any) -> list[int]:
    """The jobs that a session has run so far."""
    return list(spark._jsc.sc().statusStore().jobsList(None).mkString(",").split("JobData@"))


def test_how_far_a_run_is_never_goes_back(tables: quire.Lake, files: Path, engine: Any) -> None:
    told: list[tuple[int, int]] = []
    pipeline.run(
        tables,
        files / "pipeline.yaml",
        engine=engine,
        progress=lambda what, done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    assert len({total for _, total in told}) == 1


def test_mistakes_of_all_sources_are_told_together(tables: quire.Lake, files: Path) -> None:
    (files / "wrong.csv").write_text("id,name,age,origin\n1,a,many,x\n", "utf-8")
    feeds: list[dict[str, Any]] = [
        {"files": "wrong.csv", "table": "peple"},
        {"files": "wrong.csv", "table": "people", "columns": {"id": "id", "nmae": "name"}},
        {"files": "places.parquet", "table": "places", "columns": {"city": "town"}},
        {"files": "wrong.csv", "node": "Person"},
        {"files": "people-1.csv", "table": "people"},
    ]
    error = refused_all(tables, files, feeds)
    assert isinstance(error, InvalidInput)
    problems = error.fields["problems"]
    assert [p.split(":")[0] for p in problems] == [
        "Source 1 (peple)",
        "Source 2 (people)",
        "Source 3 (places)",
        "Source 4 (Person)",
        "Source 5 (people)",
    ]
    for said, problem in zip(["'people'", "'nmae'", "'town'", "Person", "first"], problems, strict=True):
        assert said in problem


def test_sql_over_columns_that_a_file_does_not_have_is_told_before_rows(tables: quire.Lake, files: Path) -> None:
    feed = {"files": "people-1.csv", "table": "people", "columns": {**COLUMNS, "name": {"sql": "upper(nam)"}}}
    assert "nam" in str(refused(tables, files, "local", feed))


def test_an_unknown_mode_lists_the_known_ones() -> None:
    feed = {"files": "a.csv", "table": "people"}
    for given in ({"mode": "mrge", "sources": [feed]}, {"sources": [{**feed, "mode": "upsert"}]}):
        with pytest.raises(InvalidInput, match="append, insert, merge, overwrite"):
            pipeline.read_pipeline(given)
    with pytest.raises(InvalidInput, match="csv, jsonl, parquet, arrow"):
        pipeline.read_pipeline({"sources": [{**feed, "format": "xml"}]})
