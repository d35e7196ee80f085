"""Version vectors: which commits a commit descends from, told without reading them.

Each log is linear, so the ancestors of a commit are, in every log, all commits up to one position. A version vector
holds that position by log. It is kept in states and in the records that join logs, so two heads are compared in memory;
only whether one common ancestor descends from another takes a look at the states there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from quire.ledger.records import LogPosition, Point

Vector = dict[str, LogPosition]
"""By id of the log: the last of its commits that is an ancestor, or the commit itself."""


def own(point: Point) -> Vector:
    """What a commit adds to the vector of its ancestors: itself."""
    return {point.branch: (point.slot, point.index)}


def joined(*vectors: Mapping[str, LogPosition]) -> Vector:
    """The ancestors that any of them has."""
    found: Vector = {}
    for vector in vectors:
        for branch, position in vector.items():
            found[branch] = max(position, found.get(branch, position))
    return found


def without(vector: Mapping[str, LogPosition], branch: str) -> Vector:
    """The ancestors in other logs."""
    return {other: position for other, position in vector.items() if other != branch}


def contains(vector: Mapping[str, LogPosition], point: Point) -> bool:
    """Whether a commit is an ancestor."""
    last = vector.get(point.branch)
    return last is not None and (point.slot, point.index) <= last


def includes(vector: Mapping[str, LogPosition], other: Mapping[str, LogPosition]) -> bool:
    """Whether it has every ancestor that the other one has."""
    return all(vector.get(branch, (-1, 0)) >= position for branch, position in other.items())


def common(a: Mapping[str, LogPosition], b: Mapping[str, LogPosition]) -> list[Point]:
    """In every log that both know, the last commit that is an ancestor of both."""
    return [
        Point(branch=branch, slot=position[0], index=position[1])
        for branch in sorted(a.keys() & b.keys())
        for position in [min(a[branch], b[branch])]
    ]


def bases(
    a: Mapping[str, LogPosition],
    b: Mapping[str, LogPosition],
    vectors_at: Callable[[list[Point]], Iterable[Mapping[str, LogPosition]]],
    first: Iterable[str] = (),
) -> list[Point]:
    """The merge bases of two commits: their common ancestors of which no other common ancestor descends.

    `vectors_at` tells the vectors of some commits. It is asked once for the candidates in the logs named `first`, where
    the bases usually are, and once more for those that these do not settle; never when there is one candidate.
    """
    left = common(a, b)
    named = set(first)
    preferred = [point for point in left if point.branch in named]
    for group in (preferred, None):
        some = [point for point in left if group is None or point in group]
        if len(left) < 2 or not some:
            continue
        vectors = dict(zip(some, vectors_at(some), strict=True))
        left = [
            point
            for point in left
            if not any(other != point and contains(vector, point) for other, vector in vectors.items())
        ]
    return left
