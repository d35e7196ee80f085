"""The one door is one module: whatever is published, `publish` appends it."""

from __future__ import annotations

import ast
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sources import modules

import quire
from quire.errors import InvalidInput
from quire.lake.publish.control_records import mark
from quire.ledger import Appended, Floor, LogLedger
from quire.ledger import state as ledger_state

SOURCE = Path(quire.__file__).parent
DOOR = "lake/publish/publish.py"


def appends(tree: ast.AST) -> list[int]:
    """Lines that name `append` of something that is called a ledger."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "append":
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if ast.unparse(owner).rpartition(".")[2].lower().strip("_").startswith("ledger"):
                found.append(node.lineno)
    return found


def test_no_other_module_appends_to_a_ledger() -> None:
    found = {
        file: lines
        for file, tree in modules()
        if not file.startswith(("ledger/", "testing/")) and (lines := appends(tree))
    }
    assert list(found) == [DOOR]
    assert len(found[DOOR]) == 2  # the first record of a lake, and all others


@pytest.mark.parametrize("line", ["core.ledger.append(r)", "ledger_of(s, a).append(r)", "call = self._ledger.append"])
def test_the_search_finds_a_side_door(line: str) -> None:
    assert appends(ast.parse(line)) == [1]


def test_every_kind_of_record_comes_through_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append, seen = LogLedger.append, []

    def watched(self: LogLedger, record: Any, **options: Any) -> Appended:
        seen.append((record.kind, sys._getframe(1).f_code.co_filename))
        return append(self, record, **options)

    monkeypatch.setattr(LogLedger, "append", watched)
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    lake.claim()
    trial = lake.create_branch("trial")
    trial.create_table("u", [{"id": 1}])
    lake.fast_forward("trial")
    lake.revert("HEAD")
    lake.delete_branch("trial")
    floor = Floor(slot=1, horizon=datetime(2020, 1, 1, tzinfo=UTC), revoked=())
    mark(lake._live, "floor", floor)
    assert {kind for kind, _ in seen} == {"genesis", "commits", "claim", "closed", "floor"}
    assert {Path(file) for _, file in seen} == {SOURCE / DOOR}


def test_a_lake_whose_tables_cannot_be_stored_together_never_comes_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is within its bound, and all of them are not: the commit is refused, and everything goes on."""
    monkeypatch.setattr(ledger_state, "MAX_TABLES", 1 << 20)
    lake = quire.create("memory://many-rules", backfill=False)
    schema = pa.schema([("a", pa.int64())])

    def make(name: str) -> None:
        with lake.transaction() as tx:
            tx.create_table(name, schema=schema, rules="r" * 300_000)

    for name in "abc":
        make(name)
    with pytest.raises(InvalidInput, match="records of all tables") as caught:
        make("d")
    assert caught.value.size > 1 << 20
    with pytest.raises(InvalidInput, match="records of all tables"), lake.transaction() as tx:
        tx["a"].set_rules("r" * 600_000)
    assert lake.tables() == ["a", "b", "c"]
    with lake.transaction() as tx:
        tx.drop_table("a")
        tx["b"].set_rules("")
        tx["b"].append([{"a": 1}])
    make("d")
    lake._live.checkpoint(force=True)
    assert quire.open(lake.uri).tables() == ["b", "c", "d"]
