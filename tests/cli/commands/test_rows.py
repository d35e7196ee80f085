"""Rows in and out of tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.conftest import Run, rows
from tests.rowfiles.reading import read_files

import quire
from quire.conversion.type_text import schema

SCHEMA = "id:int64!,name:string,at:timestamp[us, tz=UTC],vec:float32[2],raw:binary"
ROWS = [
    {"id": 1, "name": "Ada", "at": datetime(2026, 11, 1, tzinfo=UTC), "vec": [1.0, 2.0], "raw": b"\x00\xff"},
    {"id": 2, "name": None, "at": None, "vec": None, "raw": None},
]


@pytest.mark.parametrize("file", ["x.csv", "x.csv.gz", "x.jsonl", "x.ndjson", "x.parquet", "x.arrow", "x.feather"])
def test_every_format_goes_out_of_one_table_and_into_another(run: Run, lake: str, file: str) -> None:
    with quire.open(lake) as handle, handle.transaction() as tx:
        tx.create_table("a", schema=schema(SCHEMA))
        tx["a"].append(ROWS)
    run("table", "create", lake, "b", "--schema", SCHEMA)

    wrote = run("export", lake, "a", file, "--json").json
    assert wrote["rows"] == 2
    receipt = run("append", lake, "b", file, "--json").json

    assert receipt["tables"]["b"]["added"] == 2
    assert rows(lake, "b") == ROWS


def test_rows_are_appended_in_a_commit_with_message_and_author(run: Run, lake: str) -> None:
    Path("more.csv").write_text("id,v\n3,3.5\n4,\n")
    ran = run("append", lake, "events", "more.csv", "-m", "nightly", "--author", "ada")

    assert ran.out == "committed 3.0 on main\n  events: append +2 -0, version 2\n"
    shown = run("show", lake, "3.0", "--json").json
    assert (shown["message"], shown["author"]) == ("nightly", "ada")
    assert rows(lake, "events")[2:] == [{"id": 3, "v": 3.5}, {"id": 4, "v": None}]


def test_several_files_are_one_commit(run: Run, lake: str) -> None:
    Path("a.csv").write_text("id,v\n3,3.5\n")
    Path("b.jsonl").write_text('{"id": 4, "v": 4}\n')
    assert run("append", lake, "events", "a.csv", "b.jsonl", "--json").json["tables"]["events"]["added"] == 2


def test_rows_come_from_stdin(run: Run, lake: str) -> None:
    run("append", lake, "events", "-", "--format", "jsonl", stdin='{"id": 3, "v": 1}\n{"v": 2, "id": 4}')
    run("append", lake, "events", "-", "--format", "csv", stdin="v,id\n0.5,5\n")
    assert rows(lake, "events")[2:] == [{"id": 3, "v": 1.0}, {"id": 4, "v": 2.0}, {"id": 5, "v": 0.5}]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("csv", "id,v\nx,1\n"),
        ("csv", "id\n3\n"),
        ("csv", "id,v,zzz\n3,1,1\n"),
        ("jsonl", '{"id": 1.5, "v": 1}'),
        ("jsonl", '{"id": 3, "v": "much"}'),
        ("jsonl", '{"id": 3, "v": 1}\n{"id": 4, "v": 1, "zzz": 0}'),
        ("jsonl", '{"id": 3, "v": 1}\nnonsense'),
    ],
)
def test_rows_that_do_not_fit_leave_the_table_alone(run: Run, lake: str, kind: str, body: str) -> None:
    before = run("log", lake, "--json").json
    ran = run("append", lake, "events", "-", "--format", kind, stdin=body, code=2)
    assert ran.err.startswith("error: ")
    assert run("log", lake, "--json").json == before


def test_missing_columns_become_null_when_asked(run: Run, lake: str) -> None:
    run("append", lake, "events", "-", "--format", "csv", "--fill-missing", stdin="id\n3\n")
    assert rows(lake, "events")[2] == {"id": 3, "v": None}


def test_upsert_replaces_by_key(run: Run, lake: str) -> None:
    ran = run(
        "upsert", lake, "people", "-", "--format", "jsonl", stdin='{"id": 1, "name": "A"}\n{"id": 9, "name": "Z"}'
    )
    assert "people: upsert +2 -1" in ran.out
    assert rows(lake, "people") == [
        {"id": 1, "name": "A"},
        {"id": 2, "name": "Bobby"},
        {"id": 3, "name": "Cy"},
        {"id": 9, "name": "Z"},
    ]


def test_upsert_without_a_key_says_what_identifies_a_row(run: Run, lake: str) -> None:
    body = '{"id": 1, "v": 9}'
    assert "no key" in run("upsert", lake, "events", "-", "--format", "jsonl", stdin=body, code=2).err
    run("upsert", lake, "events", "-", "--format", "jsonl", "--on", "id", stdin=body)
    assert rows(lake, "events") == [{"id": 1, "v": 9.0}, {"id": 2, "v": 2.5}]


def test_rows_are_deleted_by_a_condition(run: Run, lake: str) -> None:
    assert run("delete", lake, "people", "id > 1", "--json").json["tables"]["people"]["removed"] == 2
    assert [row["id"] for row in rows(lake, "people")] == [1]


def test_a_token_commits_once(run: Run, lake: str) -> None:
    for token in ("nightly:7", quire.token()):
        before = len(rows(lake, "events"))
        arguments = ("append", lake, "events", "-", "--format", "csv", "--token", token)
        assert not run(*arguments, "--json", stdin="id,v\n3,1\n").json["repeated"]
        assert "already committed" in run(*arguments, stdin="id,v\n3,1\n").out
        assert run(*arguments, "--json", stdin="id,v\n3,1\n").json["repeated"]
        assert len(rows(lake, "events")) == before + 1
    assert run("delete", lake, "events", "true", "--token", "mine", "--json", code=2).json["error"]["kind"] == (
        "invalid-token"
    )


def test_an_expectation_that_holds_lets_the_commit_pass(run: Run, lake: str) -> None:
    run("delete", lake, "people", "id = 1", "--expect", "people=2", "--expect", "events=1", "--if-head", "2.0")
    assert len(rows(lake, "people")) == 2


def test_a_branch_is_written_apart(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "true", "--branch", "exp")
    assert len(rows(lake, "people")) == 3
    assert run("tables", lake, "-b", "exp", "--json").json["tables"][1]["rows"] == 0


def test_export_takes_filter_columns_limit_and_a_point_in_history(run: Run, lake: str) -> None:
    run("export", lake, "people", "x.jsonl", "--filter", "id >= 2", "--columns", "name")
    assert Path("x.jsonl").read_text() == '{"name":"Bobby"}\n{"name":"Cy"}\n'

    run("export", lake, "people", "x.jsonl", "--at", "1.0", "--filter", "id = 2")
    assert Path("x.jsonl").read_text() == '{"id":2,"name":"Bob"}\n'

    assert run("export", lake, "people", "x.csv", "--limit", "1", "--json").json["rows"] == 1
    assert run("export", lake, "people", "x.csv", "--columns", "nope", "--json", code=3).json["error"]["kind"] == (
        "column-not-found"
    )


def test_a_table_is_exported_as_a_delta_table(run: Run, lake: str) -> None:
    from deltalake import DeltaTable

    wrote = run("export", lake, "out", "--table", "people", "--format", "delta", "--json").json
    assert (wrote["format"], DeltaTable("out/people").to_pyarrow_table().num_rows) == (
        "delta",
        wrote["tables"]["people"]["rows"],
    )
    refused = run("export", lake, "people", "x.parquet", "--format", "delta", code=2)
    assert "quire export LAKE FOLDER --table people --format delta" in refused.err + refused.out


def test_export_to_stdout_prints_rows_and_nothing_else(run: Run, lake: str) -> None:
    ran = run("export", lake, "people", "-", "--format", "csv", "--filter", "id = 1")
    assert (ran.out, ran.err) == ('"id","name"\n1,"Ada"\n', "")
    assert (
        run("export", lake, "people", "-", "--format", "jsonl", "--filter", "id = 1").out == '{"id":1,"name":"Ada"}\n'
    )
    assert "stdout" in run("export", lake, "people", "-", "--format", "jsonl", "--json", code=2).out


def test_a_failed_export_leaves_the_old_file(run: Run, lake: str) -> None:
    Path("x.csv").write_text("old")
    run("export", lake, "people", "x.csv", "--filter", "nope = 1", code=2)
    run("export", lake, "people", "x.csv", "--filter", "cast(name as int) = 1", code=2)
    assert Path("x.csv").read_text() == "old"
    assert sorted(p.name for p in Path().iterdir()) == ["lake", "x.csv"]


def test_a_read_command_writes_nothing(run: Run, lake: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in Path(lake).rglob("*")}
    run("export", lake, "people", "-", "--format", "csv")
    for words in (["tables"], ["log"], ["status"], ["show"], ["diff"], ["doctor"], ["branch", "list"], ["tag", "list"]):
        extra = ["1.0"] if words[0] in ("show", "diff") else []
        run(*words, lake, *extra)
    assert {p: p.stat().st_mtime_ns for p in Path(lake).rglob("*")} == before


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_larger_file_goes_in_and_out(run: Run, lake: str, kind: str) -> None:
    count = 200_000
    run("sql", lake, f"select range as id, range / 2 as v from range({count})", "-o", f"in.{kind}")

    run("delete", lake, "events", "true")
    assert run("append", lake, "events", f"in.{kind}", "--json").json["tables"]["events"]["added"] == count
    ran = run("sql", lake, "select count(*) as n, sum(id) as ids, sum(v) as vs from events", "--json")
    total = count * (count - 1) // 2
    assert ran.json["rows"] == [{"n": count, "ids": total, "vs": total / 2}]

    run("export", lake, "events", f"out.{kind}")
    expected, found = (read_files([f"{name}.{kind}"], None, None).read_all() for name in ("in", "out"))
    assert found.sort_by("id").equals(expected.sort_by("id"))


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.csv", "id,v\n1,0.5\n2,x\n", "a.csv, line 3: Column 'v' is double and has the value 'x'"),
        ("b.csv", "id,v\n1,0.5\n2\n", "b.csv, line 3: This line has 1 fields, not 2"),
        ("c.jsonl", '{"id": 1, "v": 1}\n\n{"id": 2, "v": "x"}\n', "c.jsonl, line 3: Column 'v' is double"),
        ("d.jsonl", '{"id": 1, "v": 1}\n{"id": 1.5, "v": 1}\n', "d.jsonl, line 2: Column 'id' is int64"),
        ("e.jsonl", '{"id": 1, "v": 1}\n' * 40_000 + '{"id": 2, "v": 2, "x": 3}\n', "'x' further down, in line 40001"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_row_and_column(
    run: Run, lake: str, name: str, body: str, said: str
) -> None:
    Path(name).write_text(body)
    assert said in run("append", lake, "events", name, code=2).err


def test_a_list_that_is_none_is_told_with_its_row_and_column(run: Run, lake: str) -> None:
    run("table", "create", lake, "lists", "--schema", "id:int64,l:int64[]")
    Path("l.csv").write_text("id,l\n1,[1]\n2,hello\n")
    assert (
        "l.csv, line 3: Column 'l' is list<item: int64> and has the value 'hello', which is not JSON"
        in run("append", lake, "lists", "l.csv", code=2).err
    )
    Path("l.csv").write_text('id,l\n1,[1]\n2,"[""x""]"\n')
    assert "l.csv, line 3: Column 'l' is list" in run("append", lake, "lists", "l.csv", code=2).err


# -- insert, overwrite, update ----------------------------------------------------------------------------------------


def test_an_insert_is_strict_unless_it_ignores_what_exists(run: Run, lake: str) -> None:
    Path("x.csv").write_text("id,name\n2,Other\n7,Gil\n7,Gus\n8,Hal\n")
    Path("y.csv").write_text("id,name\n2,Other\n")
    assert run("insert", lake, "people", "y.csv", "--json", code=4).json["error"]["kind"] == "key-conflict"

    receipt = run("insert", lake, "people", "x.csv", "--ignore-existing", "--json").json
    assert (receipt["inserted"], receipt["ignored"]) == (2, 2)
    assert rows(lake, "people")[1:] == [
        {"id": 2, "name": "Bobby"},
        {"id": 3, "name": "Cy"},
        {"id": 7, "name": "Gil"},
        {"id": 8, "name": "Hal"},
    ]
    assert "inserted 0, ignored 4" in run("insert", lake, "people", "x.csv", "--ignore-existing").out
    assert run("insert", lake, "events", "y.csv", "--ignore-existing", "--json", code=2).json["error"]["next"]


def test_a_table_is_overwritten(run: Run, lake: str) -> None:
    Path("x.csv").write_text("id,name\n7,Gil\n")
    run("overwrite", lake, "people", "x.csv")
    assert rows(lake, "people") == [{"id": 7, "name": "Gil"}]
    assert run("overwrite", lake, "events", "x.csv", "--json", code=2).json["error"]["kind"] == "schema-mismatch"
    run("overwrite", lake, "events", "x.csv", "--replace-schema")
    assert rows(lake, "events") == [{"id": 7, "name": "Gil"}]


def test_columns_are_set_by_expression_and_by_value(run: Run, lake: str) -> None:
    run("update", lake, "events", "id = 1", "--set", "v = v + 1")
    run("update", lake, "events", "id = 2", "--value", "v=9")
    assert [r["v"] for r in rows(lake, "events")] == [2.5, 9.0]
    run("update", lake, "people", "id = 1", "--value", "name=12")
    run("update", lake, "people", "id = 2", "--value", "name=null")
    run("update", lake, "people", "id = 3", "--value", "name=a = 'b'")
    assert [r["name"] for r in rows(lake, "people")] == ["12", None, "a = 'b'"]
    assert run("update", lake, "people", "true", "--json", code=2).json["error"]["next"]
    assert (
        run("update", lake, "people", "true", "--value", "nope=1", "--json", code=3).json["error"]["column"] == "nope"
    )
    error = run("update", lake, "events", "true", "--value", "v=many", "--json", code=2).json["error"]
    assert error["kind"] == "schema-mismatch"


def test_a_value_is_read_as_its_column_has_it(run: Run, lake: str) -> None:
    run(
        "table",
        "create",
        lake,
        "kinds",
        "--schema",
        "id:int64,day:date,at:timestamp[us, tz=UTC],raw:binary,tags:string[]",
    )
    run(
        "append",
        lake,
        "kinds",
        "-",
        "--format",
        "jsonl",
        stdin='{"id": 1, "day": null, "at": null, "raw": null, "tags": []}',
    )
    run("update", lake, "kinds", "true", "--value", "day=2026-11-01", "--value", "at=2026-11-01T10:00:00Z", "--value",
        "raw=AP8=", "--value", 'tags=["a", "b"]')  # fmt: skip
    [found] = rows(lake, "kinds")
    assert (str(found["day"]), found["raw"], found["tags"]) == ("2026-11-01", b"\x00\xff", ["a", "b"])
    assert found["at"] == datetime(2026, 11, 1, 10, tzinfo=UTC)
