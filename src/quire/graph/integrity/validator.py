"""The validator of every graph table: whatever wrote the rows, they keep the rules of the graph.

The lake calls it before a commit is published, on the state that it lands on, and again whenever a table that it looked
at has moved. Its cost follows the change: it reads the rows that the transaction added and removed, and asks the tables
about their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.errors import Conflict, QuireError
from quire.graph.catalog import STORED
from quire.graph.integrity.changes import Changed, Looks, catalog_of, changed_types
from quire.graph.integrity.stored_queries import check_stored
from quire.graph.integrity.structure import check_structure
from quire.graph.integrity.verdict_cache import check_alone, check_sets, is_vouched
from quire.graph.integrity.violations import MOST, Violations
from quire.lake.commit.validators import Proposal

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

ALONE = frozenset({"type", "required", "enum", "range", "check", "key", "query"})
"""Rules that a row breaks by itself, whatever others commit."""


def validate(tx: Transaction, tables: list[str]) -> None:
    """Refuse a transaction whose rows break a rule.

    `IntegrityError` when the rows are to blame; a `Conflict` that may be run again when others have committed since the
    transaction began, so that its program may come to other rows now.
    """
    found = check(tx, tables)
    if found:
        raise _refusal(tx, found)


def check(tx: Transaction, tables: Sequence[str], *, most: int = MOST, rows: bool = True) -> Violations:
    """What is wrong with what a transaction does to these tables.

    Without `rows`, rules that a row keeps or breaks by itself are left out, for a caller that has looked at them.
    """
    found = Violations(most)
    catalog, proposal = catalog_of(tx), Proposal(tx)
    check_structure(proposal, catalog, tables, found)
    if found:
        return found
    changed = changed_types(proposal, catalog, tables)
    if STORED in tables:
        check_stored(proposal, found)
    if rows:
        for one in changed:
            if not is_vouched(one):
                _check_rows(one, found)
    check_sets(catalog, changed, Looks(tx), found)
    return found


def _check_rows(one: Changed, found: Violations) -> None:
    # Blobs are not read: a scan shows whether there is one, and that is all that a rule can ask.
    entity = one.entity
    asked = (p for p in entity.defined.properties if p.type.base != "Blob" or not p.type.optional)
    columns = [*entity.system, *(p.column for p in asked)]
    check_alone(one, columns, found)


def _refusal(tx: Transaction, found: Violations) -> QuireError:
    error = found.error()
    if not Proposal(tx).others_committed or any(violation.rule in ALONE for violation in found.violations):
        return error
    return Conflict(
        f"Commits since {tx.begun.commit} conflict with this transaction: {error.message}",
        next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
        **{k: v for k, v in error.fields.items() if k != "next"},
    )
