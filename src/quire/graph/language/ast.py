"""What a `.gq` text says, as a tree: the form that the parser gives, before any name is looked up.

Positions take no part in equality, so two trees are equal when they say the same. Names of variables and parameters are
kept without their `$`.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Literal as Of

from quire.graph.types import Type


@dataclass(frozen=True)
class At:
    """Where something begins; both count from 1."""

    line: int
    column: int


NOWHERE = At(0, 0)


# -- expressions ------------------------------------------------------------------------------------------------------

Value = str | int | float | bool | dt.date | dt.datetime
LiteralKind = Of["String", "I64", "F64", "Bool", "Date", "DateTime"]
Arithmetic = Of["+", "-", "*", "/", "%"]
Operator = Of["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in"]
AggregateName = Of["count", "sum", "avg", "min", "max", "collect"]


@dataclass(frozen=True)
class Literal:
    """`"text"`, `5`, `-2.5`, `true`, `date("2024-01-01")`, `datetime("2024-01-01T00:00:00Z")`."""

    value: Value
    kind: LiteralKind
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Variable:
    """`$x`: a bound variable or a parameter. `$_` is a new variable wherever it stands."""

    name: str
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Access:
    """`$x.name`"""

    variable: Variable
    property: str
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Name:
    """A bare name: the alias of a projection, or a property of the row at hand in `where` and in `[…]` of an edge."""

    name: str
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ListOf:
    """`[a, b]`"""

    items: tuple[Expression, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Binary:
    """`a + b`, and `-`, `*`, `/`, `%`."""

    operator: Arithmetic
    left: Expression
    right: Expression
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Negative:
    """`-a`, where `a` is no number that was written out: that one is a literal with its sign."""

    operand: Expression
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Aggregate:
    """`count($x)`, `count(distinct $x)`, `count(*)` (which has no argument), `sum(a)`, `avg(a)`, `min(a)`, `max(a)`,
    `collect(a)`."""

    function: AggregateName
    argument: Expression | None
    distinct: bool = False
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Call:
    """`now()`, `nearest(…)`, `search(…)`, `fuzzy(…)`, `match_text(…)`, `bm25(…)`, `rrf(…)`; functions of values."""

    function: str
    arguments: tuple[Expression, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class When:
    """`when a and b then value`"""

    conditions: tuple[Filter, ...]
    value: Expression


@dataclass(frozen=True)
class Case:
    """`case when a then b when c then d else e end`: the value of the first branch that holds; null where none does."""

    branches: tuple[When, ...]
    otherwise: Expression | None = None
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class CountOf:
    """`count { … }`: how many rows the clauses have, given what is bound around them."""

    clauses: tuple[Clause, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


Expression = Literal | Variable | Access | Name | ListOf | Binary | Negative | Aggregate | Call | Case | CountOf


# -- clauses ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compare:
    """`left operator right`"""

    operator: Operator
    left: Expression
    right: Expression
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class IsNull:
    """`operand is null`, or `is not null` when negated."""

    operand: Expression
    negated: bool = False
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Matches:
    """`search(…)`, `fuzzy(…)` or `match_text(…)` as a clause of its own."""

    call: Call
    at: At = field(default=NOWHERE, compare=False, repr=False)


Filter = Compare | IsNull | Matches


@dataclass(frozen=True)
class Assignment:
    """`name: value`"""

    name: str
    value: Expression
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Bind:
    """`$x: Type { name: value, }`"""

    variable: Variable
    type: str
    properties: tuple[Assignment, ...] = ()
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Bounds:
    """`{least,most}`; `{least,}` has no `most`."""

    least: int
    most: int | None


@dataclass(frozen=True)
class Traverse:
    """`$a $e:knows{1,3} [since > …] $b`; `<knows>` goes either way."""

    source: Variable
    edge: str
    target: Variable
    binding: Variable | None = None
    either: bool = False
    bounds: Bounds | None = None
    filters: tuple[Filter, ...] = ()
    others: tuple[str, ...] = ()
    """More edge types, any of which will do: `knows|worksWith`."""
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Shortest:
    """`$p = shortest($a knows{1,6} $b)`"""

    path: Variable
    step: Traverse
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Not:
    """`not { … }`: no way to satisfy all of it."""

    clauses: tuple[Clause, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Exists:
    """`exists { … }`: a way to satisfy all of it. What it binds is not seen outside."""

    clauses: tuple[Clause, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Or:
    """`or { a  b  { c d } }`: at least one alternative; each is one clause or a block of several."""

    alternatives: tuple[tuple[Clause, ...], ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Optional:
    """`optional { … }`: its variables are null where it has no match."""

    clauses: tuple[Clause, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


Clause = Bind | Traverse | Shortest | Compare | IsNull | Matches | Not | Exists | Or | Optional


# -- queries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projection:
    """`expression as alias`"""

    expression: Expression
    alias: str | None = None
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ordering:
    """`expression asc`; `descending` is None where no direction is written."""

    expression: Expression
    descending: bool | None = None
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Read:
    """`match { … } return [distinct] { … } [having { … }] [order { … }] [limit n] [offset n]`"""

    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: tuple[Filter, ...] = ()
    order: tuple[Ordering, ...] = ()
    limit: Literal | Variable | None = None
    offset: Literal | Variable | None = None
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Insert:
    """`insert Type { name: value, … }`; the ends of an edge are among the assignments, as `from` and `to`."""

    type: str
    assignments: tuple[Assignment, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Update:
    """`update Type set { name: value, … } where a and b`"""

    type: str
    assignments: tuple[Assignment, ...]
    where: tuple[Filter, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Delete:
    """`delete Type where a and b`"""

    type: str
    where: tuple[Filter, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


MutationStatement = Insert | Update | Delete


@dataclass(frozen=True)
class Mutation:
    """Statements that are applied in order, in one commit."""

    statements: tuple[MutationStatement, ...]
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Parameter:
    """`$name: Type`"""

    name: str
    type: Type
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Query:
    """`query name($a: String) @description("…") @instruction("…") { … }`"""

    name: str
    parameters: tuple[Parameter, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None
    at: At = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class File:
    """Every query of one text, in its order."""

    queries: tuple[Query, ...]
    file: str = field(default="", compare=False)
