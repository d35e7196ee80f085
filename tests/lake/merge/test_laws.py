"""Merges of random histories, held against the laws and a merge by plain loops (`make merges` looks further)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.budget import SEED, budget
from tests.laboratory.merges.oracle import How, Table, merge
from tests.laboratory.merges.worlds import Tally, live, program

from quire.testing import memory

KINDS = ("keyed", "pair", "loose")


def test_random_histories_in_memory() -> None:
    memory.install()
    tally = Tally()
    for seed in range(SEED, SEED + budget(6, full=300)):
        live(program(seed), tally=tally, kinds=KINDS)
    assert tally.cases > 6


def test_random_histories_in_which_columns_change() -> None:
    memory.install()
    for seed in range(SEED, SEED + budget(3, full=150)):
        live(program(seed, columns=3), kinds=KINDS)


def test_random_histories_on_disk(tmp_path: Path) -> None:
    for seed in range(SEED, SEED + budget(1, full=20)):
        live(program(seed, 8), place=str(tmp_path / f"lake{seed}"), format="lance", kinds=KINDS)


LIVES = {
    "a table that one side drops is tended by the other, before and after a branch": [
        ("rows", 334848595),
        ("branch", 1063506912),
        ("merge", 1197051023),
        ("upkeep", 3477372743),
        ("table", 2588110866),
        ("cross", 1590422568),
        ("merge", 3895296544),
    ],
    "a row of one base is removed, rows without a key": [
        ("rows", 1487220833),
        ("rows", 2439591876),
        ("cross", 2364758943),
        ("rows", 3598373669),
        ("merge", 2887759513),
    ],
    "a squash beside a compaction, rows without a key": [
        ("rows", 993233993),
        ("merge", 2046336561),
        ("upkeep", 2180636967),
        ("merge", 3433400703),
        ("merge", 1201841810),
    ],
    "several bases, tables as a whole, and upkeep": [
        ("rows", 1324467797),
        ("merge", 557569411),
        ("merge", 2851302562),
        ("rows", 2469609286),
        ("cross", 2362165791),
        ("rows", 1646895229),
        ("rows", 2827123297),
        ("rows", 2854539145),
        ("merge", 3146277798),
    ],
    "several bases of which each has another state": [
        ("rows", 473483900),
        ("rows", 2607851014),
        ("cross", 3185162582),
        ("merge", 4110676018),
    ],
    "several bases with other columns than both sides": [
        ("rows", 922680943),
        ("columns", 3939129068),
        ("merge", 2291335956),
        ("cross", 2969932037),
        ("merge", 3921299276),
    ],
    "a table is given the name of one that the other side has made": [
        ("table", 1674335784),
        ("branch", 3124758254),
        ("table", 3676491747),
        ("cross", 369617158),
        ("merge", 38719521),
    ],
    "a table without a key is given two names": [
        ("table", 863596768),
        ("table", 3313298275),
        ("merge", 3902511315),
        ("merge", 1252303442),
    ],
    "a squashed table is tended on both sides": [("table", 553569232), ("cross", 3174873324), ("merge", 894797436)],
    "a squashed table is indexed on one side, tables as a whole": [
        ("rows", 3393517166),
        ("cross", 1875885551),
        ("upkeep", 942848210),
        ("merge", 673747984),
    ],
    "rows without a key beside an overwrite that was resolved away": [
        ("rows", 3377762901),
        ("merge", 1205454350),
        ("rows", 3682437241),
        ("merge", 1355785985),
        ("rows", 3048658505),
        ("merge", 3208804845),
    ],
    "rows without a key beside an overwrite that was resolved away, and a compaction": [
        ("rows", 2887262189),
        ("rows", 2375154528),
        ("merge", 575609309),
        ("rows", 2529099349),
        ("cross", 3339005550),
        ("upkeep", 889560116),
        ("merge", 2194954183),
    ],
    "a squashed row is removed on one side": [
        ("table", 838526487),
        ("merge", 1574413973),
        ("rows", 2796258851),
        ("merge", 2445880677),
        ("rows", 2525806383),
        ("cross", 49590493),
    ],
    "an index here, and whole tables there": [("rows", 3639700191), ("merge", 439062303)],
    "an index here, after a fast-forward": [
        ("rows", 2127877499),
        ("merge", 3387541014),
        ("rows", 3589583794),
        ("merge", 439062303),
    ],
    "an overwrite numbers columns anew": [("rows", 1596840319), ("rows", 1059022248), ("merge", 56325017)],
    "a renamed table in conflict as a whole": [
        ("rows", 482749413),
        ("merge", 604968615),
        ("table", 2298718664),
        ("rows", 992864222),
        ("merge", 1923075604),
    ],
    "one file came to both sides": [
        ("rows", 2479859201),
        ("merge", 1944953944),
        ("merge", 2328372982),
        ("upkeep", 1173170413),
        ("merge", 415568434),
    ],
    "an index here, an overwrite there": [
        ("table", 324987972),
        ("rows", 3021891365),
        ("upkeep", 3846867679),
        ("merge", 3605830994),
    ],
}


@pytest.mark.parametrize("name", LIVES)
def test_a_history_that_once_broke_a_law(name: str) -> None:
    memory.install()
    for kinds in (KINDS, KINDS[:2]):
        live([*LIVES[name]], kinds=kinds)


def _table(rows: dict[int, tuple[int | None, int | None]], stamp: int) -> Table:
    columns = {1: ("id", "int64"), 2: ("a", "int64"), 3: ("b", "int64")}
    return Table(9, "t", (1,), columns, {(i,): {1: i, 2: a, 3: b} for i, (a, b) in rows.items()}, stamp)


def test_the_plain_merge_knows_the_rules() -> None:
    base = _table({1: (1, 1), 2: (2, 2), 3: (3, 3)}, 1)
    ours = _table({1: (5, 1), 2: (2, 7), 4: (4, 4)}, 2)
    theirs = _table({1: (1, 6), 2: (2, 8), 3: (3, 9), 4: (4, None)}, 3)
    verdict = merge({9: base}, {9: ours}, {9: theirs}, How())[9]
    assert {(f.key, *f.kinds, tuple(f.must)) for f in verdict.found} == {
        ((2,), "update-update", (3,)),
        ((3,), "delete-update", ()),
        ((4,), "insert-insert", (3,)),
    }
    assert verdict.table is not None
    assert verdict.table.rows[1,] == {1: 1, 2: 5, 3: 6}
