"""What is denied and what is not there take the same time: the same requests to the store, in as many hops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import NotFound, QuireError
from quire.store import metering

POLICY = """
permit(principal, action in Action::"read", resource in Lake::"lake")
unless { resource in Table::"salaries" || resource == Branch::"private" || resource == Column::"people/note" };
permit(
    principal,
    action in [Action::"write", Action::"schema", Action::"branchCreate", Action::"mergeInto", Action::"revert"],
    resource
);
"""
Do = Callable[[quire.Lake, Any], Any]


def in_transaction(do: Callable[[quire.Transaction, str], Any]) -> Do:
    def run(lake: quire.Lake, name: str) -> None:
        tx = lake.transaction()
        try:
            do(tx, name)
        finally:
            tx.discard()

    return run


TABLE: dict[str, Do] = {
    "snapshot": lambda lake, name: lake[name],
    "sql": lambda lake, name: lake.sql(f"select * from {name}"),
    "history": lambda lake, name: list(lake.history(name, 1)),
    "diff": lambda lake, name: lake.diff("1.0", tables=[name]),
    "transaction": in_transaction(lambda tx, name: tx[name]),
    "append": in_transaction(lambda tx, name: tx[name].append([{"id": 3}])),
    "drop": in_transaction(lambda tx, name: tx.drop_table(name)),
    "rename": in_transaction(lambda tx, name: tx.rename_table(name, "other")),
}
BRANCH: dict[str, Do] = {
    "branch": lambda lake, name: lake.branch(name),
    "at": lambda lake, name: lake.at(commit=name),
    "show": lambda lake, name: lake.show(name),
    "merge": lambda lake, name: lake.merge(name),
    "preview": lambda lake, name: lake.merge(name, preview=True),
    "fast-forward": lambda lake, name: lake.fast_forward(name),
    "create from": lambda lake, name: lake.create_branch("mine", at=f"branch:{name}"),
    "request": lambda lake, name: lake.requests.open(name, "title"),
    "request into": lambda lake, name: lake.requests.open("trial", "title", into=name),
}
TAG: dict[str, Do] = {"at": lambda lake, name: lake.at(tag=name), "show": lambda lake, name: lake.show(name)}
COLUMN: dict[str, Do] = {
    "scan": lambda lake, name: lake["people"].to_arrow(columns=[name]),
    "filter": lambda lake, name: lake["people"].count(f"{name} = 'n'"),
    "sql": lambda lake, name: lake.sql(f"select {name} from people").to_arrow(),
    "update": in_transaction(lambda tx, name: tx["people"].update(values={name: "x"}, where="id = 1")),
}
REQUEST: dict[str, Do] = {
    "get": lambda lake, number: lake.requests.get(number),
    "comment": lambda lake, number: lake.requests.comment(number, "text"),
}
CASES = [
    *[("table", "salaries", "celeries", name, do) for name, do in TABLE.items()],
    *[("branch", "private", "privata", name, do) for name, do in BRANCH.items()],
    *[("tag", "hidden", "hiddes", name, do) for name, do in TAG.items()],
    *[("column", "note", "nota", name, do) for name, do in COLUMN.items()],
    *[("request", 2, 3, name, do) for name, do in REQUEST.items()],
]


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    root: Path = tmp_path_factory.mktemp("time") / "lake"
    with quire.create(root, author="root", backfill=False) as lake:
        with lake.transaction("first") as tx:
            tx.create_table("people", [{"id": 1, "name": "a", "note": "n"}], key="id")
            tx.create_table("salaries", [{"id": 1}])
        for name in ("trial", "private"):
            lake.create_branch(name).create_table("more", [{"id": 1}])
        lake.tag("hidden", at="branch:private")
        lake.requests.open("trial", "one")
        lake.requests.open("private", "two")
        lake.policy.set(POLICY)
    return quire.open(root, actor="ada", backfill=False)


@pytest.mark.parametrize(("kind", "denied", "unknown", "verb", "do"), CASES, ids=[f"{c[0]} {c[3]}" for c in CASES])
def test_a_look_for_what_is_denied_asks_the_store_as_one_for_nothing(
    kind: str, denied: Any, unknown: Any, verb: str, do: Do, ada: quire.Lake
) -> None:
    asked: dict[Any, list[tuple[int, int, dict[str, int]]]] = {denied: [], unknown: []}
    said = set()
    for name in (denied, unknown) * 4:
        with metering() as meter, pytest.raises(QuireError) as caught:
            do(ada, name)
        asked[name].append((meter.total, meter.hops, meter.requests))
        said.add(caught.value.kind)
    # The least: the first look may find something out, and once a second one asks for a newer policy.
    assert min(asked[denied], key=lambda one: one[:2]) == min(asked[unknown], key=lambda one: one[:2])
    assert len(said) == 1
    assert kind == "column" or isinstance(caught.value, NotFound)
