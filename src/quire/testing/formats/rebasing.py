"""Moving staged work onto a newer state: what may move, what must run again, what is a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from quire.errors import CorruptRecord, KeyConflict
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
    return Did("append", lambda w: w.rows.append(rows(*ids, times=3), missing="error"), _set(*ids, times=3))


def _insert(*ids: int) -> Did:
    return Did("insert", lambda w: w.rows.insert(rows(*ids, times=4), ("id",), missing="error"), _set(*ids, times=4))


def _upsert(*ids: int) -> Did:
    return Did("upsert", lambda w: w.rows.upsert(rows(*ids, times=5), ("id",)), _set(*ids, times=5))


def _patch(*ids: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        for i in ids:
            now[i] = (i, now[i][1] if i in now else None, "p")

    return Did("upsert", lambda w: w.rows.upsert([{"id": i, "w": "p"} for i in ids], ("id",)), effect)


def _update(i: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        if i in now:
            now[i] = (i, now[i][1] + 1, now[i][2])

    return Did("update", lambda w: w.rows.update({"v": "v + 1"}, {}, f"id = {i}", ("id",)), effect)


def _rekey(old: int, new: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        _, v, w = now.pop(old)
        now[new] = (new, v, w)

    return Did("update", lambda w: w.rows.update({"id": str(new)}, {}, f"id = {old}", ("id",)), effect)


def _delete(where: str, *ids: int) -> Did:
    def effect(now: dict[int, Row]) -> None:
        for i in ids:
            now.pop(i, None)

    return Did("delete", lambda w: w.rows.delete(where), effect)


def _set(*ids: int, times: int) -> Callable[[dict[int, Row]], None]:
    return lambda now: now.update({r[0]: r for r in values(*ids, times=times)})


def _nothing(now: dict[int, Row]) -> None:
    """No row changes."""


INDEX = Did("index", lambda w: w.indexes.create(IndexSpec("v", "BTREE", "by_v"), replace=True), _nothing)
COMPACT = Did("compact", lambda w: w.upkeep.compact(Upkeep()), _nothing)

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
    "upsert 1": dict.fromkeys(_ROWS, ("rows", False)),
    "patch 1": dict.fromkeys(_ROWS, ("rows", False)),
    "update 1": dict.fromkeys(_ROWS, ("rows", True)),
    "delete 1": dict.fromkeys(_ROWS, ("rows", True)),
    "rekey 1": dict.fromkeys(_KEYS, ("keys", True)) | dict.fromkeys(_ROWS, ("rows", True)),
    "index": {},
}
"""Mine, theirs: what is in dispute, and whether it is a conflict. What is not here moves."""
OTHERWISE = {
    "upsert 11": set(_KEYS),
    "upsert 1": {"delete 1", "delete all"},
    "patch 1": {"delete 1", "delete all"},
}
"""Mine, theirs: where running again returns another count than it did."""
COUNTED = Overlap("counts", hard=True)


class RebaseConformance(Conformance):
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("mine", MINE)
    def test_every_statement_after_every_other(self, bench: Bench, mine: str, layout: str) -> None:
        if mine == "index" and not self.indexes:
            return
        base = bench.parts(*LAYOUTS[layout])
        for theirs in THEIRS:
            if theirs == "index" and not self.indexes:
                continue
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
            otherwise = COUNTED if theirs in OTHERWISE.get(mine, ()) else None
            assert work.replay(won.pin) == otherwise, cell
            if otherwise is not None:
                assert work.on(base), cell
                assert work.replay(won.pin, told=False) is None, cell
        both = work.stage()
        if overlap is None:
            assert bench.data_files() == before, f"{cell}: a data file was written"
        assert both.pin.counter == won.pin.counter + 1, cell
        assert work.on(won.pin), cell
        MINE[mine].effect(now)
        assert bench.content(both.pin) == _sorted(now), cell

    def test_rows_are_told_to_another_process_which_adds_them_behind_its_own(self, bench: Bench) -> None:
        pin = bench.create()
        work = bench.begin(pin)
        work.rows.append(rows(4), missing="error")
        work.rows.append(rows(5), missing="error")
        staged = work.stage()
        told = bench.format.additions(work)
        assert told is not None
        other = bench.again()
        mine = other.begin(pin, write="other", table="t")
        mine.rows.append(rows(6), missing="error")
        assert mine.stage().pin.counter == pin.counter + 1

        alone = other.adding(pin, told, write="w", table="t").stage().pin
        behind = other.adding(pin, told, write="w", table="t").stage([mine]).pin

        assert bench.content(alone) == bench.content(staged.pin) == values(1, 2, 3, 4, 5)
        assert bench.content(behind) == values(1, 2, 3, 4, 5, 6)
        assert (alone.counter, behind.counter) == (pin.counter + 1, pin.counter + 2)
        assert (alone.rows, alone.bytes) == (staged.pin.rows, staged.pin.bytes)

    def test_only_rows_that_are_added_can_be_told(self, bench: Bench) -> None:
        pin = bench.create()
        upsert, overwrite = bench.begin(pin), bench.begin(pin)
        upsert.rows.upsert(rows(1), ("id",))
        overwrite.rows.overwrite(rows(1), (), schema="keep")
        for work in (upsert, overwrite):
            work.stage()
            assert bench.format.additions(work) is None

    @pytest.mark.parametrize(
        "told", ["", "{", "[]", "[1]", '[{"files":[]}]', '[{"files":[{"path":"../x"}]}]', "[" * 2000]
    )
    def test_what_no_process_can_have_told_is_refused(self, bench: Bench, told: str) -> None:
        with pytest.raises(CorruptRecord):
            bench.format.adding(bench.create(), told, write="w", table="t")

    def test_hashes_alone_raise_no_conflict(self, bench: Bench) -> None:
        """A record without keys, or with keys in common, is looked up in the data."""
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.rows.insert(rows(11), ("id",), missing="error")
        won = bench.stage(base, lambda w: w.rows.insert(rows(12), ("id",), missing="error"))
        lying = bench.stage(base, lambda w: w.rows.insert(rows(11), ("id",), missing="error"))
        change = change_of(won, "insert")
        assert work.rebase(won.pin, [_with(change, lying.keys)]) is None
        assert bench.content(work.stage().pin) == sorted(values(1, 2, 11, 12), key=repr)
        other = bench.begin(base)
        other.rows.insert(rows(12), ("id",), missing="error")
        assert other.rebase(won.pin, [_with(change, ())]) == Overlap("keys", ({"id": 12},), True)

    def test_work_follows_many_winners(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        work = bench.begin(pin)
        work.rows.delete("id = 1")
        work.rows.append(rows(100, 101), missing="error")
        work.rows.delete("id = 100")
        work.stage()
        expected = [*values(2, 3), *values(101)]
        for i in range(10, 15):
            won = bench.stage(pin, lambda w, i=i: w.rows.append(rows(i), missing="error"))  # type: ignore[misc]
            before = bench.data_files()
            assert work.rebase(won.pin, [change_of(won, "append")]) is None
            assert bench.data_files() == before
            expected += values(i)
            assert bench.content(work.stage().pin) == sorted(expected, key=repr)
            pin = won.pin

    def test_the_rows_that_a_condition_chose_are_followed_wherever_they_are_put(self, bench: Bench) -> None:
        """Those that came since are left alone, also where the condition holds for them."""
        base = bench.parts((1, 2), (3, 4), (5,))
        work = bench.begin(base)
        assert work.rows.delete("id in (1, 4, 9)") == 2
        assert work.rows.update({"v": "v + 1"}, {}, "id >= 5", ("id",)) == 1
        appended = bench.stage(base, lambda w: w.rows.append(rows(9), missing="error"))
        compacted = bench.stage(appended.pin, COMPACT.run)
        again = bench.stage(compacted.pin, lambda w: w.rows.delete("id = 3"))
        twice = bench.stage(bench.stage(again.pin, lambda w: w.rows.append(rows(1), missing="error")).pin, COMPACT.run)
        for won, op in ((appended, "append"), (compacted, "compact"), (again, "delete")):
            before = bench.data_files()
            assert work.rebase(won.pin, [change_of(won, op)]) is None
            assert bench.data_files() == before
        assert bench.content(work.stage().pin) == sorted([*values(2, 9), (5, 51, "a")], key=repr)
        both = [_with(change_of(twice, "append"), ()), change_of(twice, "compact")]
        assert work.rebase(twice.pin, both) == Overlap("rows", hard=True), "not one step after the other"

    def test_two_compactions_at_once_cannot_be_followed(self, bench: Bench) -> None:
        """The second may have merged fragments in another order than the first has numbered them."""
        base = bench.parts((1, 2), (3, 4), (5, 6))
        by_condition, by_key = bench.begin(base), bench.begin(base)
        by_condition.rows.delete("id in (1, 4)")
        by_key.rows.upsert(rows(1, 4, times=5), ("id",))
        first = bench.stage(base, COMPACT.run)
        second = bench.stage(bench.stage(first.pin, lambda w: w.rows.append(rows(7), missing="error")).pin, COMPACT.run)
        both = [change_of(first, "compact"), change_of(second, "compact")]
        assert by_condition.rebase(second.pin, both) == Overlap("rows", hard=True)
        assert by_key.rebase(second.pin, both) == Overlap("rows")

    def test_a_condition_beside_keys_is_not_run_again(self, bench: Bench) -> None:
        """The keys alone could be; the condition would choose among rows that came since."""
        base = bench.create(rows(1, 2))
        conditions: list[Callable[[Work], Any]] = [
            lambda w: w.rows.delete("id = 2"),
            lambda w: w.rows.delete("id = 99"),
            lambda w: w.rows.update({"v": "v + 1"}, {}, "id = 99", ("id",)),
        ]
        for condition in conditions:
            work = bench.begin(base)
            work.rows.upsert(rows(1, times=5), ("id",))
            condition(work)
            won = bench.stage(base, lambda w: w.rows.upsert(rows(1, times=9), ("id",)))
            assert work.rebase(won.pin, [change_of(won, "upsert")]) == Overlap("rows", hard=True)

    def test_a_refused_rebase_can_be_followed_by_a_replay(self, bench: Bench) -> None:
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.rows.upsert(rows(1, 7, times=5), ("id",))
        work.rows.upsert([{"id": 7, "v": 36}], ("id",))
        won = bench.stage(base, lambda w: w.rows.upsert(rows(1, times=9), ("id",)))
        overlap = work.rebase(won.pin, [change_of(won, "upsert")])
        assert overlap == Overlap("rows")
        assert work.replay(won.pin) is None
        assert bench.content(work.stage().pin) == sorted([*values(1, times=5), *values(2), (7, 36, "a")])

    def test_a_replay_is_whole_or_leaves_the_work_as_it_was(self, bench: Bench) -> None:
        base = bench.create(rows(1))
        work = bench.begin(base)
        work.rows.upsert(rows(1, 3, times=5), ("id",))
        work.rows.insert(rows(2), ("id",), missing="error")
        won = bench.stage(base, lambda w: w.rows.append(rows(2), missing="error"))
        with pytest.raises(KeyConflict):
            work.replay(won.pin)
        assert work.on(base)
        assert bench.content(work.stage().pin) == sorted([*values(1, 3, times=5), *values(2)])

    def test_a_replay_may_meet_a_key(self, bench: Bench) -> None:
        base = bench.create(rows(1))
        work = bench.begin(base)
        work.rows.insert(rows(2), ("id",), missing="error")
        won = bench.stage(base, lambda w: w.rows.append(rows(2), missing="error"))
        with pytest.raises(KeyConflict):
            work.replay(won.pin)

    def test_an_exclusive_change_is_marked(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        verbs: list[Callable[[Work], Any]] = [
            lambda w: w.rows.overwrite(rows(2), (), schema="keep"),
            lambda w: w.columns.add({"x": "1"}),
            lambda w: w.columns.drop(["w"]),
            lambda w: w.columns.rename("w", "y"),
            lambda w: w.columns.alter("v", type=pa.float64()),
        ]
        for verb in verbs:
            work = bench.begin(pin)
            verb(work)
            assert work.changed
            assert work.exclusive

    def test_an_index_moves_with_its_rows(self, bench: Bench) -> None:
        base = bench.create(rows(1, 2))
        work = bench.begin(base)
        work.rows.append(rows(3), missing="error")
        work.indexes.create(IndexSpec("id", "BTREE", "by_id"), replace=False)
        work.stage()
        won = bench.stage(base, lambda w: w.rows.append(rows(4, 5), missing="error"))
        assert work.rebase(won.pin, [change_of(won, "append")]) is None
        pin = work.stage().pin
        view = bench.again().open(pin)
        assert listed(view.scan(filter="id > 2").read_all()) == values(3, 4, 5)
        assert [i["name"] for i in view.indexes()] == ["by_id"]


def _with(change: Change, keys: tuple[Keys, ...]) -> Change:
    return msgspec.structs.replace(change, keys=keys)


def _sorted(now: dict[int, Row]) -> list[Row]:
    return sorted(now.values(), key=repr)
