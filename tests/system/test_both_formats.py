"""Money that moves between two Lance and two Delta tables, by twelve processes, of which some are killed.

At every commit the sums agree, for readers of the lake and for Delta clients that ask the owner.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests import duckdb_client

import quire
from quire.server.config import Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

LANCE, DELTA = ("checking", "savings"), ("loans", "funds")
ACCOUNTS, OPENING, PROCESSES, TRANSFERS = 4, 100, 12, 8
TOTAL = len(LANCE + DELTA) * ACCOUNTS * OPENING
WRITER = f"""
import random, sys
import quire
lake, chance = quire.open(sys.argv[1]), random.Random(int(sys.argv[2]))
TABLES = {LANCE + DELTA!r}

def move(tx):
    (one, a), (other, b) = ((t, chance.randrange({ACCOUNTS})) for t in chance.sample(TABLES, 2))
    for table, account, change in ((one, a, -5), (other, b, 5)):
        [row] = tx[table].scan(filter=f"id = {{account}}").to_pylist()
        tx[table].upsert([{{"id": account, "balance": row["balance"] + change}}])

for _ in range({TRANSFERS}):
    lake.transact(move, "move", retries=100)
lake.flush()
"""


@pytest.mark.full
@pytest.mark.slow
def test_sums_agree_at_every_commit(tmp_path: Path) -> None:
    uri, chance = str(tmp_path / "lake"), random.Random(18)
    with quire.create(uri) as lake, lake.transaction("opening") as tx:
        rows = pa.table({"id": range(ACCOUNTS), "balance": [OPENING] * ACCOUNTS})
        for table in LANCE + DELTA:
            tx.create_table(table, rows, key="id", format="delta" if table in DELTA else "lance")
    started = [subprocess.Popen([sys.executable, "-c", WRITER, uri, str(n)]) for n in range(PROCESSES)]
    victims = started[: PROCESSES // 2]
    while int(quire.open(uri, read_only=True).head.split(".")[0]) < 6:
        time.sleep(0.2)
    for process in victims:
        time.sleep(chance.uniform(0.2, 1.5))
        process.send_signal(signal.SIGKILL)
    assert [process.wait(600) for process in started[len(victims) :]] == [0] * (PROCESSES - len(victims))
    for process in victims:
        process.wait()

    lake = quire.open(uri, backfill=False)
    commits = [entry.id for entry in lake.log() if entry.message in ("move", "opening")]
    assert len(commits) > TRANSFERS * (PROCESSES - len(victims))
    told = {}
    for commit in commits:
        at = lake.at(commit=commit)
        sums = {table: sum(row["balance"] for row in at[table].to_pylist()) for table in LANCE + DELTA}
        assert sum(sums.values()) == TOTAL, commit
        told[commit] = sums
    with running(Config(lakes={"bank": LakeConfig(uri)}, port=0, read_only=True), RequestLog(lambda _: None)) as server:
        for commit in [commits[0], *chance.sample(commits, 6)]:
            assert through_the_owner(f"{server.url}/delta/bank/at/{commit}") == [told[commit][table] for table in DELTA]
    lake.backfill()
    assert lake.verify(deep=True).ok


def through_the_owner(endpoint: str) -> list[int]:
    """What DuckDB finds in the Delta tables at one address of the catalog."""
    asked = [f"select sum(balance)::bigint from lake.default.{table}" for table in DELTA]
    answers = duckdb_client.run(
        f"create secret (type uc, token 'x', endpoint '{endpoint}', aws_region 'us-east-1')",
        "attach 'lake' as lake (type unity_catalog, default_schema 'default')",
        *asked,
        extensions=("httpfs", "delta", "unity_catalog"),
    )
    return [answer["rows"][0][0] for answer in answers[2:]]
