"""Graph queries on Spark.

quire.spark.query(spark, graph, "query all() { match { $p: Person } return { $p.name } }")
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidQuery, QuireError, StorageError, Unsupported
from quire.graph.language import plan
from quire.graph.query.duckdb_run import output_schema, shaped
from quire.graph.query.explain_report import Explained, described
from quire.graph.query.prepare import Prepared, prepare
from quire.graph.query.search.scores import Made
from quire.graph.query.search.search import Embed
from quire.graph.query.semi_join import narrow
from quire.graph.query.sql.dialect import SPARK
from quire.graph.query.sql.duckdb import Column, CompiledSql
from quire.graph.query.sql.joins_only import COLUMN
from quire.lake.read.table import Rows
from quire.spark.graph_query.scans import Columns, asking, frame
from quire.spark.graph_query.walks import walked
from quire.store import metering

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from quire.lake import Snapshot
import os

from quire.arguments import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quire.graph.graph import Graph
    from quire.lake import Snapshot


_COMPUTED = {
    "ARITHMETIC_OVERFLOW": "a whole number is out of range for I64",
    "CAST_OVERFLOW": "a whole number is out of range for I64",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a whole number is out of range for I64",
    "BINARY_ARITHMETIC_OVERFLOW": "a whole number is out of range for I64",
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "division by zero",
    "USER_RAISED_EXCEPTION": "",
}
"""What Spark says of a value that cannot be computed, and what that is. The last tells it itself."""


def frame_of(
    spark: SparkSession,
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
) -> DataFrame:
    """The rows of a read as a frame, its outputs under their names. Walks are made now, all else when it is used."""
    run = _Run.of(spark, query, snapshot, params, embed)
    return _shaped(run.frame(), run.statement)


def run(
    spark: SparkSession,
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
    reduce: bool = True,
) -> Rows:
    """What `quire.graph.query.run` gives, computed by Spark and collected: the same rows in the same types."""
    return _Run.of(spark, query, snapshot, params, embed, reduce=reduce).rows()


def explain(
    spark: SparkSession,
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
    analyze: bool = False,
) -> Explained:
    """How a read is run on Spark. With `analyze` it is run; its cost is what the driver requested."""
    with metering() as meter:
        run = _Run.of(spark, query, snapshot, params, embed, reads=analyze, reduce=analyze)
        rows = run.rows().to_arrow().num_rows if analyze else None
    return described(query, run.prepared, run.text(), rows, meter.to_dict() if analyze else {})


@dataclass
class _Run:
    """One read on one session."""

    spark: SparkSession
    prepared: Prepared
    statement: CompiledSql
    made: Mapping[str, Made]
    frames: dict[str, DataFrame] = field(default_factory=dict)
    """The relations of the SQL."""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        query: plan.Query,
        snapshot: Snapshot,
        params: Mapping[str, Any],
        embed: Embed | None,
        *,
        reads: bool = True,
        reduce: bool = True,
    ) -> _Run:
        _check(spark)
        prepared = prepare(query, snapshot, params, embed)
        prepared.searches.reads, prepared.searches.ask = reads, asking(spark)
        if reduce:
            narrow(prepared, sparing=True)
        statement, made = prepared.joined(SPARK)
        return cls(spark, prepared, statement, made)

    def rows(self) -> Rows:
        import pyarrow as pa

        found = self.frame()
        try:
            answer = found.toArrow()
        except Exception as error:
            raise _failed(error) from None
        schema = output_schema(self.statement)
        batches = shaped(answer.to_batches(), self.statement, schema)
        return Rows(pa.RecordBatchReader.from_batches(schema, batches))

    def frame(self) -> DataFrame:
        """The columns of the statement."""
        try:
            self._read()
            for walk in self.statement.walks:
                self.frames[walk.name] = walked(walk, self._ask)
            return self._ask(self.statement.text)
        except QuireError:
            raise
        except Exception as error:
            raise _failed(error) from None

    def _read(self) -> None:
        prepared = self.prepared
        wanted = {found[0] for text in self._texts() for found in COLUMN.finditer(text)}
        for name, source in prepared.sources.items():
            columns = Columns.of(source, prepared.snapshot, self.made.get(name, Made()), sorted(wanted))
            self.frames[source.place.relation] = frame(self.spark, prepared.snapshot, source, columns)

    def _ask(self, text: str) -> DataFrame:
        # Only what a text names is bound: Spark would look at all of it.
        frames = {name: self.frames[name] for name in set(re.findall(r"\{(\w+)\}", text))}
        values = {name: self.prepared.values.bound[name] for name in set(re.findall(r":(p\d+)\b", text))}
        return self.spark.sql(text, args=values or None, **frames)

    def _texts(self) -> list[str]:
        walks = [text for walk in self.statement.walks for text in (walk.edges, walk.seeds)]
        return [*walks, self.statement.text]

    def text(self) -> str:
        """The SQL as people read it: relations by their names, walks before."""
        lines = []
        for walk in self.statement.walks:
            hops = f"{{{walk.least},{'' if walk.most is None else walk.most}}}"
            what = "shortest paths" if walk.path else "pairs"
            lines += [f"-- {walk.name}: {what}, {hops} hops from the {walk.side}s, hop by hop"]
            lines += [f"--   edges {walk.edges}", f"--   seeds {walk.seeds}"]
        return re.sub(r"\{([a-z]\w*)\}", r"\1", "\n".join([*lines, self.statement.text]))


def _check(spark: SparkSession) -> None:
    if str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() != "true":
        raise Unsupported(
            "ANSI SQL is off in this session, so an overflow would go unnoticed.",
            next='Call spark.conf.set("spark.sql.ansi.enabled", "true").',
        )


def _shaped(found: DataFrame, statement: CompiledSql) -> DataFrame:
    """The outputs under their names, whole entities as structs."""
    from pyspark.sql import functions as f

    def one(column: Column) -> SparkColumn:
        first = f.col(column.names[0])
        term = column.output.expression
        if not isinstance(term, plan.Whole):
            return first
        fields = [field.name for field in output_schema(statement).field(statement.columns.index(column)).type]
        returned = column.names[len(column.names) - len(fields) :]
        parts = (f.col(name).alias(field) for name, field in zip(returned, fields, strict=True))
        return f.when(first.isNotNull(), f.struct(*parts))

    return found.select(*map(one, statement.columns)).toDF(*(column.output.name for column in statement.columns))


def _failed(error: Exception) -> QuireError:
    """What went wrong: a number that does not fit, the SQL, or the machines."""
    if isinstance(error, QuireError):
        return error
    from pyspark.errors import AnalysisException

    condition = str(getattr(error, "getCondition", lambda: None)() or "").partition(".")[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if condition in _COMPUTED:
        told = re.sub(r"^\[\w+\]\s*|\s*SQLSTATE: \w+$", "", lines[0])
        reason = _COMPUTED[condition] or told
        return InvalidQuery(
            f"The query cannot compute a value: {reason}.",
            next="Filter out the rows that cause it, or use a float.",
            reason=reason,
        )
    if isinstance(error, AnalysisException):
        return InvalidQuery(
            f"The query failed: {lines[0]}.",
            next="This is a bug in Quire; report it with the query.",
        )
    told = next(
        (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception|Found|Conflict): ", line)), lines[0]
    )
    return StorageError(f"The Spark job failed: {told.rstrip('.')}.", next="Look at Spark's log, and try again.")


@checked
def query(
    spark: SparkSession,
    graph: Graph,
    query: str | os.PathLike[str],
    which: str | None = None,
    /,
    *,
    at: Snapshot | None = None,
    params: Mapping[str, Any] | None = None,
    **values: Any,
) -> DataFrame:
    """The rows of a read as a frame of Spark, which is computed when you use it. Arguments are those of `graph.query`.

    Whole nodes and edges are structs. Types are those of `quire.spark.table`: vectors are arrays, unsigned numbers the
    next wider type. An order holds where Spark keeps it: for what is collected or written right away. Walks of several
    hops are made before the frame is there.
    """
    # The graph is imported here: workers import this package for every kind of task.
    from quire.graph.embed.fill import asked_with
    from quire.graph.graph import reading_only, snapshot_at
    from quire.graph.language import bind

    snapshot = snapshot_at(graph.lake, at)
    checked = reading_only(graph.check(query, which, at=snapshot))
    given = bind(checked, {**dict(params or {}), **values})
    return frame_of(spark, checked, snapshot, given, embed=asked_with(graph.embedder))
