"""Frames of Spark into tables of a lake: executors write the data files, the driver commits them all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from quire.arguments import checked, checks_arguments
from quire.conversion.engine_types import returned
from quire.conversion.fit import Missing, fit
from quire.conversion.source import Source
from quire.errors import InvalidInput, KeyConflict, SchemaMismatch
from quire.formats import Handed, tasks
from quire.graph.integrity.task_judge import TaskJudge
from quire.graph.integrity.verdict_cache import appoint
from quire.lake import Lake, Receipt, Transaction, TransactionTable, engines
from quire.lake.engines import Answer
from quire.lake.handles import transaction_of
from quire.lake.key_files import FEW, KeyFiles
from quire.prompt import Escaped, PublicNames
from quire.spark import jobs, types
from quire.spark.column_names import is_case_sensitive, resolved
from quire.spark.read import frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from quire.lake.commit.tokens import Token
    from quire.lake.commit.transaction import Isolation

F = TypeVar("F", bound=Callable[..., Any])
Write = Callable[[tasks.Output, Iterator["pa.RecordBatch"]], tuple[list[str], int]]


@checked
def transaction(
    spark: SparkSession,
    lake: Lake,
    message: str = "",
    *,
    author: str | None = None,
    token: Token | None = None,
    expect: Mapping[str, int] | None = None,
    if_head: str | None = None,
    isolation: Isolation = "snapshot",
    timeout: float | None = None,
    fresh: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> SparkTransaction:
    """Begin a transaction whose statements take frames; the options are those of `lake.transaction`.

    with quire.spark.transaction(spark, lake, "nightly") as tx:
        tx["documents"].append(documents)
        tx["chunks"].upsert(chunks, on="id")
    """
    return SparkTransaction(
        spark,
        lake.transaction(
            message,
            author=author,
            token=token,
            expect=expect,
            if_head=if_head,
            isolation=isolation,
            timeout=timeout,
            fresh=fresh,
            metadata=metadata,
        ),
    )


@checks_arguments
class SparkTransaction(Escaped, PublicNames):
    """A transaction of a lake that takes frames. Leaving its block commits, an exception discards."""

    def __init__(self, spark: SparkSession, tx: Transaction) -> None:
        self.spark, self.tx = spark, tx

    def __enter__(self) -> SparkTransaction:
        self.tx.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.tx.__exit__(kind, error, trace)

    @property
    def receipt(self) -> Receipt:
        """What the commit did; there is none before it."""
        return self.tx.receipt

    def tables(self) -> list[str]:
        """Names of the tables as this transaction sees them."""
        return self.tx.tables()

    def __contains__(self, name: object) -> bool:
        return name in self.tx

    def __getitem__(self, name: str) -> SparkTable:
        return SparkTable(self.spark, self.tx[name])

    def create_table(
        self,
        name: str,
        rows: DataFrame | None = None,
        *,
        schema: pa.Schema | None = None,
        key: str | Sequence[str] | None = None,
    ) -> SparkTable:
        """Create a table from a frame, or from a schema alone.

        With both, the rows are fitted to the schema: that is how an array of floats becomes a vector.
        """
        if rows is None and schema is None:
            raise InvalidInput(f"Table {name!r} needs a schema or rows.", next="Pass either.", table=name)
        made = schema if schema is not None else types.arrow_schema(_frame(rows).schema)
        table = SparkTable(self.spark, self.tx.create_table(name, schema=made, key=key))
        if rows is not None:
            table.append(rows)
        return table

    def drop_table(self, name: str) -> None:
        """Drop a table. Its files stay until cleanup."""
        self.tx.drop_table(name)

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table. Nothing is moved."""
        self.tx.rename_table(old, new)

    def commit(self) -> Receipt:
        """Publish now rather than at the end of the block."""
        return self.tx.commit()

    def discard(self) -> None:
        """Forget everything."""
        self.tx.discard()

    def __repr__(self) -> str:
        return f"<Spark {self.tx!r}>"


def _described(statement: F) -> F:
    """Let Spark's UI show which statement a job belongs to, and of which table."""

    @functools.wraps(statement)
    def run(self: SparkTable, *given: Any, **named: Any) -> Any:
        name = f"{statement.__name__} {self.name}"
        with jobs.described(self.spark, name), engines.named_job(name, transaction_of(self.table).meter):
            return statement(self, *given, **named)

    return cast(F, run)


@checks_arguments
class SparkTable(Escaped, PublicNames):
    """A table inside a transaction, written from frames. Every statement runs one Spark job or a few, at once."""

    few = FEW
    """Up to this many keys are compared without a shuffle."""
    alone = 100_000
    """While no statement brings more rows than this to a type of a graph, the driver holds them against its rules."""

    def __init__(self, spark: SparkSession, table: TransactionTable) -> None:
        self.spark, self.table = spark, table
        self.case_sensitive: bool | None = None
        """Whether names that differ in case are two. None: as the session says (`spark.sql.caseSensitive`)."""

    @property
    def name(self) -> str:
        """Its name in the lake."""
        return self.table.name

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, or () for a table without a key."""
        return self.table.key

    def frame(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> DataFrame:
        """The table as this transaction sees it, its own writes included."""
        return frame(self.spark, self.table, columns, filter)

    # -- statements -------------------------------------------------------------------------------------------

    @_described
    def append(self, rows: DataFrame, *, missing: Missing = "error") -> int:
        """Add rows; on a table with a key this is a strict `insert`. Returns their number."""
        if self.key:
            return self.insert(rows, missing=missing)
        fragments, _ = self._write(rows, missing=missing)
        return self.table.hand_in(Handed("append", tuple(fragments)))

    @_described
    def insert(self, rows: DataFrame, *, on: str | Sequence[str] | None = None, missing: Missing = "error") -> int:
        """Add rows whose keys must be new: a key that exists is a `KeyConflict`."""
        columns = self.table.identified_by(on)
        fragments, count = self._write(rows, on=columns, missing=missing)
        keys = self._keys(tasks.paths_of(self.table.target(), fragments), columns, count)
        keys.check_distinct()
        self.table.hand_in(Handed("insert", tuple(fragments), columns, keys.seek))
        return count

    @_described
    def upsert(self, rows: DataFrame, *, on: str | Sequence[str] | None = None) -> dict[str, int]:
        """Replace the rows with these keys, add the others. Columns that are not given keep their values.

        Returns how many rows were `inserted` and `updated`.
        """
        columns = self.table.identified_by(on)
        given = self.named(rows)
        absent = [name for name in columns if name not in given.columns]
        if absent:
            raise SchemaMismatch(
                f"The data for table {self.name!r} lacks key column {absent[0]!r}.",
                next="An upsert needs every key column.",
                table=self.name,
                missing=absent,
            )
        whole = set(self.table.schema.names) <= set(given.columns)
        fragments, count = self._write(given if whole else self._completed(given, columns), on=columns)
        keys = self._keys(tasks.paths_of(self.table.target(), fragments), columns, count)
        keys.check_distinct()
        matched = self.table.hand_in(Handed("upsert", tuple(fragments), columns, keys.seek, rests_on_base=not whole))
        return {"inserted": count - matched, "updated": matched}

    @_described
    def delete(self, rows: DataFrame | str, *, on: str | Sequence[str] | None = None) -> int:
        """Delete the rows whose keys are in a frame, or for which a condition holds. Returns how many keys had a row,
        or how many rows the condition.
        """
        if isinstance(rows, str):
            return self.table.delete(rows)
        columns = self.table.identified_by(on)
        wanted = self.named(rows).select(*[_quoted(name) for name in columns]).distinct()
        paths, count = self._write(wanted, on=columns, write=tasks.write_keys, only=columns)
        keys = self._keys(paths, columns, count)
        return self.table.hand_in(Handed("delete", (), columns, keys.seek))

    @_described
    def overwrite(self, rows: DataFrame, *, schema: Literal["keep", "replace"] = "keep") -> int:
        """Replace all rows; with `schema="replace"` also the columns. Indexes go with the rows they covered."""
        kept = self.table.schema if schema == "keep" else types.arrow_schema(_frame(rows).schema)
        fragments, count = self._write(rows, on=self.key, mode="overwrite", schema=kept)
        if self.key:
            self._keys(tasks.paths_of(self.table.target(), fragments), self.key, count, schema=kept).check_distinct()
        return self.table.hand_in(Handed("overwrite", tuple(fragments), schema=kept))

    # -- how --------------------------------------------------------------------------------------------------

    def _write(
        self,
        rows: DataFrame,
        *,
        on: tuple[str, ...] = (),
        missing: Missing = "error",
        mode: Literal["append", "overwrite"] = "append",
        schema: Any = None,
        write: Write = tasks.write_rows,
        only: tuple[str, ...] = (),
    ) -> tuple[list[str], int]:
        """Let executors write the rows: what each wrote, and how many rows there were."""
        given = self.named(rows, schema)
        self._check(given, missing, schema, only)
        output = tasks.Output(self.table.target(), self.name, on, missing, mode, schema)

        def work(batches: Iterator[pa.RecordBatch]) -> Answer:
            written, count = write(output, batches)
            return {"written": written, "rows": count}, b""

        answers = jobs.on_rows(given, work)
        count = sum(head["rows"] for head, _ in answers)
        if self.table.rules and count > self.alone:
            appoint(transaction_of(self.table), TaskJudge(self.spark, self.few))
        return [one for head, _ in answers for one in head["written"]], count

    def named(self, rows: DataFrame, schema: Any = None) -> DataFrame:
        """The frame with its columns called as the table calls them."""
        given = _frame(rows)
        known = (schema if schema is not None else self.table.schema).names
        sensitive = is_case_sensitive(self.spark) if self.case_sensitive is None else self.case_sensitive
        names = resolved(given.columns, known, self.name, case_sensitive=sensitive)
        return given if names == given.columns else given.toDF(*names)

    def _check(self, rows: DataFrame, missing: Missing, schema: Any, only: tuple[str, ...]) -> None:
        """Refuse columns that do not fit before any executor starts."""
        import pyarrow as pa

        target = schema if schema is not None else self.table.schema
        if only:
            target = pa.schema([target.field(name) for name in only])
        given = returned(Source(types.arrow_schema(rows.schema), [], whole=False), target)
        fit(given, target, table=self.name, missing=missing)

    def _keys(self, paths: Sequence[str], on: tuple[str, ...], rows: int, schema: Any = None) -> KeyFiles:
        from quire.formats.keys import check_columns

        check_columns(on, schema if schema is not None else self.table.schema, self.name)
        place = self.table.target()
        return KeyFiles(self.spark, place, tuple(paths), on, rows, self.name, on == self.key, self.few)

    def _completed(self, given: DataFrame, on: tuple[str, ...]) -> DataFrame:
        """Rows with the columns that were not given: as they are in the table, or null."""
        schema = self.table.schema
        others = [field for field in schema if field.name not in given.columns]
        there = _free("there", [*schema.names, *given.columns])
        old = self.frame(columns=[*on, *(field.name for field in others)]).selectExpr("*", f"true as {there}")
        if on != self.key:
            self._check_single(given, old, on)
        new = given.join(old, list(on), "left")
        required = [field.name for field in others if not field.nullable]
        if required:
            lacking = new.where(f"{there} is null").count()
            if lacking:
                raise SchemaMismatch(
                    f"{lacking} rows for table {self.name!r} are new and lack required column {required[0]!r}.",
                    next="Supply the column for new rows.",
                    table=self.name,
                    missing=required,
                )
        names = [*schema.names, *(n for n in given.columns if n not in schema.names)]
        return new.select(*[_quoted(n) for n in names])

    def _check_single(self, given: DataFrame, old: DataFrame, on: tuple[str, ...]) -> None:
        """Refuse keys for which the table has several rows: each would make a row of its own."""
        keys = given.select(*[_quoted(n) for n in on]).distinct()
        matched = old.join(keys, list(on), "leftsemi").select(*[_quoted(n) for n in on])
        several = matched.toDF(*[f"k{i}" for i in range(len(on))]).groupBy(*[f"k{i}" for i in range(len(on))]).count()
        several = several.where("count > 1")
        if jobs.collected(several.limit(1)):
            raise KeyConflict(
                f"Table {self.name!r} has several rows for one key, so some columns alone cannot be upserted.",
                next="Supply whole rows, or remove the duplicates first.",
                table=self.name,
            )

    def __repr__(self) -> str:
        return f"<Spark {self.table!r}>"


def _frame(rows: Any) -> DataFrame:
    """The frame, or `InvalidInput` for what is none."""
    if not hasattr(rows, "mapInArrow"):
        raise InvalidInput(
            f"A statement on Spark takes a DataFrame, not a {type(rows).__name__}.",
            next="Make one with spark.createDataFrame, or write in this process with lake.transaction().",
        )
    if getattr(rows, "isStreaming", False):
        raise InvalidInput(
            "A streaming DataFrame cannot be written in one statement.",
            next="Write its batches: stream.writeStream.foreachBatch(quire.spark.sink(...)).",
        )
    return rows  # type: ignore[no-any-return]


def _free(name: str, taken: Sequence[str]) -> str:
    """A name that no column has, whatever its case."""
    while name.lower() in {other.lower() for other in taken}:
        name = f"_{name}"
    return name


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
