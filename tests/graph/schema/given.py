"""Schemas applied, and rows put, in transactions of their own."""

from __future__ import annotations

from typing import Any

import quire
import quire.graph.integrity  # the rules that every graph table is held to
from quire.graph.catalog import Catalog
from quire.graph.schema.apply import Applied, apply, catalog_in

assert quire.graph.integrity


def applied(lake: quire.Lake, text: str, **options: Any) -> Applied:
    with lake.transaction("schema", fresh=True) as tx:
        return apply(tx, text, **options)


def catalog(lake: quire.Lake) -> Catalog:
    """The catalog at the newest commit."""
    tx = lake.transaction(fresh=True)
    try:
        return catalog_in(tx)
    finally:
        tx.discard()


def put(lake: quire.Lake, table: str, *rows: dict[str, Any]) -> None:
    """Add rows to a table of the graph, as they are stored."""
    with lake.transaction("rows", fresh=True) as tx:
        tx[table].insert(list(rows), missing="null")


def stored(lake: quire.Lake, table: str) -> dict[str, dict[str, Any]]:
    """The rows of a table by id."""
    return {row.pop("id"): row for row in lake[table].to_pylist()}
