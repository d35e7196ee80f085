"""`df.write.format("quire")` in the four modes of Spark, as statements of one transaction.

Spark refuses two of its modes, `errorifexists` and `ignore`, before it asks a data source in Python, and lets it commit
in a process of its own only. So `register` teaches PySpark's writer that frames for this format are saved here: by a
transaction of the process that asked, with its checks, its errors and its one commit. Every other format goes its way.
Where nobody has called `register` (the process of a stream on a Connect server), `quire.spark.datasource` writes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import quire
from quire.errors import InvalidInput, KeyConflict, SchemaMismatch, TableExists, Unsupported
from quire.filters import read_filter
from quire.graph.names import nearest
from quire.lake.commit import tokens
from quire.spark import jobs, types
from quire.spark.column_names import resolved
from quire.spark.write import SparkTable, SparkTransaction, transaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

WRITING = (
    *("lake", "table", "path", "branch", "message", "author", "token", "missing", "caseSensitive"),
    *("key", "indexes", "mergeSchema", "overwriteSchema", "replaceWhere"),
)
_MODES = {"error": "errorifexists", "default": "errorifexists"}


def install() -> None:
    """Let PySpark's writers, of this process and of Connect, save the format `quire` here."""
    from pyspark.sql.readwriter import DataFrameWriter

    _teach(DataFrameWriter, _asked_of_classic)
    try:
        from pyspark.sql.connect.readwriter import DataFrameWriter as Connected
    except ImportError:  # the packages of Connect are not installed
        return
    _teach(Connected, _asked_of_connect)


def _teach(writer: Any, asked: Any) -> None:
    """Wrap `save` of a class of writers, once."""
    known = writer.save
    if hasattr(known, "quire"):
        return

    @functools.wraps(known)
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803 - Spark's name
        **options: Any,
    ) -> None:
        source, said, given, parts, rows = asked(self)
        if (format or source).lower() != "quire":
            known(self, path, format, mode, partitionBy, **options)
            return
        if partitionBy or parts:
            raise Unsupported(
                "A table of a lake is not partitioned by its writers.",
                next="Leave partitionBy out.",
                option="partitionBy",
            )
        given |= {name: _text(value) for name, value in options.items() if value is not None}
        if path is not None:
            given["path"] = path
        save_frame(rows, mode or said, given)

    save.quire = True  # type: ignore[attr-defined]
    writer.save = save


def _asked_of_classic(writer: Any) -> tuple[str, str, dict[str, str], bool, DataFrame]:
    """Format, mode, options, whether there are partitions, and the frame: what has been said to a writer."""
    said = writer._jwrite
    options, names = said.extraOptions(), said.extraOptions().keys().iterator()
    given: dict[str, str] = {}
    while names.hasNext():
        name = names.next()
        given[name] = options.apply(name)
    return said.source(), said.curmode().toString(), given, said.partitioningColumns().isDefined(), writer._df


def _asked_of_connect(writer: Any) -> tuple[str, str, dict[str, str], bool, DataFrame]:
    from pyspark.sql.connect.dataframe import DataFrame as Connected

    said = writer._write
    rows: Any = Connected(writer._df, writer._spark)
    return said.source or "", said.mode or "default", dict(said.options), bool(said.partitioning_cols), rows


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def save_frame(rows: DataFrame, mode: str, options: Mapping[str, str]) -> None:
    """Write a frame into a table that is there, or make one of it, by one commit.

    A table that is there is an error (`errorifexists`, which is Spark's default), is left as it is (`ignore`), gets the
    rows (`append`; strictly where it has a key), or has all of its rows replaced (`overwrite`). With `replaceWhere`
    only those that a condition chooses are replaced, by rows for which it holds.
    """
    how = _MODES.get(mode.lower(), mode.lower())
    given = _options(options)
    save = _Save(rows, how, given)
    lake = quire.open(given["lake"], branch=given.get("branch", "main"))
    token = tokens.from_text(given.get("token"))
    if token is not None and lake.transaction(token=token, fresh=True).repeated() is not None:
        return
    said = given.get("message", f"write {given['table']}")
    tx = transaction(rows.sparkSession, lake, said, author=given.get("author"), token=token, fresh=True)
    with tx:
        if given["table"] not in tx:
            save.create(tx)
        elif how == "errorifexists":
            raise TableExists(
                f"The lake already has a table {given['table']!r}.",
                next='Choose what becomes of it: mode("append"), mode("overwrite") or mode("ignore").',
                table=given["table"],
            )
        elif how == "ignore":
            tx.discard()
        else:
            save.into(tx[given["table"]])


def _options(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names. Spark does not tell their cases apart."""
    names = {name.lower(): name for name in WRITING}
    given: dict[str, str] = {}
    for key, value in options.items():
        if key.lower() not in names:
            other = "lake, table, at, columns and filter" if key.lower() in ("at", "columns", "filter") else ""
            reading = f"The option {key} is for reading, which has {other}." if other else ""
            near = f"{reading} {nearest(key.lower(), WRITING)}".strip()
            raise InvalidInput(
                f"The format quire has no option {key!r} for writing.",
                next=f"{near} It has {', '.join(WRITING)}.".strip(),
                option=key,
            )
        given[names[key.lower()]] = value
    given.setdefault("table", given.get("path", ""))
    for name in ("lake", "table"):
        if not given.get(name):
            raise InvalidInput(f"The format quire needs the option {name}.", next=f'.option("{name}", …).', option=name)
    return given


class _Save:
    """One frame on its way into one table."""

    def __init__(self, rows: DataFrame, mode: str, given: Mapping[str, str]) -> None:
        if mode not in ("errorifexists", "ignore", "append", "overwrite"):
            raise InvalidInput(
                f"{mode!r} is no mode.", next="Use errorifexists, ignore, append or overwrite.", option="mode"
            )
        self.rows, self.mode, self.given = rows, mode, given
        self.merges, self.replaces = self._flag("mergeSchema"), self._flag("overwriteSchema")
        self.missing: Any = given.get("missing", "null" if self.merges else "error").lower()
        if self.missing not in ("error", "null"):
            raise InvalidInput(
                f"The option missing of the format quire is not {given['missing']!r}.",
                next="Use error or null.",
                option="missing",
            )
        self.where = given.get("replaceWhere")
        for option in ("replaceWhere", "overwriteSchema"):
            if option in given and mode != "overwrite":
                raise InvalidInput(
                    f"The option {option} is for overwriting.", next='.mode("overwrite").', option=option
                )
        if self.where is not None and self.replaces:
            raise InvalidInput(
                "Columns are replaced with all rows or not at all.",
                next="Leave overwriteSchema or replaceWhere out.",
                option="overwriteSchema",
            )
        if "caseSensitive" in given:
            self.sensitive: bool | None = self._flag("caseSensitive")
        else:
            self.sensitive = None
        self.key = [name.strip() for name in given["key"].split(",")] if "key" in given else []
        self.indexes = _indexes(given.get("indexes", ""))

    def _flag(self, name: str) -> bool:
        said = self.given.get(name, "false").lower()
        if said not in ("true", "false"):
            raise InvalidInput(
                f"The option {name} of the format quire is not {self.given[name]!r}.",
                next="Use true or false.",
                option=name,
            )
        return said == "true"

    # -- a new table ------------------------------------------------------------------------------------------

    def create(self, tx: SparkTransaction) -> None:
        """Make a table with the frame's columns. As in other formats, all but the key may hold nulls."""
        import pyarrow as pa

        given = types.arrow_schema(self.rows.schema)
        keys = resolved(self.key, given.names, self.given["table"], case_sensitive=bool(self.sensitive))
        schema = pa.schema([field.with_nullable(field.nullable or field.name not in keys) for field in given])
        self._check_indexes(schema)
        made = tx.create_table(self.given["table"], schema=schema, key=keys or None)
        made.append(self._judged(made, self.rows))
        self._build(made)

    # -- a table that is there --------------------------------------------------------------------------------

    def into(self, table: SparkTable) -> None:
        """Append to it, or replace its rows."""
        if self.sensitive is not None:
            table.case_sensitive = self.sensitive
        keys = tuple(resolved(self.key, table.table.schema.names, table.name, case_sensitive=bool(self.sensitive)))
        if keys and keys != table.key:
            raise InvalidInput(
                f"Table {table.name!r} has {'the key ' + ', '.join(table.key) if table.key else 'no key'},"
                f" not {', '.join(keys)}.",
                next="Leave the option key out.",
                table=table.name,
            )
        if self.merges:
            self._widen(table)
        try:
            if self.mode == "append":
                table.append(self.rows, missing=self.missing)
            elif self.where is None:
                if self.replaces:
                    table.overwrite(self.rows, schema="replace")
                else:
                    table.overwrite(self._completed(table))
            else:
                rows = self._judged(table, self.rows)
                table.delete(self.where)
                table.append(rows, missing=self.missing)
        except SchemaMismatch as error:
            raise self._advised(error, table) from None
        except KeyConflict as error:
            if self.mode == "append":
                error.next = (
                    "Leave those rows out, or replace them with an upsert in quire.spark.transaction(spark, lake)."
                )
            raise
        self._check_indexes(table.table.schema)
        self._build(table)

    def _widen(self, table: SparkTable) -> None:
        """Give the table the columns of the frame that it lacks; the rows that are there have nulls in them."""
        import pyarrow as pa

        given = types.arrow_schema(table.named(self.rows).schema)
        new = [field.with_nullable(True) for field in given if field.name not in table.table.schema.names]
        if new:
            table.table.add_columns(pa.schema(new))

    def _completed(self, table: SparkTable) -> DataFrame:
        """The frame with nulls for the columns that it lacks, if they are to be filled in."""
        import pyarrow as pa
        from pyspark.sql import functions as f

        rows = table.named(self.rows)
        lacking = [field for field in table.table.schema if field.name not in rows.columns and field.nullable]
        if self.missing == "error" or not lacking:
            return rows
        kinds = types.spark_schema(types.readable(pa.schema(lacking), table.name))
        return rows.withColumns({kind.name: f.lit(None).cast(kind.dataType) for kind in kinds})

    def _judged(self, table: SparkTable, rows: DataFrame) -> DataFrame:
        """The rows, of which the first for which `replaceWhere` does not hold ends the statement."""
        if self.where is None:
            return rows
        read_filter(self.where, table.table.schema, part="replaceWhere", table=table.name)
        named, schema = table.named(rows), rows.schema
        mark = "_is_replaced"
        while mark in named.columns:
            mark = f"_{mark}"
        try:
            marked = named.selectExpr("*", f"coalesce(({self.where}), false) as `{mark}`")
        except Exception as error:
            raise InvalidInput(
                f"Spark cannot tell for which rows {self.where!r} holds: {str(error).splitlines()[0]}",
                next="Write replaceWhere so that it means the same to both, such as day = date '2026-01-31'.",
                option="replaceWhere",
            ) from None
        text, name = self.where, table.name

        def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                found = batch.column(batch.num_columns - 1)
                if found.false_count:
                    at = found.to_pylist().index(False)
                    row = batch.slice(at, 1).select(range(min(batch.num_columns - 1, 5))).to_pylist()[0]
                    raise InvalidInput(
                        f"A row for table {name!r} is not among those that replaceWhere replaces ({text}): {row}.",
                        next="Leave such rows out: df.where(…) with the same condition.",
                        table=name,
                        option="replaceWhere",
                    )
                yield batch.select(range(batch.num_columns - 1))

        schema = marked.drop(mark).schema
        return jobs.mapped(marked, check, schema, f"check {name}")

    def _advised(self, error: SchemaMismatch, table: SparkTable) -> SchemaMismatch:
        if "unexpected" in error.fields:
            near = nearest(error.fields["unexpected"][0], table.table.schema.names)
            columns = f"Its columns are {', '.join(table.table.schema.names)}."
            error.next = f'{near} {columns} New ones are added with .option("mergeSchema", "true").'.strip()
        elif "missing" in error.fields and self.missing == "error":
            error.next = 'Supply it, or let nulls be filled in where they may be: .option("missing", "null").'
        return error

    # -- indexes ----------------------------------------------------------------------------------------------

    def _check_indexes(self, schema: pa.Schema) -> None:
        for column, _ in self.indexes:
            if column not in schema.names:
                raise InvalidInput(
                    f"There is no column {column!r} to index.",
                    next=f"{nearest(column, schema.names)} The columns are {', '.join(schema.names)}.".strip(),
                    option="indexes",
                )

    def _build(self, table: SparkTable) -> None:
        """Build the indexes that are asked for and not there."""
        there = {tuple(index["columns"]) for index in table.table.indexes()} if self.indexes else set()
        for column, kind in self.indexes:
            if (column,) not in there:
                table.table.create_index(column, kind, engine=table.spark)


def _indexes(text: str) -> list[tuple[str, str]]:
    """`id, title:INVERTED` as columns and kinds."""
    parts = [part.strip().rpartition(":") for part in text.split(",") if part.strip()]
    return [(column or kind, kind if column else "BTREE") for column, _, kind in parts]
