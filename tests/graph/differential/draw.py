"""Random reads of a random graph, written as text.

A query is drawn around a witness: nodes and edges that are there, for which most of its conditions hold. So answers
are seldom empty, though nothing here computes one.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.graph.differential.functions import NAMES, Calls, Drawn
from tests.graph.differential.values import Undefined, arithmetic, compared
from tests.graph.differential.world import POOLS, REAL, WHOLE, WORDS, Kind, Pick, Prop, Row, World, text

NUMBERS = ("0", "1", "2", "3", "0.5", "2.5", "7", "100")
ORDERED = ("=", "!=", "<", "<=", ">", ">=")
SIGNS = ("+", "-", "*", "/", "%")
NOBODY: Row = {}


@dataclass(frozen=True)
class Asked:
    """A query and the values of its parameters."""

    text: str
    values: dict[str, Any]


@dataclass
class Seen:
    """A variable, with what it is in the witness; without a row where it may be null."""

    kind: Kind
    row: Row


@dataclass(frozen=True)
class Column:
    """Something that can be returned."""

    text: str
    base: str
    many: bool = False
    exact: bool = True
    """Sums of it do not depend on the order of rows."""

    @property
    def is_number(self) -> bool:
        return not self.many and self.base in (*WHOLE, *REAL)

    @property
    def is_single(self) -> bool:
        return not self.many and self.base not in ("Vector", "whole", "case")


@dataclass
class Writer:
    """Writes the parts of one query and declares its parameters."""

    pick: Pick
    world: World
    declared: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return "abcdefghijklmnopqrstuvwxyz"[self.names - 1] if self.names <= 26 else f"z{self.names}"

    def witness(self, kind: Kind) -> Row:
        rows = self.world.rows[kind.name]
        return self.pick.one(rows) if rows else NOBODY

    # -- values ---------------------------------------------------------------------------------------------------

    def given(self, value: Any, base: str, *, share: int = 20) -> str:
        """A value, written out or as a parameter."""
        if self.pick.chance(share):
            return self.parameter(value, "String" if base == "enum" else base)
        return literal(value, base)

    def parameter(self, value: Any, type: str) -> str:
        name = f"p{len(self.declared)}"
        optional = self.pick.chance(15)
        self.declared.append(f"${name}: {type}{'?' if optional else ''}")
        self.values[name] = None if optional and self.pick.chance(30) else value
        return f"${name}"

    def options(self, value: Any, base: str) -> str:
        """A list that holds a value among others."""
        others = [v for v in POOLS[base] if not isinstance(v, float) or v >= 0]
        items = [value, *(self.pick.one(others) for _ in range(self.pick.number(0, 2)))]
        if self.pick.chance(30):
            return self.parameter(items, f"[{'String' if base == 'enum' else base}]")
        shown = [literal(i, base) for i in items]
        if base in WHOLE and self.pick.chance(20):
            shown.append("0.5")
        return f"[{', '.join(shown)}]"

    # -- conditions -----------------------------------------------------------------------------------------------

    def condition(self, kind: Kind, row: Row, ref: Callable[[str], str], want: bool = True) -> str:
        """A condition on a property, which holds for a row, if it is wanted and can be."""
        prop = self.pick.one([p for p in kind.props if p.base != "Vector"])
        row = row or self.witness(kind)
        value, named = row.get(prop.name), ref(prop.name)
        if value is None or self.pick.chance(8):
            return f"{named} is {'null' if (value is None) == want else 'not null'}"
        if prop.many:
            item = self.pick.one(value) if value and want else self.pick.one(POOLS[prop.base])
            if self.pick.chance(25) and _may_lead(item):
                return f"{literal(item)} in {named}"
            return f"{named} contains {self.given(item, prop.base)}"
        if self.pick.chance(16):
            option = value if want else self.pick.one(POOLS[prop.base])
            return f"{named} in {self.options(option, prop.base)}"
        if prop.is_text and self.pick.chance(40 if prop.base == "String" else 0):
            return self._part(named, value, want)
        if prop.is_number and self.pick.chance(45):
            return self._computed(kind, row, ref, prop, want)
        if prop.base == "DateTime" and self.pick.chance(30):
            return f"{named} {'<' if (value.year < 2100) == want else '>'} now()"
        return self._plain(named, value, prop, want)

    def _plain(self, named: str, value: Any, prop: Prop, want: bool, *, share: int = 20) -> str:
        sign = self.pick.one(ORDERED[:2] if prop.base in ("Bool", "enum") else ORDERED)
        base = self.pick.one((*WHOLE, *REAL)) if prop.is_number and self.pick.chance(40) else prop.base
        pool = [v for v in (*POOLS[base], *([value] if base == prop.base else [])) if compared(sign, value, v) == want]
        other = self.pick.one(pool or POOLS[base])
        if self.pick.chance(15) and _may_lead(other):
            turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
            return f"{literal(other)} {turned} {named}"
        return f"{named} {sign} {self.given(other, base, share=share)}"

    def _part(self, named: str, value: str, want: bool) -> str:
        part = value[: self.pick.number(0, len(value))] if want else self.pick.one(POOLS["String"])
        operator = self.pick.one(("contains", "starts_with"))
        if operator == "contains" and want and value:
            part = value[self.pick.number(0, len(value) - 1) :]
        return f"{named} {operator} {self.given(part, 'String')}"

    def _computed(self, kind: Kind, row: Row, ref: Callable[[str], str], prop: Prop, want: bool) -> str:
        shown, value = self.number(kind, row, ref, prop)
        sign = self.pick.one(ORDERED)
        pool = [n for n in NUMBERS if value is not None and compared(sign, value, json.loads(n)) == want]
        return f"{shown} {sign} {self.pick.one(pool or NUMBERS)}"

    def number(self, kind: Kind, row: Row, ref: Callable[[str], str], prop: Prop) -> tuple[str, Any]:
        """Arithmetic on a property, and what it is for a row; None where it has no value."""
        sign = self.pick.one(SIGNS)
        others = [p for p in kind.props if p.is_number]
        if self.pick.chance(25 if sign in "/%" else 40):
            second = self.pick.one(others)
            right, value = ref(second.name), row.get(second.name)
        else:
            right = self.pick.one(NUMBERS[1:7])
            value = json.loads(right)
        shown = f"{ref(prop.name)} {sign} {right}"
        try:
            found = arithmetic(sign, row.get(prop.name), value)
            if self.pick.chance(15):
                return f"0 - ({shown})", arithmetic("-", 0, found)
        except Undefined:
            return shown, None
        return shown, found


class Reading(Writer):
    """Writes one read."""

    def __init__(self, pick: Pick, world: World, *, by_interface: bool = False) -> None:
        super().__init__(pick, world)
        self.by_interface = by_interface
        self.nodes: dict[str, Seen] = {}
        self.edges: dict[str, Seen] = {}
        self.maybe: dict[str, Seen] = {}
        """Nodes and edges of optional parts."""
        self.named: dict[str, str] = {}
        """Nodes that are matched by the interface, with their types in the witness."""
        self.paths: list[str] = []
        self.lines: list[str] = []

    def asked(self) -> Asked:
        self._start()
        for _ in range(self.pick.number(0, 2)):
            self.lines.append(self._traversal())
        if self.pick.chance(38):
            self._path()
        for _ in range(self.pick.number(0, 1)):
            self.lines.append(self._condition())
        if self.pick.chance(25):
            self.lines.append(self._called())
        self._special()
        if self.by_interface:
            self._by_interface()
        if self.pick.chance(22):
            self.lines.append(self._not())
        if self.pick.chance(22):
            self.lines.append(self._exists())
        if self.pick.chance(20):
            self.lines.append(f"{self.count_of()} {self.pick.one(('>=', '<=', '>', '!='))} {self.pick.number(0, 2)}")
        if self.pick.chance(22):
            self.lines.append(self._or())
        if self.pick.chance(30):
            self._optional()
        searched = self._searched() if self.pick.chance(75) else None
        if len(self.lines) > 1 and self.pick.chance(25):
            self.lines = self.lines[1:] + self.lines[:1]  # the order of clauses makes no difference
        rest = Outputs(self, searched).written()
        body = "\n    ".join(self.lines)
        return Asked(f"query q({', '.join(self.declared)}) {{\n  match {{\n    {body}\n  }}\n{rest}\n}}", self.values)

    # -- nodes and edges ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        kinds = [k for k in self.world.nodes if self.world.rows[k.name]] or self.world.nodes
        kind = kinds[0] if self.pick.chance(60) else self.pick.one(kinds)
        self._bind(kind, self.witness(kind))

    def _bind(self, kind: Kind, row: Row) -> str:
        name = self.name()
        self.nodes[name] = Seen(kind, row)
        self.lines.append(f"${name}: {kind.name}{self._properties(kind, row)}")
        return name

    def _properties(self, kind: Kind, row: Row, share: int = 25) -> str:
        single = [p for p in kind.props if p.is_single and row.get(p.name) is not None]
        if not single or not self.pick.chance(share):
            return ""
        chosen = self.pick.some(single, 1, 1 if self.pick.chance(70) else 2)
        shown = ", ".join(f"{p.name}: {self.given(row[p.name], p.base)}" for p in chosen)
        return f" {{ {shown}{self.pick.one(('', ','))} }}"

    def _choices(self, at: Seen) -> list[tuple[Kind, bool]]:
        """Edge types at a node, and whether they leave it; those that are there first."""
        found = [(e, True) for e in self.world.edges if e.source == at.kind.name]
        found += [(e, False) for e in self.world.edges if e.target == at.kind.name]
        there = [(e, out) for e, out in found if self._at(at, e, out)]
        return there if there and not self.pick.chance(6) else found

    def _next(self, start: str, edge: Kind) -> Row:
        """A node that an edge leads to, if one does."""
        there = [row["@dst"] for row in self._at(self.nodes[start], edge, True)]
        near = [row for row in self.world.rows[edge.target] if row["@id"] in there]
        return self.pick.one(near) if near else self.witness(self.world.kinds[edge.target])

    def _at(self, at: Seen, edge: Kind, out: bool) -> list[Row]:
        end = "@src" if out else "@dst"
        return [r for r in self.world.rows[edge.name] if r[end] == at.row.get("@id")]

    def _traversal(self, start: str | None = None, *, into: dict[str, Seen] | None = None, share: int = 22) -> str:
        """A step from a node. What it reaches is a variable of the block that `into` stands for."""
        start = start or self.pick.one(list(self.nodes))
        at, known = self.nodes.get(start) or self.maybe[start], self.nodes if into is None else into
        choices = self._choices(at)
        if not choices:
            return self._condition()
        edge, out = self.pick.one(choices)
        rows = self._at(at, edge, out)
        row = self.pick.one(rows) if rows else NOBODY
        other_kind = self.world.kinds[edge.target if out else edge.source]
        other = next(
            (r for r in self.world.rows[other_kind.name] if row and r["@id"] == row["@dst" if out else "@src"]), NOBODY
        )
        same = [n for n, s in self.nodes.items() if s.kind == other_kind]
        if self.pick.chance(22):
            end = "_"
        elif same and self.pick.chance(5):
            end = self.pick.one(same)
        else:
            end = self.name()
            known[end] = Seen(other_kind, other)
        named = ""
        if self.pick.chance(share):
            name = self.name()
            named = f"${name}:"
            (self.edges if into is None else into)[name] = Seen(edge, row)
        walk = self._walk(edge, row, bounds=not named)
        ends = (start, end) if out else (end, start)
        if not edge.loops and self.pick.chance(25):
            ends = ends[::-1]  # the direction follows from the types
        return f"${ends[0]} {named}{walk} ${ends[1]}"

    def _walk(self, edge: Kind, row: Row, *, bounds: bool = True) -> str:
        shown = edge.small.lower() if self.pick.chance(10) else edge.small
        alike = [e for e in self.world.edges if (e.source, e.target) == (edge.source, edge.target) and e != edge]
        several = bounds and bool(alike) and self.pick.chance(25)
        if several:
            shown += f"|{'|'.join(e.small for e in self.pick.some(alike, 1, 2))}"
        if edge.loops and self.pick.chance(30):
            shown = f"<{shown}>"
        if bounds and self.pick.chance(60 if edge.loops else 20):
            least = 2 if self.pick.chance(12) else 0 if edge.loops and self.pick.chance(12) else 1
            most = "" if self.pick.chance(45) else str(self.pick.number(least, 4))
            shown += f"{{{least},{most}}}"
        if not several and self.pick.chance(30):
            filters = [self.condition(edge, row, str) for _ in range(self.pick.number(1, 2))]
            shown += f" [{', '.join(filters)}]"
        return shown

    def _path(self) -> None:
        """A shortest path between two nodes that are bound."""
        starts = [(n, e) for n, s in self.nodes.items() for e in self.world.edges if e.source == s.kind.name]
        if not starts:
            return
        loops = [(n, e) for n, e in starts if e.loops]
        start, edge = self.pick.one(loops if loops and not self.pick.chance(10) else starts)
        ends = [n for n, s in self.nodes.items() if s.kind.name == edge.target and n != start]
        kind = self.world.kinds[edge.target]
        end = self.pick.one(ends) if ends and self.pick.chance(40) else self._bind(kind, self._next(start, edge))
        alike = [e for e in self.world.edges if (e.source, e.target) == (edge.source, edge.target) and e != edge]
        several = bool(alike) and self.pick.chance(25)
        shown = f"{edge.small}|{self.pick.one(alike).small}" if several else edge.small
        shown = f"<{shown}>" if edge.loops and self.pick.chance(30) else shown
        if not self.pick.chance(10):
            bounds = ("{1,}", "{1,}", "{1,3}", "{1,6}", "{2,4}")
            shown += self.pick.one((*bounds, "{0,3}") if edge.loops else bounds)
        if not several and self.pick.chance(15):
            shown += f" [{self.condition(edge, self.witness(edge), str)}]"
        name = self.name()
        self.lines.append(f"${name} = shortest(${start} {shown} ${end})")
        self.paths.append(name)
        if self.pick.chance(20):
            self.lines.append(f"${name}.length {self.pick.one(('>=', '<=', '>'))} {self.pick.number(1, 2)}")

    def _by_interface(self) -> None:
        """A node of any type of the interface, beside the others or in a block of its own."""
        kind = self.pick.one([k for k in self.world.nodes if k.interface])
        row, name = self.witness(kind), self.name()
        lines = [f"${name}: Named{self._titled(row)}"]
        for what in self.pick.some(("type", "node", "step", "title"), 1, 2):
            lines += self._of_interface(name, kind, row, what)
        block = self.pick.one(("", "", "optional", "exists"))
        self.lines.append(f"{block} {{ {'  '.join(lines)} }}" if block else "  ".join(lines))
        if block != "exists":
            self.named[name] = kind.name

    def _titled(self, row: Row) -> str:
        title = row.get("title")
        return f" {{ title: {literal(title)} }}" if title is not None and self.pick.chance(20) else ""

    def _of_interface(self, name: str, kind: Kind, row: Row, what: str) -> list[str]:
        node = self.pick.one(list(self.nodes))
        seen = self.nodes[node]
        if what == "type":
            return [f'${name}.type {self.pick.one(("=", "=", "=", "!="))} "{kind.name}"']
        if what == "node":
            return [f"${name}.id {'=' if row.get('@id') == seen.row.get('@id') else '!='} ${node}.id"]
        if what == "title" and row.get("title") is not None:
            return [self._plain(f"${name}.title", row["title"], Prop("title", "String"), want=True)]
        choices = self._choices(Seen(kind, row))
        if what != "step" or not choices:
            return []
        edge, out = self.pick.one(choices)
        fits = seen.kind.name == (edge.target if out else edge.source)
        ends = [name, node if fits and self.pick.chance(30) else "_"][:: 1 if out else -1]
        step = f"${ends[0]} {self._walk(edge, NOBODY)} ${ends[1]}"
        return [self.pick.one((step, step, step, f"not {{ {step} }}", f"count {{ {step} }} >= 1"))]

    # -- conditions -----------------------------------------------------------------------------------------------

    def _condition(self, name: str | None = None, want: bool = True) -> str:
        """A condition on a variable, or between two."""
        known = self.nodes | self.edges
        one = name or self.pick.one(list(known))
        seen = known[one]
        if self.pick.chance(15):
            found = self._between(one, seen, known)
            if found is not None:
                return found
        return self.condition(seen.kind, seen.row, of(one), want)

    def _special(self) -> None:
        """Conditions of a kind that plain choice would seldom give."""
        known = self.nodes | self.edges
        for base, share in (("Date", 45), ("DateTime", 45), ("Bool", 50), ("String", 30), ("list", 20)):
            there = [
                (name, p)
                for name, seen in known.items()
                for p in seen.kind.props
                if (p.base == base and not p.many) or (p.many and base == "list")
            ]
            there = [(name, p) for name, p in there if known[name].row.get(p.name) not in (None, [])]
            if not there or not self.pick.chance(share):
                continue
            name, prop = self.pick.one(there)
            value, named = known[name].row[prop.name], f"${name}.{prop.name}"
            if prop.many:
                item = self.pick.one(value)
                self.lines.append(f"{named} contains {literal(item)}")
            elif base == "String":
                self.lines.append(f"{named} starts_with {literal(value[: self.pick.number(0, len(value))])}")
            else:
                self.lines.append(self._plain(named, value, prop, want=True, share=0))

    def calls(self, things: dict[str, Seen] | None = None) -> Calls:
        """What draws calls over the properties of some variables, their ids among them."""
        given = []
        for name, seen in (self.nodes | self.edges if things is None else things).items():
            given += [Drawn(f"${name}.{p.name}", seen.row.get(p.name), p.base, p.many) for p in seen.kind.props]
            if seen.kind.prop("id") is None:
                given.append(Drawn(f"${name}.id", seen.row.get("@id"), "String"))
        return Calls(self.pick, given, literal)

    def _called(self) -> str:
        """A condition on what a function gives."""
        drawn = self.calls().draw(self.pick.one(NAMES))
        if drawn.value is None:
            return f"{drawn.text} is null"
        if drawn.many or not _may_lead(drawn.value):
            return f"{drawn.text} is not null"
        return f"{drawn.text} {self.pick.one(('=', '<=', '>='))} {literal(drawn.value)}"

    def case(self, things: dict[str, Seen] | None = None) -> Drawn:
        """Branches on properties; their values are of one type."""
        known = self.nodes | self.edges
        calls = self.calls(things)
        base = self.pick.one(("String", "I64"))
        names = ("lower", "concat", "substring") if base == "String" else ("length", "year", "size")
        shown = ""
        for _ in range(self.pick.number(1, 2)):
            tests = []
            for _ in range(self.pick.number(1, 2)):
                seen = known[name := self.pick.one(list(known))]
                single = [p for p in seen.kind.props if p.is_single]
                prop = self.pick.one(single)
                value = seen.row.get(prop.name)
                want = self.pick.chance(60)
                tests.append(
                    f"${name}.{prop.name} is {'not ' * self.pick.chance(50)}null"
                    if value is None
                    else self._plain(f"${name}.{prop.name}", value, prop, want, share=10)
                )
            shown += f" when {' and '.join(tests)} then {calls.draw(self.pick.one(names)).text}"
        if self.pick.chance(90):
            shown += f" else {literal('x' if base == 'String' else 5)}"
        return Drawn(f"case{shown} end", None, base)

    def _between(self, one: str, seen: Seen, known: dict[str, Seen]) -> str | None:
        other = self.pick.one(list(known))
        if known[other].kind == seen.kind and self.pick.chance(40):
            sign = "=" if known[other].row.get("@id") == seen.row.get("@id") else "!="
            return f"${one} {sign} ${other}"
        pairs = [
            (p, q)
            for p in seen.kind.props
            for q in known[other].kind.props
            if p.is_single and q.is_single and p.base not in ("Bool", "enum") and _alike(p, q)
        ]
        if not pairs:
            return None
        p, q = self.pick.one(pairs)
        a, b = seen.row.get(p.name), known[other].row.get(q.name)
        signs = [s for s in ORDERED if compared(s, a, b)] or ORDERED
        return f"${one}.{p.name} {self.pick.one(signs)} ${other}.{q.name}"

    def _not(self) -> str:
        if self.pick.chance(55):
            name = self.pick.one(list(self.nodes))
            seen = self.nodes[name]
            return f"not {{ {self.condition(seen.kind, seen.row, of(name), want=False)} }}"
        inside: dict[str, Seen] = {}
        lines = [self._traversal(into=inside, share=12)]
        for name, seen in inside.items():
            lines.append(self.condition(seen.kind, seen.row, of(name), want=False))
        if self.pick.chance(20):
            lines.append(f"not {{ {self._condition()} }}")
        return f"not {{ {'  '.join(lines)} }}"

    def _exists(self) -> str:
        inside: dict[str, Seen] = {}
        lines = [self._traversal(into=inside, share=12)]
        for name, seen in inside.items():
            if self.pick.chance(40):
                lines.append(self.condition(seen.kind, seen.row, of(name)))
        return f"exists {{ {'  '.join(lines)} }}"

    def count_of(self) -> str:
        """A number of rows, of what an optional part found now and then."""
        inside: dict[str, Seen] = {}
        lines = [self._traversal(self._start_of_count(), into=inside, share=30)]
        for name, seen in inside.items():
            if self.pick.chance(25):
                lines.append(self.condition(seen.kind, seen.row, of(name)))
        if self.pick.chance(15):
            lines.append(f"not {{ {self._condition()} }}")
        return f"count {{ {'  '.join(lines)} }}"

    def _start_of_count(self) -> str:
        maybe = [name for name, seen in self.maybe.items() if not seen.kind.is_edge]
        return self.pick.one(maybe if maybe and self.pick.chance(30) else list(self.nodes))

    def _or(self) -> str:
        shared = self._shared_or() if self.pick.chance(25) else None
        if shared is not None:
            return shared
        found = [self._condition(want=self.pick.chance(92))]
        for _ in range(self.pick.number(1, 2)):
            kind = self.pick.number(0, 3)
            if kind == 0:
                found.append(self._traversal(into={}, share=0))
            elif kind == 1:
                found.append(f"{{ {self._condition()}  {self._condition()} }}")
            elif kind == 2:
                found.append(f"not {{ {self._condition()} }}")
            else:
                found.append(self._condition(want=False))
        return f"or {{ {'  '.join(found)} }}"

    def _shared_or(self) -> str | None:
        """An alternative of traversals that all reach the same new node."""
        for start, seen in self.nodes.items():
            leads = [e for e in self.world.edges if e.source == seen.kind.name]
            for target in dict.fromkeys(e.target for e in leads):
                edges = [e for e in leads if e.target == target]
                if len(edges) > 1:
                    name, kind = self.name(), self.world.kinds[target]
                    steps = [f"${start} {self._walk(e, NOBODY)} ${name}" for e in edges]
                    if self.pick.chance(30):
                        row = self.witness(kind)
                        extra = self.condition(kind, row, of(name))
                        steps[0] = f"{{ {steps[0]}  {extra} }}"
                    self.nodes[name] = Seen(kind, NOBODY)
                    return f"or {{ {'  '.join(steps)} }}"
        return None

    def _optional(self) -> None:
        inside: dict[str, Seen] = {}
        lines = [self._traversal(into=inside, share=20)]
        for name, seen in list(inside.items()):
            if self.pick.chance(40):
                lines.append(self.condition(seen.kind, seen.row, of(name)))
        self.maybe |= inside
        nodes = [n for n, s in inside.items() if not s.kind.is_edge]
        if nodes and self.pick.chance(25):
            nested: dict[str, Seen] = {}
            lines.append(f"optional {{ {self._traversal(self.pick.one(nodes), into=nested, share=0)} }}")
            self.maybe |= nested
        self.lines.append(f"optional {{ {'  '.join(lines)} }}")
        if nodes and self.pick.chance(15):
            later: dict[str, Seen] = {}
            self.lines.append(f"optional {{ {self._traversal(self.pick.one(nodes), into=later, share=0)} }}")
            self.maybe |= later
        if inside and self.pick.chance(20):
            name = self.pick.one(list(inside))
            self.lines.append(f"${name} is {self.pick.one(('null', 'not null'))}")

    # -- searches -------------------------------------------------------------------------------------------------

    def _searched(self) -> str | None:
        """A node whose text and vectors are searched; now and then only what matches is found."""
        names = [n for n, s in self.nodes.items() if s.kind.prop("t") is not None]
        if not names:
            return None
        name = self.pick.one(names)
        if self.pick.chance(30):
            self.lines.append(self.match(name, self.pick.one(("search", "match_text", "fuzzy"))))
        return name

    def match(self, name: str, function: str) -> str:
        there = (self.nodes[name].row.get("t") or "").replace(",", " ").replace("-", " ").split()
        wanted = " ".join(self.pick.one(there or WORDS) for _ in range(self.pick.number(1, 2)))
        if function == "fuzzy":
            wanted = wanted[:-1] + self.pick.one(("", "x", "s"))
            if not self.pick.chance(10):
                return f"fuzzy(${name}.t, {self.text_given(wanted)}, {self.pick.number(0, 3)})"
        elif self.pick.chance(20):
            wanted += f" {self.pick.one(WORDS).upper()}"
        return f"{function}(${name}.t, {self.text_given(wanted)})"

    def text_given(self, wanted: str) -> str:
        if self.pick.chance(25):
            name = f"p{len(self.declared)}"
            self.declared.append(f"${name}: String")
            self.values[name] = wanted
            return f"${name}"
        return literal(wanted)

    def nearest(self, name: str) -> str:
        vectors = [p.name for p in self.nodes[name].kind.props if p.base == "Vector"]
        wanted = self.pick.one(POOLS["Vector"])
        if self.pick.chance(40):
            parameter = f"p{len(self.declared)}"
            self.declared.append(f"${parameter}: Vector(2)")
            self.values[parameter] = list(wanted)
            shown = f"${parameter}"
        else:
            shown = f"[{', '.join(map(literal, wanted))}]"
        return f"nearest(${name}.{self.pick.one(vectors)}, {shown})"

    def bm25(self, name: str) -> str:
        return f"bm25(${name}.t, {self.text_given(text(self.pick))})"

    def rrf(self, name: str) -> str:
        arms = [self.nearest(name), self.bm25(name)]
        if self.pick.chance(20):
            arms[0] = self.bm25(name)
        k = f", {self.pick.one(('1', '10', '60', '2.5'))}" if self.pick.chance(75) else ""
        return f"rrf({arms[0]}, {arms[1]}{k})"


class Outputs:
    """Writes what comes after match."""

    def __init__(self, reading: Reading, searched: str | None) -> None:
        self.reading, self.pick, self.searched = reading, reading.pick, searched
        self.shown: list[str] = []
        self.chosen: list[tuple[str, Column]] = []
        """What is returned: how it can be called later, and what it is."""

    def written(self) -> str:
        pick = self.pick
        grouped = pick.chance(38)
        distinct = pick.chance(25)
        ordered: list[str] = []
        if grouped:
            ordered = self._groups()
        else:
            for column in (self._column(), *self._extras()):
                self._return(column)
            if self.searched is not None:
                ordered = self._scores(distinct)
        lines = [f"  return {'distinct ' if distinct else ''}{{ {' '.join(self.shown)} }}"]
        lines += self._having(grouped)
        limit = self._order(lines, ordered, grouped, distinct)
        if limit or pick.chance(30):
            lines.append(f"  limit {self._count(pick.number(1, 6))}")
        if pick.chance(22):
            lines.append(f"  offset {self._count(int(pick.chance(35)))}")
        return "\n".join(lines)

    def _count(self, number: int) -> str:
        if not self.pick.chance(30):
            return str(number)
        name = f"p{len(self.reading.declared)}"
        self.reading.declared.append(f"${name}: I64")
        self.reading.values[name] = number
        return f"${name}"

    def _return(self, column: Column) -> str:
        """Return it under a name; its name, or it itself where it has none."""
        bare = column.text not in [c.text for _, c in self.chosen] and self.pick.chance(30)
        name = column.text if bare else f"o{len(self.chosen)}"
        self.shown.append((column.text if bare else f"{column.text} as {name}") + self.pick.one((",", "")))
        self.chosen.append((name, column))
        return name

    # -- columns --------------------------------------------------------------------------------------------------

    def _columns(self, *, maybe: bool = True) -> list[Column]:
        found = []
        for name, seen in (self.reading.nodes | self.reading.edges | (self.reading.maybe if maybe else {})).items():
            found += [Column(f"${name}.{p.name}", p.base, p.many) for p in seen.kind.props]
        return found

    def _column(self, wanted: Callable[[Column], bool] | None = None) -> Column:
        columns = [c for c in self._columns() if wanted is None or wanted(c)]
        if wanted is None:
            special = self.pick.number(0, 99)
            things = self.reading.nodes | self.reading.edges | self.reading.maybe
            if special >= 85:
                return Column(f"${self.pick.one(list(things))}", "whole")
            if special >= 75:
                return Column(f"${self.pick.one(list(things))}.id", "String")
        return self.pick.one(columns)

    def _extras(self) -> list[Column]:
        """What plain choice would seldom give."""
        found = [self._of_named(name) for name in self.reading.named if self.pick.chance(75)]
        for name in self.reading.paths:
            shown = (Column(f"${name}.length", "I64"), Column(f"${name}.nodes", "String", True))
            found += [column for column in shown if self.pick.chance(95)]
        if self.pick.chance(32):
            found.append(Column("now()", "DateTime"))
        things = list(self.reading.nodes | self.reading.edges | self.reading.maybe)
        if self.pick.chance(25):
            found.append(Column(f"${self.pick.one(things)}", "whole"))
        numbers = [c for c in self._columns() if c.is_number]
        if numbers and self.pick.chance(40):
            column = self.pick.one([c for c in numbers if c.base != "U64"] or numbers)
            found.append(Column(f"(-{column.text})", "I64" if column.base in WHOLE else "F64"))
        often = ["reverse"] * self.pick.chance(20)  # the last ones come seldom
        for name in dict.fromkeys((*self.pick.some(NAMES, 6, 9), *often)):
            drawn = self.reading.calls().draw(name)
            found.append(Column(drawn.text, drawn.base, drawn.many))
        if self.pick.chance(42):
            found.append(Column(self.reading.case().text, "case"))
        if self.pick.chance(20):
            found.append(Column(self.reading.count_of(), "I64"))
        found += [self._number(numbers, sign) for sign in SIGNS if numbers and self.pick.chance(28)]
        return found

    def _of_named(self, name: str) -> Column:
        whole = Column(f"${name}", "whole")
        return self.pick.one((whole, *(Column(f"${name}.{prop}", "String") for prop in ("id", "type", "title"))))

    def _number(self, numbers: list[Column], sign: str) -> Column:
        column = self.pick.one(numbers)
        right = self.pick.one(NUMBERS[1:7]) if self.pick.chance(88) else self.pick.one(numbers).text
        whole = column.base in WHOLE and sign != "/" and "." not in right
        return Column(f"({column.text} {sign} {right})", "I64" if whole else "F64", exact=sign not in "/%")

    # -- groups ---------------------------------------------------------------------------------------------------

    def _groups(self) -> list[str]:
        """Keys and aggregates; what else the rows may be put in the order of."""
        for _ in range(self.pick.number(0, 2)):
            self._return(self._column(lambda c: c.is_single) if self.pick.chance(85) else self._column())
        for name in self.pick.some(NAMES, 0, 2):
            drawn = self.reading.calls().draw(name)
            if self.pick.chance(50) and not drawn.many:
                drawn = Drawn(f"{self.pick.one(('min', 'max'))}({drawn.text})", None, drawn.base)
            self._return(Column(drawn.text, drawn.base, drawn.many))
        if self.pick.chance(15):
            self._return(Column(self.reading.case().text, "case"))
        if self.pick.chance(20):
            self._return(Column(f"{self.pick.one(('avg', 'sum', 'max'))}({self.reading.count_of()})", "case"))
        if self.pick.chance(55):
            column = self._column(lambda c: c.is_single)
            distinct = "distinct " * self.pick.chance(40)
            self._return(Column(f"collect({distinct}{column.text})", column.base, True))
        for path in self.reading.paths:
            if self.pick.chance(60):
                self._return(Column(f"${path}.nodes", "String", True))
            if self.pick.chance(60):
                self._return(Column(f"max(${path}.length)", "I64"))
        chosen = [kind for kind in range(8) if self.pick.chance(70 if kind in (3, 4) else 48)] or [0]
        for kind in chosen:
            self._return(self._aggregate(kind))
        return [self._aggregate(self.pick.number(0, 7)).text for _ in range(2)]

    def _aggregate(self, kind: int) -> Column:
        things = list(self.reading.nodes | self.reading.edges | self.reading.maybe)
        numbers = [c for c in self._columns() if c.is_number]
        small = [c for c in numbers if c.base not in ("I64", "U64")]
        distinct = "distinct " if self.pick.chance(25) else ""
        if kind == 0:
            return Column("count(*)", "I64")
        if kind == 1:
            return Column(f"count({distinct}${self.pick.one(things)})", "I64")
        if kind == 2 or (kind <= 4 and not numbers):
            return Column(f"count(distinct {self._column(lambda c: c.is_single).text})", "I64")
        if kind == 3:
            column = self.pick.one(numbers)
            shown = f"{column.text} {self.pick.one(('+', '-', '*'))} 2" if self.pick.chance(25) else column.text
            return Column(f"sum({distinct}{shown})", "I64" if column.base in WHOLE else "F64")
        if kind == 4 and small:
            return Column(f"avg({distinct}{self.pick.one(small).text})", "F64")
        if kind == 5:
            return Column(f"(count(*) {self.pick.one(('+', '*', '-'))} {self.pick.number(1, 3)})", "I64")
        column = self._column(lambda c: c.is_single)
        return Column(f"{'min' if kind == 6 else 'max'}({column.text})", column.base)

    # -- after grouping -------------------------------------------------------------------------------------------

    def _having(self, grouped: bool) -> list[str]:
        if not self.pick.chance(50 if grouped else 20):
            return []
        tests = []
        for name, column in self.chosen:
            if column.is_number and self.pick.chance(10):
                tests.append(f"{name} {self.pick.one(('<', '<=', '>', '>=', '!='))} {self.pick.one(NUMBERS)}")
            elif column.is_single and self.pick.chance(12):
                tests.append(f"{name} is not null")
        if grouped and (not tests or self.pick.chance(30)):
            tests.append(f"count(*) >= {self.pick.number(0, 1)}")
        return [f"  having {{ {'  '.join(tests)} }}"] if tests else []

    def _scores(self, distinct: bool) -> list[str]:
        """Return or order by scores of what is searched; those that the order may use."""
        assert self.searched is not None
        reading, found = self.reading, []
        writers = [
            w for w, share in ((reading.rrf, 75), (reading.nearest, 40), (reading.bm25, 30)) if self.pick.chance(share)
        ]
        for write in writers:
            shown = write(self.searched)
            if distinct or self.pick.chance(60):
                shown = self._return(Column(shown, "F64"))
            found.append(shown)
        for function in ("search", "match_text", "fuzzy"):
            if self.pick.chance(60):
                self._return(Column(reading.match(self.searched, function), "Bool"))
        return self.pick.some(found, 0, len(found)) if len(found) > 1 else found

    def _order(self, lines: list[str], ordered: Sequence[str], grouped: bool, distinct: bool) -> bool:
        """Add an order; whether it needs a limit."""
        if not (ordered and self.pick.chance(60)) and not self.pick.chance(50):
            return False
        keys = list(ordered) if self.pick.chance(70) else []
        keys += [name for name, c in self.chosen if c.is_single]
        if not grouped and not distinct:
            keys += [c.text for c in (self._column(lambda c: c.is_single) for _ in range(2))]
        chosen = [self.pick.one(keys) for _ in range(self.pick.number(1, 2))] if keys else []
        if not grouped and ordered and self.pick.chance(75):
            chosen.insert(0, ordered[0])
        shown = [f"{key}{self.pick.one(('', ' asc', ' desc'))}" for key in dict.fromkeys(chosen)]
        if shown:
            lines.append(f"  order {{ {', '.join(shown)} }}")
        return self.searched is not None and not grouped


def of(variable: str) -> Callable[[str], str]:
    """How the properties of a variable are written."""
    return lambda prop: f"${variable}.{prop}"


def literal(value: Any, base: str = "") -> str:
    """A value as a query writes it; an F32 with as few digits as tell it apart."""
    if base == "F32":
        return str(np.float32(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dt.datetime):
        return f'datetime("{value.isoformat()}")'
    if isinstance(value, dt.date):
        return f'date("{value.isoformat()}")'
    return repr(value)


def _may_lead(value: Any) -> bool:
    """Whether a clause may begin with it: a minus would be taken for that of the clause before."""
    return isinstance(value, bool | str | dt.date) or value >= 0


def _alike(one: Prop, other: Prop) -> bool:
    return (one.is_number and other.is_number) or one.base == other.base


@st.composite
def queries(draw: st.DrawFn, world: World, *, by_interface: bool = False) -> Asked:
    return Reading(Pick(draw), world, by_interface=by_interface).asked()
