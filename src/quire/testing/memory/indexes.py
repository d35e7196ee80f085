"""Index statements: an index is listed, extended and dropped, and makes nothing faster."""

from __future__ import annotations

from dataclasses import dataclass, field

from quire.errors import AlreadyExists, NotFound
from quire.formats import IndexSpec
from quire.testing.memory.files import Index, Version
from quire.testing.memory.view import require


@dataclass
class Indexes:
    """The index statements of one transaction. They apply to the final rows, whatever their order."""

    wanted: dict[str, IndexSpec] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    extended: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What each extended index covers, as fragments."""

    @property
    def changed(self) -> bool:
        return bool(self.wanted or self.dropped or self.extended)

    def want(self, state: Version, spec: IndexSpec, *, replace: bool, table: str) -> None:
        require(state, [spec.column], table)
        stored = any(i.name == spec.name for i in state.indexes) and spec.name not in self.dropped
        if not replace and (spec.name in self.wanted or stored):
            raise AlreadyExists(
                f"Table {table!r} already has an index {spec.name!r}.",
                next="Give another name, or replace=True (`--replace`) to build it anew.",
                table=table,
                index=spec.name,
            )
        self.wanted[spec.name] = spec

    def drop(self, state: Version, name: str, *, table: str) -> None:
        wanted = self.wanted.pop(name, None)
        if any(i.name == name for i in state.indexes):
            self.dropped.add(name)
        elif wanted is None:
            raise NotFound(
                f"Table {table!r} has no index {name!r}.",
                next="`quire table describe` lists its indexes.",
                table=table,
                index=name,
            )

    def short(self, state: Version) -> list[str]:
        """Names of the stored indexes that do not cover every row."""
        everything = {f.key for f in state.fragments}
        leave = {*self.wanted, *self.dropped}
        return [i.name for i in state.indexes if not everything <= set(i.covers) and i.name not in leave]

    def extend(self, state: Version) -> list[str]:
        short = self.short(state)
        self.extended.update(dict.fromkeys(short, tuple(f.key for f in state.fragments)))
        return short

    def moved(self, state: Version) -> None:
        """Keep the extensions that fit a newer state; the others are left for the next time."""
        names = {i.name for i in state.indexes}
        self.extended = {n: c for n, c in self.extended.items() if n in names and state.by_key.keys() >= set(c)}

    def on(self, state: Version) -> Version:
        if not self.changed:
            return state
        covers = tuple(f.key for f in state.fragments)
        kept = [
            Index(i.name, i.kind, i.field, self.extended.get(i.name, i.covers))
            for i in state.indexes
            if i.name not in self.dropped and i.name not in self.wanted
        ]
        new = [Index(s.name, s.kind.upper(), state.number(s.column), covers) for s in self.wanted.values()]
        return state.change(indexes=(*kept, *new))
