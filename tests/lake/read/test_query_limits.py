"""A query ends at its limits, and by Ctrl-C, and the lake goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import quire
from quire.errors import InvalidInput, LimitExceeded
from quire.lake.read.sql_limits import SqlLimits, limited

LONG = "select count(*) as n from range(40000000000) as a where hash(a.range) % 7 = 3"
LARGE = "select count(distinct n) from (select n, hash(n) as h from big order by h)"
PEOPLE = "query q() { match { $a: Person } return { $a.name } }"
PAIRS = "query q() { match { $a: Person  $b: Person  $a.n + $b.n > 3 } return { sum($a.n * $b.n) as s } }"


@pytest.fixture(scope="module")
def lake() -> quire.Lake:
    lake = quire.create(f"memory://{uuid.uuid4().hex}", backfill=False)
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key  n: I64 }")
    graph.load([{"type": "Person", "data": {"name": f"p{n}", "n": n}} for n in range(20)])
    with lake.transaction("numbers") as tx:
        tx.create_table("big", {"n": list(range(200_000))})
    return lake


def verbs(lake: quire.Lake) -> dict[str, Callable[..., quire.Rows]]:
    return {"lake": lake.sql, "snapshot": lake.snapshot().sql}


@pytest.mark.parametrize("verb", ["lake", "snapshot"])
def test_a_query_ends_after_its_time(lake: quire.Lake, verb: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        verbs(lake)[verb](LONG, timeout=0.2).to_arrow()
    assert refused.value.fields["limit"] == "seconds"
    assert verbs(lake)[verb]("select 1 as one", timeout=60).to_pylist() == [{"one": 1}]


def test_a_transaction_ends_its_queries_too(lake: quire.Lake) -> None:
    with lake.transaction("reads") as tx:
        with pytest.raises(LimitExceeded, match="seconds"):
            tx.sql(LONG, timeout=0.2).to_arrow()
        assert tx.sql("select count(*) as n from big", timeout=60, max_rows=1).to_pylist() == [{"n": 200_000}]


def test_an_answer_has_no_more_rows_than_it_may(lake: quire.Lake) -> None:
    graph = quire.Graph(lake)
    for asked in (
        lambda most: lake.sql("select n from big limit 20", max_rows=most),
        lambda most: graph.query(PEOPLE, max_rows=most),
        lambda most: graph.query(PEOPLE.replace("}  return", "$a.n >= 0 } return"), max_rows=most),
    ):
        assert asked(20).to_arrow().num_rows == 20
        with pytest.raises(LimitExceeded) as refused:
            asked(19).to_arrow()
        assert (refused.value.fields["limit"], refused.value.fields["most"]) == ("rows", 19)


def test_a_query_takes_no_more_memory_than_it_may(lake: quire.Lake) -> None:
    with pytest.raises(LimitExceeded) as refused:
        lake.sql(LARGE, memory=4 << 20).to_arrow()
    assert refused.value.fields["limit"] == "memory"
    assert lake.sql(LARGE).to_arrow().num_rows == 1
    assert quire.Graph(lake).query(PAIRS, memory=64 << 20).to_pylist()


def test_a_caller_lowers_the_bounds_in_force_and_lifts_none(lake: quire.Lake) -> None:
    with limited(SqlLimits(seconds=0.2, rows=5)):
        with pytest.raises(LimitExceeded, match="0.2 seconds"):
            lake.sql(LONG, timeout=1000).to_arrow()
        with pytest.raises(LimitExceeded, match="more than 5 rows"):
            lake.sql("select n from big", max_rows=50).to_arrow()


@pytest.mark.parametrize("limit", [{"timeout": 0}, {"timeout": -1.0}, {"memory": 0}, {"max_rows": 0}])
def test_a_limit_is_above_nothing(lake: quire.Lake, limit: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(limit))} must be above 0"):
        lake.sql("select 1", **limit)


PROGRAM = """
import sys, quire
lake = quire.create("memory://interrupted", backfill=False)
graph = quire.Graph(lake)
graph.apply_schema("node Person { name: String @key  n: I64 }")
graph.load([{"type": "Person", "data": {"name": f"p{n}", "n": n}} for n in range(3000)])
many = "query q() { match { $a: Person  $b: Person  $c: Person } return { sum($a.n * $b.n + $c.n) as s } }"
print("ready", flush=True)
try:
    (graph.query(many) if sys.argv[1] == "graph" else lake.sql(sys.argv[1])).to_arrow()
except KeyboardInterrupt:
    print(lake.sql("select count(*) as n from 'node:Person'".replace("'", '"')).to_pylist(), flush=True)
"""


@pytest.mark.parametrize("asked", [LONG, "graph"], ids=["sql", "graph"])
def test_ctrl_c_ends_a_query_and_the_program_goes_on(asked: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, asked], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.7)
        os.kill(program.pid, signal.SIGINT)
        told, _ = program.communicate(timeout=60)
    assert told == "[{'n': 3000}]\n"
    assert program.returncode == 0
