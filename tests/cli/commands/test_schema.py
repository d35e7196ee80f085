"""Schemas and stored queries from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import ADD, FRIENDS, SCHEMA, Run, asked

import quire

WIDER = SCHEMA.replace("age: I32?\n", "age: I32?\n  city: String?\n")
NARROWER = SCHEMA.replace("  age: I32?\n  @range(age, 0..150)\n", "")
STRICTER = SCHEMA.replace("age: I32?", "age: I32")


@pytest.fixture
def empty(run: Run) -> str:
    run("init", "fresh")
    return "fresh"


def head(lake: str) -> str:
    return quire.open(lake, read_only=True).head


# -- schema ------------------------------------------------------------------------------------------------------------


def test_a_schema_is_applied_from_a_file_a_text_or_stdin(run: Run, empty: str) -> None:
    Path("people.pg").write_text(SCHEMA)

    ran = run("schema", "apply", empty, "people.pg", "-m", "begin")

    assert ran.lines()[0] == ["committed", "1.0", "on", "main"]
    assert ran.lines()[1] == ["step", "type", "property", "what", "it", "does"]
    assert any(line[1:2] == ["Person"] for line in ran.lines())
    assert quire.open(empty, read_only=True).log()[0].message == "begin"

    told = run("schema", "apply", empty, WIDER, "--json").json
    assert told["commit"] == "2.0"
    assert [(s["type"], s["property"]) for s in told["steps"]] == [("Person", "city")]
    assert run("schema", "apply", empty, "-", stdin=WIDER).out == (
        "the graph has this schema already; nothing to commit\n"
    )
    assert head(empty) == "2.0"


def test_a_plan_changes_nothing(run: Run, graph: str) -> None:
    ran = run("schema", "plan", graph, WIDER)
    assert "city" in ran.out
    assert run("schema", "plan", graph, WIDER, "--json").json["steps"][0]["property"] == "city"
    assert run("schema", "apply", graph, WIDER, "--dry-run").out == ran.out
    assert run("schema", "plan", graph, SCHEMA).out == "the graph has this schema already\n"
    assert head(graph) == "3.0"


def test_what_stands_against_a_change_is_told_with_its_rows(run: Run, graph: str) -> None:
    ran = run("schema", "plan", graph, STRICTER, code=6)
    assert "this would be refused:" in ran.out
    assert "Bo" in ran.out

    [refusal] = run("schema", "plan", graph, STRICTER, "--json", code=6).json["refusals"]
    assert (refusal["type"], refusal["property"], refusal["rows"]) == ("Person", "age", 1)
    assert refusal["examples"] == ["Bo"]

    refused = run("schema", "apply", graph, STRICTER, code=6)
    assert "not applied" in refused.err
    assert refused.out == ""
    assert run("schema", "apply", graph, STRICTER, "--json", code=6).json["error"]["kind"] == "schema-refused"
    assert head(graph) == "3.0"


def test_several_refusals_are_all_told(run: Run, graph: str) -> None:
    ran = run("schema", "apply", graph, STRICTER.replace("kind: enum(public, private)?", ""), code=6)
    told = ran.err.splitlines()
    assert told[0] == "error: The schema was not applied."
    assert sum(line.startswith("  ") for line in told) == 2
    assert "--drop-data" in told[-1]


def test_data_is_dropped_on_request_only(run: Run, graph: str) -> None:
    run("schema", "apply", graph, NARROWER, code=6)
    told = run("schema", "apply", graph, NARROWER, "--drop-data", code=6).err
    assert "stored query" in told, "it uses what would be dropped"
    run("schema", "plan", graph, NARROWER, "--drop-data", "--break-queries")
    run("schema", "apply", graph, NARROWER, "--drop-data", "--break-queries")
    assert "age" not in run("schema", "show", graph).out


def test_a_schema_may_depend_on_the_head(run: Run, graph: str) -> None:
    run("schema", "apply", graph, WIDER, "--if-head", "1.0", code=4)
    assert "city" not in run("schema", "show", graph).out
    run("schema", "apply", graph, WIDER, "--if-head", "3.0")
    assert "city: String?" in run("schema", "show", graph).out


def test_a_schema_is_shown_as_it_was_at_any_commit(run: Run, graph: str) -> None:
    run("schema", "apply", graph, WIDER)
    assert "city: String?" in run("schema", "show", graph).out
    assert "city" not in run("schema", "show", graph, "--at", "1.0").out

    run("init", "copy")
    run("schema", "apply", "copy", "-", stdin=run("schema", "show", graph).out)
    assert run("schema", "show", "copy").out == run("schema", "show", graph).out


def test_a_schema_is_told_as_json(run: Run, graph: str) -> None:
    told = run("schema", "show", graph, "--json").json
    assert told["commit"] == "3.0"
    types = {t["name"]: t for t in told["types"]}
    assert types["Person"]["key"] == ["name"]
    assert types["Person"]["properties"][1] == {"name": "age", "type": "I32", "required": False}
    assert (types["Knows"]["from"], types["WorksAt"]["to"]) == ("Person", "Company")


def test_a_schema_is_drawn(run: Run, graph: str) -> None:
    assert run("schema", "show", graph, "--svg", "people.svg").out == "wrote people.svg\n"
    drawn = Path("people.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert "WorksAt" in drawn
    assert run("schema", "show", graph, "--svg", "-").out == drawn
    assert run("schema", "show", graph, "--svg", "x.svg", "--json").json == {"commit": "3.0", "file": "x.svg"}
    assert "stdout" in run("schema", "show", graph, "--svg", "-", "--json", code=2).json["error"]["message"]
    assert run("schema", "show", graph, "--svg", "absent/x.svg", code=3).err.startswith("error: ")


def test_a_lake_without_a_graph_has_no_types(run: Run, lake: str) -> None:
    assert run("schema", "show", lake).out == "// no types\n"
    assert run("schema", "show", lake, "--json").json["types"] == []


def test_a_schema_that_is_none_says_where_it_is_wrong(run: Run, graph: str) -> None:
    Path("wrong.pg").write_text("node Person {\n  name: Strng @key\n}\n")
    error = run("schema", "apply", graph, "wrong.pg", "--json", code=2).json["error"]
    assert error["kind"] == "invalid-schema"
    assert "String" in error["message"] + (error["next"] or "")
    assert "wrong.pg" in run("schema", "plan", graph, "wrong.pg", code=2).err

    absent = run("schema", "apply", graph, "absent.pg", code=3).err
    assert "no file" in absent
    assert "not the text of a schema" in absent
    assert "is a directory" in run("schema", "plan", graph, "graph", code=2).err


@pytest.mark.parametrize("text", ["", "  \n", "// nothing { yet }\n"])
@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_text_without_types_is_refused(run: Run, graph: str, verb: str, text: str) -> None:
    Path("empty.pg").write_text(text)
    error = run("schema", verb, graph, "empty.pg", "--json", code=2).json["error"]
    assert error["kind"] == "invalid-schema"
    assert error["message"] == "empty.pg: the text defines no type."
    assert "--drop-data" in error["next"]
    assert "The text defines no type." in run("schema", verb, graph, "-", stdin=text, code=2).err


def test_all_types_go_when_that_is_asked_for(run: Run, graph: str) -> None:
    run("stored", "remove", graph, "friends")
    run("stored", "remove", graph, "add")
    run("schema", "apply", graph, "-", "--drop-data", stdin="")
    assert run("schema", "show", graph, "--json").json["types"] == []


# -- stored queries ----------------------------------------------------------------------------------------------------


def test_queries_are_stored_from_a_file_a_text_or_stdin(run: Run, graph: str) -> None:
    Path("more.gq").write_text(
        "query old() { match { $p: Person  $p.age > 30 } return { $p.name } }\n"
        "query young() { match { $p: Person  $p.age < 30 } return { $p.name } }\n"
    )
    ran = run("stored", "add", graph, "more.gq", "-m", "ages")
    assert ran.lines()[0] == ["committed", "4.0", "on", "main"]
    assert "stored old" in ran.out
    one = "query one() { match { $p: Person } return { $p.name } limit 1 }"
    told = run("stored", "add", graph, one, "--json").json
    assert (told["commit"], told["stored"]) == ("5.0", ["one"])
    run("stored", "add", graph, "-", stdin=one.replace("one", "two"))

    listed = run("stored", "list", graph)
    assert [line[0] for line in listed.lines()] == ["query", "add", "friends", "old", "one", "two", "young"]


def test_the_list_tells_what_queries_do_and_take(run: Run, graph: str) -> None:
    text = run("stored", "list", graph).out
    assert "Whom somebody knows" in text
    assert "name: String, age: I32?" in text

    queries = {q["name"]: q for q in run("stored", "list", graph, "--json").json["queries"]}
    assert (queries["add"]["does"], queries["friends"]["does"]) == ("changes", "reads")
    assert queries["friends"]["parameters"] == [{"name": "name", "type": "String"}]


def test_a_stored_query_is_shown_as_text_that_can_be_stored_again(run: Run, graph: str) -> None:
    shown = run("stored", "show", graph, "friends").out
    assert run("stored", "add", graph, "-", stdin=shown).out == "nothing to commit\n  stored friends\n"
    told = run("stored", "show", graph, "friends", "--json").json
    assert (told["name"], told["text"], told["description"]) == ("friends", shown, "Whom somebody knows")
    assert "Did you mean 'friends'?" in run("stored", "show", graph, "friend", code=3).err


def test_a_stored_query_runs_by_what_it_is(run: Run, graph: str) -> None:
    assert run("stored", "run", graph, "friends", "-p", "name=Ada").lines() == [["name"], ["Bo"]]
    assert run("stored", "run", graph, "friends", "--params", '{"name": "Ada"}', "--json").json["rows"] == [
        {"name": "Bo"}
    ]
    assert run("stored", "run", graph, "add", "-p", "name=Di", "-p", "age=50").lines()[-1] == ["Person", "1", "0", "0"]
    assert asked(graph, 'match { $p: Person { name: "Di" } } return { $p.age as age }') == [{"age": 50}]


def test_options_that_make_no_sense_for_what_it_is_are_refused(run: Run, graph: str) -> None:
    assert (
        "is a query; it commits nothing"
        in run("stored", "run", graph, "friends", "-p", "name=A", "-m", "x", code=2).err
    )
    assert (
        "cannot run at a past commit" in run("stored", "run", graph, "add", "-p", "name=A", "--at", "3.0", code=2).err
    )
    assert "no rows" in run("stored", "run", graph, "add", "-p", "name=A", "-o", "x.csv", code=2).err
    assert "not a name" in run("stored", "run", graph, FRIENDS, code=2).err
    assert "no stored query" in run("stored", "run", graph, "absent", code=3).err


def test_stored_queries_are_versioned_by_commits(run: Run, graph: str) -> None:
    run("stored", "add", graph, FRIENDS.replace("$f.name as name", "$f.age as age"))
    one = ("-p", "name=Ada", "--format", "json")
    assert run("stored", "run", graph, "friends", *one).json == [{"age": None}]
    assert run("stored", "run", graph, "friends", *one, "--at", "3.0").json == [{"name": "Bo"}]
    assert "as age" not in run("stored", "show", graph, "friends", "--at", "3.0").out
    assert run("stored", "list", graph, "--at", "2.0").out == "no stored queries\n"


def test_stored_queries_are_removed(run: Run, graph: str) -> None:
    told = run("stored", "remove", graph, "friends", "add", "--json").json
    assert (told["commit"], told["removed"]) == ("4.0", ["friends", "add"])
    assert run("stored", "list", graph).out == "no stored queries\n"
    assert "no stored query 'friends'" in run("stored", "remove", graph, "friends", code=3).err
    run("stored", "run", graph, "friends", "-p", "name=Ada", "--at", "3.0")


def test_a_query_that_does_not_fit_the_schema_is_not_stored(run: Run, graph: str) -> None:
    Path("wrong.gq").write_text(ADD + "query wrong() { match { $p: Persn } return { $p.name } }")
    error = run("stored", "add", graph, "wrong.gq", "--json", code=2).json["error"]
    assert (error["kind"], error["file"], error["line"]) == ("invalid-query", "wrong.gq", 2)
    assert "two queries" in run("stored", "add", graph, ADD + ADD, code=2).err
    assert "not the text of a query" in run("stored", "add", graph, "absent.gq", code=3).err
    assert head(graph) == "3.0"


def test_a_lake_without_a_graph_stores_no_queries(run: Run, lake: str) -> None:
    assert "schema apply" in run("stored", "add", lake, ADD, code=2).err
    assert "schema apply" in run("stored", "remove", lake, "add", code=2).err
    assert run("stored", "list", lake).out == "no stored queries\n"
