"""Searches through an index: what it finds are candidates, from which the SQL above makes the exact answer.

A text index is asked only where it has the tokens of Quire and the query is plain enough for both to agree on them; it
finds rows that it does not cover yet, too. A vector index is asked only for the nearest rows of one scan, and only
where it measures as the property says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.formats import Indexed, Search
from quire.graph.language import plan
from quire.graph.query.search.search import TEXT_INDEX, metric_of
from quire.lake.handles import view_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared
    from quire.lake.read.table import Table

PROBES = 64
"""Partitions of a vector index that are searched."""
SPARE = 4
"""For each row that is asked for, so many candidates are ranked by their exact distance."""
LEAST = 100
"""Candidates that are ranked at least."""
MANY = 2_000
"""More rows than these are found by looking at all: an index would have to be searched nearly as far."""
REFINE = 4
"""Candidates that Lance itself ranks by exact distance, for each that it returns."""


def by_text(prepared: Prepared, variable: str, match: plan.TextMatch, most: int) -> pa.Table | None:
    """Rows of which all that match are among; None where no index can tell, or where they are more than `most`."""
    source = prepared.sources[variable]
    tokens = prepared.searches.tokens(match)
    if source.rows is not None or source.limit is not None or match.function == "fuzzy" or not tokens:
        return None
    table, column = source.table(prepared.snapshot), match.field.property.column
    found = next((d for d in _details(table, column, "INVERTED") if _agrees(d)), None)
    longest = 0 if found is None else found.get("max_token_length") or TEXT_INDEX["max_token_length"]
    if not all(token.isascii() and len(token) <= longest for token in tokens):
        return None
    rows = source.read(prepared.snapshot, limit=most + 1, search=Search(text=" ".join(tokens), text_columns=(column,)))
    return rows if rows.num_rows <= most else None


def by_vector(prepared: Prepared) -> bool:
    """Read the nearest rows through a vector index, if the query is for the nearest rows of one scan."""
    term = ranked(prepared)
    if term is None:
        return False
    source, prop = prepared.sources[term.field.variable], term.field.property
    table, metric = source.table(prepared.snapshot), metric_of(term.field.property)
    found = [d for d in _details(table, prop.column, "IVF") if str(d.get("metric_type", "")).lower() == metric]
    query = prepared.searches.vector(term)
    wanted = (prepared.limit or 0) + (prepared.offset or 0)
    if not found or query is None or wanted > MANY:
        return False
    count = max(LEAST, SPARE * wanted)
    search = Search(vector=(prop.column, query), metric=metric, nprobes=PROBES, refine=REFINE)
    rows = source.read(prepared.snapshot, limit=count, search=search)
    if rows.num_rows < min(wanted, table.count()):
        return False  # a filter left too few of what the index looked at
    source.rows, source.why = rows, f"vector index, {count} candidates"
    return True


def ranked(prepared: Prepared) -> plan.Nearest | None:
    """The distance that a query of one scan is put in order of, if every filter is pushed into the scan."""
    read, block = prepared.read, prepared.read.block
    is_one = len(block.scans) == 1 and not (block.expansions or block.paths or block.optional or block.after)
    if not is_one or read.aggregated or read.distinct or read.having or not read.order or not prepared.limit:
        return None
    used = [*(o.expression for o in read.outputs), *(o.expression for o in read.order)]
    if any(isinstance(term, plan.Rrf) for term in used):
        return None
    if not all(id(c) in prepared.pushed for c in block.conditions):
        return None
    first = read.order[0]
    term = (
        read.outputs[first.expression.index].expression
        if isinstance(first.expression, plan.Output)
        else first.expression
    )
    return term if isinstance(term, plan.Nearest) and not first.descending else None


def has_index(table: Table, column: str) -> bool:
    """Whether values of a column are looked up."""
    return any(ix["kind"].upper() in ("BTREE", "BITMAP") and ix["columns"] == [column] for ix in table.indexes())


def _details(table: Table, column: str, kind: str) -> list[dict[str, Any]]:
    """How the indexes of a column were built."""
    view = view_of(table)
    return view.index_details(column, kind) if isinstance(view, Indexed) else []


def _agrees(details: dict[str, Any]) -> bool:
    """Whether a text index has the tokens of Quire."""
    names = ("base_tokenizer", "lower_case", "stem", "remove_stop_words", "ascii_folding")
    return all(details.get(name) == TEXT_INDEX[name] for name in names) and not details.get("split_identifiers")
