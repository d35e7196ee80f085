"""Search as SQL: distances of vectors, and matches and scores of text. The answer never depends on an index.

Text is made of tokens: lower-cased runs of letters, marks and digits, without stemming and without stop words.
`search` finds any token of the query, `match_text` all of them, and `fuzzy` any within some edits. BM25 is computed
over all rows of the type at the snapshot, so that filters do not change a score. A query without tokens matches
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidQuery, Unsupported
from quire.graph.catalog import Entity, Property
from quire.graph.language import plan
from quire.graph.query.known_values import Known
from quire.graph.query.sql.fragments import Values
from quire.graph.types import Wrong
from quire.lake.read.ranking import scores, text_statistics

if TYPE_CHECKING:
    from quire.lake import Snapshot

TEXT_INDEX: dict[str, Any] = {
    "base_tokenizer": "simple",
    "lower_case": True,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": text_statistics.LONGEST,
}
"""Options of an INVERTED index that has the tokens of this module, so that it can find candidates."""

Embed = Callable[[str, Property], Sequence[float]]
"""Makes the vector of a text, for a vector property."""


def metric_of(prop: Property) -> str:
    """How near is measured: what `@metric("cosine")` on the property says, else L2."""
    found = prop.annotation("metric")
    metric = "l2" if found is None else str(found.value).lower()
    if metric not in scores.METRICS:
        raise InvalidQuery(
            f"{prop.name} has the unknown metric {metric!r}.",
            next=f"Use one of {', '.join(scores.METRICS)}.",
            property=prop.name,
        )
    return metric


@dataclass
class Searches:
    """The searches of one run."""

    snapshot: Snapshot
    known: Known
    embed: Embed | None = None
    reads: bool = True
    """Without it nothing is read or embedded, and what that would give stands in the SQL as zeros."""
    ask: text_statistics.Ask = text_statistics.asked
    """Who reads the texts of a column to count its tokens."""
    embedded: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    """Vectors of the texts that were asked for, by text and property."""
    split: dict[str, list[str]] = field(default_factory=dict)
    """Tokens of the texts that were asked for."""
    ends: list[tuple[plan.Nearest | plan.Bm25, float]] = field(default_factory=list)
    """Where the rankings of `rrf` end that candidates were taken from."""

    # -- vectors ----------------------------------------------------------------------------------------------

    def vector(self, term: plan.Nearest) -> list[float] | None:
        """The query of a `nearest`, embedded if it is text."""
        query, prop = self.known.value(term.query), term.field.property
        if isinstance(query, str):
            key = query, id(prop)
            if key not in self.embedded:
                self.embedded[key] = self._embedded(query, prop) if self.reads else [0.0] * prop.type.size
            return self.embedded[key]
        return None if query is None else list(query)

    def _embedded(self, text: str, prop: Property) -> list[float]:
        if self.embed is None:
            raise Unsupported(
                f"nearest({prop.name}, …) was given text, and no embedder is configured.",
                next="Configure an embedder (--embedder or QUIRE_EMBEDDER, Graph(lake, embedder=…)), or pass a vector.",
                property=prop.name,
            )
        try:
            found: list[float] = prop.type.value(list(self.embed(text, prop)))
        except Wrong as error:
            raise InvalidQuery(
                f"The vector of the query {error}.",
                next="Embed it with the model that made the property.",
                property=prop.name,
            ) from None
        return found

    def distance(self, term: plan.Nearest, column: str, values: Values) -> str:
        """SQL for a distance, in double precision; null where a vector is null."""
        size, metric = term.field.property.type.size, metric_of(term.field.property)
        return scores.distance(metric, column, self.vector(term), size, values.cast)

    # -- text -------------------------------------------------------------------------------------------------

    def tokens(self, term: plan.TextMatch | plan.Bm25) -> list[str]:
        """The different tokens of a query, in the order of the text."""
        query = self.known.value(term.query) or ""
        if query not in self.split:
            self.split[query] = text_statistics.tokens(query)
        return self.split[query]

    def matches(self, term: plan.TextMatch, entity: Entity, column: str, values: Values) -> str:
        """SQL for whether a text matches."""
        wanted = self.tokens(term)
        if not wanted:
            return "FALSE"
        if term.function == "fuzzy":
            wanted = self._near(term, entity, wanted)
        test = "list_has_all" if term.function == "match_text" else "list_has_any"
        return f"{test}({text_statistics.tokenized(column)}, {values.cast(wanted, 'VARCHAR[]')})"

    def _near(self, term: plan.TextMatch, entity: Entity, wanted: Sequence[str]) -> list[str]:
        """The tokens of the corpus that are within the edits of any token of the query."""
        given = None if term.edits is None else self.known.value(term.edits)
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
            raise InvalidQuery(
                f"fuzzy takes a number of edits of at least 0, not {given!r}.", next="Leave it out, or give 1 or 2."
            )
        if not self.reads:
            return list(wanted)
        table = self.snapshot[entity.table]
        most = {t: edits(t) if given is None else given for t in wanted}
        return text_statistics.near(table, term.field.property.column, most, self.ask)

    def score(self, term: plan.Bm25, entity: Entity, column: str, values: Values) -> str:
        """SQL for a BM25 score; 0 where nothing matches."""
        wanted = self.tokens(term)
        if not wanted:
            return "0.0::DOUBLE"
        found = text_statistics.Statistics(0, 1.0, dict.fromkeys(wanted, 0))
        if self.reads:
            found = self.statistics(entity, term)
        return scores.bm25(column, wanted, found, values.cast)

    def statistics(self, entity: Entity, term: plan.Bm25) -> text_statistics.Statistics:
        """Counts of the tokens of a query: by a text index where this process reads, else by whoever reads texts."""
        from quire.graph.query.search.indexed import text_counts

        table, column, wanted = self.snapshot[entity.table], term.field.property.column, self.tokens(term)
        by_index = text_counts(table, column, wanted) if self.ask is text_statistics.asked else None
        return by_index.all if by_index else text_statistics.statistics(table, column, wanted, self.ask)

    # -- ranks ------------------------------------------------------------------------------------------------

    def worst(self, arm: plan.Nearest | plan.Bm25) -> float | None:
        """The last distance or score that has a rank, where not all rows were ranked."""
        return next((number for term, number in self.ends if term == arm), None)


def edits(token: str) -> int:
    """How many edits `fuzzy` forgives in a token when it is not told."""
    return 0 if len(token) <= 2 else 1 if len(token) <= 5 else 2
