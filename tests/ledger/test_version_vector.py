"""Version vectors against a graph of commits: what descends from what, and the bases of a merge."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.ledger import Commit, Line, Point, Record, State, fold, genesis, new_id
from quire.ledger.records import JOINED
from quire.ledger.version_vector import Vector, bases, contains, includes, joined, own, without
from quire.testing.ledger import EPOCH


class Histories:
    """Branches that fork and join at random: states as they are folded, and the same as a graph."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.graph: nx.DiGraph[Point] = nx.DiGraph()
        self.states: dict[Point, State] = {}
        first = Record(format=2, branch="b0", slot=0, write="w", previous="", time=EPOCH, kind="genesis")
        state = genesis(first)
        self.heads: dict[str, tuple[Line, State]] = {"b0": (Line(branch="b0"), state)}
        self._known(state)
        for _ in range(steps):
            self.random.choice([self.grow, self.grow, self.fork, self.join, self.join])()

    def _known(self, state: State) -> None:
        self.graph.add_node(state.head)
        self.states[state.head] = state

    def grow(self, joins: State | None = None) -> None:
        name = self.random.choice(sorted(self.heads))
        line, state = self.heads[name]
        if joins is not None and joins.head == state.head:
            return
        reaches = None
        if joins is not None:
            assert state.vector is not None
            assert joins.vector is not None
            reaches = without(joined(state.vector, joins.vector), name)
        count = 1 if joins is not None else self.random.choice([1, 1, 3])
        before, commits = state.head, []
        for index in range(count):
            parents = (before, joins.head) if joins is not None else (before,)
            commits.append(Commit(write=new_id(), time=EPOCH, author="", parents=parents, reaches=reaches))
            before = Point(branch=name, slot=state.slot + 1, index=index)
        record = Record(
            format=JOINED if reaches is not None else 2,
            branch=name,
            slot=state.slot + 1,
            write=new_id(),
            previous=state.write,
            time=EPOCH,
            commits=tuple(commits),
        )
        for index in range(count):
            here = fold(state, record, upto=index)
            self._known(here)
            for parent in commits[index].parents:
                self.graph.add_edge(here.head, parent)
        self.heads[name] = line, fold(state, record)

    def fork(self) -> None:
        line, state = self.heads[self.random.choice(sorted(self.heads))]
        name = f"b{len(self.heads)}"
        self.heads[name] = line.fork(name, state.head), state

    def join(self) -> None:
        self.grow(joins=self.heads[self.random.choice(sorted(self.heads))][1])

    def ancestors(self, point: Point) -> set[Point]:
        return {point, *nx.descendants(self.graph, point)}

    def bases(self, a: Point, b: Point) -> set[Point]:
        shared = self.ancestors(a) & self.ancestors(b)
        return {p for p in shared if not any(o != p and p in self.ancestors(o) for o in shared)}

    def vectors_at(self, points: list[Point]) -> Iterable[Vector]:
        return [vector(self.states[p]) for p in points]


def vector(state: State) -> Vector:
    assert state.vector is not None
    return state.vector


@settings(max_examples=budget(60, full=2000), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_vectors_tell_ancestors_and_bases_as_the_graph_does(seed: int, steps: int) -> None:
    found = Histories(seed, steps)
    points = sorted(found.states)
    for point in points:
        ancestors = found.ancestors(point)
        assert {p for p in points if contains(vector(found.states[point]), p)} == ancestors
    for _ in range(12):
        a, b = found.random.choice(points), found.random.choice(points)
        mine, theirs = vector(found.states[a]), vector(found.states[b])
        for first in ((), (a.branch, b.branch)):
            assert set(bases(mine, theirs, found.vectors_at, first)) == found.bases(a, b)
        assert includes(mine, theirs) == (b in found.ancestors(a))


def test_crossed_merges_have_two_bases() -> None:
    mine: Vector = {"a": (3, 0), "b": (2, 0)}
    theirs: Vector = {"a": (2, 0), "b": (3, 0)}
    asked: list[list[Point]] = []

    def vectors_at(points: list[Point]) -> Iterable[Vector]:
        asked.append(points)
        return [{p.branch: (p.slot, p.index)} for p in points]

    crossed = [Point(branch="a", slot=2), Point(branch="b", slot=2)]
    assert bases(mine, theirs, vectors_at) == crossed
    assert asked == [crossed]


def test_one_candidate_asks_for_nothing() -> None:
    def vectors_at(points: list[Point]) -> Iterable[Vector]:
        pytest.fail(f"asked for {points}")

    assert bases({"a": (5, 0)}, {"a": (3, 1), "b": (4, 0)}, vectors_at) == [Point(branch="a", slot=3, index=1)]
    assert bases({"a": (5, 0)}, {"b": (4, 0)}, vectors_at) == []


def test_a_state_without_a_vector_has_none_until_a_commit_tells_it() -> None:
    histories = Histories(1, 0)
    _, state = histories.heads["b0"]
    old = msgspec.structs.replace(state, reaches=None)
    plain = Commit(write="w1", time=EPOCH, author="", parents=(old.head,))
    telling = Commit(write="w1", time=EPOCH, author="", parents=(old.head,), reaches={"x": (4, 0), "b0": (0, 0)})

    def after(start: State, commit: Commit) -> State:
        record = Record(format=2, branch="b0", slot=1, write="w1", previous=start.write, time=EPOCH, commits=(commit,))
        return fold(start, record)

    assert after(old, plain).vector is None
    assert after(old, telling).vector == {"x": (4, 0), "b0": (1, 0)}
    joins = Commit(write="w1", time=EPOCH, author="", parents=(state.head, Point(branch="y", slot=7)))
    assert after(state, joins).vector is None, "an older version joined a log and did not tell what came with it"
    assert after(state, plain).vector == own(Point(branch="b0", slot=1))
