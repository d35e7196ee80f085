"""Whether what is written into the table of stored queries are queries.

Whether they fit the schema is not asked here: a schema may change under them, and whoever runs one is told then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quire.errors import InvalidQuery
from quire.graph.catalog import STORED
from quire.graph.integrity.violations import Violation, Violations

if TYPE_CHECKING:
    from quire.lake.commit.validators import Proposal


def check_stored(proposal: Proposal, found: Violations) -> None:
    """Add what is wrong with the rows of stored queries that a transaction adds or changes."""
    table = proposal.change_of(proposal.names.get(STORED, ""))
    if table is None or table.dropped or not table.has_new_rows:
        return
    for batch in table.delta(["name", "text"]).added:
        for row in batch.to_pylist():
            found.add(_wrong(row["name"], row["text"]))


def _wrong(name: str, text: str) -> Iterator[Violation]:
    from quire.graph.language import parse

    try:
        names = [query.name for query in parse(text).queries]
    except InvalidQuery as error:
        yield Violation(STORED, "query", f"The text of the stored query {name!r} cannot be read: {error.message}", name)
        return
    if names != [name]:
        have = ", ".join(map(repr, names)) or "no query"
        yield Violation(STORED, "query", f"The stored query {name!r} has a text that holds {have}.", name)
