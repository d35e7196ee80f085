"""What a graph is made of: node and edge types with stable ids, their properties and rules.

The lake is the only place where it is written. The definition of a type is kept with its table, in the ledger, so that
it moves in the same commit as the data, is there on every branch and at every commit, and costs no request to read.
What belongs to no table (interfaces, the text of the schema) is kept with the table of stored queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from quire.arguments import checks_arguments
from quire.errors import CorruptRecord, NewerFormat, NotFound
from quire.formats.blob_cell import BLOB
from quire.graph.names import nearest
from quire.graph.types import Type
from quire.lake import display
from quire.ledger.records import Stored, readable
from quire.prompt import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.ledger import TableInfo

FORMAT = 1
VALIDATOR = "graph"
STORED = "graph:stored"
"""The table of stored queries, which also carries what belongs to the whole graph."""

SYSTEM = ("id", "src", "dst")
"""Columns that are not properties. A property of such a name is stored under another one."""

Kind = Literal["node", "edge"]
Scalar = str | int | float | bool | None


class Annotation(Stored, frozen=True, omit_defaults=True):
    """`@name(value, other=value)`; what Quire does not know is kept as it is."""

    name: str
    value: Scalar = None
    named: dict[str, Scalar] = {}

    def __str__(self) -> str:
        parts = [] if self.value is None else [quoted(self.value)]
        parts += [f"{key}={quoted(value)}" for key, value in self.named.items()]
        return f"@{self.name}({', '.join(parts)})" if parts else f"@{self.name}"


class Property(Stored, frozen=True, omit_defaults=True):
    """A property of a type. Its id is never used again in that type, so it stays the same through renames."""

    id: int
    name: str
    type: Type
    annotations: tuple[Annotation, ...] = ()

    @property
    def column(self) -> str:
        """Where it is stored."""
        return f"property:{self.name}" if self.name in SYSTEM else self.name

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)


class Range(Stored, frozen=True, omit_defaults=True):
    """`@range(property, low..high)`: both ends belong to it; None is open."""

    property: str
    low: int | float | None = None
    high: int | float | None = None


class Check(Stored, frozen=True):
    """`@check(property, "pattern")`: the whole text matches."""

    property: str
    pattern: str


class Interface(Stored, frozen=True, omit_defaults=True):
    """Properties that several node types have in common."""

    name: str
    properties: tuple[Property, ...] = ()


class Definition(Stored, frozen=True, omit_defaults=True):
    """What is kept with the table of a type. Rules name properties; edges name their ends by type id."""

    format: int
    kind: Kind
    properties: tuple[Property, ...] = ()
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    """On edges `src` and `dst` may be among them."""
    index: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    at_least: int = 0
    at_most: int | None = None
    """How many edges of this type may leave one node."""
    next_property: int = 1


class Whole(Stored, frozen=True, omit_defaults=True):
    """What is kept with the table of stored queries."""

    format: int
    interfaces: tuple[Interface, ...] = ()
    text: str = ""
    """The schema as it was applied last, comments included."""


readable(Definition, Whole)
D = TypeVar("D", Definition, Whole)


@dataclass(frozen=True)
class Entity:
    """A node or edge type as it is at one commit."""

    id: str
    """Stable through renames: the id of its table."""
    name: str
    defined: Definition

    def __hash__(self) -> int:
        return hash(self.id)  # annotations may hold what has no hash

    @property
    def kind(self) -> Kind:
        """`node` or `edge`."""
        return self.defined.kind

    @property
    def table(self) -> str:
        """The name of the table that holds its rows."""
        return f"{self.kind}:{self.name}"

    @property
    def properties(self) -> Mapping[str, Property]:
        """Its properties, in the order of the schema."""
        return {p.name: p for p in self.defined.properties}

    @property
    def system(self) -> tuple[str, ...]:
        """Columns before its properties."""
        return ("id",) if self.kind == "node" else SYSTEM

    @property
    def returned(self) -> tuple[str, ...]:
        """Those of them that are returned with a whole entity."""
        return self.system

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """By column, the name under which it is returned and loaded: a property by its own.

        A column of the system gives way to a property of its name: `id` is `@id` then, and the ends are `from` and
        `to`, as data names them.
        """
        others = {"id": "@id"} if "id" in self.properties else {}
        if self.properties.keys() & {"src", "dst"}:
            others |= {"src": "from", "dst": "to"}
        own = {p.column: p.name for p in self.defined.properties}
        return {column: others.get(column, column) for column in self.system} | own

    def property(self, name: str) -> Property:
        """A property by name; `NotFound` with the nearest one else."""
        found = self.properties.get(name)
        if found is None:
            raise NotFound(
                f"{self.name} has no property {name!r}.",
                next=nearest(name, self.properties) or f"It has {', '.join(self.properties) or 'none'}.",
                type=self.name,
                property=name,
            )
        return found

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """Where properties, and on edges `src` and `dst`, are stored."""
        return tuple(n if n in ("src", "dst") and self.kind == "edge" else self.property(n).column for n in names)

    def schema(self) -> pa.Schema:
        """The schema of its table."""
        import pyarrow as pa

        fields = [pa.field(name, pa.string(), nullable=False) for name in self.system]
        return pa.schema([*fields, *(field_of(p) for p in self.defined.properties)])


def stored_schema() -> pa.Schema:
    """The schema of the table of stored queries; its key is the name."""
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("name", "text")])


def field_of(prop: Property) -> pa.Field:
    """A property as a column. Columns are nullable in storage: rules are the graph's, and change without a rewrite."""
    import pyarrow as pa

    metadata = BLOB if prop.type.base == "Blob" else None
    return pa.field(prop.column, prop.type.arrow(), nullable=True, metadata=metadata)


@checks_arguments
@dataclass(frozen=True)
class Catalog:
    """Every type of a graph at one commit."""

    entities: tuple[Entity, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    text: str = ""
    _by_name: dict[tuple[Kind, str], Entity] = field(default_factory=dict, compare=False, repr=False)
    _by_id: dict[str, Entity] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for entity in self.entities:
            self._by_name[entity.kind, entity.name] = entity
            self._by_id[entity.id] = entity

    @staticmethod
    def of(tables: Iterable[TableInfo]) -> Catalog:
        """The catalog that a state's tables carry."""
        entities, whole = [], Whole(format=FORMAT)
        for info in tables:
            if info.validator != VALIDATOR:
                continue
            if info.name == STORED:
                whole = _decoded(info, Whole)
                continue
            _, _, name = info.name.partition(":")
            entities.append(Entity(info.id, name, _decoded(info, Definition)))
        entities.sort(key=lambda e: (e.kind != "node", e.name))
        return Catalog(tuple(entities), whole.interfaces, whole.text)

    def __bool__(self) -> bool:
        return bool(self.entities)

    def __repr__(self) -> str:
        nodes, edges = counted(len(list(self.nodes)), "node type"), counted(len(list(self.edges)), "edge type")
        return "\n".join([f"<Catalog: {nodes}, {edges}>", *map(self._line, self.entities)])

    def _line(self, entity: Entity) -> str:
        """`Person: name String, age I32`, with both ends before the properties of an edge."""
        has = ", ".join(f"{p.name} {p.type}" for p in entity.properties.values())
        return f"  {entity.kind} {entity.name}{self._ends(entity)}{f': {has}' if has else ''}"

    def _ends(self, entity: Entity) -> str:
        return f" ({self.source(entity).name} → {self.target(entity).name})" if entity.kind == "edge" else ""

    def _repr_html_(self) -> str:
        rows = [
            (e.kind, e.name + self._ends(e), ", ".join(f"{p.name}: {p.type}" for p in e.properties.values()))
            for e in self.entities
        ]
        return display.html_table(("kind", "type", "properties"), rows)

    @property
    def nodes(self) -> Iterator[Entity]:
        """The node types."""
        return (e for e in self.entities if e.kind == "node")

    @property
    def edges(self) -> Iterator[Entity]:
        """The edge types."""
        return (e for e in self.entities if e.kind == "edge")

    def node(self, name: str) -> Entity:
        """A node type by name; `NotFound` with the nearest one else."""
        return self._named("node", name)

    def edge(self, name: str) -> Entity:
        """An edge type by name, without regard to case where only one differs from it in case alone."""
        found = self._by_name.get(("edge", name))
        alike = [e for e in self.edges if e.name.lower() == name.lower()]
        if found is None and len(alike) == 1:
            return alike[0]
        return found or self._named("edge", name)

    def by_id(self, id: str) -> Entity:
        """The type with this stable id."""
        return self._by_id[id]

    def source(self, edge: Entity) -> Entity:
        """The node type that an edge type leaves."""
        return self._by_id[edge.defined.source]

    def target(self, edge: Entity) -> Entity:
        """The node type that an edge type leads to."""
        return self._by_id[edge.defined.target]

    def touching(self, node: Entity) -> Iterator[tuple[Entity, Literal["src", "dst"]]]:
        """Edge types with an end at a node type, and which end: both, one after the other, where both are."""
        for edge in self.edges:
            if edge.defined.source == node.id:
                yield edge, "src"
            if edge.defined.target == node.id:
                yield edge, "dst"

    def interface(self, name: str) -> Interface | None:
        """The interface of this name."""
        return next((i for i in self.interfaces if i.name == name), None)

    def implementing(self, interface: str) -> list[Entity]:
        """Node types that implement an interface."""
        return [e for e in self.nodes if interface in e.defined.implements]

    def _named(self, kind: Kind, name: str) -> Entity:
        found = self._by_name.get((kind, name))
        if found is None:
            known = [e.name for e in self.entities if e.kind == kind]
            near = nearest(name, known) or f"There are {', '.join(known) or 'none; apply a schema first'}."
            if any(e.name == name for e in self.entities):
                near = f"It is {'an edge' if kind == 'node' else 'a node'} type."
            raise NotFound(f"There is no {kind} type {name!r}.", next=near, type=name)
        return found


def _decoded(info: TableInfo, kind: type[D]) -> D:
    try:
        found = msgspec.json.decode(info.rules, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise CorruptRecord(
            f"The definition stored with table {info.name!r} cannot be read: {error}.",
            next="Revert the commit that wrote it; its rows are unaffected.",
            table=info.name,
        ) from None
    if found.format > FORMAT:
        raise NewerFormat(
            f"The graph was written by a newer Quire (format {found.format}; this one reads {FORMAT}).",
            next="Upgrade Quire on this machine.",
            found=found.format,
            supported=FORMAT,
        )
    return found


def quoted(value: Scalar) -> str:
    """A literal as the languages write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return repr(value)
