"""Random mutations of a random graph, written as text."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.graph.differential.draw import Asked, Writer, literal
from tests.graph.differential.world import WHOLE, Kind, Pick, Prop, Row, World, value


class Writing(Writer):
    """Writes one mutation."""

    def asked(self) -> Asked:
        lines = [self._statement() for _ in range(self.pick.number(1, 4))]
        body = "\n  ".join(lines)
        return Asked(f"query q({', '.join(self.declared)}) {{\n  {body}\n}}", self.values)

    def _statement(self) -> str:
        kind = self.pick.one(list(self.world.kinds.values()))
        what = self.pick.number(0, 9)
        if what <= 4:
            return self._insert_edge(kind) if kind.is_edge else self._insert_node(kind)
        rows = self.world.rows[kind.name]
        row = self.pick.one(rows) if rows else {}
        where = self._where(kind, row)
        if what <= 7:
            return f"update {kind.name} set {{ {self._changes(kind)} }} where {where}"
        return f"delete {kind.name} where {where}"

    # -- insert ---------------------------------------------------------------------------------------------------

    def _insert_node(self, kind: Kind) -> str:
        given = self._properties(kind, self._key(kind))
        if not kind.key and self.pick.chance(60):
            given.append(f"id: {self.given(f'{kind.name}-{self.pick.number(3, 9)}', 'String')}")
        return f"insert {kind.name} {{ {', '.join(given)} }}"

    def _insert_edge(self, kind: Kind) -> str:
        given = [f"from: {self._end(kind.source)}", f"to: {self._end(kind.target)}", *self._properties(kind, {})]
        if self.pick.chance(40):
            given.append(f"id: {literal(f'{kind.small}{self.pick.number(5, 15)}')}")
        return f"insert {kind.name} {{ {', '.join(given)} }}"

    def _key(self, kind: Kind) -> Row:
        rows = self.world.rows[kind.name]
        if rows and self.pick.chance(50):
            row = self.pick.one(rows)
            return {name: row[name] for name in kind.key}
        new = {"name": f"n{self.pick.number(0, 3)}", "num": self.pick.number(-3, 6), "one": "x"}
        return {name: new.get(name, self.pick.number(5, 8)) for name in kind.key}

    def _properties(self, kind: Kind, key: Row) -> list[str]:
        given = []
        for prop in kind.props:
            if prop.name in key:
                given.append(f"{prop.name}: {self.given(key[prop.name], prop.base)}")
            elif not prop.optional or self.pick.chance(40):
                given.append(f"{prop.name}: {self._value(prop)}")
        return given

    def _end(self, type: str) -> str:
        """The key of a node, be it there or not; mostly it is."""
        kind = self.world.kinds[type]
        rows = self.world.rows[type]
        row = self.pick.one(rows) if rows and not self.pick.chance(6) else {**self._key(kind), "@id": "nobody"}
        if not kind.key:
            return literal(row["@id"])
        values = [row[name] for name in kind.key]
        if len(values) > 1:
            return f"[{', '.join(map(literal, values))}]"
        return self.given(values[0], "String" if isinstance(values[0], str) else "I64")

    def _value(self, prop: Prop) -> str:
        if prop.base in WHOLE and not prop.many and self.pick.chance(15):
            return f"{self.pick.number(2, 5)} {self.pick.one(('+', '-', '*', '%'))} {self.pick.number(0, 2)}"
        if prop.base == "DateTime" and self.pick.chance(60):
            return "now()"
        given: Any = value(self.pick, prop)
        if given is None or self.pick.chance(20):
            name = f"p{len(self.declared)}"
            self.declared.append(f"${name}: {prop.type}{'?' if prop.optional else ''}")
            self.values[name] = given
            return f"${name}"
        if isinstance(given, list):
            return f"[{', '.join(map(literal, given))}]"
        return literal(given)

    # -- update and delete ----------------------------------------------------------------------------------------

    def _changes(self, kind: Kind) -> str:
        free = [p for p in kind.props if p.name not in kind.key]
        return ", ".join(f"{p.name}: {self._value(p)}" for p in self.pick.some(free, 1, 3))

    def _where(self, kind: Kind, row: Row) -> str:
        tests = [self.condition(kind, row, str)]
        texts = [p for p in kind.props if p.base == "String" and not p.many and row.get(p.name)]
        if texts and self.pick.chance(40):
            prop = self.pick.one(texts)
            tests.append(f"{prop.name} {self.pick.one(('starts_with', 'contains'))} {literal(row[prop.name][:1])}")
        elif self.pick.chance(35):
            tests.append(self.condition(kind, row, str))
        if self.pick.chance(25):
            names = ("from", "to", "src", "dst", "id") if kind.is_edge else ("id",)
            name = self.pick.one(names)
            column = {"from": "@src", "to": "@dst"}.get(name, f"@{name}")
            tests.append(f"{name} {self.pick.one(('=', '!='))} {self.given(row.get(column, 'nobody'), 'String')}")
        return " and ".join(tests)


@st.composite
def mutations(draw: st.DrawFn, world: World) -> Asked:
    return Writing(Pick(draw), world).asked()
