"""`spark.read.format("quire")` and `df.write.format("quire")`: one table, by options.

Reading takes `lake`, `table` (or the path), `at`, `branch`, `columns` (comma-separated) and `filter`. Writing takes
`lake`, `table`, `branch`, `message` and `token`, and makes a commit of its own; for several tables in one commit use
`quire.spark.transaction`. Credentials come from the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, WriterCommitMessage

import quire
from quire.errors import CommitUnknown, InvalidInput, Unsupported
from quire.formats import Handed
from quire.formats.lance import tasks
from quire.lake import afar, tokens
from quire.spark import types
from quire.spark.keys import KeyFiles
from quire.spark.reading import Scan, snapshot_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_ArrowWriter: Any = getattr(datasource, "DataSourceArrowWriter", object)
KNOWN = ("lake", "table", "path", "at", "branch", "columns", "filter", "message", "token")


class QuireSource(DataSource):
    """The format `quire`."""

    @classmethod
    def name(cls) -> str:
        return "quire"

    def schema(self) -> StructType:
        return types.spark_schema(self._scan().target)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._scan())

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        if _ArrowWriter is object:
            raise Unsupported(
                'df.write.format("quire") needs PySpark 4.1 or newer.', next="Use quire.spark.transaction(spark, lake)."
            )
        given = self._options()
        reading = [name for name in ("at", "columns", "filter") if name in given]
        if reading:
            raise InvalidInput(
                f"The option {reading[0]} is for reading.",
                next="Leave it out, or choose rows and columns of the frame.",
            )
        return _Writer(given, schema, overwrite, tokens.from_text(given.get("token")))

    def _scan(self) -> Scan:
        given = self._options()
        lake = quire.open(given["lake"], branch=given.get("branch", "main"), read_only=True)
        columns = [name.strip() for name in given["columns"].split(",")] if given.get("columns") else None
        return Scan(snapshot_of(lake, given.get("at"))[given["table"]], columns, given.get("filter"))

    def _options(self) -> dict[str, str]:
        given = {key.lower(): value for key, value in self.options.items()}
        unknown = [key for key in given if key not in KNOWN]
        if unknown:
            raise InvalidInput(f"The format quire has no option {unknown[0]!r}.", next=f"It has {', '.join(KNOWN)}.")
        given.setdefault("table", given.get("path", ""))
        for name in ("lake", "table"):
            if not given.get(name):
                raise InvalidInput(f"The format quire needs the option {name}.", next=f'.option("{name}", …).')
        return given


@dataclass
class _Part(InputPartition):
    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Reader(DataSourceReader):
    """Reads batch by batch. Filters are never pushed by Spark: the option says what to read."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        return [_Part(number) for number in range(len(self.scan.groups))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Part):
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
        lake.snapshot()[given["table"]]  # before a note is written for a table that is not there
        self.begun = afar.begin(lake)
        held = lake.snapshot()[given["table"]]
        self.given, self.overwrite, self.key, self.token = given, overwrite, held.key, token
        self.kept = held.schema
        place, _ = held.parts()
        self.output = tasks.Output(
            place,
            held.name,
            self.key,
            "error",
            "overwrite" if overwrite else "append",
            self.kept if overwrite else None,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        return _Written(*tasks.write_rows(self.output, iterator))

    def commit(self, messages: list[Any]) -> None:
        written = [m for m in messages if m is not None]
        fragments = tuple(text for m in written for text in m.fragments)
        key, name = self.key, self.given["table"]
        rows = sum(m.rows for m in written)
        # This process stands alone: Spark cannot be asked to shuffle the keys, so they are taken in rounds.
        keys = KeyFiles(None, self.output.place, tuple(tasks.paths_of(fragments)), key, rows, name, True)
        if key:
            keys.check_distinct()
        with self._opened() as lake:
            said = self.given.get("message", f"write {name}")
            try:
                with afar.resume(lake, self.begun, said, token=self.token) as tx:
                    if self.overwrite:
                        tx[name].hand_in(Handed("overwrite", fragments, schema=self.kept))
                    elif key:
                        tx[name].hand_in(Handed("insert", fragments, key, keys.seek))
                    else:
                        tx[name].hand_in(Handed("append", fragments))
            except CommitUnknown:
                afar.keep(lake, self.begun)  # Spark aborts what has failed, and this may yet have succeeded
                raise
            afar.end(lake, self.begun)

    def abort(self, messages: list[Any]) -> None:
        """What was written is named by nobody."""
        with self._opened() as lake:
            afar.end(lake, self.begun)

    def _opened(self) -> quire.Lake:
        return quire.open(self.given["lake"], branch=self.given.get("branch", "main"))
