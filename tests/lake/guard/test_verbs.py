"""Every public verb passes the guard: it has a rule, it is closed to nobody, and a verb without a rule is an error."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import Denied
from quire.lake.branch.requests import Requests
from quire.lake.guard import verbs
from quire.lake.guard.verbs import FREE, READ, guarded

CLASSES = {
    quire.Lake: verbs.LAKE,
    quire.Snapshot: verbs.SNAPSHOT,
    quire.Table: verbs.TABLE,
    quire.Transaction: verbs.TRANSACTION,
    quire.TransactionTable: verbs.TRANSACTION_TABLE,
}
GIVEN: dict[str, Any] = {
    "branch": "main", "name": "x", "commit": "0.0", "source": "trial", "at": "0.0", "a": "0.0", "table": "t",
    "key": 1, "unsettled": "a/1/b", "query": "select 1", "folder": "/nowhere", "fn": lambda tx: None,
    "uri": "/nowhere", "type": "Person", "queries": "query q() { match { $p: P } return { $p } }",
    "schema": "node P { n: String @key }", "property": "x", "path": "/nowhere/x", "number": 1, "verdict": "approve",
    "title": "t", "text": "t", "conflicts": [],
}  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_name_has_a_rule_and_every_rule_a_name(cls: type) -> None:
    public = {name for name in vars(cls) if not name.startswith("_")}
    assert public <= set(CLASSES[cls]), "give it a rule in quire.lake.guard.verbs"
    assert set(CLASSES[cls]) <= set(dir(cls)), "a rule for a name that is not there"


def test_a_verb_without_a_rule_is_an_error_when_its_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"Handle\.leak has no rule"):

        @guarded({"read": READ})
        class Handle:
            def read(self) -> None: ...

            def leak(self) -> None: ...


@pytest.fixture
def closed(tmp_path: Path) -> quire.Lake:
    """A lake under a guard, and nobody who acts."""
    quire.create(tmp_path / "lake", backfill=False).create_table("t", [{"id": 1}], key="id")
    return quire.open(tmp_path / "lake", guarded=True, backfill=False)


def call(handle: Any, name: str) -> Any:
    """Use a verb, with something for each argument that it must have."""
    found = inspect.getattr_static(type(handle), name)
    if isinstance(found, property):
        return getattr(handle, name)
    words = {**GIVEN, "name": "degree"} if "algorithm" in name else GIVEN
    given = [p for p in inspect.signature(getattr(handle, name)).parameters.values() if p.default is p.empty]
    named = {p.name: words.get(p.name) for p in given if p.kind is p.KEYWORD_ONLY}
    plain = [words.get(p.name, "x") for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return getattr(handle, name)(*plain, **named)


@pytest.mark.parametrize("name", [name for name, rule in verbs.LAKE.items() if rule is not FREE])
def test_a_lake_is_closed_to_nobody(name: str, closed: quire.Lake) -> None:
    with pytest.raises(Denied, match="nobody is named"):
        call(closed, name)


@pytest.mark.parametrize("name", ["__getitem__", "__contains__", "__iter__"])
def test_signs_are_closed_to_nobody(name: str, closed: quire.Lake) -> None:
    with pytest.raises(Denied, match="nobody is named"):
        getattr(closed, name)(*(["t"] if name != "__iter__" else []))


OF_THE_TEXT_ALONE = {"lake", "embedder"}
GRAPH = [name for name, found in vars(quire.Graph).items() if not name.startswith("_") and callable(found)]


@pytest.mark.parametrize("name", GRAPH)
def test_a_graph_is_closed_to_nobody(name: str, closed: quire.Lake) -> None:
    graph = quire.Graph(closed)
    if name in ("load", "mutate"):
        given: list[Any] = [[{"type": "P", "data": {}}]] if name == "load" else ["query m() { insert P { n: 1 } }"]
        with pytest.raises(Denied, match="nobody is named"):
            getattr(graph, name)(*given)
        return
    with pytest.raises(Denied, match="nobody is named"):
        list(call(graph, name) or [])


REQUESTS = [name for name, found in vars(Requests).items() if not name.startswith("_") and callable(found)]


def test_merge_requests_are_closed_to_nobody(closed: quire.Lake) -> None:
    assert "merge" in REQUESTS
    with pytest.raises(Denied, match="nobody is named"):
        _ = closed.requests


def test_without_a_policy_an_actor_may_do_everything(tmp_path: Path) -> None:
    quire.create(tmp_path / "lake", backfill=False)
    lake = quire.open(tmp_path / "lake", actor="ada", backfill=False)
    lake.create_table("t", [{"id": 1}], key="id")
    with lake.transaction() as tx:
        tx["t"].upsert([{"id": 1}, {"id": 2}])
    lake.create_branch("b")
    assert lake["t"].count() == 2
    assert {entry.author for entry in lake.log(limit=2)} == {"ada"}
    assert [branch.author for branch in lake.branches()] == ["", "ada"]
    assert lake.status()["rows"] == 2
