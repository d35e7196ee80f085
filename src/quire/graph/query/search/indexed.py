"""Searches through an index: what it finds are candidates, from which the SQL above makes the exact answer.

A text index is asked only where it has the tokens of Quire and the query is plain enough for both to agree on them; it
finds rows that it does not cover yet, too. A vector index is asked only for the nearest rows of one scan, and only
where it measures as the property says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.formats import Indexed, Parted, Search, TextIndex
from quire.graph.language import plan
from quire.graph.query.search.search import TEXT_INDEX, metric_of
from quire.lake.handles import view_of
from quire.lake.read.ranking import scores, text_statistics, text_totals
from quire.lake.read.ranking.text_statistics import Statistics
from quire.lake.read.ranking.text_totals import Totals

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
SMALL = 2_000
"""The tokens of so few rows are counted by reading them."""
SINGLE = 1e-5
"""How far a score of 32 bits may be off, as a part of it."""
REFINE = 4
"""Candidates that Lance itself ranks by exact distance, for each that it returns."""


def by_text(prepared: Prepared, variable: str, match: plan.TextMatch, most: int) -> pa.Table | None:
    """Rows of which all that match are among; None where no index can tell, or where they are more than `most`."""
    source = prepared.sources[variable]
    tokens = prepared.searches.tokens(match)
    if source.rows is not None or source.limit is not None or match.function == "fuzzy" or not tokens:
        return None
    table, column = source.table(prepared.snapshot), match.field.property.column
    found = next((d for d in details(table, column, "INVERTED") if agrees(d)), None)
    if found is None or not plain_tokens(tokens, found):
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
    found = [d for d in details(table, prop.column, "IVF") if str(d.get("metric_type", "")).lower() == metric]
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


def plain_tokens(tokens: Sequence[str], details: Mapping[str, Any]) -> bool:
    """Whether a text index knows some tokens as Quire does."""
    longest = details.get("max_token_length") or TEXT_INDEX["max_token_length"]
    return bool(tokens) and all(token.isascii() and len(token) <= longest for token in tokens)


def details(table: Table, column: str, kind: str) -> list[dict[str, Any]]:
    """How the indexes of a column were built."""
    view = view_of(table)
    return view.index_details(column, kind) if isinstance(view, Indexed) else []


def agrees(details: dict[str, Any]) -> bool:
    """Whether a text index has the tokens of Quire."""
    names = ("base_tokenizer", "lower_case", "stem", "remove_stop_words", "ascii_folding")
    return all(details.get(name) == TEXT_INDEX[name] for name in names) and not details.get("split_identifiers")


@dataclass(frozen=True)
class TextCounts:
    """What all rows of a table say about some tokens, beside what its text index counts."""

    index: TextIndex
    all: Statistics
    tokens: int
    """Of all texts."""
    later: Totals
    """Texts that the index does not cover."""

    def scale(self) -> float:
        """By how much a score can be higher than the one that the index gives, at most; infinite where nobody knows.

        The index counts texts that are gone, and not those that came. Its scores grow with the weights of tokens, and
        with the mean length that it takes, in no more than their proportion.
        """
        gone = max(self.index.documents - (self.all.rows - self.later.rows), 0)
        least, most = min(self.index.documents, self.all.rows), self.index.documents + self.later.rows
        if not least or not most or self.tokens <= self.later.tokens:
            return math.inf
        off = 1.0
        for frequency in self.all.frequency.values():
            highest = frequency + gone
            if highest > least:
                return math.inf
            off = max(off, scores.idf(self.all.rows, frequency) / scores.idf(least, highest))
        shortest = min((self.tokens - self.later.tokens) / self.index.documents, self.tokens / most)
        return off * max(1.0, self.all.mean / shortest) * (1.0 + SINGLE)


def text_counts(table: Table, column: str, wanted: Sequence[str]) -> TextCounts | None:
    """The counts of some tokens, by a text index that has the tokens of Quire; None where there is none.

    The index tells which rows have a token; how long texts are is read once for every fragment.
    """
    view = view_of(table)
    if not isinstance(view, Indexed) or not isinstance(view, Parted) or table.count() <= SMALL:
        return None
    index = view.text_index(column)
    if index is None or not agrees(index.options) or not plain_tokens(wanted, index.options):
        return None
    parts = text_totals.totals(table, column)
    whole = text_totals.summed(parts.values())
    if not whole.plain:
        return None

    def rows_with(token: str) -> int:
        search = Search(text=token, text_columns=(column,))
        return sum(batch.num_rows for batch in view.scan(columns=[], search=search))

    counted = text_statistics.counted(table, column, wanted, (whole.rows, whole.tokens), rows_with)
    return TextCounts(index, counted, whole.tokens, text_totals.tail(parts, index.fragments))
