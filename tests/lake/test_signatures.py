"""Verbs that hand their options on name each of them, with the same defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import quire
from quire.formats.index_options import IndexOptions
from quire.formats.lance.indexes.build import OPTIONS
from quire.graph.load.load import load
from quire.lake.commit.transaction import TransactionOptions


def options(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters that are given by name, with their defaults."""
    named = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in named if p.kind is inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("verb", "handed_on", "own", "kept_back"),
    [
        (quire.Lake.create_table, quire.Transaction.create_table, {"metadata"}, set()),
        (quire.Lake.export, quire.Snapshot.export, set(), set()),
        (quire.Lake.transact, quire.Lake.transaction, {"retries"}, set()),
        (quire.Graph.load, load, {"engine", "message", "options"}, {"embedder", "complete", "session", "label"}),
    ],
)
def test_options_are_those_of_the_verb_below(
    verb: Callable[..., Any], handed_on: Callable[..., Any], own: set[str], kept_back: set[str]
) -> None:
    mine = {name: default for name, default in options(verb).items() if name not in own}
    theirs = {name: default for name, default in options(handed_on).items() if name not in kept_back}
    assert mine == theirs


def test_the_options_of_a_transaction_are_those_of_the_verb_that_begins_it() -> None:
    assert set(TransactionOptions.__annotations__) == set(options(quire.Lake.transaction))


def test_the_options_of_indexes_are_those_that_some_kind_takes() -> None:
    assert set(IndexOptions.__annotations__) == {name for names in OPTIONS.values() for name in names}


def test_a_misspelt_option_is_named(tmp_path: Any) -> None:
    lake = quire.create(tmp_path / "lake")
    with pytest.raises(quire.errors.InvalidArgument, match="Lake.create_table") as refused:
        lake.create_table("t", kye="id")  # type: ignore[call-arg]
    assert "'key'" in str(refused.value.next)
    with pytest.raises(quire.errors.InvalidArgument) as refused:
        lake.transact(lambda tx: None, isolatoin="snapshot")  # type: ignore[call-arg]
    assert "'isolation'" in str(refused.value.next)


def test_there_is_no_receipt_before_the_commit(tmp_path: Any) -> None:
    lake = quire.create(tmp_path / "lake")
    tx = lake.transaction()
    with pytest.raises(quire.errors.Refused, match="The transaction is open, so it has no receipt"):
        _ = tx.receipt
    tx.create_table("t", [{"id": 1}])
    assert tx.commit() is tx.receipt
    tx = lake.transaction()
    tx.discard()
    with pytest.raises(quire.errors.Refused, match="discarded"):
        _ = tx.receipt
