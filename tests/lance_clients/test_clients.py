"""Unmodified clients in environments and processes of their own: every verb, on main, on a branch, in a transaction."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from tests.namespace.conftest import ids, sound
from tests.namespace.serving import served
from tests.server.web import Web

import quire
from quire.server.config import Limits

CLIENTS = {
    "pylance 7": ("pylance7", "pylance_verbs.py", "{view}"),
    "pylance 10": ("pylance10", "pylance_verbs.py", "{view}"),
    "pylance 14": ("pylance14", "pylance_verbs.py", "{view}"),
    "lancedb": ("lancedb", "lancedb_verbs.py", "sync"),
    "lancedb async": ("lancedb", "lancedb_verbs.py", "async"),
    "lancedb remote": ("lancedb", "lancedb_verbs.py", "remote"),
    "node": ("node", "node_verbs.mjs", "namespace"),
    "node remote": ("node", "node_verbs.mjs", "remote"),
}
PATIENT = Limits(transaction_idle_seconds=300)


def run(command: list[str], *arguments: str) -> None:
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.stdout.rstrip().endswith("done")


def right(lake: quire.Lake, *, made: list[int]) -> None:
    lake.refresh()
    assert ids(lake) == [0, 2, 3, 9, 10, 11]
    texts = dict(
        zip(lake["docs"].to_arrow()["id"].to_pylist(), lake["docs"].to_arrow()["text"].to_pylist(), strict=True)
    )
    assert (texts[0], texts[2], texts[3], texts[10]) == ("changed", "text 2", "merged 3", "new 10")
    assert lake["docs"].schema.names == ["id", "text"]
    assert ids(lake, "made") == made
    assert ids(lake, "written") == [5]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("view", ["main", "branch", "txn"])
def test_every_verb(lake: quire.Lake, program: Callable[[str, str], list[str]], client: str, view: str) -> None:
    environment, name, how = CLIENTS[client]
    if view == "txn" and "remote" in client:
        pytest.skip("rows that are sent to the server are read by queries there: tests/namespace/test_transactions.py")
    lake.create_branch("trial")
    command = program(environment, name)
    made = [1, 2, 7, 8] if "pylance" in client else [1, 2]
    with served(lake, limits=PATIENT) as web:
        uri, id = f"{web.url}/lance/demo", None
        if view == "branch":
            uri += "/branch/trial"
        elif view == "txn":
            id = web("POST", "/lance/demo/txn", {}, status=201).json["id"]
            uri += f"/txn/{id}"
        run(command, uri, how.format(view=view))
        if id is not None:
            assert lake.refresh() == "1.0"
            _commit(web, id)
            assert lake.refresh() == "2.0"
    if view == "branch":
        right(lake.branch("trial"), made=made)
        assert lake.refresh() == "1.0"
    else:
        right(lake, made=[1, 2, 7, 8, 21] if view == "main" and "pylance" in client else made)
    sound(lake)


def _commit(web: Web, id: str) -> None:
    ended = {"actions": [{"setStatusAction": {"status": "Succeeded"}}]}
    assert web("POST", f"/lance/demo/v1/transaction/{id}/alter", ended).json["status"] == "Succeeded"
