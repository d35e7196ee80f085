"""Expressions and predicates of a plan as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from quire.errors import InvalidQuery, Unsupported
from quire.graph.language import plan
from quire.graph.query.known_values import Known
from quire.graph.query.layout import Layout
from quire.graph.query.search.search import Searches
from quire.graph.query.sql import fragments, functions
from quire.graph.query.sql.fragments import Values
from quire.graph.types import Type
from quire.lake.read.ranking import scores


class Terms:
    """Makes SQL of what a plan says about rows, over the columns of a layout."""

    def __init__(self, layout: Layout, known: Known, values: Values, searches: Searches) -> None:
        self.layout, self.known, self.values, self.searches = layout, known, values, searches
        self.sql = values.sql
        self.outputs: Sequence[str] = ()
        """What `Output` stands for, by position."""
        self.named: list[tuple[plan.Expression, str]] = []
        """Expressions that are columns already."""

    # -- expressions ------------------------------------------------------------------------------------------

    def expression(self, term: plan.Expression) -> str:
        """SQL for the value of an expression."""
        for other, column in self.named:
            if other == term:
                return column
        match term:
            case plan.Constant() | plan.Parameter() | plan.KeyText() | plan.Now():
                return self.values.add(self.known.value(term), term.type)
            case plan.Field():
                return self.layout.property(term.variable, term.property)
            case plan.System():
                return self.layout.system(term.variable, term.column)
            case plan.Whole():
                return self.layout.system(term.variable, "id")
            case plan.PathLength():
                return self.layout.path(term.variable, "length")
            case plan.PathNodes():
                return self.layout.path(term.variable, "nodes")
            case plan.CountOf():
                return self.layout.path(term.variable, "count")
            case plan.ListOf():
                items = self.sql.items([self.expression(item) for item in term.items])
                return f"CAST({items} AS {self.sql.kind(term.type)})"
            case plan.Arithmetic():
                left, right = self.expression(term.left), self.expression(term.right)
                wide = "U64" in (_typed(term.left).base, _typed(term.right).base)
                return fragments.arithmetic(self.sql, term.operator, left, right, term.type, wide=wide)
            case plan.Negate():
                operand = self.expression(term.operand)
                if _typed(term.operand).base == "U64":
                    return f"CAST((-CAST({operand} AS {self.sql.wide})) AS BIGINT)"
                return f"(-CAST({operand} AS {'BIGINT' if term.type.is_integer else 'DOUBLE'}))"
            case plan.Function():
                arguments = [self.expression(argument) for argument in term.arguments]
                return functions.called(self.sql, term, arguments, [_typed(argument) for argument in term.arguments])
            case plan.Case():
                branches = [
                    (fragments.all_of(self.predicate(c) for c in branch.conditions), self.expression(branch.value))
                    for branch in term.branches
                ]
                otherwise = None if term.otherwise is None else self.expression(term.otherwise)
                return functions.chosen(self.sql, term.type, branches, otherwise)
            case plan.Aggregate():
                return self._aggregate(term)
            case plan.Nearest():
                return self.searches.distance(term, self.expression(term.field), self.values)
            case plan.TextMatch():
                place = self.layout.place(term.field.variable)
                return self.searches.matches(term, place.entity, self.expression(term.field), self.values)
            case plan.Bm25():
                place = self.layout.place(term.field.variable)
                return self.searches.score(term, place.entity, self.expression(term.field), self.values)
            case plan.Output():
                return self.outputs[term.index]
            case plan.Rrf():
                raise Unsupported(
                    "rrf ranks the rows that a query found, so it cannot filter them.",
                    next="Use it in return or order.",
                )
            case _:
                assert_never(term)

    def _aggregate(self, term: plan.Aggregate) -> str:
        if term.argument is None:
            return "count(*)"
        argument, type = self.expression(term.argument), term.argument.type
        only = "DISTINCT " if term.distinct else ""
        if term.function == "count" or type is None:
            return f"count({only}{argument})"
        if term.function == "collect":
            return self.sql.collected(f"{only}{argument}", self.sql.kind(term.type), argument)
        if term.function == "sum":
            if type.is_integer:
                return f"CAST(sum({only}CAST({argument} AS {self.sql.wide})) AS BIGINT)"
            return fragments.finite(self.sql, f"sum({only}CAST({argument} AS DOUBLE))")
        if term.function == "avg":
            return fragments.finite(self.sql, f"avg({only}CAST({argument} AS DOUBLE))")
        return f"{term.function}({argument})"

    def fused(self, term: plan.Rrf) -> str:
        """SQL for a reciprocal rank fusion, as a column over all rows of the query.

        A row takes the rank of its entity, so an entity in several rows has one rank.
        """
        given = self.known.value(term.k)
        if given is None or given <= 0:
            raise InvalidQuery(f"The k of rrf is a number above 0, not {given}.", next="Leave it out for 60.")
        k = self.values.cast(given, "DOUBLE")
        arms = []
        for arm in (term.first, term.second):
            score, id = self.expression(arm), self.layout.system(arm.field.variable, "id")
            near = isinstance(arm, plan.Nearest)
            worst = self.searches.worst(arm)
            arms.append(scores.Arm(score, near, id, None if worst is None else self.values.cast(worst, "DOUBLE")))
        return scores.fused(arms, k)

    # -- predicates -------------------------------------------------------------------------------------------

    def predicate(self, term: plan.Predicate) -> str:
        """SQL that is true where the predicate holds, and false or null elsewhere."""
        match term:
            case plan.Compare():
                return fragments.compared(
                    self.sql,
                    term.operator,
                    self.expression(term.left),
                    _typed(term.left),
                    self.expression(term.right),
                    _typed(term.right),
                )
            case plan.Contains(among="list"):
                return self._among(term.right, term.left)
            case plan.Contains():
                return f"contains({self.expression(term.left)}, {self.expression(term.right)})"
            case plan.StartsWith():
                return f"{self.sql.starts_with}({self.expression(term.left)}, {self.expression(term.right)})"
            case plan.In():
                return self._among(term.operand, term.options)
            case plan.IsNull():
                return f"({self.expression(term.operand)} IS {'NOT ' if term.negated else ''}NULL)"
            case plan.Matches():
                return self.expression(term.match)
            case _:
                assert_never(term)

    def _among(self, operand: plan.Expression, options: plan.Expression) -> str:
        if isinstance(options, plan.ListOf):
            return fragments.any_of(self.predicate(plan.Compare("=", operand, item)) for item in options.items)
        one, many = self.expression(operand), self.expression(options)
        return fragments.among(self.sql, one, _typed(operand), many, _typed(options))


def _typed(term: plan.Expression) -> Type:
    """The type of an expression; a whole entity is compared as its id."""
    return term.type or plan.STRING
