"""What a mutation means, on plain dicts: statements one after the other, all or none."""

from __future__ import annotations

import copy
import datetime as dt
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.graph.differential.evaluate import Context, Evaluate, Thing
from tests.graph.differential.values import Unclear, Undefined
from tests.graph.differential.world import WHOLE, Kind, Row, World, identity, single

from quire.graph.language import ast

Counts = dict[str, dict[str, int]]


class Refused(Exception):
    """The graph would break a rule."""


class Writes(Evaluate):
    """One mutation. The world that it leaves is `world`, its own copy."""

    def __init__(self, world: World, query: ast.Query, values: Mapping[str, Any], now: dt.datetime) -> None:
        super().__init__(World(world.kinds, copy.deepcopy(world.rows)), query, values, now)
        assert isinstance(query.body, ast.Mutation)
        self.statements = query.body.statements
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in ("inserted", "updated", "deleted")}
        self.may_fail = False

    def run(self) -> Counts:
        """Rows by type. `Undefined` where a value cannot be computed (in a `where` it is `Unclear`), `Refused` where a
        rule is broken."""
        for statement in self.statements:
            kind = self.world.kinds[statement.type]
            match statement:
                case ast.Insert():
                    self._insert(kind, statement)
                case ast.Update():
                    self._update(kind, statement)
                case ast.Delete():
                    self._delete(kind, statement)
        self._check()
        return {name: dict(found) for name, found in self.counts.items()}

    def _insert(self, kind: Kind, statement: ast.Insert) -> None:
        given = {a.name: self.value(a.value, Context({})) for a in statement.assignments}
        row: Row = {p.name: stored(kind, p.name, given.get(p.name)) for p in kind.props}
        row["@id"] = given.get("id")
        if kind.is_edge:
            row["@src"], row["@dst"] = (_end(given[name]) for name in ("from", "to"))
        elif kind.key:
            row["@id"] = identity([row[name] for name in kind.key])
            for number, other in enumerate(self.world.rows[kind.name]):
                if other["@id"] == row["@id"]:
                    # What is not given stays as it was.
                    named = {name: row[name] for name in (*given, "@id") if name in row}
                    self.world.rows[kind.name][number] = other | named
                    self.counts["updated"][kind.name] += 1
                    return
        if row["@id"] is not None and row["@id"] in [other["@id"] for other in self.world.rows[kind.name]]:
            raise Refused("id")
        self.world.rows[kind.name].append(row)
        self.counts["inserted"][kind.name] += 1

    def _update(self, kind: Kind, statement: ast.Update) -> None:
        changes = {a.name: stored(kind, a.name, self.value(a.value, Context({}))) for a in statement.assignments}
        for row in self._chosen(kind, statement.where):
            row |= changes
            self.counts["updated"][kind.name] += 1

    def _delete(self, kind: Kind, statement: ast.Delete) -> None:
        gone = self._chosen(kind, statement.where)
        self._remove(kind, gone)
        ids = {row["@id"] for row in gone}
        for edge in self.world.edges if not kind.is_edge else ():
            ends = [c for c, end in (("@src", edge.source), ("@dst", edge.target)) if end == kind.name]
            self._remove(edge, [r for r in self.world.rows[edge.name] if any(r[c] in ids for c in ends)])

    def _remove(self, kind: Kind, gone: list[Row]) -> None:
        left = {id(row) for row in gone}
        self.world.rows[kind.name] = [r for r in self.world.rows[kind.name] if id(r) not in left]
        if gone:
            self.counts["deleted"][kind.name] += len(gone)

    def _chosen(self, kind: Kind, where: tuple[ast.Filter, ...]) -> list[Row]:
        """The rows that satisfy all predicates. One that does not hold decides it, whatever another cannot compute."""
        found = []
        for row in self.world.rows[kind.name]:
            held: list[bool | None] = []
            for predicate in where:
                try:
                    held.append(self.holds(predicate, Context({}, bare=Thing(kind, row))))
                except Undefined:
                    self.may_fail = True
                    held.append(None)
            if False not in held and None in held:
                raise Unclear  # a part that never holds may be known before
            if all(held):
                found.append(row)
        return found

    def _check(self) -> None:
        for kind in self.world.kinds.values():
            rows = self.world.rows[kind.name]
            if any(r[p.name] is None for r in rows for p in kind.props if not p.optional):
                raise Refused("required")
            if not kind.is_edge:
                continue
            for column, end in (("@src", kind.source), ("@dst", kind.target)):
                there = {r["@id"] for r in self.world.rows[end]}
                if any(r[column] not in there for r in rows):
                    raise Refused("end")
            if kind.unique and len({(r["@src"], r["@dst"]) for r in rows}) < len(rows):
                raise Refused("unique")


def stored(kind: Kind, name: str, value: Any) -> Any:
    """A value as a property holds it."""
    prop = kind.prop(name)
    assert prop is not None
    if value is None or prop.many:
        return value
    if prop.base == "Vector":
        return [single(float(v)) for v in value]
    if prop.base in ("F32", "F64"):
        return single(float(value)) if prop.base == "F32" else float(value)
    return int(value) if prop.base in WHOLE else value


def _end(value: Any) -> str:
    return identity(value if isinstance(value, list) else [value])
