"""Reading over HTTP: every form of rows says what the library says, at the commit that was asked for."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from tests.server.conftest import Serve
from tests.server.web import ARROW, Web

import quire
from quire.server.config import Limits


def test_what_there_is(web: Web, lake: quire.Lake) -> None:
    assert web.get("/healthz").json == {"status": "ok"}
    assert web.get("/readyz").json == {"status": "ready"}
    assert web.get("/v1/lakes").json == {"lakes": [{"name": "demo", "read_only": False}]}
    said = web.get("tables").json
    assert (said["commit"], [t["name"] for t in said["tables"]]) == (lake.head, ["notes", "people"])
    assert said["tables"][1]["rows"] == 11
    assert said["tables"][1]["key"] == ["id"]
    described = web.get("tables/people").json
    assert [c["name"] for c in described["columns"]] == ["id", "name", "age"]
    assert "location" not in described


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "arrow"])
def test_rows_are_the_same_in_every_form(web: Web, lake: quire.Lake, form: str) -> None:
    expected = lake["people"].scan(columns=["id", "name"], filter="age > 22").to_pylist()
    accept = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "arrow": ARROW}[form]
    reply = web.get("tables/people/rows?columns=id&columns=name&filter=age%20%3E%2022", accept=accept)
    found = {
        "json": lambda: reply.json["rows"],
        "ndjson": lambda: [json.loads(line) for line in reply.body.splitlines()],
        "csv": lambda: csv.read_csv(io.BytesIO(reply.body)).to_pylist(),
        "arrow": lambda: reply.table.to_pylist(),
    }[form]()
    assert found == expected
    assert reply.headers["content-type"].startswith(accept)


@pytest.mark.parametrize("accept", ["text/csv", "application/x-ndjson", ARROW])
def test_no_rows_are_an_answer_too(web: Web, accept: str) -> None:
    reply = web.get("tables/people/rows?filter=id%20%3C%200", accept=accept)
    assert reply.body == {"text/csv": b'"id","name","age"\n', "application/x-ndjson": b""}.get(accept, reply.body)
    if accept == ARROW:
        assert reply.table.schema.names == ["id", "name", "age"]


def test_the_preferred_form_is_taken_and_none_is_refused(web: Web) -> None:
    reply = web.get("tables/people/rows", accept="text/html, text/csv;q=0.5, application/x-ndjson;q=0.9")
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert web.get("tables/people/rows", accept="text/csv;q=0, */*").headers["content-type"] == "application/json"
    assert web.get("tables/people/rows", accept="image/png", status=406).json["kind"] == "invalid-input"


def test_pages_are_of_the_first_pages_commit(web: Web, lake: quire.Lake) -> None:
    expected = lake["people"].to_pylist()
    page = web.get("tables/people/rows?limit=4").json
    rows = page["rows"]
    web.commit({"op": "delete", "table": "people", "where": "true"})
    while page["next"]:
        page = web.get(f"tables/people/rows?limit=4&next={page['next']}").json
        rows += page["rows"]
    assert rows == expected
    assert web.get("tables/people/rows").json["rows"] == []


def test_next_of_another_question_is_refused(web: Web) -> None:
    word = web.get("tables/people/rows?limit=4").json["next"]
    for path in (f"tables/notes/rows?next={word}", f"tables/people/rows?filter=true&next={word}"):
        assert "another question" in web.get(path, status=400).json["detail"]
    assert web.get("tables/people/rows?next=garbage", status=400).json["field"] == "next"


@pytest.mark.parametrize("at", ["1.0", "v1", "tag:v1"])
def test_time_travel(web: Web, at: str) -> None:
    reply = web.get(f"tables/people/rows?at={at}&filter=id%20%3D%203")
    assert reply.json["rows"] == [{"id": 3, "name": "p3", "age": 23}]
    assert reply.json["commit"] == "1.0"


def test_a_client_that_has_the_answer_gets_304(web: Web) -> None:
    tag = web.get("tables/people").headers["etag"]
    for path in ("tables", "tables/people", "tables/people/rows", "tables/people/count", "commits"):
        reply = web.get(path, if_none_match=tag, status=304)
        assert (reply.body, reply.headers["etag"]) == (b"", tag)
    web.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]})
    assert web.get("tables/people", if_none_match=tag).headers["etag"] != tag


def test_counting_and_search(web: Web) -> None:
    assert web.get("tables/people/count").json["count"] == 11
    assert web.get("tables/people/count?filter=age%20%3E%2025").json["count"] == 5
    web.commit({"op": "create_index", "table": "notes", "column": "text", "kind": "INVERTED"})
    found = web.get("tables/notes/rows?search=one").json["rows"]
    assert [row["text"] for row in found] == ["one"]


def test_the_history_of_a_row(web: Web) -> None:
    versions = web.get("tables/people/history?key=3").json["versions"]
    assert [(v["commit"], v["change"]) for v in versions] == [("2.0", "update"), ("1.0", "insert")]


def test_sql_over_all_tables(web: Web) -> None:
    said = {"query": "select name, text from people, notes where id = $id", "params": {"id": 3}}
    assert web("POST", "sql", said).json["rows"] == [{"name": "Carl", "text": "one"}]
    assert web("POST", "sql?at=v1", said).json["rows"] == [{"name": "p3", "text": "one"}]
    assert web("POST", "sql", said, accept=ARROW).table.to_pylist() == [{"name": "Carl", "text": "one"}]
    many = web("POST", "sql", {"query": "select * from range(20000)", "limit": 3}).json
    assert (len(many["rows"]), many["truncated"]) == (3, True)


def test_sql_reaches_nothing_but_the_lake(web: Web, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"select * from read_csv('{tmp_path}/secret.csv')",
        "select * from duckdb_settings() where false union all select 1",
        "drop table people",
        "select 1; select 2",
        "set memory_limit = '10GB'",
    ):
        assert web("POST", "sql", {"query": query}, status=400).json["kind"] == "invalid-expression"


def test_a_query_ends_at_its_limits_and_the_server_does_not(lake: quire.Lake, serve: Serve) -> None:
    limits = Limits(sql_seconds=0.3, sql_memory=64 << 20)
    with serve(limits, demo=lake.uri) as web:
        slow = "select count(*) from range(1000000) a, range(1000000) b where a.range % 7 = b.range % 5"
        said = web("POST", "sql", {"query": slow}, status=422).json
        assert (said["kind"], said["limit"]) == ("limit-exceeded", "seconds")
        large = "select a.range, random() r from range(30000000) a order by r"
        said = web("POST", "sql", {"query": large}, status=422).json
        assert said["kind"] == "limit-exceeded"
        assert web("POST", "sql", {"query": "select 1 as one"}).json["rows"] == [{"one": 1}]


def test_the_log_by_pages(web: Web) -> None:
    first = web.get("commits?limit=2").json
    assert [c["id"] for c in first["commits"]] == ["2.0", "1.0"]
    web.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]})
    rest = web.get(f"commits?limit=2&next={first['next']}").json
    assert [c["id"] for c in rest["commits"]] == ["0.0"]
    assert rest["next"] is None
    shown = web.get("commits/2.0").json
    assert (shown["author"], shown["message"]) == ("ada", "more")
    assert shown["cost"]["total"] > 0


def test_what_differs_between_commits(web: Web) -> None:
    said = web.get("diff/1.0/HEAD?rows=5").json
    [people] = said["tables"]
    assert (people["added"], people["changed"], people["removed"]) == (1, 1, 0)
    assert people["rows"]["changed_before"] == [{"id": 3, "name": "p3", "age": 23}]
    assert people["rows"]["changed_after"] == [{"id": 3, "name": "Carl", "age": 3}]


def test_branches_and_tags(web: Web) -> None:
    assert [b["name"] for b in web.get("branches").json["branches"]] == ["main", "trial"]
    assert web("POST", "branches", {"name": "exp", "at": "v1"}, status=201).json["head"] == "1.0"
    assert web.get("tables?branch=exp").json["commit"] == "1.0"
    web("POST", "branches", {"name": "exp"}, status=409)
    web("DELETE", "branches/exp", status=204)
    assert web.get("tables?branch=exp", status=404).json["kind"] == "branch-not-found"
    web("POST", "branches", {"name": "exp"}, status=201)
    assert web.get("tables?branch=exp").json["commit"] == "2.0"
    made = web("POST", "tags", {"name": "v2", "message": "the second"}, status=201).json
    assert (made["commit"], made["author"]) == ("2.0", "anonymous")
    assert {t["name"] for t in web.get("tags").json["tags"]} == {"v1", "v2"}
    web("DELETE", "tags/v2", status=204)


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/v1/lakes/other/tables", 404, "lake-not-found"),
        ("tables/nobody", 404, "table-not-found"),
        ("tables?branch=nobody", 404, "branch-not-found"),
        ("tables?at=99.0", 404, "commit-not-found"),
        ("tables/people/rows?filter=nobody%20%3D%201", 400, "invalid-expression"),
        ("tables/people/rows?columns=nobody", 404, "column-not-found"),
        ("tables/people/rows?limit=many", 400, "invalid-input"),
        ("tables/people/rows?limit=1&limit=2", 400, "invalid-input"),
        ("tables/people/rows?nobody=1", 400, "invalid-input"),
        ("commits/99.0", 404, "commit-not-found"),
        ("outcomes/x", 400, "invalid-input"),
        ("/nowhere", 404, "not-found"),
        ("tables/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, "table-not-found"),
        ("tables/../../../etc/passwd", 404, "not-found"),
        ("tables/%ff", 400, "invalid-input"),
    ],
)
def test_what_is_wrong_is_a_problem_that_says_so(web: Web, path: str, status: int, kind: str) -> None:
    reply = web.get(path, status=status)
    assert reply.headers["content-type"] == "application/problem+json"
    assert (reply.json["kind"], reply.json["status"]) == (kind, status)
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    assert reply.json["next"]


def test_a_method_that_an_address_does_not_take(web: Web) -> None:
    assert web("PUT", "tables", {}, status=405).headers["allow"] == "GET"
    assert web("HEAD", "tables").body == b""


def test_ten_million_rows_pass_in_bounded_memory(web: Web) -> None:
    """The whole answer is many times larger than what either side holds of it."""
    import http.client
    import resource
    from urllib.parse import urlsplit

    connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=60)
    asked = json.dumps({"query": "select range as a, range * 2 as b, hash(range) as c from range(10000000)"})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection.request("POST", "/v1/lakes/demo/sql", asked, {"accept": ARROW})
    rows = sum(batch.num_rows for batch in pa.ipc.open_stream(connection.getresponse()))
    connection.close()
    assert rows == 10_000_000
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 150, f"{grown:.0f} MB more for a stream of 240 MB"
