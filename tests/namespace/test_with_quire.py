"""What Quire does to tables that clients have written to: clients go on, and no version of theirs moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Namespace


def _restored(lake: quire.Lake) -> None:
    lake.restore("2.0", tables=["docs"])


def _dropped_and_restored(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.drop_table("docs")
    lake.restore("2.0", tables=["docs"])


def _dropped_and_reverted(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.drop_table("docs")
    lake.revert(lake.refresh())


def _fast_forwarded(lake: quire.Lake) -> None:
    lake.create_branch("trial")
    with lake.branch("trial").transaction() as tx:
        tx["docs"].append(docs(40))
    lake.fast_forward("trial")


def _merged(lake: quire.Lake) -> None:
    lake.create_branch("side")
    with lake.branch("side").transaction() as tx:
        tx["docs"].append(docs(40))
    opened(Namespace(lake)).insert(docs(41))
    lake.merge("side")


def _optimized(lake: quire.Lake) -> None:
    lake.optimize(["docs"])


WAYS: dict[str, tuple[Callable[[quire.Lake], Any], list[int]]] = {
    "restore": (_restored, [0, 1, 2, 3, 10]),
    "drop and restore": (_dropped_and_restored, [0, 1, 2, 3, 10]),
    "drop and revert": (_dropped_and_reverted, [0, 1, 2, 3, 10, 11]),
    "fast-forward": (_fast_forwarded, [0, 1, 2, 3, 10, 11, 40]),
    "merge": (_merged, [0, 1, 2, 3, 10, 11, 40, 41]),
    "optimize": (_optimized, [0, 1, 2, 3, 10, 11]),
}


@pytest.mark.parametrize("way", WAYS)
def test_clients_go_on(lake: quire.Lake, namespace: Namespace, way: str) -> None:
    do, expected = WAYS[way]
    dataset = opened(namespace)
    dataset.insert(docs(10))
    dataset.insert(docs(11))

    do(lake)

    assert ids(lake) == expected
    sound(lake)
    again = opened(namespace)
    assert sorted(again.to_table()["id"].to_pylist()) == expected
    again.insert(docs(60))
    with lake.transaction() as tx:
        tx["docs"].append(docs(61))
    again.delete("id = 60")
    assert ids(lake) == [*expected, 61]
    assert lake.foreign() == []
    old = opened(namespace, version=2)
    assert sorted(old.to_table()["id"].to_pylist()) == [0, 1, 2, 3, 10]
    sound(lake)
