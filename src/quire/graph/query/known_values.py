"""What is known before anything is read: constants, parameters and the time of the query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quire.errors import InvalidQuery
from quire.graph.language import plan
from quire.graph.language.checker.constant import evaluate

MOST = 2**63 - 1
"""More rows than this are all rows, and engines count no further."""


@dataclass(frozen=True)
class Known:
    """The values of one run."""

    params: Mapping[str, Any]
    now: dt.datetime

    def holds(self, term: object) -> bool:
        """Whether the value of an expression is known."""
        if isinstance(term, plan.ListOf):
            return all(self.holds(item) for item in term.items)
        return isinstance(term, plan.Constant | plan.Parameter | plan.KeyText | plan.Now)

    def value(self, term: object) -> Any:
        """The value of an expression of which it is known."""
        if isinstance(term, plan.Constant):
            return term.value
        if isinstance(term, plan.Parameter):
            if term.name not in self.params:
                raise InvalidQuery(
                    f"Parameter ${term.name} has no value.", next=f"Pass {term.name}.", parameter=term.name
                )
            return self.params[term.name]
        if isinstance(term, plan.ListOf):
            return [self.value(item) for item in term.items]
        if isinstance(term, plan.KeyText):
            return self._ids(term)
        assert isinstance(term, plan.Now)
        return self.now

    def _ids(self, term: plan.KeyText) -> Any:
        values = [evaluate(value, self.params, self.now) for value in term.values]
        if None in values:
            return None
        if term.type.many:
            return [plan.key_text(term.keys, [value]) for value in values[0]]
        return plan.key_text(term.keys, values)

    def count(self, term: plan.Constant | plan.Parameter | None, what: str) -> int | None:
        """A limit or offset; None where there is none."""
        found = None if term is None else self.value(term)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 0):
            raise InvalidQuery(f"{what} is a whole number of at least 0, not {found!r}.", next=f"Correct the {what}.")
        return None if found is None else min(found, MOST)
