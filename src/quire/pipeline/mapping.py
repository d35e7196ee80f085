"""What a pipeline says: which source feeds which table or type of the graph, and how its columns become theirs.

    mode: merge                          # append (strict where the table has a key), insert, merge, overwrite
    skip_rejects: 1%                     # go on without rows that break a rule: true, a number, or a share of the rows
    rejects: rejects/                    # where they are written, with file, line and rule
    sources:
      - files: raw/people-*.csv
        node: Person                     # or edge: Knows, or table: people
        where: "active = 'yes'"
        columns:
          name: {sql: "trim(first || ' ' || last)"}
          age: {column: years, cast: bigint}
          origin: {value: crm}           # the same for every row
      - files: [raw/places.parquet]
        table: places                    # no columns: all of them, as they are called
        mode: overwrite                  # for this source alone
      - frame: clicks                    # handed over by the program: run(…, frames={"clicks": frame})
        table: clicks

Expressions are DuckDB's SQL over one row of the source, on both engines.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from quire.arguments import checked
from quire.errors import InvalidInput, NotFound
from quire.prompt import Escaped, one_line
from quire.rowfiles import inputs
from quire.rowfiles.csv import CsvForm
from quire.rowfiles.kinds import Format, Kind, kind_of

Mode = Literal["append", "insert", "merge", "overwrite"]
MODES: tuple[Mode, ...] = ("append", "insert", "merge", "overwrite")


class Bounded(Escaped):
    """Shows itself as structs do, cut to a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return one_line(super().__repr__())


class Column(Bounded, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column: exactly one of a column of the source, a value, or SQL over the row."""

    column: str | None = None
    value: msgspec.UnsetType | Any = msgspec.UNSET
    sql: str | None = None
    cast: str | None = None
    """The SQL type that it is made before it is fitted to the table."""

    def problem(self) -> str | None:
        """Why it says nothing usable; None when it does."""
        given = (self.column is not None) + (self.value is not msgspec.UNSET) + (self.sql is not None)
        return None if given == 1 else "needs exactly one of column, value and sql"


class Csv(Bounded, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How CSV files are written, where they are not as most are."""

    delimiter: str | None = None
    quote: str | None = None
    null: str | None = None
    """The unquoted text that means null."""
    header: bool = True
    """Without one, columns are called f0, f1, and so on."""
    encoding: str | None = None

    def form(self) -> CsvForm:
        """The form in which they are read."""
        return CsvForm.of(self.delimiter, self.quote, self.null, self.header, self.encoding)


class Feed(Bounded, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One source, for one table or one type of the graph."""

    files: str | list[str] | None = None
    frame: str | None = None
    table: str | None = None
    node: str | None = None
    edge: str | None = None
    columns: dict[str, str | Column] | None = None
    where: str | None = None
    format: Format | None = None
    csv: Csv | None = None
    mode: Mode | None = None
    on: str | list[str] | None = None
    """The columns by which rows of a table are merged or inserted; its key if nothing is said."""

    @property
    def target(self) -> str:
        """What it feeds, as it is told to people: a table, or a type."""
        return str(self.table or self.node or self.edge)

    @property
    def stored_as(self) -> str:
        """The table that its rows lie in."""
        return str(self.table) if not self.is_graph else f"node:{self.node}" if self.node else f"edge:{self.edge}"

    @property
    def is_graph(self) -> bool:
        """Whether it feeds a type of the graph."""
        return self.table is None

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The columns of `on`."""
        if self.on is None:
            return None
        return (self.on,) if isinstance(self.on, str) else tuple(self.on)

    def paths(self, base: str, options: inputs.Options | None = None) -> list[str]:
        """The files, in order, each once whatever matches it. A pattern that matches none is an error."""
        found: list[str] = []
        names = [] if self.files is None else [self.files] if isinstance(self.files, str) else self.files
        for name in names:
            matches = inputs.expand(name, base, options)
            if not matches or (not inputs.is_remote(matches[0]) and not os.path.isfile(matches[0])):
                raise NotFound(f"No file matches {name!r}.", next="Check the path.", file=name)
            # A worker may be in another directory.
            found += [path if inputs.is_remote(path) else os.path.abspath(path) for path in matches]
        return list(dict.fromkeys(found))

    def kind_of(self, path: str) -> Kind:
        """The kind of a file: what the feed says, otherwise what its name says."""
        return kind_of(path, self.format)

    def mapped(self) -> dict[str, Column] | None:
        """Columns of the target by name, or None for those of the source."""
        if self.columns is None:
            return None
        return {name: Column(column=c) if isinstance(c, str) else c for name, c in self.columns.items()}

    def problem(self) -> str | None:
        """What is wrong with it, if anything is."""
        if (self.files is None) == (self.frame is None):
            return "needs exactly one of files and frame"
        if sum(name is not None for name in (self.table, self.node, self.edge)) != 1:
            return "needs exactly one of table, node and edge"
        if self.csv is not None:
            self.csv.form()
        if self.is_graph and (self.on is not None or self.mode == "insert"):
            return "feeds a type of the graph, whose rows are known by their ids: on and insert are for tables"
        for name, column in (self.mapped() or {}).items():
            wrong = column.problem()
            if wrong is not None:
                return f"has a column {name!r} that {wrong}"
        return None


class Pipeline(Bounded, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is loaded in one commit."""

    sources: list[Feed]
    mode: Mode = "append"
    message: str = "pipeline"
    rejects: str | None = None
    skip_rejects: bool | int | str = False
    base: str = "."
    """The folder that relative names of files start from; in a file, seen from the folder of that file."""

    def check(self) -> Pipeline:
        """The same mapping; `InvalidInput` if it contradicts itself."""
        if not self.sources:
            raise InvalidInput("The pipeline has no sources.", next="Name files and what they feed.")
        for number, feed in enumerate(self.sources, start=1):
            wrong = feed.problem()
            if wrong is None and feed.is_graph and (feed.mode or self.mode) == "insert":
                wrong = (
                    "feeds a type of the graph, and mode insert works for tables only: use append, merge or overwrite"
                )
            if wrong is not None:
                raise InvalidInput(
                    f"Source {number} of the pipeline ({feed.target}) {wrong}.",
                    next="See the guide on pipelines for its form.",
                    source=number,
                    target=feed.target,
                )
        tolerance(self.skip_rejects)
        return self


def tolerance(given: bool | int | str) -> tuple[int | None, float | None]:
    """How many rows may be left out: a number (None for any), or a share of all rows."""
    if isinstance(given, bool):
        return (None if given else 0), None
    if isinstance(given, int) and given >= 0:
        return given, None
    if isinstance(given, str) and given.endswith("%"):
        try:
            share = float(given[:-1]) / 100
        except ValueError:
            share = -1.0
        if 0 <= share <= 1:
            return None, share
    raise InvalidInput(
        f"skip_rejects={given!r} is not a limit.", next='Use true, false, a number, or a share such as "1%".'
    )


@checked
def read_pipeline(source: str | os.PathLike[str] | dict[str, Any] | Pipeline) -> Pipeline:
    """A pipeline from a YAML or JSON file, or from what such a file holds."""
    if isinstance(source, Pipeline):
        return source.check()
    if isinstance(source, dict):
        return _converted(source, "The pipeline")
    path = Path(source)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", next="Check the path.", file=str(path)) from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", next="Check it.", file=str(path)) from None
    import yaml  # type: ignore[import-untyped]

    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise InvalidInput(f"{path} is not valid YAML: {said}.", next="Correct it.", file=str(path)) from None
    if isinstance(read, dict) and isinstance(read.get("base", "."), str):
        read = {**read, "base": os.path.join(path.parent, read.get("base", "."))}
    return _converted(read, str(path))


def _converted(given: Any, name: str) -> Pipeline:
    try:
        return msgspec.convert(given, Pipeline).check()
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{name} is not understood: {error}.", next=_advice(str(error))) from None


def _advice(said: str) -> str:
    """What may stand where a word is none of those that are known."""
    for field, words in (("mode", MODES), ("format", tuple(Kind))):
        if said.startswith("Invalid enum value") and said.endswith(f".{field}`"):
            return f"{field} must be one of {', '.join(words)}."
    return "See the guide on pipelines."
