"""A plan as a statement of joins alone, for engines without correlated subqueries, lateral joins and recursion.

What a block inside another finds is joined to the rows around it: `not` is an anti join, `or` a semi join, `optional` a
left join. There are two ways.

- A block that is found by itself is joined by what it says about the rows around it, whatever that is.
- Where a block inside such a block looks further out, and for alternatives, the values that are looked at are taken
  from the rows around it, each combination once; the block is found for those, and joined by them. Nulls are values
  here.

Walks of several hops are not part of the statement: the engine makes a relation of each before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from quire.graph.language import plan
from quire.graph.query.layout import variables
from quire.graph.query.sql.duckdb import Compiler, Selected, chosen, connected, introduces
from quire.graph.query.sql.fragments import all_of
from quire.graph.query.sql.walks import Walk

COLUMN = re.compile(r"\bv(\d+)_\w+")
"""A column of a variable, by its number."""

Join = Literal["LEFT", "LEFT SEMI", "LEFT ANTI"]


@dataclass
class Joined(Compiler):
    """Makes the statement of one read."""

    opening = "WITH"

    _count: Iterator[int] = field(default_factory=count)

    # -- blocks -----------------------------------------------------------------------------------------------

    def block(self, block: plan.Block, *, counts: bool = True) -> str:
        rows, loose = self._rows(block, (), counts)
        assert not loose, loose
        return rows

    def _rows(
        self, block: plan.Block, outside: tuple[str, ...], counts: bool, given: str | None = None
    ) -> tuple[str, list[str]]:
        """A SELECT of all columns of a block, and the tests that need columns from outside.

        With `given`, a table of those, there are none of them.
        """
        later = [c for c in block.conditions if not _is_plain(c) and not _is_table(c, block)]
        first = replace(block, conditions=tuple(c for c in block.conditions if not any(c is one for one in later)))
        tables, tests = self._parts(first, counts)
        here, loose = self._split(tests, outside, given)
        found = chosen([*([given] if given else []), *tables], here)
        known = (*outside, *block.variables)
        for condition in later:
            found = self._chosen(found, condition, known)
        for part in block.optional:
            if introduces(part.block):
                found = self._joined(found, "LEFT", part.block, known)
                known = (*known, *_introduced(part.block))
        for one in block.counts:
            found = self._counted(found, one, known)
            known = (*known, one.name)
        tests = [self.condition(c) for c in block.after if _is_plain(c)]
        here, more = self._split(tests, outside, given)
        found = f"SELECT * FROM ({found}) AS b WHERE {all_of(here)}" if here else found
        for condition in block.after:
            if not _is_plain(condition):
                found = self._chosen(found, condition, known)
        return found, [*loose, *more]

    def _split(self, tests: Sequence[str], outside: Sequence[str], given: str | None) -> tuple[list[str], list[str]]:
        """Tests of what is there, and of what is not."""
        if given is not None:
            return list(tests), []
        loose = [test for test in tests if self._columns_of(outside, [test])]
        return [test for test in tests if test not in loose], loose

    def _columns_of(self, some: Sequence[str], texts: Sequence[str]) -> list[str]:
        """The columns of some variables that texts use."""
        numbers = {self.layout.number(v) for v in some}
        found = {m[0] for text in texts for m in COLUMN.finditer(text) if int(m[1]) in numbers}
        return sorted(found)

    def _exists(self, block: plan.Block) -> str:
        assert _is_true_of_row(block), block
        return f"coalesce({all_of(self.condition(c) for c in (*block.conditions, *block.after))}, FALSE)"

    # -- blocks inside blocks ---------------------------------------------------------------------------------

    def _chosen(self, found: str, condition: plan.Condition, known: tuple[str, ...]) -> str:
        """The rows for which a condition holds that is more than a test of columns."""
        if isinstance(condition, plan.Without):
            return self._joined(found, "LEFT ANTI", condition.block, known)
        assert isinstance(condition, plan.Either), condition
        return self._dependent(found, "LEFT SEMI", condition.blocks, known)

    def _joined(self, found: str, join: Join, block: plan.Block, known: tuple[str, ...]) -> str:
        """Rows, joined with those of a block that sees their variables."""
        if any(used(inner) & set(known) for inner in _nested(block)):
            return self._dependent(found, join, [block], known)
        rows, loose = self._rows(block, known, counts=join == "LEFT")
        return f"SELECT * FROM ({found}) AS b {join} JOIN ({rows}) AS m ON {all_of(loose)}"

    def _dependent(self, found: str, join: Join, blocks: Sequence[plan.Block], known: tuple[str, ...]) -> str:
        """The same for blocks that cannot be found without the rows around them."""
        number, at = next(self._count), len(self.tables)
        rows = [self._rows(block, known, join == "LEFT", f"d{number}")[0] for block in blocks]
        columns = self._columns_of(known, [*rows, *self.tables[at:]])
        taken = ", ".join(columns) or "1 AS nothing"
        self.tables[at:at] = [f"c{number} AS ({found})", f"d{number} AS (SELECT DISTINCT {taken} FROM c{number})"]
        names = [f"j{number}_{n}" for n in range(len(columns))]
        shown = [f"{column} AS {name}" for column, name in zip(columns, names, strict=True)]
        if join == "LEFT":
            shown.append(f"* EXCEPT ({', '.join(columns or ['nothing'])})")
        inner = " UNION ALL ".join(f"SELECT {', '.join(shown) or '1'} FROM ({one}) AS i" for one in rows)
        on = all_of(f"{column} <=> {name}" for column, name in zip(columns, names, strict=True))
        return f"SELECT * FROM c{number} {join} JOIN ({inner}) AS m ON {on}"

    def _counted(self, found: str, one: plan.Counted, known: tuple[str, ...]) -> str:
        """Rows with the number of rows that a block has for each of them."""
        number, at = next(self._count), len(self.tables)
        rows = self._rows(one.block, known, True, f"d{number}")[0]
        columns = self._columns_of(known, [rows, *self.tables[at:]])
        taken = ", ".join(columns)
        looked_at = f"SELECT DISTINCT {taken} FROM c{number}" if columns else "SELECT 1 AS nothing"
        self.tables[at:at] = [f"c{number} AS ({found})", f"d{number} AS ({looked_at})"]
        names = [f"j{number}_{n}" for n in range(len(columns))]
        shown = [f"{column} AS {name}" for column, name in zip(columns, names, strict=True)]
        inner = f"SELECT {', '.join([*shown, f'count(*) AS n{number}'])} FROM ({rows}) AS i"
        inner += f" GROUP BY {taken}" if columns else ""
        on = all_of(f"{column} <=> {name}" for column, name in zip(columns, names, strict=True))
        count = f"coalesce(n{number}, 0) AS {self.layout.path(one.name, 'count')}"
        return f"SELECT *, {count} FROM c{number} LEFT JOIN ({inner}) AS m ON {on}"

    # -- walks and outputs ------------------------------------------------------------------------------------

    def _walked(self, walk: Walk) -> str:
        if walk.once:
            return super()._walked(walk)
        self.walks.append(walk)
        return f"{self.terms.sql.relation(walk.name)} AS {walk.name}"

    def _cut(self, selected: Selected, limit: int | None, offset: int) -> str:
        if (limit or 0) + offset <= self.terms.sql.most_rows:
            return super()._cut(selected, limit, offset)
        order = ", ".join(selected.order) or "TRUE"
        ranked = f"SELECT *, row_number() OVER (ORDER BY {order}) AS r FROM ({selected.rows}) AS b{selected.where}"
        most = "" if limit is None else f" AND r - {offset:d} <= {limit:d}"
        return f"SELECT {selected.names} FROM ({ranked}) AS b WHERE r > {offset:d}{most}\nORDER BY r"


def used(block: plan.Block) -> set[str]:
    """The variables that a block and the blocks in it use and do not introduce."""
    found = {end for step in _steps(block) for end in (step.source, step.target)}
    for condition in (*block.conditions, *block.after):
        if not isinstance(condition, plan.Without | plan.Either):
            found |= variables(condition)
    for inner in _nested(block):
        found |= used(inner)
    return found - set(_introduced(block))


def _steps(block: plan.Block) -> Iterator[plan.Expand]:
    yield from block.expansions
    yield from (path.step for path in block.paths)


def _nested(block: plan.Block) -> Iterator[plan.Block]:
    """The blocks in a block that are joined to it."""
    for condition in (*block.conditions, *block.after):
        if not _is_plain(condition):
            yield from [condition.block] if isinstance(condition, plan.Without) else _alternatives(condition)
    yield from (part.block for part in block.optional)
    yield from (one.block for one in block.counts)


def _alternatives(condition: plan.Condition) -> tuple[plan.Block, ...]:
    return condition.blocks if isinstance(condition, plan.Either) else ()


def _introduced(block: plan.Block) -> tuple[str, ...]:
    """The variables of a block and of its optional parts."""
    parts = [name for part in block.optional for name in _introduced(part.block)]
    return (*block.variables, *parts, *(one.name for one in block.counts))


def _is_table(condition: plan.Condition, block: plan.Block) -> bool:
    """Whether alternatives are joined like a table, because they connect nodes of the block."""
    return isinstance(condition, plan.Either) and connected(condition, block) is not None


def _is_plain(condition: plan.Condition) -> bool:
    """Whether a condition is a test of the columns of one row."""
    if isinstance(condition, plan.Without):
        return _is_true_of_row(condition.block)
    return all(_is_true_of_row(block) for block in _alternatives(condition))


def _is_true_of_row(block: plan.Block) -> bool:
    if (
        block.scans
        or block.expansions
        or block.paths
        or block.counts
        or any(introduces(part.block) for part in block.optional)
    ):
        return False
    return all(_is_plain(condition) for condition in (*block.conditions, *block.after))
