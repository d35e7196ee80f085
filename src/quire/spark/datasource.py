"""`spark.read.format("quire")` and `df.write.format("quire")`: one table, by options.

Reading takes `lake`, `table` (or the path), `at`, `branch`, `columns` (comma-separated) and `filter`. Writing takes
`lake`, `table`, `branch`, `message`, `token`, `missing` (`null` fills columns in) and `caseSensitive`, and makes a
commit of its own; for several tables in one commit use `quire.spark.transaction`. With `changes` a stream reads what is
committed to a table (`quire.spark.changes`). Credentials come from the environment.

What can be known without reading a row is checked while Spark plans, before any task: options, the table, the columns
and their types, and whether the token was used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

import quire
from quire.conversion.engine_types import returned
from quire.conversion.fit import Missing, fit
from quire.conversion.source import Source
from quire.errors import CommitUnknown, InvalidInput, KeyConflict, QuireError, SchemaMismatch, Unsupported
from quire.formats import Handed, tasks
from quire.graph.names import nearest
from quire.lake import Table, Transaction, TransactionTable
from quire.lake.commit import detached, tokens
from quire.lake.key_files import KeyFiles
from quire.spark import types
from quire.spark.changes import CHANGES, ChangesReader, stream_schema
from quire.spark.column_names import resolved
from quire.spark.read import Scan, snapshot_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_ArrowWriter: Any = getattr(datasource, "DataSourceArrowWriter", object)
READING = ("lake", "table", "path", "branch", "at", "columns", "filter")
WRITING = ("lake", "table", "path", "branch", "message", "token", "missing", "caseSensitive")
NO_STREAMS = "The format quire reads and writes tables, not streams, but for the changes of a table."


class QuireSource(DataSource):
    """The format `quire`."""

    @classmethod
    def name(cls) -> str:
        return "quire"

    def schema(self) -> StructType:
        with _plainly():
            if self._is_changes():
                return types.spark_schema(stream_schema(self._options(CHANGES, "reading changes")))
            return types.spark_schema(self.scan().target)

    def reader(self, schema: StructType) -> DataSourceReader:
        with _plainly():
            if self._is_changes():
                raise Unsupported(
                    "Changes are read as a stream.",
                    next='spark.readStream.format("quire").option("changes", "true"), with trigger(availableNow=True).',
                )
            return _Reader(self.scan())

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        with _plainly():
            if _ArrowWriter is object:
                raise Unsupported(
                    'df.write.format("quire") needs PySpark 4.1 or newer.',
                    next="Use quire.spark.transaction(spark, lake).",
                )
            given = self._options(WRITING, "writing")
            return _Writer(given, schema, overwrite, tokens.from_text(given.get("token")))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if not self._is_changes():
            return _NoStream()
        with _plainly():
            return ChangesReader(self._options(CHANGES, "reading changes"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        with _plainly():
            raise Unsupported(
                NO_STREAMS,
                next="Write batches, each exactly once: stream.writeStream.foreachBatch(quire.spark.sink(…)).",
            )

    def _is_changes(self) -> bool:
        """Whether the changes of a table are asked for, instead of its rows."""
        said = next((value for name, value in self.options.items() if name.lower() == "changes"), "false").lower()
        if said not in ("true", "false"):
            raise InvalidInput(
                f"The option changes of the format quire is not {said!r}.", next="Use true or false.", option="changes"
            )
        return said == "true"

    def scan(self) -> Scan:
        """What the options say that is read."""
        given = self._options(READING, "reading")
        lake = quire.open(given["lake"], branch=given.get("branch", "main"), read_only=True)
        columns = [name.strip() for name in given["columns"].split(",")] if given.get("columns") else None
        return Scan(snapshot_of(lake, given.get("at"))[given["table"]], columns, given.get("filter"))

    def _options(self, known: Sequence[str], what: str) -> dict[str, str]:
        """The options by name. Spark does not tell their cases apart."""
        names = {name.lower(): name for name in known}
        other = {name.lower() for name in (*READING, *WRITING, *CHANGES)}
        for key in map(str.lower, self.options):
            if key not in names:
                wrong = f"The format quire has no option {key!r}."
                if key in other:
                    wrong = f"The option {key} of the format quire is not for {what}."
                near = nearest(key, known)
                raise InvalidInput(wrong, next=f"{near} For {what} it has {', '.join(known)}.".strip(), option=key)
        given = {names[key.lower()]: value for key, value in self.options.items()}
        given.setdefault("table", given.get("path", ""))
        for name in ("lake", "table"):
            if not given.get(name):
                raise InvalidInput(
                    f"The format quire needs the option {name}.", next=f'.option("{name}", …).', option=name
                )
        return given


@contextmanager
def _plainly() -> Iterator[None]:
    """Let Spark tell an error of ours by what it says alone.

    Spark runs this in a process of its own, and sends the error on with the stack of that process. The process ends
    with the error, so what is set here is nobody else's.
    """
    try:
        yield
    except QuireError:
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if main is not None and main.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


@dataclass
class _Part(InputPartition):
    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _NoStream(DataSourceStreamReader):
    """Refuses when the stream is started. Spark loses an error that is raised any earlier."""

    def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
        with _plainly():
            raise Unsupported(
                NO_STREAMS,
                next='Read the changes of a table with .option("changes", "true"), or one commit with spark.read.',
            )

    def latestOffset(self, *_: Any) -> Any:  # noqa: N802 - Spark's name
        return self.initialOffset()

    def partitions(self, start: Any, end: Any) -> Any:
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Any:
        return self.initialOffset()


class _Reader(DataSourceReader):
    """Reads batch by batch. Filters are never pushed by Spark: the option says what to read."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        return [_Part(number) for number in range(len(self.scan.shares))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Part):
            with _plainly():
                yield from self.scan(partition.number)


@dataclass
class _Written(WriterCommitMessage):
    fragments: list[str]
    rows: int


class _Writer(_ArrowWriter):  # type: ignore[misc]
    """Executors write data files; `commit` runs once, in a process of Spark's, and makes one commit of them.

    No process of ours lives as long as the job. So a note is left for cleanup before anything is written, and the
    commit begins at the state that was read right after it: a floor that was published since cannot be overlooked.
    """

    def __init__(self, given: dict[str, str], schema: StructType, overwrite: bool, token: tokens.Token | None) -> None:
        lake = quire.open(given["lake"], branch=given.get("branch", "main"))
        self.given, self.overwrite, self.token = given, overwrite, token
        self.begun: detached.Begun | None = None
        if token is not None and lake.transaction(token=token, fresh=True).repeated() is not None:
            return  # there is nothing to do, and nothing of it is read
        missing = _chosen(given, "missing", ("error", "null"))
        sensitive = _chosen(given, "caseSensitive", ("false", "true")) == "true"
        # Before a note is written for a table or columns that are not there.
        self.names = _fitting(lake.snapshot()[given["table"]], schema, missing, case_sensitive=sensitive)
        self.begun = detached.begin(lake)
        held = lake.snapshot()[given["table"]]
        self.key, self.kept = held.key, held.schema
        place, _ = held.parts()
        self.output = tasks.Output(
            place,
            held.name,
            self.key,
            missing,
            "overwrite" if overwrite else "append",
            self.kept if overwrite else None,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        if self.begun is None:
            return _Written([], 0)
        with _plainly():
            return _Written(*tasks.write_rows(self.output, (b.rename_columns(self.names) for b in iterator)))

    def commit(self, messages: list[Any]) -> None:
        if self.begun is None:
            return
        with _plainly():
            self._commit(self.begun, [m for m in messages if m is not None])

    def _commit(self, begun: detached.Begun, written: list[_Written]) -> None:
        fragments = tuple(text for m in written for text in m.fragments)
        key, name = self.key, self.given["table"]
        rows = sum(m.rows for m in written)
        # This process stands alone: Spark cannot be asked to shuffle the keys, so they are taken in rounds.
        place = self.output.place
        keys = KeyFiles(None, place, tuple(tasks.paths_of(place, fragments)), key, rows, name, True)
        if key:
            keys.check_distinct()
        with self._opened() as lake:
            said = self.given.get("message", f"write {name}")
            tx: Transaction | None = None
            try:
                with detached.resume(lake, begun, said, token=self.token) as tx:
                    if self.overwrite:
                        tx[name].hand_in(Handed("overwrite", fragments, schema=self.kept))
                    elif key:
                        self._insert(tx[name], Handed("insert", fragments, key, keys.seek))
                    else:
                        tx[name].hand_in(Handed("append", fragments))
            except BaseException as error:
                if isinstance(error, CommitUnknown) or (tx is not None and tx.status == "unknown"):
                    detached.keep(lake, begun)  # Spark aborts what has failed, and this may yet have succeeded
                raise
            detached.end(lake, begun)

    def _insert(self, table: TransactionTable, handed: Handed) -> None:
        try:
            table.hand_in(handed)
        except KeyConflict as error:
            error.next = "Leave those rows out, or replace them with an upsert in quire.spark.transaction(spark, lake)."
            raise

    def abort(self, messages: list[Any]) -> None:
        """What was written is named by nobody."""
        if self.begun is not None:
            with self._opened() as lake:
                detached.end(lake, self.begun)

    def _opened(self) -> quire.Lake:
        return quire.open(self.given["lake"], branch=self.given.get("branch", "main"))


def _chosen(given: dict[str, str], name: str, words: tuple[Any, ...]) -> Any:
    """One of some words, the first if nothing is said."""
    said = given.get(name, words[0]).lower()
    if said not in words:
        raise InvalidInput(
            f"The option {name} of the format quire is not {given[name]!r}.",
            next=f"Use {' or '.join(words)}.",
            option=name,
        )
    return said


def _fitting(held: Table, schema: StructType, missing: Missing, *, case_sensitive: bool) -> list[str]:
    """The names of a frame's columns as the table has them, or `SchemaMismatch` for columns that do not fit."""
    have = types.arrow_schema(schema)
    names = resolved(have.names, held.schema.names, held.name, case_sensitive=case_sensitive)
    renamed = Source(_renamed(have, names), [], whole=False)
    try:
        fit(returned(renamed, held.schema), held.schema, table=held.name, missing=missing)
    except SchemaMismatch as error:
        if "missing" in error.fields and missing == "error":
            error.next = 'Supply it, or let nulls be filled in where they may be: .option("missing", "null").'
        elif "unexpected" in error.fields:
            near = nearest(error.fields["unexpected"][0], held.schema.names)
            error.next = f"{near} Its columns are {', '.join(held.schema.names)}.".strip()
        raise
    return names


def _renamed(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
