"""From rows and columns of the input to batches in the shape of a type's table; rows that break a rule are left out.

Everything that a row can be told by itself is told here, with the file and the line that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Catalog, Entity, Property
from quire.graph.embed.fill import Vectors
from quire.graph.integrity.row_rules import Broken, broken, key_columns, sentence
from quire.graph.integrity.row_rules import ids as ids_of
from quire.graph.integrity.violations import Violation
from quire.graph.load.gather import Typed
from quire.graph.load.merge import Absent, lacks_text
from quire.graph.load.property_columns import Converted, from_arrow, from_python, from_text
from quire.graph.load.rejects import Rejects
from quire.graph.load.row_identity import known_by, nulls
from quire.graph.load.row_ids import ends_of, new_ids
from quire.graph.names import nearest
from quire.graph.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = Type("String")
ENDS = {"src": "from", "dst": "to"}


@dataclass
class PendingRows:
    """Rows of one type as Python values, each with its line."""

    data: list[Mapping[str, Any]] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.data)


@dataclass
class Typist:
    """Types the rows of one type out of one file."""

    catalog: Catalog
    entity: Entity
    rejects: Rejects
    file: str | None
    vectors: Vectors = field(default_factory=Vectors)
    """What makes the vectors that are not given."""
    text: bool = False
    """Whether rows come from a file, in which text is read as what it stands for."""
    merging: bool = False
    """Whether a row that is there keeps what a row does not give."""
    _lacking: list[frozenset[int]] = field(default_factory=list)
    """By row, the ids of the properties that it does not give."""
    _told: list[tuple[int, Violation]] = field(default_factory=list)

    # -- rows -------------------------------------------------------------------------------------------------

    def rows(self, block: PendingRows) -> Typed:
        """Rows as a batch in the shape of the table; those that break a rule are not in it."""
        import numpy as np

        self._check_names(block)
        if self.merging:
            absent = Absent(self.entity)
            self._lacking = [absent.among(row.keys()) for row in block.data]
        columns = {}
        for prop in self.entity.defined.properties:
            name, default = prop.name, default_of(prop)
            values = [row.get(name, default) for row in block.data]
            columns[prop.column] = self._noted(prop.name, from_python(values, prop.type, text=self.text))
        given = block.ids
        if "id" not in self.entity.properties:
            given = [row.get("id") if id is None else id for id, row in zip(given, block.data, strict=True)]
        columns["id"] = self._noted("id", from_python(given, TEXT))
        if self.entity.kind == "edge":
            for column, values, node in self._ends(block.sources, block.targets):
                columns[column] = self._noted(ENDS[column], ends_of(values, node))
        lines = np.asarray(block.lines, np.int64)
        return self._finished(columns, lines, lambda row: _whole(self.entity, block, row))

    def _ends(self, sources: Any, targets: Any) -> Iterator[tuple[str, Any, Entity]]:
        yield "src", sources, self.catalog.source(self.entity)
        yield "dst", targets, self.catalog.target(self.entity)

    def _check_names(self, block: PendingRows) -> None:
        known = set(self.entity.properties) | {"id"}
        for row, data in enumerate(block.data):
            if not known.issuperset(data):
                for name in data:
                    if name not in known:
                        self._tell(row, "property", name, self._unknown(name))

    def _unknown(self, name: str) -> str:
        return f"{self.entity.name} has no property {name!r}. {nearest(name, self.entity.properties)}".rstrip()

    # -- columns ----------------------------------------------------------------------------------------------

    def columns(self, batch: pa.RecordBatch, lines: Any, *, text: bool) -> Typed:
        """The same for columns; with `text` what is text is read as what it stands for."""
        import pyarrow as pa

        def read(column: Any, kind: Type) -> Converted:
            return from_text(column, kind) if text and pa.types.is_string(column.type) else from_arrow(column, kind)

        names = batch.schema.names
        if self.merging:
            self._lacking = [Absent(self.entity).among(names)] * batch.num_rows
        columns = {}
        for prop in self.entity.defined.properties:
            if prop.name in names:
                columns[prop.column] = self._noted(prop.name, read(batch.column(prop.name), prop.type))
            else:
                columns[prop.column] = from_python([default_of(prop)] * batch.num_rows, prop.type)
        id = self.entity.shown["id"]
        if id in names:
            columns["id"] = self._noted(id, from_arrow(batch.column(id), TEXT))
        if self.entity.kind == "edge":
            source, target = (batch.column(n) for n in self.end_names(names))
            for column, values, node in self._ends(source, target):
                columns[column] = self._noted(ENDS[column], ends_of(values, node))
        return self._finished(columns, lines, lambda row: _plain(batch, row))

    def check_columns(self, names: list[str]) -> str | None:
        """What is wrong with the columns of a file, if anything is."""
        known = {*self.entity.properties, self.entity.shown["id"]}
        if self.entity.kind == "edge":
            ends = self.end_names(names)
            lacking = [n for n in ends if n not in names]
            if lacking:
                return f"Edges of type {self.entity.name} need a column {lacking[0]!r}."
            known.update(ends)
        unknown = [n for n in names if n not in known]
        twice = [n for i, n in enumerate(names) if n in names[:i]]
        if twice:
            return f"Column {twice[0]!r} is there twice."
        return self._unknown(unknown[0]) if unknown else None

    def end_names(self, names: list[str]) -> tuple[str, str]:
        """`from` and `to`, or the names under which ends are stored."""
        return ("src", "dst") if "src" in names and "dst" in names and "from" not in names else ("from", "to")

    # -- both -------------------------------------------------------------------------------------------------

    def _noted(self, name: str, made: Converted) -> Converted:
        for row, said in made.wrong.items():
            self._tell(row, "type", name, f"{self.entity.name}: {name} {said}.")
        return made

    def _tell(self, row: int, rule: str, name: str | None, message: str, id: str | None = None) -> None:
        self._told.append((row, Violation(self.entity.name, rule, message, id, name, self.file)))

    def _finished(self, columns: dict[str, Converted], lines: Any, original: Callable[[int], Any]) -> Typed:
        import numpy as np

        self._embed(columns, len(lines))
        batch = self._assembled(columns, len(lines))
        # A value that could not be read is told once, not as a missing one too.
        unread = {(row, violation.property) for row, violation in self._told}
        needy: set[int] = set()
        for one in broken(self.entity, batch):
            for row in one.rows.tolist():
                if self._may_lack(one, row):
                    needy.add(row)
                elif (row, one.property) not in unread:
                    id = batch.column("id")[row].as_py()
                    self._tell(row, one.rule, one.property, sentence(self.entity, one, batch, row, id), id)
        lacks = [lacks_text(ids, row in needy) for row, ids in enumerate(self._lacking)]
        if not self._told:
            return Typed(batch, lines, lacks)
        bad = np.zeros(len(lines), bool)
        told, self._told = sorted(self._told, key=lambda pair: pair[0]), []
        for row, violation in told:
            bad[row] = True
            self.rejects.add(_at(violation, int(lines[row])), original(row))
        self.rejects.leave_out(self.entity.name, int(bad.sum()))
        return Typed(
            batch.filter(~bad), lines[~bad], [text for text, wrong in zip(lacks, bad, strict=False) if not wrong]
        )

    def _may_lack(self, one: Broken, row: int) -> bool:
        """Whether a row may do without a required property, because the one that is there has it."""
        if (
            one.rule != "required"
            or not self._lacking
            or one.property is None
            or one.property in self.entity.defined.key
        ):
            return False
        return self.entity.property(one.property).id in self._lacking[row]

    def _embed(self, columns: dict[str, Converted], rows: int) -> None:
        """Make the vectors that are not given, of rows that nothing is wrong with so far."""
        import numpy as np

        wrong = np.zeros(rows, bool)
        wrong[[row for row, _ in self._told]] = True
        given = {name: made.column for name, made in columns.items()}
        for name, column in self.vectors.fill(self.entity, given, wrong).items():
            columns[name] = Converted(column, columns[name].wrong)

    def _assembled(self, columns: dict[str, Converted], rows: int) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = {name: made.column for name, made in columns.items()}
        for end, said in ENDS.items():
            if end in arrays and arrays[end].null_count:
                self._missing(said, arrays[end], columns[end])
                arrays[end] = arrays[end].fill_null("")
        self._check_known(arrays, rows)
        arrays["id"] = self._ids(arrays, rows)
        schema = self.entity.schema()
        return pa.RecordBatch.from_arrays([arrays[n] for n in schema.names], schema=schema)

    def _check_known(self, arrays: dict[str, Any], rows: int) -> None:
        """Under merge a row is known by what is unique, or else by its id. By neither, it would be new every time."""
        import numpy as np
        import pyarrow as pa

        names = known_by(self.entity) if self.merging else ()
        if not names:
            return
        columns = self.entity.columns(names)
        unknown = nulls(pa.table({name: arrays[name] for name in columns}), columns)
        if "id" in arrays:
            unknown &= np.asarray(arrays["id"].is_null())
        unknown[[row for row, _ in self._told]] = False
        which = ", ".join(names)
        said = f"{self.entity.name}: {which} is null and there is no id, so the row has no key."
        for row in np.flatnonzero(unknown).tolist():
            self._tell(row, "key", which, said)

    def _missing(self, said: str, column: Any, made: Converted) -> None:
        for row, there in enumerate(column.is_valid().to_pylist()):
            if not there and row not in made.wrong:
                self._tell(row, "required", said, f"{self.entity.name}: {said} is required and missing.")

    def _ids(self, arrays: dict[str, Any], rows: int) -> pa.Array:
        """From the key; or as they are given, else new ones."""
        import pyarrow.compute as pc

        given = arrays.get("id")
        if self.entity.kind == "node" and self.entity.defined.key:
            names, kinds = key_columns(self.entity)
            made = ids_of([arrays[name] for name in names], kinds).fill_null("")
            # A given id has to be the one that follows; the rule says so when it is not.
            return made if given is None else pc.coalesce(given, made)
        if given is None or given.null_count == rows:
            return new_ids(rows)
        if given.null_count:
            return pc.coalesce(given, new_ids(rows))
        return given


def default_of(prop: Property) -> Any:
    """What stands for a property that is not given."""
    found = prop.annotation("default")
    return found.value if found is not None else None


def _at(violation: Violation, line: int) -> Violation:
    from dataclasses import replace

    return replace(violation, line=line)


def _whole(entity: Entity, block: PendingRows, row: int) -> Any:
    """A row as NDJSON has it."""
    told: dict[str, Any] = {"type" if entity.kind == "node" else "edge": entity.name}
    if block.ids[row] is not None:
        told["id"] = block.ids[row]
    if entity.kind == "edge":
        told |= {"from": block.sources[row], "to": block.targets[row]}
    return {**told, "data": dict(block.data[row])}


def _plain(batch: pa.RecordBatch, row: int) -> Any:
    import pyarrow as pa

    one = batch.slice(row, 1)
    try:
        return one.to_pylist()[0]
    except (OverflowError, ValueError):  # a time that Python does not have
        return {name: str(c.cast(pa.string())[0]) for name, c in zip(one.schema.names, one.columns, strict=True)}
