"""Random graphs: a schema as text, and its rows as plain dicts.

Nothing here knows how Quire types, stores or finds anything. Values come from small pools, so that equal ones, nulls,
extremes and near misses meet often.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Row = dict[str, Any]

WHOLE = ("I32", "I64", "U32", "U64")
REAL = ("F32", "F64")
WORDS = ("quick", "quack", "fox", "foxes", "slow", "Café", "über", "42", "snail")


@dataclass(frozen=True)
class Prop:
    """A property as the schema declares it."""

    name: str
    base: str
    many: bool = False
    optional: bool = True
    values: tuple[str, ...] = ()
    size: int = 0
    metric: str = ""
    indexed: bool = False

    @property
    def written(self) -> str:
        return f"{self.name}: {self.type}{'?' if self.optional else ''}{self._notes}"

    @property
    def type(self) -> str:
        if self.base == "enum":
            return f"enum({', '.join(self.values)})"
        if self.base == "Vector":
            return f"Vector({self.size})"
        return f"[{self.base}]" if self.many else self.base

    @property
    def _notes(self) -> str:
        return (f' @metric("{self.metric}")' if self.metric else "") + (" @index" if self.indexed else "")

    @property
    def is_number(self) -> bool:
        return not self.many and self.base in (*WHOLE, *REAL)

    @property
    def is_text(self) -> bool:
        return not self.many and self.base in ("String", "enum")

    @property
    def is_single(self) -> bool:
        return not self.many and self.base != "Vector"


@dataclass(frozen=True)
class Kind:
    """A node or edge type."""

    name: str
    props: tuple[Prop, ...]
    key: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    unique: bool = False
    """No two edges of it have the same ends."""
    interface: tuple[str, ...] = ()
    """Properties that it has from the interface Named."""
    members: tuple[str, ...] = ()
    """The node types of an interface."""

    @property
    def is_edge(self) -> bool:
        return bool(self.source)

    @property
    def loops(self) -> bool:
        """Whether it leads from a type to itself."""
        return self.source == self.target

    @property
    def small(self) -> str:
        return self.name[:1].lower() + self.name[1:]

    def may_be(self, name: str) -> bool:
        """Whether one of it may be of a node type."""
        return name in (self.members or (self.name,))

    def prop(self, name: str) -> Prop | None:
        return next((p for p in self.props if p.name == name), None)

    @property
    def written(self) -> str:
        body = [p.written for p in self.props if p.name not in self.interface]
        if self.is_edge:
            rules = ["@unique(src, dst)"] if self.unique else []
            inside = f" {{ {'  '.join([*body, *rules])} }}" if body or rules else ""
            return f"edge {self.name}: {self.source} -> {self.target}{inside}"
        rules = [f"@key({', '.join(self.key)})"] if self.key else []
        implements = " implements Named" if self.interface else ""
        return f"node {self.name}{implements} {{ {'  '.join([*body, *rules])} }}"


@dataclass
class World:
    """A schema and everything in it."""

    kinds: dict[str, Kind]
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """By type: properties, `@id`, and on edges `@src` and `@dst`."""

    @property
    def nodes(self) -> list[Kind]:
        return [k for k in self.kinds.values() if not k.is_edge]

    @property
    def edges(self) -> list[Kind]:
        return [k for k in self.kinds.values() if k.is_edge]

    def edge(self, written: str) -> Kind:
        return next(k for k in self.edges if k.name.lower() == written.lower())

    @property
    def schema(self) -> str:
        shared = next((k for k in self.nodes if k.interface), None)
        lines = [k.written for k in self.kinds.values()]
        if shared is not None:
            props = [p.written for p in shared.props if p.name in shared.interface]
            lines.insert(0, f"interface Named {{ {'  '.join(props)} }}")
        return "\n".join(lines)

    def with_interface(self) -> World:
        """The same where the interface, if there is one, is a kind too: its rows know their type."""
        kinds = [k for k in self.nodes if k.interface]
        if not kinds:
            return self
        props = tuple(p for p in kinds[0].props if p.name in kinds[0].interface)
        named = Kind("Named", props, members=tuple(k.name for k in kinds))
        rows = [
            {p.name: row[p.name] for p in props}
            | {"@id": f"{k.name}:{row['@id']}", "@own": row["@id"], "@type": k.name}
            for k in kinds
            for row in self.rows[k.name]
        ]
        return World(self.kinds | {"Named": named}, self.rows | {"Named": rows})

    def records(self) -> list[dict[str, Any]]:
        """The rows as a load takes them."""
        found: list[dict[str, Any]] = []
        for kind in (*self.nodes, *self.edges):
            for row in self.rows[kind.name]:
                data = {p.name: row[p.name] for p in kind.props if row[p.name] is not None}
                if kind.is_edge:
                    found.append({"edge": kind.name, "id": row["@id"], "from": row["@src"], "to": row["@dst"]})
                else:
                    found.append({"type": kind.name} | ({} if kind.key else {"id": row["@id"]}))
                found[-1]["data"] = data
        return found


def identity(values: Sequence[Any]) -> str:
    """The id that a key makes."""
    texts = [str(v) for v in values]
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def single(value: float) -> float:
    """A number as 32 bits hold it."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def day(year: int) -> dt.date:
    return dt.date(year, 1, 31)


def moment(year: int, micros: int = 0) -> dt.datetime:
    return dt.datetime(year, 6, 1, 12, 30, 0, micros, tzinfo=dt.UTC)


POOLS: dict[str, Sequence[Any]] = {
    "String": ("", "a", "b", "ab", "Zoë", "x y", "it's", "%", "A"),
    "enum": ("red", "green", "dark-blue"),
    "Bool": (True, False),
    "I32": (0, 1, 2, 3, -3, 5, 2**31 - 1),
    "I64": (0, 1, 2, 7, -4, 2**53 + 1, -(2**63)),
    "U32": (0, 1, 2, 3, 2**32 - 1),
    "U64": (0, 1, 2, 5, 2**64 - 1),
    "F32": (0.0, 0.5, -1.5, 2.0, single(0.1)),
    "F64": (0.0, 0.5, -2.5, 3.75, 1.0, 2.0**60),
    "Date": tuple(map(day, (1999, 2010, 2020, 2024))),
    "DateTime": (moment(1969), moment(2010), moment(2010, 7), moment(2120)),
    "Vector": ((1.0, 0.0), (0.0, 2.0), (3.0, 4.0), (-1.0, 0.0), (0.0, 0.0), (6.0, 8.0)),
}
"""Sums of these floats are exact, whatever the order, and vectors have whole lengths: so have all distances."""

_CHOICE = (
    Prop("s", "String"),
    Prop("s2", "String", optional=False),
    Prop("e", "enum", values=POOLS["enum"]),  # type: ignore[arg-type]
    Prop("b", "Bool"),
    Prop("i", "I32"),
    Prop("i2", "I32", optional=False),
    Prop("limit", "I64"),
    Prop("u", "U32"),
    Prop("w", "U64"),
    Prop("f", "F32"),
    Prop("g", "F64"),
    Prop("d", "Date"),
    Prop("m", "DateTime"),
    Prop("ls", "String", many=True),
    Prop("li", "I64", many=True),
)
_KEYS: tuple[tuple[Prop, ...], ...] = (
    (Prop("name", "String", optional=False),),
    (Prop("name", "String", optional=False),),
    (Prop("num", "I64", optional=False),),
    (Prop("one", "String", optional=False), Prop("two", "I32", optional=False)),
    (),
)


class Pick:
    """Draws, in short."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def one(self, options: Sequence[T]) -> T:
        return options[0] if len(options) == 1 else self.draw(st.sampled_from(options))

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Different ones, in the order of the options."""
        count = self.number(least, min(most, len(options)))
        left = list(range(len(options)))
        chosen = [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]
        return [options[n] for n in sorted(chosen)]

    def number(self, least: int, most: int) -> int:
        return least if least >= most else self.draw(st.integers(least, most))

    def chance(self, percent: int) -> bool:
        # Small draws are the plain ones, which is where examples shrink to.
        return self.draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def worlds(draw: st.DrawFn, *, named: bool = False) -> World:
    """`named`: it has the interface, whatever is drawn."""
    pick = Pick(draw)
    names = ("Ant", "Bee", "Cat")[: pick.number(2, 3)]
    kinds: dict[str, Kind] = {}
    for number, name in enumerate(names):
        kinds[name] = _node(pick, name, searched=number == 0)
    if named or pick.chance(30):
        title = Prop("title", "String")
        for name in names[:2]:
            kind = kinds[name]
            kinds[name] = Kind(name, (title, *kind.props), kind.key, interface=("title",))
    ends = [(names[0], names[0]), (names[0], names[1]), (names[1], names[0])]
    ends += [(a, b) for a in names for b in names if (a, b) not in ends]
    for number, name in enumerate(("Sees", "LivesIn", "Eats", "ToldOf")[: pick.number(3, 4)]):
        source, target = ends[0] if number in (0, 3) else pick.one(ends)
        props = tuple(pick.some(_CHOICE[:-2], 2, 5))
        kinds[name] = Kind(name, props, (), source, target, unique=pick.chance(20))
    world = World(kinds)
    for kind in world.nodes:
        world.rows[kind.name] = _nodes(pick, kind, may_lack=kind.name != names[0])
    for kind in world.edges:
        world.rows[kind.name] = _edges(pick, kind, world)
    return world


def _node(pick: Pick, name: str, *, searched: bool) -> Kind:
    often = ("b", "d", "m") if searched else ()
    chosen = {p.name for p in pick.some(_CHOICE, 4, 9)} | {name for name in often if pick.chance(70)}
    props = [p for p in _CHOICE if p.name in chosen]
    if searched or pick.chance(30):
        props.append(Prop("t", "String", indexed=pick.chance(50)))
        for vector in ("v", "v2")[: pick.number(1, 2)]:
            props.append(Prop(vector, "Vector", size=2, metric=pick.one(("", "l2", "cosine", "dot"))))
    key = pick.one(_KEYS)
    return Kind(name, (*key, *props), tuple(p.name for p in key))


def _nodes(pick: Pick, kind: Kind, *, may_lack: bool) -> list[Row]:
    found: dict[str, Row] = {}
    for number in range(0 if may_lack and pick.chance(5) else pick.number(2, 6)):
        row = {p.name: value(pick, p) for p in kind.props}
        key = {
            "name": "abcdefg"[number],
            "num": (0, 1, -1, 2**40, 3, 4)[number],
            "one": "xy"[number % 2],
            "two": number,
        }
        row |= {name: key[name] for name in kind.key}
        row["@id"] = identity([row[name] for name in kind.key]) if kind.key else f"{kind.name}-{number}"
        found[row["@id"]] = row
    return list(found.values())


def _edges(pick: Pick, kind: Kind, world: World) -> list[Row]:
    sources, targets = (world.rows[end] for end in (kind.source, kind.target))
    found: list[Row] = []
    for number in range(pick.number(5, 11) if sources and targets else 0):
        row: Row = {p.name: value(pick, p) for p in kind.props}
        row["@src"], row["@dst"] = pick.one(sources)["@id"], pick.one(targets)["@id"]
        row["@id"] = f"{kind.small}{number}"
        taken = {(r["@src"], r["@dst"]) for r in found}
        if not kind.unique or (row["@src"], row["@dst"]) not in taken:
            found.append(row)
    return found


def value(pick: Pick, prop: Prop) -> Any:
    """A value of a property, null now and then where it may be."""
    if prop.optional and pick.chance(20):
        return None
    if prop.base == "Vector":
        return list(pick.one(POOLS["Vector"]))
    if prop.many:
        return [pick.one(POOLS[prop.base]) for _ in range(pick.number(0, 3))]
    if prop.name == "t":
        return text(pick)
    return pick.one(POOLS[prop.base])


def text(pick: Pick) -> str:
    return pick.one((" ", ", ", "-")).join(pick.one(WORDS) for _ in range(pick.number(0, 5)))
