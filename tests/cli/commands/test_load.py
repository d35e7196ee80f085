"""Rows into the graph from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run, asked
from tests.cli.test_output import terminal

import quire

NEW = """\
{"type": "Person", "data": {"name": "Di", "age": 50}}
{"type": "Person", "data": {"name": "Eve"}}
{"edge": "Knows", "from": "Di", "to": "Ada", "data": {"since": "2024-02-29"}}
"""
WRONG = """\
{"type": "Person", "data": {"name": "Di", "age": 200}}
{"type": "Person", "data": {"name": "Eve", "age": "old"}}
{"type": "Persn", "data": {"name": "Flo"}}
{"type": "Person", "data": {"name": "Gil"}}
"""
NAMES = "match { $p: Person } return { $p.name as name } order { name }"


def names(lake: str) -> list[str]:
    return [row["name"] for row in asked(lake, NAMES)]


def test_a_load_of_many_types_is_one_commit_and_one_table_of_counts(run: Run, graph: str) -> None:
    Path("new.jsonl").write_text(NEW)

    ran = run("load", graph, "new.jsonl", "-m", "news")

    assert ran.lines() == [
        ["committed", "4.0", "on", "main"],
        ["type", "inserted", "updated", "removed", "rejected"],
        ["Person", "2", "0", "0", "0"],
        ["Knows", "1", "0", "0", "0"],
    ]
    assert ran.err == ""
    assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Eve"]
    assert quire.open(graph, read_only=True).log()[0].message == "news"


def test_json_tells_the_commit_and_the_rows(run: Run, graph: str) -> None:
    ran = run("load", graph, "-", "--json", stdin=NEW)

    assert ran.json["commit"] == "4.0"
    assert ran.json["branch"] == "main"
    assert {name: counts["inserted"] for name, counts in ran.json["types"].items()} == {"Person": 2, "Knows": 1}
    assert (ran.json["rows"], ran.json["rejected"], ran.json["dry_run"]) == (3, 0, False)
    assert ran.err == ""


def test_merge_updates_and_overwrite_replaces(run: Run, graph: str) -> None:
    row = '{"type": "Person", "data": {"name": "Cy", "age": 8}}'
    merged = run("load", graph, "-", "--mode", "merge", "--json", stdin=row)
    assert (merged.json["types"]["Person"]["inserted"], merged.json["types"]["Person"]["updated"]) == (0, 1)

    rows = '{"name": "Acme"}\n{"name": "Beta"}'
    run("load", graph, "-", "--mode", "overwrite", "--type", "Company", stdin=rows)
    found = asked(graph, "match { $c: Company } return { $c.name as name, $c.kind as kind } order { name }")
    assert found == [{"name": "Acme", "kind": None}, {"name": "Beta", "kind": None}]


def test_an_id_that_is_there_refuses_an_append(run: Run, graph: str) -> None:
    ran = run("load", graph, "-", stdin='{"type": "Person", "data": {"name": "Ada"}}', code=None)

    assert ran.code in (2, 4)
    assert "Ada" in ran.err
    assert names(graph) == ["Ada", "Bo", "Cy"]


def test_who_appends_what_is_there_is_told_of_merge(run: Run, graph: str) -> None:
    row = '{"type": "Person", "data": {"name": "Ada"}}'
    assert "--mode merge" in run("load", graph, "-", stdin=row, code=2).err
    wrong = '{"type": "Person", "data": {"name": "Zoe", "age": 999}}'
    assert "--mode merge" not in run("load", graph, "-", stdin=wrong, code=2).err


def test_files_of_columns_are_named_after_their_type_or_told_it(run: Run, graph: str) -> None:
    Path("Person.csv").write_text("name,age\nDi,50\nEve,\n")
    pq.write_table(pa.table({"from": ["Di"], "to": ["Eve"]}), "pairs.parquet")
    with pa.ipc.new_file("Company.arrow", pa.schema([("name", pa.string())])) as file:
        file.write_table(pa.table({"name": ["Beta"]}))

    run("load", graph, "Person.csv", "Company.arrow")
    run("load", graph, "pairs.parquet", "--edge", "Knows")

    assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Eve"]
    assert "type" in run("load", graph, "pairs.parquet", code=2).err
    assert (
        "type= and edge= were both given"
        in run("load", graph, "Person.csv", "--type", "Person", "--edge", "Knows", code=2).err
    )


def test_a_pattern_names_many_files(run: Run, graph: str) -> None:
    Path("data").mkdir()
    for name in ("Di", "Eve"):
        Path(f"data/{name}.jsonl").write_text(json.dumps({"type": "Person", "data": {"name": name}}))

    assert run("load", graph, "data/*.jsonl", "--json").json["rows"] == 2
    assert "No file matches" in run("load", graph, "data/*.csv", code=3).err
    assert "no file" in run("load", graph, "absent.jsonl", code=3).err


def test_csv_and_arrow_come_from_stdin(run: Run, graph: str) -> None:
    run("load", graph, "-", "--format", "ndjson", "--type", "Person", stdin="")
    run("load", graph, "-", "--format", "csv", "--type", "Person", stdin="name,age\nDi,50\n")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("name", pa.string())])) as stream:
        stream.write_table(pa.table({"name": ["Eve"]}))
    run("load", graph, "-", "--format", "arrow", "--type", "Person", stdin=sink.getvalue().to_pybytes())

    assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Eve"]
    assert "stdin" in run("load", graph, "-", "--format", "parquet", "--type", "Person", code=2).err
    assert "one stdin" in run("load", graph, "-", "-", code=2).err
    assert "--format" in run("load", graph, "a.csv", "-", code=2).err


def test_every_error_is_told_with_file_line_and_rule(run: Run, graph: str) -> None:
    Path("wrong.jsonl").write_text(WRONG)

    ran = run("load", graph, "wrong.jsonl", code=2)

    told = ran.err.splitlines()
    assert told[0] == "error: Rules of the graph are broken 3 times."
    assert sum("wrong.jsonl:1: " in line and "age" in line and "(range)" in line for line in told) == 1
    assert sum("wrong.jsonl:2: " in line and "age" in line and "(type)" in line for line in told) == 1
    assert sum("wrong.jsonl:3: " in line and "Did you mean 'Person'?" in line for line in told) == 1
    assert told[-1].startswith("next:  Nothing was committed")
    assert ran.out == ""
    assert names(graph) == ["Ada", "Bo", "Cy"]

    error = run("load", graph, "wrong.jsonl", "--json", code=2).json["error"]
    assert error["kind"] == "integrity"
    assert {(v["file"], v["line"]) for v in error["violations"]} == {("wrong.jsonl", n) for n in (1, 2, 3)}


def test_errors_are_collected_up_to_a_number(run: Run, graph: str) -> None:
    rows = "".join(json.dumps({"type": "Person", "data": {"name": f"n{i}", "age": -1}}) + "\n" for i in range(50))
    error = run("load", graph, "-", "--max-errors", "5", "--json", stdin=rows, code=2).json["error"]
    assert len(error["violations"]) == 5
    assert run("load", graph, "-", "--max-errors", "0", stdin=rows, code=2).err.startswith("error: ")


def test_rejects_are_written_and_may_be_skipped(run: Run, graph: str) -> None:
    Path("wrong.jsonl").write_text(WRONG)

    ran = run("load", graph, "wrong.jsonl", "--rejects", "bad.ndjson", "--skip-rejects")

    assert "3 row(s) rejected, written to bad.ndjson" in ran.out
    assert "wrong.jsonl:2: " in ran.err
    assert "(type)" in ran.err
    assert ["Person", "1", "0", "0", "2"] in ran.lines()
    assert names(graph) == ["Ada", "Bo", "Cy", "Gil"]
    written = [json.loads(line) for line in Path("bad.ndjson").read_text().splitlines()]
    assert sorted(row["line"] for row in written) == [1, 2, 3]
    assert all("row" in row and row["rule"] for row in written)


def test_only_so_many_rejects_are_skipped(run: Run, graph: str) -> None:
    Path("wrong.jsonl").write_text(WRONG)
    run("load", graph, "wrong.jsonl", "--skip-rejects", "--max-errors", "2", code=2)
    assert names(graph) == ["Ada", "Bo", "Cy"]
    run("load", graph, "wrong.jsonl", "--skip-rejects", "--max-errors", "3")
    assert names(graph) == ["Ada", "Bo", "Cy", "Gil"]


def test_a_dry_run_checks_everything_and_commits_nothing(run: Run, graph: str) -> None:
    ran = run("load", graph, "-", "--dry-run", stdin=NEW)
    assert ran.lines()[0] == ["dry", "run:", "nothing", "was", "committed"]
    assert ["Person", "2", "0", "0", "0"] in ran.lines()
    assert run("load", graph, "-", "--dry-run", "--json", stdin=NEW).json["dry_run"] is True

    orphan = '{"edge": "Knows", "from": "Ada", "to": "Nobody"}'
    assert "Nobody" in run("load", graph, "-", "--dry-run", stdin=orphan, code=2).err
    assert quire.open(graph, read_only=True).head == "3.0"


def test_a_load_may_depend_on_the_head_and_carry_a_token(run: Run, graph: str) -> None:
    error = run("load", graph, "-", "--if-head", "1.0", "--json", stdin=NEW, code=4).json["error"]
    assert error["kind"] == "expectation-failed"

    run("load", graph, "-", "--if-head", "3.0", "--token", "nightly:1", stdin=NEW)
    again = run("load", graph, "-", "--token", "nightly:1", "--json", stdin=NEW)
    assert again.json["repeated"] is True
    assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Eve"]


def test_a_branch_is_loaded_apart(run: Run, graph: str) -> None:
    run("branch", "create", graph, "trial")
    assert "on trial" in run("load", graph, "-", "-b", "trial", stdin=NEW).out
    assert names(graph) == ["Ada", "Bo", "Cy"]


def test_a_lake_without_a_graph_says_how_to_begin(run: Run, lake: str) -> None:
    ran = run("load", lake, "-", stdin=NEW, code=2)
    assert "no graph here" in ran.err
    assert "schema" in ran.err


@pytest.mark.parametrize("arguments", [["--mode", "replace"], ["--format", "xml"], ["--frob"]])
def test_options_that_do_not_exist_exit_2(run: Run, graph: str, arguments: list[str]) -> None:
    assert "--help" in run("load", graph, "-", *arguments, stdin=NEW, code=2).err


def test_progress_is_for_terminals_only(run: Run, graph: str) -> None:
    Path("new.jsonl").write_text(NEW)
    code, shown = terminal("load", graph, "new.jsonl")
    assert code == 0
    assert "new.jsonl" in shown
    assert "committed 4.0" in shown

    assert run("load", graph, "-", stdin='{"type": "Person", "data": {"name": "Flo"}}').err == ""


def test_ctrl_c_commits_nothing(graph: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "quire.cli", "load", graph, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    # More than a pipe holds: when the write returns, the command is at work.
    process.stdin.write(b"".join(b'{"type": "Person", "data": {"name": "p%d"}}\n' % n for n in range(20_000)))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # with stdin still open

    out, err = process.communicate()
    assert b"nothing was committed" in err
    assert b"Traceback" not in err
    assert out == b""
    assert names(graph) == ["Ada", "Bo", "Cy"]


def test_vectors_are_made_by_the_embedder_that_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = 'node Note { title: String @key  text: String  vector: Vector(64) @embed("text", model="hash-64") }'
    notes = [("tea", "green tea and black tea"), ("rain", "rain over the sea"), ("bread", "bread and butter")]
    rows = "".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in notes)
    run("init", "notes")
    run("schema", "apply", "notes", schema)
    load = ("load", "notes", "-", "--type", "Note")

    assert "embedder" in run(*load, stdin=rows, code=None).err
    assert "hash-32" in run(*load, "--embedder", "hash:32", stdin=rows, code=None).err
    assert "openai:MODEL" in run(*load, "--embedder", "magic", stdin=rows, code=2).err
    run(*load, "--embedder", "hash:64", stdin=rows)

    order = "order { nearest($n.vector, $text) } limit 1"
    nearest = f"query near($text: String) {{ match {{ $n: Note }} return {{ $n.title as t }} {order} }}"
    asked_for = ("query", "notes", nearest, "-p", "text=black tea", "--format", "json")
    assert run(*asked_for, "--embedder", "hash:64").json == [{"t": "tea"}]
    monkeypatch.setenv("QUIRE_EMBEDDER", "hash:64")
    assert run(*asked_for).json == [{"t": "tea"}]
    insert = 'query add() { insert Note { title: "snow", text: "snow on the hills" } }'
    assert run("mutate", "notes", insert, "--json").json["inserted"] == {"Note": 1}
