"""Hybrid search of one table: a vector ranking and a text ranking, fused by reciprocal rank.

It means what `rrf(nearest(…), bm25(…))` means in a query of a graph. Both rankings are exact over the rows that pass
the filter: no index is asked, so none can be incomplete. The vector and the text of those rows are read, and then the
whole rows of those that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire import duckdb_engines
from quire.errors import InvalidInput, QuireError, StorageError, Unsupported
from quire.formats import ROW_ID, Addressed, View
from quire.formats.query_vectors import query_vector
from quire.lake.read.ranking import scores, text_statistics

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.table import Table

VECTOR, TEXT, ROW = "v", "t", "r"
SHOWN = ("_distance", "_score", "_relevance")
"""Columns of the answer: the distance of the vector, the BM25 score of the text, and what they are fused to."""


@dataclass(frozen=True)
class Hybrid:
    """What is searched for, and where."""

    vector: Any
    text: str
    vector_column: str
    text_column: str
    metric: str = "l2"
    limit: int = 10
    filter: Any = None
    columns: Sequence[str] | None = None


def hybrid(table: Table, wanted: Hybrid, *, settled: bool) -> pa.Table:
    """The best rows, best first; of equals the one with the smaller key, or the earlier one where there is no key.

    `settled` says that the table never changes, so that what is counted in its text may be kept.
    """
    view = table._view()
    if not isinstance(view, Addressed):
        raise Unsupported(
            f"Table {table.name!r} does not support vector or text search.", next="Use a Lance table.", table=table.name
        )
    ranked = _ranked(table, view, wanted, settled)
    names = [n for n in wanted.columns or view.schema.names if n not in SHOWN]
    rows = view.take(ranked.column(ROW).to_numpy(), names)
    for name in SHOWN:
        rows = rows.append_column(ranked.schema.field(name), ranked.column(name))
    return rows


def _ranked(table: Table, view: Addressed, wanted: Hybrid, settled: bool) -> pa.Table:
    """Ids of the best rows, with what they were ranked by."""
    import duckdb

    query = query_vector(table.schema, wanted.vector_column, wanted.vector, table.name)
    bound: dict[str, Any] = {}

    def cast(value: object, kind: str) -> str:
        bound[f"p{len(bound)}"] = value
        return f"CAST($p{len(bound) - 1} AS {kind})"

    near = scores.distance(wanted.metric, VECTOR, [float(x) for x in query], len(query), cast)
    words = text_statistics.tokens(wanted.text)
    score = "CAST(0 AS DOUBLE)"
    if words:
        found = text_statistics.statistics(table, wanted.text_column, words, keep=settled)
        score = scores.bm25(TEXT, words, found, cast)
    keys = [f"k{i}" for i in range(len(table.key))]
    identity = ", ".join([*keys, ROW])
    arms = [scores.Arm("d", True, identity), scores.Arm("s", False, identity)]
    relevance = scores.fused(arms, cast(scores.RRF_K, "DOUBLE"))
    shown = f"CAST({'d * d' if wanted.metric == 'l2' else 'd'} AS FLOAT)"  # as a search by vector alone says it
    sql = (
        f"WITH scored AS (SELECT {near} AS d, {score} AS s, {identity} FROM scanned), "
        f"fused AS (SELECT *, {relevance} AS relevance FROM scored) "
        f"SELECT {ROW}, {shown} AS _distance, s AS _score, relevance AS _relevance FROM fused WHERE relevance > 0 "
        f"ORDER BY relevance DESC, {identity} LIMIT {cast(wanted.limit, 'BIGINT')}"
    )
    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        failed: list[QuireError] = []
        connection.register("scanned", _scanned(table, view, wanted, keys, failed))
        try:
            return connection.sql(sql, params=bound).to_arrow_table()
        except duckdb.Error as error:  # it tells of a stream that ended in an error as text
            raise (failed[0] if failed else _unranked(table, error)) from None


def _unranked(table: Table, error: Exception) -> StorageError:
    return StorageError(
        f"The rows of table {table.name!r} cannot be ranked: {str(error).splitlines()[0]}.",
        next="Rank fewer rows: use a filter.",
        table=table.name,
    )


def _scanned(
    table: Table, view: Addressed, wanted: Hybrid, keys: Sequence[str], failed: list[QuireError]
) -> pa.RecordBatchReader:
    """Vector, text, key and id of the rows that pass the filter, under names of our own. `failed` gets the error that
    reading them ended with."""
    import pyarrow as pa

    names = [wanted.vector_column, wanted.text_column, *table.key]
    shown = [VECTOR, TEXT, *keys]
    reader = view.addressed(list(dict.fromkeys(names)), wanted.filter)
    types = [reader.schema.field(name).type for name in names]
    if pa.types.is_float16(types[0].value_type):  # which DuckDB does not have
        types[0] = pa.list_(pa.float32(), types[0].list_size)
    schema = pa.schema([*zip(shown, types, strict=True), (ROW, pa.uint64())])

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                found = [batch.column(name).cast(kind) for name, kind in zip(names, types, strict=True)]
                yield pa.RecordBatch.from_arrays([*found, batch.column(ROW_ID).cast(pa.uint64())], schema=schema)
        except QuireError as error:
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


def text_column(view: View, given: str | None, table: str) -> str:
    """The column that is searched for text: the one named, else the only one with a text index, else the only one."""
    import pyarrow.types as t

    texts = [f.name for f in view.schema if t.is_string(f.type) or t.is_large_string(f.type)]
    if given is not None:
        if given not in texts:
            raise InvalidInput(
                f"Table {table!r} has no text column {given!r}.",
                next=f"Its text columns: {', '.join(texts) or 'none'}.",
                table=table,
                column=given,
            )
        return given
    indexed: list[str] = [c for ix in view.indexes() if ix["kind"].upper() == "INVERTED" for c in ix["columns"]]
    for found in (list(dict.fromkeys(indexed)), texts):
        if len(found) == 1:
            return found[0]
    raise InvalidInput(
        f"Table {table!r} has {len(texts)} text columns.",
        next=f"Choose one with text_column=: {', '.join(texts)}." if texts else "Search by vector alone.",
        table=table,
    )
