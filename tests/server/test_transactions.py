"""Transactions over several requests: they see their own writes, end once, and belong to who began them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.server.conftest import Serve
from tests.server.web import ARROW, Web, uuid7

import quire
from quire.server.config import Limits

APPEND = {"op": "append", "table": "notes", "rows": [{"text": "two"}]}


class Open:
    """One that is open."""

    def __init__(self, web: Web, key: str | None = None, **wanted: Any) -> None:
        headers = {} if key is None else {"idempotency_key": key}
        self.web = web
        self.begun = web("POST", "transactions", wanted, status=None, **headers)
        self.id = self.begun.json.get("id")

    def run(self, *operations: Any, status: int = 200) -> Any:
        path = f"transactions/{self.id}/operations"
        return self.web("POST", path, {"operations": list(operations)}, status=status).json

    def sql(self, query: str) -> Any:
        return self.web("POST", f"transactions/{self.id}/sql", {"query": query}).json["rows"]

    def commit(self, status: int = 200) -> Any:
        return self.web("POST", f"transactions/{self.id}/commit", status=status).json


def test_it_sees_its_own_writes_and_others_do_not(web: Web, lake: quire.Lake) -> None:
    tx = Open(web, message="step by step")
    assert tx.begun.status == 201
    assert tx.run(APPEND, {"op": "delete", "table": "people", "where": "id < 5"}) == {"results": [1, 5]}
    assert tx.sql("select count(*) n from people")[0]["n"] == 6
    rows = web.get(f"transactions/{tx.id}/tables/notes/rows", accept=ARROW).table
    assert sorted(rows["text"].to_pylist()) == ["one", "two"]
    assert web.get(f"transactions/{tx.id}/tables/notes").json["rows"] == 2
    assert web.get("tables/people/count").json["count"] == 11
    done = tx.commit()
    assert done["tables"]["people"]["removed"] == 5
    lake.refresh()
    assert (lake["people"].count(), lake.log()[0].message) == (6, "step by step")


def test_a_commit_that_is_asked_for_again_says_the_same(web: Web, lake: quire.Lake) -> None:
    tx = Open(web)
    tx.run(APPEND)
    assert tx.commit() == tx.commit()
    tx.run(APPEND, status=409)
    lake.refresh()
    assert lake["notes"].count() == 2


def test_a_key_makes_it_happen_once_also_after_a_restart(lake: quire.Lake, serve: Serve) -> None:
    key = uuid7()
    with serve(demo=lake.uri) as web:
        tx = Open(web, key)
        tx.run(APPEND)
        first = tx.commit()
    with serve(demo=lake.uri) as web:
        again = Open(web, key)
        assert again.id is None
        assert again.begun.headers["idempotency-replayed"] == "true"
        assert again.begun.json["receipt"]["commit"] == first["commit"]


def test_what_is_discarded_is_gone(web: Web, lake: quire.Lake) -> None:
    head = lake.head
    tx = Open(web)
    tx.run(APPEND)
    web("DELETE", f"transactions/{tx.id}", status=204)
    tx.commit(status=409)
    lake.refresh()
    assert lake.head == head


def test_a_refused_statement_leaves_it_as_it_was(web: Web) -> None:
    tx = Open(web)
    tx.run(APPEND)
    assert (
        tx.run({"op": "insert", "table": "people", "rows": [{"id": 1, "name": "x", "age": 1}]}, status=409)["kind"]
        == "key-conflict"
    )
    assert tx.sql("select count(*) n from notes")[0]["n"] == 2
    assert tx.commit()["commit"] is not None


def test_a_conflict_at_the_end_is_told_and_remembered(web: Web) -> None:
    tx = Open(web)
    tx.sql("select max(age) from people")
    tx.run({"op": "update", "table": "people", "values": {"age": 1}, "where": "id = 3"})
    web.commit({"op": "update", "table": "people", "values": {"age": 2}, "where": "id = 3"})
    said = tx.commit(status=409)
    assert (said["kind"], said["retryable"]) == ("conflict", True)
    assert tx.commit(status=409)["kind"] == "conflict"


def test_idle_and_old_ones_are_discarded_and_there_are_not_too_many(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(transaction_idle_seconds=0.5, transactions_per_actor=2), demo=lake.uri) as web:
        tx = Open(web)
        tx.run(APPEND)
        Open(web)
        assert Open(web).begun.status == 429
        time.sleep(0.7)
        assert tx.commit(status=409)["kind"] == "transaction-closed"
        assert Open(web).begun.status == 201


def test_nobody_else_finds_it(web: Web) -> None:
    tx = Open(web)
    for path in (f"transactions/{tx.id[:-1]}x/tables", "transactions/nope/tables"):
        assert web.get(path, status=409).json["kind"] == "transaction-closed"


def test_two_requests_at_once_are_one_after_the_other_or_refused(web: Web) -> None:
    tx, statuses = Open(web), []

    def run() -> None:
        path = f"transactions/{tx.id}/operations"
        statuses.append(web("POST", path, {"operations": [APPEND]}, status=None).status)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 409}
    assert tx.sql("select count(*) n from notes")[0]["n"] == 1 + statuses.count(200)


@pytest.mark.parametrize("wanted", [{"expect": {"notes": 9}}, {"if_head": "0.0"}])
def test_conditions_hold_at_the_commit(web: Web, wanted: dict[str, Any]) -> None:
    tx = Open(web, **wanted)
    if tx.begun.status == 201:
        tx.run(APPEND)
        assert tx.commit(status=412)["kind"] == "expectation-failed"
    else:
        assert tx.begun.status == 412
