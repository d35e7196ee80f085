"""Engines of DuckDB for the whole process: connections are separate, settings stay, and no fork takes one along."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from quire.duckdb_engines import PLAIN, Engine, connected

UTC = Engine(("TimeZone = 'UTC'",), threads=1)


def test_connections_see_nothing_of_each_other() -> None:
    with connected(PLAIN) as one, connected(PLAIN) as other:
        one.register("given", pa.table({"n": [1, 2]}))
        one.execute("create temp table made as select 7 as n").fetchall()
        assert one.sql("select n from given union all select n from made order by n").fetchall() == [(1,), (2,), (7,)]
        for name in ("given", "made"):
            with pytest.raises(duckdb.CatalogException):
                other.sql(f"select * from {name}").fetchall()
    with connected(PLAIN) as later, pytest.raises(duckdb.CatalogException):
        later.sql("select * from made").fetchall()


def test_threads_ask_at_once() -> None:
    def total(n: int) -> int:
        with connected(PLAIN) as connection:
            connection.register("given", pa.table({"n": [n] * 1000}))
            [[found]] = connection.sql("select sum(n) from given").fetchall()
        return int(found)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(total, range(64))) == [1000 * n for n in range(64)]


def test_settings_are_those_of_the_engine_and_stay() -> None:
    with connected(UTC) as connection:
        asked = (
            "select current_setting('TimeZone'), current_setting('threads'), current_setting('enable_external_access')"
        )
        assert connection.sql(asked).fetchall() == [("UTC", 1, False)]
        with pytest.raises(duckdb.Error, match="locked"):
            connection.execute("set threads = 4").fetchall()


@pytest.mark.parametrize("engine", [PLAIN, UTC], ids=["plain", "with settings"])
def test_files_are_out_of_reach(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    with connected(engine) as connection, pytest.raises(duckdb.Error, match="disabled"):
        connection.sql(f"select * from read_csv('{tmp_path}/x.csv')").fetchall()


FORKS = """
import os, sys
from quire.duckdb_engines import PLAIN, connected

def ask():
    with connected(PLAIN) as connection:
        return connection.sql("select sum(range) from range(100_000)").fetchall()

before = ask()
child = os.fork()
if child == 0:
    os._exit(0 if ask() == before else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or ask() != before)
"""


def test_a_forked_child_starts_an_engine_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
