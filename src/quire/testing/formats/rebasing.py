"""Moving staged work onto a newer state: what may move, what must run again, what is a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from quire.errors import KeyConflict
from quire.formats import IndexSpec, Overlap, Upkeep, Work
from quire.ledger import Change, Keys, Pin
from quire.testing.formats.bench import Bench, Conformance, Row, change_of, listed, rows, values

LAYOUTS: dict[str, tuple[Sequence[int], ...]] = {
    "one part": ((1, 2, 3, 4, 5, 6),),
    "two parts": ((1, 2, 3), (4, 5, 6)),
    "a part per row": ((1,), (2,), (3,), (4,), (5,), (6,)),
}


@dataclass(frozen=True)
class Did:
    """A statement, what it is called in a record, and what it does to rows by id."""

    op: str
    run: Callable[[Work], Any]
    effect: Callable[[dict[int, Row]], None]


def _append(*ids: int) -> Did:
    return Did("append", lambda w: w.append(rows(*ids, times=3), missing="error"), _set(*ids, times=3))


def _insert(*ids: int) -> Did:
    return Did("insert", lambda w: w.insert(rows(*ids, times=4), ("id",), missing="error"), _set(*ids, times=4))


def _upsert(*ids: int) -> Did:
    return Did("upsert", lambda w: w.upsert(rows(*ids, times=5), ("id",)), _set(*ids, times=5))


def _patch(*ids: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        for i in ids:
            now[i] = (i, now[i][1] if i in now else None, "p")

    return Did("upsert", lambda w: w.upsert([{"id": i, "w": "p"} for i in ids], ("id",)), effect)


def _update(i: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        if i in now:
            now[i] = (i, now[i][1] + 1, now[i][2])

    return Did("update", lambda w: w.update({"v": "v + 1"}, {}, f"id = {i}", ("id",)), effect)


def _rekey(old: int, new: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        _, v, w = now.pop(old)
        now[new] = (new, v, w)

    return Did("update", lambda w: w.update({"id": str(new)}, {}, f"id = {old}", ("id",)), effect)


def _delete(where: str, *ids: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        for i in ids:
            now.pop(i, None)

    return Did("delete", lambda w: w.delete(where), effect)


def _set(*ids: int, times: int) -> Callable[[dict[int, Row]], None]:
    return lambda now: now.update({r[0]: r for r in values(*ids, times=times)})


def _nothing(now: dict[int, Row]) -> None:
    """No row changes."""


INDEX = Did("index", lambda w: w.create_index(IndexSpec("v", "BTREE", "by_v"), replace=True), _nothing)
COMPACT = Did("compact", lambda w: w.compact(Upkeep()), _nothing)

THEIRS: dict[str, Did] = {
    "append": _append(21),
    "insert": _insert(21),
    "upsert": _upsert(4),
    "update": _update(4),
    "delete": _delete("id = 4", 4),
    "index": INDEX,
    "compact": COMPACT,
    "insert 11": _insert(11),
    "upsert 11": _upsert(11),
    "append 11": _append(11),
    "upsert 1": _upsert(1),
    "update 1": _update(1),
    "delete 1": _delete("id = 1", 1),
    "delete all": _delete("true", 1, 2, 3, 4, 5, 6),
}
MINE: dict[str, Did] = {
    "append": _append(31),
    "insert 11": _insert(11),
    "upsert 11": _upsert(11),
    "upsert 1": _upsert(1),
    "patch 1": _patch(1),
    "update 1": _update(1),
    "delete 1": _delete("id = 1", 1),
    "rekey 1": _rekey(1, 11),
    "index": INDEX,
}
_ROWS = ("upsert 1", "update 1", "delete 1", "delete all")
_KEYS = ("insert 11", "upsert 11", "append 11")

OVERLAPS: dict[str, dict[str, tuple[str, bool]]] = {
    "append": {},
    "insert 11": dict.fromkeys(_KEYS, ("keys", True)),
    "upsert 11": dict.fromkeys(_KEYS, ("keys", False)),
    "upsert 1": {"compact": ("moved", False)} | dict.fromkeys(_ROWS, ("rows", False)),
    "patch 1": {"compact": ("moved", False)} | dict.fromkeys(_ROWS, ("rows", False)),
    "update 1": {"compact": ("moved", False)} | dict.fromkeys(_ROWS, ("rows", True)),
    "delete 1": {"compact": ("moved", False)} | dict.fromkeys(_ROWS, ("rows", True)),
    "rekey 1": {"compact": ("moved", False)}
    | dict.fromkeys(_KEYS, ("keys", True))
    | dict.fromkeys(_ROWS, ("rows", True)),
    "index": {},
}
"""Mine, theirs: what is in dispute, and whether it is a conflict. What is not here moves."""


class RebaseConformance(Conformance):
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("mine", MINE)
    def test_every_statement_after_every_other(self, bench: Bench, mine: str, layout: str) -> None:
        base = bench.parts(*LAYOUTS[layout])
        for theirs in THEIRS:
            if mine == "index" and theirs == "index":
                continue  # two of a kind of upkeep never meet here: the lake refuses the second
            if theirs == "compact" and len(LAYOUTS[layout]) == 1:
                continue  # there is nothing to compact
            self._race(bench, base, mine, theirs, f"{mine} after {theirs}, {layout}")

    def _race(self, bench: Bench, base: Pin, mine: str, theirs: str, cell: str) -> None:
        work = bench.begin(base)
        MINE[mine].run(work)
        work.stage()
        won = bench.stage(base, THEIRS[theirs].run)
        now = dict(zip(range(1, 7), values(1, 2, 3, 4, 5, 6), strict=True))
        THEIRS[theirs].effect(now)
        assert bench.content(won.pin) == _sorted(now), cell
        before = bench.data_files()
        overlap = work.rebase(won.pin, [change_of(won, THEIRS[theirs].op)])
        expected = OVERLAPS[mine].get(theirs)
        assert (None if overlap is None else (overlap.kind, overlap.hard)) == expected, cell
        if overlap is not None and overlap.kind == "keys":
            assert overlap.items == ({"id": 11},), cell
        if overlap is not None and overlap.hard:
            return
        if overlap is not None:
            work.replay(won.pin)
        both = work.stage()
        if overlap is None:
            assert bench.data_files() == before, f"{cell}: a data file was written"
        assert both.pin.counter == won.pin.counter + 1, cell
        assert work.on(won.pin), cell
        MINE[mine].effect(now)
        assert bench.content(both.pin) == _sorted(now), cell

    def test_hashes_alone_raise_no_conflict(self, bench: Bench) -> None:
        """A record without keys, or with keys in common, is looked up in the data."""
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.insert(rows(11), ("id",), missing="error")
        won = bench.stage(base, lambda w: w.insert(rows(12), ("id",), missing="error"))
        lying = bench.stage(base, lambda w: w.insert(rows(11), ("id",), missing="error"))
        change = change_of(won, "insert")
        assert work.rebase(won.pin, [_with(change, lying.keys)]) is None
        assert bench.content(work.stage().pin) == sorted(values(1, 2, 11, 12), key=repr)
        other = bench.begin(base)
        other.insert(rows(12), ("id",), missing="error")
        assert other.rebase(won.pin, [_with(change, ())]) == Overlap("keys", ({"id": 12},), True)

    def test_work_follows_many_winners(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        work = bench.begin(pin)
        work.delete("id = 1")
        work.append(rows(100, 101), missing="error")
        work.delete("id = 100")
        work.stage()
        expected = [*values(2, 3), *values(101)]
        for i in range(10, 15):
            won = bench.stage(pin, lambda w, i=i: w.append(rows(i), missing="error"))  # type: ignore[misc]
            before = bench.data_files()
            assert work.rebase(won.pin, [change_of(won, "append")]) is None
            assert bench.data_files() == before
            expected += values(i)
            assert bench.content(work.stage().pin) == sorted(expected, key=repr)
            pin = won.pin

    def test_a_predicate_that_has_moved_before_is_not_merely_moved(self, bench: Bench) -> None:
        """Among other rows it could choose others, so it is run again only if the program has read nothing."""
        base = bench.parts((1, 2), (3,))
        work = bench.begin(base)
        work.delete("id = 1")
        first = bench.stage(base, lambda w: w.append(rows(9), missing="error"))
        assert work.rebase(first.pin, [change_of(first, "append")]) is None
        second = bench.stage(first.pin, COMPACT.run)
        assert work.rebase(second.pin, [change_of(second, "compact")]) == Overlap("rows")
        other = bench.begin(base)
        other.delete("id = 1")
        both = [change_of(first, "append"), change_of(second, "compact")]
        assert other.rebase(second.pin, both) == Overlap("rows")

    def test_a_refused_rebase_can_be_followed_by_a_replay(self, bench: Bench) -> None:
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.upsert(rows(1, 7, times=5), ("id",))
        work.update({"v": "v + 1"}, {}, "id = 7", ("id",))
        won = bench.stage(base, lambda w: w.upsert(rows(1, times=9), ("id",)))
        overlap = work.rebase(won.pin, [change_of(won, "upsert")])
        assert overlap == Overlap("rows")
        work.replay(won.pin)
        assert bench.content(work.stage().pin) == sorted([*values(1, times=5), *values(2), (7, 36, "a")])

    def test_a_replay_may_meet_a_key(self, bench: Bench) -> None:
        base = bench.create(rows(1))
        work = bench.begin(base)
        work.insert(rows(2), ("id",), missing="error")
        won = bench.stage(base, lambda w: w.append(rows(2), missing="error"))
        with pytest.raises(KeyConflict):
            work.replay(won.pin)

    def test_an_exclusive_change_is_marked(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        verbs: list[Callable[[Work], Any]] = [
            lambda w: w.overwrite(rows(2), (), schema="keep"),
            lambda w: w.add_columns({"x": "1"}),
            lambda w: w.drop_columns(["w"]),
            lambda w: w.rename_column("w", "y"),
            lambda w: w.alter_column("v", type=pa.float64()),
        ]
        for verb in verbs:
            work = bench.begin(pin)
            verb(work)
            assert work.changed
            assert work.exclusive

    def test_an_index_moves_with_its_rows(self, bench: Bench) -> None:
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.append(rows(3), missing="error")
        work.create_index(IndexSpec("id", "BTREE", "by_id"), replace=False)
        work.stage()
        won = bench.stage(base, lambda w: w.append(rows(4, 5), missing="error"))
        assert work.rebase(won.pin, [change_of(won, "append")]) is None
        pin = work.stage().pin
        view = bench.again().open(pin)
        assert listed(view.scan(filter="id > 2").read_all()) == values(3, 4, 5)
        assert [i["name"] for i in view.indexes()] == ["by_id"]


def _with(change: Change, keys: tuple[Keys, ...]) -> Change:
    return msgspec.structs.replace(change, keys=keys)


def _sorted(now: dict[int, Row]) -> list[Row]:
    return sorted(now.values(), key=repr)
