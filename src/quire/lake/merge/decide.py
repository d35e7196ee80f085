"""What becomes of each table: decided by the pins of the three states, and only then by rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, get_args

import msgspec

from quire.errors import InvalidInput, shown
from quire.formats import Mergeable
from quire.lake.branch.lineage import line_to, vector_of
from quire.lake.commit import validators
from quire.lake.merge.changes_since import ChangesSince
from quire.lake.merge.columns import Columns, columns_of
from quire.lake.merge.columns_of_both import ColumnsOfBoth
from quire.lake.merge.conflicts import Op
from quire.lake.merge.heads import Heads, Tip
from quire.lake.merge.keyed_columns_of_both import merge_in_columns_of_both
from quire.lake.merge.keyed_rows import KeyedRows, merge_keyed, merge_over_several
from quire.lake.merge.multiset import merge_multisets
from quire.lake.merge.row_commits import last_commits
from quire.lake.merge.several_bases import Ancestry, same
from quire.lake.merge.tables import TableMerge, dispute, same_pin
from quire.ledger import Pin, Point, TableInfo, TableState
from quire.ledger.version_vector import contains
from quire.store import run_parallel

Granularity = Literal["cell", "row", "table"]
LEAVES_IN_PLACE = frozenset({"append", "insert", "upsert", "update", "delete", "rename", "index"})
"""What moves no row that it leaves as it was."""
LEAVES_ROWS = LEAVES_IN_PLACE | {"compact"}
"""What leaves every row that it does not name, wherever that lies then."""
States = tuple[TableState | None, TableState | None, TableState | None]


@dataclass
class Options:
    """How rows are compared."""

    granularity: Mapping[str, Granularity] = field(default_factory=dict)
    """By table; "*" for every other."""
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """By table: columns that go together, so that no row has one of one side and one of the other."""

    @staticmethod
    def of(granularity: Any, groups: Any) -> Options:
        """As a caller gives them."""
        wanted: dict[Any, Any] = {"*": granularity} if isinstance(granularity, str) else dict(granularity)
        for table, one in wanted.items():
            if not isinstance(table, str) or one not in get_args(Granularity):
                raise InvalidInput(
                    f"granularity[{shown(table)}]={shown(one)} is no way to compare rows.",
                    next='Use "cell", "row" or "table".',
                )
        for table, some in (groups or {}).items():
            if isinstance(some, str) or not all(_are_columns(group) for group in some):
                raise InvalidInput(
                    f"groups[{shown(table)}]={shown(some)} does not name groups of columns.",
                    next='Give lists of names, such as groups={"documents": [("text", "embedding")]}.',
                )
        return Options(wanted, dict(groups or {}))

    def by(self, table: str) -> Granularity:
        """How rows of a table are compared."""
        return self.granularity.get(table, self.granularity.get("*", "cell"))


def _are_columns(group: Any) -> bool:
    return not isinstance(group, str) and isinstance(group, Iterable) and all(isinstance(n, str) for n in group)


class Deciding:
    """Decides table after table. What was decided before, about the same three states, is kept."""

    def __init__(
        self, heads: Heads, options: Options, known: Mapping[str, tuple[Any, TableMerge]] | None = None
    ) -> None:
        self.heads, self.options, self.known = heads, options, known or {}
        self.made: dict[str, tuple[Any, TableMerge]] = {}

    def all(self) -> list[TableMerge]:
        """Every table of either side, ours first and then by name."""
        heads = self.heads
        ids = sorted(heads.ours.state.tables.keys() | heads.theirs.state.tables.keys())
        found = run_parallel([partial(self._one, table) for table in ids])
        tables = [t for t in found if t is not None]
        self._names(tables)
        return sorted(tables, key=lambda t: t.name)

    def _one(self, table: str) -> TableMerge | None:
        ours, theirs = (tip.state.tables.get(table) for tip in (self.heads.ours, self.heads.theirs))
        bases = [state.tables.get(table) for state in self.heads.states]
        seen = tuple(None if s is None else (s.pin.location, s.pin.version, s.info) for s in (*bases, ours, theirs))
        kept = self.known.get(table)
        if kept is not None and kept[0] == seen:
            made: TableMerge | None = kept[1]
        else:
            made = self._decided(table, self.heads.ancestry(table), ours, theirs)
        if made is not None:
            made.ours = ours  # the counter of its version may have moved
            self.made[table] = seen, made
        return made

    # -- one table --------------------------------------------------------------------------------------------

    def _decided(
        self, table: str, ancestry: Ancestry, ours: TableState | None, theirs: TableState | None
    ) -> TableMerge | None:
        base = ancestry.state
        if ancestry.parts:
            # Each of the bases has another state; for what is recorded beside rows, the one that a side still has.
            base = next((b for b in ancestry.states if same(b, ours) or same(b, theirs)), ancestry.states[0])
        states = base, ours, theirs
        made = TableMerge(table, base, ours, theirs, "keep", None if ours is None else ours.info)
        if ours is None or theirs is None:
            return self._one_sided(made, ancestry, states)
        if base is None:
            return self._met(made, states)
        if not self._describe(made, base, ours, theirs):
            return made
        if same_pin(ours, theirs):
            return made
        if not ancestry.parts and same_pin(theirs, base):
            return made
        if not ancestry.parts and same_pin(ours, base):
            made.action = "adopt"
            return made
        return self._both_changed(made, ancestry, base, ours, theirs)

    def _one_sided(self, made: TableMerge, ancestry: Ancestry, states: States) -> TableMerge | None:
        """A table that one side does not have: never had, or has dropped."""
        base, ours, theirs = states
        if base is None:
            if theirs is not None:
                made.action, made.info = "create", theirs.info
            return made
        if ours is None and theirs is None:
            return None
        left = ours or theirs
        assert left is not None
        mine = ours is not None
        if left.info != base.info or (not same_pin(left, base) and not self._only_upkeep(mine, ancestry, states)):
            made.disputes.append(dispute("dropped", states, ("update", "drop") if mine else ("drop", "update")))
        elif mine:
            made.action, made.info = "drop", None
        return made

    def _met(self, made: TableMerge, states: States) -> TableMerge:
        """A table that both have and their base has not."""
        _, ours, theirs = states
        assert ours is not None
        assert theirs is not None
        if not (ours.info == theirs.info and (same_pin(ours, theirs) or self._tended_alike(ours.info.id))):
            made.disputes.append(dispute("schema", states, ("create", "create")))
        return made

    def _describe(self, made: TableMerge, base: TableState, ours: TableState, theirs: TableState) -> bool:
        """Merge what is recorded of a table beside its rows; False when that is a conflict about all of it."""
        states = base, ours, theirs
        values: dict[str, Any] = {}
        for name in ("key", "stable_row_ids", "validator", "rules"):
            was, mine, its = (getattr(s.info, name) for s in states)
            if mine != was and its != was and mine != its:
                made.disputes.append(dispute("schema", states, ("schema", "schema")))
                return False
            values[name] = its if mine == was else mine
        name = ours.info.name
        if ours.info.name == base.info.name:
            name = theirs.info.name
        elif theirs.info.name not in (base.info.name, ours.info.name):
            made.disputes.append(dispute("name", states, ("rename", "rename")))
        made.info = msgspec.structs.replace(ours.info, name=name, **values)
        return True

    def _both_changed(
        self, made: TableMerge, ancestry: Ancestry, base: TableState, ours: TableState, theirs: TableState
    ) -> TableMerge:
        states = base, ours, theirs
        name = made.name
        format = self.heads.core.format(ours.pin.format)
        schemas = run_parallel([partial(_schema, format, s.pin, name) for s in states])
        whole = self.options.by(base.info.name) == "table" or self.options.by(ours.info.name) == "table"
        tended = [self._only_upkeep(mine, ancestry, states, whole=whole) for mine in (True, False)]
        if tended[1]:
            made.note = "only compacted or indexed there"
            made.indexes = "theirs" if self._has_new_indexes(theirs, base, ours) else None
            return made
        if tended[0] and (
            not self._fits(base, ours, theirs) or self._names_of_indexes(ours) <= self._names_of_indexes(theirs)
        ):
            made.action, made.note = "adopt", "only compacted or indexed here"
            made.indexes = "ours" if self._has_new_indexes(ours, base, theirs) else None
            return made
        if (whole or not all(self._holds(s, base) for s in (ours, theirs))) and self._tended_alike(ours.info.id):
            return made
        if whole and not tended[0]:
            made.disputes.append(dispute("update-update", states, ("update", "update")))
            return made
        key = ours.info.key
        columns, wrong = columns_of(format, base, ours, theirs)
        several = bool(ancestry.parts) and not (
            columns is None and all(_schema(format, s.pin, name).equals(schemas[1]) for s in ancestry.every_state)
        )
        unplaced = isinstance(columns, ColumnsOfBoth) and not key
        if wrong or several or unplaced or not (base.info.key == key == theirs.info.key):
            made.disputes.append(dispute("schema", states, ("schema", "schema"), wrong))
            return made
        if isinstance(columns, Columns | None) and not key:
            return self._multiset(made, format, ancestry, base, ours, theirs, columns)
        made.action = "merge"
        groups = self.options.groups.get(name) or _own_groups(made.info)
        if self.options.by(name) == "row":
            schema = schemas[1] if columns is None else columns.schema
            groups = [[n for n in schema.names if n not in key]]
        if ancestry.parts:
            made.rows = merge_over_several(format, ancestry, ours, theirs, groups, name)
        else:
            found: KeyedRows | tuple[str, ...]
            if isinstance(columns, ColumnsOfBoth):
                found = merge_in_columns_of_both(format, base, ours, theirs, groups, name, columns)
                made.note = "both changed columns: rows are compared by value, and written where one takes them over"
            else:
                apart = self._keys_apart(made.id, key)
                found = merge_keyed(format, base, ours, theirs, groups, name, columns, apart=apart)
            if isinstance(found, tuple):
                made.action = "keep"
                made.disputes.append(dispute("schema", states, ("schema", "schema"), found))
            else:
                made.rows = found
        if isinstance(made.rows, KeyedRows):
            made.rows.keyed.last_commits = (
                partial(self._last_commits, True, format, ours, key),
                partial(self._last_commits, False, format, theirs, key),
            )
        return made

    def _last_commits(self, mine: bool, format: Any, state: TableState, key: Sequence[str], keys: Any) -> list[str]:
        """For each key the last commit of a side that touched its row."""
        return last_commits(format, self._done[0 if mine else 1], state, key, keys)

    def _multiset(
        self,
        made: TableMerge,
        format: Any,
        ancestry: Ancestry,
        base: TableState,
        ours: TableState,
        theirs: TableState,
        columns: Columns | None,
    ) -> TableMerge:
        """Rows without a key. Where one side has replaced all of them, nobody knows which were meant to stay."""
        replaced = [i for i in (0, 1) if self._is_overwritten(i == 0, base, ours, theirs)]
        known = [state for state in ancestry.states if state is not None]
        kept = [
            all(self._holds(side, b) for b in known) or self._kept_in_place(mine, made.id)
            for mine, side in ((True, ours), (False, theirs))
        ]
        alike = columns is None
        found = (
            None
            if replaced
            else merge_multisets(
                format,
                ancestry,
                ours,
                theirs,
                made.name,
                (kept[0], kept[1]),
                left=(self._did_only(LEAVES_ROWS, True, made.id), self._did_only(LEAVES_ROWS, False, made.id)),
                by_value=alike,
            )
        )
        if columns is not None and not replaced and (found is None or not found.by_place_onto(columns.side)):
            made.disputes.append(dispute("schema", (base, ours, theirs), ("schema", "schema")))
            return made
        if found is None:
            ops: list[Op] = ["overwrite" if i in replaced else "update" for i in range(2)]
            made.disputes.append(dispute("count", (base, ours, theirs), (ops[0], ops[1])))
            return made
        made.action, made.rows = "merge", found
        return made

    def _fits(self, base: TableState, ours: TableState, theirs: TableState) -> bool:
        """Whether what they did can be done on our state, so that indexes that we made since stay."""
        format: Any = self.heads.core.format(ours.pin.format)
        if not isinstance(format, Mergeable):
            return False
        before, after = (dict(format.fields(s.pin)) for s in (ours, theirs))
        return before == after and not self._is_overwritten(False, base, ours, theirs)

    def _names_of_indexes(self, state: TableState) -> set[str]:
        format = self.heads.core.format(state.pin.format)
        return {str(index["name"]) for index in format.open(state.pin).indexes()}

    def _has_new_indexes(self, state: TableState, base: TableState, other: TableState) -> bool:
        if not isinstance(self.heads.core.format(state.pin.format), Mergeable):
            return False
        return bool(self._names_of_indexes(state) - self._names_of_indexes(base) - self._names_of_indexes(other))

    # -- what the log says ------------------------------------------------------------------------------------

    def _only_upkeep(self, mine: bool, ancestry: Ancestry, states: States, *, whole: bool = True) -> bool:
        """Whether a side has only compacted or indexed a table since the base, as far as the log can say.

        Where the base is itself a merge, there is no state of it that a side could have. When a table is not looked at
        as a `whole`, one that has the files of the base still, and no others, is told without the log.
        """
        base = states[0]
        if ancestry.parts:
            return False
        side = states[1 if mine else 2]
        assert base is not None
        assert side is not None
        format: Any = self.heads.core.format(side.pin.format)
        if not whole and isinstance(format, Mergeable) and self._holds(side, base):
            # All its files are there: whether only indexes came is told by what is stored.
            known = format.fields(side.pin) == format.fields(base.pin)
            opened: Any = format
            known = known and opened.open(side.pin).schema == opened.open(base.pin).schema
            return known and self._holds(base, side)
        return self._done[0 if mine else 1].only_upkeep(base.info.id, base.pin)

    def _holds(self, state: TableState, other: TableState) -> bool:
        """Whether a state has every file of another one, and no row of these is back."""
        format: Any = self.heads.core.format(state.pin.format)
        return isinstance(format, Mergeable) and format.holds_files_of(state.pin, other.pin)

    def _is_overwritten(self, mine: bool, base: TableState, ours: TableState, theirs: TableState) -> bool:
        """Whether a side has replaced all rows since the base. Where its files are still there, it has not."""
        side = ours if mine else theirs
        if base.pin.rows and self._holds(side, base):
            return False
        return "overwrite" in self._done[0 if mine else 1].ops(side.info.id)

    def _keys_apart(self, table: str, key: Sequence[str]) -> bool:
        """Whether the records say that no row was touched by both sides. It is no request: they are known, or not."""
        heads = self.heads
        if len(heads.bases) != 1 or not all(
            _descends(tip, heads.bases) and tip.history.knows(heads.bases[0].slot, tip.state.slot)
            for tip in (heads.ours, heads.theirs)
        ):
            return False
        mine, its = (done.written_keys(table, key) for done in self._done)
        return mine is not None and its is not None and not mine & its

    def _tended_alike(self, table: str) -> bool:
        """Whether both sides had the same state of a table, and have only compacted or indexed it since."""
        return bool(self._done[0].tended_from(table) & self._done[1].tended_from(table))

    def _kept_in_place(self, mine: bool, table: str) -> bool:
        """Whether the log says that a side has moved no row since the base: a file that is missing is all deleted."""
        return self._did_only(LEAVES_IN_PLACE, mine, table)

    def _did_only(self, ops: frozenset[str], mine: bool, table: str) -> bool:
        """Whether the log says that a side has done nothing else to a table since the base."""
        done, tip = self._done[0 if mine else 1], self.heads.ours if mine else self.heads.theirs
        if not done.reached or not done.ops(table) <= ops:
            return False
        has = vector_of(self.heads.core, tip.line, tip.state)
        return all(contains(has, base) for base in self.heads.bases)

    @cached_property
    def _done(self) -> tuple[ChangesSince, ChangesSince]:
        """What either side did to its tables since the base."""
        heads = self.heads
        lines = heads.ours.line, heads.theirs.line
        known = [
            vector_of(heads.core, line_to(heads.core, lines, base), state)
            for base, state in zip(heads.bases, heads.states, strict=True)
        ]
        mine, its = (
            ChangesSince(tip, known, descends=descends, after=_before(tip, heads.bases) if descends else -1)
            for tip in (heads.ours, heads.theirs)
            for descends in [_descends(tip, heads.bases)]
        )
        return mine, its

    # -- names ------------------------------------------------------------------------------------------------

    def _names(self, tables: Sequence[TableMerge]) -> None:
        """Two tables cannot have one name: whichever of them comes from the other side is in conflict."""
        by_name: dict[str, TableMerge] = {}
        for made in sorted(tables, key=lambda t: t.action == "create" or _renamed(t)):
            if made.info is None or (made.ours is None and made.action != "create"):
                continue
            holder = by_name.setdefault(made.info.name, made)
            if holder is not made and not any(d.taken for d in made.disputes):
                found = dispute("name", (None, holder.ours or holder.theirs, made.theirs), ("create", "create"))
                found.taken = True
                made.disputes.append(found)
                holder.gives_way = found


def _schema(format: Any, pin: Pin, table: str) -> Any:
    return format.open(pin, table).schema


def _renamed(table: TableMerge) -> bool:
    return table.ours is not None and table.info is not None and table.info.name != table.ours.info.name


def _descends(tip: Tip, bases: Sequence[Point]) -> bool:
    """Whether a side's own log leads from all the bases to it, so that it says all that was done since."""
    return all(tip.line.contains(p) and (p.slot, p.index) <= (tip.point.slot, tip.point.index) for p in bases)


def _before(tip: Tip, bases: Sequence[Point]) -> int:
    """The last slot of a side's own log that has nothing of what came after the bases."""
    first = min(bases, key=lambda p: (p.slot, p.index))
    return first.slot if tip.line.limit(first.slot) == first.index else first.slot - 1


def _own_groups(info: TableInfo | None) -> list[tuple[str, ...]]:
    """Columns that belong together by what a table's validator says."""
    judge = None if info is None or info.validator is None else validators.merging(info.validator)
    return [] if judge is None or info is None else judge.groups(info)
