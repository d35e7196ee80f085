"""Stored queries that fit a schema and would not fit the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog
from quire.graph.schema.diff import TypeChange
from quire.graph.schema.resolve import catalog
from quire.graph.schema.steps import Refusal, Step

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.read.snapshot import Snapshot


def broken(
    old: Catalog, text: str, changes: Sequence[TypeChange], snapshot: Snapshot | Transaction
) -> Iterator[tuple[str, InvalidQuery]]:
    """Each with what is wrong with it then. Those that fit the old schema no more are not told again."""
    from quire.graph.language.checker.check import checked
    from quire.graph.language.parse import parse
    from quire.graph.stored_queries import stored

    if all(change.old is None for change in changes):
        return  # new types alone break nothing
    new = catalog(text)
    for name, written in stored(snapshot).items():
        [query] = parse(written).queries
        if checked(query, old)[0] is None:
            continue
        errors = checked(query, new)[1]
        if errors:
            yield name, errors[0]


def step_of(name: str, error: InvalidQuery) -> Step:
    """The step of a schema change that breaks a query."""
    return Step(
        "break-query", "", f"The stored query {name!r} no longer runs: {error.message}", details={"query": name}
    )


def refusal_of(name: str, error: InvalidQuery) -> Refusal:
    """Why such a change is not done unless it is asked for."""
    return Refusal(
        "query-broken",
        "",
        f"The stored query {name!r} would no longer run: {error.message}",
        "Store the query anew or remove it first, or allow it with break_queries=True (--break-queries).",
    )
