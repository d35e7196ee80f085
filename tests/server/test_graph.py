"""The graph over HTTP: schemas, loads, queries, mutations, blobs; a text is never the name of a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Serve
from tests.server.web import ARROW, Web, uuid7

import quire
from quire.server.config import Limits

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person
"""
PEOPLE = [{"type": "Person", "data": {"name": n, "age": a}} for n, a in (("Ada", 36), ("Bob", 20), ("Eve", 50))]
KNOWS = [{"edge": "Knows", "from": "Ada", "to": "Bob"}]
OLDER = "query older($age: I32) { match { $p: Person  $p.age > $age } return { $p.name as name } }"


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def web(tmp_path: Path, serve: Serve) -> Iterator[Web]:
    quire.create(tmp_path / "graph", backfill=False)
    with serve(Limits(sql_seconds=2), demo=tmp_path / "graph") as found:
        found("POST", "schema/apply", {"schema": SCHEMA})
        yield found


def test_a_schema_is_planned_and_applied(web: Web) -> None:
    assert "node Person" in web.get("schema").json["schema"]
    wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    assert [s["property"] for s in web("POST", "schema/plan", {"schema": wider}).json["steps"]] == ["city"]
    assert web("POST", "schema/apply", {"schema": wider}).json["commit"]
    assert web("POST", "schema/apply", {"schema": "node {"}, status=400).json["kind"] == "invalid-schema"


def test_rows_are_loaded_once_and_queried(web: Web) -> None:
    key = uuid7()
    done = web("POST", "load?mode=append", body=lines(PEOPLE + KNOWS), idempotency_key=key).json
    assert {name: found["inserted"] for name, found in done["types"].items()} == {"Person": 3, "Knows": 1}
    again = web("POST", "load?mode=append", body=lines(PEOPLE + KNOWS), idempotency_key=key)
    assert (again.json["repeated"], again.json["commit"]) == (True, done["commit"])
    asked = {"query": OLDER, "params": {"age": 30}}
    assert sorted(row["name"] for row in web("POST", "query", asked).json["rows"]) == ["Ada", "Eve"]
    assert web("POST", "query", asked, accept=ARROW).table.num_rows == 2


def test_rows_that_break_a_rule_are_refused_with_it(web: Web) -> None:
    web("POST", "load", body=lines(PEOPLE))
    said = web("POST", "load", body=lines([{"edge": "Knows", "from": "Ada", "to": "Nobody"}]), status=422).json
    assert said["kind"] == "integrity"
    assert said["violations"]


def test_a_mutation_commits_once_and_is_no_query(web: Web) -> None:
    change = {"query": "query add($n: String) { insert Person { name: $n } }", "params": {"n": "Zoe"}}
    key = uuid7()
    first = web("POST", "mutate", change, idempotency_key=key).json
    assert first["inserted"] == {"Person": 1}
    again = web("POST", "mutate", change, idempotency_key=key)
    assert again.headers["idempotency-replayed"] == "true"
    other = {**change, "params": {"n": "Yan"}}
    web("POST", "mutate", other, idempotency_key=key, status=422)
    assert "mutation" in web("POST", "query", change, status=400).json["detail"]
    assert web("POST", "mutate", {"query": OLDER}, status=400).json["kind"] == "invalid-query"


@pytest.mark.parametrize("name", ["secret.gq", "../secret.gq", "/etc/passwd", "secret.pg"])
def test_a_text_is_never_the_name_of_a_file(
    web: Web, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.gq").write_text(OLDER)
    (tmp_path / "secret.pg").write_text("node Secret { name: String @key }")
    for path, value in (
        ("query", {"query": name}),
        ("mutate", {"query": name}),
        ("schema/plan", {"schema": name}),
        (f"queries/{name.replace('/', '%2F')}", {}),
    ):
        reply = web("POST", path, value, status=None)
        assert reply.status in (400, 404), reply
        assert b"Secret" not in reply.body
        assert b"older" not in reply.body


def test_stored_queries_run_by_name(web: Web, tmp_path: Path) -> None:
    web("POST", "load", body=lines(PEOPLE))
    quire.Graph(quire.open(tmp_path / "graph")).store(OLDER)
    assert list(web.get("queries").json["queries"]) == ["older"]
    assert web("POST", "queries/older", {"params": {"age": 40}}).json["rows"] == [{"name": "Eve"}]
    assert web("POST", "queries/nobody", {}, status=404).json["query"] == "nobody"


def test_blobs_are_read_by_range(web: Web) -> None:
    photo = bytes(range(256)) * 20
    row = {"type": "Person", "data": {"name": "Ada", "photo": "base64:" + base64.b64encode(photo).decode()}}
    web("POST", "load", body=lines([row, {"type": "Person", "data": {"name": "Bob"}}]))
    assert web.get("blobs/Person/Ada/photo").body == photo
    part = web.get("blobs/Person/Ada/photo", range="bytes=100-199", status=206)
    assert (part.body, part.headers["content-range"]) == (photo[100:200], f"bytes 100-199/{len(photo)}")
    assert web.get("blobs/Person/Ada/photo", range="bytes=-5", status=206).body == photo[-5:]
    web.get("blobs/Person/Ada/photo", range="bytes=99999-", status=416)
    web.get("blobs/Person/Bob/photo", status=404)
    web.get("blobs/Person/Nobody/photo", status=404)


def test_a_query_that_would_not_end_is_ended(web: Web) -> None:
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": n % 7}} for n in range(3000)]
    web("POST", "load", body=lines(people))
    endless = (
        "query all() { match { $a: Person $b: Person $c: Person "
        "$a.age < $b.age  $b.age < $c.age } return { count(*) as n } }"
    )
    said = web("POST", "query", {"query": endless}, status=422).json
    assert (said["kind"], said["limit"]) == ("limit-exceeded", "seconds")
    assert web.get("/healthz").status == 200
