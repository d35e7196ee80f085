"""Writing over HTTP: one commit or nothing, once, with its conditions."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from tests.server.conftest import Serve
from tests.server.web import Web, arrow, multipart, uuid7

import quire
from quire.server.config import Limits

DELETE_ALL = {"op": "delete", "table": "notes", "where": "true"}
FORM = "multipart/form-data; boundary=frontier"


def test_statements_on_several_tables_are_one_commit(web: Web, lake: quire.Lake) -> None:
    reply = web.commit(
        {"op": "upsert", "table": "people", "rows": [{"id": 3, "age": 4}, {"id": 77, "age": 1}]},
        {"op": "append", "table": "notes", "rows": [{"text": "two"}]},
        {"op": "update", "table": "people", "set": {"age": "age + 1"}, "values": {"name": "X"}, "where": "id = 1"},
        {"op": "delete", "table": "people", "where": "id = 0"},
        {"op": "create_table", "table": "days", "columns": "day:date32!,n:int64", "key": ["day"]},
        {"op": "insert", "table": "days", "rows": [{"day": "2026-11-01", "n": 1}]},
        {"op": "insert", "table": "days", "rows": [{"day": "2026-11-01", "n": 2}], "exists": "ignore"},
        message="nightly",
        metadata={"job": "42"},
    )
    assert reply.json["results"] == [
        {"inserted": 1, "updated": 1}, 1, 1, 1, None, 1, {"inserted": 0, "ignored": 1},
    ]  # fmt: skip
    lake.refresh()
    shown = lake.show(reply.json["commit"])
    assert set(shown.tables) == {"people", "notes", "days"}
    assert (shown.author, shown.message, shown.metadata["job"]) == ("anonymous", "nightly", "42")
    assert shown.metadata["http.request"] == reply.headers["x-request-id"]
    assert lake.sql("select * from people where id in (0, 1, 3) order by id").to_pylist() == [
        {"id": 1, "name": "X", "age": 22},
        {"id": 3, "name": "Carl", "age": 4},
    ]
    assert lake.sql("select day::varchar d, n from days").to_pylist() == [{"d": "2026-11-01", "n": 1}]


def test_schemas_change_too(web: Web, lake: quire.Lake) -> None:
    web.commit({"op": "add_columns", "table": "people", "types": {"tag": "string"}, "expressions": {"old": "age > 25"}})
    web.commit({"op": "rename_column", "table": "people", "column": "tag", "to": "label"})
    web.commit({"op": "alter_column", "table": "people", "column": "age", "type": "float64"})
    web.commit({"op": "drop_columns", "table": "people", "columns": ["label"]})
    web.commit({"op": "create_index", "table": "people", "column": "name"})
    web.commit({"op": "drop_index", "table": "people", "name": "name_idx"})
    web.commit({"op": "rename_table", "table": "notes", "to": "remarks"})
    web.commit({"op": "overwrite", "table": "remarks", "rows": [{"text": "all new"}]})
    lake.refresh()
    assert lake["people"].schema.names == ["id", "name", "old", "age"]
    assert lake["remarks"].to_pylist() == [{"text": "all new"}]
    web.commit({"op": "drop_table", "table": "remarks"})
    assert lake.tables() == ["people"]


def test_nothing_is_left_of_a_transaction_that_fails(web: Web, lake: quire.Lake) -> None:
    head = lake.head
    said = web.commit(
        {"op": "append", "table": "notes", "rows": [{"text": "two"}]},
        {"op": "insert", "table": "people", "rows": [{"id": 3, "name": "twice", "age": 0}]},
        status=409,
    ).json
    assert (said["kind"], said["table"], said["keys"]) == ("key-conflict", "people", [{"id": 3}])
    lake.refresh()
    assert lake.head == head


@pytest.mark.parametrize(
    ("wanted", "status", "kind"),
    [
        ({"operations": [{"op": "frob", "table": "t"}]}, 400, "invalid-input"),
        ({"operations": [{"op": "append", "table": "notes", "rows": [{"extra": 2}]}]}, 422, "schema-mismatch"),
        ({"operations": [{"op": "append", "table": "notes"}]}, 400, "invalid-input"),
        ({"operations": [{"op": "append", "table": "notes", "part": "p"}]}, 400, "invalid-input"),
        ({"operations": [{"op": "append", "table": "nobody", "rows": [{}]}]}, 404, "table-not-found"),
        ({"operations": [], "metadata": {"http.request": "forged"}}, 400, "invalid-input"),
        ({"operations": [], "author": "root"}, 400, "invalid-input"),
        ({"operations": [{"op": "create_table", "table": "notes", "rows": [{"a": 1}]}]}, 409, "table-exists"),
        ({"operations": [{"op": "create_table", "table": "x", "columns": "a:what"}]}, 400, "invalid-input"),
        ({"operations": [{"op": "create_table", "table": "x", "schema": "AAAA"}]}, 400, "invalid-input"),
        ({"operations": [{"op": "create_table", "table": "../x", "rows": [{"a": 1}]}]}, 400, "invalid-name"),
        ({"operations": [{"op": "delete", "table": "notes", "where": ""}]}, 400, "invalid-input"),
        ({"operations": [{"op": "delete", "table": "notes", "where": "x = "}]}, 400, "invalid-expression"),
        ({"operations": [DELETE_ALL], "expect": {"notes": 9}}, 412, "expectation-failed"),
        ({"operations": [DELETE_ALL], "if_head": "1.0"}, 412, "expectation-failed"),
    ],
)  # fmt: skip
def test_what_cannot_be_committed_is_a_problem(web: Web, wanted: Any, status: int, kind: str) -> None:
    said = web("POST", "commits", wanted, status=status).json
    assert said["kind"] == kind


def test_if_match_is_a_compare_and_swap(web: Web) -> None:
    tag = web.get("tables").headers["etag"]
    change = {"operations": [{"op": "append", "table": "notes", "rows": [{"text": "two"}]}]}
    first = web("POST", "commits", change, if_match=tag)
    assert web("POST", "commits", change, if_match=tag, status=412).json["actual"] == first.json["commit"]
    web("POST", "commits", change, if_match=first.headers["etag"])
    other = web.get("tables?branch=trial").headers["etag"]
    assert "another branch" in web("POST", "commits", change, if_match=other, status=400).json["detail"]


def test_the_same_key_again_gives_the_first_receipt(web: Web, lake: quire.Lake) -> None:
    key, rows = uuid7(), [{"text": "once"}]
    first = web.commit({"op": "append", "table": "notes", "rows": rows}, key=key)
    again = web.commit({"op": "append", "table": "notes", "rows": rows}, key=key)
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json["commit"], again.json["tables"]) == (first.json["commit"], first.json["tables"])
    assert again.json["repeated"]
    other = web.commit({"op": "append", "table": "notes", "rows": [{"text": "more"}]}, key=key, status=422).json
    assert other["commit"] == first.json["commit"]
    lake.refresh()
    assert lake["notes"].count("text = 'once'") == 1


def test_the_same_key_at_the_same_time_commits_once(web: Web, lake: quire.Lake) -> None:
    key, found = uuid7(), []

    def send() -> None:
        found.append(web.commit({"op": "append", "table": "notes", "rows": [{"text": "once"}]}, key=key).json["commit"])

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    lake.refresh()
    assert lake["notes"].count("text = 'once'") == 1


@pytest.mark.parametrize(
    "key",
    ["7", "00000000-0000-4000-8000-000000000000", uuid7(0), "qt-nonsense"],
    ids=["a number", "a random UUID", "an old UUID", "no UUID"],
)
def test_a_key_that_cannot_be_remembered_is_refused(web: Web, key: str) -> None:
    assert (
        web.commit({"op": "delete", "table": "notes", "where": "true"}, key=key, status=400).json["kind"]
        == "invalid-token"
    )


def test_rows_as_arrow_beside_the_statements(web: Web, lake: quire.Lake) -> None:
    people = pa.table({"id": range(1000, 51_000), "name": ["x"] * 50_000, "age": [1] * 50_000})
    statements = {"operations": [
        {"op": "upsert", "table": "people", "part": "people"}, {"op": "append", "table": "notes", "part": "notes"},
    ]}  # fmt: skip
    parts = [("commit", json.dumps(statements).encode()), ("people", arrow(people))]
    parts.append(("notes", arrow(pa.table({"text": ["two", "three"]}))))
    key = uuid7()
    first = web("POST", "commits", body=multipart(*parts), content_type=FORM, idempotency_key=key)
    other = "multipart/form-data; boundary=another"
    again = web("POST", "commits", body=multipart(*parts, boundary="another"), content_type=other, idempotency_key=key)
    assert first.json["results"] == [{"inserted": 50_000, "updated": 0}, 2]
    assert again.headers["idempotency-replayed"] == "true"
    lake.refresh()
    assert (lake["people"].count(), lake["notes"].count()) == (50_011, 3)


@pytest.mark.parametrize(
    "what", ["cut", "without its end", "garbage", "no part", "wrong part", "part too many", "no end"]
)
def test_a_broken_upload_leaves_nothing(web: Web, lake: quire.Lake, what: str) -> None:
    head, stream = lake.head, arrow(pa.table({"text": ["two"] * 30_000}))
    statements = json.dumps({"operations": [{"op": "append", "table": "notes", "part": "notes"}]}).encode()
    sent = {
        "cut": [("notes", stream[: len(stream) // 2])],
        "without its end": [("notes", stream[:-8])],
        "garbage": [("notes", b"no stream of Arrow, but long enough to look at")],
        "no part": [],
        "wrong part": [("people", stream)],
        "part too many": [("notes", stream), ("people", b"")],
        "no end": [("notes", stream)],
    }[what]
    body = multipart(("commit", statements), *sent)
    body = body[:-15] if what == "no end" else body
    assert web("POST", "commits", body=body, content_type=FORM, status=400).json["kind"] == "invalid-input"
    lake.refresh()
    assert lake.head == head


def test_revert_restore_and_fast_forward(web: Web, lake: quire.Lake) -> None:
    web("POST", "commits/2.0/revert", {"message": "a mistake"})
    lake.refresh()
    assert lake["people"].count() == 10
    web("POST", "restore", {"at": "2.0", "tables": ["people"]})
    assert lake["people"].count() == 11
    web.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]}, branch="trial")
    said = web("POST", "branches/main/fast-forward", {"source": "trial"}, status=409).json
    assert said["kind"] == "not-fast-forward"
    web("POST", "branches", {"name": "ahead"}, status=201)
    web.commit({"op": "append", "table": "notes", "rows": [{"text": "ahead"}]}, branch="ahead")
    web("POST", "branches/main/fast-forward", {"source": "ahead"})
    lake.refresh()
    assert lake["notes"].count("text = 'ahead'") == 1
    assert {lake.log()[n].author for n in range(3)} == {"anonymous"}


def test_clients_share_slots(web: Web, lake: quire.Lake) -> None:
    for n in range(8):
        web.commit({"op": "create_table", "table": f"t{n}", "columns": "n:int64"})

    def send(n: int) -> None:
        for k in range(5):
            web.commit({"op": "append", "table": f"t{n}", "rows": [{"n": k}]})

    threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lake.refresh()
    assert sum(lake[f"t{n}"].count() for n in range(8)) == 40
    assert lake["t0"].count() == 5


def test_a_read_only_server_writes_nothing(lake: quire.Lake, serve: Serve) -> None:
    with serve(read_only=True, demo=lake.uri) as web:
        said = web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]}, status=403).json
        assert said["kind"] == "read-only"
        assert lake.uri not in json.dumps(said)
        web("POST", "tags", {"name": "v9"}, status=403)
        assert web.get("tables").status == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(body_bytes=10_000), demo=lake.uri) as web:
        rows = [{"text": "x" * 1000} for _ in range(8)]
        web.commit({"op": "append", "table": "notes", "rows": rows})
        said = web.commit({"op": "append", "table": "notes", "rows": rows * 2}, status=413).json
        assert (said["kind"], said["limit"]) == ("too-large", 10_000)


def test_a_deadline_ends_a_transaction(web: Web) -> None:
    said = web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]}, timeout=0, status=504).json
    assert (said["kind"], said["retryable"]) == ("deadline-exceeded", True)


def test_the_outcome_of_a_write_can_be_asked_for(web: Web, lake: quire.Lake) -> None:
    done = web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]})
    shown = web.get(f"commits/{done.json['commit']}").json
    log = done.headers["etag"].strip('"').split(":")[0]
    slot = int(done.json["commit"].split(".")[0])
    assert web.get(f"outcomes/{log}.{slot}.{shown['write']}").json == {"outcome": "committed"}
    assert web.get(f"outcomes/{log}.{slot}.{'0' * 16}").json == {"outcome": "conflict"}
    assert web.get(f"outcomes/{log}.{slot + 1}.{'0' * 16}").json == {"outcome": "unknown"}


def test_time_is_told(web: Web) -> None:
    began = time.monotonic()
    reply = web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]})
    assert float(reply.headers["server-timing"].partition("dur=")[2]) <= (time.monotonic() - began) * 1000
    assert reply.headers["quire-cost"].startswith("total=")
