"""Columns of a table that both sides have changed: what they come to.

Columns of the base are known by their ids, new ones by their names: two branches may give one id to different columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.lake.merge.conflicts import Side
from quire.lake.merge.touched import nullable

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import Work

Known = tuple[Mapping[str, tuple[int, Any]], "pa.Schema"]
"""Columns of a state: ids and types by name, and the schema."""
Where = Literal["base", "ours", "theirs"]
SIDES: tuple[Side, Side] = ("ours", "theirs")


@dataclass(frozen=True)
class ColumnsOfBoth:
    """What the columns come to."""

    schema: pa.Schema
    names: Mapping[Where, Mapping[str, str]]
    """The names that they have in a state, by their names afterwards, where it has them."""
    dropped: Mapping[Side, tuple[str, ...]]
    """Columns of the base that one side alone has dropped."""
    kept: Mapping[Side, Mapping[str, str]]
    """Columns of the base that a side still has: their names there, by their names in the base."""

    def added(self, side: Side) -> list[str]:
        """Columns that this side has added, by their names afterwards."""
        return [n for n in self.names[side] if n not in self.names["base"]]

    @property
    def added_by_both(self) -> list[str]:
        return [n for n in self.added("ours") if n in self.names["theirs"]]

    def alone(self, side: Side) -> list[str]:
        """Columns that this side has added, and the other has not."""
        return [n for n in self.added(side) if n not in self.added_by_both]

    def fitted(self, rows: pa.Table, where: Where) -> pa.Table:
        """Rows of a state in all the columns, with nulls in those that it has not."""
        import pyarrow as pa

        names = self.names[where]
        arrays = [
            rows.column(names[f.name]) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in self.schema
        ]
        return pa.table(arrays, schema=nullable(self.schema))

    def change(self, work: Work, side: Side) -> None:
        """Give the table of one side these columns."""
        import pyarrow as pa

        other: Side = "theirs" if side == "ours" else "ours"
        names = self.names[side]
        if self.dropped[other]:
            work.columns.drop([self.name_on(side, n) for n in self.dropped[other]])
        renamed = {old: new for new, old in names.items() if old != new}
        if renamed.keys() & set(renamed.values()):  # two columns have changed their names with each other
            for old in list(renamed):
                work.columns.rename(old, f"{old}__renamed")
                renamed[f"{old}__renamed"] = renamed.pop(old)
        for old, new in renamed.items():
            work.columns.rename(old, new)
        if self.alone(other):
            work.columns.add(pa.schema([self.schema.field(n) for n in self.alone(other)]))

    def name_on(self, side: Side, name: str) -> str:
        """The name that a column of the base has on a side."""
        return self.kept[side][name]


def columns_of_both(base: Known, ours: Known, theirs: Known) -> ColumnsOfBoth | tuple[str, ...]:
    """What the columns of two sides come to, or the names of those that cannot be merged."""
    import pyarrow as pa

    states: dict[Side, Known] = {"ours": ours, "theirs": theirs}
    ids = {side: {id: name for name, (id, _) in known.items()} for side, (known, _) in states.items()}
    kept = {s: {n: ids[s][id] for n, (id, _) in base[0].items() if id in ids[s]} for s in SIDES}
    wrong: list[str] = []
    names: dict[Where, dict[str, str]] = {"base": {}, "ours": {}, "theirs": {}}
    for name, (_, kind) in base[0].items():
        there = {side: kept[side][name] for side in SIDES if name in kept[side]}
        retyped = any(states[side][0][found][1] != kind for side, found in there.items())
        replaced = any(name in states[side][0] for side in SIDES if side not in there)
        renamed = {found for found in there.values() if found != name}
        if retyped or replaced or len(renamed) > 1 or (renamed and len(there) == 1):
            wrong.append(name)
        elif len(there) == 2:
            final = next(iter(renamed), name)
            names["base"][final] = name
            names["ours"][final], names["theirs"][final] = there["ours"], there["theirs"]
    fields: dict[str, pa.Field] = {}
    for side, (_, schema) in states.items():
        finals = {was: new for new, was in names[side].items()}
        old = set(kept[side].values())
        for field in schema:
            if field.name in old:
                if field.name in finals:
                    fields.setdefault(finals[field.name], field.with_name(finals[field.name]))
                continue
            found = fields.get(field.name)
            clash = found is not None and (field.name in names["base"] or found.type != field.type)
            if clash or not field.nullable or isinstance(field.type, pa.BaseExtensionType):
                wrong.append(field.name)
            names[side][field.name] = field.name
            fields.setdefault(field.name, field)
    # A new name of a column may also be that of a new column, seen only after both sides.
    wrong += [n for n in names["base"] for side in SIDES if _is_new(states[side], kept[side], n)]
    if wrong:
        return tuple(dict.fromkeys(wrong))
    dropped = {s: tuple(n for n in base[0] if n not in kept[s] and n in kept[o]) for s, o in (SIDES, SIDES[::-1])}
    return ColumnsOfBoth(pa.schema(list(fields.values())), names, dropped, kept)


def _is_new(state: Known, kept: Mapping[str, str], name: str) -> bool:
    return name in state[0] and name not in kept.values()
