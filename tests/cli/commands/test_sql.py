"""SQL from the command line."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run
from tests.rowfiles.reading import read_files

JOIN = "select id, name, v from people join events using (id) order by id"
ROWS = [{"id": 1, "name": "Ada", "v": 1.5}, {"id": 2, "name": "Bobby", "v": 2.5}]


def test_a_join_is_printed_as_a_table(run: Run, lake: str) -> None:
    assert run("sql", lake, JOIN).lines() == [["id", "name", "v"], ["1", "Ada", "1.5"], ["2", "Bobby", "2.5"]]


def test_json_tells_the_commit_the_columns_and_the_rows(run: Run, lake: str) -> None:
    assert run("sql", lake, JOIN, "--json").json == {
        "commit": "2.0",
        "columns": [
            {"name": "id", "type": "int64"},
            {"name": "name", "type": "string"},
            {"name": "v", "type": "double"},
        ],
        "rows": ROWS,
    }


def test_no_rows_are_json_too(run: Run, lake: str) -> None:
    query = "select * from people where id < 0"
    assert run("sql", lake, query, "--json").json["rows"] == []
    assert run("sql", lake, query, "--format", "json").json == []
    assert run("sql", lake, query).lines() == [["id", "name"]]


def test_every_text_format_goes_to_stdout(run: Run, lake: str) -> None:
    assert run("sql", lake, JOIN, "--format", "json").json == ROWS
    assert [json.loads(line) for line in run("sql", lake, JOIN, "--format", "jsonl").out.splitlines()] == ROWS
    read = list(csv.DictReader(io.StringIO(run("sql", lake, JOIN, "--format", "csv").out)))
    assert read == [{key: str(value) for key, value in row.items()} for row in ROWS]


@pytest.mark.parametrize("file", ["x.csv", "x.jsonl", "x.parquet", "x.arrow"])
def test_a_result_is_written_to_a_file(run: Run, lake: str, file: str) -> None:
    assert run("sql", lake, JOIN, "--output", file, "--json").json == {"commit": "2.0", "file": file, "rows": 2}
    assert read_files([file], None, None).read_all().to_pylist() == ROWS
    assert run("sql", lake, JOIN, "-o", file).out == f"wrote 2 rows to {file}\n"


def test_the_format_of_the_file_can_be_said(run: Run, lake: str) -> None:
    run("sql", lake, JOIN, "-o", "result", "--format", "parquet")
    assert pq.read_table("result").to_pylist() == ROWS
    assert "--format" in run("sql", lake, JOIN, "-o", "other", code=2).err
    assert run("sql", lake, JOIN, "-o", "x.csv", "--format", "table", code=2).out == ""


def test_parameters_are_bound_not_pasted(run: Run, lake: str) -> None:
    query = "select name from people where id = $id or name = $name order by id"
    ran = run("sql", lake, query, "-p", "id=1", "--param", "name=Cy' or 'x' = 'x", "--format", "json")
    assert ran.json == [{"name": "Ada"}]
    assert run("sql", lake, "select $x as x", "-p", "x=null", "--format", "json").json == [{"x": None}]


def test_history_and_branches_are_queried(run: Run, lake: str) -> None:
    run("tag", "create", lake, "v1", "--at", "1.0")
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "true", "-b", "exp")
    count = ("sql", lake, "select count(*) as n from people", "--format", "json")

    assert run(*count).json == [{"n": 3}]
    assert run(*count, "--at", "1.0").json == [{"n": 2}]
    assert run(*count, "--at", "v1").json == [{"n": 2}]
    assert run(*count, "--at", "2999-01-01").json == [{"n": 3}]
    assert run(*count, "--branch", "exp").json == [{"n": 0}]
    assert run(*count, "--at", "exp:3.0").json == [{"n": 0}]


def test_a_tag_that_looks_like_a_time_is_a_tag(run: Run, lake: str) -> None:
    run("tag", "create", lake, "2999-01-01", "--at", "1.0")
    assert run("tables", lake, "--at", "2999-01-01", "--json").json["commit"] == "1.0"


def test_a_query_comes_from_stdin(run: Run, lake: str) -> None:
    assert run("sql", lake, "-", "--format", "json", stdin="select 1 as one").json == [{"one": 1}]


def test_columns_of_one_name_both_appear_in_json(run: Run, lake: str) -> None:
    assert run("sql", lake, "select 1 as a, 2 as a", "--json").json["rows"] == [{"a": 1, "a_1": 2}]


@pytest.mark.parametrize(
    "query",
    [
        "selec 1",
        "select 1; select 2",
        "delete from people",
        "select cast(name as int) from people",
        "select nope from people",
    ],
)
def test_a_query_that_cannot_run_exits_2(run: Run, lake: str, query: str) -> None:
    assert run("sql", lake, query, "--format", "csv", code=2).err.startswith("error: ")


def test_json_and_another_format_contradict_each_other(run: Run, lake: str) -> None:
    assert "contradict" in run("sql", lake, JOIN, "--json", "--format", "csv", code=2).json["error"]["message"]


def test_values_of_every_type_are_written(run: Run, lake: str) -> None:
    query = (
        "select sum(id) as total, date '2026-11-01' as day, [1, 2] as list, 1.50::decimal(5, 2) as price from people"
    )
    assert run("sql", lake, query, "--format", "json").json == [
        {"total": 6, "day": "2026-11-01", "list": [1, 2], "price": "1.50"}
    ]


def test_a_query_that_fails_half_way_leaves_one_document(run: Run, lake: str) -> None:
    query = "select case when range = 999999 then error('late') else 'x' end as x from range(1000000)"
    ran = run("sql", lake, query, "--json", code=2)
    assert ran.json["error"]["kind"] == "invalid-expression"
    assert "late" in ran.json["error"]["message"]


def test_an_enumeration_is_written_as_text(run: Run, lake: str) -> None:
    query = """select 'a"b'::enum('a"b', 'c') as x"""
    assert run("sql", lake, query, "--format", "csv").out == '"x"\n"a""b"\n'
    assert run("sql", lake, query, "--format", "json").json == [{"x": 'a"b'}]


def test_nanoseconds_are_shown(run: Run, lake: str) -> None:
    query = "select make_timestamp_ns(1) as at"
    assert "00:00:00.000000001" in run("sql", lake, query).out
    assert "00:00:00.000000001" in run("sql", lake, query, "--json").out


def test_an_arrow_stream_goes_to_stdout(run: Run, lake: str) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "quire.cli", "sql", lake, JOIN, "--format", "arrow"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert pa.ipc.open_stream(done.stdout).read_all().to_pylist() == ROWS


@pytest.mark.parametrize("query", ["delete from people", "insert into people values (9, 'x')", "drop table people"])
def test_what_is_no_select_is_told_how_tables_are_changed(run: Run, lake: str, query: str) -> None:
    said = run("sql", lake, query, code=2).err
    assert "The query is not a SELECT." in said
    assert "quire delete" in said
