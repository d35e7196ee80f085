"""Queries, mutations and lint from the command line."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import ADD, FRIENDS, SCHEMA, Run, asked
from tests.rowfiles.reading import read_files

import quire
from quire.cli.graph_arguments import typed
from quire.graph.types import Type

ALL = "query all() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }"
ROWS = [{"name": "Ada", "age": 36}, {"name": "Bo", "age": None}, {"name": "Cy", "age": 7}]


# -- query -------------------------------------------------------------------------------------------------------------


def test_a_query_is_printed_as_a_table(run: Run, graph: str) -> None:
    assert run("query", graph, ALL).lines() == [["name", "age"], ["Ada", "36"], ["Bo", "NULL"], ["Cy", "7"]]


def test_json_tells_the_commit_the_columns_and_the_rows(run: Run, graph: str) -> None:
    found = run("query", graph, ALL, "--json").json
    assert found["commit"] == "3.0"
    assert [c["name"] for c in found["columns"]] == ["name", "age"]
    assert found["rows"] == ROWS


def test_a_query_is_a_text_a_file_a_stream_or_a_stored_name(run: Run, graph: str) -> None:
    Path("queries.gq").write_text(FRIENDS + ALL)
    expected = [{"name": "Bo"}]
    one = ("-p", "name=Ada", "--format", "json")

    assert run("query", graph, FRIENDS, *one).json == expected
    assert run("query", graph, "queries.gq", "friends", *one).json == expected
    assert run("query", graph, "-", *one, stdin=FRIENDS).json == expected
    assert run("query", graph, "friends", *one).json == expected
    assert run("query", graph, "queries.gq", "all", "--format", "json").json == ROWS


def test_what_is_no_query_says_what_it_could_be(run: Run, graph: str) -> None:
    Path("queries.gq").write_text(FRIENDS + ALL)

    absent = run("query", graph, "absent.gq", code=3).err
    assert "no file or stored query" in absent
    assert "not the text of a query" in absent
    assert "Did you mean 'friends'?" in run("query", graph, "freinds", code=3).err
    assert "is a directory" in run("query", graph, "graph/", code=2).err
    assert "stdin" in run("query", graph, "-", stdin="", code=2).err
    assert "UTF-8" in run("query", graph, "-", stdin=b"\xff{", code=2).err
    assert "another one" in run("query", graph, "friends", "add", "-p", "name=Ada", code=2).err
    Path("bytes.gq").write_bytes(b"\xff{")
    assert "UTF-8" in run("query", graph, "bytes.gq", code=2).err
    assert "Name one of friends, all" in run("query", graph, "queries.gq", code=2).err
    assert "Did you mean 'friends'?" in run("query", graph, "queries.gq", "freind", code=2).err


def test_an_error_in_a_file_names_the_file_the_line_and_the_column(run: Run, graph: str) -> None:
    Path("wrong.gq").write_text("query all() {\n  match { $p: Persn }\n  return { $p.name }\n}\n")
    error = run("query", graph, "wrong.gq", "--json", code=2).json["error"]
    assert (error["kind"], error["file"], error["line"], error["column"]) == ("invalid-query", "wrong.gq", 2, 11)
    assert "Did you mean 'Person'?" in error["message"] + error["next"]
    assert "wrong.gq" in run("query", graph, "wrong.gq", code=2).err


def test_every_text_format_goes_to_stdout(run: Run, graph: str) -> None:
    assert run("query", graph, ALL, "--format", "json").json == ROWS
    assert [json.loads(line) for line in run("query", graph, ALL, "--format", "jsonl").out.splitlines()] == ROWS
    read = list(csv.DictReader(io.StringIO(run("query", graph, ALL, "--format", "csv").out)))
    assert [row["name"] for row in read] == ["Ada", "Bo", "Cy"]
    assert "contradict" in run("query", graph, ALL, "--json", "--format", "csv", code=2).json["error"]["message"]


@pytest.mark.parametrize("file", ["x.csv", "x.jsonl", "x.parquet", "x.arrow"])
def test_a_result_is_written_to_a_file(run: Run, graph: str, file: str) -> None:
    assert run("query", graph, ALL, "-o", file, "--json").json == {"commit": "3.0", "file": file, "rows": 3}
    assert read_files([file], None, None).read_all().to_pylist() == ROWS
    assert "no directory for absent" in run("query", graph, ALL, "-o", f"absent/{file}", code=3).err


def test_whole_nodes_and_edges_are_written(run: Run, graph: str) -> None:
    whole = 'query q() { match { $p: Person { name: "Ada" } $p $e:knows $f } return { $p, $e.since as since } }'
    [row] = run("query", graph, whole, "--json").json["rows"]
    assert row["since"] == "2020-01-01"
    assert {"name": "Ada", "age": 36}.items() <= row["p"].items()
    assert "Ada" in run("query", graph, whole).out
    run("query", graph, whole, "-o", "whole.parquet")
    assert pq.read_table("whole.parquet").num_rows == 1


def test_history_and_branches_are_queried(run: Run, graph: str) -> None:
    run("branch", "create", graph, "trial")
    run("mutate", graph, "add", "-p", "name=Di", "-b", "trial")
    count = ("query", graph, "query n() { match { $p: Person } return { count($p) as n } }", "--format", "json")

    assert run(*count).json == [{"n": 3}]
    assert run(*count, "-b", "trial").json == [{"n": 4}]
    assert run(*count, "--at", "2.0").json == [{"n": 3}]
    assert run(*count, "--at", "1.0").json == [{"n": 0}]
    assert "no stored query" in run("query", graph, "friends", "-p", "name=Ada", "--at", "2.0", code=3).err


def test_a_mutation_is_not_queried_and_a_query_does_not_mutate(run: Run, graph: str) -> None:
    assert "quire mutate" in run("query", graph, ADD, "-p", "name=x", code=2).err
    assert "quire query" in run("mutate", graph, FRIENDS, "-p", "name=x", code=2).err


def test_a_query_is_explained_and_analyzed(run: Run, graph: str) -> None:
    plan = run("query", graph, "friends", "-p", "name=Ada", "--explain").out
    assert "edge:Knows" in plan
    assert "select" in plan.lower()

    told = run("query", graph, "friends", "-p", "name=Ada", "--analyze", "--json").json
    assert told["rows"] == 1
    assert told["cost"]["seconds"] > 0
    assert "requests" in run("query", graph, "friends", "-p", "name=Ada", "--analyze").out
    assert "no rows" in run("query", graph, "friends", "--explain", "-o", "x.csv", code=2).err


def test_an_arrow_stream_goes_to_stdout(graph: str) -> None:
    command = [sys.executable, "-m", "quire.cli", "query", graph, ALL, "--format", "arrow"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert pa.ipc.open_stream(done.stdout).read_all().to_pylist() == ROWS


def test_a_reader_that_has_enough_is_no_error(run: Run, graph: str) -> None:
    rows = "".join(json.dumps({"name": f"{'p' * 90}{n}"}) + "\n" for n in range(20_000))
    run("load", graph, "-", "--type", "Person", stdin=rows)
    command = f"{sys.executable} -m quire.cli query {graph} '{ALL}' | head -n 2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert done.returncode == 141
    assert len(done.stdout.splitlines()) == 2


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("36", Type("I32"), 36),
        ("-36", Type("I64"), -36),
        ("36", Type("String"), "36"),
        ("true", Type("String"), "true"),
        ("null", Type("String"), "null"),
        ("null", Type("String", optional=True), None),
        ("null", Type("I64", optional=True), None),
        ("True", Type("Bool"), True),
        ("false", Type("Bool"), False),
        ("1.5", Type("F64"), 1.5),
        ("2", Type("F32"), 2.0),
        ("1e3", Type("F64"), 1000.0),
        ("2024-02-29", Type("Date"), "2024-02-29"),
        ("[1, 2]", Type("I64", many=True), [1, 2]),
        ('["a", "b"]', Type("String", many=True), ["a", "b"]),
        ("[0.5, 1]", Type("Vector", size=2), [0.5, 1]),
        ("x", Type("I32"), "x"),
        ("1_000", Type("I32"), "1_000"),
        ("nan", Type("F64"), "nan"),
        ("[1", Type("I64", many=True), "[1"),
        ("yes", Type("Bool"), "yes"),
    ],
)
def test_a_word_of_the_shell_is_read_as_the_parameter_says(text: str, kind: Type, value: object) -> None:
    found = typed(text, kind)
    assert found == value
    assert type(found) is type(value)


def test_values_arrive_with_their_types(run: Run, graph: str) -> None:
    query = (
        "query q($names: [String], $above: I32?, $on: Date, $at: DateTime, $f: F64, $yes: Bool) "
        "{ match { $p: Person  $p.name in $names  $p.age > $above } "
        "return { $p.name as name, $on as on, $at as at, $f as f, $yes as yes } }"
    )
    words = ['names=["Ada", "Bo"]', "above=7", "on=2024-02-29", "at=2024-02-29T12:00:00Z", "f=2.5", "yes=true"]
    given = [part for word in words for part in ("-p", word)]
    found = run("query", graph, query, *given, "--format", "json").json
    assert found == [{"name": "Ada", "on": "2024-02-29", "at": "2024-02-29T12:00:00Z", "f": 2.5, "yes": True}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "is missing"),
        (["-p", "name=Ada", "-p", "nme=Bo"], "Did you mean 'name'?"),
        (["-p", "name"], "name=value"),
        (["--params", "{"], "is not valid JSON"),
        (["--params", "[1]"], "must be a JSON object"),
        (["--params", "@absent.json"], "no file absent.json"),
        (["--params", '{"name": 7}'], "must be text, not 7"),
    ],
)
def test_values_that_do_not_fit_say_why(run: Run, graph: str, given: list[str], said: str) -> None:
    ran = run("query", graph, FRIENDS, *given, code=None)
    assert ran.code in (2, 3)
    assert said in ran.err


def test_a_number_that_is_none_is_told_by_its_parameter(run: Run, graph: str) -> None:
    ran = run("mutate", graph, ADD, "-p", "name=Di", "-p", "age=old", code=2)
    assert "parameter age" in ran.err
    assert "whole number (I32), not 'old'" in ran.err


def test_parameters_come_as_json_from_a_word_a_file_or_stdin(run: Run, graph: str) -> None:
    Path("values.json").write_text('{"name": "Ada"}')
    for given in ('{"name": "Ada"}', "@values.json", "@-"):
        found = run("query", graph, FRIENDS, "--params", given, "--format", "json", stdin='{"name": "Ada"}')
        assert found.json == [{"name": "Bo"}]
    both = run("query", graph, FRIENDS, "--params", '{"name": "Bo"}', "-p", "name=Ada", "--format", "json")
    assert both.json == [{"name": "Bo"}]


def test_a_value_is_bound_not_pasted(run: Run, graph: str) -> None:
    assert run("query", graph, FRIENDS, "-p", 'name=Ada" } } //', "--format", "json").json == []


# -- mutate ------------------------------------------------------------------------------------------------------------


def test_a_mutation_reports_exactly_what_it_did(run: Run, graph: str) -> None:
    text = """query change($name: String) {
      insert Person { name: $name, age: 50 }
      update Person set { age: 37 } where name = "Ada"
      delete Person where name = "Bo"
    }"""

    ran = run("mutate", graph, text, "-p", "name=Di", "-m", "changed")

    assert ran.lines() == [
        ["committed", "4.0", "on", "main"],
        ["type", "inserted", "updated", "deleted"],
        ["Knows", "0", "0", "1"],
        ["Person", "1", "1", "1"],
    ]
    found = asked(graph, "match { $p: Person } return { $p.name as name, $p.age as age } order { name }")
    assert found == [{"name": "Ada", "age": 37}, {"name": "Cy", "age": 7}, {"name": "Di", "age": 50}]
    assert quire.open(graph, read_only=True).log()[0].message == "changed"


def test_the_receipt_of_a_mutation_is_json_too(run: Run, graph: str) -> None:
    told = run("mutate", graph, "add", "-p", "name=Di", "--json").json
    assert quire.open(graph, read_only=True).log()[0].message == "mutate add"
    assert (told["commit"], told["branch"]) == ("4.0", "main")
    assert (told["inserted"], told["updated"], told["deleted"]) == ({"Person": 1}, {}, {})
    assert told["tables"]["node:Person"]["added"] == 1


def test_a_mutation_comes_from_a_file_or_stdin(run: Run, graph: str) -> None:
    Path("changes.gq").write_text(ADD + "query drop($name: String) { delete Person where name = $name }")
    run("mutate", graph, "changes.gq", "drop", "-p", "name=Bo")
    run("mutate", graph, "-", "-p", "name=Di", stdin=ADD)
    assert [row["n"] for row in asked(graph, "match { $p: Person } return { $p.name as n } order { n }")] == [
        "Ada",
        "Cy",
        "Di",
    ]


def test_a_mutation_that_changes_nothing_says_so(run: Run, graph: str) -> None:
    ran = run("mutate", graph, 'query q() { delete Person where name = "Nobody" }')
    assert ran.out == "nothing to commit\n"


def test_a_mutation_that_breaks_a_rule_is_refused(run: Run, graph: str) -> None:
    ran = run("mutate", graph, ADD, "-p", "name=Di", "-p", "age=200", code=2)
    assert "age" in ran.err
    assert "(range)" in ran.err
    told = run("mutate", graph, ADD, "-p", "name=Di", "-p", "age=200", "--json", code=2).json["error"]
    assert told["kind"] == "integrity"
    assert told["violations"][0]["rule"] == "range"


def test_a_mutation_may_depend_on_the_head_and_carry_a_token(run: Run, graph: str) -> None:
    run("mutate", graph, "add", "-p", "name=Di", "--if-head", "1.0", code=4)
    run("mutate", graph, "add", "-p", "name=Di", "--if-head", "3.0", "--token", "stream:1")
    again = run("mutate", graph, "add", "-p", "name=Eve", "--token", "stream:1")
    assert again.out.startswith("already committed")
    told = run("mutate", graph, "add", "-p", "name=Eve", "--token", "stream:1", "--json").json
    assert told["repeated"] is True
    assert quire.open(graph, read_only=True).head == "4.0"


# -- lint --------------------------------------------------------------------------------------------------------------

TWO_WRONG = """\
query one() { match { $p: Persn } return { $p.name } }
query two($unused: I32) { match { $p: Person } return { $p.name } }
query three() { match { $p: Person } return { $p.nam } }
"""


def test_lint_tells_every_finding_with_its_place(run: Run, graph: str) -> None:
    Path("wrong.gq").write_text(TWO_WRONG)

    ran = run("lint", graph, "wrong.gq", code=1)

    told = ran.out.splitlines()
    assert told[0].startswith("wrong.gq:1:")
    assert ": error: " in told[0]
    assert "Did you mean 'Person'?" in told[0]
    assert any(line.startswith("wrong.gq:2:") and ": warning: " in line for line in told)
    assert any(line.startswith("wrong.gq:3:") and "'name'" in line for line in told)
    assert told[-1] == "2 error(s), 1 warning(s)"

    found = run("lint", graph, "wrong.gq", "--json", code=1).json
    assert (found["errors"], found["warnings"]) == (2, 1)
    assert [f["line"] for f in found["findings"]] == [1, 2, 3]


def test_lint_is_silent_about_what_is_right(run: Run, graph: str) -> None:
    Path("right.gq").write_text(FRIENDS + ADD)
    assert run("lint", graph, "right.gq", ALL).out == "0 error(s), 0 warning(s)\n"
    assert run("lint", graph, "-", "--json", stdin=ALL).json == {"errors": 0, "warnings": 0, "findings": []}
    assert "stdin" in run("lint", graph, "-", stdin=TWO_WRONG, code=1).out


def test_a_warning_alone_is_no_failure(run: Run, graph: str) -> None:
    ran = run("lint", graph, "query two($unused: I32) { match { $p: Person } return { $p.name } }")
    assert ran.out.startswith("<text>:1:")
    assert ran.out.endswith("0 error(s), 1 warning(s)\n")


def test_lint_needs_no_lake(run: Run) -> None:
    Path("people.pg").write_text(SCHEMA)
    Path("right.gq").write_text(FRIENDS)
    assert run("lint", "--schema", "people.pg", "right.gq").out == "0 error(s), 0 warning(s)\n"
    assert run("lint", "--schema", "people.pg", "right.gq", TWO_WRONG, "--json", code=1).json["errors"] == 2
    Path("broken.pg").write_text("node Person { name: Strng }")
    assert "broken.pg" in run("lint", "--schema", "broken.pg", "right.gq", code=2).err
    assert "no file" in run("lint", "--schema", "absent.pg", "right.gq", code=3).err


def test_without_a_text_lint_looks_at_what_is_stored(run: Run, graph: str) -> None:
    assert run("lint", graph).out == "0 error(s), 0 warning(s)\n"
    run(
        "schema",
        "apply",
        graph,
        SCHEMA.replace("edge Knows", "edge Likes").replace("since: Date?", "since: Date? "),
        "--drop-data",
        "--break-queries",
    )
    told = run("lint", graph, code=1).out
    assert told.startswith("stored:friends:")
    assert "knows" in told


def test_a_missing_parameter_and_a_missing_embedder_say_which_option_helps(run: Run, graph: str) -> None:
    assert "-p name=" in run("query", graph, "friends", code=2).err
    run("init", "docs")
    run("schema", "apply", "docs", "node Doc { name: String @key  text: String?  vec: Vector(4)? @embed(text) }")
    query = "query q($t: String) { match { $d: Doc } return { $d.name } order { nearest($d.vec, $t) } limit 3 }"
    said = run("query", "docs", query, "-p", "t=sea", code=6).err
    assert "--embedder" in said
    assert "QUIRE_EMBEDDER" in said
