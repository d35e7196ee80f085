"""The commits of a merged branch stay readable after it was deleted, by the rule that holds for all commits."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import SnapshotExpired
from quire.lake.branch.lineage import merge_bases, vector_of

NOW: dict[str, Any] = {"keep": 1, "older_than": 0, "grace": 0}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", [{"id": 0}], key="id")
        yield lake


def clean(lake: quire.Lake, seconds: float = 60.0, **options: Any) -> quire.Lake:
    """Clean up as if everything had been written a while ago, and open the lake anew."""
    lake.close()
    age(lake, seconds)
    lake.cleanup(**{**NOW, **options})
    return quire.open(lake.uri)


def age(lake: quire.Lake, seconds: float) -> None:
    for folder, _, names in os.walk(lake.uri):
        for name in names:
            path = os.path.join(folder, name)
            then = os.stat(path).st_mtime - seconds
            os.utime(path, (then, then))


def write(lake: quire.Lake, *ids: int) -> str:
    with lake.transaction(f"write {ids} on {lake.branch_name}") as tx:
        tx["t"].upsert([{"id": n} for n in ids])
    return commit_of(tx.receipt)


def commit_of(receipt: quire.Receipt | None) -> str:
    assert receipt is not None
    assert receipt.commit is not None
    return receipt.commit


def merge(target: quire.Lake, source: quire.Lake) -> str:
    """A commit of two parents that has the rows of both sides."""
    return commit_of(target.merge(source.branch_name, mode="no-ff", message=f"merge {source.branch_name}"))


def values(snapshot: quire.Snapshot) -> list[int]:
    return sorted(row["id"] for row in snapshot["t"].to_pylist())


def word(commit: quire.CommitInfo) -> str:
    return f"{commit.branch}:{commit.id}"


def messages(lake: quire.Lake) -> list[str]:
    return [c.message for c in lake.log(parents="all")]


def test_the_log_has_the_commits_of_a_merged_branch(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    write(exp, 1), write(lake, 10), write(exp, 2)
    merge(lake, exp)
    told = list(lake.log(parents="all"))
    assert [c.message for c in told] == [
        "merge exp",
        "write (2,) on exp",
        "write (10,) on main",
        "write (1,) on exp",
        "create t",
        "begin",
    ] or sorted(c.message for c in told[1:4]) == ["write (1,) on exp", "write (10,) on main", "write (2,) on exp"]
    assert [c.branch for c in told if "on exp" in c.message] == ["exp", "exp"]
    assert [c.id for c in lake.log()] == ["3.0", "2.0", "1.0", "0.0"]
    assert messages(lake.branch("exp")) == [c.message for c in exp.log()]


def test_they_stay_when_it_is_deleted(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    write(exp, 1), write(exp, 2)
    lake.fast_forward("exp")
    lake.delete_branch("exp")
    again = quire.open(lake.uri)
    head, second, first, *_ = again.log(parents="all")
    assert (first.message, second.message) == ("write (1,) on exp", "write (2,) on exp")
    assert values(again.at(commit=word(first))) == [0, 1]
    assert again.show(word(second)).message == second.message
    [diff] = again.diff(word(first), word(second))
    assert (diff.added, diff.changed, diff.removed) == (1, 0, 0)
    assert head.parents[1] == word(second)


def test_cleanup_keeps_as_many_of_them_as_of_any_branch(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    for n in range(1, 7):
        write(exp, n)
    merge(lake, exp)
    write(exp, 99)  # never merged
    lake.delete_branch("exp")
    write(lake, 50)
    lake = clean(lake, keep=3)
    kept = [c for c in lake.log(parents="all") if "on exp" in c.message]
    assert [c.message for c in kept] == [f"write ({n},) on exp" for n in (6, 5, 4)]
    assert [values(lake.at(commit=word(c))) for c in kept] == [list(range(n + 1)) for n in (6, 5, 4)]
    log = kept[0].branch
    for gone in (f"{log}:4.0", f"{log}:8.0"):
        with pytest.raises(SnapshotExpired):
            lake.at(commit=gone)
    assert lake.verify().findings == []
    # They go with the merge that names them.
    write(lake, 51), write(lake, 52)
    lake = clean(lake, keep=2)
    assert [c.message for c in lake.log(parents="all")] == ["write (52,) on main", "write (51,) on main"]
    with pytest.raises(SnapshotExpired):
        lake.show(word(kept[0]))
    assert lake.verify().findings == []
    assert lake.cleanup(**{**NOW, "keep": 2}).slots == 0


def test_cleanup_keeps_them_by_age(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    write(exp, 1)
    lake.close()
    age(lake, 1000)
    for n in range(2, 6):
        write(exp, n)
    merge(lake, exp)
    lake.delete_branch("exp")
    lake = clean(lake, older_than=500)
    assert messages(lake)[:6] == ["merge exp", *(f"write ({n},) on exp" for n in (5, 4, 3, 2, 1))]
    for commit in lake.log(parents="all"):
        assert lake.at(commit=word(commit))["t"].count() > 0
    lake = clean(lake, 1000, older_than=500)
    assert messages(lake) == ["merge exp", "write (5,) on exp"]


def test_a_chain_of_merges_does_not_keep_the_history_for_ever(lake: quire.Lake) -> None:
    """Each branch takes main in before it is merged, so every commit is joined with all that came before it."""
    for n in range(12):
        branch = lake.create_branch(f"b{n}")
        write(branch, 100 + n)
        write(lake, 200 + n)
        merge(branch, lake)
        lake.fast_forward(f"b{n}")
        lake.delete_branch(f"b{n}")
    lake = clean(lake)
    first = len(list(lake.log(parents="all")))
    assert first <= 4
    logs = [c.branch for c in lake.log(parents="all")]
    assert lake.verify().findings == []
    assert len(set(logs)) <= 3


def test_bases_of_open_branches_stay(lake: quire.Lake) -> None:
    exp, other = lake.create_branch("exp"), lake.create_branch("other")
    write(lake, 1), write(exp, 2), write(other, 3)
    merge(exp, lake)
    merge(other, exp)
    for n in range(10, 16):
        write(lake, n), write(exp, n + 10), write(other, n + 20)
    pairs = [("main", "exp"), ("main", "other"), ("exp", "other")]
    lake = clean(lake)
    for a, b in pairs:
        sides = [lake.branch(name)._live for name in (a, b)]
        [base] = merge_bases(lake._core, *((live.line, live.state) for live in sides))  # type: ignore[arg-type]
        line = next(live.line for live in sides if live.line.contains(base))
        owner = "main" if line.branch == lake._core.about.main or base.branch == lake._core.about.main else base.branch
        assert lake.at(commit=f"{owner}:{base.commit}")["t"].count() > 0
    assert lake.verify().findings == []
    expired = lake.log()[0].id
    write(lake, 90)
    lake.delete_branch("exp"), lake.delete_branch("other")
    lake = clean(clean(lake))
    with pytest.raises(SnapshotExpired):
        lake.at(commit=expired)
    assert [c.id for c in lake.log(parents="all")] == [lake.head]


@settings(max_examples=budget(6, full=150), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_is_shown_can_be_read_and_what_nothing_reaches_goes(seed: int, tmp_path_factory: Any) -> None:
    """Random branches, merges, deletions and cleanups, and processes that end in the middle of a cleanup."""
    rng = random.Random(seed)
    lake = quire.create(tmp_path_factory.mktemp("joined") / "lake")
    lake.create_table("t", [{"id": 0}], key="id")
    known: dict[tuple[str, str], list[int]] = {}
    ids = iter(range(1, 1000))
    for step in range(budget(16, full=30)):
        names = [b.name for b in lake.branches()]
        on = lake.branch(rng.choice(names))
        roll = rng.random()
        if roll < 0.45:
            write(on, next(ids))
        elif roll < 0.6 and len(names) < 4:
            on = on.create_branch(f"b{step}")
        elif roll < 0.8 and len(names) > 1:
            source = lake.branch(rng.choice([n for n in names if n != on.branch_name]))
            if not joined_already(on, source):
                merge(on, source)
        elif roll < 0.9 and on.branch_name != "main":
            lake.delete_branch(on.branch_name)
            continue
        else:
            try:
                lake = clean(lake, keep=rng.choice([1, 2, 4]), progress=_Stops(rng))
            except Interrupted:
                lake = quire.open(lake.uri)
            check(lake, known)
            continue
        known[on._live.state.head.branch, on.head] = values(on.snapshot())
    lake = clean(lake)
    check(lake, known)
    assert lake.verify().findings == []
    for name in [b.name for b in lake.branches() if b.name != "main"]:
        lake.delete_branch(name)
    write(lake, 1000)
    lake = clean(clean(lake))
    assert [c.id for c in lake.log(parents="all")] == [lake.head]
    left = {p.name for p in Path(lake.uri).rglob("tables/*/data/*")}
    # Main alone, with its one commit, needs no more files than a cleanup that begins anew finds.
    assert lake.cleanup(**NOW).files == 0
    kept = {f.path for fragment in _fragments(lake) for f in fragment.data_files()}
    assert left == kept


def joined_already(on: quire.Lake, source: quire.Lake) -> bool:
    mine = vector_of(on._core, on._live.line, on._live.refresh())
    head = source._live.refresh().head
    return mine.get(head.branch, (-1, 0)) >= (head.slot, head.index)


def check(lake: quire.Lake, known: dict[tuple[str, str], list[int]]) -> None:
    """Everything in any log can be read, and has the rows that it had."""
    for name in [b.name for b in lake.branches()]:
        handle = lake.branch(name)
        for commit in handle.log(parents="all"):
            found = values(handle.at(commit=word(commit))) if "t" in handle.at(commit=word(commit)) else None
            expected = known.get((commit.point.branch, commit.id))
            assert expected is None or found == expected
            for parent in commit.kept or ():
                assert handle.show(f"{parent.branch}:{parent.commit}").point == parent


class Interrupted(Exception):
    pass


class _Stops:
    """A cleanup that ends somewhere, as if it had been killed; or does not."""

    def __init__(self, rng: random.Random) -> None:
        self._left = rng.choice([2, 4, 6, 9, 1000])

    def __call__(self, what: str, done: int, total: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted


def _fragments(lake: quire.Lake) -> Any:
    import lance

    state = lake._live.state.by_name("t")
    assert state is not None
    location = Path(lake.uri) / state.pin.location
    return lance.dataset(str(location), version=int(state.pin.version)).get_fragments()
