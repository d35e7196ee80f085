"""What a query means: the one typed form that engines run. No name is left to look up, and nothing is left to check.

    Read
      block         what must be found: scans, expansions, conditions, optional parts
      outputs       what is returned, with names and types
      having order limit offset

**Variables.** Every variable of a query has one name in all of its plan: the one it was written with, or, for `$_` and
edges without a name, one that no other variable has. Such a name is no identifier that could go into SQL as it is.

**Blocks.** The rows of a block are found in this order: every combination of its scans, expansions and paths that
satisfies its `conditions`; then each of its `optional` parts joins what it finds, or nulls; then `counts` are added;
then `after` filters.
Conditions of a block see the variables of the blocks around it. A block inside `Without`, `Either`, `Maybe` or
`Counted` scans only the variables that it introduces.

**Nulls.** A comparison with a null never holds, neither does its opposite; only `IsNull` sees nulls.

Plans are values: two queries that mean the same by the same names have equal plans. Positions are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from quire.graph.catalog import Entity, Property
from quire.graph.types import Type, Wrong, identity

STRING = Type("String")
BOOL = Type("Bool")
I64 = Type("I64")
F64 = Type("F64")
DATETIME = Type("DateTime")
IDS = Type("String", many=True)

ROW = "row"
"""The variable of the row at hand in the predicates of `Update` and `Delete`."""


# -- expressions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    """A value that was written out, as `type.value` gives it: a list for list and vector types."""

    value: Any
    type: Type


@dataclass(frozen=True)
class Parameter:
    """A parameter; `bind` gives its value, of this type, or None if the type is optional."""

    name: str
    type: Type


@dataclass(frozen=True)
class KeyText:
    """The id of a node, where it is compared with one: `key_text` of values that are known without rows."""

    values: tuple[Expression, ...]
    """Of the whole key; or one, which is the id as text. Where `type` is a list, one that gives as many ids."""
    keys: tuple[Type, ...]
    """Of the properties of the key."""
    type: Type = STRING


def key_text(keys: Sequence[Type], values: Sequence[Any]) -> str:
    """The id of the node whose key has these values. What the key cannot hold gives a text that is no id."""
    from quire.graph.load.row_ids import key_values

    try:
        whole = values[0] if len(values) < len(keys) else values
        return identity(key_values(whole, keys))
    except Wrong:
        return identity(values)


@dataclass(frozen=True)
class Now:
    """The time of the query: one value for all of it."""

    type: Type = DATETIME


@dataclass(frozen=True)
class Field:
    """A property of a variable. The type is optional too where the variable may be null."""

    variable: str
    property: Property
    type: Type


@dataclass(frozen=True)
class System:
    """The `id` of a variable, and on edges `src` and `dst`: text, and optional where the variable may be null.

    A variable of an interface has an `id` of its own, which is told to nobody, beside the node's `own` id and `type`.
    """

    variable: str
    column: Literal["id", "src", "dst", "own", "type"]
    type: Type = STRING


@dataclass(frozen=True)
class Whole:
    """A whole node or edge as a projection: its system columns and all properties but blobs.

    It has no type of its own. Where it is grouped, told apart or counted, it is its id.
    """

    variable: str
    entity: Entity

    @property
    def type(self) -> None:
        return None


@dataclass(frozen=True)
class PathLength:
    """How many edges a path has."""

    variable: str
    type: Type = I64


@dataclass(frozen=True)
class PathNodes:
    """The ids of a path's nodes, both ends included."""

    variable: str
    type: Type = IDS


@dataclass(frozen=True)
class CountOf:
    """How many rows a block of `counts` has for the row at hand."""

    variable: str
    type: Type = I64


@dataclass(frozen=True)
class ListOf:
    """A list of expressions of one type; `type` is that of the list."""

    items: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True)
class Arithmetic:
    """`+ - * %` of whole numbers is I64, `/` and everything with a float is F64. An overflow, a division by zero and a
    remainder by zero are errors of the query, not values."""

    operator: Literal["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True)
class Negate:
    operand: Expression
    type: Type


@dataclass(frozen=True)
class Function:
    """A function of values (`language.functions`). Null where an argument is, but for `coalesce`: the first of its
    arguments that is not null, all as its type."""

    name: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True)
class When:
    """A branch: its value, where all conditions hold."""

    conditions: tuple[Predicate, ...]
    value: Expression


@dataclass(frozen=True)
class Case:
    """The value of the first branch that holds, as `type`; else `otherwise`, or null."""

    branches: tuple[When, ...]
    otherwise: Expression | None
    type: Type


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over the rows of a group. `count` of an expression counts what is not null; `count(*)` has no
    argument. `sum` of whole numbers is I64 and an error beyond it. `collect` is the list of
    the values, the smallest first. Without any value `count` is 0, `collect` is empty, all others are null."""

    function: Literal["count", "sum", "avg", "min", "max", "collect"]
    argument: Expression | None
    distinct: bool
    type: Type


@dataclass(frozen=True)
class Nearest:
    """The distance between a vector property and a query. A query of type String is text to be embedded first."""

    field: Field
    query: Constant | Parameter
    type: Type = F64


@dataclass(frozen=True)
class TextMatch:
    """Whether a text property matches. `edits` is for `fuzzy` alone, None where it was not given."""

    function: Literal["search", "fuzzy", "match_text"]
    field: Field
    query: Constant | Parameter
    edits: Constant | Parameter | None = None
    type: Type = BOOL


@dataclass(frozen=True)
class Bm25:
    """The BM25 score of a text property; 0 where it does not match at all."""

    field: Field
    query: Constant | Parameter
    type: Type = F64


@dataclass(frozen=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of the rows: nearest ranks by distance, bm25 by falling score."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Constant | Parameter
    type: Type = F64


@dataclass(frozen=True)
class Output:
    """The value of an output, by position. In `having` and `order` everything that is also an output is this."""

    index: int
    type: Type | None
    """None for a whole entity."""


Expression = (
    Constant
    | Parameter
    | KeyText
    | Now
    | Field
    | System
    | Whole
    | PathLength
    | PathNodes
    | CountOf
    | ListOf
    | Arithmetic
    | Negate
    | Function
    | Case
    | Aggregate
    | Nearest
    | TextMatch
    | Bm25
    | Rrf
    | Output
)


# -- predicates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compare:
    """Both sides are numbers, or texts, or dates, or times, or booleans (= and != only). Entities are compared by
    their `System` id. Numbers of different types are compared exactly."""

    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Contains:
    """A list has a member, or a text has a part, exactly as it is written."""

    left: Expression
    right: Expression
    among: Literal["list", "text"]


@dataclass(frozen=True)
class StartsWith:
    left: Expression
    right: Expression


@dataclass(frozen=True)
class In:
    """Whether a scalar is among the values of a list: a `ListOf`, a `Constant`, a `Parameter` or a list property."""

    operand: Expression
    options: Expression


@dataclass(frozen=True)
class IsNull:
    operand: Expression
    negated: bool


@dataclass(frozen=True)
class Matches:
    """A text search as a condition."""

    match: TextMatch


Predicate = Compare | Contains | StartsWith | In | IsNull | Matches


# -- blocks -----------------------------------------------------------------------------------------------------------

Direction = Literal["forward", "backward", "either"]


@dataclass(frozen=True)
class Member:
    """A node type that a variable of an interface may be of, and its rows as a variable that nothing else names."""

    variable: str
    entity: Entity


@dataclass(frozen=True)
class Scan:
    """A node variable: one row per node of its type, or of every type that implements an interface."""

    variable: str
    entity: Entity
    members: tuple[Member, ...] = ()
    """The types of an interface; `entity` is an `InterfaceType` then."""


@dataclass(frozen=True)
class Along:
    """Another edge type that a traversal may walk: its name as a variable, and its filters."""

    edge: str
    entity: Entity
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True)
class Expand:
    """A traversal between two node variables; both are scanned in this block or in one around it.

    `forward`: `source` is at the edge's `src`. `backward`: it is at `dst`. `either`: both count.
    With `bound` the edge itself is a variable and each edge gives a row; bounds are then one hop. An edge that leads
    from a node to itself gives one row also when it is walked in either direction.
    Without it the pairs of ends are a set. Bounds other than one hop are reachability, each destination once per
    source, by the fewest hops, and a node once visited is not expanded again. `most` is None where there is no upper
    bound.
    """

    source: str
    target: str
    edge: str
    """The name of the edge as a variable: what `filters` call it, and, if `bound`, the rest of the query too."""
    entity: Entity
    direction: Direction
    bound: bool = False
    least: int = 1
    most: int | None = 1
    filters: tuple[Predicate, ...] = ()
    """Every edge that is walked satisfies them. They hold only fields of `edge`, constants, parameters and now."""
    others: tuple[Along, ...] = ()
    """Edges of these types may be walked too; they have the same ends. Then nothing is bound."""

    @property
    def every(self) -> tuple[Along, ...]:
        """All edge types that may be walked."""
        return (Along(self.edge, self.entity, self.filters), *self.others)

    @property
    def one_hop(self) -> bool:
        return self.least == 1 and self.most == 1


@dataclass(frozen=True)
class Shortest:
    """A shortest path between two node variables that are bound elsewhere: a row only where there is one whose length
    is within the bounds of the step. Of several, the one whose list of ids is smallest."""

    path: str
    step: Expand


@dataclass(frozen=True)
class Without:
    """An anti-join: no row of the block, given the variables that it shares with the outside."""

    block: Block
    shared: tuple[str, ...]


@dataclass(frozen=True)
class Either:
    """At least one of the blocks has a row, given the variables they share with the outside. It multiplies nothing."""

    blocks: tuple[Block, ...]
    shared: tuple[str, ...]
    """Variables of the outside that any of the blocks uses."""


@dataclass(frozen=True)
class Maybe:
    """A left join: the rows of the block for each row outside, or one row with nulls for its variables."""

    block: Block
    shared: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """How many rows a block has, given the variables that it shares with the outside: what `CountOf` is by name."""

    name: str
    block: Block
    shared: tuple[str, ...]


Condition = Predicate | Without | Either


@dataclass(frozen=True)
class Block:
    scans: tuple[Scan, ...] = ()
    expansions: tuple[Expand, ...] = ()
    paths: tuple[Shortest, ...] = ()
    conditions: tuple[Condition, ...] = ()
    optional: tuple[Maybe, ...] = ()
    after: tuple[Condition, ...] = ()
    """Conditions that use variables of the optional parts, or counts."""
    counts: tuple[Counted, ...] = ()
    """For every row with its optional parts."""

    @property
    def variables(self) -> tuple[str, ...]:
        """What it introduces, without its optional parts: nodes, bound edges, paths."""
        edges = (e.edge for e in self.expansions if e.bound)
        return (*(s.variable for s in self.scans), *edges, *(p.path for p in self.paths))


# -- queries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projected:
    """An output. `key` says that it is one of those that an aggregated query groups by."""

    name: str
    expression: Expression
    type: Type | None
    """None for a whole entity."""
    key: bool


@dataclass(frozen=True)
class Order:
    """Nulls sort as the smallest value."""

    expression: Expression
    descending: bool


@dataclass(frozen=True)
class Needs:
    """What a query reads of a variable besides its id (and on edges `src` and `dst`)."""

    entity: Entity
    properties: tuple[Property, ...] = ()
    """Each once, in the order of the type."""


@dataclass(frozen=True)
class Read:
    block: Block
    outputs: tuple[Projected, ...]
    needs: Mapping[str, Needs]
    """For every node variable and every edge variable, bound or not, of all blocks."""
    aggregated: bool = False
    """Outputs with `key` make the groups, of which there is one, even without rows, where no output is a key."""
    distinct: bool = False
    having: tuple[Predicate, ...] = ()
    order: tuple[Order, ...] = ()
    ties: tuple[Expression, ...] = ()
    """Ascending, after `order`: ids of the entities, or outputs where rows are groups or distinct. Makes it total."""
    limit: Constant | Parameter | None = None
    offset: Constant | Parameter | None = None


@dataclass(frozen=True)
class Set:
    """A property and its new value: an expression of constants, parameters and now (`constant.evaluate`)."""

    property: Property
    value: Expression


@dataclass(frozen=True)
class End:
    """An end of a new edge: the node's id, or, unless `is_id`, the values of its whole key in the order of the key."""

    values: tuple[Expression, ...]
    is_id: bool


@dataclass(frozen=True)
class Insert:
    """A keyed node is an upsert; all others are strict inserts. Required properties are all among the assignments."""

    entity: Entity
    assignments: tuple[Set, ...]
    source: End | None = None
    target: End | None = None
    """Both are there on edges, and only there."""
    id: Expression | None = None
    """Given by hand: for edges and nodes without a key."""


@dataclass(frozen=True)
class Update:
    """`where` sees the row as the variable `ROW`. Key properties are never among the assignments."""

    entity: Entity
    assignments: tuple[Set, ...]
    where: tuple[Predicate, ...]


@dataclass(frozen=True)
class Delete:
    """`where` sees the row as the variable `ROW`."""

    entity: Entity
    where: tuple[Predicate, ...]


MutationStatement = Insert | Update | Delete


@dataclass(frozen=True)
class Mutation:
    """Statements in order; a later one sees what the earlier ones did. One commit."""

    statements: tuple[MutationStatement, ...]


@dataclass(frozen=True)
class Doubt:
    """Something that is allowed and probably not meant."""

    code: str
    message: str
    line: int
    column: int


@dataclass(frozen=True)
class Query:
    """A query that fits the schema: its parameters, and what it reads or changes."""

    name: str
    parameters: Mapping[str, Type]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None
    warnings: tuple[Doubt, ...] = field(default=(), compare=False)

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return isinstance(self.body, Read)
