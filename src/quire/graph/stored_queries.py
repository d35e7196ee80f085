"""Queries that are kept in the lake, by name: rows of `graph:stored`, versioned by commits like all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.errors import InvalidInput, InvalidQuery, NotFound
from quire.graph.catalog import STORED, Catalog
from quire.graph.integrity.lookups import is_in
from quire.graph.language import check, parse, show_query
from quire.graph.names import nearest
from quire.graph.types import Type

if TYPE_CHECKING:
    from quire.lake import Snapshot
    from quire.lake.commit.transaction import Transaction


def store(tx: Transaction, text: str, catalog: Catalog, *, file: str = "") -> list[str]:
    """Keep the queries of a text, each under its name; one that is there is replaced. Their names, in order.

    Every query is checked against the schema first. The text is kept in its one form: without comments. What is there
    already is not written again.
    """
    _needs_graph(tx)
    found = parse(text, file=file).queries
    if not found:
        raise InvalidQuery("The text has no query.", next="Write at least one: query name() { … }.")
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1:
            raise InvalidQuery(
                f"There are two queries {one.name!r} in the text.", next="Give them different names.", query=one.name
            )
        check(one, catalog, file=file)
    known = {row["name"]: row["text"] for row in tx[STORED].scan().to_pylist()}
    new = [{"name": one.name, "text": show_query(one)} for one in found]
    if changed := [row for row in new if known.get(row["name"]) != row["text"]]:
        tx[STORED].upsert(changed)
    return names


def remove(tx: Transaction, names: Sequence[str]) -> None:
    """Remove stored queries; all of them must be there."""
    _needs_graph(tx)
    known = tx[STORED].scan(columns=["name"]).to_arrow()["name"].to_pylist()
    for name in names:
        if name not in known:
            raise missing(name, known)
    if names:
        tx[STORED].delete(is_in("name", Type("String"), list(names)))


def stored(snapshot: Snapshot | Transaction) -> dict[str, str]:
    """The text of every stored query, by name, sorted."""
    if STORED not in snapshot:
        return {}
    rows = snapshot[STORED].scan().to_pylist()
    return {row["name"]: row["text"] for row in sorted(rows, key=lambda row: row["name"])}


def missing(name: str, known: Sequence[str]) -> NotFound:
    """There is no stored query of this name."""
    return NotFound(
        f"There is no stored query {name!r}.",
        next=nearest(name, known) or "`quire stored list` shows what there is; `quire stored add` stores one.",
        query=name,
    )


def _needs_graph(tx: Transaction) -> None:
    if STORED not in tx:
        raise InvalidInput("There is no graph here yet.", next="Apply a schema first (`quire schema apply`).")
