"""A three-way merge of tables by plain loops over dicts, written from the rules of merging alone.

It knows no lake, no pin and no file. A table is a dict of rows by key, or by the identity of the row where there is no
key; a column is a number with a name and a type. What the rules leave open is *optional*: a conflict that may be
reported, and what becomes of the row where it is not. Everything else has one right answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[int, Any]
"""Values by the number of the column."""


class _Word:
    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNKNOWN = _Word("UNKNOWN")
"""The base of what was in conflict between several bases: equal to nothing."""


@dataclass(frozen=True)
class Table:
    id: int
    name: str
    key: tuple[int, ...]
    columns: Mapping[int, tuple[str, str]]
    """Name and type by the number of the column."""
    rows: Mapping[Any, Any]
    """By key, or by identity."""
    stamp: Any = None
    """Another one after every change that is not upkeep."""
    overwrites: frozenset[int] = frozenset()
    tended: int = 0
    """Another one after every upkeep."""
    joined: bool = False
    """Whether it is a base made of several: rows without a key may then be known by nothing."""
    mixed: bool = False
    """Whether it is such a base, and these had different columns."""
    handed_on: bool = False
    """Whether upkeep of it came by a merge: then the log of the branch does not say that it was only upkeep."""

    def named(self, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {name: plain(row.get(c)) for c, (name, _) in self.columns.items()}

    def counted(self) -> Counter[Any]:
        return Counter(frozen(self.named(row)) for row in self.rows.values())


Tables = Mapping[int, Table]


def plain(value: Any) -> Any:
    """A value by which equality is typed: 1 is not 1.0 or true, and NaN is NaN."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(plain, value))
    return value


def frozen(row: Any) -> Any:
    return row if row is None or row is UNKNOWN else tuple(sorted((k, plain(v)) for k, v in row.items()))


@dataclass
class Found:
    """One conflict, as the rules see it."""

    table: int
    kinds: frozenset[str]
    key: Any = None
    """None: about the whole table."""
    must: frozenset[int] = frozenset()
    """Columns that are in conflict for certain, and those that may be."""
    may: frozenset[int] = frozenset()
    rows: tuple[Any, Any, Any] | None = None
    optional: bool = False
    otherwise: Any = None
    """Where it is optional and was not reported: the row then."""


@dataclass
class Verdict:
    """What becomes of one table: `table` is the merged one as far as nothing is in conflict."""

    id: int
    base: Table | None
    ours: Table | None
    theirs: Table | None
    table: Table | None
    found: list[Found] = field(default_factory=list)
    counts: dict[Any, tuple[int, int, int]] = field(default_factory=dict)
    """Of a table without a key, values of which either side changed the number: base, ours, theirs."""
    places: bool = True


@dataclass(frozen=True)
class How:
    granularity: str = "cell"
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)


# -- all tables -------------------------------------------------------------------------------------------------------


def merge(base: Tables, ours: Tables, theirs: Tables, how: How) -> dict[int, Verdict]:
    """What becomes of every table."""
    verdicts = {}
    for id in sorted({*base, *ours, *theirs}):
        verdict = one(id, base.get(id), ours.get(id), theirs.get(id), how)
        if verdict is not None:
            verdicts[id] = verdict
    names: dict[str, Verdict] = {}
    for verdict in verdicts.values():
        if verdict.table is None:
            continue
        holder = names.setdefault(verdict.table.name, verdict)
        if holder is not verdict:
            both = {holder.id, verdict.id}
            for id in both:
                verdicts[id].found.append(Found(id, frozenset({"name"}), optional=True, otherwise=both))
    return verdicts


def one(id: int, b: Table | None, o: Table | None, t: Table | None, how: How) -> Verdict | None:
    verdict = Verdict(id, b, o, t, o)
    if o is None and t is None:
        return None
    if b is None:
        if o is None:
            verdict.table = t
        elif t is not None and o.stamp != t.stamp:
            return met(verdict, how)
        return verdict
    if o is None or t is None:
        left = o or t
        assert left is not None
        if left.stamp == b.stamp and left.handed_on:
            verdict.found.append(Found(id, frozenset({"dropped"}), optional=True))
        if left.stamp != b.stamp:
            same = left.name == b.name and left.columns == b.columns and contents(left) == contents(b)
            verdict.found.append(Found(id, frozenset({"dropped"}), optional=same))
        verdict.table = None
        return verdict
    if o.stamp in (t.stamp, b.stamp) or t.stamp == b.stamp:
        verdict.table = t if o.stamp == b.stamp else o
        if o.stamp == t.stamp and o.tended != t.tended and not o.key:
            keyless(verdict, b, o, t, o)  # by number it cannot be told that both removed the same rows
        if o.handed_on or t.handed_on or b.joined:
            verdict.found.append(Found(id, frozenset({"update-update", "count", "schema"}), optional=True))
        return verdict
    return both_changed(verdict, b, o, t, how)


def contents(table: Table) -> Any:
    if table.key:
        return {k: frozen(v) for k, v in table.rows.items()}
    return table.counted()


def met(verdict: Verdict, how: How) -> Verdict:
    """One table that came to both sides, and to no base: as if it had been empty."""
    o = verdict.ours
    assert o is not None
    b = replace(o, rows={}, overwrites=frozenset())
    verdict.found.append(Found(verdict.id, frozenset({"schema"}), optional=True))
    assert verdict.theirs is not None
    return both_changed(verdict, b, o, verdict.theirs, how)


def both_changed(verdict: Verdict, b: Table, o: Table, t: Table, how: How) -> Verdict:
    id = verdict.id
    name = o.name
    if o.name == b.name or o.name == t.name:
        name = t.name
    elif t.name != b.name:
        verdict.found.append(Found(id, frozenset({"name"})))
    renamed_only = [s for s in (o, t) if s.columns == b.columns and contents(s) == contents(b)]
    schemas = [s.columns for s in (b, o, t)]
    if how.granularity == "table":
        verdict.found.append(Found(id, frozenset({"update-update"}), optional=bool(renamed_only)))
    columns, t = merged_columns(verdict, b, o, t)
    if columns is None:
        verdict.found.append(Found(id, frozenset({"schema", "dropped"})))
        verdict.table = replace(o, name=name)
        return verdict
    changed = sum(s != schemas[0] for s in schemas[1:])
    anew = any(s.columns != b.columns and s.overwrites - b.overwrites for s in (o, t))
    if b.mixed or (changed and (b.joined or anew or not o.key)):
        # Columns are not merged over several bases, nor by value without a key. One that was renamed and then written
        # anew with all others is known by nothing.
        verdict.found.append(Found(id, frozenset({"schema"}), optional=True))
    shell = replace(o, name=name, columns=columns, overwrites=o.overwrites | t.overwrites)
    if not o.key:
        if b.joined:
            verdict.found.append(Found(id, frozenset({"count"}), optional=True))
        overwrote = [bool(s.overwrites - b.overwrites) for s in (o, t)]
        if any(overwrote):
            verdict.found.append(
                Found(
                    id,
                    frozenset({"count", "schema", "update-update"}),
                    optional=bool(renamed_only) or o.handed_on or t.handed_on,
                )
            )
        verdict.table = keyless(verdict, b, o, t, shell)
    else:
        verdict.table = keyed(verdict, b, o, t, shell, how)
    return verdict


def merged_columns(verdict: Verdict, b: Table, o: Table, t: Table) -> tuple[dict[int, tuple[str, str]] | None, Table]:
    """The columns of the merged table, and theirs with its new columns numbered as ours; None: a conflict."""
    ours_new = {n: c for c, (n, _) in o.columns.items() if c not in b.columns}
    same = {c: ours_new[n] for c, (n, _) in t.columns.items() if c not in b.columns and n in ours_new}
    for c, here in same.items():
        if t.columns[c][1] != o.columns[here][1]:
            return None, t
    if same:
        t = replace(
            t,
            columns={same.get(c, c): n for c, n in t.columns.items()},
            rows={k: {same.get(c, c): v for c, v in row.items()} for k, row in t.rows.items()},
        )
    columns: dict[int, tuple[str, str]] = {}
    for c in sorted({*b.columns, *o.columns, *t.columns}):
        was, mine, its = (s.columns.get(c) for s in (b, o, t))
        if was is None:
            found = mine or its
            assert found is not None
            if mine and its and mine != its:
                return None, t
            columns[c] = found
        elif mine is None or its is None:
            left, there = (mine, o) if its is None else (its, t)
            if left is None:
                continue
            if left != was:
                return None, t
            changed, added = cells_changed(b, there, c)
            if changed:
                return None, t
            if added:
                verdict.found.append(Found(verdict.id, frozenset({"schema", "dropped"}), optional=True))
        elif was != mine and was != its and mine != its:
            return None, t
        else:
            columns[c] = its if mine == was else mine
    if len({n for n, _ in columns.values()}) != len(columns):
        return None, t
    return columns, t


def cells_changed(b: Table, s: Table, column: int) -> tuple[bool, bool]:
    """Whether a side changed cells of a column, and whether it has new rows with a value there."""
    if not s.key:
        came = any(r.get(column) is not None for k, r in s.rows.items() if k not in b.rows)
        return False, came
    both = [(b.rows[k], r) for k, r in s.rows.items() if k in b.rows]
    changed = any(was is UNKNOWN or not same_value(was.get(column), r.get(column)) for was, r in both)
    return changed, any(r.get(column) is not None for k, r in s.rows.items() if k not in b.rows)


# -- rows with a key --------------------------------------------------------------------------------------------------


def same_value(one: Any, other: Any) -> bool:
    if one is UNKNOWN or other is UNKNOWN:
        return False
    return bool(plain(one) == plain(other))


def keyed(verdict: Verdict, b: Table, o: Table, t: Table, shell: Table, how: How) -> Table:
    columns = [c for c in shell.columns if c not in shell.key]
    names = {n: c for c, (n, _) in shell.columns.items()}
    units: list[list[int]] = [[c] for c in columns]
    if how.granularity == "row":
        # What one side alone has added is no change of what the other knows of a row.
        alone = [c for c in columns if c not in b.columns and (c in o.columns) != (c in t.columns)]
        units = [[c for c in columns if c not in alone], *([c] for c in alone)]
    else:
        for group in how.groups.get(o.name, ()):
            together = [names[n] for n in group if n in names]
            units = [u for u in units if u[0] not in together] + [together]
    rows: dict[Any, Row] = {}
    for key in {**b.rows, **o.rows, **t.rows}:
        row = merged_row(verdict, key, b.rows.get(key), o.rows.get(key), t.rows.get(key), (b, shell), units)
        if row is not None:
            rows[key] = row
    return replace(shell, rows=rows, stamp=object())


def merged_row(
    verdict: Verdict,
    key: Any,
    b: Any,
    o: Row | None,
    t: Row | None,
    tables: tuple[Table, Table],
    units: list[list[int]],
) -> Row | None:
    before, shell = tables
    cells = [c for unit in units for c in unit]

    def same(x: Any, y: Any) -> bool:
        if x is UNKNOWN or y is UNKNOWN or x is None or y is None:
            return x is None and y is None
        return all(same_value(x.get(c), y.get(c)) for c in cells)

    def found(kinds: str, must: Iterable[int] = (), may: Iterable[int] | None = None, **more: Any) -> None:
        every = frozenset(cells) if may is None else frozenset(may) | frozenset(must)
        one = Found(verdict.id, frozenset(kinds.split()), key, frozenset(must), every, (b, o, t), **more)
        verdict.found.append(one)

    if same(o, t):
        return o
    if same(o, b):
        return t
    if same(t, b):
        return o
    if o is None or t is None:
        left = o or t
        assert left is not None
        if b is UNKNOWN:
            found("delete-update insert-insert")
        else:
            added = {c for c in shell.columns if c not in before.columns}
            only_added = all(same_value(b.get(c), left.get(c)) for c in cells if c not in added)
            found("delete-update", may=cells, optional=only_added, otherwise=None)
        return o
    merged: Row = {c: o[c] for c in shell.key}
    must: set[int] = set()
    may: set[int] = set()
    for unit in units:
        was = {c: UNKNOWN if b is UNKNOWN else (b or {}).get(c) for c in unit}
        mine, its = ({c: side.get(c) for c in unit} for side in (o, t))

        def alike(x: Row, y: Row, unit: list[int] = unit) -> bool:
            return all(same_value(x[c], y[c]) for c in unit)

        # A row that nobody had before has no base value: two inserts agree, or they do not.
        # The columns that one side added, the other has left alone.
        old = b is not None or not any(c in before.columns for c in unit)
        if alike(mine, its) or (old and alike(its, was)):
            merged.update(mine)
        elif old and alike(mine, was):
            merged.update(its)
        else:
            merged.update(mine)
            must |= {c for c in unit if not same_value(mine[c], its[c])}
            may |= set(unit)
    if must:
        found(
            "insert-insert" if b is None else "update-update" if b is not UNKNOWN else "update-update insert-insert",
            must,
            may,
        )
    return merged


# -- rows without a key -----------------------------------------------------------------------------------------------


def keyless(verdict: Verdict, b: Table, o: Table, t: Table, shell: Table) -> Table:
    """By identity, where the number of every value is also that of the multisets; else by number."""
    b, o, t = (in_columns(one, shell, (o, t)) for one in (b, o, t))

    def value(row: Row) -> Any:
        return frozen({c: row.get(c) for c in shell.columns})

    def count(table: Table) -> Counter[Any]:
        return Counter(value(row) for row in table.rows.values())

    was, mine, its = count(b), count(o), count(t)
    by_place: dict[Any, Row] = {k: r for k, r in b.rows.items() if k in o.rows and k in t.rows}
    by_place |= {k: r for s in (o, t) for k, r in s.rows.items() if k not in b.rows}
    placed = Counter(value(row) for row in by_place.values())
    for v in {**was, **mine, **its}:
        n = was[v], mine[v], its[v]
        verdict.counts[v] = n
        by_value = n[1] + n[2] - n[0]
        lowered = n[1] != n[0] and n[2] != n[0] and min(n[1], n[2]) < n[0]
        if lowered:
            # Rows that both removed, and none else: the same rows are gone, by identity.
            verdict.found.append(Found(verdict.id, frozenset({"count"}), v, optional=True, otherwise=placed[v]))
        elif by_value != placed[v]:
            verdict.places = False
    rows = {k: {c: r.get(c) for c in shell.columns} for k, r in by_place.items()}
    return replace(shell, rows=rows, stamp=object())


def in_columns(table: Table, shell: Table, sides: Sequence[Table]) -> Table:
    """Its rows with the columns that one side has added, as they are there."""
    known = {c: next((s for s in sides if c in s.columns), table) for c in shell.columns if c not in table.columns}
    if not known:
        return table
    rows = {k: {**row, **{c: s.rows.get(k, {}).get(c) for c, s in known.items()}} for k, row in table.rows.items()}
    return replace(table, rows=rows)


# -- several bases ----------------------------------------------------------------------------------------------------


def base_of(tables: Callable[[int], Tables], bases: Callable[..., list[int]], several: Sequence[int]) -> Tables | None:
    """The one base that several bases come to: their own merge, in which what is in conflict has no value.

    None where whole tables are in conflict between them.
    """
    result, seen = tables(several[0]), {several[0]}
    for commit in several[1:]:
        below = base_of(tables, bases, bases(seen, {commit}))
        if below is None:
            return None
        verdicts = merge(below, result, tables(commit), How())
        made: dict[int, Table] = {}
        for id, verdict in verdicts.items():
            if verdict.table is None or any(f.key is None or f.optional for f in verdict.found):
                if verdict.found:
                    return None
                continue
            rows = dict(verdict.table.rows)
            for f in verdict.found:
                if not verdict.table.key:
                    return None
                if f.key in rows and f.must:
                    rows[f.key] = {c: UNKNOWN if c in f.must else v for c, v in rows[f.key].items()}
                else:
                    rows[f.key] = UNKNOWN
            states = [s for s in (below.get(id), result.get(id), tables(commit).get(id)) if s is not None]
            mixed = any(s.mixed or s.columns != states[0].columns for s in states)
            made[id] = replace(verdict.table, rows=rows, mixed=mixed)
        result, seen = made, seen | {commit}
    if len(several) > 1:
        result = {i: replace(t, joined=True) for i, t in result.items()}
    return result
